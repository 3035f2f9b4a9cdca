"""Gathers the events of many runs for a short time, so that one commit stores them all.

Below: the standard library. Above: live_run, whose runs hand over their events when the window closes; answer_reader,
which reads on at that time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

# An event loop is overloaded if it worked for more than this share of the time since the last window closed, or if a
# window closes late by this share of the shortest window: then other processes had its processor. It has time to spare
# below the other share.
_BUSY_SHARE = 0.9
_CALM_SHARE = 0.6
_LATE_SHARE = 1 / 4
# With fewer events per run than this, a window is too short for an overloaded loop; with so many, it is long enough.
_FEW_EVENTS = 16
_MANY_EVENTS = 64
# If a run's events are so far apart, a longer window gathers no more of them.
_LARGE_GAP_SECONDS = 0.040
# How many rounds of the event loop readers have before the handover: one to poll the sockets, one to process the data.
_ROUNDS_TO_READ = 2


class WindowSeconds(NamedTuple):
    """How long events may wait to share a commit, normally and at most on an overloaded event loop."""

    shortest: float
    longest: float


USUAL_WINDOW: Final = WindowSeconds(0.010, 0.200)


class WaitingRun(Protocol):
    """A run with events to be kept."""

    def hand_over(self) -> int:
        """Hand the events to the store; returns how many they were."""


class CommitWindow:
    """The runs with waiting events, so that many events of many runs go to the store together.

    A call of the store for each event costs more than everything else that happens to the event. A window is 10 ms long
    with SQLite. On an overloaded event loop that is hardly more than one event per run, and most of the work is the
    window's fixed cost per run: a row of the log, waking a viewer, a write to its client. So if a window brought few
    events to an overloaded loop, the next one is twice as long, up to 200 ms. If the loop had time to spare, the next
    one is half as long.

    Measured with streams of words at full speed: 1,000 streams took 11 to 14 us of processor time per event when only a
    late window made the next one longer, and take 6 to 7 now; 300 streams took 7.5, and take 5.7. The first events of
    an answer never wait.
    """

    def __init__(
        self,
        seconds: float = USUAL_WINDOW.shortest,
        longest: float = USUAL_WINDOW.longest,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """`seconds` and `longest` are the lengths of the shortest and the longest window, as the store needs them; 0:
        nothing waits. The two clocks measure how much the loop works.
        """
        self._monotonic = monotonic
        self._thread_time = thread_time
        self._shortest = self._seconds = seconds
        self._longest = longest
        self._due = 0.0
        self._is_late = False
        self._last = self._last_work = 0.0  # when the last window closed, and this thread's working time at that moment
        self._runs: dict[WaitingRun, None] = {}
        self._readers: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: WaitingRun) -> None:
        if not self._seconds:
            run.hand_over()
            return
        self._runs[run] = None
        self._begin()

    def discard(self, run: WaitingRun) -> None:
        self._runs.pop(run, None)

    @property
    def seconds(self) -> float:
        """The current length of a window."""
        return self._seconds

    def when_closed(self, read: Callable[[], None]) -> None:
        """Call `read`, which must not raise, when the window closes; opens a window if none is open. The events that it
        reads go to the store together with the runs'.
        """
        if self._seconds:
            self._readers.append(read)
            self._begin()
        else:
            read()

    def _begin(self) -> None:
        if self._timer is None:
            # how long a commit waits is real time, not the clock's
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
            self._wait_for_readers(_ROUNDS_TO_READ)
        else:
            self._hand_over()

    def _wait_for_readers(self, rounds: int) -> None:
        asyncio.get_running_loop().call_soon(*((self._wait_for_readers, rounds - 1) if rounds else (self._hand_over,)))

    def _hand_over(self) -> None:
        self._timer = None
        runs, self._runs = self._runs, {}
        events = sum([run.hand_over() for run in runs])
        self._choose_length(self._share_of_work(), events / max(len(runs), 1))
        if self._readers:
            self._begin()

    def _share_of_work(self) -> float:
        """The share of the time since the last window closed in which the loop worked."""
        now, work = self._monotonic(), self._thread_time()
        share = (work - self._last_work) / max(now - self._last, 1e-6)
        self._last, self._last_work = now, work
        return share

    def _choose_length(self, share_of_work: float, events_each: float) -> None:
        """Choose the next window's length from this one's load."""
        gap = self._seconds / events_each if events_each else 0.0
        is_overloaded = self._is_late or share_of_work > _BUSY_SHARE
        has_time_to_spare = not self._is_late and share_of_work < _CALM_SHARE
        if is_overloaded and 0 < events_each < _FEW_EVENTS and gap < _LARGE_GAP_SECONDS:
            self._seconds = min(2 * self._seconds, self._longest)
        elif has_time_to_spare or events_each >= _MANY_EVENTS or gap >= 2 * _LARGE_GAP_SECONDS:
            self._seconds = max(self._seconds / 2, self._shortest)
