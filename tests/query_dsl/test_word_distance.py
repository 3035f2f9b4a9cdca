"""gateway.query_dsl.word_distance: words that are nearly the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.query_dsl.word_distance import alike_words, distance, near_words

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
    near = near_words(alike_words(words, word, most), word, most, limit=100)
    assert sorted(near) == sorted(other for other in words if distance(word, other) <= most)
    assert [distance(word, other) for other in near] == sorted(distance(word, other) for other in near)


@given(st.text("abc", max_size=4), st.text("abc", max_size=4), st.integers(0, 5))
def test_a_distance_that_is_too_far_need_not_be_exact(left: str, right: str, most: int) -> None:
    exact = counted(left, right)
    assert distance(left, right) == exact
    assert distance(left, right, most) == exact or min(distance(left, right, most), exact) > most


def counted(left: str, right: str) -> int:
    """The same by its definition."""
    if not left or not right:
        return len(left) + len(right)
    costs = [
        counted(left[:-1], right) + 1,
        counted(left, right[:-1]) + 1,
        counted(left[:-1], right[:-1]) + (left[-1] != right[-1]),
    ]
    if left[-2:] == right[-2:][::-1] and len(left) > 1 and len(right) > 1:
        costs.append(counted(left[:-2], right[:-2]) + 1)
    return min(costs)


def test_the_nearest_come_first_and_the_others_are_left_out() -> None:
    assert near_words(["wolves", "wolff", "wolf"], "wolf", 2, limit=2) == ["wolf", "wolff"]
