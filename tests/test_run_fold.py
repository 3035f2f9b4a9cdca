"""The fold of a run's events: messages, usage and state, however the events are cut into batches."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gateway.agent import ABSENT
from gateway.events import (
    Event,
    Events,
    ModelCallEnded,
    ModelCallStarted,
    StateChanged,
    StateReplaced,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolReturned,
    Usage,
    UsageReported,
)
from gateway.messages import TextBlock
from gateway.transcript import RunFold

USAGE = Usage("demo", "model", 3, 4)
RUN: Events = [
    ModelCallStarted("turn", "demo", "model"),
    TextStarted("m"),
    TextDelta("m", "so "),
    TextDelta("m", "far"),
    TextEnded("m"),
    UsageReported(USAGE),
    ModelCallEnded(StopReason.END_TURN),
    StateReplaced({"n": 1}),
    ToolReturned("r", "c", (TextBlock("three"),)),
    StateChanged(({"op": "replace", "path": "/n", "value": 2},), {"n": 2}),
]


def followed(*batches: Events) -> RunFold:
    fold = RunFold({"c": "earlier"}, {"n": 0})
    for batch in batches:
        fold.follow(batch)
    return fold


def test_one_fold_knows_the_messages_the_usage_and_the_state() -> None:
    fold = followed(RUN)
    assert [(message.id, message.text, message.turn_id) for message in fold.messages] == [
        ("m", "so far", "turn"),
        ("r", "", "earlier"),
    ]
    assert fold.usage.total == (USAGE,)
    assert fold.state == {"n": 2}


def test_before_any_event_there_is_what_the_run_found() -> None:
    assert (RunFold().state, followed().state) == (ABSENT, {"n": 0})
    assert (followed().messages, followed().usage.total) == ((), ())


def test_deltas_are_taken_in_and_all_else_is_given_back() -> None:
    rare: list[Event] = [event for event in RUN if not isinstance(event, TextDelta)]
    assert list(RunFold().follow(RUN)) == rare
    assert not followed(RUN[:2]).follow(RUN[2:4])


@given(st.sets(st.integers(1, len(RUN) - 1)))
def test_it_does_not_matter_how_the_events_are_cut(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(RUN)]
    fold = followed(*(RUN[first:end] for first, end in itertools.pairwise(places)))
    whole = followed(RUN)
    assert (fold.messages, fold.usage.total, fold.state) == (
        whole.messages,
        whole.usage.total,
        whole.state,
    )
