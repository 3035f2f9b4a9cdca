"""The embedded store's file: its URL, its lock, kill -9, files that are not as they should be, versions."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.errors import ConfigurationError, StoreError
from gateway.events import Interrupt, OpenInterrupt
from gateway.messages import ToolCall
from gateway.parts import collect
from gateway.sqlite.address import Address, parse_address
from gateway.sqlite.schema import APPLICATION_ID, MIGRATIONS, migrate
from gateway.sqlite.tables import delete_thread
from gateway.store import DueDeletion, RunRecord, RunStatus, Store, StoreType, Thread
from gateway.stores.sqlite import STORE
from tests.collected_words import documented
from tests.confirming_writer import NOTE, collecting_store
from tests.pieces import rows_of_pieces
from tests.running_gateway import agent, gateway_process, run_body, scripted, write_configuration
from tests.stored_samples import (
    DEADLINE_SECONDS,
    OWNER,
    begin,
    logged,
    memory_store,
    messages,
    numbered,
    records,
    run,
    sqlite_file,
    sqlite_store,
    thread,
    within,
)

ROOT = Path(__file__).parents[2]
WRITER = ROOT / "tests" / "confirming_writer.py"


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = sqlite_store(tmp_path)
    await within(opened.open())
    yield opened
    await within(opened.close())


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
    assert parse_address(url + "?max_wait_seconds=90", Path("/etc/agents")) == Address(path, max_wait_seconds=90)


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
        ("sqlite:///x.db?max_wait_seconds=", "whole seconds, from 5 to 3600"),
        ("sqlite:///x.db?max_wait_seconds=4", "whole seconds, from 5 to 3600"),
        ("sqlite:///x.db?max_wait_seconds=3601", "whole seconds, from 5 to 3600"),
        ("sqlite:///x.db?max_wait=60", "did you mean 'max_wait_seconds'"),
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


# --- what a kill -9 leaves of a deletion


async def test_a_deletion_that_was_cut_off_is_whole_for_everybody_and_is_finished_later(tmp_path: Path) -> None:
    """The first of its commits is there, and none of those that remove the messages."""
    store = sqlite_store(tmp_path)
    await within(store.open())
    question = OpenInterrupt(Interrupt("int-1", "tool_call", "Run it?"), ToolCall("call_1", "f", "{}"), "approval-1")
    asking = dataclasses.replace(thread(count=1_200), interrupts=(question,))
    await within(store.begin_run(run(), asking, keep=0))
    await begin(store, "r2", "t2")
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert delete_thread(connection, OWNER, "t1")
    again = sqlite_store(tmp_path)
    await within(again.open())
    assert await within(again.load_thread(OWNER, "t1")) is None
    assert [each.thread_id for each in (await within(again.list_threads(OWNER, limit=9, cursor=None))).items] == ["t2"]
    assert await within(again.find_approval("approval-1")) is None
    assert (await within(again.list_approvals(now=0, limit=9, cursor=None))).items == ()
    await within(again.begin_run(run("r3"), asking, keep=0))
    await within(again.remove_logs(finished_before=0))
    assert await within(again.load_thread(OWNER, "t1")) == asking
    await within(again.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (1_201,)
        assert connection.execute("SELECT count(*) FROM threads").fetchone() == (2,)


# --- who may read it


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """New files are for everybody to read, as they are on most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if "gateway.db" in path.name}


@pytest.mark.usefixtures("usual_umask")
async def test_only_the_gateways_user_reads_the_files_of_a_real_process(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [agent("a", scripted([{"text": "hello"}]))])
    ends = ("", "-wal", "-shm", ".lock", ".reserve")
    private = dict.fromkeys((f"gateway.db{end}" for end in ends), 0o600)
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("a", run_body())
        assert modes(tmp_path) == private
        await gateway.client.http.delete("/threads/thread-1")
        assert modes(tmp_path) == private
        assert await gateway.signal(signal.SIGTERM) == 0
    assert "others could use" not in gateway.log.read_text()


@pytest.mark.usefixtures("usual_umask")
async def test_files_that_others_could_read_are_tightened_with_one_line_in_the_log(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [agent("a", scripted([{"text": "hello"}]))])
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("a", run_body())
        assert await gateway.signal(signal.SIGKILL) == -signal.SIGKILL
    left = modes(tmp_path)
    assert left.keys() >= {"gateway.db", "gateway.db-wal"}, "what was not in the file yet is beside it"
    for name in left:
        (tmp_path / name).chmod(0o644)
    async with gateway_process(configuration) as gateway:
        await gateway.client.get("/runs/run-1")
        assert set(modes(tmp_path).values()) == {0o600}
        log = gateway.log.read_text()
    assert log.count("others could use files of the gateway's") == 1
    assert all(f'"{name}"' in log for name in left)


