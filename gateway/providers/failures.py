"""A model provider's error as a ModelError: what it means, in our own words, and whether a retry may help.

The provider's own words are for the log and the operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.errors import ModelError, ModelErrorKind
from gateway.providers.error_bodies import ProviderError, error_kind, retry_after_seconds

SAYS: Mapping[ModelErrorKind, str] = {
    ModelErrorKind.THROTTLED: "the model provider is limiting the rate of requests",
    ModelErrorKind.OVERLOADED: "the model provider is overloaded",
    ModelErrorKind.TIMEOUT: "the model provider took too long",
    ModelErrorKind.NETWORK: "the model provider lost its connection to the model",
    ModelErrorKind.CONTEXT_OVERFLOW: "the conversation is too long for the model",
    ModelErrorKind.INVALID: "the model provider refused the request as invalid",
    ModelErrorKind.AUTHENTICATION: "the model provider refused the gateway's credentials",
    ModelErrorKind.NOT_FOUND: "the model provider does not know the model or the address",
    ModelErrorKind.QUOTA: "the model provider's quota is used up",
    ModelErrorKind.CONTENT_FILTER: "the model provider's content filter refused the request",
    ModelErrorKind.SERVER: "the model provider failed",
    ModelErrorKind.TRUNCATED: "the model provider's answer was cut off",
    ModelErrorKind.PROTOCOL: "the model provider's answer could not be used",
}

_BODY_BYTES = 2_000


def failure(
    error: ProviderError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    now: float = 0.0,
    *,
    address: str = "",
    body: bytes = b"",
) -> ModelError:
    """The provider's error as a ModelError. `status`, `headers`, `body` and `address` (of the request, for the log) are
    given if the whole response was the error. `now` is Unix time in seconds.
    """
    headers = headers or {}
    kind = ModelErrorKind(error_kind(error, status))
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())
    if status is not None and status < 400:  # a redirect, or an unexpected success: the endpoint is wrong
        retryable = False
    retry_after = retry_after_seconds(headers, now)
    said = _without_keys(error.message[:500])
    mapped = ModelError(
        kind,
        SAYS[kind] if status is None else f"{SAYS[kind]} (status {status})",
        retry_after_seconds=error.retry_after_seconds if retry_after is None else retry_after,
        provider_message=with_address(kind, said, address),
        retryable=retryable,
    )
    answered = error.status if status is None else status
    return mapped if answered is None else with_answer(mapped, answered, body or said.encode(errors="replace"))


def with_answer(error: ModelError, status: int, body: bytes) -> ModelError:
    """The error with the provider's answer, for callers that made the model."""
    if status >= 400:
        error.provider_status = status
        error.provider_body = _without_keys(body[:_BODY_BYTES].decode("utf-8", "replace"))
    return error


def with_address(kind: ModelErrorKind, said: str, address: str) -> str:
    """The provider's words; for a 404, after the address, which is most often the cause."""
    return f"{address}: {said}" if address and kind is ModelErrorKind.NOT_FOUND else said


_KEYS = re.compile(
    r"\b(?:sk|gsk|pk|key|xai|nvapi|hf)[-_][A-Za-z0-9*_-]{8,}|\bAIza[A-Za-z0-9_-]{8,}|\bBearer\s+\S+", re.I
)


def _without_keys(message: str) -> str:
    """The text without keys: providers quote the key that they refuse."""
    return _KEYS.sub("***", message)
