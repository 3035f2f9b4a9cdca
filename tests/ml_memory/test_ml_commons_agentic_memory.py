"""Agentic memory: whole turns are kept, and loaded back for whichever provider comes next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bedrock_server import bedrock_server, event, hello, message_stop, metadata, tool
from tests.ml_commons_scene import ml_gateway
from tests.openai_chat_server import chat_server, completion
from tests.running_gateway import run_body

PIXEL = "iVBORw0KGgo="
CLAUDE = {
    "model_id": "anthropic.claude-3-7-sonnet",
    "model_provider": "bedrock/converse",
    "region": "us-east-1",
    "credential": {"access_key": "AKIAEXAMPLE", "secret_key": "secret-of-the-memory-tests"},
}
GPT = {
    "model_id": "gpt-4o",
    "model_provider": "openai/v1/chat/completions",
    "credential": {"openai_api_key": "sk-of-the-memory-tests"},
}


async def test_a_turn_on_bedrock_with_tools_and_media_is_loaded_back_for_openai(tmp_path: Path) -> None:
    async with bedrock_server() as bedrock, chat_server() as openai, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(
            {
                "name": "a",
                "type": "conversational_v2",
                "model": {**CLAUDE, "endpoint": bedrock.url},
                "tools": [{"type": "ListIndexTool"}],
                "memory": {"type": "agentic_memory"},
            }
        )
        start = event("messageStart", role="assistant")
        called = tool(0, "tooluse_1", "ListIndexTool", "{}")
        bedrock.will_stream(start + called + message_stop("tool_use") + metadata())
        bedrock.will_stream(hello("A dot, and some indices"))
        image = {"type": "image", "source": {"type": "base64", "format": "png", "data": PIXEL}}
        asked = {"input": [{"type": "text", "text": "what is this, and what is there?"}, image]}
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", asked)
        assert status == 200, answer
        memory_id = answer["memory_id"]
        container_id = (await ml.call("GET", f"/agents/{agent_id}"))[1]["memory"]["memory_container_id"]

        working = f"/memory_containers/{container_id}/memories/working"
        search = {"query": {"term": {"session_id": memory_id}}, "sort": ["message_id"]}
        _, found = await ml.call("POST", f"{working}/_search", search)
        documents = [hit["_source"] for hit in found["hits"]["hits"]]
        messages: list[dict[str, Any]] = [each["structured_data_blob"]["message"] for each in documents]
        assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant"]
        assert [each["message_id"] for each in documents] == [0, 1, 2, 3]
        assert messages[0]["content"][1] == {
            "type": "IMAGE",
            "image": {"type": "BASE64", "format": "png", "data": PIXEL},
        }
        (call,) = messages[1]["toolCalls"]
        assert (call["function"]["name"], messages[2]["toolCallId"]) == ("ListIndexTool", call["id"])
        assert [each["metadata"]["input_type"] for each in documents] == ["CONTENT_BLOCKS"] + ["MESSAGES"] * 3
        assert {json.dumps(each["namespace"]) for each in documents} == {
            json.dumps({"agent_id": agent_id, "session_id": memory_id})
        }

        other = {"model": {**GPT, "endpoint": openai.endpoint}}
        status, answer = await ml.call("PUT", f"/agents/{agent_id}", other)
        assert status == 200, answer
        openai.answers(completion("Nothing else"))
        body = {"input": "anything else?", "parameters": {"memory_id": memory_id}}
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
        assert status == 200, answer
        sent = [each for each in openai.requests[0].json["messages"] if each["role"] != "system"]
        assert [each["role"] for each in sent] == ["user", "assistant", "tool", "assistant", "user"]
        assert sent[0]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
        assert sent[1]["tool_calls"][0]["function"]["name"] == "ListIndexTool"
        assert sent[2]["tool_call_id"] == sent[1]["tool_calls"][0]["id"]
        assert sent[3]["content"] == "A dot, and some indices"


TEXT_BLOCK = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("asked", "forms"),
    [
        ({"input": "hi"}, ["TEXT"]),
        ({"parameters": {"question": "hi"}}, ["TEXT"]),
        ({"input": [TEXT_BLOCK]}, ["CONTENT_BLOCKS"]),
        ({"input": [{"role": "user", "content": [TEXT_BLOCK]}]}, ["MESSAGES"]),
        ({"input": [{"role": "user", "id": "u1", "content": [TEXT_BLOCK] * 2, "metadata": {"a": 1}}]}, ["MESSAGES"]),
        (
            {"input": [{"role": role, "content": [TEXT_BLOCK]} for role in ("system", "assistant", "user")]},
            ["MESSAGES"] * 3,
        ),
    ],
)
async def test_the_input_type_is_the_form_of_the_executions_input(
    tmp_path: Path, asked: dict[str, Any], forms: list[str]
) -> None:
    async with chat_server() as openai, ml_gateway(tmp_path) as ml:
        model = {**GPT, "endpoint": openai.endpoint}
        agent_id = await ml.register({"name": "a", "type": "conversational/v2", "model": model, "tools": []})
        openai.answers(completion("Hello"))
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", asked)
        assert status == 200, answer
        container_id = (await ml.call("GET", f"/agents/{agent_id}"))[1]["memory"]["memory_container_id"]
        working = f"/memory_containers/{container_id}/memories/working"
        _, found = await ml.call("POST", f"{working}/_search", {"sort": ["message_id"]})
        documents = [hit["_source"] for hit in found["hits"]["hits"]]
        assert [each["metadata"]["input_type"] for each in documents] == [*forms, "MESSAGES"]

        first = found["hits"]["hits"][0]["_id"]
        change = {"messages": [{"role": documents[0]["metadata"]["role"], "content": "changed"}], "tags": {"a": "b"}}
        status, answer = await ml.call("PUT", f"{working}/{first}", change)
        assert status == 200, answer
        _, seen = await ml.call("GET", f"{working}/{first}")
        assert (seen["metadata"]["input_type"], seen["tags"]) == (forms[0], {"a": "b"})


async def test_what_ag_ui_said_is_loaded_back_for_an_execution(tmp_path: Path) -> None:
    async with chat_server() as openai, ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(
            {"name": "a", "type": "conversational/v2", "model": {**GPT, "endpoint": openai.endpoint}, "tools": []}
        )
        openai.answers(completion("Hello Ann"), completion("Ann"))
        await ml.gateway.client.run(agent_id, run_body("I am Ann", thread_id="t"))
        body = {"input": "who am I?", "parameters": {"memory_id": "t"}}
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
        assert status == 200, answer
        said = [each["content"] for each in openai.requests[1].json["messages"] if each["role"] != "system"]
        assert said == ["I am Ann", "Hello Ann", "who am I?"]


async def test_a_request_keeps_a_new_memory_in_another_container_of_its_caller(tmp_path: Path) -> None:
    async with chat_server() as openai, ml_gateway(tmp_path) as ml:
        model = {**GPT, "endpoint": openai.endpoint}
        agent_id = await ml.register({"name": "a", "type": "conversational/v2", "model": model, "tools": []})
        plain_id = await ml.register({"name": "b", "type": "conversational", "model": model, "tools": []})
        made = [(await ml.call("POST", "/memory_containers/_create", {"name": name}))[1] for name in ("one", "two")]
        one, two = (each["memory_container_id"] for each in made)
        openai.answers(completion("Hello Ann"))
        body = {"input": "I am Ann", "parameters": {"memory_container_id": one, "memory_id": "m"}}
        assert (await ml.call("POST", f"/agents/{agent_id}/_execute", body))[0] == 200
        _, found = await ml.call("GET", f"/memory_containers/{one}/memories/working/_search")
        assert len(found["hits"]["hits"]) == 2

        for agent, container_id, status in ((agent_id, two, 400), (agent_id, "nope", 404), (plain_id, one, 400)):
            body["parameters"] = {"memory_container_id": container_id, "memory_id": "m"}
            refused, answer = await ml.call("POST", f"/agents/{agent}/_execute", body)
            assert refused == status, answer
        assert len(openai.requests) == 1
