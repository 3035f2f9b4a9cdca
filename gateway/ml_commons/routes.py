"""Shared by the routes of ml-commons' REST API: its JSON, and its errors as responses.

Above: the protocols under `/_plugins/_ml`. Below: protocol, errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Message, Receive, Scope, Send

from gateway.access.authentication import check_json, has_body
from gateway.configuration.section import Section
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.errors import execution_error, opensearch_error, status_of
from gateway.ml_commons.feature_settings import Feature
from gateway.ml_commons.filter_path import filtered
from gateway.ml_commons.url_parameters import check_parameters, parameters_of, search_asked
from gateway.problems import Problem
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.paths import unmarked
from gateway.protocol.requests import expect_object, only_reads, read_json
from gateway.protocol.routes import allowed_methods

PREFIX: Final = "/_plugins/_ml"


class MlCommonsProtocol(Section):
    """ml-commons' REST API: `/_plugins/_ml` and `/_cluster/settings`. Its settings are the section `ml_commons`."""


SETTINGS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"ml_commons": MlCommonsProtocol})
"""The settings that all of its protocols share."""
ROOT: Final[JsonObject] = {
    "name": "agui-gateway",
    "cluster_name": "agui-gateway",
    "version": {"distribution": "opensearch", "number": "3.6.0"},
    "tagline": "The OpenSearch Project: https://opensearch.org/",
}
"""What `GET /` says to OpenSearch's clients. The version is that of ml-commons with which the answers are compared."""
_MEDIA_TYPE: Final = "application/json; charset=UTF-8"
_BASIC: Final = 'Basic realm="agui-gateway", charset="UTF-8"'
_SHOWN_CHARACTERS: Final = 200


class MlRoute(Route):
    """A route that is closed while one of its features is off, and takes no body that the settings call too large.

    Its path may end with a slash more, as OpenSearch's may.
    """

    def __init__(self, route: Route, settings: ClusterSettings, features: Sequence[Feature] = ()) -> None:
        super().__init__(route.path, route.endpoint, methods=sorted(route.methods or ()))
        self._settings = settings
        self._features = features
        self._parameters = parameters_of(route.path)
        self._is_bounded = route.path.startswith(PREFIX)  # else nobody could take back a bound on the settings' bodies

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path: str = scope["path"]
        return super().matches({**scope, "path": path[:-1]} if path.endswith("/") else scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in (self.methods or ()):
            for feature in self._features:
                self._settings.check(feature)
            if scope["query_string"]:
                check_parameters(_uri(scope), QueryParams(scope["query_string"]), self._parameters)
            if self._is_bounded and (most := self._settings.most_json_bytes) is not None:
                receive = _limited(receive, most)
        await super().handle(scope, receive, send)


def ml_routes(environment: ProtocolEnvironment, routes: Sequence[Route], *features: Feature) -> Sequence[BaseRoute]:
    """The routes of a protocol under these paths, which are closed while one of the features is off."""
    settings = environment.shared(ClusterSettings)
    return [MlRoute(route, settings, features) for route in routes]


def _limited(receive: Receive, most: int) -> Receive:
    """`receive`, which raises InvalidRequestError (400) for a body that is larger."""
    received = 0

    async def receive_counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise InvalidRequestError(
                f"JSON string size exceeds maximum allowed size ({most} bytes); send less, or raise the setting "
                "plugins.ml_commons.max_json_size",
                status=400,
            )
        return message

    return receive_counted


def ml_response(request: Request, value: JsonValue, status: int = 200) -> Response:
    """A JSON response, or the parts of it that `?filter_path` names; indented if the request asks for `?pretty`."""
    if wanted := ",".join(request.query_params.getlist("filter_path")):
        value = filtered(value, wanted)
    return _response(request.query_params, value, status)


def is_asked(request: Request, name: str) -> bool:
    """Whether a flag is set in the query: `?name` or `?name=true`."""
    return _is_set(request.query_params, name)


async def read_object(request: Request) -> JsonObject:
    """The JSON object in the body, also of a GET, as OpenSearch's clients send searches; empty where there is none.

    Raises:
        InvalidRequestError: 400, it is no JSON object; 415, the Content-Type says something else.
    """
    if not has_body(request.headers):
        return {}
    check_json(request.headers)
    return expect_object(await read_json(request))


async def read_search(request: Request) -> JsonObject:
    """The search that the body and the URL ask for.

    Raises:
        InvalidRequestError: as `read_object`.
    """
    only_reads(request)
    return search_asked(request.query_params, await read_object(request))


def opensearch_error_form(problem: Problem, scope: Scope) -> Response:
    """The error form of these protocols, see protocol.WireProtocol."""
    headers = {}
    if problem.status == 404 and "endpoint" not in scope:
        detail = f"no handler found for uri [{_uri(scope)}] and method [{scope['method']}]"
        problem = replace(problem, detail=detail)
    elif problem.status == 405:
        headers["allow"] = allowed = ", ".join(allowed_methods(scope))
        wrong = f"Incorrect HTTP method for uri [{_uri(scope)}] and method [{scope['method']}]"
        problem = replace(problem, detail=f"{wrong}, allowed: [{allowed}]")
    elif problem.status == 401:
        headers["www-authenticate"] = ", ".join(filter(None, (problem.headers.get("www-authenticate"), _BASIC)))
    response = _response(QueryParams(scope["query_string"]), opensearch_error(problem), status_of(problem))
    response.headers.update(headers)
    return response


def _uri(scope: Scope) -> str:
    return unmarked(scope["path"])[:_SHOWN_CHARACTERS]


def execution_error_response(request: Request, problem: Problem) -> Response:
    """The answer of an execution that failed."""
    response = _response(request.query_params, execution_error(problem), status_of(problem))
    response.headers.update(problem.headers)
    return response


def _is_set(query: QueryParams, name: str) -> bool:
    return query.get(name, "false") in ("", "true")


def _response(query: QueryParams, value: JsonValue, status: int) -> Response:
    pretty = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if _is_set(query, "pretty") else None
    body = orjson.dumps(value, option=pretty)
    return Response(body, status, {"cache-control": "no-store"}, _MEDIA_TYPE)
