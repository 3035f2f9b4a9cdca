"""The Gemini model over real sockets, with the faults that providers have."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from gateway.errors import ModelErrorKind
from gateway.events import StopReason
from gateway.messages import Message, TextBlock, ToolSpec
from gateway.model import Model, ModelRequest
from gateway.models.gemini_generatecontent import PROVIDER
from tests import provider_scene
from tests.gemini_chunks import chunk
from tests.model_answers import answer_of, collect
from tests.openai_chat_server import ChatServer, Script, chat_server
from tests.provider_scene import Fault, connection_faults, failure_of

MODEL = "gemini-3-pro"
KEY = "AIza-secret-0123456789"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("a b", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def model_behind(*scripts: Script) -> AbstractAsyncContextManager[tuple[Model, ChatServer]]:
    return provider_scene.model_behind(PROVIDER, MODEL, *scripts, server=chat_server, key=KEY)


def refused(status: int, word: str, message: str = "no") -> Script:
    body = json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()
    return Script(status, (body,), "application/json", framing="length")


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    script = Script(pieces=(chunk({"text": "Hel"}), chunk({"text": "lo 👋"}, finish="STOP")))
    async with model_behind(script) as (model, server):
        answer = answer_of(await collect(model.stream(REQUEST)))
    assert (answer.text, answer.stop) == ("Hello 👋", StopReason.END_TURN)
    (received,) = server.requests
    assert (received.method, received.target) == ("POST", f"/v1/models/{MODEL}:streamGenerateContent?alt=sse")
    assert received.headers["x-goog-api-key"] == KEY
    assert received.json["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


async def test_closing_the_stream_closes_the_socket() -> None:
    async with model_behind(Script(pieces=(chunk({"text": "Hi"}),), ending="silence")) as (model, server):
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


CUT = (chunk({"text": "Hel"}),)
FAULTS: dict[str, Fault] = {
    "429": (refused(429, "RESOURCE_EXHAUSTED"), ModelErrorKind.THROTTLED, True),
    "503": (refused(503, "UNAVAILABLE"), ModelErrorKind.OVERLOADED, True),
    "500": (refused(500, "INTERNAL"), ModelErrorKind.SERVER, True),
    "403": (refused(403, "PERMISSION_DENIED", f"key {KEY} has no access"), ModelErrorKind.AUTHENTICATION, False),
    "404": (refused(404, "NOT_FOUND"), ModelErrorKind.NOT_FOUND, False),
    "400": (refused(400, "INVALID_ARGUMENT"), ModelErrorKind.INVALID, False),
    "too long": (
        refused(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        ModelErrorKind.CONTEXT_OVERFLOW,
        False,
    ),
    **connection_faults(CUT),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_of_its_kind_and_never_an_end(fault: str) -> None:
    script, kind, retryable = FAULTS[fault]
    async with model_behind(script) as (model, _):
        error = await failure_of(model, REQUEST, key=KEY)
    assert (error.kind, error.retryable) == (kind, retryable)


async def test_an_answer_whose_connection_breaks_after_its_finish_reason_is_whole() -> None:
    script = Script(pieces=(chunk({"text": "Hi"}, finish="STOP"),), ending="close")
    async with model_behind(script) as (model, _):
        assert answer_of(await collect(model.stream(REQUEST))).stop is StopReason.END_TURN
