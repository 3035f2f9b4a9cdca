"""The chunks of `_execute/stream`, rendered from events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.events import (
    Cancelled,
    Completed,
    Event,
    Incomplete,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    ReasoningDelta,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.messages import TextBlock, ToolCall
from gateway.ml_agents.chunks import Chunks
from gateway.ml_agents.execution import AnswerForm

FORM = AnswerForm("m", "i")
UNIFIED = AnswerForm("m", "i", is_unified=True)
ANSWER: list[Event] = [
    RunStarted("m", "run"),
    ModelCallStarted("turn1", "p", "model"),
    ReasoningStarted("r1"),
    ReasoningDelta("r1", "Hm."),
    TextStarted("t1"),
    TextDelta("t1", "I"),
    TextDelta("t1", " look."),
    TextEnded("t1"),
    ToolCallStarted("c1", "look", "t1"),
    ToolCallDelta("c1", "{}"),
    ToolCallEnded("c1"),
    ModelCallEnded(StopReason.TOOL_CALLS),
    ToolReturned("x", "c1", (TextBlock("seen"),)),
    ModelCallStarted("turn2", "p", "model"),
    TextStarted("t2"),
    TextDelta("t2", "It"),
    TextDelta("t2", " is."),
    TextStarted("t3"),
    TextDelta("t3", " So"),
    ModelCallEnded(StopReason.END_TURN),
]


def rendered(events: Sequence[Event], form: AnswerForm = FORM, *, at_once: int = 1000) -> list[bytes]:
    chunks = Chunks(form)
    frames: list[bytes] = []
    for first in range(0, len(events), at_once):
        frames += chunks.render(events[first : first + at_once], first + 1)
    return frames


def responses(frames: Sequence[bytes]) -> list[dict[str, Any]]:
    found = [json.loads(frame.removeprefix(b"data: ")) for frame in frames]
    return [each["inference_results"][0]["output"][2]["dataAsMap"] for each in found]


def ended(outcome: Outcome, form: AnswerForm = FORM) -> list[dict[str, Any]]:
    return responses(rendered([RunStarted("m", "run"), RunFinished(outcome)], form))


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_the_frames_do_not_depend_on_how_the_events_are_cut(at_once: int) -> None:
    events = [*ANSWER, RunFinished(Completed())]
    assert rendered(events, at_once=at_once) == rendered(events)


def test_what_the_model_said_in_one_turn_is_parted_from_the_next() -> None:
    said = [each["content"] for each in responses(rendered([*ANSWER, RunFinished(Completed())]))]
    assert said == ["I", " look.", "\n\nIt", " is.", " So", ""]


def test_a_whole_frame() -> None:
    frame = rendered([TextDelta("t1", 'a "b"\n')])[0]
    assert frame == (
        b'data: {"inference_results":[{"output":[{"name":"memory_id","result":"m"},'
        b'{"name":"parent_interaction_id","result":"i"},'
        b'{"name":"response","dataAsMap":{"content":"a \\"b\\"\\n","is_last":false}}]}]}\n\n'
    )
    assert Chunks(FORM).heartbeat == frame.replace(b'a \\"b\\"\\n', b"")


def test_what_replaces_a_text_that_was_taken_back_is_shown() -> None:
    events: list[Event] = [
        TextStarted("t1"),
        TextDelta("t1", "bad"),
        MessageRetracted("t1", "No."),
        MessageRetracted("t1"),
    ]
    assert [each["content"] for each in responses(rendered(events))] == ["bad", "\n\nNo."]


def test_a_text_that_was_taken_back_meanwhile_gives_as_many_frames() -> None:
    events: list[Event] = [TextStarted("t1"), TextDelta("t1", ""), TextDelta("t1", "")]
    assert [each["content"] for each in responses(rendered(events))] == ["", ""]


def test_words_that_are_not_the_assistants_are_not_shown() -> None:
    events: list[Event] = [
        TextStarted("t1", "developer"),
        TextDelta("t1", "psst"),
        TextStarted("t2"),
        TextDelta("t2", "hi"),
    ]
    assert [each["content"] for each in responses(rendered(events))] == ["hi"]


def test_half_a_surrogate_pair_makes_no_broken_json() -> None:
    frames = rendered([TextDelta("t1", "a"), TextDelta("t1", "\ud83d"), RunFailed("x", "\ud83d")])
    assert [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


@pytest.mark.parametrize(
    ("last", "message"),
    [(RunFailed("x", 'test\n"error"\\'), 'test\n"error"\\'), (RunFinished(Cancelled()), "the execution was cancelled")],
)
def test_a_failure_is_one_frame_of_valid_json(last: RunFailed | RunFinished, message: str) -> None:
    (frame,) = rendered([last])
    assert json.loads(frame.removeprefix(b"data: ")) == {"error": message}


def test_g1_the_error_frame_of_the_cases() -> None:
    assert rendered([RunFailed("x", "test error")]) == [b'data: {"error": "test error"}\n\n']


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Completed(), "end_turn"),
        (Incomplete(StopReason.MAX_TOKENS), "max_tokens"),
        (Incomplete(StopReason.MAX_ITERATIONS, "max_iteration"), "max_iterations"),
    ],
)
def test_the_last_chunk_says_why_a_run_ended_early_and_for_conversational_v2_always(
    outcome: Outcome, reason: str
) -> None:
    last = {"content": "", "is_last": True}
    assert ended(outcome, UNIFIED)[-1] == {**last, "stop_reason": reason}
    assert ended(outcome)[-1] == (last if reason == "end_turn" else {**last, "stop_reason": reason})


def test_calls_of_the_client_stand_in_the_last_chunk() -> None:
    words, last = ended(Completed((ToolCall("c1", "ask", "{}"),)))
    assert "ask (c1)" in words["content"]
    assert last["pending_tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "ask", "arguments": "{}"}}
    ]
