"""The head of a stream waits for what it is to say: a run that fails before that is answered with its failure's status.

Whoever repeats what a server failed at, as the AI SDK does, is not told of a server where a provider refused a request.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from gateway.openai_api.ids import new_run_id
from gateway.sse import HEAD_SECONDS
from tests.case_tools import executions
from tests.movable_clock import MovableClock
from tests.openai_chat_server import chat_server, error
from tests.openai_scene import OpenAIScene, openai_gateway
from tests.running_gateway import agent, scripted
from tests.waiting import until_answered

ADD: Final = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
ONCE: Final = {"model_attempts": 1}
SILENT: Final = agent("silent", scripted([{"hang": True}]), on_concurrent_run="enqueue")
TALKER: Final = agent("talker", scripted([{"text": "one two", "chunk_characters": 4}, {"hang": True}]))
CALLER: Final = agent(
    "caller",
    scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"error": "invalid", "message": "no"}]),
    tools=[ADD],
    parameters=ONCE,
)
REFUSED: Final = agent("refused", scripted([{"error": "invalid", "message": "no"}]), parameters=ONCE)
LEFT_ALONE: Final = {"disconnect_grace_seconds": 0, "drain_seconds": 0}
TWICE: Final = 2

every_surface = pytest.mark.parametrize("path", ["/chat/completions", "/responses"])


def asked(path: str, model: str, **more: Any) -> dict[str, Any]:
    said = {"input": "hello"} if path == "/responses" else {"messages": [{"role": "user", "content": "hello"}]}
    return {"model": model, **said, **more}


def behind(endpoint: str) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "fine-model", "endpoint": endpoint}
    return agent("behind", model)


async def opened(scene: OpenAIScene, path: str, **headers: str) -> httpx.Response:
    """The head of a stream of an agent that says nothing."""
    body = asked(path, "silent", stream=True)
    request = scene.http.build_request("POST", f"/v1{path}", json=body, headers=headers)
    return await scene.http.send(request, stream=True)


async def waits(scene: OpenAIScene, clock: MovableClock, path: str, **headers: str) -> asyncio.Task[httpx.Response]:
    """A stream of an agent that says nothing, once its head waits."""
    asking = asyncio.create_task(opened(scene, path, **headers))
    await clock.until_timer(HEAD_SECONDS)
    return asking


@every_surface
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("refusal", "status"), [(400, 400), (401, 424), (403, 424), (404, 424)])
async def test_what_a_provider_refuses_is_nobody_s_to_repeat(
    tmp_path: Path, path: str, stream: bool, refusal: int, status: int
) -> None:
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(error(refusal, "bad parameter"))
        answer = await scene.post(path, asked(path, "behind", stream=stream))
        run = await scene.gateway.client.get(f"/runs/{answer.headers['x-run-id']}")

    said = answer.json()["error"]
    assert (answer.status_code, said["type"]) == (status, "invalid_request_error")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-thread-id"] == run["threadId"]
    assert "fine-model" in said["message"], "only this machine reaches the gateway: it is its operator's"
    assert (run["status"], len(provider.requests)) == ("failed", 1)


@every_surface
@pytest.mark.parametrize("stream", [False, True])
async def test_who_is_no_operator_reads_the_agent_s_id(tmp_path: Path, path: str, stream: bool) -> None:
    callers: dict[str, Any] = {"server": {"allow_unauthenticated": True}}
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)], **callers) as scene:
        provider.answers(error(404, "no such model"))
        answer = await scene.post(path, asked(path, "behind", stream=stream))

    message = answer.json()["error"]["message"]
    assert answer.status_code == 424
    assert "'behind'" in message
    assert "fine-model" not in message


@every_surface
async def test_a_stream_whose_tools_ran_is_open_when_it_fails(tmp_path: Path, path: str) -> None:
    executions.clear()
    async with openai_gateway(tmp_path, [CALLER]) as scene:
        answer = await scene.post(path, asked(path, "caller", stream=True))

    assert answer.status_code == 200, "who repeats a failure would run the tool again"
    assert '"model_invalid"' in answer.text
    assert list(executions.values()) == [1]


@every_surface
async def test_the_head_waits_so_long_for_the_first_word_and_opens_then(tmp_path: Path, path: str) -> None:
    clock = MovableClock()
    async with openai_gateway(tmp_path, [SILENT], server=LEFT_ALONE, clock=clock) as scene:
        asking = await waits(scene, clock, path)
        await clock.advance(HEAD_SECONDS - 0.1)
        assert not asking.done()
        await clock.advance(0.2)
        async with asyncio.timeout(30):
            answer = await asking
        first = await anext(answer.aiter_text())
        await answer.aclose()

    assert answer.status_code == 200
    assert '"response.created"' in first or '"role":"assistant"' in first


async def test_a_run_that_waits_for_its_turn_has_the_time_from_then_on(tmp_path: Path) -> None:
    clock = MovableClock()
    first_id, second_id = (new_run_id("chatcmpl-", key) for key in "12")
    async with openai_gateway(tmp_path, [SILENT], server=LEFT_ALONE, clock=clock) as scene:
        first = await waits(scene, clock, "/chat/completions", **{"x-thread-id": "t1", "idempotency-key": "1"})
        await clock.advance(HEAD_SECONDS)
        queued = {"x-thread-id": "t1", "idempotency-key": "2"}
        second = asyncio.create_task(opened(scene, "/chat/completions", **queued))
        await until_answered(lambda: scene.http.get(f"/runs/{second_id}"), lambda answer: answer.status_code == 200)
        for _ in range(3):
            await clock.advance(HEAD_SECONDS)
        assert not second.done()
        await scene.http.post(f"/runs/{first_id}/cancel")
        await scene.gateway.client.until_status(second_id, "running")
        await clock.advance(HEAD_SECONDS / 2)
        assert not second.done()
        await clock.advance(HEAD_SECONDS)
        async with asyncio.timeout(30):
            answers = [await first, await second]
        for answer in answers:
            await answer.aclose()

    assert [answer.status_code for answer in answers] == [200, 200]


@every_surface
async def test_a_client_that_leaves_while_the_head_waits_ends_the_run(tmp_path: Path, path: str) -> None:
    prefix: Any = "resp_" if path == "/responses" else "chatcmpl-"
    async with openai_gateway(tmp_path, [SILENT], server=LEFT_ALONE) as scene:
        run_id = new_run_id(prefix, "key-1")
        body = asked(path, "silent", stream=True)
        asking = asyncio.create_task(scene.post(path, body, **{"idempotency-key": "key-1"}))
        await until_answered(lambda: scene.http.get(f"/runs/{run_id}"), lambda answer: answer.status_code == 200)
        asking.cancel()
        await scene.gateway.client.until_status(run_id, "cancelled")


async def test_a_replay_and_a_background_response_open_at_once_and_fail_inside(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path, [REFUSED]) as scene:
        body = asked("/responses", "refused", stream=True)
        begun = await scene.post("/responses", {**body, "background": True})
        failed = await scene.post("/responses", body)
        again = await scene.http.get(f"/v1/responses/{failed.headers['x-run-id']}?stream=true")

    assert (begun.status_code, failed.status_code, again.status_code) == (200, 400, 200)
    assert "response.failed" in begun.text
    assert "response.failed" in again.text


@every_surface
async def test_a_repeated_request_gets_the_failure_of_the_first(tmp_path: Path, path: str) -> None:
    async with openai_gateway(tmp_path, [REFUSED]) as scene:
        key = {"idempotency-key": "order-1"}
        answers = [await scene.post(path, asked(path, "refused", stream=True), **key) for _ in range(TWICE)]

    assert [answer.status_code for answer in answers] == [400] * TWICE
    assert answers[0].json() == answers[1].json()


@every_surface
async def test_words_open_the_head_without_a_wait(tmp_path: Path, path: str) -> None:
    clock = MovableClock()
    async with openai_gateway(tmp_path, [TALKER], server=LEFT_ALONE, clock=clock) as scene:
        body = asked(path, "talker", stream=True)
        async with asyncio.timeout(30), scene.http.stream("POST", f"/v1{path}", json=body) as answer:
            first = await anext(answer.aiter_text())

    assert answer.status_code == 200
    assert '"one ' in first
