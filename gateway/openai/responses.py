"""Facts of the Responses wire: profiles, addresses, items, ends, errors, token counts. Pure.

Source: https://platform.openai.com/docs/api-reference/responses and
https://platform.openai.com/docs/api-reference/responses-streaming (API version 1). Other servers (Bedrock, Azure,
OpenRouter, DeepSeek, vLLM, Ollama, ...) deviate from it, as their documents and recorded traffic show. What differs
between servers and model families is data in this file, and never a branch in the request writer or the reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from gateway.openai.chat_completions import WITHOUT_REASONING, WITHOUT_SAMPLERS, TokenCounts
from gateway.providers.endpoints import address_below
from gateway.providers.error_bodies import ProviderError, parse_error
from gateway.providers.token_counts import token_count

# --- profiles ------------------------------------------------------------------------------------------------------

_OFFICE = "application/vnd.openxmlformats-officedocument"
_OFFICE_TYPES = frozenset(
    {
        f"{_OFFICE}.wordprocessingml.document",
        f"{_OFFICE}.presentationml.presentation",
        f"{_OFFICE}.spreadsheetml.sheet",
        "application/msword",
        "application/vnd.ms-powerpoint",
        "application/vnd.ms-excel",
    }
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a server and the model family behind it accept. An unknown one gets only what all of them accept.

    `reasons`: the model reasons before it answers. `encrypted_reasoning`: it can return its reasoning encrypted, and
    wants it back. `samplers`: it takes temperature and top_p. `images`: it accepts pictures. `multimodal_outputs`: a
    call's output may contain pictures and files; elsewhere they follow in a user message. `developer_role`: the role of
    a developer message. `documents`: media types that it takes as `input_file`; `media_urls`: it fetches pictures and
    files itself; elsewhere they are sent inline.
    """

    reasons: bool = True
    encrypted_reasoning: bool = True
    samplers: bool = True
    images: bool = True
    multimodal_outputs: bool = False
    developer_role: str = "system"
    documents: frozenset[str] = frozenset({"application/pdf"})
    media_urls: bool = True


_OPENAI = Profile(
    multimodal_outputs=True,
    developer_role="developer",
    documents=frozenset({"application/pdf"}) | _OFFICE_TYPES,
)
_BEDROCK = Profile(multimodal_outputs=True, developer_role="developer", media_urls=False)

# Host suffixes; the longest that fits counts.
_SERVERS: Mapping[str, Profile] = MappingProxyType(
    {
        "api.openai.com": _OPENAI,
        "openai.azure.com": _OPENAI,
        "cognitiveservices.azure.com": _OPENAI,
        "services.ai.azure.com": _OPENAI,
        "amazonaws.com": _BEDROCK,
        "amazonaws.com.cn": _BEDROCK,
        "api.aws": _BEDROCK,
        "openrouter.ai": Profile(multimodal_outputs=False, developer_role="developer"),
    }
)

# What the family changes of the server's profile; the first pattern that fits the bare model id counts. Sources:
# https://platform.openai.com/docs/models, https://platform.openai.com/docs/guides/reasoning, and the 400s of the API
# ("Encrypted content is not supported with this model.", "Unsupported parameter: 'temperature' ...").
_PLAIN: Mapping[str, Any] = MappingProxyType({"reasons": False, "encrypted_reasoning": False})
_FAMILIES: tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...] = (
    (WITHOUT_REASONING, _PLAIN),
    (re.compile(r"gpt-oss"), {"images": False, "multimodal_outputs": False, "documents": frozenset()}),
    (re.compile(r"o1-mini|o3-mini"), {"samplers": False, "images": False, "multimodal_outputs": False}),
    (WITHOUT_SAMPLERS, {"samplers": False}),
    (re.compile(r"(mistral|ministral|magistral|llama|qwen2)"), {"encrypted_reasoning": False}),
)
_PREFIX = re.compile(r"^(?:(?:us|eu|apac|us-gov|jp|au|ca|global)\.)?(?:[a-z0-9-]+[./])?(?=[a-z])", re.I)


def profile_of(host: str, model_id: str) -> Profile:
    """The profile of `model_id` at the server `host`. Vendor and region prefixes of the id do not matter."""
    host = host.lower().rstrip(".")
    fitting = [suffix for suffix in _SERVERS if host == suffix or host.endswith(f".{suffix}")]
    profile = _SERVERS[max(fitting, key=len)] if fitting else Profile()
    bare = model_id.lower()
    for candidate in dict.fromkeys((bare, _PREFIX.sub("", bare))):
        for pattern, changes in _FAMILIES:
            if pattern.match(candidate):
                return replace(profile, **changes)
    return profile


def responses_url(endpoint: str) -> str:
    """The address of responses below the base URL `endpoint`; a query (`?api-version=`) stays at the end.

    Raises:
        ValueError: `endpoint` is no http or https URL with a host, or carries credentials; the text says which.
    """
    return address_below(endpoint, "/responses")


