"""Shared by the routes of A2A: prefixes, headers of requests, responses and errors in both bindings.

Below: jsonrpc, errors. Above: rest, methods, the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from gateway.a2a.dialects import Dialect, dump
from gateway.a2a.errors import VERSIONS, rest_error, version_not_supported
from gateway.a2a.jsonrpc import error_bytes
from gateway.access.callers import Caller
from gateway.messages import JsonValue
from gateway.problems import Problem
from gateway.protocol.routes import allowed_methods

PREFIXES: Final = ("/a2a", "/agents/{agent_id}/a2a")
"""Where the default agent is served, and each agent."""
WELL_KNOWN: Final = "/.well-known/agent-card.json"
OLD_WELL_KNOWN: Final = "/.well-known/agent.json"
VERSION_HEADER: Final = "a2a-version"
EXTENSIONS_HEADER: Final = "a2a-extensions"

_QUERY_VERSION: Final = "A2A-Version"
_VERSION: Final = re.compile(r"(\d{1,3}\.\d{1,3})(\.\d{1,6})?")
_RPC_PATH: Final = re.compile(r"(/agents/[^/]+)?/a2a/?")
_MEDIA_TYPE: Final = "application/json"
_A2A_MEDIA_TYPE: Final = "application/a2a+json"
_NO_STORE: Final = "no-store"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's caller, agent and dialect. `shows_activity` as in tasks.TaskFold. `call_id`: the JSON
    of a call's id, None over REST.
    """

    request: Request
    caller: Caller
    agent_id: str
    dialect: Dialect
    shows_activity: bool = False
    call_id: bytes | None = None


def below_prefixes(routes: Sequence[Route]) -> list[Route]:
    """The routes below each prefix; their paths are written without one: `/tasks`. `/` is the prefix itself, too."""
    return [
        Route(prefix + path, route.endpoint, methods=sorted(route.methods or ("GET",)))
        for prefix in PREFIXES
        for route in routes
        for path in (("", "/") if route.path == "/" else (route.path,))
    ]


def version_asked(request: Request) -> str:
    """The version that a request names, `1.0` or `0.3`; empty: it names none. Raises InvalidRequestError (-32009)."""
    said = (request.headers.get(VERSION_HEADER) or request.query_params.get(_QUERY_VERSION) or "").strip()
    if not said:
        return ""
    found = _VERSION.fullmatch(said)
    if found is None or found[1] not in VERSIONS:
        raise version_not_supported(said)
    return found[1]


def extensions_asked(request: Request) -> frozenset[str]:
    """The extensions that a request activates, by their URIs."""
    said = request.headers.getlist(EXTENSIONS_HEADER)
    return frozenset(uri for each in said for part in each.split(",") if (uri := part.strip()))


def rpc_answer(content: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """The HTTP response to a call. Its status is 200, also for an error."""
    return Response(content, 200, {"cache-control": _NO_STORE, **(headers or {})}, _MEDIA_TYPE)


def rest_answer(request: Request, value: JsonValue, headers: Mapping[str, str] | None = None) -> Response:
    """A REST response: `application/a2a+json` if the request accepts that."""
    return Response(dump(value), 200, {"cache-control": _NO_STORE, **(headers or {})}, _media_type(request.headers))


def _media_type(headers: Headers) -> str:
    return _A2A_MEDIA_TYPE if _A2A_MEDIA_TYPE in headers.get("accept", "") else _MEDIA_TYPE


def a2a_error_form(problem: Problem, scope: Scope) -> Response:
    """The error form of these paths, see protocol.WireProtocol. An error before a call is read has its HTTP
    status in both bindings.
    """
    headers = {}
    if problem.status == 405:
        headers["allow"] = ", ".join(allowed_methods(scope))
    if is_rpc_path(scope["path"]):
        return Response(error_bytes(None, problem), problem.status, headers, _MEDIA_TYPE)
    status, body = rest_error(problem)
    return Response(dump(body), status, headers, _media_type(Headers(scope=scope)))


def is_rpc_path(path: str) -> bool:
    """Whether calls of JSON-RPC are sent there: everything else is REST's."""
    return _RPC_PATH.fullmatch(path) is not None
