"""The errors of A2A: one table, written as JSON-RPC errors and as REST's google.rpc status.

Below: problems, fields. Above: everything of this room. Both forms are made of a `Problem`, so an error of any part of
the gateway has its code here, too. https://a2a-protocol.org/latest/specification/#54-error-code-mappings (1.0),
https://google.aip.dev/193
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.errors import FieldProblem, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.problems import Problem
from gateway.protocol.fields import ItemCount, PlacedFields
from gateway.wire.json_pointer import dotted

PARSE_ERROR: Final = "invalid_json"
INVALID_REQUEST: Final = "invalid_rpc_request"
METHOD_NOT_FOUND: Final = "method_not_found"
INVALID_PARAMS: Final = "invalid_request"

TASK_NOT_FOUND: Final = "task_not_found"
TASK_NOT_CANCELABLE: Final = "task_not_cancelable"
PUSH_NOTIFICATION_NOT_SUPPORTED: Final = "push_notification_not_supported"
UNSUPPORTED_OPERATION: Final = "unsupported_operation"
CONTENT_TYPE_NOT_SUPPORTED: Final = "content_type_not_supported"
INVALID_AGENT_RESPONSE: Final = "invalid_agent_response"
EXTENDED_AGENT_CARD_NOT_CONFIGURED: Final = "extended_agent_card_not_configured"
EXTENSION_SUPPORT_REQUIRED: Final = "extension_support_required"
VERSION_NOT_SUPPORTED: Final = "version_not_supported"

VERSIONS: Final = ("1.0", "0.3")
"""The versions of A2A that are served."""

_DOMAIN: Final = "a2a-protocol.org"
_OUR_DOMAIN: Final = "agui-gateway"  # of the errors that A2A has no name for
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"

_SERVER_ERROR: Final = 500
_INTERNAL: Final = -32603
_INVALID_PARAMS: Final = -32602
_OTHER: Final = -32000


@dataclass(frozen=True, slots=True)
class _Form:
    """How an error of A2A's own is written. `status` is google.rpc's word."""

    rpc_code: int
    http_status: int
    status: str


_FORMS: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        TASK_NOT_FOUND: _Form(-32001, 404, "NOT_FOUND"),
        TASK_NOT_CANCELABLE: _Form(-32002, 400, "FAILED_PRECONDITION"),
        PUSH_NOTIFICATION_NOT_SUPPORTED: _Form(-32003, 400, "FAILED_PRECONDITION"),
        UNSUPPORTED_OPERATION: _Form(-32004, 400, "FAILED_PRECONDITION"),
        # the specification says 400 since 1.0.1, but here it is only the Content-Type of a request, which is HTTP's 415
        CONTENT_TYPE_NOT_SUPPORTED: _Form(-32005, 415, "INVALID_ARGUMENT"),
        INVALID_AGENT_RESPONSE: _Form(-32006, 500, "INTERNAL"),
        EXTENDED_AGENT_CARD_NOT_CONFIGURED: _Form(-32007, 400, "FAILED_PRECONDITION"),
        EXTENSION_SUPPORT_REQUIRED: _Form(-32008, 400, "FAILED_PRECONDITION"),
        VERSION_NOT_SUPPORTED: _Form(-32009, 400, "FAILED_PRECONDITION"),
    }
)
_RPC_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {PARSE_ERROR: -32700, INVALID_REQUEST: -32600, METHOD_NOT_FOUND: -32601}
)
_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unsupported_media_type": CONTENT_TYPE_NOT_SUPPORTED,
        # the official clients tell wrong parameters by this name; INVALID_REQUEST is a broken call to them
        INVALID_PARAMS: "invalid_params",
    }
)
_STATUS_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        405: "UNIMPLEMENTED",
        408: "DEADLINE_EXCEEDED",
        409: "ABORTED",
        429: "RESOURCE_EXHAUSTED",
        501: "UNIMPLEMENTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
)


# --- the errors that are raised here ----------------------------------------------------------------------------------


def invalid_params(message: str, pointer: str) -> InvalidRequestError:
    """The error (-32602, 400) of one wrong field of the parameters."""
    return InvalidRequestError(message, code=INVALID_PARAMS, problems=[FieldProblem(pointer, message)], status=400)


def invalid_request(message: str, pointer: str = "") -> InvalidRequestError:
    """The error (-32600) of a body that is no JSON-RPC request."""
    return InvalidRequestError(message, code=INVALID_REQUEST, problems=[FieldProblem(pointer, message)], status=400)


def method_not_found(method: str) -> NotFoundError:
    """The error (-32601) of a method that is not there."""
    return NotFoundError(
        f"there is no method {method[:64]!r}; SendMessage and GetTask are two there are", code=METHOD_NOT_FOUND
    )


def task_not_found(task_id: str) -> NotFoundError:
    """The error (-32001) of a task that is not there for its caller."""
    message = f"there is no task {task_id[:256]!r}; it may be another caller's, or have been deleted"
    return NotFoundError(message, code=TASK_NOT_FOUND, members={"taskId": task_id[:256]})


def not_cancelable(task_id: str, state: str) -> InvalidRequestError:
    """The error (-32002) of a task that has ended."""
    return _refused(TASK_NOT_CANCELABLE, f"the task {task_id!r} is {state}: it has ended and cannot be canceled")


def unsupported(message: str) -> InvalidRequestError:
    """The error (-32004) of an operation that the task, or this server, does not allow."""
    return _refused(UNSUPPORTED_OPERATION, message)


def version_not_supported(version: str, served: Sequence[str] = VERSIONS) -> InvalidRequestError:
    """The error (-32009) of a version that is not `served`, there or for that method."""
    return _refused(
        VERSION_NOT_SUPPORTED,
        f"A2A-Version {version[:32]!r} is not served here; send {' or '.join(served)}",
        {"supportedVersions": ",".join(served)},
    )


def _refused(code: str, message: str, metadata: Mapping[str, str] | None = None) -> InvalidRequestError:
    return InvalidRequestError(message, code=code, status=_FORMS[code].http_status, members=metadata)


class Parameters(PlacedFields):
    """The members of a method's parameters, or of an object in them. Messages call them as google.rpc does.

    A name may be written in snake_case, too: readers of protobuf's JSON accept both.
    """

    def __init__(
        self,
        value: JsonObject,
        at: str = "",
        problems: list[FieldProblem] | None = None,
        count: ItemCount | None = None,
    ) -> None:
        if "_" in "".join(value):
            value = {**{_camel(name): each for name, each in value.items()}, **value}
        super().__init__(value, at, problems, count)

    def wrong_here(self, message: str) -> None:
        """Note that the object itself is wrong."""
        self._note(self._at, message)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


# --- how they are written ---------------------------------------------------------------------------------------------


def _rpc_code(problem: Problem) -> int:
    name = _name(problem)
    if (form := _FORMS.get(name)) is not None:
        return form.rpc_code
    if (code := _RPC_CODES.get(name)) is not None:
        return code
    if problem.status in (400, 422):
        return _INVALID_PARAMS
    return _INTERNAL if problem.status == _SERVER_ERROR else _OTHER


def jsonrpc_error(problem: Problem) -> JsonObject:
    """The `error` of a JSON-RPC response."""
    error: JsonObject = {"code": _rpc_code(problem), "message": problem.detail}
    if details := _details(problem):
        error["data"] = details
    return error


def rest_error(problem: Problem) -> tuple[int, JsonObject]:
    """The HTTP status and the body of a REST response that is an error."""
    form = _FORMS.get(_name(problem))
    status = _rest_status(problem) if form is None else form.http_status
    word = _STATUS_WORDS.get(status, "INTERNAL" if status >= _SERVER_ERROR else "INVALID_ARGUMENT")
    error: JsonObject = {
        "code": status,
        "status": word if form is None else form.status,
        "message": problem.detail,
    }
    if details := _details(problem):
        error["details"] = details
    return status, {"error": error}


def _rest_status(problem: Problem) -> int:
    return 400 if problem.status == 422 else problem.status  # A2A knows no 422


def _name(problem: Problem) -> str:
    return _OTHER_NAMES.get(problem.code, problem.code)


def _details(problem: Problem) -> list[JsonValue]:
    """The details that programs match on: the error's name, and the wrong fields."""
    name = _name(problem)
    details: list[JsonValue] = []
    if name not in _RPC_CODES:
        info: JsonObject = {
            "@type": _ERROR_INFO,
            "reason": name.upper(),
            "domain": _DOMAIN if name in _FORMS else _OUR_DOMAIN,
        }
        # google.rpc.ErrorInfo's metadata are texts
        if metadata := {key: value for key, value in problem.members.items() if isinstance(value, str)}:
            info["metadata"] = {**metadata}
        details.append(info)
    if problem.errors:
        violations: list[JsonValue] = [
            {"field": dotted(each.pointer), "description": each.detail} for each in problem.errors
        ]
        details.append({"@type": _BAD_REQUEST, "fieldViolations": violations})
    return details
