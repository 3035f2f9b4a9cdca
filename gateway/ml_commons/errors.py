"""The errors of ml-commons' REST API: OpenSearch's own form, and the form of a failed execution.

Both name the wrong fields of a body in `fields`, which OpenSearch does not.
"""

from __future__ import annotations

from typing import Final

from gateway.messages import JsonObject, JsonValue
from gateway.problems import Problem

EXCEPTION: Final = "exception"
"""A problem's member that names the type to show, as `parsing_exception`, where it is not that of the status."""

_TYPES: Final = {
    400: "illegal_argument_exception",
    401: "security_exception",
    403: "security_exception",
    404: "status_exception",
    500: "exception",
}
_TYPES_OF_CODES: Final = {"invalid_json": "json_parse_exception"}
_OTHER_TYPE: Final = "status_exception"
_INVALID: Final = 400


def opensearch_error(problem: Problem) -> JsonObject:
    """The usual form: `{"error": {"root_cause", "type", "reason"}, "status"}`."""
    status = status_of(problem)
    usual = _TYPES_OF_CODES.get(problem.code, _TYPES.get(status, _OTHER_TYPE))
    shown = problem.members.get(EXCEPTION, usual)
    cause: JsonObject = {"type": shown, "reason": problem.detail}
    return {"error": {"root_cause": [cause], **cause, **_fields(problem)}, "status": status}


def execution_error(problem: Problem) -> JsonObject:
    """The form of an execution that failed: `{"status", "error": {"type", "reason", "details"}}`."""
    status = status_of(problem)
    invalid = status == _INVALID
    error: JsonObject = {
        "type": "IllegalArgumentException" if invalid else "OpenSearchStatusException",
        "reason": "Invalid Request" if invalid else "System Error",
        "details": problem.detail,
    }
    return {"status": status, "error": {**error, **_fields(problem)}}


def status_of(problem: Problem) -> int:
    """The status on this surface, which knows no 422."""
    return _INVALID if problem.status == 422 else problem.status


def _fields(problem: Problem) -> JsonObject:
    fields: list[JsonValue] = [{"field": each.pointer, "reason": each.detail} for each in problem.errors]
    return {"fields": fields} if fields else {}
