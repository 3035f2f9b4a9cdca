"""What a chat completion asks for, as the model behind the agent is asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chat_scene import WEATHER, chat_gateway
from tests.fault_scenes import upstream_agent
from tests.openai_chat_server import chat_server, completion

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
HELLO = {"role": "user", "content": "hello"}
PDF = "data:application/pdf;base64,JVBERi0x"
PNG = "data:image/png;base64,iVBORw0KGgo="


async def sent_for(directory: Path, body: dict[str, Any], **agent: Any) -> dict[str, Any]:
    """What the model is sent for a request."""
    async with chat_server() as upstream:
        upstream.answers(completion("fine"))
        async with chat_gateway(directory, [upstream_agent(upstream, "helper", **agent)]) as scene:
            answer = await scene.post({"model": "helper", "messages": [HELLO], **body})
            assert answer.status_code == 200, answer.text
        asked: dict[str, Any] = upstream.requests[0].json
        return asked


async def test_every_option_reaches_the_model(tmp_path: Path) -> None:
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "parallel_tool_calls": False,
        "response_format": FORMAT,
        "reasoning_effort": "low",
    }
    choice = {"type": "function", "function": {"name": "weather"}}
    asked = await sent_for(tmp_path, {**options, "max_tokens": 99, "tools": [WEATHER], "tool_choice": choice})

    assert {name: asked[name] for name in options} == options
    assert 99 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    assert asked["tool_choice"] == choice
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["weather"]


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_a_choice_among_the_client_s_tools_reaches_the_model(tmp_path: Path, choice: str) -> None:
    asked = await sent_for(tmp_path, {"tools": [WEATHER], "tool_choice": choice})

    if choice == "none":
        assert "tools" not in asked
    else:
        assert asked.get("tool_choice", "auto") == choice


async def test_a_person_s_media_reach_the_model(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    ]
    asked = await sent_for(tmp_path, {"messages": [{"role": "user", "content": parts}]})

    assert asked["messages"][-1]["content"] == parts


async def test_instructions_obey_the_operator(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "be brief"}, HELLO]
    shown = await sent_for(tmp_path, {"messages": messages})
    hidden = await sent_for(tmp_path, {"messages": messages}, client_instructions={"keys": "ignore"})

    assert [message["content"] for message in shown["messages"]] == ["be brief", "hello"]
    assert [message["content"] for message in hidden["messages"]] == ["hello"]


async def test_calls_and_results_reach_the_model_as_they_were_sent(tmp_path: Path) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    messages = [
        HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "rain"}]},
        {"role": "assistant", "content": "It rains.", "reasoning_content": "hm"},
        {"role": "user", "content": "thanks"},
    ]
    asked = await sent_for(tmp_path, {"messages": messages, "tools": [WEATHER]})

    assert asked["messages"] == [
        HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "thanks"},
    ]
