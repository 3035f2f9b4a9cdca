"""What of a request is new, and how much of it there may be."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from gateway.agent import ABSENT, Absent, AgentInput, ContextEntry, InputNames, InterruptAnswer
from gateway.errors import TooLargeError, TooManyRequestsError
from gateway.frozen import replace
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    ImageBlock,
    JsonValue,
    MediaBlock,
    Message,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
)
from gateway.runs.limits import RunLimits, check_input, check_stored
from tests.agent_inputs import agent_input

MOST = RunLimits(max_message_bytes=100, max_input_bytes=250)
LONG = "x" * 101
NAMES = InputNames("runId", "parentRunId", "forwardedProps", "resume")
LINKED = ImageBlock(UrlSource(f"data:text/plain,{LONG}"))
PNG = ImageBlock(Base64Source("A" * 5_000, "image/png"))


def message(id: str, role: Role = "user", text: str = "", **more: Any) -> Message:
    return Message(id, role, (TextBlock(text),), **more)


def result(id: str, text: str, **more: Any) -> Message:
    return Message(id, "tool", (ToolResult("c", (TextBlock(text),)),), **more)


def given(*messages: Message, **more: Any) -> AgentInput:
    return agent_input("t", "r", messages, **{"names": NAMES, **more})


def refusal(
    asked: AgentInput,
    *stored: Message,
    state: JsonValue | Absent = ABSENT,
    limits: RunLimits = MOST,
    replaces: bool = True,
) -> TooLargeError | None:
    try:
        check_input(asked, limits, stored, state, replaces=replaces)
    except TooLargeError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "fits"), [("x" * 100, True), (LONG, False), ("ä" * 50, True), ("ä" * 51, False), ("\ud800" * 34, False)]
)
def test_a_message_is_measured_in_bytes(text: str, fits: bool) -> None:
    error = refusal(given(message("u", text=text)))
    assert (error is None) is fits
    if error is not None:
        assert (error.status, error.code) == (413, "message_too_large")


@pytest.mark.parametrize(
    ("asked", "pointer", "code"),
    [
        (given(message("u", "user", LONG)), "/messages", "message_too_large"),
        (given(message("a", "assistant", LONG)), "/messages", "message_too_large"),
        (given(message("s", "system", LONG)), "/messages", "message_too_large"),
        (given(result("t", LONG)), "/messages", "message_too_large"),
        (given(Message("a", "assistant", (ToolCall("c", "f", LONG),))), "/messages", "message_too_large"),
        (given(message("u", metadata={"a": LONG})), "/messages", "message_too_large"),
        (given(message("u", name=LONG)), "/messages", "message_too_large"),
        (given(Message("u", "user", (LINKED,))), "/messages", "message_too_large"),
        (given(tools=(ToolSpec("f", LONG, {}),)), "/tools", "input_too_large"),
        (given(tools=(ToolSpec("f", "", {"description": LONG}),)), "/tools", "input_too_large"),
        (given(tools=(ToolSpec("f", "", {}, {"a": LONG}),)), "/tools", "input_too_large"),
        (given(context=(ContextEntry("", ""), ContextEntry("", LONG))), "/context/1", "input_too_large"),
        (given(context=(ContextEntry(LONG, ""),)), "/context/0", "input_too_large"),
        (given(state={"a": LONG}), "/state", "input_too_large"),
        (given(forwarded={"a": LONG}), "/forwardedProps", "input_too_large"),
        (given(answers=(InterruptAnswer("i", "resolved", reason=LONG),)), "/resume", "input_too_large"),
        (given(answers=(InterruptAnswer(LONG, "cancelled"),)), "/resume", "input_too_large"),
        (given(parent_run_id=LONG), "/parentRunId", "input_too_large"),
    ],
)  # fmt: skip
def test_whatever_is_new_counts_and_is_named(asked: AgentInput, pointer: str, code: str) -> None:
    error = refusal(asked)
    assert error is not None
    assert (error.status, error.code) == (413, code)
    (problem,) = error.problems
    assert problem.pointer == pointer
    assert "at most 100 bytes" in problem.detail
    assert refusal(asked, limits=RunLimits()) is None


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        (given(forwarded=LONG, names=InputNames()), "/forwarded"),
        (given(answers=(InterruptAnswer(LONG, "cancelled"),), names=InputNames()), "/answers"),
        (given(parent_run_id=LONG, names=InputNames()), "/parent_run_id"),
    ],
)
def test_fields_are_named_as_the_protocol_names_them_or_as_they_are_called_here(
    asked: AgentInput, pointer: str
) -> None:
    error = refusal(asked)
    assert error is not None
    assert [problem.pointer for problem in error.problems] == [pointer]


def test_all_that_is_new_counts_together() -> None:
    most = (message("u", text="x" * 90), message("v", text="x" * 90))
    assert refusal(given(*most, context=(ContextEntry("", "x" * 60),))) is None
    error = refusal(given(*most, context=(ContextEntry("", "x" * 90),), state={}))
    assert error is not None
    assert (error.status, error.code) == (413, "input_too_large")
    assert [(problem.pointer, problem.detail) for problem in error.problems] == [
        ("/messages", "182 bytes are new"),
        ("/context/0", "90 bytes are new"),
        ("/state", "2 bytes are new"),
    ]
    ids = tuple(message(f"{number}{LONG}", text="x") for number in range(3))
    assert refusal(given(*ids)) is not None, "as ids too"


def test_what_the_thread_has_already_costs_nothing() -> None:
    stored = (
        message("u1", text="x" * 1_000),
        message("a1", "assistant", "x" * 1_000, turn_id="turn"),
        result("t1", "x" * 1_000, turn_id="turn"),
        Message("u2", "user", (PNG, TextBlock(LONG))),
    )
    echoed = tuple(replace(each, turn_id=None) for each in stored)
    assert refusal(given(*echoed, message("u3", text="more")), *stored) is None
    changed = (*echoed[:1], message("a1", "assistant", "y" * 1_000), *echoed[2:])
    assert refusal(given(*changed), *stored) is None, "the server's own words stay, whatever comes under their id"
    edited = (message("u1", text="y" * 1_000), *echoed[1:])
    assert refusal(given(*edited), *stored) is not None


def test_a_result_of_a_call_that_the_server_answered_costs_nothing_under_any_id() -> None:
    stored = (message("u1", text="go"), result("t1", "x" * 1_000, turn_id="turn"))
    assert refusal(given(result("other", "y" * 2_000)), *stored) is None, "it is dropped, and the server's own stays"
    assert refusal(given(result("other", "y" * 2_000)), result("t1", "x", turn_id=None)) is not None


def test_a_client_whose_messages_have_other_ids_each_time_is_known_by_what_they_say() -> None:
    stored = (message("u1", text="x" * 90), message("a1", "assistant", "x" * 1_000, turn_id="turn"))
    again = (message("u2", text="x" * 90), message("a2", "assistant", "x" * 1_000))
    assert refusal(given(*again, message("u3", text="more")), *stored) is None
    twice = (*again, message("a3", "assistant", "x" * 1_000))
    assert refusal(given(*twice), *stored) is not None, "each stands for one"
    echoed = (stored[0], replace(stored[1], turn_id=None), message("a3", "assistant", "x" * 1_000))
    assert refusal(given(*echoed), *stored) is not None
    assert refusal(given(*again), *stored, replaces=False) is not None, "appended, it would be there twice"


def test_a_state_counts_by_what_it_has_grown() -> None:
    state: JsonValue = {"text": "x" * 1_000}
    assert refusal(given(state=state), state=state) is None
    assert refusal(given(state={"text": "y" * 1_050}), state=state) is None
    assert refusal(given(state={"text": "y" * 1_101}), state=state) is not None
    assert refusal(given(state=state)) is not None, "the thread has none"
    assert refusal(given(state={}), state=state) is None


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        (PNG, True),
        (DocumentBlock(Base64Source("A" * 5_000, "application/pdf"), "report.pdf"), True),
        (DocumentBlock(Base64Source(b64encode(b"x" * 150).decode(), "text/plain"), "a.txt"), True),
        (DocumentBlock(Base64Source(b64encode(b"x" * 260).decode(), "text/plain; charset=utf-8"), "a.txt"), False),
        (DocumentBlock(Base64Source(b64encode(b"x" * 260).decode(), "application/json"), "a.json"), False),
    ],
)
def test_files_count_only_where_they_are_text(file: MediaBlock, fits: bool) -> None:
    assert (refusal(given(Message("u", "user", (TextBlock("see"), file)))) is None) is fits
    inside = Message("t", "tool", (ToolResult("c", (file,)),))
    assert (refusal(given(inside)) is None) is fits


def test_a_full_site_has_room_again_nobody_knows_when() -> None:
    check_stored(99, RunLimits(max_stored_bytes=100))
    check_stored(10**12, RunLimits())
    with pytest.raises(TooManyRequestsError) as caught:
        check_stored(100, RunLimits(max_stored_bytes=100))
    assert (caught.value.status, caught.value.code) == (429, "limit_max_stored_bytes")
    assert caught.value.retry_after_seconds is None
