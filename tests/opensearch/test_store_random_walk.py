"""Many threads and runs on a store whose requests break at random, compared with what was acknowledged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random
from uuid import uuid4

import pytest

from gateway.errors import StoreError
from gateway.messages import Message
from gateway.records import NO_EVENTS
from gateway.store import RunStatus, Store, Thread
from tests.openai_chat_server import Received
from tests.opensearch.front import (
    CUT_AFTER,
    CUT_BEFORE,
    FULL,
    PASS,
    TOO_MANY,
    UNAVAILABLE,
    Fate,
    Pass,
    RefuseItems,
    Rule,
)
from tests.opensearch.store_through_front import scene_at
from tests.stored_samples import OWNER, ended, logged, message, numbered, records, run, thread

PATIENCE = 0.1
"""Deadlines of 0.5 and 6 seconds."""
LATE = Pass(after_seconds=0.7)


def broken_at_random(random: Random, share: float) -> Rule:
    def rule(number: int, request: Received) -> Fate:
        if random.random() >= share:
            return PASS
        fates: list[Fate] = [CUT_BEFORE, CUT_AFTER, CUT_AFTER, TOO_MANY, UNAVAILABLE, LATE]
        if "/_bulk" in request.target:
            fates += [RefuseItems({0}, TOO_MANY), FULL]
        return random.choice(fates)

    return rule


@dataclass(slots=True)
class Walk:
    """What one thread's caller does, one step after the other, and what was acknowledged: the thread's messages (None:
    there is no thread) and how many events each run has. `open` is the run under way. `is_lost`: its log takes no more,
    unless it `is_reopened`: after a deletion that was refused, the log is looked up again.
    """

    store: Store
    random: Random
    thread_id: str
    messages: tuple[Message, ...] | None = None
    events: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    open: str | None = None
    is_lost: bool = False
    is_reopened: bool = False
    count: int = 0
    refused: int = 0

    async def go(self, steps: int) -> None:
        for _ in range(steps):
            choices = [self.begin] if self.open is None else [self.append, self.append, self.append, self.end]
            if self.messages is not None:
                choices += [self.edit] if self.open is None else []
                choices += [self.delete_run] if self.over else []
                choices += [self.delete] if self.random.random() < 0.2 else []
            try:
                await self.random.choice(choices)()
            except StoreError:
                self.refused += 1

    def next(self) -> int:
        self.count += 1
        return self.count

    def as_is(self, messages: tuple[Message, ...]) -> Thread:
        return replace(thread(self.thread_id), messages=messages)

    async def begin(self) -> None:
        run_id = f"{self.thread_id}-{self.next()}"
        kept = self.messages or ()
        now = (*kept, message(self.next()))
        first = self.random.randint(0, 2)
        events = records(1, first) if first else NO_EVENTS
        await self.store.begin_run(run(run_id, self.thread_id), self.as_is(now), keep=len(kept), records=events)
        self.messages, self.open, self.is_lost, self.is_reopened = now, run_id, False, False
        self.events[run_id] = first

    async def append(self) -> None:
        assert self.open is not None, "the choices say so"
        first = self.events[self.open] + 1
        last = first + self.random.randint(0, 3)
        try:
            await self.store.append_events(OWNER, self.open, first, records(first, last))
        except StoreError:
            self.is_lost = True
            raise
        assert self.is_reopened or not self.is_lost, "events were stored after a gap"
        self.events[self.open] = last

    async def end(self) -> None:
        assert self.open is not None, "the choices say so"
        kept = self.messages or ()
        now = (*kept, message(self.next()))
        last = self.events[self.open] + 1
        await self.store.end_run(
            ended(self.open, self.thread_id), self.as_is(now), keep=len(kept), first=last, records=records(last, last)
        )
        self.messages, self.events[self.open] = now, last
        self.over.add(self.open)
        self.open = None

    async def edit(self) -> None:
        now = (*(self.messages or ())[:1], message(self.next()))
        await self.store.write_thread(self.as_is(now), keep=1)
        self.messages = now

    async def delete(self) -> None:
        self.is_reopened = True
        await self.store.delete_thread(OWNER, self.thread_id)
        self.messages, self.open = None, None
        self.events.clear()
        self.over.clear()

    async def delete_run(self) -> None:
        run_id = self.random.choice(sorted(self.over))
        await self.store.delete_run(OWNER, run_id)
        self.over.remove(run_id)
        del self.events[run_id]

    # --- afterwards

    async def check(self, store: Store) -> None:
        """The store has what was acknowledged, and nothing else."""
        found = await store.load_thread(OWNER, self.thread_id)
        assert (None if found is None else found.messages) == self.messages
        for number in range(self.count + 1):
            run_id = f"{self.thread_id}-{number}"
            record = await store.load_run(OWNER, run_id)
            expected = RunStatus.COMPLETED if run_id in self.over else RunStatus.RUNNING
            assert (None if record is None else record.status) == (expected if run_id in self.events else None)
            assert await logged(store, run_id) == numbered(self.events.get(run_id, 0))
        listed = await store.list_runs(OWNER, self.thread_id, limit=1000, cursor=None)
        assert {each.run_id for each in listed.items} == set(self.events)


@pytest.mark.parametrize(
    ("seed", "threads", "steps"),
    [
        pytest.param(1, 6, 25, id="short"),
        *[pytest.param(seed, 8, 250, id=f"long-{seed}", marks=pytest.mark.faults) for seed in range(2, 6)],
    ],
)
@pytest.mark.timeout(600)
async def test_what_was_acknowledged_is_there_once_and_nothing_else(
    opensearch_url: str, seed: int, threads: int, steps: int
) -> None:
    random = Random(seed)
    async with scene_at(opensearch_url, f"test-{uuid4().hex}") as scene:
        walks = [Walk(scene.store, Random(100 * seed + number), f"t{number}") for number in range(threads)]
        scene.store._cluster.patience = PATIENCE
        scene.front.forget(broken_at_random(random, 0.12))
        async with asyncio.timeout(540):
            await asyncio.gather(*[walk.go(steps) for walk in walks])
            scene.front.forget()
            scene.store._cluster.patience = 1.0
            for walk in walks:
                await walk.check(scene.store)
                await walk.check(scene.reader)
        assert 0 < sum(walk.refused for walk in walks) < threads * steps / 2
        unfinished = {each.run_id for each in await scene.store.unfinished_runs()}
        assert unfinished == {walk.open for walk in walks if walk.open is not None}
