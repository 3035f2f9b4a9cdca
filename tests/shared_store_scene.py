"""Two gateways of one store in the cluster, without servers around them: what protocols get of each.

    async with two_members(tmp_path, lambda: [agent_of("a", SAYS_HELLO)]) as (one, two):
        viewer = await one.environment.start(ALICE, "a", question("hi"))

A test needs the fixture `opensearch_url`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.access.limits import Meter
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import SystemClock
from gateway.http_client.fetcher import Fetcher
from gateway.protocol import ProtocolEnvironment
from gateway.runner import Runner
from gateway.runs.driver import RunDriver
from gateway.sse import OpenStreams
from gateway.store import Store
from tests.stored_samples import opensearch_store, within

LEASE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Member:
    store: Store
    runner: Runner
    environment: ProtocolEnvironment

    @property
    def id(self) -> str:
        return self.store.gateways.own_id

    def die(self) -> None:
        """Be heard of no more, as a killed process is."""
        members: Any = self.store.gateways
        members.stop_beating()

    async def come_back(self) -> None:
        """Learn that others took it for dead, and give up what it had."""
        members: Any = self.store.gateways
        self.store.gateways.events.on_lost = self.runner.driver.give_up_all
        await within(members._keep_beating())


@asynccontextmanager
async def two_members(
    folder: Path, agents: Callable[[], Sequence[OpenAgent]], fetcher: Fetcher | None = None
) -> AsyncGenerator[tuple[Member, Member]]:
    """The first one came first. `agents` makes those of each."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(_member(folder, "one", agents(), fetcher))
        two = await stack.enter_async_context(_member(folder, "two", agents(), fetcher))
        yield one, two


@asynccontextmanager
async def _member(
    folder: Path, name: str, agents: Sequence[OpenAgent], fetcher: Fetcher | None
) -> AsyncGenerator[Member]:
    store, clock = opensearch_store(folder, f"http://{name}.example", LEASE_SECONDS), SystemClock()
    await within(store.open())
    runner = Runner(RunDriver(AgentDirectory(agents), store, clock))
    try:
        yield Member(store, runner, ProtocolEnvironment(runner, OpenStreams(), Meter(clock, "runs"), fetcher=fetcher))
        await within(runner.driver.shut_down(0))
    finally:
        await within(store.close())
