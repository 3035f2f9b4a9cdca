"""The embedded store while another program holds its file, and when the file was taken away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import StoreError
from gateway.sqlite.address import Address
from gateway.sqlite.database import Database
from gateway.sqlite.file_watch import FileWatch
from gateway.sqlite.group_commit import GroupCommit
from gateway.sqlite.held_file import Patience
from gateway.sqlite.worker_time import WorkerTime
from gateway.store import Store, StoreEnvironment, ThreadChange
from gateway.stores.sqlite import STORE
from tests.movable_clock import MovableClock
from tests.stored_samples import (
    DEADLINE_SECONDS,
    OWNER,
    begin,
    ended,
    logged,
    numbered,
    records,
    run,
    sqlite_file,
    thread,
    within,
)
from tests.waiting import until

BUSY = "the store is busy: another program holds its file"


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: MovableClock) -> AsyncGenerator[Store]:
    opened = STORE.open("sqlite:///gateway.db", StoreEnvironment(clock, tmp_path))
    await within(opened.open())
    yield opened
    await within(opened.close())


@contextlib.contextmanager
def held(folder: Path) -> Generator[sqlite3.Connection]:
    """Another program that writes, until the block is left or it commits."""
    with sqlite_file(folder) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextlib.asynccontextmanager
async def opened(folder: Path, clock: MovableClock) -> AsyncGenerator[tuple[Database, GroupCommit]]:
    """The file and its writer, without the store around it."""
    database = await asyncio.to_thread(Database, Address(folder / "gateway.db"))
    worker_time = WorkerTime(asyncio.get_running_loop())
    commits = GroupCommit(database.writer, worker_time, lambda lost: None, database.reserve, monotonic=clock.monotonic)
    yield database, commits
    await within(commits.close())
    await asyncio.to_thread(database.close)


async def refused(work: object) -> StoreError:
    with pytest.raises(StoreError) as caught:
        await within(work)  # type: ignore[arg-type]
    return caught.value


async def tries(turns: int = 200) -> None:
    """Let the writer find that the file is held."""
    for _ in range(turns):
        await asyncio.sleep(0)


# --- another program holds the file


async def test_what_runs_say_waits_in_order_while_new_writes_give_up(
    store: Store, tmp_path: Path, clock: MovableClock
) -> None:
    await begin(store)
    await begin(store, "r2", "t2")
    with held(tmp_path):
        first = store.append_events(OWNER, "r1", 1, records(1, 2))
        renamed = asyncio.ensure_future(store.update_thread(OWNER, "t1", ThreadChange("later")))
        fresh = asyncio.ensure_future(store.begin_run(run("r3", "t3"), thread("t3"), keep=0))
        waited = asyncio.ensure_future(store.begin_run(run("r4", "t4"), thread("t4"), keep=0, patient=True))
        await tries()
        later = store.append_events(OWNER, "r1", 3, records(3, 3))
        end = store.end_run(ended("r2", "t2"), thread("t2"), keep=1, first=1, records=records(1, 1))
        await clock.advance(5)
        for work in (renamed, fresh):
            error = await refused(work)
            assert (error.code, error.status, error.message) == ("store_unavailable", 503, BUSY)
        await clock.advance(54)
        await tries()
        assert not any(each.done() for each in (first, waited, later, end))
        assert await within(store.load_run(OWNER, "r3")) is None
    for each in (first, waited, later, end):
        await within(each)
    assert await logged(store) == numbered(3)
    assert (await within(store.load_run(OWNER, "r2"))) == ended("r2", "t2")
    assert await within(store.load_run(OWNER, "r3")) is None, "who was refused has begun nothing"
    assert await within(store.load_thread(OWNER, "t4")) == thread("t4")
    assert (await within(store.load_summary(OWNER, "t1"))).title != "later"  # type: ignore[union-attr]


async def test_the_time_counts_from_when_the_file_was_held_and_not_for_each_write(
    store: Store, tmp_path: Path, clock: MovableClock
) -> None:
    await begin(store)
    with held(tmp_path):
        store.append_events(OWNER, "r1", 1, records(1, 1))
        await tries()
        await clock.advance(4)
        fresh = asyncio.ensure_future(store.begin_run(run("r3", "t3"), thread("t3"), keep=0))
        await tries()
        assert not fresh.done()
        await clock.advance(1)
        await refused(fresh)
        before = clock.monotonic()
        for number in range(20):
            await refused(store.begin_run(run(f"n{number}", "n"), thread("n"), keep=0))
        assert clock.monotonic() == before, "nobody waited again"
    await within(store.begin_run(run("r3", "t3"), thread("t3"), keep=0))


@pytest.mark.parametrize(("url", "seconds"), [("", 60), ("?max_wait_seconds=7", 7)])
async def test_after_its_time_a_run_fails_and_its_log_has_no_gap(
    tmp_path: Path, clock: MovableClock, caplog: pytest.LogCaptureFixture, url: str, seconds: int
) -> None:
    caplog.set_level(logging.INFO, "gateway.sqlite")
    store = STORE.open(f"sqlite:///gateway.db{url}", StoreEnvironment(clock, tmp_path))
    await within(store.open())
    await begin(store)
    with held(tmp_path):
        appended = store.append_events(OWNER, "r1", 1, records(1, 1))
        await tries()
        await clock.advance(seconds - 1)
        await tries()
        assert not appended.done()
        await clock.advance(1)
        assert (await refused(appended)).code == "store_unavailable"
    await refused(store.append_events(OWNER, "r1", 2, records(2, 2)))
    await within(store.append_events(OWNER, "r1", 1, records(1, 2)))
    assert await logged(store) == numbered(2)
    said = [record.message for record in caplog.records if record.levelno > logging.DEBUG]
    assert said == [
        "the store's file is held: writes wait, new ones are refused",
        "store cannot write",
        "the store's file is held no more",
        "store writes again",
    ]
    await within(store.close())


async def test_readiness_and_reads_do_not_wait(store: Store, tmp_path: Path, clock: MovableClock) -> None:
    await begin(store)
    with held(tmp_path):
        await within(store.check())  # it is held for a moment, as far as anybody knows: a write would wait
        assert await within(store.load_run(OWNER, "r1")) == run()
        assert [item.thread_id for item in (await within(store.list_threads(OWNER, limit=5, cursor=None))).items]
        assert await logged(store) == []
        await clock.advance(5)
        assert (await refused(store.check())).message == BUSY
        assert await within(store.load_thread(OWNER, "t1")) == thread()
    await within(store.update_thread(OWNER, "t1", ThreadChange("later")))
    await within(store.check())


async def test_a_lock_that_was_let_go_does_not_count_for_the_next(
    store: Store, tmp_path: Path, clock: MovableClock
) -> None:
    await within(store.check())
    with held(tmp_path):
        await within(store.check())
    await within(store.update_thread(OWNER, "t1", ThreadChange("x")))
    await clock.advance(100)
    with held(tmp_path):
        await within(store.check())


async def test_a_store_that_closes_waits_for_nobody(tmp_path: Path, clock: MovableClock) -> None:
    store = STORE.open("sqlite:///gateway.db", StoreEnvironment(clock, tmp_path))
    await within(store.open())
    await begin(store)
    with held(tmp_path):
        appended = store.append_events(OWNER, "r1", 1, records(1, 1))
        await tries()
        await within(store.close())  # the clock stands still
        assert (await refused(appended)).message == BUSY
    store = STORE.open("sqlite:///gateway.db", StoreEnvironment(clock, tmp_path))
    await within(store.open())
    await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    with held(tmp_path):
        store.stop_waiting()
        await refused(store.append_events(OWNER, "r1", 2, records(2, 2)))
    await within(store.close())


async def test_a_program_that_comes_in_between_doubles_nothing_and_loses_nothing(
    tmp_path: Path, clock: MovableClock
) -> None:
    """A batch that fails is tried write by write: another program may take the file after the first."""
    begins = 0
    async with opened(tmp_path, clock) as (database, commits):
        await within(commits.submit(note))  # the first commit is the thread's

        def count_begins(statement: str) -> None:
            nonlocal begins
            begins += statement == "BEGIN IMMEDIATE"
            if begins == 3:  # the batch's, its first write's, and now its second write's
                database.writer.set_trace_callback(None)
                other.execute("BEGIN IMMEDIATE")

        with sqlite_file(tmp_path) as other:
            database.writer.set_trace_callback(count_begins)
            first, failing, last = commits.submit(note), commits.submit(fail), commits.submit(note)
            await within(first)
            await tries()
            assert (failing.done(), last.done()) == (False, False)
            other.execute("COMMIT")
            assert isinstance(await refused(failing), StoreError)
            await within(last)
            assert other.execute("SELECT count(*) FROM write_probe").fetchone() == (3,)


def note(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO write_probe (content) VALUES (x'00')")


def fail(_: sqlite3.Connection) -> None:
    raise sqlite3.IntegrityError("no")


# --- it is rewritten


async def deleted_much(store: Store) -> None:
    await begin(store)
    for number in range(300):
        await begin(store, f"x{number}", f"x{number}")
        await within(store.append_events(OWNER, f"x{number}", 1, records(1, 100)))
    for number in range(300):
        await within(store.delete_thread(OWNER, f"x{number}"))


async def test_a_rewritten_file_is_small_and_what_runs_say_meanwhile_waits(store: Store, tmp_path: Path) -> None:
    await deleted_much(store)
    rewriting = asyncio.ensure_future(store.vacuum())
    await asyncio.sleep(0)
    appended = store.append_events(OWNER, "r1", 1, records(1, 2))
    await within(store.check())
    done = await within(rewriting)
    await within(appended)
    assert done.after == (tmp_path / "gateway.db").stat().st_size
    assert done.after < done.before / 2
    assert done.seconds > 0
    assert await logged(store) == numbered(2)
    assert await within(store.load_thread(OWNER, "t1")) == thread()
    with sqlite_file(tmp_path) as other:
        assert other.execute("PRAGMA freelist_count").fetchone() == (0,)


@contextlib.contextmanager
def long_statement(connection: sqlite3.Connection) -> Generator[threading.Event]:
    """The connection's next long statement stands still until the block is left; the event says that it has begun.

    The handler stays: to take it away would wait for the statement, with the interpreter that the handler needs.
    """
    begun, over = threading.Event(), threading.Event()

    def stand_still() -> int:
        begun.set()
        over.wait(DEADLINE_SECONDS)
        return 0

    connection.set_progress_handler(stand_still, 100)
    try:
        yield begun
    finally:
        over.set()


async def test_runs_wait_for_the_rewriting_as_long_as_it_takes_and_new_writes_give_up(
    tmp_path: Path, clock: MovableClock
) -> None:
    async with opened(tmp_path, clock) as (database, commits):
        with long_statement(database.writer) as begun:
            rewriting = commits.vacuum(int)
            await until(begun.is_set)
            patient = commits.submit(note, patience=Patience.LONG)
            fresh = commits.submit(note)
            await clock.advance(1000)
            error = await refused(fresh)
            assert (error.code, error.message) == (
                "store_unavailable",
                "the store's file is being rewritten; try again in a moment",
            )
            await tries()
            assert not patient.done()
        await within(patient)
        seconds, _ = await within(rewriting)
        assert seconds > 0


async def test_a_store_that_closes_interrupts_the_rewriting(tmp_path: Path, clock: MovableClock) -> None:
    async with opened(tmp_path, clock) as (database, commits):
        with long_statement(database.writer) as begun:
            rewriting = commits.vacuum(int)
            await until(begun.is_set)
            commits.stop_waiting()
        assert (await refused(rewriting)).message == "the gateway ends; the store's file is as it was"
        assert (await refused(commits.vacuum(int))).message == "the gateway ends; the store's file is as it was"
        await within(commits.submit(note))


async def test_nothing_is_rewritten_while_another_program_holds_the_file(store: Store, tmp_path: Path) -> None:
    await begin(store)
    with held(tmp_path):
        assert (await refused(store.vacuum())).message == BUSY
        appended = store.append_events(OWNER, "r1", 1, records(1, 1))
        await tries()
        assert (await refused(store.vacuum())).message == BUSY
    await within(appended)
    await within(store.vacuum())


# --- the file was taken away


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", ["gateway.db", "gateway.db-wal"])
async def test_a_file_that_was_taken_away_is_noticed_by_the_next_write_after_a_second(
    store: Store, tmp_path: Path, clock: MovableClock, caplog: pytest.LogCaptureFixture, name: str, replaced: bool
) -> None:
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    (tmp_path / name).rename(tmp_path / "moved")
    if replaced:
        (tmp_path / name).touch()
    await clock.advance(1)
    for work in (
        store.append_events(OWNER, "r1", 2, records(2, 2)),
        store.begin_run(run("r2", "t2"), thread("t2"), keep=0),
        store.end_run(ended(), thread(), keep=1, first=2, records=records(2, 2)),
        store.check(),
    ):
        error = await refused(work)
        assert (error.code, error.status) == ("store_unavailable", 503)
        assert "removed or replaced" in error.message
    told = [record for record in caplog.records if record.message == "store cannot write"]
    assert len(told) == 1
    assert str(tmp_path / name) in str(vars(told[0])["cause"])
    (tmp_path / "moved").rename(tmp_path / name)  # it is the same file again
    await within(store.check())
    await within(store.append_events(OWNER, "r1", 2, records(2, 2)))
    assert await logged(store) == numbered(2)


def test_the_files_are_looked_at_once_a_second_and_each_time_while_one_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    path.touch()
    watch = FileWatch([path])
    assert watch.error_if_due(0.0) is None
    path.rename(tmp_path / "moved")
    assert watch.error_if_due(0.9) is None
    assert watch.error_if_due(1.0) is not None
    assert watch.error_if_due(1.1) is not None
    (tmp_path / "moved").rename(path)
    assert watch.error_if_due(1.2) is None
    path.unlink()
    assert watch.error_if_due(2.1) is None
    assert watch.error_if_due(2.2) is not None
