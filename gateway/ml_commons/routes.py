"""What the routes of ml-commons' REST API share: its JSON, and its errors as responses.

Above: the protocols under `/_plugins/_ml`. Below: protocol, errors.
"""

from __future__ import annotations

from typing import Final

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gateway.messages import JsonValue
from gateway.ml_commons.errors import execution_error, opensearch_error, status_of
from gateway.problems import Problem

PREFIX: Final = "/_plugins/_ml"
_MEDIA_TYPE: Final = "application/json; charset=UTF-8"


def ml_response(request: Request, value: JsonValue, status: int = 200) -> Response:
    """A JSON answer, indented where the request asks for `?pretty`."""
    return _response(request.query_params, value, status)


def opensearch_error_form(problem: Problem, scope: Scope) -> Response:
    """The error form of these protocols, see protocol.WireProtocol."""
    return _response(QueryParams(scope["query_string"]), opensearch_error(problem), status_of(problem))


def execution_error_response(request: Request, problem: Problem) -> Response:
    """The answer of an execution that failed."""
    response = _response(request.query_params, execution_error(problem), status_of(problem))
    response.headers.update(problem.headers)
    return response


def _response(query: QueryParams, value: JsonValue, status: int) -> Response:
    pretty = query.get("pretty", "false") in ("", "true")
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if pretty else None)
    return Response(body, status, {"cache-control": "no-store"}, _MEDIA_TYPE)
