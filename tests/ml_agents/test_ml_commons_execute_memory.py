"""What executions leave on a memory, and what they find there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import bedrock_server as bedrock
from tests.bedrock_server import bedrock_server
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.ml_executions import ECHO, PNG, bedrock_model, executed, medium, openai_model, text
from tests.openai_chat_server import chat_server, completion


async def interactions(ml: MlGateway, memory_id: str) -> list[dict[str, Any]]:
    status, answer = await ml.call("GET", f"/memory/{memory_id}/messages")
    assert status == 200
    found: list[dict[str, Any]] = answer["messages"]
    return found


async def test_d9_the_memory_has_the_interaction_at_once(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        found = await executed(ml, "echo", {"parameters": {"question": "hello"}})
        (interaction,) = await interactions(ml, found["memory_id"])
    assert interaction["message_id"] == found["parent_interaction_id"]
    assert (interaction["input"], interaction["response"]) == ("hello", "you said hello")


async def test_c21_the_question_is_what_was_said_since_the_last_answer(tmp_path: Path) -> None:
    def said(*words: str) -> dict[str, Any]:
        return {"role": "user", "content": [text(each) for each in words]}

    async with ml_gateway(tmp_path, [ECHO]) as ml:
        answered = {"role": "assistant", "content": "b"}
        given = [said("a"), answered, said("First question"), said("Second question")]
        found = await executed(ml, "echo", {"input": given, "memory_id": "m"})
        _, last = await interactions(ml, "m")
        blocks = [text("First question."), text("Second question.")]
        await executed(ml, "echo", {"input": blocks, "memory_id": "n"})
        (of_blocks,) = await interactions(ml, "n")
    assert (last["message_id"], last["input"]) == (
        found["parent_interaction_id"],
        "First question\n\nSecond question\n",
    )
    assert of_blocks["input"] == "First question.\nSecond question.\n"


async def test_an_interaction_that_was_written_before_is_answered_once(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        _, memory = await ml.call("POST", "/memory", {"name": "n"})
        memory_id = memory["memory_id"]
        _, message = await ml.call("POST", f"/memory/{memory_id}/messages", {"input": "asked before"})
        interaction_id = message["message_id"]
        parameters = {"memory_id": memory_id, "parent_interaction_id": interaction_id, "question": "asked before"}
        found = await executed(ml, "echo", {"parameters": parameters})
        (interaction,) = await interactions(ml, memory_id)
        followed = await executed(ml, "echo", {"parameters": {**parameters, "question": "and then?"}})
        _, second = await interactions(ml, memory_id)
    assert found["parent_interaction_id"] == interaction["message_id"] == interaction_id
    assert interaction["response"] == "you said asked before"
    assert followed["parent_interaction_id"] == second["message_id"] != interaction_id
    assert (second["input"], second["response"]) == ("and then?", "you said and then?")


async def test_c27_an_agent_with_agentic_memory_has_a_container_and_answers(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(completion("hello"))
        body = {"name": "a", "type": "conversational/v2", "tools": [], "model": openai_model(server)}
        agent_id = await ml.register({**body, "memory": {"type": "agentic_memory"}})
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": "hi"})
    assert (status, answer["message"]["content"]) == (200, [{"text": "hello"}])


async def test_another_provider_goes_on_with_whole_turns(tmp_path: Path) -> None:
    """With its media, its calls and their results."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]
    given = [
        {"role": "user", "content": [text("look"), medium("image", "base64", "png", PNG)]},
        {"role": "assistant", "toolCalls": calls},
        {"role": "tool", "toolCallId": "c1", "content": "2"},
    ]
    async with chat_server() as chat, bedrock_server() as server, ml_gateway(tmp_path) as ml:
        chat.answers(completion("it is 2"))
        server.will_stream(bedrock.hello())
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        memory = {"type": "agentic_memory", "memory_container_id": "c"}
        registered = [
            await ml.register({"name": "a", "type": "conversational_v2", "tools": [], "model": model, "memory": memory})
            for model in (openai_model(chat), bedrock_model(server))
        ]
        for agent_id, asked in zip(registered, (given, "go on"), strict=True):
            status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": asked, "memory_id": "m"})
            assert status == 200, answer
        asked_first, called, result, *_ = server.requests[0].json["messages"]
    assert asked_first["content"][1] == {"image": {"format": "png", "source": {"bytes": PNG}}}
    assert called["content"] == [{"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 2}}}]
    assert result["content"][0]["toolResult"]["content"] == [{"text": "2"}]
