"""Chat completions, rendered from events: the chunks of a stream and the body."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion as CompletionModel
from openai.types.chat import ChatCompletionChunk

from gateway.events import (
    Cancelled,
    Completed,
    Event,
    Events,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    ReasoningDelta,
    ReasoningEnded,
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
    Usage,
)
from gateway.messages import NO_DATA, Base64Source, ImageBlock, TextBlock, ToolCall
from gateway.openai_api.chat_messages import RETRACTION_MARK, is_copy, is_note, shown_content
from gateway.openai_api.chat_renderer import ChatChunks, ChatCompletion, ChatForm, form_of
from gateway.openai_api.questions import REFUSED
from gateway.protocol.failure_status import RunFailedError
from gateway.store import RunRecord, RunStatus
from gateway.transcript import Transcript
from tests.event_samples import batches_of_a_run, seal
from tests.word_samples import REPEATABLE

FORM = ChatForm("chatcmpl-1", 1700000000, "assistant")
SHOWN = ChatForm("chatcmpl-1", 1700000000, "assistant", backend_tools="reasoning")
CALL = ToolCall("call_chatcmpl-1_1", "ask", '{"a":1}')
QUESTION = Interrupt("int-1", "tool_call", "The tool 'refund' needs your approval before it runs.", "c1")
PICTURE = ImageBlock(Base64Source("aGk=", "image/png"), "a [cat]")
ANSWER: list[Event] = [
    RunStarted("conv_1", "chatcmpl-1"),
    ModelCallStarted("turn1", "p", "model"),
    ReasoningStarted("r1"),
    ReasoningDelta("r1", "H"),
    ReasoningDelta("r1", "m."),
    ReasoningEnded("r1"),
    TextStarted("t1"),
    TextDelta("t1", "I"),
    TextDelta("t1", " look."),
    TextEnded("t1"),
    ToolCallStarted("c1", "look", "t1", executor="backend"),
    ToolCallDelta("c1", '{"at":'),
    ToolCallDelta("c1", "1}"),
    ToolCallEnded("c1"),
    ModelCallEnded(StopReason.TOOL_CALLS),
    ToolReturned("x", "c1", (TextBlock("seen"),)),
    ModelCallStarted("turn2", "p", "model"),
    ReasoningStarted("r2"),
    ReasoningDelta("r2", "So."),
    ReasoningEnded("r2"),
    TextStarted("t2"),
    TextDelta("t2", "It"),
    TextDelta("t2", " is."),
    TextEnded("t2"),
    TextStarted("t3"),
    TextDelta("t3", " So"),
    TextEnded("t3"),
    ModelCallEnded(StopReason.END_TURN),
]
DONE = RunFinished(Completed())


def streamed(events: Sequence[Event], form: ChatForm = FORM, *, at_once: int = 1000) -> list[bytes]:
    chunks = ChatChunks(form)
    frames: list[bytes] = []
    for first in range(0, len(events), at_once):
        frames += chunks.render(events[first : first + at_once], first + 1)
    return frames


def chunks_of(frames: Sequence[bytes]) -> list[dict[str, Any]]:
    assert frames[-1] == b"data: [DONE]\n\n"
    assert all(frame.startswith(b"data: ") and frame.endswith(b"}\n\n") for frame in frames[:-1])
    return [json.loads(frame[6:]) for frame in frames[:-1]]


def deltas(events: Sequence[Event], form: ChatForm = FORM) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks_of(streamed(events, form)) for choice in chunk["choices"]]


def said(events: Sequence[Event], member: str = "content", form: ChatForm = FORM) -> str:
    return "".join(delta.get(member) or "" for delta in deltas(events, form))


def body(events: Sequence[Event], form: ChatForm = FORM) -> dict[str, Any]:
    completion = ChatCompletion(form)
    assert completion.render(events, 1) == ()
    return completion.final()


def message(events: Sequence[Event], form: ChatForm = FORM) -> Any:
    return body(events, form)["choices"][0]["message"]


def a_run(*events: Event, outcome: Outcome | None = None) -> list[Event]:
    started: list[Event] = [RunStarted("conv_1", "chatcmpl-1"), ModelCallStarted("turn1", "p", "model")]
    return [*started, *events, RunFinished(outcome or Completed())]


def text(message_id: str, *pieces: str, refusal: bool = False) -> list[Event]:
    return [
        TextStarted(message_id, refusal=refusal),
        *(TextDelta(message_id, each) for each in pieces),
        TextEnded(message_id),
    ]


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
@pytest.mark.parametrize("form", [FORM, SHOWN])
def test_the_frames_do_not_depend_on_how_the_events_are_cut(at_once: int, form: ChatForm) -> None:
    events = [*ANSWER, DONE]
    assert streamed(events, form, at_once=at_once) == streamed(events, form)


def test_the_whole_frames_of_an_answer() -> None:
    assert streamed(a_run(*text("t1", 'a "b"\n'))) == [
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"assistant",'
        b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"assistant",'
        b'"choices":[{"index":0,"delta":{"content":"a \\"b\\"\\n"},"finish_reason":null}]}\n\n',
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"assistant",'
        b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ]


def test_the_whole_body_of_an_answer() -> None:
    assert body([*ANSWER, DONE]) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "assistant",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I look.\n\nIt is. So",
                    "refusal": None,
                    "reasoning_content": "Hm.\n\nSo.",
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": None,
    }


@pytest.mark.parametrize("form", [FORM, SHOWN])
def test_a_stream_says_what_a_body_says(form: ChatForm) -> None:
    events = [*ANSWER, DONE]
    assert said(events, form=form) == message(events, form)["content"]
    assert said(events, "reasoning_content", form) == message(events, form)["reasoning_content"]


def test_backend_tools_are_never_tool_calls_and_are_lines_of_the_reasoning_where_wanted() -> None:
    for form in (FORM, SHOWN):
        assert not any("tool_calls" in delta for delta in deltas([*ANSWER, DONE], form))
        assert "tool_calls" not in message([*ANSWER, DONE], form)
    assert message([*ANSWER, DONE], SHOWN)["reasoning_content"] == 'Hm.\n\nlook({"at":1}) gave: seen\n\nSo.'
    failed = a_run(ToolReturned("x", "earlier", (TextBlock("no"),), is_error=True))
    assert message(failed, SHOWN)["reasoning_content"] == "The approved call failed: no"


def written(call_id: str, name: str, *arguments: str) -> list[Event]:
    pieces = [ToolCallDelta(call_id, each) for each in arguments]
    return [ToolCallStarted(call_id, name, "t1", executor="client"), *pieces, ToolCallEnded(call_id)]


def folded(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The calls as a client puts them together."""
    calls: list[dict[str, Any]] = []
    for delta in deltas(events):
        for piece in delta.get("tool_calls", ()):
            index, function = piece.pop("index"), piece["function"]
            if index == len(calls):
                calls.append(piece)
            else:
                calls[index]["function"]["arguments"] += function["arguments"]
    return calls


