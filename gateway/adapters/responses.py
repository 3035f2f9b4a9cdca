"""OpenAI's Responses as an adapter, with what its clients use beside it: stored responses, conversations, models.

Below: the protocols, protocol_adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gateway.adapters.protocol_adapter import ServedProtocols
from gateway.protocol import WireProtocol
from gateway.protocols import conversations, openai_models, responses, stored_responses


class ResponsesAdapter(ServedProtocols):
    """`/v1/responses` and `/compatible-mode/v1/responses`."""

    def protocols(self) -> Sequence[WireProtocol]:
        return [responses.PROTOCOL, stored_responses.PROTOCOL, conversations.PROTOCOL, openai_models.PROTOCOL]


ResponseAPIDefaultAdapter: TypeAlias = ResponsesAdapter
