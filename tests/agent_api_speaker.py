"""The Agent API among the speakers of all protocols: what its clients are told by streams, by bodies, and later."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tests.running_gateway import GatewayClient
from tests.stock_ui import StockUI
from tests.told_runs import Question, Speaker, Told, streamed, tool_schema, whole, words

_DATA_URL: Final = re.compile(r"data:([^;]+);base64,(.*)")
_OUTCOMES: Final = {"canceled": "cancelled", "failed": "failed", "completed": "completed"}


def process_body(text: str, tools: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """The body of POST /process: a user's message."""
    specs = [
        {"type": "function", "function": {"name": name, "description": "Asks.", "parameters": tool_schema()}}
        for name in tools
    ]
    content = [{"type": "text", "text": text}]
    said = [{"role": "user", "type": "message", "content": content}]
    return {"input": said, **({"tools": specs} if specs else {}), **more}


def _response_id(question: Question) -> str:
    return f"response-{question.id}"


def _asked(question: Question, *, stream: bool) -> tuple[str, dict[str, Any]]:
    body = process_body(question.text, question.tools, response_id=_response_id(question), stream=stream)
    return f"/agents/{question.agent_id}/process", body


async def _stream(gateway: GatewayClient, question: Question) -> list[Any]:
    path, body = _asked(question, stream=True)
    answer = await streamed(gateway, path, body, question, _response_id(question))
    return [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: ")]


async def _ask_stream(gateway: GatewayClient, question: Question) -> Told:
    """A client that adds up deltas, and takes the rest from the completed contents."""
    return told_by_frames(await _stream(gateway, question))


async def _ask_screen(gateway: GatewayClient, question: Question) -> Told:
    """What the stock web page shows."""
    page = StockUI()
    for frame in await _stream(gateway, question):
        page.take(frame)
    return told_by_response(page.data)


async def _ask_body(gateway: GatewayClient, question: Question) -> Told:
    path, body = _asked(question, stream=False)
    later = f"/process/{_response_id(question)}?stream=false"
    status, answer = await whole(gateway, path, body, question, _response_id(question), said_at=later)
    assert status == 200, answer
    return told_by_response(answer)


async def _ask_later(gateway: GatewayClient, question: Question) -> Told:
    """A client that asks for the response once it is there."""
    await _ask_body(gateway, question)
    return told_by_response(await gateway.get(f"/process/{_response_id(question)}?stream=false"))


def told_by_frames(frames: Sequence[Mapping[str, Any]]) -> Told:
    """What a stream tells: a client adds up the deltas of words, and takes the rest from the response at the end."""
    kinds: dict[str, str] = {}
    texts: dict[tuple[str, int, str], str] = {}
    for frame in frames:
        if frame["object"] == "message":
            kinds[frame["id"]] = frame["type"]
        elif frame["object"] == "content" and frame["delta"] and frame["type"] in ("text", "refusal"):
            place = (frame["msg_id"], frame["index"], frame["type"])
            texts[place] = texts.get(place, "") + frame[frame["type"]]
    assert [frame["sequence_number"] for frame in frames] == [*range(len(frames))]

    def joined(kind: str, member: str) -> str:
        said = (text for (message, _, each), text in texts.items() if (kinds[message], each) == (kind, member))
        return words(" ".join(said))

    return replace(
        told_by_response(frames[-1]),
        text=joined("message", "text"),
        refusal=joined("message", "refusal"),
        reasoning=joined("reasoning", "text"),
    )


def told_by_response(response: Mapping[str, Any]) -> Told:
    """What a response tells."""
    said: dict[tuple[str, str], list[Any]] = {}
    for message in response["output"]:
        for content in message["content"]:
            said.setdefault((message["type"], content["type"]), []).append(content)

    def texts(kind: str, member: str) -> str:
        return words(" ".join(content[member] for content in said.get((kind, member), ())))

    def data(kind: str) -> list[Any]:
        return [content["data"] for content in said.get((kind, "data"), ())]

    calls = {call["call_id"]: call for call in (*data("plugin_call"), *data("mcp_call"))}
    outputs = (*data("plugin_call_output"), *data("mcp_call_output"))
    told = Told(
        texts("message", "text"),
        refusal=texts("message", "refusal"),
        reasoning=texts("reasoning", "text"),
        backend=tuple((*_called(calls[each["call_id"]]), each["output"]) for each in outputs),
        pending=tuple(_called(each) for each in data("function_call")),
        media=tuple(_medium(each["image_url"]) for each in said.get(("message", "image"), ())),
        questions=tuple(each["name"] for each in data("mcp_approval_request")),
    )
    return _end_of_response(told, response)


def _called(call: Mapping[str, Any]) -> tuple[str, str]:
    return call["name"], call["arguments"]


def _medium(url: str) -> tuple[str, str]:
    found = _DATA_URL.fullmatch(url)
    assert found is not None, url
    return found[1], found[2]


def _end_of_response(told: Told, response: Mapping[str, Any]) -> Told:
    if (why := response.get("incomplete_details")) is not None:
        return replace(told, outcome="length" if why["reason"] == "max_tokens" else why["reason"])
    if response["status"] == "completed" and (told.pending or told.questions):
        return replace(told, outcome="client_tools" if told.pending else "asks")
    return replace(told, outcome=_OUTCOMES[response["status"]], error=response.get("error", {}).get("code", ""))


AGENT_API_SPEAKERS: Final = (
    Speaker("Agent API", "stream", _ask_stream),
    Speaker("Agent API", "screen", _ask_screen),
    Speaker("Agent API", "body", _ask_body),
    Speaker("Agent API", "GET", _ask_later),
)
