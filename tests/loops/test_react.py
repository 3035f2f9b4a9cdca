"""The ReAct loop: what the model is asked, what its calls come to, how the run ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.agent import ContextEntry
from gateway.errors import ModelError, ModelErrorKind, ToolError
from gateway.events import (
    Completed,
    Incomplete,
    ModelCallEnded,
    ModelCallStarted,
    RunFinished,
    StopReason,
    TextDelta,
    TextStarted,
    ToolCallEnded,
    ToolReturned,
    Usage,
)
from gateway.messages import Base64Source, ImageBlock, JsonObject, Message, TextBlock, ToolSpec
from gateway.options.generation import OneTool
from gateway.tool import ToolContext
from tests.loop_runs import FunctionTool, LoopRun, adder, assert_valid_view, call, text_of, tool_giving, user

ADD: JsonObject = {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"}
PICK = ToolSpec("pick_color", "Pick a colour.", {"type": "object", "properties": {"color": {"type": "string"}}})


async def test_a_text_answer_completes_the_run() -> None:
    run = LoopRun(responses=[[{"text": "Hello there", "chunk_characters": 4}]])
    await run.events()
    assert run.text == "Hello there"
    assert run.outcome == Completed()
    assert [type(event) for event in run.so_far()][:1] == [ModelCallStarted]


async def test_the_models_batches_pass_through_as_they_are() -> None:
    run = LoopRun(responses=[[{"text": "a"}, {"delay_seconds": 0}, {"text": "b"}]])
    await run.events()
    texts = [[event.text for event in batch if isinstance(event, TextDelta)] for batch in run.batches]
    assert texts == [["a"], ["b"], []]


async def test_a_backend_call_is_run_and_its_result_is_told_to_the_model() -> None:
    tool = adder()
    run = LoopRun(responses=[[ADD], [{"text": "It is {{result}}"}]], tools=[tool])
    await run.events()
    assert tool.calls == [{"a": 2, "b": 3}]
    assert run.result_texts == ["5"]
    assert run.text == "It is 5"
    assert len(run.requests) == 2
    assert_valid_view(run.requests[1].messages)


async def test_the_model_is_told_the_prompt_the_context_the_state_and_all_tools() -> None:
    run = LoopRun(
        responses=[[{"text": "ok"}]],
        tools=[adder()],
        frontend=[PICK],
        system_prompt="Be kind.",
        context=[ContextEntry("Page", "Pricing"), ContextEntry("Cart", "1 tent\n2 mats")],
        state={"city": "Zürich"},
    )
    await run.events()
    request = run.requests[0]
    assert request.system.startswith("Be kind.")
    assert "- Page: Pricing" in request.system
    assert "1 tent\n2 mats" in request.system
    assert '{"city":"Zürich"}' in request.system
    assert [spec.name for spec in request.tools] == ["add", "pick_color"]
    assert request.tool_choice == "auto"


async def test_a_forced_tool_is_forced_in_the_first_answer_alone() -> None:
    run = LoopRun(
        responses=[[ADD], [{"text": "done"}]], tools=[adder()], frontend=[PICK], tool_choice=OneTool("pick_color")
    )
    await run.events()
    assert [request.tool_choice for request in run.requests] == [OneTool("pick_color"), "auto"]


@pytest.mark.parametrize("state", [None, {}, [], ""])
async def test_an_empty_state_is_not_mentioned(state: Any) -> None:
    run = LoopRun(responses=[[{"text": "ok"}]], state=state)
    await run.events()
    assert run.requests[0].system == ""


async def test_calls_run_at_the_same_time_and_their_results_come_in_call_order() -> None:
    second_done = asyncio.Event()

    async def wait_for_second(arguments: JsonObject, context: ToolContext) -> str:
        await second_done.wait()
        return "first"

    async def finish(arguments: JsonObject, context: ToolContext) -> str:
        second_done.set()
        return "second"

    tools = [FunctionTool("slow", wait_for_second), FunctionTool("fast", finish)]
    run = LoopRun(responses=[[{"tool": "slow"}, {"tool": "fast"}], [{"text": "done"}]], tools=tools)
    await run.events()
    assert run.result_texts == ["first", "second"]


async def test_a_result_is_shown_as_soon_as_those_before_it_are_there() -> None:
    release = asyncio.Event()

    async def wait(arguments: JsonObject, context: ToolContext) -> str:
        await release.wait()
        return "last"

    tools = [tool_giving("fast", "first"), FunctionTool("slow", wait)]
    run = LoopRun(responses=[[{"tool": "fast"}, {"tool": "slow"}], [{"text": "done"}]], tools=tools)
    task = run.start()
    await run.clock.until(lambda: run.results)
    assert run.result_texts == ["first"]
    release.set()
    await task
    assert run.result_texts == ["first", "last"]


async def test_one_failure_leaves_the_other_calls_alone() -> None:
    async def fail(arguments: JsonObject, context: ToolContext) -> str:
        raise ToolError("the shop is closed")

    tools = [FunctionTool("fail", fail), adder()]
    run = LoopRun(responses=[[{"tool": "fail"}, ADD], [{"text": "done"}]], tools=tools)
    await run.events()
    assert run.result_texts == ["the shop is closed", "5"]
    assert [result.is_error for result in run.results] == [True, False]


@pytest.mark.parametrize(
    "failure", [ValueError("password=hunter2"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
)
async def test_an_unexpected_failure_of_a_tool_is_an_error_result_without_its_inside(failure: BaseException) -> None:
    async def fail(arguments: JsonObject, context: ToolContext) -> str:
        raise failure

    run = LoopRun(responses=[[{"tool": "fail"}], [{"text": "done"}]], tools=[FunctionTool("fail", fail)])
    await run.events()
    assert run.results[0].is_error
    assert run.result_texts == ["The tool 'fail' failed (run run)."]
    assert run.outcome == Completed()


async def test_a_tool_that_cancels_itself_gets_an_error_result() -> None:
    async def cancel(arguments: JsonObject, context: ToolContext) -> str:
        raise asyncio.CancelledError

    run = LoopRun(responses=[[{"tool": "cancel"}], [{"text": "done"}]], tools=[FunctionTool("cancel", cancel)])
    await run.events()
    assert run.result_texts == ["The tool 'cancel' failed (run run)."]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"a": 1, "b":', "not valid JSON"),
        ('{"a": 1, "b": 2}}', "not valid JSON"),
        ("[1, 2]", "must be a JSON object, not an array"),
        ('"a"', "must be a JSON object, not a string"),
        ('{"a": NaN, "b": 1}', "not valid JSON"),
        ('{"a": "\\ud83d", "b": 1}', "not valid JSON"),
        ('{"a": 1}', '"b" is a required property'),
        ('{"a": "one", "b": 2}', 'a: "one" is not of type "number"'),
        ("", '"a" is a required property'),
        ("[" * 5000, "not valid JSON"),
    ],
)
async def test_bad_arguments_are_answered_with_what_is_wrong_and_nothing_runs(arguments: str, told: str) -> None:
    tool = adder()
    run = LoopRun(responses=[[{"tool": "add", "arguments": arguments}], [{"text": "done"}]], tools=[tool])
    await run.events()
    assert tool.calls == []
    assert run.results[0].is_error
    assert told in run.result_texts[0]
    assert run.outcome == Completed()


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "null"])
async def test_a_call_without_arguments_may_be_written_in_many_ways(arguments: str) -> None:
    tool = tool_giving("now", "noon")
    run = LoopRun(responses=[[{"tool": "now", "arguments": arguments}], [{"text": "done"}]], tools=[tool])
    await run.events()
    assert tool.calls == [{}]
    assert not run.results[0].is_error


async def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    run = LoopRun(responses=[[{"tool": "ad"}], [{"text": "done"}]], tools=[adder()], frontend=[PICK])
    await run.events()
    assert run.result_texts == ["There is no tool 'ad'. The tools are: 'add', 'pick_color'."]
    assert run.results[0].is_error
    assert run.outcome == Completed()


async def test_an_unknown_tool_is_answered_where_there_are_no_tools_at_all() -> None:
    run = LoopRun(responses=[[{"tool": "add"}], [{"text": "done"}]])
    await run.events()
    assert run.result_texts == ["There is no tool 'add'. The tools are: none."]


@pytest.mark.parametrize(
    "reason", [StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER, StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW]
)
async def test_no_tool_runs_from_a_response_that_was_cut_off(reason: StopReason) -> None:
    tool = adder()
    run = LoopRun(
        responses=[[{"text": "So "}, ADD, {"tool": "pick_color", "id": "c2"}, {"stop": reason.value}]],
        tools=[tool],
        frontend=[PICK],
    )
    await run.events()
    assert tool.calls == []
    assert run.outcome == Incomplete(reason)
    # The browser's call is answered too: clients run every closed call that has no result.
    assert [(result.call_id, result.is_error) for result in run.results] == [("c1", True), ("c2", True)]
    assert "was cut off" in run.result_texts[0]
    assert len(run.requests) == 1


async def test_a_text_that_was_cut_off_ends_the_run_with_the_reason() -> None:
    run = LoopRun(responses=[[{"text": "Once upon"}, {"stop": "max_tokens"}]])
    await run.events()
    assert run.outcome == Incomplete(StopReason.MAX_TOKENS)


async def test_an_empty_answer_is_asked_for_once_more() -> None:
    run = LoopRun(
        rules=[{"when": {"system_contains": "last response was empty"}, "response": [{"text": "Here I am"}]}],
        responses=[[]],
    )
    await run.events()
    assert run.text == "Here I am"
    assert len(run.requests) == 2
    assert run.outcome == Completed()


async def test_the_reminder_of_an_empty_answer_is_given_once() -> None:
    run = LoopRun(
        rules=[{"when": {"system_contains": "last response was empty"}, "response": [ADD]}],
        responses=[[], [{"text": "5"}]],
        tools=[adder()],
    )
    await run.events()
    assert run.text == "5"
    assert ["empty" in request.system for request in run.requests] == [False, True, False]


async def test_a_model_that_stays_silent_ends_the_run_after_the_second_try() -> None:
    run = LoopRun(responses=[[{"reasoning": "hm"}]])
    await run.events()
    assert len(run.requests) == 2
    assert run.outcome == Completed()


async def test_a_paused_turn_is_gone_on_with() -> None:
    run = LoopRun(responses=[[{"text": "Let me look"}, {"stop": "pause"}], [{"text": "Found"}]])
    await run.events()
    assert run.text == "Let me lookFound"
    assert [message.role for message in run.requests[1].messages] == ["user", "assistant"]
    assert len({event.turn_id for event in run.all_of(ModelCallStarted)}) == 2


async def test_usage_is_added_up_over_the_runs_model_calls() -> None:
    first: JsonObject = {"input_tokens": 10, "output_tokens": 2, "cached_input_tokens": 4}
    run = LoopRun(
        responses=[[ADD, {"usage": first}], [{"text": "5"}, {"usage": {"input_tokens": 20, "output_tokens": None}}]],
        tools=[adder()],
    )
    events = await run.events()
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.usage == (Usage("scripted", "scripted", 30, 2, None, 4, None),)


async def test_an_error_of_the_model_ends_the_run() -> None:
    run = LoopRun(responses=[[{"text": "Well"}, {"error": "throttled", "message": "too much"}]])
    with pytest.raises(ModelError) as failure:
        await run.events()
    assert failure.value.kind is ModelErrorKind.THROTTLED
    assert run.text == "Well"


async def test_a_model_that_fails_before_it_says_anything_is_asked_again() -> None:
    run = LoopRun(responses=[[{"error": "throttled", "times": 1}, {"text": "Now"}]])
    task = run.start()
    await run.clock.settle()
    await run.clock.advance(10)
    await task
    assert run.text == "Now"
    assert len(run.requests) == 2
    assert len(run.all_of(ModelCallStarted)) == 1


class _EndlessModel:
    """A model of somebody else's whose response just stops."""

    provider = "other"
    model_id = "other"
    capabilities: Any = None

    async def stream(self, request: Any) -> Any:
        yield [TextStarted("m1"), TextDelta("m1", "half")]

    async def close(self) -> None:
        return None


