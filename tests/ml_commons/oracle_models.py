"""A local model server that needs no script: what it answers follows from the request alone, so that two servers may
ask it in their own ways, and as often as they like.

    call NAME {"a": 1}    calls that tool once, if it is declared
    always NAME           calls that tool whenever tools are declared
    fail 429              answers with that status
    describe              tells what the request has: system prompts, roles, tools, options
    anything else         "You said: ..."

It speaks OpenAI's chat completions below `/v1`, and Bedrock's Converse below `/model`: as one JSON answer or as a
stream, as the request options.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests import bedrock_server as bedrock
from tests.local_listener import listening, port_of

_CALL = re.compile(r"\bcall (\w+) (\{.*\})", re.DOTALL)
_ALWAYS = re.compile(r"\balways (\w+)")
_FAIL = re.compile(r"\bfail (\d{3})")
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@asynccontextmanager
async def oracle_models() -> AsyncGenerator[str]:
    """Its address."""
    async with listening(_serve) as listener:
        yield f"http://127.0.0.1:{port_of(listener)}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = re.search(r"content-length: (\d+)", head)
            body = await (reader.readexactly(int(length[1])) if length else _chunks(reader))
            path, request = head.split(" ", 2)[1], json.loads(body)
            writer.write(_converse(request, path) if path.startswith("/model/") else _complete(request))
            await writer.drain()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    pieces = b""
    while size := int(await reader.readline(), 16):
        pieces += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return pieces


def _complete(request: dict[str, Any]) -> bytes:
    """An answer of OpenAI's."""
    messages = request["messages"]
    said = _said(messages)
    if failure := _FAIL.search(said):
        return _http(int(failure[1]), {"message": "slow"})
    message: dict[str, Any] = {"role": "assistant", "content": f"You said: {said}"}
    reason = "stop"
    is_result = messages[-1]["role"] == "tool"
    names = [each["function"]["name"] for each in request.get("tools") or []]
    if "describe" in said:
        system = [_words(each["content"]) for each in messages if each["role"] == "system"]
        roles = [each["role"] for each in messages if each["role"] != "system"]
        options = {name: value for name, value in request.items() if name in ("temperature", "top_p", "stop")}
        message["content"] = _described(system, roles, names, options)
    if called := _called(said, len(messages), is_result, names):
        name, arguments = called
        function = {"name": name, "arguments": arguments}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    if request.get("stream"):
        return _http(200, None, _records(message, reason))
    choice = {"index": 0, "message": message, "finish_reason": reason}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "model": request["model"], "choices": [choice]}
    return _http(200, {**completion, "usage": _USAGE})


def _said(messages: list[dict[str, Any]]) -> str:
    """The words of the last user message."""
    for message in reversed(messages):
        if message["role"] == "user":
            return _words(message["content"])
    return ""


def _words(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in content)


def _called(said: str, count: int, is_result: bool, tools: list[str]) -> tuple[str, str] | None:
    """The call to make in answer to so many messages; `is_result`: the last one has a tool's result."""
    if (always := _ALWAYS.search(said)) and always[1] in tools:
        return always[1], json.dumps({"indices": [str(count)]})  # never the same call twice
    once = _CALL.search(said)
    if once and once[1] in tools and not is_result:
        return once[1], once[2]
    return None


def _described(system: list[str], roles: list[str], tools: list[str], options: dict[str, Any]) -> str:
    parts = {"system prompt": system, "roles": roles, "tools": sorted(tools)}
    told = [f"{name} {', '.join(values) or '-'}" for name, values in parts.items()]
    return "; ".join([*told, *(f"{name} {value}" for name, value in sorted(options.items()))])


def _converse(request: dict[str, Any], path: str) -> bytes:
    """An answer of Bedrock's."""
    messages = request["messages"]
    texts = [
        [block["text"] for block in each["content"] if "text" in block] for each in messages if each["role"] == "user"
    ]
    said = " ".join(next((each for each in reversed(texts) if each), []))
    if failure := _FAIL.search(said):
        return _http(int(failure[1]), {"message": "slow"})
    is_result = any("toolResult" in block for block in messages[-1]["content"])
    tools = [each["toolSpec"]["name"] for each in request.get("toolConfig", {}).get("tools", []) if "toolSpec" in each]
    called = _called(said, len(messages), is_result, tools)
    words = f"You said: {said}"
    if "describe" in said:
        system = [each["text"] for each in request.get("system", [])]
        words = _described(system, [each["role"] for each in messages], tools, request.get("inferenceConfig", {}))
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    reason = "tool_use" if called else "end_turn"
    if path.endswith("converse-stream"):
        text = bedrock.text(words) + bedrock.block_stop()
        block = bedrock.tool(0, f"call_{len(messages)}", *called) if called else text
        start, end = bedrock.event("messageStart", role="assistant"), bedrock.message_stop(reason)
        return _http(200, None, start + block + end + bedrock.metadata(usage), "application/vnd.amazon.eventstream")
    content: dict[str, Any] = {"text": words}
    if called:
        content = {"toolUse": {"toolUseId": f"call_{len(messages)}", "name": called[0], "input": json.loads(called[1])}}
    message = {"role": "assistant", "content": [content]}
    return _http(200, {"output": {"message": message}, "stopReason": reason, "usage": usage})


def _records(message: dict[str, Any], reason: str) -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if calls := message.get("tool_calls"):
        deltas += [{"tool_calls": [{"index": number, **call} for number, call in enumerate(calls)]}]
    else:
        deltas += [{"content": word} for word in re.findall(r"\S+\s*", message["content"])]
    chunks: list[dict[str, Any]] = [_chunk([{"index": 0, "delta": each, "finish_reason": None}]) for each in deltas]
    chunks += [_chunk([{"index": 0, "delta": {}, "finish_reason": reason}]), {**_chunk([]), "usage": _USAGE}]
    return b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices}


def _http(status: int, body: object, stream: bytes | None = None, kind: str = "text/event-stream") -> bytes:
    content, kind = (json.dumps(body).encode(), "application/json") if stream is None else (stream, kind)
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content
