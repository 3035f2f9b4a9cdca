"""Registered agents are shown, searched, changed and deleted, without their secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.messages import new_id
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.running_gateway import run_body

KEY = "sk-of-the-agents-tests"
OPENAI = "openai/v1/chat/completions"


def body(models: ChatServer | None = None, **more: Any) -> dict[str, Any]:
    block = {"model_id": "gpt-4o", "model_provider": OPENAI, "credential": {"openai_api_key": KEY}}
    if models is not None:
        block["endpoint"] = models.endpoint
    return {"name": "n", "model": block, "tools": [], **more}


async def asked(ml: MlGateway, models: ChatServer, agent_id: str) -> Any:
    """The request that the agent's model gets in a run."""
    models.forget()
    models.answers(completion("hello"))
    fresh = new_id("run")
    frames = await ml.gateway.client.run(agent_id, run_body(thread_id=fresh, run_id=fresh))
    assert frames[-1].type == "RUN_FINISHED", frames
    return models.requests[0]


async def put(ml: MlGateway, agent_id: str, change: dict[str, Any]) -> dict[str, Any]:
    status, answer = await ml.call("PUT", f"/agents/{agent_id}", change)
    assert status == 200, answer
    assert (answer["_id"], answer["result"]) == (agent_id, "updated")
    _, shown = await ml.call("GET", f"/agents/{agent_id}")
    assert isinstance(shown, dict)
    return shown


async def refused(ml: MlGateway, agent_id: str, change: dict[str, Any]) -> tuple[int, str]:
    status, answer = await ml.call("PUT", f"/agents/{agent_id}", change)
    assert KEY not in str(answer)
    return status, answer["error"]["reason"]


