"""Searches the words of text fields, and scores documents by BM25.

The words are rows of a table, by field. SQLite's own full-text index (FTS5) is not used: it counts the documents of all
indices in a score, and it leaves deleted words in the file. Scores equal those of OpenSearch 3. Below: entries. Above:
evaluation. Source of the formula: https://lucene.apache.org/core/10_0_0/core/org/apache/lucene/search/similarities/
BM25Similarity.html
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.embedded_index.budget import Budget
from gateway.embedded_index.entries import POSITION_BYTES, unpack_positions
from gateway.query_dsl import clauses

Scores: TypeAlias = dict[int, float]
"""What a clause found: the documents' row numbers with their scores."""

_K1, _B = 1.2, 0.75
MAX_WORDS = 256
"""How many words a clause may look for."""

_AFTER_ALL = "\U0010ffff"  # sorts after every other character in SQLite
_MAX_LOOKUPS = 10_000
_MAX_FUZZY_WORDS = 256
_ROWS_PER_STEP = 2
_LENGTHS = "SELECT count(*), ifnull(sum(number), 0) FROM field_values WHERE field = ? AND number > 0"


@dataclass(slots=True)
class Work:
    """Counts the look-ups of one search, and caches the values that several clauses use: a few clauses may have many
    words in many fields.

    `now` is the begin of the search in Unix seconds, for relative dates. `fields` maps each path to the ids of its
    fields, one for each index that has it. Word frequencies and text lengths are counted over all searched indices, so
    that scores from different indices are comparable.
    """

    database: sqlite3.Connection
    budget: Budget
    now: float
    fields: Mapping[str, Sequence[int]] = field(default_factory=dict)
    lookups: int = 0
    fuzzy_words: int = 0
    vocabularies: dict[int, Sequence[str]] = field(default_factory=dict)  # by the fields that have them
    _lengths: dict[str, tuple[int, float]] = field(default_factory=dict)
    _weights: dict[tuple[str, str, bool], float] = field(default_factory=dict)

    def look_up(self, count: int = 1) -> None:
        self.lookups += count
        if self.lookups > _MAX_LOOKUPS:
            raise clauses.QueryError(
                f"the search looks up too many words and values; at most {_MAX_LOOKUPS} are possible; "
                "ask for fewer words, in fewer fields, in fewer clauses"
            )

    def look_near(self) -> None:
        self.fuzzy_words += 1
        if self.fuzzy_words > _MAX_FUZZY_WORDS:
            raise clauses.QueryError(
                f"the search has too many words with 'fuzziness'; at most {_MAX_FUZZY_WORDS} are possible, "
                "where a word counts in each field it is looked for in"
            )

    def lengths(self, path: str) -> tuple[int, float]:
        """How many documents have words in the field, and how many words these have on average."""
        if path not in self._lengths:
            count, total = self._sum(_LENGTHS, path)
            self._lengths[path] = int(count), total / count if count else 0.0
        return self._lengths[path]

    def weight(self, path: str, word: str, *, is_prefix: bool = False) -> float:
        """The inverse document frequency of a word, or of all words with a prefix."""
        key = (path, word, is_prefix)
        if key not in self._weights:
            if is_prefix:
                counted = "SELECT count(DISTINCT document), 0 FROM words WHERE field = ? AND word >= ? AND word <= ?"
                found, _ = self._sum(counted, path, word, word + _AFTER_ALL)
            else:
                found, _ = self._sum("SELECT count(*), 0 FROM words WHERE field = ? AND word = ?", path, word)
            self._weights[key] = rarity(self.lengths(path)[0], found)
        return self._weights[key]

    def _sum(self, statement: str, path: str, *values: str) -> tuple[float, float]:
        rows = [self.database.execute(statement, (each, *values)).fetchone() for each in self.fields.get(path, ())]
        return sum(count for count, _ in rows), sum(total for _, total in rows)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one text field of one index. `number` is the field's id."""

    number: int
    path: str
    work: Work

    def scores(self, word: str) -> Scores:
        """The documents that contain the word, with their scores."""
        return self._relevant("word = ?", (word,), self.work.weight(self.path, word))

    def any_of(self, words: Iterable[str]) -> Scores:
        """The documents that contain one of the words. The scores of several add up."""
        found: Scores = {}
        for word in words:
            for row, score in self.scores(word).items():
                found[row] = found.get(row, 0.0) + score
        return found

    def having(self, words: Sequence[str], score: float) -> Scores:
        """The documents that contain one of the words, all with the same score."""
        found: Scores = {}
        for word in words:
            found |= dict.fromkeys(self._read("document", "word = ?", (word,)), score)
        return found

    def phrase(self, words: Sequence[str], *, prefix: bool = False) -> Scores:
        """The documents that contain the words in this order. With `prefix` the last one may be a word's beginning."""
        if len(words) == 1 and not prefix:
            return self.scores(words[0])
        ends = [prefix and number == len(words) for number in range(1, len(words) + 1)]
        lengths: dict[int, int] = {}
        places: list[dict[int, bytes]] = []
        for word, is_prefix in zip(words, ends, strict=True):
            found = self._places(word, is_prefix=is_prefix, lengths=lengths)
            if not found:
                return {}
            places.append(found)
        weight = sum(
            self.work.weight(self.path, word, is_prefix=is_prefix) for word, is_prefix in zip(words, ends, strict=True)
        )
        norm, norm_of_word = self._norm()
        scores: Scores = {}
        for row in set.intersection(*map(set, places)):
            if count := _occurrences([each[row] for each in places]):
                scores[row] = weight * count / (count + norm + norm_of_word * lengths[row])
        return scores

    def vocabulary(self, begin: str = "") -> Sequence[str]:
        """All words of the field that begin with `begin`."""
        known = self.work.vocabularies
        if begin:
            if self.number in known:
                return [word for word in known[self.number] if word.startswith(begin)]
            return self._read("DISTINCT word", "word >= ? AND word <= ?", (begin, begin + _AFTER_ALL))
        if self.number not in known:
            known[self.number] = self._read("DISTINCT word", "TRUE", ())
        return known[self.number]

    def _read(self, what: str, condition: str, values: Sequence[object]) -> list[Any]:
        self.work.look_up()
        rows = self.work.database.execute(
            f"SELECT {what} FROM words WHERE field = ? AND {condition}", (self.number, *values)
        ).fetchall()
        self.work.budget.spend(len(rows) // _ROWS_PER_STEP)
        return [value for (value,) in rows]

    def _norm(self) -> tuple[float, float]:
        """BM25's denominator without the word's frequency: a constant, and a factor for the text's length."""
        return norms(self.work.lengths(self.path)[1])

    def _relevant(self, condition: str, values: Sequence[object], weight: float) -> Scores:
        self.work.look_up()
        count = f"(length(positions) / {POSITION_BYTES}.0)"
        rows = self.work.database.execute(
            f"SELECT document, ? * {count} / ({count} + ? + ? * length) FROM words WHERE field = ? AND {condition}",
            (weight, *self._norm(), self.number, *values),
        ).fetchall()
        self.work.budget.spend(len(rows) // _ROWS_PER_STEP)
        return dict(rows)

    def _places(self, word: str, *, is_prefix: bool, lengths: dict[int, int]) -> dict[int, bytes]:
        """The packed positions of the word by document. `lengths` gets the number of words of each document."""
        self.work.look_up()
        end = word + _AFTER_ALL if is_prefix else word
        rows = self.work.database.execute(
            "SELECT document, length, positions FROM words WHERE field = ? AND word >= ? AND word <= ?",
            (self.number, word, end),
        ).fetchall()
        self.work.budget.spend(len(rows) // _ROWS_PER_STEP)
        found: dict[int, bytes] = {}
        for row, length, positions in rows:
            lengths[row] = length
            found[row] = found[row] + positions if row in found else positions
        return found


def rarity(documents: int, found: float) -> float:
    """The inverse document frequency of a word that so many of the documents have."""
    return math.log(1 + (documents - found + 0.5) / (found + 0.5))


def norms(average_length: float) -> tuple[float, float]:
    """BM25's denominator without the word's frequency: a constant, and a factor for the text's length."""
    return _K1 * (1 - _B), _K1 * _B / average_length if average_length else 0.0


def _occurrences(places: Sequence[bytes]) -> int:
    """How often the words occur one directly after the other."""
    first, *others = places
    if all(len(each) == POSITION_BYTES for each in places):
        place = int.from_bytes(first, "little")
        return all(int.from_bytes(other, "little") == place + n for n, other in enumerate(others, 1))
    starts = set(unpack_positions(first))
    for n, other in enumerate(others, 1):
        starts &= {place - n for place in unpack_positions(other)}
    return len(starts)
