"""Which card of an agent a caller is shown: the public one, or the one that a key shows.

Below: cards, routes, the protocols' environment. Above: methods, the protocol.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from gateway.a2a.cards import agent_card
from gateway.a2a.errors import unsupported
from gateway.a2a.routes import OLD_WELL_KNOWN, WELL_KNOWN, Asked
from gateway.a2a.settings import A2ASettings, AgentA2ASettings, CardSettings
from gateway.access.callers import LOCAL_CALLER, Caller
from gateway.errors import NotFoundError
from gateway.messages import JsonObject, ToolSpec
from gateway.protocol import OpenAgent, ProtocolEnvironment

CARD_PATHS: Final = (
    WELL_KNOWN,
    OLD_WELL_KNOWN,
    "/a2a" + WELL_KNOWN,
    "/a2a" + OLD_WELL_KNOWN,
    "/agents/{agent_id}" + WELL_KNOWN,
    "/agents/{agent_id}/a2a" + WELL_KNOWN,
    "/agents/{agent_id}/a2a" + OLD_WELL_KNOWN,
)
"""Where public cards are: the default agent's, and each agent's."""


def _is_local(host: str) -> bool:
    """Whether a name or an address always means the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class ShownCards:
    """The cards of all agents."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    def public(self, gateway_url: str, host: str, agent_id: str | None) -> JsonObject:
        """The public card of an agent, None for the default one, for a request that was sent to `host`.

        Raises:
            NotFoundError: there is no such agent, or its operator does not show it to strangers.
        """
        environment = self._environment
        default = environment.default_agent(LOCAL_CALLER)
        agents = {each.definition.id: each for each in environment.agents(LOCAL_CALLER)}
        agent = agents.get(agent_id or default)
        written = None if agent is None else self._written(LOCAL_CALLER, agent, default)
        # a website could have its own name lead to this machine, to read of its agents
        if agent is None or (written is None and not (environment.is_private and _is_local(host))):
            raise NotFoundError("there is no public card here; an agent's operator writes one as a2a.card")
        return self._card(gateway_url, LOCAL_CALLER, agent, written, agent_id)

    async def extended(self, asked: Asked) -> JsonObject:
        """The card that callers with a key are shown: it has the agent's tools.

        Raises:
            InvalidRequestError: -32004, no keys are needed here.
            GatewayError: as ProtocolEnvironment.agent.
        """
        environment, caller = self._environment, asked.caller
        if not environment.needs_key:
            raise unsupported("there is no extended card here: no key is needed, and the public one says all there is")
        async with environment.agent(caller, asked.agent_id) as agent:
            tools, _ = await agent.tools()
            written = self._written(caller, agent, environment.default_agent(caller))
            own_path = "agent_id" in asked.request.path_params
            specs = [tool.spec for tool in tools.values()]
            gateway_url = environment.public_url(asked.request)
            return self._card(gateway_url, caller, agent, written, asked.agent_id if own_path else None, specs)

    def _written(self, caller: Caller, agent: OpenAgent, default: str) -> CardSettings | None:
        own = self._environment.agent_settings(agent, AgentA2ASettings)
        if own is not None and own.card is not None:
            return own.card
        is_default = agent.definition.id == default
        return self._environment.protocol_settings(caller, A2ASettings).card if is_default else None

    def _card(
        self,
        gateway_url: str,
        caller: Caller,
        agent: OpenAgent,
        written: CardSettings | None,
        agent_id: str | None,
        tools: Sequence[ToolSpec] = (),
    ) -> JsonObject:
        path = "/a2a" if agent_id is None else f"/agents/{quote(agent_id, safe='')}/a2a"
        return agent_card(
            agent.definition,
            written,
            gateway_url + path,
            strict=self._environment.protocol_settings(caller, A2ASettings).strict,
            keyed=self._environment.needs_key,
            tools=tools,
        )
