"""A client's result or a person's answer that was taken in by a run that then failed: the same request goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.a2a_scene import A2AClient, of_agent, said, sent, words_of
from tests.agent_api_scene import said as said_to_agent_api
from tests.agent_api_scene import told
from tests.agent_api_scene import words_of as words_of_response
from tests.case_tools import executions, python_tool
from tests.ml_commons_scene import P
from tests.running_gateway import LocalGateway, agent, local_gateway, parse_frames, run_body, scripted
from tests.waiting import until_answered

Json = dict[str, Any]
Second = Callable[[], Awaitable[str]]
"""Sends the request once more; what the agent says, without what it said before it failed."""

KEY = "boss-0123456789abcdef"
SERVER = {"api_keys": [{"name": "boss", "key": KEY, "approvals": True}]}
SECTIONS = {"protocols": {"responses": {"approvals": "mcp_approval_request", "backend_tools": "hidden"}}}
ARGUMENTS = {"order": "A1", "amount": 5}
ASK = {"name": "ask", "description": "Ask.", "parameters": {"type": "object"}}
ASK_OF_OPENAI = {"type": "function", "function": ASK}


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    executions.clear()


def agents(before: list[Json]) -> list[Json]:
    """Agents whose model fails once behind the result: at once, or when it has said something `before`."""
    fails: list[Json] = [*before, {"error": "server", "times": 1}, {"text": "It is {{result}}."}]
    once: Json = {"parameters": {"model_attempts": 1}}
    calls = [{"tool": "refund", "arguments": ARGUMENTS}]
    return [
        agent("front", scripted([{"tool": "ask", "arguments": {}}], fails), **once),
        agent("careful", scripted(calls, fails), tools=[python_tool("refund", approval="always")], **once),
    ]


class Scene:
    def __init__(self, gateway: LocalGateway) -> None:
        self.gateway = gateway
        self.http = gateway.client.http
        self.http.headers["authorization"] = f"Bearer {KEY}"

    async def post(self, path: str, body: Json, status: int = 200) -> Any:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer

    async def threads(self) -> list[Json]:
        found: list[Json] = (await self.http.get("/threads")).json()["threads"]
        return found

    async def messages(self, thread_id: str = "t") -> list[Json]:
        found: list[Json] = (await self.http.get(f"/threads/{thread_id}/messages")).json()["messages"]
        return found

    async def begin(self, agent_id: str) -> Json:
        """A thread "t" whose last message calls; what it waits for."""
        await self.post(f"/agents/{agent_id}/run", run_body("hi", thread_id="t", run_id="r1", tools=[ASK]))
        page: Json = (await self.http.get("/threads/t/messages")).json()
        return page


def words(answer: httpx.Response) -> str:
    frames = parse_frames(answer.content)
    return "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


# --- a client's result: each sends it once, which fails


async def result_over_ag_ui(scene: Scene) -> Second:
    page = await scene.begin("front")
    call_id = page["messages"][-1]["toolCalls"][0]["id"]
    result = {"id": "result", "role": "tool", "toolCallId": call_id, "content": "yes"}
    body = run_body(messages=[*page["messages"], result], thread_id="t", tools=[ASK])
    await scene.post("/agents/front/run", {**body, "runId": "r2"})

    async def second() -> str:
        return words(await scene.post("/agents/front/run", {**body, "runId": "r3"}))

    return second


async def result_over_ml_commons(scene: Scene) -> Second:
    page = await scene.begin("front")
    call_id = page["messages"][-1]["toolCalls"][0]["id"]
    said_so = {"role": "tool", "toolCallId": call_id, "content": [{"type": "text", "text": "yes"}]}
    body: Json = {"input": [said_so], "parameters": {"memory_id": "t"}}
    await scene.post(f"{P}/agents/front/_execute", body, 500)

    async def second() -> str:
        answer = await scene.post(f"{P}/agents/front/_execute", body)
        outputs = {each["name"]: each for each in answer["inference_results"][0]["output"]}
        return str(outputs["response"]["dataAsMap"]["response"])

    return second


async def result_over_agent_api(scene: Scene) -> Second:
    page = await scene.begin("front")
    call_id = page["messages"][-1]["toolCalls"][0]["id"]
    output = told("function_call_output", call_id=call_id, output="yes")
    body: Json = {"input": [output], "session_id": "t", "stream": False, "tools": [ASK_OF_OPENAI]}
    assert (await scene.post("/agents/front/process", body))["status"] == "failed"

    async def second() -> str:
        return words_of_response(await scene.post("/agents/front/process", body))

    return second


async def result_over_chat(scene: Scene) -> Second:
    scene.http.headers["x-thread-id"] = "t"
    body: Json = {"model": "front", "messages": [{"role": "user", "content": "hi"}], "tools": [ASK_OF_OPENAI]}
    asked = (await scene.post("/v1/chat/completions", body))["choices"][0]["message"]
    output = {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "yes"}
    body["messages"] += [asked, output]
    await scene.http.post("/v1/chat/completions", json=body)

    async def second() -> str:
        return str((await scene.post("/v1/chat/completions", body))["choices"][0]["message"]["content"])

    return second


def _text_of(response: Json) -> str:
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)


async def _responses(scene: Scene, body: Json) -> Second:
    await scene.http.post("/v1/responses", json=body)

    async def second() -> str:
        return _text_of(await scene.post("/v1/responses", body))

    return second


ASK_OF_RESPONSES = {"type": "function", **ASK}


async def result_behind_a_response(scene: Scene) -> Second:
    asked = await scene.post("/v1/responses", {"model": "front", "input": "hi", "tools": [ASK_OF_RESPONSES]})
    output = {"type": "function_call_output", "call_id": asked["output"][-1]["call_id"], "output": "yes"}
    more = {"input": [output], "previous_response_id": asked["id"], "tools": [ASK_OF_RESPONSES]}
    return await _responses(scene, {"model": "front", **more})


async def result_in_a_conversation(scene: Scene) -> Second:
    thread_id = (await scene.post("/v1/conversations", {}))["id"]
    more: Json = {"model": "front", "conversation": thread_id, "tools": [ASK_OF_RESPONSES]}
    asked = await scene.post("/v1/responses", {"input": "hi", **more})
    output = {"type": "function_call_output", "call_id": asked["output"][-1]["call_id"], "output": "yes"}
    return await _responses(scene, {"input": [output], **more})


async def result_of_a_history(scene: Scene) -> Second:
    more: Json = {"model": "front", "tools": [ASK_OF_RESPONSES]}
    asked = await scene.post("/v1/responses", {"input": "hi", **more})
    output = {"type": "function_call_output", "call_id": asked["output"][-1]["call_id"], "output": "yes"}
    return await _responses(scene, {"input": [{"role": "user", "content": "hi"}, *asked["output"], output], **more})


async def _task(scene: Scene, agent_id: str, message: Callable[[Json], Json], **more: Any) -> Second:
    a2a = A2AClient(scene.gateway.client)
    task = (await a2a.call("SendMessage", said("hi", contextId="t", **more), to=of_agent(agent_id)))["task"]
    params = message(task)
    failed = (await a2a.call("SendMessage", params, to=of_agent(agent_id)))["task"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"

    async def second() -> str:
        done = (await a2a.call("SendMessage", params, to=of_agent(agent_id)))["task"]
        assert (await a2a.task(task["id"]))["status"]["state"] == "TASK_STATE_FAILED", "what has ended stays so"
        assert done["contextId"] == task["contextId"]
        return words_of(done)

    return second


async def result_over_a2a(scene: Scene) -> Second:
    def output(task: Json) -> Json:
        (call,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
        part = {"data": {"tool_call_id": call["tool_call_id"], "output": "yes"}}
        answer: Json = sent([part], taskId=task["id"])
        return answer

    return await _task(scene, "front", output, metadata={"tools": [ASK]})


# --- an approval


async def approval_over_ag_ui(scene: Scene) -> Second:
    page = await scene.begin("careful")
    resume = [{"interruptId": page["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}]
    body = run_body(messages=page["messages"], thread_id="t", resume=resume)
    await scene.post("/agents/careful/run", {**body, "runId": "r2"})

    async def second() -> str:
        return words(await scene.post("/agents/careful/run", {**body, "runId": "r3"}))

    return second


async def approval_under_the_asking_runs_id(scene: Scene) -> Second:
    page = await scene.begin("careful")
    resume = [{"interruptId": page["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}]
    body = run_body(messages=[], thread_id="t", run_id="r1", resume=resume)
    await scene.post("/agents/careful/run", body)

    async def second() -> str:
        return words(await scene.post("/agents/careful/run", body))

    return second


async def approval_over_ml_commons(scene: Scene) -> Second:
    page = await scene.begin("careful")
    resume = [{"interruptId": page["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}]
    body = run_body(messages=[], thread_id="t", resume=resume)
    await scene.post(f"{P}/agents/careful/_execute/stream", {**body, "runId": "r2"})

    async def second() -> str:
        return words(await scene.post(f"{P}/agents/careful/_execute/stream", {**body, "runId": "r3"}))

    return second


async def approval_over_agent_api(scene: Scene) -> Second:
    more: Json = {"session_id": "t", "stream": False}
    asked = await scene.post("/agents/careful/process", {"input": [said_to_agent_api("hi")], **more})
    question = asked["output"][-1]["content"][0]["data"]["id"]
    answer = told("mcp_approval_response", approval_request_id=question, approve=True)
    failed = await scene.post("/agents/careful/process", {"input": [answer], **more})
    assert failed["status"] == "failed"

    async def second() -> str:
        return words_of_response(await scene.post("/agents/careful/process", {"input": [answer], **more}))

    return second


async def approval_over_responses(scene: Scene) -> Second:
    asked = await scene.post("/v1/responses", {"model": "careful", "input": "hi"})
    (question,) = [item["id"] for item in asked["output"] if item["type"] == "mcp_approval_request"]
    answer = {"type": "mcp_approval_response", "approval_request_id": question, "approve": True}
    body = {"model": "careful", "input": [answer], "previous_response_id": asked["id"]}
    return await _responses(scene, body)


async def approval_over_a2a(scene: Scene) -> Second:
    def approve(task: Json) -> Json:
        answer: Json = said("approve", taskId=task["id"])
        return answer

    return await _task(scene, "careful", approve)


async def approval_by_its_id(scene: Scene) -> Second:
    await scene.begin("careful")
    (approval,) = (await scene.http.get("/approvals")).json()["approvals"]
    path = f"/approvals/{approval['id']}"

    async def answer() -> Json:
        run_id = (await scene.post(path, {"approved": True}, 202))["runId"]
        ended = await until_answered(
            lambda: scene.http.get(f"/runs/{run_id}"), lambda run: run.json()["status"] not in ("queued", "running")
        )
        run: Json = ended.json()
        return run

    assert (await answer())["status"] == "failed"
    await scene.post(path, {"approved": False}, 409)

    async def second() -> str:
        assert (await answer())["status"] == "completed"
        return str((await scene.messages())[-1]["content"])

    return second


RESULTS = [
    result_over_ag_ui, result_over_ml_commons, result_over_agent_api, result_over_chat, result_behind_a_response,
    result_in_a_conversation, result_of_a_history, result_over_a2a,
]  # fmt: skip
APPROVALS = [
    approval_over_ag_ui, approval_under_the_asking_runs_id, approval_over_ml_commons, approval_over_agent_api,
    approval_over_responses, approval_over_a2a, approval_by_its_id,
]  # fmt: skip


@pytest.mark.parametrize("before", [[], [{"text": "Well, "}]], ids=["at once", "in the middle"])
@pytest.mark.parametrize("first", [*RESULTS, *APPROVALS])
async def test_the_same_request_goes_on_after_the_model_failed(
    tmp_path: Path, first: Callable[[Scene], Awaitable[Second]], before: list[Json]
) -> None:
    async with local_gateway(tmp_path, agents(before), server=SERVER, sections=SECTIONS) as gateway:
        scene = Scene(gateway)
        second = await first(scene)
        result = "yes" if first in RESULTS else "refunded A1 with 5"
        assert (await second()).removeprefix("Well, ") == f"It is {result}."
        (thread,) = await scene.threads()
        kept = await scene.messages(thread["id"])
    assert [each["content"] for each in kept if each["role"] == "tool"] == [result]
    assert len([each for each in kept if each["role"] == "user"]) == 1
    assert sum(executions.values()) == (first in APPROVALS)
