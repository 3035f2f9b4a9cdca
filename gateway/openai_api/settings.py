"""The settings of `protocols.chat_completions` and `protocols.responses` in the configuration file.

Above: everything of this room. Below: the configuration's sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field

from gateway.configuration.section import Section


def _not_secret(name: str) -> str:
    if name.lower() in _SECRET_HEADERS:
        raise ValueError("it holds a secret, which must not become the id of a thread")
    return name


_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie"})
HeaderName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"), AfterValidator(_not_secret)
]


OtherTools: TypeAlias = Literal["leave_out", "refuse"]


class ChatSettings(Section):
    """Chat Completions: `POST /v1/chat/completions`."""

    thread_headers: tuple[HeaderName, ...] = ()
    """Headers of requests that name the thread, besides X-Thread-Id: ['X-OpenWebUI-Chat-Id']. The first one sent
    counts."""
    backend_tools: Literal["hidden", "reasoning"] = "hidden"
    """How calls of tools that the gateway runs are shown: not at all, or as text in 'reasoning_content'."""
    approve_by_word: bool = True
    """Whether a last message of exactly 'approve' or 'deny' answers what the agent asked. Whoever has the key, and the
    conversation, may then answer."""
    other_tools: OtherTools = "leave_out"
    """What becomes of a request's tools that are not functions, such as 'web_search': the run has the others, or the
    request is refused."""


class ResponsesSettings(Section):
    """Responses: `/v1/responses` and `/v1/conversations`."""

    thread_headers: tuple[HeaderName, ...] = ()
    """Headers of requests that name the thread where 'previous_response_id' and 'conversation' do not: ['session-id'].
    The first one sent counts."""
    backend_tools: Literal["mcp_call", "function_call", "hidden"] = "mcp_call"
    """How calls of tools that the gateway runs are shown: as items of this type, or not at all."""
    approvals: Literal["auto", "mcp_approval_request", "message"] = "auto"
    """How the client is asked whether a call may run: by an item that it answers, or by words alone; 'auto': by an item
    where the request has a tool of type 'mcp', as OpenAI does."""
    approve_by_word: bool = True
    """Whether a last message of exactly 'approve' or 'deny' answers what the agent asked. Whoever has the key, and the
    conversation, may then answer."""
    other_tools: OtherTools = "leave_out"
    """What becomes of a request's tools that are not functions, such as 'web_search': the run has the others, or the
    request is refused."""


CHAT_SECTION: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"chat_completions": ChatSettings})
"""WireProtocol.settings of Chat Completions."""
RESPONSES_SECTION: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"responses": ResponsesSettings})
"""WireProtocol.settings of Responses and what belongs to it."""
