"""Facts of the chat completions wire that need none of our own types: dialects, names, errors, token counts. Pure.

Above: the chat completions model (and whatever else speaks this wire). Source: https://platform.openai.com/docs/api-reference/chat
(API version 1), and the deviations of the servers that call themselves compatible, as their documents and recorded
traffic show them. What differs between servers is data here, never a branch in the codec.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import orjson

# --- dialects ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server wants its requests. Unknown servers get what all of them take.

    `developer_role`: what a developer message is called. `participant_names`: whether messages may carry `name`.
    `stream_usage`: whether `stream_options` is understood. `reasoning_field`: the field of an assistant message in
    which the model's reasoning goes back, None where it must not. `reasoning_details`: whether OpenRouter's structured
    reasoning goes back verbatim. `call_id_length`: how long a call's id may be, or with `exact_call_id_length` must be
    (then of letters and digits). `documents`: media types that it takes as `file` parts; `file_urls`: whether such a
    file may be a URL; `videos`: whether it takes `video_url` parts.
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


_OPENAI = Dialect(developer_role="developer", participant_names=True)

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
    ),
    "api.deepseek.com": Dialect(reasoning_field="reasoning_content"),
    "api.moonshot.ai": Dialect(reasoning_field="reasoning_content"),
    "api.moonshot.cn": Dialect(reasoning_field="reasoning_content"),
    "api.z.ai": Dialect(reasoning_field="reasoning_content"),
    "open.bigmodel.cn": Dialect(reasoning_field="reasoning_content"),
    "api.mistral.ai": Dialect(stream_usage=False, call_id_length=9, exact_call_id_length=True),
}


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
    parts = urlsplit(endpoint.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in endpoint.strip()):
        raise ValueError("is not an http or https URL with a host")
    parts.port  # noqa: B018  # raises ValueError for a port that is none
    if parts.username is not None or parts.password is not None:
        raise ValueError("carries credentials")
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


# --- names and ids -------------------------------------------------------------------------------------------------

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]+")
_ALPHANUMERIC = re.compile(r"[a-zA-Z0-9]+")
_PARTICIPANT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def safe_tool_name(name: str) -> str:
    """`name` if the wire takes it, else one that it takes: the same for the same name, and another for every other."""
    if _TOOL_NAME.fullmatch(name):
        return name
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:55]}_{_digest(name)[:8]}"


def safe_call_id(call_id: str, dialect: Dialect) -> str:
    """`call_id` if the server takes it, else one that it takes, the same for the same id."""
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


# --- JSON ------------------------------------------------------------------------------------------------------------


def load(data: bytes) -> object:
    """The JSON value in `data`. Half a surrogate pair, NaN and broken UTF-8, which some servers write, are read too.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except RecursionError as error:
            raise ValueError("nested too deep") from error


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
    """What a response cost. `prompt` includes `cached`, `completion` includes `reasoning`; None: not said."""

    prompt: int | None
    completion: int | None
    reasoning: int | None
    cached: int | None
    cache_write: int | None


def token_counts(usage: Mapping[str, object]) -> TokenCounts:
    """The counts of a usage object.

    Gemini's and xAI's compatible servers leave reasoning out of `completion_tokens`, though not out of
    `total_tokens`: what is missing is put back.
    """
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    total = _count(usage, "total_tokens")
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        completion = total - prompt
    prompt_details, completion_details = (
        details if isinstance(details := usage.get(name), dict) else {}
        for name in ("prompt_tokens_details", "completion_tokens_details")
    )
    cached = _first(_count(prompt_details, "cached_tokens"), _count(usage, "prompt_cache_hit_tokens"))
    return TokenCounts(
        prompt,
        completion,
        _first(_count(completion_details, "reasoning_tokens"), _count(usage, "reasoning_tokens")),
        _first(cached, _count(usage, "cached_tokens")),
        _first(_count(prompt_details, "cache_write_tokens"), _count(usage, "cache_creation_input_tokens")),
    )


_LARGEST_COUNT = 2**53 - 1  # what every JSON reader takes


def _count(counts: Mapping[str, object], name: str) -> int | None:
    value = counts.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT:
        return value
    return None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


# --- errors --------------------------------------------------------------------------------------------------------


class ProviderError(NamedTuple):
    """An error as a server described it, in whatever shape."""

    message: str = ""
    code: str = ""
    type: str = ""
    status: int | None = None
    flagged: bool = False
    retry_after_seconds: float | None = None


def parse_error_body(body: bytes) -> ProviderError:
    """The error in the body of a response that failed; plain text and HTML become its message, shortened."""
    try:
        value = load(body)
    except ValueError:
        return ProviderError(message=body[:500].decode("utf-8", "replace"))
    if isinstance(value, list) and value:
        value = value[0]
    return parse_error(value.get("error") or value if isinstance(value, dict) else value)


def error_in(chunk: Mapping[str, object]) -> ProviderError | None:
    """The error that a stream's chunk reports, if it reports one."""
    if error := chunk.get("error"):
        return parse_error(error)
    if chunk.get("object") == "error" or ("choices" not in chunk and ("message" in chunk or "detail" in chunk)):
        return parse_error(chunk)
    return None


def parse_error(error: object) -> ProviderError:
    """The error in an error object, or in a text."""
    if not isinstance(error, dict):
        return ProviderError(message=str(error)[:500])
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    text = message if isinstance(message, str) else json.dumps(message)[:2000]
    metadata = error.get("metadata")
    inner = error.get("innererror")
    inner_code = inner.get("code") if isinstance(inner, dict) else None
    code, kind = error.get("code"), error.get("type")
    status = next((s for s in map(_status, (code, error.get("status_code"), error.get("status"))) if s), None)
    return ProviderError(
        text,
        str(inner_code or (code if _status(code) is None else error.get("status")) or "").lower(),
        str(kind or "").lower(),
        status,
        isinstance(metadata, dict) and "flagged_input" in metadata,
        _delay_in(error.get("details"), text),
    )


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