async def test_another_programs_file_keeps_its_permissions(tmp_path: Path) -> None:
    with sqlite_file(tmp_path) as connection:
        connection.execute("CREATE TABLE customers (id)")
    (tmp_path / "gateway.db").chmod(0o664)
    assert "another program" in await refused(tmp_path)
    assert modes(tmp_path)["gateway.db"] == 0o664


# --- kill -9


def start_writer(folder: Path, round_number: int, *what: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(round_number), *what], stdout=subprocess.PIPE, env=environment
    )


def confirmed_until_killed(folder: Path, round_number: int, lines: int, *what: str) -> dict[str, int]:
    """The last confirmed number of each run (or document) of a process that is killed after so many lines."""
    confirmed: dict[str, int] = {}
    process = start_writer(folder, round_number, *what)
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


@pytest.mark.thorough
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
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


async def confirmed_by_killed(directory: Path, kind: str, *, seed: int) -> dict[str, int]:
    """What four processes confirmed, each until it was killed somewhere."""
    chance = random.Random(seed)
    confirmed: dict[str, int] = {}
    for number in range(4):
        lines = chance.randint(1, 300)
        confirmed |= await asyncio.to_thread(confirmed_until_killed, directory, number, lines, kind)
    return confirmed


async def test_messages_and_their_documents_are_there_together_after_kill_9(tmp_path: Path) -> None:
    confirmed = await confirmed_by_killed(tmp_path, "collected", seed=13)
    assert len(confirmed) > 6
    store = collecting_store(tmp_path)
    await within(store.open())
    for name, last in confirmed.items():
        held = await within(store.load_thread(OWNER, name))
        assert held is not None
        assert int(held.messages[-1].text.removeprefix("number ")) >= last
        assert await documented(store, name) == list(enumerate(each.text for each in held.messages))
    await within(store.close())


@pytest.mark.thorough
async def test_what_was_added_to_a_thread_without_a_run_is_there_after_kill_9(tmp_path: Path) -> None:
    confirmed = await confirmed_by_killed(tmp_path, "threads", seed=11)
    store = sqlite_store(tmp_path)
    await within(store.open())
    for name, last in confirmed.items():
        held = await within(store.load_thread(OWNER, name))
        assert held is not None
        assert held.messages == messages(len(held.messages))
        assert len(held.messages) >= last
        assert int(str(held.title).removeprefix("number ")) in (len(held.messages), len(held.messages) + 1)
    await within(store.close())


