"""POST /v1/chat/completions, as clients use it: bodies, streams, threads, calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.chat_scene import WEATHER, chat_gateway
from tests.running_gateway import agent, run_body, scripted

ADD: dict[str, Any] = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
HELPER = agent(
    "helper",
    scripted(
        [{"reasoning": "hm"}, {"text": "Hello {{user}}.", "chunk_characters": 3}],
        rules=[
            {
                "when": {"last_user_contains": "weather", "turn": 0},
                "response": [{"text": "I look."}, {"tool": "weather", "arguments": {"city": "Rome"}, "id": "theirs"}],
            },
            {"when": {"after_tool": "weather"}, "response": [{"text": "It is {{result}}."}]},
            {
                "when": {"last_user_contains": "sum", "turn": 0},
                "response": [{"text": "I add."}, {"tool": "add", "arguments": {"a": 2, "b": 3}}],
            },
            {"when": {"after_tool": "add"}, "response": [{"text": "It is {{result}}."}]},
        ],
    ),
    tools=[ADD],
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
async def test_the_sdk_gets_an_answer_at_once_and_as_a_stream(tmp_path: Path, prefix: str) -> None:
    async with chat_gateway(tmp_path, [HELPER]) as scene:
        sdk = scene.openai.with_options(base_url=scene.gateway.client.base_url + prefix)
        answer = await sdk.chat.completions.create(model="helper", messages=[{"role": "user", "content": "you"}])
        stream = await sdk.chat.completions.create(
            model="helper",
            messages=[{"role": "user", "content": "you"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]

    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content == "Hello you."
    assert answer.choices[0].finish_reason == "stop"
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(words) == "Hello you."
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == []


async def test_every_answer_names_its_thread_and_its_run(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [HELPER]) as scene:
        for stream in (False, True):
            answer = await scene.post({"model": "helper", "messages": [user("you")], "stream": stream})
            assert answer.headers["x-thread-id"].startswith("conv_")
            run = await scene.gateway.client.get(f"/runs/{answer.headers['x-run-id']}")
            assert run["threadId"] == answer.headers["x-thread-id"]
            assert run["runId"].startswith("chatcmpl-")


async def test_a_thread_is_named_by_header_or_metadata_and_goes_on_over_ag_ui_and_back(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [HELPER]) as scene:
        first = await scene.ask([user("sum")], "t1")
        history: list[dict[str, Any]] = [user("sum"), first, user("more")]
        second = await scene.ask(history, metadata={"thread_id": "t1"})
        history += [second]
        stored = await scene.stored("t1")
        ag_ui = [*stored, {"id": "u3", "role": "user", "content": "over AG-UI"}]
        await scene.gateway.client.run("helper", run_body(thread_id="t1", messages=ag_ui))
        history += [user("over AG-UI"), {"role": "assistant", "content": "Hello over AG-UI."}, user("back")]
        await scene.ask(history, "t1")
        ended = await scene.stored("t1")
        versions = await scene.versions("t1")

    assert first["content"] == "I add.\n\nIt is 5.0."
    assert roles(stored) == ["user", "assistant", "tool", "assistant", "user", "reasoning", "assistant"]
    assert ended[: len(stored)] == stored
    assert roles(ended[len(stored) :]) == ["user", "reasoning", "assistant"] * 2
    assert versions == 1


async def test_a_client_s_tool_pauses_the_run_and_its_call_leads_back_to_the_thread(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [HELPER]) as scene:
        asked = await scene.post({"model": "helper", "messages": [user("weather")], "tools": [WEATHER]})
        choice = asked.json()["choices"][0]
        call_id = choice["message"]["tool_calls"][0]["id"]
        history = [
            user("weather"),
            choice["message"],
            {"role": "tool", "tool_call_id": call_id, "content": [{"type": "text", "text": "rain"}]},
        ]
        answered = await scene.post({"model": "helper", "messages": history, "tools": [WEATHER]})
        stored = await scene.stored(asked.headers["x-thread-id"])

    assert choice["finish_reason"] == "tool_calls"
    assert call_id == f"call_{asked.headers['x-run-id']}_0"
    assert answered.json()["choices"][0]["message"]["content"] == "It is rain."
    assert answered.headers["x-thread-id"] == asked.headers["x-thread-id"]
    assert roles(stored) == ["user", "assistant", "tool", "assistant"]


async def test_what_is_wrong_is_an_error_of_openai_s_form(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [HELPER]) as scene:
        missing = await scene.post({"messages": [user("you")]})
        unknown = await scene.post({"model": "nobody", "messages": [user("you")]})
        text = await scene.http.post(
            "/v1/chat/completions", content=b"[]", headers={"content-type": "application/json"}
        )
        with pytest.raises(openai.BadRequestError) as refused:
            await scene.openai.chat.completions.create(
                model="helper", messages=[{"role": "user", "content": "you"}], n=2, temperature=7
            )

    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "model")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert text.status_code == 400
    assert text.json()["error"]["message"] == "the body is an array; it must be a JSON object"
    assert refused.value.type == "invalid_request_error"
    assert "temperature must be a number from 0 to 2, not 7" in refused.value.message
    assert "n must be 1" in refused.value.message
