"""What agents that callers make may have: which providers and tools, and whose identity."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import yarl

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.model import ModelEnvironment, ModelProvider
from gateway.parts import collect
from gateway.tool import ToolType
from gateway.wire.endpoint_patterns import EndpointPattern

PROVIDERS = collect("models", ModelProvider)
BEDROCK = {"bedrock/converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/responses": "us.openai.gpt-5.6"}
# Where each provider's models are without an `endpoint`.
OWN_ENDPOINTS = {
    "openai/v1/chat/completions": ["https://api.openai.com/v1/chat/completions"],
    "openai/v1/responses": ["https://api.openai.com/v1/responses"],
    "anthropic/v1/messages": ["https://api.anthropic.com/v1/messages"],
    "gemini/v1beta/generatecontent": [
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"
    ],
    "bedrock/converse": [
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/x/converse-stream",
        "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/x/converse-stream",
    ],
    "bedrock/responses": [
        "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/responses",
        "https://bedrock-mantle.eu-west-1.api.aws/v1/responses",
    ],
}


@pytest.fixture
async def environment() -> AsyncGenerator[ModelEnvironment]:
    http = HttpClients(SystemClock(), endpoints=EndpointPolicy([]))
    yield ModelEnvironment(SystemClock(), http, own_identity=False)
    await http.close()


def test_all_providers_but_those_without_a_server_are_for_callers() -> None:
    assert {name for name, provider in PROVIDERS.items() if not provider.from_callers} == {"demo", "scripted"}


def test_tools_that_run_code_or_fetch_for_the_operator_are_not_for_callers() -> None:
    tools = {name for name, tool in collect("tools", ToolType).items() if tool.from_callers}
    searches = {"SearchIndexTool", "VectorDBTool", "NeuralSparseSearchTool", "PPLTool"}
    assert tools == {"ListIndexTool", "IndexMappingTool", *searches, "McpServer"}


def test_the_own_endpoints_of_every_provider_for_callers_are_known() -> None:
    assert {name for name, provider in PROVIDERS.items() if provider.endpoints} == OWN_ENDPOINTS.keys()


@pytest.mark.parametrize("name", OWN_ENDPOINTS)
def test_a_provider_is_reached_at_its_own_endpoint_and_nothing_else(name: str) -> None:
    patterns = [EndpointPattern.parse(pattern) for pattern in PROVIDERS[name].endpoints]
    for url in OWN_ENDPOINTS[name]:
        assert any(pattern.matches(yarl.URL(url)) for pattern in patterns)
        host = yarl.URL(url).raw_host or ""
        for other in (f"https://{host}.evil.test/", f"https://evil.test/{host}/", url.replace("https", "http")):
            assert not any(pattern.matches(yarl.URL(other)) for pattern in patterns)


@pytest.mark.parametrize("name", BEDROCK)
async def test_a_bedrock_model_of_callers_never_acts_as_the_process(
    name: str, environment: ModelEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "the-gateways-own")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-gateways-own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-gateways-own")
    with pytest.raises(ConfigurationError, match="needs a credential of its own"):
        PROVIDERS[name].open(ModelSettings(name, BEDROCK[name], region="us-east-1"), environment)


@pytest.mark.parametrize("name", BEDROCK)
@pytest.mark.parametrize("names", [("bedrock_api_key",), ("access_key", "secret_key")])
async def test_a_bedrock_model_of_callers_opens_with_a_credential_and_a_region(
    name: str, names: tuple[str, ...], environment: ModelEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    whole: dict[str, Any] = {"credential": {each: Secret("callers-own") for each in names}}
    with pytest.raises(ConfigurationError, match="needs a region"):
        PROVIDERS[name].open(ModelSettings(name, BEDROCK[name], **whole), environment)
    await PROVIDERS[name].open(ModelSettings(name, BEDROCK[name], region="us-east-1", **whole), environment).close()