async def test_a_response_that_just_stops_is_an_error_not_an_answer() -> None:
    run = LoopRun(model=_EndlessModel())
    with pytest.raises(ModelError) as failure:
        await run.events()
    assert failure.value.kind is ModelErrorKind.TRUNCATED


class _DisorderlyModel(_EndlessModel):
    async def stream(self, request: Any) -> Any:
        yield [TextDelta("never started", "x"), ModelCallEnded(StopReason.END_TURN)]


async def test_a_response_out_of_order_is_the_providers_error() -> None:
    run = LoopRun(model=_DisorderlyModel())
    with pytest.raises(ModelError) as failure:
        await run.events()
    assert failure.value.kind is ModelErrorKind.PROTOCOL


async def test_text_around_calls_stays_in_the_order_the_model_said_it() -> None:
    run = LoopRun(responses=[[{"text": "before"}, ADD, {"text": "after"}], [{"text": "done"}]], tools=[adder()])
    await run.events()
    assistant = run.requests[1].messages[1]
    assert [type(block).__name__ for block in assistant.content] == ["TextBlock", "ToolCall", "TextBlock"]
    assert_valid_view(run.requests[1].messages)


async def test_all_calls_are_closed_before_their_results() -> None:
    run = LoopRun(responses=[[ADD, {"tool": "add", "arguments": "{", "id": "c2"}], [{"text": "x"}]], tools=[adder()])
    events = await run.events()
    kinds = [type(event) for event in events if isinstance(event, ToolCallEnded | ToolReturned)]
    assert kinds == [ToolCallEnded, ToolCallEnded, ToolReturned, ToolReturned]


