"""ml-commons' tools: which there are, and running one without an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import MlGateway, P, ml_gateway

TOOLS = ["IndexMappingTool", "ListIndexTool", "McpServer", "SearchIndexTool"]
POPULATION = "test_population_data"
MATCH = {"query": {"match": {"population_description": "Seattle"}}, "size": 1}


async def executed(ml: MlGateway, name: str, parameters: object) -> tuple[int, str]:
    """The status, and the tool's result or what was wrong."""
    status, answer = await ml.call("POST", f"/tools/_execute/{name}", {"parameters": parameters})
    if status == 200:
        [output] = answer["inference_results"][0]["output"]
        assert output["name"] == "response"
        return status, output["result"]
    assert answer["status"] == status
    return status, answer["error"].get("details") or answer["error"]["reason"]


async def test_the_tools_that_callers_may_use_are_listed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, tools = await ml.call("GET", "/tools")
        assert (status, [tool["name"] for tool in tools]) == (200, TOOLS)
        for tool in tools:
            assert tool["description"]
            assert (tool["type"], tool["version"]) == (tool["name"], "undefined")
        lister = tools[1]
        schema = json.loads(lister["attributes"]["input_schema"])
        assert schema["properties"]["indices"]["type"] == "array"
        assert await ml.call("GET", "/tools/ListIndexTool") == (200, lister)
        for name in ("PythonTool", "HttpTool", "Nothing"):
            status, answer = await ml.call("GET", f"/tools/{name}")
            assert status == 404
            said = f"Failed to find tool information with the provided tool name: {name}"
            assert answer["error"]["reason"].startswith(said)


async def test_without_a_search_engine_there_are_no_search_tools(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, search=None, sections={"search": None}) as ml:
        _, tools = await ml.call("GET", "/tools")
        assert [tool["name"] for tool in tools] == ["McpServer"]
        status, said = await executed(ml, "ListIndexTool", {})
        assert (status, "needs a search engine" in said) == (400, True)


@pytest.mark.parametrize(
    "parameters", [{}, {"indices": []}, {"indices": "[]"}, {"question": "which?"}, {"page_size": "10", "local": "true"}]
)
async def test_indices_are_listed(tmp_path: Path, parameters: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, said = await executed(ml, "ListIndexTool", parameters)
    assert status == 200
    assert said.startswith("row,health,status,index,uuid,")
    assert POPULATION in said


@pytest.mark.parametrize("index", [[POPULATION], json.dumps([POPULATION]), POPULATION])
async def test_mappings_are_told_however_the_index_is_written(tmp_path: Path, index: object) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, said = await executed(ml, "IndexMappingTool", {"index": index})
    assert status == 200
    assert said.startswith(f"index: {POPULATION}\n\nmappings:\n")


@pytest.mark.parametrize(
    "parameters",
    [
        {"index": POPULATION, "query": MATCH},
        {"index": POPULATION, "query": json.dumps(MATCH)},
        {"input": json.dumps({"index": POPULATION, "query": MATCH})},
        {"input": {"index": POPULATION, "query": MATCH}},
    ],
)
async def test_an_index_is_searched_however_the_search_is_written(tmp_path: Path, parameters: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, said = await executed(ml, "SearchIndexTool", parameters)
    assert status == 200
    [hit] = [json.loads(line) for line in said.splitlines()]
    assert hit["_index"] == POPULATION
    assert "Seattle" in json.dumps(hit["_source"])


SEARCH_NEEDS = (
    "Invalid parameters for tool: SearchIndexTool. SearchIndexTool's two parameters: index and query are required and "
    "should be in valid format"
)


@pytest.mark.parametrize(
    ("tool", "parameters", "expected", "said"),
    [
        ("Nothing", {}, 400, "Tool not found: Nothing; there are: IndexMappingTool, ListIndexTool, SearchIndexTool"),
        ("McpServer", {"url": "http://127.0.0.1:9/"}, 400, "Tool not found: McpServer"),
        ("PythonTool", {"function": "os:getcwd"}, 400, "Tool not found: PythonTool"),
        ("SearchIndexTool", {"query": MATCH}, 400, SEARCH_NEEDS),
        ("SearchIndexTool", {"index": POPULATION}, 400, SEARCH_NEEDS),
        (
            "SearchIndexTool",
            {"index": POPULATION, "query": "Invalid Query"},
            400,
            "Invalid parameters for tool: SearchIndexTool. ",
        ),
        ("SearchIndexTool", {"index": 7, "query": MATCH}, 400, "do not fit the schema"),
        ("SearchIndexTool", {"input": "words"}, 400, "'input' is no JSON object"),
        ("SearchIndexTool", {"index": "nosuch", "query": MATCH}, 400, "nosuch"),
        ("IndexMappingTool", {}, 400, "the argument 'index' is missing"),
        ("ListIndexTool", {"indicies": []}, 400, "parameters.indicies is not known; did you mean 'indices'?"),
        ("ListIndexTool", {"page_size": "many"}, 400, "parameters.page_size"),
        ("ListIndexTool", [], 400, "Tool input data can not be empty."),
        ("ListIndexTool", None, 400, "Tool input data can not be empty."),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, tool: str, parameters: object, expected: int, said: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await executed(ml, tool, parameters)
    assert (status, said in answer) == (expected, True), answer


async def test_running_a_tool_counts_as_a_run(tmp_path: Path) -> None:
    limited = {"api_keys": [{"name": "alice", "key": "alice-key-of-the-tests", "limits": {"runs_per_minute": 1}}]}
    async with ml_gateway(tmp_path, server=limited) as ml:
        url, alice = f"{P}/tools/_execute/ListIndexTool", ("alice", "alice-key-of-the-tests")
        first, second = [await ml.http.post(url, json={"parameters": {}}, auth=alice) for _ in range(2)]
        assert (first.status_code, second.status_code) == (200, 429)
        assert second.headers["retry-after"]


async def test_tools_are_not_run_where_that_is_turned_off(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, sections={"ml_commons": {"execute_tools_enabled": False}}) as ml:
        status, said = await executed(ml, "ListIndexTool", {})
        assert (status, said) == (
            403,
            "The Execute Tool API is not enabled. To enable, please update the setting "
            "plugins.ml_commons.execute_tools_enabled",
        )
        assert (await ml.call("GET", "/tools"))[0] == 200


async def test_visitors_run_no_tools(tmp_path: Path) -> None:
    origin = "https://shop.example"
    publishable = {"name": "shop", "key": "pk_shop-0123456789", "origins": [origin], "agents": ["configured"]}
    async with ml_gateway(tmp_path, server={"publishable_keys": [publishable]}) as ml:
        page = {"origin": origin, "authorization": "Bearer pk_shop-0123456789"}
        token = (await ml.http.post("/visitors", headers=page, json={})).json()["visitorToken"]
        visitor = {"origin": origin, "authorization": f"Bearer {token}"}
        for method, path in (("GET", "/tools"), ("POST", "/tools/_execute/ListIndexTool"), ("GET", "/tasks/x")):
            status, answer = await ml.call(method, path, {} if method == "POST" else None, headers=visitor)
            assert (status, answer["error"]["type"]) == (403, "security_exception")
        settings = await ml.http.get("/_cluster/settings", headers=visitor)
        assert (settings.status_code, settings.json()["status"]) == (403, 403)
