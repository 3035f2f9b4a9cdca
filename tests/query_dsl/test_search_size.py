"""A search is bounded before anything reads it, whatever it is made of."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.search_body import parse_search_body
from gateway.query_dsl.search_size import MAX_SEARCH_BYTES, check_size

LONG = "a" * 200_000
TOO_LARGE: list[tuple[dict[str, Any], str]] = [
    ({"query": {"match": {"text": LONG}}}, "query.match.text"),
    ({"query": {"match_phrase": {"text": {"query": "a " * 100_000}}}}, "query.match_phrase.text.query"),
    ({"query": {"query_string": {"query": LONG}}}, "query.query_string.query"),
    ({"query": {"simple_query_string": {"query": "\\" * 200_000}}}, "query.simple_query_string.query"),
    ({"query": {"match": {"text": "é" * 60_000}}}, "query.match.text"),
    ({"query": {LONG: {}}}, "query"),
    ({"query": {"ids": {"values": [str(number) for number in range(100_000)]}}}, "query.ids.values"),
    ({"query": {"bool": {"should": [{"match": {"text": "a" * 9_000}}] * 20}}}, "query.bool.should.match.text"),
    ({"_source": ["*" + "a" * 900] * 200}, "_source"),
    ({"aggs": {"a": {"filter": {"match": {"text": LONG}}}}}, "aggs.a.filter.match.text"),
    ({"sort": [LONG]}, "sort"),
]


@pytest.mark.parametrize(("body", "place"), TOO_LARGE)
def test_a_search_that_is_too_large_is_refused_by_the_field_that_makes_it_so(body: dict[str, Any], place: str) -> None:
    with pytest.raises(QueryError, match=rf"too large at '{place}', .*at most {MAX_SEARCH_BYTES} bytes") as raised:
        parse_search_body(body)
    assert len(str(raised.value)) < 500


def test_a_search_may_have_100_kb() -> None:
    parse_search_body({"query": {"match": {"text": "a" * (MAX_SEARCH_BYTES - 100)}}})
    parse_search_body({"query": {"ids": {"values": [f"n{number}" for number in range(10_000)]}}})


def test_no_more_is_looked_at_than_a_search_may_have() -> None:
    """However large the body is: an object with too many members is not gone into."""

    class Members(dict[str, Any]):
        looked_at = 0

        def items(self) -> Any:
            self.looked_at += 1
            return super().items()

    body = Members({str(number): Members() for number in range(MAX_SEARCH_BYTES)})
    with pytest.raises(QueryError):
        check_size({"query": body})
    assert body.looked_at == 0
