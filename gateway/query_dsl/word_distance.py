"""Finds similar words, which differ in a few letters: added, missing, changed, or swapped with a neighbour. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def alike_words(words: Iterable[str], word: str, most: int) -> list[str]:
    """The words that might differ from `word` in at most `most` letters: a cheap test that excludes most others."""
    letters = set(word)
    shortest, longest, most_letters = len(word) - most, len(word) + most, 2 * most
    # for each changed letter, at most two letters are in only one of the words
    return [
        other
        for other in words
        if shortest <= len(other) <= longest and len(letters.symmetric_difference(other)) <= most_letters
    ]


def near_words(words: Iterable[str], word: str, most: int, *, limit: int) -> list[str]:
    """The words that differ from `word` in at most `most` letters, the nearest first, at most `limit` of them."""
    found = [(count, other) for other in words if (count := distance(word, other, most)) <= most]
    return [other for _, other in sorted(found)[:limit]]


def distance(left: str, right: str, most: int = sys.maxsize) -> int:
    """How many letters must be added, left out, changed or swapped with a neighbour. If that is more than `most`, the
    result is any number above `most`.
    """
    left, right = _differing(left, right)
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        above, before, row = before, row, [i]
        for j, other in enumerate(right, 1):
            cost = before[j - 1]
            if letter != other:
                if before[j] < cost:
                    cost = before[j]
                cost = (row[-1] if row[-1] < cost else cost) + 1
                if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                    cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        if min(row) > most and min(before) > most:  # two rows, because a swap comes from the one above
            return most + 1
    return row[-1]


def _differing(left: str, right: str) -> tuple[str, str]:
    """Both words without their common beginning and end."""
    begin, left_end, right_end = 0, len(left), len(right)
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        begin += 1
    while left_end > begin and right_end > begin and left[left_end - 1] == right[right_end - 1]:
        left_end, right_end = left_end - 1, right_end - 1
    return left[begin:left_end], right[begin:right_end]