def test_calls_of_the_client_are_shown_as_the_model_writes_them() -> None:
    other, earlier = ToolCall("call_chatcmpl-1_2", "look", ""), ToolCall("call_chatcmpl-0_1", "read", "{}")
    begun = [*written(CALL.call_id, "ask", '{"a":', "1}"), *written(other.call_id, "look")]
    events = a_run(*begun, *text("t1", "Wait."), outcome=Completed((CALL, other, earlier)))
    found = deltas(events)
    called = {"id": CALL.call_id, "type": "function", "function": {"name": "ask", "arguments": ""}}
    assert found[1:7] == [
        {"tool_calls": [{"index": 0, **called}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [{"index": 1, **called, "id": other.call_id, "function": {"name": "look", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {"content": "Wait."},
    ]
    assert found[7]["tool_calls"][0]["id"] == earlier.call_id, "it has waited before the run"
    assert chunks_of(streamed(events))[-1]["choices"][0]["finish_reason"] == "tool_calls"
    shown = body(events)["choices"][0]
    assert shown["finish_reason"] == "tool_calls"
    assert shown["message"]["tool_calls"] == folded(events)


def test_calls_that_take_turns_stay_apart() -> None:
    both = [ToolCallStarted(each, each, "t1", executor="client") for each in "ab"]
    pieces = [ToolCallDelta(each, piece) for piece in ("1", "2", "3") for each in "ab"]
    events = a_run(*both, *pieces, *pieces[::2], ToolCallEnded("a"), ToolCallEnded("b"))
    assert [call["function"]["arguments"] for call in folded(events)] == ["123123", "123"]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Incomplete(StopReason.MAX_TOKENS), "length"),
        (Incomplete(StopReason.MAX_ITERATIONS), "length"),
        (Incomplete(StopReason.REFUSAL), "length"),
        (Incomplete(StopReason.CONTENT_FILTER), "content_filter"),
        (Completed(limit="max_iteration"), "length"),
    ],
)
def test_an_answer_whose_calls_do_not_wait_never_ends_with_them(outcome: Outcome, reason: str) -> None:
    events = a_run(*written(CALL.call_id, "ask", '{"a":1}'), outcome=outcome)
    assert chunks_of(streamed(events))[-1]["choices"][0]["finish_reason"] == reason
    shown = body(events)["choices"][0]
    assert (shown["finish_reason"], shown["message"]["tool_calls"]) == (reason, folded(events))


def test_a_stream_that_fails_behind_a_call_ends_with_the_error() -> None:
    events = [*a_run(*written(CALL.call_id, "ask", '{"a":1}'))[:-1], RunFailed("model_server", "no")]
    *_, last = [json.loads(frame[6:]) for frame in streamed(events)[:-1]]
    assert last["error"]["code"] == "model_server"


def test_a_body_of_calls_alone_has_no_content() -> None:
    assert message(a_run(outcome=Completed((CALL,))))["content"] is None
    assert message(a_run())["content"] == ""


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Completed(), "stop"),
        (Completed(limit="max_iteration"), "stop"),
        (Completed((CALL,)), "tool_calls"),
        (Interrupted((QUESTION,)), "stop"),
        (Interrupted((QUESTION,), (CALL,)), "tool_calls"),
        (Incomplete(StopReason.MAX_TOKENS), "length"),
        (Incomplete(StopReason.CONTEXT_OVERFLOW), "length"),
        (Incomplete(StopReason.MAX_ITERATIONS, "max_iteration"), "length"),
        (Incomplete(StopReason.CONTENT_FILTER), "content_filter"),
        (Incomplete(StopReason.REFUSAL), "stop"),
    ],
)
def test_every_end_has_its_finish_reason(outcome: Outcome, reason: str) -> None:
    events = a_run(*text("t1", "Hi"), outcome=outcome)
    assert chunks_of(streamed(events))[-1]["choices"][0]["finish_reason"] == reason
    assert body(events)["choices"][0]["finish_reason"] == reason