def response_url(url: str, response_id: str, action: str = "", query: str = "") -> str:
    """The address of one response, or of an action on it (`cancel`). `url` is the address of all responses."""
    parts = urlsplit(url)
    path = "/".join(filter(None, (parts.path, quote(response_id, safe=""), action)))
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(filter(None, (parts.query, query))), ""))


# --- items -----------------------------------------------------------------------------------------------------------

# The value of `include` that requests encrypted reasoning.
SEALED_REASONING = "reasoning.encrypted_content"

# The kinds of opaque parts, each the JSON text of an item.
REASONING_ITEM = "reasoning_item"
OUTPUT_ITEM = "output_item"  # of a tool that ran at the provider
MESSAGE_ITEM = "message_item"  # what a message has beside its text (`phase`, `annotations`)

REPLAYED_ITEMS = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "compaction",
    }
)
"""Items of tools that run at the provider: they are complete once they are done, so they are sent back unchanged.

Others (`computer_call`, `custom_tool_call`, `mcp_approval_request`, ...) need an answer from a client that knows them;
if they are sent back without one, the API refuses every later request.
"""

# Fields that a provider adds to an item and refuses, or does not need, in a request.
_ANSWER_ONLY = frozenset({"created_by", "status"})


def replayed_reasoning(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A reasoning item as it is sent back; None if the server could not use any of it.

    Without stored responses an id alone refers to nothing ("Item with id 'rs_...' not found").
    """
    kept = {name: value for name, value in item.items() if name not in _ANSWER_ONLY and value not in (None, [])}
    if "encrypted_content" not in kept and "content" not in kept:
        return None
    kept.setdefault("id", "rs_0")
    return {"summary": [], **kept}


def replayed_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """A server-side item as it is sent back: unchanged, without the fields that only answers have."""
    return {name: value for name, value in item.items() if name != "created_by"}


# --- how a response ends -------------------------------------------------------------------------------------------

INCOMPLETE_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "max_output_tokens": "max_tokens",
        "max_tokens": "max_tokens",
        "length": "max_tokens",
        "max_messages": "max_tokens",
        "max_tool_calls": "end_turn",
        "content_filter": "content_filter",
        "max_prompt_tokens": "context_overflow",
        "context_length_exceeded": "context_overflow",
        "pause_turn": "pause",
    }
)
"""`incomplete_details.reason` to our stop reasons. Others count as `max_tokens`: what is cut off is not acted upon."""


# --- usage -----------------------------------------------------------------------------------------------------------


def token_counts(usage: Mapping[str, Any]) -> TokenCounts:
    """The counts of a usage object. The input's total includes cached tokens, the output's the reasoning."""
    read, written = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    read, written = read if isinstance(read, dict) else {}, written if isinstance(written, dict) else {}
    return TokenCounts(
        token_count(usage, "input_tokens"),
        token_count(usage, "output_tokens"),
        token_count(written, "reasoning_tokens"),
        token_count(read, "cached_tokens"),
        token_count(read, "cache_write_tokens"),
    )


# --- errors --------------------------------------------------------------------------------------------------------

_CHAIN_LOST = re.compile(
    r"previous response with id .*not found|no tool (?:call )?output found for|previous_response_id"
    r"|item with id .*not found|response with id .*not found|conversation with id .*not found",
    re.I | re.S,
)
_NO_ENCRYPTED = re.compile(r"encrypted[_ ]content is not supported|['\"`]include\b", re.I)
_BAD_REASONING = re.compile(
    r"encrypted[_ ]content.{0,200}(?:could not be|cannot be|failed|invalid)|item .{0,100}of type 'reasoning'"
    r"|item with id '?rs_",
    re.I | re.S,
)


def is_chain_lost(error: ProviderError) -> bool:
    """Whether the error says that `previous_response_id` is unknown, or that its calls have no outputs.

    Then the whole conversation has to be sent, on a new chain.
    """
    return error.code == "previous_response_not_found" or bool(_CHAIN_LOST.search(error.message[:4000]))


# Refusals that may be about a chain: it is unknown, deleted, in use elsewhere, or not readable.
CHAIN_STATUSES = frozenset({400, 404, 409, 410, 422})


def refuses_encrypted_reasoning(error: ProviderError) -> bool:
    """Whether a 400 or 422 is about `include`, which models without reasoning do not take."""
    return bool(_NO_ENCRYPTED.search(error.message[:4000]))


def refuses_replayed_reasoning(error: ProviderError) -> bool:
    """Whether a 400 or 404 is about reasoning that went back: sealed with another key, or torn from its item.

    Otherwise every later request with this item would be refused. Without the item the model only loses a thought.
    """
    return error.code == "invalid_encrypted_content" or bool(_BAD_REASONING.search(error.message[:4000]))


def failed_response(response: Mapping[str, Any]) -> ProviderError:
    """The error in a response whose status is `failed`, or in an `error` event."""
    error = response.get("error")
    if error:
        return parse_error(error)
    if "message" in response or "code" in response:
        return parse_error({name: value for name, value in response.items() if name != "type"})
    return ProviderError()
