"""Whatever comes in, what the sealer lets out is a legal stream; what is legal passes untouched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings

from gateway.ag_ui.events import Renderer
from gateway.ag_ui.peer import PeerProfile
from gateway.event_order import Sealer
from gateway.events import (
    Completed,
    Custom,
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
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
from gateway.messages import Base64Source, ImageBlock, TextBlock
from gateway.store import NumberedEvent
from gateway.transcript import Transcript
from tests.ag_ui_verifier import read_stream, verify_server
from tests.event_samples import FAILED, OPAQUE, START, batches, batches_of_a_run, seal, terminals
from tests.invariants import check_log
from tests.word_samples import REPEATABLE


def check_legal(events: Sequence[Event]) -> None:
    """The rules of the module's docstring, as the shared invariants, the fold and the AG-UI verifier know them."""
    log = [NumberedEvent(number, event) for number, event in enumerate(events, 1)]
    check_log(log)
    Transcript().follow(events)
    for profile, legacy in ((PeerProfile.FULL, False), (PeerProfile.LEGACY, True)):
        body = Renderer(profile, "t", "r").render(events, 1)
        sent = read_stream(body)
        verify_server([frame.event for frame in sent], thread_id="t", run_id="r", legacy=legacy)
    for event in events:
        assert not isinstance(event, TextDelta | ReasoningDelta) or event.text
        assert not isinstance(event, ToolCallDelta) or event.arguments


@settings(REPEATABLE, max_examples=250)
@given(batches)
def test_any_events_at_all_leave_as_a_legal_stream(batches: list[Events]) -> None:
    check_legal(seal(*batches))


@settings(REPEATABLE, max_examples=250)
@given(batches_of_a_run)
def test_any_events_of_a_run_leave_as_a_legal_stream(batches: list[Events]) -> None:
    check_legal(seal(*batches))


@settings(REPEATABLE, max_examples=200)
@given(batches_of_a_run, terminals)
def test_no_word_is_lost(batches: list[Events], terminal: Event) -> None:
    given_events = [event for batch in batches for event in batch]
    out = seal(*batches, [terminal])
    words = [e.text for e in given_events if isinstance(e, TextDelta | ReasoningDelta) and e.text]
    assert [e.text for e in out if isinstance(e, TextDelta | ReasoningDelta)] == words


