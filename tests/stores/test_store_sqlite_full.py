"""The embedded store without room, and with room again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import StoreError, StoreFullError
from gateway.sqlite.reserve import MOST_BYTES
from gateway.store import Store, ThreadChange
from tests.full_disks import mounted_disk, take_all
from tests.stored_samples import (
    OWNER,
    begin,
    ended,
    logged,
    numbered,
    records,
    run,
    sqlite_file,
    sqlite_store,
    thread,
    within,
)

SMALL = "sqlite:///gateway.db?max_size_bytes=400000"


@pytest_asyncio.fixture
async def small_store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = sqlite_store(tmp_path, SMALL)
    await within(opened.open())
    yield opened
    await within(opened.close())


# --- no room


async def fill(store: Store, run_id: str = "r1") -> int:
    """Append until there is no room, not even for one event; the last number that was kept."""
    last = await within(store.last_sequence(OWNER, run_id))
    for size in (40, 1):
        for _ in range(10_000):
            try:
                await within(store.append_events(OWNER, run_id, last + 1, records(last + 1, last + size)))
            except StoreFullError:
                break
            last += size
        else:
            raise AssertionError("there was room for everything")
    return last


async def test_a_full_store_says_so_and_still_reads(small_store: Store, tmp_path: Path) -> None:
    await begin(small_store)
    await begin(small_store, "r2", "t2")
    last = await fill(small_store)
    for work in (
        small_store.check(),
        small_store.begin_run(run("r3", "t3"), thread("t3", count=200), keep=0),
        small_store.end_run(ended(), thread(count=200), keep=1, first=last + 1, records=records(last + 1, last + 400)),
        small_store.append_events(OWNER, "r2", 1, records(1, 400)),
    ):
        with pytest.raises(StoreFullError) as caught:
            await within(work)
        assert (caught.value.status, caught.value.code) == (503, "store_full")
    assert (tmp_path / "gateway.db").stat().st_size <= 400_000
    assert await logged(small_store) == numbered(last)
    assert await within(small_store.load_thread(OWNER, "t1")) == thread()
    assert await within(small_store.load_run(OWNER, "r1")) == run()
    assert await within(small_store.load_thread(OWNER, "t3")) is None
    assert await within(small_store.load_run(OWNER, "r3")) is None


async def test_a_full_store_works_again_when_there_is_room(
    small_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway.sqlite")
    await begin(small_store, "r2", "t2")
    await begin(small_store)
    last = await fill(small_store)
    assert await within(small_store.delete_thread(OWNER, "t1"))
    await within(small_store.check())
    await within(small_store.append_events(OWNER, "r2", 1, records(1, 400)))
    await within(small_store.end_run(ended("r2", "t2"), thread("t2"), keep=1, first=401, records=records(401, 401)))
    assert await logged(small_store, "r2") == numbered(401)
    said = [record.message for record in caplog.records]
    assert (said[0], said[-1]) == ("store cannot write", "store writes again")
    assert last > 0


async def test_a_full_store_takes_no_more_outside_runs_until_a_run_is_forgotten(small_store: Store) -> None:
    await begin(small_store)
    for first in range(1, 2000, 40):
        await within(small_store.append_events(OWNER, "r1", first, records(first, first + 39)))
    await within(small_store.end_run(ended(), thread(), keep=1, first=2001, records=records(2001, 2001)))
    await begin(small_store, "r2", "t2")
    await fill(small_store, "r2")
    for work in (
        small_store.write_thread(thread(count=200), keep=1),
        small_store.create_thread(thread("t3", count=200), {}),
        small_store.update_thread(OWNER, "t1", ThreadChange(metadata={"a": "x" * 20_000})),
    ):
        with pytest.raises(StoreFullError):
            await within(work)
    assert await within(small_store.load_thread(OWNER, "t1")) == thread()
    assert await within(small_store.load_thread(OWNER, "t3")) is None
    assert await within(small_store.delete_run(OWNER, "r1"))
    await within(small_store.write_thread(thread(count=200), keep=1))
    assert await within(small_store.load_thread(OWNER, "t1")) == thread(count=200)


async def test_removing_logs_makes_room(small_store: Store) -> None:
    await begin(small_store)
    while True:
        last = await within(small_store.last_sequence(OWNER, "r1"))
        if last >= 2000:
            break
        await within(small_store.append_events(OWNER, "r1", last + 1, records(last + 1, last + 40)))
    await within(small_store.end_run(ended(at=5.0), thread(), keep=1, first=last + 1, records=records(1, 1)))
    await begin(small_store, "r2", "t2")
    await fill(small_store, "r2")
    assert await within(small_store.remove_logs(finished_before=6.0)) == 1
    await within(small_store.check())
    assert await fill(small_store, "r2") > 2000


async def test_a_log_that_met_a_full_store_has_no_gap(small_store: Store) -> None:
    await begin(small_store)
    await begin(small_store, "r2", "t2")
    await within(small_store.append_events(OWNER, "r1", 1, records(1, 10)))
    too_large = small_store.append_events(OWNER, "r1", 11, records(11, 20_000))
    await asyncio.sleep(0)  # that one is with the writer; the next waits behind it, and would fit
    behind = small_store.append_events(OWNER, "r1", 20_001, records(20_001, 20_001))
    assert behind is not too_large
    with pytest.raises(StoreFullError):
        await within(too_large)
    with pytest.raises(StoreError):
        await within(behind)
    with pytest.raises(StoreError):  # what is lost is not skipped later either
        await within(small_store.append_events(OWNER, "r1", 20_002, records(1, 1)))
    await within(small_store.append_events(OWNER, "r2", 1, records(1, 1)))
    await within(small_store.append_events(OWNER, "r1", 11, records(11, 12)))
    assert await logged(small_store) == numbered(12)


async def test_a_write_that_is_too_large_takes_no_other_with_it(small_store: Store) -> None:
    await begin(small_store)
    appended = small_store.append_events(OWNER, "r1", 1, records(1, 1))
    large = asyncio.ensure_future(small_store.begin_run(run("r2", "t2"), thread("t2", count=20_000), keep=0))
    small = asyncio.ensure_future(small_store.begin_run(run("r3", "t3"), thread("t3"), keep=0))
    with pytest.raises(StoreFullError):
        await within(large)
    await within(appended)
    await within(small)
    assert await logged(small_store) == numbered(1)
    assert await within(small_store.load_thread(OWNER, "t2")) is None
    assert await within(small_store.load_thread(OWNER, "t3")) == thread("t3")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with mounted_disk(tmp_path, "1m") as disk:
        yield disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for the whole reserve."""
    with mounted_disk(tmp_path, "64m") as disk:
        yield disk


