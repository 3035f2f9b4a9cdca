"""What a pattern costs is counted from its text, and never less than the compiled expression takes."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.wire.pattern_cost import BYTES_PER_UNIT, pattern_cost

ITEMS = [
    *("a", "Z", "é", "漢", " ", ".", "^", "$", r"\.", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\n"),
    *(r"\pL", r"\PL", r"\p{L}", r"\p{Lu}", r"\P{N}", r"\p{Script=Han}", r"\x{80}", r"\u{1F600}"),
    *("[a-z]", "[^a]", r"[\w-]", r"[^\w\s]", r"[\p{L}\p{M}' -]", r"[^\p{L}]", "[à-ÿ]", "[\u0080-\uffff]", r"[\pL[]"),
    *(r"[]\pL]", r"[a\]b]", r"[\s\S]", r"[\D\W]"),
]
REPEATED = ["", "*", "+", "?", "{3}", "{0,7}", "{2,}", "{11}", "{ 4 }", "{3}{3}", "{2}?{5}"]


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(inner, min_size=1, max_size=3)
    groups = st.tuples(
        st.sampled_from(["(", "(?:", "(?<n>", "(?i:"]), joined, st.sampled_from(["", "|"]), st.sampled_from(REPEATED)
    )
    return joined.map("".join) | groups.map(lambda it: f"{it[0]}{it[2].join(it[1])}){it[3]}")


PATTERNS = st.recursive(st.tuples(st.sampled_from(ITEMS), st.sampled_from(REPEATED)).map("".join), grown, max_leaves=5)


def compiles(pattern: str, most_bytes: int) -> bool:
    options = jsonschema_rs.RegexOptions(most_bytes)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


@given(PATTERNS)
@settings(max_examples=300, deadline=None)
def test_an_expression_is_no_larger_than_counted(pattern: str) -> None:
    cost = pattern_cost(pattern)
    assume(cost < 50_000)
    assume(compiles(pattern, 10 * 50_000 * BYTES_PER_UNIT))
    assert compiles(pattern, cost * BYTES_PER_UNIT)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("", 5),
        ("^abc$", 10),
        ("^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}$", 3_000),
        (r"^\d{4}-\d{2}-\d{2}$", 20),
        ("^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", 150),
    ],
)
def test_usual_expressions_cost_little(pattern: str, most: int) -> None:
    assert pattern_cost(pattern) < most


@pytest.mark.parametrize(
    "pattern", [r"\pL{110}", r"(\pL{11}){10}", "((a{100}){100}){100}", r"a{999999999999}", r"(?i)\pL{40}"]
)
def test_few_characters_may_cost_much(pattern: str) -> None:
    assert pattern_cost(pattern) > 15_000


WRONG = [*("[" * 90_000, "(" * 90_000, "{" * 90_000, "(?" * 50_000, "\\", ")" * 9), r"\p{" * 30_000, r"\x{" * 30_000]


@pytest.mark.parametrize("pattern", WRONG)
def test_what_is_wrong_is_counted_in_one_pass(pattern: str) -> None:
    assert pattern_cost(pattern) >= len(re.sub(r"\W", "", pattern)) // 10
