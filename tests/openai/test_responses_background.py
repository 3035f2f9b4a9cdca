"""Responses that the provider works on in the background: followed, polled, taken up again, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import Clock, SystemClock
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events, ModelCallAccepted, ModelCallEnded, StopReason
from gateway.http_client.clients import HttpClients
from gateway.messages import Message, TextBlock, ToolSpec
from gateway.model import Model, ModelEnvironment, ModelRequest, StatefulModel
from gateway.models import bedrock_responses, openai_responses
from gateway.openai.responses_background import FIRST_WAIT_SECONDS, GIVE_UP_SECONDS
from gateway.openai.responses_model import NAMING_SECONDS
from gateway.openai.responses_stored import MOST_DELETIONS, OUTLIVED_SECONDS
from gateway.turns.attempts import stream_with_retries
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY
from tests.model_answers import answer_of, collect
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script, error
from tests.pieces import pieces
from tests.responses_events import call_item, message_item, reasoning_item, stream_events
from tests.responses_rules import accept
from tests.responses_server import ResponsesServer, Stored, responses_server
from tests.waiting import until

DEADLINE_SECONDS = 20
QUESTION = Message("u", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (QUESTION,), tools=(ToolSpec("add", "Adds.", {}),))
OPENAI: dict[str, Any] = {"model_id": "gpt-5.6", "credential": {"openai_api_key": Secret("sk-x")}}
BEDROCK: dict[str, Any] = {
    "model_id": "openai.gpt-5.6-luna",
    "region": REGION,
    "credential": {"access_key": Secret(ACCESS_KEY), "secret_key": Secret(SECRET_KEY)},
}
ITEMS = (reasoning_item("Let me see"), message_item("Hello wörld"), call_item("add", '{"a":1}', "call_0"))
EVENTS = len(stream_events(ITEMS, background=True))


@asynccontextmanager
async def model_behind(
    provider: Any = openai_responses, clock: Clock | None = None, **settings: Any
) -> AsyncGenerator[tuple[Model, ResponsesServer]]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        clock = clock or SystemClock()
        http = HttpClients(clock)
        own = OPENAI if provider is openai_responses else BEDROCK
        endpoint = server.endpoint if provider is openai_responses else f"http://127.0.0.1:{server.port}"
        whole = {"endpoint": endpoint, "background": True, **own, **settings}
        model: Model = provider.PROVIDER.open(ModelSettings(provider.NAME, **whole), ModelEnvironment(clock, http))
        try:
            yield model, server
        finally:
            await model.close()
            await http.close()


def asked(server: ResponsesServer) -> list[tuple[str, str]]:
    """What was asked for, without what all have in common, but for what was deleted."""
    every = [(request.method, request.target.partition("/responses")[2]) for request in server.requests]
    return [call for call in every if call[0] != "DELETE"]


def deleted(server: ResponsesServer) -> list[str]:
    """The responses that were deleted."""
    return [request.target.rpartition("/")[2] for request in server.requests if request.method == "DELETE"]


# --- an answer


@pytest.mark.parametrize("provider", [openai_responses, bedrock_responses])
async def test_an_undisturbed_answer_is_as_any_other(provider: Any) -> None:
    async with model_behind(provider) as (model, server):
        server.will_answer(*ITEMS)
        events = await collect(model.stream(REQUEST))
        (request,) = server.requests
        accept(request.json)
        assert (request.json["background"], request.json["store"]) == (True, True)
        (stored,) = server.asked
        assert events[0] == ModelCallAccepted(stored.id)
        answer = answer_of(events)
        assert answer.text == "Hello wörld"
        assert events[-1] == ModelCallEnded(StopReason.TOOL_CALLS, "completed", stored.id)
        assert model.capabilities.background
        assert not model.capabilities.is_stateful


# --- lost connections


@pytest.mark.parametrize("provider", [openai_responses, bedrock_responses])
@pytest.mark.parametrize("cut", range(1, EVENTS))
async def test_wherever_the_connection_breaks_the_answer_is_the_same(provider: Any, cut: int) -> None:
    async with model_behind(provider) as (model, server):
        server.will_answer(*ITEMS, cut_before=cut)
        events = await collect(model.stream(REQUEST))
    assert [type(event) for event in events].count(ModelCallAccepted) == 1
    answer = answer_of(events)
    assert answer.text == "Hello wörld"
    assert answer.reasoning == "Let me see"
    assert answer.calls == [("call_0", "add", '{"a":1}')]
    again = f"/{server.asked[0].id}?stream=true&starting_after={cut - 1}"
    assert asked(server) == [("POST", ""), ("GET", again)]


@pytest.mark.parametrize("cut", range(1, EVENTS - 1))
async def test_where_the_server_does_not_stream_again_it_is_asked_until_it_is_over(cut: int) -> None:
    async with model_behind() as (model, server):
        hold = asyncio.Event()
        server.streams_again = False
        server.will_answer(*ITEMS, cut_before=cut, hold=hold, hold_before=cut + 1)
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(3)
        hold.set()
        answer = answer_of(await task)
    assert answer.text == "Hello wörld"
    assert answer.reasoning == "Let me see"
    assert answer.calls == [("call_0", "add", '{"a":1}')]
    assert set(asked(server)[2:]) == {("GET", f"/{server.asked[0].id}")}


async def test_a_server_that_answers_with_a_document_is_asked_until_it_is_over() -> None:
    """Some know `background` and no `stream` with it."""
    async with model_behind() as (model, server):
        hold = asyncio.Event()
        server.streams = False
        server.will_answer(*ITEMS, hold=hold, hold_before=4)
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(3)
        hold.set()
        events = await task
    assert events[0] == ModelCallAccepted(server.asked[0].id)
    assert answer_of(events).text == "Hello wörld"
    assert {call[0] for call in asked(server)[1:]} == {"GET"}


async def test_a_provider_out_of_reach_is_asked_again_and_given_up_after_a_while() -> None:
    clock = MovableClock()
    async with model_behind(clock=clock) as (model, server):
        server.will_answer(*ITEMS, cut_before=6, hold=asyncio.Event(), hold_before=7)
        events: Events = []
        task = asyncio.create_task(collect(model.stream(REQUEST), events))
        await server.received(1)
        await clock.until(lambda: events)
        server.repeat = True
        server.answers(Script(503, (b"{}",), "application/json", framing="length"))
        began = clock.monotonic()
        count = 1
        while clock.monotonic() - began <= GIVE_UP_SECONDS and not task.done():
            await clock.until(lambda: task.done() or any(0 < due <= 5.0 for due in clock.pending))
            await clock.advance(5.0)
            count += 1
        with pytest.raises(ModelError) as caught:
            await task
    assert caught.value.kind is ModelErrorKind.OVERLOADED
    assert 20 < len(server.requests) < 200


async def test_a_response_that_is_gone_says_so_and_may_be_asked_for_again() -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS, cut_before=2, hold=asyncio.Event(), hold_before=3)
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(1)
        server.expire()
        with pytest.raises(ModelError) as caught:
            await task
    assert caught.value.retryable
    assert "does not know its answer any more" in caught.value.message


async def test_a_failed_response_is_no_lost_connection() -> None:
    async with model_behind() as (model, server):
        failed = {"error": {"code": "server_error", "message": "no"}}
        server.will_answer(*ITEMS, status="failed", fields=failed, cut_before=8)
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(REQUEST))
    assert caught.value.kind is ModelErrorKind.SERVER
    assert [method for method, _ in asked(server)] == ["POST", "GET"]


async def test_an_error_in_the_stream_is_no_lost_connection() -> None:
    async with model_behind() as (model, server):
        body = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_x","status":"queued"}}\n\n'
        wrong = b'data: {"type":"error","sequence_number":1,"code":"server_error","message":"no"}\n\n'
        server.answers(Script(200, (body + wrong,)))
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(REQUEST))
    assert caught.value.kind is ModelErrorKind.SERVER


# --- stopped


@pytest.mark.parametrize("provider", [openai_responses, bedrock_responses])
@pytest.mark.parametrize("how", ["closed", "cancelled"])
async def test_who_stops_listening_stops_the_providers_work(provider: Any, how: str) -> None:
    async with model_behind(provider) as (model, server):
        server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
        events: Events = []
        if how == "closed":
            async with aclosing(model.stream(REQUEST)) as batches:
                events += await anext(batches)
        else:
            task = asyncio.create_task(collect(model.stream(REQUEST), events))
            await until(lambda: events)
            task.cancel()
            await asyncio.wait((task,))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.received(2)
        await model.close()
        assert asked(server)[1] == ("POST", f"/{server.asked[0].id}/cancel")
        assert server.asked[0].status == "cancelled"


async def stopped_before_it_has_a_name(model: Model, server: ResponsesServer) -> asyncio.Event:
    """What lets the provider say its name."""
    name = asyncio.Event()
    server.will_answer(*ITEMS, named=name, hold=asyncio.Event())
    task = asyncio.create_task(collect(model.stream(REQUEST)))
    await server.received(1)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    return name


@pytest.mark.parametrize("provider", [openai_responses, bedrock_responses])
async def test_a_response_that_had_no_name_yet_is_stopped_once_it_has_one(provider: Any) -> None:
    async with model_behind(provider) as (model, server):
        name = await stopped_before_it_has_a_name(model, server)
        name.set()
        await server.received(3)
        await model.close()
        name_of_it = server.asked[0].id
        assert asked(server)[1:] == [("POST", f"/{name_of_it}/cancel")]
        assert deleted(server) == [name_of_it]
        assert server.asked[0].status == "cancelled"


async def test_whoever_stops_at_the_moment_of_the_name_stops_the_response_once() -> None:
    """Wherever in the answer's beginning that is."""
    for steps in range(40):
        async with model_behind() as (model, server):
            server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=3)
            task = asyncio.create_task(collect(model.stream(REQUEST)))
            await server.received(1)
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            await model.close()
            assert [method for method, _ in asked(server)] == ["POST", "POST"], steps
            assert server.responses == {}
            assert server.asked[0].status == "cancelled"


