"""The chunks of Gemini's generateContent, as it writes them."""

from __future__ import annotations

import json

from gateway.messages import JsonObject, JsonValue


def record(chunk: JsonObject) -> bytes:
    """As the service frames it."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\r\n\r\n"


def chunk(*parts: JsonObject, finish: str | None = None, **more: JsonValue) -> bytes:
    content: JsonObject = {"role": "model", "parts": list(parts)}
    candidate: JsonObject = {"content": content, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return record({"candidates": [candidate], **more})
