"""The embedded store without room, and with room again."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import StoreError, StoreFullError
from gateway.store import Store
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
                await within(store.append_events(OWNER, run_id, last + 1, records(last + 1, last + size), urgent=True))
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
        small_store.append_events(OWNER, "r2", 1, records(1, 400), urgent=True),
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
    await within(small_store.append_events(OWNER, "r2", 1, records(1, 400), urgent=True))
    await within(small_store.end_run(ended("r2", "t2"), thread("t2"), keep=1, first=401, records=records(401, 401)))
    assert await logged(small_store, "r2") == numbered(401)
    said = [record.message for record in caplog.records]
    assert (said[0], said[-1]) == ("store cannot write", "store writes again")
    assert last > 0


async def test_removing_logs_makes_room(small_store: Store) -> None:
    await begin(small_store)
    while True:
        last = await within(small_store.last_sequence(OWNER, "r1"))
        if last >= 2000:
            break
        await within(small_store.append_events(OWNER, "r1", last + 1, records(last + 1, last + 40), urgent=True))
    await within(small_store.end_run(ended(at=5.0), thread(), keep=1, first=last + 1, records=records(1, 1)))
    await begin(small_store, "r2", "t2")
    await fill(small_store, "r2")
    assert await within(small_store.remove_logs(finished_before=6.0)) == 1
    await within(small_store.check())
    assert await fill(small_store, "r2") > 2000


async def test_a_log_that_met_a_full_store_has_no_gap(small_store: Store) -> None:
    await begin(small_store)
    await begin(small_store, "r2", "t2")
    await within(small_store.append_events(OWNER, "r1", 1, records(1, 10), urgent=True))
    too_large = small_store.append_events(OWNER, "r1", 11, records(11, 20_000), urgent=True)
    await asyncio.sleep(0)  # that one is with the writer; the next waits behind it, and would fit
    behind = small_store.append_events(OWNER, "r1", 20_001, records(20_001, 20_001), urgent=True)
    assert behind is not too_large
    with pytest.raises(StoreFullError):
        await within(too_large)
    with pytest.raises(StoreError):
        await within(behind)
    with pytest.raises(StoreError):  # what is lost is not skipped later either
        await within(small_store.append_events(OWNER, "r1", 20_002, records(1, 1), urgent=True))
    await within(small_store.append_events(OWNER, "r2", 1, records(1, 1), urgent=True))
    await within(small_store.append_events(OWNER, "r1", 11, records(11, 12), urgent=True))
    assert await logged(small_store) == numbered(12)


async def test_a_write_that_is_too_large_takes_no_other_with_it(small_store: Store) -> None:
    await begin(small_store)
    appended = small_store.append_events(OWNER, "r1", 1, records(1, 1), urgent=False)
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
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here; max_size_bytes is tested instead")
    yield disk
    subprocess.run(["umount", disk], check=True, capture_output=True)


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
        await within(store.append_events(OWNER, "r1", last + 1, records(last + 1, last + 5), urgent=True))
        assert await logged(store) == numbered(last + 5)
    finally:
        await within(store.close())
    with sqlite_file(small_disk) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