async def test_one_that_is_told_of_in_a_document_is_stopped_too(caplog: pytest.LogCaptureFixture) -> None:
    async with model_behind() as (model, server):
        server.streams = False
        server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=4)
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(1)
        task.cancel()
        await asyncio.wait((task,))
        await model.close()
        assert ("POST", f"/{server.asked[0].id}/cancel") in asked(server)
    assert caplog.messages == []


@pytest.mark.parametrize(("status", "tries"), [(403, 1), (503, 2)])
async def test_what_cannot_be_stopped_is_in_the_log(caplog: pytest.LogCaptureFixture, status: int, tries: int) -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
            server.answers(*[error(status, "not authorized to perform: bedrock:CancelInvoke")] * tries)
        await server.received(1 + tries)
        await model.close()
        assert len(asked(server)) == 1 + tries
    (entry,) = [entry for entry in caplog.records if entry.message == "a background response could not be cancelled"]
    assert entry.__dict__["why"] == f"status {status}"


async def test_a_name_is_not_waited_for_without_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = MovableClock()
    async with model_behind(clock=clock) as (model, server):
        await stopped_before_it_has_a_name(model, server)
        await clock.until_timer(NAMING_SECONDS)
        await clock.advance(NAMING_SECONDS)
        await model.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.requests[0].disconnected.wait()
        assert [method for method, _ in asked(server)] == ["POST"]
    assert "a background response could not be cancelled" in caplog.messages


