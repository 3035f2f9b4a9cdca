"""A clock that stands still until a test moves it.

    clock = MovableClock()
    task = asyncio.create_task(something_that_sleeps(clock))
    await clock.advance(30)

Below: gateway.clock, waiting. Nothing here waits for the machine's time, but for the deadlines
that end a test that hangs.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.waiting import until

DEADLINE_SECONDS = 30.0
_ROUNDS_TO_SETTLE = 25


@dataclass(order=True, slots=True)
class MovableTimer:
    """A call that is due when the clock gets there."""

    due: float
    number: int
    callback: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class MovableClock:
    """Implements gateway.clock.Clock. `advance` makes what is due happen in order, each at its own time."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._start = now
        self._elapsed = 0.0
        self._timers: list[MovableTimer] = []
        self._numbers = itertools.count()
        self._timer_set = asyncio.Event()

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> MovableTimer:
        timer = MovableTimer(self._elapsed + max(0.0, seconds), next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        self._timer_set.set()
        return timer

    @property
    def pending(self) -> list[float]:
        """In how many seconds the timers and sleepers that wait are due, soonest first."""
        return sorted(timer.due - self._elapsed for timer in self._timers if not timer.cancelled)

    async def advance(self, seconds: float) -> None:
        """Move on, and let every task run until it waits for something again."""
        target = self._elapsed + seconds
        await self.settle()
        while (timer := self._next_due(target)) is not None:
            self._elapsed = max(self._elapsed, timer.due)
            timer.callback()
            while (twin := self._next_due(self._elapsed)) is not None:  # due at one moment: no task runs in between
                twin.callback()
            await self.settle()
        self._elapsed = target
        await self.settle()

    def put_forward(self, seconds: float) -> None:
        """Change the time of day alone, as when a machine is set or has slept: what counts durations goes on."""
        self._start += seconds

    async def settle(self) -> None:
        """Let tasks run without moving the clock. What waits for a socket or a thread needs `until` instead."""
        for _ in range(_ROUNDS_TO_SETTLE):
            await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object]) -> None:
        """Let tasks run, sockets and threads too, until the condition holds; the clock stands still.

        Raises:
            TimeoutError: it did not come to hold within a deadline in real time.
        """
        await until(condition)

    async def until_timer(self, seconds: float) -> None:
        """Let tasks run until something is due in about `seconds`: a sleep or a time limit was reached by the code.

        Raises:
            TimeoutError: as `until`.
        """
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not any(abs(due - seconds) < 1e-6 for due in self.pending):
                self._timer_set.clear()
                await self._timer_set.wait()

    def _next_due(self, target: float) -> MovableTimer | None:
        while self._timers and self._timers[0].due <= target:
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                return timer
        return None
