"""The embedded search engine: what it finds, in which order, and what it says about what it does not have."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError, ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.embedded import ENGINE, EmbeddedSearchEngine
from tests.found_books import hits, ids


class TestQueries:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"match_all": {}}, "12345"),
            ({"match_none": {}}, ""),
            ({"match": {"title": "wolf sky"}}, "123"),
            ({"match": {"title": "WOLF"}}, "13"),
            ({"match": {"title": {"query": "sea wolf", "operator": "and"}}}, "1"),
            ({"match": {"title": {"query": "sea wolf winter", "minimum_should_match": 2}}}, "13"),
            ({"match": {"title": {"query": "sea wolf winter", "minimum_should_match": "-1"}}}, "13"),
            ({"match": {"title": {"query": "sea wolf winter the", "minimum_should_match": "75%"}}}, "1"),
            ({"match": {"title": "???"}}, ""),
            ({"match": {"title": ""}}, ""),
            ({"match": {"year": 2001}}, "2"),
            ({"match": {"year": "2001"}}, "2"),
            ({"match": {"sold": True}}, "1"),
            ({"match": {"tags": "sea"}}, "12"),
            ({"match": {"author.name": "diaz"}}, "4"),
            ({"match": {"title": "don't"}}, "5"),
            ({"match": {"title": "3,519,000"}}, "5"),
            ({"match": {"title": {"query": "wolff", "fuzziness": "AUTO"}}}, "13"),
            ({"match": {"title": {"query": "WOFL", "fuzziness": "auto"}}}, "13"),
            ({"match": {"title": {"query": "wlf", "fuzziness": 0}}}, ""),
            ({"match": {"title": {"query": "wlf", "fuzziness": 1}}}, "13"),
            ({"match": {"title": {"query": "wxyf", "fuzziness": "2"}}}, "13"),
            ({"match": {"title": {"query": "wxyf", "fuzziness": "AUTO:2,4"}}}, "13"),
            ({"match": {"title": {"query": "wxyf", "fuzziness": "AUTO"}}}, ""),
            ({"match": {"title": {"query": "golf", "fuzziness": 1, "prefix_length": 1}}}, ""),
            ({"match": {"title": {"query": "see wolff", "fuzziness": "AUTO", "operator": "and"}}}, "1"),
            ({"match": {"title": {"query": "seaa winterr sky", "fuzziness": 1, "minimum_should_match": 2}}}, "2"),
            ({"match": {"author.name": {"query": "díez", "fuzziness": "AUTO"}}}, "4"),
            ({"match": {"tags": {"query": "clasic", "fuzziness": "AUTO"}}}, "1"),
            ({"match": {"title": {"query": "nothinglikeit", "fuzziness": "AUTO"}}}, ""),
            ({"match": {"title": {"query": "don't", "fuzziness": "AUTO"}}}, "5"),
            ({"fuzzy": {"title": "wolff"}}, "13"),
            (
                {"fuzzy": {"title": {"value": "wolfff", "fuzziness": 2, "max_expansions": 10, "transpositions": True}}},
                "13",
            ),
            ({"multi_match": {"query": "wolff", "fields": ["title", "year"], "fuzziness": "AUTO"}}, "13"),
            ({"match_phrase": {"title": "sea wolf"}}, "1"),
            ({"match_phrase": {"title": {"query": "wolf sea"}}}, ""),
            ({"match_phrase_prefix": {"title": "a wolf in win"}}, "3"),
            ({"multi_match": {"query": "ana", "fields": ["title", "author.*"]}}, "4"),
            ({"multi_match": {"query": "wolf"}}, "13"),
            ({"multi_match": {"query": "wolf", "fields": ["title", "year"]}}, "13"),
            ({"multi_match": {"query": "sea wolf", "fields": ["title^2"], "type": "phrase"}}, "1"),
            ({"term": {"tags": "sea"}}, "12"),
            ({"term": {"tags": {"value": "Sea"}}}, ""),
            ({"term": {"title": "wolf"}}, "13"),
            ({"term": {"title": "Wolf"}}, ""),
            ({"term": {"title": "sea wolf"}}, ""),
            ({"term": {"title.keyword": "Sea and Sky"}}, "2"),
            ({"term": {"price": 9.5}}, "1"),
            ({"term": {"sold": "false"}}, "4"),
            ({"term": {"printed": "2001-05-01"}}, "2"),
            ({"terms": {"year": [1904, 2020, 1]}}, "14"),
            ({"terms": {"tags": []}}, ""),
            ({"ids": {"values": ["3", "9"]}}, "3"),
            ({"exists": {"field": "author"}}, "45"),
            ({"exists": {"field": "tags"}}, "12"),
            ({"exists": {"field": "nowhere"}}, ""),
            ({"range": {"year": {"gte": 2001, "lt": 2020}}}, "23"),
            ({"range": {"year": {"gt": 2001.5, "lte": "2020"}}}, "34"),
            ({"range": {"printed": {"lte": "2010"}}}, "23"),
            ({"range": {"printed": {"gt": "2010"}}}, ""),
            ({"range": {"printed": {"gte": "2010-12-31T22:30:00-01:00"}}}, ""),
            ({"range": {"printed": {"gte": "2010-12-31T22:00:00-01:00"}}}, "3"),
            ({"range": {"tags": {"gt": "classic"}}}, "12"),
            ({"prefix": {"tags": "cl"}}, "1"),
            ({"prefix": {"title": "win"}}, "3"),
            ({"wildcard": {"title.keyword": "*Wol?*"}}, "13"),
            ({"wildcard": {"title.keyword": {"value": "*wolf*", "case_insensitive": True}}}, "13"),
            ({"wildcard": {"title.keyword": "[A]*"}}, ""),
            ({"prefix": {"title.keyword": "*"}}, ""),
            ({"prefix": {"tags": "*"}}, ""),
            ({"prefix": {"title": "don't"}}, "5"),
            ({"wildcard": {"title": "*OL?"}}, "13"),
            ({"wildcard": {"title": "wolf in*"}}, ""),
            ({"wildcard": {"author.name": "D?AZ"}}, "4"),
            ({"wildcard": {"author.name": "*[d]*"}}, ""),
            ({"wildcard": {"title.keyword": "Don't\\*"}}, ""),
            ({"constant_score": {"filter": {"term": {"tags": "sea"}}}}, "12"),
            ({"dis_max": {"queries": [{"match": {"title": "sky"}}, {"ids": {"values": ["5"]}}]}}, "25"),
            ({"bool": {}}, "12345"),
            ({"bool": {"must": {"match": {"title": "wolf"}}, "filter": [{"range": {"year": {"gt": 2000}}}]}}, "3"),
            ({"bool": {"must_not": [{"match": {"title": "wolf"}}]}}, "245"),
            ({"bool": {"should": [{"match": {"title": "sky"}}, {"match": {"title": "two"}}]}}, "24"),
            ({"bool": {"filter": {"match_all": {}}, "should": [{"match": {"title": "sky"}}]}}, "12345"),
            ({"bool": {"should": [{"match": {"title": "sky"}}], "minimum_should_match": 0}}, "2"),
            (
                {
                    "bool": {
                        "should": [{"match": {"title": "sky"}}, {"ids": {"values": "5"}}],
                        "minimum_should_match": "10%",
                    }
                },
                "25",
            ),
            (
                {
                    "bool": {
                        "should": [{"match": {"title": "sea"}}, {"term": {"tags": "classic"}}],
                        "minimum_should_match": 2,
                    }
                },
                "1",
            ),
        ],
        ids=json.dumps,
    )
    async def test_find_what_they_say(self, engine: EmbeddedSearchEngine, query: JsonObject, expected: str) -> None:
        assert await ids(engine, query) == list(expected)

    @pytest.mark.parametrize(
        "text",
        [
            'wolf" OR "sky',
            "title : wolf",
            "wolf*",
            "wolf AND NEAR(sky sea)",
            "{title} : ^wolf",
            "-wolf +",
            "wolf\x00sky",
            "(((",
            '""""',
            "'; DROP TABLE documents; --",
        ],
    )
    async def test_words_are_never_syntax(self, engine: EmbeddedSearchEngine, text: str) -> None:
        plain = [word for word in ("wolf", "sky", "sea") if word in text]
        for query in ("match", "match_phrase", "match_phrase_prefix", "term"):
            await engine.search("books", {"query": {query: {"title": text}}})
        for query in ("term", "prefix", "wildcard"):
            assert await ids(engine, {query: {"title.keyword": text}}) == []
        assert await ids(engine, {"match": {"title": text}}) == await ids(engine, {"match": {"title": " ".join(plain)}})
        assert len(await ids(engine, {"match_all": {}})) == 5

    @pytest.mark.parametrize("query", ["ids", "term", "prefix", "match", "match_phrase", "wildcard", "query_string"])
    async def test_half_a_character_is_found_nowhere(self, engine: EmbeddedSearchEngine, query: str) -> None:
        half = "half \ud800 of it"
        options: dict[str, JsonObject] = {"ids": {"values": [half]}, "query_string": {"query": f'"{half}"'}}
        assert await ids(engine, {query: options.get(query, {"title": half})}) == []
        with pytest.raises(ToolError, match="no field"):
            await ids(engine, {"term": {half: "x"}})

    async def test_the_better_hit_comes_first(self, engine: EmbeddedSearchEngine) -> None:
        answer = await engine.search("books", {"query": {"match": {"title": "sea wolf"}}})
        found = hits(answer)
        assert found[0]["_id"] == "1"
        scores = [hit["_score"] for hit in found]
        assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
        assert answer["hits"]["max_score"] == scores[0]  # type: ignore[index,call-overload]

    async def test_boosts_count(self, engine: EmbeddedSearchEngine) -> None:
        should: JsonValue = [
            {"term": {"year": {"value": 1904, "boost": 2}}},
            {"constant_score": {"filter": {"term": {"year": 2020}}, "boost": 5}},
            {"term": {"year": 1979}},
        ]
        answer = await engine.search("books", {"query": {"bool": {"should": should, "boost": 2}}})
        assert [(hit["_id"], hit["_score"]) for hit in hits(answer)] == [("4", 10), ("1", 4), ("5", 2)]

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"query": {"neural": {"embedding": {"query_text": "x"}}}}, "'neural' needs embeddings.*'match'"),
            ({"query": {"knn": {"v": {"vector": [1], "k": 2}}}}, "needs embeddings"),
            ({"query": {"span_term": {"title": "wolf"}}}, "'span_term' is not supported; there are: 'bool'"),
            ({"query": {"match": {"title": {"query": "a", "slop": 1}}}}, "does not support 'slop'"),
            (
                {"query": {"match": {"title": {"query": "a", "fuzziness": 3}}}},
                "'fuzziness' is 'AUTO', 0, 1 or 2, not 3",
            ),
            ({"query": {"match": {"year": {"query": 1, "fuzziness": 1}}}}, "'fuzziness' is for texts and keywords"),
            (
                {"query": {"fuzzy": {"title": {"value": "a", "fuzzy_transpositions": False}}}},
                "'fuzzy_transpositions' is always true",
            ),
            (
                {"query": {"multi_match": {"query": "a", "type": "phrase", "fuzziness": "AUTO"}}},
                "'fuzziness' cannot be used with the type 'phrase'",
            ),
            ({"query": {"match": {"title": {}}}}, "'match' needs 'query'"),
            ({"query": {"match": {"title": "a", "year": 1}}}, "takes one field"),
            ({"query": {"match": "wolf"}}, "takes an object"),
            ({"query": {"match": {"titel": "wolf"}}}, "there is no field 'titel'; there are: author.born, author.name"),
            ({"query": {"term": {"year": "soon"}}}, "'soon' does not fit the field 'year': it is a number"),
            ({"query": {"range": {"printed": {"gte": "now-1x"}}}}, "does not fit the field 'printed': it is a date"),
            ({"query": {"range": {"title": {"gte": "a"}}}}, "'title' is text, which has no order"),
            ({"query": {"wildcard": {"year": "20*"}}}, "'year' is long; patterns are for text and keywords"),
            ({"query": {"query_string": {}}}, "'query_string' needs 'query'"),
            ({"query": {"query_string": {"query": "a", "phrase_slop": 2}}}, "does not support 'phrase_slop'"),
            (
                {"query": {"query_string": {"query": "a", "fields": ["title"], "default_field": "title"}}},
                "'fields' or 'default_field', not both",
            ),
            ({"query": {"query_string": {"query": "titel:wolf"}}}, "there is no field 'titel'; there are: author.born"),
            ({"query": {"query_string": {"query": "year:soon"}}}, "'soon' does not fit the field 'year'"),
            ({"query": {"query_string": {"query": "a", "fields": ["year"]}}}, "'a' does not fit the field 'year'"),
            ({"query": {"query_string": {"query": "title:[a TO b]"}}}, "'title' is text, which has no order"),
            ({"query": {"match": {}, "term": {}}}, "an object with one key"),
            ({"query": []}, "an object with one key"),
            ({"highlight": {"fields": {}}}, "the search has 'highlight', which is not supported"),
            ({"size": -1}, "'size' is a whole number from 0"),
            ({"size": 10_001}, "at most 10000"),
            ({"sort": ["title"]}, "sort by a keyword"),
            ({"sort": [{"year": "up"}]}, "'order' of 'sort' is one of 'asc', 'desc'"),
            ({"_source": 3}, "'_source' is true, false"),
            ({"query": {"term": {"printed": 2**64 - 1}}}, "18446744073709551615 does not fit the field 'printed'"),
            ({"query": {"bool": {"should": [], "minimum_should_match": "x%"}}}, "neither a number nor a percentage"),
        ],
        ids=json.dumps,
    )
    async def test_what_is_not_there_is_said(
        self, engine: EmbeddedSearchEngine, body: JsonObject, message: str
    ) -> None:
        with pytest.raises(ToolError, match=message):
            await engine.search("books", body)

    async def test_hostile_queries_are_bounded(self, engine: EmbeddedSearchEngine) -> None:
        deep: JsonObject = {"match_all": {}}
        for _ in range(500):
            deep = {"bool": {"must": [deep]}}
        wide: JsonObject = {"bool": {"should": [{"match_all": {}}] * 2_000}}
        long: JsonObject = {"match": {"title": " ".join(f"w{n}" for n in range(1_000))}}
        words = " ".join(f"w{n}" for n in range(200))
        spread: JsonObject = {"multi_match": {"query": words, "fields": ["title"] * 100}}
        near: JsonObject = {"dis_max": {"queries": [{"match": {"title": {"query": words, "fuzziness": 2}}}] * 2}}
        listed: JsonObject = {"ids": {"values": ["1"] * 100_000}}
        for query in (deep, wide, long, spread, near, listed):
            with pytest.raises(ToolError, match=r"at most"):
                await engine.search("books", {"query": query})
        bodies: list[JsonObject] = [
            {"sort": ["year"] * 1_000},
            {"_source": ["title"] * 2_000},
            {"_source": {"excludes": ["x"] * 2_000}},
        ]
        for body in bodies:
            with pytest.raises(ToolError, match=r"at most"):
                await engine.search("books", body)


