"""The chat completions model over real sockets, with the faults that providers have."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from gateway.agent import ModelTimeouts
from gateway.clock import Clock
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, ModelCallEnded, StopReason, TextDelta, TextStarted
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelRequest
from gateway.models.openai_chat_completions import PROVIDER
from gateway.providers.failures import SAYS
from gateway.turns.attempts import stream_with_retries
from tests import provider_scene
from tests.model_answers import collect
from tests.movable_clock import MovableClock
from tests.openai_chat_server import DONE, ChatServer, Script, chat_server, completion, error, record, text_records
from tests.provider_scene import KEY, Fault, connection_faults

REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),), parameters={"max_tokens": 9})
TIMEOUTS = ModelTimeouts()


def model_behind(
    *scripts: Script, clock: Clock | None = None, key: str = KEY, timeouts: ModelTimeouts = TIMEOUTS
) -> AbstractAsyncContextManager[tuple[Model, ChatServer]]:
    return provider_scene.model_behind(
        PROVIDER, "gpt-x", *scripts, server=chat_server, clock=clock, key=key, timeouts=timeouts
    )


async def events_of(model: Model) -> Events:
    return await collect(model.stream(REQUEST))


def text_of(events: Events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def failure_of(model: Model) -> ModelError:
    return await provider_scene.failure_of(model, REQUEST)


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    async with model_behind(completion("Hel", "lo ", "wörld 👋")) as (model, server):
        events = await events_of(model)
    assert text_of(events) == "Hello wörld 👋"
    assert events[-1] == ModelCallEnded(StopReason.END_TURN, "stop")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
    }


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_bytes_cut_anywhere_also_within_a_character_give_the_same(size: int) -> None:
    async with model_behind(completion("grüß", "👋🏽 日本", split=size)) as (model, _):
        assert text_of(await events_of(model)) == "grüß👋🏽 日本"


async def test_events_are_there_before_the_answer_is() -> None:
    more = asyncio.Event()
    script = Script(pieces=(text_records("Hi", finish_reason=None)[1],), hold=more, ending="close")
    async with model_behind(script) as (model, _), aclosing(model.stream(REQUEST)) as batches:
        first = await anext(batches)
        assert [type(event) for event in first] == [TextStarted, TextDelta]
        more.set()
        with pytest.raises(ModelError):
            await anext(batches)


async def test_a_burst_is_one_batch() -> None:
    body = b"".join([*text_records(*"abcdefgh"), DONE])
    script = Script(pieces=(body,), framing="length")
    async with model_behind(script) as (model, _), aclosing(model.stream(REQUEST)) as batches:
        assert len([events async for events in batches]) <= 2  # the head may come in a read of its own


async def test_calls_in_a_row_share_a_connection() -> None:
    async with model_behind(completion("one")) as (model, server):
        server.repeat = True
        for _ in range(3):
            await events_of(model)
    assert server.connections == 1


async def test_closing_the_stream_closes_the_socket() -> None:
    script = Script(pieces=text_records("Hi", finish_reason=None), ending="silence")
    async with model_behind(script) as (model, server):
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


async def test_a_document_instead_of_a_stream_is_an_answer_too() -> None:
    document = b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'
    async with model_behind(Script(pieces=(document,), content_type="application/json")) as (model, _):
        assert text_of(await events_of(model)) == "Hi"


async def test_an_answer_whose_connection_hangs_or_breaks_after_its_finish_reason_is_whole() -> None:
    records = text_records("Hi")
    async with model_behind(Script(pieces=records, ending="close")) as (model, _):
        assert text_of(await events_of(model)) == "Hi"
    async with model_behind(Script(pieces=[*records, DONE], ending="silence")) as (model, server):
        assert (await events_of(model))[-1] == ModelCallEnded(StopReason.END_TURN, "stop")
        await server.requests[0].disconnected.wait()


# --- faults ----------------------------------------------------------------------------------------------------------

CUT = text_records("Hel", "lo", finish_reason=None)
FAULTS: dict[str, Fault] = {
    "429": (error(429, "slow down"), ModelErrorKind.THROTTLED, True),
    "429 for good": (error(429, "pay", code="insufficient_quota"), ModelErrorKind.QUOTA, False),
    "500": (error(500), ModelErrorKind.SERVER, True),
    "529": (error(529), ModelErrorKind.OVERLOADED, True),
    "401": (error(401, f"Incorrect API key provided: {KEY}"), ModelErrorKind.AUTHENTICATION, False),
    "404": (error(404), ModelErrorKind.NOT_FOUND, False),
    "400": (error(400), ModelErrorKind.INVALID, False),
    "too long": (error(400, "maximum context length is 8", code=None), ModelErrorKind.CONTEXT_OVERFLOW, False),
    "a broken chunk": (Script(pieces=(*CUT, b'data: {"choices": [{\n\n')), ModelErrorKind.PROTOCOL, True),
    "an error in the middle": (
        Script(pieces=(*CUT, record({"error": {"message": "x", "type": "overloaded_error"}}))),
        ModelErrorKind.OVERLOADED,
        True,
    ),
    **connection_faults(CUT),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_of_its_kind_and_never_an_end(fault: str) -> None:
    script, kind, retryable = FAULTS[fault]
    async with model_behind(script) as (model, _):
        failed = await failure_of(model)
    assert (failed.kind, failed.retryable, failed.code) == (kind, retryable, f"model_{kind}")


async def test_what_came_before_a_reset_is_kept() -> None:
    cut = asyncio.Event()
    async with model_behind(Script(pieces=CUT, hold=cut, ending="reset")) as (model, _):
        seen: list[str] = []

        async def read() -> None:
            async with aclosing(model.stream(REQUEST)) as batches:
                async for events in batches:
                    seen.append(text_of(events))
                    if "".join(seen) == "Hello":
                        cut.set()

        with pytest.raises(ModelError) as caught:
            await read()
    assert "".join(seen) == "Hello"
    assert caught.value.kind is ModelErrorKind.NETWORK


async def test_silence_ends_in_a_timeout_and_a_closed_socket() -> None:
    clock = MovableClock()
    async with model_behind(Script(pieces=CUT, ending="silence"), clock=clock) as (model, server):
        task = asyncio.create_task(failure_of(model))
        await server.received()
        await clock.until_timer(120)
        await clock.advance(131)
        failed = await task
        await server.requests[0].disconnected.wait()
    assert failed.kind is ModelErrorKind.TIMEOUT


async def test_the_operators_timeouts_count() -> None:
    clock, timeouts = MovableClock(), ModelTimeouts(idle_seconds=5)
    async with model_behind(Script(pieces=CUT, ending="silence"), clock=clock, timeouts=timeouts) as (model, _):
        task = asyncio.create_task(failure_of(model))
        await clock.until_timer(5)
        await clock.advance(6)
        assert (await task).kind is ModelErrorKind.TIMEOUT


@pytest.mark.parametrize(
    ("headers", "message", "seconds", "retryable"),
    [
        ([("retry-after", "7")], "x", 7.0, True),
        ([("retry-after-ms", "1500"), ("retry-after", "7")], "x", 1.5, True),
        ([], "Please try again in 3s.", 3.0, True),
        ([("x-should-retry", "false")], "x", None, False),
        ([], "x", None, True),
    ],
)
async def test_what_the_provider_says_about_trying_again_is_known(
    headers: list[tuple[str, str]], message: str, seconds: float | None, retryable: bool
) -> None:
    script = error(429, message)
    script.headers = headers
    async with model_behind(script) as (model, _):
        failed = await failure_of(model)
    assert (failed.retry_after_seconds, failed.retryable) == (seconds, retryable)


async def test_where_nothing_was_found_is_told_to_the_log() -> None:
    async with model_behind(error(404, "no such route"), error(401, "no")) as (model, server):
        not_found, refused = await failure_of(model), await failure_of(model)
    assert not_found.provider_message == f"{server.endpoint}/chat/completions: no such route"
    assert refused.provider_message == "no"


async def test_faults_before_the_first_word_are_mended_and_the_wait_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    clock = MovableClock()
    scripts = (error(429, retry_after=2), Script(pieces=(b"<html>",)), completion("Hi"))
    async with model_behind(*scripts, clock=clock) as (model, server):

        async def run() -> Events:
            batches = stream_with_retries(model, REQUEST, clock, 3, jitter=lambda: 0.5)
            return [event async for events in batches for event in events]

        with caplog.at_level(logging.WARNING):
            task = asyncio.create_task(run())
            await clock.until_timer(2.25)
            assert len(server.requests) == 1
            await clock.advance(2.25)
            await clock.until_timer(0.5)
            await clock.advance(0.5)
            assert text_of(await task) == "Hi"
    assert [entry.__dict__["code"] for entry in caplog.records] == ["model_throttled", "model_protocol"]
    assert KEY not in caplog.text


async def test_faults_after_the_first_word_are_not() -> None:
    async with model_behind(Script(pieces=CUT), completion("again")) as (model, server):
        seen: Events = []

        async def read() -> None:
            async for events in stream_with_retries(model, REQUEST, MovableClock(), 3):
                seen.extend(events)

        with pytest.raises(ModelError):
            await read()
        assert len(server.requests) == 1
    assert text_of(seen) == "Hello"


def test_every_kind_of_error_has_its_words() -> None:
    assert set(SAYS) == set(ModelErrorKind)
