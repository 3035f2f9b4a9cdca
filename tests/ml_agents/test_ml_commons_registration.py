"""An agent is registered with one call; what is wrong with it is named in the caller's own words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.running_gateway import run_body

KEY = "sk-of-the-registration-tests"
OPENAI = "openai/v1/chat/completions"


def model(models: ChatServer, **more: Any) -> dict[str, Any]:
    return {
        "model_id": "gpt-4o",
        "model_provider": OPENAI,
        "endpoint": models.endpoint,
        "credential": {"openai_api_key": KEY},
        **more,
    }


def named(block: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A body that is right; its model is never asked."""
    usual = {"model_id": "m", "model_provider": OPENAI, "credential": {"openai_api_key": KEY}}
    return {"name": "n", "model": usual | dict(block or {}), **more}


async def asked(ml: MlGateway, models: ChatServer, agent_id: str) -> dict[str, Any]:
    """What the agent's model is sent in a run."""
    models.forget()
    models.answers(completion("hello"))
    frames = await ml.gateway.client.run(agent_id, run_body(thread_id=agent_id))
    assert frames[-1].type == "RUN_FINISHED", frames
    request: dict[str, Any] = models.requests[0].json
    return request


async def refused(ml: MlGateway, body: Mapping[str, Any]) -> dict[str, Any]:
    status, answer = await ml.call("POST", "/agents/_register", body)
    assert status == 400, answer
    error: dict[str, Any] = answer["error"]
    assert error["type"] == "illegal_argument_exception"
    assert KEY not in str(answer)
    return error


async def fields(ml: MlGateway, body: Mapping[str, Any]) -> list[str]:
    return [each["field"] for each in (await refused(ml, body))["fields"]]


async def test_an_agent_is_registered_with_one_call_and_answers_ag_ui(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        parameters = {"system_prompt": "Be brief.", "temperature": "0.5", "max_tokens": "100", "stop_sequences": ["x"]}
        body = {"name": "One call", "model": model(models, model_parameters=parameters)}
        agent_id = await ml.register(body)
        assert len(agent_id) == 20
        request = await asked(ml, models, agent_id)
    assert models.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (request["temperature"], request["stop"]) == (0.5, ["x"])
    assert 100 in (request.get("max_tokens"), request.get("max_completion_tokens"))
    assert "system_prompt" not in request
    assert {each["function"]["name"] for each in request["tools"]} == {
        "ListIndexTool",
        "SearchIndexTool",
        "IndexMappingTool",
    }


async def test_a1_the_answer_is_the_id_alone(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await ml.call("POST", "/agents/_register", named())
    assert (status, list(answer), len(answer["agent_id"])) == (200, ["agent_id"], 20)


async def reason(tmp_path: Path, body: Mapping[str, Any], field: str) -> str:
    """What a registration that fails is told, of this field alone; nothing is stored."""
    async with ml_gateway(tmp_path) as ml:
        error = await refused(ml, body)
        assert [each["field"] for each in error["fields"]] == [field]
        _, found = await ml.call("POST", "/agents/_search", {})
        assert found["hits"]["hits"] == []
    text: str = error["reason"]
    return text


async def test_a2_a_name_is_needed(tmp_path: Path) -> None:
    body = {"type": "flow", "tools": [{"type": "ListIndexTool"}]}
    assert await reason(tmp_path, body, "/name") == "Agent name can't be null"


async def test_a4_without_a_type_an_agent_is_conversational(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        _, shown = await ml.call("GET", f"/agents/{await ml.register(named())}")
    assert (shown["type"], shown["memory"]) == ("conversational", {"type": "conversation_index"})


async def test_a5_a_type_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    said = await reason(tmp_path, named(type="bogus"), "/type")
    assert said == "Invalid Agent Type: 'bogus'. Supported types: conversational, conversational_v2, ag_ui"


@pytest.mark.parametrize("kind", ["Conversational_V2", "conversational/v2", "CONVERSATIONAL/V2"])
async def test_a5_a_type_may_be_written_in_either_way(tmp_path: Path, kind: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        _, shown = await ml.call("GET", f"/agents/{await ml.register(named(type=kind))}")
    assert shown["type"] == "conversational_v2"


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "T1", "name": "x"}, {"type": "T2", "name": "x"}],
        [{"type": "ListIndexTool"}, {"type": "ListIndexTool"}],
    ],
)
async def test_a7_two_tools_of_one_name_are_refused(tmp_path: Path, tools: list[dict[str, str]]) -> None:
    said = await reason(tmp_path, named(tools=tools), "/tools/1")
    assert said == "Duplicate tool defined in agent configuration"


async def test_a8_context_management_is_named_or_written(tmp_path: Path) -> None:
    body = named(context_management_name="t", context_management={"name": "t"})
    said = await reason(tmp_path, body, "/context_management")
    assert said == "Cannot specify both context_management_name and context_management"


async def test_a10_a_hook_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    body = named(context_management={"hooks": {"INVALID_HOOK": [{"type": "x"}]}})
    said = await reason(tmp_path, body, "/context_management")
    assert said.startswith("Invalid hook name: INVALID_HOOK. Valid hook names are: [PRE_TOOL,")


async def test_a11_a_hook_needs_a_manager(tmp_path: Path) -> None:
    body = named(context_management={"hooks": {"POST_TOOL": []}})
    said = await reason(tmp_path, body, "/context_management")
    assert said == "Hook POST_TOOL must have at least one context manager configuration"