@settings(REPEATABLE, max_examples=200)
@given(batches_of_a_run, terminals)
def test_what_is_legal_passes_as_the_very_lists_it_came_in(batches: list[Events], terminal: Event) -> None:
    legal = [seal(*batches, [terminal])]
    # The same stream in pieces of any size: in one, in halves, one by one.
    whole = legal[0]
    for size in (len(whole), max(1, len(whole) // 2), 1):
        sealer = Sealer()
        for start in range(0, len(whole), size):
            piece = whole[start : start + size]
            before = list(piece)
            assert sealer.follow(piece) is piece
            assert piece == before, "a batch is never changed in place"
        assert sealer.sealed


@settings(REPEATABLE, max_examples=100)
@given(batches)
def test_what_leaves_does_not_depend_on_how_the_events_are_batched(batches: list[Events]) -> None:
    flat = [event for batch in batches for event in batch]
    assert shape(seal(*batches)) == shape(seal(flat)) == shape(seal(*[[event] for event in flat]))


def shape(events: Sequence[Event]) -> list[tuple[str, object]]:
    """The events without the ids, some of which are fresh each time."""
    return [(type(event).__name__, getattr(event, "text", None)) for event in events]


# --- the frame


def test_a_run_starts_once_and_before_everything_else() -> None:
    assert seal([TextStarted("a"), START, START, TextStarted("a")])[:2] == [START, TextStarted("a")]


def test_a_run_may_fail_before_it_starts_but_not_finish() -> None:
    assert seal([FAILED]) == [FAILED]
    assert seal([RunFinished(Completed())]) == [FAILED]


def test_the_end_closes_what_is_open_steps_from_the_inside() -> None:
    opened: Events = [
        START,
        StepStarted("outer"),
        StepStarted("inner"),
        TextStarted("m"),
        ReasoningStarted("r"),
        ToolCallStarted("c", "tool", "m"),
    ]
    end = RunFinished(Completed())
    assert seal([*opened, end]) == [
        *opened,
        TextEnded("m"),
        ReasoningEnded("r"),
        ToolCallEnded("c"),
        StepEnded("inner"),
        StepEnded("outer"),
        end,
    ]


@pytest.mark.parametrize(
    "late",
    [TextDelta("m", "x"), ReasoningDelta("r", "x"), ToolCallDelta("c", "x"), StepEnded("s"), FAILED, START],
    ids=lambda event: type(event).__name__,
)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_follows_the_end_not_even_more_of_what_was_open(late: Event, together: bool) -> None:
    opened: Events = [
        START,
        TextStarted("m"),
        ReasoningStarted("r"),
        ToolCallStarted("c", "tool", "m"),
        StepStarted("s"),
    ]
    sealer = Sealer()
    sealer.follow(opened)
    if together:
        assert sealer.follow([FAILED, late])[-1] == FAILED
    else:
        sealer.follow([FAILED])
        assert sealer.follow([late]) == []


# --- ids


def test_content_without_a_start_gets_one() -> None:
    assert seal([START, TextDelta("m", "x"), ReasoningDelta("r", "y")])[1:5] == [
        TextStarted("m"),
        TextDelta("m", "x"),
        ReasoningStarted("r"),
        ReasoningDelta("r", "y"),
    ]


def test_a_text_that_goes_on_after_its_end_goes_on_as_another_message() -> None:
    out = seal([START, TextStarted("m"), TextDelta("m", "x"), TextEnded("m")], [TextDelta("m", "y"), TextEnded("m")])
    started = [event for event in out if isinstance(event, TextStarted)]
    assert started[0].message_id == "m"
    assert started[1].message_id != "m"
    assert out[5:7] == [TextDelta(started[1].message_id, "y"), TextEnded(started[1].message_id)]


def test_a_reused_id_gets_a_fresh_one_each_time() -> None:
    text: Events = [TextStarted("m", index=3), TextDelta("m", "x"), TextEnded("m", OPAQUE)]
    out = seal([START, *text, *text, *text])
    names = [event.message_id for event in out if isinstance(event, TextStarted)]
    assert len(set(names)) == 3
    for place, name in enumerate(names):
        expected = [TextStarted(name, index=3), TextDelta(name, "x"), TextEnded(name, OPAQUE)]
        assert out[1 + 3 * place : 4 + 3 * place] == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([TextStarted("a"), TextDelta("a", "1")], [ReasoningStarted("a"), ReasoningDelta("a", "2")]),
        ([ReasoningStarted("a"), ReasoningDelta("a", "1")], [TextStarted("a"), TextDelta("a", "2")]),
        ([TextStarted("a"), TextDelta("a", "1")], [ToolReturned("a", "call", ())]),
        ([ReasoningStarted("a"), ReasoningDelta("a", "1")], [ToolReturned("a", "call", ())]),
        ([ReasoningStarted("a"), ReasoningDelta("a", "1")], [ToolCallStarted("call", "tool", "a")]),
    ],
)
def test_an_id_that_another_kind_takes_stays_with_what_is_open_under_it(first: Events, second: Events) -> None:
    is_text = isinstance(first[0], TextStarted)
    more: Event = TextDelta("a", "3") if is_text else ReasoningDelta("a", "3")
    end: Event = TextEnded("a") if is_text else ReasoningEnded("a")
    marker = Custom("after the end", None)
    out = seal([START, *first, *second, more, end, marker])
    check_legal(out)
    place = out.index(more)
    assert out[place : place + 3] == [more, end, marker]


def test_a_call_belongs_to_the_text_of_its_id_also_where_that_was_renamed() -> None:
    text: Events = [TextStarted("m"), TextEnded("m")]
    out = seal([START, *text, *text, ToolCallStarted("c", "tool", "m")])
    second = [event for event in out if isinstance(event, TextStarted)][1]
    assert ToolCallStarted("c", "tool", second.message_id) in out


def test_calls_whose_message_is_not_an_assistants_get_one_that_is_the_same_for_all() -> None:
    calls: Events = [ToolCallStarted("1", "tool", "a"), ToolCallEnded("1"), ToolCallStarted("2", "tool", "a")]
    openings: list[Event] = [ReasoningStarted("a"), TextStarted("a", role="user")]
    for opening in openings:
        out = seal([START, opening, *calls])
        parents = {event.message_id for event in out if isinstance(event, ToolCallStarted)}
        assert len(parents) == 1
        assert parents != {"a"}


def test_a_message_that_has_calls_may_still_get_its_text_once() -> None:
    stream: Events = [START, ToolCallStarted("c", "tool", "m"), ToolCallEnded("c"), TextStarted("m"), TextEnded("m")]
    assert seal(stream)[:5] == stream
    again = [event for event in seal([*stream, TextStarted("m")]) if isinstance(event, TextStarted)]
    assert again[1].message_id != "m"