class TestAnswers:
    async def test_have_opensearchs_shape(self, engine: EmbeddedSearchEngine) -> None:
        answer = await engine.search("books", {"query": {"ids": {"values": ["2"]}}, "_source": "title"})
        assert answer == {
            "took": 0,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "total": {"value": 1, "relation": "eq"},
                "max_score": 1.0,
                "hits": [{"_index": "books", "_id": "2", "_score": 1.0, "_source": {"title": "Sea and Sky"}}],
            },
        }

    async def test_are_paged_and_counted(self, engine: EmbeddedSearchEngine) -> None:
        answer = await engine.search("books", {"size": 2, "from": 3, "sort": [{"year": "desc"}]})
        assert [hit["_id"] for hit in hits(answer)] == ["5", "1"]
        assert answer["hits"]["total"]["value"] == 5  # type: ignore[index,call-overload]
        without = await engine.search("books", {"track_total_hits": False, "size": 0})
        assert "total" not in without["hits"]  # type: ignore[operator]

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            (["year"], "15234"),
            ([{"year": {"order": "desc"}}], "43251"),
            ([{"price": "desc"}, {"year": "asc"}], "21534"),
            ([{"price": {"order": "asc", "missing": "_first"}}, {"year": "asc"}], "53412"),
            ([{"tags": "desc"}, {"year": "desc"}], "21435"),
            ([{"printed": "desc"}], "32145"),
            (["author.name.keyword"], "45123"),
            ([{"title.keyword": "asc"}], "34521"),
        ],
        ids=json.dumps,
    )
    async def test_are_sorted(self, engine: EmbeddedSearchEngine, sort: JsonValue, expected: str) -> None:
        assert await ids(engine, {"match_all": {}}, sort=sort) == list(expected)

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            (False, None),
            (["author.name"], {"author": {"name": "Ana Díaz"}}),
            ("author", {"author": {"name": "Ana Díaz", "born": 1980}}),
            (
                {"includes": ["*"], "excludes": ["author.born", "ti*", "y*"]},
                {"author": {"name": "Ana Díaz"}, "sold": False},
            ),
            ("nothing", {}),
        ],
        ids=json.dumps,
    )
    async def test_have_the_wanted_fields(
        self, engine: EmbeddedSearchEngine, wanted: JsonValue, expected: JsonObject | None
    ) -> None:
        answer = await engine.search("books", {"query": {"ids": {"values": ["4"]}}, "_source": wanted})
        assert hits(answer)[0].get("_source") == expected

    async def test_join_the_indices_of_a_pattern(self, engine: EmbeddedSearchEngine) -> None:
        await engine.index("bookshops", [{"_id": "s1", "town": "Wolf Point"}])
        for names in ("book*", "books,bookshops", "_all", "*"):
            answer = await engine.search(names, {"query": {"multi_match": {"query": "wolf"}}})
            assert {hit["_id"] for hit in hits(answer)} == {"1", "3", "s1"}
        answer = await engine.search("books,bookshops", {"query": {"match": {"town": "wolf"}}})
        assert [hit["_index"] for hit in hits(answer)] == ["bookshops"]

    async def test_an_unknown_index_is_named_with_those_there_are(self, engine: EmbeddedSearchEngine) -> None:
        with pytest.raises(ToolError, match=r"no such index \[boks\]; there are: books"):
            await engine.search("boks", {})
        assert hits(await engine.search("nothing*", {})) == []


