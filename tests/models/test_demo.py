"""The demo model: which tools it chooses for which words, with which arguments, and what it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.agent import ModelSettings
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.events import (
    Completed,
    Event,
    Interrupted,
    ModelCallEnded,
    OpenInterrupt,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolCallStarted,
    UsageReported,
)
from gateway.http_client.clients import HttpClients
from gateway.loop import Decision
from gateway.messages import Base64Source, ImageBlock, JsonObject, Message, TextBlock, ToolSpec
from gateway.model import ModelEnvironment, ModelRequest
from gateway.models.demo import PROVIDER, DemoModel
from gateway.options.generation import OneTool
from gateway.tool import ToolContext
from tests.loop_runs import FunctionTool, LoopRun, adder, tool_giving, user
from tests.movable_clock import MovableClock

COLOR: JsonObject = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
BACKGROUND = ToolSpec("change_background", "Change the background color of the page.", COLOR)
SEARCH_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"index": {"type": "string"}, "query": {"type": "object"}},
    "required": ["index", "query"],
}
HITS = (
    '{"_index":"cities","_source":{"text":"Seattle is a city."},"_score":1.0}\n'
    '{"_index":"cities","_source":{"text":"Tacoma is near Seattle."},"_score":0.5}\n'
)


def demo_run(text: str, **more: Any) -> LoopRun:
    clock = MovableClock()
    messages = more.pop("messages", [user(text)])
    return LoopRun(model=DemoModel(clock, words_per_second=0), clock=clock, messages=messages, **more)


def searcher() -> FunctionTool:
    async def search(arguments: JsonObject, context: ToolContext) -> str:
        return HITS if arguments["index"] == "cities" else ""

    return FunctionTool("SearchIndexTool", search, SEARCH_SCHEMA)


def lister(*names: str) -> FunctionTool:
    return tool_giving(
        "ListIndexTool", "row,health,index\n" + "".join(f"{n},green,{name}\n" for n, name in enumerate(names))
    )


async def test_it_says_what_it_is() -> None:
    run = demo_run("Who are you?", tools=[adder()], frontend=[BACKGROUND])
    await run.events()
    assert "no LLM" in run.text
    assert "`add`" in run.text
    assert "`change_background`" in run.text


@pytest.mark.parametrize(
    "text", ["hello", "Hi there!", "", "???", "thanks a lot", "bye", "sing me a song", "ändere was"]
)
async def test_whatever_is_said_it_has_an_answer(text: str) -> None:
    run = demo_run(text, tools=[adder()])
    await run.events()
    assert run.text.strip()
    assert run.outcome == Completed()
    assert len(run.requests) == 1


async def test_it_runs_a_backend_tool_and_uses_its_result() -> None:
    tool = adder()
    run = demo_run("What is 17 plus four?", tools=[tool])
    await run.events()
    assert tool.calls == [{"a": 17, "b": 4}]
    assert "**21**" in run.text
    assert "not an LLM" in run.text


async def test_it_calls_a_frontend_tool() -> None:
    run = demo_run("Please make the background light blue", tools=[adder()], frontend=[BACKGROUND])
    await run.events()
    assert isinstance(run.outcome, Completed)
    (call,) = run.outcome.pending_calls
    assert (call.name, call.arguments) == ("change_background", '{"color":"light blue"}')


async def test_it_says_why_it_chose_a_tool() -> None:
    run = demo_run("add 1 and 2", tools=[adder()])
    await run.events()
    thought = "".join(event.text for event in run.all_of(ReasoningDelta))
    assert "'add' fits the tool add with a = 1, b = 2" in thought


async def test_several_wishes_become_several_calls_at_once() -> None:
    tool = adder()
    run = demo_run(
        "Add 2 and 3, and change the background to red",
        tools=[tool],
        frontend=[BACKGROUND],
    )
    await run.events()
    assert tool.calls == [{"a": 2, "b": 3}]
    assert isinstance(run.outcome, Completed)
    assert [call.name for call in run.outcome.pending_calls] == ["change_background"]
    assert len(run.requests) == 1


async def test_what_an_argument_needs_is_looked_up_with_another_tool() -> None:
    search = searcher()
    run = demo_run("add 2 and 3 and search for Seattle", tools=[adder(), lister("cities"), search])
    await run.events()
    assert [call["index"] for call in search.calls] == ["cities"]
    assert "Seattle" in str(search.calls[0]["query"])
    assert "**5**" in run.text
    assert "| cities | Seattle is a city. |" in run.text
    assert "ListIndexTool" not in run.text


async def test_the_index_that_the_words_name_is_the_one_that_is_searched() -> None:
    search = searcher()
    run = demo_run("Search the cities for Seattle", tools=[lister("tech-news", "cities", ".hidden"), search])
    await run.events()
    assert [call["index"] for call in search.calls] == ["cities"]


async def test_a_question_without_a_tools_words_is_looked_up() -> None:
    search = searcher()
    run = demo_run("How many people live in Seattle?", tools=[adder(), lister("cities"), search])
    await run.events()
    assert len(search.calls) == 1
    assert "2 entries" in run.text


async def test_what_is_missing_is_asked_for() -> None:
    run = demo_run(
        "refund my order",
        tools=[
            FunctionTool(
                "refund",
                adder().function,
                {
                    "type": "object",
                    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
                    "required": ["order_id", "amount"],
                },
            )
        ],
    )
    await run.events()
    assert "`order_id` and `amount`" in run.text
    assert run.results == []


@pytest.mark.parametrize("schema", [{"required": ["a"]}, {"properties": {"a": True}, "required": ["a"]}])
async def test_an_argument_of_which_the_schema_says_nothing_is_asked_for_as_any_other(schema: JsonObject) -> None:
    run = demo_run("Frobnicate it", frontend=[ToolSpec("frobnicate", "", schema)])
    await run.events()
    assert "For `frobnicate` I also need `a`." in run.text


async def test_a_denial_is_taken_gracefully() -> None:
    first = demo_run("add 1 and 2", tools=[adder()], approvals=["add"])
    await first.events()
    assert isinstance(first.outcome, Interrupted)
    call = first.history[-1].tool_calls[0]
    item = OpenInterrupt(first.outcome.interrupts[0], call)
    second = demo_run(
        "",
        messages=first.history,
        tools=[adder()],
        approvals=["add"],
        decisions=[Decision(item.call, approved=False, reason="not now")],
    )
    await second.events()
    assert "was not run" in second.text
    assert "not now" in second.text
    assert second.outcome == Completed()


async def test_an_error_is_told_and_nothing_is_tried_for_ever() -> None:
    async def fail(arguments: JsonObject, context: ToolContext) -> str:
        raise ValueError

    run = demo_run("add 1 and 2", tools=[FunctionTool("add", fail, adder().schema)])
    await run.events()
    assert "did not work" in run.text
    assert len(run.requests) == 2


async def test_where_no_tool_may_be_called_it_answers() -> None:
    model = DemoModel(SystemClock(), words_per_second=0)
    request = ModelRequest("t", (user("add 1 and 2"),), tools=(adder().spec,), tool_choice="none")
    events = [event async for batch in model.stream(request) for event in batch]
    assert events[-1] == ModelCallEnded(StopReason.END_TURN)


async def test_where_one_tool_has_to_be_called_the_others_are_not() -> None:
    model = DemoModel(SystemClock(), words_per_second=0)
    specs = (adder().spec, ToolSpec("show_clock", "Show a clock.", {}))
    request = ModelRequest(
        "t", (user("add 1 and 2 and show the clock"),), tools=specs, tool_choice=OneTool("show_clock")
    )
    events = [event async for batch in model.stream(request) for event in batch]
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["show_clock"]


async def test_it_speaks_word_by_word_at_its_pace() -> None:
    clock = MovableClock()
    run = LoopRun(model=DemoModel(clock, words_per_second=10), clock=clock, messages=[user("thanks")])
    task = run.start()
    await clock.until_timer(0.1)
    assert run.text == "You"
    await clock.advance(0.1)
    assert run.text == "You are"
    await clock.advance(60)
    await task
    assert run.text.startswith("You are welcome.")


async def test_it_can_be_stopped_in_the_middle_of_a_word() -> None:
    clock = MovableClock()
    run = LoopRun(model=DemoModel(clock, words_per_second=10), clock=clock, messages=[user("hello")])
    task = run.start()
    await clock.until_timer(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.pending == []


async def test_the_same_request_gives_the_same_answer() -> None:
    def said(events: list[Event]) -> list[str]:
        return [event.text for event in events if isinstance(event, TextDelta | ReasoningDelta)]

    words = "search for Seattle and change the background to blue"
    runs = [demo_run(words, tools=[lister("a", "b"), searcher()], frontend=[BACKGROUND]) for _ in range(2)]
    first, second = [await run.events() for run in runs]
    assert said(first) == said(second)


async def test_it_reports_usage_and_mentions_attachments() -> None:
    message = Message("u", "user", (TextBlock("look"), ImageBlock(Base64Source("aGk=", "image/png"))))
    run = demo_run("", messages=[message])
    await run.events()
    assert "1 attachment" in run.text
    (reported,) = run.all_of(UsageReported)
    assert reported.usage.output_tokens


@pytest.mark.parametrize("parameters", [{"words_per_second": "fast"}, {"words_per_second": -1}, {"reasoning": 1}])
def test_wrong_settings_are_refused(parameters: JsonObject) -> None:
    clock = MovableClock()
    with pytest.raises(ConfigurationError):
        PROVIDER.open(ModelSettings("demo", model_parameters=parameters), ModelEnvironment(clock, HttpClients(clock)))


def test_it_needs_no_settings() -> None:
    clock = MovableClock()
    model = PROVIDER.open(ModelSettings("demo"), ModelEnvironment(clock, HttpClients(clock)))
    assert (model.provider, model.model_id) == ("demo", "demo")
    assert not PROVIDER.needs_model_id
