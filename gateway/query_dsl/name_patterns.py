"""Patterns that name fields, such as `tags.*`: parsed once, and every comparison is counted. Pure.

A `*` is any text, dots included; every other character is itself. Below: clauses. Above: queries, search_body, and the
evaluation of searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.query_dsl.clauses import MAX_PATTERN_CHARACTERS, QueryError

MAX_PATTERNS = 1_024
MAX_COMPARISONS = 500_000
"""How many comparisons of a pattern with a name one search may need, where a long one counts as several."""

_PATTERN_CHARACTERS, _NAME_CHARACTERS = 8, 256  # so many more make another comparison
_MOST_KNOWN = 4_096


def pieces_of(pattern: str) -> tuple[str, ...]:
    """The pieces between the stars of a pattern, for `fits`."""
    return tuple(pattern.split("*"))


def fits(pieces: Sequence[str], name: str) -> bool:
    """Whether the pattern with these pieces fits the name."""
    if len(pieces) == 1:
        return name == pieces[0]
    first, last = pieces[0], pieces[-1]
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in pieces[1:-1]:
        if (at := name.find(piece, at, end)) < 0:
            return False
        at += len(piece)
    return True


def check_pattern(pattern: str, option: str) -> str:
    """The pattern, which the option `option` has. Raises QueryError: it is too long."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise QueryError(
            f"a pattern in {option!r} has {len(pattern)} characters; at most {MAX_PATTERN_CHARACTERS} are possible"
        )
    return pattern


class NamePatterns:
    """The patterns of one option of one search. Without patterns they name no field."""

    __slots__ = ("_cost", "_exact", "_known", "_left", "_option", "_wild")

    def __init__(self, patterns: Iterable[str] = (), option: str = "_source") -> None:
        """Raises QueryError: there are too many patterns, or one is too long."""
        listed = list(patterns)
        if len(listed) > MAX_PATTERNS:
            raise QueryError(f"{option!r} has {len(listed)} patterns; at most {MAX_PATTERNS} are possible")
        wild = {pattern for pattern in listed if "*" in check_pattern(pattern, option)}
        self._option = option
        self._exact = frozenset(listed)
        self._wild = [pieces_of(pattern) for pattern in wild]
        self._cost = sum(1 + len(pattern) // _PATTERN_CHARACTERS for pattern in wild)
        self._known: dict[str, bool] = {}  # documents have the same fields again and again
        self._left = MAX_COMPARISONS

    def __bool__(self) -> bool:
        return bool(self._exact)

    def name(self, field: str) -> bool:
        """Whether a pattern names the field. Raises QueryError: the search needs too many comparisons."""
        if field in self._exact:
            return True
        if not self._wild:
            return False
        if (known := self._known.get(field)) is None:
            self._spend(self._cost * (1 + len(field) // _NAME_CHARACTERS))
            known = any(fits(pieces, field) for pieces in self._wild)
            if len(self._known) < _MOST_KNOWN:
                self._known[field] = known
        return known

    def _spend(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise QueryError(
                f"the patterns in {self._option!r} would be compared with too many fields; "
                "give fewer of them a '*', or ask for fewer documents"
            )
