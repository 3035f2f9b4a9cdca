"""What every store promises of writes under way: a reader sees all of one or nothing, and they are done in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.store import Store, ThreadChange
from tests.stored_samples import OWNER, begin, message, thread, within
from tests.whole_writes import WRITES, seen


@pytest.mark.parametrize("name", WRITES)
async def test_a_reader_sees_all_of_a_write_or_nothing(store: Store, name: str) -> None:
    await begin(store, "r1")
    before = await within(seen(store))
    writing = asyncio.ensure_future(WRITES[name](store, OWNER))
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
        await WRITES[name](store, OWNER)

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
