"""A real gateway for tests: in this process on a free port with a clock that tests may move, or as its own process.

Both read an ordinary configuration file, written here from a dict, and listen on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from gateway.application import Application
from gateway.clock import Clock
from gateway.configuration.known_parts import KnownParts, known_parts
from gateway.page import WebPage, read_page
from gateway.server.connection import Connection
from gateway.settings import Flags, load_settings
from gateway.store import Store
from gateway.traces import Tracer
from tests.asgi_server import QuietServer
from tests.forked_gateways import ForkedProcess, can_fork, fork
from tests.waiting import until_answered

DEADLINE_SECONDS = 60.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nobody speaks TLS here: reading all authorities costs 60 ms

# a gateway of a test opens in 60 ms; these would take 30 more
_all_parts = functools.cache(known_parts)
_built_page = functools.cache(read_page)


def parts_with_store(wrapped: Callable[[Store], Store]) -> KnownParts:
    """All parts there are, with what a test puts around the embedded store."""
    parts = _all_parts()
    embedded = parts.stores["sqlite"]
    around = replace(embedded, open=lambda url, environment: wrapped(embedded.open(url, environment)))
    return replace(parts, stores={**parts.stores, "sqlite": around})


def scripted(*responses: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A `model` block that plays these responses."""
    return {
        "model_provider": "scripted",
        "model_id": "script",
        "model_parameters": {"responses": [list(each) for each in responses], **more},
    }


