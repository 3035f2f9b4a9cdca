"""Whatever a provider yields, what leaves the gateway is legal AG-UI, and the thread goes on."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent import ModelSettings
from gateway.configuration.known_parts import known_parts
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Event, Events, ModelCallEnded, StopReason, Usage, UsageReported
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from tests.event_samples import middle
from tests.fault_scenes import SECRET, SERVER, fault_tool
from tests.invariants import check_history, check_nothing_leaks
from tests.observed_runs import Observed, check_run, post, read_observed
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body
from tests.word_samples import REPEATABLE

Response = list[Events | Exception]
"""Batches as a provider yields them; an exception is raised instead."""


@dataclass
class UnrulyModel:
    """Yields whatever it was told to, and keeps none of the contract's promises but to be a generator."""

    responses: deque[Response] = field(default_factory=deque)
    requests: list[ModelRequest] = field(default_factory=list)
    provider = "unruly"
    model_id = "m"
    capabilities = ModelCapabilities()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        self.requests.append(request)
        for batch in self.responses.popleft() if self.responses else [[ModelCallEnded(StopReason.END_TURN)]]:
            if isinstance(batch, Exception):
                raise batch
            yield list(batch)

    async def close(self) -> None:
        return None


class Scene:
    """One gateway for all examples, in an event loop of its own."""

    def __init__(self, loop: asyncio.Runner, gateway: LocalGateway, model: UnrulyModel) -> None:
        self.loop, self.gateway, self.model = loop, gateway, model
        self.numbers = itertools.count(1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    model = UnrulyModel()

    def open_unruly(_: ModelSettings, __: ModelEnvironment) -> UnrulyModel:
        return model

    parts = known_parts()
    unruly = {"unruly": ModelProvider("unruly", open_unruly, needs_model_id=False)}
    parts = replace(parts, models={**parts.models, **unruly})
    agents = [
        agent(
            "unruly",
            {"model_provider": "unruly"},
            tools=[{**fault_tool("add"), "name": "tool"}],
            parameters={"max_iteration": 4, "model_attempts": 1},
        )
    ]
    with asyncio.Runner() as loop:
        stack = AsyncExitStack()
        running = local_gateway(tmp_path_factory.mktemp("unruly"), agents, parts=parts, server=SERVER)
        gateway = loop.run(stack.enter_async_context(running))
        yield Scene(loop, gateway, model)
        loop.run(stack.aclose())


failures: st.SearchStrategy[Exception] = st.sampled_from(
    [
        ModelError(ModelErrorKind.SERVER, "the provider failed"),
        ModelError(ModelErrorKind.TRUNCATED, "cut off"),
        RuntimeError(SECRET),
        KeyError("x"),
    ]
)
usages: st.SearchStrategy[Event] = st.builds(
    lambda count: UsageReported(Usage("unruly", "m", count, count)), st.sampled_from([None, 0, -5, 7, 10**30])
)
ends = st.builds(lambda reason: [ModelCallEnded(reason)], st.sampled_from(list(StopReason)))
batches = st.lists(st.one_of(middle, middle, middle, middle, usages), min_size=1, max_size=8)
responses: st.SearchStrategy[Response] = st.one_of(
    st.builds(lambda body, end: [*body, end], st.lists(batches, max_size=4), ends),
    st.lists(st.one_of(batches, batches, failures), max_size=5),
)


@settings(REPEATABLE, max_examples=80)
@given(runs=st.lists(st.lists(responses, max_size=3), min_size=1, max_size=3), version=st.sampled_from(["1.0", None]))
def test_whatever_a_provider_yields_what_leaves_is_legal(
    scene: Scene, runs: list[list[Response]], version: str | None
) -> None:
    scene.loop.run(_play(scene, runs, version))


async def _play(scene: Scene, runs: list[list[Response]], version: str | None) -> None:
    thread_id = f"thread-{next(scene.numbers)}"
    for run in runs:
        scene.model.responses = deque(run)
        scene.model.requests.clear()
        run_id = f"run-{next(scene.numbers)}"
        shown = await scene.gateway.client.http.get(f"/threads/{thread_id}/messages?limit=500")
        sent = shown.json()["messages"] if shown.status_code == 200 else []
        body = run_body(
            run_id=run_id,
            thread_id=thread_id,
            messages=[*sent, {"id": f"user-{run_id}", "role": "user", "content": "go on"}],
            tools=[{"name": "pick", "description": "Pick.", "parameters": {}}],
            version=version,
        )
        seen = await _observe(scene.gateway, body)
        check_nothing_leaks(seen.body, [SECRET])
        for request in scene.model.requests:
            check_history(request.messages)


async def _observe(gateway: LocalGateway, body: Mapping[str, Any]) -> Observed:
    response = await post(gateway, "/agents/unruly/run", body)
    seen = read_observed(response, body["threadId"], body["runId"], legacy="protocolVersion" not in body)
    await check_run(gateway, body["runId"])
    return seen
