"""One question asked over any protocol, and what its client understood of the answer, in words that all of them share.

A speaker is one protocol in one form: a stream, or one body. Another protocol is another `Speaker` in `SPEAKERS`; what
it cannot say stands in the table of the test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.openai_api.ids import new_run_id
from tests.a2a_speaker import A2A_SPEAKERS
from tests.agent_api_speaker import AGENT_API_SPEAKERS
from tests.running_gateway import GatewayClient
from tests.told_runs import Question, Speaker, Told, streamed, tool_schema, whole, words

_PICTURE: Final = re.compile(r"\s*!\[[^\]]*\]\(data:([^;]+);base64,([^)]*)\)\s*")
_NOTE: Final = re.compile(r"(?:\A|\n\n)\[Approval needed\] (.*?)\n\n```.*\Z", re.DOTALL)


def _data(answer: bytes) -> Iterator[Any]:
    """The data of a stream's frames; `[DONE]` must be the last one."""
    lines = [line[6:] for line in answer.split(b"\n") if line.startswith(b"data: ")]
    assert lines.index(b"[DONE]") == len(lines) - 1
    return map(json.loads, lines[:-1])


# --- AG-UI ---------------------------------------------------------------------------------------------------------


async def _ask_ag_ui(gateway: GatewayClient, question: Question) -> Told:
    body = {
        "threadId": f"thread-{question.id}",
        "runId": f"run-{question.id}",
        "protocolVersion": "1.0",
        "messages": [{"id": f"user-{question.id}", "role": "user", "content": question.text}],
        "tools": [{"name": name, "description": "Asks.", "parameters": tool_schema()} for name in question.tools],
    }
    path, run_id = f"/agents/{question.agent_id}/run", body["runId"]
    answer = await streamed(gateway, path, body, question, str(run_id))
    events = [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: ")]
    return told_by_ag_ui(events)


@dataclass(slots=True)
class _Heard:
    """What of an AG-UI stream is put together from pieces."""

    texts: dict[str, str] = field(default_factory=dict)
    reasoning: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    media: list[tuple[str, str]] = field(default_factory=list)


def told_by_ag_ui(events: Sequence[Mapping[str, Any]]) -> Told:
    """What AG-UI's events tell."""
    heard = _Heard()
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                heard.texts[event["messageId"]] = ""
            case "TEXT_MESSAGE_CONTENT":
                heard.texts[event["messageId"]] += event["delta"]
            case "REASONING_MESSAGE_START":
                heard.reasoning[event["messageId"]] = ""
            case "REASONING_MESSAGE_CONTENT":
                heard.reasoning[event["messageId"]] += event["delta"]
            case "TOOL_CALL_START":
                heard.names[event["toolCallId"]] = event["toolCallName"]
                heard.arguments[event["toolCallId"]] = ""
            case "TOOL_CALL_ARGS":
                heard.arguments[event["toolCallId"]] += event["delta"]
            case "TOOL_CALL_RESULT":
                heard.results[event["toolCallId"]] = event["content"]
            case "ACTIVITY_SNAPSHOT" if event["activityType"] == "agui_gateway.media":
                heard.media.append((event["content"]["mediaType"], event["content"]["data"]))
            case "CUSTOM" if event["name"] == "agui_gateway.retracted":
                heard.texts[event["value"]["messageId"]] = event["value"]["content"]
    told = Told(
        words(" ".join(heard.texts.values())),
        reasoning=words(" ".join(heard.reasoning.values())),
        backend=tuple((heard.names[id], heard.arguments[id], result) for id, result in heard.results.items()),
        media=tuple(heard.media),
    )
    return _end_of_ag_ui(told, events[-1], heard)


def _end_of_ag_ui(told: Told, last: Mapping[str, Any], heard: _Heard) -> Told:
    if last["type"] == "RUN_ERROR":
        return replace(told, outcome="failed", error=last["code"])
    outcome = last["outcome"]
    if outcome["type"] == "interrupt":
        return replace(told, outcome="asks", questions=tuple(each["message"] for each in outcome["interrupts"]))
    if pending := outcome.get("pendingToolCallIds"):
        calls = tuple((heard.names[id], heard.arguments[id]) for id in pending)
        return replace(told, outcome="client_tools", pending=calls)
    if outcome["type"] == "cancelled":
        return replace(told, outcome="cancelled")
    stopped = last.get("result", {}).get("stopReason")
    return replace(told, outcome="length" if stopped == "max_tokens" else "completed")


# --- Chat Completions ------------------------------------------------------------------------------------------------


def _chat_body(question: Question, *, stream: bool) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": name, "description": "Asks.", "parameters": tool_schema()}}
        for name in question.tools
    ]
    return {
        "model": question.agent_id,
        "messages": [{"role": "user", "content": question.text}],
        "stream": stream,
        **({"tools": tools} if tools else {}),
    }


