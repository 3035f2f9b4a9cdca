"""The moment in which events of many runs wait for each other, to be kept by one commit.

Nothing of ours is below. Above: live_run, whose runs hand their events over when the moment is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

# How long events may wait for more to share a commit with; and how long at most on a loop that is late itself.
GATHER_SECONDS = 0.010
LONGEST_GATHER_SECONDS = 0.200
# A loop is late where a moment is over too late by this share of it, and by this share of the shortest.
_LATE_SHARE = 1 / 8
_LATE_SHARE_OF_SHORTEST = 1 / 4
# How many turns of the loop readers have, once they read again, until what they brought is handed over: one in which
# the system is asked what came, one in which they take it in.
_TURNS_TO_READ = 2


class Gathering(Protocol):
    """A run with events to be kept."""

    def hand_over(self) -> None:
        """Give them to the store."""


class GatherWindow:
    """The runs whose events wait a moment, so that many events of many runs go to the store together.

    A call of the store per event costs more than everything else that happens to the event. The moment is 10 ms, unless
    the loop is so busy that a turn of it takes a good part of that: then a moment brings each run hardly more than one
    event, whatever was meant. Each moment that is over late is followed by one twice as long, up to 200 ms, each that
    is not by one half as long, down to 10 ms. So it lasts four to eight turns of a loop that has too much to do, which
    does more then: 1,000 streams of words as fast as they go took 32 us of processor time per event with moments of up
    to 50 ms, and those only on a loop that was 10 ms late; 21 with these. The first sign of an answer never waits.
    """

    def __init__(self, seconds: float = GATHER_SECONDS) -> None:
        """`seconds`: how long at most; 0: nothing waits."""
        self._shortest = self._seconds = seconds
        self._due = 0.0
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
        if loop.time() - self._due > max(self._seconds * _LATE_SHARE, self._shortest * _LATE_SHARE_OF_SHORTEST):
            self._seconds = min(2 * self._seconds, LONGEST_GATHER_SECONDS)
        else:
            self._seconds = max(self._seconds / 2, self._shortest)
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
        for run in runs:
            run.hand_over()
        if self._readers:
            self._begin()
