"""SearchIndexTool, ListIndexTool and IndexMappingTool over the embedded engine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.agent import ToolSettings
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, JsonValue, TextBlock
from gateway.search_engine import SearchEngine, SearchEnvironment, SearchSettings
from gateway.search_engines.embedded import ENGINE
from gateway.tool import SharedState, Tool, ToolContext, ToolEnvironment, ToolType
from gateway.tools.index_mapping import TOOL_TYPE as INDEX_MAPPING
from gateway.tools.list_index import TOOL_TYPE as LIST_INDEX
from gateway.tools.search_index import TOOL_TYPE as SEARCH_INDEX

POPULATION = "test_population_data"
CONTEXT = ToolContext("call_1", "owner", "thread_1", "run_1", "agent_1", SharedState(None))


@pytest.fixture
async def engine() -> AsyncIterator[SearchEngine]:
    opened = ENGINE.open(SearchSettings("embedded:sample"), SearchEnvironment(Path.cwd()))
    yield opened
    await opened.close()


async def open_tool(kind: ToolType, engine: SearchEngine | None, parameters: JsonObject | None = None) -> Tool:
    clock = SystemClock()
    environment = ToolEnvironment(clock, HttpClients(clock), Path(), engine)
    (tool,) = await kind.open(ToolSettings(kind.name, parameters=parameters or {}), environment).tools()
    return tool


async def answer(tool: Tool, arguments: JsonObject) -> str:
    blocks = await tool.call(arguments, CONTEXT)
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


@pytest.mark.parametrize("kind", [SEARCH_INDEX, LIST_INDEX, INDEX_MAPPING], ids=lambda kind: str(kind.name))
class TestAll:
    async def test_need_a_search_engine(self, kind: ToolType) -> None:
        with pytest.raises(ConfigurationError, match=f"the tool {kind.name} needs a search engine"):
            await open_tool(kind, None)

    async def test_refuse_unknown_parameters(self, kind: ToolType, engine: SearchEngine) -> None:
        with pytest.raises(ConfigurationError, match=r"parameters\.max_output_character is not known; did you mean"):
            await open_tool(kind, engine, {"max_output_character": 3})

    async def test_cut_long_results(self, kind: ToolType, engine: SearchEngine) -> None:
        tool = await open_tool(kind, engine, {"max_output_characters": 20})
        arguments: JsonObject = {"index": POPULATION, "query": {"query": {"match_all": {}}}}
        assert "[truncated: this is the first 20 of" in await answer(tool, arguments)


class TestSearchIndex:
    async def test_gives_a_line_per_hit(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine)
        assert tool.spec.name == "SearchIndexTool"
        assert tool.spec.input_schema["required"] == ["index", "query"]
        query: JsonValue = {"query": {"match": {"population_description": "Seattle Tokyo"}}, "size": 2}
        text = await answer(tool, {"index": POPULATION, "query": query})
        assert text.endswith("\n")
        hits = [json.loads(line) for line in text.splitlines()]
        assert {hit["_id"] for hit in hits} == {"seattle", "tokyo"}
        assert all(list(hit) == ["_index", "_source", "_id", "_score"] for hit in hits)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"index": POPULATION, "query": {"match": {"population_description": "Miami"}}},
            {"index": POPULATION, "query": '{"query": {"match": {"population_description": "Miami"}}}'},
            {"input": json.dumps({"index": POPULATION, "query": {"match": {"population_description": "Miami"}}})},
        ],
        ids=["bare query", "query as text", "input"],
    )
    async def test_understands_how_models_write_it(self, engine: SearchEngine, arguments: JsonObject) -> None:
        tool = await open_tool(SEARCH_INDEX, engine)
        assert json.loads(await answer(tool, arguments))["_id"] == "miami"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "index and query are required and should be in valid format. Missing: 'index' and 'query'"),
            ({"query": {"match_all": {}}}, "Missing: 'index'"),
            ({"index": POPULATION}, "Missing: 'query'"),
            ({"index": POPULATION, "query": "Seattle"}, "the query is not valid JSON"),
            ({"input": "{index"}, "Invalid JSON format in input parameter"),
            (
                {"index": "cities", "query": {"match_all": {}}},
                "no such index .cities.; there are: test_population_data",
            ),
            ({"index": POPULATION, "query": {"query": {"neural": {"e": {}}}}}, "needs embeddings"),
        ],
        ids=str,
    )
    async def test_tells_the_model_what_is_wrong(
        self, engine: SearchEngine, arguments: JsonObject, message: str
    ) -> None:
        tool = await open_tool(SEARCH_INDEX, engine)
        with pytest.raises(ToolError, match=message):
            await tool.call(arguments, CONTEXT)

    async def test_nothing_found_is_an_empty_result(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine)
        assert await tool.call({"index": POPULATION, "query": {"match_none": {}}}, CONTEXT) == ()

    async def test_what_was_counted_is_the_last_line(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine)
        query: JsonValue = {"size": 1, "aggs": {"without": {"missing": {"field": "population_description"}}}}
        hit, counted = (await answer(tool, {"index": POPULATION, "query": query})).splitlines()
        assert json.loads(hit)["_index"] == POPULATION
        assert json.loads(counted) == {"aggregations": {"without": {"doc_count": 0}}}

    async def test_can_give_the_raw_response(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine, {"return_raw_response": True})
        raw = json.loads(await answer(tool, {"index": POPULATION, "query": {"query": {"match_all": {}}}}))
        assert raw["hits"]["total"] == {"value": 12, "relation": "eq"}


class TestFixedQuery:
    PARAMETERS: JsonObject = {  # noqa: RUF012  # never changed
        "input": '{"index": "${parameters.index}", "query": ${parameters.query} }',
        "index": POPULATION,
        "query": {
            "query": {"match": {"population_description": "${parameters.question}"}},
            "size": "${parameters.count}",
            "_source": "population_description",
        },
        "input_schema": {
            "type": "object",
            "properties": {"question": {"type": "string"}, "count": {"type": "integer"}},
        },
    }

    async def test_takes_the_operators_arguments(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine, self.PARAMETERS)
        assert tool.spec.input_schema == self.PARAMETERS["input_schema"]
        text = await answer(tool, {"question": "people of Delhi", "count": 1})
        assert "32,941,000" in text

    async def test_each_placeholder_is_an_argument(self, engine: SearchEngine) -> None:
        query: JsonValue = {"query": {"match": {"${parameters.field}": "the ${parameters.word} of"}}}
        tool = await open_tool(SEARCH_INDEX, engine, {"query": query})
        # a key is the operator's: only values take arguments
        assert tool.spec.input_schema["required"] == ["index", "word"]

    async def test_an_argument_cannot_become_query_language(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine, self.PARAMETERS)
        question = '"}}, "size": 100, "query": {"match_all": {"x": "'
        with pytest.raises(ToolError, match="'count' is missing"):
            await tool.call({"question": question}, CONTEXT)
        assert await tool.call({"question": question, "count": 5}, CONTEXT) == ()

    async def test_the_index_cannot_be_changed(self, engine: SearchEngine) -> None:
        tool = await open_tool(SEARCH_INDEX, engine, {"index": POPULATION})
        assert tool.spec.input_schema["required"] == ["query"]
        text = await answer(tool, {"index": "test_tech_news", "query": {"match_all": {}}})
        assert all(json.loads(line)["_index"] == POPULATION for line in text.splitlines())

    async def test_glue_alone_is_refused(self, engine: SearchEngine) -> None:
        with pytest.raises(ConfigurationError, match=r"parameters\.input needs index and query"):
            await open_tool(SEARCH_INDEX, engine, {"input": "{}"})

    async def test_a_schema_that_arguments_cannot_be_checked_against_is_refused(self, engine: SearchEngine) -> None:
        schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/none"}}}
        with pytest.raises(ConfigurationError, match=r"parameters\.input_schema is no usable JSON Schema: a reference"):
            await open_tool(SEARCH_INDEX, engine, {"index": POPULATION, "query": {}, "input_schema": schema})


class TestListIndex:
    async def test_gives_a_table(self, engine: SearchEngine) -> None:
        tool = await open_tool(LIST_INDEX, engine)
        lines = (await answer(tool, {})).splitlines()
        assert lines[0].startswith("row,health,status,index,uuid,pri(number of primary shards),rep(")
        assert lines[1].startswith("1,green,open,test_population_data,")
        assert lines[2].startswith("2,green,open,test_tech_news,")
        assert len(lines) == 3

    @pytest.mark.parametrize(
        "indices", [["test_tech_news"], '["test_tech_news"]', "test_tech_news", ["test_tech*"]], ids=str
    )
    async def test_lists_what_was_asked_for(self, engine: SearchEngine, indices: JsonValue) -> None:
        tool = await open_tool(LIST_INDEX, engine)
        assert "test_population_data" not in await answer(tool, {"indices": indices})
        assert "test_tech_news" in await answer(tool, {"input": json.dumps({"indices": indices})})

    async def test_says_when_there_is_nothing(self, engine: SearchEngine) -> None:
        tool = await open_tool(LIST_INDEX, engine)
        text = await answer(tool, {"indices": ["none*"]})
        assert text == "There were no results searching the indices parameter [none*]."
        with pytest.raises(ToolError, match="a list of names"):
            await tool.call({"indices": 7}, CONTEXT)

    async def test_the_operator_may_choose(self, engine: SearchEngine) -> None:
        tool = await open_tool(LIST_INDEX, engine, {"indices": '["test_tech_news"]', "local": True, "page_size": 10})
        assert len((await answer(tool, {})).splitlines()) == 2


class TestIndexMapping:
    async def test_tells_fields_and_settings(self, engine: SearchEngine) -> None:
        tool = await open_tool(INDEX_MAPPING, engine)
        text = await answer(tool, {"index": ["test_tech_news"]})
        assert text.startswith(
            "index: test_tech_news\n\nmappings:\nproperties={passage={type=text}}\n\n\nsettings:\n"
            "index.number_of_shards=1\nindex.number_of_replicas=0\n"
        )

    async def test_takes_a_bare_name(self, engine: SearchEngine) -> None:
        tool = await open_tool(INDEX_MAPPING, engine)
        assert "population_description={type=text}" in await answer(tool, {"index": POPULATION})

    async def test_needs_a_name_unless_the_operator_gave_one(self, engine: SearchEngine) -> None:
        with pytest.raises(ToolError, match="'index' is missing"):
            await (await open_tool(INDEX_MAPPING, engine)).call({}, CONTEXT)
        tool = await open_tool(INDEX_MAPPING, engine, {"index": POPULATION})
        assert tool.spec.input_schema["required"] == []
        assert "population_description" in await answer(tool, {})

    async def test_names_the_indices_there_are(self, engine: SearchEngine) -> None:
        tool = await open_tool(INDEX_MAPPING, engine)
        with pytest.raises(ToolError, match=r"no such index \[nosuch\]; there are: test_population_data, test_tech"):
            await tool.call({"index": ["nosuch"]}, CONTEXT)


@pytest.mark.parametrize("as_text", [True, False])
async def test_a_query_that_a_model_writes_has_at_most_100_kb(engine: SearchEngine, *, as_text: bool) -> None:
    query: JsonObject = {"query": {"query_string": {"query": "a" * 200_000}}}
    tool = await open_tool(SEARCH_INDEX, engine)
    plain: JsonObject = {"index": POPULATION, "query": json.dumps(query) if as_text else query}
    packed: JsonObject = {"input": json.dumps({"index": POPULATION, "query": query})}
    for arguments in (plain, packed):
        with pytest.raises(ToolError, match="at most 100000"):
            await answer(tool, arguments)


async def test_a_text_that_is_too_long_for_a_query_is_not_parsed(engine: SearchEngine) -> None:
    tool = await open_tool(SEARCH_INDEX, engine)
    with pytest.raises(ToolError, match="has 200000 characters; at most 100000"):
        await answer(tool, {"index": POPULATION, "query": "{" * 200_000})
