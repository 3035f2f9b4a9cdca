"""The verifier refuses what the client refuses: one stream for each rule and promise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ag_ui_verifier import BrokenRuleError, SentEvent, Verifier, read_stream, verify, verify_server

Events = list[dict[str, Any]]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


START = event("RUN_STARTED", threadId="t", runId="r", protocolVersion="1.0")
FINISH = event("RUN_FINISHED", threadId="t", runId="r")
ERROR = event("RUN_ERROR", message="m", code="c")
TEXT = event("TEXT_MESSAGE_START", messageId="m", role="assistant")
TEXT_END = event("TEXT_MESSAGE_END", messageId="m")
CALL = event("TOOL_CALL_START", toolCallId="c", toolCallName="n", parentMessageId="m")
CALL_END = event("TOOL_CALL_END", toolCallId="c")
RESULT = event("TOOL_CALL_RESULT", messageId="x", toolCallId="c", content="", role="tool")
STEP = event("STEP_STARTED", stepName="s")
SPAN = event("REASONING_START", messageId="m")
THOUGHT = event("REASONING_MESSAGE_START", messageId="m", role="reasoning")
SUBAGENT = event("SUBAGENT_STARTED", subagentRunId="s", name="n")
TAG = {"subagentRunId": "s"}

REFUSED: list[tuple[int, Events]] = [
    (1, [START, ERROR, TEXT]),
    (1, [START, ERROR, FINISH]),
    (2, [START, FINISH, TEXT]),
    (2, [START, FINISH, FINISH]),
    (3, [TEXT]),
    (3, [FINISH]),
    (4, [START, START]),
    (5, [START, {**TEXT, "subagentRunId": None}]),
    (5, [START, {**SUBAGENT, "description": None}]),
    (5, [START, SUBAGENT, event("SUBAGENT_FINISHED", **TAG, outcome={"type": "lost"})]),
    (5, [START, SUBAGENT, event("SUBAGENT_FINISHED", **TAG, outcome={"type": "suspended", "interruptIds": [1]})]),
    (5, [START, {**FINISH, "outcome": {"type": "interrupt", "interrupts": [{"subagentRunId": None}]}}]),
    (6, [START, TEXT, TEXT]),
    (6, [START, TEXT, TEXT_END, {**TEXT, **TAG}]),
    (7, [START, event("TEXT_MESSAGE_CONTENT", messageId="m", delta="x")]),
    (7, [START, TEXT_END]),
    (7, [START, TEXT, {**TEXT_END, **TAG}]),
    (8, [START, CALL, CALL]),
    (8, [START, TEXT, {**CALL, **TAG}]),
    (9, [START, event("TOOL_CALL_ARGS", toolCallId="c", delta="x")]),
    (9, [START, CALL, CALL_END, CALL_END]),
    (10, [START, STEP, STEP]),
    (10, [START, event("STEP_FINISHED", stepName="s")]),
    (11, [START, SPAN, SPAN]),
    (11, [START, THOUGHT, THOUGHT]),
    (12, [START, SPAN, event("REASONING_MESSAGE_CONTENT", messageId="m", delta="x")]),
    (12, [START, THOUGHT, event("REASONING_END", messageId="m")]),
    (13, [START, event("ACTIVITY_DELTA", messageId="a"), event("ACTIVITY_DELTA", messageId="a", **TAG)]),
    (14, [START, SUBAGENT, SUBAGENT]),
    (14, [START, event("SUBAGENT_FINISHED", **TAG)]),
    (14, [START, {**SUBAGENT, "parentSubagentRunId": "unheard"}]),
    (14, [START, SUBAGENT, event("SUBAGENT_ERROR", **TAG)]),
    (15, [START, event("MESSAGES_SNAPSHOT", messages=[{"subagentRunId": None}])]),
    (15, [{**START, "input": {"messages": [{"subagentRunId": None}]}}]),
    *[(16, [START, opened, FINISH]) for opened in (TEXT, CALL, STEP, SPAN, THOUGHT, SUBAGENT)],
]


@pytest.mark.parametrize(("rule", "events"), REFUSED)
def test_a_stream_that_the_client_refuses_is_refused_by_the_same_rule(rule: int, events: Events) -> None:
    verify(events[:-1])
    with pytest.raises(BrokenRuleError) as caught:
        verify(events)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    "events",
    [
        [],
        [START],
        [ERROR],
        [START, FINISH, ERROR],
        [START, FINISH, START, TEXT, ERROR, START, FINISH],
        [START, TEXT, CALL, SPAN, THOUGHT, STEP, SUBAGENT, ERROR],
        [START, TEXT, TEXT_END, TEXT, TEXT_END, CALL, CALL_END, CALL, CALL_END, RESULT, RESULT, FINISH],
        [START, SPAN, THOUGHT, event("REASONING_END", messageId="m"), event("REASONING_MESSAGE_END", messageId="m")],
        [START, STEP, {**STEP, "stepName": "t"}, event("STEP_FINISHED", stepName="s"), ERROR],
    ],
)
def test_what_the_client_takes_is_taken(events: Events) -> None:
    verify(events)


def test_what_is_open_can_be_asked_for() -> None:
    verifier = Verifier()
    for each in (START, TEXT, STEP):
        verifier.follow(each)
    assert verifier.open_entities == [("text", "m"), ("step", "s")]


BROKEN: list[tuple[str, Events]] = [
    ("frame", []),
    ("frame", [START]),
    ("frame", [START, FINISH, ERROR]),
    ("frame", [START, FINISH, START, FINISH]),
    ("frame", [START, {**FINISH, "runId": "another"}]),
    ("frame", [{**START, "threadId": "another"}, FINISH]),
    ("fields", [event("RUN_STARTED", threadId="t", runId="r"), FINISH]),
    ("fields", [START, {**TEXT, "more": 1}, TEXT_END, FINISH]),
    ("fields", [START, {**FINISH, "result": None}]),
    ("fields", [START, {**FINISH, "timestamp": 1.5}]),
    ("fields", [START, event("TEXT_MESSAGE_CHUNK", messageId="m", delta="x"), FINISH]),
    ("ids", [START, TEXT, TEXT_END, TEXT, TEXT_END, FINISH]),
    ("ids", [START, CALL, CALL_END, CALL, CALL_END, FINISH]),
    ("ids", [START, THOUGHT, event("REASONING_MESSAGE_END", messageId="m"), CALL, CALL_END, FINISH]),
    ("ids", [START, CALL, CALL_END, {**RESULT, "messageId": "m"}, FINISH]),
    ("results", [START, RESULT, {**RESULT, "messageId": "y"}, FINISH]),
    ("results", [START, CALL, RESULT, CALL_END, FINISH]),
    ("results", [START, {**RESULT, "messageId": "c"}, FINISH]),
    ("deltas", [START, TEXT, event("TEXT_MESSAGE_CONTENT", messageId="m", delta=""), TEXT_END, FINISH]),
    ("patches", [START, event("STATE_DELTA", delta=[{"op": "add", "path": "a", "value": 1}]), FINISH]),
    ("patches", [START, event("STATE_DELTA", delta=[{"op": "move", "path": "/a", "from": "/~2"}]), FINISH]),
    ("dialect", [START, {**FINISH, "outcome": {"type": "interrupt", "interrupts": []}}]),
    ("dialect", [START, {**FINISH, "outcome": {"type": "interrupt", "interrupts": [{"id": "i"}, {"id": "i"}]}}]),
    ("dialect", [START, {**FINISH, "outcome": {"type": "suspended"}}]),
]


@pytest.mark.parametrize(("promise", "events"), BROKEN)
def test_a_stream_that_this_server_must_not_send_is_refused(promise: str, events: Events) -> None:
    verify(events)
    with pytest.raises(BrokenRuleError) as caught:
        verify_server(events, thread_id="t", run_id="r")
    assert caught.value.rule == promise


@pytest.mark.parametrize(
    "events",
    [
        [START, {**FINISH, "outcome": {"type": "success"}}],
        [START, {**FINISH, "outcome": {"type": "cancelled"}}],
        [START, {**RESULT, "content": []}, FINISH],
    ],
)
def test_the_old_dialect_knows_less(events: Events) -> None:
    verify_server(events, thread_id="t", run_id="r")
    with pytest.raises(BrokenRuleError, match="dialect"):
        verify_server(events, thread_id="t", run_id="r", legacy=True)


def test_a_whole_run_is_taken() -> None:
    snapshot = event("STATE_SNAPSHOT", snapshot=None)
    events = [START, snapshot, TEXT, TEXT_END, CALL, CALL_END, RESULT, FINISH]
    verify_server(events, thread_id="t", run_id="r")
    verify_server([ERROR], thread_id="t", run_id="r")
    verify_server([START, TEXT], thread_id="t", run_id="r", complete=False)


def test_a_body_is_read_frame_by_frame() -> None:
    body = b': hello\n\ndata: {"type":"A"}\nid: 1\n\n: ping\n\ndata: {"type":"B"}\n\n'
    assert read_stream(body) == [SentEvent(1, {"type": "A"}), SentEvent(None, {"type": "B"})]


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"type":"A"}\r\n\r\n',
        b'data: {"type":"A"}\n',
        b'data: {"type":"A"}\ndata: {"type":"B"}\n\n',
        b'event: message\ndata: {"type":"A"}\n\n',
        b'data: {"type":"A"}\nid: 1\nid: 2\n\n',
        b"data: [DONE]\n\n",
        b'data: {"type":"A","value":NaN}\n\n',
        b"data: []\n\n",
        b"id: 1\n\n",
    ],
)
def test_a_body_that_is_framed_otherwise_is_refused(body: bytes) -> None:
    with pytest.raises(BrokenRuleError, match="framing"):
        read_stream(body)
