"""The Messages model over real sockets, with the faults that providers have."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from gateway.errors import ModelErrorKind
from gateway.events import StopReason
from gateway.messages import Message, TextBlock, ToolSpec
from gateway.model import Model, ModelRequest
from gateway.models.anthropic_messages import PROVIDER
from tests import provider_scene
from tests.anthropic_events import text, whole
from tests.model_answers import answer_of, collect
from tests.openai_chat_server import ChatServer, Script, chat_server
from tests.provider_scene import Fault, connection_faults, failure_of

MODEL = "claude-sonnet-4-5"
KEY = "sk-ant-secret-0123456789"
HELLO = Message("u1", "user", (TextBlock("Hi"),))
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("shop.find", "", {}))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def model_behind(*scripts: Script) -> AbstractAsyncContextManager[tuple[Model, ChatServer]]:
    return provider_scene.model_behind(PROVIDER, MODEL, *scripts, server=chat_server, key=KEY)


def failed(status: int, kind: str, message: str = "no") -> Script:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).encode()
    return Script(status, (body,), "application/json", framing="length")


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    request = ModelRequest("turn", (HELLO,), parameters={"anthropic_beta": ["a-1", "b-2"], "max_tokens": 9})
    async with model_behind(Script(pieces=whole(*text(0, "Hel", "lo 👋")))) as (model, server):
        answer = answer_of(await collect(model.stream(request)))
    assert answer.text == "Hello 👋"
    assert answer.stop is StopReason.END_TURN
    (received,) = server.requests
    assert (received.method, received.target) == ("POST", "/v1/messages")
    assert received.headers["x-api-key"] == KEY
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert received.headers["anthropic-beta"] == "a-1,b-2"
    assert received.json["max_tokens"] == 9
    assert "anthropic_beta" not in received.json


async def test_closing_the_stream_closes_the_socket() -> None:
    script = Script(pieces=whole(*text(0, "Hi"))[:-2], ending="silence")
    async with model_behind(script) as (model, server):
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


CUT = whole(*text(0, "Hel", "lo"))[:-2]
FAULTS: dict[str, Fault] = {
    "429": (failed(429, "rate_limit_error"), ModelErrorKind.THROTTLED, True),
    "529": (failed(529, "overloaded_error"), ModelErrorKind.OVERLOADED, True),
    "500": (failed(500, "api_error"), ModelErrorKind.SERVER, True),
    "401": (failed(401, "authentication_error", f"invalid x-api-key {KEY}"), ModelErrorKind.AUTHENTICATION, False),
    "404": (failed(404, "not_found_error"), ModelErrorKind.NOT_FOUND, False),
    "400": (failed(400, "invalid_request_error"), ModelErrorKind.INVALID, False),
    "too long": (
        failed(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
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
