"""What is particular to the embedded store: its URL, its file, its lock, its commits, and what happens without room."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import ConfigurationError, GatewayError, StoreError, StoreFullError
from gateway.parts import collect
from gateway.store import Store, StoreType, Thread
from gateway.stores.sqlite import STORE, worker_turns
from gateway.stores.sqlite.address import Address, parse_address
from gateway.stores.sqlite.database import store_error
from gateway.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, migrate
from gateway.stores.sqlite.store import SqliteStore
from gateway.stores.sqlite.thread_cache import ThreadCache
from tests.stored_samples import (
    DEADLINE_SECONDS,
    OWNER,
    begin,
    delta,
    ended,
    logged,
    memory_store,
    messages,
    numbered,
    records,
    run,
    sqlite_store,
    thread,
    within,
)

ROOT = Path(__file__).parents[2]
WRITER = ROOT / "tests" / "confirming_writer.py"
SMALL = "sqlite:///gateway.db?max_size_bytes=400000"


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = sqlite_store(tmp_path)
    await within(opened.open())
    yield opened
    await within(opened.close())


@pytest_asyncio.fixture
async def small_store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = sqlite_store(tmp_path, SMALL)
    await within(opened.open())
    yield opened
    await within(opened.close())


@contextlib.contextmanager
def raw(folder: Path) -> Generator[sqlite3.Connection]:
    """The file as another program sees it."""
    with contextlib.closing(sqlite3.connect(folder / "gateway.db", isolation_level=None, timeout=0)) as connection:
        yield connection


async def refused(folder: Path, url: str = "sqlite:///gateway.db") -> str:
    """What opening the store fails with."""
    store = sqlite_store(folder, url)
    with pytest.raises(ConfigurationError) as caught:
        await within(store.open())
    await within(store.close())  # harmless, and the lock is free again
    return caught.value.message


# --- the URL


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///gateway.db", Path("/etc/agents/gateway.db")),
        ("sqlite:///data/my%20gateway%3F.db", Path("/etc/agents/data/my gateway?.db")),
        ("sqlite:///../x#y.db", Path("/etc/agents/../x#y.db")),
        ("sqlite:////var/lib/gateway.db", Path("/var/lib/gateway.db")),
        ("sqlite://:memory:", None),
        ("sqlite:///:memory:", None),
    ],
)
def test_a_store_url_names_a_file(url: str, path: Path | None) -> None:
    assert parse_address(url, Path("/etc/agents")) == Address(path)
    assert parse_address(url + "?max_size_bytes=1000000", Path("/etc/agents")) == Address(path, 1_000_000)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("sqlite://", "sqlite:///gateway.db"),
        ("sqlite:///", "sqlite:///gateway.db"),
        ("sqlite://gateway.db", "sqlite:///gateway.db for a file beside"),
        ("sqlite:gateway.db", "sqlite:///gateway.db"),
        ("sqlite:///a%00b", "NUL"),
        ("sqlite:///x.db?max_size=5", "did you mean 'max_size_bytes'"),
        ("sqlite:///x.db?wal=off", "there is max_size_bytes"),
        ("sqlite:///x.db?max_size_bytes=", "at least"),
        ("sqlite:///x.db?max_size_bytes=-5000000", "at least"),
        ("sqlite:///x.db?max_size_bytes=5000", "at least"),
        ("sqlite:///x.db?max_size_bytes=1e9", "at least"),
    ],
)
def test_a_store_url_that_is_none_is_explained(url: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        parse_address(url, Path("/etc/agents"))


def test_the_store_is_a_part_of_its_room() -> None:
    assert collect("stores", StoreType)["sqlite"] is STORE


def test_naming_a_store_touches_no_disk(tmp_path: Path) -> None:
    sqlite_store(tmp_path)
    assert os.listdir(tmp_path) == []


# --- the lock


async def test_one_file_is_open_once_and_again_after_it_was_closed(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    (tmp_path / "other name.db").symlink_to(tmp_path / "gateway.db")
    assert "in use by another process; stop that gateway first" in await refused(tmp_path)
    assert "in use" in await refused(tmp_path, "sqlite:///other%20name.db")
    await begin(store)  # the one that has it is not disturbed
    await within(store.close())
    again = sqlite_store(tmp_path)
    await within(again.open())
    assert await within(again.load_thread(OWNER, "t1")) == thread()
    await within(again.close())


async def test_two_stores_in_memory_are_two(tmp_path: Path) -> None:
    first, second = memory_store(tmp_path), memory_store(tmp_path)
    await within(first.open())
    await within(second.open())
    await begin(first)
    assert await within(second.load_thread(OWNER, "t1")) is None
    await within(first.close())
    await within(second.close())
    assert os.listdir(tmp_path) == []


async def test_opening_twice_is_refused(store: Store) -> None:
    with pytest.raises(StoreError):
        await within(store.open())


# --- kill -9


def start_writer(folder: Path, round_number: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(round_number)], stdout=subprocess.PIPE, env=environment
    )


def confirmed_until_killed(folder: Path, round_number: int, lines: int) -> dict[str, int]:
    """The last confirmed number of each run of a process that is killed after so many lines."""
    confirmed: dict[str, int] = {}
    process = start_writer(folder, round_number)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            for _ in range(lines):
                name, last = output.readline().decode().rsplit(" ", 1)
                confirmed[name] = int(last)
            process.send_signal(signal.SIGKILL)
            for line in output.read().decode().splitlines(keepends=True):
                if line.endswith("\n"):
                    name, last = line.rsplit(" ", 1)
                    confirmed[name] = int(last)
    finally:
        process.kill()
        assert process.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    return confirmed


async def test_what_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    chance = random.Random(9)
    confirmed: dict[str, int] = {}
    for round_number in range(6):
        lines = chance.randint(1, 600)
        confirmed |= await asyncio.to_thread(confirmed_until_killed, tmp_path, round_number, lines)
    store = sqlite_store(tmp_path)
    await within(store.open())  # the lock went with the process
    assert len(confirmed) > 6
    for name, last in confirmed.items():
        log = await logged(store, name)
        assert log == numbered(len(log)), "no gap, and each event under its number"
        assert len(log) >= last
    unfinished = {item.run_id for item in await within(store.unfinished_runs())}
    assert unfinished >= set(confirmed)
    await within(store.close())
    with raw(tmp_path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_a_second_process_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    process = start_writer(tmp_path, 0)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            assert await asyncio.to_thread(output.readline)
            assert "in use by another process" in await refused(tmp_path)
            process.kill()
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)
    store = sqlite_store(tmp_path)
    await within(store.open())
    await within(store.close())


# --- files that are not ours, or not as they should be


async def test_a_missing_folder_is_explained(tmp_path: Path) -> None:
    assert "does not exist; create it" in await refused(tmp_path, "sqlite:///nowhere/gateway.db")


async def test_a_folder_in_the_files_place_is_explained(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    assert "is a folder" in await refused(tmp_path)


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to have a header. " * 200, b"\0" * 5000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gateway.db"
    path.write_bytes(content)
    message = await refused(tmp_path)
    assert "damaged or no SQLite file" in message
    assert "move it away" in message
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["cut", "garbled"])
async def test_a_damaged_database_is_refused_and_left_alone(tmp_path: Path, damage: str) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    await within(store.begin_run(run(), thread(count=400), keep=0, records=records(1, 500)))
    await within(store.close())
    path = tmp_path / "gateway.db"
    whole = path.read_bytes()
    damaged = whole[: 4096 * 3 + 100] if damage == "cut" else whole[:4096] + b"\xff" * (len(whole) - 4096)
    path.write_bytes(damaged)
    assert "damaged" in await refused(tmp_path)
    assert path.read_bytes() == damaged


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").touch()
    store = sqlite_store(tmp_path)
    await within(store.open())
    await begin(store)
    await within(store.close())


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    with raw(tmp_path) as connection:
        connection.execute("CREATE TABLE customers (id)")
    assert "another program" in await refused(tmp_path)
    with raw(tmp_path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    await begin(store)
    await within(store.close())
    with raw(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 99")
    message = await refused(tmp_path)
    assert f"newer agui-gateway (schema 99, this one knows up to {len(MIGRATIONS)})" in message
    with raw(tmp_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT count(*) FROM threads").fetchone() == (1,)


@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_may_not_be_written_is_explained(tmp_path_factory: pytest.TempPathFactory, what: str) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = sqlite_store(folder)
    await within(store.open())
    await within(store.close())
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    if what == "file":
        folder.chmod(0o777)
        (folder / "gateway.db.lock").chmod(0o666)
        (folder / "gateway.db").chmod(0o444)
    else:
        (folder / "gateway.db.lock").unlink()
        folder.chmod(0o555)
    privileged = os.geteuid() == 0
    try:
        if privileged:  # nothing is forbidden to root
            os.seteuid(65534)
        assert "needs write access" in await refused(folder)
    finally:
        if privileged:
            os.seteuid(0)
        folder.chmod(0o755)


# --- versions


def test_an_older_file_is_brought_to_the_present_with_what_it_holds(tmp_path: Path) -> None:
    first = ("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)",)
    second = ("ALTER TABLE notes ADD COLUMN length INTEGER", "UPDATE notes SET length = length(words)")
    with raw(tmp_path) as connection:
        assert migrate(connection, (first,)) == (0, 1)
        connection.execute("INSERT INTO notes (words) VALUES ('hello')")
        assert migrate(connection, (first, second)) == (1, 2)
        assert migrate(connection, (first, second)) == (2, 2)
        assert connection.execute("SELECT * FROM notes").fetchall() == [(1, "hello", 5)]
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    first = ("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)",)
    second = ("DROP TABLE notes", "CREATE TABLE other (x)")
    with raw(tmp_path) as connection:
        migrate(connection, (first,))
        connection.execute("INSERT INTO notes (words) VALUES ('hello')")
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, (first, second, ("THIS IS NO SQL",)))
        assert not connection.in_transaction
        assert connection.execute("SELECT words FROM notes").fetchall() == [("hello",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert migrate(connection, (first, second)) == (1, 2)


# --- commits


async def test_events_of_one_commit_are_one_row_for_each_run(store: Store, tmp_path: Path) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    for number in range(1, 51):
        store.append_events(OWNER, "r1", number, records(number, number), urgent=False)
        store.append_events(OWNER, "r2", number, records(number, number), urgent=False)
    await within(store.check())  # writes are in order: these are done
    with raw(tmp_path) as connection:
        rows = connection.execute("SELECT first, last FROM events ORDER BY run").fetchall()
    assert rows == [(1, 50), (1, 50)]


async def test_events_that_are_not_urgent_wait_for_company_and_urgent_ones_do_not(store: Store) -> None:
    await begin(store)
    started = time.perf_counter()
    await within(store.append_events(OWNER, "r1", 1, records(1, 1), urgent=False))
    assert time.perf_counter() - started >= 0.009
    waits = []
    for number in range(2, 42):
        started = time.perf_counter()
        await within(store.append_events(OWNER, "r1", number, records(number, number), urgent=True))
        waits.append(time.perf_counter() - started)
    assert min(waits) < 0.008


async def test_an_urgent_event_takes_those_that_wait_with_it(store: Store) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    patient = store.append_events(OWNER, "r1", 1, records(1, 1), urgent=False)
    await within(store.append_events(OWNER, "r2", 1, records(1, 1), urgent=True))
    assert patient.done()


async def test_a_busy_event_loop_starves_nobody(store: Store) -> None:
    """Left to itself the loop may take Python's lock back before the writer wakes, for seconds: see worker_turns."""
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
    started = time.perf_counter()
    for first in range(1, 61):
        appended = {
            store.append_events(OWNER, f"r{number}", first, records(first, first), urgent=True) for number in range(40)
        }
        await within(asyncio.gather(*appended))
        assert await within(store.last_sequence(OWNER, "r7")) == first
    took = time.perf_counter() - started
    busy = False
    await within(spinning)
    assert took < 10