class TestIndexing:
    async def test_types_come_from_the_documents(self, engine: EmbeddedSearchEngine) -> None:
        described = await engine.mapping(("books",))
        text = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
        assert described["books"]["mappings"]["properties"] == {  # type: ignore[index,call-overload]
            "title": text,
            "year": {"type": "long"},
            "tags": {"type": "keyword"},
            "price": {"type": "double"},
            "sold": {"type": "boolean"},
            "printed": {"type": "date"},
            "author": {"properties": {"name": text, "born": {"type": "long"}}},
        }

    async def test_an_id_replaces_its_document(self, engine: EmbeddedSearchEngine) -> None:
        assert await engine.index("books", [{"_id": "1", "title": "Changed"}]) == ["1"]
        assert await ids(engine, {"match": {"title": "sea"}}) == ["2"]
        assert await ids(engine, {"match": {"title": "changed"}}) == ["1"]
        assert await ids(engine, {"exists": {"field": "sold"}}) == ["4"]

    async def test_a_wrong_document_leaves_nothing_of_its_batch(self, engine: EmbeddedSearchEngine) -> None:
        for wrong in ({"year": "long ago"}, {"title": {"de": "Seewolf"}}, {"printed": "someday"}):
            with pytest.raises(ToolError):
                await engine.index("books", [{"_id": "6", "title": "New", "extra": 1}, wrong])  # type: ignore[list-item]
        assert len(await ids(engine, {"match_all": {}})) == 5
        assert "extra" not in json.dumps(await engine.mapping(()))

    @pytest.mark.parametrize("name", ["Books", "", "a b", "_x", "a,b", "a*", "x" * 300])
    async def test_names_follow_opensearchs_rules(self, engine: EmbeddedSearchEngine, name: str) -> None:
        with pytest.raises(ToolError, match="cannot be the name of an index"):
            await engine.index(name, [])

    async def test_rows_are_those_of_cat_indices(self, engine: EmbeddedSearchEngine) -> None:
        (row,) = await engine.list_indices(("books",))
        assert row.keys() == {
            *("health", "status", "index", "uuid", "pri", "rep", "docs.count", "docs.deleted"),
            *("store.size", "pri.store.size"),
        }
        assert (row["index"], row["docs.count"]) == ("books", "5")
        with pytest.raises(ToolError, match="no such index"):
            await engine.list_indices(("books", "nowhere"))


