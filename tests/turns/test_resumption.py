"""An answer that is told again: what was seen of it does not come twice, whatever its deltas are cut into."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agent import ContextEntry
from gateway.events import (
    Event,
    Events,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
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
from gateway.messages import Opaque, ToolSpec
from gateway.options.generation import GenerationOptions
from gateway.options.run_options import RunOptions
from gateway.transcript import Transcript
from gateway.turns.resumption import AnswerDiffersError, RepeatedAnswer, kept_input, open_call, restored_input
from tests.agent_inputs import agent_input
from tests.word_samples import REPEATABLE, any_text

OPAQUE = Opaque("p", "m", "item", "{}")
OPENING: Events = [RunStarted("t", "r"), ModelCallStarted("turn", "p", "m"), ModelCallAccepted("resp", {})]
ENDING: Events = [UsageReported(Usage("p", "m", 1, 2)), ModelCallEnded(StopReason.TOOL_CALLS, None, "resp")]
words = any_text.filter(bool)


def cut(text: str, at: Sequence[int]) -> list[str]:
    """The text in pieces, none empty."""
    places = sorted({place % len(text) for place in at} - {0})
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def answer(thought: str, text: str, arguments: str, cuts: Sequence[int]) -> Events:
    return [
        ReasoningStarted("r", 0),
        *(ReasoningDelta("r", piece) for piece in cut(thought, cuts)),
        ReasoningEnded("r", OPAQUE),
        Raw({"search": 1}, "p"),
        TextStarted("m", index=1),
        *(TextDelta("m", piece) for piece in cut(text, cuts)),
        TextEnded("m"),
        ToolCallStarted("c", "add", "m", 2),
        *(ToolCallDelta("c", piece) for piece in cut(arguments, cuts)),
        ToolCallEnded("c"),
    ]


def folded(events: Events) -> object:
    transcript = Transcript()
    transcript.follow(events)
    return transcript.messages


cuts = st.lists(st.integers(0, 50), max_size=4)


@REPEATABLE
@given(words, words, words, cuts, cuts, st.integers(0, 100), st.integers(1, 5))
def test_what_was_seen_and_what_is_new_are_the_whole(
    thought: str, text: str, arguments: str, before: list[int], after: list[int], seen: int, batch: int
) -> None:
    first, again = (answer(thought, text, arguments, each) for each in (before, after))
    logged = first[: seen % (len(first) + 1)]
    repeated = RepeatedAnswer(logged)
    new: list[Event] = []
    whole = [*again, *ENDING]
    for start in range(0, len(whole), batch):
        new += repeated.rest(whole[start : start + batch])
    assert folded([*OPENING, *logged, *new]) == folded([*OPENING, *whole])
    assert new[-1] == ENDING[-1]
    if before == after:
        assert [*logged, *new] == whole


@pytest.mark.parametrize(
    ("logged", "again"),
    [
        ([TextStarted("m"), TextDelta("m", "ab")], [TextStarted("m"), TextDelta("m", "ac")]),
        ([TextStarted("m"), TextDelta("m", "ab")], [TextStarted("m"), TextDelta("m", "a"), TextEnded("m")]),
        ([TextStarted("m"), TextDelta("m", "ab")], [TextStarted("n"), TextDelta("n", "ab"), TextEnded("n"), *ENDING]),
        ([TextStarted("m", index=0)], [TextStarted("m", index=1)]),
        ([TextStarted("m"), TextEnded("m", OPAQUE)], [TextStarted("m"), TextEnded("m")]),
        ([ToolCallStarted("c", "add", "m")], [ToolCallStarted("c", "sub", "m")]),
        ([ToolCallStarted("c", "add", "m"), ToolCallDelta("c", "{")], ENDING),
    ],
)
def test_an_answer_that_is_told_otherwise_is_not_gone_on_with(logged: Events, again: Events) -> None:
    repeated = RepeatedAnswer(logged)
    with pytest.raises(AnswerDiffersError) as caught:
        repeated.rest(again)
    assert caught.value.code == "server_restarted"


@pytest.mark.parametrize(
    ("events", "there"),
    [
        (OPENING, True),
        ([*OPENING, TextStarted("m"), TextDelta("m", "a")], True),
        ([*OPENING, TextStarted("m"), *ENDING], False),
        ([*OPENING, *ENDING, ModelCallStarted("turn-2", "p", "m")], False),
        ([*OPENING, ModelCallStarted("turn", "p", "another model")], False),
        ([*OPENING[:2], ModelCallAccepted("resp")], False),
        ([], False),
    ],
)
def test_only_an_accepted_call_that_has_not_ended_is_taken_up(events: Events, there: bool) -> None:
    found = open_call(events)
    assert (found is not None) is there
    if found is not None:
        assert found.response_id == "resp"
        assert list(found.before) == OPENING[:2]
        assert list(found.logged) == events[3:]


def test_the_last_try_of_a_call_counts() -> None:
    found = open_call([*OPENING, UsageReported(Usage("p", "m", 1)), ModelCallAccepted("resp-2", {})])
    assert found is not None
    assert found.response_id == "resp-2"


def test_what_a_loop_needs_of_an_input_is_kept() -> None:
    given_input = agent_input(
        "t",
        "r",
        (),
        tools=(ToolSpec("pick", "Pick.", {"type": "object"}, {"a": 1}),),
        context=(ContextEntry("who", "Ann"),),
        forwarded={"conversation_id": "billing", "x": [1, None]},
        conversation_id="billing",
        parent_run_id="r0",
        unattended=True,
        names_calls=True,
        forgets_pauses=True,
        options=RunOptions(GenerationOptions(temperature=0.5, stop=("x",)), instructions="Be brief.", tools=("pick",)),
    )
    assert restored_input(kept_input(given_input), "t", "r") == given_input