async def longest_turn(turns: int) -> float:
    """The longest of so many turns of the event loop, in seconds."""
    longest, last = 0.0, time.perf_counter()
    for _ in range(turns):
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


async def test_the_loop_stands_still_for_a_late_job_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_turns, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(worker_turns, "STAND_STILL_SECONDS", 0.25)
    turns = worker_turns.WorkerTurns(asyncio.get_running_loop())
    turns.start()
    assert await longest_turn(10) >= 0.25
    turns.finished()
    turns.settle()


async def test_the_loop_goes_on_when_the_job_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_turns, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(worker_turns, "STAND_STILL_SECONDS", 30.0)
    turns = worker_turns.WorkerTurns(asyncio.get_running_loop())
    turns.start()
    turns.finished()
    assert await longest_turn(10) < 15, "a result that only waits for the loop is not waited for"
    turns.settle()
    assert await longest_turn(10) < 15, "no job is out"
    turns.start()
    thread_of_job = threading.Thread(target=turns.finished)
    thread_of_job.start()
    assert await longest_turn(10) < 15, "a job that is done ends the wait"
    turns.settle()
    thread_of_job.join(DEADLINE_SECONDS)


async def test_a_long_read_by_another_program_holds_no_write_up(store: Store, tmp_path: Path) -> None:
    await begin(store)
    with raw(tmp_path) as connection:
        connection.execute("BEGIN")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        await within(store.append_events(OWNER, "r1", 1, records(1, 3), urgent=True))
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


async def test_a_write_waits_for_another_programs_write(store: Store, tmp_path: Path) -> None:
    await begin(store)
    with raw(tmp_path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        appended = store.append_events(OWNER, "r1", 1, records(1, 3), urgent=True)
        renamed = asyncio.ensure_future(store.rename_thread(OWNER, "t1", "later"))
        assert await within(store.load_run(OWNER, "r1")) == run()
        assert not appended.done()
        connection.execute("COMMIT")
    await within(appended)
    assert await within(renamed)
    assert await logged(store) == numbered(3)


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
    caplog.set_level(logging.INFO, "gateway.stores.sqlite")
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
    with raw(small_disk) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


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
    with raw(tmp_path) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()
    for _ in range(200):
        await within(store.check())
    with raw(tmp_path) as connection:
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
    good = store.append_events(OWNER, "r1", 1, records(1, 1), urgent=False)
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


def test_the_samples_are_what_the_log_shows() -> None:
    assert numbered(2) == [(1, delta(1)), (2, delta(2))]
