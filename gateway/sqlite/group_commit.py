"""Commits writes in the order of the calls, many in one transaction, on the event loop or on a thread.

Below: writes, transactions, erasure. Above: the store. All writes of one iteration of the event loop become one
transaction at its end.

The loop commits by itself, although blocking calls elsewhere go to threads. Under WAL with synchronous=NORMAL a commit
does not wait for the disk: it takes 10 to 100 us to copy pages into the system's cache. Handing it to a thread costs
more than that in futures, wake-ups and GIL switches, and a run has two or three commits: a run of one delta went from
1.15 to 0.75 ms of processor time, and from 19 context switches to 2. Beside 500 runs that each send a delta every 20
ms, and a program that keeps flushing 8 MB to the same disk, the loop was late by 9 to 11 ms at the 99th percentile and
by at most 70 (6 to 8, and 30, with all commits on the thread; 7 either way on an idle disk).

The thread takes the work that may block: flushes to the disk (checkpoints, and the first commit after one, which
restarts the log and flushes its header), and large writes. After a commit that waited more than 20 ms it takes
everything for a while (disk_pace). So a hanging disk blocks the loop once.

While another program holds the file nothing blocks: the writes stay in their order and are tried again every few
milliseconds, until they give up (held_file).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from gateway.clock import Kept
from gateway.errors import StoreError, StoreFullError
from gateway.records import EventRecords
from gateway.sqlite.database import store_error
from gateway.sqlite.disk_pace import DiskPace
from gateway.sqlite.erasure import USUAL_TIMES, Erasures, ErasureTimes, Job
from gateway.sqlite.file_watch import FileWatch
from gateway.sqlite.held_file import NO_TIME, USUAL_HOLD_TIMES, Hold, HoldTimes, Patience
from gateway.sqlite.reserve import Reserve
from gateway.sqlite.transactions import HeldFileError, Transactions
from gateway.sqlite.worker_time import WorkerTime
from gateway.sqlite.writes import EventGroup, Operation, RunLog

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
Batch = list[Operation[Any]]

# The most pages that the loop changes in one commit: 1 MB.
_LOOP_PAGES = 256
# A checkpoint is due at about so many pages; the log may grow beyond that while another program reads. Estimates are
# too high (writes share pages), so each is corrected by the last error, at most by this factor.
CHECKPOINT_PAGES = 1000
_MOST_CORRECTION = 4
# The time between two tries while the file is held, at first and at most.
_FIRST_AGAIN_SECONDS = 0.001
_LAST_AGAIN_SECONDS = 0.050
_HELD = "the store is busy: another program holds its file"
_ENDING = "the gateway ends; the store's file is as it was"
_NO_ROOM = (
    "there is no room to rewrite the store's file, which is as it was: it takes the file's size beside it, and again in"
    " the folder for temporary files"
)
_REWRITTEN = "the store's file is being rewritten; try again in a moment"


class Rewriting(NamedTuple):
    """A request to rewrite the whole file. `size` measures the file, in bytes, in the writer's thread."""

    future: asyncio.Future[tuple[float, int]]
    size: Callable[[], int]


