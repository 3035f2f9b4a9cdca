"""A store whose cluster is silent for a while, or killed and started again: the event loop goes on, writes wait or fail
within their deadlines, and what was acknowledged is there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.errors import StoreError
from gateway.opensearch.store import OpenSearchStore
from gateway.store import RunStatus
from tests.opensearch.node import OpenSearchNode, opensearch_node
from tests.opensearch.store_through_front import NOTE, store_at
from tests.stored_samples import OWNER, begin, ended, logged, messages, numbered, records, run, thread

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

PREFIX = "gone"
# A new run is refused after 5 seconds. The machine may be busy.
REFUSED_SECONDS = 15.0
LONGEST_TICK_SECONDS = 1.0
DEADLINE_SECONDS = 120.0


@dataclass(slots=True)
class Ticks:
    """How long the event loop was longest busy with one thing."""

    longest: float = 0.0

    async def tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            self.longest = max(self.longest, loop.time() - before)


@contextlib.contextmanager
def ticking() -> Generator[Ticks]:
    ticks = Ticks()
    task = asyncio.ensure_future(ticks.tick())
    try:
        yield ticks
    finally:
        task.cancel()


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncGenerator[OpenSearchNode]:
    async with opensearch_node(tmp_path) as started:
        yield started


@contextlib.asynccontextmanager
async def store_on(node: OpenSearchNode) -> AsyncGenerator[OpenSearchStore]:
    store = store_at(node.url, PREFIX)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def outcome(work: Awaitable[object]) -> bool:
    """Whether it was done; otherwise it raised."""
    try:
        await work
    except StoreError:
        return False
    return True


async def test_a_silent_cluster_holds_up_nobody_and_loses_nothing(node: OpenSearchNode) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), store_on(node) as store:
        loop = asyncio.get_running_loop()
        for number in range(8):
            await begin(store, f"r{number}", f"t{number}")
            await store.append_events(OWNER, f"r{number}", 1, records(1, 2))
        with ticking() as ticks:
            node.pause()
            appends = [asyncio.ensure_future(store.append_events(OWNER, f"r{n}", 3, records(3, 4))) for n in range(8)]
            end = asyncio.ensure_future(
                store.end_run(ended("r0", "t0"), thread("t0", count=2), keep=1, first=5, records=records(5, 5))
            )
            began = loop.time()
            waits = replace(run("waits", "t9", status=RunStatus.QUEUED), started_at=None)
            refused = await asyncio.gather(
                outcome(store.begin_run(run("new", "t8"), thread("t8"), keep=0)),
                outcome(store.begin_run(run("more", "t1"), thread("t1", count=2), keep=1)),
                outcome(store.queue_run(waits)),
                outcome(store.write_thread(thread("t2", count=3), keep=1)),
                outcome(store.delete_run(OWNER, "r3")),
                outcome(store.list_threads(OWNER, limit=10, cursor=None)),
            )
            took = loop.time() - began
            assert not any(done.done() for done in (*appends, end))
            node.resume()
            kept = await asyncio.gather(*map(outcome, appends), outcome(end))
        assert not any(refused)
        assert took < REFUSED_SECONDS
        assert ticks.longest < LONGEST_TICK_SECONDS
        assert all(kept)
        for reader in (store, store_at(node.url, PREFIX)):
            assert await reader.load_run(OWNER, "new") is None
            assert await reader.load_thread(OWNER, "t8") is None
            assert await reader.load_run(OWNER, "more") is None
            assert await reader.load_run(OWNER, "waits") is None
            assert await reader.load_thread(OWNER, "t2") == thread("t2")
            for number in range(8):
                assert await logged(reader, f"r{number}") == numbered(5 if number == 0 else 4)
            record = await reader.load_run(OWNER, "r0")
            assert record is not None
            assert record.status is RunStatus.COMPLETED
            if reader is not store:
                await reader.close()
        # what was refused can be done now
        await store.begin_run(run("new", "t8"), thread("t8"), keep=0)
        await store.begin_run(run("more", "t1"), thread("t1", count=2), keep=1)
        await store.queue_run(waits)


async def test_a_cluster_that_is_killed_and_started_again_is_used_again(node: OpenSearchNode) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), store_on(node) as store:
        await begin(store, "r1")
        await store.append_events(OWNER, "r1", 1, records(1, 2))
        version = await store.documents.put(NOTE, "n1", OWNER, {"title": "one"})
        with ticking() as ticks:
            append = asyncio.ensure_future(store.append_events(OWNER, "r1", 3, records(3, 4)))
            await node.kill()
            assert not await outcome(store.begin_run(run("r2", "t2"), thread("t2"), keep=0))
            assert not await outcome(store.write_thread(thread(count=3), keep=1))
            await node.start()
            assert await outcome(append)
        assert ticks.longest < LONGEST_TICK_SECONDS
        assert await logged(store) == numbered(4)
        assert await store.load_run(OWNER, "r2") is None
        assert await store.load_thread(OWNER, "t1") == thread()
        assert await store.documents.put(NOTE, "n1", OWNER, {"title": "two"}, version) > version
        await store.begin_run(run("r2", "t2"), thread("t2"), keep=0)
        await store.end_run(ended(), thread(count=2), keep=1, first=5, records=records(5, 5))
        assert await logged(store) == numbered(5)
        found = await store.load_thread(OWNER, "t1")
        assert found is not None
        assert found.messages == messages(2)
