"""gateway.wire.word_distance: words that are nearly the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.word_distance import distance, near_words

WORDS = st.text("abc", max_size=6)


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ("", "", 0),
        ("wolf", "wolf", 0),
        ("wolf", "wolff", 1),
        ("wolf", "olf", 1),
        ("wolf", "golf", 1),
        ("wolf", "wofl", 1),
        ("wolf", "", 4),
        ("wolf", "flow", 3),
        ("ca", "abc", 3),
    ],
)
def test_letters_that_differ_are_counted(left: str, right: str, count: int) -> None:
    assert distance(left, right) == distance(right, left) == count


@given(WORDS, st.lists(WORDS, unique=True), st.integers(0, 2))
def test_no_word_that_is_near_enough_is_overlooked(word: str, words: list[str], most: int) -> None:
    near = near_words(words, word, most, limit=100)
    assert sorted(near) == sorted(other for other in words if distance(word, other) <= most)
    assert [distance(word, other) for other in near] == sorted(distance(word, other) for other in near)


def test_the_nearest_come_first_and_the_others_are_left_out() -> None:
    assert near_words(["wolves", "wolff", "wolf"], "wolf", 2, limit=2) == ["wolf", "wolff"]
