"""Lets the searches of several callers share one processor: each works for a slice of steps, then another one does.

Below: the standard library. Above: budget's users, which call `rest` between their steps. Searches run in threads, one
at a time, so that the event loop shares the interpreter with one thread and not with many. One search of each caller is
under way; its other searches wait. So another caller's search waits for one slice of each caller, however many searches
one caller sends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Rest: TypeAlias = Callable[[], None]
"""Lets the searches that wait work for a while. Raises SearchAbandonedError if nobody waits for this one any more."""

SEARCHERS = 4
"""How many callers' searches are under way at once; the other callers' wait for the end of one."""


class SearchAbandonedError(Exception):
    """The caller of the search was cancelled."""


class SearchSlots:
    """Searches by `owner`. It belongs to one event loop."""

    def __init__(self, name: str, searchers: int = SEARCHERS) -> None:
        self._searchers = searchers
        self._threads = ThreadPoolExecutor(searchers, thread_name_prefix=name)
        self._free = asyncio.Semaphore(searchers)
        self._gate = asyncio.Lock()  # its holder is the next search to begin
        self._queues: dict[str, tuple[asyncio.Lock, int]] = {}  # by owner: its lock, and how many searches use it
        self._processor = _Processor()

    async def run(self, owner: str, work: Callable[[Rest], Result]) -> Result:
        """Do `work` in a thread, once it is the owner's turn; gives its result. `work` calls its argument after each
        slice.
        """
        async with self._queue(owner):
            async with self._gate:
                await self._free.acquire()
            try:
                return await self._done(work)
            finally:
                self._free.release()

    async def run_alone(self, work: Callable[[], Result]) -> Result:
        """Do `work` in a thread while no search is under way; gives its result."""
        async with self._gate:
            taken = 0
            try:
                for _ in range(self._searchers):
                    await self._free.acquire()
                    taken += 1
                return await self._done(lambda rest: work())
            finally:
                for _ in range(taken):
                    self._free.release()

    def close(self) -> None:
        """End the threads, after the searches that are under way. Blocks."""
        self._threads.shutdown()

    @asynccontextmanager
    async def _queue(self, owner: str) -> AsyncGenerator[None]:
        lock, before = self._queues.get(owner) or (asyncio.Lock(), 0)
        self._queues[owner] = lock, before + 1
        try:
            async with lock:
                yield
        finally:
            lock, left = self._queues.pop(owner)
            if left > 1:
                self._queues[owner] = lock, left - 1

    async def _done(self, work: Callable[[Rest], Result]) -> Result:
        left = threading.Event()

        def rest() -> None:
            if left.is_set():
                raise SearchAbandonedError
            self._processor.rest()

        def in_turn() -> Result:
            with self._processor:
                return work(rest)

        job = asyncio.get_running_loop().run_in_executor(self._threads, in_turn)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            left.set()
            await asyncio.wait([job])  # otherwise the caller's next search would take another caller's thread
            job.cancelled() or job.exception()  # marks it as seen: nobody else does
            raise


class _Processor:
    """A lock that waiting threads get in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_held = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return
            turn = self._join()
        turn.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_held = False

    def rest(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            turn = self._join()
            self._waiting.popleft().set()
        turn.wait()

    def _join(self) -> threading.Event:
        turn = threading.Event()
        self._waiting.append(turn)
        return turn
