"""Every canonical event as AG-UI: equal to what the package writes, in the dialect of the peer."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from ag_ui.encoder import EventEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import events
from gateway.ag_ui.events import MAX_FRAME_BYTES, Renderer
from gateway.ag_ui.peer import PeerProfile
from gateway.events import (
    ActivityChanged,
    ActivityReplaced,
    Cancelled,
    Completed,
    Custom,
    Event,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    MessagesReplaced,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    RunTakenOver,
    StateChanged,
    StateReplaced,
    StepEnded,
    StepStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolReturned,
    TurnRetracted,
    Usage,
    UsageReported,
)
from gateway.messages import (
    NO_DATA,
    AudioBlock,
    Base64Source,
    ImageBlock,
    Message,
    Opaque,
    TextBlock,
    ToolCall,
    UrlSource,
)
from tests.ag_ui_frames import PACKAGE, read

SEALED = Opaque("anthropic", "claude", "signature", "c2lnbmVk")
CALL = ToolCall("c1", "pay", '{"n":1}')
IMAGE = ImageBlock(Base64Source("AAAA", "image/png"))
FULL, LEGACY = PeerProfile.FULL, PeerProfile.LEGACY


def render(*given: Event, profile: PeerProfile = FULL, first: int = 1) -> bytes:
    return Renderer(profile, "thread", "run", to_operator=True).render(given, first)


def payloads(*given: Event, profile: PeerProfile = FULL) -> list[dict[str, Any]]:
    return [payload for _, payload in read(render(*given, profile=profile))]


RENDERED: list[tuple[Event, list[dict[str, Any]]]] = [
    (TextStarted("m1", refusal=True), [{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}]),
    (MediaGiven("m1", ImageBlock(NO_DATA)), []),
    (
        MediaGiven("m1", ImageBlock(Base64Source("aGk=", "image/png"), index=1, opaque=SEALED)),
        [
            {
                "type": "ACTIVITY_SNAPSHOT",
                "messageId": "m1",
                "activityType": "agui_gateway.media",
                "content": {"kind": "image", "data": "aGk=", "mediaType": "image/png"},
            }
        ],
    ),
    (
        MediaGiven("m1", AudioBlock(UrlSource("https://h/a.wav"), "a.wav")),
        [
            {
                "type": "ACTIVITY_SNAPSHOT",
                "messageId": "m1",
                "activityType": "agui_gateway.media",
                "content": {"kind": "audio", "url": "https://h/a.wav", "name": "a.wav"},
            }
        ],
    ),
    (
        RunStarted("thread", "run", "parent"),
        [
            {
                "type": "RUN_STARTED",
                "threadId": "thread",
                "runId": "run",
                "protocolVersion": "1.0",
                "parentRunId": "parent",
            }
        ],
    ),
    (StepStarted("plan"), [{"type": "STEP_STARTED", "stepName": "plan"}]),
    (StepEnded("plan"), [{"type": "STEP_FINISHED", "stepName": "plan"}]),
    (ModelCallStarted("turn", "demo", "m"), []),
    (ModelCallAccepted("resp_1", {"tools": []}), []),
    (ModelCallEnded(StopReason.END_TURN), []),
    (RunTakenOver(), []),
    (ToolExecutionStarted("call_1"), []),
    (TurnRetracted("turn", ("m1",), ("call_1",)), []),
    (UsageReported(Usage("demo", "m", 1, 2)), []),
    (TextStarted("m1"), [{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}]),
    (TextStarted("m1", "system"), [{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "system"}]),
    (TextStarted("m1", "tool"), [{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}]),
    (TextDelta("m1", "Hi"), [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"}]),
    (TextEnded("m1"), [{"type": "TEXT_MESSAGE_END", "messageId": "m1"}]),
    (
        TextEnded("m1", SEALED),
        [
            {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
            {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "message",
                "entityId": "m1",
                "encryptedValue": "c2lnbmVk",
            },
        ],
    ),
    (
        ReasoningStarted("r1"),
        [
            {"type": "REASONING_START", "messageId": "r1"},
            {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
        ],
    ),
    (ReasoningDelta("r1", "Hm"), [{"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "Hm"}]),
    (
        ReasoningEnded("r1"),
        [{"type": "REASONING_MESSAGE_END", "messageId": "r1"}, {"type": "REASONING_END", "messageId": "r1"}],
    ),
    (
        ReasoningEnded("r1", SEALED),
        [
            {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
            {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "message",
                "entityId": "r1",
                "encryptedValue": "c2lnbmVk",
            },
            {"type": "REASONING_END", "messageId": "r1"},
        ],
    ),
    (
        ToolCallStarted("c1", "pay", "m1"),
        [{"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "pay", "parentMessageId": "m1"}],
    ),
    (ToolCallDelta("c1", '{"n":'), [{"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"n":'}]),
    (ToolCallEnded("c1"), [{"type": "TOOL_CALL_END", "toolCallId": "c1"}]),
    (
        ToolCallEnded("c1", SEALED),
        [
            {"type": "TOOL_CALL_END", "toolCallId": "c1"},
            {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "tool-call",
                "entityId": "c1",
                "encryptedValue": "c2lnbmVk",
            },
        ],
    ),
    (
        ToolReturned("t1", "c1", (TextBlock("3"), TextBlock("4"))),
        [{"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "3\n4", "role": "tool"}],
    ),
    (
        ToolReturned("t1", "c1", (TextBlock("no"),), is_error=True),
        [
            {
                "type": "TOOL_CALL_RESULT",
                "messageId": "t1",
                "toolCallId": "c1",
                "content": "no",
                "role": "tool",
                "metadata": {"isError": True},
            }
        ],
    ),
    (StateReplaced({"a": None}), [{"type": "STATE_SNAPSHOT", "snapshot": {"a": None}}]),
    (StateReplaced(None), [{"type": "STATE_SNAPSHOT", "snapshot": None}]),
    (
        StateChanged(({"op": "add", "path": "/a~1b", "value": 1},), {"a/b": 1}),
        [{"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a~1b", "value": 1}]}],
    ),
    (
        MessageRetracted("m", "Not that."),
        [{"type": "CUSTOM", "name": "agui_gateway.retracted", "value": {"messageId": "m", "content": "Not that."}}],
    ),
    (
        MessagesReplaced((Message("u", "user", (TextBlock("Hi"),)),)),
        [{"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}],
    ),
    (
        ActivityReplaced("x", "PLAN", {"steps": []}),
        [{"type": "ACTIVITY_SNAPSHOT", "messageId": "x", "activityType": "PLAN", "content": {"steps": []}}],
    ),
    (
        ActivityReplaced("x", "PLAN", {}, replace=False),
        [
            {
                "type": "ACTIVITY_SNAPSHOT",
                "messageId": "x",
                "activityType": "PLAN",
                "content": {},
                "replace": False,
            }
        ],
    ),
    (
        ActivityChanged("x", "PLAN", ({"op": "remove", "path": "/a"},)),
        [
            {
                "type": "ACTIVITY_DELTA",
                "messageId": "x",
                "activityType": "PLAN",
                "patch": [{"op": "remove", "path": "/a"}],
            }
        ],
    ),
    (Custom("my.event", None), [{"type": "CUSTOM", "name": "my.event", "value": None}]),
    (Raw({"k": [1]}, "bedrock"), [{"type": "RAW", "event": {"k": [1]}, "source": "bedrock"}]),
    (Raw(None), [{"type": "RAW", "event": None}]),
    (
        RunFinished(Completed(), (Usage("openai/v1/chat/completions", "gpt", 3, 4, 1, 2, 0),)),
        [
            {
                "type": "RUN_FINISHED",
                "threadId": "thread",
                "runId": "run",
                "outcome": {"type": "success"},
                "usage": [
                    {
                        "provider": "openai",
                        "model": "gpt",
                        "inputTokens": 3,
                        "outputTokens": 4,
                        "totalTokens": 7,
                        "reasoningTokens": 1,
                        "cachedInputTokens": 2,
                        "cacheWriteInputTokens": 0,
                    }
                ],
            }
        ],
    ),
    (
        RunFailed("model_timeout", "the model did not answer", (Usage("demo", "m"),)),
        [
            {
                "type": "RUN_ERROR",
                "message": "the model did not answer",
                "code": "model_timeout",
                "usage": [{"provider": "demo", "model": "m"}],
            }
        ],
    ),
]


@pytest.mark.parametrize(("event", "expected"), RENDERED, ids=lambda value: type(value).__name__)
def test_every_event_is_what_the_package_would_have_written(event: Event, expected: list[dict[str, Any]]) -> None:
    assert payloads(event) == expected


def test_every_kind_of_event_is_among_these() -> None:
    assert {type(event) for event, _ in RENDERED} == set(get_args(events.Event))


@pytest.mark.parametrize("profile", list(PeerProfile))
def test_both_dialects_share_what_is_no_outcome_and_no_patch_of_the_state(profile: PeerProfile) -> None:
    for event, expected in RENDERED:
        if not isinstance(event, RunFinished | StateChanged):
            assert payloads(event, profile=profile) == expected


def test_a_legacy_peer_gets_the_whole_state_for_a_patch() -> None:
    change = StateChanged(({"op": "add", "path": "/b", "value": 1},), {"a": 0, "b": 1})
    assert payloads(change, profile=LEGACY) == [{"type": "STATE_SNAPSHOT", "snapshot": {"a": 0, "b": 1}}]


TEXTS = st.text(st.characters(exclude_categories=()), min_size=1)


@settings(deadline=None)  # the machine may be busy
@given(TEXTS, TEXTS.filter(lambda text: text.isprintable()))
def test_a_delta_is_byte_for_byte_what_the_package_writes(text: str, entity_id: str) -> None:
    encoder = EventEncoder()
    for delta in (TextDelta(entity_id, text), ReasoningDelta(entity_id, text), ToolCallDelta(entity_id, text)):
        written = render(delta, first=7)
        payload = json.loads(written.split(b"\n")[0].removeprefix(b"data: "))
        assert written.endswith(b"\nid: 7\n\n")
        assert payload["delta"] == text
        try:
            package = encoder.encode(PACKAGE.validate_python(payload)).encode()
        except (
            UnicodeEncodeError,
            ValueError,
        ):  # half a surrogate pair: the package raises
            continue
        assert written == package[:-1] + b"id: 7\n\n"


@settings(deadline=None)  # the machine may be busy
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_are_whole_at_the_client_however_they_were_cut(texts: list[str]) -> None:
    stream = render(*[TextDelta("m", text) for text in texts])
    lines = [line.removeprefix(b"data: ") for line in stream.split(b"\n") if line.startswith(b"data: ")]
    assert len(lines) == len(texts)
    assert "".join(json.loads(line)["delta"] for line in lines) == "".join(texts)


PLAIN = st.sampled_from(["a", '",', ',"', '","', '"', "\\", '\\"', "\\\\", "\n", "\x00", "%b", "é😀"])
AWKWARD = st.one_of(PLAIN, st.sampled_from(["\ud83d", "", "long" * 100_000]))
MANY_DELTAS = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from(["m", 'a "%d"', "é"]), AWKWARD),
        st.builds(ReasoningDelta, st.just("m"), AWKWARD),
        st.builds(ToolCallDelta, st.just("m"), AWKWARD),
        st.sampled_from([TextStarted("n"), UsageReported(Usage("p", "m"))]),
    ),
    max_size=6,
)


@settings(deadline=None)  # the machine may be busy
@given(
    MANY_DELTAS,
    st.one_of(st.lists(PLAIN, max_size=40), st.lists(AWKWARD, max_size=40)),
    MANY_DELTAS,
    st.integers(1, 10**9),
)
def test_many_events_are_written_as_each_is(
    before: list[Event], texts: list[str], after: list[Event], first: int
) -> None:
    events = [*before, *(TextDelta("m", text) for text in texts), *after]
    one_by_one = Renderer(FULL, "thread", "run")
    written = [one_by_one.render([event], number) for number, event in enumerate(events, first)]
    assert render(*events, first=first) == b"".join(written)


@pytest.mark.parametrize("said", ['",', '{"a":"b",', "\\", '\\",', '",\\', ',"', '","'])
def test_pieces_of_json_that_come_together_stay_as_they_are(said: str) -> None:
    texts = ["{", *[said, '"', said] * 8, "}"]
    assert [payload["delta"] for payload in payloads(*(TextDelta("m", text) for text in texts))] == texts


def test_the_halves_of_a_character_in_two_deltas_become_one_at_the_client() -> None:
    stream = render(TextDelta("m", "\ud83d"), TextDelta("m", "\ude00"))
    joined = "".join(json.loads(line[6:])["delta"] for line in stream.split(b"\n") if line.startswith(b"data: "))
    assert joined.encode("utf-16", "surrogatepass").decode("utf-16") == "\U0001f600"


def test_interleaved_entities_keep_their_own_ids() -> None:
    given_events: list[Event] = [TextDelta("a", "1"), ToolCallDelta("a", "2"), TextDelta("b", "3"), TextDelta("a", "4")]
    assert [(p.get("messageId"), p.get("toolCallId"), p["delta"]) for p in payloads(*given_events)] == [
        ("a", None, "1"),
        (None, "a", "2"),
        ("b", None, "3"),
        ("a", None, "4"),
    ]


def test_an_empty_delta_is_not_sent() -> None:
    assert render(TextDelta("m", ""), ToolCallDelta("c", "")) == b""


# --- numbers -----------------------------------------------------------------------------------------------------


def test_the_last_frame_of_an_event_carries_its_number() -> None:
    stream = render(
        RunStarted("thread", "run"),
        ModelCallStarted("turn", "demo", "m"),
        ReasoningStarted("r"),
        ReasoningDelta("r", "x"),
        ReasoningEnded("r", SEALED),
        first=41,
    )
    assert [number for number, _ in read(stream)] == [41, None, 43, 44, None, None, 45]


def test_an_event_outside_the_log_carries_no_number() -> None:
    assert [number for number, _ in read(render(RunStarted("t", "r"), RunFinished(Completed()), first=-1))] == [
        None,
        None,
    ]


# --- sizes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", ["x", "\x01", "\U0001f600", "\ud83d"])
def test_a_huge_delta_comes_in_frames_that_every_client_takes(piece: str) -> None:
    text = piece * 3_000_000
    frames = render(ToolCallDelta("c", text), first=5).split(b"\n\n")[:-1]
    assert max(len(frame) for frame in frames) < MAX_FRAME_BYTES
    assert [frame.rpartition(b"\n")[2] for frame in frames if b"\nid: " in frame] == [b"id: 5"]
    assert frames[-1].endswith(b"id: 5")
    assert "".join(json.loads(frame.split(b"\n")[0][6:])["delta"] for frame in frames) == text


def test_a_huge_result_is_cut_and_says_so() -> None:
    [result] = payloads(ToolReturned("t", "c", (TextBlock("x" * 12_000_000),)))
    assert result["content"].startswith("xxx")
    assert "left out" in result["content"][-100:]
    assert len(result["content"]) < 2_000_000
    [media] = payloads(ToolReturned("t", "c", (ImageBlock(Base64Source("A" * 12_000_000, "image/png")),)))
    assert "left out" in media["content"]


def test_what_is_huge_and_cannot_be_cut_is_announced_instead() -> None:
    message = Message("u", "user", (TextBlock("x" * 11_000_000),))
    huge: list[Event] = [MessagesReplaced((message,)), StateReplaced("x" * 11_000_000)]
    assert [(p["type"], p["name"], p["value"]["event"]) for p in payloads(*huge)] == [
        ("CUSTOM", "agui_gateway.omitted", "MESSAGES_SNAPSHOT"),
        ("CUSTOM", "agui_gateway.omitted", "STATE_SNAPSHOT"),
    ]


def test_the_end_of_a_run_is_said_however_large_it_is() -> None:
    interrupt = Interrupt("i", "tool_call", "x" * 11_000_000)
    [error] = payloads(RunFinished(Interrupted((interrupt,))))
    assert (error["type"], error["code"]) == ("RUN_ERROR", "event_too_large")
    [failed] = payloads(RunFailed("x", "y" * 11_000_000))
    assert failed["type"] == "RUN_ERROR"
    assert len(failed["message"]) < 10_000


# --- outcomes ----------------------------------------------------------------------------------------------------

INTERRUPT = Interrupt("i1", "tool_call", "Pay?", "c1", {"type": "object"}, 1_800_000_000.5, {"tool": "pay"})
FINISHED = {"type": "RUN_FINISHED", "threadId": "thread", "runId": "run"}


@pytest.mark.parametrize(
    ("outcome", "full", "legacy"),
    [
        (Completed(), {**FINISHED, "outcome": {"type": "success"}}, FINISHED),
        (
            Completed((CALL, ToolCall("c2", "x", ""))),
            {**FINISHED, "outcome": {"type": "success", "pendingToolCallIds": ["c1", "c2"]}},
            FINISHED,
        ),
        (
            Incomplete(StopReason.MAX_TOKENS),
            {**FINISHED, "result": {"stopReason": "max_tokens"}, "outcome": {"type": "success"}},
            {**FINISHED, "result": {"stopReason": "max_tokens"}},
        ),
        (
            Incomplete(StopReason.MAX_ITERATIONS, limit="max_iteration"),
            {**FINISHED, "result": {"stopReason": "max_iterations"}, "outcome": {"type": "success"}},
            {**FINISHED, "result": {"stopReason": "max_iterations"}},
        ),
        (
            Cancelled(),
            {**FINISHED, "outcome": {"type": "cancelled"}},
            {"type": "RUN_ERROR", "message": "the run was cancelled", "code": "cancelled"},
        ),
        (
            Cancelled("server_shutdown"),
            {**FINISHED, "outcome": {"type": "cancelled"}, "metadata": {"code": "server_shutdown"}},
            {"type": "RUN_ERROR", "message": "the run was cancelled", "code": "server_shutdown"},
        ),
    ],
)
def test_an_outcome_is_said_in_the_words_that_the_peer_knows(
    outcome: events.Outcome, full: dict[str, Any], legacy: dict[str, Any]
) -> None:
    assert payloads(RunFinished(outcome)) == [full]
    for profile in (LEGACY, PeerProfile.LEGACY_MEDIA):
        assert payloads(RunFinished(outcome), profile=profile) == [legacy]


@pytest.mark.parametrize("profile", list(PeerProfile))
def test_an_interrupt_is_said_to_every_peer(profile: PeerProfile) -> None:
    [finished] = payloads(RunFinished(Interrupted((INTERRUPT, Interrupt("i2", "x", "y")), (CALL,))), profile=profile)
    assert finished["outcome"] == {
        "type": "interrupt",
        "interrupts": [
            {
                "id": "i1",
                "reason": "tool_call",
                "message": "Pay?",
                "toolCallId": "c1",
                "responseSchema": {"type": "object"},
                "expiresAt": "2027-01-15T08:00:00.500Z",
                "metadata": {"tool": "pay"},
            },
            {"id": "i2", "reason": "x", "message": "y"},
        ],
    }


def test_counts_that_no_client_takes_are_left_out() -> None:
    usage = Usage("demo", "m", -1, 2**60, None, 0, 5)
    [finished] = payloads(RunFinished(Completed(), (usage,)))
    assert finished["usage"] == [
        {"provider": "demo", "model": "m", "cachedInputTokens": 0, "cacheWriteInputTokens": 5},
    ]


def test_the_ids_of_the_run_are_the_viewers_from_start_to_end() -> None:
    first, last = payloads(RunStarted("other", "other"), RunFinished(Completed()))
    assert (first["threadId"], first["runId"]) == (last["threadId"], last["runId"]) == ("thread", "run")


# --- results -----------------------------------------------------------------------------------------------------


def result(*content: Any, is_error: bool = False, profile: PeerProfile = FULL) -> Any:
    [payload] = payloads(ToolReturned("t", "c", content, is_error), profile=profile)
    return payload["content"]


def test_media_of_a_result_is_shown_to_those_who_can_take_it() -> None:
    assert result(TextBlock("a"), IMAGE) == [
        {"type": "text", "text": "a"},
        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
    ]
    assert result(TextBlock("a"), IMAGE, TextBlock("b"), profile=LEGACY) == "a\nb"
    assert result(IMAGE, profile=LEGACY) == ""


def test_a_failed_tool_says_something() -> None:
    assert result(TextBlock("no such user"), is_error=True) == "no such user"
    assert result(is_error=True) == "the tool failed"
    assert result() == ""


@pytest.mark.parametrize("value", [float("nan"), 2**80, "\ud83d", {1: float("inf")}], ids=repr)
def test_no_value_breaks_the_stream(value: Any) -> None:
    for event in (Custom("x", value), StateReplaced({"a": [value]}), Raw(value)):
        stream = render(event)
        json.loads(stream.split(b"\n")[0][6:], parse_constant=pytest.fail)
