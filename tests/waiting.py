"""Waiting for a condition that nothing announces: these functions check it again and again, until a deadline.

Whatever announces itself is awaited instead: an event, a stream's next frame, a received request, a process's exit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")

DEADLINE_SECONDS = 30.0
_OUTSIDE_SECONDS = 0.01


def at_once(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine returns that does not have to wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    coroutine.close()
    raise AssertionError("it waits")


async def until(condition: Callable[[], object]) -> None:
    """Let this event loop run until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


async def until_outside(condition: Callable[[], object]) -> None:
    """Wait for what threads or other processes do, such as write a file or exit. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(_OUTSIDE_SECONDS)


async def until_listening(port: int, process: asyncio.subprocess.Process, said: Callable[[], str] = str) -> None:
    """Wait until a process takes connections. Raises TimeoutError.

    If the process exits instead, the AssertionError quotes what `said` returns.
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
    """Ask a server or a store until it gives a wanted answer, and return that. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not wanted(answer := await ask()):
            await asyncio.sleep(0)
    return answer
