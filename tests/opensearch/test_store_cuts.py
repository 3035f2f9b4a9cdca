"""A store whose requests to the cluster are lost, refused or late: a write is done as a whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal
from uuid import uuid4

import pytest
import pytest_asyncio

from gateway.errors import StoreError, StoreFullError
from gateway.messages import JsonObject
from gateway.store import DueDeletion, RunStatus, Store
from tests.opensearch.front import (
    CUT_AFTER,
    CUT_BEFORE,
    FULL,
    PASS,
    TOO_MANY,
    UNAVAILABLE,
    Cut,
    Fate,
    Hold,
    RefuseItems,
)
from tests.opensearch.store_through_front import IMPATIENT, NOTE, Scene, note_id, scene_at
from tests.stored_samples import (
    DEADLINE_SECONDS,
    begin,
    ended,
    logged,
    messages,
    numbered,
    records,
    run,
    thread,
    within,
)
from tests.whole_writes import WRITES, end, longer, second

Step = Callable[[Store, str], Awaitable[object]]

# With the requests that a write sends when it has been answered.
_FURTHER: Final = 3


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done, after what. `is_last`: it is not tried again after it failed. `has_rest`: it counts as done before
    everything that it deletes is gone.
    """

    do: Step
    after: tuple[Step, ...] = ()
    is_last: bool = False
    has_rest: bool = False


async def begun(store: Store, owner: str) -> None:
    await begin(store, "r1", owner=owner)


async def queued(store: Store, owner: str) -> None:
    waits = replace(run("r2", owner=owner, status=RunStatus.QUEUED), started_at=None)
    await store.queue_run(waits, messages(3)[1:])


async def left(store: Store, owner: str) -> None:
    await store.queue_run(replace(run("r2", owner=owner, status=RunStatus.CANCELLED, finished_at=9.0), started_at=None))


async def appended(store: Store, owner: str) -> None:
    await store.append_events(owner, "r1", 1, records(1, 2))


async def ended_with_erasure(store: Store, owner: str) -> None:
    record = replace(ended("r1", owner=owner), thread_length=3)
    gone = frozenset(["msg_a"])
    await store.end_run(record, longer(owner), keep=1, first=3, records=records(3, 3), erase=gone)


async def stated(store: Store, owner: str) -> None:
    await store.write_thread(replace(longer(owner), state={"before": "z" * 5_000}), keep=1)


def due(owner: str) -> list[DueDeletion]:
    return [DueDeletion(f"due-{owner}", "assistant", "holder", ("x",), 1.0)]


def put(title: str) -> Step:
    body: JsonObject = {"title": title}
    return lambda store, owner: store.documents.put(NOTE, note_id(owner), owner, {**body})


OPERATIONS: dict[str, Operation] = {
    **{name: Operation(write, (begun,)) for name, write in WRITES.items()},
    "begin of a queued run": Operation(WRITES["begin"], (begun, queued)),
    "append": Operation(appended, (begun,), is_last=True),
    "end after events": Operation(lambda store, owner: end(store, owner, first=3), (begun, appended)),
    "end with another state": Operation(lambda store, owner: end(store, owner), (begun, stated)),
    "end with erasure": Operation(ended_with_erasure, (begun, appended)),
    "select a version": Operation(
        lambda store, owner: store.select_version(owner, "t1", 1),
        (begun, stated, lambda store, owner: store.write_thread(second(owner), keep=0)),
    ),
    "delete a version": Operation(
        lambda store, owner: store.delete_version(owner, "t1", 1, due(owner)),
        (begun, stated, lambda store, owner: store.write_thread(second(owner), keep=0)),
        has_rest=True,
    ),
    "delete with what is due": Operation(
        lambda store, owner: store.delete_thread(owner, "t1", due(owner)),
        (begun, queued, appended, put("a title")),
        has_rest=True,
    ),
    "delete a run": Operation(lambda store, owner: store.delete_run(owner, "r1"), (begun, end)),
    "queue": Operation(queued, (begun,)),
    "queue for a new thread": Operation(queued),
    "leave the queue": Operation(left, (begun, queued)),
    "put a document": Operation(put("a title")),
    "put a document again": Operation(put("another title"), (put("a title"),)),
    "delete a document": Operation(
        lambda store, owner: store.documents.delete(NOTE, note_id(owner), owner), (put("a title"),)
    ),
}


_QUICK: Final = ("begin", "append", "end with another state", "queue")


