"""What each provider's wire looks like: one long answer as frames made beforehand, of one numbered word each.

Frames are as the providers write them, with the padding that some put into every event so that its length tells nothing
(Bedrock's `p`, OpenAI's `obfuscation`, Anthropic's spaces). Above: the upstream, which sends them, and the client,
which counts them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, frame

DISTINCT = 1024
"""So many deltas differ; then they begin again."""

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Wire:
    """An answer is `opening`, then deltas, then `ending`. `mark` stands once in each delta, and in little else.

    `base` is what a model's endpoint has behind the host, `path` is in every request to this provider and to no other.
    """

    provider: str
    tls: bool
    base: str
    path: str
    content_type: str
    mark: bytes
    opening: bytes
    ending: bytes
    delta: Callable[[int], bytes]
    credential: Mapping[str, str]


def word(number: int) -> str:
    """The text of delta `number`."""
    return f"word{number % DISTINCT} "


def _padding(number: int) -> str:
    return "".join(_LETTERS[(number * 31 + place * place * 7) % len(_LETTERS)] for place in range(1 + number * 7 % 16))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _data(value: Mapping[str, object]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _named(value: Mapping[str, object]) -> bytes:
    return b"event: %b\n" % str(value["type"]).encode() + _data(value)


# --- chat completions


def _chunk(delta: Mapping[str, object], reason: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return _data(
        {
            "id": "chatcmpl-CZ2sKnLq0bVn6yNIy1FJ0jvGqT5oZ",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "gpt-4o-mini-2024-07-18",
            "service_tier": "default",
            "system_fingerprint": "fp_44add55e9a",
            "choices": [choice],
            "usage": None,
            **more,
        }
    )


_CHAT = Wire(
    "openai/v1/chat/completions",
    tls=False,
    base="/v1",
    path="/v1/chat/completions",
    content_type="text/event-stream",
    mark=b'"content":"word',
    opening=_chunk({"role": "assistant", "content": "", "refusal": None}),
    ending=_chunk({}, "stop") + b"data: [DONE]\n\n",
    delta=lambda number: _chunk({"content": word(number)}, obfuscation=_padding(number)),
    credential={"openai_api_key": "none"},
)

# --- responses

_ITEM = "msg_68ea8a0c9ab48190a5f4d1e2f1f9c3a30b7a3d1f7c5d2e10"


def _response(kind: str, number: int, **fields: Any) -> bytes:
    return _named({"type": f"response.{kind}", "sequence_number": number, **fields})


def _message(status: str, *content: object) -> dict[str, object]:
    return {"id": _ITEM, "type": "message", "status": status, "content": list(content), "role": "assistant"}


def _whole(status: str) -> dict[str, object]:
    usage = {"input_tokens": 7, "output_tokens": 9, "total_tokens": 16}
    known = {"id": "resp_68ea8a0bd3a0819080", "object": "response", "status": status, "output": []}
    return {**known, "usage": usage if status == "completed" else None}


def _responses(provider: str, *, tls: bool, base: str, path: str, credential: Mapping[str, str]) -> Wire:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    at = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
    return Wire(
        provider,
        tls,
        base,
        path,
        "text/event-stream; charset=utf-8",
        mark=b'"delta":"word',
        opening=b"".join(
            (
                _response("created", 0, response=_whole("in_progress")),
                _response("in_progress", 1, response=_whole("in_progress")),
                _response("output_item.added", 2, output_index=0, item=_message("in_progress")),
                _response("content_part.added", 3, **at, part=part),
            )
        ),
        ending=b"".join(
            (
                _response("content_part.done", 9_998, **at, part=part),
                _response("output_item.done", 9_999, output_index=0, item=_message("completed", part)),
                _response("completed", 10_000, response=_whole("completed")),
            )
        ),
        delta=lambda number: _response(
            "output_text.delta",
            4 + number,
            **at,
            delta=word(number),
            logprobs=[],
            obfuscation=_padding(number),
        ),
        credential=credential,
    )


# --- Anthropic

_STARTED = {"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "content": []}

_ANTHROPIC = Wire(
    "anthropic/v1/messages",
    tls=False,
    base="",
    path="/v1/messages",
    content_type="text/event-stream; charset=utf-8",
    mark=b'"text":"word',
    opening=_named({"type": "message_start", "message": {**_STARTED, "usage": {"input_tokens": 7, "output_tokens": 1}}})
    + _named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ending=_named({"type": "content_block_stop", "index": 0})
    + _named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})
    + _named({"type": "message_stop"}),
    delta=lambda number: (
        b"event: content_block_delta\ndata: %b%b}\n\n"
        % (
            _json({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word(number)}})[
                :-1
            ],
            b" " * (number % 11),
        )
    ),
    credential={"anthropic_api_key": "none"},
)

# --- Gemini


def _candidate(text: str, number: int, **more: object) -> bytes:
    content = {"parts": [{"text": text}], "role": "model"}
    usage = {
        "promptTokenCount": 7,
        "candidatesTokenCount": number,
        "totalTokenCount": 7 + number,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}],
    }
    chunk = {
        "candidates": [{"content": content, "index": 0, **more}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "lcUNaY-PE4WJxN8PxMnBqQM",
    }
    return b"data: %b\r\n\r\n" % json.dumps(chunk, separators=(",", ": ")).encode()


_GEMINI = Wire(
    "gemini/v1beta/generatecontent",
    tls=False,
    base="/v1beta",
    path=":streamGenerateContent",
    content_type="text/event-stream",
    mark=b'"text": "word',
    opening=b"",
    ending=_candidate("", 9_999, finishReason="STOP"),
    delta=lambda number: _candidate(word(number), number),
    credential={"gemini_api_key": "none"},
)

# --- Bedrock

_KEYS = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}


def _event(kind: str, number: int, **body: object) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, _json({**body, "p": _LETTERS[: 1 + number * 13 % len(_LETTERS)]}))


_CONVERSE = Wire(
    "bedrock/converse",
    tls=True,
    base="",
    path="/converse-stream",
    content_type="application/vnd.amazon.eventstream",
    mark=b'"text":"word',
    opening=_event("messageStart", 0, role="assistant"),
    ending=_event("contentBlockStop", 1, contentBlockIndex=0)
    + _event("messageStop", 2, stopReason="end_turn")
    + _event("metadata", 3, usage={"inputTokens": 7, "outputTokens": 9, "totalTokens": 16}, metrics={"latencyMs": 5}),
    delta=lambda number: _event("contentBlockDelta", number, contentBlockIndex=0, delta={"text": word(number)}),
    credential=_KEYS,
)

WIRES = (
    _CHAT,
    _responses(
        "openai/v1/responses", tls=False, base="/v1", path="/v1/responses", credential={"openai_api_key": "none"}
    ),
    _ANTHROPIC,
    _GEMINI,
    _CONVERSE,
    _responses("bedrock/responses", tls=True, base="/openai/v1", path="/openai/v1/responses", credential=_KEYS),
)
BEDROCK_REGION = REGION


def wire_of(provider: str) -> Wire:
    """The wire of a provider. Raises StopIteration for one that has none here."""
    return next(wire for wire in WIRES if wire.provider == provider)


def wire_at(target: str) -> Wire:
    """The wire that a request's target asks for. Raises StopIteration where it is nobody's."""
    return next(wire for wire in reversed(WIRES) if wire.path in target)