class TestUrls:
    async def test_a_file_keeps_what_is_in_it(self, tmp_path: Path) -> None:
        for prefix in ("embedded:", "embedded://"):
            engine = ENGINE.open(SearchSettings(f"{prefix}{tmp_path}/search.db"), SearchEnvironment(Path.cwd()))
            assert isinstance(engine, EmbeddedSearchEngine)
            await engine.index("notes", [{"_id": prefix, "text": "kept"}])
            await engine.close()
        assert document_ids(hits(await reopened(tmp_path))) == {"embedded:", "embedded://"}

    async def test_only_its_owner_reads_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "search.db"
        before = os.umask(0o022)
        try:
            for _ in range(2):
                engine = ENGINE.open(SearchSettings(f"embedded:{path}"), SearchEnvironment(Path.cwd()))
                await engine.list_indices()
                await engine.close()
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
                path.chmod(0o644)
        finally:
            os.umask(before)

    async def test_a_foreign_file_is_left_alone(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "other.db") as other:
            other.execute("CREATE TABLE precious (x)")
        other.close()
        engine = ENGINE.open(SearchSettings(f"embedded:{tmp_path}/other.db"), SearchEnvironment(Path.cwd()))
        with pytest.raises(ToolError, match="name another file"):
            await engine.list_indices()
        await engine.close()
        (tmp_path / "text.db").write_text("no database at all, just words" * 100)
        engine = ENGINE.open(SearchSettings(f"embedded:{tmp_path}/text.db"), SearchEnvironment(Path.cwd()))
        with pytest.raises(ToolError, match="cannot be used"):
            await engine.list_indices()
        await engine.close()

    async def test_a_directory_that_is_not_there_is_refused_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="cannot be a file"):
            ENGINE.open(SearchSettings(f"embedded:{tmp_path}/nowhere/search.db"), SearchEnvironment(Path.cwd()))

    async def test_a_closed_engine_says_so(self) -> None:
        engine = ENGINE.open(SearchSettings("embedded:"), SearchEnvironment(Path.cwd()))
        await engine.close()
        await engine.close()
        with pytest.raises(ToolError, match="closed"):
            await engine.list_indices()


