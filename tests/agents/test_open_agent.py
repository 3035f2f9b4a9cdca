"""An agent whose parts are open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.clock import SystemClock
from gateway.models.demo import DemoModel
from gateway.options.generation import GenerationOptions
from tests.loop_runs import tool_giving
from tests.runner_scene import agent_of


async def test_two_tools_of_one_name_are_told_once_with_their_agent(caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of("shop", [], (tool_giving("refund", "one"), "never"), (tool_giving("refund", "two"), "never"))
    for _ in range(3):
        tools, _ = await agent.tools()
        assert list(tools) == ["refund"]

    [entry] = caplog.records
    assert (entry.message, entry.__dict__["tool"], entry.__dict__["agent_id"]) == (
        "two tools of one name: the first is used",
        "refund",
        "shop",
    )


def test_options_that_the_model_does_not_know_are_told(caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of("shop", [])
    settings = replace(agent.definition.model, options=GenerationOptions(temperature=0.5, top_k=3))
    demo = DemoModel(SystemClock())
    replace(agent, definition=replace(agent.definition, model=settings), model=demo).warn_of_ignored()

    [entry] = caplog.records
    assert entry.__dict__["ignored"] == ["temperature", "top_k"]
