"""Waiting for what tells nobody: to look, to let others go on, and to look again, until a deadline.

What tells of itself is waited for as it does: by an event, a stream's next frame, a request that came, a process's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")

DEADLINE_SECONDS = 30.0
_OUTSIDE_SECONDS = 0.01


async def until(condition: Callable[[], object]) -> None:
    """Let everything in this event loop go on until the condition holds.

    Raises:
        TimeoutError: it did not come to hold within the deadline.
    """
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


async def until_outside(condition: Callable[[], object]) -> None:
    """Wait for what a thread or another process does to files and processes. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(_OUTSIDE_SECONDS)


async def until_listening(port: int, process: asyncio.subprocess.Process, said: Callable[[], str] = str) -> None:
    """Wait until a process takes connections. Raises TimeoutError.

    `said` gives what an AssertionError quotes where the process ends instead.
    """

    async def connects() -> bool:
        assert process.returncode is None, said()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    await until_answered(connects, bool)


async def until_answered(ask: Callable[[], Awaitable[Answer]], wanted: Callable[[Answer], object]) -> Answer:
    """Ask a server or a store again and again; the first answer that is the wanted one. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not wanted(answer := await ask()):
            await asyncio.sleep(0)
    return answer
