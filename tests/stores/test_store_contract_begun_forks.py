"""What every store promises of whole versions, and of forks that are made as their first run begins."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import ConflictError, NotFoundError
from gateway.frozen import replace
from gateway.history.versions import Rewrite, Stretch
from gateway.owners import visitor_owner
from gateway.records import encode_message
from gateway.store import Fork, Store, Thread
from tests.stored_samples import OWNER, ended, message, records, run, thread, within


async def two_versions(store: Store) -> tuple[Thread, Thread]:
    """A thread with four messages, and its second version, which has the first two of them."""
    first = replace(thread(count=4), state={"step": 1})
    await within(store.begin_run(run("r0"), first, keep=0))
    await within(store.end_run(ended("r0"), first, keep=4, first=1, records=records(1, 1)))
    said = (*first.messages[:2], message(200, "edited"))
    second = replace(first, messages=said, version=2, last_version=2, updated_at=300.0, state={"step": 2})
    rewrite = Rewrite(from_message=first.messages[1].id)
    await within(store.begin_run(run("r1"), second, keep=2, rewrite=rewrite))
    return first, second


def begun(held: Thread, *said: int, **changes: Any) -> Thread:
    """A fork of the thread."""
    messages = tuple(held.messages[place] for place in said)
    fork = replace(held, thread_id="fork", messages=messages, version=1, last_version=1, created_at=400.0)
    return replace(fork, updated_at=400.0, **changes)


async def test_each_version_is_read_with_its_own_state_and_times(store: Store) -> None:
    first, second = await two_versions(store)
    current = await within(store.load_version(OWNER, "t1", 2))
    assert current is not None
    assert (current.thread, current.times) == (second, (100.0, 100.0, 300.0))
    earlier = await within(store.load_version(OWNER, "t1", 1))
    assert earlier is not None
    assert earlier.thread == replace(first, last_version=2, updated_at=300.0)
    assert earlier.times == (100.0,) * 4
    assert await within(store.load_version(OWNER, "t1", 3)) is None
    assert await within(store.load_version(OWNER, "unknown", 1)) is None
    assert await within(store.load_version("key-2", "t1", 1)) is None


async def test_a_version_is_read_with_what_it_hides(store: Store) -> None:
    first, _ = await two_versions(store)
    await within(store.select_version(OWNER, "t1", 1))
    recent = replace(first, messages=(*first.messages[2:], message(9)), last_version=2, updated_at=500.0)
    await within(store.begin_run(run("r2"), recent, keep=0, rewrite=Rewrite((Stretch(0, 2, 2),), hides=(0, 1))))
    found = await within(store.load_version(OWNER, "t1", 1))
    assert found is not None
    assert found.thread.messages == (*first.messages, message(9))
    assert found.times == (100.0, 100.0, 100.0, 100.0, 500.0)


@pytest.mark.parametrize(
    ("version", "start", "said"), [(1, 0, (0, 1, 2)), (1, 1, (1, 2, 3)), (2, 0, (0, 1, 2)), (2, 0, ())]
)
async def test_a_run_begins_on_a_fork_that_is_made_with_it(
    store: Store, version: int, start: int, said: tuple[int, ...]
) -> None:
    held = (await two_versions(store))[version - 1]
    fork = begun(held, *said)
    taken = replace(fork, messages=(*fork.messages, message(50)), updated_at=400.0)
    origin = Fork(fork, "t1", version, start)
    await within(store.begin_run(run("r2", "fork"), taken, keep=len(said), records=records(1, 1), fork=origin))
    assert await within(store.load_thread(OWNER, "fork")) == taken
    assert (await within(store.message_times(OWNER, "fork")))[-1] == 400.0
    assert await within(store.load_run(OWNER, "r2")) is not None
    after = replace(taken, messages=(*taken.messages, message(51)))
    await within(store.end_run(ended("r2", "fork"), after, keep=len(said) + 1, first=2, records=records(2, 2)))
    assert await within(store.delete_thread(OWNER, "t1"))
    assert await within(store.load_thread(OWNER, "fork")) == after


async def test_what_a_fork_shares_counts_at_most_once_more_in_what_a_site_has_stored(store: Store) -> None:
    visitor = visitor_owner("shop", "anna")
    held = replace(thread(count=4), owner=visitor)
    await within(store.begin_run(run("r0", owner=visitor), held, keep=0))
    before = await within(store.stored_bytes("shop"))
    fork = begun(held, 0, 1)
    taken = replace(fork, messages=(*fork.messages, message(50)))
    await within(store.begin_run(run("r1", "fork", owner=visitor), taken, keep=2, fork=Fork(fork, "t1", 1)))
    more = await within(store.stored_bytes("shop")) - before
    shared = sum(len(encode_message(each)) for each in fork.messages)
    assert more in (len(encode_message(message(50))), len(encode_message(message(50))) + shared)


async def test_a_fork_that_cannot_be_made_leaves_no_run(store: Store) -> None:
    first, second = await two_versions(store)
    fork = begun(first, 0, 1, 2)
    for origin, error in (
        (Fork(fork, "unknown", 1), NotFoundError),
        (Fork(fork, "t1", 7), NotFoundError),
        (Fork(fork, "t1", 2), ConflictError),
        (Fork(fork, "t1", 1, start=1), ConflictError),
        (Fork(replace(first, messages=()), "t1", 1), ConflictError),
    ):
        with pytest.raises(error):
            await within(store.begin_run(run("r2", origin.thread.thread_id), origin.thread, keep=0, fork=origin))
    assert await within(store.load_run(OWNER, "r2")) is None
    assert await within(store.load_thread(OWNER, "fork")) is None
    assert await within(store.load_thread(OWNER, "t1")) == second