def test_an_approval_that_waits_is_told_in_words_as_the_end_of_the_content() -> None:
    for before in ([], text("t1", "One moment.")):
        events = a_run(*before, outcome=Interrupted((QUESTION,)))
        content = message(events)["content"]
        assert content == said(events)
        assert "The tool 'refund' needs your approval" in content
        assert "POST /approvals/{id}" in content
        assert "GET /approvals " in content
        assert content.startswith("One moment.\n\n" if before else "[Approval needed]")


def test_a_refusal_without_words_gets_some() -> None:
    events = a_run(*text("t1", "So"), outcome=Incomplete(StopReason.REFUSAL))
    assert deltas(events)[1:] == [{"content": "So"}, {"refusal": REFUSED}, {}]
    assert message(events) == {"role": "assistant", "content": "So", "refusal": REFUSED}
    assert body(events)["choices"][0]["finish_reason"] == "stop"
    in_words = a_run(*text("t1", "No.", refusal=True), outcome=Incomplete(StopReason.REFUSAL))
    assert deltas(in_words)[1:] == [{"refusal": "No."}, {}]
    assert message(in_words) == {"role": "assistant", "content": None, "refusal": "No."}


def test_a_refusal_has_a_member_of_its_own() -> None:
    events = a_run(*text("t1", "I ", "won't.", refusal=True))
    assert deltas(events)[1:] == [{"refusal": "I "}, {"refusal": "won't."}, {}]
    assert message(events) == {"role": "assistant", "content": None, "refusal": "I won't."}


def test_a_medium_is_a_paragraph_of_markdown() -> None:
    events = a_run(*text("t1", "Look:"), MediaGiven("m1", PICTURE), *text("t2", "Nice", "?"))
    assert said(events) == "Look:\n\n![a  cat ](data:image/png;base64,aGk=)\n\nNice?"
    assert message(events)["content"] == said(events)


