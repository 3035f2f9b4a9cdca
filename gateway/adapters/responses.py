"""OpenAI's Responses as an adapter, with the endpoints that its clients use beside it: stored responses, conversations,
models.

Below: the protocols, protocol_adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gateway.adapters.protocol_adapter import ServedProtocols
from gateway.openai_api import (
    conversation_endpoints,
    model_endpoints,
    responses_endpoints,
    stored_response_endpoints,
)
from gateway.protocol import WireProtocol


class ResponsesAdapter(ServedProtocols):
    """`/v1/responses` and `/compatible-mode/v1/responses`."""

    def protocols(self) -> Sequence[WireProtocol]:
        return [
            responses_endpoints.PROTOCOL,
            stored_response_endpoints.PROTOCOL,
            conversation_endpoints.PROTOCOL,
            model_endpoints.PROTOCOL,
        ]


ResponseAPIDefaultAdapter: TypeAlias = ResponsesAdapter
