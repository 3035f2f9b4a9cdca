"""Versions of threads over real sockets: what real clients' edits leave, and what their owners do with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ag_ui_verifier import read_stream
from tests.agui_client import NodeClients
from tests.observed_runs import observe, post, run_client, said, thread_messages
from tests.openai_chat_server import ChatServer, completion
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

ECHO = scripted([{"text": "I heard: {{user}}"}])
AGENTS = [agent("echo", ECHO), agent("hangs", scripted([{"text": "So far"}, {"hang": True}]))]


def user(text: str) -> Json:
    return {"id": f"id of {text}", "role": "user", "content": text}


async def say(gateway: LocalGateway, thread_id: str, run_id: str, *messages: Json) -> None:
    await observe(gateway, "echo", run_body(messages=list(messages), thread_id=thread_id, run_id=run_id))


async def words(gateway: LocalGateway, thread_id: str, version: int | None = None) -> list[str]:
    query = "" if version is None else f"?version={version}"
    page = await gateway.client.get(f"/threads/{thread_id}/messages{query}")
    return [message["content"] for message in page["messages"]]


async def versions(gateway: LocalGateway, thread_id: str) -> list[tuple[int, bool, int | None]]:
    page = await gateway.client.get(f"/threads/{thread_id}/versions")
    return [(each["version"], each["current"], each["parent"]) for each in page["versions"]]


async def change(gateway: LocalGateway, method: str, path: str, **more: Any) -> tuple[int, str | None]:
    """The status, and the code of what is wrong."""
    answer = await gateway.client.http.request(method, path, **more)
    return answer.status_code, answer.json()["code"] if answer.status_code >= 400 else None


async def connected(gateway: LocalGateway, thread_id: str, run_id: str) -> list[str]:
    """What `/connect` shows of the thread."""
    body = run_body(messages=[], thread_id=thread_id, run_id=run_id)
    frames = (await post(gateway, "/agents/echo/connect", body)).content
    events = [each.event for each in read_stream(frames)]
    (snapshot,) = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert events[-1]["type"] == "RUN_FINISHED"
    return [message["content"] for message in snapshot["messages"]]


async def test_an_edit_leaves_a_version_that_every_client_can_go_back_to(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(completion("One."), completion("Two."), completion("Instead."), completion("Three."))
    thread_id = fresh("thread")
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    first = await run_client(gateway, agent, fresh("run"), text="one")
    second = await run_client(gateway, agent, fresh("run"), text="two")
    await agent.set_messages(first.messages)
    await run_client(gateway, agent, fresh("run"), text="instead")
    assert await versions(gateway, thread_id) == [(1, False, None), (2, True, 1)]
    page = await gateway.client.get(f"/threads/{thread_id}/versions")
    assert page["versions"][1]["fromMessage"] == first.messages[-1]["id"]
    assert page["nextCursor"] is None
    assert await words(gateway, thread_id) == ["one", "One.", "instead", "Instead."]
    assert await words(gateway, thread_id, 1) == ["one", "One.", "two", "Two."]

    assert await change(gateway, "POST", f"/threads/{thread_id}/versions/1") == (204, None)

    assert said(second.messages) == said(await thread_messages(gateway, thread_id))
    assert await connected(gateway, thread_id, fresh("run")) == ["one", "One.", "two", "Two."]
    await agent.set_messages(second.messages)
    report = await run_client(gateway, agent, fresh("run"), text="three")
    assert [message["content"] for message in report.messages] == ["one", "One.", "two", "Two.", "three", "Three."]
    assert await versions(gateway, thread_id) == [(1, True, None), (2, False, 1)], "it went on"
    assert await words(gateway, thread_id, 2) == ["one", "One.", "instead", "Instead."]


async def test_an_answer_that_a_client_wants_anew_leaves_the_one_before_in_a_version(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(completion("First."), completion("Second."))
    thread_id = fresh("thread")
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    report = await run_client(gateway, agent, fresh("run"), text="hi")
    await agent.set_messages(report.messages[:-1])

    report = await run_client(gateway, agent, fresh("run"))

    assert [message["content"] for message in report.messages] == ["hi", "Second."]
    assert await words(gateway, thread_id, 1) == ["hi", "First."]
    assert await words(gateway, thread_id, 2) == ["hi", "Second."]


async def test_a_client_that_sends_recent_messages_alone_makes_one_version(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id = fresh("thread")
    for number in range(5):
        await say(gateway, thread_id, fresh("run"), user(f"{number}"))

    assert await versions(gateway, thread_id) == [(1, False, None), (2, True, 1)]
    assert await words(gateway, thread_id) == ["4", "I heard: 4"]
    assert await words(gateway, thread_id, 1) == ["0", "I heard: 0"]
    kept = [word for number in range(1, 5) for word in (f"{number}", f"I heard: {number}")]
    assert await words(gateway, thread_id, 2) == kept


async def test_a_client_that_sends_the_last_messages_makes_one_version(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id = fresh("thread")
    await say(gateway, thread_id, fresh("run"), user("0"))
    for number in range(1, 6):
        history = await thread_messages(gateway, thread_id)
        await say(gateway, thread_id, fresh("run"), *history[-3:], user(f"{number}"))

    assert [number for number, _, _ in await versions(gateway, thread_id)] == [1, 2]
    everything = [*await words(gateway, thread_id, 1), *await words(gateway, thread_id, 2)]
    assert {word for number in range(6) for word in (f"{number}", f"I heard: {number}")} == set(everything)


async def test_what_stands_against_a_change_is_told(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, path = fresh("thread"), "/threads/{}/versions"
    await say(gateway, thread_id, fresh("run"), user("one"))
    await say(gateway, thread_id, fresh("run"), user("two"))
    versions_path = path.format(thread_id)
    assert await change(gateway, "DELETE", f"{versions_path}/2") == (409, "version_is_current")
    for method in ("POST", "DELETE"):
        assert await change(gateway, method, f"{versions_path}/3") == (404, "version_not_found")
        assert await change(gateway, method, f"{versions_path}/x") == (404, "version_not_found")
    assert await change(gateway, "GET", path.format("unknown")) == (404, "thread_not_found")
    assert await change(gateway, "GET", f"/threads/{thread_id}/messages?version=3") == (404, "version_not_found")
    assert (await change(gateway, "GET", f"/threads/{thread_id}/messages?version=x"))[0] == 400

    body = run_body(
        messages=[*await thread_messages(gateway, thread_id), user("go")], thread_id=thread_id, run_id="busy"
    )
    async with gateway.client.stream("hangs", body) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        assert await change(gateway, "POST", f"{versions_path}/1") == (409, "thread_busy")
        assert await change(gateway, "DELETE", f"{versions_path}/1") == (204, None)
        await gateway.client.http.post("/runs/busy/cancel")
        await stream.rest()
    assert await versions(gateway, thread_id) == [(2, True, None)]
    assert await change(gateway, "DELETE", f"{versions_path}/2") == (409, "version_is_current")


async def test_a_fork_has_the_messages_up_to_one_and_goes_its_own_way(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    await say(gateway, thread_id, fresh("run"), user("one"))
    history = await thread_messages(gateway, thread_id)
    await say(gateway, thread_id, fresh("run"), *history, user("two"))

    answer = await gateway.client.http.post(f"/threads/{thread_id}/fork", json={"fromMessage": history[-1]["id"]})

    assert answer.status_code == 201
    fork_id = answer.json()["threadId"]
    assert await words(gateway, fork_id) == ["one", "I heard: one"]
    assert await connected(gateway, fork_id, fresh("run")) == ["one", "I heard: one"]
    agent = await clients.create(gateway.client.run_url("echo"), thread_id=fork_id)
    await agent.set_messages(await thread_messages(gateway, fork_id))
    await run_client(gateway, agent, fresh("run"), text="other")
    assert await change(gateway, "DELETE", f"/threads/{thread_id}") == (204, None)
    assert await words(gateway, fork_id) == ["one", "I heard: one", "other", "I heard: other"]
    assert await versions(gateway, fork_id) == [(1, True, None)]


@pytest.mark.parametrize("body", [{}, {"fromMessage": 1}, {"fromMessage": "no such"}, [], {"fromMessage": "a", "b": 1}])
async def test_a_fork_from_nowhere_is_refused(gateway: LocalGateway, fresh: Fresh, body: object) -> None:
    thread_id = fresh("thread")
    await say(gateway, thread_id, fresh("run"), user("one"))
    assert (await change(gateway, "POST", f"/threads/{thread_id}/fork", json=body))[0] == 422
    unknown = await change(gateway, "POST", "/threads/unknown/fork", json={"fromMessage": "a"})
    assert unknown == (404, "thread_not_found")


async def test_the_oldest_versions_go_when_there_are_too_many(tmp_path: Path, fresh: Fresh) -> None:
    thread_id = fresh("thread")
    async with local_gateway(tmp_path, AGENTS, server={"max_versions": 3}) as gateway:
        await say(gateway, thread_id, fresh("run"), user("one"))
        first = await thread_messages(gateway, thread_id)
        for number in range(4):
            await say(gateway, thread_id, fresh("run"), *first, user(f"edit {number}"))
        assert await versions(gateway, thread_id) == [(2, False, None), (3, False, 2), (4, True, 3)]
        assert await change(gateway, "POST", f"/threads/{thread_id}/versions/2") == (204, None)
        await say(gateway, thread_id, fresh("run"), *first, user("another"))
        assert await versions(gateway, thread_id) == [(2, False, None), (4, False, None), (5, True, 2)]
        assert await words(gateway, thread_id, 2) == ["one", "I heard: one", "edit 1", "I heard: edit 1"]


async def test_another_owners_versions_are_simply_unknown(tmp_path: Path, fresh: Fresh) -> None:
    keys = [{"name": name, "key": f"key-of-{name}-0123456789"} for name in ("ada", "bob")]
    ada, bob = ({"authorization": f"Bearer {each['key']}"} for each in keys)
    thread_id = fresh("thread")
    async with local_gateway(tmp_path, AGENTS, server={"api_keys": keys}) as gateway:
        for text in ("one", "two"):
            body = run_body(messages=[user(text)], thread_id=thread_id, run_id=fresh("run"))
            await observe(gateway, "echo", body, headers=ada, owner="ada")
        path = f"/threads/{thread_id}"
        for method, rest in (("GET", "versions"), ("POST", "versions/1"), ("DELETE", "versions/1")):
            assert (await change(gateway, method, f"{path}/{rest}", headers=bob))[0] == 404
        fork = {"fromMessage": "id of two"}
        assert (await change(gateway, "POST", f"{path}/fork", headers=bob, json=fork))[0] == 404
        page = (await gateway.client.http.get(f"{path}/versions", headers=ada)).json()
        assert [each["version"] for each in page["versions"]] == [1, 2]
        assert (await change(gateway, "POST", f"{path}/fork", headers=ada, json=fork))[0] == 201
