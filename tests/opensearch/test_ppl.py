"""Queries in PPL: what their source is, and that they have no other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ToolError
from gateway.opensearch.ppl import parse_ppl
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.opensearch import ENGINE
from tests.opensearch_answers import Answers, answering_cluster

DEADLINE_SECONDS = 30.0


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("source=books", "books"),
        ("search source = books", "books"),
        ("SOURCE = `books` | head 3", "books"),
        (" index=books-* , papers | WHERE a > 1 | fields a, b", "books-* , papers"),
        ("source = books | where title = 'a | b [ // ; c' and \"x | join\" = `d|e`", "books"),
        ("source = books | where name = 'it''s' | stats avg(price) by author | sort - price | head 10", "books"),
        ("source = books | rex field=title '(?<year>\\d+)'", "books"),
        ("source = <books-{now/d}>", "<books-{now/d}>"),
    ],
)
def test_a_query_is_taken_apart(query: str, source: str) -> None:
    parsed = parse_ppl(query)

    assert parsed.source == source
    assert parsed.reading(("one", "two")).startswith("source = `one`, `two`")


def test_the_commands_stay_as_they_are() -> None:
    query = "source=b* | where title = 'a | b'  | head 3"

    assert parse_ppl(query).reading(("books",)) == "source = `books` | where title = 'a | b' | head 3"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "begins with 'source = INDEX'"),
        ("describe books", "begins with 'source = INDEX'"),
        ("show datasources", "begins with 'source = INDEX'"),
        ("where a = 1", "begins with 'source = INDEX'"),
        ("source = books a = 1", "begins with 'source = INDEX'"),
        ("source = books, source = secrets", "begins with 'source = INDEX'"),
        ("source = books source = secrets", "begins with 'source = INDEX'"),
        ("source = books | join left = a right = b on a.x = b.x secrets", "the command 'join' cannot be used here"),
        ("source = books | inner join secrets", "the command 'inner'"),
        ("source = books | LEFT OUTER JOIN secrets", "the command 'LEFT'"),
        ("source = books | lookup secrets id", "the command 'lookup'"),
        ("source = books | append [ source = secrets ]", "a subquery"),
        ("source = books | appendcol [ source = secrets ]", "a subquery"),
        ("source = books | where id in [ source = secrets | fields id ]", "a subquery"),
        ("source = books | where exists [ source = secrets ]", "a subquery"),
        ("source = [ source = secrets ]", "a subquery"),
        ("source = books | multisearch x", "the command 'multisearch'"),
        ("source = books | union secrets", "the command 'union'"),
        ("source = books | kmeans", "the command 'kmeans'"),
        ("source = books | ml action='train'", "the command 'ml'"),
        ("source = books | explain", "the command 'explain'"),
        ("source = books |", "the command ''"),
        ("source = books | | head", "the command ''"),
        ("source = books // ' \n | join secrets", "a comment"),
        ("source = books /* ' */ | join secrets", "a comment"),
        ("source = books; source = secrets", "';'"),
        ("source = books | where a = 'b", "without an end"),
        (r"source = books | where a = 'b\' | join secrets | where c = 'd'", "a backslash before a quote"),
        (r"source = books | where a = 'b\\' | head", "a backslash before a quote"),
        ("source = books | where a = '" + "x" * 10_000 + "'", "at most 10000 are possible"),
    ],
)
def test_what_could_name_another_source_is_refused(query: str, said: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_ppl(query)

    assert said in refused.value.message


RESOLVED = {
    "indices": [{"name": "books-1", "attributes": ["open"]}, {"name": "secrets", "attributes": ["open"]}],
    "aliases": [],
    "data_streams": [],
}
RESULT = {"schema": [{"name": "title", "type": "string"}], "datarows": [["Ada"]], "total": 1, "size": 1}


async def asked(query: str, answers: Answers) -> tuple[Any, list[Any]]:
    """What the query gives where a cluster answers so, and the queries that came there."""
    async with asyncio.timeout(DEADLINE_SECONDS), answering_cluster(answers) as cluster:
        settings = SearchSettings(f"opensearch://127.0.0.1:{cluster.port}", ("books-*",))
        engine = ENGINE.open(settings, SearchEnvironment(Path()))
        try:
            found = await engine.ppl(query)
        finally:
            await engine.close()
        return found, [json.loads(body)["query"] for body in cluster.bodies if body]


async def test_a_cluster_with_the_plugin_gets_the_allowed_indices_as_the_source() -> None:
    answers = {"GET /_resolve/index/*": (200, RESOLVED), "POST /_plugins/_ppl": (200, RESULT)}

    found, queries = await asked("source = * | head 3", answers)

    assert found == RESULT
    assert queries == ["source = `books-1` | head 3"]


async def test_a_wrong_query_is_told_without_names_of_classes() -> None:
    error = {
        "reason": "Invalid Query",
        "details": "org.opensearch.sql.SyntaxCheckException: [nam] is not a valid term",
        "type": "SyntaxCheckException",
    }
    answers = {
        "GET /_resolve/index/books-1": (200, RESOLVED),
        "POST /_plugins/_ppl": (400, {"error": error, "status": 400}),
    }

    with pytest.raises(ToolError) as refused:
        await asked("source = books-1 | where nam", answers)

    assert refused.value.message == "the cluster refuses the search: Invalid Query: [nam] is not a valid term"
