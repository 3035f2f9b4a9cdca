"""What goes wrong over Chat Completions: before a run, in it, and when its client leaves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.openai_api.ids import new_run_id
from tests.case_tools import executions
from tests.chat_scene import chat_gateway
from tests.running_gateway import agent, scripted
from tests.waiting import until, until_answered

ADD: dict[str, Any] = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
ONCE: dict[str, Any] = {"model_attempts": 1}
TALKER = agent("talker", scripted([{"text": "one two three", "chunk_characters": 4}, {"hang": True}]))
LEFT_ALONE: dict[str, Any] = {"disconnect_grace_seconds": 0, "drain_seconds": 0}


def failing(kind: str) -> dict[str, Any]:
    """Adds two numbers, then its model fails."""
    script = scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": "It is"}, {"error": kind}])
    return agent("helper", script, tools=[ADD], parameters=ONCE)


def ask(model: str = "helper", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "sum"}], **more}


async def read_words(stream: openai.AsyncStream[ChatCompletionChunk], words: list[str]) -> None:
    async for chunk in stream:
        words.append(chunk.choices[0].delta.content or "")  # noqa: PERF401  # the words before the failure count


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("overloaded", 503, "model_overloaded"),
        ("throttled", 429, "rate_limit_exceeded"),
        ("context_overflow", 400, "context_length_exceeded"),
        ("invalid", 400, "model_invalid"),
        ("authentication", 424, "model_authentication"),
        ("not_found", 424, "model_unavailable"),
        ("timeout", 504, "model_timeout"),
    ],
)
async def test_a_run_that_failed_is_not_to_be_asked_for_again(
    tmp_path: Path, kind: str, status: int, code: str
) -> None:
    async with chat_gateway(tmp_path, [failing(kind)]) as scene:
        answer = await scene.post(ask())
        executions.clear()
        with pytest.raises(openai.APIStatusError) as failed:
            await scene.openai.with_options(max_retries=2).chat.completions.create(
                model="helper", messages=[{"role": "user", "content": "sum"}]
            )

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-thread-id"].startswith("conv_")
    assert answer.headers["x-run-id"].startswith("chatcmpl-")
    assert failed.value.status_code == status
    assert list(executions.values()) == [1]


async def test_a_stream_that_fails_ends_with_the_error(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [failing("overloaded")]) as scene:
        answer = await scene.post(ask(stream=True))
        stream = await scene.openai.chat.completions.create(
            model="helper", messages=[{"role": "user", "content": "sum"}], stream=True
        )
        words: list[str] = []
        with pytest.raises(openai.APIError) as failed:
            await read_words(stream, words)

    frames = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert answer.status_code == 200
    assert frames[-1] == "[DONE]"
    assert json.loads(frames[-2])["error"]["code"] == "model_overloaded"
    assert "".join(words) == "It is"
    assert failed.value.code == "model_overloaded"


async def test_what_is_refused_before_a_run_may_be_asked_for_again(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [TALKER], server=LEFT_ALONE) as scene:
        body = ask("talker", stream=True)
        async with scene.http.stream("POST", "/v1/chat/completions", json=body, headers={"x-thread-id": "t1"}) as first:
            assert first.status_code == 200
            busy = await scene.post(ask("talker"), x_thread_id="t1")

    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "thread_busy")
    assert "x-should-retry" not in busy.headers


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "look"}}}, "tool_choice"),
    ],
)
async def test_a_wish_that_cannot_come_true_is_named_as_the_client_wrote_it(
    tmp_path: Path, more: dict[str, Any], param: str
) -> None:
    async with chat_gateway(tmp_path, [failing("overloaded")]) as scene:
        answer = await scene.post(ask(**more))

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert answer.json()["error"]["code"] == "unsupported_option"


async def test_a_client_that_leaves_its_stream_ends_the_run_and_may_have_less_of_it(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [TALKER], server=LEFT_ALONE) as scene:
        body = ask("talker", stream=True)
        headers = {"x-thread-id": "t1"}
        async with scene.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if '"two "' in line:
                    break
        await scene.gateway.client.until_status(answer.headers["x-run-id"], "cancelled")
        stored = await scene.stored("t1")
        body["messages"] += [{"role": "assistant", "content": "one t"}, {"role": "user", "content": "go on"}]
        async with scene.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status_code == 200
            kept = await scene.stored("t1")

    assert stored[1]["content"].startswith("one two ")
    assert kept[:2] == stored
    assert kept[2]["content"] == "go on"


@pytest.mark.parametrize(
    ("headers", "more", "status"),
    [
        ({}, {}, "cancelled"),
        ({"idempotency-key": "key-1"}, {}, "running"),
        ({}, {"on_disconnect": "continue"}, "running"),
    ],
    ids=["nobody can return", "it may be asked for again", "it goes on by itself"],
)
async def test_a_stream_that_is_stopped_ends_its_run_at_once_where_nobody_can_return_to_it(
    tmp_path: Path, headers: dict[str, str], more: dict[str, Any], status: str
) -> None:
    patient = {"disconnect_grace_seconds": 3600, "drain_seconds": 0}
    async with chat_gateway(tmp_path, [{**TALKER, **more}], server=patient) as scene:
        body = ask("talker", stream=True)
        async with scene.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if '"two "' in line:
                    break
            [live] = scene.gateway.application.driver.runs.values()
        await until(lambda: not live.audience.has_viewers)
        told = await scene.gateway.client.until_status(answer.headers["x-run-id"], status)

    assert told["status"] == status
    assert live.cancel_reason == ("abandoned" if status == "cancelled" else "server_shutdown")


async def test_a_client_that_leaves_before_its_answer_ends_the_run(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [TALKER], server=LEFT_ALONE) as scene:
        run_id = new_run_id("chatcmpl-", "key-1")
        asking = asyncio.create_task(scene.post(ask("talker"), idempotency_key="key-1"))
        await until_answered(lambda: scene.http.get(f"/runs/{run_id}"), lambda answer: answer.status_code == 200)
        asking.cancel()
        await scene.gateway.client.until_status(run_id, "cancelled")


async def test_no_key_and_a_wrong_type_are_refused_in_openai_s_form(tmp_path: Path) -> None:
    key = {"name": "ann", "key": "ann-key-of-the-tests"}
    async with chat_gateway(tmp_path, [TALKER], server={"api_keys": [key]}) as scene:
        nobody = await scene.post(ask("talker"))
        text = await scene.http.post(
            "/v1/chat/completions",
            content=b"{}",
            headers={"authorization": f"Bearer {key['key']}", "content-type": "text/plain"},
        )

    assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "invalid_api_key")
    assert text.status_code == 415
    assert text.json()["error"]["type"] == "invalid_request_error"
