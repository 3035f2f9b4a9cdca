"""ml-commons' `_execute/stream` over HTTP, in its own chunks. By the rows of the cases."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.case_tools import python_tool
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import ECHO, tensors
from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.openai_chat_server import error as refusal
from tests.running_gateway import agent, scripted
from tests.waiting import until_answered

HELLO = agent("hello", scripted([{"text": "Hello", "chunk_characters": 2}]))
ADDER = agent(
    "adder",
    scripted(
        [{"reasoning": "A sum."}, {"text": "Let me see."}, {"tool": "add", "arguments": {"a": 2, "b": 3}}],
        [{"text": "It is 5."}],
    ),
    tools=[python_tool("add")],
)
FAILING = agent(
    "failing",
    scripted([{"text": "So far"}, {"error": "invalid", "message": 'line\\nline "quoted"'}]),
    parameters={"model_attempts": 1},
)
FRAME = re.compile(rb"data: ([^\r\n]+)\n\n")


@pytest_asyncio.fixture
async def ml(tmp_path: Path) -> AsyncGenerator[MlGateway]:
    async with ml_gateway(tmp_path, [HELLO, ECHO, ADDER, FAILING]) as scene:
        yield scene


def path_of(agent_id: str) -> str:
    return f"{P}/agents/{agent_id}/_execute/stream"


def parsed(content: bytes) -> list[dict[str, Any]]:
    """The frames of a stream, which is nothing but `data:` lines with a JSON object each, framed with LF."""
    frames = FRAME.findall(content)
    assert b"".join(b"data: %b\n\n" % frame for frame in frames) == content
    return [json.loads(frame) for frame in frames]


async def streamed(ml: MlGateway, agent_id: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    answer = await ml.http.post(path_of(agent_id), json=body)
    assert answer.status_code == 200, answer.text
    return parsed(answer.content)


def outputs(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tensors of each frame by name."""
    return [tensors(frame) for frame in frames]


def contents(frames: list[dict[str, Any]]) -> list[str]:
    return [output["response"]["content"] for output in outputs(frames)]


def last_response(frames: list[dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = outputs(frames)[-1]["response"]
    return response


def chat_agent(server: ChatServer, **more: Any) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
    return agent("chat", {**model, "credential": {"openai_api_key": "sk-test"}}, **more)


async def test_g7_every_frame_names_the_memory_and_the_interaction(ml: MlGateway) -> None:
    answer = await ml.http.post(path_of("hello"), json={"parameters": {"question": "hi"}})
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = parsed(answer.content)
    assert contents(frames) == ["He", "ll", "o", ""]
    memory_id, interaction_id = outputs(frames)[0]["memory_id"], outputs(frames)[0]["parent_interaction_id"]
    assert len(memory_id) == 20
    for place, output in enumerate(outputs(frames)):
        assert list(output) == ["memory_id", "parent_interaction_id", "response"]
        assert (output["memory_id"], output["parent_interaction_id"]) == (memory_id, interaction_id)
        assert output["response"]["is_last"] is (place == len(frames) - 1)
    assert last_response(frames) == {"content": "", "is_last": True}
    page = await ml.gateway.client.get(f"/threads/{memory_id}/messages")
    assert page["messages"][0]["id"] == interaction_id


async def test_a_frame_is_written_byte_for_byte_as_ml_commons_writes_it(ml: MlGateway) -> None:
    answer = await ml.http.post(path_of("echo"), json={"input": "\n\u2028\U0001f440", "memory_id": 'm"1'})
    assert answer.content.split(b"\n\n")[0] == (
        b'data: {"inference_results":[{"output":[{"name":"memory_id","result":"m\\"1"},'
        b'{"name":"parent_interaction_id","result":"%b"},{"name":"response",'
        b'"dataAsMap":{"content":"%b","is_last":false}}]}]}'
        % (
            outputs(parsed(answer.content))[0]["parent_interaction_id"].encode(),
            "you said \\n\u2028\U0001f440".encode(),
        )
    )


@pytest.mark.parametrize(
    "given",
    [
        "hi",
        [{"type": "text", "text": "hi"}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    ],
    ids=["text", "blocks", "messages"],
)
async def test_every_form_of_input_is_streamed(ml: MlGateway, given: Any) -> None:
    assert contents(await streamed(ml, "echo", {"input": given})) == ["you said hi", ""]


async def test_only_words_of_the_answer_are_contents(ml: MlGateway) -> None:
    frames = await streamed(ml, "adder", {"input": "2+3?"})
    assert "".join(contents(frames)) == "Let me see.\n\nIt is 5."


@pytest.mark.parametrize("rounds", range(3))
async def test_g9_the_answer_is_kept_before_the_last_frame_is_seen(ml: MlGateway, rounds: int) -> None:
    async with ml.http.stream("POST", path_of("echo"), json={"input": "hi", "memory_id": "m"}) as answer:
        seen = b""
        async for chunk in answer.aiter_raw():
            seen += chunk
            if b'"is_last":true' in seen:
                break
        page = await ml.gateway.client.get("/threads/m/messages")
    assert [message["content"] for message in page["messages"]] == ["hi", "you said hi"]


async def test_g6_an_error_before_the_first_byte_is_a_status(ml: MlGateway) -> None:
    answer = await ml.http.post(path_of("X"), json={"parameters": {"question": "hi"}})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("application/json")
    reason = "Failed to find agent with the provided agent id: X"
    assert answer.json()["error"]["reason"] == reason
    assert answer.json()["error"]["root_cause"][0]["reason"] == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"junk": 1}, "Agent input data can not be empty."),
        ({"input": 42}, "Invalid input format. Expected string or array."),
        ({"input": ""}, "Text input cannot be null or empty"),
        ([], "the body is an array"),
    ],
)
async def test_what_cannot_be_used_is_a_400(ml: MlGateway, body: Any, reason: str) -> None:
    answer = await ml.http.post(path_of("echo"), json=body)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]["reason"]


