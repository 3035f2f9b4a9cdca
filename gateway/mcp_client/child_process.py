"""A child process that reads and writes lines. Stopping it stops its own children, too.

Above: transports. Below: the standard library. It runs in a process group of its own with a scrubbed environment, never
through a shell. Its lines are bounded, and the end of its stderr is kept for the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 16 * 2**20
_STDERR_LINES = 20
# How long it may take to end after its stdin was closed, and after each signal.
_GRACE_SECONDS = 2.0
_INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class LineTooLongError(Exception):
    """The program wrote a line that is too long."""


class ChildProcess:
    """A running program."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._name = name
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._last_lines: deque[str] = deque(maxlen=_STDERR_LINES)
        self.ended_by_itself = False

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; a negative one is the signal that ended it. None while it runs."""
        return self._process.returncode

    @property
    def last_lines(self) -> str:
        """The last lines that it wrote to stderr."""
        return "\n".join(self._last_lines)

    async def lines(self) -> AsyncGenerator[bytes]:
        """The lines that it writes, until it closes its stdout.

        Raises:
            LineTooLongError: a line is longer than MAX_LINE_BYTES.
        """
        while True:
            try:
                line = await self._stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial.strip():
                    yield end.partial
                return
            except asyncio.LimitOverrunError as error:
                raise LineTooLongError(f"more than {MAX_LINE_BYTES:,} bytes in one line") from error
            except ConnectionError:
                return
            yield line

    async def send(self, line: bytes) -> None:
        """Write a line, and wait if the program reads slowly.

        Raises:
            ConnectionError: it has closed its stdin.
        """
        self._stdin.write(line)
        await self._stdin.drain()

    async def read_stderr(self) -> None:
        """Read stderr until it is closed."""
        while True:
            try:
                line = await self._stderr.readline()
            except (ValueError, ConnectionError):
                continue  # the line was too long: the reader has discarded it
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._last_lines.append(text[:1_000])
            logger.debug("a child process wrote to stderr", extra={"child": self._name, "line": text[:1_000]})

    async def stop(self) -> None:
        """Close its stdin; then end it and everything it has started, if it does not end by itself.

        Takes a few seconds at most. Processes that have left its group escape.
        """
        self.ended_by_itself = self._stdout.at_eof()
        with contextlib.suppress(OSError):
            self._stdin.close()
        # a program that is blocked on a full pipe could not end
        discarding = asyncio.create_task(self._discard(), name=f"stdout of {self._name}")
        for order in (None, signal.SIGTERM, signal.SIGKILL):
            if order is not None:
                self._signal(order)
            # also waits for the end of its pipes, and so for children that hold them
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._process.wait()
                    break
        else:
            logger.warning("a child process does not end", extra={"child": self._name, "pid": self.pid})
        # children without its pipes may be left, even if the program ended long ago
        self._signal(signal.SIGKILL)
        transport = getattr(self._process, "_transport", None)  # nothing public closes pipes that an escaped child has
        if transport is not None:
            with contextlib.suppress(OSError):
                transport.close()
        discarding.cancel()
        await asyncio.wait([discarding])

    async def _discard(self) -> None:
        with contextlib.suppress(OSError):
            while await self._stdout.read(2**16):
                pass

    def _signal(self, order: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, order)


@asynccontextmanager
async def child_process(
    command: str, arguments: Sequence[str], environment: Mapping[str, str], directory: Path
) -> AsyncGenerator[ChildProcess]:
    """Run a program in `directory`; it is always stopped at the end.

    Raises:
        OSError: it cannot be started.
    """
    with anyio.CancelScope(shield=True):  # cancelling this would leave a process without an owner
        process = await asyncio.create_subprocess_exec(
            command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**scrubbed_environment(), **environment},
            cwd=directory,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
    child = ChildProcess(process, command)
    listening = asyncio.create_task(child.read_stderr(), name=f"stderr of {command}")
    try:
        yield child
    finally:
        # an outer cancel scope would interrupt every wait, and the process would stay
        with anyio.CancelScope(shield=True):
            await child.stop()
            listening.cancel()
            await asyncio.wait([listening])


def scrubbed_environment() -> dict[str, str]:
    """The part of the gateway's environment that a child gets: paths and locales, no secrets."""
    return {name: value for name in _INHERITED if (value := os.environ.get(name)) is not None}
