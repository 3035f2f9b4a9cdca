"""The embedded store: keeps each promise of `gateway.store.Store` with rows and commits.

Below: everything in this package. Writes are done in the order of the calls, the short ones on the event loop itself
(group_commit says why and which). Reads have their own threads, except for a few index look-ups (StoreAccess.look).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from gateway.agent import Absent
from gateway.clock import Kept, SystemClock
from gateway.commit_window import USUAL_WINDOW, WindowSeconds
from gateway.errors import ConfigurationError, ConflictError, NotFoundError, StoreError
from gateway.events import OpenInterrupt
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.model_state import ModelState
from gateway.records import NO_EVENTS, EventRecords
from gateway.sqlite import (
    event_log,
    export_rows,
    import_rows,
    message_rows,
    run_logs,
    run_rows,
    stored_bytes,
    summary_rows,
    tables,
    thread_search,
    version_rows,
)
from gateway.sqlite.access import StoreAccess
from gateway.sqlite.address import Address
from gateway.sqlite.cached_threads import CachedThreads
from gateway.sqlite.collected_threads import CollectedThreads, encoded_messages
from gateway.sqlite.documents import MasterKeys, SqliteDocuments
from gateway.sqlite.erasure import USUAL_TIMES, ErasureTimes
from gateway.sqlite.held_file import Patience
from gateway.sqlite.tables import KeptThread
from gateway.sqlite.thread_cache import LIMIT_BYTES
from gateway.sqlite.writes import RunLog, pages_of
from gateway.store import (
    Alone,
    Approval,
    DueDeletion,
    Fork,
    NumberedEvent,
    Page,
    RunFilter,
    RunRecord,
    RunsAndThread,
    StoreEnvironment,
    Thread,
    ThreadChange,
    ThreadSummary,
    ThreadVersion,
    Vacuumed,
    VersionContent,
)
from gateway.store.cursors import place_cursor, read_place, read_time, time_cursor
from gateway.store.transfer import Moved, MovedStore

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# Above every event number and page size: SQLite takes integers of at most 63 bits.
_LARGEST = 2**62
# About how many pages a run's begin or end changes besides its messages and events: its row, its thread's, indexes.
_RUN_PAGES = 8

# For a store that is opened outside a gateway.
_ALONE = StoreEnvironment(SystemClock(), Path())


class SqliteStore:
    """Threads, runs and logs in one SQLite file (or in memory). It belongs to the event loop that opened it."""

    def __init__(
        self,
        address: Address,
        environment: StoreEnvironment = _ALONE,
        *,
        cache_bytes: int = LIMIT_BYTES,
        erasure_times: ErasureTimes = USUAL_TIMES,
    ) -> None:
        self.gateways = Alone()
        self._runs: dict[tuple[str, str], RunLog] = {}
        self._early: set[tuple[str, str]] = set()  # runs with events that came before begin_run was committed
        self._file = address.path
        self._keys = keys = MasterKeys(environment.master_keys)
        self._access = StoreAccess(address, keys.open, self._forget_runs, erasure_times, environment.clock.monotonic)
        self._write, self._read, self._look = self._access.write, self._access.read, self._access.look
        self._threads = CachedThreads(self._access, cache_bytes)
        self._collected = CollectedThreads(environment.thread_documents, environment.clock)
        self._documents = SqliteDocuments(self._access, environment.clock, keys, environment.on_secrets)

    async def open(self) -> None:
        await self._access.open()

    async def close(self) -> None:
        self._runs.clear()
        self._early.clear()
        await self._access.close()

    async def check(self) -> None:
        await self._access.check()

    async def vacuum(self) -> Vacuumed:
        return await self._access.vacuum()

    async def export(self, take: Callable[[Moved], None]) -> None:
        file = self._lasting_file()

        def work() -> None:
            with closing(export_rows.read_file(file)) as pieces:
                for piece in pieces:
                    take(piece)

        await asyncio.to_thread(work)

    async def import_(self, moved: Iterable[Moved]) -> None:
        self._lasting_file()

        def checked() -> Iterator[Moved]:
            for piece in moved:
                if isinstance(piece, MovedStore):
                    self._keys.check(piece.key_ids)
                yield piece

        await self._write(lambda connection: import_rows.write_all(connection, checked()), long=True)

    def _lasting_file(self) -> Path:
        if self._file is None:
            raise ConfigurationError("the store is in memory and ends with its process; name a store with a file")
        return self._file

    def stop_waiting(self) -> None:
        self._access.stop_waiting()

    @property
    def commit_window(self) -> WindowSeconds:
        return USUAL_WINDOW

    @property
    def documents(self) -> SqliteDocuments:
        return self._documents

    # --- threads

    async def load_thread(self, owner: str, thread_id: str) -> Thread | None:
        return await self._threads.load(owner, thread_id)

    async def list_threads(self, owner: str, *, limit: int, cursor: str | None, skip: int = 0) -> Page[ThreadSummary]:
        before = None if cursor is None else read_time(b"t", cursor)
        limit, skip = min(max(limit, 1), _LARGEST), min(skip, _LARGEST)
        read = partial(summary_rows.read_summaries, owner=owner, limit=limit + 1, before=before, skip=skip)
        rows = await self._read(read)
        more = len(rows) > limit
        items = tuple([summary for _, summary in rows[:limit]])
        return Page(items, time_cursor(b"t", items[-1].updated_at, rows[limit - 1][0]) if more else None)

    async def list_messages(
        self,
        owner: str,
        thread_id: str,
        *,
        limit: int,
        cursor: str | None,
        version: int | None = None,
        max_bytes: int | None = None,
    ) -> Page[Message]:
        start = 0 if cursor is None else read_place(b"m", cursor)
        limit = min(max(limit, 1), _LARGEST)
        read = partial(tables.read_messages, owner=owner, thread_id=thread_id, version=version, max_bytes=max_bytes)
        found, more = await self._read(partial(read, limit=limit, start=start))
        return Page(tuple(found), place_cursor(b"m", start + len(found)) if more else None)

    async def list_versions(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[ThreadVersion]:
        after = 0 if cursor is None else read_place(b"v", cursor)
        limit = min(max(limit, 1), _LARGEST)
        found = await self._read(
            lambda connection: version_rows.read_versions(connection, owner, thread_id, limit + 1, after)
        )
        more = len(found) > limit
        return Page(tuple(found[:limit]), place_cursor(b"v", found[limit - 1].number) if more else None)

    async def message_times(self, owner: str, thread_id: str) -> list[float | None]:
        return await self._read(lambda connection: version_rows.read_message_times(connection, owner, thread_id, 0))

    async def find_message(self, owner: str, message_id: str, *, limit: int) -> list[str]:
        return await self._access.search(
            owner, lambda connection, _: thread_search.find_message(connection, owner, message_id, limit)
        )

    async def list_interrupts(self, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
        return await self._read(lambda connection: tables.read_interrupts(connection, owner, thread_id))

    async def create_thread(self, thread: Thread, metadata: JsonObject) -> None:
        encoded = await encoded_messages(thread.messages)

        def work(connection: sqlite3.Connection) -> KeptThread:
            if tables.find_thread(connection, thread.owner, thread.thread_id) is not None:
                raise ConflictError(f"thread {thread.thread_id!r} exists already", code="thread_exists")
            return self._collected.create_thread(connection, thread, metadata, encoded)

        await self._write_thread(thread, 0, work)
        await self._catch_up(thread.owner, thread.thread_id)

    async def write_thread(self, thread: Thread, *, keep: int, rewrite: Rewrite | None = None) -> None:
        encoded = await encoded_messages(thread.messages[keep:])

        def work(connection: sqlite3.Connection) -> KeptThread:
            if tables.find_thread(connection, thread.owner, thread.thread_id) is None:
                raise NotFoundError(f"there is no thread {thread.thread_id!r}", code="thread_not_found")
            return self._collected.write_thread(connection, thread, keep, rewrite, replaces=True, encoded=encoded)

        kept = await self._write_thread(thread, keep, work)
        await self._catch_up(thread.owner, thread.thread_id)
        if kept.has_lost:
            await self._remove_deleted()

    async def update_thread(self, owner: str, thread_id: str, change: ThreadChange) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            return summary_rows.update_thread(connection, owner, thread_id, change)

        if isinstance(change.collection, Absent):
            return await self._write_to((owner, thread_id), work)
        changed = await self._change(owner, thread_id, work)
        await self._catch_up(owner, thread_id)
        return changed

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        self._forget_runs({log for key, log in self._runs.items() if key[0] == owner and log.thread_id == thread_id})
        deleted = await self._write_to(
            (owner, thread_id),
            lambda connection: tables.delete_thread(connection, owner, thread_id, due),
            makes_room=True,
        )
        if deleted:
            await self._remove_deleted()
        return deleted

    async def load_summary(self, owner: str, thread_id: str) -> ThreadSummary | None:
        return await self._read(lambda connection: summary_rows.read_summary(connection, owner, thread_id))

    async def expired_threads(self, *, by: float, limit: int) -> list[tuple[str, str]]:
        return await self._read(lambda connection: summary_rows.read_expired(connection, by, limit))

    async def load_version(self, owner: str, thread_id: str, version: int) -> VersionContent | None:
        return await self._read(lambda connection: tables.read_version(connection, owner, thread_id, version))

    async def select_version(self, owner: str, thread_id: str, version: int) -> bool:
        selected = await self._change(
            owner, thread_id, lambda connection: tables.select_version(connection, owner, thread_id, version)
        )
        await self._catch_up(owner, thread_id)
        return selected

    async def delete_version(self, owner: str, thread_id: str, version: int, due: Sequence[DueDeletion] = ()) -> bool:
        deleted = await self._write(
            lambda connection: tables.delete_version(connection, owner, thread_id, version, due), makes_room=True
        )
        if deleted:
            await self._remove_deleted()
        return deleted

    async def version_states(self, owner: str, thread_id: str) -> Mapping[int, Mapping[str, ModelState]]:
        return await self._read(lambda connection: version_rows.read_states(connection, owner, thread_id))

    async def fork_thread(self, owner: str, thread_id: str, fork: Thread) -> bool:
        forked = await self._write_to(
            (fork.owner, fork.thread_id),
            lambda connection: self._collected.fork_thread(connection, owner, thread_id, fork),
            long=bool(fork.collection),
        )
        await self._catch_up(fork.owner, fork.thread_id)
        return forked

    async def idle_visitor_threads(self, *, before: float, limit: int) -> list[tuple[str, str]]:
        return await self._read(lambda connection: tables.read_idle_visitors(connection, before, limit))

    async def stored_bytes(self, site: str) -> int:
        size = self._look(lambda connection: stored_bytes.read_bytes(connection, site))
        if size is None:
            size = await self._read(lambda connection: stored_bytes.read_bytes(connection, site))
        return size

    async def list_approvals(self, *, now: float, limit: int, cursor: str | None) -> Page[Approval]:
        after = 0 if cursor is None else read_place(b"a", cursor)
        limit = min(max(limit, 1), _LARGEST)
        rows = await self._read(lambda connection: tables.read_approvals(connection, now, limit + 1, after))
        more = len(rows) > limit
        items = tuple([item for _, item in rows[:limit]])
        return Page(items, place_cursor(b"a", rows[limit - 1][0]) if more else None)

    async def find_approval(self, approval_id: str) -> tuple[str, str] | None:
        return await self._read(lambda connection: tables.find_approval(connection, approval_id))

    async def due_deletions(self) -> list[DueDeletion]:
        return await self._read(tables.read_due_deletions)

    async def update_deletion(self, deletion: DueDeletion) -> None:
        await self._write(lambda connection: tables.update_deletion(connection, deletion))

    # --- runs

    async def begin_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        rewrite: Rewrite | None = None,
        records: EventRecords = NO_EVENTS,
        fork: Fork | None = None,
        patient: bool = False,
    ) -> None:
        def work(connection: sqlite3.Connection) -> tuple[int, KeptThread]:
            if fork is not None:
                self._begin_fork(connection, run.owner, fork)
            key = run_rows.start_run(connection, run)
            run_logs.begin(connection, key, records)
            return key, self._collected.write_thread(connection, thread, keep, rewrite)

        def kept(result: tuple[int, KeptThread]) -> None:
            key, written = result
            if (run.owner, run.run_id) in self._early:  # the next number of its early events is not known here
                self._early.discard((run.owner, run.run_id))
            else:
                self._runs[run.owner, run.run_id] = RunLog(key, records.count + 1, run.thread_id)
            self._threads.written(thread, keep, written)

        await self._write(
            work,
            kept,
            lambda: self._threads.changed((thread.owner, thread.thread_id)),
            pages=_RUN_PAGES + _message_pages(len(thread.messages) - keep),
            long=bool(thread.collection),
            patience=Patience.LONG if patient else Patience.SHORT,
        )
        await self._catch_up(thread.owner, thread.thread_id)
        if fork is not None:
            await self._catch_up(fork.thread.owner, fork.thread.thread_id)

    def _begin_fork(self, connection: sqlite3.Connection, owner: str, fork: Fork) -> None:
        if not self._collected.fork_thread(connection, owner, fork.of, fork.thread, fork.version, fork.start):
            raise NotFoundError(f"there is no version {fork.version} of thread {fork.of!r}", code="version_not_found")

    async def queue_run(self, run: RunRecord, messages: Sequence[Message] = ()) -> None:
        pages = _RUN_PAGES + _message_pages(len(messages))
        await self._write(lambda connection: run_rows.queue_run(connection, run, messages), pages=pages)

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        log = self._runs.get((owner, run_id))
        try:
            if log is None:
                # Not begun here, or not yet committed, or events were lost: the tables know the next number.
                self._early.add((owner, run_id))
                return self._write(
                    lambda connection: run_logs.append(connection, owner, run_id, first, records),
                    patience=Patience.LONG,
                )
            if first != log.next or not records.count:
                raise run_logs.out_of_order(run_id, log.next, first, records)
            return self._access.append(log, first, records)
        except StoreError as error:
            return _failed(error)

    def end_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        first: int,
        records: EventRecords,
        erase: frozenset[str] = frozenset(),
        holds: bool = False,
    ) -> Kept[KeptThread]:
        def work(connection: sqlite3.Connection) -> KeptThread:
            key = run_logs.end(connection, log, run, first, records)
            if erase:
                event_log.erase_words(connection, key, erase)
            stored_bytes.count_log(connection, run.owner, key)
            return self._collected.write_thread(connection, thread, keep, at_once=True)

        def kept(written: KeptThread) -> None:
            self._threads.written(thread, keep, written)
            if erase:
                self._access.erase()

        log = self._runs.pop((run.owner, run.run_id), None)
        self._early.discard((run.owner, run.run_id))
        return self._write(
            work,
            kept,
            lambda: self._threads.changed((thread.owner, thread.thread_id)),
            pages=_RUN_PAGES + _message_pages(len(thread.messages) - keep) + pages_of(1, len(records.lines)),
            long=bool(erase or thread.collection),
            patience=Patience.LONG,
        )

    async def holder(self, owner: str, thread_id: str, run_id: str = "") -> str | None:
        return None

    async def hold_thread(self, owner: str, thread_id: str, *, holds: bool, takes_over: bool = False) -> bool:
        return await self.load_summary(owner, thread_id) is not None

    async def load_run(self, owner: str, run_id: str) -> RunRecord | None:
        return await self._read(lambda connection: run_rows.read_run(connection, owner, run_id))

    async def runs_known_as(self, owner: str, client_id: str) -> list[RunRecord]:
        return await self._threads.runs_known_as(owner, client_id)

    async def list_runs(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[RunRecord]:
        before = _LARGEST if cursor is None else read_place(b"r", cursor)
        limit = min(max(limit, 1), _LARGEST)
        rows = await self._read(lambda connection: run_rows.read_runs(connection, owner, thread_id, limit + 1, before))
        more = len(rows) > limit
        items = tuple([run for _, run in rows[:limit]])
        return Page(items, place_cursor(b"r", rows[limit - 1][0]) if more else None)

    async def find_runs(
        self, owner: str, wanted: RunFilter, *, limit: int, cursor: str | None, total: int | None = None
    ) -> tuple[Page[RunRecord], int]:
        before = None if cursor is None else read_time(b"o", cursor)
        limit = min(max(limit, 1), _LARGEST)
        rows, count = await self._read(
            partial(run_rows.find_runs, owner=owner, wanted=wanted, limit=limit, before=before, total=total)
        )
        items = tuple([run for _, run in rows[:limit]])
        cursors = tuple([time_cursor(b"o", run.changed_at, key) for key, run in rows[:limit]])
        return Page(items, cursors[-1] if len(rows) > limit else None, cursors), count

    async def delete_run(self, owner: str, run_id: str) -> bool:
        deleted = await self._write(lambda connection: run_rows.delete_run(connection, owner, run_id), makes_room=True)
        if deleted:
            await self._remove_deleted()
        return deleted

    async def load_start(self, owner: str, client_id: str, thread_id: str | None = None) -> RunsAndThread:
        return await self._threads.load_start(owner, client_id, thread_id)

    async def read_events(self, owner: str, run_id: str, *, after: int, limit: int) -> list[NumberedEvent]:
        after, limit = min(max(after, 0), _LARGEST), max(limit, 1)

        def work(connection: sqlite3.Connection) -> list[NumberedEvent]:
            key = run_logs.kept_log(connection, owner, run_id)
            return [] if key is None else event_log.read_events(connection, key, after, limit)

        return await self._read(work)

    async def read_logs(
        self, owner: str, run_ids: Sequence[str], *, limit: int, max_bytes: int
    ) -> Mapping[str, list[NumberedEvent]]:
        return await self._read(
            lambda connection: run_logs.read_logs(connection, owner, run_ids, max(limit, 1), max_bytes)
        )

    async def last_sequence(self, owner: str, run_id: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            key = run_logs.kept_log(connection, owner, run_id)
            return 0 if key is None else event_log.last_sequence(connection, key)

        return await self._read(work)

    async def unfinished_runs(self) -> list[RunRecord]:
        return await self._read(run_rows.read_unfinished_runs)

    async def waiting_runs(self) -> list[tuple[RunRecord, tuple[Message, ...]]]:
        return await self._read(run_rows.read_waiting_runs)

    async def remove_logs(self, *, finished_before: float) -> int:
        removed = 0
        while forgotten := await self._write(
            lambda connection: event_log.forget_logs(connection, finished_before), makes_room=True
        ):
            removed += forgotten
            await self._sweep()
        swept = await self._sweep()  # rows of a thread that was deleted just before a kill -9
        while await self._write(self._collected.catch_up_any, long=True):  # a killed process may have left some
            pass
        if removed or swept:
            self._access.erase()
        await self._access.fill_reserve()
        return removed

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        return await self._write(lambda connection: tables.keep_secret(connection, name, fresh))

    async def _catch_up(self, owner: str, thread_id: str) -> None:
        """Write the thread's late documents, a slice at a time."""
        try:
            while self._collected.is_late(owner, thread_id):
                await self._write(lambda connection: self._collected.catch_up(connection, owner, thread_id), long=True)
        except StoreError as error:  # the messages are kept; remove_logs writes the rest
            logger.warning("documents of a thread could not be written yet", extra={"code": error.code})

    async def _remove_deleted(self) -> None:
        """Remove the rows that a deletion has marked."""
        try:
            await self._sweep()
        except StoreError as error:  # readers do not see it any more; remove_logs deletes the rest
            logger.warning("what is left of a deletion could not be removed yet", extra={"code": error.code})
        self._access.erase()

    async def _sweep(self) -> bool:
        """Delete all marked rows. Gives whether there were any."""
        swept = False
        while await self._write(_sweep_slice, makes_room=True):
            swept = True
        return swept

    # --- ways to the threads

    def _write_to(
        self,
        key: tuple[str, str],
        work: Callable[[sqlite3.Connection], Result],
        *,
        long: bool = False,
        makes_room: bool = False,
    ) -> Kept[Result]:
        """A write that changes a thread: the cache drops it."""

        def changed(_: object = None) -> None:
            self._threads.changed(key)

        return self._write(work, changed, changed, long=long, makes_room=makes_room)

    def _change(self, owner: str, thread_id: str, work: Callable[[sqlite3.Connection], Result]) -> Kept[Result]:
        """A write that changes the messages that a thread shows, or its collection."""
        return self._write_to(
            (owner, thread_id),
            lambda connection: self._collected.change(connection, owner, thread_id, partial(work, connection)),
            long=True,
        )

    def _write_thread(
        self, thread: Thread, keep: int, work: Callable[[sqlite3.Connection], KeptThread]
    ) -> Kept[KeptThread]:
        """Write a thread outside a run."""
        return self._write(
            work,
            lambda written: self._threads.written(thread, keep, written),
            lambda: self._threads.changed((thread.owner, thread.thread_id)),
            pages=_RUN_PAGES + _message_pages(len(thread.messages) - keep),
            long=bool(thread.collection),
        )

    def _forget_runs(self, logs: set[RunLog]) -> None:
        """Drop what memory has of these runs' logs, so that their next events are checked against the tables."""
        for key in [key for key, log in self._runs.items() if log in logs]:
            del self._runs[key]


def _message_pages(count: int) -> int:
    """About how many pages `count` messages take; most messages take a quarter of a page at most."""
    return count // 4 + 1


# --- within a transaction


def _sweep_slice(connection: sqlite3.Connection) -> bool:
    """Delete some of the marked rows. Gives whether there are more."""
    return message_rows.sweep(connection) or event_log.sweep_forgotten(connection)


# --- futures


def _failed(error: StoreError) -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    future.exception()  # marks it as seen
    return future