async def test_a_request_that_was_refused_meanwhile_needs_no_stopping(caplog: pytest.LogCaptureFixture) -> None:
    async with model_behind() as (model, server):
        refused = asyncio.Event()
        server.answers(replace(error(429, "no"), headers_after=refused))
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(1)
        task.cancel()
        await asyncio.wait((task,))
        refused.set()
        await model.close()
        assert [method for method, _ in asked(server)] == ["POST"]
    assert caplog.messages == []


async def test_a_response_that_somebody_else_takes_up_is_not_stopped() -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
        async with aclosing(model.stream(replace(REQUEST, is_left=lambda: True))) as batches:
            await anext(batches)
        await model.close()
        assert [method for method, _ in asked(server)] == ["POST"]
        assert server.asked[0].status == "in_progress"


async def test_a_response_that_is_over_is_not_stopped() -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS)
        await collect(model.stream(REQUEST))
        await model.close()
        assert [method for method, _ in asked(server)] == ["POST"]


async def test_a_response_that_another_stopped_is_an_error() -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
        task = asyncio.create_task(collect(model.stream(REQUEST)))
        await server.received(1)
        await until(lambda: server.asked and len(server.asked[0].events) >= 6)
        await server._cancel(server.asked[0])
        with pytest.raises(ModelError) as caught:
            await task
        assert not caught.value.retryable


