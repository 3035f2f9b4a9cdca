"""Calls that need a person: the questions a run ends with, and what becomes of the answers."""

from __future__ import annotations

from dataclasses import replace

from gateway.events import Completed, Interrupt, Interrupted, OpenInterrupt, RunFinished, ToolCallStarted
from gateway.history.merging import append_history
from gateway.loop import Decision
from gateway.messages import JsonObject, ToolCall, ToolSpec
from tests.loop_runs import FunctionTool, LoopRun, adder, assert_valid_view, tool_giving, user

REFUND: JsonObject = {"tool": "refund", "arguments": {"order": "A1"}, "id": "c-refund"}
CLOSE: JsonObject = {"tool": "close", "id": "c-close"}
ADD: JsonObject = {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c-add"}
SHOW_CALL: JsonObject = {"tool": "show", "id": "c-show"}
SHOW = ToolSpec("show", "Show something.", {})


def refunder() -> FunctionTool:
    tool = tool_giving("refund", "refunded")
    return replace(
        tool,
        schema={
            "type": "object",
            "properties": {"order": {"$ref": "#/$defs/order"}},
            "required": ["order"],
            "$defs": {"order": {"type": "string"}},
        },
    )


async def asked(*calls: JsonObject) -> LoopRun:
    run = LoopRun(
        responses=[list(calls)],
        tools=[refunder(), adder(), tool_giving("close", "closed")],
        frontend=[SHOW],
        approvals=["refund", "close"],
    )
    await run.events()
    return run


def interrupts(run: LoopRun) -> tuple[Interrupt, ...]:
    assert isinstance(run.outcome, Interrupted)
    return run.outcome.interrupts


def open_interrupts(run: LoopRun) -> list[OpenInterrupt]:
    calls = {call.call_id: call for message in run.history for call in message.tool_calls}
    return [OpenInterrupt(item, calls[item.call_id or ""]) for item in interrupts(run)]


def approve(item: OpenInterrupt, arguments: JsonObject | None = None) -> Decision:
    return Decision(item.call, approved=True, arguments=arguments)


async def test_a_calls_start_says_whether_a_person_is_asked_first() -> None:
    run = await asked(REFUND, ADD, SHOW_CALL)
    assert [(event.name, event.asks) for event in run.all_of(ToolCallStarted)] == [
        ("refund", True),
        ("add", False),
        ("show", False),
    ]


async def test_a_call_that_needs_approval_ends_the_run_with_a_question() -> None:
    run = await asked(REFUND)
    (question,) = interrupts(run)
    assert question.id == "int-c-refund"
    assert question.reason == "tool_call"
    assert question.call_id == "c-refund"
    assert "refund" in question.message
    assert question.expires_at == run.clock.now() + 900
    assert run.results == []


async def test_the_question_says_what_an_answer_looks_like() -> None:
    (question,) = interrupts(await asked(REFUND))
    assert question.response_schema == {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "arguments": {
                "type": "object",
                "properties": {"order": {"$ref": "#/$defs/order"}},
                "required": ["order"],
            },
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "$defs": {"order": {"type": "string"}},
    }


async def test_other_calls_run_first_and_questions_stand_beside_pending_calls() -> None:
    run = await asked(REFUND, ADD, SHOW_CALL, CLOSE)
    assert [result.call_id for result in run.results] == ["c-add"]
    assert [question.call_id for question in interrupts(run)] == ["c-refund", "c-close"]
    assert isinstance(run.outcome, Interrupted)
    assert [call.call_id for call in run.outcome.pending_calls] == ["c-show"]


async def test_bad_arguments_are_refused_without_asking_anybody() -> None:
    run = LoopRun(
        responses=[[{"tool": "refund", "arguments": {}}], [{"text": "Sorry"}]],
        tools=[refunder()],
        approvals=["refund"],
    )
    await run.events()
    assert run.results[0].is_error
    assert run.outcome == Completed()


async def _answered(first: LoopRun, *decisions: Decision, **more: object) -> tuple[LoopRun, FunctionTool]:
    tool = refunder()
    run = LoopRun(
        responses=[[], [{"text": "Result: {{result}}"}]],
        tools=[tool, adder(), tool_giving("close", "closed")],
        frontend=[SHOW],
        approvals=["refund", "close"],
        messages=first.history,
        decisions=decisions,
        **more,  # type: ignore[arg-type]
    )
    await run.events()
    return run, tool


async def test_an_approved_call_runs_and_the_model_goes_on() -> None:
    first = await asked(REFUND)
    run, tool = await _answered(first, approve(open_interrupts(first)[0]))
    assert tool.calls == [{"order": "A1"}]
    assert run.result_texts == ["refunded"]
    assert run.text == "Result: refunded"
    assert_valid_view(run.requests[0].messages)


async def test_edited_arguments_replace_the_models_and_the_model_is_told() -> None:
    first = await asked(REFUND)
    run, tool = await _answered(first, approve(open_interrupts(first)[0], {"order": "B2"}))
    assert tool.calls == [{"order": "B2"}]
    assert run.result_texts[0].startswith('The user changed the arguments to {"order":"B2"}')
    assert run.result_texts[0].endswith("refunded")


async def test_a_denied_call_never_runs_and_the_model_learns_why() -> None:
    first = await asked(REFUND)
    denied = Decision(open_interrupts(first)[0].call, approved=False, reason="too much")
    run, tool = await _answered(first, denied)
    assert tool.calls == []
    assert run.result_texts == ["The user denied this call: too much. It was not run."]
    assert run.results[0].is_error
    assert run.outcome == Completed()


async def test_decisions_are_carried_out_in_call_order() -> None:
    first = await asked(CLOSE, REFUND)
    close, refund = open_interrupts(first)
    run, _ = await _answered(first, approve(refund), Decision(close.call, approved=False))
    assert [result.call_id for result in run.results] == ["c-close", "c-refund"]


async def test_what_is_left_on_the_frontend_ends_the_run_without_asking_the_model() -> None:
    first = await asked(REFUND, SHOW_CALL)
    run, tool = await _answered(first, approve(open_interrupts(first)[0]))
    assert len(tool.calls) == 1
    assert run.requests == []
    assert isinstance(run.outcome, Completed)
    assert [call.call_id for call in run.outcome.pending_calls] == ["c-show"]


async def test_an_uncovered_question_is_asked_again_after_the_covered_one_was_carried_out() -> None:
    first = await asked(REFUND, CLOSE, SHOW_CALL)
    refund, close = open_interrupts(first)
    run, tool = await _answered(first, approve(refund), still_open=[close])
    assert len(tool.calls) == 1
    assert run.requests == []
    assert run.outcome == Interrupted((close.interrupt,), (ToolCall("c-show", "show", "{}", 2),))


async def test_an_approved_call_beside_a_new_user_message_runs_and_the_history_stays_valid() -> None:
    first = await asked(REFUND)
    tool = refunder()
    run = LoopRun(
        responses=[[{"text": "ok"}]],
        tools=[tool],
        approvals=["refund"],
        messages=append_history(first.history, [user("And hurry", "u2")]),
        decisions=[approve(open_interrupts(first)[0])],
    )
    await run.events()
    assert len(tool.calls) == 1
    view = run.requests[0].messages
    assert_valid_view(view)
    assert [message.role for message in view] == ["user", "assistant", "tool", "user"]


async def test_a_tool_that_is_gone_by_the_time_it_is_approved_is_an_error_for_the_model() -> None:
    first = await asked(REFUND)
    run = LoopRun(
        responses=[[], [{"text": "Pity"}]],
        messages=first.history,
        decisions=[approve(open_interrupts(first)[0])],
    )
    await run.events()
    assert run.results[0].is_error
    assert run.text == "Pity"


async def test_a_gated_call_that_nobody_decided_on_is_never_run() -> None:
    first = await asked(REFUND)
    run, tool = await _answered(first)
    assert tool.calls == []
    assert run.results == []
    assert_valid_view(run.requests[0].messages)
    assert isinstance(run.so_far()[-1], RunFinished)
