"""AG-UI on ml-commons' `_execute/stream`: the real clients, and the same answers as `POST /agents/{id}/run` gives."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.agui_client import CLIENT_VERSIONS, ClientVersion, NodeAgent, agui_clients
from tests.case_tools import python_tool
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import ECHO
from tests.openai_chat_server import chat_server, completion
from tests.running_gateway import Frame, agent, parse_frames, run_body, scripted
from tests.waiting import until_answered

ASK: dict[str, Any] = {"name": "ask", "description": "Ask the user.", "parameters": {"type": "object"}}
ASKING = agent("asking", scripted([{"tool": "ask", "id": "c9"}], [{"text": "you chose {{result}}"}]))
REFUNDING = agent(
    "refunding",
    scripted([{"tool": "refund", "arguments": {"order": "7"}, "id": "c1"}], [{"text": "done: {{result}}"}]),
    tools=[python_tool("refund", approval="always")],
)
# The body of the AG-UI RFC, section 3.1, with what it leaves out as "..." filled in.
SEED_002: dict[str, Any] = {
    "threadId": "thread_abc123",
    "runId": "run_def456",
    "messages": [
        {"role": "user", "content": "Search for documents"},
        {
            "role": "assistant",
            "toolCalls": [{"id": "call_123", "type": "function", "function": {"name": "ask", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "three of them", "toolCallId": "call_123"},
    ],
    "tools": [ASK],
    "context": [{"description": "page", "value": "home"}],
}


@pytest_asyncio.fixture
async def ml(tmp_path: Path) -> AsyncGenerator[MlGateway]:
    async with ml_gateway(tmp_path, [ECHO, ASKING, REFUNDING]) as scene:
        yield scene


def stream_path(agent_id: str) -> str:
    return f"{P}/agents/{agent_id}/_execute/stream"


async def sent(ml: MlGateway, path: str, body: Mapping[str, Any], **headers: str) -> httpx.Response:
    return await ml.http.post(path, json=body, headers=headers)


async def streamed(ml: MlGateway, agent_id: str, body: Mapping[str, Any]) -> list[Frame]:
    answer = await sent(ml, stream_path(agent_id), body)
    assert answer.status_code == 200, answer.text
    return parse_frames(answer.content)


def types(frames: list[Frame]) -> list[str]:
    return [frame.type for frame in frames]


def without_ids(content: bytes) -> bytes:
    """The bytes of an answer, without the ids that each run makes up."""
    return re.sub(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?:run|thread|req)[-_][0-9a-z]{8,}", b"ID", content)


# --- the same as POST /agents/{id}/run


@pytest.mark.parametrize(
    "body",
    [
        run_body("hi"),
        run_body("hi", version=None),
        {"threadId": "thread-1", "runId": "run-1", "messages": [{"role": "user", "content": "hi"}]},
        {"thread_id": "thread-1", "run_id": "run-1", "messages": [{"role": "user", "content": "hi"}]},
        {"threadId": "t", "messages": []},
        {"runId": "r", "messages": [{"role": "user", "content": "hi"}]},
        {"threadId": "t", "runId": "r"},
        {"threadId": "t", "runId": "r", "messages": "hi"},
        {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "hi"}], "protocolVersion": "2.0"},
        {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "hi"}], "input": None},
    ],
)
async def test_an_ag_ui_body_is_answered_byte_for_byte_as_the_run_endpoint_answers_it(
    body: dict[str, Any], tmp_path: Path
) -> None:
    answers: list[httpx.Response] = []
    for path in ("/agents/echo/run", stream_path("echo")):
        directory = tmp_path / str(len(answers))
        directory.mkdir()
        async with ml_gateway(directory, [ECHO]) as scene:
            answers.append(await sent(scene, path, body, **{"x-request-id": "one", "accept": "text/event-stream"}))
    ran, executed = answers
    assert executed.status_code == ran.status_code
    assert without_ids(executed.content) == without_ids(ran.content)
    assert {**executed.headers, "date": ""} == {**ran.headers, "date": ""}


@pytest.mark.parametrize("agent_id", ["nobody", "echo"])
async def test_a_refusal_of_an_ag_ui_body_is_the_run_endpoints(ml: MlGateway, agent_id: str) -> None:
    wrong = {"threadId": "t", "messages": [{"role": "wizard", "content": 5}]}
    ran = await sent(ml, f"/agents/{agent_id}/run", wrong)
    executed = await sent(ml, stream_path(agent_id), wrong)
    assert executed.json() == ran.json()
    assert executed.headers["content-type"] == ran.headers["content-type"] == "application/problem+json"


async def test_a_repeated_request_shows_its_run_whichever_path_it_took(ml: MlGateway) -> None:
    ran = await sent(ml, "/agents/echo/run", run_body("hi"))
    assert types(parse_frames(ran.content))[-1] == "RUN_FINISHED"
    again = await sent(ml, stream_path("echo"), run_body("hi"))
    assert again.content == (await sent(ml, "/agents/echo/run", run_body("hi"))).content
    assert types(parse_frames(again.content))[-1] == "RUN_FINISHED"
    page = await ml.gateway.client.get("/threads/thread-1/messages")
    assert [each["content"] for each in page["messages"]] == ["hi", "you said hi"]
    changed = await sent(ml, stream_path("echo"), run_body("bye"))
    assert (changed.status_code, changed.json()["code"]) == (409, "run_exists")


async def test_a_page_of_another_origin_is_treated_as_by_the_run_endpoint(tmp_path: Path) -> None:
    server = {"cors_origins": ["https://app.example"]}
    async with ml_gateway(tmp_path, [ECHO], server=server) as scene:
        for origin, status in (("https://app.example", 200), ("https://evil.example", 403)):
            answer = await sent(scene, stream_path("echo"), run_body("hi", run_id=f"r{status}"), origin=origin)
            assert answer.status_code == status
            assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)


# --- rows of the cases


async def test_h1_a_text_turn_is_one_message_and_one_end(ml: MlGateway) -> None:
    base = {
        "threadId": "t", "runId": "r", "state": {}, "messages": [{"id": "1", "role": "user", "content": "hi"}],
        "tools": [], "context": [], "forwardedProps": {},
    }  # fmt: skip
    frames = await streamed(ml, "echo", base)
    assert types(frames) == [
        "RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"
    ]  # fmt: skip
    assert {(frame.data["threadId"], frame.data["runId"]) for frame in (frames[0], frames[-1])} == {("t", "r")}
    assert len({frame.data["messageId"] for frame in frames[1:-1]}) == 1


@pytest.mark.parametrize("absent", ["threadId", "runId", "messages", "state", "tools", "context", "forwardedProps"])
async def test_h2_to_h8_a_missing_member_is_named_if_it_is_needed(ml: MlGateway, absent: str) -> None:
    base: dict[str, Any] = {
        "threadId": "t", "runId": "r", "state": {}, "messages": [{"id": "1", "role": "user", "content": "hi"}],
        "tools": [], "context": [], "forwardedProps": {},
    }  # fmt: skip
    del base[absent]
    answer = await sent(ml, stream_path("echo"), base)
    if absent not in ("threadId", "runId", "messages"):
        assert types(parse_frames(answer.content))[-1] == "RUN_FINISHED"
    else:
        assert answer.status_code == 422
        assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{absent}"]


async def test_h14_no_messages_show_what_the_thread_has(ml: MlGateway) -> None:
    await streamed(ml, "echo", run_body("hi", thread_id="t"))
    frames = await streamed(ml, "echo", run_body(messages=[], thread_id="t", run_id="r2"))
    assert types(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    shown = frames[1].data["messages"]
    assert [message["content"] for message in shown] == ["hi", "you said hi"]
    assert len({message["id"] for message in shown}) == 2
    unknown = await streamed(ml, "echo", run_body(messages=[], thread_id="new", run_id="r3"))
    assert types(unknown)[0] == "RUN_STARTED"
    assert types(unknown)[-1] == "RUN_FINISHED"


async def test_h16_the_thread_is_the_memory(ml: MlGateway) -> None:
    await streamed(ml, "echo", run_body("hi", thread_id="t"))
    status, answer = await ml.call("POST", "/agents/echo/_execute", {"input": "and?", "parameters": {"memory_id": "t"}})
    assert status == 200
    assert answer["inference_results"][0]["output"][0] == {"name": "memory_id", "result": "t"}
    page = await ml.gateway.client.get("/threads/t/messages")
    assert [each["content"] for each in page["messages"]] == ["hi", "you said hi", "and?", "you said and?"]


async def test_the_seeds_own_body_runs(tmp_path: Path) -> None:
    async with chat_server() as server:
        model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
        chat = agent("agent_123", {**model, "credential": {"openai_api_key": "sk-test"}})
        async with ml_gateway(tmp_path, [chat]) as scene:
            server.answers(completion("found"))
            frames = await streamed(scene, "agent_123", SEED_002)
    assert types(frames)[0] == "RUN_STARTED"
    assert types(frames)[-1] == "RUN_FINISHED"
    assert "found" in [frame.data.get("delta") for frame in frames]
    heard = server.requests[0].json
    assert [each["role"] for each in heard["messages"]] == ["system", "user", "assistant", "tool"]
    assert "page: home" in heard["messages"][0]["content"]
    assert [each["function"]["name"] for each in heard["tools"]] == ["ask"]


# --- the real clients


async def pending_call(client: NodeAgent, run_id: str) -> dict[str, Any]:
    """The call of the frontend tool that a run ended with."""
    report = await client.run(run_id=run_id, tools=[ASK])
    assert report.event_types[-1] == "RUN_FINISHED", report
    calls: Any = report.new_messages[-1]["toolCalls"]
    assert len(calls) == 1
    call: dict[str, Any] = calls[0]
    return call


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
async def test_the_real_clients_run_with_a_frontend_tools_result_on_either_path(
    ml: MlGateway, version: ClientVersion
) -> None:
    base = str(ml.http.base_url).rstrip("/")
    async with agui_clients(version) as clients:
        client = await clients.create(f"{base}{stream_path('asking')}", thread_id="t")
        await client.add_message({"id": "u1", "role": "user", "content": "hi"})
        call = await pending_call(client, "r1")
        await client.add_message({"id": "m2", "role": "tool", "toolCallId": call["id"], "content": "red"})
        report = await client.run(run_id="r2", tools=[ASK])
        assert report.new_messages[-1]["content"] == "you chose red"
        other = await clients.create(f"{base}/agents/asking/run", thread_id="t", initial_messages=[*report.messages])
        await other.add_message({"id": "u3", "role": "user", "content": "again"})
        call = await pending_call(other, "r3")
        assert clients.console == []
    status, answer = await ml.call(
        "POST",
        "/agents/asking/_execute",
        {"input": [{"role": "tool", "toolCallId": call["id"], "content": "blue"}], "memory_id": "t"},
    )
    assert status == 200, answer
    assert answer["inference_results"][0]["output"][-1]["dataAsMap"]["response"] == "you chose blue"


@pytest.mark.parametrize("version", ["1.0.0", "0.0.59"])
async def test_the_real_clients_answer_an_approval(ml: MlGateway, version: ClientVersion) -> None:
    base = str(ml.http.base_url).rstrip("/")
    async with agui_clients(version) as clients:
        client = await clients.create(f"{base}{stream_path('refunding')}", thread_id="t")
        await client.add_message({"id": "u1", "role": "user", "content": "refund 7"})
        asked = await client.run(run_id="r1")
        (interrupt,) = asked.pending_interrupts or ()
        answer: Any = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        report = await client.run(run_id="r2", resume=[answer])
    assert report.new_messages[-1]["content"] == "done: refunded 7 with 0"


async def test_an_approval_of_a_streamed_execution_is_answered_over_ag_ui(ml: MlGateway) -> None:
    answer = await ml.http.post(stream_path("refunding"), json={"input": "refund 7", "memory_id": "t"})
    last = json.loads(answer.text.strip().rpartition("data: ")[2])
    (interrupt,) = last["inference_results"][0]["output"][2]["dataAsMap"]["interrupts"]
    approval = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    frames = await streamed(ml, "refunding", run_body(messages=[], thread_id="t", run_id="r2", resume=[approval]))
    assert "done: refunded 7 with 0" in [frame.data.get("delta") for frame in frames]


async def test_a_run_of_an_ag_ui_client_goes_by_the_agents_rule_when_it_leaves(tmp_path: Path) -> None:
    hanging = agent("hanging", scripted([{"text": "so far"}, {"hang": True}]), on_disconnect="cancel")
    async with ml_gateway(tmp_path, [hanging], server={"disconnect_grace_seconds": 0}) as scene:
        async with scene.http.stream("POST", stream_path("hanging"), json=run_body("hi")) as answer:
            async for chunk in answer.aiter_raw():
                if b"so far" in chunk:
                    break
        run = await until_answered(
            lambda: scene.gateway.client.get("/runs/run-1"), lambda run: run["status"] == "cancelled"
        )
    assert run["status"] == "cancelled"


async def test_a_client_that_sends_only_new_messages_goes_on_with_the_conversation(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as made, chat_server() as models:
        agent_id = await made.register({
            "name": "n", "type": "ag_ui", "tools": [],
            "model": {"model_id": "gpt-4o", "model_provider": "openai/v1/chat/completions",
                      "endpoint": models.endpoint, "credential": {"openai_api_key": "sk-test"}},
        })  # fmt: skip
        for number, text in enumerate(("one", "two")):
            models.answers(completion("hello"))
            body = run_body(text, run_id=f"r{number}")
            assert (await sent(made, stream_path(agent_id), body)).status_code == 200
        asked = [message["content"] for message in models.requests[-1].json["messages"] if message["role"] == "user"]
    assert asked == ["one", "two"]
