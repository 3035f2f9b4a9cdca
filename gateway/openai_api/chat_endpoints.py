"""OpenAI's Chat Completions: an agent's answer as one body, or as it comes.

Below: openai_api, protocol. https://platform.openai.com/docs/api-reference/chat (November 2026)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.openai_api.chat_history import common_beginning
from gateway.openai_api.chat_renderer import ChatChunks, ChatCompletion
from gateway.openai_api.chat_request import ReadItems
from gateway.openai_api.chat_start import start_chat
from gateway.openai_api.errors import run_failure
from gateway.openai_api.routes import answer_with_body, answer_with_stream, openai_error_form, openai_routes
from gateway.openai_api.settings import CHAT_SECTION
from gateway.openapi.data import api_data
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, request_id_of
from gateway.protocol.input_cache import InputCache
from gateway.protocol.requests import read_body


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._cache = InputCache[ReadItems]("messages", common_beginning)

    async def complete(self, request: Request) -> Response:
        environment, caller, content = self._environment, caller_of(request), await read_body(request)
        started = await start_chat(
            environment, caller, content, request.headers, self._cache, request_id=request_id_of(request)
        )
        to_operator = environment.is_operators(caller)
        if not started.stream:
            completion = ChatCompletion(started.form, to_operator=to_operator)
            return await answer_with_body(request, started.viewer, completion, started.headers)
        chunks = ChatChunks(started.form, to_operator=to_operator)
        failure = partial(run_failure, agent_id=started.form.model, to_operator=to_operator)
        return await answer_with_stream(request, started.viewer, chunks, environment.streams, started.headers, failure)


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return openai_routes([Route("/chat/completions", Endpoint(on.complete), methods=["POST"])])


PROTOCOL = WireProtocol(
    "chat_completions",
    _routes,
    error_form=openai_error_form,
    api=api_data("gateway.openai_api", "chat_completions"),
    settings=CHAT_SECTION,
)
