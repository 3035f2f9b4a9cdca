"""A store whose requests to the cluster are lost, refused or late: a write is done as a whole, or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal
from uuid import uuid4

import pytest
import pytest_asyncio

from gateway.errors import StoreError
from gateway.messages import JsonObject
from gateway.store import DueDeletion, RunStatus, Store
from tests.opensearch.front import (
    CUT_AFTER,
    CUT_BEFORE,
    PASS,
    TOO_MANY,
    UNAVAILABLE,
    Cut,
    Fate,
)
from tests.opensearch.store_through_front import IMPATIENT, NOTE, Scene, note_id, scene_at
from tests.stored_samples import begin, ended, logged, messages, numbered, records, run, thread, within
from tests.whole_writes import WRITES, end, longer, second

Step = Callable[[Store, str], Awaitable[object]]

# With the requests that a write sends when it has been answered.
_FURTHER: Final = 3


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done, after what."""

    do: Step
    after: tuple[Step, ...] = ()


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


def due(owner: str) -> list[DueDeletion]:
    return [DueDeletion(f"due-{owner}", "assistant", "holder", ("x",), 1.0)]


def put(title: str) -> Step:
    body: JsonObject = {"title": title}
    return lambda store, owner: store.documents.put(NOTE, note_id(owner), owner, {**body})


OPERATIONS: dict[str, Operation] = {
    **{name: Operation(write, (begun,)) for name, write in WRITES.items()},
    "begin of a queued run": Operation(WRITES["begin"], (begun, queued)),
    "append": Operation(appended, (begun,)),
    "end after events": Operation(lambda store, owner: end(store, owner, first=3), (begun, appended)),
    "end with erasure": Operation(ended_with_erasure, (begun, appended)),
    "select a version": Operation(
        lambda store, owner: store.select_version(owner, "t1", 1),
        (begun, lambda store, owner: store.write_thread(second(owner), keep=0)),
    ),
    "delete a version": Operation(
        lambda store, owner: store.delete_version(owner, "t1", 1, due(owner)),
        (begun, lambda store, owner: store.write_thread(second(owner), keep=0)),
    ),
    "delete with what is due": Operation(
        lambda store, owner: store.delete_thread(owner, "t1", due(owner)), (begun, queued, appended, put("a title"))
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

    async def view(self, owner: str, store: Store | None = None) -> str:
        """The view without the run with which it is shown that the thread can be written."""
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
    await within(scene.store.begin_run(run("next", owner=owner), thread(owner=owner), keep=0, records=records(1, 1)))
    for store in (scene.store, scene.reader):
        assert await logged(store, "next", owner=owner) == numbered(1)
        found = await within(store.load_thread(owner, "t1"))
        assert found is not None
        assert found.messages == messages(1)


@pytest.mark.parametrize("fate", [CUT_BEFORE, CUT_AFTER, UNAVAILABLE, TOO_MANY], ids=["before", "after", "503", "429"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_one_lost_or_refused_request_is_sent_again(scene: Scene, name: str, fate: Fate) -> None:
    trial = await trial_of(scene, name)
    for chosen in range(1, trial.count + _FURTHER + 1):
        owner = f"key-{chosen}"
        await trial.prepared(owner)
        with scene.broken(lambda number, chosen=chosen: fate if number == chosen else PASS):  # type: ignore[misc]
            assert await trial.do(owner)
            assert await trial.view(owner, scene.store) == trial.new
        assert await trial.view(owner) == trial.new


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_write_is_whole_when_the_cluster_is_gone_from_a_request_on(
    scene: Scene, name: str, when: Literal["before", "after"]
) -> None:
    trial = await trial_of(scene, name)
    for first in range(1, trial.count + _FURTHER + 1):
        owner = f"key-{first}"
        await trial.prepared(owner)
        with scene.broken(_gone_from(first, when), IMPATIENT):
            is_done = await trial.do(owner)
            assert await trial.view(owner) in ([trial.new] if is_done else [trial.old, trial.new]), first
        assert await trial.view(owner, scene.store) == (trial.new if is_done else trial.old), first
        assert await trial.view(owner) == (trial.new if is_done else trial.old), first
        if not is_done:
            assert await trial.do(owner), first
            assert await trial.view(owner) == trial.new, first
        await goes_on(scene, owner)


def _gone_from(first: int, when: Literal["before", "after"]) -> Callable[[int], Fate]:
    def fate(number: int) -> Fate:
        return PASS if number < first else Cut(when if number == first else "before")

    return fate
