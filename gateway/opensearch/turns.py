"""Works on each thing in the order of the calls, and to the end even if the caller is cancelled.

Below: the standard library. Above: everything in this room that reads and then writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Turns(Generic[Key]):
    """Work by the keys of the things that it is on. It belongs to one event loop."""

    def __init__(self) -> None:
        self._last: dict[Key, asyncio.Task[Any]] = {}

    async def run(self, keys: Collection[Key], work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Do `work` once all earlier work on one of the keys has ended; gives its result."""
        return await asyncio.shield(self.start(keys, work))

    def start(self, keys: Collection[Key], work: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Task[Result]:
        """As `run`, without waiting for it."""
        before = {self._last[key] for key in keys if key in self._last}
        task = asyncio.ensure_future(_after(before, work))
        for key in keys:
            self._last[key] = task
        task.add_done_callback(lambda done: self._ended(keys, done))
        return task

    async def settled(self, seconds: float) -> None:
        """Wait until the work that has begun has ended, at most this long."""
        if self._last:
            await asyncio.wait(set(self._last.values()), timeout=seconds)

    async def close(self) -> None:
        """Wait until all work has ended."""
        while self._last:
            await asyncio.wait(set(self._last.values()))

    def _ended(self, keys: Collection[Key], task: asyncio.Task[Any]) -> None:
        for key in keys:
            if self._last.get(key) is task:
                del self._last[key]
        task.cancelled() or task.exception()  # marks it as seen: its caller may be gone


async def _after(before: Collection[asyncio.Task[Any]], work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    if before:
        await asyncio.wait(before)
    return await work()