# --- what is left at the provider


@pytest.mark.parametrize("provider", [openai_responses, bedrock_responses])
@pytest.mark.parametrize("end", ["completed", "failed", "stopped"])
async def test_what_nobody_goes_on_from_is_deleted_once_nobody_asks_for_it_again(provider: Any, end: str) -> None:
    """A background response has to be stored, also where the conversation is kept here alone."""
    clock = MovableClock()
    async with model_behind(provider, clock=clock) as (model, server):
        match end:
            case "completed":
                server.will_answer(*ITEMS)
                await collect(model.stream(REQUEST))
            case "failed":
                server.will_answer(status="failed", fields={"error": {"code": "server_error", "message": "no"}})
                with pytest.raises(ModelError):
                    await collect(model.stream(REQUEST))
            case _:
                server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
                async with aclosing(model.stream(REQUEST)) as batches:
                    await anext(batches)
                await server.received(2)
        (kept,) = server.responses
        # nothing is asked any more
        await clock.until(lambda: clock.pending and all(due > OUTLIVED_SECONDS - 1 for due in clock.pending))
        await clock.advance(OUTLIVED_SECONDS - 1)
        assert deleted(server) == [], "another process may yet take it up"
        await clock.advance(1)
        await server.received(len(asked(server)) + 1)
        assert deleted(server) == [kept]


async def test_it_is_deleted_at_the_end_of_the_process_at_the_latest() -> None:
    async with model_behind() as (model, server):
        for _ in range(2 * MOST_DELETIONS):
            server.will_answer(message_item("Hello"))
            await collect(model.stream(REQUEST))
        answered, answers = len(server.requests), asyncio.Event()
        script = Script(200, (b"{}",), "application/json", headers_after=answers)
        server.answers(*[script] * MOST_DELETIONS)
        closing = asyncio.create_task(model.close())
        await server.received(answered + MOST_DELETIONS)
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(deleted(server)) == MOST_DELETIONS, "not all at one moment"
        answers.set()
        await closing
        assert len(deleted(server)) == 2 * MOST_DELETIONS


async def test_what_is_left_to_another_process_stays() -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS)
        await collect(model.stream(replace(REQUEST, is_left=lambda: True)))
        await model.close()
        assert deleted(server) == []


@pytest.mark.parametrize("end", ["completed", "incomplete", "stopped"])
async def test_what_a_thread_remembers_stays_and_is_told_by_name(end: str) -> None:
    """It is deleted with the thread."""
    names: list[str] = []
    async with model_behind(stateful=True) as (model, server):
        request = replace(REQUEST, on_kept=names.append)
        if end == "stopped":
            server.will_answer(*ITEMS, hold=asyncio.Event(), hold_before=6)
            async with aclosing(model.stream(request)) as batches:
                await anext(batches)
        else:
            server.will_answer(message_item("Hello"), status=end)
            await collect(model.stream(request))
        assert names == [server.asked[0].id]
        server.will_answer(message_item("Hello"))
        await collect(model.stream(REQUEST))
        await model.close()
        assert deleted(server) == []


