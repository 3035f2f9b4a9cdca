"""A2A: the gateway's agents for other agents, over JSON-RPC (1.0 and 0.3) and REST (1.0), and their cards.

Below: a2a, protocol. https://a2a-protocol.org/latest/specification/ (1.0)
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.a2a.dialects import ACTIVITY, Dialect, Method, dump, method_of
from gateway.a2a.errors import PARSE_ERROR, method_not_found, version_not_supported
from gateway.a2a.jsonrpc import Call, error_bytes, id_in, read_call, result_bytes
from gateway.a2a.methods import READING, Methods
from gateway.a2a.push_delivery import close_push, sweep_push
from gateway.a2a.rest import query_params
from gateway.a2a.routes import (
    PREFIXES,
    Asked,
    a2a_error_form,
    below_prefixes,
    extensions_asked,
    rest_answer,
    rpc_answer,
    version_asked,
)
from gateway.a2a.send import extension_headers
from gateway.a2a.settings import A2A_SECTION, AGENT_SECTION, A2ASettings
from gateway.a2a.shown_cards import CARD_PATHS, ShownCards
from gateway.errors import GatewayError, InvalidRequestError
from gateway.messages import JsonObject
from gateway.openapi.data import api_data
from gateway.problems import problem_of
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, path_id, read_body, read_json
from gateway.protocol.requests import expect_object, json_of, only_reads
from gateway.sse import EventStreamResponse

logger = logging.getLogger(__name__)

_AGENT: Final = "agent_id"
_TASK_NAMES: Final = MappingProxyType({"task_id": "id"})
_CONFIG_NAMES: Final = MappingProxyType({"task_id": "taskId", "config_id": "id"})
_CARD_CACHE: Final = "public, max-age=60"
_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._methods = Methods(environment)
        self._cards = ShownCards(environment)

    # --- JSON-RPC

    async def rpc(self, request: Request) -> Response:
        try:
            body = await read_json(request)
        except InvalidRequestError as error:
            if error.code != PARSE_ERROR:
                raise
            return rpc_answer(error_bytes(None, problem_of(error)))
        try:
            call = read_call(body)
            if call.notification:
                return await self._notified(request, call)
            method, asked = self._called(request, call)
            if method in READING:
                only_reads(request)
            answer = await self._methods.call(method, asked, call.params)
        except GatewayError as error:
            problem = problem_of(error)
            return rpc_answer(error_bytes(id_in(body), problem), problem.headers)
        if isinstance(answer, EventStreamResponse):
            return answer
        return rpc_answer(result_bytes(call.id, answer), extension_headers(asked))

    def _called(self, request: Request, call: Call) -> tuple[Method, Asked]:
        """The method that a call means. Raises InvalidRequestError (-32601, -32009)."""
        version, named = version_asked(request), method_of(call.method)
        if named is None:
            raise method_not_found(call.method)
        method, dialect = named
        asked = self._asked(request, dialect, dump(call.id))
        if version == Dialect.V1 and dialect is Dialect.V03 and self._is_strict(asked):
            raise method_not_found(call.method)  # the version that it says is served, but has no such method
        self._check_version(asked, version)
        return method, asked

    def _is_strict(self, asked: Asked) -> bool:
        return self._environment.protocol_settings(asked.caller, A2ASettings).strict

    def _check_version(self, asked: Asked, version: str) -> None:
        """Refuse a version that is not the one of the method's name. Raises InvalidRequestError (-32009)."""
        strict = self._is_strict(asked)
        if asked.dialect is Dialect.V03:
            is_served = not strict
        else:  # many clients of 1.0 forget the header, which is to mean 0.3
            is_served = version == Dialect.V1 or not (version or strict)
        if not is_served:
            raise version_not_supported(version or Dialect.V03, [Dialect.V1])

    async def _notified(self, request: Request, call: Call) -> Response:
        """A notification of JSON-RPC, which gets no response."""
        try:
            method, asked = self._called(request, call)
            await self._methods.notify(method, asked, call.params)
        except GatewayError as error:
            logger.info("a notification was refused", extra={"method": call.method[:64], "code": error.code})
        return Response(status_code=_NO_CONTENT)

    # --- REST

    def rest(
        self, method: Method, names: Mapping[str, str], *, sends: bool
    ) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of a method. Its parameters are in the path, `names` says which, and in the query or the body
        that its requests send.
        """

        async def answer(request: Request) -> Response:
            asked = self._asked(request, Dialect.V1)
            self._check_version(asked, version_asked(request))
            if method in READING:
                only_reads(request)
            params = await _body_params(request) if sends else query_params(request.query_params)
            params |= {names[name]: path_id(request, name) for name in request.path_params if name in names}
            found = await self._methods.call(method, asked, params)
            if isinstance(found, EventStreamResponse):
                return found
            return rest_answer(request, found, extension_headers(asked))

        return answer

    def _asked(self, request: Request, dialect: Dialect, call_id: bytes | None = None) -> Asked:
        caller = caller_of(request)
        agent_id = (
            path_id(request, _AGENT) if _AGENT in request.path_params else self._environment.default_agent(caller)
        )
        return Asked(request, caller, agent_id, dialect, ACTIVITY in extensions_asked(request), call_id)

    # --- cards

    async def card(self, request: Request) -> Response:
        agent_id = path_id(request, _AGENT) if _AGENT in request.path_params else None
        content = dump(self._cards.public(self._environment.public_url(request), request.url.hostname or "", agent_id))
        etag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
        headers = {"cache-control": _CARD_CACHE, "etag": etag}
        known = request.headers.get("if-none-match", "")
        if etag in known or known.strip() == "*":
            return Response(status_code=_NOT_MODIFIED, headers=headers)
        return Response(content, 200, headers, "application/json")


async def _body_params(request: Request) -> JsonObject:
    """The object in a body; an empty body is an empty object. Raises InvalidRequestError (400)."""
    content = await read_body(request)
    return {**expect_object(await json_of(request, content) if content else {})}


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)

    def rest(http_method: str, path: str, method: Method) -> Route:
        names = _CONFIG_NAMES if path.startswith(configs) else _TASK_NAMES
        return Route(path, Endpoint(on.rest(method, names, sends=http_method == "POST")), methods=[http_method])

    one = "/tasks/{task_id}"
    configs = one + "/pushNotificationConfigs"
    below = [
        Route("/", Endpoint(on.rpc), methods=["POST"]),
        rest("POST", "/message:send", Method.SEND),
        rest("POST", "/message:stream", Method.STREAM),
        rest("POST", one + ":cancel", Method.CANCEL),
        rest("POST", one + ":subscribe", Method.SUBSCRIBE),
        rest("GET", one + ":subscribe", Method.SUBSCRIBE),
        rest("GET", "/tasks", Method.LIST),
        rest("GET", one, Method.GET),
        rest("POST", configs, Method.PUSH_CREATE),
        rest("GET", configs, Method.PUSH_LIST),
        rest("GET", configs + "/{config_id}", Method.PUSH_GET),
        rest("DELETE", configs + "/{config_id}", Method.PUSH_DELETE),
        rest("GET", "/extendedAgentCard", Method.CARD),
    ]
    cards = [Route(path, Endpoint(on.card), methods=["GET"]) for path in CARD_PATHS]
    return [*cards, *below_prefixes(below)]


PROTOCOL = WireProtocol(
    "a2a",
    _routes,
    paths=[prefix + "/{rest:path}" for prefix in PREFIXES],
    error_form=a2a_error_form,
    api=api_data("gateway.a2a", "a2a"),
    open_paths=CARD_PATHS,
    close=close_push,
    sweep=sweep_push,
    settings=A2A_SECTION,
    agent_settings=AGENT_SECTION,
)