def test_a_text_is_never_a_tools_or_reasoning() -> None:
    for role in ("tool", "reasoning"):
        assert seal([START, TextStarted("m", role)])[1] == TextStarted("m", "assistant")


# --- calls, results, steps


def test_a_call_id_and_a_message_id_may_be_the_same() -> None:
    stream: Events = [START, TextStarted("x"), TextEnded("x"), ToolCallStarted("x", "tool", "x"), ToolCallEnded("x")]
    assert seal(stream)[:5] == stream


def test_a_call_is_made_once() -> None:
    call: Events = [ToolCallStarted("c", "tool", "m"), ToolCallDelta("c", "{}"), ToolCallEnded("c")]
    assert seal([START, *call, *call, FAILED]) == [START, *call, FAILED]


def test_a_result_ends_its_call_and_a_second_one_is_dropped() -> None:
    out = seal(
        [START, ToolCallStarted("c", "tool", "m"), ToolReturned("1", "c", ()), ToolReturned("2", "c", ()), FAILED]
    )
    assert out == [START, ToolCallStarted("c", "tool", "m"), ToolCallEnded("c"), ToolReturned("1", "c", ()), FAILED]


def test_a_call_of_an_earlier_run_may_be_answered_but_not_made_again() -> None:
    result = ToolReturned("m", "approved-earlier", (TextBlock("done"),))
    assert seal([START, result, ToolCallStarted("approved-earlier", "tool", "p"), FAILED]) == [START, result, FAILED]


def test_a_results_message_never_has_a_calls_id() -> None:
    out = seal([START, ToolCallStarted("c", "tool", "m"), ToolCallEnded("c"), ToolReturned("c", "c", ())])
    result = next(event for event in out if isinstance(event, ToolReturned))
    assert result.message_id not in ("c", "m")


def test_what_is_taken_back_is_over_and_was_said_in_this_run() -> None:
    sealer = Sealer()
    sealer.reserve(["question"])
    sealer.follow([START, TextStarted("m"), ReasoningStarted("r"), TextStarted("words", "user")])
    taken_back = [MessageRetracted(name, "no") for name in ("m", "r", "question", "words", "nobody")]
    assert sealer.follow(list(taken_back)) == [TextEnded("m"), taken_back[0], ReasoningEnded("r"), taken_back[1]]
    assert sealer.follow([MessageRetracted("m")]) == [MessageRetracted("m")]


def test_what_is_taken_back_is_known_by_the_id_that_it_left_under() -> None:
    sealer = Sealer()
    _, _, _, second = sealer.follow([START, TextStarted("m"), TextEnded("m"), TextStarted("m")])
    assert isinstance(second, TextStarted)
    assert sealer.follow([TextEnded("m"), MessageRetracted("m", "no")]) == [
        TextEnded(second.message_id),
        MessageRetracted(second.message_id, "no"),
    ]


def test_steps_of_one_name_follow_each_other_but_do_not_nest() -> None:
    step: Events = [StepStarted("s"), StepEnded("s")]
    assert seal([START, *step, *step, FAILED]) == [START, *step, *step, FAILED]
    assert seal([START, StepStarted("s"), *step, StepEnded("s"), FAILED]) == [START, *step, FAILED]


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta, ToolCallDelta])
def test_an_empty_delta_is_dropped_and_opens_nothing(kind: Callable[[str, str], Event]) -> None:
    assert seal([START, kind("x", ""), FAILED]) == [START, FAILED]


def test_events_without_rules_pass_anywhere_between_start_and_end() -> None:
    events: Events = [ModelCallStarted("turn", "p", "m"), Custom("c", 1), ModelCallEnded(StopReason.END_TURN)]
    assert seal([START, *events, FAILED]) == [START, *events, FAILED]


def test_what_was_wrong_is_logged_without_the_words(caplog: pytest.LogCaptureFixture) -> None:
    seal([START, ToolCallDelta("c", "a secret")])
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.__dict__["event"] == "ToolCallDelta"
    assert "a secret" not in str(record.__dict__)


def test_a_medium_under_a_known_id_gets_another_and_is_taken_back_under_that() -> None:
    picture = MediaGiven("m", ImageBlock(Base64Source("aGk=", "image/png")))
    events = seal([START, TextStarted("m"), picture, TextDelta("m", "x"), TextEnded("m"), FAILED])
    (given,) = [event for event in events if isinstance(event, MediaGiven)]
    assert given.message_id != "m"
    assert events[3] == TextDelta("m", "x"), "the text goes on"

    taken_back = seal([START, picture, MessageRetracted("m"), FAILED])
    assert taken_back == [START, picture, MessageRetracted("m"), FAILED]
