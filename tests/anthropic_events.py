"""The events of Anthropic's Messages API, as it writes them."""

from __future__ import annotations

from gateway.messages import JsonObject
from tests.openai_chat_server import record


def whole(*events: JsonObject, stop: str = "end_turn") -> list[bytes]:
    """A response's records around those of its content."""
    usage: JsonObject = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
    start: JsonObject = {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}
    delta: JsonObject = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}
    return [record(event) for event in (start, *events, delta, {"type": "message_stop"})]


def block(index: int, content: JsonObject, *deltas: JsonObject) -> list[JsonObject]:
    events: list[JsonObject] = [{"type": "content_block_start", "index": index, "content_block": content}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def text(index: int, *words: str) -> list[JsonObject]:
    deltas: list[JsonObject] = [{"type": "text_delta", "text": word} for word in words]
    return block(index, {"type": "text", "text": ""}, *deltas)
