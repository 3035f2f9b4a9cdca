"""The fold of a run's events is what was said, at every moment of the run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from gateway.events import (
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    StepEnded,
    StepStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.messages import ContentBlock, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolResult
from gateway.store import NumberedEvent
from gateway.transcript import OpenCall, OpenItems, OpenReasoning, OpenText, Transcript
from tests.event_samples import FAILED, OPAQUE, START, batches_of_a_run, seal
from tests.invariants import check_thread
from tests.viewer_screen import Screen
from tests.word_samples import REPEATABLE

ASKED = ModelCallStarted("turn", "provider", "model")
ANSWERED = ModelCallEnded(StopReason.END_TURN)


def fold(*events: Event) -> Transcript:
    transcript = Transcript()
    transcript.follow(events)
    return transcript


def reference_fold(events: Sequence[Event]) -> list[Message]:
    """The same from the other end: for each message id that the events name, what the events say of it."""
    ids = dict.fromkeys(
        event.message_id
        for event in events
        if isinstance(event, TextStarted | ReasoningStarted | ToolCallStarted | ToolReturned | MediaGiven)
    )
    return [_message(message_id, events) for message_id in ids]


def _message(message_id: str, events: Sequence[Event]) -> Message:
    role: Role = "assistant"
    content: list[ContentBlock] = []
    calls: list[ContentBlock] = []
    for event in events:
        match event:
            case TextStarted(message_id=of) if of == message_id:
                role = event.role
                text = "".join(e.text for e in events if isinstance(e, TextDelta) and e.message_id == of)
                (end,) = [e for e in events if isinstance(e, TextEnded) and e.message_id == of]
                content.append(TextBlock(text, event.index, end.opaque, event.refusal))
            case ReasoningStarted(message_id=of) if of == message_id:
                role = "reasoning"
                text = "".join(e.text for e in events if isinstance(e, ReasoningDelta) and e.message_id == of)
                (last,) = [e for e in events if isinstance(e, ReasoningEnded) and e.message_id == of]
                content.append(ReasoningBlock(text, event.index, last.opaque))
            case ToolCallStarted(message_id=of, call_id=call_id) if of == message_id:
                arguments = "".join(
                    e.arguments for e in events if isinstance(e, ToolCallDelta) and e.call_id == call_id
                )
                (stop,) = [e for e in events if isinstance(e, ToolCallEnded) and e.call_id == call_id]
                calls.append(ToolCall(call_id, event.name, arguments, event.index, stop.opaque, event.provider_call_id))
            case MediaGiven(message_id=of) if of == message_id:
                content.append(event.block)
            case ToolReturned(message_id=of) if of == message_id:
                role = "tool"
                content.append(ToolResult(event.call_id, event.content, event.is_error))
            case _:
                pass
    turn_id, ended = _turn(message_id, events)
    return Message(message_id, role, (*content, *calls), turn_id=turn_id, incomplete=not ended and role != "tool")


def _turn(message_id: str, events: Sequence[Event]) -> tuple[str, bool]:
    """The turn of a message and whether that has ended: the model call under way when the message began."""
    first = next(place for place, event in enumerate(events) if getattr(event, "message_id", None) == message_id)
    begun = events[first]
    if isinstance(begun, ToolReturned):
        calls = [e for e in events[:first] if isinstance(e, ToolCallStarted) and e.call_id == begun.call_id]
        return (_turn(calls[0].message_id, events) if calls else (f"turn_{message_id}", True))[0], True
    frame = [e for e in events[:first] if isinstance(e, ModelCallStarted | ModelCallEnded)]
    if not frame or isinstance(frame[-1], ModelCallEnded):
        return f"turn_{message_id}", True
    return frame[-1].turn_id, not _is_open(frame[-1].turn_id, events)


def _is_open(turn_id: str, events: Sequence[Event]) -> bool:
    """Whether the last model call of that turn was left without its end."""
    calls = [e for e in events if isinstance(e, ModelCallStarted | ModelCallEnded)]
    last = max(place for place, e in enumerate(calls) if isinstance(e, ModelCallStarted) and e.turn_id == turn_id)
    return not any(isinstance(following, ModelCallEnded) for following in calls[last + 1 : last + 2])


@settings(REPEATABLE, max_examples=150)
@given(batches_of_a_run)
def test_the_fold_is_what_the_events_say_of_each_message(batches: list[Events]) -> None:
    events = seal(*batches)
    assert list(fold(*events).messages) == reference_fold(events)


@settings(REPEATABLE)
@given(batches_of_a_run)
def test_the_fold_does_not_depend_on_how_the_events_are_batched(batches: list[Events]) -> None:
    events = seal(*batches)
    one_by_one = Transcript()
    for event in events:
        one_by_one.follow([event])
    assert one_by_one.messages == fold(*events).messages


@settings(REPEATABLE)
@given(batches_of_a_run)
def test_the_deltas_one_after_the_other_are_the_messages(batches: list[Events]) -> None:
    events = seal(*batches)
    check_thread([NumberedEvent(number, event) for number, event in enumerate(events, 1)], fold(*events).messages)


@settings(REPEATABLE)
@given(batches_of_a_run)
def test_everything_is_either_closed_or_open_at_every_moment(batches: list[Events]) -> None:
    transcript = Transcript()
    for event in seal(*batches):
        transcript.follow([event])
        closed, items = transcript.closed_messages(), transcript.open_items()
        texts = [(m.id, _words(m)) for m in closed if _has_words(m)]
        texts += [(item.message_id, item.text) for item in items.texts]
        texts += [(item.message_id, item.text) for item in items.reasoning]
        assert sorted(texts) == sorted((m.id, _words(m)) for m in transcript.messages if _has_words(m))
        calls = [(c.call_id, m.id, c.arguments) for m in closed for c in m.tool_calls]
        calls += [(c.call_id, c.message_id, c.arguments) for c in items.calls]
        assert sorted(calls) == sorted(
            (c.call_id, m.id, c.arguments) for m in transcript.messages for c in m.tool_calls
        )
    assert transcript.open_items() == OpenItems()


@settings(REPEATABLE)
@given(batches_of_a_run)
def test_what_is_closed_stays_as_it_is_but_for_more_calls(batches: list[Events]) -> None:
    transcript = Transcript()
    before: dict[str, Message] = {}
    for event in seal(*batches):
        transcript.follow([event])
        now = {message.id: message for message in transcript.closed_messages()}
        for message_id, message in before.items():
            if message_id in now:  # the message of calls may still get its text
                assert set(message.content) <= set(now[message_id].content)
            else:
                assert not _has_words(message)
                assert message_id in {item.message_id for item in transcript.open_items().texts}
        before = now


@settings(REPEATABLE)
@given(batches_of_a_run)
def test_who_joins_at_any_moment_ends_up_with_the_same_screen(batches: list[Events]) -> None:
    events = seal(*batches)
    told_all = Screen()
    told_all.follow(events)
    transcript = Transcript()
    for place, event in enumerate(events, 1):
        transcript.follow([event])
        joined = Screen()
        joined.show(transcript.closed_messages(), transcript.open_items())
        joined.follow(events[place:])
        assert joined == told_all


def _words(message: Message) -> str:
    return "".join(block.text for block in message.content if isinstance(block, TextBlock | ReasoningBlock))


def _has_words(message: Message) -> bool:
    return any(isinstance(block, TextBlock | ReasoningBlock) for block in message.content)


# --- examples


def test_an_answer_with_reasoning_text_and_calls_becomes_two_messages_of_one_turn() -> None:
    transcript = fold(
        START,
        ASKED,
        ReasoningStarted("r", 0),
        ReasoningDelta("r", "hm"),
        ReasoningEnded("r", OPAQUE),
        TextStarted("m", index=1),
        TextDelta("m", "Let me "),
        TextDelta("m", "look."),
        TextEnded("m"),
        ToolCallStarted("c", "search", "m", 2, "provider id"),
        ToolCallDelta("c", '{"q":'),
        ToolCallDelta("c", "1}"),
        ToolCallEnded("c", OPAQUE),
        ANSWERED,
        ToolReturned("t", "c", (TextBlock("found"),)),
    )
    assert transcript.messages == (
        Message("r", "reasoning", (ReasoningBlock("hm", 0, OPAQUE),), turn_id="turn"),
        Message(
            "m",
            "assistant",
            (TextBlock("Let me look.", 1), ToolCall("c", "search", '{"q":1}', 2, OPAQUE, "provider id")),
            turn_id="turn",
        ),
        Message("t", "tool", (ToolResult("c", (TextBlock("found"),)),), turn_id="turn"),
    )


def test_an_answer_is_incomplete_until_its_model_call_has_ended() -> None:
    text: Events = [TextStarted("m"), TextDelta("m", "x"), TextEnded("m")]
    assert [message.incomplete for message in fold(START, ASKED, *text).messages] == [True]
    assert [message.incomplete for message in fold(START, ASKED, *text, FAILED).messages] == [True]
    assert [message.incomplete for message in fold(START, ASKED, *text, ANSWERED, FAILED).messages] == [False]


def test_an_answer_that_broke_off_stays_incomplete_when_another_follows() -> None:
    again = ModelCallStarted("turn 2", "provider", "model")
    events: Events = [ASKED, TextStarted("m"), TextEnded("m"), again, TextStarted("n"), TextEnded("n"), ANSWERED]
    assert [message.incomplete for message in fold(START, *events).messages] == [True, False]


def test_a_result_is_never_incomplete() -> None:
    transcript = Transcript({"c": "turn"})
    transcript.follow([START, ASKED, ToolReturned("t", "c", ())])
    assert [message.incomplete for message in transcript.messages] == [False]


def test_the_result_of_an_earlier_runs_call_belongs_to_that_calls_turn() -> None:
    transcript = Transcript({"c": "turn of yesterday"})
    transcript.follow([START, ToolReturned("t", "c", ()), ASKED, TextStarted("m"), TextEnded("m"), ANSWERED])
    assert [message.turn_id for message in transcript.messages] == ["turn of yesterday", "turn"]


def test_what_no_model_call_says_still_counts_as_this_servers() -> None:
    events: Events = [TextStarted("m"), TextEnded("m"), ToolReturned("t", "unknown call", ()), ASKED, ANSWERED]
    more: Events = [ReasoningStarted("r"), ReasoningEnded("r")]
    turns = [message.turn_id for message in fold(START, *events, *more).messages]
    assert None not in turns
    assert len(set(turns)) == 3


@pytest.mark.parametrize("text_first", [True, False])
def test_calls_stand_behind_the_text_of_their_message_whichever_came_first(text_first: bool) -> None:
    text: Events = [TextStarted("m"), TextDelta("m", "x"), TextEnded("m")]
    call: Events = [ToolCallStarted("c", "tool", "m"), ToolCallEnded("c")]
    (message,) = fold(START, *(text + call if text_first else call + text)).messages
    assert message.content == (TextBlock("x"), ToolCall("c", "tool", ""))


def test_what_is_open_is_told_with_all_of_it_so_far() -> None:
    transcript = fold(
        START,
        StepStarted("done"),
        StepStarted("step"),
        StepEnded("done"),
        ReasoningStarted("r"),
        ReasoningDelta("r", "hm"),
        TextStarted("m", "assistant"),
        TextDelta("m", "a"),
        TextDelta("m", "b"),
        ToolCallStarted("c", "tool", "m"),
        ToolCallDelta("c", "{"),
        ToolCallStarted("d", "tool", "m"),
        ToolCallEnded("d"),
        ToolCallStarted("e", "tool", "n"),
        ToolCallEnded("e"),
    )
    assert transcript.open_items() == OpenItems(
        ("step",),
        (OpenText("m", "assistant", "ab"),),
        (OpenReasoning("r", "hm"),),
        (OpenCall("c", "tool", "m", "{", ended=False), OpenCall("d", "tool", "m", "", ended=True)),
    )
    assert [message.id for message in transcript.closed_messages()] == ["n"]


def test_a_message_whose_text_is_over_is_closed_with_the_calls_that_have_ended() -> None:
    calls: Events = [ToolCallStarted("c", "tool", "m"), ToolCallEnded("c"), ToolCallStarted("d", "tool", "m")]
    transcript = fold(START, TextStarted("m"), TextEnded("m"), *calls)
    (message,) = transcript.closed_messages()
    assert [call.call_id for call in message.tool_calls] == ["c"]
    assert [call.call_id for call in transcript.open_items().calls] == ["d"]


def test_what_was_taken_back_is_nowhere_any_more() -> None:
    transcript = Transcript()
    transcript.follow([START, ModelCallStarted("turn", "p", "m"), ReasoningStarted("r", 0)])
    transcript.follow([ReasoningDelta("r", "hm")])
    transcript.follow(
        [ReasoningEnded("r", OPAQUE), TextStarted("a", index=1), TextDelta("a", "secret"), TextEnded("a")]
    )
    assert transcript.retracted == frozenset()
    transcript.follow([MessageRetracted("r"), MessageRetracted("a", "Not that.")])
    transcript.follow([ModelCallEnded(StopReason.REFUSAL)])
    assert transcript.retracted == {"r", "a"}
    assert [message.content for message in transcript.messages] == [
        (ReasoningBlock("", 0),),
        (TextBlock("Not that.", 1),),
    ]
    assert transcript.closed_messages() == transcript.messages
    assert transcript.open_items() == OpenItems()
