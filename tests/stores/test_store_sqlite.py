"""What is particular to the embedded store: its commits, its readiness, its errors, the threads it remembers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import GatewayError, StoreError, StoreFullError
from gateway.sqlite.address import Address
from gateway.sqlite.database import store_error
from gateway.sqlite.store import SqliteStore
from gateway.sqlite.thread_cache import ThreadCache
from gateway.sqlite.worker_time import WorkerTime
from gateway.store import RunRecord, Store, Thread, ThreadChange
from tests.stored_samples import (
    DEADLINE_SECONDS,
    OWNER,
    begin,
    delta,
    ended,
    logged,
    messages,
    numbered,
    records,
    run,
    sqlite_file,
    sqlite_store,
    thread,
    within,
)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = sqlite_store(tmp_path)
    await within(opened.open())
    yield opened
    await within(opened.close())


# --- commits


async def test_a_run_is_looked_up_without_a_thread_where_one_at_most_has_its_id(store: Store) -> None:
    """A thread takes ten times as long, and each message of A2A looks for the run of an earlier copy of it."""
    assert _answer_at_once(store.runs_known_as(OWNER, "r1")) == []
    await begin(store)
    assert [found.run_id for found in _answer_at_once(store.runs_known_as(OWNER, "r1"))] == ["r1"]


def _answer_at_once(asked: Coroutine[object, None, list[RunRecord]]) -> list[RunRecord]:
    """What is answered in this turn of the loop."""
    with pytest.raises(StopIteration) as answered:
        asked.send(None)
    found: list[RunRecord] = answered.value.value
    return found


async def test_events_of_one_commit_are_one_row_for_each_run(store: Store, tmp_path: Path) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    for number in range(1, 51):
        store.append_events(OWNER, "r1", number, records(number, number))
        store.append_events(OWNER, "r2", number, records(number, number))
    await within(store.check())  # writes are in order: these are done
    with sqlite_file(tmp_path) as connection:
        rows = connection.execute("SELECT first, last FROM events ORDER BY run").fetchall()
    assert rows == [(1, 50), (1, 50)]


async def test_what_two_runs_append_in_one_turn_of_the_loop_is_one_commit(store: Store) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    first = store.append_events(OWNER, "r1", 1, records(1, 1))
    await within(store.append_events(OWNER, "r2", 1, records(1, 1)))
    assert first.done()
    assert await logged(store) == numbered(1)


async def test_a_runs_end_and_what_was_appended_in_the_same_turn_of_the_loop_are_one_commit(store: Store) -> None:
    await begin(store)
    appended = store.append_events(OWNER, "r1", 1, records(1, 3))
    end = store.end_run(ended(), thread(count=2), keep=1, first=4, records=records(4, 4))
    await within(appended)
    assert end.done()
    assert await logged(store) == numbered(4)


async def test_a_busy_event_loop_starves_nobody(store: Store) -> None:
    """Left to itself the loop may take Python's lock back before the writer wakes, for seconds: see worker_time."""
    busy = True

    async def spin() -> None:
        while busy:
            until = time.perf_counter() + 0.0002
            while time.perf_counter() < until:
                pass
            await asyncio.sleep(0)

    for number in range(40):
        await begin(store, f"r{number}", f"t{number}")
    spinning = asyncio.create_task(spin())
    async with asyncio.timeout(DEADLINE_SECONDS):  # all of it: left to itself each commit may take a second or more
        for first in range(1, 61):
            appended = {store.append_events(OWNER, f"r{number}", first, records(first, first)) for number in range(40)}
            await asyncio.gather(*appended)
            assert await store.last_sequence(OWNER, "r7") == first
    busy = False
    await within(spinning)


async def longest_turn(turns: int) -> float:
    """The longest of so many turns of the event loop, in seconds."""
    longest, last = 0.0, time.perf_counter()
    for _ in range(turns):
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


async def test_the_loop_stands_still_for_a_late_job_but_not_for_ever() -> None:
    worker_time = WorkerTime(asyncio.get_running_loop(), late_seconds=0.0, stand_still_seconds=0.25)
    worker_time.start()
    assert await longest_turn(10) >= 0.25
    worker_time.finished()
    worker_time.settle()


