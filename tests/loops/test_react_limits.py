"""Budgets: what ends a run that would go on, and that time comes from the clock."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from gateway.agent import Budgets
from gateway.errors import LimitError, limit_reached
from gateway.events import Completed, Incomplete, RunFailed, StopReason
from gateway.messages import JsonObject
from gateway.tool import ToolContext
from tests.loop_runs import FunctionTool, LoopRun, adder, assert_valid_view, tool_giving

SUMMARY: JsonObject = {"when": {"tool_choice": "none"}, "response": [{"text": "That is all"}]}


def adding(a: int) -> list[JsonObject]:
    return [{"tool": "add", "arguments": {"a": a, "b": 1}}]


def counter() -> FunctionTool:
    numbers = itertools.count(1)

    async def count(arguments: JsonObject, context: ToolContext) -> str:
        return str(next(numbers))

    return FunctionTool("count", count)


def hanging() -> FunctionTool:
    async def hang(arguments: JsonObject, context: ToolContext) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    return FunctionTool("hang", hang)


async def test_after_the_last_iteration_comes_one_answer_without_tools() -> None:
    tool = adder()
    run = LoopRun(
        rules=[SUMMARY], responses=[adding(n) for n in range(9)], tools=[tool], budgets=Budgets(max_iteration=3)
    )
    await run.events()
    assert len(tool.calls) == 3
    assert [request.tool_choice for request in run.requests] == ["auto", "auto", "auto", "none"]
    assert "max_iteration" in run.requests[-1].system
    assert run.text == "That is all"
    assert run.outcome == Completed(limit="max_iteration")


@pytest.mark.parametrize(
    "response",
    [
        [{"tool": "add", "arguments": {"a": 1, "b": 1}}],
        [{"text": "Well"}, {"tool": "add", "arguments": {"a": 1, "b": 1}}],
        [],
        [{"error": "invalid"}],
    ],
)
async def test_where_no_answer_comes_even_without_tools_the_run_fails_with_the_limits_code(
    response: list[JsonObject],
) -> None:
    tool = adder()
    rule: JsonObject = {"when": {"tool_choice": "none"}, "response": response}  # type: ignore[dict-item]
    run = LoopRun(rules=[rule], responses=[adding(1)], tools=[tool], budgets=Budgets(max_iteration=1))
    with pytest.raises(LimitError) as failure:
        await run.events()
    assert failure.value.code == "limit_max_iteration"
    assert len(tool.calls) == 1
    assert_valid_view(run.requests[-1].messages)


async def test_a_summary_that_is_cut_off_says_so() -> None:
    rule: JsonObject = {"when": {"tool_choice": "none"}, "response": [{"text": "So"}, {"stop": "max_tokens"}]}
    run = LoopRun(rules=[rule], responses=[adding(1)], tools=[adder()], budgets=Budgets(max_iteration=1))
    await run.events()
    assert run.outcome == Incomplete(StopReason.MAX_TOKENS, limit="max_iteration")
    whole = LoopRun(responses=[[{"text": "So"}, {"stop": "max_tokens"}]])
    await whole.events()
    assert whole.outcome == Incomplete(StopReason.MAX_TOKENS)


def test_a_failure_names_its_limit_by_its_code() -> None:
    reached = limit_reached("max_run_seconds", 5.0)
    assert RunFailed(reached.code, reached.message).limit == "max_run_seconds"
    assert RunFailed("model_throttled", "").limit is None


async def test_calls_beyond_the_budget_are_not_run_but_answered() -> None:
    tool = adder()
    calls = [call for n in range(1000) for call in adding(n)]
    run = LoopRun(
        rules=[SUMMARY], responses=[calls], tools=[tool], budgets=Budgets(max_tool_calls=5, max_calls_per_answer=1_000)
    )
    await run.events()
    assert len(tool.calls) == 5
    assert len(run.results) == 1000
    assert [result.is_error for result in run.results[:6]] == [False] * 5 + [True]
    assert run.requests[-1].tool_choice == "none"
    assert run.outcome == Completed(limit="max_tool_calls")


async def test_no_more_tools_run_at_once_than_allowed() -> None:
    running, most = 0, 0
    release = asyncio.Event()

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return "ok"

    run = LoopRun(
        responses=[[{"tool": "work"}] * 9, [{"text": "done"}]],
        tools=[FunctionTool("work", work)],
        budgets=Budgets(max_parallel_tools=4, max_repeated_calls=99),
    )
    task = run.start()
    await run.clock.until(lambda: running == 4)
    await run.clock.settle()
    assert running == 4
    release.set()
    await task
    assert most == 4
    assert len(run.results) == 9


async def test_a_model_without_an_end_stops_when_the_tokens_are_used_up() -> None:
    response: list[JsonObject] = [*adding(1), {"usage": {"input_tokens": 60, "output_tokens": 20}}]
    run = LoopRun(responses=[response, response, response], tools=[adder()], budgets=Budgets(max_total_tokens=150))
    with pytest.raises(LimitError) as failure:
        await run.events()
    assert failure.value.code == "limit_max_total_tokens"
    assert len(run.requests) == 2
    assert len(run.results) == 2


async def test_an_answer_that_uses_up_the_tokens_is_still_an_answer() -> None:
    run = LoopRun(responses=[[{"text": "ok"}, {"usage": {"output_tokens": 500}}]], budgets=Budgets(max_total_tokens=10))
    await run.events()
    assert run.outcome == Completed()


async def test_the_same_call_with_the_same_result_is_refused_and_then_the_run_is_brought_to_its_end() -> None:
    tool = tool_giving("look", "nothing new")
    run = LoopRun(rules=[SUMMARY], responses=[[{"tool": "look"}]] * 9, tools=[tool], budgets=Budgets())
    await run.events()
    assert len(tool.calls) == 3
    assert [result.is_error for result in run.results] == [False, False, False, True, True]
    assert "max_repeated_calls" in run.requests[-1].system
    assert run.outcome == Completed(limit="max_repeated_calls")


async def test_a_call_that_is_written_differently_is_the_same_call() -> None:
    first: JsonObject = {"tool": "add", "arguments": '{"a": 1, "b": 2}'}
    second: JsonObject = {"tool": "add", "arguments": '{ "b":2,"a":1 }'}
    tool = adder()
    run = LoopRun(
        responses=[[first], [second], [first], [{"text": "3"}]], tools=[tool], budgets=Budgets(max_repeated_calls=2)
    )
    await run.events()
    assert len(tool.calls) == 2
    assert run.results[2].is_error
    assert run.outcome == Completed()


async def test_a_call_whose_result_changes_makes_progress() -> None:
    counting: list[JsonObject] = [{"tool": "count"}]
    run = LoopRun(responses=[*[counting] * 8, [{"text": "eight"}]], tools=[counter()])
    await run.events()
    assert run.result_texts == [str(number) for number in range(1, 9)]
    assert run.outcome == Completed()


async def test_a_tool_that_hangs_gets_an_error_result_in_time_and_the_run_goes_on() -> None:
    run = LoopRun(
        responses=[[{"tool": "hang"}, {"tool": "add", "arguments": {"a": 1, "b": 1}}], [{"text": "Anyway"}]],
        tools=[hanging(), adder()],
        budgets=Budgets(tool_timeout_seconds=30),
    )
    task = run.start()
    await run.clock.until_timer(30)
    await run.clock.advance(29.9)
    assert run.results == []
    await run.clock.advance(0.2)
    await task
    assert run.result_texts == ["The tool 'hang' gave no result within 30 seconds.", "2"]
    assert run.text == "Anyway"
    assert run.clock.pending == []


async def test_a_tool_that_ignores_cancellation_holds_nobody_up() -> None:
    stop = asyncio.Event()

    async def stubborn(arguments: JsonObject, context: ToolContext) -> str:
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    run = LoopRun(responses=[[{"tool": "stubborn"}], [{"text": "Anyway"}]], tools=[FunctionTool("stubborn", stubborn)])
    task = run.start()
    await run.clock.until_timer(30)
    await run.clock.advance(30)
    assert run.result_texts == ["The tool 'stubborn' gave no result within 30 seconds."]
    await run.clock.advance(1)
    await task
    assert run.text == "Anyway"
    stop.set()
    await run.clock.settle()


async def test_a_model_that_hangs_is_stopped_when_the_runs_time_is_up() -> None:
    run = LoopRun(responses=[[{"text": "Well"}, {"hang": True}]], budgets=Budgets(max_run_seconds=60))
    task = run.start()
    await run.clock.until(lambda: run.text)
    await run.clock.advance(59)
    assert not task.done()
    await run.clock.advance(2)
    with pytest.raises(LimitError) as failure:
        await task
    assert failure.value.code == "limit_max_run_seconds"
    assert run.clock.pending == []


async def test_tools_that_run_when_the_time_is_up_are_stopped_and_answered() -> None:
    run = LoopRun(
        responses=[[{"tool": "add", "arguments": {"a": 1, "b": 1}}, {"tool": "hang"}, {"tool": "hang"}]],
        tools=[adder(), hanging()],
        budgets=Budgets(max_run_seconds=10, tool_timeout_seconds=30),
    )
    task = run.start()
    await run.clock.until(lambda: run.results)
    await run.clock.advance(11)
    with pytest.raises(LimitError) as failure:
        await task
    assert failure.value.code == "limit_max_run_seconds"
    assert run.result_texts == ["2", *["This call was stopped: the time of the run was up."] * 2]
    assert run.clock.pending == []


@pytest.mark.parametrize("first", [adding(1), [{"text": "In the middle"}, {"delay_seconds": 1}, {"text": "late"}]])
async def test_time_that_passes_while_the_consumer_is_busy_does_not_interrupt_the_consumer(
    first: list[JsonObject],
) -> None:
    run = LoopRun(responses=[first, [{"text": "late"}]], tools=[adder()], budgets=Budgets(max_run_seconds=10))
    reached: list[str] = []

    async def consume() -> None:
        from contextlib import aclosing

        from gateway.loops.react import ReactLoop

        async with aclosing(ReactLoop().run(run.context)) as batches:
            async for _ in batches:
                if not reached:
                    reached.append("busy")
                    await run.clock.sleep(60)
                    reached.append("not interrupted")

    task = asyncio.create_task(consume())
    await run.clock.until_timer(60)
    await run.clock.advance(60)
    with pytest.raises(LimitError):
        await task
    assert reached == ["busy", "not interrupted"]
    assert len(run.requests) == 1


async def test_a_cancelled_run_is_cancelled_even_when_its_time_is_up_at_the_same_moment() -> None:
    run = LoopRun(responses=[[{"text": "Well"}, {"hang": True}]], budgets=Budgets(max_run_seconds=60))
    task = run.start()
    await run.clock.until(lambda: run.text)
    run.clock.call_later(60, task.cancel)  # due together with the run's own deadline
    await run.clock.advance(60)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_without_limits_nothing_waits_on_the_clock() -> None:
    run = LoopRun(responses=[[{"text": "ok"}]], budgets=Budgets(max_run_seconds=None))
    await run.events()
    assert run.clock.pending == []


@pytest.mark.parametrize("levels", [201, 300, 900])
@pytest.mark.parametrize("whose", ["backend", "frontend", "approval"])
async def test_arguments_that_are_nested_too_deep_are_refused_and_the_run_goes_on(levels: int, whose: str) -> None:
    tool = adder()
    arguments = '{"a":' * levels + "1" + "}" * levels
    run = LoopRun(
        responses=[[{"tool": "add", "arguments": arguments}], [{"text": "Flatter, then"}]],
        tools=[] if whose == "frontend" else [tool],
        frontend=[tool.spec] if whose == "frontend" else [],
        approvals=["add"] if whose == "approval" else [],
    )
    await run.events()
    assert run.result_texts == ["The arguments are nested more than 200 deep. Make them flatter and call again."]
    assert run.text == "Flatter, then"
    assert run.outcome == Completed()
    assert not tool.calls


@pytest.mark.parametrize("kind", ["text", "reasoning", "arguments"])
async def test_an_answer_has_so_many_bytes_and_no_more(kind: str) -> None:
    part: JsonObject = {kind: "é" * 600, **({"tool": "add"} if kind == "arguments" else {})}
    end: list[JsonObject] = [{"text": "ok"}]
    budgets = Budgets(max_answer_bytes=1_200)
    await LoopRun(responses=[[part], end, end], tools=[adder()], budgets=budgets).events()
    run = LoopRun(responses=[[{"text": "Well. "}, part]], tools=[adder()], budgets=budgets)
    with pytest.raises(LimitError) as failure:
        await run.events()
    assert failure.value.code == "limit_max_answer_bytes"
    assert failure.value.message == "the run reached its limit max_answer_bytes (1200) before it came to an answer"


async def test_all_answers_of_a_run_have_so_many_bytes_together() -> None:
    tool = adder()
    said: list[list[JsonObject]] = [[{"text": "x" * 900}, *adding(n)] for n in range(9)]
    run = LoopRun(responses=said, tools=[tool], budgets=Budgets(max_answer_bytes=1_000, max_run_bytes=2_000))
    with pytest.raises(LimitError) as failure:
        await run.events()
    assert failure.value.code == "limit_max_run_bytes"
    assert len(tool.calls) == 2
    assert 1_800 <= len(run.text) <= 2_000


async def test_an_answer_with_too_many_calls_runs_none_of_them() -> None:
    tool = adder()
    calls: list[JsonObject] = [{"tool": "add", "arguments": {"a": n, "b": 1}} for n in range(4)]
    run = LoopRun(responses=[calls], tools=[tool], budgets=Budgets(max_calls_per_answer=3))
    with pytest.raises(LimitError) as failure:
        await run.events()
    assert failure.value.code == "limit_max_calls_per_answer"
    assert not tool.calls
    await LoopRun(responses=[calls, [{"text": "4"}]], tools=[tool], budgets=Budgets(max_calls_per_answer=4)).events()
    assert len(tool.calls) == 4


async def test_what_is_passed_on_as_the_provider_sent_it_counts_as_part_of_the_answer() -> None:
    passed_on: list[JsonObject] = [{"raw_event": {"cited": "x" * 500}}, {"text": "ok"}]
    await LoopRun(responses=[passed_on], budgets=Budgets(max_answer_bytes=1_000)).events()
    with pytest.raises(LimitError) as failure:
        await LoopRun(responses=[[passed_on[0], *passed_on]], budgets=Budgets(max_answer_bytes=1_000)).events()
    assert failure.value.code == "limit_max_answer_bytes"
