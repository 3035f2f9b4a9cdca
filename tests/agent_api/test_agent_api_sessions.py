"""What becomes of requests that meet each other, and of sessions that several requests and protocols share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.agent_api_scene import WEATHER_TOOL, AgentApiScene, agent_api_gateway, frames_of, said, told, words_of
from tests.running_gateway import agent, run_body, scripted
from tests.waiting import until_answered


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AgentApiScene]:
    async with agent_api_gateway(tmp_path) as scene:
        yield scene


async def stored(scene: AgentApiScene, thread_id: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = (await scene.gateway.client.get(f"/threads/{thread_id}/messages"))["messages"]
    return messages


async def look(scene: AgentApiScene, response_id: str) -> httpx.Response:
    return await scene.http.get(f"/process/{response_id}?stream=false")


async def test_one_request_that_comes_many_times_at_once_is_one_run(scene: AgentApiScene) -> None:
    body = {"input": [said("hi")], "response_id": "r1", "session_id": "s1"}
    answers = await asyncio.gather(*(scene.post(body, agent="words") for _ in range(6)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    streams = [frames_of(answer.content) for answer in answers if answer.status_code == 200]
    assert streams
    assert all(stream == streams[0] for stream in streams)
    assert [message["role"] for message in await stored(scene, "s1")] == ["user", "assistant"]


@pytest.mark.parametrize("member", ["input", "temperature"])
async def test_two_requests_with_one_id_at_once_are_never_one(scene: AgentApiScene, member: str) -> None:
    both: dict[str, Any] = {"input": [said("hi")], "response_id": "r1", "session_id": "s1", "stream": False}
    bodies = [{**both, member: value} for value in ([[said("one")], [said("two")]] if member == "input" else [0, 1])]
    answers = await asyncio.gather(*(scene.post(body, agent="words") for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_the_id_of_another_protocols_run_is_taken(scene: AgentApiScene) -> None:
    await scene.gateway.client.run("words", run_body("hi", run_id="r1", thread_id="t1"))
    refused = await scene.refused({"input": [said("hi")], "response_id": "r1", "session_id": "t1"}, agent="words")
    assert (refused.status_code, refused.json()["code"]) == (409, "response_id_reused")


async def test_an_answer_to_a_question_is_a_response_of_its_own(scene: AgentApiScene) -> None:
    asked = await scene.whole("refund", agent="refunder", session_id="s1", response_id="r1")
    question = asked["output"][-1]["content"][0]["data"]["id"]
    answer = told("mcp_approval_response", approval_request_id=question, approve=True)
    body = {"input": [answer], "session_id": "s1", "response_id": "r1"}
    refused = await scene.refused(body, agent="refunder")
    assert (refused.status_code, refused.json()["code"]) == (409, "response_id_reused")
    assert (await scene.whole(answer, agent="refunder", session_id="s1", response_id="r2"))["status"] == "completed"


async def test_a_call_whose_output_did_not_come_still_waits(scene: AgentApiScene) -> None:
    more: dict[str, Any] = {"agent": "weather", "session_id": "s1", "tools": [WEATHER_TOOL]}
    paused = await scene.whole("both", **more)
    first, second = (each["content"][0]["data"] for each in paused["output"] if each["type"] == "function_call")
    waiting = await scene.whole(told("function_call_output", call_id=first["call_id"], output="sunny"), **more)
    (still,) = (each["content"][0]["data"] for each in waiting["output"] if each["type"] == "function_call")
    assert still["call_id"] == second["call_id"]
    done = await scene.whole(told("function_call_output", call_id=second["call_id"], output="rainy"), **more)
    assert words_of(done) == "It is rainy."


@pytest.mark.parametrize("asked", [(), ("both",)])
async def test_an_answer_comes_back_with_the_outputs_of_its_calls_and_stands_in_its_session_once(
    tmp_path: Path, asked: tuple[str, ...]
) -> None:
    refund = {"type": "PythonTool", "name": "refund", "parameters": {"function": "gateway.sample_tools:refund"}}
    calls = [
        {"tool": "refund", "arguments": {"order_id": "17", "amount": 9}},
        {"tool": "get_weather", "arguments": {"city": "Paris"}},
    ]
    script = scripted([{"reasoning": "Both."}, {"text": "I do both."}, *calls], [{"text": "It is {{result}}."}])
    both = agent("both", script, tools=[{**refund, "approval": "always"}])
    more: dict[str, Any] = {"session_id": "s1", "tools": [WEATHER_TOOL]}
    async with agent_api_gateway(tmp_path, [both]) as scene:
        answer = (await scene.whole("both", **more))["output"]
        data = {each["type"]: each["content"][0].get("data") for each in answer}
        new = [
            told("function_call_output", call_id=data["function_call"]["call_id"], output="sunny"),
            told("mcp_approval_response", approval_request_id=data["mcp_approval_request"]["id"], approve=False),
        ]
        assert words_of(await scene.whole(*asked, *answer, *new, **more)) == "It is sunny."
        messages = await stored(scene, "s1")
        assert [each["role"] for each in messages] == ["user", "reasoning", "assistant", "tool", "tool", "assistant"]
        assert [len(each.get("toolCalls", ())) for each in messages] == [0, 0, 2, 0, 0, 0]


async def test_a_session_goes_on_over_another_protocol_and_back(scene: AgentApiScene) -> None:
    await scene.whole("one", agent="words", session_id="s1")
    await scene.gateway.client.run("words", run_body("two", thread_id="s1", run_id="r2"))
    await scene.whole("three", agent="words", session_id="s1")
    contents = [message["content"] for message in await stored(scene, "s1") if message["role"] == "user"]
    assert contents[-1] == "three"


async def test_a_request_to_an_agent_that_queues_waits_for_its_turn(tmp_path: Path) -> None:
    hangs = {"when": {"last_user_contains": "one"}, "response": [{"text": "a"}, {"hang": True}]}
    model = scripted(rules=[hangs, {"when": {}, "response": [{"text": "b"}]}])
    patient = agent("patient", model, on_concurrent_run="enqueue")
    async with agent_api_gateway(tmp_path, [patient]) as scene:
        first = asyncio.create_task(scene.post({"input": [said("one")], "session_id": "s1", "response_id": "r1"}))
        await until_answered(
            lambda: scene.http.get("/process/r1?stream=false"), lambda answer: answer.status_code == 200
        )
        second = asyncio.create_task(scene.post({"input": [said("two")], "session_id": "s1", "response_id": "r2"}))
        queued = await until_answered(lambda: look(scene, "r2"), lambda answer: answer.status_code == 200)
        assert queued.json()["status"] == "queued"
        document = await scene.gateway.client.get("/openapi.json")
        jsonschema_rs.validate({**document, "$ref": "#/components/schemas/AgentApiResponse"}, queued.json())
        await scene.http.post("/process/r1/cancel")
        assert frames_of((await first).content)[-1]["status"] == "canceled"
        assert frames_of((await second).content)[-1]["status"] == "completed"
        assert [m["content"] for m in await stored(scene, "s1") if m["role"] == "user"] == ["one", "two"]


async def test_media_of_a_request_are_kept(scene: AgentApiScene) -> None:
    contents = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "file", "file_data": "JVBERi0=", "filename": "a.pdf"},
    ]
    message = {"role": "user", "content": contents}
    first = await scene.whole(message, agent="words", session_id="s1")
    await scene.whole(message, first["output"][0], "and now?", agent="words", session_id="s1")
    messages = await stored(scene, "s1")
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant"]
    assert [part["type"] for part in messages[0]["content"]] == ["text", "image", "document"]
