"""A real OpenSearch node on the loopback, for tests: a single bare one, with its data in a folder that a test gives.

    async with opensearch_node(tmp_path) as node:
        ... talk to node.url ...
        await node.kill()
        await node.start()  # on the same folder and port

`python -m tests.opensearch.node` fetches and prepares what a node needs, so that no test waits for it. On Linux a node
ends with the process that started it, also when that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.held_ports import held_port
from tests.missing_parts import missing_part
from tests.opensearch.installation import VERSION, Installation, NoNodeError, cache_folder, installation, locked

START_SECONDS = 90.0
_END_SECONDS = 30.0
_LOOK_SECONDS = 0.05

_SETTINGS = """\
cluster.name: tests
node.name: tests
discovery.type: single-node
network.host: 127.0.0.1
http.port: {port}
transport.port: 0
path.data: {folder}/data
path.logs: {folder}/logs
path.repo: {folder}/snapshots
cluster.routing.allocation.disk.threshold_enabled: false
"""
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
_FLAGS = (
    # for a quick start, not for a high throughput
    "-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    f"-Xbootclasspath/a:agent/opensearch-agent-bootstrap-{VERSION}.jar",
    "--enable-native-access=ALL-UNNAMED", "-Djava.awt.headless=true", "-Djava.locale.providers=SPI,CLDR",
    "-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true",
    # Without native calls it cannot look whether root starts it, which it refuses. Containers run tests as root.
    "-Djna.nosys=true", "-Djna.nounpack=true",
    "-Dopensearch.distribution.type=zip", "-Dopensearch.bundled_jdk=false",
)  # fmt: skip


@dataclass(slots=True)
class OpenSearchNode:
    """A node that is started and ended at will. `folder` has its data, and what it said: `out.log`."""

    folder: Path
    port: int
    installation: Installation
    flags: Sequence[str]
    _process: Process | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> Process:
        assert self._process is not None, "the node was not started"
        return self._process

    async def start(self) -> None:
        """Start it, and wait until it serves what is in its folder."""
        for name in ("config", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "config/opensearch.yml").write_text(_SETTINGS.format(port=self.port, folder=self.folder))
        (self.folder / "config/log4j2.properties").write_text(_LOGGING)
        with (self.folder / "out.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_ends_with_its_parent(), *self._command(), cwd=self.installation.home, stdin=DEVNULL, stdout=log,
                stderr=STDOUT, start_new_session=True,
            )  # fmt: skip
        await self._until_ready()

    async def stop(self) -> None:
        """Let it end in order."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(_END_SECONDS):
            await self.process.wait()

    async def kill(self) -> None:
        """End it as a lost machine does; a paused one too."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def pause(self) -> None:
        """Let it be silent: its port takes connections, and nobody answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _command(self) -> list[str]:
        home, folder = self.installation.home, self.folder
        return [
            str(self.installation.java / "bin/java"), *_FLAGS, *self.flags,
            f"-Djava.io.tmpdir={folder}/tmp", f"-Duser.home={folder}",
            f"-Dopensearch.path.home={home}", f"-Dopensearch.path.conf={folder}/config",
            "-cp", ":".join(f"lib/{jar.name}" for jar in sorted(home.glob("lib/*.jar"))),
            "org.opensearch.bootstrap.OpenSearch",
        ]  # fmt: skip

    async def _until_ready(self) -> None:
        parameters = {"wait_for_status": "yellow", "timeout": "5s"}
        async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as http:
            while True:
                assert self.process.returncode is None, f"the node ended: {self._last_words()}"
                with contextlib.suppress(httpx.TransportError):
                    if (await http.get(f"{self.url}/_cluster/health", params=parameters)).status_code == 200:
                        return
                await asyncio.sleep(_LOOK_SECONDS)

    def _last_words(self) -> str:
        return (self.folder / "out.log").read_text("utf-8", "replace")[-2_000:]


@contextlib.asynccontextmanager
async def opensearch_node(folder: Path) -> AsyncGenerator[OpenSearchNode]:
    """A running node of a test's own, killed at the end. Its data stay in `folder`, an absolute path.

    Where there can be none, the test is skipped; in CI it fails.
    """
    if _reasons:
        missing_part(_reasons[0])
    try:
        ready = await prepared(cache_folder())
    except NoNodeError as error:
        _reasons.append(str(error))
        missing_part(str(error))
    async with running_node(folder, ready) as node:
        yield node


_reasons: list[str] = []  # why there is no node here: without a network, Maven takes seconds to say so


@contextlib.asynccontextmanager
async def running_node(folder: Path, installed: Installation, *flags: str) -> AsyncGenerator[OpenSearchNode]:
    """A node, killed at the end. `flags`: for Java, instead of the one that names the class archive."""
    with held_port() as port:
        node = OpenSearchNode(folder, port, installed, flags or (f"-XX:SharedArchiveFile={installed.archive}",))
        try:
            await node.start()
            yield node
        finally:
            await node.kill()


async def prepared(cache: Path) -> Installation:
    """The installation with its class archive: what the first node takes long for, done once for all.

    Raises:
        NoNodeError: there can be no node here.
    """
    async with locked(cache):
        found = await asyncio.to_thread(installation, cache)
        if not found.archive.exists():
            await _write_archive(found)
    return found


async def _write_archive(installed: Installation) -> None:
    """Start a node and stop it: Java writes down the classes that it has loaded, on top of its own.

    Java's own are written first, because PyPI's Java comes without them. They are read at each start, too.
    """
    folder = installed.home.with_name("training")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    base, written = installed.archive.with_suffix(".base.jsa"), folder / "classes.jsa"
    dump = [str(installed.java / "bin/java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}", "-XX:+UseSerialGC"]
    await (await asyncio.create_subprocess_exec(*dump, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)).wait()
    flags = f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={written}"
    async with running_node(folder, installed, *flags) as node:
        await node.stop()
    written.touch()  # if Java has written none: a node starts without one, too
    os.replace(written, installed.archive)
    shutil.rmtree(folder)


def _ends_with_its_parent() -> list[str]:
    """In front of a command on Linux: the kernel kills it when its parent is gone."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def main() -> int:
    """Prepare the cache, unless a cluster is named. Only in CI is it an error that there can be no node."""
    if "OPENSEARCH_URL" not in os.environ:
        try:
            asyncio.run(prepared(cache_folder()))
        except NoNodeError as error:
            print(f"The tests that need an OpenSearch node are skipped: {error}", file=sys.stderr)
            return 1 if os.environ.get("CI") else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
