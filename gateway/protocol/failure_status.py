"""The error of a run that failed, where a protocol answers with one body and has to give it an HTTP status.

Below: errors, events, failure_words. Above: the protocols' renderers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.errors import LIMIT_CODE, GatewayError, ModelErrorKind
from gateway.events import Cancelled, RunFailed, RunFinished
from gateway.protocol.failure_words import shown_message

_STATUS_OF_CODE: Mapping[str, int] = MappingProxyType(
    {
        f"model_{ModelErrorKind.THROTTLED}": 429,
        f"model_{ModelErrorKind.QUOTA}": 429,
        f"model_{ModelErrorKind.OVERLOADED}": 503,
        f"model_{ModelErrorKind.TIMEOUT}": 504,
        f"model_{ModelErrorKind.CONTEXT_OVERFLOW}": 400,
        f"model_{ModelErrorKind.CONTENT_FILTER}": 400,
        "server_shutdown": 503,
        "store_unavailable": 503,
        "store_full": 503,
        "unavailable": 503,
    }
)
_SERVER_ERROR: Final = 500
_BAD_GATEWAY: Final = 502
_CONFLICT: Final = 409


_NO_REFUSALS: Mapping[str, tuple[int, str]] = MappingProxyType({})


class RunFailedError(GatewayError):
    """A run that failed or was cancelled after it began, with the status of its failure."""

    def __init__(self, message: str, code: str, status: int) -> None:
        super().__init__(message, code=code)
        self.status = status


def failure_of(
    last: RunFinished | RunFailed,
    *,
    to_operator: bool,
    who: str = "the assistant",
    what: str = "run",
    refusals: Mapping[str, tuple[int, str]] = _NO_REFUSALS,
) -> RunFailedError | None:
    """The error of a run that failed or was cancelled; None of another. `to_operator`: the caller may see why a model
    failed; others read that `who` cannot answer. `what` is the protocol's word for a run. `refusals`: the status of
    codes that differ from the usual one, and the message that others read.
    """
    if isinstance(last, RunFinished):
        cancelled = isinstance(last.outcome, Cancelled)
        return RunFailedError(f"the {what} was cancelled", "cancelled", _CONFLICT) if cancelled else None
    if (refusal := refusals.get(last.code)) is not None:
        status, said = refusal
        return RunFailedError(last.message if to_operator else said.format(who=who), last.code, status)
    message = shown_message(last.code, last.message, to_operator=to_operator, who=who)
    return RunFailedError(message, last.code, failure_status(last.code))


def failure_status(code: str) -> int:
    """The status for the code of a RunFailed."""
    if (status := _STATUS_OF_CODE.get(code)) is not None:
        return status
    if code.startswith("model_"):
        return _BAD_GATEWAY
    return _CONFLICT if code.startswith(LIMIT_CODE) else _SERVER_ERROR