class GroupCommit:
    """Takes writes on the event loop. It owns `connection` from now on. With a `reserve` the connection is a file's, in
    WAL mode, and never checkpoints by itself.

    `on_lost` gets the runs whose events could not be stored. Later events of these runs are refused too, so that no log
    has a gap. `watch` looks after the connection's files. `monotonic` counts `hold_times`, and the time between looks.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        worker_time: WorkerTime,
        on_lost: Callable[[set[RunLog]], None],
        reserve: Reserve | None,
        *,
        erasure_times: ErasureTimes = USUAL_TIMES,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        pace: DiskPace | None = None,
        watch: FileWatch | None = None,
        hold_times: HoldTimes = USUAL_HOLD_TIMES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        has_log = reserve is not None
        self._transactions = Transactions(connection, reserve)
        self._erasures = Erasures(self._transactions, self._lend, erasure_times) if has_log else None
        self._worker_time = worker_time
        self._on_lost = on_lost
        self._has_log = has_log
        self._loop = asyncio.get_running_loop()
        self._pace = pace or DiskPace()
        self._watch = watch or FileWatch(())
        self._hold_times = hold_times
        self._monotonic = monotonic
        self._hold: Hold | None = None
        self._again: asyncio.TimerHandle | None = None
        self._vacuum: Rewriting | None = None  # asked for, and not begun yet
        self._pending: Batch = []
        self._group: EventGroup | None = None
        self._scheduled = False
        self._with_thread = False
        self._failing = False
        self._log_pages = 0  # estimated
        self._log_limit = checkpoint_pages
        self._checkpoint_pages = checkpoint_pages  # estimated
        self._log_begins = has_log  # the next commit flushes the log's header to the disk
        self._jobs: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def connection(self) -> sqlite3.Connection | None:
        """The connection, for a short read in this iteration of the loop; None while the thread uses it."""
        return None if self._with_thread else self._transactions.connection

    def submit(
        self,
        work: Callable[[sqlite3.Connection], Result],
        on_kept: Callable[[Result], None] | None = None,
        on_failed: Callable[[], None] | None = None,
        *,
        pages: int = 2,
        long: bool = False,
        makes_room: bool = False,
        patience: Patience = Patience.SHORT,
    ) -> Kept[Result]:
        """Queue a write after all earlier ones. `pages` and the options after it are Operation's."""
        operation = Operation(
            self._loop, work, on_kept, on_failed, pages=pages, long=long, makes_room=makes_room, patience=patience
        )
        self._pending.append(operation)
        self._hurry()
        return operation.future

    def append(self, run: RunLog, first: int, records: EventRecords) -> Kept[None]:
        """Queue events of the run; `first` is the number of the first one."""
        group = self._group or self._open_group()
        group.add(run, first, records)
        self._hurry()
        return group.future

    def erase(self) -> None:
        """To be called when data was deleted that must leave no trace in the files, see erasure."""
        if self._erasures is not None:
            self._erasures.note()

    def vacuum(self, size: Callable[[], int]) -> asyncio.Future[tuple[float, int]]:
        """Rewrite the whole file as soon as the thread is free; runs wait until it is done. Gives the seconds in which
        nothing could be written, and the file's `size` right after the rewriting, before the next write. The future
        fails with a StoreError if the file was not rewritten.
        """
        if self._vacuum is None:
            self._vacuum = Rewriting(self._loop.create_future(), size)
            self._hurry()
        return self._vacuum.future

    @property
    def refuses(self) -> bool:
        """Whether the file has been held for so long that new writes give up at once."""
        return self._hold is not None and self._hold.refuses(Patience.SHORT, self._monotonic())

    def stop_waiting(self) -> None:
        """From now on writes fail at once when the file is held."""
        self._hold_times = NO_TIME
        if self._hold is not None:
            self._hold.hurry()
            self._give_up(self._hold)
            self._interrupt(self._hold)

    async def close(self) -> None:
        """Commit the queued writes, unless the file is held, and end the thread."""
        self.stop_waiting()
        with suppress(StoreError):
            await asyncio.shield(self.submit(_nothing, long=True))
        while self._with_thread:  # it may be emptying the log
            with suppress(StoreError):
                await asyncio.shield(self.submit(_nothing, long=True))
        if self._again is not None:
            self._again.cancel()
        if self._erasures is not None:
            self._erasures.close()
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _open_group(self) -> EventGroup:
        group = self._group = EventGroup(self._loop, self._lose)
        self._pending.append(group)
        return group

    def _hurry(self) -> None:
        """Commit the pending writes at the end of this iteration of the loop: others may join until then."""
        if self._with_thread:
            if self._erasures is not None:
                self._erasures.give_way()
        elif not self._scheduled and self._hold is None:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        if self._with_thread or (self._vacuum is not None and self._begin_vacuum(self._vacuum)):
            return
        batch = self._pending
        if not batch and self._hold is None:
            return
        self._pending = []
        self._group = None
        if (error := self._watch.error_if_due(self._monotonic())) is not None:
            self._settle(batch, [error] * len(batch))
            return
        pages = 0
        long = self._log_begins
        for operation in batch:
            pages += operation.pages
            long = long or operation.long
        self._log_pages += pages
        if long or pages > _LOOP_PAGES or not self._pace.is_quick():
            self._send(partial(self._write_there, batch))
            return
        try:
            with self._pace:
                outcomes = self._transactions.write(batch)
        except HeldFileError as held:
            self._wait(batch, held.outcomes)
            return
        self._settle(batch, outcomes)

    def _settle(self, batch: Batch, outcomes: list[Any]) -> None:
        """Report the outcomes, then go on."""
        if self._hold is not None:
            self._let_go()
        self._report(batch, outcomes)
        if self._has_log and self._log_pages >= self._checkpoint_pages:
            self._send(self._checkpoint_there)
        elif self._pending or self._vacuum is not None:
            self._commit()

    def _report(self, batch: Batch, outcomes: list[Any]) -> None:
        failed = self._failing
        for operation, outcome in zip(batch, outcomes, strict=False):
            if isinstance(outcome, Exception):
                failed = True
                operation.fail(outcome)
            else:
                operation.succeed(outcome)
        if failed:
            self._tell_health(outcomes)

    # --- while the file is held

    def _wait(self, batch: Batch, outcomes: list[Any]) -> None:
        """Put the rest of the batch in front of all other writes: another program holds the file."""
        rest = batch[len(outcomes) :]
        self._log_pages -= sum([operation.pages for operation in rest])
        self._pending[:0] = rest
        if self._group is None:
            self._group = next((each for each in reversed(rest) if isinstance(each, EventGroup)), None)
        if outcomes:
            self._report(batch, outcomes)
        if self._hold is None:
            self._hold_on(Hold(self._monotonic(), self._hold_times, _HELD))
        else:
            self._give_up(self._hold)

    def _hold_on(self, hold: Hold) -> None:
        self._hold = hold
        self._again = self._loop.call_later(_FIRST_AGAIN_SECONDS, self._try_again, _FIRST_AGAIN_SECONDS)

    def _try_again(self, waited: float) -> None:
        hold = self._hold
        if not self._with_thread:
            self._commit()
        elif hold is not None:
            self._give_up(hold)
            self._interrupt(hold)  # at each try, since an interrupt before the statement begins has no effect
        if hold is not None and self._hold is hold:
            waited = min(2 * waited, _LAST_AGAIN_SECONDS)
            self._again = self._loop.call_later(waited, self._try_again, waited)

    def _give_up(self, hold: Hold) -> None:
        """Fail the writes that have waited as long as their patience allows."""
        now = self._monotonic()
        if not hold.is_logged and hold.refuses(Patience.SHORT, now):
            hold.is_logged = True
            logger.warning("the store's file is held: writes wait, new ones are refused", extra={"cause": hold.message})
        if hold.refuses(Patience.LONG, now) and not self._failing:
            self._failing = True
            logger.error("store cannot write", extra={"cause": hold.message})
        waiting, self._pending = self._pending, []
        late: Batch = []
        for operation in waiting:
            (late if hold.refuses(operation.patience, now) else self._pending).append(operation)
        if self._group in late:
            self._group = None
        for operation in late:
            operation.fail(hold.error())

    def _let_go(self) -> None:
        """End the hold: the file is free."""
        hold, self._hold = self._hold, None
        if self._again is not None:
            self._again.cancel()
        if hold is not None and hold.is_logged:
            seconds = round(self._monotonic() - hold.since, 1)
            logger.info("the store's file is held no more", extra={"seconds": seconds})

    def _begin_vacuum(self, wanted: Rewriting) -> bool:
        """Begin the rewriting. False if it cannot begin now: `wanted` has got the error that says why."""
        self._vacuum = None
        if self._hold is not None or self._hold_times is NO_TIME:
            wanted.future.set_exception(StoreError(_ENDING) if self._hold is None else self._hold.error())
            return False
        self._hold_on(Hold(self._monotonic(), self._hold_times, _REWRITTEN, is_own=True))
        self._send(partial(self._vacuum_there, wanted, time.monotonic()))
        return True

    def _interrupt(self, hold: Hold) -> None:
        """Interrupt the store's own rewriting of the file if writes must no longer wait."""
        if hold.is_own and self._hold_times is NO_TIME:
            self._transactions.connection.interrupt()

    def _vacuumed(self, wanted: Rewriting, begun: float, outcome: int | StoreError) -> None:
        self._let_go()
        self._log_begins = True
        if isinstance(outcome, StoreError):
            wanted.future.set_exception(outcome)
        else:
            if self._erasures is not None:
                self._erasures.rewritten()
            wanted.future.set_result((time.monotonic() - begun, outcome))
        self._commit()

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
        cause = next((cause for cause in causes if isinstance(cause, sqlite3.Error | OSError)), None)
        if cause is not None and not self._failing:
            logger.error("store cannot write", extra={"cause": getattr(cause, "sqlite_errorname", str(cause))})
        elif cause is None and self._failing:
            logger.info("store writes again")
        self._failing = cause is not None

    # --- the writer thread

    def _send(self, job: Callable[[], Callable[[], None]]) -> None:
        """Give the thread a job and the connection. The function that the job returns is called on the loop."""
        self._with_thread = True
        self._worker_time.start()
        self._jobs.put(job)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            conclude = job()
            self._worker_time.finished()
            try:
                self._loop.call_soon_threadsafe(self._take_back, conclude)
            except RuntimeError:  # the loop was closed before the store: nobody waits for results
                return
            del job, conclude  # they hold all that was written, and the next job may come much later

    def _take_back(self, conclude: Callable[[], None]) -> None:
        self._with_thread = False
        self._worker_time.settle()
        conclude()

    def _write_there(self, batch: Batch) -> Callable[[], None]:
        connection = self._transactions.connection
        changes = connection.total_changes
        try:
            conclude = partial(self._settle, batch, self._transactions.write(batch))
        except HeldFileError as held:
            conclude = partial(self._wait, batch, held.outcomes)
        if connection.total_changes != changes:
            self._log_begins = False
        return conclude

    def _checkpoint_there(self) -> Callable[[], None]:
        pages = self._transactions.checkpoint()
        correction = self._log_pages / max(pages, 1)
        self._checkpoint_pages = round(self._log_limit * min(max(correction, 1.0), _MOST_CORRECTION))
        self._log_pages = 0
        self._log_begins = True
        return self._commit

    def _vacuum_there(self, wanted: Rewriting, begun: float) -> Callable[[], None]:
        outcome: int | StoreError
        try:
            self._transactions.vacuum()
            self._transactions.empty_log()
            outcome = wanted.size()
        except (sqlite3.Error, OSError) as failure:
            outcome = _vacuum_error(failure)
        return partial(self._vacuumed, wanted, begun, outcome)

    def _lend(self, job: Job) -> bool:
        """Run a job, which may restart the log, on the thread; False while the thread is busy."""
        if self._with_thread:
            return False
        self._send(lambda: partial(self._after_loan, job()))
        return True

    def _after_loan(self, conclude: Callable[[], None]) -> None:
        self._log_begins = True
        conclude()
        self._commit()


def _vacuum_error(error: sqlite3.Error | OSError) -> StoreError:
    if isinstance(error, OSError):  # its size cannot be measured: the file was removed
        return StoreError("the store failed")
    if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
        return StoreError(_ENDING)
    mapped = store_error(error)
    return StoreFullError(_NO_ROOM) if isinstance(mapped, StoreFullError) else mapped


def _nothing(connection: sqlite3.Connection) -> None:
    pass
