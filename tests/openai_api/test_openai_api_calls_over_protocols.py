"""What waits for a client or a person is asked over one protocol, and answered over another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

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


_MAKES: Final = {"AG-UI": _made_over_ag_ui, "Chat": _made_over_chat, "Responses": _made_over_responses}
_ANSWERS: Final = {"AG-UI": _answered_over_ag_ui, "Chat": _answered_over_chat, "Responses": _answered_over_responses}


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
    assert await _ANSWERS[answerer](client, call) == "It is Ada."
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