async def test_a13_conversational_v2_has_no_conversation_index(tmp_path: Path) -> None:
    body = named(type="conversational_v2", memory={"type": "conversation_index"})
    said = await reason(tmp_path, body, "/memory/type")
    assert said.startswith("V2 agents (CONVERSATIONAL_V2) are not compatible with conversation_index memory")


async def test_a14_conversational_v2_has_no_context_management(tmp_path: Path) -> None:
    body = named(type="conversational_v2", memory={"type": "agentic_memory"}, context_management_name="t")
    said = await reason(tmp_path, body, "/context_management_name")
    assert said.startswith("V2 agents (CONVERSATIONAL_V2) do not support context management")


async def test_a16_a_provider_that_nobody_knows_is_refused_with_those_there_are(tmp_path: Path) -> None:
    said = await reason(tmp_path, named({"model_provider": "foo/bar"}), "/model/model_provider")
    own = "bedrock/converse, gemini/v1beta/generatecontent, openai/v1/chat/completions"
    assert said.startswith(f"Unknown model provider type. Supported types: {own}, anthropic/v1/messages")
    assert "scripted" not in said


@pytest.mark.parametrize("provider", [OPENAI, "bedrock/converse"])
@pytest.mark.parametrize("name", ["top_p", "temperature", "max_tokens"])
async def test_a17_an_option_is_a_number(tmp_path: Path, provider: str, name: str) -> None:
    block = {"model_provider": provider, "model_parameters": {name: "abc"}}
    keys = {"access_key": "a", "secret_key": "b"} if provider == "bedrock/converse" else {"openai_api_key": KEY}
    said = await reason(tmp_path, named(block | {"credential": keys}), f"/model/model_parameters/{name}")
    assert said.startswith(f"{name} must be a valid ")
    assert said.endswith("number, got: abc")


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        pytest.param(named(name=""), "/name", "Agent name cannot be empty or exceed max length of 128 characters"),
        pytest.param(named(name="n" * 129), "/name", "Agent name cannot be empty or exceed max length of 128"),
        pytest.param(
            named({"model_parameters": {"temperature": 7}}),
            "/model/model_parameters/temperature",
            "model.model_parameters.temperature",
            id="a temperature beyond the scale",
        ),
        pytest.param({"name": "n"}, "/model", "We need model information for the conversational agent type"),
        pytest.param(
            {"name": "n", "model": {"model_id": "m"}}, "/model/model_provider", "model_provider must be provided"
        ),
        pytest.param(
            {"name": "n", "model": {"model_provider": OPENAI}}, "/model/model_id", "model_id must be provided"
        ),
        pytest.param(named({"model_id": ""}), "/model/model_id", "model_id cannot be null or empty"),
        pytest.param(named({"model_parametres": {}}), "/model/model_parametres", "did you mean 'model_parameters'?"),
        pytest.param(
            named({"model_parameters": {"openai_api_key": KEY}}),
            "/model/model_parameters/openai_api_key",
            "is a credential; write it into model.credential",
        ),
        pytest.param(named({"credential": {"acess_key": "x"}}), "/model/credential/acess_key", "is no credential"),
        pytest.param(named(tools=[{"name": "x"}]), "/tools/0/type", "tool type is null"),
        pytest.param(named(tools=[{"type": "NoTool"}]), "/tools/0/type", "NoTool"),
        pytest.param(named(tools={"type": "ListIndexTool"}), "/tools", "tools must be an array"),
        pytest.param(named(memory={}), "/memory/type", "memory type is null"),
        pytest.param(named(memory={"type": "bogus"}), "/memory/type", "Invalid memory type: bogus. Supported types:"),
        pytest.param(named(parameters={"max_iteration": "many"}), "/parameters/max_iteration", "max_iteration must be"),
        pytest.param(
            named({"model_parameters": {"max_iteration": 0}}),
            "/model/model_parameters/max_iteration",
            "max_iteration must be a whole number of at least 1, got: 0",
        ),
        pytest.param(named(access_mode="restricted"), "/access_mode", "it must be public or private"),
        pytest.param({"name": "n", "model": "m"}, "/model", "model must be an object, not a string"),
        pytest.param(named(parameters={"my_api_key": KEY}), "/parameters/my_api_key", "is a credential"),
        pytest.param(
            {"name": "f", "type": "flow", "tools": [{"type": "ListIndexTool"}]}, "/type", "agents of the type 'flow'"
        ),
        pytest.param(named(type="flow"), "/type", "agents of the type 'flow' are not supported here yet"),
        pytest.param(named(llm={"model_id": "x"}), "/llm/model_id", "describe the model in 'model'"),
        pytest.param(named(llm={"parameters": {}}), "/llm/model_id", "model id is null"),
        pytest.param(
            named(parameters={"mcp_connectors": [{"mcp_connector_id": "x"}]}),
            "/parameters/mcp_connectors",
            "give each server as a tool",
        ),
        pytest.param(named(memory={"type": "remote_agentic_memory"}), "/memory/type", "not supported here"),
        pytest.param(named(context_management_name="t"), "/context_management_name", "not supported here yet"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(
    tmp_path: Path, body: dict[str, Any], field: str, reason: str
) -> None:
    async with ml_gateway(tmp_path) as ml:
        error = await refused(ml, body)
        assert reason in error["reason"]
        assert field in [each["field"] for each in error["fields"]]
        _, found = await ml.call("POST", "/agents/_search", {})
        assert found["hits"]["hits"] == []
