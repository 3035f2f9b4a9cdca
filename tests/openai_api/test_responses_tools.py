"""Functions in namespaces, and tools that are no functions, as Codex sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.responses_scene import ADD, output, responses_gateway, text_of, user
from tests.running_gateway import agent, scripted

SKIES: dict[str, Any] = {
    "type": "namespace",
    "name": "mcp__skies",
    "description": "Tools in the mcp__skies namespace.",
    "tools": [{"type": "function", "name": "forecast", "strict": False, "parameters": {"type": "object"}}],
}
SEARCH: dict[str, Any] = {"type": "web_search", "external_web_access": False}
PATCH: dict[str, Any] = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
LEFT_OUT = "x-agui-gateway-left-out"
CODER = agent(
    "coder",
    scripted([{"tool": "mcp__skies__forecast", "arguments": {"city": "Rome"}}], [{"text": "It is {{result}}."}]),
)
CALLED = {"type": "function_call", "namespace": "mcp__skies", "name": "forecast", "arguments": '{"city":"Rome"}'}


def members(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item.get(name) for name in CALLED}


async def test_a_function_of_a_namespace_is_called_and_answered_by_both_of_its_names(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path, [CODER]) as scene:
        asked = await scene.create(model="coder", input="weather?", tools=[SKIES])
        [call] = asked["output"]
        replayed = {name: value for name, value in call.items() if name != "id"}
        items = [user("weather?"), replayed, output(call["call_id"], "fine")]
        answer = await scene.create(model="coder", input=items, tools=[SKIES])
        alone = await scene.create(
            model="coder", input=[user("weather?"), {**CALLED, "call_id": "c1"}, output("c1", "new")], tools=[SKIES]
        )
        stored = [await scene.stored(each["conversation"]["id"]) for each in (asked, alone)]
        got = (await scene.http.get(f"/v1/responses/{asked['id']}")).json()

    assert members(call) == CALLED
    assert (text_of(answer), text_of(alone)) == ("It is fine.", "It is new.")
    assert got["output"] == [call]
    for messages in stored:
        assert messages[1]["toolCalls"][0]["function"]["name"] == "mcp__skies__forecast"


async def test_a_stream_shows_a_function_of_a_namespace_by_both_of_its_names(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path, [CODER]) as scene:
        answer = await scene.post({"model": "coder", "input": "weather?", "tools": [SKIES], "stream": True})
        again = await scene.http.get(f"/v1/responses/{answer.headers['x-run-id']}?stream=true")

    frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    [done] = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
    [written] = [frame for frame in frames if frame["type"] == "response.function_call_arguments.done"]
    assert members(done) == CALLED
    assert (frames[-1]["response"]["output"], written["name"]) == ([done], "forecast")
    assert again.text == answer.text


async def test_a_function_of_a_namespace_is_not_the_agents_tool_of_that_name(tmp_path: Path) -> None:
    calls = [{"tool": "my__add", "arguments": {"a": 2, "b": 3}}]
    adder = agent("adder", scripted(calls, [{"text": "It is {{result}}."}]), tools=[{**ADD, "name": "my__add"}])
    mine = {"type": "namespace", "name": "my", "tools": [{"type": "function", "name": "add"}]}
    async with responses_gateway(tmp_path, [adder]) as scene:
        answer = await scene.create(model="adder", input="sum", tools=[mine])
        forced = {"type": "function", "namespace": "my", "name": "add"}
        theirs = await scene.post({"model": "adder", "input": "sum", "tools": [mine], "tool_choice": forced})

    assert text_of(answer) == "It is 5.0."
    assert theirs.status_code == 200, "the function is there, by a name of its own"


async def test_tools_that_are_no_functions_are_left_out_and_told(tmp_path: Path) -> None:
    tools = [SEARCH, PATCH, SKIES]
    async with responses_gateway(tmp_path, [CODER]) as scene:
        told = await scene.post({"model": "coder", "input": "weather?", "tools": tools})
        streamed = await scene.post({"model": "coder", "input": "weather?", "tools": tools, "stream": True})
        plain = await scene.post({"model": "coder", "input": "weather?", "tools": [SKIES]})
        chat = {"model": "coder", "messages": [user("weather?")], "tools": [SEARCH, SKIES]}
        chats = [
            await scene.http.post("/v1/chat/completions", json={**chat, "stream": stream}) for stream in (False, True)
        ]

    assert [answer.headers.get(LEFT_OUT) for answer in (told, streamed)] == ["web_search, custom apply_patch"] * 2
    assert LEFT_OUT not in plain.headers
    assert [answer.headers.get(LEFT_OUT) for answer in chats] == ["web_search, namespace mcp__skies"] * 2


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [SEARCH], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a.example"}]}, "tools[0].type"),
    ],
)
async def test_what_would_change_the_answer_is_not_left_out(tmp_path: Path, body: dict[str, Any], param: str) -> None:
    async with responses_gateway(tmp_path, [CODER]) as scene:
        error = await scene.error(400, model="coder", input="weather?", **body)

    assert error["param"] == param


async def test_names_of_tools_that_no_header_can_have_are_told_safely(tmp_path: Path) -> None:
    tools = [{"type": "custom", "name": name} for name in ("a\r\nx-evil: 1", "名" * 500, *map(str, range(50)))]
    async with responses_gateway(tmp_path, [CODER]) as scene:
        answer = await scene.post({"model": "coder", "input": "weather?", "tools": tools})

    assert answer.status_code == 200
    assert "x-evil" not in answer.headers
    assert answer.headers[LEFT_OUT].startswith("custom a%0D%0Ax-evil%3A 1, ")
    assert len(answer.headers[LEFT_OUT]) < 3_000
