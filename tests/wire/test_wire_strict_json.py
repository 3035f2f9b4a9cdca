"""Strict JSON: what is refused, and that writing never fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.strict_json import MAX_DEPTH, NotStrictJsonError, begins_with, dump, load, object_in, on_one_line

ANY_TEXT = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[NaN]",
        b"[Infinity]",
        b"[1,]",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\x00"',
        b"1" * 5000,
        b"1e999",
        b'{"a":1}{"b":2}',
        nested(MAX_DEPTH + 1),
        nested(200_000),
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_strict_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotStrictJsonError):
        load(body)


def test_documents_may_be_nested_200_deep() -> None:
    assert json.dumps(load(nested(MAX_DEPTH))).encode() == nested(MAX_DEPTH)


@pytest.mark.parametrize("body", [b'{"a":1,"a":2}', b'[{"b": {"c": 1, "\\u0063": 1}}]', b'{ "a" : 1 , "a" : 1 }'])
def test_a_member_that_an_object_has_twice_is_refused(body: bytes) -> None:
    with pytest.raises(NotStrictJsonError, match="twice"):
        load(body)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_may_be_spaced_as_its_writer_likes(indent: int | None) -> None:
    document = {"a": [1, 2.5, {"b": "é\u2028\U0001f600"}], "c": None}
    assert load(json.dumps(document, indent=indent).encode()) == document


def test_half_a_surrogate_pair_is_refused_with_its_place() -> None:
    body = rb'{"messages":[{"content":"ok \ud83d\ude00"},{"a/b~":["\ud83d"]}],"\ude00":1}'
    with pytest.raises(NotStrictJsonError) as refused:
        load(body)
    assert set(refused.value.pointers) == {"/messages/1/a~1b~0/0", "/?"}


@settings(deadline=None)  # the machine may be busy
@given(VALUES)
def test_whatever_is_written_is_strict_json_on_one_line(value: Any) -> None:
    written = dump(value)
    assert b"\n" not in written
    json.loads(written, parse_constant=pytest.fail)


@settings(deadline=None)  # the machine may be busy
@given(ANY_TEXT)
def test_text_is_written_so_that_it_reads_the_same(text: str) -> None:
    assert json.loads(dump(text)) == text


def test_what_json_has_no_word_for_becomes_text_or_null() -> None:
    half = "\ud83d"  # makes the fast encoder give up, so that the careful one has to write the rest
    value = {
        "nan": float("nan"),
        "big": 2**70,
        "huge": 10**5000,
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "exact": Decimal("1.10"),
        "bytes": b"\xff",
        "set": {1},
        "half": half,
        5: (1,),
    }
    assert json.loads(dump(value)) == {
        "nan": None,
        "big": 2**70,
        "huge": None,
        "when": "2026-01-02T00:00:00+00:00",
        "exact": "1.10",
        "bytes": "/w==",
        "set": [1],
        "half": half,
        "5": [1],
    }


def test_json_for_readers_of_lines_has_no_other_end_of_a_line() -> None:
    for value in ("a\u2028b\u2029c\x85d", "\u201cplain\u201d", "é", "a"):
        written = on_one_line(dump(value))
        assert written.decode().splitlines() == [written.decode()]
        assert load(written) == value


def test_what_is_too_deep_is_cut_and_not_refused() -> None:
    value: Any = "bottom"
    for _ in range(5000):
        value = [value]
    written = dump(value)
    assert json.loads(written)
    assert b"null" in written


@pytest.mark.parametrize(
    ("text", "arguments"), [('{"a":[1]}', {"a": [1]}), ("[1]", {}), ("", {}), ('{"a":', {}), ("null", {}), ("NaN", {})]
)
def test_what_is_no_object_is_an_empty_one(text: str, arguments: dict[str, Any]) -> None:
    assert object_in(text) == arguments


@pytest.mark.parametrize(("levels", "is_kept"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False), (900, False)])
def test_an_object_that_no_request_could_hold_is_an_empty_one(levels: int, is_kept: bool) -> None:
    text = '{"a":' * levels + "1" + "}" * levels
    assert bool(object_in(text)) is is_kept
    assert object_in('{"a":"' + "{" * 900 + '"}')


# --- beginnings


@pytest.mark.parametrize(
    ("items", "known", "begins"),
    [
        ([{"a": 1}, "more"], [{"a": 1}], True),
        ([{"a": 1}], [{"a": 1}, "more"], False),
        ([{"a": 2}], [{"a": 1}], False),
        ([{"a": True}], [{"a": 1}], False),
        ([{"a": [1.0]}], [{"a": [1]}], False),
        ([-0.0], [0.0], False),
        (["\ud83d"], [chr(0xD83D)], False),
        ([], [], True),
    ],
)
def test_an_array_begins_with_what_json_says_the_same(items: list[Any], known: list[Any], begins: bool) -> None:
    assert begins_with(items, known) is begins


def test_an_item_that_is_the_same_object_is_not_written_to_be_compared() -> None:
    item = {"a": object()}  # which has no JSON
    assert begins_with([item, 1], [item])
