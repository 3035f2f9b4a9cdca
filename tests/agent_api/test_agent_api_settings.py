"""What an operator decides of the Agent API: what is shown, which models may be asked for, who gets it at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.agent_api.mcp_servers import listed_servers
from gateway.messages import ToolSpec
from tests.agent_api_scene import AgentApiScene, Frame, agent_api_gateway, check_error, frames_of, said
from tests.mcp_http_demo import DEMO
from tests.openai_chat_server import chat_server, completion
from tests.running_gateway import agent, scripted

MCP = {
    "type": "McpServer",
    "name": "demo",
    "parameters": {"command": sys.executable, "args": [DEMO, "stdio"], "include": ["add"], "first_wait_seconds": 30},
}
ADDER = agent(
    "adder", scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": "It is {{result}}."}]), tools=[MCP]
)
HANGING = agent("hanging", scripted([{"text": "a"}, {"hang": True}]))


def protocol(**settings: Any) -> dict[str, Any]:
    return {"sections": {"protocols": {"agent_api": settings}}}


def types_of(response: Frame) -> list[str]:
    return [each["type"] for each in response["output"]]


async def test_a_sessions_first_response_lists_the_tools_of_mcp_servers(tmp_path: Path) -> None:
    async with agent_api_gateway(tmp_path, [ADDER]) as scene:
        frames = await scene.stream("2+3", session_id="s1", response_id="r1")
        (listed,) = (each for each in frames[-1]["output"] if each["type"] == "mcp_list_tools")
        data = listed["content"][0]["data"]
        assert data["server_label"] == "demo"
        assert [tool["name"] for tool in data["tools"]] == ["add"]
        assert data["tools"][0]["input_schema"]["type"] == "object"
        assert frames[2]["type"] == "mcp_list_tools"
        assert types_of(frames[-1])[1:] == ["mcp_call", "mcp_call_output", "message"]
        call = frames[-1]["output"][1]["content"][0]["data"]
        assert (call["server_label"], call["name"]) == ("demo", "add")
        again = await scene.http.get("/process/r1")
        assert frames_of(again.content) == frames
        assert "mcp_list_tools" not in types_of(await scene.whole("2+3", session_id="s1"))


@pytest.mark.parametrize("hidden", ["mcp_list_tools", "backend_tools"])
async def test_the_operator_may_hide_tools(tmp_path: Path, hidden: str) -> None:
    settings: dict[str, Any] = {"mcp_list_tools": False, "backend_tools": "shown"}
    if hidden == "backend_tools":
        settings = {"mcp_list_tools": False, "backend_tools": "hidden"}
    async with agent_api_gateway(tmp_path, [ADDER], **protocol(**settings)) as scene:
        shown = types_of(await scene.whole("2+3"))
    assert shown == (["message"] if hidden == "backend_tools" else ["mcp_call", "mcp_call_output", "message"])


def test_the_list_of_tools_is_bounded() -> None:
    many = [ToolSpec(f"tool_{number}", "d" * 2_000, {"type": "object"}, server="s") for number in range(5_000)]
    for count, fewer in ((20, 20), (1_000, 1_000), (5_000, 1_500)):
        (server,) = listed_servers([*many[:count], ToolSpec("own", "", {})])
        tools: Any = server["tools"]
        assert fewer <= len(tools) <= count
        assert len(str(tools)) < 100_000
    assert listed_servers([ToolSpec("own", "", {})]) == ()


@pytest.mark.parametrize("heartbeat", ["comment", "message"])
async def test_silence_is_filled_as_the_operator_says(tmp_path: Path, heartbeat: str) -> None:
    expected = {
        "comment": b": keep-alive\n\n",
        "message": b'data: {"object":"message","type":"heartbeat","status":"in_progress"}\n\n',
    }
    more = {**protocol(heartbeat=heartbeat), "server": {"heartbeat_seconds": 0.1}}
    async with agent_api_gateway(tmp_path, [HANGING], **more) as scene:
        body = {"input": [said("hi")], "response_id": "r1"}
        async with scene.http.stream("POST", "/process", json=body) as stream:
            read, chunks = b"", stream.aiter_bytes()
            while not (b'"text":"a"' in read and read.endswith(expected[heartbeat] * 2)):
                read += await anext(chunks)
            await scene.http.post("/process/r1/cancel")
            rest = b"".join([chunk async for chunk in chunks])
        numbered = [each for each in frames_of(read + rest) if "sequence_number" in each]
        assert [each["sequence_number"] for each in numbered] == [*range(len(numbered))]
        again = await scene.http.get("/process/r1")
        assert frames_of(again.content) == numbered


async def test_a_request_gets_another_model_where_the_agent_allows_it(tmp_path: Path) -> None:
    async with chat_server() as server:
        model = {
            "model_provider": "openai/v1/chat/completions",
            "endpoint": server.endpoint,
            "credential": {"openai_api_key": "sk-1234567890"},
            "model_id": "small",
        }
        async with agent_api_gateway(tmp_path, [agent("a", model, allow_models=["large"])]) as scene:
            server.answers(*(completion("hi") for _ in range(3)))
            parameters: dict[str, Any] = {
                "temperature": 0.25,
                "top_p": 0.5,
                "max_tokens": 7,
                "stop": ["END"],
                "seed": 3,
            }
            allowed = await scene.whole("hi", model="large", **parameters)
            own = await scene.whole("hi", model="small")
            ignored = await scene.whole("hi", model="huge")
            assert [each.json["model"] for each in server.requests] == ["large", "small", "small"]
            sent = server.requests[0].json
            assert {name: sent.get(name) for name in ("temperature", "top_p", "stop", "seed")} == {
                name: parameters[name] for name in ("temperature", "top_p", "stop", "seed")
            }
            assert 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert "metadata" not in allowed
    assert "metadata" not in own
    assert ["'huge'" in each for each in ignored["metadata"]["warnings"]] == [True]


async def test_the_protocol_can_be_turned_off(tmp_path: Path) -> None:
    async with agent_api_gateway(tmp_path, sections={"protocols": {"agent_api": False}}) as scene:
        assert (await scene.post({"input": [said("hi")]})).status_code == 404
        assert "/process" not in (await scene.gateway.client.get("/openapi.json"))["paths"]


KEYS = {"alice": "alice-key-of-the-tests", "bob": "bob-key-of-the-tests", "off": "off-key-of-the-tests"}


async def asked(scene: AgentApiScene, who: str, method: str, path: str, body: Any = None) -> Any:
    return await scene.http.request(method, path, json=body, headers={"authorization": f"Bearer {KEYS[who]}"})


async def test_each_key_has_responses_of_its_own(tmp_path: Path) -> None:
    keys = [{"name": name, "key": key} for name, key in KEYS.items()]
    keys[2]["protocols"] = {"agent_api": False}  # type: ignore[assignment]
    words = agent("words", scripted([{"text": "hi"}]))
    async with agent_api_gateway(tmp_path, [words], server={"api_keys": keys}) as scene:
        body = {"input": [said("hi")], "response_id": "r1", "session_id": "s1", "stream": False}
        assert (await asked(scene, "alice", "POST", "/process", body)).status_code == 200
        unknown = await asked(scene, "bob", "GET", "/process/r1?stream=false")
        check_error(unknown)
        assert unknown.status_code == 404
        assert (await asked(scene, "bob", "POST", "/process", body)).json()["session_id"] == "s1"
        off = await asked(scene, "off", "POST", "/process", body)
        check_error(off)
        assert (off.status_code, off.json()["code"]) == (403, "protocol_not_allowed")
        nobody = await scene.post(body)
        check_error(nobody)
        assert nobody.status_code == 401
