"""Registered agents on `_execute/stream`: each type, each provider, and one thread that is seen from all sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import bedrock_server as bedrock
from tests.bedrock_server import bedrock_server
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import PNG, bedrock_model, gemini_answer, gemini_model, medium, openai_model, tensors, text
from tests.openai_chat_server import chat_server, completion
from tests.openai_chat_server import error as refusal
from tests.running_gateway import parse_frames, run_body

KINDS = ("conversational", "ag_ui", "conversational_v2")
LOOK = [text("look"), medium("image", "base64", "png", PNG)]


async def registered(ml: MlGateway, model: Mapping[str, Any], type: str = "conversational_v2") -> str:
    return await ml.register({"name": "a", "type": type, "tools": [], "model": model})


async def streamed(ml: MlGateway, agent_id: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tensors of each chunk by name."""
    answer = await ml.http.post(f"{P}/agents/{agent_id}/_execute/stream", json=dict(body))
    assert answer.status_code == 200, answer.text
    told = [json.loads(each.removeprefix("data: ")) for each in answer.text.strip().split("\n\n")]
    return [tensors(one) for one in told]


def said(chunks: list[dict[str, Any]]) -> str:
    return "".join(each["response"]["content"] for each in chunks)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_type_of_agent_streams_on_openai(kind: str, tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(completion("He", "llo"))
        chunks = await streamed(ml, await registered(ml, openai_model(server), kind), {"input": LOOK})
    assert said(chunks) == "Hello"
    last = {"content": "", "is_last": True}
    assert chunks[-1]["response"] == ({**last, "stop_reason": "end_turn"} if kind == "conversational_v2" else last)
    assert server.requests[0].json["messages"][-1]["content"][1]["type"] == "image_url"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_type_of_agent_streams_on_bedrock(kind: str, tmp_path: Path) -> None:
    async with bedrock_server() as server, ml_gateway(tmp_path) as ml:
        start = bedrock.event("messageStart", role="assistant")
        server.will_stream(
            start + bedrock.text("He") + bedrock.text("llo") + bedrock.block_stop() + bedrock.message_stop()
        )
        chunks = await streamed(ml, await registered(ml, bedrock_model(server), kind), {"input": LOOK})
    assert said(chunks) == "Hello"
    (message,) = server.requests[0].json["messages"]
    assert message["content"][1] == {"image": {"format": "png", "source": {"bytes": PNG}}}


async def test_an_agent_streams_on_gemini(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(gemini_answer("Hello"))
        chunks = await streamed(ml, await registered(ml, gemini_model(server)), {"input": LOOK})
    assert said(chunks) == "Hello"


async def test_one_thread_goes_on_from_stream_to_execution_to_ag_ui(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        agent_id = await registered(ml, openai_model(server))
        server.answers(*(completion(each) for each in ("one", "two", "three", "four")))
        memory_id = (await streamed(ml, agent_id, {"input": "first"}))[0]["memory_id"]
        memory = {"memory_id": memory_id}
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": "second", **memory})
        assert (status, answer["memory_id"]) == (200, memory_id)
        path = f"{P}/agents/{agent_id}/_execute/stream"
        connected = await ml.http.post(path, json=run_body(messages=[], thread_id=memory_id, run_id="r1"))
        (shown,) = [each.data for each in parse_frames(connected.content) if each.type == "MESSAGES_SNAPSHOT"]
        history = [*shown["messages"], {"id": "u3", "role": "user", "content": "third"}]
        run = await ml.http.post(path, json=run_body(messages=history, thread_id=memory_id, run_id="r2"))
        assert parse_frames(run.content)[-1].type == "RUN_FINISHED"
        assert said(await streamed(ml, agent_id, {"input": "fourth", "parameters": memory})) == "four"
    heard = [each["content"] for each in server.requests[-1].json["messages"]]
    assert heard == ["first", "one", "second", "two", "third", "three", "fourth"]


async def test_c25_what_the_provider_of_a_callers_own_model_said_is_in_the_last_frame(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(*[refusal(429, "slow")] * 5)
        agent_id = await registered(ml, openai_model(server))
        answer = await ml.http.post(f"{P}/agents/{agent_id}/_execute/stream", json={"input": "hi"})
    (frame,) = [json.loads(each.removeprefix("data: ")) for each in answer.text.strip().split("\n\n")]
    assert frame["error"].startswith("Error from remote service: ")
    assert "slow" in frame["error"]
