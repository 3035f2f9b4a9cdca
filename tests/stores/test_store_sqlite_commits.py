"""Where the embedded store writes: on the event loop what is short, on a thread what may wait for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.records import EventRecords
from gateway.sqlite.address import Address
from gateway.sqlite.database import Database
from gateway.sqlite.disk_pace import DiskPace
from gateway.sqlite.group_commit import CHECKPOINT_PAGES, GroupCommit
from gateway.sqlite.worker_time import WorkerTime
from tests.stored_samples import (
    DEADLINE_SECONDS,
    OWNER,
    begin,
    records,
    run,
    sqlite_file,
    sqlite_store,
    thread,
    within,
)


@contextlib.asynccontextmanager
async def opened(
    folder: Path, *, checkpoint_pages: int = CHECKPOINT_PAGES, pace: DiskPace | None = None
) -> AsyncGenerator[GroupCommit]:
    """Without a `pace` the loop goes on to write after a slow commit, as there may be one on a busy machine."""
    database = await asyncio.to_thread(Database, Address(folder / "gateway.db"))
    worker_time = WorkerTime(asyncio.get_running_loop())
    commits = GroupCommit(
        database.writer, worker_time, lambda lost: None, database.reserve, checkpoint_pages=checkpoint_pages,
        pace=pace or DiskPace(first_rest_seconds=0.0),
    )  # fmt: skip
    yield commits
    await within(commits.close())
    await asyncio.to_thread(database.close)


@pytest_asyncio.fixture
async def commits(tmp_path: Path) -> AsyncGenerator[GroupCommit]:
    async with opened(tmp_path) as commits:
        yield commits


@contextlib.contextmanager
def no_thread_asking_for_the_interpreter() -> Generator[None]:
    """Giving the interpreter to a thread that asks for it counts as a wait; on a busy machine one may ask."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(DEADLINE_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def place(commits: GroupCommit, *, pages: int = 1, long: bool = False, size: int = 10) -> str:
    """The name of the thread that does such a write, "" for the event loop's."""

    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO write_probe (content) VALUES (zeroblob(?))", (size,))
        here = threading.current_thread()
        return "" if here is threading.main_thread() else here.name

    return await within(commits.submit(work, pages=pages, long=long))


async def test_the_loop_writes_what_is_short_and_the_thread_what_is_not(commits: GroupCommit) -> None:
    assert await place(commits) == "sqlite-writer", "the first commit begins the log and flushes its head"
    assert await place(commits) == ""
    assert await place(commits, long=True) == "sqlite-writer"
    assert await place(commits, pages=10_000) == "sqlite-writer"


async def test_the_thread_empties_the_log_and_begins_it_anew(tmp_path: Path) -> None:
    async with opened(tmp_path, checkpoint_pages=10) as commits:
        await place(commits)
        places = [await place(commits, pages=11, size=40_000) for _ in range(300)]
        assert places.count("sqlite-writer") >= 20
        assert "" in places
        # 12 MB were written, a megabyte before the first checkpoint
        assert (tmp_path / "gateway.db-wal").stat().st_size < 6 * 2**20


class ObservedPace(DiskPace):
    """Notes whether the last commit waited for anything: the file system too makes a commit wait on a busy machine."""

    def __init__(self) -> None:
        super().__init__(first_rest_seconds=3600.0)
        self.waited = False
        self._before = 0

    def __enter__(self) -> None:
        self._before = waits_of_this_thread()
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.waited = waits_of_this_thread() != self._before


def waits_of_this_thread() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def compute(_: sqlite3.Connection) -> None:
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass


async def test_a_commit_that_only_computes_leaves_the_writing_to_the_loop(tmp_path: Path) -> None:
    for attempt in range(100):
        folder, pace = tmp_path / str(attempt), ObservedPace()
        folder.mkdir()
        async with opened(folder, pace=pace) as commits:
            await place(commits)
            with no_thread_asking_for_the_interpreter():
                await within(commits.submit(compute))
            if pace.waited:  # for others on this machine, which says nothing
                continue
            assert await place(commits) == "", "who computes, or is not given a processor, waits for no disk"
            return
    pytest.fail("not one commit of a hundred went without a wait")


async def test_after_a_commit_that_waited_the_thread_writes_for_a_while(tmp_path: Path) -> None:
    async with opened(tmp_path, pace=DiskPace(first_rest_seconds=3600.0)) as commits:
        await place(commits)
        await within(commits.submit(lambda _: threading.Event().wait(0.05)))
        assert await place(commits) == "sqlite-writer"


async def test_while_another_program_writes_the_loop_does_not_wait(commits: GroupCommit, tmp_path: Path) -> None:
    await place(commits)
    with sqlite_file(tmp_path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(place(commits))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()
        assert commits.connection is not None, "no thread waits for it either"
        connection.execute("COMMIT")
    assert await within(writing) == ""
    assert await place(commits) == ""


async def test_writes_keep_their_order_wherever_they_are_done(commits: GroupCommit) -> None:
    done: list[int] = []

    def note(number: int) -> None:
        commits.submit(lambda _: done.append(number), long=number % 3 == 0, pages=1 + 400 * (number % 7 == 0))

    for number in range(200):
        note(number)
        if number % 5 == 0:
            await asyncio.sleep(0)
    await within(commits.submit(lambda _: None))
    assert done == list(range(200))


async def test_the_log_stays_small_under_many_runs(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    for number in range(20):
        await begin(store, f"r{number}", f"t{number}")
    for first in range(1, 301):
        appended = [
            store.append_events(OWNER, f"r{number}", first, EventRecords(1, b"x" * 2000)) for number in range(20)
        ]
        await asyncio.wait_for(asyncio.gather(*appended), DEADLINE_SECONDS)
    size = (tmp_path / "gateway.db-wal").stat().st_size
    await within(store.close())
    assert size < 3 * CHECKPOINT_PAGES * 4096, "12 MB were written in all, and each page again and again"


async def test_events_that_come_before_their_run_is_kept_as_begun_leave_no_gap(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    begins = asyncio.create_task(store.begin_run(run(), thread(), keep=0))
    await asyncio.sleep(0)
    early = store.append_events(OWNER, "r1", 1, records(1, 1))
    await within(begins)
    later = store.append_events(OWNER, "r1", 2, records(2, 2))
    await within(asyncio.gather(early, later))
    assert await within(store.last_sequence(OWNER, "r1")) == 2
    await within(store.close())


def test_a_disk_that_is_slow_again_and_again_is_left_alone_for_longer() -> None:
    pace = DiskPace()
    assert pace.is_quick()
    rests = []
    now = 1e9
    for _ in range(9):
        pace.rest(now)
        assert not pace.is_quick()
        rests.append(pace.rests_until - now)
        now = pace.rests_until
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    pace.rest(now + 100)
    assert pace.rests_until == now + 101, "after a calm time it begins anew"
