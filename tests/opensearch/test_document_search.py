"""A search over documents in a cluster finds what it finds in the embedded index: hits, order, scores, aggregations."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import pytest_asyncio

from gateway.documents.document import DocumentStore
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject
from gateway.opensearch.documents import OpenSearchDocuments
from gateway.records import dump_json
from gateway.store.transfer import MovedDocument, MovedIndex
from tests.movable_clock import MovableClock
from tests.opensearch.book_searches import AGGREGATIONS, BOOK, QUERIES, SORTS, made_book, made_search, matched
from tests.opensearch.documents_in_cluster import DocumentsInCluster, take_in
from tests.opensearch.same_answers import answered, difference
from tests.stored_samples import OWNER, memory_store, within

OTHER = "key-2"


class Both(NamedTuple):
    """The same documents in both indices."""

    embedded: DocumentStore
    cluster: DocumentStore

    async def differ(self, body: JsonObject, owner: str = OWNER) -> str:
        one = await within(answered(self.embedded, BOOK, body, owner))
        return difference(one, await within(answered(self.cluster, BOOK, body, owner)))


@pytest_asyncio.fixture
async def both(opensearch_url: str) -> AsyncGenerator[Both]:
    memory, cluster = memory_store(Path()), DocumentsInCluster(opensearch_url, MovableClock())
    await within(memory.open())
    await within(cluster.open())
    yield Both(memory.documents, cluster.documents)
    await within(cluster.close())
    await within(memory.close())


@pytest_asyncio.fixture
async def books(both: Both) -> Both:
    await kept(both, random.Random(7), 60)
    return both


async def kept(both: Both, chance: random.Random, count: int) -> None:
    """Store books of two owners, some of them public. The cluster gets them as from an import: that is quicker."""
    documents: dict[MovedIndex, list[MovedDocument]] = {}
    for number in range(count):
        owner, public, body = OTHER if number % 3 == 2 else OWNER, number % 5 == 0, made_book(chance)
        version = await within(both.embedded.put(BOOK, f"b{number}", owner, body, public=public))
        index = MovedIndex("book", orjson.dumps(dict(BOOK.properties)), "" if public else owner, public)
        document = MovedDocument(f"b{number}", owner, version, dump_json(body), 1.0, 2.0)
        documents.setdefault(index, []).append(document)
    pieces: list[MovedIndex | MovedDocument] = []
    for index, those in documents.items():
        pieces.append(index)
        pieces.extend(those)
    assert isinstance(both.cluster, OpenSearchDocuments)
    last = max(document.version for those in documents.values() for document in those)
    await within(take_in(both.cluster, pieces, last))


@pytest.mark.parametrize("clause", QUERIES)
async def test_a_query_finds_what_it_finds_in_the_embedded_index(books: Both, clause: str) -> None:
    for query in QUERIES[clause]:
        for owner in (OWNER, OTHER, "nobody"):
            assert await books.differ({"query": query, "size": 100}, owner) == "", (query, owner)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"wildcard": {"summary": "*a*b" * 250}}, "too complex"),
        (
            {"multi_match": {"query": " ".join(f"w{n}" for n in range(250)), "fields": ["title", "summary"] * 3}},
            "too many words and values at once",
        ),
        (matched("title", query="wolf", boost=-1), "a boost is a number from 0"),
        ({"multi_match": {"query": "wolf", "fields": ["title^nan"]}}, "a boost is a number from 0"),
        ({"dis_max": {"queries": [{"match_all": {}}], "tie_breaker": 2}}, "'tie_breaker' is a number from 0 to 1"),
    ],
)
async def test_what_the_cluster_cannot_do_is_refused(books: Both, query: JsonObject, message: str) -> None:
    refused = (await within(answered(books.cluster, BOOK, {"query": query}, OWNER)))["refused"]
    assert refused[0] == "invalid_search"
    assert message in refused[1]


# --- pages and their order


@pytest.mark.parametrize("sort", SORTS, ids=str)
async def test_pages_come_in_the_order_of_the_embedded_index(books: Both, sort: list[Any]) -> None:
    query = matched("summary", query="wolf sea")
    for start in (0, 7):
        assert await books.differ({"query": query, "sort": sort, "from": start, "size": 6}) == ""
    after: JsonObject = {"query": query, "sort": sort, "size": 5}
    answer = await within(answered(books.embedded, BOOK, after, OWNER))
    while "refused" not in answer and answer["hits"]["hits"] and sort != ["_score"]:
        after["search_after"] = answer["hits"]["hits"][-1]["sort"]
        assert await books.differ(after) == ""
        answer = await within(answered(books.embedded, BOOK, after, OWNER))


async def test_a_page_shows_what_it_is_asked_to(books: Both) -> None:
    wolf = matched("summary", query="wolf")
    bodies: list[JsonObject] = [
        {"query": wolf, "size": 0},
        {"query": wolf, "size": 3, "from": 4},
        {"query": wolf, "size": 3, "_source": False},
        {"query": wolf, "size": 3, "_source": ["title", "author.*"]},
        {"query": wolf, "size": 3, "_source": {"excludes": ["reviews", "*.sea"]}},
        {"query": wolf, "min_score": 0.3},
        {"query": wolf, "min_score": 0.3, "sort": ["pages"], "aggs": {"n": {"value_count": {"field": "pages"}}}},
        {"query": wolf, "track_total_hits": False},
        {"query": wolf, "sort": [{"_score": "asc"}, "_id"], "size": 4},
        {"sort": ["pages"], "search_after": ["seven"]},
        {"sort": ["nope"], "search_after": [7], "size": 3},
        {"sort": ["nope"], "search_after": [None], "size": 3},
        {"sort": [{"_id": "desc"}], "search_after": ["b3"], "size": 3},
        {"sort": ["printed"], "search_after": ["2024-01-01"], "size": 3},
        {"size": 3, "from": 9_997},
        {"size": 0, "from": 10_000},
        {},
    ]
    for body in bodies:
        assert await books.differ(body) == "", body


# --- aggregations


@pytest.mark.parametrize("group", AGGREGATIONS)
async def test_an_aggregation_gives_what_it_gives_in_the_embedded_index(books: Both, group: str) -> None:
    queries: list[Any] = [{"match_all": {}}, matched("summary", query="wolf")]
    for name, aggregation in AGGREGATIONS[group].items():
        for query in queries:
            for owner in (OWNER, "nobody"):
                body: JsonObject = {"query": query, "size": 0, "aggs": {name: aggregation}}
                assert await books.differ(body, owner) == "", (name, owner)


@pytest.mark.parametrize(
    "aggregation",
    [
        {"terms": {"field": "title"}},
        {"avg": {"field": "genre"}},
        {"histogram": {"field": "genre", "interval": 1}},
        {"date_histogram": {"field": "pages", "fixed_interval": "1d"}},
        {"range": {"field": "summary", "ranges": [{"to": 1}]}},
        {"date_histogram": {"field": "printed", "fixed_interval": "1ms"}},
        {"nope": {}},
    ],
    ids=str,
)
async def test_an_aggregation_is_refused_as_the_embedded_index_refuses_it(books: Both, aggregation: JsonObject) -> None:
    one = await within(answered(books.embedded, BOOK, {"aggs": {"x": aggregation}}, OWNER))
    other = await within(answered(books.cluster, BOOK, {"aggs": {"x": aggregation}}, OWNER))
    assert one["refused"][0] == other["refused"][0] == "invalid_search"
    assert one == other


# --- walks


async def walk(both: Both, seed: int, steps: int) -> None:
    """Changes documents and searches."""
    chance = random.Random(seed)
    await kept(both, chance, 20)
    for step in range(steps):
        owner, number = chance.choice([OWNER, OTHER]), chance.randint(0, 30)
        if chance.random() < 0.15:
            body, public = made_book(chance), chance.random() < 0.3
            done = [await outcome(each.put(BOOK, f"b{number}", owner, body, public=public)) for each in both]
            assert done[0] == done[1] or isinstance(done[0], int), step
        elif chance.random() < 0.1:
            done = [await outcome(each.delete(BOOK, f"b{number}", owner)) for each in both]
            assert done[0] == done[1], step
        else:
            search = made_search(chance)
            if "min_score" not in search or "refused" in await answered(both.embedded, BOOK, search, owner):
                assert await both.differ(search, owner) == "", (step, search)


async def outcome(work: Any) -> Any:
    try:
        return await within(work)
    except InvalidRequestError as error:
        return error.code


async def test_a_walk_finds_what_it_finds_in_the_embedded_index(both: Both) -> None:
    await walk(both, 1, 150)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 12))
async def test_many_walks_find_what_they_find_in_the_embedded_index(both: Both, seed: int) -> None:
    await walk(both, seed, 300)
