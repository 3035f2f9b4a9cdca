"""The settings of `protocols.agent_api` in the configuration file.

Above: everything of this room. Below: the configuration's sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from pydantic import BaseModel

from gateway.configuration.section import Section


class AgentApiSettings(Section):
    """The Agent API: `POST /process`."""

    heartbeat: Literal["comment", "message"] = "comment"
    """What a stream sends where nothing came for a while: a comment, or a message of type 'heartbeat', which some
    clients show."""
    backend_tools: Literal["shown", "hidden"] = "shown"
    """Whether calls of tools that the gateway runs are shown: 'plugin_call' and 'mcp_call' with their outputs."""
    mcp_list_tools: bool = True
    """Whether a session's first response lists the tools of the agent's MCP servers: 'mcp_list_tools'."""


AGENT_API_SECTION: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"agent_api": AgentApiSettings})
"""WireProtocol.settings of the Agent API."""
