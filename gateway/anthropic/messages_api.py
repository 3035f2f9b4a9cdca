"""Facts of Anthropic's Messages wire: models, stop reasons, token counts, addresses. Pure.

Source: https://docs.claude.com/en/api/messages (anthropic-version 2023-06-01) and
https://docs.claude.com/en/docs/build-with-claude/streaming. What differs between models is data in this file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gateway.providers.endpoints import address_below, split_endpoint
from gateway.providers.token_counts import token_count

VERSION = "2023-06-01"

PROVIDER_NAME = "anthropic/v1/messages"

# The kinds of opaque parts: a thought's signature, an encrypted thought, a block of a tool that ran at Anthropic.
SIGNATURE = "signature"
REDACTED = "redacted_thinking"
ITEM = "item"
REFUSED = "refusal"  # not encrypted: it marks an answer that Anthropic's classifiers stopped

DECLINED = "The model declined to answer this."

STOP_REASONS: Mapping[str, str] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_overflow",
}
"""`stop_reason` to our stop reasons. Any other that is not a failure is `end_turn`."""

# Blocks of tools that run at Anthropic: https://docs.claude.com/en/docs/agents-and-tools/tool-use/overview
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


def is_server_item(kind: str) -> bool:
    """Whether only the provider understands a content block, such as one of a tool that runs at the provider."""
    return kind in SERVER_CALLS or kind.endswith("_tool_result") or kind in ("compaction", "container_upload")


# --- models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """What one family of models accepts. `pattern` matches the start of the model id.

    `max_tokens`: the longest answer, which every request has to limit; `reasons`: whether it can think. `effort`: how
    a request limits reasoning, by a budget of tokens or by a level; empty: not at all. `samplers`: it takes
    temperature, top_p and top_k. `schema_formats`: an answer's format may be a schema.
    """

    pattern: str
    max_tokens: int
    reasons: bool = True
    documents: bool = True
    effort: Literal["", "budget", "level"] = ""
    samplers: bool = True
    schema_formats: bool = False


# The first match counts. https://docs.claude.com/en/docs/about-claude/models/overview
_PROFILES = (
    Profile(r"claude-3-(opus|sonnet|haiku)|claude-2|claude-instant", 4_096, reasons=False, documents=False),
    Profile(r"claude-3-5", 8_192, reasons=False),
    Profile(r"claude-opus-4(-[01]|-2025|$)", 32_000, effort="budget"),
    Profile(r"claude-(3-7|sonnet-4(-0|-2025|$))", 64_000, effort="budget"),
    Profile(r"claude-[a-z]+-4-5", 64_000, effort="budget", schema_formats=True),
    Profile(r"claude-[a-z]+-4-6", 64_000, effort="level", schema_formats=True),
    Profile(r"claude-", 64_000, effort="level", samplers=False, schema_formats=True),
)
UNKNOWN = Profile("", 8_192)  # for servers that call themselves compatible


def profile_of(model_id: str) -> Profile:
    """The profile of a model. An unknown one gets what all models accept."""
    bare = model_id.rpartition("/")[2].removeprefix("anthropic.")
    return next((profile for profile in _PROFILES if re.match(profile.pattern, bare)), UNKNOWN)


# --- addresses, names, ids -----------------------------------------------------------------------------------------

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def messages_url(endpoint: str) -> str:
    """The address of the Messages API below the base URL `endpoint`, with or without its `/v1`.

    Raises:
        ValueError: `endpoint` is no http or https URL with a host, or carries credentials; the text says which.
    """
    versioned = re.search(r"/v\d+(/messages)?$", split_endpoint(endpoint).path)
    return address_below(endpoint, "/messages" if versioned else "/v1/messages")


def wire_name(name: str) -> str:
    """`name` (of a tool, or a call's id) if the wire accepts it, else a replacement, the same for the same name."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:55]}_{digest[:8]}"


# --- usage ---------------------------------------------------------------------------------------------------------


class TokenCounts(NamedTuple):
    """`input` includes the cached tokens, which the wire counts separately."""

    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None


def token_counts(usage: Mapping[str, object]) -> TokenCounts:
    """The counts of a response. `usage` is message_start's, updated by message_delta's, which are cumulative."""
    plain, output = token_count(usage, "input_tokens"), token_count(usage, "output_tokens")
    read, write = token_count(usage, "cache_read_input_tokens"), token_count(usage, "cache_creation_input_tokens")
    total = None if plain is None else plain + (read or 0) + (write or 0)
    return TokenCounts(total, output, read, write)
