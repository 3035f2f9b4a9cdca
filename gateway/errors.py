"""The exceptions of the gateway, each with the status and the code that a caller sees.

Below: the standard library only. Every other module may raise these.

    GatewayError
    ├── InvalidRequestError          the caller must change the request
    │   ├── UnauthenticatedError         401
    │   ├── ForbiddenError               403
    │   ├── NotFoundError                404
    │   ├── ConflictError                409
    │   ├── TooLargeError                413
    │   ├── UnsupportedMediaTypeError    415
    │   └── TooManyRequestsError         429
    ├── ModelError                   the provider must change (or be waited for)
    ├── ToolError                    a tool failed; its text goes to the model, never to the wire as an error
    ├── LimitError                   a budget of the run is used up
    ├── StoreError                   the store could not write or read
    │   └── StoreFullError               no room: passes when there is room
    ├── UnavailableError             the gateway itself cannot serve just now
    └── ConfigurationError           the operator must change the configuration
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final


class GatewayError(Exception):
    """Any error that the gateway raises on purpose.

    `message` is written for the caller: what was wrong, then what would be right. It holds no secret, no traceback and
    no foreign class name. `code` is stable: programs match on it.
    """

    status: int = 500
    default_code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One wrong field: its place (an RFC 6901 pointer into the body) and the problem with it."""

    pointer: str
    detail: str


class InvalidRequestError(GatewayError):
    """The request cannot be served as it is.

    `problems` lists its wrong fields; empty if it is no field's fault. `members` (JSON) stand in the problem document
    beside the usual ones; with them a program can correct the request.
    """

    status: int = 422
    default_code: ClassVar[str] = "invalid_request"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        problems: Sequence[FieldProblem] = (),
        status: int | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.problems = tuple(problems)
        self.members = members or {}
        if status is not None:
            self.status = status  # 400 and 422 differ only in the number


class UnauthenticatedError(InvalidRequestError):
    """The key is missing or unknown."""

    status = 401
    default_code = "unauthenticated"


class ForbiddenError(InvalidRequestError):
    """The caller may not do this, with or without a known key."""

    status = 403
    default_code = "forbidden"


class NotFoundError(InvalidRequestError):
    """No such thing, or it belongs to another caller: the two look the same."""

    status = 404
    default_code = "not_found"


class ConflictError(InvalidRequestError):
    """The request contradicts the stored state."""

    status = 409
    default_code = "conflict"


class TooLargeError(InvalidRequestError):
    """The body is larger than the configured limit."""

    status = 413
    default_code = "body_too_large"


class UnsupportedMediaTypeError(InvalidRequestError):
    """The body is not JSON by its Content-Type."""

    status = 415
    default_code = "unsupported_media_type"


class TooManyRequestsError(InvalidRequestError):
    """A limit on requests is reached; `retry_after_seconds` says when to try again, None if that is unknown."""

    status = 429
    default_code = "too_many_requests"

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int | None = 1) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class ModelErrorKind(StrEnum):
    """The kind of a provider's failure; it decides the code on the wire and whether a retry makes sense."""

    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    NETWORK = "network"
    CONTEXT_OVERFLOW = "context_overflow"
    INVALID = "invalid"
    AUTHENTICATION = "authentication"
    NOT_FOUND = "not_found"
    QUOTA = "quota"
    CONTENT_FILTER = "content_filter"
    SERVER = "server"
    TRUNCATED = "truncated"
    PROTOCOL = "protocol"


RETRYABLE_KINDS = frozenset(
    {
        ModelErrorKind.THROTTLED,
        ModelErrorKind.OVERLOADED,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.NETWORK,
        ModelErrorKind.SERVER,
        ModelErrorKind.TRUNCATED,
        ModelErrorKind.PROTOCOL,
    }
)


class ModelError(GatewayError):
    """The provider failed. Code on the wire: `model_<kind>`.

    `retry_after_seconds` is the wait that the provider asked for, None if it asked for none; `provider_message` is the
    provider's own text, for the log and the operator alone; `retryable` overrides the rule for the kind. `asked` is the
    model that was asked; empty if that is unknown. If the provider refused the call, `provider_status` and
    `provider_body` are its HTTP response, without keys: for callers that made the model.
    """

    status = 502

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        provider_message: str = "",
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, code=f"model_{kind.value}")
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds
        self.provider_message = provider_message
        self.asked = ""
        self.provider_status: int | None = None
        self.provider_body = ""
        self.retryable = kind in RETRYABLE_KINDS if retryable is None else retryable


class ToolError(GatewayError):
    """A tool could not do its work; `message` goes to the model."""

    default_code = "tool_error"


LIMIT_CODE: Final = "limit_"
"""Begins the codes of runs that used up a budget."""


class LimitError(GatewayError):
    """A budget of the run is used up. Code: `limit_<name>`, e.g. `limit_max_run_seconds`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message, code=LIMIT_CODE + name)


def limit_reached(name: str, value: int | float) -> LimitError:
    """The error of a run that has used up the budget `name`, whose limit is `value`."""
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return LimitError(name, f"the run reached its limit {name} ({shown}) before it came to an answer")


class StoreError(GatewayError):
    """The store failed."""

    status = 503
    default_code = "store_unavailable"


class StoreFullError(StoreError):
    """The store has no room. The failure passes once there is room again."""

    default_code = "store_full"


class UnavailableError(GatewayError):
    """The gateway is starting, draining or over its limits. `retry_after_seconds`: as of other 503s, if it is None."""

    status = 503
    default_code = "unavailable"

    def __init__(self, message: str, *, code: str | None = None, retry_after_seconds: int | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class ConfigurationError(GatewayError):
    """The operator's configuration is wrong.

    `fields` lists the wrong fields: each with its path below the section that was to be used, and its message. Empty if
    it is no field's fault.
    """

    default_code = "configuration"

    def __init__(self, message: str, *, fields: Sequence[tuple[tuple[str | int, ...], str]] = ()) -> None:
        super().__init__(message)
        self.fields = tuple(fields)
