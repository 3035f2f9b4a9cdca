"""The writer thread: writes in the order of the calls, as many as are waiting in one commit.

Below: the words. Above: the store. The event loop collects operations; as soon as one of them is urgent and the thread
is free, all of them go over together, become one transaction, and come back together by one wake-up of the loop. When
the transaction fails, each operation is tried again in one of its own, so that a failure is nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from gateway.errors import StoreError
from gateway.sqlite.database import store_error
from gateway.sqlite.event_log import EventRow, insert_events
from gateway.sqlite.worker_turns import WorkerTurns

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# How long events that are not urgent wait for others to share their commit.
GROUP_SECONDS = 0.010


class Kept(asyncio.Future[Result]):
    """The outcome of a write.

    Many runs may wait for one. A task that is cancelled cancels the future it waits for, and with it everybody else's:
    so this one does not let itself be cancelled, and the task notices its own cancellation a commit later.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class Operation(Generic[Result]):
    """One write. `work` runs on the writer thread inside a transaction, perhaps twice: a first time in vain.

    `on_kept` and `on_failed` run on the event loop, in the order of the operations, before anybody who waits goes on.
    """

    __slots__ = ("future", "on_failed", "on_kept", "work")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[sqlite3.Connection], Result],
        on_kept: Callable[[Result], None] | None = None,
        on_failed: Callable[[], None] | None = None,
    ) -> None:
        self.work = work
        self.on_kept = on_kept
        self.on_failed = on_failed
        self.future: Kept[Result] = Kept(loop=loop)

    def succeed(self, result: Result) -> None:
        if self.on_kept is not None:
            self.on_kept(result)
        self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if self.on_failed is not None:
            self.on_failed()
        self.future.set_exception(error)
        self.future.exception()  # marks it as seen: that nobody waits any more is no fault


class RunLog:
    """A run under way as appends see it: its key in the tables, and the number that its next event must have."""

    __slots__ = ("key", "next", "thread_id")

    def __init__(self, key: int, next_number: int, thread_id: str) -> None:
        self.key = key
        self.thread_id = thread_id
        self.next = next_number


class EventGroup(Operation[None]):
    """The events of many runs, each run's as one row."""

    __slots__ = ("runs",)

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failed: Callable[[], None]) -> None:
        super().__init__(loop, self._insert, None, on_failed)
        self.runs: dict[RunLog, tuple[int, list[bytes]]] = {}

    def add(self, run: RunLog, first: int, records: Sequence[bytes]) -> None:
        run.next = first + len(records)
        row = self.runs.get(run)
        if row is None:
            self.runs[run] = (first, list(records))
        else:
            row[1].extend(records)

    def _insert(self, connection: sqlite3.Connection) -> None:
        rows: list[EventRow] = [
            (run.key, first, first + len(records) - 1, b"\n".join(records))
            for run, (first, records) in self.runs.items()
        ]
        insert_events(connection, rows)


class GroupCommit:
    """Takes writes on the event loop and does them on a thread of its own. `connection` is that thread's from now on.

    `on_lost` is told the runs whose events could not be kept: those that were appended behind them are refused too, so
    that no log has a gap.
    """

    def __init__(
        self, connection: sqlite3.Connection, turns: WorkerTurns, on_lost: Callable[[set[RunLog]], None]
    ) -> None:
        self._connection = connection
        self._turns = turns
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._pending: list[Operation[Any]] = []
        self._group: EventGroup | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = False
        self._scheduled = False
        self._writing = False
        self._failing = False
        self._queue: SimpleQueue[list[Operation[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sqlite-writer", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Callable[[sqlite3.Connection], Result],
        on_kept: Callable[[Result], None] | None = None,
        on_failed: Callable[[], None] | None = None,
    ) -> Kept[Result]:
        """Queue a write behind everything before it, to be done as soon as the thread is free."""
        operation = Operation(self._loop, work, on_kept, on_failed)
        self._pending.append(operation)
        self._hurry()
        return operation.future

    def append(self, run: RunLog, first: int, records: Sequence[bytes], *, urgent: bool) -> Kept[None]:
        """Queue events; `first` is the run's next number."""
        group = self._group or self._open_group()
        group.add(run, first, records)
        if urgent:
            self._hurry()
        elif self._timer is None and not self._due:
            self._timer = self._loop.call_later(GROUP_SECONDS, self._time_up)
        return group.future

    async def close(self) -> None:
        """Write what is queued and end the thread."""
        await asyncio.shield(self.submit(_nothing))
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _open_group(self) -> EventGroup:
        group = EventGroup(self._loop, lambda: self._lose(group))
        self._group = group
        self._pending.append(group)
        return group

    def _hurry(self) -> None:
        """What is pending is due. The call is put off to the end of this turn of the loop: others may join."""
        self._due = True
        if not self._writing and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _time_up(self) -> None:
        self._due = True
        if not self._writing:
            self._hand_over()

    def _hand_over(self) -> None:
        self._scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = False
        batch = self._pending
        if batch:
            self._pending = []
            self._group = None
            self._writing = True
            self._turns.start()
            self._queue.put(batch)

    def _settle(self, batch: list[Operation[Any]], outcomes: list[Any]) -> None:
        """Back on the loop: tell everybody how it went, then go on."""
        self._writing = False
        self._turns.settle()
        for operation, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                operation.fail(outcome)
            else:
                operation.succeed(outcome)
        self._tell_health(outcomes)
        if self._due:
            self._hand_over()

    def _lose(self, group: EventGroup) -> None:
        lost = set(group.runs)
        self._on_lost(lost)
        for waiting in [item for item in self._pending if isinstance(item, EventGroup) and item is not group]:
            if not lost.isdisjoint(waiting.runs):
                self._pending.remove(waiting)
                if waiting is self._group:
                    self._group = None
                waiting.fail(StoreError("the events before these could not be kept"))

    def _tell_health(self, outcomes: list[Any]) -> None:
        causes = [outcome.__cause__ for outcome in outcomes if isinstance(outcome, StoreError)]
        cause = next((cause for cause in causes if isinstance(cause, sqlite3.Error)), None)
        if cause is not None and not self._failing:
            logger.error("store cannot write", extra={"cause": getattr(cause, "sqlite_errorname", str(cause))})
        elif cause is None and self._failing:
            logger.info("store writes again")
        self._failing = cause is not None

    # --- on the writer thread

    def _serve(self) -> None:
        while (batch := self._queue.get()) is not None:
            outcomes = self._write(batch)
            self._turns.finished()
            try:
                self._loop.call_soon_threadsafe(self._settle, batch, outcomes)
            except RuntimeError:  # the loop was closed without closing the store: nobody is left to be told
                return

    def _write(self, batch: list[Operation[Any]]) -> list[Any]:
        try:
            return self._transact(batch)
        except Exception as error:
            self._roll_back()
            if len(batch) == 1:
                return [store_error(error) if isinstance(error, sqlite3.Error) else error]
        return [outcome for operation in batch for outcome in self._write([operation])]

    def _transact(self, batch: list[Operation[Any]]) -> list[Any]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        outcomes = [operation.work(connection) for operation in batch]
        connection.execute("COMMIT")
        return outcomes

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            logger.exception("store could not roll back")


def _nothing(connection: sqlite3.Connection) -> None:
    pass