@pytest.mark.parametrize("given", ["", "  \n", ()])
async def test_a_tool_without_output_says_so(given: Any) -> None:
    async def give(arguments: JsonObject, context: ToolContext) -> Any:
        return given

    run = LoopRun(responses=[[{"tool": "quiet"}], [{"text": "done"}]], tools=[FunctionTool("quiet", give)])
    await run.events()
    assert run.result_texts == ["(The tool gave no output.)"]
    assert not run.results[0].is_error


async def test_results_are_made_fit_for_every_encoder() -> None:
    async def give(arguments: JsonObject, context: ToolContext) -> Any:
        return (TextBlock("half \ud83d and whole \ud83d\ude00"), ImageBlock(Base64Source("aGk=", "image/png")))

    run = LoopRun(responses=[[{"tool": "odd"}], [{"text": "done"}]], tools=[FunctionTool("odd", give)])
    await run.events()
    assert run.result_texts == ["half � and whole 😀"]
    assert run.results[0].content[1] == ImageBlock(Base64Source("aGk=", "image/png"))


async def test_huge_results_are_cut_with_a_mark() -> None:
    async def give(arguments: JsonObject, context: ToolContext) -> Any:
        return (TextBlock("x" * 3_000_000), ImageBlock(Base64Source("A" * 9_000_000, "image/png")))

    run = LoopRun(responses=[[{"tool": "huge"}], [{"text": "done"}]], tools=[FunctionTool("huge", give)])
    await run.events()
    assert len(run.result_texts[0]) < 1_100_000
    assert "truncated" in run.result_texts[0]
    assert not any(isinstance(block, ImageBlock) for block in run.results[0].content)


