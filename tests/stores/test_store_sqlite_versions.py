"""Versions and forks in the embedded store's file: each message is in it once, and gone when nobody has it any more."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from gateway.frozen import replace
from gateway.history.versions import history_change
from gateway.messages import Message, TextBlock
from gateway.records import encode_message
from gateway.sqlite.schema import MIGRATIONS, migrate
from gateway.store import Store
from tests.stored_samples import OWNER, message, messages, run, sqlite_file, sqlite_store, thread, within
from tests.version_walks import STEPS, VersionWalk


def rows(directory: Path) -> list[bytes]:
    with sqlite_file(directory) as connection:
        return sorted(record for (record,) in connection.execute("SELECT record FROM messages"))


@pytest.mark.thorough
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
async def test_no_message_is_stored_twice_and_none_that_nobody_has(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        store = sqlite_store(directory)
        await within(store.open())
        try:
            walk = VersionWalk(store)
            for step in steps:
                await walk.step(*step)
            await within(store.remove_logs(finished_before=0.0))
            assert rows(directory) == walk.records
            for thread_id in walk.threads:
                assert await within(store.delete_thread(OWNER, thread_id))
            assert rows(directory) == []
            with sqlite_file(directory) as connection:
                for table in ("threads", "versions", "borrowed_messages", "loose_messages"):
                    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        finally:
            await within(store.close())


def sized(number: int) -> Message:
    return Message(f"msg_{number}", "user", (TextBlock(f"What about number {number}? ".ljust(200, ".")),))


async def edit(store: Store, number: int, place: int, *, keeps_rest: bool) -> None:
    """Message `place` gets other words; what is behind it stays, or makes room for one answer."""
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    edited = (*held.messages[:place], replace(held.messages[place], content=(TextBlock(f"edit {number}"),)))
    said = (*edited, *held.messages[place + 1 :]) if keeps_rest else (*edited, sized(10_000 + number))
    change = history_change(held.messages, said)
    assert change.makes_version
    becomes = replace(held, messages=said, version=number, last_version=number)
    await within(store.begin_run(run(f"r{number}"), becomes, keep=change.keep, rewrite=change.rewrite))


@pytest.mark.parametrize("keeps_rest", [True, False], ids=["the rest stays", "the rest goes"])
async def test_a_thread_of_2000_messages_edited_50_times_takes_little_more(tmp_path: Path, keeps_rest: bool) -> None:
    """At most 1.2 times its space."""

    def size() -> int:
        with sqlite_file(tmp_path) as connection:
            names = ("page_count", "freelist_count", "page_size")
            pages, free, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
            return int((pages - free) * page)

    store = sqlite_store(tmp_path)
    await within(store.open())
    said = tuple(sized(number) for number in range(2000))
    await within(store.begin_run(run("r1"), replace(thread(), messages=said), keep=0))
    await within(store.close())
    before = size()
    store = sqlite_store(tmp_path)
    await within(store.open())
    for number in range(2, 52):
        await edit(store, number, 1999 - 37 * number if keeps_rest else 1995 - 2 * number, keeps_rest=keeps_rest)
    await within(store.close())
    assert len(rows(tmp_path)) == 2000 + 50 * (1 if keeps_rest else 2)
    assert size() <= 1.2 * before


async def test_an_older_files_thread_is_its_first_version(tmp_path: Path) -> None:
    with sqlite_file(tmp_path) as connection:
        migrate(connection, MIGRATIONS[:1])
        for key, owner in ((1, OWNER), (2, b"")):  # the second one was deleted, and not all of it is gone yet
            connection.execute(
                "INSERT INTO threads (key, owner, id, agent_id, created_at, updated_at, message_count, interrupts)"
                " VALUES (?, ?, 't1', 'assistant', 1.0, 2.0, 3, x'')",
                (key, owner),
            )
        connection.executemany(
            "INSERT INTO messages (thread, position, record) VALUES (?, ?, ?)",
            [(key, place, encode_message(each)) for key in (1, 2) for place, each in enumerate(messages(3))],
        )
    store = sqlite_store(tmp_path)
    await within(store.open())
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    assert (held.messages, held.version, held.last_version) == (messages(3), 1, 1)
    assert await within(store.message_times(OWNER, "t1")) == [None, None, None]
    said = (*messages(2), message(7))
    edited = replace(held, messages=said, version=2, last_version=2, updated_at=300.0)
    await within(store.begin_run(run("r1"), edited, keep=2))
    assert await within(store.message_times(OWNER, "t1")) == [None, None, 300.0]
    first = await within(store.list_messages(OWNER, "t1", limit=9, cursor=None, version=1))
    assert first.items == messages(3)
    await within(store.remove_logs(finished_before=0.0))
    assert len(rows(tmp_path)) == 4
    await within(store.close())
