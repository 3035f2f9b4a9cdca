"""Words that are nearly the same: some letters put in, left out, changed, or two neighbours swapped. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def near_words(words: Iterable[str], word: str, most: int, *, limit: int) -> list[str]:
    """Those that differ from `word` in at most `most` letters, the nearest first; at most `limit` of them."""
    letters = set(word)
    found: list[tuple[int, str]] = []
    for other in words:
        # Cheap, and true of nearly all of them: each changed letter makes at most two that only one of them has.
        if abs(len(other) - len(word)) > most or len(letters.symmetric_difference(other)) > 2 * most:
            continue
        if (count := distance(word, other)) <= most:
            found.append((count, other))
    return [other for _, other in sorted(found)[:limit]]


def distance(left: str, right: str) -> int:
    """How many letters have to be put in, left out, changed or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        above, before, row = before, row, [i]
        for j, other in enumerate(right, 1):
            cost = min(row[-1] + 1, before[j] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]
