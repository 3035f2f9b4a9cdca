"""The Agent API: an agent's answer as a stream of responses, messages and contents, or as one response.

Below: agent_api, protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import Caller
from gateway.agent_api.renderer import HEARTBEAT, ResponseRenderer
from gateway.agent_api.routes import agent_api_error_form
from gateway.agent_api.settings import AGENT_API_SECTION, AgentApiSettings
from gateway.agent_api.start import StartedResponse, input_cache, start_response
from gateway.agent_api.stored import StoredResponses, no_such_frame
from gateway.errors import InvalidRequestError
from gateway.openapi.data import api_data
from gateway.protocol import (
    Endpoint,
    ProtocolEnvironment,
    WireProtocol,
    caller_of,
    path_id,
    read_body,
    request_id_of,
)
from gateway.protocol.answers import json_response, run_headers
from gateway.protocol.renderer import rendered_body, rendered_stream
from gateway.protocol.requests import end_with_client, whole_number


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._stored = StoredResponses(environment)
        self._cache = input_cache()

    async def process(self, request: Request) -> Response:
        """With the default agent."""
        return await self._process(request, None)

    async def process_with(self, request: Request) -> Response:
        return await self._process(request, path_id(request, "agent_id"))

    async def _process(self, request: Request, agent_id: str | None) -> Response:
        caller, content = caller_of(request), await read_body(request)
        started = await start_response(
            self._environment, caller, agent_id, content, self._cache, request_id=request_id_of(request)
        )
        try:
            return await self._answer(request, caller, started)
        except BaseException:
            started.viewer.close()
            raise

    async def _answer(self, request: Request, caller: Caller, started: StartedResponse) -> Response:
        to_operator = self._environment.is_operators(caller)
        renderer = ResponseRenderer(started.form, ended_at=started.viewer.ended_at, to_operator=to_operator)
        headers = run_headers(started.form.thread_id, started.form.run_id)
        if started.stream:
            heartbeat, streams = self._heartbeat(caller), self._environment.streams
            return rendered_stream(started.viewer, renderer, streams, heartbeat=heartbeat, headers=headers)
        end_with_client(request)
        return json_response(await rendered_body(request, started.viewer, renderer), headers=headers)

    async def response(self, request: Request) -> Response:
        caller, response_id = caller_of(request), path_id(request, "response_id")
        after = _after(request)
        if _wants_stream(request):
            return await self._stored.stream(caller, response_id, after=after, heartbeat=self._heartbeat(caller))
        return json_response(await self._stored.response(caller, response_id))

    async def cancel(self, request: Request) -> Response:
        return json_response(await self._stored.cancel(caller_of(request), path_id(request, "response_id")))

    def _heartbeat(self, caller: Caller) -> bytes:
        """The frame that is sent during silence; empty: a comment is sent."""
        settings = self._environment.protocol_settings(caller, AgentApiSettings)
        return HEARTBEAT if settings.heartbeat == "message" else b""


def _wants_stream(request: Request) -> bool:
    """Whether the client wants a stored response as a stream. Raises InvalidRequestError (422)."""
    if (asked := request.query_params.get("stream")) is not None:
        if asked not in ("true", "false"):
            raise InvalidRequestError(f"stream is {asked[:64]!r}; it must be true or false")
        return asked == "true"
    accepted = request.headers.get("accept", "")
    return "text/event-stream" in accepted or "application/json" not in accepted


def _after(request: Request) -> int | None:
    """The number of the last frame that the client has; None: it has none. Raises InvalidRequestError (422)."""
    text = request.query_params.get("after", "")
    if not text:
        return None
    if (number := whole_number(text)) is None:
        raise no_such_frame(f"after is {text[:64]!r}; it must be the sequence_number of a frame")
    return number


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        Route("/process", Endpoint(on.process), methods=["POST"]),
        Route("/agents/{agent_id}/process", Endpoint(on.process_with), methods=["POST"]),
        Route("/process/{response_id}", Endpoint(on.response), methods=["GET"]),
        Route("/process/{response_id}/cancel", Endpoint(on.cancel), methods=["POST"]),
    ]


PROTOCOL = WireProtocol(
    "agent_api",
    _routes,
    paths=["/process/{rest:path}"],
    error_form=agent_api_error_form,
    api=api_data("gateway.agent_api", "agent_api"),
    settings=AGENT_API_SECTION,
)