def test_a_stream_marks_what_was_taken_back_and_a_body_has_what_replaces_it_alone() -> None:
    events = a_run(*text("t1", "bad"), MessageRetracted("t1", "No."), *text("t2", "Else", "?"))
    assert said(events) == f"bad\n\n{RETRACTION_MARK}\n\nNo.\n\nElse?"
    assert message(events)["content"] == "No.Else?"
    unsaid = a_run(TextStarted("t1"), TextEnded("t1"), MessageRetracted("t1", "No."), MessageRetracted("t1"))
    assert said(unsaid) == "No."


def test_a_viewer_that_comes_after_a_retraction_gets_as_many_frames() -> None:
    kept = a_run(
        *text("t1", "", ""),
        MessageRetracted("t1", "No."),
        MediaGiven("m1", ImageBlock(NO_DATA)),
        MessageRetracted("m1"),
    )
    first = a_run(
        *text("t1", "secr", "et"), MessageRetracted("t1", "No."), MediaGiven("m1", PICTURE), MessageRetracted("m1")
    )
    assert len(streamed(kept)) == len(streamed(first))
    assert "secr" not in said(kept)
    assert "base64" not in said(kept)
    assert message(kept) == message(first) == {"role": "assistant", "content": "No.", "refusal": None}


def test_words_that_are_not_the_assistants_are_not_shown() -> None:
    events = a_run(TextStarted("t1", "developer"), TextDelta("t1", "psst"), TextEnded("t1"), *text("t2", "hi"))
    assert said(events) == message(events)["content"] == "hi"


@pytest.mark.parametrize(
    ("last", "error", "status"),
    [
        (
            RunFailed("model_overloaded", "p: it said: busy"),
            {"message": "p: it said: busy", "type": "server_error", "param": None, "code": "model_overloaded"},
            503,
        ),
        (
            RunFinished(Cancelled()),
            {"message": "the run was cancelled", "type": "invalid_request_error", "param": None, "code": "cancelled"},
            409,
        ),
    ],
)
def test_a_failure_in_the_middle_is_an_error_frame_and_the_end(
    last: RunFailed | RunFinished, error: dict[str, Any], status: int
) -> None:
    events: list[Event] = [RunStarted("conv_1", "chatcmpl-1"), *text("t1", "par"), last]
    assert chunks_of(streamed(events))[-1] == {"error": error}
    with pytest.raises(RunFailedError) as caught:
        body(events)
    assert (caught.value.status, caught.value.code, caught.value.message) == (status, error["code"], error["message"])


def test_only_an_operators_key_reads_why_a_model_failed() -> None:
    chunks = ChatChunks(FORM, to_operator=False)
    frames = chunks.render([RunFailed("model_overloaded", "p: it said: busy")], 1)
    assert b"it said" not in b"".join(frames)
    completion = ChatCompletion(FORM, to_operator=False)
    completion.render([RunFailed("model_overloaded", "p: it said: busy")], 1)
    with pytest.raises(RunFailedError, match="try again"):
        completion.final()


USAGES = (Usage("p", "a", 10, 4, cached_input_tokens=3), Usage("p", "b", 5, None, reasoning_tokens=2))
TOLD = {
    "prompt_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": None},
    "completion_tokens": 4,
    "completion_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}


@pytest.mark.parametrize(("usages", "told"), [(USAGES, TOLD), ((), None), ((Usage("p", "a"),), None)])
def test_usage_is_a_chunk_without_choices_where_it_is_wanted_and_unknown_counts_are_null(
    usages: tuple[Usage, ...], told: Any
) -> None:
    events = [*ANSWER, RunFinished(Completed(), usages)]
    wanted = ChatForm("chatcmpl-1", 1700000000, "assistant", include_usage=True)
    found = chunks_of(streamed(events, wanted))
    assert (found[-1]["choices"], found[-1]["usage"]) == ([], told)
    assert all(chunk["usage"] is None for chunk in found[:-1])
    assert not any("usage" in chunk for chunk in chunks_of(streamed(events)))
    assert body(events)["usage"] == told


def test_store_and_metadata_are_echoed_where_the_request_has_them() -> None:
    form = ChatForm("chatcmpl-1", 1, "assistant", store=False, metadata={"a": "b"})
    assert (body([*ANSWER, DONE], form)["store"], body([*ANSWER, DONE], form)["metadata"]) == (False, {"a": "b"})
    assert {"store", "metadata"}.isdisjoint(body([*ANSWER, DONE]))


