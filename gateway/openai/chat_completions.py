"""Facts of the chat completions wire: dialects, names, stop reasons, token counts. Pure.

Source: https://platform.openai.com/docs/api-reference/chat (API version 1). Servers that call themselves compatible
deviate from it, as their documents and recorded traffic show. What differs between servers is data in this file, and
never a branch in the request writer or the reader.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from gateway.providers.endpoints import address_below
from gateway.providers.token_counts import token_count

PROVIDER_NAME = "openai/v1/chat/completions"

# The kinds of opaque parts.
DETAILS = "reasoning_details"  # OpenRouter's structured reasoning, as JSON text
EXTRA_CONTENT = "extra_content"  # Gemini's thought signature on a call, as JSON text

# --- dialects ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server accepts in requests. Unknown servers get only what all of them accept.

    `developer_role`: the role of a developer message. `participant_names`: whether messages may carry `name`.
    `stream_usage`: whether `stream_options` is understood. `reasoning_field`: the field of an assistant message in
    which the model's reasoning is sent back, None if it must not be. `reasoning_details`: whether OpenRouter's
    structured reasoning is sent back verbatim. `call_id_length`: the most characters of a call's id, or with
    `exact_call_id_length` their number (then letters and digits). `documents`: media types that it takes as `file`
    parts; `file_urls`: whether such a file may be a URL; `videos`: whether it takes `video_url` parts.
    """

    developer_role: str = "system"
    participant_names: bool = False
    stream_usage: bool = True
    reasoning_field: str | None = None
    reasoning_details: bool = False
    call_id_length: int = 40
    exact_call_id_length: bool = False
    documents: frozenset[str] = frozenset({"application/pdf"})
    file_urls: bool = False
    videos: bool = False
    lacks: frozenset[str] = frozenset()
    token_limit: str = "max_tokens"
    seed: str = "seed"
    most_stops: int | None = None
    schema_formats: bool = True


_NO_TOP_K = frozenset({"top_k"})
_OPENAI = Dialect(
    developer_role="developer",
    participant_names=True,
    lacks=_NO_TOP_K,
    token_limit="max_completion_tokens",
    most_stops=4,
)

# Host suffixes; the longest that fits counts. Reasoning: https://api-docs.deepseek.com/guides/thinking_mode,
# https://platform.moonshot.ai/docs, https://docs.z.ai/guides/capabilities/thinking-mode,
# https://openrouter.ai/docs/use-cases/reasoning-tokens; ids: https://docs.mistral.ai/capabilities/function_calling.
_DIALECTS: Mapping[str, Dialect] = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": _OPENAI,
    "cognitiveservices.azure.com": _OPENAI,
    "openrouter.ai": replace(
        _OPENAI,
        developer_role="system",
        reasoning_field="reasoning",
        reasoning_details=True,
        file_urls=True,
        videos=True,
        lacks=frozenset(),
        token_limit="max_tokens",
    ),
    "api.deepseek.com": Dialect(
        reasoning_field="reasoning_content",
        lacks=frozenset({"top_k", "seed", "parallel_calls"}),
        most_stops=16,
        schema_formats=False,
    ),
    "api.moonshot.ai": Dialect(reasoning_field="reasoning_content", lacks=_NO_TOP_K),
    "api.moonshot.cn": Dialect(reasoning_field="reasoning_content", lacks=_NO_TOP_K),
    "api.z.ai": Dialect(reasoning_field="reasoning_content", lacks=_NO_TOP_K),
    "open.bigmodel.cn": Dialect(reasoning_field="reasoning_content", lacks=_NO_TOP_K),
    "api.mistral.ai": Dialect(
        stream_usage=False, call_id_length=9, exact_call_id_length=True, lacks=_NO_TOP_K, seed="random_seed"
    ),
}

# Families of OpenAI's models by their bare ids. Sources: https://platform.openai.com/docs/models,
# https://platform.openai.com/docs/guides/reasoning, and the API's 400s ("Unsupported parameter: 'temperature' ...").
WITHOUT_REASONING = re.compile(r"gpt-(3\.5|4)|chatgpt|gpt-5(\.\d+)?-chat")
WITHOUT_SAMPLERS = re.compile(r"o\d|gpt-5(-(?!chat)|$)|codex-")


