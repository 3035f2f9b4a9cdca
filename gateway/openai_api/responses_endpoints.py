"""OpenAI's Responses: an agent's answer as one object, as it comes, or in the background.

Below: openai_api, protocol. https://platform.openai.com/docs/api-reference/responses (November 2026)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import Caller
from gateway.openai_api.errors import run_failure
from gateway.openai_api.responses_history import common_beginning
from gateway.openai_api.responses_items import ReadInput
from gateway.openai_api.responses_renderer import ResponseBody, ResponsesRenderer
from gateway.openai_api.responses_resource import response_object
from gateway.openai_api.responses_start import StartedResponse, start_response
from gateway.openai_api.routes import (
    answer_with_body,
    answer_with_stream,
    openai_error_form,
    openai_routes,
)
from gateway.openai_api.settings import RESPONSES_SECTION
from gateway.openapi.data import api_data
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, request_id_of
from gateway.protocol.answers import json_response
from gateway.protocol.input_cache import InputCache
from gateway.protocol.renderer import rendered_stream
from gateway.protocol.requests import read_body
from gateway.store import RunStatus


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._cache = InputCache[ReadInput]("input", common_beginning)

    async def respond(self, request: Request) -> Response:
        environment, caller, content = self._environment, caller_of(request), await read_body(request)
        started = await start_response(
            environment, caller, content, request.headers, self._cache, request_id=request_id_of(request)
        )
        try:
            return await self._answer(request, caller, started)
        except BaseException:
            started.viewer.close()
            raise

    async def _answer(self, request: Request, caller: Caller, started: StartedResponse) -> Response:
        form, viewer = started.form, started.viewer
        headers = started.headers
        in_background = form.background and not started.stream
        if in_background:
            record = await self._environment.run(caller, form.run_id)
            if not record.status.ended:
                viewer.close()
                begun = record.status is not RunStatus.QUEUED
                return json_response(response_object(form, "in_progress" if begun else "queued"), headers=headers)
        kind = ResponsesRenderer if started.stream else ResponseBody
        to_operator = self._environment.is_operators(caller)
        renderer = kind(
            form, to_operator=to_operator, seal=started.seal, shows_failure=in_background, ended_at=viewer.ended_at
        )
        streams = self._environment.streams
        if started.stream and form.background:
            return rendered_stream(viewer, renderer, streams, headers=headers)
        if started.stream:
            failure = partial(run_failure, agent_id=form.model, to_operator=to_operator)
            return await answer_with_stream(request, viewer, renderer, streams, headers, failure)
        return await answer_with_body(request, viewer, renderer, headers)


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return openai_routes([Route("/responses", Endpoint(on.respond), methods=["POST"])])


PROTOCOL = WireProtocol(
    "responses",
    _routes,
    error_form=openai_error_form,
    api=api_data("gateway.openai_api", "responses"),
    settings=RESPONSES_SECTION,
)
