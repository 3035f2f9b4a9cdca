"""Removes deleted text from the store's files while the store is idle.

Below: transactions. Above: group_commit, which lends the connection. SQLite overwrites deleted rows in place
(`secure_delete`, see database). Copies can remain in two places:

- The write-ahead log. It is emptied a moment later.
- Pages on which a row stood earlier. SQLite moves rows between pages when they fill up or run empty, and the free space
  of the old page keeps the bytes. In a test with 90 deleted threads and many changes, one to five left traces. Only a
  rewritten file is free of them. The file is rewritten when the store is idle; a new write interrupts that, and it is
  tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from gateway.sqlite.transactions import Transactions

_QUIET_CHANGES = 10
_MOST_EMPTY_SECONDS = 60.0
_AGAIN_SECONDS = 0.005  # an interrupt that comes before the statement has no effect, so it is repeated


@dataclass(frozen=True, slots=True)
class ErasureTimes:
    """When the log is emptied and when the file is rebuilt after an erasure, and how long the store must be idle first.

    Several erasures share one emptying, which flushes to the disk, and one rebuilding, which writes the whole file.
    "Idle" allows a few writes: each readiness check writes something.
    """

    empty_seconds: float = 1.0
    rebuild_seconds: float = 3600.0
    quiet_seconds: float = 5.0


USUAL_TIMES = ErasureTimes()


Job: TypeAlias = Callable[[], Callable[[], None]]


class Erasures:
    """The pending erasures of a file that has a log. Used on the event loop.

    `lend` runs a job on the writer's thread, and then, on the loop, the function that the job returns. It gives False
    while the thread is busy.
    """

    def __init__(self, transactions: Transactions, lend: Callable[[Job], bool], times: ErasureTimes) -> None:
        self._transactions = transactions
        self._lend = lend
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._emptying: asyncio.TimerHandle | None = None
        self._interrupting: asyncio.TimerHandle | None = None
        self._is_rebuilding = False
        self._is_stale = True  # earlier processes may have deleted something
        self._changes = 0
        self._pause = times.quiet_seconds  # longer after each interrupted rebuilding
        self._looking = self._loop.call_later(times.rebuild_seconds, self._look)

    def note(self) -> None:
        """To be called when data was deleted that must leave no trace in the files."""
        if self._emptying is None:
            self._empty_in(self._times.empty_seconds)
        if not self._is_stale and not self._is_rebuilding:
            self._look_in(self._times.rebuild_seconds)
        self._is_stale = True

    def give_way(self) -> None:
        """Interrupt the rebuilding: a write is waiting."""
        if self._is_rebuilding and self._interrupting is None:
            self._interrupt()

    def rewritten(self) -> None:
        """To be called when the whole file was rewritten: only the log may still have deleted text."""
        self._looking.cancel()
        self._is_stale = False
        if self._emptying is None:
            self._empty_in(self._times.empty_seconds)

    def close(self) -> None:
        """To be called when nothing is running. Closing the connections empties the log."""
        for timer in (self._emptying, self._looking, self._interrupting):
            if timer is not None:
                timer.cancel()

    # --- the log

    def _empty_in(self, seconds: float) -> None:
        self._emptying = self._loop.call_later(seconds, self._empty, seconds)

    def _empty(self, waited: float) -> None:
        self._emptying = None
        if not self._lend(partial(self._empty_there, waited)):
            self._empty_in(waited)

    def _empty_there(self, waited: float) -> Callable[[], None]:
        return partial(self._emptied, self._transactions.empty_log(), waited)

    def _emptied(self, is_empty: bool, waited: float) -> None:
        if not is_empty and self._emptying is None:
            self._empty_in(min(2 * waited, _MOST_EMPTY_SECONDS))

    # --- the file

    def _look_in(self, seconds: float) -> None:
        self._looking = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Rebuild the file if hardly anything was written since the last check."""
        changes, self._changes = self._changes, self._transactions.connection.total_changes
        if self._changes - changes <= _QUIET_CHANGES and self._lend(self._rebuild_there):
            self._is_rebuilding, self._is_stale = True, False
        else:
            self._look_in(self._times.quiet_seconds)

    def _rebuild_there(self) -> Callable[[], None]:
        is_over = self._transactions.rebuild()
        return partial(self._rebuilt, is_over and self._transactions.empty_log())

    def _rebuilt(self, is_over: bool) -> None:
        self._is_rebuilding = False
        if not is_over:
            self._is_stale = True
            self._look_in(self._pause)
            self._pause = min(2 * self._pause, self._times.rebuild_seconds)
        else:
            self._pause = self._times.quiet_seconds
            if self._is_stale:
                self._look_in(self._times.rebuild_seconds)

    def _interrupt(self) -> None:
        self._interrupting = None
        if self._is_rebuilding:
            self._transactions.connection.interrupt()
            self._interrupting = self._loop.call_later(_AGAIN_SECONDS, self._interrupt)
