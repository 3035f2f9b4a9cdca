"""The words of a field that are similar to a word, found within the budget of a search.

Below: budget, query_dsl.word_distance. Above: evaluation, and the searches of the stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.embedded_index.budget import SLICE_STEPS, Budget
from gateway.query_dsl.clauses import Fuzziness
from gateway.query_dsl.word_distance import alike_words, near_words

MAX_FUZZY_LETTERS = 256
"""Longer words are similar to none: comparing two words takes the square of their length."""

# Steps for comparing words: a quick test that excludes most, and measuring the distance.
_GLANCES_PER_STEP = 2
_STEPS_PER_DISTANCE = 6


def nearest(words: Sequence[str], word: str, fuzziness: Fuzziness, budget: Budget) -> list[str]:
    """Those of the words that are similar enough to `word`, the nearest first.

    Raises:
        ToolError: the budget is used up.
    """
    most = fuzziness.most_of(word)
    if begin := word[: fuzziness.prefix]:
        words = [other for other in words if other.startswith(begin)]
    found: list[str] = []
    for some in _in_slices(words, SLICE_STEPS):
        budget.spend(len(some) // _GLANCES_PER_STEP)
        for few in _in_slices(alike_words(some, word, most), SLICE_STEPS // _STEPS_PER_DISTANCE):
            budget.spend(len(few) * _STEPS_PER_DISTANCE)
            found += near_words(few, word, most, limit=fuzziness.words)
    return near_words(found, word, most, limit=fuzziness.words)


def _in_slices(words: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The words in slices, so that other searches work between these."""
    for start in range(0, len(words), size):
        yield words[start : start + size]