async def _ask_chat_stream(gateway: GatewayClient, question: Question) -> Told:
    body, run_id = _chat_body(question, stream=True), new_run_id("chatcmpl-", question.id)
    return told_by_chat_stream([*_data(await streamed(gateway, "/v1/chat/completions", body, question, run_id))])


async def _ask_chat_body(gateway: GatewayClient, question: Question) -> Told:
    body, run_id = _chat_body(question, stream=False), new_run_id("chatcmpl-", question.id)
    status, answer = await whole(gateway, "/v1/chat/completions", body, question, run_id)
    if status != 200:
        return _failed(answer["error"]["code"])
    (choice,) = answer["choices"]
    return _told_by_chat(choice["message"], choice["finish_reason"])


def told_by_chat_stream(chunks: Sequence[Mapping[str, Any]]) -> Told:
    """What the chunks of a completion tell: a client adds up their deltas."""
    message: dict[str, Any] = {"tool_calls": []}
    reason, error = "", ""
    for chunk in chunks:
        error = chunk.get("error", {}).get("code", "")
        for choice in chunk.get("choices", ()):
            reason = choice["finish_reason"] or reason
            for name in ("content", "refusal", "reasoning_content"):
                message[name] = message.get(name, "") + choice["delta"].get(name, "")
            for piece in choice["delta"].get("tool_calls", ()):
                if piece["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append(piece)
                else:
                    function = message["tool_calls"][piece["index"]]["function"]
                    function["arguments"] += piece["function"]["arguments"]
    told = _told_by_chat(message, reason)
    failed = _failed(error)
    return replace(told, outcome=failed.outcome, error=failed.error) if error else told


def _told_by_chat(message: Mapping[str, Any], reason: str) -> Told:
    content = message["content"] or ""
    question = _NOTE.search(content)
    content = _NOTE.sub("", content)
    calls = message.get("tool_calls") or ()
    outcomes = {"stop": "asks" if question else "completed", "tool_calls": "client_tools"}
    return Told(
        words(_PICTURE.sub(" ", content)),
        refusal=words(message.get("refusal") or ""),
        reasoning=words(message.get("reasoning_content") or ""),
        pending=tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls),
        media=tuple((found[1], found[2]) for found in _PICTURE.finditer(content)),
        questions=(question[1],) if question else (),
        outcome=outcomes.get(reason, reason),
    )


def _failed(code: str) -> Told:
    return Told(outcome="cancelled") if code == "cancelled" else Told(outcome="failed", error=code)


# --- Responses -------------------------------------------------------------------------------------------------------


def _responses_body(question: Question, *, stream: bool) -> dict[str, Any]:
    tools = [
        {"type": "function", "name": name, "description": "Asks.", "parameters": tool_schema()}
        for name in question.tools
    ]
    asks = {"type": "mcp", "server_label": "gateway"}  # it takes questions as items
    return {"model": question.agent_id, "input": question.text, "stream": stream, "tools": [*tools, asks]}


async def _ask_responses_stream(gateway: GatewayClient, question: Question) -> Told:
    body, run_id = _responses_body(question, stream=True), new_run_id("resp_", question.id)
    return told_by_responses_stream([*_data(await streamed(gateway, "/v1/responses", body, question, run_id))])


async def _ask_responses_end(gateway: GatewayClient, question: Question) -> Told:
    """What a client knows that looks at a stream's last event alone."""
    body, run_id = _responses_body(question, stream=True), new_run_id("resp_", question.id)
    events = [*_data(await streamed(gateway, "/v1/responses", body, question, run_id))]
    return told_by_response(events[-1]["response"])


