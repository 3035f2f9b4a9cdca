"""A response's events, built from whatever a provider says in whatever pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import LimitError
from gateway.event_order import Sealer
from gateway.events import (
    Event,
    Events,
    MediaGiven,
    ModelCallEnded,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from gateway.messages import AudioBlock, Base64Source, Message, Opaque, ReasoningBlock, TextBlock, ToolCall
from gateway.model import ModelRequest
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.sse_reader import UnreadableAnswerError
from gateway.transcript import Transcript
from tests.word_samples import REPEATABLE


def builder(*known_call_ids: str) -> AnswerBuilder:
    calls = tuple(ToolCall(call_id, "tool", "{}") for call_id in known_call_ids)
    return AnswerBuilder(ModelRequest("turn", (Message("a", "assistant", calls),)), "provider", "model")


def finished(response: AnswerBuilder) -> Events:
    response.finish(StopReason.END_TURN)
    return response.take()


def fold(events: Sequence[Event]) -> tuple[Message, ...]:
    """The messages; on the way, that the events need no sealer."""
    stream = [RunStarted("t", "r"), *events]
    assert Sealer().follow(stream) is stream
    transcript = Transcript()
    transcript.follow(stream)
    return transcript.messages


def only_text(events: Sequence[Event]) -> str:
    (message,) = fold(events)
    return message.text


def test_a_text_opens_at_its_first_words_and_closes_at_the_end() -> None:
    response = builder()
    response.text(0, "")
    response.text(0, "Hel")
    response.text(0, "")
    response.text(0, "lo")
    started, *rest = finished(response)
    assert isinstance(started, TextStarted)
    name = started.message_id
    assert (started.role, started.index) == ("assistant", 0)
    assert rest == [TextDelta(name, ["Hel", "lo"]), TextEnded(name), ModelCallEnded(StopReason.END_TURN)]


def test_events_are_taken_once() -> None:
    response = builder()
    response.text(0, "a")
    assert len(response.take()) == 2
    assert response.take() == []
    response.text(0, "b")
    (delta,) = response.take()
    assert isinstance(delta, TextDelta)
    assert delta.text == "b"


def test_blocks_of_different_keys_interleave_and_keep_the_order_in_which_they_were_opened() -> None:
    response = builder()
    response.reasoning("think", "hm ")
    response.text("say", "Well, ")
    response.tool_started("call", "c1", "search")
    response.reasoning("think", "so")
    response.tool_arguments("call", "{}")
    response.text("say", "look")
    assert response.is_open("think")
    response.close("think")
    assert not response.is_open("think")
    reasoning, answer = fold(finished(response))
    assert reasoning.content == (ReasoningBlock("hm so", 0),)
    assert answer.content == (TextBlock("Well, look", 1), ToolCall("c1", "search", "{}", 2))


def test_a_key_that_was_closed_opens_a_block_of_its_own_when_it_is_fed_again() -> None:
    response = builder()
    response.text(0, "one")
    response.close(0)
    response.close(0)
    response.text(0, "two")
    assert [message.text for message in fold(finished(response))] == ["one", "two"]


def test_a_key_that_changes_its_kind_closes_one_block_and_opens_another() -> None:
    response = builder()
    response.reasoning(0, "thinking")
    response.text(0, "saying")
    response.tool_started(0, "c", "tool")
    response.tool_arguments(0, "{}")
    response.reasoning(0, "again")
    thought, said, last = fold(finished(response))
    assert thought.content == (ReasoningBlock("thinking", 0),)
    assert said.content == (TextBlock("saying", 1), ToolCall("c", "tool", "{}", 2))
    assert last.content == (ReasoningBlock("again", 3),)


def test_two_calls_under_one_key_are_two_calls() -> None:
    response = builder()
    for call_id in ("c1", "c2"):
        response.tool_started(0, call_id, "tool")
        response.tool_arguments(0, f'"{call_id}"')
    events = finished(response)
    (message,) = fold(events)
    assert [(call.call_id, call.arguments) for call in message.tool_calls] == [("c1", '"c1"'), ("c2", '"c2"')]
    assert sum(isinstance(event, ToolCallEnded) for event in events) == 2


# --- which message a call is part of


def parents(events: Events) -> set[str]:
    return {event.message_id for event in events if isinstance(event, ToolCallStarted)}


def test_all_calls_are_part_of_the_first_text() -> None:
    response = builder()
    response.text(0, "first")
    response.tool_started(1, "c1", "tool")
    response.text(2, "second")
    response.tool_started(3, "c2", "tool")
    events = finished(response)
    first, second = [event.message_id for event in events if isinstance(event, TextStarted)]
    assert parents(events) == {first}
    assert second != first


def test_calls_without_a_text_before_them_share_a_message_and_a_later_text_is_another() -> None:
    response = builder()
    response.reasoning(0, "hm")
    response.tool_started(1, "c1", "tool")
    response.tool_started(2, "c2", "tool")
    response.text(3, "said later")
    events = finished(response)
    (parent,) = parents(events)
    names = [event.message_id for event in events if isinstance(event, TextStarted | ReasoningStarted)]
    assert parent not in names
    assert len(set(names)) == 2


# --- call ids


@pytest.mark.parametrize("missing", [None, ""])
def test_a_call_without_an_id_gets_one(missing: str | None) -> None:
    response = builder()
    response.tool_started(0, missing, "tool")
    response.tool_started(1, missing, "tool")
    first, second = [event for event in finished(response) if isinstance(event, ToolCallStarted)]
    assert first.call_id.startswith("call_")
    assert first.call_id != second.call_id
    assert first.provider_call_id is None


def test_an_id_that_the_thread_has_gets_a_suffix_and_the_providers_own_is_kept() -> None:
    response = builder("call_0")
    response.tool_started(0, "call_0", "tool")
    response.tool_started(1, "call_0", "tool")
    response.tool_started(2, "fresh", "tool")
    response.tool_started(3, "x" * 500, "tool")
    response.tool_started(4, "x" * 500, "tool")
    calls = [event for event in finished(response) if isinstance(event, ToolCallStarted)]
    assert len({"call_0", *(event.call_id for event in calls)}) == 6
    assert calls[0].call_id.startswith("call_0")
    assert [call.provider_call_id for call in calls] == ["call_0", "call_0", None, None, "x" * 500]
    assert len(calls[4].call_id) < 64


def test_calls_that_lead_to_their_run_are_numbered_and_keep_the_providers_ids() -> None:
    known = Message("a", "assistant", (ToolCall("call_r_4", "tool", "{}"),))
    response = AnswerBuilder(ModelRequest("turn", (known,), call_prefix="call_r_", next_call=3), "provider", "model")
    for number, theirs in enumerate(["toolu_1", None, "toolu_1"]):
        response.tool_started(number, theirs, "tool")
    calls = [event for event in finished(response) if isinstance(event, ToolCallStarted)]
    assert [call.call_id for call in calls] == ["call_r_3", "call_r_5", "call_r_6"]
    assert [call.provider_call_id for call in calls] == ["toolu_1", None, "toolu_1"]


def test_names_and_ids_are_well_formed() -> None:
    response = builder()
    response.tool_started(0, "id\ud83d", "name\ude00")
    call = finished(response)[0]
    assert isinstance(call, ToolCallStarted)
    assert (call.call_id, call.name) == ("id\ufffd", "name\ufffd")


def test_arguments_belong_to_a_call_that_was_started() -> None:
    with pytest.raises(KeyError):
        builder().tool_arguments("unheard", "{}")


# --- characters in halves


def test_a_character_that_comes_in_halves_is_never_shown_as_half() -> None:
    response = builder()
    response.text(0, "a\ud83d")
    response.text(0, "\ude00b")
    assert [event.texts for event in finished(response) if isinstance(event, TextDelta)] == [("a", "😀b")]


def test_a_half_alone_opens_the_block_but_waits_for_the_other() -> None:
    response = builder()
    response.text(0, "\ud83d")
    assert [type(event) for event in response.take()] == [TextStarted]
    response.text(0, "")
    assert response.take() == []
    response.text(0, "\ude00")
    (delta,) = response.take()
    assert isinstance(delta, TextDelta)
    assert delta.text == "😀"


@pytest.mark.parametrize("kind", ["text", "reasoning", "call"])
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["\ud83d"], "\ufffd"),
        (["\ude00", "y"], "\ufffdy"),
        (["\ud83d", "x"], "\ufffdx"),
        (["\ud83d", "\ud83d", "\ude00"], "\ufffd😀"),
        (["a\ud83d\ude00b"], "a😀b"),
        (["👍", "\ud83c", "\udffd"], "👍🏽"),
        (["é", "e", "\u0301", "\u2028", "\0", "\r\n"], "ée\u0301\u2028\0\r\n"),
    ],
)
def test_halves_are_joined_or_replaced_in_everything_that_is_said(kind: str, pieces: list[str], expected: str) -> None:
    response = builder()
    if kind == "call":
        response.tool_started(0, "c", "tool")
    feed = {"text": response.text, "reasoning": response.reasoning, "call": response.tool_arguments}[kind]
    for piece in pieces:
        feed(0, piece)
    deltas = [
        event.arguments if isinstance(event, ToolCallDelta) else event.text
        for event in finished(response)
        if isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta)
    ]
    assert "".join(deltas) == expected
    assert all(deltas)


def test_halves_of_different_blocks_are_not_joined() -> None:
    response = builder()
    response.text(0, "\ud83d")
    response.reasoning(1, "\ude00")
    said, thought = fold(finished(response))
    assert (said.text, thought.content) == ("\ufffd", (ReasoningBlock("\ufffd", 1),))


@settings(REPEATABLE, max_examples=200)
@given(st.text(max_size=12), st.data())
def test_text_cut_anywhere_between_its_utf_16_units_comes_out_whole(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(units) // 2), max_size=6)) | {0, len(units) // 2})
    response = builder()
    for start, end in pairwise(cuts):
        response.text(0, units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass"))
    events = finished(response)
    assert (only_text(events) if text else "") == text
    for event in events:
        if isinstance(event, TextDelta):
            assert event.text
            event.text.encode()


# --- opaque parts


def test_opaque_parts_are_joined_and_come_with_the_end_of_their_block() -> None:
    response = builder()
    response.reasoning(0, "hm")
    response.opaque(0, "signature", "abc")
    response.opaque(0, "signature", "def")
    response.text(1, "said")
    response.opaque(1, "thought_signature", "t")
    response.tool_started(2, "c", "tool")
    response.opaque(2, "thought_signature", "c")
    events = finished(response)
    opaque = [event.opaque for event in events if isinstance(event, ReasoningEnded | TextEnded | ToolCallEnded)]
    assert opaque == [
        Opaque("provider", "model", "signature", "abcdef"),
        Opaque("provider", "model", "thought_signature", "t"),
        Opaque("provider", "model", "thought_signature", "c"),
    ]


def test_something_opaque_alone_is_reasoning_without_words() -> None:
    response = builder()
    response.opaque(0, "redacted", "xyz")
    (message,) = fold(finished(response))
    assert message.content == (ReasoningBlock("", 0, Opaque("provider", "model", "redacted", "xyz")),)


# --- the end


@pytest.mark.parametrize("reason", list(StopReason))
@pytest.mark.parametrize("calls", [True, False])
def test_the_reason_says_whether_there_are_calls_whatever_the_provider_called_it(
    reason: StopReason, calls: bool
) -> None:
    response = builder()
    if calls:
        response.tool_started(0, "c", "tool")
    response.finish(reason, "raw word")
    end = response.take()[-1]
    plain = (StopReason.END_TURN, StopReason.STOP_SEQUENCE)
    expected = reason
    if calls and reason in plain:
        expected = StopReason.TOOL_CALLS
    elif not calls and reason is StopReason.TOOL_CALLS:
        expected = StopReason.END_TURN
    assert end == ModelCallEnded(expected, "raw word")
    assert response.has_calls == calls


def test_everything_open_is_closed_before_the_end() -> None:
    response = builder()
    response.tool_started(0, "c", "tool")
    response.text(1, "x")
    response.reasoning(2, "y")
    kinds = [type(event) for event in finished(response)]
    assert kinds[-4:] == [ToolCallEnded, TextEnded, ReasoningEnded, ModelCallEnded]


def test_usage_and_what_has_no_event_of_its_own_pass_in_their_place() -> None:
    response = builder()
    response.text(0, "x")
    response.raw({"citation": 1})
    response.usage(Usage("provider", "model", 1, 2))
    events = finished(response)
    assert events[2:4] == [Raw({"citation": 1}, "provider"), UsageReported(Usage("provider", "model", 1, 2))]


def test_an_empty_response_is_only_its_end() -> None:
    assert finished(builder()) == [ModelCallEnded(StopReason.END_TURN)]


# --- anything


keys = st.sampled_from([0, 1, 2])
pieces = st.sampled_from(["", "x", "\ud83d", "\ude00", "é\ud83d"])
feeds = st.one_of(
    st.tuples(st.sampled_from(["text", "reasoning"]), keys, pieces),
    st.tuples(st.just("tool_started"), keys, st.sampled_from([None, "", "a", "b"])),
    st.tuples(st.just("tool_arguments"), keys, pieces),
    st.tuples(st.just("opaque"), keys, st.just("v")),
    st.tuples(st.just("close"), keys, st.none()),
)


@settings(REPEATABLE, max_examples=300)
@given(st.lists(feeds, max_size=20))
def test_whatever_a_provider_feeds_the_events_are_in_order_and_well_formed(
    fed: list[tuple[str, int, str | None]],
) -> None:
    response = builder("a")
    calls: set[int] = set()  # the keys whose open block is a call
    for what, key, value in fed:
        if what == "tool_started":
            response.tool_started(key, value, "tool")
            calls.add(key)
        elif what == "tool_arguments" and key in calls:
            response.tool_arguments(key, value or "")
        elif what == "opaque":
            response.opaque(key, "kind", value or "")
        elif what == "close":
            response.close(key)
            calls.discard(key)
        elif what in ("text", "reasoning") and value:
            (response.text if what == "text" else response.reasoning)(key, value)
            calls.discard(key)
    events = finished(response)
    messages = fold(events)
    places = sorted(block.index for message in messages for block in message.content)  # type: ignore[union-attr]
    assert places == list(range(len(places)))
    for event in events:
        str(event).encode()


def test_what_no_event_shows_is_bounded_and_so_are_calls() -> None:
    response = AnswerBuilder(ModelRequest("turn", (), max_answer_bytes=10, max_calls=2), "provider", "model")
    response.opaque("a", "sealed", "x" * 6)
    response.opaque("b", "sealed", "x" * 4)
    with pytest.raises(LimitError) as too_much:
        response.opaque("b", "sealed", "x")
    assert too_much.value.code == "limit_max_answer_bytes"
    response.tool_started(1, None, "add")
    response.tool_started(2, None, "add")
    with pytest.raises(LimitError) as too_many:
        response.tool_started(3, None, "add")
    assert too_many.value.code == "limit_max_calls_per_answer"


def test_a_medium_is_a_message_of_its_own_in_its_place() -> None:
    response = builder()
    response.text("t", "See")
    response.medium("m", "Audio/WAV", "aGk=", ("signature", "s"))
    events = finished(response)
    (given,) = [event for event in events if isinstance(event, MediaGiven)]

    assert given.block == AudioBlock(
        Base64Source("aGk=", "Audio/WAV"), index=1, opaque=Opaque("provider", "model", "signature", "s")
    )
    assert [message.content[0] for message in fold(events)] == [TextBlock("See", 0), given.block]


@pytest.mark.parametrize("data", ["", "a", "aGk", "not base64", "aGk=\ud800"])
def test_a_medium_that_is_none_is_refused(data: str) -> None:
    with pytest.raises(UnreadableAnswerError, match="not base64"):
        builder().medium("m", "image/png", data)


def test_a_medium_that_is_larger_than_an_answer_may_be_is_refused_before_it_is_read() -> None:
    request = ModelRequest("turn", (), max_answer_bytes=10)
    with pytest.raises(LimitError):
        AnswerBuilder(request, "provider", "model").medium("m", "image/png", "?" * 11)


def test_media_are_taken_back_with_the_rest() -> None:
    response = builder()
    response.text("t", "See")
    response.medium("m", "image/png", "aGk=")
    response.retract("Sorry")
    events = finished(response)
    assert [message.content for message in fold(events)] == [(TextBlock("Sorry", 0),), (TextBlock(""),)]
