"""States of a thread's versions that have documents of their own: written when they change, read when they are asked
for, and gone with what names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from uuid import uuid4

import pytest
import pytest_asyncio

from gateway.messages import JsonValue
from gateway.opensearch.store import OpenSearchStore
from gateway.opensearch.thread_record import ThreadRecord
from gateway.opensearch.version_states import MOST_CURRENT, MOST_OTHER, moved_out
from gateway.store import Thread
from gateway.store.transfer import MovedThread, MovedVersion
from tests.openai_chat_server import Received
from tests.opensearch.front import PASS, Fate, Hold
from tests.opensearch.store_through_front import Scene, is_beat, scene_at
from tests.stored_samples import OWNER, begin, message, messages, run, thread, within

LARGE = 100_000


@pytest_asyncio.fixture
async def scene(opensearch_url: str) -> AsyncGenerator[Scene]:
    async with scene_at(opensearch_url, f"test-{uuid4().hex}") as made:
        yield made


def versioned(number: int, letter: str) -> Thread:
    """The thread with this version, which has a large state of this letter."""
    state: JsonValue = {"much": letter * LARGE}
    said = tuple(message(10 * number + place) for place in range(2))
    return replace(thread(), messages=said, version=number, last_version=number, state=state)


async def with_versions(store: OpenSearchStore, count: int) -> Thread:
    """A thread of so many versions; gives the last one."""
    await begin(store, "r1")
    for number in range(2, count + 1):
        await within(store.write_thread(versioned(number, "x"), keep=0))
    return versioned(count, "x")


async def test_a_write_stores_no_state_that_it_does_not_change(scene: Scene) -> None:
    last = await with_versions(scene.store, 4)
    scene.front.forget()
    again = replace(last, messages=(*last.messages, message(99)))
    await within(scene.store.begin_run(run("r9"), again, keep=2))
    await within(scene.store.unfinished_runs())
    assert sum(len(each.body) for each in scene.front.requests) < 10_000
    for store in (scene.store, scene.reader):
        assert await within(store.load_thread(OWNER, "t1")) == again
        for number in (2, 3):
            found = await within(store.load_version(OWNER, "t1", number))
            assert found is not None
            assert found.thread.state == last.state


@pytest.mark.parametrize("size", [LARGE, 1_200_000])
async def test_a_state_that_is_replaced_or_deleted_leaves_no_document(scene: Scene, size: int) -> None:
    await begin(scene.store, "r1")
    for letter in "abc":
        await within(scene.store.write_thread(replace(thread(), state={"much": letter * size}), keep=1))
    current = (size + 20) // 500_000 + 1
    assert await states_in(scene) == current
    second = replace(versioned(2, "x"), state={})
    await within(scene.store.write_thread(second, keep=0))
    assert await states_in(scene) == current
    await within(scene.store.delete_version(OWNER, "t1", 1))
    assert await states_in(scene) == 0


async def states_in(scene: Scene) -> int:
    """How many documents of states there are, parts included."""
    (await scene.http.post(f"/{scene.prefix}-messages/_refresh")).raise_for_status()
    found = await scene.http.post(f"/{scene.prefix}-messages/_search", json={"size": 1_000, "_source": False})
    return sum(".states." in hit["_id"] for hit in found.json()["hits"]["hits"])


async def test_a_thread_whose_state_is_replaced_while_it_is_read_is_read_again(scene: Scene) -> None:
    await begin(scene.reader, "r1")
    await within(scene.reader.write_thread(replace(thread(), state={"much": "a" * LARGE}), keep=1))
    hold = Hold()
    held: list[Received] = []

    def second_read(number: int, request: Received) -> Fate:
        if is_beat(request) or b".states." not in request.body or held:
            return PASS
        held.append(request)
        return hold

    scene.front.forget(second_read)
    reading = asyncio.create_task(scene.store.load_thread(OWNER, "t1"))
    async with asyncio.timeout(20):
        while not held:
            await asyncio.sleep(0)
    later = replace(thread(), messages=messages(2), state={"much": "b" * LARGE})
    await within(scene.reader.write_thread(later, keep=1))
    hold.release()
    assert await within(reading) == later


def record_of(*sizes: int, current: int) -> ThreadRecord:
    versions = {number: MovedVersion(number, 1.0, state=b"x" * size) for number, size in enumerate(sizes, 1)}
    about = MovedThread("key-1", "t1", 1.0, 1.0, version=current, last_version=len(sizes))
    return ThreadRecord(about, "life", 1, versions)


def test_small_states_stay_in_the_record_smaller_ones_of_other_versions() -> None:
    room = len('["",null]')
    out = moved_out(None, record_of(MOST_OTHER - room, MOST_OTHER, MOST_CURRENT - room, current=3))
    assert out.record.states.keys() == {2}
    assert moved_out(
        out.record, replace(out.record, about=replace(out.record.about, version=1))
    ).record.states.keys() == {2, 3}


def test_the_bytes_that_a_thread_takes_are_the_same_wherever_its_states_are() -> None:
    record = record_of(10, 1_000, 100_000, current=3)
    assert moved_out(None, record).record.kept_bytes == record.kept_bytes == 101_010