_TRY_AGAIN = re.compile(
    r"(?:try again in|retry (?:after|in))\s+(\d+(?:\.\d+)?)\s*(ms|s)\b|retry after (\d+) seconds", re.I
)
_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def _delay_in(details: object, message: str) -> float | None:
    """google.rpc.RetryInfo in the details, or the sentence that OpenAI and Azure put into the message."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _RETRY_DELAY.fullmatch(delay)):
            return float(found[1])
    if found := _TRY_AGAIN.search(message[:2000]):
        return float(found[3]) if found[3] else float(found[1]) / (1000 if found[2].lower() == "ms" else 1)
    return None


_CODES: Mapping[str, str] = {
    "context_length_exceeded": "context_overflow",
    "context_window_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "request_too_large": "context_overflow",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "data_inspection_failed": "content_filter",
    "responsibleaipolicyviolation": "content_filter",
    "insufficient_quota": "quota",
    "insufficient_balance": "quota",
    "exceeded_current_quota_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "rate_limit_exceeded": "throttled",
    "rate_limit_error": "throttled",
    "rate_limit_reached_error": "throttled",
    "too_many_requests": "throttled",
    "resource_exhausted": "throttled",
    "invalid_api_key": "authentication",
    "invalid_authentication": "authentication",
    "authentication_error": "authentication",
    "permission_denied": "authentication",
    "permission_error": "authentication",
    "unauthenticated": "authentication",
    "model_not_found": "not_found",
    "deploymentnotfound": "not_found",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "engine_overloaded_error": "overloaded",
    "server_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "service_unavailable_error": "overloaded",
    "unavailable": "overloaded",
    "timeout": "timeout",
    "timeout_error": "timeout",
    "request_timeout": "timeout",
    "deadline_exceeded": "timeout",
    "server_error": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "api_error": "server",
    "tool_use_failed": "protocol",  # the model wrote a call that Groq could not read: another try may do better
    "json_validate_failed": "protocol",
    "invalid_request_error": "invalid",
    "invalid_argument": "invalid",
    "badrequesterror": "invalid",
}

_GENERIC = frozenset({"invalid_request_error", "server_error", "api_error", "invalid_argument", "badrequesterror"})

_STATUSES: Mapping[int, str] = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    405: "not_found",
    407: "authentication",
    408: "timeout",
    409: "server",
    410: "not_found",
    413: "context_overflow",
    423: "server",
    424: "server",
    425: "server",
    429: "throttled",
    498: "overloaded",  # Groq: flex capacity exceeded
    499: "network",
    501: "invalid",
    502: "overloaded",
    503: "overloaded",
    504: "timeout",
    505: "invalid",
    522: "timeout",
    523: "network",
    524: "timeout",
    529: "overloaded",
}

_OVERFLOW = re.compile(
    r"maximum context length|context (?:length|window|size|limit)|maximum (?:prompt|input|sequence) length"
    r"|(?:prompt|input|request|conversation) is too (?:long|large)"
    r"|exceeds? the max(?:imum)? number of (?:input )?tokens"
    r"|reduce (?:the|your) (?:length|prompt|input)|too many (?:input )?tokens|token (?:count|limit) exceed"
    r"|input length and `?max_tokens`? exceed|input tokens exceed|exceed(?:s|ed)?(?: customer)? model maximum"
    r"|prompt too long|too many total text bytes|larger than the model's context",
    re.I,
)

_PHRASES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"rate.?limit|too many requests|quota exceeded for .*per", re.I), "throttled"),
    (re.compile(r"overloaded|over capacity|no (?:available )?capacity|temporarily unavailable", re.I), "overloaded"),
    (re.compile(r"timed? ?out", re.I), "timeout"),
    (re.compile(r"content (?:management )?policy|content filter|flagged", re.I), "content_filter"),
)


def error_kind(error: ProviderError, http_status: int | None = None) -> str:
    """The kind of ModelError that an error is; `http_status` where it was the response's.

    What names one cause (a code, a phrase about the context) outranks the status, and that the general words.
    """
    status = http_status or error.status
    if error.flagged:
        return "content_filter"
    for word in (error.code, error.type):
        if word in _CODES and word not in _GENERIC:
            return _CODES[word]
    if status != 429 and _OVERFLOW.search(error.message[:4000]):
        return "context_overflow"
    if status is not None:
        return _STATUSES.get(status) or ("server" if status >= 500 else "invalid" if status >= 400 else "protocol")
    by_word = _CODES.get(error.code) or _CODES.get(error.type)
    by_phrase = next((kind for pattern, kind in _PHRASES if pattern.search(error.message[:4000])), None)
    return by_phrase or by_word or "server"


# --- structured reasoning ------------------------------------------------------------------------------------------


def reasoning_detail_text(detail: object) -> str:
    """The words in one entry of `reasoning_details` (OpenRouter's, also Snowflake's): text, a summary, or none."""
    text = (detail.get("text") or detail.get("summary")) if isinstance(detail, dict) else None
    return text if isinstance(text, str) else ""


_JOINED_FIELDS = frozenset({"text", "summary", "data"})


def joined_details(details: Sequence[object]) -> list[dict[str, object]]:
    """The entries as they are without streaming: the pieces of one entry, which share type and index, put together."""
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
