"""Agents that callers make: read by the rules of the file, and by those for callers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import AgentDefinition
from gateway.clock import SystemClock
from gateway.configuration.agent_body import CallerRules, read_agent
from gateway.configuration.definitions import PartEnvironments
from gateway.configuration.known_parts import known_parts
from gateway.errors import InvalidRequestError
from gateway.http_client.clients import HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.loop import LoopEnvironment
from gateway.messages import JsonObject
from gateway.model import ModelEnvironment
from gateway.tool import ToolEnvironment
from tests.counted_work import lines_executed

MODEL: JsonObject = {
    "model_provider": "openai/v1/chat/completions",
    "model_id": "gpt-5",
    "credential": {"openai_api_key": "sk-callers-own"},
}


@pytest.fixture
async def rules() -> AsyncGenerator[CallerRules]:
    clock = SystemClock()
    http = HttpClients(clock, endpoints=EndpointPolicy([r"^https://api\.example\.com/.*$"]))
    environments = PartEnvironments(
        ModelEnvironment(clock, http, own_identity=False),
        ToolEnvironment(clock, http, Path(), None),
        LoopEnvironment(clock, http, Path()),
    )
    yield CallerRules(known_parts(), environments)
    await http.close()


def wrong_fields(rules: CallerRules, **values: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequestError) as caught:
        read_agent("mine", {"model": MODEL, **values}, rules)
    assert (caught.value.status, caught.value.code) == (422, "invalid_agent")
    return {problem.pointer: problem.detail for problem in caught.value.problems}


async def test_an_agent_of_a_caller_is_what_it_would_be_in_the_file(rules: CallerRules) -> None:
    limits: JsonObject = {"max_iteration": 3, "on_max_iteration": "stop"}
    made = read_agent("mine", {"model": MODEL, "system_prompt": "Be brief.", "parameters": limits}, rules)
    assert isinstance(made, AgentDefinition)
    assert made.budgets.on_max_iteration == "stop"
    assert (made.id, made.name, made.system_prompt, made.budgets.max_iteration) == ("mine", "mine", "Be brief.", 3)
    assert made.model.credential["openai_api_key"].reveal() == "sk-callers-own"


async def test_every_wrong_field_is_named_by_its_pointer(rules: CallerRules) -> None:
    wrong = wrong_fields(
        rules, sytem_prompt="x", history="rewrite", parameters={"max_iteration": 0, "on_max_iteration": "end"}
    )
    assert wrong.keys() == {"/sytem_prompt", "/history", "/parameters/max_iteration", "/parameters/on_max_iteration"}
    assert "did you mean" in wrong["/sytem_prompt"]


async def test_the_models_that_an_agent_allows_are_bounded(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, allow_models=[f"m{number}" for number in range(1_001)])
    assert list(wrong) == ["/allow_models"]
    assert wrong["/allow_models"].endswith("has too many entries; use at most 1000")


async def test_unknown_parts_are_named(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, type="conversatonal", tools=[{"type": "SerchIndexTool"}])
    assert wrong.keys() == {"/type", "/tools/0/type"}


@pytest.mark.parametrize("kind", ["PythonTol", "HtpTool", "WebSearchTool"])
async def test_for_an_unknown_tool_those_are_listed_that_callers_may_have(rules: CallerRules, kind: str) -> None:
    said = wrong_fields(rules, tools=[{"type": kind}])["/tools/0/type"]
    assert said.startswith(f"no tool type is called '{kind}'")
    assert "there are: IndexMappingTool, ListIndexTool, McpServer, " in said
    assert "PythonTool" not in said
    assert "HttpTool" not in said


async def test_for_an_unknown_provider_those_are_listed_that_callers_may_have(rules: CallerRules) -> None:
    said = wrong_fields(rules, model={**MODEL, "model_provider": "scriptd"})["/model/model_provider"]
    assert said.startswith("no model provider is called 'scriptd'")
    assert "openai/v1/chat/completions" in said
    assert "scripted" not in said


async def test_an_agent_without_a_model_is_refused(rules: CallerRules) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_agent("mine", {}, rules)
    assert caught.value.problems[0].pointer.startswith("/model")


@pytest.mark.parametrize("provider", ["demo", "scripted"])
async def test_models_without_a_server_are_the_operators(rules: CallerRules, provider: str) -> None:
    wrong = wrong_fields(rules, model={"model_provider": provider})
    assert "is for the agents of the configuration file" in wrong["/model/model_provider"]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "PythonTool", "parameters": {"function": "os:system"}},
        {"type": "HttpTool", "name": "fetch", "parameters": {"url": "https://api.example.com/"}},
    ],
)
async def test_tools_that_run_here_or_as_the_operator_are_refused(rules: CallerRules, tool: JsonObject) -> None:
    wrong = wrong_fields(rules, tools=[tool])
    assert "is for the agents of the configuration file" in wrong["/tools/0/type"]


async def test_no_program_is_named_by_a_caller(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, tools=[{"type": "McpServer", "parameters": {"command": "sh"}}])
    assert wrong.keys() == {"/tools/0/parameters/command"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.test/v1",
        "http://169.254.169.254/latest",
        "http://127.0.0.1:9200/v1",
        "https://api.example.com.evil.test/v1",
        "https://api.example.com@evil.test/v1",
    ],
)
async def test_endpoints_are_trusted_ones(rules: CallerRules, endpoint: str) -> None:
    assert "/model/endpoint" in wrong_fields(rules, model={**MODEL, "endpoint": endpoint})
    fallback = {"model_provider": "anthropic/v1/messages", "model_id": "x", "endpoint": endpoint}
    assert "/model/fallback/0/endpoint" in wrong_fields(rules, model={**MODEL, "fallback": [fallback]})
    tool = {"type": "McpServer", "parameters": {"url": endpoint}}
    assert "/tools/0/parameters/url" in wrong_fields(rules, tools=[tool])


async def test_an_agent_names_only_so_many_models_in_its_models_place(rules: CallerRules) -> None:
    eight = read_agent("mine", {"model": {**MODEL, "fallback": [MODEL] * 8}}, rules)
    assert len(eight.model.fallback) == 8
    for many in (9, 500):
        wrong = wrong_fields(rules, model={**MODEL, "fallback": [MODEL] * many})
        assert wrong == {"/model/fallback": "a list has too many entries; use at most 8"}


async def test_a_trusted_endpoint_is_taken(rules: CallerRules) -> None:
    made = read_agent("mine", {"model": {**MODEL, "endpoint": "https://api.example.com/v1"}}, rules)
    assert made.model.endpoint == "https://api.example.com/v1"


@pytest.mark.parametrize("reference", ["${env:OPENAI_API_KEY}", "${file:/etc/passwd}", "Bearer ${env:KEY:-x}"])
async def test_the_gateways_environment_and_files_are_not_for_callers(
    rules: CallerRules, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-gateway")
    wrong = wrong_fields(rules, system_prompt=reference, model={**MODEL, "credential": {"openai_api_key": reference}})
    assert wrong.keys() == {"/system_prompt", "/model/credential/openai_api_key"}


async def test_the_gateways_aws_identity_is_not_for_callers(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, model={"model_provider": "bedrock/converse", "model_id": "amazon.nova-pro-v1:0"})
    assert "needs a credential of its own" in wrong["/model"]


async def test_another_id_than_the_paths_is_refused(rules: CallerRules) -> None:
    assert "/id" in wrong_fields(rules, id="other")
    assert read_agent("mine", {"id": "mine", "model": MODEL}, rules).id == "mine"


async def test_no_message_quotes_a_credential(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, model={**MODEL, "credential": {"api_kye": "sk-very-secret"}})
    assert "sk-very-secret" not in str(wrong)


@pytest.mark.parametrize("name", ["x{}", "x{}" * 30, "model_provider{}"], ids=["short", "long", "near"])
async def test_unknown_members_cost_no_more_than_in_proportion_to_their_number(rules: CallerRules, name: str) -> None:
    def lines(count: int) -> int:
        return lines_executed(lambda: wrong_fields(rules, **{name.replace("{}", str(i)): i for i in range(count)}))

    lines(200)  # what is looked up once
    assert lines(9_000) - lines(1_000) < 50 * 8_000


async def test_of_very_many_wrong_fields_the_first_hundred_are_named(rules: CallerRules) -> None:
    wrong = wrong_fields(rules, **{f"x{i}": i for i in range(3_000)})
    assert len(wrong) == 100
    assert "/x0" in wrong
    many: list[JsonObject] = [{"type": "NoTool", "name": f"t{i}"} for i in range(3_000)]
    assert len(wrong_fields(rules, tools=many)) == 100


async def test_an_agent_of_very_many_values_is_refused_before_it_is_read(rules: CallerRules) -> None:
    schema: JsonObject = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5_000)}}
    tool: JsonObject = {"type": "HttpRequestTool", "name": "t", "attributes": {"input_schema": schema}}
    with pytest.raises(InvalidRequestError, match="more than 10,000 values") as caught:
        read_agent("mine", {"model": MODEL, "tools": [tool]}, rules)
    assert (caught.value.status, caught.value.code) == (422, "invalid_agent")
