"""What becomes of a run that has used up its iterations: an end, or a summary of its steps."""

from __future__ import annotations

import pytest

from gateway.agent import Budgets
from gateway.events import Completed, Incomplete, ModelCallStarted, StopReason, TextDelta
from gateway.messages import JsonObject, ToolSpec
from tests.loop_runs import LoopRun, adder, assert_valid_view, user, view

HEAD = (
    "Agent reached maximum iterations ({}) without completing the task. "
    "Here's a summary of the steps completed so far:\n\n"
)
LAST_THOUGHT = "Agent reached maximum iterations ({}) without completing the task. Last thought: {}"


def adding(a: int, thought: str = "") -> list[JsonObject]:
    said: list[JsonObject] = [{"text": thought}] if thought else []
    return [*said, {"tool": "add", "arguments": {"a": a, "b": 1}}]


def summarizing(*response: JsonObject) -> JsonObject:
    return {"when": {"tool_choice": "none"}, "response": list(response)}


def stopping(most: int) -> Budgets:
    return Budgets(max_iteration=most, on_max_iteration="stop")


def summary_after(most: int) -> Budgets:
    return Budgets(max_iteration=most, on_max_iteration="summarize", model_attempts=1)


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_a_run_that_stops_asks_the_model_exactly_so_often_and_says_why_it_ended(most: int) -> None:
    tool = adder()
    run = LoopRun(responses=[adding(n) for n in range(9)], tools=[tool], budgets=stopping(most))
    await run.events()
    assert [request.tool_choice for request in run.requests] == ["auto"] * most
    assert len(tool.calls) == most
    assert run.outcome == Incomplete(StopReason.MAX_ITERATIONS, limit="max_iteration")


async def test_the_next_run_goes_on_from_a_history_without_unanswered_calls() -> None:
    tool = adder()
    stopped = LoopRun(responses=[adding(1), adding(2)], tools=[tool], budgets=stopping(2))
    await stopped.events()
    assert_valid_view(view(stopped.history))
    following = LoopRun(
        responses=[[{"text": "It is 3"}]], messages=(*stopped.history, user("Go on", "u2")), budgets=stopping(2)
    )
    await following.events()
    (request,) = following.requests
    assert_valid_view(request.messages)
    assert [message.role for message in request.messages] == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert following.outcome == Completed()


@pytest.mark.parametrize("budgets", [stopping(2), summary_after(4)])
async def test_an_answer_of_the_last_allowed_call_is_an_answer(budgets: Budgets) -> None:
    run = LoopRun(responses=[adding(1), [{"text": "2"}]], tools=[adder()], budgets=budgets)
    await run.events()
    assert (run.text, run.outcome) == ("2", Completed())


async def test_a_run_that_stops_still_waits_for_a_call_of_the_browser() -> None:
    ask = ToolSpec("ask", "Ask the user.", {})
    run = LoopRun(responses=[[{"tool": "ask"}]], frontend=[ask], budgets=stopping(1))
    await run.events()
    assert isinstance(run.outcome, Completed)
    assert [call.name for call in run.outcome.pending_calls] == ["ask"]


async def test_a_model_that_says_nothing_is_not_asked_once_more_than_allowed() -> None:
    run = LoopRun(responses=[[], [{"text": "too late"}]], budgets=stopping(1))
    await run.events()
    assert len(run.requests) == 1
    assert run.outcome == Incomplete(StopReason.MAX_ITERATIONS, limit="max_iteration")


@pytest.mark.parametrize(("most", "model_calls", "tool_rounds"), [(10, 5, 5), (4, 2, 2), (3, 2, 1), (1, 1, 0)])
async def test_model_calls_and_rounds_of_tools_count_alike_before_a_summary(
    most: int, model_calls: int, tool_rounds: int
) -> None:
    tool = adder()
    run = LoopRun(
        rules=[summarizing({"text": "I added"}, {"text": " a lot"})],
        responses=[adding(n) for n in range(9)],
        tools=[tool],
        budgets=summary_after(most),
    )
    await run.events()
    assert [request.tool_choice for request in run.requests] == ["auto"] * model_calls + ["none"]
    assert len(tool.calls) == tool_rounds
    assert_valid_view(run.requests[-1].messages)
    assert "Summarize" in run.requests[-1].system
    assert run.outcome == Completed(limit="max_iteration")


async def test_the_summary_is_streamed_and_kept_behind_the_sentence_that_says_what_it_is() -> None:
    run = LoopRun(
        rules=[summarizing({"reasoning": "Hm"}, {"text": "I added a lot", "chunk_characters": 7})],
        responses=[adding(1)],
        tools=[adder()],
        budgets=summary_after(2),
    )
    await run.events()
    assert [event.texts for event in run.all_of(TextDelta)] == [(HEAD.format(2),), ("I added", " a lot")]
    assert len({event.message_id for event in run.all_of(TextDelta)}) == 1
    last = run.history[-1]
    assert (last.text, last.incomplete) == (HEAD.format(2) + "I added a lot", False)


async def test_a_summary_that_is_cut_off_is_one_all_the_same() -> None:
    run = LoopRun(
        rules=[summarizing({"text": "I add"}, {"stop": "max_tokens"})],
        responses=[adding(1)],
        tools=[adder()],
        budgets=summary_after(1),
    )
    await run.events()
    assert run.text == HEAD.format(1) + "I add"
    assert run.outcome == Incomplete(StopReason.MAX_TOKENS, limit="max_iteration")


@pytest.mark.parametrize(
    "summary",
    [
        [{"error": "invalid"}],
        [],
        [{"text": "  "}],
        [{"reasoning": "Hm"}],
        [{"stop": "max_tokens"}],
        adding(7),
        [{"reasoning": "Hm"}, {"error": "server"}],
        [{"text": "I add"}, {"error": "server"}],
        [{"text": "I add"}, *adding(7), {"error": "server"}],
    ],
)
async def test_where_the_summary_fails_the_last_thought_is_said(summary: list[JsonObject]) -> None:
    tool = adder()
    run = LoopRun(
        rules=[summarizing(*summary)],
        responses=[adding(1, "First the one"), adding(2, " T "), adding(3)],
        tools=[tool],
        budgets=summary_after(6),
    )
    await run.events()
    assert run.history[-1].text == LAST_THOUGHT.format(6, "T")
    assert not run.history[-1].incomplete
    assert len(tool.calls) == 3
    assert run.outcome == Completed(limit="max_iteration")
    following = LoopRun(responses=[[{"text": "ok"}]], messages=(*run.history, user("Go on", "u2")))
    await following.events()
    assert_valid_view(following.requests[0].messages)


async def test_a_failed_summary_without_any_thought_says_that_there_is_no_answer() -> None:
    run = LoopRun(
        rules=[summarizing({"error": "invalid"})], responses=[adding(1)], tools=[adder()], budgets=summary_after(1)
    )
    await run.events()
    assert run.text == "Agent reached maximum iterations (1) without completing the task"
    assert len(run.all_of(ModelCallStarted)) == 2