async def test_no_json_is_a_400_in_opensearchs_form(ml: MlGateway) -> None:
    answer = await ml.http.post(path_of("echo"), content=b"{", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["status"]) == (400, 400)


async def test_g1_a_failure_after_the_first_byte_is_one_last_frame(ml: MlGateway) -> None:
    frames = await streamed(ml, "failing", {"input": "hi"})
    assert contents(frames[:-1]) == ["So far"]
    assert list(frames[-1]) == ["error"]
    assert isinstance(frames[-1]["error"], str)


async def test_g1_the_error_frame_is_written_byte_for_byte(ml: MlGateway) -> None:
    answer = await ml.http.post(path_of("failing"), json={"input": "hi"})
    last = answer.content.split(b"\n\n")[-2]
    assert last.startswith(b'data: {"error": "')
    assert answer.content.endswith(b'"}\n\n')


async def test_a_cancelled_run_ends_with_an_error(tmp_path: Path) -> None:
    hanging = agent("hanging", scripted([{"text": "so far"}, {"hang": True}]))
    body = {"input": "hi", "memory_id": "m"}
    async with (
        ml_gateway(tmp_path, [hanging]) as ml,
        ml.http.stream("POST", path_of("hanging"), json=body) as answer,
    ):
        chunks = answer.aiter_raw()
        seen = await anext(chunks)
        while b"so far" not in seen:
            seen += await anext(chunks)
        await ml.http.post(f"/runs/{answer.headers['x-run-id']}/cancel")
        async for chunk in chunks:
            seen += chunk
    assert parsed(seen)[-1] == {"error": "the execution was cancelled"}


async def test_tokens_come_in_a_chunk_of_their_own_before_the_last(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("hello"))
        frames = await streamed(ml, "chat", {"input": "hi", "parameters": {"include_token_usage": True}})
    first, usage, last = outputs(frames)
    assert list(first) == list(last) == ["memory_id", "parent_interaction_id", "response"]
    assert usage["response"] == {"content": "", "is_last": False}
    (turn,) = usage["token_usage"]["per_turn_usage"]
    assert (turn["turn"], turn["input_tokens"], turn["output_tokens"]) == (1, 3, 1)


async def test_a_memory_is_gone_on_with(ml: MlGateway) -> None:
    first = outputs(await streamed(ml, "echo", {"input": "one"}))[0]
    body = {"input": "two", "parameters": {"memory_id": first["memory_id"]}}
    second = outputs(await streamed(ml, "echo", body))[0]
    assert second["memory_id"] == first["memory_id"]
    assert second["parent_interaction_id"] != first["parent_interaction_id"]


async def test_what_waits_for_the_client_stands_in_the_last_chunk(tmp_path: Path) -> None:
    asking = agent(
        "asking",
        scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"}], [{"text": "It is 5."}]),
        tools=[python_tool("add", approval="always")],
    )
    async with ml_gateway(tmp_path, [asking]) as ml:
        frames = await streamed(ml, "asking", {"input": "2+3?"})
    words, last = contents(frames)
    assert "A person has to decide" in words
    assert last == ""
    (interrupt,) = last_response(frames)["interrupts"]
    assert interrupt["reason"] == "tool_call"


async def test_d17_a_summary_is_streamed(tmp_path: Path) -> None:
    adding = {"tool": "add", "arguments": {"a": 2, "b": 3}}
    rules = [{"when": {"tool_choice": "none"}, "response": [{"text": "I added."}]}]
    summing = agent(
        "summing",
        scripted(*[[adding]] * 9, rules=rules),
        tools=[python_tool("add")],
        parameters={"max_iteration": 2, "on_max_iteration": "summarize"},
    )
    async with ml_gateway(tmp_path, [summing]) as ml:
        frames = await streamed(ml, "summing", {"input": "2+3?"})
    said = (
        "Agent reached maximum iterations (2) without completing the task. "
        "Here's a summary of the steps completed so far:\n\n"
    )
    assert contents(frames) == [said, "I added.", ""]


