"""The Agent API as an adapter.

Below: the protocol `agent_api`, protocol_adapter.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.adapters.protocol_adapter import ServedProtocols
from gateway.agent_api.endpoints import PROTOCOL
from gateway.protocol import WireProtocol


class AgentApiAdapter(ServedProtocols):
    """`POST /process`, and the other endpoints of the Agent API."""

    def protocols(self) -> Sequence[WireProtocol]:
        return [PROTOCOL]
