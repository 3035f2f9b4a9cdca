"""Agent types of others that do not keep their promise: the run fails as the gateway's does, and the log says why."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.configuration.known_parts import known_parts
from gateway.events import Completed, Custom, RunFinished
from gateway.loop import AgentType, LoopContext
from tests.running_gateway import agent, local_gateway, run_body


class YieldsWords:
    async def run(self, context: LoopContext) -> AsyncGenerator[Any]:
        yield ["hello"]
        yield [RunFinished(Completed())]


class YieldsNothingInABatch:
    async def run(self, context: LoopContext) -> AsyncGenerator[Any]:
        yield []


class YieldsWhatNoJsonCanHold:
    async def run(self, context: LoopContext) -> AsyncGenerator[Any]:
        yield [Custom("progress", object())]  # type: ignore[arg-type]
        yield [RunFinished(Completed())]


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (YieldsWords, "a loop yields lists of gateway.events, and not 'hello'"),
        (YieldsNothingInABatch, "a loop yields lists of events, and none is empty"),
        (YieldsWhatNoJsonCanHold, "events could not be written as JSON"),
    ],
)
async def test_a_loop_that_yields_no_events_is_not_the_stores_failure(
    loop: type[Any], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = known_parts()
    odd_type = AgentType("odd", lambda definition, environment: loop())
    parts = dataclasses.replace(parts, agent_types={**parts.agent_types, "odd": odd_type})
    odd = {**agent("odd", {"model_provider": "demo"}), "type": "odd"}
    async with local_gateway(tmp_path, [odd], parts=parts) as gateway:
        frames = await gateway.client.run("odd", run_body("hi"))

    assert [frame.type for frame in frames] == ["RUN_STARTED", "RUN_ERROR"]
    assert frames[-1].data["code"] == "internal_error"
    assert "store" not in frames[-1].data["message"]
    assert reason in caplog.text