def agent(id: str, model: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """An agent's block."""
    return {"id": id, "model": dict(model), **more}


def write_configuration(
    directory: Path,
    agents: Sequence[Mapping[str, Any]],
    *,
    server: Mapping[str, Any] | None = None,
    store: str = "sqlite:///gateway.db",
    search: str | None = "embedded:sample",
    callers: Mapping[str, Any] | None = None,
    sections: Mapping[str, Any] | None = None,
) -> Path:
    """`gateway.yaml` in `directory` (JSON is YAML). `sections` are further ones, by their names."""
    document: dict[str, Any] = {
        "server": {"host": "127.0.0.1", "port": 0, **(server or {})},
        "store": store,
        "agents": list(agents),
        **(sections or {}),
    }
    if search is not None:
        document["search"] = search
    if callers is not None:
        document["callers"] = dict(callers)
    path = directory / "gateway.yaml"
    path.write_text(json.dumps(document), "utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event: its parsed data, and its id where it had one: `<log_id>:<number>`, or the number."""

    data: dict[str, Any]
    id: int | None
    log_id: str = ""

    @property
    def cursor(self) -> str:
        """What `Last-Event-ID` says to whoever has it."""
        return f"{self.log_id}:{self.id}" if self.log_id else str(self.id)

    @property
    def type(self) -> str:
        text: str = self.data["type"]
        return text


def run_body(
    text: str | None = None,
    *,
    thread_id: str = "thread-1",
    run_id: str = "run-1",
    messages: Sequence[Mapping[str, Any]] | None = None,
    version: str | None = "1.0",
    **more: Any,
) -> dict[str, Any]:
    """A RunAgentInput: one user message with `text`, or these messages. `version` None is a client from before 1.0."""
    if messages is None:
        messages = [{"id": f"user-{run_id}", "role": "user", "content": text or "hello"}]
    body: dict[str, Any] = {"threadId": thread_id, "runId": run_id, "messages": list(messages), **more}
    if version is not None:
        body["protocolVersion"] = version
    return body


def parse_frames(body: bytes) -> list[Frame]:
    """The events of a stream's bytes. It must be framed with LF alone, one JSON object a frame."""
    assert b"\r" not in body, "a stream is framed with LF alone"
    frames: list[Frame] = []
    for block in body.split(b"\n\n"):
        data: list[bytes] = []
        number: int | None = None
        log_id = ""
        for line in block.split(b"\n"):
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"id: "):
                log_id, _, digits = line[4:].decode().rpartition(":")
                number = int(digits)
            else:
                assert not line or line.startswith((b":", b"retry:")), line
        if data:
            assert len(data) == 1, "one data line a frame"
            frames.append(Frame(json.loads(data[0]), number, log_id))
    return frames


@dataclass(slots=True)
class OpenStream:
    """A stream that is being read: `frames` so far, `body` as bytes."""

    response: httpx.Response
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    _chunks: Any = None

    @property
    def frames(self) -> list[Frame]:
        end = self.body.rfind(b"\n\n")
        return parse_frames(bytes(self.body[: end + 2])) if end >= 0 else []

    @property
    def types(self) -> list[str]:
        return [frame.type for frame in self.frames]

    async def until(self, type: str, count: int = 1) -> list[Frame]:
        """Read until the `count`-th event of that type; all frames so far."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.types.count(type) < count:
                if not await self.read():
                    raise AssertionError(f"the stream ended before {type} came {count} times: {self.types}")
        return self.frames

    async def rest(self) -> list[Frame]:
        """Read to the end; all frames."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await self.read():
                pass
        return self.frames

    async def read(self) -> bool:
        """Read what comes next; False at the end."""
        if self._chunks is None:
            self._chunks = self.response.aiter_raw()
        try:
            self.body += await anext(self._chunks)
        except StopAsyncIteration:
            self.ended = True
            return False
        return True


class GatewayClient:
    """Speaks to a running gateway over a real socket."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.http = httpx.AsyncClient(base_url=base_url, timeout=DEADLINE_SECONDS, trust_env=False, verify=NO_TLS)

    def run_url(self, agent_id: str) -> str:
        return f"{self.base_url}/agents/{agent_id}/run"

    async def run(self, agent_id: str, body: Mapping[str, Any], **headers: str) -> list[Frame]:
        """Run to the end; the stream's events."""
        async with self.stream(agent_id, body, **headers) as stream:
            assert stream.response.status_code == 200, await stream.response.aread()
            return await stream.rest()

    @contextlib.asynccontextmanager
    async def stream(
        self, agent_id: str, body: Mapping[str, Any], *, to: str = "run", **headers: str
    ) -> AsyncGenerator[OpenStream]:
        """The stream of a run (`to="connect"`: of a thread), open until the block is left."""
        url = f"/agents/{agent_id}/{to}"
        async with self.http.stream("POST", url, json=dict(body), headers=headers) as response:
            yield OpenStream(response)

    @contextlib.asynccontextmanager
    async def events(
        self, run_id: str, *, after: int | str | None = None, **headers: str
    ) -> AsyncGenerator[OpenStream]:
        """A run's event stream."""
        query = {} if after is None else {"after": str(after)}
        async with self.http.stream("GET", f"/runs/{run_id}/events", params=query, headers=headers) as response:
            yield OpenStream(response)

    async def get(self, path: str) -> Any:
        """A JSON answer with status 200."""
        response = await self.http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    async def until_status(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """Ask for a run until it has one of these statuses."""
        run: dict[str, Any] = await until_answered(
            lambda: self.get(f"/runs/{run_id}"), lambda run: run["status"] in statuses
        )
        return run

    async def close(self) -> None:
        await self.http.aclose()


@dataclass(slots=True)
class LocalGateway:
    """A gateway in this process."""

    application: Application
    client: GatewayClient
    server: uvicorn.Server


@contextlib.asynccontextmanager
async def local_gateway(
    directory: Path,
    agents: Sequence[Mapping[str, Any]],
    *,
    clock: Clock | None = None,
    parts: KnownParts | None = None,
    page: WebPage | None = None,
    tracer: Tracer | None = None,
    connection: type[Connection] = Connection,
    port: int = 0,
    **configuration: Any,
) -> AsyncGenerator[LocalGateway]:
    """A gateway in this event loop. Its clock is the machine's, its parts are all there are, its page is the built one
    and its port is a free one, unless given. When it ends it cancels the runs under way, unless the configuration has
    `drain_seconds`."""
    section = {"drain_seconds": 0, **(configuration.pop("server", None) or {})}
    path = write_configuration(directory, agents, server=section, **configuration)
    parts = parts or _all_parts()
    settings = load_settings(Flags(config=path), environ=dict(os.environ), parts=parts)
    application = Application(settings, clock=clock, parts=parts, page=page or _built_page(), tracer=tracer)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # as gateway.server.process says
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        application.asgi, http=connection, lifespan="off", log_config=None, access_log=False, ws="none",
        proxy_headers=bool(settings.server.trusted_proxies),
        forwarded_allow_ips=list(settings.server.trusted_proxies), timeout_graceful_shutdown=2,
    )  # fmt: skip
    server = QuietServer(config)
    client = GatewayClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
    async with application.starlette.router.lifespan_context(application.starlette):
        serving = asyncio.create_task(server.serve([listener]))
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await server.listening.wait()
            yield LocalGateway(application, client, server)
        finally:
            await client.close()
            stopping = asyncio.create_task(application.stop()) if clock is None else None
            server.end()
            async with asyncio.timeout(DEADLINE_SECONDS):
                await serving
                if stopping is not None:
                    await stopping


@dataclass(slots=True)
class GatewayProcess:
    """A gateway as a process of its own: to be killed."""

    process: asyncio.subprocess.Process | ForkedProcess
    client: GatewayClient
    log: Path

    async def signal(self, number: signal.Signals) -> int:
        """Send it and wait for the end; the exit code."""
        self.process.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.process.wait()


ADDRESS = re.compile(rb"at (http://127\.0\.0\.1:\d+)")
NEW_INTERPRETER = ("-m", "gateway")
"""`python -m gateway`, for tests of what an interpreter does when it starts and of the process's memory."""


async def _start(
    words: Sequence[str],
    directory: Path,
    env: Mapping[str, str] | None,
    program: Sequence[str] | None,
    *,
    stdin: int | None = None,
    stderr: int | None = None,
) -> asyncio.subprocess.Process | ForkedProcess:
    environment = {**os.environ, **(env or {})}
    if program is None and can_fork(environment):
        return await fork(words, directory, environment, stdin=stdin, stderr=stderr)
    return await asyncio.create_subprocess_exec(
        sys.executable, *(program or NEW_INTERPRETER), *words,
        cwd=directory, env={**environment, "PYTHONUNBUFFERED": "1"}, stdout=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stderr=asyncio.subprocess.STDOUT if stderr is None else stderr,
    )  # fmt: skip


async def gateway_command(
    directory: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
    stdin: int | None = None,
    stderr: int | None = None,
) -> tuple[int, str]:
    """`agui-gateway` with these words in this directory: its exit code and all that it says.

    `stdin` and `stderr` are descriptors of files, for a command that reads and for one whose errors are told apart.
    """
    process = await _start(words, directory, env, program, stdin=stdin, stderr=stderr)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode()


@contextlib.asynccontextmanager
async def gateway_process(
    configuration: Path, *arguments: str, env: Mapping[str, str] | None = None, program: Sequence[str] | None = None
) -> AsyncGenerator[GatewayProcess]:
    """`agui-gateway serve --config ...` until the block is left."""
    words = ("--config", str(configuration), *arguments)
    async with serving_process(configuration.parent, *words, env=env, program=program) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def serving_process(
    directory: Path, *arguments: str, env: Mapping[str, str] | None = None, program: Sequence[str] | None = None
) -> AsyncGenerator[GatewayProcess]:
    """`agui-gateway serve` with these arguments in this directory, until the block is left.

    `program`: what Python runs as `agui-gateway`; None: a fork of what has imported the gateway, where that is safe.
    """
    log = directory / "gateway.log"
    with log.open("ab") as errors:
        process = await _start(("serve", *arguments), directory, env, program, stderr=errors.fileno())
    client: GatewayClient | None = None
    try:
        assert process.stdout is not None
        said = b""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (found := ADDRESS.search(said)) is None:
                line = await process.stdout.readline()
                assert line, f"the gateway did not start: {log.read_text()}"
                said += line
        client = GatewayClient(found[1].decode())
        yield GatewayProcess(process, client, log)
    finally:
        if client is not None:
            await client.close()
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.communicate()
