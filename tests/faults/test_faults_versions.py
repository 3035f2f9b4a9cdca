"""A gateway that is killed while threads are edited, forked and changed: every version is whole."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.running_gateway import GatewayClient, agent, gateway_process, run_body, scripted, write_configuration

AGENTS = [agent("echo", scripted([{"text": "I heard: {{user}}"}]))]
FIRST = {"id": "u1", "role": "user", "content": "first"}


async def edit_and_change(client: GatewayClient) -> None:
    """Edits of one thread's second question, forks and changes of versions, until the gateway is gone."""
    number = 1
    with suppress(httpx.HTTPError):
        await client.run("echo", run_body(messages=[FIRST], thread_id="t", run_id="r1"))
        beginning = (await client.get("/threads/t/messages"))["messages"]
        while True:
            number += 1
            question = {"id": f"u{number}", "role": "user", "content": f"edit {number}"}
            body = run_body(messages=[*beginning, question], thread_id="t", run_id=f"r{number}")
            await client.run("echo", body)
            await client.http.post("/threads/t/fork", json={"fromMessage": question["id"]})
            await client.http.post(f"/threads/t/versions/{number - 1}")
            if number > 3:
                await client.http.delete(f"/threads/t/versions/{number - 2}")


def check_whole(messages: list[dict[str, Any]]) -> None:
    """A version's messages are those of whole runs; the last run may have been cut off behind its question."""
    words = [message["content"] for message in messages]
    for question, answer in zip(words[::2], words[1::2], strict=False):
        assert f"I heard: {question}".startswith(answer)
    assert words[0] == "first"
    assert len(words) <= 4


@pytest.mark.thorough
@pytest.mark.parametrize("events", [2, 9, 23])
async def test_after_kill_9_every_version_and_fork_is_whole(tmp_path: Path, events: int) -> None:
    configuration = write_configuration(tmp_path, AGENTS, store="sqlite:///gateway.db")
    async with gateway_process(configuration) as gateway:
        walking = asyncio.create_task(edit_and_change(gateway.client))
        async with asyncio.timeout(20):
            while len((await gateway.client.get("/threads?limit=500"))["threads"]) < events:
                await asyncio.sleep(0)
        await gateway.signal(signal.SIGKILL)
        await walking
    async with gateway_process(configuration) as gateway:
        listed = (await gateway.client.get("/threads?limit=500"))["threads"]
        for thread in listed:
            versions = (await gateway.client.get(f"/threads/{thread['id']}/versions"))["versions"]
            assert [each["current"] for each in versions].count(True) == 1
            for each in versions:
                page = await gateway.client.get(f"/threads/{thread['id']}/messages?version={each['version']}")
                check_whole(page["messages"])
        assert len(listed) >= events
        body = run_body(messages=[FIRST, {**FIRST, "id": "last"}], thread_id="t", run_id="again")
        assert (await gateway.client.run("echo", body))[-1].type == "RUN_FINISHED"


CONTAINERS = "/_plugins/_ml/memory_containers"


async def found_words(client: GatewayClient, container_id: str, thread_id: str) -> list[str]:
    """What a search over the container's working memory finds of a session, in order."""
    body = {"query": {"term": {"session_id": thread_id}}, "size": 1000, "sort": ["message_id"]}
    found = await client.http.post(f"{CONTAINERS}/{container_id}/memories/working/_search", json=body)
    hits = found.raise_for_status().json()["hits"]["hits"]
    return [hit["_source"]["messages"][0]["content"][0]["text"] for hit in hits]


@pytest.mark.parametrize("events", [2, 9, 23])
async def test_after_kill_9_a_search_finds_what_each_sessions_thread_shows(tmp_path: Path, events: int) -> None:
    configuration = write_configuration(tmp_path, AGENTS, store="sqlite:///gateway.db")
    async with gateway_process(configuration) as gateway:
        made = await gateway.client.http.post(f"{CONTAINERS}/_create", json={"name": "talk"})
        container_id = made.json()["memory_container_id"]
        sessions = f"{CONTAINERS}/{container_id}/memories/sessions"
        (await gateway.client.http.post(sessions, json={"session_id": "t"})).raise_for_status()
        walking = asyncio.create_task(edit_and_change(gateway.client))
        async with asyncio.timeout(20):
            while len((await gateway.client.get("/threads?limit=500"))["threads"]) < events:
                await asyncio.sleep(0)
        await gateway.signal(signal.SIGKILL)
        await walking
    async with gateway_process(configuration) as gateway:
        listed = (await gateway.client.get("/threads?limit=500"))["threads"]
        assert len(listed) >= events
        for thread in listed:
            page = await gateway.client.get(f"/threads/{thread['id']}/messages")
            said = [message["content"] for message in page["messages"]]
            assert await found_words(gateway.client, container_id, thread["id"]) == said
