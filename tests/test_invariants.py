"""The invariants can be broken: one run for each that breaks it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.events import (
    Cancelled,
    Completed,
    Event,
    Interrupt,
    Interrupted,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.messages import Message, ReasoningBlock, TextBlock, ToolCall, ToolResult
from gateway.store import NumberedEvent
from tests.invariants import check_history, check_log, check_nothing_leaks, check_replay, check_thread

START = RunStarted("t", "r")
END = RunFinished(Completed())
TEXT: list[Event] = [TextStarted("m"), TextDelta("m", "a"), TextDelta("m", "b"), TextEnded("m")]
CALL: list[Event] = [ToolCallStarted("c", "tool", "m"), ToolCallEnded("c")]
RESULT = ToolReturned("x", "c", ())


def log(*events: Event, first: int = 1) -> list[NumberedEvent]:
    return [NumberedEvent(number, event) for number, event in enumerate(events, first)]


@pytest.mark.parametrize(
    "events",
    [
        [START, *TEXT, *CALL, RESULT, END],
        [RunFailed("c", "m")],
        [START, *CALL, RunFailed("c", "m")],
        [START, *CALL, RunFinished(Cancelled())],
        [START, *CALL, RunFinished(Interrupted((Interrupt("i", "r", "m", "c"),)))],
        [START, ToolCallStarted("c", "frontend", "m"), ToolCallEnded("c"), END],
    ],
)
def test_a_run_that_is_in_order_holds_them(events: Sequence[Event]) -> None:
    check_log(log(*events), backend_tools={"tool"})


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("I1", []),
        ("I1", [*TEXT, END]),
        ("I1", [START, START, END]),
        ("I1", [END]),
        ("I2", [START, *TEXT]),
        ("I2", [START, END, END]),
        ("I2", [START, RunFailed("c", "m"), END]),
        ("I3", [START, *TEXT[:-1], END]),
        ("I3", [START, *TEXT[1:], END]),
        ("I3", [START, TextEnded("m"), END]),
        ("I3", [START, TextStarted("m"), *TEXT, END]),
        ("I4", [START, RESULT, RESULT, END]),
        ("I4", [START, *CALL, END]),
    ],
)
def test_a_run_that_breaks_one_is_found(name: str, events: Sequence[Event]) -> None:
    with pytest.raises(AssertionError, match=f"{name}:"):
        check_log(log(*events), backend_tools={"tool"})


def test_numbers_have_no_gap() -> None:
    with pytest.raises(AssertionError, match="I5:"):
        check_log([*log(START), *log(END, first=3)])
    with pytest.raises(AssertionError, match="I5:"):
        check_log(log(START, END, first=2))


def test_the_thread_has_what_was_said() -> None:
    said = log(START, *TEXT, *CALL, RESULT, END)
    answer = Message("m", "assistant", (TextBlock("ab"), ToolCall("c", "tool", "")))
    result = Message("x", "tool", (ToolResult("c", ()),))
    check_thread(said, [answer, result])
    for name, messages in {
        "I6: the thread has": [Message("m", "assistant", (TextBlock("a"), ToolCall("c", "tool", ""))), result],
        "I6: the thread lacks": [Message("m", "assistant", (TextBlock("ab"),)), result],
        "I8: the thread has no": [answer],
        "I8: an id stands twice": [answer, result, result],
    }.items():
        with pytest.raises(AssertionError, match=name):
            check_thread(said, messages)


def test_a_replay_is_the_stream() -> None:
    whole = log(START, *TEXT, END)
    check_replay(whole, whole)
    check_replay(whole[3:], whole)
    for live in (whole[:-1], [whole[0], *whole[2:]], [*whole, *log(END, first=7)]):
        with pytest.raises(AssertionError, match="I7:"):
            check_replay(live, whole)


def calls(*call_ids: str, turn: str | None = None) -> Message:
    return Message("a", "assistant", tuple(ToolCall(call_id, "tool", "") for call_id in call_ids), turn_id=turn)


def result(*call_ids: str) -> Message:
    return Message("x", "tool", tuple(ToolResult(call_id, ()) for call_id in call_ids))


USER = Message("u", "user", (TextBlock("q"),))


@pytest.mark.parametrize(
    "messages",
    [
        [result("1")],
        [calls("1")],
        [calls("1"), USER, result("1")],
        [calls("1", "2"), result("2"), result("1")],
        [calls("1"), result("1"), result("1")],
        [calls("1"), result("1"), calls("1"), result("1")],
        [calls("1", "2"), result("1", "2")],
        [calls("1"), Message("x", "tool", (TextBlock("1"),))],
        [Message("a", "assistant", (TextBlock(" "),))],
        [Message("a", "assistant", (ReasoningBlock("hm"),))],
        [Message("a", "reasoning", (ReasoningBlock("hm"),))],
        [Message("a", "assistant", (TextBlock("b", 1), TextBlock("a", 0)), turn_id="T")],
    ],
)
def test_a_history_that_a_provider_would_refuse_is_found(messages: list[Message]) -> None:
    with pytest.raises(AssertionError, match="I9:"):
        check_history(messages)


def test_a_history_that_every_provider_takes_is_taken() -> None:
    check_history([USER, calls("1", "2", turn="T"), result("1"), result("2"), USER])


@pytest.mark.parametrize(
    "output", ["the key is hunter2", 'Traceback (most recent call last):\n File "/x.py"', "<X object at 0x7f>"]
)
def test_what_leaks_is_found(output: str) -> None:
    check_nothing_leaks(b"all is well", ["hunter2"])
    with pytest.raises(AssertionError, match="I10:"):
        check_nothing_leaks(output.encode(), ["hunter2"])
