"""Writes that wait for a commit: the work of each, its callers, and about how many pages it changes.

Below: event_log, held_file. Above: group_commit, which commits them, and the store, which makes them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from gateway.clock import Kept
from gateway.records import EventRecords
from gateway.sqlite.event_log import EventRow, insert_events
from gateway.sqlite.held_file import Patience

Result = TypeVar("Result")

_PAGE_BYTES = 4096
# A row changes its own page and usually one of an index.
_ROW_PAGES = 2


class Operation(Generic[Result]):
    """One write. `work` runs inside a transaction, on the event loop or on the writer thread, and again if that
    transaction fails. `patience`: how long it waits while the file is held.

    `pages` is about how many pages it changes at most. `long`: it may take long, so the event loop does not run it.
    `makes_room` (implies `long`): it frees more than it takes, so it may use the reserve. `on_kept` and `on_failed` run
    on the event loop, in the order of the operations, before waiting callers go on.
    """

    __slots__ = ("future", "long", "makes_room", "on_failed", "on_kept", "pages", "patience", "work")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[sqlite3.Connection], Result],
        on_kept: Callable[[Result], None] | None = None,
        on_failed: Callable[[], None] | None = None,
        *,
        pages: int = _ROW_PAGES,
        long: bool = False,
        makes_room: bool = False,
        patience: Patience = Patience.SHORT,
    ) -> None:
        self.work = work
        self.on_kept = on_kept
        self.on_failed = on_failed
        self.pages = pages
        self.long = long or makes_room
        self.makes_room = makes_room
        self.patience = patience
        self.future: Kept[Result] = Kept(loop=loop)

    def succeed(self, result: Result) -> None:
        if self.on_kept is not None:
            self.on_kept(result)
        self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if self.on_failed is not None:
            self.on_failed()
        self.future.set_exception(error)
        self.future.exception()  # marks it as seen: there may be no caller waiting any more


class RunLog:
    """The log of a run under way: the run's key in the tables, and its next event's number."""

    __slots__ = ("key", "next", "thread_id")

    def __init__(self, key: int, next_number: int, thread_id: str) -> None:
        self.key = key
        self.thread_id = thread_id
        self.next = next_number


class _Row:
    """One run's events in one commit."""

    __slots__ = ("at", "first", "last", "lines")

    def __init__(self, first: int, at: float | None) -> None:
        self.at = at
        self.first = first
        self.last = 0
        self.lines: list[bytes] = []


class EventGroup(Operation[None]):
    """The events of many runs, one row for each run. `on_lost` is called with the group if they could not be stored.

    It is part of no reference cycle, so it is freed with all its data when it is done, without the garbage collector.
    """

    __slots__ = ("_on_lost", "runs")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[EventGroup], None]) -> None:
        self.runs: dict[RunLog, _Row] = {}
        self._on_lost = on_lost
        super().__init__(loop, partial(_insert, self.runs), pages=0, patience=Patience.LONG)

    def add(self, run: RunLog, first: int, records: EventRecords) -> None:
        row = self.runs.get(run)
        if row is None:
            row = self.runs[run] = _Row(first, records.at)
        row.lines.append(records.lines)
        run.next = first + records.count
        row.last = run.next - 1
        self.pages += pages_of(1, len(records.lines))

    def fail(self, error: BaseException) -> None:
        self._on_lost(self)
        super().fail(error)


def _insert(runs: Mapping[RunLog, _Row], connection: sqlite3.Connection) -> None:
    rows: list[EventRow] = [
        (run.key, row.first, row.last, row.lines[0] if len(row.lines) == 1 else b"\n".join(row.lines), row.at)
        for run, row in runs.items()
    ]
    insert_events(connection, rows)


def pages_of(rows: int, size: int) -> int:
    """About how many pages change when `rows` rows with `size` bytes in all are written."""
    return rows * _ROW_PAGES + size // _PAGE_BYTES
