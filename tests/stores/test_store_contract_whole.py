"""What every store promises of writes under way: a reader sees all of one or nothing, and they are done in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from gateway.store import Fork, Store, ThreadChange
from tests.stored_samples import OWNER, begin, ended, message, messages, records, run, thread, within

Write = Callable[[Store], Coroutine[Any, Any, object] | Awaitable[object]]

LATER = run("r2")
LONGER = replace(thread(), messages=messages(3), last_run_id="r2")
SECOND = replace(LONGER, messages=(message(7),), version=2, last_version=2)
BRANCH = replace(thread("t2"), last_run_id=None)
ENDED = replace(ended("r1"), thread_length=3, last_message_id="msg_2")

WRITES: dict[str, Write] = {
    "begin": lambda store: store.begin_run(LATER, LONGER, keep=1, records=records(1, 2)),
    "begin with a version": lambda store: store.begin_run(LATER, SECOND, keep=0, records=records(1, 2)),
    "begin with a fork": lambda store: store.begin_run(
        run("r3", "t2"),
        replace(BRANCH, messages=(message(0), message(4)), last_run_id="r3"),
        keep=1,
        records=records(1, 1),
        fork=Fork(BRANCH, "t1", 1),
    ),
    "end": lambda store: store.end_run(ENDED, LONGER, keep=1, first=1, records=records(1, 2)),
    "edit": lambda store: store.write_thread(LONGER, keep=0),
    "version": lambda store: store.write_thread(SECOND, keep=0),
    "fork": lambda store: store.fork_thread(OWNER, "t1", BRANCH),
    "delete": lambda store: store.delete_thread(OWNER, "t1"),
}


async def seen(store: Store) -> tuple[object, ...]:
    """Everything that one read after the other shows of both threads. Each read is whole by itself."""
    return (
        await store.load_start(OWNER, "r1", "t1"),
        await store.load_start(OWNER, "r2", "t1"),
        await store.load_start(OWNER, "r3", "t2"),
        await store.list_messages(OWNER, "t1", limit=100, cursor=None),
        await store.list_messages(OWNER, "t2", limit=100, cursor=None),
        await store.read_events(OWNER, "r1", after=0, limit=100),
        await store.read_events(OWNER, "r2", after=0, limit=100),
        await store.list_versions(OWNER, "t1", limit=100, cursor=None),
        await store.list_runs(OWNER, "t1", limit=100, cursor=None),
    )


@pytest.mark.parametrize("name", WRITES)
async def test_a_reader_sees_all_of_a_write_or_nothing(store: Store, name: str) -> None:
    await begin(store, "r1")
    before = await within(seen(store))
    writing = asyncio.ensure_future(WRITES[name](store))
    during = [await within(seen(store))]
    while not writing.done():
        during.append(await within(seen(store)))
    await within(writing)
    after = await within(seen(store))
    assert after != before
    for view in during:
        for part, old, new in zip(view, before, after, strict=True):
            assert part in (old, new)


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_is_done_though_its_caller_is_cancelled(store: Store, name: str) -> None:
    await begin(store, "r1")

    async def write() -> None:
        await WRITES[name](store)

    before = await within(seen(store))
    writing = asyncio.create_task(write())
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait((writing,))
    for thread_id in ("t1", "t2"):  # what was asked for before is done before
        await within(store.update_thread(OWNER, thread_id, ThreadChange()))
    assert await within(seen(store)) != before


async def test_the_writes_of_a_thread_are_done_in_the_order_of_the_calls(store: Store) -> None:
    await begin(store, "r1")
    for round in range(10):
        numbers = range(5 * round, 5 * round + 5)
        edits = [replace(thread(), messages=(message(number),)) for number in numbers]
        await within(asyncio.gather(*[store.write_thread(edit, keep=0) for edit in edits]))
        found = await within(store.load_thread(OWNER, "t1"))
        assert found is not None
        assert found.messages == edits[-1].messages
