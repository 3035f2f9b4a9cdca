"""Patterns that name fields: what they name, and that comparing them is counted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.name_patterns import MAX_COMPARISONS, MAX_PATTERNS, NamePatterns, fits, pieces_of
from gateway.query_dsl.search_body import parse_source_filter


@given(pattern=st.text("ab.*", max_size=8), name=st.text("ab.", max_size=8))
def test_a_star_is_any_text(pattern: str, name: str) -> None:
    like = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    assert fits(pieces_of(pattern), name) is (like.fullmatch(name) is not None)


@given(patterns=st.lists(st.text("ab.*", max_size=5), max_size=4), names=st.lists(st.text("ab.", max_size=5)))
def test_any_of_the_patterns_is_enough(patterns: list[str], names: list[str]) -> None:
    known = NamePatterns(patterns)
    for name in [*names, *names]:
        assert known.name(name) is any(fits(pieces_of(pattern), name) for pattern in patterns)


def test_comparisons_are_counted_over_all_names() -> None:
    patterns = NamePatterns([f"*a{number}*" for number in range(1_000)])
    for number in range(MAX_COMPARISONS // 1_000):
        assert not patterns.name(f"b{number}")
    assert not patterns.name("b0"), "what was compared before is known"
    with pytest.raises(QueryError, match="'_source' would be compared with too many fields"):
        patterns.name("c")


def test_long_patterns_and_names_count_as_several() -> None:
    patterns = NamePatterns(["*" + "a" * 799])  # 101 comparisons, and 40 times as many with a name of 10 kB
    for number in range(MAX_COMPARISONS // (101 * 40)):
        assert not patterns.name(f"{number:03}" + "b" * 9_997)
    with pytest.raises(QueryError, match="too many fields"):
        patterns.name("b" * 10_000)


def test_names_without_a_star_cost_nothing() -> None:
    patterns = NamePatterns([f"a{number}" for number in range(1_000)])
    assert sum(patterns.name(f"a{number}") for number in range(MAX_COMPARISONS // 100)) == 1_000


@pytest.mark.parametrize("option", ["_source", "includes", "excludes"])
def test_patterns_are_bounded(option: str) -> None:
    for patterns, message in ((["a"] * (MAX_PATTERNS + 1), "1025 patterns"), (["*" + "a" * 1_000], "1001 characters")):
        source: Any = patterns if option == "_source" else {option: patterns}
        with pytest.raises(QueryError, match=f"{message}; at most"):
            parse_source_filter(source)