@pytest.mark.thorough
async def test_a_document_that_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    confirmed = await confirmed_by_killed(tmp_path, "documents", seed=10)
    store = sqlite_store(tmp_path)
    await within(store.open())
    for name, version in confirmed.items():
        document = await within(store.documents.get(NOTE, name, OWNER, unsealed=True))
        assert document is not None
        assert document.version >= version
        title = str(document.body["title"])
        assert document.body["secret"] == title.replace("number", "of")
        answer: Any = await within(store.documents.search(NOTE, {"query": {"match_phrase": {"title": title}}}, OWNER))
        assert name in [hit["_id"] for hit in answer["hits"]["hits"]]
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (rows,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        assert connection.execute("SELECT count(DISTINCT document) FROM words").fetchone() == (rows,)


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
    assert "damaged or not a SQLite file" in message
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
    with sqlite_file(tmp_path) as connection:
        connection.execute("CREATE TABLE customers (id)")
    assert "another program" in await refused(tmp_path)
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    await begin(store)
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 99")
    message = await refused(tmp_path)
    assert f"newer agui-gateway (schema 99, this one knows up to {len(MIGRATIONS)})" in message
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT count(*) FROM threads").fetchone() == (1,)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may enter: pytest's lie in folders of its user alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_may_not_be_written_is_explained(folder: Path, what: str) -> None:
    store = sqlite_store(folder)
    await within(store.open())
    await within(store.close())
    if what == "file":
        os.chmod(folder, 0o777)
        (folder / "gateway.db.lock").chmod(0o666)
        (folder / "gateway.db").chmod(0o444)
    else:
        (folder / "gateway.db.lock").unlink()
        os.chmod(folder, 0o555)
    privileged = os.geteuid() == 0
    try:
        if privileged:  # nothing is forbidden to root
            os.seteuid(65534)
        assert "needs write access" in await refused(folder)
    finally:
        if privileged:
            os.seteuid(0)
        os.chmod(folder, 0o755)


# --- versions


def test_an_older_file_is_brought_to_the_present_with_what_it_holds(tmp_path: Path) -> None:
    first = ("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)",)
    second = ("ALTER TABLE notes ADD COLUMN length INTEGER", "UPDATE notes SET length = length(words)")
    with sqlite_file(tmp_path) as connection:
        assert migrate(connection, (first,)) == (0, 1)
        connection.execute("INSERT INTO notes (words) VALUES ('hello')")
        assert migrate(connection, (first, second)) == (1, 2)
        assert migrate(connection, (first, second)) == (2, 2)
        assert connection.execute("SELECT * FROM notes").fetchall() == [(1, "hello", 5)]
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
async def test_a_file_of_each_earlier_version_opens_with_its_threads(tmp_path: Path, version: int) -> None:
    with sqlite_file(tmp_path) as connection:
        assert migrate(connection, MIGRATIONS[:version]) == (0, version)
        connection.execute(
            "INSERT INTO threads (owner, id, agent_id, created_at, updated_at, message_count, interrupts)"
            " VALUES (?, 'old', 'assistant', 1.0, 2.0, 0, '')",
            (OWNER,),
        )
        connection.execute(
            "INSERT INTO runs (key, owner, id, thread_id, agent_id, status, created_at, finished_at, usage,"
            " input_digest, log_kept) VALUES (1, ?, 'r1', 'old', 'assistant', 'completed', 1.0, 2.0, '', 'd1', 1)",
            (OWNER,),
        )
        connection.execute("INSERT INTO events (run, first, last, records) VALUES (1, 1, 2, ?)", (records(1, 2).lines,))
    store = sqlite_store(tmp_path)
    await within(store.open())
    loaded = await within(store.load_thread(OWNER, "old"))
    assert loaded == Thread(OWNER, "old", "assistant", 1.0, 2.0)
    old_run = RunRecord(OWNER, "r1", "old", "assistant", RunStatus.COMPLETED, 1.0, None, 2.0, input_digest="d1")
    assert (await within(store.list_runs(OWNER, "old", limit=5, cursor=None))).items == (old_run,)
    assert await logged(store) == numbered(2)
    rows = rows_of_pieces(await within(store.read_events(OWNER, "r1", after=0, limit=5)))
    assert [row.at for row in rows] == [None, None]
    assert await within(store.keep_secret("a", b"fresh")) == b"fresh"
    due = DueDeletion("d1", "assistant", "holder", ("resp_1",), 3.0)
    assert await within(store.delete_thread(OWNER, "old", [due]))
    assert await within(store.due_deletions()) == [due]
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


async def test_where_it_cannot_be_kept_what_is_due_the_thread_stays(store: Store) -> None:
    due = DueDeletion("d1", "assistant", "holder", ("resp_1",), 3.0)
    for thread_id, run_id in (("t1", "r1"), ("t2", "r2")):
        await begin(store, run_id, thread_id)
    await within(store.delete_thread(OWNER, "t1", [due]))
    with pytest.raises(StoreError):
        await within(store.delete_thread(OWNER, "t2", [due]))
    assert await within(store.load_thread(OWNER, "t2")) is not None
    assert await within(store.due_deletions()) == [due]


async def test_what_visitors_have_in_an_older_file_is_counted(tmp_path: Path) -> None:
    with sqlite_file(tmp_path) as connection:
        migrate(connection, MIGRATIONS[:1])
        for key, owner in enumerate(("visitor:shop:a", "visitor:shop:b", "visitor:blog:a", "key-1"), 1):
            connection.execute(
                "INSERT INTO threads (key, owner, id, agent_id, created_at, updated_at, message_count, interrupts,"
                " state)"
                " VALUES (?, ?, 't', 'assistant', 1.0, 2.0, 2, '', x'7b7d')",
                (key, owner),
            )
            for position in range(2):
                connection.execute("INSERT INTO messages VALUES (?, ?, zeroblob(100))", (key, position))
            for run, finished_at in ((key, 2.0), (key + 10, None)):
                connection.execute(
                    "INSERT INTO runs (key, owner, id, thread_id, agent_id, status, created_at, finished_at, usage,"
                    " input_digest, log_kept) VALUES (?, ?, ?, 't', 'assistant', 'completed', 1.0, ?, '', '', 1)",
                    (run, owner, f"r{run}", finished_at),
                )
                connection.execute("INSERT INTO events VALUES (?, 1, 1, zeroblob(1000))", (run,))
    store = sqlite_store(tmp_path)
    await within(store.open())
    assert await within(store.stored_bytes("shop")) == 2 * (200 + 2 + 1000)
    assert await within(store.stored_bytes("blog")) == 200 + 2 + 1000
    assert await within(store.delete_thread("visitor:shop:a", "t"))
    assert await within(store.stored_bytes("shop")) == 200 + 2 + 1000
    await within(store.close())


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    first = ("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)",)
    second = ("DROP TABLE notes", "CREATE TABLE other (x)")
    with sqlite_file(tmp_path) as connection:
        migrate(connection, (first,))
        connection.execute("INSERT INTO notes (words) VALUES ('hello')")
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, (first, second, ("THIS IS NO SQL",)))
        assert not connection.in_transaction
        assert connection.execute("SELECT words FROM notes").fetchall() == [("hello",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert migrate(connection, (first, second)) == (1, 2)
