"""Reads an answer of Anthropic's Messages API: its stream becomes canonical events. Pure.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming (anthropic-version 2023-06-01).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from gateway.anthropic.messages_api import (
    DECLINED,
    ITEM,
    PROVIDER_NAME,
    REDACTED,
    REFUSED,
    SIGNATURE,
    STOP_REASONS,
    is_server_item,
    token_counts,
    wire_name,
)
from gateway.errors import ModelErrorKind
from gateway.events import StopReason, Usage
from gateway.messages import JsonValue
from gateway.model import ModelRequest
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import RecordReader
from gateway.providers.error_bodies import parse_error
from gateway.providers.repeated_events import likeness
from gateway.wire import strict_json
from gateway.wire.lenient_json import load

logger = logging.getLogger(__name__)

_TEXT = "text"
_DELTA = "content_block_delta"
LIKENESS = likeness("delta", "text", padding=" ")


@dataclass(slots=True)
class _Block:
    """An open content block. `item`: a block that only the provider understands, collected until it is complete."""

    kind: str
    key: object
    item: dict[str, object] | None = None
    start_input: object = None
    pieces: list[str] = field(default_factory=list)


class MessageReader(RecordReader):
    """Reads one response. It is complete only with its `message_stop`."""

    def __init__(self, request: ModelRequest, model_id: str) -> None:
        super().__init__(AnswerBuilder(request, PROVIDER_NAME, model_id), takes_documents=False)
        self._model_id = model_id
        self._names = {safe: spec.name for spec in request.tools if (safe := wire_name(spec.name)) != spec.name}
        self._blocks: dict[object, _Block] = {}
        self._text_index: object = None  # of the text block opened last, while it is open
        self._usage: dict[str, object] = {}
        self._stop_reason: str | None = None

    @property
    def text_place(self) -> object:
        """As RecordReader says."""
        return self._text_index

    def take_texts(self, texts: list[str], last: bytes, number: int) -> None:
        """As RecordReader says."""
        self._builder.texts(_TEXT, texts)

    def _read(self, records: list[bytes]) -> None:
        texts: list[str] = []  # more of the current text block, which nearly every event brings
        for record in records:
            if self._text_index is not None and (text := self._more_text(record)) is not None:
                texts.append(text)
                continue
            if texts:
                self._builder.texts(_TEXT, texts)
                texts = []
            self.last_text = None
            self._record(record)
            if self._is_over():
                return
        if texts:
            self._builder.texts(_TEXT, texts)

    def _more_text(self, record: bytes) -> str | None:
        """The text of a delta for the text block that was opened last; None for any other event."""
        try:
            event = orjson.loads(record)
            delta = event["delta"]
            if delta["type"] != "text_delta" or event["type"] != _DELTA or event["index"] != self._text_index:
                return None
            text = delta["text"]
        except (ValueError, KeyError, TypeError):
            return None
        if type(text) is not str:
            return None
        self.last_text = record, event, text
        return text

    def _record(self, record: bytes, *, cut: bool = False) -> None:
        try:
            event = load(record)
        except ValueError:
            if not cut:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a broken event", record[:200])
            return
        if not isinstance(event, dict):
            return
        match event.get("type"):
            case "content_block_delta":
                self._on_delta(_index(event), _object(event, "delta"))
            case "content_block_start":
                self._on_start(_index(event), _object(event, "content_block"))
            case "content_block_stop":
                self._on_stop(_index(event))
            case "message_start":
                self._usage |= _object(_object(event, "message"), "usage")
            case "message_delta":
                self._on_message_delta(event)
            case "message_stop":
                self._finish()
            case "error":
                self._report_failure(parse_error(event.get("error") or event))
            case _:
                pass  # ping, and future events: https://docs.claude.com/en/api/versioning

    def _on_start(self, index: int | None, block: Mapping[str, object]) -> None:
        kind = str(block.get("type"))
        # Citations cut a text into many blocks. Readers see one text.
        opened = _Block(kind, _TEXT if kind == "text" else index)
        self._blocks[index] = opened
        self._text_index = index if kind == "text" else None
        if kind != "text":
            self._builder.close(_TEXT)
        if kind == "text":
            self._builder.text(_TEXT, _string(block, "text"))
        elif kind == "thinking":
            self._builder.reasoning(index, _string(block, "thinking"))
            self._sign(index, _string(block, "signature"))
        elif kind == "redacted_thinking":
            self._builder.opaque(index, REDACTED, _string(block, "data"))
        elif kind == "tool_use":
            name = _string(block, "name")
            self._builder.tool_started(index, _string(block, "id") or None, self._names.get(name, name))
            opened.start_input = block.get("input")
        elif is_server_item(kind):
            opened.item = dict(block)

    def _on_delta(self, index: int | None, delta: Mapping[str, object]) -> None:
        block = self._blocks.get(index)
        if block is None:
            return
        match delta.get("type"):
            case "text_delta":
                self._builder.text(block.key, _string(delta, "text"))
            case "thinking_delta":
                self._builder.reasoning(index, _string(delta, "thinking"))
            case "signature_delta":
                self._sign(index, _string(delta, "signature"))
            case "input_json_delta":
                self._on_input(index, block, _string(delta, "partial_json"))
            case "citations_delta":
                self._builder.raw({"type": "citation", "citation": _json(delta.get("citation"))})
            case "compaction_delta":
                if block.item is not None:
                    block.item["content"] = _string(block.item, "content") + _string(delta, "content")
            case _:
                pass

    def _on_input(self, index: object, block: _Block, piece: str) -> None:
        if block.kind == "tool_use":
            block.start_input = None
            self._builder.tool_arguments(index, piece)
        else:
            self._builder.hold(len(piece))
            block.pieces.append(piece)

    def _sign(self, index: object, signature: str) -> None:
        if signature:
            self._builder.opaque(index, SIGNATURE, signature)

    def _on_stop(self, index: int | None) -> None:
        block = self._blocks.pop(index, None)
        if index == self._text_index:
            self._text_index = None
        if block is None or block.kind == "text":
            return  # a text is over once something else begins
        if block.start_input:  # the whole input came at once, without a delta
            self._builder.tool_arguments(index, strict_json.dump(block.start_input).decode())
        if block.item is not None:
            self._keep(index, block)
        self._builder.close(index)

    def _keep(self, index: object, block: _Block) -> None:
        """Keep a block of a tool that ran at the provider: shown unchanged to viewers, and sent back later."""
        item = dict(block.item or {})
        if block.pieces:
            try:
                item["input"] = orjson.loads("".join(block.pieces))
            except ValueError:
                logger.warning("left out a provider's own call whose input is no JSON", extra={"kind": block.kind})
                return
        self._builder.raw(_json(item))
        self._builder.opaque(index, ITEM, strict_json.dump(item).decode())

    def _on_message_delta(self, event: Mapping[str, object]) -> None:
        self._usage |= {name: count for name, count in _object(event, "usage").items() if count is not None}
        reason = _object(event, "delta").get("stop_reason")
        if isinstance(reason, str):
            self._stop_reason = reason

    def _finish(self) -> None:
        self._report_usage()
        word = self._stop_reason or "end_turn"
        if word not in STOP_REASONS:
            logger.info("a stop_reason that is not known counts as the end", extra={"stop_reason": word[:64]})
        reason = StopReason(STOP_REASONS.get(word, "end_turn"))
        if reason is StopReason.REFUSAL:
            if not self._builder.is_open(_TEXT):  # Anthropic sends no text for it: nobody would know what happened
                self._builder.text(_TEXT, DECLINED)
            self._builder.opaque(_TEXT, REFUSED, word)
        self._builder.finish(reason, self._stop_reason)
        self.done = True

    def _report_usage(self) -> None:
        if self._usage:
            counts = token_counts(self._usage)
            self._usage = {}
            self._builder.usage(
                Usage(
                    PROVIDER_NAME,
                    self._model_id,
                    counts.input,
                    counts.output,
                    cached_input_tokens=counts.cache_read,
                    cache_write_input_tokens=counts.cache_write,
                )
            )


def _object(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _index(event: Mapping[str, object]) -> int | None:
    value = event.get("index")
    return value if isinstance(value, int) else None  # anything else is the block without a number


def _string(block: Mapping[str, object], name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) else ""


def _json(value: object) -> JsonValue:
    """The parsed value, typed as JSON."""
    return value  # type: ignore[return-value]
