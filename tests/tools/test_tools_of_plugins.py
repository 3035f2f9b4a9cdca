"""VectorDBTool, NeuralSparseSearchTool and PPLTool: what they ask a cluster with the plugins, and what they show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import ToolSettings
from gateway.agents.caller_tools import CallerTools
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, InvalidRequestError, ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, TextBlock
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.embedded import ENGINE as EMBEDDED
from gateway.search_engines.opensearch import ENGINE
from gateway.tool import SharedState, ToolContext, ToolEnvironment, ToolType
from gateway.tools.neural_sparse_search import TOOL_TYPE as NEURAL_SPARSE
from gateway.tools.ppl import TOOL_TYPE as PPL
from gateway.tools.vector_db import TOOL_TYPE as VECTOR_DB
from tests.opensearch_answers import AnsweringCluster, answering_cluster

CONTEXT = ToolContext("call_1", "alice", "thread_1", "run_1", "agent_1", SharedState(None))
DEADLINE_SECONDS = 30.0
MODEL: JsonObject = {"model_id": "m1", "embedding_field": "vector"}
HIT: JsonObject = {"_index": "books", "_id": "1", "_score": 0.5, "_source": {"title": "Ada"}, "_version": 3}
TABLE = {"schema": [{"name": "title", "type": "string"}], "datarows": [["Ada"]], "total": 1, "size": 1}
BOOKS = {"indices": [{"name": "books", "attributes": ["open"]}], "aliases": [], "data_streams": []}


@asynccontextmanager
async def cluster_of(*found: JsonObject) -> AsyncGenerator[tuple[AnsweringCluster, ToolEnvironment]]:
    """A cluster whose searches find that, and the environment of tools that search it."""
    answers = {
        "GET /_resolve/index/books": (200, BOOKS),
        "POST /_msearch": (200, {"responses": [{"hits": {"hits": list(found)}, "status": 200}]}),
        "POST /_plugins/_ppl": (200, TABLE),
    }
    clock = SystemClock()
    async with asyncio.timeout(DEADLINE_SECONDS), answering_cluster(answers) as cluster:
        settings = SearchSettings(f"opensearch://127.0.0.1:{cluster.port}", ("books",))
        engine = ENGINE.open(settings, SearchEnvironment(Path()))
        try:
            yield cluster, ToolEnvironment(clock, HttpClients(clock), Path(), engine)
        finally:
            await engine.close()


async def answer(kind: ToolType, environment: ToolEnvironment, parameters: JsonObject, arguments: JsonObject) -> str:
    [tool] = await kind.open(ToolSettings(kind.name, parameters=parameters), environment).tools()
    blocks = await tool.call(arguments, CONTEXT)
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def searched(cluster: AnsweringCluster) -> Any:
    """The body of the one search."""
    [body] = [body for request, body in zip(cluster.asked, cluster.bodies, strict=True) if "_msearch" in request]
    head, sent = (json.loads(line) for line in body.splitlines())
    assert head["index"] == ["books"]
    return {name: value for name, value in sent.items() if name != "timeout"}


async def test_vectors_are_searched_by_ml_commons_parameters() -> None:
    async with cluster_of(HIT) as (cluster, environment):
        more: JsonObject = {"index": "books", "source_field": '["title"]', "doc_size": "3", "k": 7}
        text = await answer(VECTOR_DB, environment, {**MODEL, **more}, {"input": "who?"})
    assert text == '{"_index":"books","_source":{"title":"Ada"},"_id":"1","_score":0.5}\n'
    clause = {"neural": {"vector": {"query_text": "who?", "k": 7, "model_id": "m1"}}}
    assert searched(cluster) == {"query": clause, "size": 3, "_source": ["title"]}


async def test_sparse_vectors_in_a_nested_object_are_searched() -> None:
    async with cluster_of() as (cluster, environment):
        arguments: JsonObject = {"input": "who?", "index": "books"}
        text = await answer(NEURAL_SPARSE, environment, {**MODEL, "nested_path": "chunks"}, arguments)
    assert text == "Can not get any match from search result."
    clause = {"neural_sparse": {"vector": {"query_text": "who?", "model_id": "m1"}}}
    nested = {"nested": {"path": "chunks", "score_mode": "max", "query": clause}}
    assert searched(cluster) == {"query": nested, "size": 2}


@pytest.mark.parametrize("kind", [VECTOR_DB, NEURAL_SPARSE], ids=lambda kind: str(kind.name))
class TestSearchByMeaning:
    async def test_needs_a_model_and_a_field(self, kind: ToolType) -> None:
        async with cluster_of() as (_, environment):
            with pytest.raises(ConfigurationError, match=r"parameters\.model_id is missing; add it"):
                await answer(kind, environment, {"embedding_field": "v"}, {})
            with pytest.raises(ConfigurationError, match=r"parameters\.embedding_field is missing; add it"):
                await answer(kind, environment, {"model_id": "m"}, {})

    async def test_needs_a_text(self, kind: ToolType) -> None:
        async with cluster_of() as (_, environment):
            with pytest.raises(ToolError, match=r"\[input\] is null or empty, can not process it\."):
                await answer(kind, environment, MODEL, {"index": "books", "input": " "})
            with pytest.raises(ToolError, match="the argument 'index' is missing"):
                await answer(kind, environment, MODEL, {"input": "a"})

    async def test_names_the_plugin_that_is_missing(self, kind: ToolType) -> None:
        embedded = EMBEDDED.open(SearchSettings("embedded:"), SearchEnvironment(Path()))
        environment = ToolEnvironment(SystemClock(), HttpClients(SystemClock()), Path(), embedded)
        with pytest.raises(ConfigurationError, match="needs a cluster with the plugin 'neural-search'"):
            await answer(kind, environment, MODEL, {"input": "a", "index": "books"})

    async def test_tells_the_model_what_it_has_to_say(self, kind: ToolType) -> None:
        async with cluster_of() as (_, environment):
            for parameters, arguments in ((MODEL, ["input", "index"]), ({**MODEL, "index": "books"}, ["input"])):
                [tool] = await kind.open(ToolSettings(kind.name, parameters=parameters), environment).tools()
                assert tool.spec.input_schema["required"] == arguments
                assert ("the index 'books'" in tool.spec.description) is (arguments == ["input"])


class TestPpl:
    async def test_gives_the_query_and_its_result(self) -> None:
        async with cluster_of() as (cluster, environment):
            text = await answer(PPL, environment, {"head": 5}, {"ppl": "source = books | fields title"})
        result = json.loads(text)
        assert result["ppl"] == "source = books | fields title | head 5"
        assert json.loads(result["executionResult"]) == TABLE
        assert json.loads(cluster.bodies[1]) == {"query": "source = `books` | fields title | head 5"}

    async def test_need_not_be_executed(self) -> None:
        async with cluster_of() as (cluster, environment):
            text = await answer(PPL, environment, {"execute": False}, {"ppl": "source = books"})
        assert json.loads(text) == {"ppl": "source = books"}
        assert cluster.asked == []

    async def test_keeps_to_the_index_of_the_operator(self) -> None:
        async with cluster_of() as (_, environment):
            with pytest.raises(ToolError, match="has to be 'books', not 'papers'"):
                await answer(PPL, environment, {"index": "books"}, {"ppl": "source = papers"})
            [tool] = await PPL.open(ToolSettings("PPLTool", parameters={"index": "books"}), environment).tools()
            assert "source = books" in tool.spec.description

    async def test_needs_a_query(self) -> None:
        async with cluster_of() as (_, environment):
            with pytest.raises(ToolError, match="the argument 'ppl' is missing"):
                await answer(PPL, environment, {}, {"ppl": ""})


async def test_callers_run_them_without_an_agent() -> None:
    kinds = {kind.name: kind for kind in (VECTOR_DB, NEURAL_SPARSE, PPL)}
    async with cluster_of(HIT) as (_, environment):
        tools = CallerTools(kinds, environment)
        assert [each.type for each in await tools.descriptions()] == ["PPLTool"], "the others need parameters"
        [block] = await tools.call("VectorDBTool", {**MODEL, "input": "who?", "index": "books"}, "alice")
        assert isinstance(block, TextBlock)
        assert '"_id":"1"' in block.text
        with pytest.raises(InvalidRequestError, match=r"parameters\.model_id is missing"):
            await tools.call("VectorDBTool", {"input": "who?", "index": "books"}, "alice")