async def test_a_job_that_nobody_waits_for_any_more_does_not_end_the_waits_for_others() -> None:
    worker_time = WorkerTime(asyncio.get_running_loop(), late_seconds=0.0, stand_still_seconds=0.25)
    worker_time.start()
    worker_time.settle()  # a read whose reader was cancelled
    worker_time.finished()  # and which a thread was busy with all the same
    worker_time.start()
    assert await longest_turn(10) >= 0.25
    worker_time.finished()
    worker_time.settle()


async def test_the_loop_goes_on_when_the_job_is_done() -> None:
    worker_time = WorkerTime(asyncio.get_running_loop(), late_seconds=0.0, stand_still_seconds=30.0)
    worker_time.start()
    worker_time.finished()
    assert await longest_turn(10) < 15, "a result that only waits for the loop is not waited for"
    worker_time.settle()
    assert await longest_turn(10) < 15, "no job is out"
    worker_time.start()
    thread_of_job = threading.Thread(target=worker_time.finished)
    thread_of_job.start()
    assert await longest_turn(10) < 15, "a job that is done ends the wait"
    worker_time.settle()
    thread_of_job.join(DEADLINE_SECONDS)


async def test_a_long_read_by_another_program_holds_no_write_up(store: Store, tmp_path: Path) -> None:
    await begin(store)
    with sqlite_file(tmp_path) as connection:
        connection.execute("BEGIN")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        await within(store.append_events(OWNER, "r1", 1, records(1, 3)))
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


