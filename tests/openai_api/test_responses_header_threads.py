"""Responses on the thread that a header names, as Codex and Open WebUI name their chats: `responses.thread_headers`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.openai_scene import OpenAIScene, openai_gateway

CHAT: Final = "01a20a08-6b87-7632-8bd6-a4952d829c9c"
NAMED: Final = {"session-id": CHAT}
SECTIONS: Final = {"protocols": {"responses": {"thread_headers": ["session-id", "X-OpenWebUI-Chat-Id"]}}}
HIDDEN: Final = ["user", "assistant", "tool", "assistant"]
TITLE: Final = {"model": "words", "input": "### Task:\nGenerate a concise title.\n<chat_history>USER: 2 and 3?"}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path, sections=SECTIONS) as running:
        yield running


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def ask(scene: OpenAIScene, items: list[dict[str, Any]], **more: Any) -> tuple[list[dict[str, Any]], str]:
    """The messages of the response to a conversation, as they are sent again, and its thread."""
    body = {"model": "adder", "stream": True, "input": items, **more}
    answer = await scene.post("/responses", body, **NAMED)
    assert answer.status_code == 200, answer.text
    if body["stream"]:
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        response = frames[-1]["response"]
    else:
        response = answer.json()
    assert response["status"] == "completed"
    messages = [item for item in response["output"] if item["type"] == "message"]
    sent_again = [{"type": "message", "role": "assistant", "content": item["content"]} for item in messages]
    return sent_again, answer.headers["x-thread-id"]


async def roles(scene: OpenAIScene, thread_id: str = CHAT) -> list[str]:
    return [message["role"] for message in await scene.stored(thread_id)]


async def listed(scene: OpenAIScene) -> list[tuple[str, str]]:
    threads = (await scene.gateway.client.get("/threads"))["threads"]
    return [(thread["id"], thread["title"]) for thread in threads]


@pytest.mark.parametrize("store", [True, False])
async def test_a_session_is_a_thread_that_keeps_the_calls_it_does_not_send_again(
    scene: OpenAIScene, store: bool
) -> None:
    items = [user("2 and 3?")]
    words, first = await ask(scene, items, store=store)
    _, second = await ask(scene, [*items, *words, user("and again?")], store=store)

    assert first == second == CHAT
    assert await roles(scene) == HIDDEN * 2
    assert await scene.versions(CHAT) == 1
    assert await listed(scene) == ([(CHAT, "2 and 3?")] if store else [])


async def test_what_is_asked_about_a_chat_first_does_not_begin_its_thread(scene: OpenAIScene) -> None:
    title = await scene.post("/responses", TITLE, **NAMED)
    items = [user("2 and 3?")]
    words, thread_id = await ask(scene, items)
    tags = await scene.post("/responses", TITLE, **NAMED)
    await ask(scene, [*items, *words, user("and again?")])

    assert (title.status_code, tags.status_code, thread_id) == (200, 200, CHAT)
    assert CHAT not in (title.headers["x-thread-id"], tags.headers["x-thread-id"])
    assert await roles(scene) == HIDDEN * 2
    assert await listed(scene) == [(CHAT, "2 and 3?")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_begins_with_the_answer_that_it_brings_back(scene: OpenAIScene, stream: bool) -> None:
    items = [user("2 and 3?")]
    words, provisional = await ask(scene, items, stream=False)
    before = await listed(scene)
    _, thread_id = await ask(scene, [*items, *words, user("and again?")], stream=stream)

    assert (provisional != CHAT, before, thread_id) == (True, [], CHAT)
    assert await roles(scene) == HIDDEN * 2
    assert await listed(scene) == [(CHAT, "2 and 3?")]


async def test_what_is_not_to_be_stored_stays_apart_from_what_is(scene: OpenAIScene) -> None:
    items = [user("2 and 3?")]
    words, _ = await ask(scene, items)
    _, apart = await ask(scene, [*items, *words, user("off the record")], store=False)

    assert apart != CHAT
    assert await roles(scene) == HIDDEN


async def test_what_a_body_says_of_its_thread_counts_more_than_a_header(scene: OpenAIScene) -> None:
    first = (await scene.post("/responses", {"model": "words", "input": "hello"})).json()
    more = {"model": "words", "input": "again", "previous_response_id": first["id"]}
    answer = await scene.post("/responses", more, **NAMED)

    assert answer.headers["x-thread-id"] == first["conversation"]["id"]


async def test_a_question_is_answered_on_the_thread_that_the_header_names(scene: OpenAIScene) -> None:
    own = {"type": "mcp", "server_label": "gateway"}  # takes questions as items
    body: dict[str, Any] = {"model": "refunder", "input": [user("refund 1234")], "stream": True, "tools": [own]}
    asked = await scene.post("/responses", body, **NAMED)
    frames = [json.loads(line[6:]) for line in asked.text.splitlines() if line.startswith("data: {")]
    [question] = [item for item in frames[-1]["response"]["output"] if item["type"] == "mcp_approval_request"]
    answer = {"type": "mcp_approval_response", "approval_request_id": question["id"], "approve": True}
    done = await scene.post("/responses", {**body, "input": [*body["input"], question, answer]}, **NAMED)

    assert (asked.headers["x-thread-id"], done.headers["x-thread-id"]) == (CHAT, CHAT)
    assert "It said:" in done.text


async def test_a_header_that_can_be_no_id_is_refused(scene: OpenAIScene) -> None:
    answer = await scene.post("/responses", {"model": "words", "input": "hello"}, **{"session-id": "x" * 257})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("session-id must be the id of a thread")