async def test_a_full_disk_is_a_full_store_until_there_is_room(small_disk: Path) -> None:
    store = sqlite_store(small_disk)
    await within(store.open())
    try:
        await begin(store)
        other = small_disk / "other"
        other.write_bytes(b"x" * 300_000)
        last = await fill(store)
        with pytest.raises(StoreFullError):
            await within(store.check())
        assert await logged(store) == numbered(last)
        other.unlink()
        await within(store.check())
        await within(store.append_events(OWNER, "r1", last + 1, records(last + 1, last + 5)))
        assert await logged(store) == numbered(last + 5)
    finally:
        await within(store.close())
    with sqlite_file(small_disk) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- deletions without room


async def full(store: Store, disk: Path) -> None:
    """A thread `kept`, and `t1` with a log that takes what the store may still have of the disk."""
    await begin(store, "r0", "kept")
    await within(store.begin_run(run(), thread(count=200), keep=0))
    take_all(disk, but=1_000_000)
    await fill(store)
    take_all(disk)
    with pytest.raises(StoreFullError):
        await within(store.check())


async def test_a_thread_is_deleted_on_a_full_disk(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = sqlite_store(disk)
    await within(store.open())
    try:
        await full(store, disk)
        assert await within(store.delete_thread(OWNER, "t1"))
        assert await within(store.load_thread(OWNER, "t1")) is None
        assert await within(store.load_run(OWNER, "r1")) is None
        assert await within(store.load_thread(OWNER, "kept")) == thread("kept")
        assert {record.message for record in caplog.records} == {"store cannot write"}, "all of it was overwritten"
        await begin(store, "r2", "t2")
    finally:
        await within(store.close())
    with sqlite_file(disk) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT DISTINCT run FROM events").fetchall() == []
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(2,)], "those of kept and t2"


async def test_one_deletion_follows_the_other_on_a_disk_that_stays_full(disk: Path) -> None:
    store = sqlite_store(disk)
    await within(store.open())
    try:
        for number in range(9):
            await within(store.begin_run(run(f"a{number}", f"s{number}"), thread(f"s{number}", count=500), keep=0))
        await full(store, disk)
        for number in range(9):
            assert await within(store.delete_thread(OWNER, f"s{number}"))
            assert (disk / "gateway.db.reserve").stat().st_size == MOST_BYTES
            take_all(disk)
        assert await within(store.load_thread(OWNER, "t1")) == thread(count=200)
        assert await within(store.load_thread(OWNER, "kept")) == thread("kept")
    finally:
        await within(store.close())


async def test_old_logs_are_removed_on_a_full_disk(disk: Path) -> None:
    store = sqlite_store(disk)
    await within(store.open())
    try:
        await begin(store, "r9", "t9")
        await within(store.append_events(OWNER, "r9", 1, records(1, 400)))
        await within(store.end_run(ended("r9", "t9"), thread("t9"), keep=1, first=401, records=records(401, 401)))
        await full(store, disk)
        assert await within(store.remove_logs(finished_before=1e12)) == 1
        assert await within(store.last_sequence(OWNER, "r9")) == 0
    finally:
        await within(store.close())


async def test_what_the_reserve_is_too_small_to_overwrite_is_deleted_all_the_same(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = sqlite_store(small_disk)
    await within(store.open())
    try:
        await within(store.begin_run(run("r7", "large"), thread("large", count=1200), keep=0))
        await full(store, small_disk)
        assert await within(store.delete_thread(OWNER, "large"))
        assert await within(store.load_thread(OWNER, "large")) is None
        assert "no room to overwrite deleted data" in caplog.text
    finally:
        await within(store.close())
    with sqlite_file(small_disk) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_the_reserve_takes_no_disk_that_has_little_left(small_disk: Path) -> None:
    take_all(small_disk, but=300_000)
    store = sqlite_store(small_disk)
    await within(store.open())
    assert not (small_disk / "gateway.db.reserve").exists()
    await within(store.close())
