"""Give the store's threads their turn while the event loop is busy.

A thread that waits for Python's lock is woken when the event loop lets go of it for an instant (at every poll), needs
some 50 us to wake, and finds that the loop has taken it again; since the lock was free in between, the interpreter does
not force the loop to hand it over either (compare https://github.com/python/cpython/issues/90204). A saturated loop
starved commits of 100 us for up to 10 seconds that way. So a loop whose jobs are late stands still for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from queue import Empty, SimpleQueue

# A job that is not done by then is late; most take 0.1 ms. (uvloop counts in whole milliseconds and may cut the first.)
LATE_SECONDS = 0.002
# How long the loop then stands still at most, and how long it runs until it does so again: a disk that hangs costs the
# loop a third of its time, not all of it.
STAND_STILL_SECONDS = 0.005
RUN_SECONDS = 0.010


class WorkerTurns:
    """Knows which jobs of the event loop are with threads. `finished` is called on a thread, the rest on the loop."""

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
        """A job goes to a thread."""
        if not self._jobs and not self._bell.empty():  # one that was settled before it was done rang for nobody
            self._bell = SimpleQueue()
        self._jobs += 1
        if self._timer is None:
            self._timer = self._loop.call_later(self._late_seconds, self._stand_still)

    def finished(self) -> None:
        """A job is done; its result goes to the loop next."""
        self._bell.put(None)

    def settle(self) -> None:
        """The loop has the result."""
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
