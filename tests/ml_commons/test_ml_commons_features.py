"""What is refused where a feature of ml-commons is turned off, by the configuration or by a caller's setting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.running_gateway import run_body

REGISTRATION = {
    "name": "a",
    "model": {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": "http://127.0.0.1:9/v1"},
}
SETTING = "plugins.ml_commons."


async def refused(ml: MlGateway, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the reason, in OpenSearch's form, of what is refused."""
    status, answer = await ml.call(method, path, body)
    assert answer["status"] == status
    assert answer["error"]["root_cause"][0]["reason"] == answer["error"]["reason"]
    assert answer["error"]["type"] != "security_exception"  # it is not the caller that lacks something
    return status, answer["error"]["reason"]


async def turn(ml: MlGateway, feature: str, *, on: bool) -> None:
    answer = await ml.http.put("/_cluster/settings", json={"transient": {SETTING + feature: on}})
    assert answer.status_code == 200


async def test_c3_standardized_input_needs_the_unified_agent_api(tmp_path: Path) -> None:
    said = (
        "Standardized input cannot be used if unified agent API is not enabled. The agent must be created using unified"
        " agent API. To enable, please update the setting plugins.ml_commons.unified_agent_api_enabled"
    )
    async with ml_gateway(tmp_path) as ml:
        execute = "/agents/configured/_execute"
        assert (await ml.call("POST", execute, {"input": "hi"}))[0] == 200
        await turn(ml, "unified_agent_api_enabled", on=False)
        assert await refused(ml, "POST", execute, {"input": "hi"}) == (400, said)
        assert (await ml.call("POST", execute, {"parameters": {"question": "hi"}}))[0] == 200
        assert await refused(ml, "POST", "/agents/_register", REGISTRATION) == (
            400,
            "Unified agent API is not enabled. To enable, please update the setting "
            "plugins.ml_commons.unified_agent_api_enabled",
        )
        await turn(ml, "unified_agent_api_enabled", on=True)
        assert (await ml.call("POST", execute, {"input": "hi"}))[0] == 200


FRAMEWORK = (
    "Agent Framework is currently disabled. To enable it, update the setting "
    '"plugins.ml_commons.agent_framework_enabled" to true.'
)
STREAMING = (
    'Streaming is currently disabled. To enable it, update the setting "plugins.ml_commons.stream_enabled" to true.'
)
AG_UI = "The AG-UI agent feature is not enabled. To enable, please update the setting plugins.ml_commons.ag_ui_enabled"
MEMORY = (
    "The Conversation Memory feature is not enabled. To enable, please update the setting "
    "plugins.ml_commons.memory_feature_enabled"
)
AGENTIC = (
    "The Agentic Memory APIs are not enabled. To enable, please update the setting "
    "plugins.ml_commons.agentic_memory_enabled"
)
RETENTION = (
    "The memory retention feature is not enabled. To enable, please update the setting "
    "plugins.ml_commons.memory.retention_enabled"
)
AG_UI_INPUT = run_body("hi")
CLOSED: list[tuple[str, str, list[tuple[str, str, Mapping[str, Any] | None]]]] = [
    (
        "agent_framework_enabled",
        FRAMEWORK,
        [
            ("POST", "/agents/_register", REGISTRATION),
            ("GET", "/agents/_search", None),
            ("GET", "/agents/configured", None),
            ("PUT", "/agents/configured", {"name": "b"}),
            ("DELETE", "/agents/configured", None),
            ("POST", "/agents/configured/_execute", {"input": "hi"}),
            ("POST", "/agents/configured/_execute/", {"input": "hi"}),
            ("POST", "/agents/configured/_execute/stream", {"input": "hi"}),
        ],
    ),
    ("stream_enabled", STREAMING, [("POST", "/agents/configured/_execute/stream", {"input": "hi"})]),
    ("ag_ui_enabled", AG_UI, [("POST", "/agents/configured/_execute", AG_UI_INPUT)]),
    (
        "memory_feature_enabled",
        MEMORY,
        [
            ("POST", "/memory", {"name": "m"}),
            ("GET", "/memory", None),
            ("GET", "/memory/m/messages", None),
            ("GET", "/memory/message/m", None),
        ],
    ),
    (
        "agentic_memory_enabled",
        AGENTIC,
        [
            ("POST", "/memory_containers/_create", {"name": "c"}),
            ("GET", "/memory_containers/c", None),
            ("POST", "/memory_containers/c/memories", {}),
        ],
    ),
    (
        "memory.retention_enabled",
        RETENTION,
        [
            ("POST", "/memory_containers/_create", {"name": "c", "configuration": {"retention_policy": {}}}),
            ("PUT", "/memory_containers/there", {"configuration": {"retention_policy": {}}}),
            ("POST", "/memory_containers/there/memories/sessions", {"pinned": True}),
        ],
    ),
]


@pytest.mark.parametrize(("feature", "said", "requests"), CLOSED, ids=[each[0] for each in CLOSED])
async def test_what_is_turned_off_is_refused_and_names_its_setting(
    tmp_path: Path, feature: str, said: str, requests: list[tuple[str, str, Mapping[str, Any] | None]]
) -> None:
    async with ml_gateway(tmp_path) as ml:
        container = {"name": "c", "memory_container_id": "there"}
        assert (await ml.call("POST", "/memory_containers/_create", container))[0] == 200
        await turn(ml, feature, on=False)
        for method, path, body in requests:
            assert await refused(ml, method, path, body) == (403, said), (method, path)


