"""Reads the errors of model providers, in every shape that HTTP services write. Pure.

Sources: https://platform.openai.com/docs/guides/error-codes, https://docs.claude.com/en/api/errors,
https://ai.google.dev/gemini-api/docs/troubleshooting, and the documents and recorded traffic of the servers that call
themselves compatible. What differs between them is data in this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from gateway.providers.aws_exceptions import EXCEPTION_KINDS
from gateway.wire.lenient_json import load


class ProviderError(NamedTuple):
    """An error as a server described it, in any shape."""

    message: str = ""
    code: str = ""
    type: str = ""
    status: int | None = None
    flagged: bool = False
    retry_after_seconds: float | None = None


def parse_error_body(body: bytes) -> ProviderError:
    """The error in the body of a failed response. Plain text and HTML become its message, shortened."""
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


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """How long a server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date (`now`: Unix time)."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(milliseconds) / 1000)
    except ValueError:
        pass
    asked = headers.get("retry-after", "").strip()
    if not asked:
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < 1e9 else None  # refuses nan and inf as well


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


_TRY_AGAIN = re.compile(
    r"(?:try again in|retry (?:after|in))\s+(\d+(?:\.\d+)?)\s*(ms|s)\b|retry after (\d+) seconds", re.I
)
_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def _delay_in(details: object, message: str) -> float | None:
    """The wait in google.rpc.RetryInfo, or in the sentence that OpenAI and Azure put into the message."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _RETRY_DELAY.fullmatch(delay)):
            return float(found[1])
    if found := _TRY_AGAIN.search(message[:2000]):
        return float(found[3]) if found[3] else float(found[1]) / (1000 if found[2].lower() == "ms" else 1)
    return None


_CODES: Mapping[str, str] = {
    **{name: kind for name, kind in EXCEPTION_KINDS.items() if kind not in ("invalid", "server")},
    # https://platform.openai.com/docs/api-reference/responses/object#responses/object-error
    "invalid_prompt": "content_filter",  # "your prompt was flagged as potentially violating our usage policy"
    "bio_policy": "content_filter",
    "cyber_policy": "content_filter",
    "misalignment_policy_violation": "content_filter",
    "image_content_policy_violation": "content_filter",
    "vector_store_timeout": "timeout",
    **dict.fromkeys(
        (
            "data_residency_mismatch",
            "previous_response_not_found",
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "invalid_image_mode",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_file_too_large",
            "image_file_not_found",
            "unsupported_image_media_type",
            "empty_image_file",
            "failed_to_download_image",
        ),
        "invalid",
    ),
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

# Gemini answers 400 INVALID_ARGUMENT: https://ai.google.dev/gemini-api/docs/troubleshooting
_WRONG_KEY = re.compile(r"API key (?:not valid|not found|expired)|API_KEY_INVALID", re.I)

_PHRASES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"rate.?limit|too many requests|quota exceeded for .*per", re.I), "throttled"),
    (re.compile(r"overloaded|over capacity|no (?:available )?capacity|temporarily unavailable", re.I), "overloaded"),
    (re.compile(r"timed? ?out", re.I), "timeout"),
    (re.compile(r"content (?:management )?policy|content filter|flagged", re.I), "content_filter"),
)


def error_kind(error: ProviderError, http_status: int | None = None) -> str:
    """The kind of ModelError for an error. `http_status`: the status of the response, if the error was one.

    A specific cause (a code, a phrase about the context) counts first, then the status, then general words.
    """
    status = http_status or error.status
    if error.flagged:
        return "content_filter"
    for word in (error.code, error.type):
        if word in _CODES and word not in _GENERIC:
            return _CODES[word]
    if status != 429 and _OVERFLOW.search(error.message[:4000]):
        return "context_overflow"
    if status == 400 and _WRONG_KEY.search(error.message[:4000]):
        return "authentication"
    if status is not None:
        return _STATUSES.get(status) or ("server" if status >= 500 else "invalid" if status >= 400 else "protocol")
    by_word = _CODES.get(error.code) or _CODES.get(error.type)
    by_phrase = next((kind for pattern, kind in _PHRASES if pattern.search(error.message[:4000])), None)
    return by_phrase or by_word or "server"
