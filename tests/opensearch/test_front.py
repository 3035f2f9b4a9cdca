"""The front before a node: it does what its rule says, and nothing else."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.messages import JsonObject
from tests.opensearch.front import (
    CUT_AFTER,
    CUT_BEFORE,
    FULL,
    TOO_MANY,
    UNAVAILABLE,
    Front,
    Hold,
    Pass,
    Refuse,
    RefuseItems,
    always,
    at,
    front_before,
)


class Scene:
    """An index of the test's own, reached by way of the front."""

    def __init__(self, front: Front, http: httpx.AsyncClient, node_url: str) -> None:
        self.front = front
        self.http = http
        self.node_url = node_url
        self.index = f"front-{uuid.uuid4().hex}"

    async def write(self, id: str) -> httpx.Response:
        return await self.http.put(f"{self.front.url}/{self.index}/_doc/{id}", json={"id": id})

    async def bulk(self, *lines: JsonObject, query: str = "") -> dict[str, Any]:
        body = "".join(json.dumps(line) + "\n" for line in lines)
        headers = {"content-type": "application/x-ndjson"}
        answer = await self.http.post(f"{self.front.url}/{self.index}/_bulk{query}", content=body, headers=headers)
        document: dict[str, Any] = answer.raise_for_status().json()
        return document

    async def is_there(self, id: str) -> bool:
        """Asked directly, without the front."""
        answer = await self.http.get(f"{self.node_url}/{self.index}/_doc/{id}")
        return answer.status_code == 200


@pytest_asyncio.fixture
async def scene(opensearch_url: str) -> AsyncGenerator[Scene]:
    async with front_before(opensearch_url) as front, httpx.AsyncClient(trust_env=False, timeout=30.0) as http:
        scene = Scene(front, http, opensearch_url)
        await http.put(f"{opensearch_url}/{scene.index}")
        yield scene
        await http.delete(f"{opensearch_url}/{scene.index}")


async def test_requests_are_passed_on_and_remembered(scene: Scene) -> None:
    written = await scene.write("1")
    found = await scene.http.head(f"{scene.front.url}/{scene.index}/_doc/1?realtime=true")
    missing = await scene.http.get(f"{scene.front.url}/{scene.index}/_doc/2")

    assert [written.status_code, found.status_code, missing.status_code] == [201, 200, 404]
    first, second, _ = scene.front.requests
    assert (first.method, first.target, first.json) == ("PUT", f"/{scene.index}/_doc/1", {"id": "1"})
    assert (second.method, second.target) == ("HEAD", f"/{scene.index}/_doc/1?realtime=true")


async def test_a_connection_can_be_cut_before_the_node_sees_a_request(scene: Scene) -> None:
    scene.front.rule = at(2, CUT_BEFORE)

    await scene.write("1")
    with pytest.raises(httpx.TransportError):
        await scene.write("2")
    await scene.write("3")

    assert [await scene.is_there(id) for id in "123"] == [True, False, True]
    assert len(scene.front.requests) == 3


async def test_a_connection_can_be_cut_after_the_node_has_answered(scene: Scene) -> None:
    scene.front.rule = at(1, CUT_AFTER)

    with pytest.raises(httpx.TransportError):
        await scene.write("1")

    assert await scene.is_there("1")


@pytest.mark.parametrize("refusal", [TOO_MANY, UNAVAILABLE, FULL], ids=lambda refusal: refusal.type)
async def test_a_request_can_be_refused_as_a_node_does(scene: Scene, refusal: Refuse) -> None:
    scene.front.rule = at(1, refusal)

    refused = await scene.write("1")

    assert refused.status_code == refused.json()["status"] == refusal.status
    assert refused.json()["error"]["type"] == refusal.type
    assert not await scene.is_there("1")


async def test_a_full_index_is_refused_in_the_words_of_the_node(scene: Scene) -> None:
    blocks = {"index.blocks.read_only_allow_delete": True}
    await scene.http.put(f"{scene.node_url}/{scene.index}/_settings", json=blocks)
    by_the_node = await scene.write("1")
    scene.front.rule = always(FULL)
    by_the_front = await scene.write("1")

    assert by_the_front.status_code == by_the_node.status_code
    assert by_the_front.text == json.dumps(by_the_node.json()).replace(scene.index, "all")


@pytest.mark.parametrize("query", ["", "?filter_path=items.*.error"])
async def test_single_items_of_a_bulk_can_be_refused(scene: Scene, query: str) -> None:
    scene.front.rule = always(RefuseItems({1, 2}, TOO_MANY))

    answer = await scene.bulk(
        {"index": {"_id": "1"}}, {"x": 1}, {"create": {"_id": "2"}}, {"x": 2}, {"delete": {"_id": "3"}},
        {"create": {"_id": "4"}}, {"x": 4}, query=query,
    )  # fmt: skip

    assert answer["errors"] is True
    told = [(action, item["_id"], item["status"]) for each in answer["items"] for action, item in each.items()]
    assert told == [("index", "1", 201), ("create", "2", 429), ("delete", "3", 429), ("create", "4", 201)]
    assert [await scene.is_there(id) for id in "124"] == [True, False, True]


async def test_a_bulk_of_refused_items_alone_does_not_reach_the_node(scene: Scene) -> None:
    scene.front.rule = always(RefuseItems({0}, TOO_MANY))

    answer = await scene.bulk({"index": {"_id": "1"}}, {"x": 1})

    error = {"type": TOO_MANY.type, "reason": TOO_MANY.reason}
    assert answer["items"] == [{"index": {"_id": "1", "status": 429, "error": error}}]
    assert not await scene.is_there("1")


async def test_a_held_request_waits_until_it_is_released(scene: Scene) -> None:
    scene.front.rule = at(1, hold := Hold())

    writing = asyncio.create_task(scene.write("1"))
    await scene.front.received(1)
    reached = await scene.is_there("1")
    hold.release()
    written = await writing

    assert not reached
    assert written.status_code == 201


async def test_a_held_request_arrives_although_its_client_has_given_up(scene: Scene) -> None:
    scene.front.rule = at(1, hold := Hold())

    writing = asyncio.create_task(scene.write("1"))
    await scene.front.received(1)
    writing.cancel()
    hold.release()

    async with asyncio.timeout(10):
        while not await scene.is_there("1"):
            await asyncio.sleep(0)


async def test_requests_can_be_slow(scene: Scene) -> None:
    loop = asyncio.get_running_loop()
    scene.front.rule = always(Pass(after_seconds=0.2))

    before = loop.time()
    await scene.write("1")

    assert loop.time() - before >= 0.2


async def test_requests_are_counted_anew_after_they_are_forgotten(scene: Scene) -> None:
    await scene.write("1")
    steps = len(scene.front.requests)
    scene.front.forget(at(steps, CUT_BEFORE))

    with pytest.raises(httpx.TransportError):
        await scene.write("1")


async def test_a_front_before_a_node_that_is_gone_cuts_connections(scene: Scene) -> None:
    async with front_before("http://127.0.0.1:1") as front:
        with pytest.raises(httpx.TransportError):
            await scene.http.get(front.url)
