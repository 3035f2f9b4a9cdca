"""What the embedded engine counts and measures of all hits of a search."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.embedded import ENGINE, EmbeddedSearchEngine

ORDERS: list[dict[str, JsonValue]] = [
    {"_id": "1", "shop": "north", "total": 10, "paid": True, "day": "2024-01-31", "tags": ["a", "b"], "note": "late"},
    {"_id": "2", "shop": "north", "total": 30, "paid": False, "day": "2024-02-01T12:30:00Z", "tags": ["a"]},
    {"_id": "3", "shop": "south", "total": 25.5, "paid": True, "day": "2024-02-29", "tags": ["b"], "note": "soon"},
    {"_id": "4", "shop": "east", "paid": True, "day": "2024-05-15", "tags": []},
]
MAPPINGS: JsonObject = {
    "properties": {"shop": {"type": "keyword"}, "tags": {"type": "keyword"}, "total": {"type": "double"}}
}


@pytest.fixture
async def engine() -> AsyncIterator[EmbeddedSearchEngine]:
    opened = ENGINE.open(SearchSettings("embedded:"), SearchEnvironment(Path.cwd()))
    assert isinstance(opened, EmbeddedSearchEngine)
    await opened.index("orders", ORDERS, MAPPINGS)
    yield opened
    await opened.close()


async def measured(engine: EmbeddedSearchEngine, aggregation: JsonObject, **body: JsonValue) -> Any:
    answer = await engine.search("orders", {"size": 0, "aggs": {"x": aggregation}, **body})
    assert answer["hits"]["hits"] == []  # type: ignore[index,call-overload]
    return answer["aggregations"]["x"]  # type: ignore[index,call-overload]


def counts(buckets: list[Any]) -> dict[str, int]:
    return {str(bucket.get("key_as_string", bucket.get("key"))): bucket["doc_count"] for bucket in buckets}


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ({"avg": {"field": "total"}}, {"value": pytest.approx(65.5 / 3)}),
        ({"avg": {"field": "total", "missing": 0}}, {"value": pytest.approx(65.5 / 4)}),
        ({"sum": {"field": "total"}}, {"value": 65.5}),
        ({"min": {"field": "total"}}, {"value": 10.0}),
        ({"max": {"field": "day"}}, {"value": 1715731200000.0, "value_as_string": "2024-05-15T00:00:00.000Z"}),
        ({"value_count": {"field": "tags"}}, {"value": 4}),
        ({"cardinality": {"field": "shop", "precision_threshold": 10}}, {"value": 3}),
        ({"cardinality": {"field": "tags", "missing": "none"}}, {"value": 3}),
        (
            {"stats": {"field": "total"}},
            {"count": 3, "min": 10.0, "max": 30.0, "avg": pytest.approx(65.5 / 3), "sum": 65.5},
        ),
        ({"missing": {"field": "total"}}, {"doc_count": 1}),
        ({"missing": {"field": "note"}}, {"doc_count": 2}),
        (
            {"filter": {"term": {"paid": True}}, "aggs": {"most": {"max": {"field": "total"}}}},
            {"doc_count": 3, "most": {"value": 25.5}},
        ),
    ],
    ids=str,
)
async def test_what_is_measured(engine: EmbeddedSearchEngine, aggregation: JsonObject, expected: object) -> None:
    assert await measured(engine, aggregation) == expected


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ({"terms": {"field": "shop"}}, {"north": 2, "east": 1, "south": 1}),
        ({"terms": {"field": "shop", "order": {"_key": "desc"}}}, {"south": 1, "north": 2, "east": 1}),
        (
            {"terms": {"field": "shop", "order": [{"_count": "asc"}, {"_key": "desc"}]}},
            {"south": 1, "east": 1, "north": 2},
        ),
        ({"terms": {"field": "shop", "min_doc_count": 2}}, {"north": 2}),
        ({"terms": {"field": "tags", "missing": "none"}}, {"a": 2, "b": 2, "none": 1}),
        ({"terms": {"field": "paid"}}, {"true": 3, "false": 1}),
        ({"terms": {"field": "day", "size": 1, "order": {"_key": "asc"}}}, {"2024-01-31T00:00:00.000Z": 1}),
        (
            {"terms": {"field": "shop", "order": {"t": "desc"}}, "aggs": {"t": {"sum": {"field": "total"}}}},
            {"north": 2, "south": 1, "east": 1},
        ),
        (
            {"terms": {"field": "shop", "order": {"t.avg": "desc"}}, "aggs": {"t": {"stats": {"field": "total"}}}},
            {"south": 1, "north": 2, "east": 1},
        ),
        (
            {
                "range": {
                    "field": "total",
                    "ranges": [{"to": 25.5}, {"from": 25.5, "to": 30}, {"from": 30, "key": "much"}],
                }
            },
            {"*-25.5": 1, "25.5-30.0": 1, "much": 1},
        ),
        ({"histogram": {"field": "total", "interval": 10}}, {"10.0": 1, "20.0": 1, "30.0": 1}),
        (
            {"histogram": {"field": "total", "interval": 5, "offset": 1}},
            {"6.0": 1, "11.0": 0, "16.0": 0, "21.0": 1, "26.0": 1},
        ),
        ({"histogram": {"field": "total", "interval": 5, "min_doc_count": 1}}, {"10.0": 1, "25.0": 1, "30.0": 1}),
        (
            {"date_histogram": {"field": "day", "calendar_interval": "month"}},
            {
                "2024-01-01T00:00:00.000Z": 1,
                "2024-02-01T00:00:00.000Z": 2,
                "2024-03-01T00:00:00.000Z": 0,
                "2024-04-01T00:00:00.000Z": 0,
                "2024-05-01T00:00:00.000Z": 1,
            },
        ),
        (
            {"date_histogram": {"field": "day", "calendar_interval": "1q"}},
            {"2024-01-01T00:00:00.000Z": 3, "2024-04-01T00:00:00.000Z": 1},
        ),
        ({"date_histogram": {"field": "day", "calendar_interval": "year"}}, {"2024-01-01T00:00:00.000Z": 4}),
        (
            {"date_histogram": {"field": "day", "calendar_interval": "week", "min_doc_count": 1}},
            {"2024-01-29T00:00:00.000Z": 2, "2024-02-26T00:00:00.000Z": 1, "2024-05-13T00:00:00.000Z": 1},
        ),
        (
            {"date_histogram": {"field": "day", "fixed_interval": "1d", "min_doc_count": 1}},
            {f"{day}T00:00:00.000Z": 1 for day in ("2024-01-31", "2024-02-01", "2024-02-29", "2024-05-15")},
        ),
    ],
    ids=json.dumps,
)
async def test_what_is_counted(engine: EmbeddedSearchEngine, aggregation: JsonObject, expected: dict[str, int]) -> None:
    found = counts((await measured(engine, aggregation))["buckets"])
    assert list(found.items()) == list(expected.items())


async def test_minutes_and_hours_are_intervals_too(engine: EmbeddedSearchEngine) -> None:
    for unit, first in (("hour", "2024-02-01T12:00:00.000Z"), ("minute", "2024-02-01T12:30:00.000Z")):
        histogram: JsonObject = {"date_histogram": {"field": "day", "calendar_interval": unit}}
        answer = await measured(engine, histogram, query={"ids": {"values": ["2"]}})
        assert counts(answer["buckets"]) == {first: 1}


async def test_buckets_hold_buckets_and_numbers(engine: EmbeddedSearchEngine) -> None:
    inner: JsonObject = {"tags": {"terms": {"field": "tags"}}, "total": {"avg": {"field": "total"}}}
    answer = await measured(engine, {"terms": {"field": "shop", "size": 1}, "aggregations": inner})
    (north,) = answer["buckets"]
    assert (north["key"], north["doc_count"], north["total"]) == ("north", 2, {"value": 20.0})
    assert counts(north["tags"]["buckets"]) == {"a": 2, "b": 1}
    assert answer["sum_other_doc_count"] == 2


async def test_filters_have_names_or_places(engine: EmbeddedSearchEngine) -> None:
    queries: dict[str, JsonValue] = {"paid": {"term": {"paid": True}}, "north": {"term": {"shop": "north"}}}
    named = await measured(engine, {"filters": {"filters": queries}})
    assert named == {"buckets": {"paid": {"doc_count": 3}, "north": {"doc_count": 2}}}
    placed = await measured(engine, {"filters": {"filters": list(queries.values())}})
    assert placed == {"buckets": [{"doc_count": 3}, {"doc_count": 2}]}


async def test_the_hits_of_the_query_count_and_not_those_of_the_page(engine: EmbeddedSearchEngine) -> None:
    body: JsonObject = {
        "query": {"range": {"total": {"gte": 20}}},
        "size": 1,
        "aggs": {"n": {"value_count": {"field": "total"}}},
    }
    answer = await engine.search("orders", body)
    assert answer["aggregations"] == {"n": {"value": 2}}
    assert len(answer["hits"]["hits"]) == 1  # type: ignore[index,call-overload,arg-type]
    nothing = await measured(engine, {"avg": {"field": "total"}}, query={"match_none": {}})
    assert nothing == {"value": None}
    assert "aggregations" not in await engine.search("orders", {})


async def test_several_indices_are_counted_together(engine: EmbeddedSearchEngine) -> None:
    await engine.index("orders_old", [{"shop": "north", "total": 1.5}], MAPPINGS)
    await engine.index("people", [{"name": "Ana"}])
    answer = await engine.search(
        "*", {"size": 0, "aggs": {"s": {"terms": {"field": "shop"}}, "t": {"sum": {"field": "total"}}}}
    )
    found: Any = answer["aggregations"]
    assert counts(found["s"]["buckets"]) == {"north": 3, "east": 1, "south": 1}
    assert found["t"] == {"value": 67.0}
    await engine.index("odd", [{"total": "x1"}], {"properties": {"total": {"type": "keyword"}}})
    with pytest.raises(ToolError, match="'total' is double and keyword in different indices"):
        await engine.search("*", {"aggs": {"t": {"value_count": {"field": "total"}}}})


@pytest.mark.parametrize(
    ("aggregations", "message"),
    [
        ([], "'aggs' is an object such as"),
        ({"x": []}, "the aggregation 'x' is an object"),
        ({"x": {}}, "has one type, and not none"),
        ({"x": {"avg": {}, "sum": {}}}, "has one type, and not 'avg', 'sum'"),
        ({"x": {"top_hits": {}}}, "'top_hits' is not supported; there are: 'avg', 'cardinality', 'date_histogram'"),
        ({"x": {"avg": "total"}}, "'avg' takes an object"),
        ({"x": {"avg": {}}}, "'avg' needs 'field'"),
        ({"x": {"avg": {"field": "totals"}}}, "there is no field 'totals'; there are: day, note"),
        ({"x": {"avg": {"field": "shop"}}}, "'avg' needs numbers or dates, and 'shop' is keyword"),
        ({"x": {"avg": {"field": "total", "script": "1"}}}, "does not support 'script'"),
        (
            {"x": {"avg": {"field": "total"}, "aggs": {"y": {"sum": {"field": "total"}}}}},
            "is a metric and cannot hold aggregations",
        ),
        ({"x": {"avg": {"field": "total", "missing": [1]}}}, "'avg' needs 'missing': text or a number, not a list"),
        ({"x": {"terms": {"field": "shop", "missing": {}}}}, "'terms' needs 'missing': text or a number"),
        ({"x": {"terms": {"field": "note"}}}, "'note' is text, .* such as 'note.keyword'"),
        ({"x": {"terms": {"field": "shop", "size": -1}}}, "'size' of 'terms' is a whole number from 0"),
        ({"x": {"terms": {"field": "shop", "order": "desc"}}}, "an order is an object such as"),
        ({"x": {"terms": {"field": "shop", "order": {"y": "desc"}}}}, "ordered by '_count', '_key' or a metric"),
        (
            {"x": {"terms": {"field": "shop", "order": {"y": "asc"}}, "aggs": {"y": {"stats": {"field": "total"}}}}},
            "cannot be ordered by 'y'; 'y' has 'avg', 'count', 'max', 'min', 'sum'",
        ),
        ({"x": {"terms": {"field": "shop", "order": [{"_key": "asc"}] * 100}}}, "'order' has 100 entries; at most 16"),
        ({"x": {"range": {"field": "total", "ranges": [{"to": 1}] * 2_000}}}, "'ranges' has 2000 entries; at most"),
        ({"x": {"range": {"field": "total"}}}, "'range' needs 'ranges'"),
        (
            {"x": {"range": {"field": "total", "ranges": [{"gte": 1}]}}},
            "a range is an object with 'from', 'to' or both",
        ),
        ({"x": {"histogram": {"field": "total"}}}, "'histogram' needs 'interval', a number above 0"),
        ({"x": {"histogram": {"field": "total", "interval": 1e-6}}}, "more than 10000 buckets; use a larger interval"),
        ({"x": {"histogram": {"field": "total", "interval": 5e-324}}}, "is too small for the value"),
        ({"x": {"date_histogram": {"field": "day"}}}, "needs a 'calendar_interval' .* or a 'fixed_interval' such as"),
        ({"x": {"date_histogram": {"field": "total", "fixed_interval": "1d"}}}, "needs dates, and 'total' is double"),
        ({"x": {"date_histogram": {"field": "day", "calendar_interval": "day", "format": "yyyy"}}}, "format 'yyyy'"),
        ({"x": {"filters": {"filters": {}}}}, "'filters' needs 'filters'"),
        ({"x": {"filter": {"knn": {}}}}, "needs embeddings"),
        ({str(n): {"missing": {"field": "shop"}} for n in range(200)}, "at most 100 aggregations"),
    ],
    ids=lambda value: json.dumps(value)[:80],
)
async def test_what_is_wrong_is_said(engine: EmbeddedSearchEngine, aggregations: JsonValue, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await engine.search("orders", {"aggs": aggregations})


async def test_a_filter_in_each_of_many_buckets_is_looked_up_once(engine: EmbeddedSearchEngine) -> None:
    words = " ".join(f"w{number}" for number in range(250))
    await engine.index("many", [{"number": number, "name": "x"} for number in range(100)])
    inner: JsonObject = {"x": {"filter": {"match": {"name": words + " x"}}}}
    found: Any = await engine.search(
        "many", {"aggs": {"all": {"terms": {"field": "number", "size": 100}, "aggs": inner}}}
    )
    assert [bucket["x"] for bucket in found["aggregations"]["all"]["buckets"]] == [{"doc_count": 1}] * 100


async def test_dates_beyond_all_calendars_are_said(engine: EmbeddedSearchEngine) -> None:
    await engine.index("stars", [{"day": 10**17}], {"properties": {"day": {"type": "date"}}})
    with pytest.raises(ToolError, match="beyond all calendars"):
        await engine.search("stars", {"aggs": {"x": {"max": {"field": "day"}}}})
