"""Errors before the first byte: their content, and their usual form, RFC 9457 problem details.

Below: errors. Above: authentication; the protocols, which may have a form of their own; the connection.
https://www.rfc-editor.org/rfc/rfc9457
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from gateway.errors import (
    FieldProblem,
    GatewayError,
    InvalidRequestError,
    StoreError,
    TooLargeError,
    TooManyRequestsError,
    UnavailableError,
)
from gateway.messages import JsonValue

_TRY_AGAIN_SECONDS = 5  # a full disk or a restart is often over by then

_SHOWN_CHARACTERS = 200

_ROUTER_CODES = {404: "not_found", 405: "method_not_allowed"}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error before the first byte, independent of its form.

    `code` is stable: programs match on it. `detail` says what was wrong, then what would be right. `errors` name fields
    of the body. `members` are further data of this code. `headers` are added to the response in any form.
    """

    status: int
    code: str
    detail: str
    errors: Sequence[FieldProblem] = ()
    members: Mapping[str, JsonValue] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


ErrorForm: TypeAlias = Callable[[Problem, Scope], Response]
"""Renders a problem in a protocol's form, for the client of the request `Scope`. Headers of the problem that the
response lacks are added to it.
"""


def problem_of(error: GatewayError) -> Problem:
    """The problem of `error`. The error loses its traceback: a frame in it may refer to the error, and such a circle
    would keep the whole request in memory until the garbage collector runs.
    """
    _forget_frames(error)
    headers: dict[str, str] = {"cache-control": "no-store"}
    if isinstance(error, TooManyRequestsError):
        if error.retry_after_seconds is not None:
            headers["retry-after"] = str(max(1, error.retry_after_seconds))
    elif isinstance(error, UnavailableError):
        headers["retry-after"] = str(error.retry_after_seconds or _TRY_AGAIN_SECONDS)
    elif isinstance(error, StoreError):
        headers["retry-after"] = str(_TRY_AGAIN_SECONDS)
    if error.status == 401:
        headers["www-authenticate"] = 'Bearer realm="agui-gateway"'
    if error.status == 408 or error.code == TooLargeError.default_code:
        headers["connection"] = "close"  # the rest of the body would be taken for the next request
    if not isinstance(error, InvalidRequestError):
        return Problem(error.status, error.code, error.message, headers=headers)
    return Problem(error.status, error.code, error.message, error.problems, error.members, headers)


def _forget_frames(error: BaseException | None) -> None:
    while error is not None:
        error.__traceback__, error = None, error.__context__


def internal_problem(scope: Scope) -> Problem:
    """The problem of an unexpected failure: its message only says where to look."""
    request_id = scope.get("state", {}).get("request_id", "")
    detail = "something went wrong in the gateway"
    if request_id:
        detail += f"; its log has the details under the request id {request_id}"
    return Problem(500, "internal_error", detail, headers={"cache-control": "no-store"})


def http_problem(error: HTTPException, scope: Scope) -> Problem:
    """The problem of an error of the router: 404 or 405."""
    status = error.status_code
    if status == 404:
        detail = f"there is nothing at {shown_path(scope)}; GET /docs lists all paths"
    elif status == 405:
        detail = f"{scope['method']} is not served at {shown_path(scope)}"
    else:
        detail = str(error.detail)
    code = _ROUTER_CODES.get(status, "invalid_request" if status < 500 else "internal_error")
    return Problem(status, code, detail, headers={"cache-control": "no-store", **(error.headers or {})})


def problem_json(problem: Problem, scope: Scope) -> Response:
    """The default form, RFC 9457, for protocols without their own.

    It is `application/problem+json`, but `application/json` if the request accepts an event stream: HttpAgent reads the
    body of an error only then.
    """
    accepts_stream = any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"])
    media_type = "application/json" if accepts_stream else "application/problem+json"
    errors: list[JsonValue] = [{"pointer": each.pointer, "detail": each.detail} for each in problem.errors]
    document = problem_details(problem.status, problem.code, problem.detail, errors, problem.members)
    return Response(document, problem.status, problem.headers, media_type)


def problem_details(
    status: int, code: str, detail: str, errors: list[JsonValue], members: Mapping[str, JsonValue] | None = None
) -> bytes:
    """The problem document as JSON. `members` come after the usual ones."""
    body: dict[str, JsonValue] = {
        "type": "about:blank",  # the title is the status's own; `code` distinguishes problems
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": errors,
        **(members or {}),
    }
    return orjson.dumps(body, default=str)


def shown_path(scope: Scope) -> str:
    """The path for a message: a slash that was sent as `%2F` is a NUL in the scope."""
    path = scope["path"].replace("\0", "%2F")
    return repr(path if len(path) <= _SHOWN_CHARACTERS else path[:_SHOWN_CHARACTERS] + "...")
