"""The moment in which events of many runs wait for each other, to be kept by one commit.

Nothing of ours is below. Above: live_run, whose runs hand their events over when the moment is over; answer_reader,
which leaves to it when words are read on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

# How long events may wait for more to share a commit with; and how long at most on a loop that has too much to do.
GATHER_SECONDS = 0.010
LONGEST_GATHER_SECONDS = 0.200
# A loop has too much to do where it was at work for so much of the time since the moment before was over, or where a
# moment is over too late by this share of the shortest: then others had its processor. It has little to do below the
# other share.
_BUSY_SHARE = 0.9
_CALM_SHARE = 0.6
_LATE_SHARE = 1 / 4
# A moment that brings each run fewer events than this is short for a loop that has too much to do; with so many, long.
_FEW_EVENTS = 16
_MANY_EVENTS = 64
# A longer one brings no more of runs whose events are so far apart.
_LARGE_GAP_SECONDS = 0.040
# How many turns of the loop readers have, once they read again, until what they brought is handed over: one in which
# the system is asked what came, one in which they take it in.
_TURNS_TO_READ = 2


class Gathering(Protocol):
    """A run with events to be kept."""

    def hand_over(self) -> int:
        """Give them to the store; how many."""


class GatherWindow:
    """The runs whose events wait a moment, so that many events of many runs go to the store together.

    A call of the store per event costs more than everything else that happens to the event. The moment is 10 ms, unless
    the loop has so much to do that this brings each run hardly more than one event, whatever was meant: most of the
    work is then what a moment costs for each run (a row of the log, a viewer that is woken, a write to its client). So
    a moment that brought few events to a loop that did nothing but work is followed by one twice as long, up to 200 ms,
    where the runs have more to say; one of a loop that had time left, by one half as long.

    1,000 streams of words as fast as they go took 11 to 14 us of processor time per event with moments that were longer
    only where the one before had ended late, 6 to 7 with these; 300 took 7.5, and 5.7. The first sign of an answer
    never waits.
    """

    def __init__(self, seconds: float = GATHER_SECONDS) -> None:
        """`seconds`: how long at most; 0: nothing waits."""
        self._shortest = self._seconds = seconds
        self._due = 0.0
        self._is_late = False
        self._last = self._last_work = 0.0  # when the moment before was over, and how long this thread had worked then
        self._runs: dict[Gathering, None] = {}
        self._readers: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: Gathering) -> None:
        if not self._seconds:
            run.hand_over()
            return
        self._runs[run] = None
        self._begin()

    def discard(self, run: Gathering) -> None:
        self._runs.pop(run, None)

    @property
    def seconds(self) -> float:
        """How long a moment lasts now."""
        return self._seconds

    def when_over(self, read: Callable[[], None]) -> None:
        """Call `read`, which must not raise, when the moment is over; one begins where there is none. What is read then
        goes with what the runs hand over.
        """
        if self._seconds:
            self._readers.append(read)
            self._begin()
        else:
            read()

    def _begin(self) -> None:
        if self._timer is None:
            # how long a commit may be put off is the machine's time, not the clock's
            loop = asyncio.get_running_loop()
            self._due = loop.time() + self._seconds
            self._timer = loop.call_at(self._due, self._time_up)

    def _time_up(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_late = loop.time() - self._due > self._shortest * _LATE_SHARE
        readers, self._readers = self._readers, []
        for read in readers:
            read()
        if readers:
            self._wait_for_readers(_TURNS_TO_READ)
        else:
            self._hand_over()

    def _wait_for_readers(self, turns: int) -> None:
        asyncio.get_running_loop().call_soon(*((self._wait_for_readers, turns - 1) if turns else (self._hand_over,)))

    def _hand_over(self) -> None:
        self._timer = None
        runs, self._runs = self._runs, {}
        events = sum([run.hand_over() for run in runs])
        self._choose_length(self._share_of_work(), events / max(len(runs), 1))
        if self._readers:
            self._begin()

    def _share_of_work(self) -> float:
        """How much of the time since the moment before was over the loop was at work."""
        now, work = time.monotonic(), time.thread_time()
        share = (work - self._last_work) / max(now - self._last, 1e-6)
        self._last, self._last_work = now, work
        return share

    def _choose_length(self, share_of_work: float, events_each: float) -> None:
        """How long the next moment is, by what this one was like."""
        gap = self._seconds / events_each if events_each else 0.0
        is_crowded = self._is_late or share_of_work > _BUSY_SHARE
        has_time = not self._is_late and share_of_work < _CALM_SHARE
        if is_crowded and 0 < events_each < _FEW_EVENTS and gap < _LARGE_GAP_SECONDS:
            self._seconds = min(2 * self._seconds, LONGEST_GATHER_SECONDS)
        elif has_time or events_each >= _MANY_EVENTS or gap >= 2 * _LARGE_GAP_SECONDS:
            self._seconds = max(self._seconds / 2, self._shortest)