def dialect_of(url: str) -> Dialect:
    """The dialect of the server behind `url`."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    fitting = [suffix for suffix in _DIALECTS if host == suffix or host.endswith(f".{suffix}")]
    return _DIALECTS[max(fitting, key=len)] if fitting else Dialect()


def completions_url(endpoint: str) -> str:
    """The address of chat completions below the base URL `endpoint`; a query (`?api-version=`) stays at the end.

    Raises:
        ValueError: `endpoint` is no http or https URL with a host, or carries credentials; the text says which.
    """
    return address_below(endpoint, "/chat/completions")


# --- names and ids -------------------------------------------------------------------------------------------------

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]+")
_ALPHANUMERIC = re.compile(r"[a-zA-Z0-9]+")
_PARTICIPANT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def safe_tool_name(name: str) -> str:
    """`name` if the wire accepts it, else a replacement that it accepts. Different names get different replacements."""
    if _TOOL_NAME.fullmatch(name):
        return name
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:55]}_{_digest(name)[:8]}"


def safe_call_id(call_id: str, dialect: Dialect) -> str:
    """`call_id` if the server accepts it, else a replacement, which is always the same for the same id."""
    if dialect.exact_call_id_length:
        fits = len(call_id) == dialect.call_id_length and _ALPHANUMERIC.fullmatch(call_id)
        return call_id if fits else _digest(call_id)[: dialect.call_id_length]
    if len(call_id) <= dialect.call_id_length and _CALL_ID.fullmatch(call_id):
        return call_id
    return f"call_{_digest(call_id)}"[: dialect.call_id_length]


def safe_participant(name: str | None) -> str | None:
    """`name` if the wire takes it as a participant's."""
    return name if name and _PARTICIPANT.fullmatch(name) else None


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(raw).decode().rstrip("=").lower()


# --- how a response ends -------------------------------------------------------------------------------------------

STOP_REASONS: Mapping[str, str] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "end_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "sensitive": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "refusal",
    "model_length": "context_overflow",
    "model_context_window_exceeded": "context_overflow",
}
"""`finish_reason`, in lower case, to our stop reasons. Others that end a response well are `end_turn`."""

FAILED_REASONS: Mapping[str, str] = {
    "error": "server",
    "abort": "truncated",
    "network_error": "network",
    "insufficient_system_resource": "overloaded",
    "malformed_function_call": "protocol",
}
"""The `finish_reason`s that say that the response failed, to the kinds of ModelError."""


# --- usage -----------------------------------------------------------------------------------------------------------


class TokenCounts(NamedTuple):
    """The tokens of a response. `prompt` includes `cached`, `completion` includes `reasoning`; None: not reported."""

    prompt: int | None
    completion: int | None
    reasoning: int | None
    cached: int | None
    cache_write: int | None


def token_counts(usage: Mapping[str, object]) -> TokenCounts:
    """The counts of a usage object.

    Gemini's and xAI's compatible servers count reasoning in `total_tokens` but not in `completion_tokens`. It is added
    to the completion here.
    """
    prompt, completion = token_count(usage, "prompt_tokens"), token_count(usage, "completion_tokens")
    total = token_count(usage, "total_tokens")
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        completion = total - prompt
    prompt_details, completion_details = (
        details if isinstance(details := usage.get(name), dict) else {}
        for name in ("prompt_tokens_details", "completion_tokens_details")
    )
    cached = _first(token_count(prompt_details, "cached_tokens"), token_count(usage, "prompt_cache_hit_tokens"))
    return TokenCounts(
        prompt,
        completion,
        _first(token_count(completion_details, "reasoning_tokens"), token_count(usage, "reasoning_tokens")),
        _first(cached, token_count(usage, "cached_tokens")),
        _first(token_count(prompt_details, "cache_write_tokens"), token_count(usage, "cache_creation_input_tokens")),
    )


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


# --- structured reasoning ------------------------------------------------------------------------------------------


def reasoning_detail_text(detail: object) -> str:
    """The words in one entry of `reasoning_details` (OpenRouter's, also Snowflake's): text, a summary, or none."""
    text = (detail.get("text") or detail.get("summary")) if isinstance(detail, dict) else None
    return text if isinstance(text, str) else ""


_JOINED_FIELDS = frozenset({"text", "summary", "data"})


def joined_details(details: Sequence[object]) -> list[dict[str, object]]:
    """The entries as they are without streaming: pieces with the same type and index are joined to one entry."""
    joined: list[dict[str, object]] = []
    for detail in details:
        if not isinstance(detail, dict):
            continue
        last = joined[-1] if joined else None
        if last is None or (last.get("type"), last.get("index")) != (detail.get("type"), detail.get("index")):
            joined.append(dict(detail))
            continue
        for name, value in detail.items():
            earlier = last.get(name)
            if name in _JOINED_FIELDS and isinstance(earlier, str) and isinstance(value, str):
                last[name] = earlier + value
            elif value is not None:
                last[name] = value
    return joined