async def reopened(directory: Path) -> JsonObject:
    engine = ENGINE.open(SearchSettings(f"embedded:{directory}/search.db"), SearchEnvironment(Path.cwd()))
    try:
        return await engine.search("notes", {"query": {"match": {"text": "kept"}}})
    finally:
        await engine.close()


def document_ids(found: list[JsonObject]) -> set[str]:
    return {str(hit["_id"]) for hit in found}


class TestSample:
    @pytest.fixture
    async def sample(self) -> AsyncIterator[EmbeddedSearchEngine]:
        opened = ENGINE.open(SearchSettings("embedded:sample"), SearchEnvironment(Path.cwd()))
        assert isinstance(opened, EmbeddedSearchEngine)
        yield opened
        await opened.close()

    async def test_has_the_two_indices(self, sample: EmbeddedSearchEngine) -> None:
        rows = await sample.list_indices()
        assert [row["index"] for row in rows] == ["test_population_data", "test_tech_news"]
        assert all(int(str(row["docs.count"])) >= 12 for row in rows)

    @pytest.mark.parametrize(
        ("question", "expected"),
        [
            ("What is the population of Seattle in 2023?", "3,519,000"),
            ("population of Seattle in 2021", "3,461,000"),
            ("how many people live in New York City", "18,937,000"),
            ("sao paulo", "São Paulo"),
        ],
    )
    async def test_answers_the_questions_of_the_demo(
        self, sample: EmbeddedSearchEngine, question: str, expected: str
    ) -> None:
        body: JsonObject = {"query": {"match": {"population_description": question}}, "size": 1}
        (hit,) = hits(await sample.search("test_population_data", body))
        assert expected in hit["_source"]["population_description"]  # type: ignore[index,call-overload,operator]

    async def test_has_news(self, sample: EmbeddedSearchEngine) -> None:
        body: JsonObject = {"query": {"match": {"passage": "battery"}}}
        assert "battery" in str(hits(await sample.search("test_tech_news", body))[0]["_source"])

    async def test_many_searches_at_once_all_get_their_answer(self, sample: EmbeddedSearchEngine) -> None:
        searches = [sample.search("test_tech_news", {"size": size}) for size in range(1, 20)]
        answers = await asyncio.wait_for(asyncio.gather(*searches), 20)
        assert [len(hits(answer)) for answer in answers] == list(range(1, 20))


async def test_a_relative_path_is_relative_to_the_configuration(tmp_path: Path) -> None:
    engine = ENGINE.open(SearchSettings("embedded:search.db"), SearchEnvironment(tmp_path))
    assert isinstance(engine, EmbeddedSearchEngine)
    await engine.index("notes", [{"text": "hello"}])
    await engine.close()

    assert (tmp_path / "search.db").exists()


async def test_what_is_put_in_is_in_the_next_list_of_all_indices() -> None:
    engine = EmbeddedSearchEngine(None)
    await engine.index("books", [{"title": "One"}])
    (row,) = await engine.list_indices()
    row["index"] = "changed by who asked"
    (row,) = await engine.list_indices()
    assert (row["index"], row["docs.count"]) == ("books", "1")
    await engine.index("books", [{"title": "Two"}])
    await engine.index("films", [{"title": "Three"}])
    rows = await engine.list_indices()
    assert {row["index"]: row["docs.count"] for row in rows} == {"books": "2", "films": "1"}
    await engine.close()
    with pytest.raises(ToolError):
        await engine.list_indices()