async def _ask_responses_body(gateway: GatewayClient, question: Question) -> Told:
    body, run_id = _responses_body(question, stream=False), new_run_id("resp_", question.id)
    status, answer = await whole(gateway, "/v1/responses", body, question, run_id)
    return told_by_response(answer) if status == 200 else _failed(answer["error"]["code"])


async def _ask_responses_later(gateway: GatewayClient, question: Question) -> Told:
    """What a client is told that asks for the Response once it is there."""
    body, run_id = _responses_body(question, stream=False), new_run_id("resp_", question.id)
    later = f"/v1/responses/{run_id}"
    await whole(gateway, "/v1/responses", body, question, run_id, said_at=later)
    return told_by_response(await gateway.get(later))


def told_by_responses_stream(events: Sequence[Mapping[str, Any]]) -> Told:
    """What the events of a response tell: a client adds up their deltas, and takes the rest from the finished items."""
    texts: dict[int, dict[str, str]] = {}
    done: dict[int, Any] = {}
    members = {
        "response.output_text.delta": "text",
        "response.refusal.delta": "refusal",
        "response.reasoning_summary_text.delta": "reasoning",
    }
    for event in events:
        if (member := members.get(event["type"])) is not None:
            said = texts.setdefault(event["output_index"], {})
            said[member] = said.get(member, "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    response = events[-1]["response"]
    told = told_by_response({**response, "output": [done[index] for index in sorted(done)]})
    joined: dict[str, Any] = {
        member: words(" ".join(texts[index].get(member, "") for index in sorted(texts)))
        for member in ("text", "refusal", "reasoning")
    }
    return replace(told, **joined)


def told_by_response(response: Mapping[str, Any]) -> Told:
    """What a Response tells."""
    parts: dict[str, list[str]] = {"output_text": [], "refusal": [], "summary_text": []}
    found: dict[str, list[Any]] = {}
    for item in response["output"]:
        found.setdefault(item["type"], []).append(item)
        for part in (*item.get("content", ()), *item.get("summary", ())):
            parts[part["type"]].append(part["refusal" if part["type"] == "refusal" else "text"])
    text = " ".join(parts["output_text"])
    pictures = tuple(("image/png", item["result"]) for item in found.get("image_generation_call", ()))
    told = Told(
        words(_PICTURE.sub(" ", text)),
        refusal=words(" ".join(parts["refusal"])),
        reasoning=words(" ".join(parts["summary_text"])),
        backend=tuple((item["name"], item["arguments"], item["output"]) for item in found.get("mcp_call", ())),
        pending=tuple((item["name"], item["arguments"]) for item in found.get("function_call", ())),
        media=(*pictures, *((each[1], each[2]) for each in _PICTURE.finditer(text))),
        questions=tuple(item["name"] for item in found.get("mcp_approval_request", ())),
    )
    return _end_of_response(told, response)


def _end_of_response(told: Told, response: Mapping[str, Any]) -> Told:
    match response["status"]:
        case "failed":
            return replace(told, outcome="failed", error=response["error"]["type"])
        case "incomplete":
            reason = response["incomplete_details"]["reason"]
            return replace(told, outcome="length" if reason == "max_output_tokens" else reason)
        case "completed":
            outcome = "client_tools" if told.pending else "asks" if told.questions else "completed"
            return replace(told, outcome=outcome)
        case status:
            return replace(told, outcome=status)


SPEAKERS: Final[tuple[Speaker, ...]] = (
    Speaker("AG-UI", "stream", _ask_ag_ui),
    Speaker("Chat", "stream", _ask_chat_stream),
    Speaker("Chat", "body", _ask_chat_body),
    Speaker("Responses", "stream", _ask_responses_stream),
    Speaker("Responses", "stream's end", _ask_responses_end),
    Speaker("Responses", "body", _ask_responses_body),
    Speaker("Responses", "GET", _ask_responses_later),
    *A2A_SPEAKERS,
    *AGENT_API_SPEAKERS,
)
