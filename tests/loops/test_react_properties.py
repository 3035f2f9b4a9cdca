"""Whatever a model does, the run's events are in order, every call has its one fate, and the history stays valid."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.agent import Budgets
from gateway.errors import LimitError
from gateway.events import Completed, Incomplete, Interrupted
from gateway.history.model_view import model_view
from gateway.messages import JsonObject, ToolSpec
from tests.loop_runs import LoopRun, adder, assert_valid_view, tool_giving

FRONTEND = [ToolSpec("pick", "Pick.", {"type": "object", "required": ["color"]})]

ARGUMENTS = st.sampled_from(["", "{}", "null", "[1]", "{", '{"a":1,"b":2}', '{"color":"red"}', '{"a":"x"}', "{}{}"])
STEPS: st.SearchStrategy[JsonObject] = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=12)),
    st.builds(lambda text: {"reasoning": text, "signature": "s"}, st.text(max_size=5)),
    st.builds(
        lambda name, arguments: {"tool": name, "arguments": arguments},
        st.sampled_from(["add", "now", "refund", "pick", "unknown"]),
        ARGUMENTS,
    ),
    st.just({"tool": "now", "id": "same-id-every-time"}),
    st.builds(lambda tokens: {"usage": {"input_tokens": tokens}}, st.integers(0, 100)),
    st.just({"delay_seconds": 0}),
    st.just({"raw_event": {"x": 1}}),
)
STOPS: st.SearchStrategy[list[JsonObject]] = st.one_of(
    st.just([]),
    st.builds(
        lambda reason: [{"stop": reason}],
        st.sampled_from(
            ["end_turn", "tool_calls", "max_tokens", "content_filter", "refusal", "pause", "stop_sequence"]
        ),
    ),
)
RESPONSES = st.builds(lambda steps, stop: steps + stop, st.lists(STEPS, max_size=5), STOPS)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    responses=st.lists(RESPONSES, min_size=1, max_size=6),
    summary=RESPONSES,
    budgets=st.builds(
        Budgets,
        max_iteration=st.integers(1, 4),
        on_max_iteration=st.sampled_from(["answer", "stop", "summarize"]),
        max_tool_calls=st.integers(0, 4),
        max_parallel_tools=st.integers(1, 3),
        max_repeated_calls=st.integers(1, 2),
        max_total_tokens=st.none() | st.integers(1, 100),
    ),
)
async def test_every_run_ends_and_every_call_has_one_fate(
    responses: list[list[JsonObject]], summary: list[JsonObject], budgets: Budgets
) -> None:
    ends: list[list[JsonObject]] = [[{"text": "the end"}]] * 6
    last: list[Any] = [{"when": {"tool_choice": "none"}, "response": summary}]
    run = LoopRun(
        rules=last,
        responses=[*responses, *ends],
        tools=[adder(), tool_giving("now", "noon"), tool_giving("refund", "done")],
        frontend=FRONTEND,
        approvals=["refund"],
        budgets=budgets,
    )
    try:
        await run.events()
        outcome: object = run.outcome
    except LimitError:
        outcome = None
    assert outcome is None or isinstance(outcome, Completed | Incomplete | Interrupted)
    for request in run.requests:
        assert_valid_view(request.messages)
    assert_valid_view(model_view(run.history))

    calls = [call.call_id for message in run.history for call in message.tool_calls]
    answered = [result.call_id for result in run.results]
    left = [call.call_id for call in getattr(outcome, "pending_calls", ())]
    asked = [item.call_id for item in getattr(outcome, "interrupts", ())]
    assert sorted(calls) == sorted([*answered, *left, *asked])
