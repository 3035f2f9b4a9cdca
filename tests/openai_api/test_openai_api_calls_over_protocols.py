"""What waits for a client or a person is asked over one protocol, and answered over another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.a2a_speaker import V1, message, told_by_task
from tests.agent_api_speaker import process_body
from tests.agent_api_speaker import told_by_response as told_by_agent_api
from tests.protocol_speakers import told_by_ag_ui, told_by_response
from tests.running_gateway import GatewayClient, LocalGateway, agent, local_gateway, scripted

_SCHEMA: Final = {"type": "object", "properties": {"question": {"type": "string"}}}
_ASKS: Final = agent(
    "asks",
    scripted(
        [{"text": "Tell me."}, {"tool": "ask", "arguments": {"question": "Who?"}}], [{"text": "It is {{result}}."}]
    ),
)
_REFUNDS: Final = agent(
    "refunds",
    scripted(
        [{"text": "You said: {{user}}"}],
        rules=[
            {
                "when": {"last_user_contains": "please"},
                "response": [{"text": "One moment."}, {"tool": "refund", "arguments": {"order": "1"}}],
            }
        ],
    ),
    tools=[{"type": "PythonTool", "parameters": {"function": "tests.case_tools:refund"}, "approval": "always"}],
)
_ARGUMENTS: Final = '{"question":"Who?"}'


@dataclass(frozen=True, slots=True)
class Pending:
    """A call that waits."""

    thread_id: str
    run_id: str
    call_id: str


async def _post(client: GatewayClient, path: str, body: dict[str, Any], **headers: str) -> Any:
    answer = await client.http.post(path, json={"model": "asks", **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _messages(client: GatewayClient, thread_id: str) -> list[dict[str, Any]]:
    page = await client.get(f"/threads/{thread_id}/messages?limit=100")
    messages: list[dict[str, Any]] = page["messages"]
    return messages


# --- AG-UI


async def _run(client: GatewayClient, thread_id: str, run_id: str, messages: list[dict[str, Any]]) -> Any:
    tools = [{"name": "ask", "description": "Asks.", "parameters": _SCHEMA}]
    body = {"threadId": thread_id, "runId": run_id, "messages": messages, "tools": tools, "protocolVersion": "1.0"}
    return [frame.data for frame in await client.run("asks", body)]


async def _made_over_ag_ui(client: GatewayClient, name: str) -> Pending:
    asked = {"id": f"user-{name}", "role": "user", "content": "Please."}
    events = await _run(client, f"thread-{name}", f"run-{name}", [asked])
    (call_id,) = events[-1]["outcome"]["pendingToolCallIds"]
    return Pending(f"thread-{name}", f"run-{name}", call_id)


async def _answered_over_ag_ui(client: GatewayClient, call: Pending) -> str:
    result = {"id": f"result-{call.run_id}", "role": "tool", "toolCallId": call.call_id, "content": "Ada"}
    messages = [*await _messages(client, call.thread_id), result]
    return told_by_ag_ui(await _run(client, call.thread_id, f"next-{call.run_id}", messages)).text


# --- Chat Completions

_CHAT_TOOLS: Final = [{"type": "function", "function": {"name": "ask", "parameters": _SCHEMA}}]


async def _made_over_chat(client: GatewayClient, name: str) -> Pending:
    body = {"messages": [{"role": "user", "content": "Please."}], "tools": _CHAT_TOOLS}
    answer = await _post(client, "/v1/chat/completions", body, **{"X-Thread-Id": f"thread-{name}"})
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    return Pending(f"thread-{name}", answer["id"], call["id"])


async def _answered_over_chat(client: GatewayClient, call: Pending) -> str:
    made = {"id": call.call_id, "type": "function", "function": {"name": "ask", "arguments": _ARGUMENTS}}
    messages = [
        {"role": "user", "content": "Please."},
        {"role": "assistant", "content": "Tell me.", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": call.call_id, "content": "Ada"},
    ]
    body = {"messages": messages, "tools": _CHAT_TOOLS}
    answer = await _post(client, "/v1/chat/completions", body, **{"X-Thread-Id": call.thread_id})
    content: str = answer["choices"][0]["message"]["content"]
    return content


# --- Responses

_RESPONSES_TOOLS: Final = [{"type": "function", "name": "ask", "parameters": _SCHEMA}]


async def _made_over_responses(client: GatewayClient, name: str) -> Pending:
    answer = await _post(client, "/v1/responses", {"input": "Please.", "tools": _RESPONSES_TOOLS})
    return Pending(answer["conversation"]["id"], answer["id"], answer["output"][-1]["call_id"])


async def _answered_over_responses(client: GatewayClient, call: Pending) -> str:
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Ada"}
    body = {"input": [result], "previous_response_id": call.run_id, "tools": _RESPONSES_TOOLS}
    answer = await _post(client, "/v1/responses", body)
    assert answer["conversation"] == {"id": call.thread_id}
    return told_by_response(answer).text


# --- A2A

_A2A: Final = "/agents/asks/a2a"


async def _made_over_a2a(client: GatewayClient, name: str) -> Pending:
    params = message("Please.", f"message-{name}", ["ask"])
    task = (await _post(client, f"{_A2A}/message:send", params, **V1))["task"]
    (call,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
    return Pending(task["contextId"], task["id"], call["tool_call_id"])


async def _answered_over_a2a(client: GatewayClient, call: Pending) -> str:
    """By the task that the call's run is."""
    params = message("", f"answer-{call.run_id}", ["ask"], taskId=call.run_id, contextId=call.thread_id)
    params["message"]["parts"] = [{"data": {"tool_call_id": call.call_id, "output": "Ada"}}]
    task = (await _post(client, f"{_A2A}/message:send", params, **V1))["task"]
    assert (task["id"], task["status"]["state"]) == (call.run_id, "TASK_STATE_COMPLETED")
    said: str = told_by_task(task).text
    return said.removeprefix("Tell me. ")  # an artifact of the run that asked


