"""Searches of several callers share their time: a slice for each, whoever came first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from threading import Event, current_thread

import pytest
import pytest_asyncio

from gateway.embedded_index.search_slots import Rest, SearchAbandonedError, SearchSlots
from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.search_engine import Asker
from gateway.search_engines.embedded import EmbeddedSearchEngine
from tests.found_books import hits
from tests.waiting import DEADLINE_SECONDS, until


@pytest_asyncio.fixture
async def slots() -> AsyncGenerator[SearchSlots]:
    made = SearchSlots("test", searchers=3)
    yield made
    await asyncio.to_thread(made.close)


class Searches:
    """Searches that write down each slice. They begin when `go` is set."""

    def __init__(self) -> None:
        self.slices: list[str] = []
        self.go = Event()
        self.begun = 0

    def of(self, name: str, slices: int) -> Callable[[Rest], str]:
        def work(rest: Rest) -> str:
            self.begun += 1
            assert self.go.wait(DEADLINE_SECONDS)
            for _ in range(slices):
                self.slices.append(name)
                rest()
            return name

        return work


async def test_a_search_waits_for_one_slice_of_another_callers(slots: SearchSlots) -> None:
    searches = Searches()
    heavy = asyncio.create_task(slots.run("alice", searches.of("alice", 1_000)))
    await until(lambda: searches.begun)
    light = asyncio.create_task(slots.run("bob", searches.of("bob", 3)))
    await until(lambda: slots._processor._waiting)  # bob's thread
    searches.go.set()
    assert await asyncio.wait_for(light, DEADLINE_SECONDS) == "bob"
    assert await asyncio.wait_for(heavy, DEADLINE_SECONDS) == "alice"
    assert searches.slices[:7] == ["alice", "bob"] * 3 + ["alice"]
    assert searches.slices.count("alice") == 1_000


async def test_many_searches_of_one_caller_have_no_more_than_one_turn(slots: SearchSlots) -> None:
    searches = Searches()
    many = [asyncio.create_task(slots.run("alice", searches.of("alice", 50))) for _ in range(20)]
    await until(lambda: searches.begun)
    light = asyncio.create_task(slots.run("bob", searches.of("bob", 20)))
    await until(lambda: slots._processor._waiting)
    searches.go.set()
    await asyncio.wait_for(light, DEADLINE_SECONDS)
    await asyncio.wait_for(asyncio.gather(*many), DEADLINE_SECONDS)
    until_bob_was_done = "".join(name[0] for name in searches.slices).rindex("b")
    assert searches.slices[:until_bob_was_done].count("alice") == 20
    assert searches.slices.count("alice") == 1_000
    assert not slots._queues, "nothing is kept of who has searched"


async def test_a_failed_search_gives_its_turn_away(slots: SearchSlots) -> None:
    def fails(rest: Rest) -> None:
        raise ToolError("wrong")

    searches = Searches()
    searches.go.set()
    for _ in range(5):
        with pytest.raises(ToolError):
            await slots.run("alice", fails)
    assert await slots.run("alice", searches.of("alice", 2)) == "alice"


async def test_a_search_that_nobody_waits_for_any_more_ends_at_its_next_rest(slots: SearchSlots) -> None:
    ended: list[BaseException] = []

    def endless(rest: Rest) -> None:
        try:
            while True:
                rest()
        except SearchAbandonedError as error:
            ended.append(error)
            raise

    for _ in range(5):
        task = asyncio.create_task(slots.run("alice", endless))
        await until(lambda: slots._processor._is_held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, DEADLINE_SECONDS)
    assert len(ended) == 5


async def test_what_runs_alone_waits_for_the_searches_under_way(slots: SearchSlots) -> None:
    searches = Searches()
    running = [asyncio.create_task(slots.run(name, searches.of(name, 3))) for name in ("alice", "bob")]
    await until(lambda: searches.begun)
    alone = asyncio.create_task(slots.run_alone(lambda: searches.slices.append(current_thread().name)))
    await asyncio.sleep(0)
    later = asyncio.create_task(slots.run("carol", searches.of("carol", 1)))
    searches.go.set()
    await asyncio.wait_for(asyncio.gather(*running, alone, later), DEADLINE_SECONDS)
    assert sorted(searches.slices[:6]) == ["alice"] * 3 + ["bob"] * 3
    assert searches.slices[6].startswith("test")
    assert searches.slices[7:] == ["carol"]


async def test_searches_of_the_embedded_engine_share_one_connection() -> None:
    """Each is interrupted again and again, and finds what it would find alone; its steps are still counted."""
    engine = EmbeddedSearchEngine(None)
    documents: list[JsonObject] = [{"word": f"word{number}", "number": number} for number in range(3_000)]
    await engine.index("words", documents, {"properties": {"word": {"type": "text"}, "number": {"type": "long"}}})
    fuzzy: list[JsonValue] = [{"match": {"word": {"query": f"word{number}1", "fuzziness": 1}}} for number in range(9)]
    too_much: list[JsonValue] = [{"wildcard": {"word": f"*{number}*zz*"}} for number in range(1_000)]
    body: JsonObject = {"query": {"bool": {"should": fuzzy}}, "size": 5}
    alone = await engine.search("words", body)

    async def refused() -> None:
        with pytest.raises(ToolError, match="would take too long"):
            await engine.search("words", {"query": {"bool": {"should": too_much}}}, Asker("alice"))

    found = await asyncio.wait_for(
        asyncio.gather(*(engine.search("words", body, Asker(name)) for name in ("bob", "carol")), refused(), refused()),
        DEADLINE_SECONDS,
    )
    assert hits(alone)
    assert found[:2] == [alone, alone]
    await engine.close()
