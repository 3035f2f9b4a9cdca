"""Gateways as processes that share their imports: forks of one process of tests/fork_server.py for each test process.

A fork is a process like any other but for what an interpreter does when it starts. Who tests that, or measures a
process's memory, starts `python -m gateway`, as happens too where a fork is unsafe.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SERVER = Path(__file__).with_name("fork_server.py")
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_")
_END_SECONDS = 10.0


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a gateway with this environment may be a fork: an interpreter reads some variables only when it starts,
    and elsewhere than on Linux the system's libraries do not expect a fork.
    """
    return sys.platform == "linux" and _read_at_start(environment) == _read_at_start(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


@dataclass(frozen=True, slots=True)
class _ForkServer:
    process: subprocess.Popen[bytes]
    requests: socket.socket

    def close(self) -> None:
        self.requests.close()
        self.process.wait(_END_SECONDS)


@functools.cache
def _server() -> _ForkServer:
    """This process's one, started when the first gateway is. It ends with this process, also when that is killed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, str(_SERVER), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            cwd=_SERVER.parent, env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
    server = _ForkServer(process, ours)
    atexit.register(server.close)
    return server


def fork_server_pid() -> int | None:
    """The process that gateways are forked from, if there is one: it stays until this process ends."""
    return _server().process.pid if _server.cache_info().currsize else None


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A forked gateway, as far as tests use an asyncio.subprocess.Process."""

    pid: int
    stdout: asyncio.StreamReader
    _end: asyncio.Future[int]

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, None]:
        said = await self.stdout.read()
        await self.wait()
        return said, None


async def fork(
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    stdin: int | None = None,
    stderr: int | None = None,
) -> ForkedProcess:
    """`agui-gateway` with these words. `stdin` and `stderr` are descriptors; None: nothing to read, and where its
    standard output goes.
    """
    request = {"words": list(words), "directory": str(directory), "environment": dict(environment), **_inherited()}
    report, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    from_gateway, output = os.pipe()
    with told:
        descriptors = [told.fileno(), output, output if stderr is None else stderr]
        descriptors += [] if stdin is None else [stdin]
        socket.send_fds(_server().requests, [json.dumps(request).encode()], descriptors)
    os.close(output)
    starting = asyncio.ensure_future(_started(report, from_gateway))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # it starts all the same
        process = await starting
        process.kill()
        await process.wait()
        raise


async def _started(report: socket.socket, from_gateway: int) -> ForkedProcess:
    """The process that is being forked."""
    loop = asyncio.get_running_loop()
    report.setblocking(False)
    process_id = int(await loop.sock_recv(report, 100))
    stdout = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(from_gateway, "rb"))
    return ForkedProcess(process_id, stdout, _end_of(report))


def _inherited() -> dict[str, object]:
    """What a process has from the one that starts it, and a test may have changed here."""
    import resource  # here, because Windows has none

    os.umask(mask := os.umask(0o077))
    return {"umask": mask, "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)}


def _end_of(report: socket.socket) -> asyncio.Future[int]:
    """The exit code, once it is reported; as asyncio's: negative is the signal that ended the process."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[int] = loop.create_future()

    def on_report() -> None:
        loop.remove_reader(report)
        said = report.recv(100)
        report.close()
        end.set_result(int(said or -signal.SIGKILL))

    loop.add_reader(report, on_report)
    return end
