"""What is deleted in the embedded store is in none of its files any more."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.events import Event, TextDelta
from gateway.messages import Message, TextBlock
from gateway.records import encode_events
from gateway.sqlite.address import Address
from gateway.sqlite.erasure import ErasureTimes
from gateway.sqlite.store import SqliteStore
from gateway.sqlite.transactions import Transactions
from gateway.store import RunStatus, Store, Thread
from tests.running_gateway import agent, gateway_process, run_body, scripted, write_configuration
from tests.stored_samples import DEADLINE_SECONDS, OWNER, begin, ended, run, sqlite_file, thread, within
from tests.waiting import until, until_outside

SOON = ErasureTimes(empty_seconds=0.01)
ALL_SOON = ErasureTimes(empty_seconds=0.01, rebuild_seconds=0.01, quiet_seconds=0.01)


def erasing_store(folder: Path, times: ErasureTimes) -> Store:
    return SqliteStore(Address(folder / "gateway.db"), erasure_times=times)


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = erasing_store(tmp_path, SOON)
    await within(opened.open())
    yield opened
    await within(opened.close())


def found(folder: Path, words: Sequence[str]) -> set[str]:
    """Those of the words that are in a file of the store."""
    contents = [path.read_bytes() for path in folder.iterdir() if path.name.startswith("gateway.db")]
    return {word for word in words if any(word.encode() in content for content in contents)}


async def until_gone(folder: Path, words: Sequence[str]) -> None:
    await until_outside(lambda: not found(folder, words))


def long_thread(thread_id: str, word: str, sizes: Sequence[int]) -> Thread:
    """Every message says the word again and again."""
    messages = tuple(
        Message(f"{thread_id}-{number}", "user", (TextBlock((f"{word} " * size)[:size].strip()),))
        for number, size in enumerate(sizes)
    )
    return replace(thread(thread_id), messages=messages, title=word, state={"said": [word] * 10})


async def keep_run(store: Store, run_id: str, kept: Thread, word: str, deltas: int) -> None:
    """A run on the thread, with that many deltas of the word in its log."""
    await within(store.begin_run(run(run_id, kept.thread_id), kept, keep=0))
    events: list[Event] = [TextDelta("m", f"{word} ") for _ in range(deltas)]
    end = ended(run_id, kept.thread_id)
    await within(store.end_run(end, kept, keep=len(kept.messages), first=1, records=encode_events(events)))


async def test_a_deleted_threads_words_are_in_no_file(store: Store, tmp_path: Path) -> None:
    await keep_run(store, "r1", long_thread("t1", "unspeakable", [100, 5_000, 50_000]), "unspeakable", 500)
    await keep_run(store, "r2", long_thread("t2", "remarkable", [100, 5_000, 50_000]), "remarkable", 500)
    both = ["unspeakable", "remarkable"]
    assert found(tmp_path, both) == set(both)
    await within(store.delete_thread(OWNER, "t1"))
    await until_gone(tmp_path, ["unspeakable"])
    assert found(tmp_path, both) == {"remarkable"}


@pytest.mark.parametrize("versions", [1, 2])
async def test_a_message_that_its_owner_takes_out_of_a_thread_is_in_no_file(
    store: Store, tmp_path: Path, versions: int
) -> None:
    secret, rest = (long_thread("t1", word, [100, 5_000]).messages for word in ("unspeakable", "remarkable"))
    rest = tuple(replace(each, id=f"rest {each.id}") for each in rest)
    held = replace(thread("t1"), messages=(rest[0], *secret, rest[1]))
    await within(store.create_thread(held, {}))
    if versions == 2:
        held = replace(held, messages=(*held.messages, secret[0]), version=2, last_version=2)
        await within(store.write_thread(held, keep=4))
        await within(store.delete_version(OWNER, "t1", 1))
    await within(store.write_thread(replace(held, messages=rest), keep=1))
    await until_gone(tmp_path, ["unspeakable"])
    assert found(tmp_path, ["remarkable"]) == {"remarkable"}
    kept = await within(store.load_thread(OWNER, "t1"))
    assert kept is not None
    assert kept.messages == rest


async def test_a_retracted_messages_words_are_in_no_file(store: Store, tmp_path: Path) -> None:
    said: list[Event] = [TextDelta("secret", "unspeakable "), TextDelta("said", "remarkable ")] * 100
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, encode_events(said)))
    assert found(tmp_path, ["unspeakable"]) == {"unspeakable"}
    end: list[Event] = [TextDelta("secret", "unspeakable")]
    erase = frozenset({"secret"})
    await within(store.end_run(ended(), thread(), keep=1, first=201, records=encode_events(end), erase=erase))
    await until_gone(tmp_path, ["unspeakable"])
    assert found(tmp_path, ["remarkable"]) == {"remarkable"}


async def test_the_words_of_forgotten_logs_are_in_no_file(store: Store, tmp_path: Path) -> None:
    await keep_run(store, "r1", thread(), "unspeakable", 2_000)
    await within(store.remove_logs(finished_before=1_000.0))
    await until_gone(tmp_path, ["unspeakable"])


@pytest.mark.parametrize("ends", ["waiting", "left", "begun"])
async def test_words_that_waited_for_a_turn_are_in_no_file(store: Store, tmp_path: Path, ends: str) -> None:
    await keep_run(store, "r0", long_thread("t1", "remarkable", [100]), "remarkable", 1)
    held = long_thread("t1", "unspeakable", [100, 5_000, 50_000])
    waits = replace(run(status=RunStatus.QUEUED), started_at=None)
    await within(store.queue_run(waits, held.messages))
    assert found(tmp_path, ["unspeakable"]) == {"unspeakable"}
    if ends == "left":
        await within(store.queue_run(replace(waits, status=RunStatus.CANCELLED, finished_at=105.0)))
        await within(store.delete_run(OWNER, "r1"))
    else:
        if ends == "begun":
            await within(store.begin_run(run(), held, keep=0))
        await within(store.delete_thread(OWNER, "t1"))
    await until_gone(tmp_path, ["unspeakable"])


async def churn(store: Store, chance: random.Random) -> tuple[list[str], list[str]]:
    """Many threads, changed in turn, most of them deleted; the words of those that are, and of those that stay."""
    words = [f"word{number:04}x" for number in range(60)]
    order = [number for number in range(60) for _ in range(3)]
    chance.shuffle(order)
    for step, number in enumerate(order):
        sizes = [chance.choice((10, 30, 100, 300, 900, 9_000)) for _ in range(chance.randrange(1, 9))]
        await keep_run(store, f"r{step}", long_thread(f"t{number}", words[number], sizes), words[number], step % 60)
    deleted = chance.sample(range(60), 40)
    for number in deleted:
        await within(store.delete_thread(OWNER, f"t{number}"))
    return [words[number] for number in deleted], [word for number, word in enumerate(words) if number not in deleted]


@pytest.mark.parametrize("seed", range(3))
async def test_of_threads_that_changed_often_nothing_is_left_once_it_is_quiet(tmp_path: Path, seed: int) -> None:
    """Though SQLite leaves bytes of rows on the pages from which it moved them."""
    store = erasing_store(tmp_path, ALL_SOON)
    await within(store.open())
    deleted, kept = await churn(store, random.Random(seed))
    await until_gone(tmp_path, deleted)
    assert found(tmp_path, kept) == set(kept)
    await within(store.close())


async def test_a_write_ends_a_rebuilding_which_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "gateway.sqlite.transactions")
    begun, put_off = "the store's file is being rewritten", "the store's file is in use: it is rewritten later"
    store = erasing_store(tmp_path, ALL_SOON)
    await within(store.open())
    await keep_run(store, "large", long_thread("large", "remarkable", [20_000_000]), "remarkable", 1)
    number = 0
    async with asyncio.timeout(DEADLINE_SECONDS):
        while put_off not in caplog.messages:
            number += 1
            await begin(store, f"gone{number}", "gone")
            caplog.clear()
            await within(store.delete_thread(OWNER, "gone"))
            await until(lambda: begun in caplog.messages)
            await begin(store, f"r{number}", f"t{number}")
    await until(lambda: caplog.messages[-1] == "the store's file was rewritten")
    for each in range(1, number + 1):
        assert await within(store.load_run(OWNER, f"r{each}")) is not None
    await within(store.close())


def test_a_damaged_file_is_not_written_anew_and_can_still_be_written_to(tmp_path: Path) -> None:
    """Rebuilding reads pages that nobody else came across."""
    path = tmp_path / "damaged.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE words (word TEXT)")
        connection.executemany("INSERT INTO words VALUES (?)", [("remarkable" * 100,)] * 100)
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek(10 * page_size)
        file.write(b"\xff" * 8)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        transactions = Transactions(connection)
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            connection.execute("VACUUM")
        assert transactions.rebuild(), "what fails again is not tried again"
        connection.execute("CREATE TABLE others (word TEXT)")


async def test_who_reads_meanwhile_only_puts_it_off(store: Store, tmp_path: Path) -> None:
    await keep_run(store, "r1", long_thread("t1", "unspeakable", [5_000]), "unspeakable", 100)
    with sqlite_file(tmp_path) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchone()
        await within(store.delete_thread(OWNER, "t1"))
        await begin(store, "r2", "t2")
        assert found(tmp_path, ["unspeakable"]) == {"unspeakable"}
    await until_gone(tmp_path, ["unspeakable"])
    assert await within(store.load_run(OWNER, "r2")) is not None


async def test_after_a_kill_the_next_process_sees_to_it(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [agent("a", scripted([{"text": "unspeakable"}]))])
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("a", run_body("unmentionable", thread_id="t"))
        assert (await gateway.client.http.delete("/threads/t")).status_code == 204
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(configuration) as gateway:
        await until_gone(tmp_path, ["unspeakable", "unmentionable"])
        assert await gateway.signal(signal.SIGTERM) == 0
