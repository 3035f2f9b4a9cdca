"""Whole threads over a Responses API: AG-UI in front, a server behind that refuses what the real one refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY
from tests.fault_scenes import SERVER, fault_tool
from tests.observed_runs import Observed, observe, thread_messages
from tests.responses_events import call_item, message_item, reasoning_item, web_search_item
from tests.responses_rules import accept
from tests.responses_server import ResponsesServer, responses_server
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body

DEADLINE_SECONDS = 20
PICK = {"name": "pick", "description": "Pick.", "parameters": {"type": "object", "properties": {}}}


@dataclass
class Scene:
    gateway: LocalGateway
    server: ResponsesServer

    async def run(self, agent_id: str, run_id: str, *new: dict[str, Any], known: list[Any] | None = None) -> Observed:
        """One run of the thread `agent_id`, whose client sends all that it knows."""
        body = run_body(run_id=run_id, thread_id=agent_id, messages=[*(known or ()), *new], tools=[PICK])
        return await observe(self.gateway, agent_id, body)

    async def shown(self, agent_id: str) -> list[Any]:
        found = await thread_messages(self.gateway, agent_id)
        return list(found)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        openai = {"model_provider": "openai/v1/responses", "model_id": "gpt-5.6", "endpoint": server.endpoint}
        bedrock = {
            "model_provider": "bedrock",
            "api": "responses",
            "model_id": "openai.gpt-5.6-luna",
            "endpoint": f"http://127.0.0.1:{server.port}",
            "region": REGION,
            "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
        }
        tools = [fault_tool("add")]
        agents = [agent("openai", openai, tools=tools), agent("bedrock", bedrock, tools=tools)]
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            yield Scene(gateway, server)


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": text}


@pytest.mark.parametrize("name", ["openai", "bedrock"])
async def test_a_thread_with_everything_in_it_goes_on_however_often_the_client_sends_it(
    scene: Scene, name: str
) -> None:
    """Reasoning, a search at the provider, a backend call and a frontend call with one id, a result, another turn."""
    server = scene.server
    thought, search = reasoning_item("I think", encrypted="gAAA1"), web_search_item("weather")
    server.will_answer(
        thought, search, message_item("Wait.", phase="commentary"), call_item("add", '{"a":1,"b":2}', "call_0")
    )
    server.will_answer(reasoning_item(encrypted="gAAA2"), call_item("pick", "{}", "call_0"))
    first = await scene.run(name, "run-1", user("u1", "Hi"))
    assert first.last["type"] == "RUN_FINISHED"
    calls = [event["toolCallId"] for event in first.of("TOOL_CALL_START")]
    assert len(set(calls)) == 2
    server.will_answer(message_item("Blue and 3.", phase="final_answer"))
    known = await scene.shown(name)
    result = {"id": "r1", "role": "tool", "toolCallId": calls[1], "content": "blue"}
    second = await scene.run(name, "run-2", result, known=known)
    assert second.last["type"] == "RUN_FINISHED"
    server.will_answer(message_item("Bye"))
    await scene.run(name, "run-3", user("u2", "Bye"), known=await scene.shown(name))
    for request in server.requests:
        accept(request.json)
        assert request.json["store"] is False
    last = server.requests[-1].json["input"]
    assert [item.get("type", item.get("role")) for item in last] == [
        "user",
        "reasoning",
        "web_search_call",
        "assistant",
        "function_call",
        "function_call_output",
        "reasoning",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ]
    assert last[1:3] == [thought, search]
    assert [last[4]["call_id"], last[7]["call_id"]] == calls
    assert (last[5]["output"], last[8]["output"]) == ("3.0", "blue")
    assert [last[3]["phase"], last[9]["phase"]] == ["commentary", "final_answer"]


async def test_what_one_provider_said_is_a_valid_history_for_another(scene: Scene) -> None:
    scene.server.will_answer(
        reasoning_item("x", encrypted="gAAA1"), web_search_item("w"), call_item("add", '{"a":1,"b":2}')
    )
    scene.server.will_answer(message_item("Three", phase="final_answer"))
    body = run_body(run_id="run-1", thread_id="t", messages=[user("u1", "Hi")])
    await observe(scene.gateway, "openai", body)
    known = await scene.shown("t")
    scene.server.will_answer(message_item("Yes"))
    body = run_body(run_id="run-2", thread_id="t2", messages=[*known, user("u2", "Sure?")])
    await observe(scene.gateway, "bedrock", body)
    accept(scene.server.requests[-1].json)
    kinds = [item.get("type", item.get("role")) for item in scene.server.requests[-1].json["input"]]
    assert kinds == ["user", "function_call", "function_call_output", "assistant", "user"]


async def test_a_refused_run_fails_with_a_stable_code_and_the_thread_goes_on(scene: Scene) -> None:
    scene.server.will_answer(message_item("Hal"), status="failed", fields={"error": {"code": "invalid_prompt"}})
    failed = await scene.run("openai", "run-1", user("u1", "Hi"))
    assert failed.last["type"] == "RUN_ERROR"
    assert failed.last["code"] == "model_content_filter"
    scene.server.will_answer(message_item("Hello"))
    again = await scene.run("openai", "run-2", user("u1", "Hi"))
    assert again.last["type"] == "RUN_FINISHED"
