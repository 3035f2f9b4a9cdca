"""Shared by the routes of OpenAI's API: prefixes, bodies, responses and errors.

Above: the protocols under `/v1`. Below: protocol, errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from gateway.errors import GatewayError
from gateway.events import RunFailed
from gateway.messages import JsonObject
from gateway.openai_api.errors import NO_RETRY, openai_error, retry_headers, status_of
from gateway.problems import Problem, problem_of, shown_path
from gateway.protocol import Viewer
from gateway.protocol.answers import json_response
from gateway.protocol.begin import RepeatWords
from gateway.protocol.renderer import Renderer, rendered_body, rendered_stream_once_shown
from gateway.protocol.requests import end_with_client, expect_object, read_json
from gateway.protocol.routes import allowed_methods
from gateway.sse import OpenStreams

logger = logging.getLogger(__name__)

PREFIXES: Final = ("/v1", "/compatible-mode/v1")
"""Each path is served below all of them."""
PATHS_WITHOUT_PREFIX: Final = ("/models", "/chat/completions", "/responses", "/conversations")
"""What clients ask for whose base URL lacks the prefix: nothing is there, and the error says so."""
KEY_HEADER: Final = "idempotency-key"
"""What makes a request one that can be repeated: it gives its run the id."""
REPEAT_WORDS: Final = RepeatWords(
    "the Idempotency-Key was sent with another request; use a new one for each",
    "idempotency_key_reused",
    "the request was cancelled before it began; send it with another key",
)
_LEFT_OUT_HEADER: Final = "x-agui-gateway-left-out"
_MOST_NAMED: Final = 20  # tools in that header
_LONGEST_NAMED: Final = 80  # characters of each
_MEDIA_TYPE: Final = "application/json"


def openai_routes(routes: Sequence[Route]) -> Sequence[BaseRoute]:
    """The routes below each prefix; their paths are written without one: `/chat/completions`. Without methods: GET."""
    return [
        Route(prefix + route.path, route.endpoint, methods=sorted(route.methods or ("GET",)))
        for prefix in PREFIXES
        for route in routes
    ]


async def read_object(request: Request) -> JsonObject:
    """The JSON object in the body. Raises InvalidRequestError (400)."""
    return expect_object(await read_json(request))


def header_text(headers: Mapping[str, str], name: str) -> str:
    """A header that may be in UTF-8, as those of `run_headers` are; empty: there is none."""
    value = headers.get(name, "")
    with suppress(UnicodeError):
        return value if value.isascii() else value.encode("latin-1").decode()
    return value


def left_out_headers(left_out: Sequence[str]) -> Mapping[str, str]:
    """The header that names the tools of a request that its run does not have; they are logged, too."""
    if not left_out:
        return {}
    named = [quote(name[:_LONGEST_NAMED], safe=" ", errors="replace") for name in dict.fromkeys(left_out)]
    told = ", ".join((*named[:_MOST_NAMED], *(("...",) if len(named) > _MOST_NAMED else ())))
    logger.info("left out tools that are not functions", extra={"tools": told})
    return {_LEFT_OUT_HEADER: told}


async def answer_with_body(
    request: Request, viewer: Viewer, renderer: Renderer[JsonObject], headers: Mapping[str, str]
) -> Response:
    """The non-streaming answer to a request whose run has begun; `headers` are on a failure's, too, with NO_RETRY.

    Raises:
        ClientDisconnect: the client has left.
    """
    end_with_client(request)
    try:
        return json_response(await rendered_body(request, viewer, renderer), headers=headers)
    except GatewayError as error:
        return _failed(error, headers)


async def answer_with_stream(
    request: Request,
    viewer: Viewer,
    renderer: Renderer[object],
    streams: OpenStreams,
    headers: Mapping[str, str],
    failure: Callable[[RunFailed], GatewayError | None],
) -> Response:
    """The stream of a run that has begun; an error, as that of a body, where it fails before it has said anything.

    Raises:
        ClientDisconnect: the client has left.
    """
    end_with_client(request)
    try:
        stream = await rendered_stream_once_shown(request, viewer, renderer, streams, headers=headers)
    except GatewayError as error:
        return _failed(error, headers)
    if not isinstance(stream, RunFailed):
        return stream
    failed = failure(stream)
    assert failed is not None, "a run that failed has an error"
    return _failed(failed, headers)


def _failed(error: GatewayError, headers: Mapping[str, str]) -> Response:
    problem = problem_of(error)
    return _error_response(problem, {**problem.headers, **headers, **NO_RETRY})


def openai_error_form(problem: Problem, scope: Scope) -> Response:
    """The error form of these protocols, see protocol.WireProtocol."""
    headers = dict(retry_headers(problem))
    if problem.status == 404 and "endpoint" not in scope:
        detail = f"nothing is served at {shown_path(scope)}; {_base_url_hint(scope['path'])}"
        problem = replace(problem, detail=detail, code="unknown_url")
    elif problem.status == 405:
        headers["allow"] = allowed = ", ".join(allowed_methods(scope))
        problem = replace(problem, detail=f"{problem.detail}; use {allowed}")
    return _error_response(problem, headers)


def _base_url_hint(path: str) -> str:
    if (meant := next((each for each in PATHS_WITHOUT_PREFIX if f"{path}/".startswith(f"{each}/")), None)) is None:
        return "is the base URL right? GET /docs lists all paths"
    return f"did you mean {PREFIXES[0]}{meant}? The base URL has to end with {PREFIXES[0]}"


def _error_response(problem: Problem, headers: Mapping[str, str]) -> Response:
    return Response(orjson.dumps(openai_error(problem)), status_of(problem), headers, _MEDIA_TYPE)
