"""The access of protocols to agents and tools.

Below: caller_access. Above: run_access, thread_access.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from gateway.access.callers import Caller
from gateway.agents.caller_tools import ToolDescription
from gateway.agents.open_agent import OpenAgent, no_agent
from gateway.agents.stored import AgentToStore, PartsForCallers, StoredAgent
from gateway.documents.document import Document
from gateway.errors import ForbiddenError, NotFoundError
from gateway.messages import ContentBlock, JsonObject
from gateway.protocol.caller_access import CallerAccess
from gateway.protocol.protocol_settings import SettingsT


class AgentAccess(CallerAccess):
    """The agents of each caller, configured and stored; and tools."""

    __slots__ = ()

    def agents(self, caller: Caller) -> Sequence[OpenAgent]:
        """The configured agents of this caller."""
        return [agent for agent in self._runner.agents.values() if caller.may_use(agent.definition.id)]

    def default_agent(self, caller: Caller) -> str:
        """The id of the agent for requests that name none: the operator's choice, else the first one of the file; of
        those that the caller may use.

        Raises:
            NotFoundError: there is none.
        """
        agents = self._runner.agents
        candidates: Sequence[str] = (agents.default, *agents)
        for agent_id in candidates:
            if agent_id and caller.may_use(agent_id):
                return agent_id
        raise NotFoundError(
            "there is no agent for requests that name none; name one, GET /agents lists them", code="agent_not_found"
        )

    def agent_settings(self, agent: OpenAgent, kind: type[SettingsT]) -> SettingsT | None:
        """The agent's settings of this kind (WireProtocol.agent_settings); None: it has none."""
        return next((each for each in agent.definition.protocol_settings.values() if isinstance(each, kind)), None)

    async def stored_agents(
        self, caller: Caller, *, limit: int, after: str = ""
    ) -> tuple[list[StoredAgent], str | None]:
        """The caller's stored agents that follow that id, in the order of their ids; and the id after which there are
        more, None at the end. Visitors have no stored agents.
        """
        stored = self._runner.agents.stored
        if stored is None or caller.agents is not None:
            return [], None
        found, more = await stored.page(caller.owner, after=after, limit=limit)
        seen = [each for each in found if each.agent_id not in self._runner.agents]
        return seen, found[-1].agent_id if more else None

    @asynccontextmanager
    async def agent(self, caller: Caller, agent_id: str) -> AsyncGenerator[OpenAgent]:
        """The agent of that id, configured or stored, which stays open during the block.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: a stored agent cannot be used any more.
            StoreError, UnavailableError: a stored agent cannot be loaded now.
        """
        self._check_agent(caller, agent_id)
        async with self._runner.agents.leased(caller.owner, agent_id) as agent:
            yield agent

    async def check_agent(self, caller: Caller, agent_id: str) -> None:
        """Refuse an agent that is not there for this caller. Raises as `agent`."""
        self._check_agent(caller, agent_id)
        await self._runner.agents.check(caller.owner, agent_id)

    async def put_agent(self, caller: Caller, agent_id: str, body: JsonObject, *, public: bool = False) -> bool:
        """Store an agent of the caller's, with the fields that agents of the configuration have, which counts as a run
        for the caller; whether it is new.

        Raises:
            ForbiddenError: the caller may make no agents.
            TooManyRequestsError: a limit of the caller's is reached.
            ConflictError: code `id_taken`: the configuration or somebody else has an agent of that id.
            InvalidRequestError: it has wrong fields.
        """
        self.check_maker(caller)
        with self._counted(caller):
            return await self._runner.agents.put(caller.owner, agent_id, body, public=public)

    @property
    def parts_for_callers(self) -> PartsForCallers:
        """The models and tools that agents of callers may have."""
        stored = self._runner.agents.stored
        return PartsForCallers() if stored is None else stored.parts

    async def create_agent(self, caller: Caller, agent_id: str, agent: AgentToStore) -> None:
        """Store a new agent of the caller's. Raises as `put_agent`; `id_taken` also for the caller's own."""
        self.check_maker(caller)
        with self._counted(caller):
            await self._runner.agents.create(caller.owner, agent_id, agent)

    async def update_agent(self, caller: Caller, agent_id: str, change: Callable[[Document], AgentToStore]) -> int:
        """Change an agent of the caller's (StoredAgents.update); its version. Raises as `put_agent`; NotFoundError."""
        self.check_maker(caller)
        with self._counted(caller):
            return await self._runner.agents.update(caller.owner, agent_id, change)

    async def agent_document(self, caller: Caller, agent_id: str) -> Document | None:
        """The document of a stored agent that the caller may see, without credentials; None: there is none."""
        stored = self._runner.agents.stored
        if stored is None or caller.agents is not None:
            return None
        return await stored.document(caller.owner, agent_id)

    async def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Delete an agent of the caller's; its runs go on.

        Raises:
            ForbiddenError: the caller may make no agents.
            NotFoundError: the caller has no such agent.
            ConflictError: it is the configuration's.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        self.check_maker(caller)
        self.count(caller)
        await self._runner.agents.delete(caller.owner, agent_id)

    def _check_agent(self, caller: Caller, agent_id: str) -> None:
        # what a website's visitors may use is configured: somebody else could take the id of an agent that was removed
        allowed = caller.agents is None or (agent_id in caller.agents and agent_id in self._runner.agents)
        if not allowed:
            raise no_agent(agent_id)

    def check_maker(self, caller: Caller) -> None:
        """Refuse a caller that may make no agents; `put_agent` and `delete_agent` do so too. Raises ForbiddenError."""
        if not self.is_operators(caller):
            raise ForbiddenError(
                "agents are made by callers with an API key, or on a gateway without keys that only this machine "
                "reaches; add server.api_keys",
                code="agents_not_allowed",
            )

    # --- tools

    async def tools(self, caller: Caller) -> Sequence[ToolDescription]:
        """The kinds of tools that agents of callers may have, by name."""
        tools = self._runner.agents.caller_tools
        return () if tools is None else await tools.descriptions()

    async def call_tool(
        self, caller: Caller, name: str, parameters: JsonObject, request_id: str = ""
    ) -> tuple[ContentBlock, ...]:
        """Run a tool without an agent, which counts as a run for the caller. Raises as CallerTools.call, and:

        Raises:
            ForbiddenError: the caller may make no agents.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        self.check_maker(caller)
        tools = self._runner.agents.caller_tools
        assert tools is not None, "requests come once the gateway serves"
        with self._counted(caller):
            return await tools.call(name, parameters, caller.owner, request_id)
