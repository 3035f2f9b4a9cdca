"""What of a long history a model is shown: whole groups, the newest, and never a call without its result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.history.context_limits import (
    TOKENS_PER_MEDIUM,
    TRIMMED_RESULT_CHARACTERS,
    HistoryLimits,
    estimated_tokens,
    limited,
    parted,
    transcript_text,
    trimmed,
    with_summary,
)
from gateway.messages import Base64Source, ContentBlock, ImageBlock, Message, TextBlock, ToolCall, ToolResult
from tests.invariants import check_history
from tests.word_samples import REPEATABLE

PICTURE = ImageBlock(Base64Source("aGk=", "image/png"))


def said(role: str, text: str, number: int = 0) -> Message:
    assert role in ("user", "assistant", "system", "developer")
    return Message(f"{role}{number}", role, (TextBlock(text),))  # type: ignore[arg-type]


def called(number: int, *results: ContentBlock) -> list[Message]:
    """An answer with a call for each result, and the results."""
    calls = [ToolCall(f"c{number}.{place}", "look", '{"q": 1}') for place in range(len(results))]
    answer = Message(f"a{number}", "assistant", tuple(calls), turn_id=f"t{number}")
    return [
        answer,
        *(
            Message(f"r{call.call_id}", "tool", (ToolResult(call.call_id, (block,)),), turn_id=f"t{number}")
            for call, block in zip(calls, results, strict=True)
        ),
    ]


def texts(view: tuple[Message, ...]) -> list[str]:
    return [message.text for message in view]


def test_a_history_within_its_limits_is_shown_whole() -> None:
    view = [said("user", "a", 1), said("assistant", "b", 2)]
    assert limited(view, HistoryLimits(max_messages=2, max_tokens=1_000)) == tuple(view)
    assert limited(view, HistoryLimits()) == tuple(view)


def test_so_many_messages_before_the_last_question_are_shown_however_much_the_loop_adds() -> None:
    view = [said("user", "1", 1), said("assistant", "2", 2), said("user", "3", 3), said("assistant", "4", 4)]
    view += [said("user", "5", 5), said("user", "6", 6), *called(7, TextBlock("a"), TextBlock("b"))]
    for most, kept in ((4, 9), (3, 7), (2, 7), (1, 5), (0, 5)):
        assert limited(view, HistoryLimits(max_earlier=most)) == tuple(view[-kept:])
    for alone in (view[:1], view[1:2]):
        assert limited(alone, HistoryLimits(max_earlier=0)) == tuple(alone)


def test_the_newest_messages_are_kept_and_the_first_of_them_is_a_users() -> None:
    view = [said("user", "1", 1), said("assistant", "2", 2), said("user", "3", 3), said("assistant", "4", 4)]
    view.append(said("user", "5", 5))
    assert texts(limited(view, HistoryLimits(max_messages=3))) == ["3", "4", "5"]
    assert texts(limited(view, HistoryLimits(max_messages=2))) == ["5"]


def test_system_and_developer_messages_stay_where_they_stand() -> None:
    view = [said("system", "s"), said("user", "1", 1), said("developer", "d"), said("user", "2", 2)]
    assert texts(limited(view, HistoryLimits(max_messages=1))) == ["s", "d", "2"]


def test_a_call_goes_with_all_its_results_or_not_at_all() -> None:
    view = [said("user", "1", 1), *called(1, TextBlock("x"), TextBlock("y")), said("user", "2", 2)]
    assert texts(limited(view, HistoryLimits(max_messages=3))) == ["2"]
    assert limited(view, HistoryLimits(max_messages=5)) == tuple(view)


def test_of_a_long_turn_the_question_and_the_newest_calls_are_kept() -> None:
    view = [said("user", "old", 0), said("user", "question", 1)]
    for number in range(5):
        view += called(number, TextBlock("x"))
    kept = limited(view, HistoryLimits(max_messages=5))
    assert [message.id for message in kept] == ["user1", "a3", "rc3.0", "a4", "rc4.0"]


def test_of_a_history_without_a_user_the_newest_is_kept() -> None:
    view = [*called(1, TextBlock("1")), *called(2, TextBlock("2")), *called(3, TextBlock("3"))]
    assert limited(view, HistoryLimits(max_messages=4)) == tuple(view[2:])


def test_the_last_users_message_stays_even_where_it_is_too_long() -> None:
    view = [said("user", "old", 0), said("user", "x" * 10_000, 1)]
    assert limited(view, HistoryLimits(max_tokens=10)) == (view[1],)


@pytest.mark.parametrize(
    ("message", "least", "most"),
    [
        (said("user", "The quick brown fox jumps over the lazy dog. " * 10), 90, 160),
        (said("user", "数据" * 100), 100, 220),
        (Message("m", "user", (PICTURE,)), TOKENS_PER_MEDIUM, TOKENS_PER_MEDIUM + 10),
        (called(1, TextBlock("word " * 100))[1], 90, 160),
    ],
)
def test_tokens_are_estimated(message: Message, least: int, most: int) -> None:
    assert least <= estimated_tokens(message) <= most


def test_long_results_are_cut_and_those_that_the_model_has_not_seen_stay_whole() -> None:
    long = TextBlock("begin " + "x" * 5_000 + " end")
    view = [said("user", "1", 1), *called(1, long, PICTURE), *called(2, long)]
    first = trimmed(view)
    assert first is not None
    result = first[2].tool_result
    assert result is not None
    [cut] = result.content
    assert isinstance(cut, TextBlock)
    assert cut.text.startswith("begin ")
    assert cut.text.endswith(" end")
    assert "4,210 characters left out" in cut.text
    assert len(cut.text) < TRIMMED_RESULT_CHARACTERS + 100
    assert first[3].tool_result == ToolResult("c1.1", (TextBlock("[media left out]"),))
    assert first[-1] is view[-1]
    second = trimmed(first)
    assert second is not None
    assert second[-1] != view[-1]
    assert trimmed(second) is None


def test_the_older_part_of_a_history_ends_before_a_users_message() -> None:
    view = [said("user", "a" * 900, 1), said("assistant", "b", 2), said("user", "c", 3), said("assistant", "d", 4)]
    parts = parted(view)
    assert parts == (tuple(view[:2]), tuple(view[2:]))
    assert parted(view[2:]) is None
    assert parted([said("system", "s"), said("user", "a", 1)]) is None


def test_a_summary_stands_before_the_users_next_words_and_system_messages_stay() -> None:
    older = (said("system", "be brief"), said("user", "long", 1), said("assistant", "story", 2))
    newer = (said("user", "go on", 3),)
    view = with_summary(older, " They told a story. ", newer)
    assert [message.role for message in view] == ["system", "user"]
    assert "They told a story." in view[1].text
    assert view[1].text.endswith("go on")


def test_what_is_to_be_summarised_is_plain_text() -> None:
    view = [said("user", "how many?", 1), *called(1, TextBlock("three")), Message("m", "user", (PICTURE,))]
    assert transcript_text(view) == (
        'user: how many?\n\nassistant: \n(called look with {"q": 1})\n\ntool result: three\n\nuser: [media]'
    )


groups = st.lists(
    st.one_of(
        st.builds(lambda text: ("user", text), st.text(max_size=50)),
        st.builds(lambda text: ("assistant", text), st.text(min_size=1, max_size=50).filter(str.strip)),
        st.builds(lambda count: ("calls", count), st.integers(1, 3)),
    ),
    max_size=12,
)


@REPEATABLE
@given(groups, st.integers(1, 20) | st.none(), st.integers(1, 400) | st.none())
def test_whatever_is_left_out_every_provider_accepts_the_rest(
    drawn: list[tuple[str, str | int]], messages: int | None, tokens: int | None
) -> None:
    view: list[Message] = []
    for number, (kind, value) in enumerate(drawn):
        if isinstance(value, int):
            view += called(number, *(TextBlock("x" * 2_000) for _ in range(value)))
        else:
            view.append(said(kind, value, number))
    shown = limited(view, HistoryLimits(messages, tokens))
    check_history(shown)
    assert [message for message in view if message in shown] == list(shown)
    users = [message for message in view if message.role == "user"]
    assert not users or users[-1] in shown
    check_history(trimmed(view) or ())
    if (parts := parted(view)) is not None:
        check_history(parts[0])
        check_history(with_summary(parts[0], "summary", parts[1]))
