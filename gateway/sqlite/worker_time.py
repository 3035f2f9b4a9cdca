"""Gives the store's threads time while the event loop is busy.

A thread that waits for the GIL is woken when the event loop releases it for an instant (at every poll). It needs some
50 us to wake, and finds that the loop has taken the GIL again. Since the GIL was free in between, the interpreter does
not force the loop to hand it over (compare https://github.com/python/cpython/issues/90204). In a saturated loop,
commits of 100 us took up to 10 seconds. So the loop blocks for a moment when jobs are late.
"""

from __future__ import annotations

import asyncio
import contextlib
from queue import Empty, SimpleQueue

# A job that takes longer is late; most take 0.1 ms. (uvloop rounds to whole milliseconds and may shorten the first.)
LATE_SECONDS = 0.002
# How long the loop then blocks at most, and how long it runs until it does so again: a hanging disk costs the loop a
# third of its time, not all of it.
STAND_STILL_SECONDS = 0.005
RUN_SECONDS = 0.010


class WorkerTime:
    """Counts the jobs that the event loop gave to threads, and blocks the loop while they are late.

    `finished` is called on a thread, every other method on the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        late_seconds: float = LATE_SECONDS,
        stand_still_seconds: float = STAND_STILL_SECONDS,
    ) -> None:
        self._loop = loop
        self._late_seconds = late_seconds
        self._stand_still_seconds = stand_still_seconds
        self._jobs = 0
        self._timer: asyncio.TimerHandle | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()

    def start(self) -> None:
        """To be called when a job was given to a thread."""
        if not self._jobs and not self._bell.empty():  # a job that was settled before it finished left its signal here
            self._bell = SimpleQueue()
        self._jobs += 1
        if self._timer is None:
            self._timer = self._loop.call_later(self._late_seconds, self._stand_still)

    def finished(self) -> None:
        """To be called when a job is done, before its result goes to the loop."""
        self._bell.put(None)

    def settle(self) -> None:
        """To be called when the loop has the result."""
        self._jobs -= 1
        with contextlib.suppress(Empty):  # a job that was cancelled before it began never finished
            self._bell.get_nowait()
        if not self._jobs and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stand_still(self) -> None:
        with contextlib.suppress(Empty):
            self._bell.put(self._bell.get(timeout=self._stand_still_seconds))  # put back for `settle`
        self._timer = self._loop.call_later(RUN_SECONDS, self._stand_still)
