"""What every store promises of versions and forks: nothing is lost, nothing is there twice, each is for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from gateway.errors import ConflictError, StoreError
from gateway.events import Interrupt, OpenInterrupt
from gateway.frozen import replace
from gateway.history.versions import Change, Rewrite, Stretch
from gateway.messages import Message, ToolCall
from gateway.model_state import Chain
from gateway.owners import visitor_owner
from gateway.store import DueDeletion, Store, Thread, ThreadVersion
from tests.stored_samples import OWNER, STORES, ended, message, messages, records, run, thread, within
from tests.version_walks import STEPS, VersionWalk

SITE = "shop"
VISITOR = visitor_owner(SITE, "anna")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "opensearch"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
async def test_versions_and_forks_are_what_a_plain_list_of_histories_is(
    kind: str, steps: list[tuple[str, int, int]]
) -> None:
    """No message is lost by edits, regenerates, shorter histories, forks, switches and deletions."""
    await walked(kind, steps)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["opensearch"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
async def test_versions_and_forks_are_so_in_a_cluster_too(kind: str, steps: list[tuple[str, int, int]]) -> None:
    await walked(kind, steps)


async def walked(kind: str, steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as directory:
        store = STORES[kind](Path(directory))
        await within(store.open())
        try:
            walk = VersionWalk(store, VISITOR)
            for step in steps:
                await walk.step(*step)
                await walk.check()
            await within(store.remove_logs(finished_before=0.0))
            assert walk.size <= await within(store.stored_bytes(SITE)) <= walk.copied_size, "each message counts once"
        finally:
            await within(store.close())


async def first_version(store: Store, *, count: int = 4, **changes: Any) -> Thread:
    """A thread whose run has ended."""
    held = replace(thread(count=count), **changes)
    await within(store.begin_run(run("r0"), held, keep=0))
    await within(store.end_run(ended("r0"), held, keep=count, first=1, records=records(1, 1)))
    return held


async def next_version(store: Store, held: Thread, keep: int, number: int = 2, **changes: Any) -> Thread:
    """The version that a run makes which keeps so many messages and adds one."""
    said = (*held.messages[:keep], message(100 * number, "edited"))
    becomes = replace(held, messages=said, version=number, last_version=number, **changes)
    rewrite = Rewrite(from_message=said[keep - 1].id if keep else None)
    await within(store.begin_run(run(f"r{number}-{keep}"), becomes, keep=keep, rewrite=rewrite))
    return becomes


async def listed(store: Store, thread_id: str = "t1", version: int | None = None) -> list[Message]:
    page = await within(store.list_messages(OWNER, thread_id, limit=100, cursor=None, version=version))
    return list(page.items)


async def versions(store: Store, thread_id: str = "t1") -> list[ThreadVersion]:
    return list((await within(store.list_versions(OWNER, thread_id, limit=100, cursor=None))).items)


async def test_every_thread_has_a_version(store: Store) -> None:
    await first_version(store)
    assert await versions(store) == [ThreadVersion(1, True, None, None, 100.0)]
    assert await versions(store, "unknown") == []
    assert await listed(store, version=1) == list(messages(4))
    assert await listed(store, version=2) == []


async def test_a_version_says_what_it_was_made_from_where_and_when(store: Store) -> None:
    held = await first_version(store)
    second = await next_version(store, held, 2, updated_at=300.0)
    assert await versions(store) == [
        ThreadVersion(1, False, None, None, 100.0),
        ThreadVersion(2, True, 1, "msg_1", 300.0),
    ]
    assert await within(store.load_thread(OWNER, "t1")) == second


async def test_a_write_outside_a_run_makes_a_version_too_and_what_stays_is_as_it_was(store: Store) -> None:
    held = await first_version(store)
    said = (held.messages[0], message(100, "edited"), *held.messages[2:])
    becomes = replace(held, messages=said, version=2, last_version=2, updated_at=300.0)
    rewrite = Rewrite((Stretch(at=2, stored=2, length=2),), from_message="msg_0")
    await within(store.write_thread(becomes, keep=1, rewrite=rewrite))
    assert await versions(store) == [
        ThreadVersion(1, False, None, None, 100.0),
        ThreadVersion(2, True, 1, "msg_0", 300.0),
    ]
    assert await listed(store) == list(said)
    assert await listed(store, version=1) == list(held.messages)
    assert await within(store.load_thread(OWNER, "t1")) == becomes


@pytest.mark.parametrize("size", [1, 1_000, 600_000])
async def test_a_version_has_its_own_state_questions_run_and_provider_chain(store: Store, size: int) -> None:
    call = ToolCall("c1", "refund", "{}")
    asked = OpenInterrupt(Interrupt("i1", "tool_approval", "May I?", "c1"), call, "approval_1", "assistant", 100.0)
    chains = {"assistant": {"default": Chain("holder", (), ("resp_1",))}}
    much = "x" * size
    held = await first_version(store, state={"n": 1, "much": much}, interrupts=(asked,), model_states=chains)
    second = await next_version(
        store, held, 2, state={"n": 2, "much": much}, interrupts=(), model_states={}, last_run_id="r2"
    )
    assert await within(store.load_thread(OWNER, "t1")) == second
    assert await within(store.version_states(OWNER, "t1")) == {1: chains}

    assert await within(store.select_version(OWNER, "t1", 1))
    assert await within(store.load_thread(OWNER, "t1")) == replace(held, updated_at=100.0, last_version=2)
    waiting = await within(store.list_approvals(now=100.0, limit=5, cursor=None))
    assert [item.asked for item in waiting.items] == [asked]

    assert await within(store.select_version(OWNER, "t1", 2))
    assert await within(store.load_thread(OWNER, "t1")) == second
    assert (await within(store.list_approvals(now=100.0, limit=5, cursor=None))).items == ()


async def test_a_version_that_is_not_there_is_neither_chosen_nor_deleted(store: Store) -> None:
    held = await first_version(store)
    for thread_id, number in (("t1", 2), ("t1", 0), ("unknown", 1)):
        assert not await within(store.select_version(OWNER, thread_id, number))
        assert not await within(store.delete_version(OWNER, thread_id, number))
    assert not await within(store.select_version("key-2", "t1", 1))
    assert await within(store.load_thread(OWNER, "t1")) == held


async def test_the_current_version_is_not_deleted(store: Store) -> None:
    held = await first_version(store)
    with pytest.raises(ConflictError):
        await within(store.delete_version(OWNER, "t1", 1))
    second = await next_version(store, held, 2)
    with pytest.raises(ConflictError):
        await within(store.delete_version(OWNER, "t1", 2))
    due = DueDeletion("d1", "assistant", "holder", ("resp_1",), 3.0)
    assert await within(store.delete_version(OWNER, "t1", 1, [due]))
    assert await versions(store) == [ThreadVersion(2, True, None, "msg_1", 100.0)]
    assert await within(store.load_thread(OWNER, "t1")) == second
    assert await within(store.due_deletions()) == [due]


async def test_a_versions_number_is_never_given_again(store: Store) -> None:
    held = await first_version(store)
    await next_version(store, held, 2)
    assert await within(store.select_version(OWNER, "t1", 1))
    assert await within(store.delete_version(OWNER, "t1", 2))
    with pytest.raises(StoreError):
        await next_version(store, held, 3)
    assert await within(store.load_thread(OWNER, "t1")) == replace(held, last_version=2)


async def test_a_version_whose_run_cannot_begin_is_not_made(store: Store) -> None:
    held = await first_version(store)
    await next_version(store, held, 2)
    assert await within(store.select_version(OWNER, "t1", 1))
    third = replace(held, messages=(*held.messages[:1], message(9)), version=3, last_version=3)
    with pytest.raises(ConflictError):
        await within(store.begin_run(run("r0"), third, keep=1))
    with pytest.raises(StoreError):
        await within(store.begin_run(run("r9"), third, keep=5))
    assert [(each.number, each.is_current) for each in await versions(store)] == [(1, True), (2, False)]
    assert await within(store.load_thread(OWNER, "t1")) == replace(held, last_version=2)
    assert await within(store.load_run(OWNER, "r9")) is None


async def test_what_a_version_hides_is_listed_with_it_alone(store: Store) -> None:
    held = await first_version(store)
    shown = (*held.messages[2:], message(7, "new"))
    shorter = replace(held, messages=shown, version=2, last_version=2, shortened=True)
    rewrite = Rewrite((Stretch(0, 2, 2),), from_message="msg_3")
    await within(store.begin_run(run("r1"), shorter, keep=0, rewrite=rewrite))
    again = replace(shorter, messages=(shown[-1], message(8, "newer")))
    await within(store.begin_run(run("r2"), again, keep=0, rewrite=Rewrite((Stretch(0, 2, 1),), hides=(0, 1))))

    assert await within(store.load_thread(OWNER, "t1")) == again
    assert await listed(store) == [*again.messages]
    assert await listed(store, version=2) == [*shown, message(8, "newer")]
    assert await listed(store, version=1) == [*held.messages]


async def test_messages_and_versions_are_listed_page_by_page(store: Store) -> None:
    held = await first_version(store)
    for number in range(2, 6):
        held = await next_version(store, held, 3, number)
    for limit in (1, 2, 5, 6):
        numbers, said, cursor = list[int](), list[Message](), None
        while True:
            page = await within(store.list_versions(OWNER, "t1", limit=limit, cursor=cursor))
            numbers += [item.number for item in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert numbers == [1, 2, 3, 4, 5]
        while True:
            found = await within(store.list_messages(OWNER, "t1", limit=limit, cursor=cursor, version=3))
            said += found.items
            if (cursor := found.next_cursor) is None:
                break
        assert said == [*messages(3), message(300, "edited")]


async def test_a_fork_goes_its_own_way(store: Store) -> None:
    held = await first_version(store)
    fork = replace(held, thread_id="fork", messages=held.messages[:2], last_run_id=None)
    assert await within(store.fork_thread(OWNER, "t1", fork))
    assert await within(store.load_thread(OWNER, "fork")) == fork
    assert await versions(store, "fork") == [ThreadVersion(1, True, None, None, 100.0)]

    longer = replace(held, messages=(*held.messages, message(10)))
    await within(store.begin_run(run("r1"), longer, keep=4))
    other = replace(fork, messages=(*fork.messages, message(20)))
    await within(store.begin_run(run("r2", "fork"), other, keep=2))
    assert await within(store.load_thread(OWNER, "t1")) == longer
    assert await within(store.load_thread(OWNER, "fork")) == other

    assert await within(store.delete_thread(OWNER, "t1"))
    assert await listed(store, "fork") == [*other.messages]
    assert await within(store.load_thread(OWNER, "fork")) == other


async def test_each_message_keeps_the_time_when_it_came(store: Store) -> None:
    held = await first_version(store)
    assert await within(store.message_times(OWNER, "t1")) == [100.0] * 4
    second = await next_version(store, held, 2, updated_at=300.0)
    assert await within(store.message_times(OWNER, "t1")) == [100.0, 100.0, 300.0]
    fork = replace(second, thread_id="fork", updated_at=400.0, version=1, last_version=1)
    assert await within(store.fork_thread(OWNER, "t1", fork))
    longer = replace(fork, messages=(*fork.messages, message(7)), updated_at=500.0)
    await within(store.write_thread(longer, keep=3))
    assert await within(store.message_times(OWNER, "fork")) == [100.0, 100.0, 300.0, 500.0]
    await within(store.select_version(OWNER, "t1", 1))
    assert await within(store.message_times(OWNER, "t1")) == [100.0] * 4
    assert await within(store.message_times("key-2", "t1")) == []
    assert await within(store.message_times(OWNER, "none")) == []


async def test_a_message_keeps_its_time_when_those_before_it_change(store: Store) -> None:
    held = await first_version(store)
    said = (message(50, "another system prompt"), *held.messages[1:], message(60))
    changed = replace(held, messages=said, updated_at=300.0)
    await within(store.begin_run(run("r1"), changed, keep=0, rewrite=Rewrite((Stretch(1, 1, 3),))))
    assert await within(store.message_times(OWNER, "t1")) == [300.0, 100.0, 100.0, 100.0, 300.0]
    assert await listed(store) == [*said]


@pytest.mark.parametrize("has_versions", [False, True])
async def test_a_message_that_becomes_another_came_when_it_did(store: Store, has_versions: bool) -> None:
    held = await first_version(store)
    if has_versions:
        held = await next_version(store, held, 4)
    said = (held.messages[0], message(1, "in other words"), message(40), *held.messages[2:])
    changed = replace(held, messages=said, updated_at=500.0)
    rest = len(held.messages) - 2
    rewrite = Rewrite((Stretch(3, 2, rest),), changes=(Change(1, 1),))
    await within(store.write_thread(changed, keep=1, rewrite=rewrite))
    times = await within(store.message_times(OWNER, "t1"))
    assert times == [100.0, 100.0, 500.0, *[100.0] * rest]
    assert await listed(store) == [*said]
    edited = replace(changed, version=7, last_version=7, updated_at=600.0, messages=(said[0], message(1, "an edit")))
    await within(store.write_thread(edited, keep=1, rewrite=Rewrite(from_message="msg_0", changes=(Change(1, 1),))))
    assert await within(store.message_times(OWNER, "t1")) == [100.0, 600.0]


async def test_a_fork_begins_as_its_thread_does_or_is_none(store: Store) -> None:
    held = await first_version(store)
    fork = replace(held, thread_id="fork")
    assert not await within(store.fork_thread(OWNER, "unknown", fork))
    assert not await within(store.fork_thread("key-2", "t1", fork))
    for said in ((message(50),), (*held.messages, message(50))):
        with pytest.raises(ConflictError):
            await within(store.fork_thread(OWNER, "t1", replace(fork, messages=said)))
    with pytest.raises(ConflictError):
        await within(store.fork_thread(OWNER, "t1", held))
    assert await within(store.load_thread(OWNER, "fork")) is None
    assert await within(store.load_thread(OWNER, "t1")) == held


async def test_a_deleted_thread_leaves_no_version_to_a_new_one_of_its_id(store: Store) -> None:
    held = await first_version(store)
    await next_version(store, held, 2)
    assert await within(store.delete_thread(OWNER, "t1"))
    assert await versions(store) == []
    await first_version(store, count=1)
    assert await versions(store) == [ThreadVersion(1, True, None, None, 100.0)]
    assert await listed(store, version=1) == [*messages(1)]


async def test_versions_are_there_after_a_restart(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    held = await first_version(store)
    second = await next_version(store, held, 2)
    fork = replace(second, thread_id="fork", messages=second.messages[:3], version=1, last_version=1)
    assert await within(store.fork_thread(OWNER, "t1", fork))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.load_thread(OWNER, "t1")) == second
    assert await within(store.load_thread(OWNER, "fork")) == fork
    assert await listed(store, version=1) == [*held.messages]
    await within(store.close())
