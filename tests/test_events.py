"""Pieces of a text, of reasoning and of a call: one event or many, they have the same numbers."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.events import (
    Deltas,
    Event,
    Events,
    ReasoningDelta,
    TextDelta,
    TextEnded,
    ToolCallDelta,
    count_of,
    joined,
    sliced,
)
from tests.pieces import pieces
from tests.word_samples import REPEATABLE, any_text

texts = any_text | st.lists(any_text, min_size=1, max_size=4)
ids = st.sampled_from(["a", "b"])
events: st.SearchStrategy[Events] = st.lists(
    st.one_of(
        st.builds(TextDelta, ids, texts),
        st.builds(TextDelta, ids, texts),
        st.builds(ReasoningDelta, ids, texts),
        st.builds(ToolCallDelta, ids, texts),
        st.builds(TextEnded, ids),
    ),
    max_size=12,
)


def test_one_piece_may_be_given_as_it_is() -> None:
    delta = TextDelta("m", "Hello")
    assert (delta.message_id, delta.id, delta.text, delta.texts) == ("m", "m", "Hello", ("Hello",))
    assert delta == TextDelta(message_id="m", text="Hello") == TextDelta("m", ["Hello"])
    call = ToolCallDelta("c", ['{"a":', "1}"])
    assert (call.call_id, call.arguments, call.texts) == ("c", '{"a":1}', ('{"a":', "1}"))
    assert call == ToolCallDelta(call_id="c", arguments=iter(['{"a":', "1}"]))


def test_pieces_of_different_kinds_are_different() -> None:
    assert len({TextDelta("m", "x"), ReasoningDelta("m", "x"), TextDelta("m", ["x"])}) == 2


@pytest.mark.parametrize("delta", [TextDelta("m", "x"), ReasoningDelta("m", ["x", "y"]), ToolCallDelta("c", "x")])
def test_pieces_are_frozen_and_copied_as_other_events(delta: Deltas) -> None:
    for name in ("id", "texts"):
        with pytest.raises(FrozenInstanceError):
            setattr(delta, name, "other")
    for copied in (copy.copy(delta), copy.deepcopy(delta), pickle.loads(pickle.dumps(delta))):
        assert copied == delta
        assert type(copied) is type(delta)


def test_the_form_of_earlier_agent_types_is_matched_as_ever() -> None:
    match TextDelta("m", ["Hel", "lo"]):
        case TextDelta(message_id, text):
            assert (message_id, text) == ("m", "Hello")


@settings(REPEATABLE)
@given(events)
def test_what_is_joined_has_the_same_pieces_and_the_same_numbers(said: list[Event]) -> None:
    whole = joined(said)
    assert pieces(whole) == pieces(said)
    assert count_of(whole) == count_of(said) == len(pieces(said))
    for a, b in pairwise(whole):
        assert not (isinstance(a, Deltas) and isinstance(b, Deltas) and (type(a), a.id) == (type(b), b.id))


@settings(REPEATABLE)
@given(events, st.integers(-2, 20), st.none() | st.integers(-2, 20))
def test_a_slice_may_begin_and_end_within_an_event(said: list[Event], start: int, stop: int | None) -> None:
    every = pieces(said)
    end = len(every) if stop is None else max(0, stop)
    assert pieces(sliced(said, start, stop)) == every[max(0, start) : end]
