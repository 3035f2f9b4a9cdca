"""The agent type of docs/architecture.md: it asks its model once, and has tools, approvals and the browser's calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.configuration.known_parts import known_parts
from tests.documentation import snippet
from tests.newcomers import file_in_room, what_mypy_says
from tests.running_gateway import Frame, LocalGateway, agent, local_gateway, run_body, scripted

CODE = snippet("docs/architecture.md", "python", "AGENT_TYPE = ")
REFUND: dict[str, Any] = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:refund"}}
CALL = {"tool": "refund", "id": "call_1", "arguments": {"order_id": "1234", "amount": 20}}


def one_round(agent_id: str, tool: dict[str, Any]) -> dict[str, Any]:
    return {**agent(agent_id, scripted([CALL]), tools=[tool]), "type": "one_round"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    agents = [
        one_round("at-once", REFUND),
        one_round("asks", {**REFUND, "approval": "always"}),
        {**agent("browser", scripted([{"tool": "confirm", "id": "call_1"}])), "type": "one_round"},
    ]
    with file_in_room(CODE, tmp_path):
        async with local_gateway(tmp_path, agents, parts=known_parts()) as local:
            yield local


def results(frames: list[Frame]) -> list[str]:
    return [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]


async def test_what_a_tool_gives_is_the_answer(gateway: LocalGateway) -> None:
    frames = await gateway.client.run("at-once", run_body("Refund"))

    assert [frame.type for frame in frames][-2:] == ["TOOL_CALL_RESULT", "RUN_FINISHED"]
    assert '"amount":20.0' in results(frames)[0]


async def test_a_call_that_needs_approval_waits_for_it(gateway: LocalGateway) -> None:
    asked = await gateway.client.run("asks", run_body("Refund", thread_id="t", run_id="r1"))
    (interrupt,) = asked[-1].data["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    frames = await gateway.client.run("asks", run_body(thread_id="t", run_id="r2", resume=resume))

    assert results(asked) == []
    assert '"amount":20.0' in results(frames)[0]
    assert frames[-1].type == "RUN_FINISHED"


async def test_a_call_of_a_frontend_tool_is_left_to_the_browser(gateway: LocalGateway) -> None:
    tools = [{"name": "confirm", "description": "Ask the user.", "parameters": {"type": "object"}}]
    frames = await gateway.client.run("browser", run_body("Sure?", tools=tools))

    assert frames[-1].data["outcome"] == {"type": "success", "pendingToolCallIds": ["call_1"]}


@pytest.mark.timeout(300)  # without a cache the whole package is read
def test_it_is_typed(tmp_path: Path) -> None:
    path = tmp_path / "one_round.py"
    path.write_text(CODE, "utf-8")
    assert what_mypy_says(path) == ""
