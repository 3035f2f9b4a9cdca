"""The scripted model: which response it plays, and how it plays it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.agent import ModelSettings
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import (
    Events,
    MessageRetracted,
    ModelCallEnded,
    Raw,
    ReasoningEnded,
    ReasoningStarted,
    StopReason,
    TextDelta,
    TextStarted,
    ToolCallDelta,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, Message, Opaque, TextBlock, ToolCall, ToolResult
from gateway.model import ModelEnvironment, ModelRequest
from gateway.models.scripted import PROVIDER, ScriptedModel, parse_script
from tests.loop_runs import user
from tests.movable_clock import MovableClock


def model(clock: MovableClock | None = None, **script: Any) -> ScriptedModel:
    return ScriptedModel(parse_script(script), clock or MovableClock())


def asking(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest("turn", messages or (user("Hello"),), **more)


async def batches_of(played: ScriptedModel, request: ModelRequest | None = None) -> list[Events]:
    async with asyncio.timeout(10):
        return [batch async for batch in played.stream(request or asking())]


async def events_of(played: ScriptedModel, request: ModelRequest | None = None) -> Events:
    return [event for batch in await batches_of(played, request) for event in batch]


def called(call_id: str, name: str, text: str) -> tuple[Message, Message]:
    return (
        Message(f"a-{call_id}", "assistant", (ToolCall(call_id, name, "{}"),), turn_id=f"t-{call_id}"),
        Message(f"r-{call_id}", "tool", (ToolResult(call_id, (TextBlock(text),)),)),
    )


def texts(events: Events) -> list[str]:
    return [text for event in events if isinstance(event, TextDelta) for text in event.texts]


async def test_a_text_comes_in_chunks_of_the_wanted_size() -> None:
    events = await events_of(model(responses=[[{"text": "Hello there", "chunk_characters": 4}]]))
    assert texts(events) == ["Hell", "o th", "ere"]
    assert events[-1] == ModelCallEnded(StopReason.END_TURN)


async def test_a_repeated_text_comes_as_so_many_deltas_in_one_batch() -> None:
    batches = await batches_of(model(responses=[[{"text": "tok ", "repeat": 200}]]))
    assert len(batches) == 1
    assert texts(batches[0]) == ["tok "] * 200


async def test_with_a_switch_per_delta_every_delta_is_a_batch_of_its_own() -> None:
    switches = 0
    done = False

    async def other() -> None:
        nonlocal switches
        while not done:
            switches += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    batches = await batches_of(model(responses=[[{"text": "x", "repeat": 20}]], switch_every_delta=True))
    done = True
    await task
    assert [len(texts(batch)) for batch in batches] == [1] * 20 + [0]
    assert switches >= 20


async def test_deltas_may_take_time() -> None:
    clock = MovableClock()
    task = asyncio.create_task(batches_of(model(clock, responses=[[{"text": "x", "repeat": 3}]], delta_seconds=1)))
    await clock.advance(2.5)
    assert not task.done()
    await clock.advance(1)
    assert len(await task) == 4


async def test_a_call_is_streamed_with_its_arguments() -> None:
    step: JsonObject = {"tool": "add", "arguments": {"a": 1}, "id": "c1", "chunk_characters": 3}
    events = await events_of(model(responses=[[step]]))
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [(event.call_id, event.name) for event in started] == [("c1", "add")]
    assert "".join(event.arguments for event in events if isinstance(event, ToolCallDelta)) == '{"a":1}'
    assert events[-1] == ModelCallEnded(StopReason.TOOL_CALLS)


async def test_raw_arguments_are_written_as_they_stand() -> None:
    events = await events_of(model(responses=[[{"tool": "add", "arguments": '{"a": '}]]))
    assert [event.arguments for event in events if isinstance(event, ToolCallDelta)] == ['{"a": ']


async def test_reasoning_may_be_signed() -> None:
    events = await events_of(model(responses=[[{"reasoning": "hm", "signature": "abc"}]]))
    (ended,) = [event for event in events if isinstance(event, ReasoningEnded)]
    assert ended.opaque == Opaque("scripted", "scripted", "signature", "abc")


async def test_usage_stop_and_raw_events_are_the_scripts() -> None:
    steps: list[JsonObject] = [
        {"usage": {"input_tokens": 3}},
        {"raw_event": {"cited": True}},
        {"text": "So"},
        {"stop": "content_filter", "raw": "guardrail"},
    ]
    events = await events_of(model(responses=[steps]))
    assert UsageReported(Usage("scripted", "scripted", 3)) in events
    assert Raw({"cited": True}, "scripted") in events
    assert events[-1] == ModelCallEnded(StopReason.CONTENT_FILTER, "guardrail")


async def test_each_answer_since_the_users_last_message_plays_the_next_response() -> None:
    played = model(responses=[[{"text": "first"}], [{"text": "second"}]])
    assert texts(await events_of(played)) == ["first"]
    assert texts(await events_of(played, asking(user("Hi"), *called("c1", "add", "3")))) == ["second"]
    later = asking(user("Hi"), *called("c1", "add", "3"), user("Again", "u2"))
    assert texts(await events_of(played, later)) == ["first"]


async def test_rules_come_before_the_responses() -> None:
    rules: list[JsonObject] = [
        {"when": {"last_user_contains": "REFUND"}, "response": [{"text": "by words"}]},
        {"when": {"after_tool": "add"}, "response": [{"text": "by tool"}]},
        {"when": {"system_contains": "Be kind"}, "response": [{"text": "by system"}]},
        {"when": {"tool_choice": "none"}, "response": [{"text": "by choice"}]},
    ]
    played = model(rules=rules, responses=[[{"text": "else"}]])
    assert texts(await events_of(played)) == ["else"]
    assert texts(await events_of(played, asking(user("a refund please")))) == ["by words"]
    assert texts(await events_of(played, asking(user("Hi"), *called("c1", "add", "3")))) == ["by tool"]
    assert texts(await events_of(played, asking(system="Be kind."))) == ["by system"]
    assert texts(await events_of(played, asking(tool_choice="none"))) == ["by choice"]


async def test_a_text_may_repeat_what_was_said_and_what_came_of_it() -> None:
    played = model(rules=[{"when": {}, "response": [{"text": "{{user}} -> {{result}}"}]}])
    assert texts(await events_of(played, asking(user("2+3"), *called("c1", "add", "5")))) == ["2+3 -> 5"]


async def test_a_script_that_is_over_is_an_error() -> None:
    with pytest.raises(ModelError) as failure:
        await events_of(model(responses=[[{"text": "first"}]]), asking(user("Hi"), *called("c1", "add", "3")))
    assert failure.value.kind is ModelErrorKind.INVALID


async def test_an_error_comes_after_what_was_said_before_it() -> None:
    played = model(
        responses=[[{"text": "Well"}, {"error": "throttled", "message": "slow down", "retry_after_seconds": 2}]]
    )
    seen: Events = []
    stream = played.stream(asking())
    seen += await anext(stream)
    with pytest.raises(ModelError) as failure:
        await anext(stream)
    assert texts(seen) == ["Well"]
    assert (failure.value.message, failure.value.retry_after_seconds) == ("slow down", 2)


async def test_an_error_may_pass_after_some_tries() -> None:
    played = model(responses=[[{"error": "overloaded", "times": 2}, {"text": "at last"}]])
    for _ in range(2):
        with pytest.raises(ModelError):
            await events_of(played)
    assert texts(await events_of(played)) == ["at last"]


async def test_a_crash_is_an_error_that_nobody_expects() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        await events_of(model(responses=[[{"crash": "boom"}]]))


async def test_a_model_that_hangs_ends_when_it_is_cancelled() -> None:
    played = model(responses=[[{"text": "Well"}, {"hang": True}]])
    task = asyncio.create_task(events_of(played))
    await MovableClock().settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"responses": [[{"txt": "x"}]]}, r"responses\.0\.0\.txt is not a known key; did you mean 'text'\?"),
        ({"responses": [[{"text": "x", "tool": "y"}]]}, "exactly one of"),
        ({"responses": [[{}]]}, "exactly one of"),
        ({"responses": [[{"stop": "whenever"}]]}, "responses.0.0.stop"),
        ({"rules": [{"response": []}]}, r"rules\.0\.when is missing; add it"),
        ({"temperature": 0.2}, "temperature"),
        ({"responses": [[{"text": "x", "chunk_characters": 0}]]}, "chunk_characters"),
    ],
)
def test_a_script_that_can_never_play_is_refused_with_the_place(parameters: JsonObject, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_script(parameters)


def test_it_is_opened_with_the_script_in_the_agents_parameters() -> None:
    clock = MovableClock()
    settings = ModelSettings("scripted", model_parameters={"responses": [[{"text": "x"}]]})
    opened = PROVIDER.open(settings, ModelEnvironment(clock, HttpClients(clock)))
    assert (opened.provider, opened.model_id) == ("scripted", "scripted")


async def test_what_was_said_can_be_taken_back() -> None:
    script = [{"reasoning": "hm"}, {"text": "It is"}, {"text": " 42."}, {"retract": "Not that."}, {"stop": "refusal"}]
    events = await events_of(model(responses=[script]))
    said = [event.message_id for event in events if isinstance(event, TextStarted | ReasoningStarted)]
    taken_back = [event for event in events if isinstance(event, MessageRetracted)]
    assert [event.message_id for event in taken_back] == said
    assert [event.text for event in taken_back] == ["", "Not that.", ""]
    assert events[-1] == ModelCallEnded(StopReason.REFUSAL)