async def test_what_cannot_be_deleted_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS)
        await collect(model.stream(REQUEST))
        server.answers(error(403, "no permission for bedrock:DeleteInvoke"))
        await model.close()
        (entry,) = [entry for entry in caplog.records if "stays at its provider" in entry.message]
        assert entry.__dict__["response_id"] == server.asked[0].id
        assert entry.__dict__["code"] == "model_authentication"


@pytest.mark.parametrize("status", [404, 410])
async def test_what_is_gone_already_is_gone(status: int) -> None:
    async with model_behind() as (model, server):
        server.answers(error(status))
        assert isinstance(model, StatefulModel)
        await model.forget("resp_x")
        assert deleted(server) == ["resp_x"]


@pytest.mark.parametrize("path", ["/v1", "/openai/v1"])
async def test_the_path_of_what_is_deleted_on_mantle_is_found(path: str) -> None:
    """By a process that has asked the model for nothing yet."""
    model_id = "openai.unheard-of"
    async with model_behind(bedrock_responses, model_id=model_id) as (model, server):
        server.served_under[model_id] = path
        server.responses["resp_x"] = Stored("resp_x", [], kept=True, background=False, response={"model": model_id})
        assert isinstance(model, StatefulModel)
        await model.forget("resp_x")
        assert server.responses == {}


# --- taken up by another process


@pytest.mark.parametrize("again", [True, False])
async def test_a_response_is_taken_up_from_its_beginning_with_the_same_ids(again: bool) -> None:
    async with model_behind() as (model, server):
        server.will_answer(*ITEMS)
        first = await collect(model.stream(REQUEST))
        server.streams_again = again
        taken = await collect(model.stream(replace(REQUEST, accepted=server.asked[0].id)))
        assert answer_of(taken) == answer_of(first)
        if again:
            assert pieces(taken) == pieces(first[1:]), "all but that it was accepted"
        assert len(server.asked) == 1, "nothing was asked anew"


@pytest.mark.parametrize("again", [True, False])
async def test_the_path_of_a_response_on_mantle_is_found_anew(again: bool) -> None:
    """Another process had found it."""
    async with model_behind(bedrock_responses) as (model, server):
        server.will_answer(*ITEMS)
        first = await collect(model.stream(REQUEST))
        used = server.requests[0].target.partition("/responses")[0]
        server.served_under[BEDROCK["model_id"]] = next(path for path in server.paths if path != used)
        server.streams_again = again
        taken = await collect(model.stream(replace(REQUEST, accepted=server.asked[0].id)))
        assert answer_of(taken) == answer_of(first)


async def test_an_attempt_that_failed_before_anything_was_seen_is_stopped_and_made_again() -> None:
    async with model_behind() as (model, server):
        server.will_answer(status="failed", fields={"error": {"code": "server_error"}})
        server.will_answer(*ITEMS)
        clock = MovableClock()
        batches = stream_with_retries(model, REQUEST, clock, 2, jitter=lambda: 0.0)
        events = await collect(batches)
    accepted = [event.response_id for event in events if isinstance(event, ModelCallAccepted)]
    assert accepted == [stored.id for stored in server.asked]
    assert answer_of(events).text == "Hello wörld"


# --- decided before


def test_bedrock_runtime_knows_no_background() -> None:
    clock = SystemClock()
    environment = ModelEnvironment(clock, HttpClients(clock))
    settings = ModelSettings(bedrock_responses.NAME, "us.openai.gpt-5.6", region=REGION, background=True)
    with pytest.raises(ConfigurationError, match="background is known on bedrock-mantle only"):
        bedrock_responses.PROVIDER.open(settings, environment)
    assert FIRST_WAIT_SECONDS < 1


async def test_a_refused_background_is_an_error_of_the_request() -> None:
    async with model_behind() as (model, server):
        server.answers(error(400, "background is not supported on this endpoint."))
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(REQUEST))
    assert caught.value.kind is ModelErrorKind.INVALID