async def hits(ml: MlGateway, search: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    status, answer = await ml.call("POST", "/agents/_search", search, **more)
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["hits"]["hits"]
    return found


async def test_an_agent_is_shown_as_it_was_registered_without_its_key(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        headers = {"Authorization": "Bearer secret-of-the-tools"}
        tools = [
            {"type": "ListIndexTool", "name": "indices", "parameters": {"page_size": 5}},
            {"type": "McpServer", "parameters": {"url": "http://127.0.0.1:9/mcp?token=hidden", "headers": headers}},
            {"type": "SearchIndexTool"},
        ]
        agent_id = await ml.register(body(description="d", app_type="os_chat", type="AG_UI") | {"tools": tools})
        status, shown = await ml.call("GET", f"/agents/{agent_id}")
    times = (shown.pop("created_time"), shown.pop("last_updated_time"))
    assert times[0] == times[1] > 1_600_000_000_000
    assert (status, shown) == (
        200,
        {
            "name": "n",
            "type": "ag_ui",
            "description": "d",
            "app_type": "os_chat",
            "model": {"model_id": "gpt-4o", "model_provider": OPENAI},
            "tools": [
                {
                    "type": "ListIndexTool",
                    "name": "indices",
                    "parameters": {"page_size": "5"},
                    "include_output_in_agent_response": False,
                },
                {
                    "type": "McpServer",
                    "parameters": {"url": "http://127.0.0.1:9/mcp"},
                    "include_output_in_agent_response": False,
                },
                {"type": "SearchIndexTool", "include_output_in_agent_response": False},
            ],
            "memory": {"type": "conversation_index"},
            "parameters": {},
            "is_hidden": False,
        },
    )


async def test_a19_parameters_are_shown_as_texts_and_understood(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        parameters = {"max_iteration": 10, "x": {"a": 1}, "system_prompt": "Say less.", "temperature": "0.25"}
        agent_id = await ml.register(body(models, parameters=parameters))
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        request = (await asked(ml, models, agent_id)).json
    assert shown["parameters"] == {
        "max_iteration": "10",
        "x": '{"a":1}',
        "system_prompt": "Say less.",
        "temperature": "0.25",
    }
    assert (request["messages"][0]["content"], request["temperature"]) == ("Say less.", 0.25)


@pytest.mark.parametrize("where", ["parameters", "model_parameters"])
async def test_how_many_earlier_messages_are_shown_holds_for_ag_ui_too(tmp_path: Path, where: str) -> None:
    limit = {"message_history_limit": "2"}
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        registered = body(models)
        (registered if where == "parameters" else registered["model"])[where] = limit
        agent_id = await ml.register(registered)
        models.answers(completion("hello"))
        said = [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"), ("user", "5")]
        messages = [{"id": text, "role": role, "content": text} for role, text in said]
        await ml.gateway.client.run(agent_id, run_body() | {"messages": messages})
        assert [message["content"] for message in models.requests[0].json["messages"]] == ["3", "4", "5"]
        await put(ml, agent_id, {"parameters": {"message_history_limit": 0}})
        models.forget()
        models.answers(completion("hello"))
        await ml.gateway.client.run(agent_id, run_body(run_id="run-2", thread_id="other") | {"messages": messages})
        assert [message["content"] for message in models.requests[0].json["messages"]] == ["5"]


async def test_members_that_nobody_knows_are_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.register(body(descripton="d") | {"tools": [{"type": "ListIndexTool", "nam": "x"}]})
    [record] = [record for record in caplog.records if "are skipped that nobody knows" in record.message]
    assert vars(record)["first"] == ["/descripton", "/tools/0/nam"]


async def test_configured_agents_and_those_of_put_agents_are_shown_too(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        own = {"name": "Put", "system_prompt": "a secret prompt", "model": body()["model"]}
        assert (await ml.http.put("/agents/put", json=own)).status_code == 201
        _, configured = await ml.call("GET", "/agents/configured")
        _, made = await ml.call("GET", "/agents/put")
        [hit] = await hits(ml, {"query": {"match": {"name": "put"}}})
    for shown in (configured, made):
        assert (shown["type"], shown["memory"]) == ("conversational", {"type": "conversation_index"})
    assert configured["model"]["model_provider"] == "scripted"
    assert made["model"] == {"model_id": "gpt-4o", "model_provider": OPENAI}
    assert hit["_source"] == made
    assert "secret" not in str(made)


async def test_registered_agents_are_listed_and_run_as_any_other(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(models, type="conversational_v2", description="d"))
        listed = (await ml.http.get("/agents")).json()["agents"]
        assert [(row["id"], row["name"], row["description"]) for row in listed[1:]] == [(agent_id, "n", "d")]
        assert (await asked(ml, models, agent_id)).headers["authorization"] == f"Bearer {KEY}"


async def test_b1_an_unknown_agent_is_named(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await ml.call("GET", "/agents/nope")
    reason = "Failed to find agent with the provided agent id: nope"
    cause = {"type": "status_exception", "reason": reason}
    assert (status, answer) == (404, {"error": {"root_cause": [cause], **cause}, "status": 404})


async def test_b3_an_unknown_agent_is_not_changed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert await refused(ml, "nope", {"name": "n"}) == (404, "Failed to get agent with ID nope")
        assert (await refused(ml, "configured", {"name": "n"}))[0] == 409


async def test_what_a_change_does_not_have_stays(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        model_parameters = {"max_tokens": 50, "system_prompt": "Of the model."}
        registered = body(models, description="d", app_type="a", parameters={"verbose": True})
        registered["model"]["model_parameters"] = model_parameters
        agent_id = await ml.register(registered)
        shown = await put(ml, agent_id, {"name": "New", "model": None, "memory": None})
        assert (shown["name"], shown["description"], shown["app_type"]) == ("New", "d", "a")
        assert shown["parameters"] == {"system_prompt": "Of the model.", "max_tokens": "50", "verbose": "true"}
        assert shown["last_updated_time"] >= shown["created_time"]
        shown = await put(ml, agent_id, {"model": {"model_id": "gpt-4.1", "model_parameters": {"top_p": 0.5}}})
        assert shown["model"] == {"model_id": "gpt-4.1", "model_provider": OPENAI}
        request = await asked(ml, models, agent_id)
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert (request.json["model"], request.json["top_p"]) == ("gpt-4.1", 0.5)
        assert 50 in (request.json.get("max_tokens"), request.json.get("max_completion_tokens"))
        assert request.json["messages"][0]["content"] == "Of the model."


async def test_null_removes_what_an_agent_may_be_without(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        registered = body(models, description="d", app_type="a", parameters={"system_prompt": "Old.", "x": "1"})
        agent_id = await ml.register(registered | {"tools": [{"type": "IndexMappingTool", "name": "m"}]})
        toolless = {name: value for name, value in body(models).items() if name != "tools"}
        _, without = await ml.call("GET", f"/agents/{await ml.register(toolless)}")
        shown = await put(ml, agent_id, {"description": None, "tools": None, "parameters": None})
        assert (shown["app_type"], shown["tools"], shown["parameters"]) == ("a", without["tools"], {})
        assert "description" not in shown
        request = (await asked(ml, models, agent_id)).json
        assert [message["role"] for message in request["messages"]] == ["user"]


async def test_parameters_are_merged_and_tools_are_replaced(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        registered = body(models, parameters={"system_prompt": "Old.", "x": "1"})
        agent_id = await ml.register(registered | {"tools": [{"type": "ListIndexTool"}]})
        tools = [{"type": "IndexMappingTool", "name": "m"}]
        shown = await put(ml, agent_id, {"parameters": {"y": 2, "system_prompt": None}, "tools": tools})
        assert shown["parameters"] == {"x": "1", "y": "2"}
        assert [(tool["type"], tool["name"]) for tool in shown["tools"]] == [("IndexMappingTool", "m")]
        request = (await asked(ml, models, agent_id)).json
        assert [tool["function"]["name"] for tool in request["tools"]] == ["m"]
        assert [message["role"] for message in request["messages"]] == ["user"]


async def test_options_of_the_agent_win_over_the_models_also_after_a_change(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(models, parameters={"temperature": 1}))
        await put(ml, agent_id, {"model": {"model_parameters": {"temperature": 0.5, "top_p": 0.5}}})
        request = (await asked(ml, models, agent_id)).json
        assert (request["temperature"], request["top_p"]) == (1, 0.5)
        await put(ml, agent_id, {"parameters": {}})
        assert (await asked(ml, models, agent_id)).json["temperature"] == 1
        await put(ml, agent_id, {"parameters": {"temperature": None}})
        shown = await put(ml, agent_id, {"model": {"model_parameters": {"top_p": None, "seed": 7}}})
        assert shown["parameters"] == {"temperature": "0.5", "seed": "7"}
        request = (await asked(ml, models, agent_id)).json
        assert (request["temperature"], request["seed"], "top_p" in request) == (0.5, 7, False)


async def test_tools_may_be_sent_back_as_they_are_shown(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        tools = [
            {"type": "ListIndexTool", "parameters": {"page_size": 5, "local": True, "indices": ["a"]}},
            {"type": "McpServer", "url": "http://127.0.0.1:9/mcp", "parameters": {"include": ["a*"], "max_tools": 3}},
        ]
        agent_id = await ml.register(body() | {"tools": tools})
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        assert shown["tools"][1]["parameters"] == {
            "url": "http://127.0.0.1:9/mcp",
            "include": '["a*"]',
            "max_tools": "3",
        }
        assert await put(ml, agent_id, shown | {"name": "Again"}) == shown | {
            "name": "Again",
            "last_updated_time": (await ml.call("GET", f"/agents/{agent_id}"))[1]["last_updated_time"],
        }


async def test_no_container_is_made_while_agentic_memory_is_off(tmp_path: Path) -> None:
    name = "plugins.ml_commons.agentic_memory_enabled"
    async with ml_gateway(tmp_path) as ml:
        await ml.http.put("/_cluster/settings", json={"persistent": {name: False}})
        status, answer = await ml.call("POST", "/agents/_register", body(type="conversational_v2"))
        assert (status, name in answer["error"]["reason"], await hits(ml, {})) == (403, True, [])


async def test_a_container_that_is_gone_does_not_stop_other_changes(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(type="conversational_v2"))
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        await ml.call("DELETE", f"/memory_containers/{shown['memory']['memory_container_id']}")
        assert (await put(ml, agent_id, {"name": "New"}))["memory"] == shown["memory"]


async def test_an_agent_of_put_agents_is_changed_in_what_the_change_has(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        options = {"temperature": 0.5, "top_p": 0.5}
        own = {"system_prompt": "Old.", "model": body(models)["model"] | {"options": options}, "name": "Put"}
        limits = {"max_iteration": 30, "max_tool_calls": 7}
        assert (await ml.http.put("/agents/put", json=own | {"parameters": limits})).status_code == 201
        await put(ml, "put", {"name": "New", "parameters": {"system_prompt": "New.", "temperature": 1}})
        request = (await asked(ml, models, "put")).json
        assert (request["messages"][0]["content"], request["temperature"], request["top_p"]) == ("New.", 1, 0.5)
        [row] = [row for row in (await ml.http.get("/agents")).json()["agents"] if row["id"] == "put"]
        assert row["name"] == "New"


async def test_a_credential_may_be_sent_alone(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(models))
        await put(ml, agent_id, {"model": {"credential": {"openai_api_key": "sk-another-key"}}})
        assert (await asked(ml, models, agent_id)).headers["authorization"] == "Bearer sk-another-key"


@pytest.mark.parametrize(
    "model",
    [
        {"endpoint": "http://127.0.0.1:9/v1"},
        {"endpoint": None},
        {"model_provider": "openai/v1/responses"},
        {"region": "eu-central-1"},
    ],
)
async def test_a_stored_key_never_goes_to_another_address(tmp_path: Path, model: dict[str, Any]) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(models))
        status, reason = await refused(ml, agent_id, {"model": model})
        assert status == 400
        assert "credential must be given again" in reason
        assert (await asked(ml, models, agent_id)).headers["authorization"] == f"Bearer {KEY}"
        await put(ml, agent_id, {"model": model | {"credential": {"openai_api_key": "sk-given-again"}}})


async def unchanged(tmp_path: Path, change: dict[str, Any]) -> str:
    """What a change that fails is told; nothing changes."""
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body())
        before = await ml.call("GET", f"/agents/{agent_id}")
        status, reason = await refused(ml, agent_id, {"description": "other", **change})
        assert status == 400, reason
        assert await ml.call("GET", f"/agents/{agent_id}") == before
        return reason


async def test_b4_a_name_is_not_empty(tmp_path: Path) -> None:
    said = await unchanged(tmp_path, {"name": ""})
    assert said == "Agent name cannot be empty or exceed max length of 128 characters"


async def test_b6_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    tools = [{"type": "t", "name": "tool1"}, {"type": "u", "name": "tool1"}]
    assert await unchanged(tmp_path, {"tools": tools}) == "Duplicate tool defined: tool1"


@pytest.mark.parametrize("kind", ["conversational_v2", "flow", "bogus", 1])
async def test_b7_the_type_stays(tmp_path: Path, kind: object) -> None:
    assert await unchanged(tmp_path, {"type": kind}) == "Agent type cannot be updated"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"memory": {"type": "bogus"}}, "Invalid memory type: bogus"),
        ({"llm": {"model_id": "x"}}, "describe the model in 'model'"),
        ({"tools": [{"type": "NoTool"}]}, "tools.0.type"),
        ({"model": {"model_parameters": {"top_p": "x"}}}, "top_p must be a valid number"),
        ({"model": {"model_parametres": {}}}, "did you mean 'model_parameters'?"),
        (
            {"model": {"endpoint": "http://169.254.169.254/", "credential": {"openai_api_key": "sk-x"}}},
            "model.endpoint may not be reached",
        ),
    ],
)
async def test_what_is_wrong_with_a_change_is_named_and_nothing_changes(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    assert reason in await unchanged(tmp_path, change)


async def test_the_same_type_may_be_sent_with_a_change(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(type="conversational_v2"))
        assert (await put(ml, agent_id, {"type": "conversational/v2", "name": "New"}))["name"] == "New"


async def test_changes_at_one_time_do_not_lose_each_other(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body())
        names = [f"p{number}" for number in range(8)]
        changes = [{"model": {"model_parameters": {f"_{name}": name}}} for name in names]
        answers = await asyncio.gather(*(ml.call("PUT", f"/agents/{agent_id}", change) for change in changes))
        assert [status for status, _ in answers] == [200] * len(names)
        assert len({answer["_version"] for _, answer in answers}) == len(names)
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
    assert shown["parameters"] == {f"_{name}": name for name in names}


async def test_b9_agents_are_searched_by_what_is_shown_of_them(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        first = await ml.register(body(name="Weather man", app_type="os_chat", parameters={"max_iteration": 3}))
        second = await ml.register(body(name="Shop", tools=[{"type": "ListIndexTool"}], type="conversational_v2"))
        assert {hit["_id"] for hit in await hits(ml, {"query": {"match_all": {}}})} == {first, second}
        _, shown = await ml.call("GET", f"/agents/{second}")
        [hit] = await hits(ml, {"query": {"term": {"tools.type": "ListIndexTool"}}})
        assert (hit["_index"], hit["_id"], hit["_source"]) == (".plugins-ml-agent", second, shown)
        for query in (
            {"match": {"name": "weather"}},
            {"term": {"app_type": "os_chat"}},
            {"term": {"parameters.max_iteration": "3"}},
            {"term": {"memory.type": "conversation_index"}},
        ):
            assert [each["_id"] for each in await hits(ml, {"query": query})] == [first], query
        newest = await hits(ml, {"sort": [{"created_time": "desc"}], "size": 1, "_source": ["name"]})
        assert newest[0]["_source"] == {"name": "Shop"}
        found = await ml.opensearch.transport.perform_request("GET", "/_plugins/_ml/agents/_search", body={"size": 0})
        assert found["hits"]["total"]["value"] == 2


@pytest.mark.parametrize(
    "search",
    [
        {"_source": ["definition", "about", "definition.*", "*credential*"]},
        {"_source": {"includes": ["definition.model.credential"]}},
        {"query": {"query_string": {"query": "*sk*"}}},
        {"query": {"term": {"definition.model.credential.openai_api_key": KEY}}},
        {"query": {"exists": {"field": "definition"}}},
        {"sort": [{"definition.model.credential.openai_api_key": {"order": "asc", "unmapped_type": "keyword"}}]},
        {"aggs": {"a": {"terms": {"field": "definition.model.credential.openai_api_key"}}}},
        {"aggs": {"a": {"top_hits": {"_source": ["definition"]}}}},
        {"highlight": {"fields": {"*": {}}}},
        {"suggest": {"a": {"text": "sk", "term": {"field": "definition.system_prompt"}}}},
        {"fields": ["definition.*"], "docvalue_fields": ["definition.model.credential.openai_api_key"]},
        {"script_fields": {"a": {"script": "doc['definition']"}}},
    ],
)
async def test_no_search_shows_a_secret_or_a_definition(tmp_path: Path, search: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        registered = body(parameters={"x": "shown"})
        registered["model"]["endpoint"] = "http://127.0.0.1:9/hidden-endpoint"
        await ml.register(registered)
        _, answer = await ml.call("POST", "/agents/_search", search)
    assert not any(hidden in str(answer) for hidden in (KEY, "hidden-endpoint", "openai_api_key'", "ml_commons"))


async def test_an_agent_is_deleted_as_a_document_of_opensearch_is(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body())
        status, answer = await ml.call("DELETE", f"/agents/{agent_id}")
        assert (status, answer["_index"], answer["_id"], answer["result"]) == (
            200,
            ".plugins-ml-agent",
            agent_id,
            "deleted",
        )
        again, missing = await ml.call("DELETE", f"/agents/{agent_id}")
        assert (again, missing["error"]["reason"]) == (404, "Fail to find ml agent")
        assert (await ml.call("GET", f"/agents/{agent_id}"))[0] == 404
        assert (await ml.call("DELETE", "/agents/configured"))[0] == 409
