"""The ids of a run's calls lead back to the run, where its request wants that."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from gateway.agent import InterruptAnswer
from gateway.events import (
    Interrupted,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    RunFinished,
    StopReason,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.loop import ResumedRun
from gateway.loops.react import ReactLoop
from gateway.messages import Message, TextBlock, ToolCall, ToolResult
from tests.agent_inputs import changed
from tests.loop_runs import LoopRun, adder, user
from tests.runner_scene import agent_of, end_of, question, read, runner_scene

ADD: dict[str, Any] = {"tool": "add", "arguments": {"a": 1, "b": 2}}


def named(run: LoopRun) -> LoopRun:
    run.context = replace(run.context, input=changed(run.context.input, names_calls=True))
    return run


async def test_the_calls_of_a_run_are_counted_over_all_of_its_answers() -> None:
    responses = [[ADD, {**ADD, "id": "theirs"}], [ADD], [{"text": "done"}]]
    run = named(LoopRun(responses=responses, tools=[adder()]))
    await run.events()
    started = run.all_of(ToolCallStarted)
    assert [each.call_id for each in started] == ["call_run_0", "call_run_1", "call_run_2"]
    assert [request.next_call for request in run.requests] == [0, 2, 3]


async def test_a_number_that_the_thread_has_already_is_left_out() -> None:
    """A client may have sent any ids; those of one thread are never the same."""
    earlier = (
        user("Hi"),
        Message("a", "assistant", (ToolCall("call_run_0", "add", "{}"),)),
        Message("o", "tool", (ToolResult("call_run_0", (TextBlock("3"),)),)),
        user("And?", "u2"),
    )
    run = named(LoopRun(responses=[[ADD], [{"text": "done"}]], tools=[adder()], messages=earlier))
    await run.events()
    assert [each.call_id for each in run.all_of(ToolCallStarted)] == ["call_run_1"]


async def test_a_try_that_failed_takes_no_number() -> None:
    failing: dict[str, Any] = {"error": "overloaded", "times": 1}
    run = named(LoopRun(responses=[[failing, ADD], [failing, ADD], [{"text": "done"}]], tools=[adder()]))
    task = run.start()
    while not task.done():
        await asyncio.sleep(0)
        await run.clock.advance(1)
    assert len(run.requests) == 5
    assert [each.call_id for each in run.all_of(ToolCallStarted)] == ["call_run_0", "call_run_1"]


async def test_a_run_that_another_process_began_goes_on_counting() -> None:
    opening = ModelCallStarted("turn-2", "scripted", "scripted")
    before = (
        ModelCallStarted("turn-1", "scripted", "scripted"),
        ToolCallStarted("call_run_0", "add", "m1", 0),
        ToolCallEnded("call_run_0"),
        ModelCallEnded(StopReason.TOOL_CALLS),
        ToolReturned("m2", "call_run_0", (TextBlock("3"),)),
        opening,
    )
    run = named(LoopRun(responses=[[{"text": "not this one"}], [ADD], [{"text": "done"}]], tools=[adder()]))
    run.context = replace(run.context, resumed=ResumedRun(before, (ModelCallAccepted("resp_1"),), "resp_1", {}))
    async with aclosing(ReactLoop().run(run.context)) as batches:
        events = [event async for batch in batches for event in batch]
    assert [event.call_id for event in events if isinstance(event, ToolCallStarted)] == ["call_run_1"]


async def test_what_nobody_wants_to_be_named_has_the_ids_that_it_always_had() -> None:
    run = LoopRun(responses=[[ADD], [{"text": "done"}]], tools=[adder()])
    await run.events()
    assert not run.all_of(ToolCallStarted)[0].call_id.startswith("call_run")


async def test_a_run_that_goes_on_after_an_approval_names_its_own_calls_after_itself() -> None:
    responses: list[list[dict[str, Any]]] = [[ADD], [ADD], [{"text": "done"}]]
    async with runner_scene(agent_of("a", responses, (adder(), "always"))) as scene:
        first = await read(await scene.start("a", question(names_calls=True, run_id="r1")))
        end = end_of(first)
        assert isinstance(end, RunFinished)
        assert isinstance(end.outcome, Interrupted)
        answers = tuple(
            InterruptAnswer(interrupt.id, "resolved", approved=True) for interrupt in end.outcome.interrupts
        )
        given = changed(question(names_calls=True, run_id="r2"), messages=(), answers=answers)
        second = await read(await scene.start("a", given))
        ids = [event.call_id for event in (*first, *second) if isinstance(event, ToolCallStarted)]
        assert ids == ["call_r1_0", "call_r2_0"]
