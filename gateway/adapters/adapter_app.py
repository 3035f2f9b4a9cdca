"""Adds an adapter's endpoints, by decorators for functions that make a response of a request.

Below: the protocols' environment, adapter_request, streamed_items, agent_function. Above: protocol_adapter.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gateway.access.authentication import has_body
from gateway.adapters.adapter_request import AdapterRequest
from gateway.adapters.agent_function import handling
from gateway.adapters.streamed_items import StreamedItems, plain_json
from gateway.errors import ConfigurationError, FieldProblem, InvalidRequestError
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.requests import json_of, read_body
from gateway.sse import EventStreamResponse, OpenStreams
from gateway.wire.json_pointer import dotted, pointer_to

Handler: TypeAlias = Callable[[AdapterRequest], Any]
"""A function that returns JSON (a dict, a list, a pydantic model), None for an empty response, a Response, or an
asynchronous iterator for a stream of server-sent events. If it is not `async`, it runs in a thread.
"""
HandlerT = TypeVar("HandlerT", bound=Handler)


class AdapterApp:
    """The routes of one adapter. Their paths are written as starlette's: `/orders/{order_id}`.

    A request reaches a handler under the same rules as the gateway's own protocols: with a key if keys are configured,
    and within the limits of bodies. Websites' visitors do not reach it. A GatewayError of a handler becomes an error
    response.
    """

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self.environment = environment
        self.routes: list[BaseRoute] = []

    def get(self, path: str) -> Callable[[HandlerT], HandlerT]:
        return self.route(path, "GET")

    def post(self, path: str) -> Callable[[HandlerT], HandlerT]:
        return self.route(path, "POST")

    def route(self, path: str, *methods: str) -> Callable[[HandlerT], HandlerT]:
        """A decorator for the handler of these methods.

        Raises:
            ConfigurationError: the path has no slash in front, there is no method, or the handler takes no request.
        """
        named = f"{' '.join(methods)} {path}"
        if not path.startswith("/") or not methods:
            raise ConfigurationError(f"{named!r} is no endpoint; it is a method and a path with a slash in front")

        def add(handler: HandlerT) -> HandlerT:
            _expect_handler(handler, named)
            endpoint = _HandlerEndpoint(handler, self.environment.streams)
            self.routes.append(Route(path, endpoint, methods=list(methods)))
            return handler

        return add

    def add_routes(self, routes: Iterable[BaseRoute]) -> None:
        """Add finished routes, such as a protocol's."""
        self.routes += routes


class _HandlerEndpoint:
    """A handler as an ASGI application, for a route's endpoint."""

    def __init__(self, handler: Handler, streams: OpenStreams) -> None:
        self._handler = handler
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = AdapterRequest(scope, receive, send)
        if has_body(request.headers):
            request.read = await read_body(request)
            request.data = await json_of(request, request.read)
        with handling(request):
            try:
                response = await self._response(await self._returned(request))
            except ValidationError as error:
                if error.title != "AgentRequest":  # an error in the handler's own code
                    raise
                raise _refusal(error) from None
            await response(scope, receive, send)

    async def _returned(self, request: AdapterRequest) -> object:
        if inspect.isasyncgenfunction(self._handler):
            return self._handler(request)
        if inspect.iscoroutinefunction(self._handler):
            return await self._handler(request)
        returned = await asyncio.to_thread(self._handler, request)
        return await returned if inspect.iscoroutine(returned) else returned

    async def _response(self, returned: object) -> Response:
        if isinstance(returned, Response):
            return returned
        if isinstance(returned, AsyncIterable):
            return await self._stream(returned)
        if returned is None:
            return Response(status_code=204)
        return Response(plain_json(returned), headers={"cache-control": "no-store"}, media_type="application/json")

    async def _stream(self, items: AsyncIterable[object]) -> Response:
        """The response with the handler's stream. The first item is awaited before the response begins: a failure until
        then has a status.
        """
        streamed = StreamedItems(aiter(items))
        await streamed.begun()
        return EventStreamResponse(streamed, self._streams)


def _expect_handler(handler: object, named: str) -> None:
    if not callable(handler):
        raise ConfigurationError(f"the handler of {named} is a {type(handler).__name__}, and no function")
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        raise ConfigurationError(f"the handler of {named} must take one argument: the request") from None
    except ValueError:  # some callables have no signature to read
        return


def _refusal(error: ValidationError) -> InvalidRequestError:
    """The error (422) for a body that a handler could not read as a model."""
    found = [FieldProblem(pointer_to(each["loc"]), each["msg"]) for each in error.errors(include_url=False)]
    said = "; ".join(f"{dotted(each.pointer) or 'the body'}: {each.detail}" for each in found)
    return InvalidRequestError(said, problems=found)
