"""`POST /process` over a real socket: what a client gets for what it sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest

from tests.agent_api_scene import (
    WEATHER_TOOL,
    AgentApiScene,
    agent_api_gateway,
    frames_of,
    said,
    told,
    words_of,
)
from tests.running_gateway import DEADLINE_SECONDS, agent, scripted


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AgentApiScene]:
    async with agent_api_gateway(tmp_path) as scene:
        yield scene


async def test_a_response_is_streamed_from_its_creation_to_its_end(scene: AgentApiScene) -> None:
    frames = await scene.stream("hi", agent="words")
    assert [frame["sequence_number"] for frame in frames] == [*range(len(frames))]
    assert [(frame["object"], frame["status"]) for frame in frames[:2]] == [
        ("response", "created"),
        ("response", "in_progress"),
    ]
    deltas = [frame["text"] for frame in frames if frame.get("delta")]
    (content,) = (frame for frame in frames if frame["object"] == "content" and frame["status"] == "completed")
    assert "".join(deltas) == content["text"] == "I heard: hi"
    last = frames[-1]
    assert (last["object"], last["status"]) == ("response", "completed")
    assert words_of(last) == "I heard: hi"
    assert last["completed_at"] >= last["created_at"]
    assert last["usage"] == {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}


async def test_a_response_as_one_object_is_the_last_frame_of_its_stream(scene: AgentApiScene) -> None:
    first = (await scene.stream("hi", agent="words", response_id="r1", session_id="s1"))[-1]
    answer = await scene.post(
        {"input": [said("hi")], "stream": False, "response_id": "r1", "session_id": "s1"}, agent="words"
    )
    assert answer.json() == first
    assert (answer.headers["x-run-id"], answer.headers["x-thread-id"]) == ("r1", "s1")


async def test_without_an_agents_id_the_first_agent_answers(scene: AgentApiScene) -> None:
    assert words_of(await scene.whole("hi")) == "I heard: hi"


async def test_the_operator_may_choose_the_default_agent(tmp_path: Path) -> None:
    agents = [agent(name, scripted([{"text": name}])) for name in ("one", "other")]
    async with agent_api_gateway(tmp_path, agents, server={"default_agent": "other"}) as scene:
        assert words_of(await scene.whole("hi")) == "other"


async def test_a_session_remembers_what_was_said(scene: AgentApiScene) -> None:
    first = await scene.whole("one", session_id="s1", agent="words")
    await scene.whole("two", session_id="s1", agent="words")
    assert first["session_id"] == "s1"
    stored = (await scene.gateway.client.get("/threads/s1/messages"))["messages"]
    assert [message["content"] for message in stored if message["role"] == "user"] == ["one", "two"]


async def test_a_request_without_a_session_begins_one(scene: AgentApiScene) -> None:
    one, other = await scene.whole("hi", agent="words"), await scene.whole("hi", agent="words")
    assert one["session_id"].startswith("session_")
    assert one["session_id"] != other["session_id"]
    assert one["id"].startswith("response_")


async def test_a_history_that_is_sent_again_stands_in_its_session_once(scene: AgentApiScene) -> None:
    first = await scene.whole("one", session_id="s1", agent="words")
    answer = first["output"][0]
    await scene.whole(said("one"), answer, "two", session_id="s1", agent="words")
    stored = (await scene.gateway.client.get("/threads/s1/messages"))["messages"]
    assert [message["content"] for message in stored] == ["one", "I heard: one", "two", "I heard: two"]


async def test_the_same_request_again_gets_the_same_response(scene: AgentApiScene) -> None:
    body = {"input": [said("hi")], "response_id": "response_x"}
    first = frames_of((await scene.post(body, agent="words")).content)
    again = frames_of((await scene.post({**body, "tools": None, "stream": None}, agent="words")).content)
    assert {frame["id"] for frame in first if frame["object"] == "response"} == {"response_x"}
    assert again == first
    assert len((await scene.gateway.client.get("/threads"))["threads"]) == 1


@pytest.mark.parametrize("agent_id", ["words", "thinker"])
async def test_a_response_id_with_another_request_is_refused(scene: AgentApiScene, agent_id: str) -> None:
    await scene.whole("hi", agent="words", response_id="response_x")
    words = "hi" if agent_id == "thinker" else "bye"
    refused = await scene.refused({"input": [said(words)], "response_id": "response_x"}, agent=agent_id)
    assert (refused.status_code, refused.json()["code"]) == (409, "response_id_reused")


async def test_a_second_request_to_a_busy_session_is_refused(scene: AgentApiScene) -> None:
    body = {"input": [said("hi")], "session_id": "s1"}
    busy = {**body, "response_id": "response_busy"}
    async with scene.http.stream("POST", "/agents/slow/process", json=busy) as first:
        chunks = first.aiter_bytes()
        await anext(chunks)
        refused = await scene.refused(body, agent="slow")
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")
        await scene.http.post("/process/response_busy/cancel")  # else the gateway's end waits for it


async def test_a_client_tool_pauses_and_its_output_goes_on(scene: AgentApiScene) -> None:
    paused = await scene.whole("weather?", agent="weather", session_id="s1", tools=[WEATHER_TOOL])
    (call,) = [each for each in paused["output"] if each["type"] == "function_call"]
    data = call["content"][0]["data"]
    assert (paused["status"], data["name"], data["arguments"]) == ("completed", "get_weather", '{"city":"Paris"}')
    output = told("function_call_output", call_id=data["call_id"], output="sunny")
    more = {"session_id": "s1", "tools": [WEATHER_TOOL]}
    assert words_of(await scene.whole(output, agent="weather", **more)) == "It is sunny."


async def test_a_client_may_send_its_call_with_the_output(scene: AgentApiScene) -> None:
    more: dict[str, Any] = {"session_id": "s1", "tools": [WEATHER_TOOL], "agent": "weather"}
    paused = await scene.whole("weather?", **more)
    call = paused["output"][-1]
    output = told("function_call_output", call_id=call["content"][0]["data"]["call_id"], output="sunny")
    assert words_of(await scene.whole(call, output, **more)) == "It is sunny."
    stored = (await scene.gateway.client.get("/threads/s1/messages"))["messages"]
    assert [message["role"] for message in stored] == ["user", "assistant", "tool", "assistant"]


async def test_the_output_of_an_unknown_call_is_refused(scene: AgentApiScene) -> None:
    await scene.whole("weather?", agent="weather", session_id="s1", tools=[WEATHER_TOOL])
    wrong = told("function_call_output", call_id="nope", output="sunny")
    refused = await scene.refused({"input": [wrong], "session_id": "s1"}, agent="weather")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/input/0/content/0/data/call_id"


async def test_a_call_that_was_answered_is_not_answered_again(scene: AgentApiScene) -> None:
    more: dict[str, Any] = {"session_id": "s1", "tools": [WEATHER_TOOL]}
    call = (await scene.whole("weather?", agent="weather", **more))["output"][-1]
    output = told("function_call_output", call_id=call["content"][0]["data"]["call_id"], output="sunny")
    await scene.whole(output, agent="weather", **more)
    for given in ([output], [call, output]):
        refused = await scene.refused({"input": given, **more}, agent="weather")
        assert (refused.status_code, refused.json()["code"]) == (409, "call_answered")
    assert words_of(await scene.whole(output, "bye", agent="weather", **more)) == "I heard: bye"


async def test_an_output_that_comes_twice_in_a_request_is_one_and_two_different_ones_are_refused(
    scene: AgentApiScene,
) -> None:
    more: dict[str, Any] = {"session_id": "s1", "tools": [WEATHER_TOOL]}
    call_id = (await scene.whole("weather?", agent="weather", **more))["output"][-1]["content"][0]["data"]["call_id"]
    sunny, rainy = (told("function_call_output", call_id=call_id, output=output) for output in ("sunny", "rainy"))
    refused = await scene.refused({"input": [sunny, rainy], **more}, agent="weather")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/input/1/content/0/data/output"
    assert words_of(await scene.whole(sunny, sunny, agent="weather", **more)) == "It is sunny."
    stored = (await scene.gateway.client.get("/threads/s1/messages"))["messages"]
    assert [message["role"] for message in stored] == ["user", "assistant", "tool", "assistant"]


async def test_a_question_is_not_both_approved_and_denied(scene: AgentApiScene) -> None:
    question = (await scene.whole("refund", agent="refunder", session_id="s1"))["output"][-1]["content"][0]["data"]
    yes, no = (
        told("mcp_approval_response", approval_request_id=question["id"], approve=approve) for approve in (True, False)
    )
    refused = await scene.refused({"input": [yes, no], "session_id": "s1"}, agent="refunder")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/input/0/content/0/data"
    denied = await scene.whole(no, no, agent="refunder", session_id="s1")
    assert "refunded" not in words_of(denied)


async def test_no_output_of_a_message_is_lost(scene: AgentApiScene) -> None:
    more: dict[str, Any] = {"session_id": "s1", "tools": [WEATHER_TOOL]}
    calls = (await scene.whole("both?", agent="weather", **more))["output"]
    outputs = [
        told("function_call_output", call_id=each["content"][0]["data"]["call_id"], output="1") for each in calls
    ]
    in_one = {**outputs[0], "content": [*outputs[0]["content"], *outputs[1]["content"]]}
    refused = await scene.refused({"input": [in_one], **more}, agent="weather")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/input/0/content"
    assert words_of(await scene.whole(*outputs, agent="weather", **more)) == "It is 1."


@pytest.mark.parametrize("approve", [True, False])
async def test_a_person_answers_the_question_whether_a_call_may_run(scene: AgentApiScene, approve: bool) -> None:
    asked = await scene.whole("refund", agent="refunder", session_id="s1")
    question = asked["output"][-1]
    assert (asked["status"], question["type"]) == ("completed", "mcp_approval_request")
    data = question["content"][0]["data"]
    answer = told("mcp_approval_response", id=data["id"], approval_request_id=data["id"], approve=approve)
    done = await scene.whole(question, answer, agent="refunder", session_id="s1")
    assert done["status"] == "completed"
    assert ("refunded" in str(done["output"]).lower()) == approve
    again = await scene.refused({"input": [answer], "session_id": "s1"}, agent="refunder")
    assert (again.status_code, again.json()["code"]) == (409, "approval_answered")


async def test_answers_may_each_come_behind_their_question(tmp_path: Path) -> None:
    refunds = [{"tool": "refund", "arguments": {"order_id": order, "amount": 9}} for order in ("17", "18")]
    tool = {"type": "PythonTool", "name": "refund", "parameters": {"function": "gateway.sample_tools:refund"}}
    refunder = agent("refunder", scripted(refunds, [{"text": "Done."}]), tools=[{**tool, "approval": "always"}])
    async with agent_api_gateway(tmp_path, [refunder]) as scene:
        asked = await scene.whole("refund both", session_id="s1")
        questions = [each for each in asked["output"] if each["type"] == "mcp_approval_request"]
        ids = [each["content"][0]["data"]["id"] for each in questions]
        answers = [told("mcp_approval_response", approval_request_id=id, approve=True) for id in ids]
        pairs = [each for pair in zip(questions, answers, strict=True) for each in pair]
        done = await scene.whole(*pairs, session_id="s1")
        assert [each["type"] for each in done["output"]].count("plugin_call_output") == 2
        assert words_of(done) == "Done."


async def test_an_answer_to_no_question_names_its_field(scene: AgentApiScene) -> None:
    answer = told("mcp_approval_response", approval_request_id="i1", approve=True)
    refused = await scene.refused({"input": [answer]}, agent="refunder")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/input/0/content/0/data/approval_request_id"


async def test_what_is_ignored_comes_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    allowing = agent("allowing", scripted([{"text": "hi"}]), allow_models=["big"])
    async with agent_api_gateway(tmp_path, [allowing]) as scene:
        ignored = await scene.whole("hi", model="gpt-4-vision", n=3)
        first, second = ignored["metadata"]["warnings"]
        assert "'gpt-4-vision'" in first
        assert "n is 3" in second
        logged = [record.getMessage() for record in caplog.records]
        assert sum("model that a request asks for" in each for each in logged) == 1
        assert logged.count("a request asks for several answers: it gets one") == 1
        assert "metadata" not in await scene.whole("hi")
        frames = await scene.stream("hi", model="gpt-4-vision")
        shown = [frame["metadata"]["warnings"] for frame in frames if frame["object"] == "response"]
        assert shown == [[first]] * 3


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"[]", 422), (b'{"input":"x"}', 422), (b'{"input":[{"role":"robot"}]}', 422), (b"\xff", 400)],
)
async def test_a_wrong_body_is_refused(scene: AgentApiScene, content: bytes, status: int) -> None:
    answer = await scene.http.post("/process", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["object"]) == (status, "error")


async def test_errors_before_a_route_have_the_protocols_form(scene: AgentApiScene) -> None:
    unknown = await scene.refused({"input": [said("hi")]}, agent="nobody")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "agent_not_found")
    wrong_method = await scene.http.get("/process")
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "POST")
    assert wrong_method.json()["object"] == "error"
    nothing = await scene.http.get("/process/a/b/c")
    assert (nothing.status_code, nothing.json()["object"]) == (404, "error")


async def test_a_run_that_fails_is_a_response_that_failed(scene: AgentApiScene) -> None:
    failed = await scene.whole("hi", agent="breaking")
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == "model_overloaded"
    assert failed["error"]["retryable"] is True
    assert failed["output"]
    frames = await scene.stream("hi", agent="breaking")
    assert (frames[-1]["status"], frames[-1]["error"]) == ("failed", failed["error"])


async def test_the_bytes_on_the_wire_are_data_lines_and_nothing_behind_the_last_frame(scene: AgentApiScene) -> None:
    url = httpx.URL(scene.gateway.client.base_url)
    body = b'{"input":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"session_id":"s1","response_id":"r1"}'
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /process HTTP/1.1\r\nhost: {url.host}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(DEADLINE_SECONDS):
        received = await reader.read()
    writer.close()
    await writer.wait_closed()
    status, _, rest = received.partition(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert b"\r\ncontent-type: text/event-stream; charset=utf-8\r\n" in rest
    lines = [line for line in rest.split(b"\n") if line.startswith((b"data:", b"event:", b"id:"))]
    created = b'data: {"sequence_number":0,"object":"response","status":"created","id":"r1"'
    assert lines[0].startswith(created)
    assert all(line.startswith(b"data: {") and line.endswith(b"}") for line in lines)
    assert b"null" not in b"".join(lines)
    assert b'"object":"response","status":"completed"' in lines[-1]


async def test_ids_may_be_any_text(scene: AgentApiScene) -> None:
    for name in ("a/b", "a%2Fb", "é ?#&=", "x" * 256):
        given = await scene.whole("hi", agent="words", response_id=name, session_id=name)
        answer = await scene.http.get(f"/process/{quote(name, safe='')}", params={"stream": "false"})
        assert answer.json() == given
        assert (given["id"], given["session_id"]) == (name, name)


async def test_answers_are_as_the_api_document_says(scene: AgentApiScene) -> None:
    document = await scene.gateway.client.get("/openapi.json")
    schemas = {**document, "$ref": "#/components/schemas/AgentApiResponse"}
    errors = {**document, "$ref": "#/components/schemas/AgentApiError"}
    response, error = (jsonschema_rs.validator_for(schema) for schema in (schemas, errors))
    for agent_id in ("words", "thinker", "adder", "refunder", "painter", "refuser", "breaking", "cut"):
        frames = await scene.stream("hi", agent=agent_id, n=2)
        for frame in frames:
            if frame["object"] == "response":
                response.validate(frame)
    error.validate((await scene.refused({"input": "x"})).json())