@pytest.mark.parametrize(
    "form",
    [FORM, SHOWN, ChatForm("chatcmpl-1", 1, "m", include_usage=True, store=True, metadata={"a": "b"})],
)
def test_a_runs_record_gives_the_form_again(form: ChatForm) -> None:
    record = RunRecord("o", "chatcmpl-1", "conv_1", "assistant", RunStatus.COMPLETED, 5.5, request=form.remembered)
    assert form_of(record) == form


def test_a_run_of_another_protocol_has_a_form_too() -> None:
    record = RunRecord("o", "r1", "t", "assistant", RunStatus.COMPLETED, 5.5, request={"created": "never"})
    assert form_of(record) == ChatForm("r1", 5, "assistant")


def test_half_a_surrogate_pair_makes_no_broken_json() -> None:
    events = [
        RunStarted("c", "r"),
        *text("t1", "\ud83d", "b", "\ud83d"),
        *text("t2", "a", refusal=True),
        RunFailed("x", "\ud83d"),
    ]
    assert chunks_of(streamed(events))


def same_chunks(found: Sequence[dict[str, Any]]) -> bool:
    return len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in found}) == 1


def test_the_sdks_types_take_every_chunk_and_the_body() -> None:
    events = [*ANSWER, *text("t4", "no", refusal=True), RunFinished(Completed((CALL,)), USAGES[:1])]
    found = chunks_of(streamed(events, ChatForm("chatcmpl-1", 1, "m", include_usage=True)))
    assert same_chunks(found)
    for chunk in found:
        ChatCompletionChunk.model_validate(chunk)
        assert all(choice["delta"] is not None for choice in chunk["choices"])
    CompletionModel.model_validate(body(events))


def one_after_the_other(events: Sequence[Event]) -> bool:
    """Whether no text of the answer begins while another is open: no provider's answer has such."""
    still_open: set[str] = set()
    for event in events:
        if isinstance(event, TextStarted | ReasoningStarted | MediaGiven) and still_open:
            return False
        if isinstance(event, TextStarted | ReasoningStarted):
            still_open.add(event.message_id)
        elif isinstance(event, TextEnded | ReasoningEnded):
            still_open.discard(event.message_id)
    return True


@REPEATABLE
@given(batches_of_a_run, st.sampled_from([FORM, SHOWN]), st.integers(1, 9))
def test_whatever_a_run_says_stream_body_and_thread_say_the_same(
    batches: list[Events], form: ChatForm, at_once: int
) -> None:
    events = seal(*batches, [RunFinished(Completed())])
    assert streamed(events, form, at_once=at_once) == streamed(events, form)
    found = message(events, form)
    transcript = Transcript()
    transcript.follow(events)
    assert (found["content"] or "") == shown_content(transcript.messages)
    if one_after_the_other(events):
        for member in ("content", "refusal", "reasoning_content"):
            assert said(events, member, form) == (found.get(member) or "")


@pytest.mark.parametrize(
    ("sent", "shown", "same"),
    [
        ("I look.\n\nIt is.", "I look.\n\nIt is.", True),
        (" I look.\n", "I look.", True),
        ("I look", "I look.", False),
        ("bad\n\n[The text above was taken back.]\n\nNo.", "No.", True),
        ("bad\n\n[The text above was taken back.]\n\nNo.\n\nElse", "No.", False),
        ("One moment.\n\n[Approval needed] The tool ...", "One moment.", True),
        ("One moment.\n\n[Approval needed] The tool ...", "One moment.\n\nIt is refunded.", True),
        ("[Approval needed] The tool ...", "", True),
        ("Two.\n\n[Approval needed] The tool ...", "One moment.", False),
        ("![cat](/files/1.png)\n\nNice?", "![cat](data:image/png;base64,aGk=)\n\nNice?", True),
        ("![cat](/files/1.png)\n\nNice!", "![cat](data:image/png;base64,aGk=)\n\nNice?", False),
        ("[a](http://x)", "[a](http://y)", False),
    ],
)
def test_a_clients_copy_is_recognised(sent: str, shown: str, same: bool) -> None:
    assert is_copy(sent, shown) is same


def test_the_text_of_an_approval_that_waits_is_known_as_such() -> None:
    assert is_note(message(a_run(outcome=Interrupted((QUESTION,))))["content"])
    assert not is_note(message(a_run(*text("t1", "Hi"), outcome=Interrupted((QUESTION,))))["content"])
