"""OpenAI's Chat Completions: an agent's answer as one body, or as it comes.

Below: openai_api, protocol. https://platform.openai.com/docs/api-reference/chat (November 2026)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.openai_api.api_document import openai_api, openai_operation
from gateway.openai_api.chat_history import common_beginning
from gateway.openai_api.chat_renderer import ChatChunks, ChatCompletion
from gateway.openai_api.chat_request import ReadItems
from gateway.openai_api.chat_start import start_chat
from gateway.openai_api.errors import run_failure
from gateway.openai_api.routes import answer_with_body, answer_with_stream, openai_error_form, openai_routes
from gateway.openai_api.settings import CHAT_SECTION
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


_API = openai_api(
    [
        openai_operation(
            "post",
            "/chat/completions",
            "createChatCompletion",
            "Answer a conversation",
            body=(
                "`model` is an agent's id, `messages` the whole conversation. `tools` are the client's own. Unknown "
                "members are ignored; `n` above 1, `logprobs` and audio as an answer are a 400."
            ),
            result="A `chat.completion`; with `stream` its chunks. Header `X-Thread-Id` names the thread.",
            runs=True,
            streams=True,
            description=(
                "Header `X-Thread-Id`, else `metadata.thread_id`, names the thread that the conversation is. Without, "
                "one is made that is deleted soon. What the thread has already is recognised by its words; what "
                "differs makes a version of it. `Idempotency-Key` names the run: a repeated request gets its answer."
            ),
        )
    ]
)

PROTOCOL = WireProtocol("chat_completions", _routes, error_form=openai_error_form, api=_API, settings=CHAT_SECTION)
