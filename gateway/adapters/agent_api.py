"""The Agent API as an adapter.

Below: the protocol `agent_api`, protocol_adapter.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.adapters.protocol_adapter import ServedProtocols
from gateway.protocol import WireProtocol
from gateway.protocols import agent_api


class AgentApiAdapter(ServedProtocols):
    """`POST /process`, and what goes with it."""

    def protocols(self) -> Sequence[WireProtocol]:
        return [agent_api.PROTOCOL]
