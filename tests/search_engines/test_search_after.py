"""Pages that continue behind the last hit of the page before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.search_engines.embedded import EmbeddedSearchEngine
from tests.found_books import hits

MAPPINGS: JsonObject = {
    "properties": {
        "name": {"type": "keyword"},
        "rank": {"type": "long"},
        "made": {"type": "date"},
        "text": {"type": "text"},
    }
}
DOCUMENTS: list[dict[str, JsonValue]] = [
    {
        "_id": f"n{number}",
        "name": "abcde"[number % 5],
        "made": f"2024-01-{1 + number:02}",
        "text": "word " * (1 + number % 3),
        **({} if number % 7 == 3 else {"rank": number % 4}),
    }
    for number in range(23)
]
SORTS: list[list[JsonValue]] = [
    ["name", "_id"],
    [{"name": "desc"}, {"_id": "asc"}],
    [{"rank": {"order": "asc", "missing": "_last"}}, "_id"],
    [{"rank": {"order": "desc", "missing": "_first"}}, {"_id": "desc"}],
    [{"made": "desc"}],
    ["_doc"],
    ["_score", "_doc"],
]


@pytest.fixture
async def engine() -> AsyncIterator[EmbeddedSearchEngine]:
    made = EmbeddedSearchEngine(None)
    await made.index("n", DOCUMENTS, MAPPINGS)
    yield made
    await made.close()


@pytest.mark.parametrize("sort", SORTS)
async def test_pages_have_every_hit_once_in_its_order(engine: EmbeddedSearchEngine, sort: list[JsonValue]) -> None:
    body: JsonObject = {"query": {"match": {"text": "word"}}, "sort": sort}
    all_hits = hits(await engine.search("n", {**body, "size": 100}))
    found: list[JsonObject] = []
    after: JsonObject = {}
    while True:
        answer: Any = await engine.search(
            "n", {**body, "size": 5, "aggs": {"n": {"value_count": {"field": "name"}}}, **after}
        )
        assert answer["hits"]["total"]["value"] == len(DOCUMENTS), "the total is that of all hits"
        assert answer["aggregations"]["n"]["value"] == len(DOCUMENTS)
        page = hits(answer)
        if not page:
            break
        found += page
        after = {"search_after": page[-1]["sort"]}
    assert [each["_id"] for each in found] == [each["_id"] for each in all_hits]


async def test_dates_may_be_written_out(engine: EmbeddedSearchEngine) -> None:
    body: JsonObject = {"sort": [{"made": "asc"}], "search_after": ["2024-01-21"], "size": 1}
    assert [each["_id"] for each in hits(await engine.search("n", body))] == ["n21"]


WRONG: Sequence[tuple[JsonObject, str]] = [
    ({"search_after": ["a"]}, "needs a 'sort'"),
    ({"search_after": "a", "sort": ["name"]}, "is a list"),
    ({"search_after": [["a"]], "sort": ["name"]}, "is a list"),
    ({"search_after": ["a", 1], "sort": ["name"]}, "has 2 values, and 'sort' has 1"),
    ({"search_after": ["a"], "sort": ["name"], "from": 1}, "'from' must be 0"),
    ({"search_after": ["soon"], "sort": ["made"]}, "does not fit the field 'made'"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
async def test_a_wrong_place_is_refused(engine: EmbeddedSearchEngine, body: JsonObject, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await engine.search("n", body)