async def test_a_write_waits_for_another_programs_write(store: Store, tmp_path: Path) -> None:
    await begin(store)
    with sqlite_file(tmp_path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        appended = store.append_events(OWNER, "r1", 1, records(1, 3))
        renamed = asyncio.ensure_future(store.update_thread(OWNER, "t1", ThreadChange("later")))
        assert await within(store.load_run(OWNER, "r1")) == run()
        assert not appended.done()
        connection.execute("COMMIT")
    await within(appended)
    assert await within(renamed)
    assert await logged(store) == numbered(3)


# --- readiness, errors


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_taken_away_is_noticed(store: Store, tmp_path: Path, replaced: bool) -> None:
    await within(store.check())
    (tmp_path / "gateway.db").rename(tmp_path / "moved.db")
    if replaced:
        (tmp_path / "gateway.db").touch()
    with pytest.raises(StoreError, match="removed or replaced"):
        await within(store.check())


async def test_checking_often_makes_the_file_no_larger(store: Store, tmp_path: Path) -> None:
    for _ in range(5):
        await within(store.check())
    with sqlite_file(tmp_path) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()
    for _ in range(200):
        await within(store.check())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("PRAGMA page_count").fetchone() == pages
        assert connection.execute("SELECT count(*) FROM write_probe").fetchone() == (0,)


def test_every_error_of_sqlite_has_words_of_ours() -> None:
    """Its result codes are 1 to 28 (https://sqlite.org/rescode.html), extended by higher bytes."""
    for code in range(1, 29):
        for extended in (code, code | 7 << 8):
            error = sqlite3.OperationalError("sqlite3.OperationalError: secret/path.db")
            error.sqlite_errorcode = extended
            mapped = store_error(error)
            assert isinstance(mapped, StoreFullError) == (code == sqlite3.SQLITE_FULL)
            assert mapped.status == 503
            assert mapped.message.startswith(("the store", "a record"))
            assert "sqlite" not in mapped.message.lower()
            assert mapped.__cause__ is error
    shared_memory = sqlite3.OperationalError("disk I/O error")
    shared_memory.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert isinstance(store_error(shared_memory), StoreFullError)
    assert isinstance(store_error(sqlite3.ProgrammingError("Cannot operate on a closed database.")), StoreError)


async def test_a_fault_of_ours_fails_its_own_write_only(store: Store) -> None:
    await begin(store)
    wrong: Thread = thread("t2")
    object.__setattr__(wrong, "updated_at", object())
    good = store.append_events(OWNER, "r1", 1, records(1, 1))
    with pytest.raises((GatewayError, TypeError, sqlite3.Error)) as caught:
        await within(store.begin_run(run("r2", "t2"), wrong, keep=0))
    assert not isinstance(caught.value, sqlite3.Error)
    await within(good)
    await begin(store, "r3", "t3")
    assert await within(store.load_run(OWNER, "r2")) is None


# --- threads that were just used


async def test_a_thread_just_used_is_not_read_again(store: Store, tmp_path: Path) -> None:
    await within(store.begin_run(run(), thread(count=2000), keep=0))
    first = await within(store.load_thread(OWNER, "t1"))
    assert first is not None
    assert await within(store.load_thread(OWNER, "t1")) is first
    longer = (*first.messages, *messages(2001)[2000:])
    given = Thread(OWNER, "t1", "assistant", 100.0, 200.0, messages=longer)
    await within(store.end_run(ended(), given, keep=2000, first=1, records=records(1, 1)))
    assert await within(store.load_thread(OWNER, "t1")) is given
    await within(store.close())
    again = sqlite_store(tmp_path)
    await within(again.open())
    assert await within(again.load_thread(OWNER, "t1")) == given
    await within(again.close())


async def test_a_store_without_room_to_remember_reads_the_same(tmp_path: Path) -> None:
    store = SqliteStore(Address(tmp_path / "gateway.db"), cache_bytes=0)
    await within(store.open())
    await begin(store)
    first = await within(store.load_thread(OWNER, "t1"))
    assert first == thread()
    assert await within(store.load_thread(OWNER, "t1")) is not first
    await within(store.close())


def test_the_threads_used_longest_ago_are_forgotten_first() -> None:
    cache = ThreadCache(limit_bytes=30_000)
    for name in ("t1", "t2", "t3"):
        cache.written((OWNER, name), thread(name, count=5), 0, [400] * 5, 0)
    assert cache.get((OWNER, "t1")) is not None
    cache.written((OWNER, "t4"), thread("t4", count=5), 0, [400] * 5, 0)
    assert [cache.get((OWNER, name)) is not None for name in ("t1", "t2", "t3", "t4")] == [True, False, True, True]
    cache.written((OWNER, "t5"), thread("t5"), 0, [10**9], 0)
    assert cache.get((OWNER, "t5")) is None
    assert cache.get((OWNER, "t4")) is not None, "one that is too large drives nobody out"


def test_a_thread_that_grows_is_counted_as_a_whole() -> None:
    cache = ThreadCache(limit_bytes=50_000)
    cache.written((OWNER, "t1"), thread(count=1), 0, [100], 0)
    for count in range(2, 100):
        cache.written((OWNER, "t1"), thread(count=count), count - 1, [100], 0)
    assert cache.get((OWNER, "t1")) is None
    cache.written((OWNER, "t1"), thread(count=100), 99, [100], 0)
    assert cache.get((OWNER, "t1")) is None, "the size of what was kept is not known"


def test_what_was_read_before_a_write_is_not_remembered_after_it() -> None:
    cache = ThreadCache()
    key = (OWNER, "t1")
    loading = cache.start_loading(key)
    cache.written(key, thread(count=2), 0, [10, 10], 0)
    cache.finish_loading(key, loading, thread(count=1), [10], 0)
    assert cache.get(key) == thread(count=2)
    loading = cache.start_loading(key)
    cache.changed(key)
    cache.finish_loading(key, loading, thread(count=1), [10], 0)
    assert cache.get(key) is None
    loading = cache.start_loading(key)
    cache.finish_loading(key, loading, thread(count=1), [10], 0)
    assert cache.get(key) == thread(count=1)


def test_a_thread_that_was_not_there_is_known_to_be_absent_until_it_is_written() -> None:
    cache = ThreadCache()
    key = (OWNER, "t1")
    cache.finish_loading(key, cache.start_loading(key), None, [], 0)
    assert cache.get(key) is False
    cache.written(key, thread(count=1), 0, [10], 0)
    assert cache.get(key) == thread(count=1)
    cache.changed(key)
    loading = cache.start_loading(key)
    cache.changed(key)
    cache.finish_loading(key, loading, None, [], 0)
    assert cache.get(key) is None, "it was written while it was read"
    cache.give_up_loading(key, cache.start_loading(key))
    assert cache.get(key) is None, "nothing was read"
    for number in range(2000):
        cache.finish_loading((OWNER, str(number)), cache.start_loading((OWNER, str(number))), None, [], 0)
    assert cache.get((OWNER, "0")) is None, "only so many are remembered"
    assert cache.get((OWNER, "1999")) is False


def test_the_samples_are_what_the_log_shows() -> None:
    assert numbered(2) == [(1, delta(1)), (2, delta(2))]