MCP = "The MCP connector is not enabled. To enable, please update the setting plugins.ml_commons.mcp_connector_enabled"
REMOTE = (
    "Remote Inference is currently disabled. To enable it, update the setting "
    '"plugins.ml_commons.remote_inference.enabled" to true.'
)


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [{"type": "McpServer", "name": "m", "parameters": {"url": "http://127.0.0.1:9/mcp"}}]},
        {"tools": [{"type": "McpStreamableHttpTool", "name": "m", "url": "http://127.0.0.1:9/mcp"}]},
        {"parameters": {"mcp_connectors": [{"mcp_connector_id": "c"}]}},
    ],
)
async def test_without_mcp_connectors_no_agent_gets_an_mcp_server(tmp_path: Path, asked: Mapping[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        plain = await ml.register({**REGISTRATION, "tools": []})
        await turn(ml, "mcp_connector_enabled", on=False)
        assert await refused(ml, "POST", "/agents/_register", {**REGISTRATION, **asked}) == (403, MCP)
        assert await refused(ml, "PUT", f"/agents/{plain}", asked) == (403, MCP)
        assert (await ml.call("POST", "/agents/_register", {**REGISTRATION, "tools": []}))[0] == 200
        assert (await ml.call("POST", "/agents/configured/_execute", {"input": "hi"}))[0] == 200


async def test_without_mcp_connectors_no_agent_with_an_mcp_server_is_executed(tmp_path: Path) -> None:
    mcp = {"type": "McpServer", "name": "m", "parameters": {"url": "http://127.0.0.1:9/mcp"}}
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register({**REGISTRATION, "tools": [mcp]})
        await turn(ml, "mcp_connector_enabled", on=False)
        execute = f"/agents/{agent_id}/_execute"
        for path in (execute, f"{execute}?async=true", f"{execute}/stream"):
            assert await refused(ml, "POST", path, {"input": "hi"}) == (403, MCP)
        status, answer = await ml.call("POST", f"{execute}/stream", AG_UI_INPUT)
        assert (status, answer["detail"]) == (403, MCP)


async def test_without_remote_inference_no_agent_is_registered_with_a_model_or_executed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register({**REGISTRATION, "tools": []})
        await turn(ml, "remote_inference.enabled", on=False)
        assert await refused(ml, "POST", "/agents/_register", REGISTRATION) == (400, REMOTE)
        assert await refused(ml, "PUT", f"/agents/{agent_id}", {"model": {"model_id": "n"}}) == (400, REMOTE)
        for path in ("/agents/configured/_execute", f"/agents/{agent_id}/_execute/stream"):
            assert await refused(ml, "POST", path, {"parameters": {"question": "hi"}}) == (400, REMOTE)
        status, answer = await ml.call("POST", "/agents/configured/_execute/stream", AG_UI_INPUT)
        assert (status, answer["detail"]) == (400, REMOTE)
        frames = await ml.gateway.client.run("configured", AG_UI_INPUT)
        assert frames[-1].type == "RUN_FINISHED"
        assert (await ml.call("GET", f"/agents/{agent_id}"))[0] == 200


async def test_the_file_turns_features_off(tmp_path: Path) -> None:
    off = {"stream_enabled": False, "memory": {"retention_enabled": False}}
    async with ml_gateway(tmp_path, sections={"ml_commons": off}) as ml:
        execute = "/agents/configured/_execute"
        assert await refused(ml, "POST", execute + "/stream", {"input": "hi"}) == (403, STREAMING)
        body = {"name": "c", "configuration": {"retention_policy": {}}}
        assert await refused(ml, "POST", "/memory_containers/_create", body) == (403, RETENTION)
        assert (await ml.call("POST", execute, {"input": "hi"}))[0] == 200
    off = {"mcp_connector_enabled": False, "remote_inference": {"enabled": False}}
    async with ml_gateway(tmp_path, sections={"ml_commons": off}) as ml:
        connectors = {"name": "a", "parameters": {"mcp_connectors": []}}
        assert await refused(ml, "POST", "/agents/_register", connectors) == (403, MCP)
        assert await refused(ml, "POST", execute, {"input": "hi"}) == (400, REMOTE)


async def test_ag_ui_input_on_the_stream_is_refused_and_ag_ui_itself_is_not(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await turn(ml, "ag_ui_enabled", on=False)
        assert await refused(ml, "POST", "/agents/configured/_execute/stream", AG_UI_INPUT) == (403, AG_UI)
        frames = await ml.gateway.client.run("configured", AG_UI_INPUT)
        assert frames[-1].type == "RUN_FINISHED"


async def test_a_body_that_the_settings_call_too_large_is_refused(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        execute = "/agents/configured/_execute"
        assert (
            await ml.http.put("/_cluster/settings", json={"transient": {SETTING + "max_json_size": 100}})
        ).is_success
        assert (await ml.call("POST", execute, {"input": "hi"}))[0] == 200
        status, answer = await ml.call("POST", execute, {"input": "h" * 100})
        assert status == 400
        error = answer["error"]
        said = error.get("details") or error["reason"]
        assert said.startswith("JSON string size exceeds maximum allowed size (100 bytes)")
        unbounded = {"transient": {SETTING + "max_json_size": -1, SETTING + "only_run_on_ml_node": False}}
        assert len(json.dumps(unbounded)) > 100
        assert (await ml.http.put("/_cluster/settings", json=unbounded)).is_success
        assert (await ml.call("POST", execute, {"input": "h" * 100}))[0] == 200


@pytest.mark.parametrize(
    "path", ["/tools", "/agents/_search", "/memory", "/memory_containers/_search", "/tasks/_search"]
)
async def test_a_slash_at_the_end_of_a_path_changes_nothing(tmp_path: Path, path: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        plain, with_slash = await ml.http.get(P + path), await ml.http.get(f"{P}{path}/")
    assert (plain.status_code, with_slash.status_code) == (200, 200)
