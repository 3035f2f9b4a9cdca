"""Searches over ml-commons' API are bounded, wherever they are asked."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gateway.ml_memory import container_memories, memory_search
from tests.ml_commons_scene import ml_gateway

LONG = "a" * 200_000
SEARCHED = (
    "/agents/_search",
    "/tasks/_search",
    "/memory/_search",
    "/memory_containers/_search",
    *(f"/memory_containers/c/memories/{kind}/_search" for kind in ("sessions", "working", "long-term", "history")),
)
QUERIES: list[dict[str, Any]] = [
    {"query_string": {"query": LONG}},
    {"simple_query_string": {"query": LONG}},
    {"match": {"name": LONG}},
    {"match_phrase": {"name": LONG}},
]


async def test_every_search_has_at_most_100_kb(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        _, made = await ml.call("POST", "/memory", {"name": "n"})
        for path in (*SEARCHED, f"/memory/{made['memory_id']}/_search"):
            for query in QUERIES:
                status, answer = await ml.call("POST", path, {"query": query})
                assert status == 400, (path, query.keys())
                reason = answer["error"]["reason"]
                (kind,) = query
                assert f"{kind}." in reason, reason
                assert "at most 100000 bytes" in reason
                assert len(reason) < 500


async def test_deleting_by_a_query_has_the_same_bound(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        path = "/memory_containers/c/memories/long-term/_delete_by_query"
        status, answer = await ml.call("POST", path, {"query": QUERIES[0]})
    assert status == 400
    assert "at most 100000 bytes" in answer["error"]["reason"]


async def test_the_patterns_of_source_are_bounded_in_working_memory(tmp_path: Path) -> None:
    """There the messages themselves are put in once the search has found them."""
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        memories = "/memory_containers/c/memories"
        for number in range(10):
            tags = {f"tag-{number}-{place}": "x" for place in range(90)}
            message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
            await ml.call("POST", memories, {"messages": [message], "tags": tags, "namespace": {"session_id": "s"}})
        search = f"{memories}/working/_search"
        patterns = [f"*x{number}*y*" for number in range(1_000)]
        status, answer = await ml.call("POST", search, {"_source": patterns})
        assert (status, "too many fields" in answer["error"]["reason"]) == (400, True)
        _, few = await ml.call("POST", search, {"_source": ["tags.tag-1-*"], "size": 10})
        assert sum(len(hit["_source"].get("tags", {})) for hit in few["hits"]["hits"]) == 90


async def test_a_long_term_memory_has_a_bound(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        path = "/memory_containers/c/memories/long-term"
        status, answer = await ml.call("POST", path, {"memory": "a " * 60_000})
        assert status == 413
        assert "'memory' has 120000 characters; at most 100000 are searched" in answer["error"]["reason"]
        assert (await ml.call("POST", path, {"memory": "a " * 5_000}))[0] == 200


async def test_the_messages_that_a_search_shows_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_memories, "_MOST_SHOWN_BYTES", 100_000)
    monkeypatch.setattr(memory_search, "_MOST_SHOWN_BYTES", 100_000)
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        memories = "/memory_containers/c/memories"
        for role in ("user", "assistant") * 3:
            message = {"role": role, "content": [{"type": "text", "text": "a" * 30_000}]}
            await ml.call("POST", memories, {"messages": [message], "namespace": {"session_id": "s"}})
        for search in (f"{memories}/working/_search", "/memory/s/_search"):
            status, answer = await ml.call("POST", search, {"query": {"match_all": {}}})
            assert (status, "the hits have more than 100,000 bytes" in answer["error"]["reason"]) == (400, True), search
            status, answer = await ml.call("POST", search, {"query": {"match_all": {}}, "size": 1})
            assert (status, len(answer["hits"]["hits"])) == (200, 1)
        status, answer = await ml.call("POST", f"{memories}/working/_search", {"_source": ["session_id"]})
        assert (status, len(answer["hits"]["hits"])) == (200, 6), "what is not wanted of them does not count"


async def test_a_search_holds_no_more_of_a_long_session_than_it_shows(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        memories = "/memory_containers/c/memories"
        for _ in range(5):
            messages = [{"role": "user", "content": [{"type": "text", "text": "a" * 1_000_000}]}] * 8
            await ml.call("POST", memories, {"messages": messages, "namespace": {"session_id": "s"}})
        tracemalloc.start()
        try:
            body = {"size": 40, "_source": ["session_id"]}
            status, answer = await ml.call("POST", f"{memories}/working/_search", body)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (status, len(answer["hits"]["hits"])) == (200, 40)
        assert most < 30_000_000
