"""The clauses that the query DSL and query strings are parsed into. Pure data.

Above: `queries.py`, `query_string.py` and `simple_query_string.py`, which parse them, and the search engines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

MAX_DEPTH = 20
MAX_CLAUSES = 1_024
MAX_IDS = 10_000
MAX_PATTERN_CHARACTERS = 1_000
"""Of a pattern with wildcards, which is compared with many words."""

Scalar: TypeAlias = str | int | float | bool


class QueryError(ValueError):
    """A search is wrong or not supported; the text says what was wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class MatchAll:
    """Every document (`match_none`: not `all`)."""

    all: bool = True
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Fuzziness:
    """How many letters of a word may differ: `most`; if that is None, one letter in words of at least `one_from`
    letters, two in words of at least `two_from`.

    The first `prefix` letters must always be the same. Of all words that fit, the nearest `words` count.
    """

    most: int | None = None
    one_from: int = 3
    two_from: int = 6
    prefix: int = 0
    words: int = 50

    def most_of(self, word: str) -> int:
        if self.most is not None:
            return self.most
        return (len(word) >= self.one_from) + (len(word) >= self.two_from)


@dataclass(frozen=True, slots=True)
class Match:
    """Words in a field. `minimum` is a `minimum_should_match`; None: the operator decides."""

    field: str
    text: Scalar
    operator: Literal["or", "and"] = "or"
    minimum: str | int | None = None
    boost: float = 1.0
    fuzziness: Fuzziness | None = None


@dataclass(frozen=True, slots=True)
class MatchPhrase:
    """Words in this order. With `prefix` the last one may be only the beginning of a word."""

    field: str
    text: Scalar
    prefix: bool = False
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class MultiMatch:
    """One text in several fields (patterns; empty: all text fields), each with its boost.

    `kind`: the best field counts, or all of them together.
    """

    fields: tuple[tuple[str, float], ...]
    text: Scalar
    kind: Literal["best_fields", "most_fields", "phrase", "phrase_prefix"] = "best_fields"
    operator: Literal["or", "and"] = "or"
    minimum: str | int | None = None
    tie_breaker: float = 0.0
    boost: float = 1.0
    fuzziness: Fuzziness | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Documents whose field has one of these exact values. The query `term` has one value."""

    field: str
    values: tuple[Scalar, ...]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Ids:
    """Documents by their ids."""

    values: tuple[str, ...]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Exists:
    """Documents that have a value in a field."""

    field: str
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """Values between bounds: numbers, dates, or keywords in the order of their characters."""

    field: str
    bounds: Mapping[Literal["gt", "gte", "lt", "lte"], Scalar]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values (in a text: words) that fit a pattern: `*` is any text, `?` any character; a backslash escapes both.

    `literal`: the pattern is a plain prefix without special characters.
    """

    field: str
    pattern: str
    literal: bool
    case_insensitive: bool = False
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class AnyField:
    """One query in several fields (patterns; empty: all), each with its boost; the best field counts.

    `query` has no field of its own. Fields whose type does not fit the query are ignored.
    """

    fields: tuple[tuple[str, float], ...]
    query: FieldQuery
    tie_breaker: float = 0.0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class ConstantScore:
    """A query whose hits all get `boost` as their score."""

    query: Clause
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class DisjunctionMax:
    """Documents that any of the queries finds. The score is the best one, plus `tie_breaker` times the others."""

    queries: tuple[Clause, ...]
    tie_breaker: float = 0.0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Bool:
    """A combination of queries. `minimum` is a `minimum_should_match`, None for the default."""

    must: tuple[Clause, ...] = ()
    filter: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()
    minimum: str | int | None = None
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Nested:
    """A query over the objects in a nested field. It finds a document if it finds one of its objects, and scores it by
    all found ones.

    `ignore_unmapped`: where there is no such nested field, nothing is found.
    """

    path: str
    query: Clause
    score_mode: Literal["avg", "sum", "min", "max", "none"] = "avg"
    ignore_unmapped: bool = False
    boost: float = 1.0


FieldQuery: TypeAlias = Match | MatchPhrase | Range | Pattern
Clause: TypeAlias = (
    MatchAll
    | Match
    | MatchPhrase
    | MultiMatch
    | Terms
    | Ids
    | Exists
    | Range
    | Pattern
    | AnyField
    | ConstantScore
    | DisjunctionMax
    | Bool
    | Nested
)


def minimum_matches(minimum: str | int | None, count: int, default: int) -> int:
    """How many of `count` optional clauses must match, for a minimum such as `2`, `-1`, `"75%"`, `"-25%"`; `default`
    for None.
    """
    if minimum is None:
        return default
    text = str(minimum).strip()
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            required = math.floor(count * share) if share >= 0 else count - math.floor(count * -share)
        else:
            required = int(text) if int(text) >= 0 else count + int(text)
    except (ValueError, OverflowError):
        raise QueryError(
            f"minimum_should_match {minimum!r} is neither a number nor a percentage such as '75%'"
        ) from None
    return max(0, min(required, count))
