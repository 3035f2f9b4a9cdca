"""The types `nested` and `flat_object`: what OpenSearch 3.6 answered to the same requests, ids and scores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.search_engines.embedded import EmbeddedSearchEngine
from tests.found_books import hits

MAPPINGS: JsonObject = {
    "properties": {
        "name": {"type": "text"},
        "n": {"type": "long"},
        "messages": {
            "type": "nested",
            "properties": {
                "role": {"type": "keyword"},
                "text": {"type": "text"},
                "score": {"type": "integer"},
                "content": {"type": "flat_object"},
                "parts": {"type": "nested", "properties": {"kind": {"type": "keyword"}}},
            },
        },
        "ns": {"type": "flat_object"},
        "blob": {"type": "object", "enabled": False},
        "bin": {"type": "binary"},
    }
}
SEA: JsonObject = {
    "role": "user",
    "text": "the sea wolf",
    "score": 1,
    "content": {"type": "text", "text": "hi"},
    "parts": [{"kind": "a"}, {"kind": "b"}],
}
WINTER: JsonObject = {"role": "assistant", "text": "a wolf in winter", "score": 5, "content": {"type": "image"}}
SKY: JsonObject = {"role": "user", "text": "winter sky", "score": 3, "content": {"type": "text", "text": "ho"}}
DOCUMENTS: list[dict[str, JsonValue]] = [
    {
        "_id": "1",
        "name": "alpha wolf",
        "n": 1,
        "messages": [SEA, WINTER],
        "ns": {"user_id": "u1", "session": {"id": "s1", "no": 7}, "tags": ["x", "y"]},
        "blob": {"any": {"deep": [1, {"a": "b"}]}},
        "bin": "aGVsbG8=",
    },
    {"_id": "2", "name": "beta", "n": 2, "messages": [SKY], "ns": {"user_id": "u2", "session": {"id": "s1"}}},
    {
        "_id": "3",
        "name": "gamma wolf wolf dog",
        "n": 3,
        "messages": {"role": "system", "text": "you are a wolf", "score": 9, "parts": {"kind": "a"}},
        "ns": {"user_id": "U1", "flag": True, "pi": 3.5},
    },
    {"_id": "4", "name": "delta", "n": 4, "ns": {}},
]

ANY: JsonObject = {"match_all": {}}
WOLF: JsonObject = {"match": {"messages.text": "wolf"}}
WOLF_OR_WINTER: JsonObject = {"match": {"messages.text": "wolf winter"}}
USER: JsonObject = {"term": {"messages.role": "user"}}
USERS: JsonObject = {"constant_score": {"filter": USER, "boost": 3}}
PART: JsonObject = {"nested": {"path": "messages.parts", "query": {"term": {"messages.parts.kind": "a"}}}}
WOLF_ANYWHERE: JsonObject = {"multi_match": {"query": "wolf"}}


def nested(query: JsonObject, **options: JsonValue) -> JsonObject:
    return {"nested": {"path": "messages", "query": query, **options}}


@pytest.fixture
async def engine() -> AsyncIterator[EmbeddedSearchEngine]:
    opened = EmbeddedSearchEngine(None)
    await opened.index("m", DOCUMENTS, MAPPINGS)
    yield opened
    await opened.close()


async def scores(engine: EmbeddedSearchEngine, query: JsonObject, **body: JsonValue) -> dict[str, float]:
    found = hits(await engine.search("m", {"query": query, **body}))
    return {str(hit["_id"]): hit["_score"] for hit in found}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (USER, {}),  # seen from the document, the field is not there
        ({"exists": {"field": "messages"}}, {}),
        ({"exists": {"field": "messages.role"}}, {}),
        ({"query_string": {"query": "winter"}}, {}),
        (WOLF_ANYWHERE, {"3": 0.33812058, "1": 0.31506687}),
        (nested({"exists": {"field": "messages"}}), {"1": 1, "2": 1, "3": 1}),
        (nested({"exists": {"field": "messages.role"}}), {"1": 1, "2": 1, "3": 1}),
        (nested(ANY), {"1": 1, "2": 1, "3": 1}),
        (nested(USER), {"1": 1, "2": 1}),
        (nested({"bool": {"must": [USER, WOLF]}}), {"1": 1.1673926}),
        (
            nested({"bool": {"must": [{"term": {"messages.role": "assistant"}}, {"match": {"messages.text": "sea"}}]}}),
            {},
        ),
        (nested({"bool": {"must_not": [USER]}}), {"1": 0, "3": 0}),
        ({"bool": {"must_not": [nested(USER)]}}, {"3": 0, "4": 0}),
        (nested({"term": {"n": 1}}), {}),
        (nested({"match": {"name": "wolf"}}), {}),
        (nested(USERS, boost=2), {"1": 6, "2": 6}),
        (nested(WOLF_OR_WINTER), {"2": 0.37389684, "1": 0.30171046, "3": 0.14813974}),
        (nested(WOLF_OR_WINTER, score_mode="avg"), {"2": 0.37389684, "1": 0.30171046, "3": 0.14813974}),
        (nested(WOLF_OR_WINTER, score_mode="sum"), {"1": 0.6034209, "2": 0.37389684, "3": 0.14813974}),
        (nested(WOLF_OR_WINTER, score_mode="min"), {"2": 0.37389684, "1": 0.16739257, "3": 0.14813974}),
        (nested(WOLF_OR_WINTER, score_mode="max"), {"1": 0.43602833, "2": 0.37389684, "3": 0.14813974}),
        (nested(WOLF_OR_WINTER, score_mode="none"), {"1": 0, "2": 0, "3": 0}),
        (nested(PART), {"1": 1, "3": 1}),
        (PART, {"1": 1, "3": 1}),
        (nested({"term": {"messages.parts.kind": "a"}}), {}),
        (nested(WOLF_ANYWHERE), {"1": 0.15776616, "3": 0.14813974}),
        (nested({"query_string": {"query": "messages.text:wolf"}}), {"1": 0.15776616, "3": 0.14813974}),
        (nested({"term": {"messages.content.type": "text"}}), {"1": 1, "2": 1}),
        (nested({"term": {"messages.content": "ho"}}), {"2": 1}),
        ({"nested": {"path": "nope", "query": ANY, "ignore_unmapped": True}}, {}),
        (
            {"bool": {"must": [nested(WOLF)], "should": [{"match": {"name": "wolf"}}]}},
            {"3": 0.48626032, "1": 0.47283304},
        ),
    ],
    ids=json.dumps,
)
async def test_queries_of_nested_objects_find_what_they_find_in_opensearch(
    engine: EmbeddedSearchEngine, query: JsonObject, expected: dict[str, float]
) -> None:
    found = await scores(engine, query)
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"nested": {"path": "nope", "query": ANY}}, "there is no nested field 'nope'"),
        ({"nested": {"path": "n", "query": ANY}}, "there is no nested field 'n'"),
        (nested(ANY, score_mode="first"), "'score_mode' of 'nested' is one of 'avg', 'max', 'min', 'none', 'sum'"),
        ({"nested": {"path": "messages"}}, "a query is an object"),
        (nested(ANY, inner_hits={}), "'nested' does not support 'inner_hits'"),
        ({"nested": {"path": "messages.parts", "query": nested(ANY)}}, None),
    ],
    ids=json.dumps,
)
async def test_wrong_queries_of_nested_objects_are_refused(
    engine: EmbeddedSearchEngine, query: JsonObject, message: str | None
) -> None:
    if message is None:
        assert await scores(engine, query) == {}
    else:
        with pytest.raises(ToolError, match=message):
            await scores(engine, query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"term": {"ns": "u1"}}, "1"),
        ({"term": {"ns.user_id": "u1"}}, "1"),
        ({"term": {"ns.session.id": "u1"}}, ""),
        ({"term": {"ns.session": "s1"}}, ""),
        ({"term": {"ns": "user_id"}}, ""),
        ({"term": {"ns.nope": "u1"}}, ""),
        ({"term": {"ns.session.no": 7}}, "1"),
        ({"term": {"ns.session.no": "7"}}, "1"),
        ({"term": {"ns.pi": 3.5}}, "3"),
        ({"term": {"ns.flag": True}}, "3"),
        ({"terms": {"ns.tags": ["y", "z"]}}, "1"),
        ({"exists": {"field": "ns"}}, "123"),
        ({"exists": {"field": "ns.session"}}, ""),
        ({"exists": {"field": "ns.session.no"}}, "1"),
        ({"prefix": {"ns.user_id": "u"}}, "12"),
        ({"prefix": {"ns": "s"}}, "12"),
        ({"prefix": {"ns.user_id": {"value": "u", "case_insensitive": True}}}, "123"),
        ({"wildcard": {"ns.user_id": "?1"}}, "13"),
        ({"range": {"ns.user_id": {"gte": "u2"}}}, "2"),
        ({"range": {"ns.user_id": {"lt": "u2"}}}, "13"),
        ({"range": {"ns.session.no": {"gte": 5}}}, "1"),
        ({"match": {"ns.user_id": "u1"}}, "1"),
        ({"match": {"ns.user_id": "u1 u2"}}, ""),
        ({"match_phrase": {"ns.user_id": "u1"}}, "1"),
        ({"query_string": {"query": "ns.user_id:u1"}}, "1"),
        ({"query_string": {"query": "s1"}}, "12"),
        ({"multi_match": {"query": "u1", "fields": ["ns.user_id", "name"]}}, "1"),
        ({"simple_query_string": {"query": "u1", "fields": ["ns.user_id"]}}, "1"),
        ({"exists": {"field": "bin"}}, ""),
        ({"exists": {"field": "blob"}}, ""),
    ],
    ids=json.dumps,
)
async def test_queries_of_flat_objects_find_what_they_find_in_opensearch(
    engine: EmbeddedSearchEngine, query: JsonObject, expected: str
) -> None:
    assert await scores(engine, query) == dict.fromkeys(expected, 1.0)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"match": {"name": "wolf alpha"}}, {"1": 0.8623272, "3": 0.33812058}),
        ({"match_phrase": {"name": "wolf dog"}}, {"3": 0.6119741}),
        ({"match_phrase": {"name": "wolf wolf"}}, {"3": 0.44719172}),
    ],
    ids=json.dumps,
)
async def test_words_score_as_in_opensearch(
    engine: EmbeddedSearchEngine, query: JsonObject, expected: dict[str, float]
) -> None:
    assert await scores(engine, query) == pytest.approx(expected, rel=1e-6)


async def test_flat_objects_are_counted_and_sorted_by_their_values(engine: EmbeddedSearchEngine) -> None:
    answer: Any = await engine.search(
        "m", {"sort": ["ns.user_id"], "aggs": {"users": {"terms": {"field": "ns.session.id"}}}}
    )
    assert [hit["sort"] for hit in answer["hits"]["hits"]] == [["U1"], ["u1"], ["u2"], [None]]
    assert answer["aggregations"]["users"]["buckets"] == [{"key": "s1", "doc_count": 2}]


@pytest.mark.parametrize("document", [{"messages": "text"}, {"messages": [1]}, {"ns": "text"}, {"ns": [["a"]]}])
async def test_what_is_no_object_does_not_fit(engine: EmbeddedSearchEngine, document: JsonObject) -> None:
    with pytest.raises(ToolError, match="its values are objects"):
        await engine.index("m", [document])


async def test_a_document_that_is_replaced_leaves_nothing_of_its_objects(engine: EmbeddedSearchEngine) -> None:
    await engine.index("m", [{"_id": "1", "name": "empty", "messages": [{"role": "user", "text": "new"}]}])
    assert await scores(engine, nested({"match": {"messages.text": "sea"}})) == {}
    assert await scores(engine, PART) == {"3": 1}
    assert await scores(engine, {"term": {"ns": "u1"}}) == {}
    assert set(await scores(engine, nested(USER))) == {"1", "2"}


async def test_the_mapping_says_what_is_nested_and_lists_count_its_objects(engine: EmbeddedSearchEngine) -> None:
    described: Any = await engine.mapping(("m",))
    assert described["m"]["mappings"]["properties"]["messages"]["type"] == "nested"
    (row,) = await engine.list_indices()
    assert row["docs.count"] == "11"


async def test_an_index_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    import sqlite3

    from gateway.embedded_index.documents import prepare

    with sqlite3.connect(":memory:", isolation_level=None) as database:
        database.executescript(
            """
            CREATE TABLE indices (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, properties BLOB NOT NULL);
            CREATE TABLE documents (row INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, id TEXT NOT NULL,
                source BLOB NOT NULL, UNIQUE (index_id, id));
            CREATE TABLE fields (id INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, path TEXT NOT NULL,
                UNIQUE (index_id, path));
            CREATE TABLE field_values (field INTEGER NOT NULL, document INTEGER NOT NULL, text TEXT, number NUMERIC);
            CREATE INDEX values_by_text ON field_values (field, text);
            CREATE INDEX values_by_number ON field_values (field, number);
            CREATE INDEX values_by_document ON field_values (document);
            CREATE VIRTUAL TABLE words_1 USING fts5 (words, tokenize = 'unicode61 remove_diacritics 2');
            INSERT INTO indices VALUES (1, 'books', '{"title":{"type":"text"}}');
            INSERT INTO documents VALUES (1, 1, 'a', '{"title":"The Sea Wolf"}');
            PRAGMA user_version = 1;
            """
        )
        prepare(database)
        assert database.execute("SELECT word FROM words ORDER BY word").fetchall() == [("sea",), ("the",), ("wolf",)]
        assert (
            database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'words\\_%' ESCAPE '\\'").fetchall() == []
        )
        prepare(database)
