"""Versions and forks of a thread whose conversation a provider keeps: each version goes on with its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from tests.responses_events import message_item
from tests.responses_server import ResponsesServer
from tests.stateful_scene import StatefulScene, stateful_scene

DEADLINE_SECONDS = 20.0


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[StatefulScene]:
    """A thread whose second question was edited after three of them."""
    async with stateful_scene(tmp_path) as opened:
        for word in ("one", "two", "three"):
            opened.server.will_answer(message_item(f"{word}!"))
            await opened.say(word)
        known = await opened.messages()
        opened.server.will_answer(message_item("two and a half!"))
        await opened.say("two and a half", known=known[:2])
        yield opened


async def ask(scene: StatefulScene, method: str, path: str) -> None:
    answer = await scene.gateway.client.http.request(method, f"/threads/t{path}")
    assert answer.status_code == 204


async def deleted(server: ResponsesServer, count: int) -> set[str]:
    """What the provider was told to delete, once it is so many."""

    def told() -> list[str]:
        return [request.target.rpartition("/")[2] for request in server.requests if request.method == "DELETE"]

    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(told()) < count:
            await server.received(len(server.requests) + 1)
    return set(told())


async def test_a_version_goes_on_with_its_own_conversation(scene: StatefulScene) -> None:
    await ask(scene, "POST", "/versions/1")
    scene.server.will_answer(message_item("four!"))
    await scene.say("four")
    assert scene.sent() == (scene.answered(2), [("user", "four")])
    await ask(scene, "POST", "/versions/2")
    scene.server.will_answer(message_item("five!"))
    await scene.say("five")
    assert scene.sent() == (scene.answered(3), [("user", "five")])
    assert [words for _, words in scene.shown()] == ["one", "one!", "two and a half", "two and a half!", "five"]


async def test_an_answer_that_was_edited_outside_a_run_is_sent_and_what_stood_before_it_is_not(
    scene: StatefulScene,
) -> None:
    asked = scene.answered(0)
    _, _, last, _ = await scene.messages()
    body = {"response": "edited"}
    answer = await scene.gateway.client.http.put(f"/_plugins/_ml/memory/message/{last['id']}", json=body)
    assert answer.status_code == 200, answer.text
    scene.server.will_answer(message_item("four!"))
    await scene.say("four")
    words = [("user", "two and a half"), ("assistant", "edited"), ("user", "four")]
    assert scene.sent() == (asked, words)


async def test_a_deleted_version_is_deleted_at_its_provider_but_for_what_others_go_on_from(
    scene: StatefulScene,
) -> None:
    await ask(scene, "DELETE", "/versions/1")
    assert await deleted(scene.server, 2) == {scene.answered(1), scene.answered(2)}
    scene.server.will_answer(message_item("four!"))
    await scene.say("four")
    assert scene.sent() == (scene.answered(3), [("user", "four")])


async def test_a_deleted_thread_is_deleted_with_all_versions_conversations(scene: StatefulScene) -> None:
    await ask(scene, "DELETE", "")
    assert await deleted(scene.server, 4) == {scene.answered(number) for number in range(4)}
    assert scene.server.responses == {}


async def test_a_fork_begins_a_conversation_of_its_own(scene: StatefulScene) -> None:
    last = (await scene.messages())[-1]["id"]
    answer = await scene.gateway.client.http.post("/threads/t/fork", json={"fromMessage": last})
    await ask(scene, "DELETE", "")
    await deleted(scene.server, 4)
    scene.thread_id = answer.json()["threadId"]
    scene.server.will_answer(message_item("six!"))
    await scene.say("six")
    continued, told = scene.sent()
    assert continued is None
    assert [words for _, words in told] == ["one", "one!", "two and a half", "two and a half!", "six"]
