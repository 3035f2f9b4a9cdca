"""The errors of the Agent API: before a response an object of their own, in a response its `error`.

    {"object": "error", "code", "message", "error": {"code", "message"}, "errors": [{"pointer", "detail"}]}

Clients that know responses, messages and contents alone take any other object for a failure, and show its `code` and
`message`. `errors` are the wrong fields of the body, where there are some.

Below: problems. Above: everything of this room.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import RETRYABLE_KINDS, FieldProblem, InvalidRequestError
from gateway.events import RunFailed
from gateway.messages import JsonObject
from gateway.problems import Problem
from gateway.protocol.failure_words import shown_message

_RETRYABLE: Final = frozenset(
    {
        *(f"model_{kind}" for kind in RETRYABLE_KINDS),
        "server_restarted",
        "server_shutdown",
        "store_full",
        "store_unavailable",
        "thread_busy",
        "unavailable",
    }
)


def wrong(message: str, pointer: str, *, code: str | None = None) -> InvalidRequestError:
    """The error (422) of one wrong field of a body."""
    return InvalidRequestError(message, code=code, problems=[FieldProblem(pointer, message)])


def error_object(problem: Problem) -> JsonObject:
    """A problem as the body of an answer."""
    body: JsonObject = {
        "object": "error",
        "code": problem.code,
        "message": problem.detail,
        "error": {"code": problem.code, "message": problem.detail},
    }
    if problem.errors:
        body["errors"] = [{"pointer": each.pointer, "detail": each.detail} for each in problem.errors]
    return body


def run_error(failed: RunFailed, *, to_operator: bool) -> JsonObject:
    """The `error` of a response whose run failed. `to_operator`: the caller may see why a model failed."""
    message = shown_message(failed.code, failed.message, to_operator=to_operator)
    return {"code": failed.code, "message": message, "retryable": failed.code in _RETRYABLE}
