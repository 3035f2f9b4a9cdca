"""The agents of the gateway, by id. They can be replaced while runs go on: a run keeps the agent that it began with.

Below: open_agent, stored. Above: runs, the runner, the composition root. The configured agents are always open; those
that callers made are opened on use, and some of them stay open. An agent that is replaced or left out is retired: new
runs do not get it, and it is closed once nothing holds it any more. Everything here happens in one step of the event
loop, except at `await`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any

from gateway.agents.caller_tools import CallerTools
from gateway.agents.open_agent import OpenAgent, no_agent
from gateway.agents.stored import AgentToStore, Loaded, StoredAgents
from gateway.documents.document import Document
from gateway.errors import ConflictError, NotFoundError, StoreError, UnavailableError
from gateway.messages import JsonObject

logger = logging.getLogger(__name__)


MOST_STORED_OPEN = 100


class AgentDirectory(Mapping[str, OpenAgent]):
    """The agents for new runs. As a mapping it has those of the configuration, in its order. `close` it once no run is
    left.
    """

    def __init__(self, agents: Iterable[OpenAgent] = (), *, most_stored_open: int = MOST_STORED_OPEN) -> None:
        """`most_stored_open`: how many agents of callers stay open while nothing holds them."""
        self._agents = _by_id(agents)
        self.default = ""  # the agent for requests that name none; empty: nobody chose one
        self.stored: StoredAgents | None = None  # set once the store is open
        self.caller_tools: CallerTools | None = None  # set once the tools' resources are open
        self._loaded: dict[str, Loaded] = {}  # the open agents of callers, the last used at the end
        self._most_loaded = most_stored_open
        self._loading: dict[str, object] = {}  # by agent; removed once its first load is over, or the agent was written
        self._holders: dict[OpenAgent, int] = {}  # the number of holders of each held agent
        self._retired: set[OpenAgent] = set()  # retired, but still held
        self._closing: set[asyncio.Task[None]] = set()

    def __getitem__(self, agent_id: str) -> OpenAgent:
        return self._agents[agent_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def find(self, agent_id: str) -> OpenAgent:
        """The configured agent of that id. It may be closed at the next `await`; `leased` keeps it open.

        Raises:
            NotFoundError: there is none.
        """
        if (agent := self._agents.get(agent_id)) is None:
            raise no_agent(agent_id)
        return agent

    def as_it_is_now(self, agent: OpenAgent) -> OpenAgent:
        """The agent that is configured under the same id now: a reload may have replaced it. A stored agent is returned
        unchanged.

        Raises:
            NotFoundError: it is not configured any more.
        """
        return agent if agent.is_stored else self.find(agent.definition.id)

    def hold(self, agent: OpenAgent, until: asyncio.Future[Any]) -> None:
        """Keep an agent of the directory open until `until` is done, even if it is retired meanwhile."""
        self._holders[agent] = self._holders.get(agent, 0) + 1
        until.add_done_callback(partial(self._release, agent))

    @asynccontextmanager
    async def leased(self, owner: str, agent_id: str) -> AsyncGenerator[OpenAgent]:
        """The agent of that id for this owner, configured or stored, which stays open during the block.

        Raises:
            NotFoundError: there is none, or it is another owner's and not public.
            ConflictError: a stored agent cannot be used any more.
            StoreError, UnavailableError: it cannot be loaded now.
        """
        agent = self._agents.get(agent_id) or await self._use(owner, agent_id)
        with self._holding(agent):
            yield agent

    async def check(self, owner: str, agent_id: str) -> None:
        """Raise as `leased` does if this owner cannot use the agent."""
        if agent_id not in self._agents:
            await self._use(owner, agent_id)

    async def has(self, owner: str, agent_id: str) -> bool:
        """Whether this owner can use the agent.

        Raises:
            StoreError, UnavailableError: it cannot be loaded now.
        """
        try:
            await self.check(owner, agent_id)
        except (NotFoundError, ConflictError):
            return False
        return True

    @asynccontextmanager
    async def usable(self, owner: str, agent_id: str) -> AsyncGenerator[OpenAgent | None]:
        """As `leased`; None for an agent that is gone, or cannot be used any more.

        Raises:
            StoreError: it cannot be loaded now.
        """
        try:
            agent = self._agents.get(agent_id) or await self._use(owner, agent_id)
        except (NotFoundError, ConflictError, UnavailableError):
            agent = None
        with nullcontext() if agent is None else self._holding(agent):
            yield agent

    @asynccontextmanager
    async def of_any_owner(self, agent_id: str) -> AsyncGenerator[OpenAgent | None]:
        """As `usable`, whoever owns the agent: for the gateway's own work.

        Raises:
            StoreError: it cannot be loaded now.
        """
        owner = None if agent_id in self._agents or self.stored is None else await self.stored.owner_of(agent_id)
        async with self.usable(owner or "", agent_id) as agent:
            yield agent

    async def put(self, owner: str, agent_id: str, body: JsonObject, *, public: bool = False) -> bool:
        """Store an owner's agent; returns whether it is new. Runs under way keep the agent that they began with.

        Raises:
            ConflictError: code `id_taken`: the configuration or another owner has an agent of that id.
            InvalidRequestError: it has wrong fields.
            NotFoundError: this gateway stores no agents.
        """
        async with self._writing(agent_id) as stored:
            return await stored.put(owner, agent_id, AgentToStore(body, public=public))

    async def create(self, owner: str, agent_id: str, agent: AgentToStore) -> None:
        """Store a new agent. Raises as `put`; `id_taken` also if the owner has an agent of that id."""
        async with self._writing(agent_id) as stored:
            await stored.create(owner, agent_id, agent)

    async def update(self, owner: str, agent_id: str, change: Callable[[Document], AgentToStore]) -> int:
        """Change an owner's agent, see StoredAgents.update. Raises as `put`; NotFoundError: the owner has no such
        agent.
        """
        async with self._writing(agent_id) as stored:
            return await stored.update(owner, agent_id, change)

    @asynccontextmanager
    async def _writing(self, agent_id: str) -> AsyncGenerator[StoredAgents]:
        if agent_id in self._agents:
            raise ConflictError(f"the configuration has an agent {agent_id!r}; choose another id", code="id_taken")
        stored = self._stored(agent_id)
        try:
            yield stored
        finally:
            self._forget(agent_id)

    async def delete(self, owner: str, agent_id: str) -> None:
        """Delete an owner's agent.

        Raises:
            NotFoundError: the owner has no such agent.
            ConflictError: code `agent_configured`: it is the configuration's.
        """
        if agent_id in self._agents:
            raise ConflictError(
                f"the agent {agent_id!r} is in the configuration file; remove it there", code="agent_configured"
            )
        try:
            deleted = await self._stored(agent_id).delete(owner, agent_id)
        finally:
            self._forget(agent_id)
        if not deleted:
            raise no_agent(agent_id)

    async def warn_of_hidden(self, agent_ids: Iterable[str]) -> None:
        """Log which configured agents hide one of the same id that a caller made."""
        if self.stored is None:
            return
        for agent_id in agent_ids:
            try:
                owner = await self.stored.owner_of(agent_id)
            except StoreError:  # nothing is lost but the warning
                return
            if owner is not None:
                logger.warning(
                    "an agent of the configuration hides one of the same id that a caller made; give it another id",
                    extra={"agent_id": agent_id, "owner": owner},
                )

    def replace(self, agents: Iterable[OpenAgent], default: str | None = None) -> None:
        """Use these agents from now on. Earlier agents that are not among them are retired. `default` is the id of one
        of these agents.
        """
        before = self._agents
        self._agents, self.default = _by_id(agents), default or ""
        stay = set(self._agents.values())
        for agent in before.values():
            if agent not in stay:
                self._retire(agent)

    async def close(self) -> None:
        """Close every open agent, held or not, and wait for those that are closing."""
        agents, self._agents = self._agents, {}
        left, self._retired = self._retired, set()
        loaded, self._loaded = self._loaded, {}
        for agent in (*agents.values(), *left, *(each.agent for each in loaded.values())):
            self._close(agent)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _use(self, owner: str, agent_id: str) -> OpenAgent:
        """A stored agent, opened. It is not held yet: the caller must hold it before the next `await`."""
        stored = self._stored(agent_id)
        await self._forget_changed(stored, agent_id)
        while (loaded := self._loaded.pop(agent_id, None)) is None:
            loading = self._loading.setdefault(agent_id, object())
            try:
                found = await stored.load(owner, agent_id)
            finally:
                if is_current := self._loading.get(agent_id) is loading:
                    del self._loading[agent_id]
            if found is None:
                raise no_agent(agent_id)
            if is_current:
                self._loaded[agent_id] = found
            else:  # it was written or opened meanwhile
                self._close(found.agent)
        self._loaded[agent_id] = loaded
        if not loaded.is_seen_by(owner):
            raise no_agent(agent_id)
        self._close_unused(loaded.agent)
        return loaded.agent

    async def _forget_changed(self, stored: StoredAgents, agent_id: str) -> None:
        """Forget the open agent if another gateway has changed or deleted it."""
        loaded = self._loaded.get(agent_id)
        if loaded is None or await stored.is_current(agent_id, loaded):
            return
        if self._loaded.get(agent_id) is loaded:
            self._forget(agent_id)

    @contextmanager
    def _holding(self, agent: OpenAgent) -> Generator[None]:
        self._holders[agent] = self._holders.get(agent, 0) + 1
        try:
            yield
        finally:
            self._release(agent)

    def _close_unused(self, wanted: OpenAgent) -> None:
        """If more stored agents are open than may be, close those that were used longest ago."""
        surplus = len(self._loaded) - self._most_loaded
        if surplus <= 0:
            return
        unused = [
            agent_id
            for agent_id, loaded in self._loaded.items()
            if loaded.agent not in self._holders and loaded.agent is not wanted
        ]
        for agent_id in unused[:surplus]:
            self._close(self._loaded.pop(agent_id).agent)

    def _forget(self, agent_id: str) -> None:
        self._loading.pop(agent_id, None)
        if (loaded := self._loaded.pop(agent_id, None)) is not None:
            self._retire(loaded.agent)

    def _stored(self, agent_id: str) -> StoredAgents:
        if self.stored is None:
            raise no_agent(agent_id)
        return self.stored

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
