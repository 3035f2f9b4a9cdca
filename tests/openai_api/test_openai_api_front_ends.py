"""The requests of Open WebUI and LibreChat as they send them: the thread is recognised, hidden tool turns are kept, and
what they ask for themselves about a chat leaves its thread alone.

https://github.com/open-webui/open-webui (backend/open_webui/routers/openai.py, routers/tasks.py, utils/headers.py),
https://github.com/danny-avila/LibreChat (api/server/controllers/agents/client.js), both of November 2026
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from tests.openai_scene import PICTURE, OpenAIScene, openai_gateway
from tests.waiting import until

CHAT: Final = "8c3e0f0e-6a3b-4b5f-9c39-d1c2b7a4f001"
SECTIONS: Final = {"protocols": {"chat_completions": {"thread_headers": ["X-OpenWebUI-Chat-Id", "x-conversation-id"]}}}
# Open WebUI with ENABLE_FORWARD_USER_INFO_HEADERS; it sends them with a chat's requests and with its tasks alike
OPEN_WEBUI: Final[Mapping[str, str]] = {
    "Authorization": "Bearer key",
    "X-OpenWebUI-User-Name": "Ada%20Lovelace",
    "X-OpenWebUI-User-Id": "0b6f3a51-0000-4000-8000-000000000001",
    "X-OpenWebUI-User-Email": "ada@example.org",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": CHAT,
}
# LibreChat with `headers: {x-conversation-id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"}` at the endpoint
LIBRECHAT: Final[Mapping[str, str]] = {"Authorization": "Bearer key", "x-conversation-id": CHAT}
HIDDEN: Final = ["user", "assistant", "tool", "assistant"]
TITLE: Final = (
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Chat History:\n"
    "<chat_history>\nUSER: 2 and 3?\nASSISTANT: I add.\n</chat_history>"
)
TAGS: Final = TITLE.replace("a concise, 3-5 word title with an emoji", "1-3 broad tags")
FOLLOW_UPS: Final = TITLE.replace("a concise, 3-5 word title with an emoji", "3-5 follow-up questions")
# what both ask for themselves, beside the chat
TASKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "title": {"messages": [{"role": "user", "content": TITLE}], "stream": False, "max_tokens": 1000},
    "tags": {"messages": [{"role": "user", "content": TAGS}], "stream": False},
    "follow-ups": {"messages": [{"role": "user", "content": FOLLOW_UPS}], "stream": False},
    "librechat": {
        "messages": [{"role": "user", "content": "Provide a title of at most five words.\n\nUser: 2 and 3?"}],
        "user": "65f1c0ffee00000000000001",
    },
}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path, sections=SECTIONS) as running:
        yield running


def open_webui(messages: Sequence[Mapping[str, Any]], model: str = "adder") -> dict[str, Any]:
    return {"stream": True, "model": model, "messages": messages, "stream_options": {"include_usage": True}}


def librechat(messages: Sequence[Mapping[str, Any]], model: str = "adder") -> dict[str, Any]:
    """Its answers and what it sends again are lists of parts."""
    return {
        "model": model,
        "user": "65f1c0ffee00000000000001",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {**message, "content": [{"type": "text", "text": message["content"]}]}
            if message["role"] == "assistant"
            else message
            for message in messages
        ],
    }


async def said(scene: OpenAIScene, body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """The words of an answer."""
    answer = await scene.post("/chat/completions", body, **headers)
    assert answer.status_code == 200, answer.text
    if not body.get("stream"):
        content: str = answer.json()["choices"][0]["message"]["content"]
        return content
    frames = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert frames[-1] == "[DONE]"
    choices = [choice for frame in frames[:-1] for choice in json.loads(frame)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def roles(scene: OpenAIScene) -> list[str]:
    return [message["role"] for message in await scene.stored(CHAT)]


applications = pytest.mark.parametrize(
    ("body_of", "headers"), [(open_webui, OPEN_WEBUI), (librechat, LIBRECHAT)], ids=["Open WebUI", "LibreChat"]
)


@applications
async def test_a_chat_is_a_thread_that_keeps_the_calls_it_does_not_show(
    scene: OpenAIScene, body_of: Any, headers: Mapping[str, str]
) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 and 3?"}]
    first = await said(scene, body_of(messages), headers)
    messages += [{"role": "assistant", "content": first.strip()}, {"role": "user", "content": "and again?"}]
    second = await said(scene, body_of(messages), headers)

    assert first.endswith("The sum is 5.0.")
    assert second.endswith("The sum is 5.0.")
    assert await roles(scene) == HIDDEN * 2


@applications
@pytest.mark.parametrize("task", TASKS)
async def test_what_is_asked_about_a_chat_leaves_its_thread_alone(
    scene: OpenAIScene, body_of: Any, headers: Mapping[str, str], task: str
) -> None:
    messages = [{"role": "user", "content": "2 and 3?"}]
    first = await said(scene, body_of(messages), headers)
    answer = await scene.post("/chat/completions", {"model": "words", **TASKS[task]}, **headers)
    aside = answer.headers["x-thread-id"]
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "and again?"}]
    await said(scene, body_of(messages), headers)

    assert answer.status_code == 200, answer.text
    assert aside != CHAT
    assert await roles(scene) == HIDDEN * 2
    assert aside not in [thread["id"] for thread in (await scene.gateway.client.get("/threads"))["threads"]]


@pytest.mark.parametrize("order", list(permutations(["title", "tags", "follow-ups"])), ids=" ".join)
async def test_what_is_asked_about_a_chat_before_its_first_words_does_not_begin_its_thread(
    scene: OpenAIScene, order: Sequence[str]
) -> None:
    messages = [{"role": "user", "content": "2 and 3?"}]
    tasks = ({"model": "words", **TASKS[task]} for task in order)
    asides = [await scene.post("/chat/completions", next(tasks), **OPEN_WEBUI)]
    first = await said(scene, open_webui(messages), OPEN_WEBUI)
    asides.append(await scene.post("/chat/completions", next(tasks), **OPEN_WEBUI))
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "and again?"}]
    await said(scene, open_webui(messages), OPEN_WEBUI)
    asides.append(await scene.post("/chat/completions", next(tasks), **OPEN_WEBUI))

    assert {answer.status_code for answer in asides} == {200}
    assert CHAT not in {answer.headers["x-thread-id"] for answer in asides}
    assert await roles(scene) == HIDDEN * 2
    [listed] = (await scene.gateway.client.get("/threads"))["threads"]
    assert (listed["id"], listed["title"]) == (CHAT, "2 and 3?")


@applications
async def test_a_chat_begins_while_its_title_is_being_made(
    scene: OpenAIScene, body_of: Any, headers: Mapping[str, str]
) -> None:
    title = asyncio.create_task(scene.post("/chat/completions", {"model": "slow", **TASKS["title"]}, **headers))
    runs = scene.gateway.application.driver.runs
    await until(lambda: any(run.begun for run in runs.values()))
    again = await scene.post("/chat/completions", {"model": "words", **TASKS["title"]}, **headers)
    first = await said(scene, body_of([{"role": "user", "content": "2 and 3?"}]), headers)
    title.cancel()
    await asyncio.wait((title,))

    assert first.endswith("The sum is 5.0.")
    assert (again.status_code, await roles(scene)) == (200, HIDDEN)


@applications
async def test_a_chat_that_never_streams_begins_with_the_answer_it_brings_back(
    scene: OpenAIScene, body_of: Any, headers: Mapping[str, str]
) -> None:
    messages = [{"role": "user", "content": "2 and 3?"}]
    first = await scene.post("/chat/completions", {**body_of(messages), "stream": False}, **headers)
    listed = (await scene.gateway.client.get("/threads"))["threads"]
    messages += [
        {"role": "assistant", "content": first.json()["choices"][0]["message"]["content"]},
        {"role": "user", "content": "and again?"},
    ]
    await said(scene, {**body_of(messages), "stream": False}, headers)

    assert (first.headers["x-thread-id"] != CHAT, listed) == (True, [])
    assert await roles(scene) == HIDDEN * 2
    assert await scene.versions(CHAT) == 1
    [begun] = (await scene.gateway.client.get("/threads"))["threads"]
    assert (begun["id"], begun["title"]) == (CHAT, "2 and 3?")


async def test_a_question_about_a_chats_first_call_is_answered_where_it_was_asked(scene: OpenAIScene) -> None:
    messages = [{"role": "user", "content": "refund 1234"}]
    body = {"model": "refunder", "messages": messages}
    asked = await scene.post("/chat/completions", body, **OPEN_WEBUI)
    provisional = asked.headers["x-thread-id"]
    messages += [asked.json()["choices"][0]["message"], {"role": "user", "content": "approve"}]
    answer = await scene.post("/chat/completions", body, **OPEN_WEBUI)

    assert answer.headers["x-thread-id"] == provisional != CHAT
    assert "It said:" in answer.json()["choices"][0]["message"]["content"]


@applications
async def test_an_answer_asked_for_anew_or_after_an_edit_is_a_version_of_the_thread(
    scene: OpenAIScene, body_of: Any, headers: Mapping[str, str]
) -> None:
    messages = [{"role": "user", "content": "2 and 3?"}]
    first = await said(scene, body_of(messages), headers)
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "and again?"}]
    await said(scene, body_of(messages), headers)
    messages[-1] = {"role": "user", "content": "no, something else"}
    await said(scene, body_of(messages), headers)

    kept = await scene.stored(CHAT)
    assert [message["role"] for message in kept] == HIDDEN * 2
    assert kept[4]["content"] == "no, something else"
    versions = await scene.gateway.client.get(f"/threads/{CHAT}/versions")
    assert len(versions["versions"]) == 2


async def test_pictures_and_parameters_are_taken_as_open_webui_sends_them(scene: OpenAIScene) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    ]
    parameters = {
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 200, "frequency_penalty": 0.1, "seed": 7, "stop": ["END"],
        "logit_bias": {"50256": -100}, "reasoning_effort": "low",
    }  # fmt: skip
    body = {**open_webui([{"role": "user", "content": parts}], "words"), **parameters}

    assert await said(scene, body, OPEN_WEBUI) == "I heard: What is this?"


async def test_open_webuis_native_tools_go_on_with_its_empty_contents(scene: OpenAIScene) -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}  # fmt: skip
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    called = await scene.post(
        "/chat/completions", {**open_webui(messages, "weather"), "stream": False, "tools": [tool]}, **OPEN_WEBUI
    )
    [call] = called.json()["choices"][0]["message"]["tool_calls"]
    messages += [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"},
    ]
    answer = await said(scene, {**open_webui(messages, "weather"), "tools": [tool]}, OPEN_WEBUI)

    assert answer == "It is fine."
    assert await roles(scene) == ["user", "assistant", "tool", "assistant"]


async def test_the_same_person_in_two_chats_has_two_threads(scene: OpenAIScene) -> None:
    """`user` names no thread: it is one person's in all chats."""
    body = librechat([{"role": "user", "content": "hello"}], "words")
    threads = []
    for chat in ("one", "two", None):
        headers = {} if chat is None else {"x-conversation-id": chat}
        threads.append((await scene.post("/chat/completions", body, **headers)).headers["x-thread-id"])

    assert threads[:2] == ["one", "two"]
    assert threads[2] not in ("one", "two", body["user"])


async def test_open_webuis_responses_connection_replays_what_it_kept(scene: OpenAIScene) -> None:
    """It keeps the items of a response, and sends of each only the members that it knows."""
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2 and 3?"}]}
    body: dict[str, Any] = {"stream": False, "model": "adder", "instructions": "Be brief."}
    first = (await scene.post("/responses", {**body, "input": [asked]}, **OPEN_WEBUI)).json()
    known = {"message": ("type", "role", "content"), "function_call": ("type", "call_id", "name", "arguments", "id")}
    replayed = [
        {name: item[name] for name in known[item["type"]]} if item["type"] in known else item
        for item in first["output"]
    ]
    again = {**asked, "content": [{"type": "input_text", "text": "and again?"}]}
    answer = await scene.post("/responses", {**body, "input": [asked, *replayed, again]}, **OPEN_WEBUI)

    assert answer.status_code == 200, answer.text
    assert answer.json()["output"][-1]["content"][0]["text"] == "The sum is 5.0."
