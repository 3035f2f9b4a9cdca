"""The phases of a run as one table, and the object that enforces it.

Below: the standard library. Above: live_run, each of which has one `Phases`.

    opened   requested: it may still be refused
    waiting  for its thread
    running  it begins, and its loop works
    leaving  its loop stops without an end: another process is to continue the run
    ending   its end, or the data for the next process, is being stored
    unkept   its end cannot be stored now; that is tried again
    over     it has ended, was refused, or is left to another process

A run never goes back, and any run may go to `over` at any time. `_NEXT` has all other transitions; others are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """A run's phase; the module explains them. A `str`: to look up any other enumeration, Python code hashes it."""

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

# It was refused, or cannot be refused any more.
SETTLED: Final = frozenset(Phase) - {Phase.OPENED}
# No events are added any more, and it can no longer be stopped.
FINISHING: Final = frozenset({Phase.ENDING, Phase.UNKEPT, Phase.OVER})
# Waiting for its end is over.
CONCLUDED: Final = frozenset({Phase.UNKEPT, Phase.OVER})
OVER: Final = frozenset({Phase.OVER})


class PhaseError(RuntimeError):
    """The table does not have this transition: a bug of the gateway."""


class Phases:
    """Follows one run from `OPENED` to `OVER`."""

    __slots__ = ("_awaited", "now")

    def __init__(self) -> None:
        self.now = Phase.OPENED
        self._awaited: dict[frozenset[Phase], asyncio.Future[None]] = {}

    def enter(self, phase: Phase) -> None:
        """Go to that phase.

        Raises:
            PhaseError: the table has no such transition.
        """
        if phase not in _NEXT[self.now]:
            raise PhaseError(f"a run that is {self.now} cannot be {phase} next")
        self.now = phase
        for wanted, future in self._awaited.items():
            if phase in wanted and not future.done():
                future.set_result(None)

    def reached(self, wanted: frozenset[Phase]) -> asyncio.Future[None]:
        """A future that is done once the run has entered one of these phases. All callers share one."""
        future = self._awaited.get(wanted)
        if future is None:
            future = self._awaited[wanted] = asyncio.get_running_loop().create_future()
            if self.now in wanted:
                future.set_result(None)
        return future
