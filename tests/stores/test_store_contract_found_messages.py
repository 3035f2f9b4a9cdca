"""What every store promises of threads that are found by the id of a message."""

from __future__ import annotations

import pytest

from gateway.frozen import replace
from gateway.history.versions import Rewrite, Stretch
from gateway.messages import Message, TextBlock
from gateway.store import Store
from tests.stored_samples import OWNER, message, run, thread, within


async def found(store: Store, message_id: str, owner: str = OWNER, limit: int = 10) -> list[str]:
    return await within(store.find_message(owner, message_id, limit=limit))


async def test_the_latest_threads_are_found_first_and_unlisted_ones_last(store: Store) -> None:
    for thread_id, at in (("a", 100.0), ("b", 300.0), ("c", 200.0)):
        await within(store.create_thread(thread(thread_id, at=at, count=2), {}))
    await within(store.create_thread(replace(thread("d", at=400.0), listed=False), {}))
    assert await found(store, "msg_0") == ["b", "c", "a", "d"]
    assert await found(store, "msg_0", limit=2) == ["b", "c"]
    assert await found(store, "msg_1") == ["b", "c", "a"]
    assert await found(store, "msg") == []


async def test_nobody_finds_another_owner_s_message(store: Store) -> None:
    await within(store.create_thread(thread(), {}))
    assert await found(store, "msg_0", "key-2") == []
    await within(store.delete_thread(OWNER, "t1"))
    assert await found(store, "msg_0") == []


@pytest.mark.parametrize("message_id", ['a "quoted" id', "half \ud83d", "ünïcode", "a\\b", "with\nlines", "x" * 500])
async def test_any_id_is_found_whatever_the_message_says(store: Store, message_id: str) -> None:
    plain = Message(message_id, "user", (TextBlock("hello"),))
    odd = replace(plain, metadata={"large": 2**70})
    for number, said in enumerate((plain, odd)):
        held = replace(thread(f"t{number}", at=float(number)), messages=(message(7), said))
        await within(store.create_thread(held, {}))
    assert await found(store, message_id) == ["t1", "t0"]
    assert await found(store, message_id[:-1]) == []


async def test_a_message_that_left_the_current_version_is_not_found(store: Store) -> None:
    held = thread(count=3)
    await within(store.begin_run(run("r0"), held, keep=0))
    second = replace(held, messages=(held.messages[0], message(9)), version=2, last_version=2)
    await within(store.begin_run(run("r1"), second, keep=1, rewrite=Rewrite(from_message="msg_0")))
    assert [await found(store, f"msg_{number}") for number in (0, 1, 9)] == [["t1"], [], ["t1"]]
    await within(store.select_version(OWNER, "t1", 1))
    assert [await found(store, f"msg_{number}") for number in (0, 1, 9)] == [["t1"], ["t1"], []]


async def test_a_message_that_its_version_hides_is_not_found(store: Store) -> None:
    held = replace(thread(count=3), shortened=True)
    await within(store.begin_run(run("r0"), held, keep=0))
    shorter = replace(held, messages=(held.messages[2], message(9)))
    rewrite = Rewrite((Stretch(0, 2, 1),), hides=(0, 1))
    await within(store.begin_run(run("r1"), shorter, keep=0, rewrite=rewrite))
    assert [await found(store, f"msg_{number}") for number in (0, 2, 9)] == [[], ["t1"], ["t1"]]


async def test_a_fork_s_messages_are_found_in_both_threads(store: Store) -> None:
    await within(store.create_thread(thread(count=3), {}))
    fork = replace(thread("fork", count=2, at=200.0), last_run_id=None)
    assert await within(store.fork_thread(OWNER, "t1", fork))
    assert await found(store, "msg_1") == ["fork", "t1"]
    assert await found(store, "msg_2") == ["t1"]
    await within(store.delete_thread(OWNER, "t1"))
    assert await found(store, "msg_1") == ["fork"]
