"""The errors of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`.

Below: problems, failure_status. Above: everything of this room.
https://platform.openai.com/docs/guides/error-codes/api-errors
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.errors import FieldProblem, InvalidRequestError, NotFoundError
from gateway.events import RunFailed, RunFinished
from gateway.messages import JsonObject
from gateway.problems import Problem
from gateway.protocol.failure_status import RunFailedError, failure_of
from gateway.wire.json_pointer import dotted

NO_RETRY: Mapping[str, str] = MappingProxyType({"x-should-retry": "false"})
"""The SDKs send a request again after a 409, a 429 and a 5xx, but not with these headers. They are on the answer to a
request whose run has begun, so that no tool runs twice.
"""
_PASSES: Final = frozenset({"thread_busy", "version_conflict"})
"""The conflicts that a later request may not meet."""

_UNUSABLE: Final = "{who} cannot answer: its model cannot be used; its operator can mend that"
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES: Final = {
    "agent_not_found": "model_not_found",
    "model_not_found": "model_unavailable",  # the agent's own model, which its provider does not know
    "model_context_overflow": "context_length_exceeded",
    "model_content_filter": "content_filter",
    "unauthenticated": "invalid_api_key",
    "model_quota": "insufficient_quota",
}
_REFUSALS: Final = {
    "model_invalid": (400, "{who} cannot answer this request: its model refused it"),
    "model_authentication": (424, _UNUSABLE),
    "model_not_found": (424, _UNUSABLE),
}
"""What a provider refuses: the same request would meet the same refusal, so it is none of the 5xx that clients repeat.
With each is what callers read who are no operators.
"""
_RATE_LIMITED: Final = "rate_limit_exceeded"
_INVALID: Final = 400
_TOO_MANY: Final = 429
_SERVER: Final = 500
_CONFLICT: Final = 409


def wrong(message: str, pointer: str, *, code: str = "invalid_value", right: str = "") -> InvalidRequestError:
    """The error (400) of one wrong field of a body."""
    return InvalidRequestError(message, code=code, problems=[FieldProblem(pointer, right or message)], status=_INVALID)


def unknown_model(name: str) -> NotFoundError:
    """The error of a request for an agent that is not there for its caller; OpenAI's clients call it a model."""
    shown = repr(name[:256])
    message = f"The model {shown} does not exist, or this key may not use it; GET /v1/models lists those there are"
    return NotFoundError(message, code="agent_not_found", problems=[FieldProblem("/model", message)])


def openai_error(problem: Problem) -> JsonObject:
    """A problem as the body of an answer. `param` is the first wrong field; the message names all of them."""
    param = param_of(problem.errors[0].pointer) if problem.errors else None
    return error_body(problem.detail, status_of(problem), problem.code, param)


def error_body(message: str, status: int, code: str, param: str | None = None) -> JsonObject:
    """`status` is the response's, or the one that it would have had."""
    kind = _TYPES.get(status, "server_error" if status >= _SERVER else "invalid_request_error")
    usual = _RATE_LIMITED if status == _TOO_MANY else code  # which limit it is, the message says
    return {"error": {"message": message, "type": kind, "param": param, "code": _CODES.get(code, usual)}}


def status_of(problem: Problem) -> int:
    """The status on this surface, which knows no 422."""
    return _INVALID if problem.status == 422 else problem.status


def retry_headers(problem: Problem) -> Mapping[str, str]:
    """The headers by which SDKs know that it is useless to send a request again."""
    return NO_RETRY if problem.status == _CONFLICT and problem.code not in _PASSES else {}


def param_of(pointer: str) -> str | None:
    """A JSON pointer as OpenAI writes it: `messages[0].content`; None for the whole body."""
    return dotted(pointer) or None


def run_failure(
    last: RunFinished | RunFailed, *, agent_id: str = "", to_operator: bool = True
) -> RunFailedError | None:
    """The error of a run that failed or was cancelled; None of another. `to_operator`: the caller may see why a model
    failed, and which; others read the agent's id. Its answer has the headers NO_RETRY.
    """
    return failure_of(last, to_operator=to_operator, who=f"the agent {agent_id!r}", refusals=_REFUSALS)
