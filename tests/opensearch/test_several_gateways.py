"""Several stores on one prefix: each thread is held by one of them, and another one ends what a gone one left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from gateway.errors import ConflictError, GatewayError
from gateway.messages import Message, TextBlock
from gateway.opensearch.bulks import Item
from gateway.opensearch.indices import EVENTS
from gateway.records import NO_EVENTS
from gateway.store import HeldElsewhereError, RunStatus, Store, Thread, ThreadChange
from tests.opensearch.front import CUT_AFTER, CUT_BEFORE, front_before
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import (
    OWNER,
    begin,
    ended,
    logged,
    messages,
    numbered,
    opensearch_store,
    records,
    run,
    thread,
    within,
)

LEASE_SECONDS = 2.0
Result = TypeVar("Result")


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


@asynccontextmanager
async def stores(folder: Path, count: int = 2, lease_seconds: float = LEASE_SECONDS) -> AsyncGenerator[list[Store]]:
    found = [opensearch_store(folder, f"http://127.0.0.1:{number + 1}", lease_seconds) for number in range(count)]
    for each in found:
        await within(each.open())
    try:
        yield found
    finally:
        for each in found:
            await within(each.close())


async def end(store: Store, run_id: str = "r1", thread_id: str = "t1", *, holds: bool = False) -> None:
    await within(
        store.end_run(
            ended(run_id, thread_id),
            thread(thread_id, count=2),
            keep=1,
            first=1,
            records=records(1, 1),
            holds=holds,
        )
    )


async def pause(store: Store, other: Store) -> None:
    """Let the one be silent until the other takes it for dead."""
    told = asyncio.Event()

    async def on_left() -> None:
        told.set()

    other.gateways.events.on_left = on_left
    store._members.stop_beating()  # type: ignore[attr-defined]
    async with asyncio.timeout(4 * LEASE_SECONDS):
        await told.wait()


async def holder_at_begin(store: Store, thread_id: str = "t1") -> str | None:
    return (await within(store.load_start(OWNER, "new", thread_id))).holder


async def test_a_thread_with_a_run_under_way_is_held_by_its_gateway_until_the_run_ends(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        await begin(one)
        own = one.gateways.own_id
        assert await holder_at_begin(two) == own
        assert await within(two.holder(OWNER, "t1")) == own
        assert await holder_at_begin(one) is None
        for write in (
            two.begin_run(run("r2", "t1"), thread(), keep=1),
            two.update_thread(OWNER, "t1", ThreadChange(title="other")),
            two.write_thread(thread(count=2), keep=1),
            two.delete_thread(OWNER, "t1"),
            two.queue_run(run("r2", "t1", status=RunStatus.QUEUED), messages(1)),
        ):
            with pytest.raises(HeldElsewhereError) as refused:
                await within(write)
            assert refused.value.gateway_id == own
        assert (await within(two.load_thread(OWNER, "t1"))) == thread(), "everybody may read"
        await end(one)
        assert await holder_at_begin(two) is None
        await within(two.begin_run(run("r2", "t1"), thread(count=3), keep=2))
        assert await holder_at_begin(one) == two.gateways.own_id
        assert (await within(one.load_thread(OWNER, "t1"))) == thread(count=3)


async def test_a_thread_for_which_runs_wait_stays_with_its_gateway(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        await begin(one)
        await within(one.queue_run(run("r2", "t1", status=RunStatus.QUEUED), messages(1)))
        await end(one, holds=True)
        assert await holder_at_begin(two) == one.gateways.own_id
        assert await within(two.holder(OWNER, "t1", "r2")) == one.gateways.own_id
        await within(one.begin_run(run("r2", "t1"), thread(count=2), keep=2))
        await within(one.end_run(ended("r2", "t1"), thread(count=2), keep=2, first=1, records=records(1, 1)))
        assert await holder_at_begin(two) is None


async def test_a_run_that_waits_for_a_thread_that_nobody_has_yet_is_found_where_it_waits(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        await within(one.queue_run(run("r1", "t1", status=RunStatus.QUEUED), messages(1)))
        assert await within(two.holder(OWNER, "t1")) is None
        assert await within(two.holder(OWNER, "t1", "r1")) == one.gateways.own_id
        assert await within(two.waiting_runs()) == []
        assert [each.run_id for each in await within(two.unfinished_runs())] == []


async def test_who_waits_for_a_threads_next_run_holds_it(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        assert not await within(one.hold_thread(OWNER, "t1", holds=True)), "there is no such thread"
        await begin(one)
        await end(one)
        assert await within(one.hold_thread(OWNER, "t1", holds=True))
        assert await holder_at_begin(two) == one.gateways.own_id
        with pytest.raises(HeldElsewhereError):
            await within(two.hold_thread(OWNER, "t1", holds=True))
        assert await within(one.hold_thread(OWNER, "t1", holds=False))
        assert await within(two.hold_thread(OWNER, "t1", holds=True))
        await within(two.begin_run(run("r2", "t1"), thread(count=2), keep=2))
        assert await within(two.hold_thread(OWNER, "t1", holds=False))
        assert await holder_at_begin(one) == two.gateways.own_id, "a run is under way on it"


async def test_a_run_whose_begin_was_refused_begins_where_its_thread_is(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        await begin(one)
        await end(one)
        assert await within(two.hold_thread(OWNER, "t1", holds=True))
        for waits in (False, True):
            name = f"waits {waits}"
            with pytest.raises(HeldElsewhereError):
                await within(one.begin_run(run(name, "t1"), thread(count=2), keep=2))
            if waits:
                await within(two.queue_run(run(name, "t1", status=RunStatus.QUEUED), messages(1)))
            await within(two.begin_run(run(name, "t1"), thread(count=2), keep=2))
            await end(two, name, holds=True)
            assert await within(two.hold_thread(OWNER, "t1", holds=False))
            assert await within(one.load_thread(OWNER, "t1")) is not None
            assert await within(two.hold_thread(OWNER, "t1", holds=True))


async def test_a_gateway_takes_over_no_thread_whose_run_has_ended_meanwhile(tmp_path: Path) -> None:
    async with stores(tmp_path) as (one, two):
        await begin(one)
        await end(one)
        assert await within(two.hold_thread(OWNER, "t1", holds=True, takes_over=True))
        assert await within(one.holder(OWNER, "t1")) is None
        await within(one.begin_run(run("r2", "t1"), thread(count=2), keep=2))


async def test_of_gateways_that_begin_on_one_thread_at_the_same_time_one_has_it(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as found:
        await begin(found[0])
        await end(found[0])
        count = 2
        for number in range(12):
            for store in found:
                assert len((await loaded(store)).messages) == count

            names = {id(store): f"run {number} of {place}" for place, store in enumerate(found)}
            won = await within(gathered([begun(store, names[id(store)], count) for store in found]))
            (winner,) = [each for each in won if each is not None]
            name = names[id(winner)]
            count += 1
            for store in found:
                there = await loaded(store)
                assert there.messages[-1].id == name, "the message of the one that began"
                assert there.last_run_id == name
                assert [each.run_id for each in await within(store.unfinished_runs())] == (
                    [name] if store is winner else []
                )
            await within(
                winner.end_run(ended(name, "t1"), await loaded(winner), keep=count, first=1, records=records(1, 1))
            )


async def test_edits_of_several_gateways_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as found:
        await begin(found[0])
        await end(found[0])
        for number in range(5):
            changes = [ThreadChange(title=f"title {number}"), ThreadChange(metadata={"n": number})]
            changes.append(ThreadChange(updated_at=1000.0 + number))
            results = await within(
                gathered([store.update_thread(OWNER, "t1", each) for store, each in zip(found, changes, strict=True)])
            )
            assert results == [True, True, True]
            summary = await within(random.choice(found).load_summary(OWNER, "t1"))
            assert summary is not None
            assert (summary.title, summary.metadata, summary.updated_at) == (
                f"title {number}",
                {"n": number},
                1000.0 + number,
            )


async def test_what_a_killed_gateway_left_is_ended_by_another_one(tmp_path: Path) -> None:
    async with stores(tmp_path, lease_seconds=2.0) as (killed, two):
        await begin(killed)
        await within(killed.append_events(OWNER, "r1", 1, records(1, 3)))
        assert await within(two.unfinished_runs()) == []
        await pause(killed, two)
        assert await within(two.unfinished_runs()) == [run()]
        with pytest.raises(ConflictError) as busy:
            await within(two.begin_run(run("r2", "t1"), thread(), keep=1))
        assert busy.value.code == "thread_busy"
        with pytest.raises(ConflictError) as left:
            await within(two.hold_thread(OWNER, "t1", holds=True))
        assert left.value.code == "thread_busy", "who waits takes no run over"
        assert await within(two.hold_thread(OWNER, "t1", holds=True, takes_over=True))
        with pytest.raises(ConflictError):
            await within(two.begin_run(run("r2", "t1"), thread(), keep=1))
        await within(two.end_run(ended(), thread(count=2), keep=1, first=4, records=records(4, 4)))
        assert await logged(two) == numbered(4)
        await within(two.begin_run(run("r2", "t1"), thread(count=2), keep=2))


async def test_a_paused_gateway_that_was_taken_over_stores_nothing_and_comes_back_as_another_one(
    tmp_path: Path,
) -> None:
    async with stores(tmp_path) as (paused, two):
        await begin(paused)
        await within(paused.append_events(OWNER, "r1", 1, records(1, 3)))
        lost, before = asyncio.Event(), paused.gateways.own_id

        async def on_lost() -> None:
            lost.set()

        paused.gateways.events.on_lost = on_lost
        await pause(paused, two)
        late = paused.append_events(OWNER, "r1", 4, records(4, 6))
        await within(two.hold_thread(OWNER, "t1", holds=True, takes_over=True))
        await within(two.end_run(ended(), thread(count=2), keep=1, first=4, records=records(4, 4)))
        beating = asyncio.ensure_future(paused._members._keep_beating())  # type: ignore[attr-defined]
        async with asyncio.timeout(4 * LEASE_SECONDS):
            await lost.wait()
        with pytest.raises(GatewayError):
            await within(late)
        await within(beating)
        assert paused.gateways.own_id != before
        assert await logged(two) == await logged(paused) == numbered(4)
        await within(paused.begin_run(run("r2", "t1"), thread(count=2), keep=2))
        assert await holder_at_begin(two) == paused.gateways.own_id


async def test_an_end_that_a_paused_gateway_was_storing_replaces_no_other(tmp_path: Path) -> None:
    async with stores(tmp_path) as (paused, two):
        await begin(paused)
        await within(paused.append_events(OWNER, "r1", 1, records(1, 3)))
        await pause(paused, two)
        end_of_paused = ended(at=300.0)
        late = paused.end_run(end_of_paused, thread(count=2), keep=1, first=4, records=records(4, 4))
        await within(two.hold_thread(OWNER, "t1", holds=True, takes_over=True))
        await within(two.end_run(ended(), thread(count=2), keep=1, first=4, records=records(4, 4)))
        await within(paused._members._keep_beating())  # type: ignore[attr-defined]
        with pytest.raises(GatewayError):
            await within(late)
        again = paused.end_run(end_of_paused, thread(count=2), keep=1, first=5, records=NO_EVENTS)
        with pytest.raises(ConflictError):
            await within(again)
        assert await within(two.load_run(OWNER, "r1")) == ended()
        assert await logged(two) == await logged(paused) == numbered(4)


async def test_a_paused_gateway_undoes_nothing_that_its_successor_has_read(tmp_path: Path, opensearch_url: str) -> None:
    async with front_before(opensearch_url) as front:
        paused = opensearch_store(tmp_path, "http://127.0.0.1:1", LEASE_SECONDS, url=front.url)
        two = opensearch_store(tmp_path, "http://127.0.0.1:2", LEASE_SECONDS)
        for each in (paused, two):
            await within(each.open())
        await begin(paused)
        await within(paused.append_events(OWNER, "r1", 1, records(1, 3)))
        front.rule = lambda _, request: CUT_AFTER if b'"first":4' in request.body else CUT_BEFORE
        late = paused.append_events(OWNER, "r1", 4, records(4, 6))
        hasty = Item(
            "delete", EVENTS, "none", None
        )  # in one request with it, which fails before the events' time is over
        paused._bulks.add(hasty, lambda _: None, seconds=LEASE_SECONDS / 2)  # type: ignore[attr-defined]
        await pause(paused, two)
        await within(two.hold_thread(OWNER, "t1", holds=True, takes_over=True))
        await within(two.end_run(ended(), thread(count=2), keep=1, first=7, records=records(7, 7)))
        assert await logged(two) == numbered(7)
        front.forget()
        await within(paused._members._keep_beating())  # type: ignore[attr-defined]
        with pytest.raises(GatewayError):
            await within(late)
        await within(paused._threads.settled())  # type: ignore[attr-defined]
        for each in (paused, two):
            assert await logged(each) == numbered(7)
            await within(each.close())


async def begun(store: Store, name: str, count: int) -> Store | None:
    """The store, if it could begin a run with one more message on the thread of `count` messages."""
    before = await loaded(store)
    said = Message(name, "user", (TextBlock(name),))
    try:
        new = replace(before, messages=(*before.messages, said), last_run_id=name)
        await store.begin_run(run(name, "t1"), new, keep=count)
    except HeldElsewhereError:
        return None
    return store


async def loaded(store: Store) -> Thread:
    found = await within(store.load_thread(OWNER, "t1"))
    assert found is not None
    return found


async def gathered(work: Sequence[Awaitable[Result]]) -> list[Result]:
    return list(await asyncio.gather(*work))


async def test_a_run_whose_request_came_to_two_gateways_at_once_has_the_log_of_the_one_that_began_it(
    tmp_path: Path,
) -> None:
    async with stores(tmp_path) as found:
        for number in range(8):
            name = f"run {number}"

            async def begins(store: Store, name: str = name) -> Store | None:
                try:
                    await store.begin_run(run(name, name), thread(name), keep=0, records=records(1, 2))
                except (HeldElsewhereError, ConflictError):
                    return None
                return store

            won = await within(gathered([begins(store) for store in found]))
            (winner,) = [each for each in won if each is not None]
            await within(winner.append_events(OWNER, name, 3, records(3, 4)))
            for store in found:
                assert await logged(store, name) == numbered(4)