def each_operation(*further: str) -> pytest.MarkDecorator:
    """For a test of each operation: few of them, and `further`, belong to the usual suite."""
    quick = (*_QUICK, *further)
    names = [pytest.param(name, marks=() if name in quick else pytest.mark.faults) for name in OPERATIONS]
    return pytest.mark.parametrize("name", names)


@pytest_asyncio.fixture
async def scene(opensearch_url: str) -> AsyncGenerator[Scene]:
    async with scene_at(opensearch_url, f"test-{uuid4().hex}") as made:
        yield made


@dataclass(frozen=True, slots=True)
class Trial:
    """An operation that is done again and again, each time for another owner. It sends `count` requests, and an owner's
    view changes from `old` to `new`.
    """

    scene: Scene
    operation: Operation
    count: int
    old: str
    new: str

    async def prepared(self, owner: str) -> None:
        await _prepare(self.scene, self.operation, owner)

    async def do(self, owner: str) -> bool:
        """Whether it was done; otherwise it raised."""
        try:
            await within(self.operation.do(self.scene.store, owner))
        except StoreError:
            return False
        return True

    async def has_settled(self, owner: str, is_done: bool) -> None:
        """The cluster is there again: what raised was not done."""
        wanted = self.new if is_done else self.old
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self.operation.has_rest and await self.view(owner) != wanted:
                await asyncio.sleep(0)
        for store in (self.scene.store, None):
            assert await self.view(owner, store) == wanted, owner

    async def done_again(self, owner: str, is_done: bool) -> None:
        """What failed works now."""
        if not is_done and not self.operation.is_last:
            assert await self.do(owner)
            assert await self.view(owner) == self.new

    async def view(self, owner: str, store: Store | None = None) -> str:
        return await within(self.scene.view(owner, store))


async def _prepare(scene: Scene, operation: Operation, owner: str) -> None:
    for step in operation.after:
        await within(step(scene.store, owner))
    await within(scene.store.unfinished_runs())  # what follows from the writes is done too


async def trial_of(scene: Scene, name: str) -> Trial:
    operation = OPERATIONS[name]
    await _prepare(scene, operation, "nobody")
    old = await within(scene.view("nobody"))
    with scene.broken(lambda number: PASS) as counted:
        await within(operation.do(scene.store, "nobody"))
        count = counted.count
        new = await within(scene.view("nobody", scene.store))
    assert await within(scene.view("nobody")) == new
    assert new != old
    return Trial(scene, operation, count, old, new)


async def goes_on(scene: Scene, owner: str) -> None:
    """The next write of the thread works, and is seen everywhere."""
    last = await within(scene.store.load_thread(owner, "t1")) or thread(owner=owner)
    now = replace(last, messages=messages(1))
    await within(scene.store.begin_run(run("next", owner=owner), now, keep=0, records=records(1, 1)))
    for store in (scene.store, scene.reader):
        assert await logged(store, "next", owner=owner) == numbered(1)
        found = await within(store.load_thread(owner, "t1"))
        assert found is not None
        assert found.messages == messages(1)


@pytest.mark.parametrize(
    "fate",
    [
        pytest.param(CUT_AFTER, id="after"),
        pytest.param(CUT_BEFORE, id="before", marks=pytest.mark.faults),
        pytest.param(UNAVAILABLE, id="503", marks=pytest.mark.faults),
        pytest.param(TOO_MANY, id="429", marks=pytest.mark.faults),
    ],
)
@each_operation("delete a run")
async def test_one_lost_or_refused_request_is_sent_again(scene: Scene, name: str, fate: Fate) -> None:
    trial = await trial_of(scene, name)
    for chosen in range(1, trial.count + _FURTHER + 1):
        owner = f"key-{chosen}"
        await trial.prepared(owner)
        with scene.broken(_at(chosen, fate)):
            assert await trial.do(owner)
            assert await trial.view(owner, scene.store) == trial.new
        assert await trial.view(owner) == trial.new


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.faults)])
@each_operation()
async def test_a_write_is_whole_when_the_cluster_is_gone_from_a_request_on(
    scene: Scene, name: str, when: Literal["before", "after"]
) -> None:
    trial = await trial_of(scene, name)
    for first in range(1, trial.count + _FURTHER + 1):
        owner = f"key-{first}"
        await trial.prepared(owner)
        with scene.broken(_gone_from(first, when), IMPATIENT):
            is_done = await trial.do(owner)
            there = await trial.view(owner)
            assert trial.operation.has_rest or there in ([trial.new] if is_done else [trial.old, trial.new]), owner
        await trial.has_settled(owner, is_done)
        await trial.done_again(owner, is_done)
        await goes_on(scene, owner)


