"""How the embedded store reaches its file: writes in the order of the calls, reads and searches in threads.

Below: database, group_commit. Above: documents and the store. Reads and searches have their own threads and
connections, except for index look-ups of a row or two (`look`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gateway.clock import Kept
from gateway.embedded_index.search_turns import Rest, SearchTurns
from gateway.errors import StoreError
from gateway.records import EventRecords
from gateway.sqlite.address import Address
from gateway.sqlite.database import READERS, Database
from gateway.sqlite.erasure import ErasureTimes
from gateway.sqlite.group_commit import GroupCommit
from gateway.sqlite.held_file import BusyStoreError, HoldTimes, Patience
from gateway.sqlite.worker_turns import WorkerTurns
from gateway.sqlite.writes import RunLog
from gateway.store import Vacuumed

Result = TypeVar("Result")

# About what a new run needs at once: a store that passes its check can begin one.
_PROBE_BYTES = 32 * 1024


class StoreAccess:
    """The file while it is open. It belongs to the event loop that opened it.

    `on_path` is called with the file's path before it is used, None for a store in memory; `on_lost` and `monotonic` as
    GroupCommit has them.
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
        self._searches: SearchTurns | None = None
        self._turns: WorkerTurns | None = None
        self._probe: asyncio.Future[None] | None = None

    async def open(self) -> None:
        if self._database is not None:
            raise StoreError("the store is open already")
        database = await asyncio.to_thread(self._open_files)
        self._database = database
        self._turns = WorkerTurns(asyncio.get_running_loop())
        self._commits = GroupCommit(
            database.writer,
            self._turns,
            self._on_lost,
            database.reserve,
            erasure_times=self._erasure_times,
            watch=database.watch,
            hold_times=HoldTimes(long_seconds=self._address.max_wait_seconds),
            monotonic=self._monotonic,
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._searches = SearchTurns("sqlite-search")

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
        except BusyStoreError:  # for a moment, as far as is known: a write would wait, and not fail
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
        """As GroupCommit.submit. A cancelled caller is told so only when the write is done."""
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
        before = database.path.stat().st_size
        seconds = await asyncio.shield(commits.vacuum())
        return Vacuumed(seconds, before, database.path.stat().st_size)

    def stop_waiting(self) -> None:
        """As GroupCommit has it."""
        if self._commits is not None:
            self._commits.stop_waiting()

    def erase(self) -> None:
        """As GroupCommit has it."""
        if self._commits is not None:
            self._commits.erase()

    async def fill_reserve(self) -> None:
        """Take the disk space for deletions again, if there is room for it now."""
        reserve = None if self._database is None else self._database.reserve
        if reserve is not None:
            await self.write(lambda _: reserve.fill(), long=True)

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """A read in a thread."""
        database, readers, turns = self._database, self._readers, self._turns
        if database is None or readers is None or turns is None:
            raise StoreError("the store is not open")
        if database.in_memory:
            return await self.write(work, long=True)

        def run() -> Result:
            try:
                with database.reader() as connection:
                    return work(connection)
            finally:
                turns.finished()

        turns.start()
        reading = asyncio.get_running_loop().run_in_executor(readers, run)
        reading.add_done_callback(lambda _: turns.settle())
        return await reading

    async def search(self, owner: str, work: Callable[[sqlite3.Connection, Rest], Result]) -> Result:
        """A read of the owner's that may take long. It has a thread to itself, so that no other read waits for it, and
        lets other owners' searches work whenever it calls what `work` gets. In memory everything waits for it.
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
        """A read of a row or two in this turn of the loop; None where that is impossible.

        It runs on the event loop although it may touch the disk: nearly every request begins a new run, and a reader's
        thread takes 200 us where this takes 10 (from the page cache; a page that must be read from the disk delays the
        loop once). It waits for no lock: when the file is held, or anything else is wrong, it gives None, and a
        reader's thread is asked.
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
    """There is one connection, and nobody else could use it meanwhile."""


def _probe_write(connection: sqlite3.Connection, database: Database) -> None:
    """Write enough to need new pages, and free them again."""
    database.watch.check()
    connection.execute("INSERT INTO write_probe (content) VALUES (zeroblob(?))", (_PROBE_BYTES,))
    connection.execute("DELETE FROM write_probe")