async def test_a_tool_that_returns_something_that_is_no_content_is_told_as_json() -> None:
    async def give(arguments: JsonObject, context: ToolContext) -> Any:
        return {"total": float("nan"), "items": {1}}

    run = LoopRun(responses=[[{"tool": "odd"}], [{"text": "done"}]], tools=[FunctionTool("odd", give)])
    await run.events()
    assert run.result_texts == ['{"total":null,"items":[1]}']


async def test_a_tool_learns_where_its_call_comes_from() -> None:
    seen: list[ToolContext] = []

    async def look(arguments: JsonObject, context: ToolContext) -> str:
        seen.append(context)
        return "ok"

    run = LoopRun(responses=[[{"tool": "look", "id": "c9"}], [{"text": "done"}]], tools=[FunctionTool("look", look)])
    await run.events()
    where = seen[0]
    assert (where.call_id, where.owner, where.thread_id, where.run_id, where.agent_id) == (
        "c9",
        "owner",
        "thread",
        "run",
        "assistant",
    )
    assert where.state is run.state


async def test_cancelling_the_run_cancels_its_tools_and_waits_for_them() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(arguments: JsonObject, context: ToolContext) -> str:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        return "never"

    tasks_before = asyncio.all_tasks()
    run = LoopRun(responses=[[{"tool": "hang"}, {"tool": "hang"}]], tools=[FunctionTool("hang", hang)])
    task = run.start()
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert asyncio.all_tasks() == tasks_before
    assert run.clock.pending == []


async def test_cancelling_the_run_stops_a_model_that_hangs() -> None:
    run = LoopRun(responses=[[{"text": "Well"}, {"hang": True}]])
    task = run.start()
    await run.clock.until(lambda: run.text == "Well")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.clock.pending == []


async def test_a_call_of_an_earlier_run_that_nobody_answered_is_never_run() -> None:
    tool = adder()
    messages = [
        user("add"),
        Message("a1", "assistant", (call("c1", "add", '{"a":1,"b":2}'),)),
    ]
    run = LoopRun(responses=[[{"text": "x"}], [{"text": "I could not"}]], tools=[tool], messages=messages)
    await run.events()
    assert tool.calls == []
    assert_valid_view(run.requests[0].messages)
    result = run.requests[0].messages[-1].tool_result
    assert result is not None
    assert result.is_error
    assert text_of(result.content)
