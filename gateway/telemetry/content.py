"""Messages, arguments and results as the conventions want them: as JSON, and only if the operator asks for content.

Below: messages, model, records. Above: model_calls and tool_calls. Media are named and left out.
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-input-messages.json
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.messages import (
    ContentBlock,
    JsonObject,
    JsonValue,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
)
from gateway.model import ModelRequest
from gateway.records import dump_json
from gateway.traces import Attributes


def request_content(request: ModelRequest) -> Attributes:
    """The model's input."""
    attributes = {"gen_ai.input.messages": _json([_message(message) for message in request.messages])}
    if request.system:
        attributes["gen_ai.system_instructions"] = _json([_text("text", request.system)])
    return attributes


def response_content(messages: Iterable[Message], finish_reason: str) -> Attributes:
    """The model's response."""
    parts = [part for message in messages for part in _parts(message.content)]
    return {"gen_ai.output.messages": _json([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])}


def arguments_content(arguments: JsonObject) -> Attributes:
    """A call's arguments."""
    return {"gen_ai.tool.call.arguments": _json(arguments)}


def result_content(blocks: Sequence[ContentBlock]) -> Attributes:
    """A tool's result."""
    return {"gen_ai.tool.call.result": _json(_parts(blocks))}


def _message(message: Message) -> JsonValue:
    return {"role": message.role, "parts": _parts(message.content)}


def _parts(blocks: Iterable[ContentBlock]) -> list[JsonValue]:
    return [_part(block) for block in blocks]


def _part(block: ContentBlock) -> JsonValue:
    match block:
        case TextBlock(text):
            return _text("text", text)
        case ReasoningBlock(text):
            return _text("reasoning", text)
        case ToolCall():
            return {"type": "tool_call", "id": block.call_id, "name": block.name, "arguments": block.arguments}
        case ToolResult():
            return {"type": "tool_call_response", "id": block.call_id, "response": _parts(block.content)}
        case _:
            return {"type": "blob", "modality": type(block).__name__.removesuffix("Block").lower()}


def _text(kind: str, text: str) -> JsonValue:
    return {"type": kind, "content": text}


def _json(value: JsonValue) -> str:
    try:
        return dump_json(value).decode()
    except ValueError:  # a tool's arguments may be nested without end
        return "null"