async def test_a_silent_stream_gets_chunks_without_content(tmp_path: Path) -> None:
    async with (
        chat_server() as server,
        ml_gateway(tmp_path, [chat_agent(server)], server={"heartbeat_seconds": 0.1}) as ml,
    ):
        hold = asyncio.Event()
        script = completion("late")
        script.headers_after = hold
        server.answers(script)
        async with ml.http.stream("POST", path_of("chat"), json={"input": "hi"}) as answer:
            seen = b""
            async for chunk in answer.aiter_raw():
                seen += chunk
                if seen.count(b'"content":""') == 2:
                    hold.set()
    said = contents(parsed(seen))
    assert said[:2] == ["", ""]
    assert [each for each in said if each] == ["late"]


async def test_a_stream_whose_model_only_thinks_gets_them_too(tmp_path: Path) -> None:
    thoughts = {"reasoning": "hm ", "repeat": 400, "delta_seconds": 0.03}
    thinking = agent("thinking", scripted([thoughts, {"text": "done"}]))
    async with (
        ml_gateway(tmp_path, [thinking], server={"heartbeat_seconds": 0.1, "drain_seconds": 0}) as ml,
        ml.http.stream("POST", path_of("thinking"), json={"input": "hi"}) as answer,
    ):
        seen = b""
        async for chunk in answer.aiter_raw():
            seen += chunk
            if seen.count(b'"content":"","is_last":false') == 2:
                break
    assert contents(parsed(seen)) == ["", ""]


@pytest.mark.parametrize(("rule", "status"), [("cancel", "cancelled"), ("continue", "completed")])
async def test_what_becomes_of_a_stream_that_is_left_is_the_agents_to_say(
    rule: str, status: str, tmp_path: Path
) -> None:
    async with (
        chat_server() as server,
        ml_gateway(tmp_path, [chat_agent(server, on_disconnect=rule)], server={"disconnect_grace_seconds": 0}) as ml,
    ):
        hold = asyncio.Event()
        script = completion("late")
        script.headers_after = hold
        server.answers(script)
        async with ml.http.stream("POST", path_of("chat"), json={"input": "hi"}) as answer:
            run_id = answer.headers["x-run-id"]
        if rule == "continue":
            hold.set()
        await ml.gateway.client.until_status(run_id, status)


async def test_a_second_stream_on_a_busy_memory_waits_its_turn(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        hold = asyncio.Event()
        script = completion("first")
        script.headers_after = hold
        server.answers(script, completion("second"))
        one = asyncio.create_task(streamed(ml, "chat", {"input": "one", "memory_id": "m"}))
        await server.received(1)
        two = asyncio.create_task(streamed(ml, "chat", {"input": "two", "memory_id": "m"}))
        await until_answered(
            lambda: ml.http.get("/metrics"), lambda answer: "agui_gateway_runs_waiting 1" in answer.text
        )
        hold.set()
        assert [contents(await each) for each in (one, two)] == [["first", ""], ["second", ""]]


async def test_a_failure_of_the_provider_is_the_last_frame(tmp_path: Path) -> None:
    async with chat_server() as server:
        chat = chat_agent(server, parameters={"model_attempts": 1})
        async with ml_gateway(tmp_path, [chat]) as ml:
            server.answers(refusal(429, "slow down"))
            frames = await streamed(ml, "chat", {"input": "hi"})
    (only,) = frames
    assert list(only) == ["error"]


async def test_strangers_do_not_read_why_a_model_of_the_configuration_failed(tmp_path: Path) -> None:
    async with chat_server() as server:
        chat = chat_agent(server, parameters={"model_attempts": 1})
        everybody = {"public_url": "https://agents.example", "allow_unauthenticated": True}
        said = []
        for name, settings in (("own", {}), ("open", everybody)):
            (tmp_path / name).mkdir()
            async with ml_gateway(tmp_path / name, [chat], server=settings) as ml:
                server.answers(refusal(400, "the deployment eu-7 is gone"), refusal(400, "the deployment eu-7 is gone"))
                (frame,) = await streamed(ml, "chat", {"input": "hi"})
                status, answer = await ml.call("POST", "/agents/chat/_execute", {"input": "hi"})
                assert status >= 400
                said.append((frame["error"], answer["error"]["details"]))
    assert all("eu-7" in each for each in said[0])
    assert not any("eu-7" in each for each in said[1])


async def test_a_shutdown_ends_the_streams(tmp_path: Path) -> None:
    hanging = agent("hanging", scripted([{"text": "so far"}, {"hang": True}]))
    async with ml_gateway(tmp_path, [hanging], server={"drain_seconds": 0}) as ml:
        async with ml.http.stream("POST", path_of("hanging"), json={"input": "hi"}) as answer:
            seen = b""
            stopping: asyncio.Task[None] | None = None
            async for chunk in answer.aiter_raw():
                seen += chunk
                if b"so far" in seen and stopping is None:
                    stopping = asyncio.create_task(ml.gateway.application.stop())
        assert stopping is not None
        await stopping
    frames = parsed(seen)
    assert contents(frames[:1]) == ["so far"]
    assert list(frames[-1]) == ["error"]
