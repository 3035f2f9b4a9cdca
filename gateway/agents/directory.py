"""The agents of the gateway, by id. They can be replaced while runs go on: a run keeps the agent that it began with.

Below: open_agent. Above: runs, the runner, the composition root. An agent that is replaced or left out is retired: new
runs do not get it, and it is closed once nothing holds it any more. Everything here happens in one step of the event
loop, except at `await`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from gateway.agents.open_agent import OpenAgent, no_agent

logger = logging.getLogger(__name__)


class AgentDirectory(Mapping[str, OpenAgent]):
    """The agents for new runs, in the order of the configuration. `close` it once no run is left."""

    def __init__(self, agents: Iterable[OpenAgent] = ()) -> None:
        self._agents = _by_id(agents)
        self._holders: dict[OpenAgent, int] = {}  # how many each agent has that is held
        self._retired: set[OpenAgent] = set()  # retired, but still held
        self._closing: set[asyncio.Task[None]] = set()

    def __getitem__(self, agent_id: str) -> OpenAgent:
        return self._agents[agent_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def find(self, agent_id: str) -> OpenAgent:
        """The agent of that id. To use it after an `await`, call `holding` or `hold` instead. Raises NotFoundError."""
        if (agent := self._agents.get(agent_id)) is None:
            raise no_agent(agent_id)
        return agent

    def hold(self, agent: OpenAgent, until: asyncio.Future[Any]) -> None:
        """Keep an agent of the directory open until `until` is done, even if it is retired meanwhile."""
        self._holders[agent] = self._holders.get(agent, 0) + 1
        until.add_done_callback(partial(self._release, agent))

    @contextmanager
    def holding(self, agent_id: str) -> Generator[OpenAgent]:
        """The agent of that id, which stays open during the block. Raises NotFoundError."""
        agent = self.find(agent_id)
        self._holders[agent] = self._holders.get(agent, 0) + 1
        try:
            yield agent
        finally:
            self._release(agent)

    def replace(self, agents: Iterable[OpenAgent]) -> None:
        """Use these agents from now on. Earlier ones that are not among them are retired."""
        before = self._agents
        self._agents = _by_id(agents)
        stay = set(self._agents.values())
        for agent in before.values():
            if agent not in stay:
                self._retire(agent)

    async def close(self) -> None:
        """Close every open agent, held or not, and wait for those that are closing."""
        agents, self._agents = self._agents, {}
        left, self._retired = self._retired, set()
        for agent in (*agents.values(), *left):
            self._close(agent)
        if self._closing:
            await asyncio.wait(self._closing)

    def _retire(self, agent: OpenAgent) -> None:
        if agent in self._holders:
            self._retired.add(agent)
        else:
            self._close(agent)

    def _release(self, agent: OpenAgent, until: asyncio.Future[Any] | None = None) -> None:
        if others := self._holders[agent] - 1:
            self._holders[agent] = others
            return
        del self._holders[agent]
        if agent in self._retired:
            self._retired.remove(agent)
            self._close(agent)

    def _close(self, agent: OpenAgent) -> None:
        task = asyncio.create_task(_closed(agent), name=f"close agent {agent.definition.id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _closed(agent: OpenAgent) -> None:
    try:
        await agent.close()
    except Exception:  # a retired agent's failure must not stop anything else
        logger.exception("an agent could not be closed", extra={"agent_id": agent.definition.id})


def _by_id(agents: Iterable[OpenAgent]) -> dict[str, OpenAgent]:
    return {agent.definition.id: agent for agent in agents}