def _gone_from(first: int, when: Literal["before", "after"]) -> Callable[[int], Fate]:
    def fate(number: int) -> Fate:
        return PASS if number < first else Cut(when if number == first else "before")

    return fate


@each_operation()
async def test_a_request_that_is_late_changes_nothing(scene: Scene, name: str) -> None:
    trial = await trial_of(scene, name)
    for chosen in range(1, trial.count + _FURTHER + 1):
        owner, hold = f"key-{chosen}", Hold()
        await trial.prepared(owner)
        with scene.broken(_at(chosen, hold), IMPATIENT) as counted:
            is_done = await trial.do(owner)
            await trial.view(owner)
        try:
            await trial.has_settled(owner, is_done)
            await trial.done_again(owner, is_done)
            await goes_on(scene, owner)
            after = await trial.view(owner)
        finally:
            hold.release()
        if counted.count >= chosen:
            await within(hold.answered.wait())
        for store in (scene.store, None):
            assert await trial.view(owner, store) == after, owner


def _at(chosen: int, fate: Fate) -> Callable[[int], Fate]:
    return lambda number: fate if number == chosen else PASS


# --- what is refused


async def test_busy_items_alone_are_sent_again(scene: Scene) -> None:
    await begin(scene.store, "r1")
    scene.front.forget(lambda number, request: RefuseItems({0}, TOO_MANY) if number % 2 else PASS)
    await within(scene.store.begin_run(run("r2"), longer(), keep=1, records=records(1, 2)))
    await within(scene.store.append_events("key-1", "r2", 3, records(3, 4)))
    scene.front.forget()
    assert await logged(scene.reader, "r2") == numbered(4)
    found = await within(scene.reader.load_thread("key-1", "t1"))
    assert found is not None
    assert found.messages == messages(3)


@each_operation()
async def test_a_full_cluster_is_read_and_written_again_once_there_is_room(scene: Scene, name: str) -> None:
    trial = await trial_of(scene, name)
    await trial.prepared("key-1")
    scene.front.forget(lambda number, request: FULL if "/_bulk" in request.target else PASS)
    with pytest.raises(StoreFullError):
        await within(trial.operation.do(scene.store, "key-1"))
    assert await trial.view("key-1", scene.store) == trial.old
    scene.front.forget()
    await trial.done_again("key-1", False)
    await goes_on(scene, "key-1")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_log_whose_chunk_is_lost_has_no_gap_and_ends(scene: Scene, when: Literal["before", "after"]) -> None:
    await begun(scene.store, "key-1")
    await within(scene.store.append_events("key-1", "r1", 1, records(1, 2)))
    with scene.broken(_gone_from(1, when), IMPATIENT), pytest.raises(StoreError):
        await within(scene.store.append_events("key-1", "r1", 3, records(3, 4)))
    with pytest.raises(StoreError):
        await within(scene.store.append_events("key-1", "r1", 5, records(5, 6)))
    assert await logged(scene.store) == numbered(2)
    await within(end(scene.store, "key-1", first=3))
    assert await logged(scene.store) == await logged(scene.reader) == numbered(4)
    assert await within(scene.reader.last_sequence("key-1", "r1")) == 4


async def test_a_new_run_is_refused_in_time_though_others_wait_longer(scene: Scene) -> None:
    loop = asyncio.get_running_loop()
    for number in range(4):
        await begin(scene.store, f"r{number}", f"t{number}")
    await within(scene.store.unfinished_runs())
    hold = Hold()
    with scene.broken(lambda number: hold, 0.1):
        appends = []
        for number in range(4):  # each in a request of its own: two are under way, the others wait
            appends.append(scene.store.append_events("key-1", f"r{number}", 1, records(1, 2)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        began = loop.time()
        with pytest.raises(StoreError):
            await within(scene.store.begin_run(run("new", "new"), thread("new"), keep=0))
        assert loop.time() - began < 4
        assert not any(append.done() for append in appends)
        hold.release()
        await within(asyncio.gather(*appends))
    for number in range(4):
        assert await logged(scene.reader, f"r{number}") == numbered(2)
    assert await within(scene.store.load_thread("key-1", "new")) is None
