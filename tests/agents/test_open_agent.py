"""An agent whose parts are open."""

from __future__ import annotations

import pytest

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
