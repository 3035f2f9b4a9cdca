"""Registered agents that reach their iterations, on `_execute` and its stream. By the rows of the cases."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import openai_model, tensors
from tests.openai_chat_server import DONE, ChatServer, Script, chat_server, chunk, completion, record
from tests.openai_chat_server import error as refusal

HEAD = (
    "Agent reached maximum iterations ({}) without completing the task. "
    "Here's a summary of the steps completed so far:\n\n"
)


def looking(thought: str = "") -> Script:
    """An answer that calls a tool: always the same one, in the same words."""
    function = {"name": "ListIndexTool", "arguments": "{}"}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    said = [record(chunk({"content": thought}))] if thought else []
    return Script(pieces=[*said, record(chunk({"tool_calls": [call]})), record(chunk({}, "tool_calls")), DONE])


@pytest_asyncio.fixture
async def models() -> AsyncGenerator[ChatServer]:
    async with chat_server() as server:
        yield server


@pytest_asyncio.fixture
async def ml(tmp_path: Path) -> AsyncGenerator[MlGateway]:
    async with ml_gateway(tmp_path) as scene:
        yield scene


async def registered(ml: MlGateway, models: ChatServer, type: str, **parameters: Any) -> str:
    model = openai_model(models)
    return await ml.register({"name": "limited", "type": type, "model": model, "parameters": parameters})


async def executed(ml: MlGateway, agent_id: str, **parameters: Any) -> Any:
    body = {"input": "go", "parameters": parameters}
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
    assert status == 200, answer
    return answer


async def streamed(ml: MlGateway, agent_id: str, **parameters: Any) -> list[dict[str, Any]]:
    """The response of each chunk."""
    body = {"input": "go", "parameters": parameters}
    answer = await ml.http.post(f"{P}/agents/{agent_id}/_execute/stream", json=body)
    assert answer.status_code == 200, answer.text
    told = [json.loads(each.removeprefix("data: ")) for each in answer.text.strip().split("\n\n")]
    return [tensors(each)["response"] for each in told]


def response_of(answer: Any) -> str:
    response: str = tensors(answer)["response"]["response"]
    return response


def tool_results(models: ChatServer) -> list[str]:
    """What the model was last shown of tools."""
    return [each["content"] for each in models.requests[-1].json["messages"] if each["role"] == "tool"]


@pytest.mark.parametrize(("parameters", "most"), [({"max_iteration": 2}, 2), ({}, 5)])
async def test_d16_a_v2_agent_asks_its_model_exactly_so_often(
    ml: MlGateway, models: ChatServer, parameters: dict[str, Any], most: int
) -> None:
    agent_id = await registered(ml, models, "conversational_v2")
    models.answers(*[looking()] * 9)
    answer = await executed(ml, agent_id, **parameters)
    assert answer["stop_reason"] == "max_iterations"
    assert len(models.requests) == most
    models.forget()
    models.answers(*[looking()] * most, completion("Then this."))
    last = (await streamed(ml, agent_id, **parameters, memory_id=answer["memory_id"]))[-1]
    assert last == {"content": "", "is_last": True, "stop_reason": "max_iterations"}
    assert len(models.requests) == most


async def test_d16_the_next_request_goes_on_from_answered_calls(ml: MlGateway, models: ChatServer) -> None:
    agent_id = await registered(ml, models, "conversational_v2")
    models.answers(looking(), looking(), completion("Then this."))
    first = await executed(ml, agent_id, max_iteration="2")
    second = await executed(ml, agent_id, memory_id=first["memory_id"])
    assert second["stop_reason"] == "end_turn"
    heard = models.requests[2].json["messages"]
    called = [call["id"] for each in heard for call in each.get("tool_calls", ())]
    assert len(called) == 2
    assert called == [each["tool_call_id"] for each in heard if each["role"] == "tool"]


@pytest.mark.parametrize("type", ["conversational", "ag_ui"])
async def test_d17_the_answer_is_a_summary_behind_the_sentence_that_says_so(
    ml: MlGateway, models: ChatServer, type: str
) -> None:
    agent_id = await registered(ml, models, type, max_iteration="1")
    models.answers(looking(), completion("I looked."))
    assert response_of(await executed(ml, agent_id)) == f"{HEAD.format(1)}I looked."
    models.answers(looking(), completion("I looked."))
    assert [each["content"] for each in await streamed(ml, agent_id)] == [HEAD.format(1), "I looked.", ""]


async def test_d18_where_the_summary_fails_the_last_thought_is_the_answer(ml: MlGateway, models: ChatServer) -> None:
    agent_id = await registered(ml, models, "conversational", max_iteration="1")
    said = "Agent reached maximum iterations (1) without completing the task. Last thought: T"
    models.answers(looking("T"), refusal(400))
    assert response_of(await executed(ml, agent_id)) == said
    models.answers(looking("T"), refusal(400))
    assert [each["content"] for each in await streamed(ml, agent_id)] == ["T", f"\n\n{said}", ""]


async def test_d19_model_calls_and_rounds_of_tools_count_alike(ml: MlGateway, models: ChatServer) -> None:
    agent_id = await registered(ml, models, "conversational")
    models.answers(*[looking()] * 5, completion("I looked."))
    assert response_of(await executed(ml, agent_id, max_iteration=10)) == f"{HEAD.format(10)}I looked."
    assert len(models.requests) == 6
    results = tool_results(models)
    assert len(results) == 5
    assert len(set(results)) == 1, "each of them ran"
    assert models.requests[-1].json["tool_choice"] == "none"


async def test_memory_has_what_was_answered_at_the_limit(ml: MlGateway, models: ChatServer) -> None:
    async def remembered(memory_id: str) -> str:
        _, read = await ml.call("GET", f"/memory/{memory_id}/messages")
        (interaction,) = read["messages"]
        response: str = interaction["response"]
        return response

    summing_up = await registered(ml, models, "conversational", max_iteration="1")
    models.answers(looking(), completion("I looked."))
    answer = await executed(ml, summing_up)
    assert await remembered(tensors(answer)["memory_id"]) == response_of(answer)

    models.answers(looking("I look."))
    answer = await executed(ml, await registered(ml, models, "conversational_v2"), max_iteration="1")
    assert answer["message"]["content"][0] == {"text": "I look."}
    assert await remembered(answer["memory_id"]) == "I look."
