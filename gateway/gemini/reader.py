"""Reads an answer of Gemini's generateContent: its stream becomes canonical events. Pure.

Source: https://ai.google.dev/api/generate-content (v1beta).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

import orjson

from gateway.errors import ModelErrorKind
from gateway.events import StopReason, Usage
from gateway.gemini.generate_content import (
    FAILED_REASONS,
    ITEM,
    ITEM_PARTS,
    PROVIDER_NAME,
    SIGNATURE,
    STOP_REASONS,
    TEXT_SIGNATURE,
    function_name,
    token_counts,
)
from gateway.messages import JsonValue
from gateway.model import ModelRequest
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import RecordReader
from gateway.providers.error_bodies import error_in
from gateway.providers.repeated_events import likeness
from gateway.wire import strict_json
from gateway.wire.lenient_json import load

logger = logging.getLogger(__name__)

_TEXT = "text"
_THOUGHT = "thought"
# Each chunk has the number of tokens so far: https://ai.google.dev/api/generate-content#UsageMetadata
LIKENESS = likeness("candidates", 0, "content", "parts", 0, "text", counted=True)
_USAGE = b'"usageMetadata":'  # cannot be in a text, where its quotes would be escaped


class GenerateContentReader(RecordReader):
    """Reads one response. The wire has no last record: the response is complete when the connection ends after a
    `finishReason`.
    """

    def __init__(self, request: ModelRequest, model_id: str) -> None:
        super().__init__(AnswerBuilder(request, PROVIDER_NAME, model_id), takes_documents=False)
        self._model_id = model_id
        self._names = {safe: spec.name for spec in request.tools if (safe := function_name(spec.name)) != spec.name}
        self._in_text = False
        self._parts = 0
        self._usage: Mapping[str, object] | None = None
        self._last_counted = b""  # the latest chunk with usage, which was not read yet
        self._finish_reason: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """Whether the answer is whole, even if its connection does not end well."""
        return self._finish_reason is not None

    @property
    def text_place(self) -> str | None:
        """As RecordReader says."""
        return _TEXT if self._in_text else None

    def take_texts(self, texts: list[str], last: bytes, number: int) -> None:
        """As RecordReader says."""
        if _USAGE in last:  # else the earlier chunk's is still the latest
            self._last_counted = last
        self._builder.texts(_TEXT, texts)

    def _read(self, records: list[bytes]) -> None:
        texts: list[str] = []  # more of the current text, which nearly every chunk brings
        for record in records:
            if self._in_text and (text := self._more_text(record)) is not None:
                texts.append(text)
                continue
            if texts:
                self._builder.texts(_TEXT, texts)
                texts = []
            self.last_text = None
            self._record(record)
            if self.failure is not None:
                return
            self._in_text = self._builder.is_open(_TEXT)  # then no thought is open: each ends the other
        if texts:
            self._builder.texts(_TEXT, texts)

    def _more_text(self, record: bytes) -> str | None:
        """The text of a chunk that brings only text, and perhaps the usage; None for any other chunk."""
        try:
            chunk = orjson.loads(record)
            (candidate,) = chunk["candidates"]
            (part,) = candidate["content"]["parts"]
            text = part["text"]
            plain = len(part) == 1 and len(candidate) == 1 + ("index" in candidate)
        except (ValueError, KeyError, TypeError):
            return None
        if not plain or type(text) is not str or "error" in chunk or "promptFeedback" in chunk:
            return None
        if type(usage := chunk.get("usageMetadata")) is dict:
            self._usage, self._last_counted = usage, b""
        self.last_text = record, chunk, text
        return text

    def _on_end(self) -> None:
        if self._finish_reason is None:
            super()._on_end()
        else:
            self._finish(self._finish_reason)

    def _record(self, record: bytes, *, cut: bool = False) -> None:
        try:
            chunk = load(record)
        except ValueError:
            if not cut:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a broken chunk", record[:200])
            return
        if isinstance(chunk, dict):
            self._on_chunk(chunk)

    def _on_chunk(self, chunk: dict[str, object]) -> None:
        if isinstance(usage := chunk.get("usageMetadata"), dict):
            self._usage, self._last_counted = usage, b""
        if chunk.get("error") and (error := error_in(chunk)) is not None:
            self._report_failure(error)
            return
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and isinstance(blocked := feedback.get("blockReason"), str):
            self._finish_reason = blocked if blocked in STOP_REASONS else "SAFETY"
        candidates = chunk.get("candidates")
        if isinstance(candidates, list) and candidates and isinstance(candidate := candidates[0], dict):
            self._on_candidate(candidate)

    def _on_candidate(self, candidate: Mapping[str, object]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._on_part(part)
        for name in ("groundingMetadata", "urlContextMetadata", "citationMetadata"):
            if found := candidate.get(name):
                self._builder.raw({"type": name, name: _json(found)})
        if isinstance(reason := candidate.get("finishReason"), str) and reason:
            self._finish_reason = reason

    def _on_part(self, part: Mapping[str, object]) -> None:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) else ""
        if isinstance(call := part.get("functionCall"), dict):
            self._on_call(call, signature)
        elif isinstance(blob := part.get("inlineData"), dict) and part.get("thought") is not True:
            self._on_medium(blob, signature)
        elif any(name in part for name in ITEM_PARTS):
            self._keep(part)
        elif isinstance(text := part.get("text"), str):
            if part.get("thought") is True:
                self._on_thought(text, signature)
            else:
                self._on_text(text, signature)

    def _on_thought(self, text: str, signature: str) -> None:
        self._builder.close(_TEXT)
        self._builder.reasoning(_THOUGHT, text)
        if signature:
            self._builder.opaque(_THOUGHT, SIGNATURE, signature)
            self._builder.close(_THOUGHT)

    def _on_text(self, text: str, signature: str) -> None:
        if text:
            self._builder.close(_THOUGHT)
        whole = not self._builder.is_open(_TEXT)
        self._builder.text(_TEXT, text)
        if not signature:
            return
        if whole and text:  # this part is the whole text: its block gets the signature
            self._builder.opaque(_TEXT, SIGNATURE, signature)
            self._builder.close(_TEXT)
        else:
            # A text of many parts stays one block for readers: the signature of its end follows in another.
            self._builder.close(_TEXT)
            self._alone(TEXT_SIGNATURE, signature)

    def _on_call(self, call: Mapping[str, object], signature: str) -> None:
        """Each part is one whole call. Most have no id."""
        self._builder.close(_TEXT)
        self._builder.close(_THOUGHT)
        name, call_id, arguments = call.get("name"), call.get("id"), call.get("args")
        name = name if isinstance(name, str) else ""
        key = self._next_key()
        self._builder.tool_started(
            key, call_id if isinstance(call_id, str) and call_id else None, self._names.get(name, name)
        )
        self._builder.tool_arguments(key, strict_json.dump(arguments if isinstance(arguments, dict) else {}).decode())
        if signature:
            self._builder.opaque(key, SIGNATURE, signature)
        self._builder.close(key)

    def _on_medium(self, blob: Mapping[str, object], signature: str) -> None:
        self._builder.close(_TEXT)
        self._builder.close(_THOUGHT)
        media_type, data = blob.get("mimeType"), blob.get("data")
        self._builder.medium(
            self._next_key(),
            media_type if isinstance(media_type, str) and media_type else "application/octet-stream",
            data if isinstance(data, str) else "",
            (SIGNATURE, signature) if signature else None,
        )

    def _keep(self, part: Mapping[str, object]) -> None:
        """Keep a part that the provider's own tools made: viewers see it unchanged, and later requests send it back."""
        self._builder.close(_TEXT)
        self._builder.close(_THOUGHT)
        self._builder.raw(_json(part))
        self._alone(ITEM, strict_json.dump(part).decode())

    def _alone(self, kind: str, value: str) -> None:
        key = self._next_key()
        self._builder.opaque(key, kind, value)
        self._builder.close(key)

    def _next_key(self) -> int:
        self._parts += 1
        return self._parts

    def _finish(self, word: str) -> None:
        self._report_usage()
        if word in FAILED_REASONS:
            kind = ModelErrorKind(FAILED_REASONS[word])
            self._fail(kind, "the model provider says that its answer failed", word.encode())
            return
        if word not in STOP_REASONS:
            logger.info("a finishReason that is not known counts as the end", extra={"finish_reason": word[:64]})
        self._builder.finish(StopReason(STOP_REASONS.get(word, "end_turn")), word)
        self.done = True

    def _report_usage(self) -> None:
        if self._last_counted:
            with suppress(ValueError):
                self._usage = orjson.loads(self._last_counted).get("usageMetadata", self._usage)
            self._last_counted = b""
        if self._usage is not None:
            counts = token_counts(self._usage)
            self._usage = None
            usage = Usage(PROVIDER_NAME, self._model_id, counts.input, counts.output, counts.reasoning, counts.cached)
            self._builder.usage(usage)


def _json(value: object) -> JsonValue:
    """The parsed value, typed as JSON."""
    return value  # type: ignore[return-value]
