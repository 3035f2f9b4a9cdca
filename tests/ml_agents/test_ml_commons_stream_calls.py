"""AG-UI on `_execute/stream` in front of a provider: what the model is sent, and how calls and failures are shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.case_tools import PIXEL, executions, python_tool
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.openai_chat_server import DONE, ChatServer, Script, chat_server, chunk, completion, record, text_records
from tests.openai_chat_server import error as refusal
from tests.running_gateway import Frame, agent, parse_frames, run_body

ASK: dict[str, Any] = {"name": "ask", "description": "d", "parameters": {"type": "object"}}
STREAM = f"{P}/agents/chat/_execute/stream"


@pytest_asyncio.fixture
async def server() -> AsyncGenerator[ChatServer]:
    async with chat_server() as running:
        yield running


@pytest_asyncio.fixture
async def ml(tmp_path: Path, server: ChatServer) -> AsyncGenerator[MlGateway]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
    chat = agent(
        "chat",
        {**model, "credential": {"openai_api_key": "sk-test"}},
        tools=[python_tool("add"), python_tool("nothing")],
        parameters={"model_attempts": 1},
    )
    async with ml_gateway(tmp_path, [chat]) as scene:
        yield scene


async def streamed(ml: MlGateway, body: Mapping[str, Any]) -> list[Frame]:
    answer = await ml.http.post(STREAM, json=dict(body))
    assert answer.status_code == 200, answer.text
    return parse_frames(answer.content)


def types(frames: Sequence[Frame]) -> list[str]:
    return [frame.type for frame in frames]


def of(frames: Sequence[Frame], type: str) -> list[dict[str, Any]]:
    return [frame.data for frame in frames if frame.type == type]


def calling(name: str, call_id: str, *pieces: str, said: str = "") -> Script:
    """An answer that calls a tool, with its arguments in these pieces, perhaps behind some words."""
    begun: dict[str, Any] = {"index": 0, "id": call_id, "type": "function", "function": {"name": name}}
    words = [record(chunk({"content": said}))] if said else []
    more = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    records = [record(chunk({"tool_calls": [each]})) for each in (begun, *more)]
    return Script(pieces=[*words, *records, record(chunk({}, "tool_calls")), DONE])


async def test_h10_a_picture_reaches_the_model_beside_its_text(ml: MlGateway, server: ChatServer) -> None:
    server.answers(completion("nice"))
    content = [{"type": "text", "text": "a"}, {"type": "binary", "mimeType": "image/png", "data": PIXEL}]
    await streamed(ml, run_body(messages=[{"id": "u", "role": "user", "content": content}]))
    sent = server.requests[0].json["messages"][-1]["content"]
    assert sent[0] == {"type": "text", "text": "a"}
    assert sent[1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


async def test_h11_a_document_that_the_model_cannot_read_does_not_end_the_run(
    ml: MlGateway, server: ChatServer
) -> None:
    server.answers(completion("read"))
    content = [{"type": "text", "text": "a"}, {"type": "binary", "mimeType": "application/pdf", "data": "JVBERi0="}]
    frames = await streamed(ml, run_body(messages=[{"id": "u", "role": "user", "content": content}]))
    assert types(frames)[-1] == "RUN_FINISHED"


async def test_h13_the_model_is_told_the_context_and_the_thread_keeps_the_words_alone(
    ml: MlGateway, server: ChatServer
) -> None:
    server.answers(completion("ok"))
    await streamed(ml, run_body("hi", thread_id="t", context=[{"description": "page", "value": "home"}]))
    heard = server.requests[0].json["messages"]
    assert [each["role"] for each in heard] == ["system", "user"]
    assert "- page: home" in heard[0]["content"]
    page = await ml.gateway.client.get("/threads/t/messages")
    assert [each["content"] for each in page["messages"]] == ["hi", "ok"]


async def test_h17_a_frontend_tools_call_ends_the_run(ml: MlGateway, server: ChatServer) -> None:
    server.answers(calling("ask", "c9", '{"q"', ":1}"))
    frames = await streamed(ml, run_body("hi", tools=[ASK]))
    (begun,) = of(frames, "TOOL_CALL_START")
    assert begun["toolCallName"] == "ask"
    assert begun["toolCallId"].startswith("c9")
    assert "".join(each["delta"] for each in of(frames, "TOOL_CALL_ARGS")) == '{"q":1}'
    assert len(of(frames, "TOOL_CALL_END")) == len(of(frames, "RUN_FINISHED")) == 1
    assert not of(frames, "TOOL_CALL_RESULT")


async def test_h19_the_words_before_a_call_end_before_it_and_are_its_parent(ml: MlGateway, server: ChatServer) -> None:
    server.answers(calling("ask", "c9", "{}", said="I will ask."))
    frames = await streamed(ml, run_body("hi", tools=[ASK]))
    seen = types(frames)
    assert seen.index("TEXT_MESSAGE_END") < seen.index("TOOL_CALL_START")
    (begun,), (text,) = of(frames, "TOOL_CALL_START"), of(frames, "TEXT_MESSAGE_START")
    assert begun["parentMessageId"] == text["messageId"]


async def test_h20_two_rounds_of_backend_tools_are_two_whole_groups(ml: MlGateway, server: ChatServer) -> None:
    first, second = calling("add", "c1", '{"a":1,"b":1}'), calling("add", "c2", '{"a":2,"b":2}')
    server.answers(first, second, completion("2 and 4"))
    frames = await streamed(ml, run_body("hi"))
    groups = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert [type for type in types(frames) if type.startswith("TOOL_CALL")] == groups * 2
    assert len({each["toolCallId"] for each in of(frames, "TOOL_CALL_START")}) == 2
    assert types(frames).count("RUN_FINISHED") == 1
    heard = server.requests[2].json["messages"]
    assert [each["content"] for each in heard if each["role"] == "tool"] == ["2.0", "4.0"]


async def test_h22_a_call_without_arguments_is_ended_and_run(ml: MlGateway, server: ChatServer) -> None:
    server.answers(calling("nothing", "c1"), completion("done"))
    frames = await streamed(ml, run_body("hi"))
    assert len(of(frames, "TOOL_CALL_END")) == len(of(frames, "TOOL_CALL_RESULT")) == 1
    assert types(frames)[-1] == "RUN_FINISHED"


async def test_h23_a_failure_in_the_middle_of_a_text_is_one_end(ml: MlGateway, server: ChatServer) -> None:
    server.answers(Script(pieces=[record(chunk({"content": "So far"}))], ending="reset"))
    frames = await streamed(ml, run_body("hi"))
    assert types(frames)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
    assert "RUN_FINISHED" not in types(frames)


async def test_g3_a_failure_is_a_run_error_with_its_message(ml: MlGateway, server: ChatServer) -> None:
    server.answers(refusal(400, "test error"))
    frames = await streamed(ml, run_body("hi"))
    (failed,) = of(frames, "RUN_ERROR")
    assert "test error" in failed["message"]
    assert types(frames)[-1] == "RUN_ERROR"


async def test_g4_the_last_frame_is_the_only_end(ml: MlGateway, server: ChatServer) -> None:
    server.answers(completion("hello"))
    seen = types(await streamed(ml, run_body("hi")))
    assert seen.count("RUN_FINISHED") == 1
    assert seen[-1] == "RUN_FINISHED"


async def test_h26_a_history_that_is_sent_again_is_not_doubled(ml: MlGateway, server: ChatServer) -> None:
    server.answers(completion("one"), completion("two"))
    asked = {"id": "u1", "role": "user", "content": "first"}
    frames = await streamed(ml, run_body(messages=[asked], thread_id="t", run_id="r1"))
    (text,) = of(frames, "TEXT_MESSAGE_START")
    answered = {"id": text["messageId"], "role": "assistant", "content": "one"}
    again = [asked, answered, {"id": "u2", "role": "user", "content": "second"}]
    await streamed(ml, run_body(messages=again, thread_id="t", run_id="r2"))
    heard = [(each["role"], each["content"]) for each in server.requests[1].json["messages"]]
    assert heard == [("user", "first"), ("assistant", "one"), ("user", "second")]


async def test_parallel_calls_are_all_run(ml: MlGateway, server: ChatServer) -> None:
    executions.clear()
    calls = [
        {"index": place, "id": f"p{place}", "type": "function", "function": {"name": "add", "arguments": arguments}}
        for place, arguments in enumerate(('{"a":1,"b":1}', '{"a":2,"b":2}'))
    ]
    asked = Script(pieces=[record(chunk({"tool_calls": calls})), record(chunk({}, "tool_calls")), DONE])
    server.answers(asked, Script(pieces=[*text_records("both"), DONE]))
    frames = await streamed(ml, run_body("hi"))
    assert [each["content"] for each in of(frames, "TOOL_CALL_RESULT")] == ["2.0", "4.0"]
    assert sorted(executions.values()) == [1, 1]


async def test_h25_an_agent_tells_the_tokens_of_its_model_calls_before_the_end(
    ml: MlGateway, server: ChatServer
) -> None:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
    registered = await ml.register(
        {
            "name": "telling",
            "type": "ag_ui",
            "model": {**model, "credential": {"openai_api_key": "sk-test"}},
            "parameters": {"include_token_usage": True},
        }
    )
    tokens = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    named = {"model_name": "m", "model_id": "m", "model_provider": "openai/v1/chat/completions"}
    usage = {
        "per_model_usage": [{**named, **tokens, "call_count": 1}],
        "per_turn_usage": [{"turn": 1, **named, **tokens}],
    }
    for place, path in enumerate((f"{P}/agents/{registered}/_execute/stream", f"/agents/{registered}/run")):
        server.answers(completion("hello"))
        answer = await ml.http.post(path, json=run_body("hi", thread_id=f"t{place}", run_id=f"r{place}"))
        frames = parse_frames(answer.content)
        assert types(frames)[-2:] == ["CUSTOM", "RUN_FINISHED"]
        assert frames[-2].data == {"type": "CUSTOM", "name": "token_usage", "value": usage}
    server.answers(completion("hello"))
    _, answered = await ml.call("POST", f"/agents/{registered}/_execute", {"input": "hi"})
    assert answered["inference_results"][0]["output"][-1] == {"name": "token_usage", "dataAsMap": usage}
    server.answers(completion("hello"))
    body = {"input": "hi", "parameters": {"include_token_usage": False}}
    _, answered = await ml.call("POST", f"/agents/{registered}/_execute", body)
    assert answered["inference_results"][0]["output"][-1]["name"] == "response"


async def test_an_agent_tells_no_tokens_unasked(ml: MlGateway, server: ChatServer) -> None:
    server.answers(completion("hello"))
    assert "CUSTOM" not in types(await streamed(ml, run_body("hi")))