async def _state(client: GatewayClient, call: Pending) -> str:
    """The state of the task that the call's run is."""
    answer = await client.http.get(f"{_A2A}/tasks/{call.run_id}", headers=V1)
    assert answer.status_code == 200, answer.text
    state: str = answer.json()["status"]["state"]
    return state


# --- Agent API


async def _made_over_agent_api(client: GatewayClient, name: str) -> Pending:
    answer = await _post(client, "/agents/asks/process", process_body("Please.", ["ask"], stream=False))
    call = answer["output"][-1]
    assert call["type"] == "function_call"
    return Pending(answer["session_id"], answer["id"], call["content"][0]["data"]["call_id"])


async def _answered_over_agent_api(client: GatewayClient, call: Pending) -> str:
    output = {"type": "data", "data": {"call_id": call.call_id, "output": "Ada"}}
    result = {"type": "function_call_output", "role": "tool", "content": [output]}
    body = {**process_body("", ["ask"], stream=False), "input": [result], "session_id": call.thread_id}
    return told_by_agent_api(await _post(client, "/agents/asks/process", body)).text


_MAKES: Final = {
    "AG-UI": _made_over_ag_ui,
    "Chat": _made_over_chat,
    "Responses": _made_over_responses,
    "A2A": _made_over_a2a,
    "Agent API": _made_over_agent_api,
}
_ANSWERS: Final = {
    "AG-UI": _answered_over_ag_ui,
    "Chat": _answered_over_chat,
    "Responses": _answered_over_responses,
    "A2A": _answered_over_a2a,
    "Agent API": _answered_over_agent_api,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[LocalGateway]:
    directory: Path = tmp_path_factory.mktemp("gateway")
    async with local_gateway(directory, [_ASKS, _REFUNDS]) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("maker", _MAKES)
@pytest.mark.parametrize("answerer", _ANSWERS)
async def test_a_call_that_is_made_over_one_protocol_is_answered_over_any(
    maker: str, answerer: str, gateway: LocalGateway
) -> None:
    client = gateway.client
    call = await _MAKES[maker](client, f"{maker}-{answerer}")
    assert await _state(client, call) == "TASK_STATE_INPUT_REQUIRED"
    assert await _ANSWERS[answerer](client, call) == "It is Ada."
    assert await _state(client, call) == "TASK_STATE_COMPLETED"
    kept = await _messages(client, call.thread_id)
    assert [message["role"] for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert len((await client.get(f"/threads/{call.thread_id}/versions"))["versions"]) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_chat_goes_on_behind_an_approval_that_was_given_elsewhere(gateway: LocalGateway) -> None:
    client, shown = gateway.client, [{"role": "user", "content": "Please."}]

    async def say(text: str = "") -> str:
        if text:
            shown.append({"role": "user", "content": text})
        body = {"model": "refunds", "messages": shown}
        answer = await _post(client, "/v1/chat/completions", body, **{"X-Thread-Id": "thread-refund"})
        content: str = answer["choices"][0]["message"]["content"]
        shown.append({"role": "assistant", "content": content})
        return content

    assert "[Approval needed] The tool 'refund'" in await say()
    assert "[Approval needed] The tool 'refund'" in await say("Hurry.")  # it is asked again, and nobody decided
    kept = await _messages(client, "thread-refund")
    call_id = kept[1]["toolCalls"][0]["id"]
    resume = [{"interruptId": f"int-{call_id}", "status": "resolved", "payload": {"approved": True}}]
    run = {"threadId": "thread-refund", "runId": "run-refund", "messages": [], "protocolVersion": "1.0"}
    await client.run("refunds", {**run, "resume": resume})
    assert await say("And?") == "You said: And?"
    kept = await _messages(client, "thread-refund")
    assert [each["content"] for each in kept if each["role"] == "user"] == ["Please.", "Hurry.", "And?"]
    assert any(each["role"] == "tool" and each["content"] == "refunded 1 with 0" for each in kept)
    assert len((await client.get("/threads/thread-refund/versions"))["versions"]) == 1
