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

from gateway.endpoints.requests import read_json
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.ml_commons.errors import execution_error, opensearch_error, status_of
from gateway.problems import Problem

PREFIX: Final = "/_plugins/_ml"
_MEDIA_TYPE: Final = "application/json; charset=UTF-8"


def ml_response(request: Request, value: JsonValue, status: int = 200) -> Response:
    """A JSON answer, indented where the request asks for `?pretty`."""
    return _response(request.query_params, value, status)


async def read_object(request: Request) -> JsonObject:
    """The JSON object in the body, also of a GET, as OpenSearch's clients send searches; empty where there is none.

    Raises:
        InvalidRequestError: 400, it is no JSON object.
    """
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return {}
    body = await read_json(request)
    if not isinstance(body, dict):
        raise InvalidRequestError(f"the body is {json_kind(body)}; it must be a JSON object", status=400)
    return body


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
