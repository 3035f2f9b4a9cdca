"""The phases of a run as one table, and the object that keeps every run to it.

Below: nothing of ours. Above: live_run, each of which has one `Phases`.

    opened   asked for: it may still be refused
    waiting  for its turn on the thread
    running  it begins, and its loop works
    leaving  its loop stops without an end: another process is to take the run up
    ending   its end is being kept, or what it leaves to be taken up
    unkept   its end cannot be kept for now; that is tried again
    over     it has ended, was refused, or is left to another process

A run never goes back, and any run may be over at any time. `_NEXT` has all other ways; another one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import Final


class Phase(Enum):
    """Where a run stands. See the module."""

    OPENED = "opened"
    WAITING = "waiting"
    RUNNING = "running"
    LEAVING = "leaving"
    ENDING = "ending"
    UNKEPT = "unkept"
    OVER = "over"


_NEXT: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.OPENED: frozenset({Phase.WAITING, Phase.RUNNING, Phase.OVER}),
    Phase.WAITING: frozenset({Phase.RUNNING, Phase.ENDING, Phase.OVER}),
    Phase.RUNNING: frozenset({Phase.LEAVING, Phase.ENDING, Phase.OVER}),
    Phase.LEAVING: frozenset({Phase.ENDING, Phase.OVER}),
    Phase.ENDING: frozenset({Phase.UNKEPT, Phase.OVER}),
    Phase.UNKEPT: frozenset({Phase.UNKEPT, Phase.OVER}),
    Phase.OVER: frozenset(),
}

# It will not be refused any more, or was.
SETTLED: Final = frozenset(Phase) - {Phase.OPENED}
# Nothing is added to it any more, and nothing stops it.
FINISHING: Final = frozenset({Phase.ENDING, Phase.UNKEPT, Phase.OVER})
# Whoever waits for its end need not wait longer.
CONCLUDED: Final = frozenset({Phase.UNKEPT, Phase.OVER})
OVER: Final = frozenset({Phase.OVER})


class PhaseError(RuntimeError):
    """A run was to go a way that the table does not have: a fault of ours."""


class Phases:
    """Follows one run from `OPENED` to `OVER`."""

    __slots__ = ("_awaited", "now")

    def __init__(self) -> None:
        self.now = Phase.OPENED
        self._awaited: dict[frozenset[Phase], asyncio.Future[None]] = {}

    def enter(self, phase: Phase) -> None:
        """The run goes on to that phase.

        Raises:
            PhaseError: there is no such way.
        """
        if phase not in _NEXT[self.now]:
            raise PhaseError(f"a run that is {self.now.value} cannot be {phase.value} next")
        self.now = phase
        for wanted, future in self._awaited.items():
            if phase in wanted and not future.done():
                future.set_result(None)

    def reached(self, wanted: frozenset[Phase]) -> asyncio.Future[None]:
        """Done once the run is, or was since this was first asked, in one of these phases. One future for all."""
        future = self._awaited.get(wanted)
        if future is None:
            future = self._awaited[wanted] = asyncio.get_running_loop().create_future()
            if self.now in wanted:
                future.set_result(None)
        return future
