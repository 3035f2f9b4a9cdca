"""A search may do so much work and no more: it has the engine's one thread for as long as it takes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import islice, product
from typing import ClassVar

import pytest

from gateway.embedded_index.budget import SLICE_STEPS, USUAL_STEPS, Budget, SearchSteps
from gateway.embedded_index.documents import find_indices, prepare, put_documents
from gateway.embedded_index.search import search_in
from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.query_dsl.search_body import parse_search_body
from gateway.search_engines.embedded import EmbeddedSearchEngine
from tests.found_books import hits

WORDS = ["".join(letters) for letters in islice(product("abcde", repeat=6), 5_000)]
MAPPINGS: JsonObject = {
    "properties": {"word": {"type": "keyword"}, "text": {"type": "text"}, "number": {"type": "long"}}
}

EXISTS: JsonObject = {"exists": {"field": "number"}}
FUZZY: list[JsonValue] = [
    {"match": {field: {"query": word, "fuzziness": 2}}} for word in WORDS[:20] for field in ("word", "text")
]
PATTERNS: list[JsonValue] = [{"wildcard": {"word": f"*a*b*c*{number}"}} for number in range(1_000)]
COUNTED: JsonObject = {str(number): {"cardinality": {"field": "number"}} for number in range(99)}
MOSTLY: dict[str, JsonValue] = {str(number): {"range": {"number": {"gte": number}}} for number in range(10)}

# Found nowhere: what it takes to see that is done inside the index of words, where nothing else is counted.
NOWHERE: list[JsonValue] = [{"match_phrase": {"text": "is it"}}]
BEGINNINGS: list[JsonValue] = [{"match_phrase_prefix": {"text": "is it"}}]
FIELDS: list[JsonValue] = [{"multi_match": {"query": "is it", "type": "phrase_prefix", "fields": ["text"] * 30}}]
RELEVANT: list[JsonValue] = [
    {"match": {"text": " ".join(WORDS[start : start + 250])}} for start in range(0, 5_000, 250)
]

TOO_MUCH: list[JsonObject] = [
    {"query": {"bool": {"should": NOWHERE * 1_000}}},
    {"query": {"bool": {"should": BEGINNINGS * 400}}},
    {"query": {"bool": {"should": FIELDS * 14}}},
    {"query": {"bool": {"should": [{"wildcard": {"text": "*zz*"}}] * 1_000}}},
    {"query": {"bool": {"filter": [EXISTS] * 300}}},
    {"query": {"dis_max": {"queries": [{"bool": {"must": [EXISTS] * 15}}] * 20}}},
    {"query": {"bool": {"should": FUZZY}}},
    {"query": {"bool": {"should": PATTERNS}}},
    {"size": 0, "aggs": {"mostly": {"filters": {"filters": MOSTLY}, "aggs": COUNTED}}},
]
A_LOT: list[JsonObject] = [
    {"query": {"bool": {"should": NOWHERE * 100}}},
    {"query": {"bool": {"should": BEGINNINGS * 100}}},
    {"query": {"bool": {"should": FIELDS}}},
    {"query": {"bool": {"should": [{"wildcard": {"text": "*zz*"}}] * 100}}},
    {"query": {"bool": {"should": RELEVANT}}},
    {"query": {"bool": {"must": [{"match": {"text": " ".join(["it", *WORDS[:250]])}}] * 20}}},
    {"query": {"match_all": {}}, "sort": ["word", "number"]},
    {"query": {"bool": {"should": FUZZY[:4]}}},
    {"query": {"bool": {"should": PATTERNS[:100]}}},
    {"size": 0, "aggs": {"each": {"terms": {"field": "word", "size": 500}, "aggs": {"0": COUNTED["0"]}}}},
]


async def engine_of_words(most: SearchSteps = USUAL_STEPS) -> EmbeddedSearchEngine:
    engine = EmbeddedSearchEngine(None, most=most)
    await engine.index("words", [{"word": w, "text": f"it is {w}", "number": n} for n, w in enumerate(WORDS)], MAPPINGS)
    return engine


@pytest.mark.thorough
async def test_a_search_that_would_take_too_long_is_ended_and_the_next_one_is_answered() -> None:
    engine = await engine_of_words()
    for body in TOO_MUCH:
        with pytest.raises(ToolError, match="would take too long; make it narrower"):
            await engine.search("words", body)
        found = await engine.search("words", {"query": {"term": {"word": WORDS[-1]}}})
        assert [hit["_source"] for hit in hits(found)] == [
            {"word": WORDS[-1], "text": f"it is {WORDS[-1]}", "number": len(WORDS) - 1}
        ]
    await engine.close()


@pytest.mark.thorough
async def test_a_search_may_go_over_all_documents() -> None:
    engine = await engine_of_words()
    for body in A_LOT:
        await engine.search("words", body)
    await engine.close()


async def test_a_statement_of_the_database_is_ended_within() -> None:
    """Also one that goes on and on and finds nothing."""
    engine = await engine_of_words(SearchSteps(500, 0))
    with pytest.raises(ToolError, match="would take too long"):
        await engine.search("words", {"query": {"wildcard": {"word": "*x*"}}})
    assert hits(await engine.search("words", {"query": {"term": {"number": 1}}}))
    await engine.close()


class NotingBudget(Budget):
    """Notes how much is counted at once: nobody else has a turn while that is done."""

    noted: ClassVar[list[int]] = []

    def spend(self, steps: int) -> None:
        self.noted.append(steps)
        super().spend(steps)


def test_no_step_of_a_search_is_longer_than_a_slice() -> None:
    """However many words it compares."""
    words = ["".join(letters) for letters in islice(product("abcdef", repeat=6), 40_000)]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        prepare(database)
        put_documents(database, "words", [{"text": " ".join(words)}], MAPPINGS)
        search = parse_search_body({"query": {"match": {"text": {"query": "abcabd", "fuzziness": 2}}}})
        rests: list[None] = []
        budget = NotingBudget(1, SearchSteps(10_000_000, 0), lambda: rests.append(None))
        search_in(database, find_indices(database, ["words"]), search, budget, lambda row: ({}, {}), now=0.0)
    assert sum(budget.noted) > 5 * SLICE_STEPS
    assert max(budget.noted) <= SLICE_STEPS + len(words) // 2  # the words are read at once
    assert len(rests) >= sum(budget.noted) // SLICE_STEPS


@pytest.mark.parametrize("owns_connection", [True, False])
def test_others_work_while_a_statement_is_under_way_where_nobody_else_uses_its_connection(
    owns_connection: bool,
) -> None:
    rests: list[None] = []
    most = SearchSteps(100_000_000, 0)
    budget = Budget(1, most, lambda: rests.append(None), owns_connection=owns_connection)
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT max(i) FROM n"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database, budget.of(database):
        database.execute(count).fetchone()
    assert bool(rests) is owns_connection


async def test_a_very_long_word_is_compared_with_none_that_is_only_similar() -> None:
    engine = EmbeddedSearchEngine(None)
    long, short = "a" * 300, "a" * 200
    await engine.index("words", [{"word": long, "text": long}, {"word": short, "text": short}], MAPPINGS)
    for field in ("word", "text"):
        for word in (short, long):
            asked: JsonObject = {"query": {"match": {field: {"query": word + "b", "fuzziness": 2}}}}
            assert bool(hits(await engine.search("words", asked))) is (word == short)
    await engine.close()
