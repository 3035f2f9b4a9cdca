"""How the embedded store reaches its file: writes in the order of the calls, reads and searches in threads.

Below: database, group_commit. Above: documents and the store. Reads and searches have their own threads and
connections, except for index look-ups of a row or two (`look`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from gateway.clock import Kept
from gateway.embedded_index.search_slots import Rest, SearchSlots
from gateway.errors import StoreError
from gateway.records import EventRecords
from gateway.sqlite.address import Address
from gateway.sqlite.database import READERS, Database
from gateway.sqlite.erasure import ErasureTimes
from gateway.sqlite.group_commit import GroupCommit
from gateway.sqlite.held_file import BusyStoreError, HoldTimes, Patience
from gateway.sqlite.private_files import bytes_on_disk
from gateway.sqlite.worker_time import WorkerTime
from gateway.sqlite.writes import RunLog
from gateway.store import Vacuumed

Result = TypeVar("Result")

# About as much as a new run writes at first: a store that passes its check can begin a run.
_PROBE_BYTES = 32 * 1024


class StoreAccess:
    """The file while it is open. It belongs to the event loop that opened it.

    `on_path` is called with the file's path before the file is used, with None for a store in memory. `on_lost` and
    `monotonic` are GroupCommit's.
    """

    def __init__(
        self,
        address: Address,
        on_path: Callable[[Path | None], None],
        on_lost: Callable[[set[RunLog]], None],
        erasure_times: ErasureTimes,
        monotonic: Callable[[], float],
    ) -> None:
        self._address = address
        self._on_path = on_path
        self._on_lost = on_lost
        self._erasure_times = erasure_times
        self._monotonic = monotonic
        self._database: Database | None = None
        self._commits: GroupCommit | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._searches: SearchSlots | None = None
        self._worker_time: WorkerTime | None = None
        self._probe: asyncio.Future[None] | None = None

    async def open(self) -> None:
        if self._database is not None:
            raise StoreError("the store is open already")
        database = await asyncio.to_thread(self._open_files)
        self._database = database
        self._worker_time = WorkerTime(asyncio.get_running_loop())
        self._commits = GroupCommit(
            database.writer,
            self._worker_time,
            self._on_lost,
            database.reserve,
            erasure_times=self._erasure_times,
            watch=database.watch,
            hold_times=HoldTimes(long_seconds=self._address.max_wait_seconds),
            monotonic=self._monotonic,
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._searches = SearchSlots("sqlite-search")

    def _open_files(self) -> Database:
        database = Database(self._address)
        try:
            self._on_path(database.path)
        except BaseException:
            database.close()
            raise
        return database

    async def close(self) -> None:
        database, commits, readers, searches = self._database, self._commits, self._readers, self._searches
        self._database = self._commits = self._readers = self._searches = None
        if commits is not None:
            await commits.close()
        if readers is not None:
            await asyncio.to_thread(readers.shutdown)
        if searches is not None:
            await asyncio.to_thread(searches.close)
        if database is not None:
            await asyncio.to_thread(database.close)

    async def check(self) -> None:
        """As Store.check."""
        database, commits = self._database, self._commits
        if database is None or commits is None:
            raise StoreError("the store is not open")
        if self._probe is None or self._probe.done():
            self._probe = commits.submit(
                lambda connection: _probe_write(connection, database), long=True, patience=Patience.NONE
            )
        try:
            await asyncio.shield(self._probe)
        except BusyStoreError:  # the file may be held only for a moment: a write would wait, and not fail
            if commits.refuses:
                raise

    def write(
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
        """As GroupCommit.submit. A cancelled caller gets its CancelledError only when the write is done."""
        if self._commits is None:
            raise StoreError("the store is not open")
        return self._commits.submit(
            work, on_kept, on_failed, pages=pages, long=long, makes_room=makes_room, patience=patience
        )

    def append(self, log: RunLog, first: int, records: EventRecords) -> Kept[None]:
        """Queue a run's next events."""
        if self._commits is None:
            raise StoreError("the store is not open")
        return self._commits.append(log, first, records)

    async def vacuum(self) -> Vacuumed:
        """As Store.vacuum."""
        database, commits = self._database, self._commits
        if database is None or commits is None:
            raise StoreError("the store is not open")
        if database.path is None:
            return Vacuumed(0.0, 0, 0)
        database.watch.check()
        size = partial(bytes_on_disk, database.path)
        before = size()
        seconds, after = await asyncio.shield(commits.vacuum(size))
        return Vacuumed(seconds, before, after)

    def stop_waiting(self) -> None:
        """As GroupCommit.stop_waiting."""
        if self._commits is not None:
            self._commits.stop_waiting()

    def erase(self) -> None:
        """As GroupCommit.erase."""
        if self._commits is not None:
            self._commits.erase()

    async def fill_reserve(self) -> None:
        """Reserve disk space for deletions again, if the disk has room for it now."""
        reserve = None if self._database is None else self._database.reserve
        if reserve is not None:
            await self.write(lambda _: reserve.fill(), long=True)

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do `work`, which only reads, in a reader's thread."""
        database, readers, worker_time = self._database, self._readers, self._worker_time
        if database is None or readers is None or worker_time is None:
            raise StoreError("the store is not open")
        if database.in_memory:
            return await self.write(work, long=True)

        def run() -> Result:
            try:
                with database.reader() as connection:
                    return work(connection)
            finally:
                worker_time.finished()

        worker_time.start()
        reading = asyncio.get_running_loop().run_in_executor(readers, run)
        reading.add_done_callback(lambda _: worker_time.settle())
        return await reading

    async def search(self, owner: str, work: Callable[[sqlite3.Connection, Rest], Result]) -> Result:
        """Do `work`, a read for this owner that may take long.

        It runs on the thread for searches, so that no other read waits for it. Other owners' searches go on whenever
        `work` calls its second argument. In a store in memory, every other call waits until `work` is done.
        """
        database, searches = self._database, self._searches
        if database is None or searches is None:
            raise StoreError("the store is not open")
        if database.in_memory:
            return await self.write(lambda connection: work(connection, _go_on), long=True)

        def run(rest: Rest) -> Result:
            with database.reader() as connection:
                return work(connection, rest)

        return await searches.run(owner, run)

    def look(self, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """Read a row or two at once, on the event loop; None if that is impossible.

        The event loop may read from the disk here, because nearly every request begins a new run: a look takes 10 us
        (from the page cache; a page that must be read from the disk delays the loop once), a reader's thread 200. It
        waits for no lock: when the file is held, or SQLite fails otherwise, it gives None, and the caller uses `read`.
        """
        database, commits = self._database, self._commits
        if database is None or commits is None:
            return None
        connection = commits.connection or database.loop_reader  # the connection that wrote last has the pages cached
        if connection is None:
            return None
        try:
            return work(connection)
        except sqlite3.Error:
            return None


def _go_on() -> None:
    """Stands in for Rest in a store in memory: no other search can work, since this one uses the only connection."""


def _probe_write(connection: sqlite3.Connection, database: Database) -> None:
    """Write enough to need new pages, and free them again."""
    database.watch.check()
    connection.execute("INSERT INTO write_probe (content) VALUES (zeroblob(?))", (_PROBE_BYTES,))
    connection.execute("DELETE FROM write_probe")
