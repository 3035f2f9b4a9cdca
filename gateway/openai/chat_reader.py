"""Reads an answer of chat completions: its stream becomes canonical events. Pure.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (API version 1), and what the servers that call
themselves compatible send instead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping

import orjson

from gateway.errors import ModelErrorKind
from gateway.events import StopReason, Usage
from gateway.model import ModelRequest
from gateway.openai.chat_completions import (
    DETAILS,
    EXTRA_CONTENT,
    FAILED_REASONS,
    PROVIDER_NAME,
    STOP_REASONS,
    joined_details,
    reasoning_detail_text,
    safe_tool_name,
    token_counts,
)
from gateway.openai.streamed_calls import CallStep, StreamedCalls
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import RecordReader
from gateway.providers.error_bodies import error_in
from gateway.providers.repeated_events import likeness
from gateway.providers.tagged_reasoning import TaggedReasoning
from gateway.wire.lenient_json import load
from gateway.wire.stand_ins import TAKEN_BACK

logger = logging.getLogger(__name__)

_DONE = b"[DONE]"
_TEXT = "text"
_REASONING = "reasoning"
LIKENESS = likeness("choices", 0, "delta", "content", padding="obfuscation")
_LEAST_DETAIL_BYTES = 16
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ChatCompletionReader(RecordReader):
    """Reads one response: a stream, or the one JSON document that some servers send even when asked for a stream."""

    def __init__(self, request: ModelRequest, model_id: str) -> None:
        super().__init__(AnswerBuilder(request, PROVIDER_NAME, model_id))
        self._model_id = model_id
        self._in_document = False
        self._names = {safe: spec.name for spec in request.tools if (safe := safe_tool_name(spec.name)) != spec.name}
        self._calls = StreamedCalls({name for spec in request.tools for name in (spec.name, safe_tool_name(spec.name))})
        self._tagged = TaggedReasoning("<think>", "</think>")
        self._in_text = False
        self._in_reasoning = False
        self._reasoning_field: str | None = None
        self._details: list[object] = []
        self._refused = False
        self._finish_reason: str | None = None
        self._shown_unseen = False
        self._usage: Mapping[str, object] | None = None

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
        self._builder.texts(_TEXT, texts)

    def _read(self, records: list[bytes]) -> None:
        texts: list[str] = []  # more text: nearly every record is that
        for record in records:
            if self._in_text and (text := self._more_text(record)) is not None:
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

    def _on_end(self) -> None:
        if self.has_finish_reason:
            self._finish()
        else:
            super()._on_end()

    def _on_document(self, answer: object) -> None:
        if isinstance(answer, list) and answer:
            answer = answer[0]
        if not isinstance(answer, dict) or ("choices" not in answer and error_in(answer) is None):
            self._fail(ModelErrorKind.PROTOCOL, "the model provider's answer is not a completion", self._body.beginning)
            return
        self._in_document = True
        self._on_chunk(answer)
        if not self._is_over():
            self._finish()

    def _more_text(self, record: bytes) -> str | None:
        """The text of a record that brings text and nothing else, as nearly every record does. None for any other."""
        try:
            chunk = orjson.loads(record)
            (choice,) = chunk["choices"]
            delta = choice["delta"]
            if len(delta) != 1 or choice.get("index") or choice.get("finish_reason") or choice.get("usage"):
                return None
            content = delta["content"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if type(content) is not str or chunk.get("usage") or "error" in chunk or "x_groq" in chunk:
            return None
        self.last_text = record, chunk, content
        return content

    def _record(self, record: bytes, *, cut: bool = False) -> None:
        if record == _DONE:
            self._finish()
            return
        try:
            chunk = orjson.loads(record)
        except ValueError:
            chunk = self._odd_record(record, cut)
        if isinstance(chunk, dict):
            self._on_chunk(chunk)

    def _odd_record(self, record: bytes, cut: bool) -> object:
        """Read a record that the fast JSON reader refuses. It may be the end, an odd chunk, or nothing to read."""
        if record.startswith(_DONE):
            self._finish()
            return None
        try:
            return load(record)
        except ValueError:
            # skip pings and the like; a broken chunk must fail, since part of the answer is lost
            if record.lstrip().startswith(b"{") and not cut:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a broken chunk", record[:200])
            return None

    def _on_chunk(self, chunk: dict[str, object]) -> None:
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices:
            choice = choices[0]
            if isinstance(choice, dict) and not choice.get("index"):
                self._on_choice(choice)
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        elif self._finish_reason is not None and isinstance(groq := chunk.get("x_groq"), dict):
            self._usage = usage if isinstance(usage := groq.get("usage"), dict) else self._usage
        if ("error" in chunk or "choices" not in chunk) and (error := error_in(chunk)) is not None:
            self._report_failure(error)

    def _on_choice(self, choice: dict[str, object]) -> None:
        delta = choice.get("message" if self._in_document else "delta")
        if isinstance(delta, dict):
            content = delta.get("content")
            if self._in_text and len(delta) == 1 and isinstance(content, str):
                self._builder.text(_TEXT, content)  # nearly every chunk
            else:
                self._on_delta(delta, content)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._finish_reason = reason
            # Azure's asynchronous filter reports after the text was sent. All other filters look at the text first.
            self._shown_unseen = "content_filter_offsets" in choice
        if isinstance(usage := choice.get("usage"), dict) and usage:  # Moonshot
            self._usage = usage

    def _on_delta(self, delta: dict[str, object], content: object) -> None:
        thought = self._thought_in(delta)
        words = content if isinstance(content, str) else ""
        # A server that streams both in every chunk interleaves nothing: its blocks stay open side by side.
        side_by_side = bool(thought and words) and not self._in_document
        if thought:
            self._reasoning(thought, alone=not side_by_side)
        if words:
            self._text(words, alone=not side_by_side)
        elif isinstance(content, list):
            self._content_parts(content)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refused = True
            self._text(refusal, alone=True, refusal=True)
        if isinstance(entries := delta.get("tool_calls"), list) and entries:
            self._take_steps(self._calls.feed(entries))
            self._builder.expect_calls(self._calls.count)
        if isinstance(function := delta.get("function_call"), dict) and function:
            self._take_steps(self._calls.feed([{"index": 0, "function": function}]))

    def _thought_in(self, delta: dict[str, object]) -> str:
        """The reasoning of a chunk. Servers that send it in several fields repeat it: the first field seen counts."""
        details = delta.get(DETAILS)
        if isinstance(details, list) and details:
            self._builder.hold(sum(map(_detail_bytes, details)))
            self._details += details
        for field in _REASONING_FIELDS if self._reasoning_field is None else (self._reasoning_field,):
            thought = delta.get(field)
            if isinstance(thought, str) and thought:
                self._reasoning_field = field
                return thought
        if self._reasoning_field in (None, DETAILS) and isinstance(details, list):
            thought = "".join(map(reasoning_detail_text, details))
            if thought:
                self._reasoning_field = DETAILS
            return thought
        return ""

    def _content_parts(self, parts: list[object]) -> None:
        """Mistral: `{"type": "thinking", "thinking": [{"type": "text", "text": ...}]}` and `{"type": "text", ...}`."""
        for part in parts:
            if isinstance(part, str):
                self._text(part, alone=True)
            elif isinstance(part, dict):
                thinking = part.get("thinking")
                if isinstance(thinking, str):
                    self._reasoning(thinking, alone=True)
                elif isinstance(thinking, list):
                    texts = [inner.get("text") for inner in thinking if isinstance(inner, dict)]
                    self._reasoning("".join(text for text in texts if isinstance(text, str)), alone=True)
                elif isinstance(text := part.get("text"), str):
                    self._text(text, alone=True)

    def _text(self, text: str, *, alone: bool, refusal: bool = False) -> None:
        for is_thought, piece in self._tagged.feed(text):
            if is_thought:
                self._reasoning(piece, alone=False)
            else:
                if alone:
                    self._end_reasoning()
                self._in_text = True
                self._builder.text(_TEXT, piece, refusal=refusal)

    def _reasoning(self, thought: str, *, alone: bool) -> None:
        if thought:
            if alone and self._in_text:
                self._end_text()
            self._in_reasoning = True
            self._builder.reasoning(_REASONING, thought)

    def _end_text(self) -> None:
        """Text is over. White space that nothing followed is no message."""
        for is_thought, piece in self._tagged.flush():
            if is_thought:
                self._reasoning(piece, alone=False)
            elif piece.strip():
                self._builder.text(_TEXT, piece)
        self._builder.close(_TEXT)
        self._tagged = TaggedReasoning("<think>", "</think>")
        self._in_text = False

    def _end_reasoning(self) -> None:
        if not self._in_reasoning and not self._details:
            return
        details, self._details = joined_details(self._details), []
        if any(detail.get("signature") or detail.get("data") for detail in details):  # else the words are all there is
            self._builder.opaque(_REASONING, DETAILS, json.dumps(details, separators=(",", ":")))
        self._builder.close(_REASONING)
        self._in_reasoning = False

    def _take_steps(self, steps: Iterable[CallStep]) -> None:
        for step in steps:
            key = ("call", step.slot)
            if step.started:
                self._end_reasoning()
                self._end_text()
                self._builder.tool_started(key, step.call_id or None, self._names.get(step.name, step.name))
            self._builder.tool_arguments(key, step.arguments)
            if step.extra is not None and step.started:
                self._builder.opaque(key, EXTRA_CONTENT, json.dumps(step.extra, separators=(",", ":")))

    def _finish(self) -> None:
        """The response is over. Its finish reason says whether it succeeded."""
        self._take_steps(self._calls.finish())
        self._end_text()
        self._end_reasoning()
        self._report_usage()
        raw = self._finish_reason
        word = (raw or "stop").lower()
        if word in FAILED_REASONS:
            kind = ModelErrorKind(FAILED_REASONS[word])
            self._fail(kind, "the model provider says that its answer failed", word.encode())
            return
        if word not in STOP_REASONS:
            logger.info("a finish_reason that is not known counts as the end", extra={"finish_reason": word[:64]})
        reason = StopReason.REFUSAL if self._refused else StopReason(STOP_REASONS.get(word, "end_turn"))
        if reason is StopReason.CONTENT_FILTER and self._shown_unseen:
            self._builder.retract(TAKEN_BACK)
        self._builder.finish(reason, raw)
        self.done = True

    def _report_usage(self) -> None:
        if self._usage is None:
            return
        counts = token_counts(self._usage)
        self._usage = None
        self._builder.usage(
            Usage(
                PROVIDER_NAME,
                self._model_id,
                counts.prompt,
                counts.completion,
                counts.reasoning,
                counts.cached,
                counts.cache_write,
            )
        )


def _detail_bytes(detail: object) -> int:
    """The size of a piece of `reasoning_details` without its words, which are counted when they are shown."""
    sealed = (detail.get("data") or detail.get("signature")) if isinstance(detail, dict) else None
    return _LEAST_DETAIL_BYTES + (len(sealed) if isinstance(sealed, str) else 0)
