"""The Responses model over real sockets, with the faults that providers have."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

import pytest

from gateway.agent import ModelSettings
from gateway.clock import Clock, SystemClock
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, ModelCallEnded, ModelCallStarted, Raw, StopReason, TextDelta, TextStarted
from gateway.history.model_view import model_view
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, Message, TextBlock, ToolResult, ToolSpec
from gateway.model import Model, ModelEnvironment, ModelRequest
from gateway.models.openai_responses import PROVIDER
from gateway.openai.chat_completions import safe_tool_name
from gateway.transcript import Transcript
from gateway.turns.attempts import stream_with_retries
from tests import provider_scene
from tests.model_answers import answer_of, collect
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script, error
from tests.provider_scene import KEY
from tests.responses_events import (
    Stream,
    call_item,
    error_event,
    message_item,
    reasoning_item,
    stream_events,
    web_search_item,
)
from tests.responses_recordings import recorded_bytes, recordings
from tests.responses_rules import accept
from tests.responses_server import ResponsesServer, responses_server

QUESTION = Message("u", "user", (TextBlock("Hi"),))
TOOLS = (ToolSpec("add", "Adds.", {}), ToolSpec("shop.find", "", {}))
REQUEST = ModelRequest("turn", (QUESTION,), tools=TOOLS)


def model_behind(
    *scripts: Script, model_id: str = "gpt-5.6", clock: Clock | None = None, key: str = KEY, **settings: Any
) -> AbstractAsyncContextManager[tuple[Model, ResponsesServer]]:
    return provider_scene.model_behind(
        PROVIDER, model_id, *scripts, server=responses_server, clock=clock, key=key, **settings
    )


async def failure_of(model: Model, into: Events | None = None) -> ModelError:
    return await provider_scene.failure_of(model, REQUEST, into)


def body_of(*items: Any, **ending: Any) -> bytes:
    return b"".join(map(Stream().record, stream_events(items, **ending)))


# --- an answer -------------------------------------------------------------------------------------------------------


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    async with model_behind() as (model, server):
        server.will_answer(message_item("Hello wörld 👋"))
        events = await collect(model.stream(ModelRequest("t", (QUESTION,), parameters={"max_output_tokens": 9})))
    assert answer_of(events).text == "Hello wörld 👋"
    assert events[-1] == ModelCallEnded(StopReason.END_TURN, "completed")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/responses")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "model": "gpt-5.6",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9,
    }
    assert server.responses == {}, "nothing is stored"


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_bytes_cut_anywhere_also_within_a_character_give_the_same(size: int) -> None:
    async with model_behind() as (model, server):
        server.piece_bytes = size
        server.will_answer(message_item("grüß👋🏽 日本"))
        assert answer_of(await collect(model.stream(REQUEST))).text == "grüß👋🏽 日本"


async def test_the_data_may_stand_before_the_events_name() -> None:
    async with model_behind() as (model, server):
        server.data_first = True
        server.will_answer(message_item("Hi"), call_item("add"))
        assert answer_of(await collect(model.stream(REQUEST))).stop is StopReason.TOOL_CALLS


async def test_events_are_there_before_the_answer_is() -> None:
    more = asyncio.Event()
    async with model_behind() as (model, server):
        server.will_answer(message_item("Hi"), hold=more, hold_before=5)
        async with aclosing(model.stream(REQUEST)) as batches:
            first = await anext(batches)
            assert [type(event) for event in first] == [TextStarted, TextDelta]
            more.set()
            assert [event async for batch in batches for event in batch][-1] == ModelCallEnded(
                StopReason.END_TURN, "completed"
            )


async def test_a_burst_is_one_batch() -> None:
    script = Script(pieces=(body_of(message_item("abcdefgh"), call_item("add")),), framing="length")
    async with model_behind(script) as (model, _), aclosing(model.stream(REQUEST)) as batches:
        assert len([events async for events in batches]) <= 2  # the head may come in a read of its own


async def test_calls_one_after_the_other_use_one_connection() -> None:
    async with model_behind() as (model, server):
        for _ in range(3):
            server.will_answer(message_item("Hi"))
            await collect(model.stream(REQUEST))
        assert server.connections == 1


async def test_leaving_closes_the_socket() -> None:
    async with model_behind() as (model, server):
        server.will_answer(message_item("Hi"), hold=asyncio.Event(), hold_before=5)
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


async def test_a_document_instead_of_a_stream_is_an_answer_too() -> None:
    async with model_behind() as (model, server):
        server.will_answer(reasoning_item("Hm", encrypted="x"), message_item("Hi"), call_item("add", '{"a":1}', "c"))
        request = ModelRequest("t", (QUESTION,), tools=TOOLS, parameters={"stream": False})
        found = answer_of(await collect(model.stream(request)))
    assert (found.text, found.reasoning, found.calls) == ("Hi", "Hm", [("c", "add", '{"a":1}')])


# --- a conversation --------------------------------------------------------------------------------------------------


async def test_a_tool_loop_with_everything_in_it_is_sent_back_as_it_came() -> None:
    """Three calls of the model, each with the whole history so far, and a server that refuses what is not right."""
    citation: JsonObject = {"type": "url_citation", "url": "https://h/", "title": "H", "start_index": 0, "end_index": 1}
    first = [
        reasoning_item("Think", encrypted="gAAA1"),
        web_search_item("weather"),
        message_item("I look.", annotations=[citation], phase="commentary"),
        call_item(safe_tool_name("shop.find"), "{}", "call_0"),
    ]
    history: list[Message] = [QUESTION]
    async with model_behind() as (model, server):
        server.will_answer(*first)
        server.will_answer(reasoning_item(encrypted="gAAA2"), call_item("add", '{"a":1}', "call_0"))
        server.will_answer(message_item("Done", phase="final_answer"))
        for turn in range(3):
            request = ModelRequest(f"t{turn}", model_view(history), tools=TOOLS)
            history += await answered(model, request)
    for request_sent in server.requests:
        accept(request_sent.json)
    kinds = [item.get("type", item.get("role")) for item in server.requests[2].json["input"]]
    assert kinds == [
        "user",
        "reasoning",
        "web_search_call",
        "assistant",
        "function_call",
        "function_call_output",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    sent = server.requests[2].json["input"]
    assert [sent[1], sent[2]] == first[:2]
    assert sent[3] == {"role": "assistant", "content": "I look.", "phase": "commentary"}
    assert sent[4]["call_id"] != sent[7]["call_id"], "one id for two calls would answer the wrong one"
    assert (sent[4]["call_id"], sent[7]["call_id"]) == (sent[5]["call_id"], sent[8]["call_id"])


async def answered(model: Model, request: ModelRequest) -> list[Message]:
    """What one response adds to a thread, with a result for each call."""
    transcript = Transcript()
    transcript.follow([ModelCallStarted(request.turn_id, model.provider, model.model_id)])
    async with aclosing(model.stream(request)) as batches:
        async for events in batches:
            transcript.follow(events)
    messages = list(transcript.messages)
    calls = [call for message in messages for call in message.tool_calls]
    results = [
        Message(f"r{call.call_id}", "tool", (ToolResult(call.call_id, (TextBlock("3"),)),), turn_id=request.turn_id)
        for call in calls
    ]
    return [*messages, *results]


async def test_a_model_without_sealed_reasoning_is_asked_once_more_without_it_and_then_never_again() -> None:
    async with model_behind(model_id="somebodys-model") as (model, server):
        server.sealed_reasoning = False
        for _ in range(2):
            server.will_answer(message_item("Hi"))
            assert answer_of(await collect(model.stream(REQUEST))).text == "Hi"
    assert ["include" in request.json for request in server.requests] == [True, False, False]


async def test_reasoning_that_the_server_cannot_open_any_more_is_left_out_from_then_on() -> None:
    history: list[Message] = [QUESTION]
    async with model_behind() as (model, server):
        for seal in ("one", "one", "two", "two"):
            server.will_answer(reasoning_item(encrypted=f"{seal}-x"), message_item("Hi"))
            server.seal = seal
            history += await answered(model, ModelRequest(f"t{len(history)}", model_view(history)))
            history.append(replace(QUESTION, id=f"u{len(history)}"))
        sealed = [[i["encrypted_content"] for i in r.json["input"] if "summary" in i] for r in server.requests]
    assert sealed == [[], ["one-x"], ["one-x", "one-x"], [], ["two-x"]]


# --- faults ----------------------------------------------------------------------------------------------------------

STATUSES = [
    (error(429, "slow down", retry_after=7), ModelErrorKind.THROTTLED, True),
    (error(429, "pay", code="insufficient_quota"), ModelErrorKind.QUOTA, False),
    (error(500), ModelErrorKind.SERVER, True),
    (error(503), ModelErrorKind.OVERLOADED, True),
    (error(401, f"Incorrect API key provided: {KEY}"), ModelErrorKind.AUTHENTICATION, False),
    (error(404, "The model does not exist", code="model_not_found"), ModelErrorKind.NOT_FOUND, False),
    (error(400, "Your input exceeds the context window", code="context_length_exceeded"), "context_overflow", False),
    (error(400, "Invalid 'temperature'"), ModelErrorKind.INVALID, False),
    (Script(302, headers=[("location", "http://h/")]), ModelErrorKind.PROTOCOL, False),
    (Script(502, (b"<html>Bad Gateway</html>",), "text/html"), ModelErrorKind.OVERLOADED, True),
]


@pytest.mark.parametrize(("script", "kind", "retryable"), STATUSES)
async def test_a_status_that_is_no_success_is_an_error_of_its_kind(script: Script, kind: str, retryable: bool) -> None:
    async with model_behind(script) as (model, _):
        failed = await failure_of(model)
    assert (failed.kind, failed.retryable) == (kind, retryable)


async def test_the_wait_that_the_provider_asks_for_is_passed_on() -> None:
    async with model_behind(error(429, retry_after=7)) as (model, _):
        assert (await failure_of(model)).retry_after_seconds == 7


async def test_the_recorded_refusal_is_an_invalid_request() -> None:
    (entry,) = [entry for entry in recordings("json") if entry["status"] == 400]
    script = Script(400, (recorded_bytes(entry),), "application/json", framing="length")
    async with model_behind(script) as (model, _):
        failed = await failure_of(model)
    assert failed.kind is ModelErrorKind.INVALID
    assert "temperature" in failed.provider_message


WHOLE = body_of(message_item("Hello"))
HALF = WHOLE[: WHOLE.index(b"response.output_text.done")]

BODIES = [
    (Script(pieces=(b"<!doctype html><p>no",), content_type="text/html"), "protocol", ""),
    (Script(), "truncated", ""),
    (Script(pieces=(HALF,)), "truncated", "Hello"),
    (Script(pieces=(HALF,), ending="reset"), "network", "Hello"),
    (Script(pieces=(HALF,), ending="close"), "network", "Hello"),
    (Script(pieces=(HALF, b"\n\ndata: [DONE]\n\n")), "truncated", "Hello"),
    (Script(pieces=(HALF, b'\n\ndata: {"type": "resp\n\n')), "protocol", "Hello"),
    (Script(pieces=(HALF, b"\n\n", Stream().record(error_event(code="server_error", message="x")))), "server", "Hello"),
    (
        Script(pieces=(body_of(message_item("Hello"), status="failed", error={"code": "rate_limit_exceeded"}),)),
        "throttled",
        "Hello",
    ),
    (Script(raw=b"nonsense\r\n\r\n"), "protocol", ""),
    (Script(pieces=(WHOLE,), headers=[("content-encoding", "gzip")]), "protocol", ""),
]


@pytest.mark.parametrize(("script", "kind", "text"), BODIES)
async def test_an_answer_that_goes_wrong_is_an_error_after_what_was_said(script: Script, kind: str, text: str) -> None:
    async with model_behind(script) as (model, _):
        events: Events = []
        failed = await failure_of(model, events)
    assert failed.kind == kind
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert not any(isinstance(event, ModelCallEnded) for event in events)


@pytest.mark.parametrize("after", [0, 1, 50, 300, 700])
async def test_a_reset_after_any_number_of_bytes_is_an_error(after: int) -> None:
    async with model_behind(Script(pieces=[WHOLE[:after]] if after else [], ending="reset")) as (model, _):
        assert (await failure_of(model)).kind is ModelErrorKind.NETWORK


async def test_what_comes_after_the_last_event_does_not_matter() -> None:
    async with model_behind(Script(pieces=(WHOLE,), ending="reset")) as (model, _):
        assert answer_of(await collect(model.stream(REQUEST))).text == "Hello"


async def test_silence_ends_in_a_timeout() -> None:
    clock = MovableClock()
    async with model_behind(Script(pieces=(HALF,), ending="silence"), clock=clock) as (model, server):
        asking = asyncio.create_task(failure_of(model))
        await server.received()
        await clock.until_timer(120)
        await clock.advance(121)
        assert (await asking).kind is ModelErrorKind.TIMEOUT


async def test_a_try_that_nobody_saw_anything_of_is_repeated() -> None:
    clock = MovableClock()
    scripts = (error(503), Script(), Script(pieces=(WHOLE,)))
    async with model_behind(*scripts, clock=clock) as (model, server):
        tries = stream_with_retries(model, REQUEST, clock, 3, jitter=lambda: 0.0)
        assert answer_of(await collect(tries)).text == "Hello"
        assert len(server.requests) == 3


async def test_sealed_reasoning_and_searches_alone_are_nothing_that_anybody_saw() -> None:
    clock = MovableClock()
    begun = stream_events([reasoning_item(encrypted="x"), web_search_item("y"), message_item("Hello")])
    events = [*begun[: [event["type"] for event in begun].index("response.content_part.added")], error_event()]
    script = Script(pieces=[Stream().record(event) for event in events])
    async with model_behind(script, Script(pieces=(WHOLE,)), clock=clock) as (model, server):
        tries = stream_with_retries(model, REQUEST, clock, 3, jitter=lambda: 0.0)
        found = [event for event in await collect(tries) if not isinstance(event, Raw)]
        assert answer_of(found).text == "Hello"
        assert answer_of(found).opaques == []
        assert len(server.requests) == 2


async def test_a_try_of_which_something_was_seen_is_not_repeated() -> None:
    clock = MovableClock()
    async with model_behind(Script(pieces=(HALF,)), Script(pieces=(WHOLE,)), clock=clock) as (model, server):
        with pytest.raises(ModelError, match="cut off"):
            await collect(stream_with_retries(model, REQUEST, clock, 3))
        assert len(server.requests) == 1


# --- settings --------------------------------------------------------------------------------------------------------


def opened(**settings: Any) -> Model:
    clock = SystemClock()
    return PROVIDER.open(ModelSettings(PROVIDER.name, "gpt-5", **settings), ModelEnvironment(clock, HttpClients(clock)))


async def test_params_go_out_last_and_the_log_shows_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with model_behind(params={"service_tier": "flex", "store": True}) as (model, server):
        await collect(model.stream(ModelRequest("t", (QUESTION,), parameters={"service_tier": "auto"})))
    assert server.requests[0].json["service_tier"] == "flex"
    assert server.requests[0].json["store"] is True
    assert [vars(record)["params"] for record in caplog.records if "params" in vars(record)] == [
        {"service_tier": "flex", "store": True}
    ]


def test_a_parameter_that_the_model_refuses_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    opened(endpoint="http://127.0.0.1:1", model_parameters={"temperature": 0.5, "max_output_tokens": 5})
    (record,) = caplog.records
    assert vars(record)["parameters"] == ["temperature"]


def test_what_a_model_takes_is_told() -> None:
    capabilities = opened(endpoint="http://127.0.0.1:1").capabilities
    assert (capabilities.reasoning, capabilities.image_input, capabilities.document_input) == (True, True, True)
    assert not capabilities.audio_input
