"""Reads an answer of ConverseStream: its frames become canonical events. Pure.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html. The bytes are
cut into frames by `event_stream.py`.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import orjson

from gateway.bedrock.converse import NO_TOOL, PROVIDER_NAME
from gateway.bedrock.errors import frame_error, protocol_error
from gateway.bedrock.event_stream import EventStreamDecoder, EventStreamError, Frame, HeaderValue, load_object
from gateway.bedrock.families import Family
from gateway.bedrock.guardrails import BLOCKED_INPUT, Finding, GuardrailMode, in_its_place, read_trace
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, StopReason, Usage
from gateway.messages import JsonValue
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import AnswerReader
from gateway.providers.tagged_reasoning import TaggedReasoning
from gateway.providers.token_counts import token_count
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

_STOP_REASONS: Mapping[str, StopReason] = MappingProxyType(
    {
        "end_turn": StopReason.END_TURN,
        "tool_use": StopReason.TOOL_CALLS,
        "max_tokens": StopReason.MAX_TOKENS,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "guardrail_intervened": StopReason.CONTENT_FILTER,
        "content_filtered": StopReason.CONTENT_FILTER,
        "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
        # Anthropic's own stop reasons, if they are passed through
        "refusal": StopReason.REFUSAL,
        "pause_turn": StopReason.PAUSE,
    }
)
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})


class ConverseReader(AnswerReader):
    """One per response. It is done when both the stop reason and the usage are known.

    `guardrail`: how a guardrail checks the answer. `async` passes text on before it is checked.
    """

    def __init__(
        self,
        builder: AnswerBuilder,
        model_id: str,
        family: Family,
        names: Mapping[str, str],
        guardrail: GuardrailMode = "none",
    ) -> None:
        super().__init__(builder)
        self._model_id = model_id
        self._tags = family.thinking_tags
        self._names = names
        self._decoder = EventStreamDecoder()
        self._tagged: dict[int, TaggedReasoning] = {}
        self._sealed: dict[int, bytearray] = {}
        self._foreign: set[int] = set()  # blocks of the provider's own tools, and pictures: shown, never executed
        self._usage: Usage | None = None
        self._stop_reason: str | None = None
        self._guardrail = guardrail
        self._shown: list[str] = []  # its texts, if they may have to be retracted
        self._over: list[tuple[str, int]] = []  # ended texts, if their kind is known only at the end
        self._finding = Finding()
        self._text_index: int | None = None  # the block of the last text, and the headers that came with it
        self._text_headers: Mapping[str, HeaderValue] | None = None

    @property
    def has_finish_reason(self) -> bool:
        """As AnswerReader says. Only the usage may still be missing then."""
        return self._stop_reason is not None

    def feed(self, data: bytes) -> Events:
        """As AnswerReader says."""
        try:
            if not self._is_over():
                self._read(data)
        except ModelError as error:
            self.failure = error
        return self._builder.take()

    def eof(self) -> Events:
        """As AnswerReader says."""
        try:
            if not self._is_over():
                self._end()
        except ModelError as error:
            self.failure = error
        return self._builder.take()

    def _read(self, data: bytes) -> None:
        texts: list[str] = []  # more of the current text block, which nearly every event brings
        try:
            for frame in self._decoder.feed(data):
                if frame.headers is self._text_headers and (text := self._more_text(frame.payload)) is not None:
                    texts.append(text)
                    continue
                if texts:
                    self._more_texts(texts)
                    texts = []
                if self.done:
                    return
                self._on_frame(frame)
        except EventStreamError as error:
            raise protocol_error(str(error)) from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # Frames are trusted to have their documented shape: checking each field would cost every delta.
            raise protocol_error(f"an event of an unexpected shape: {error!r}") from error
        finally:
            if texts:
                self._more_texts(texts)

    def _more_texts(self, texts: list[str]) -> None:
        self._builder.texts(("text", self._text_index), texts)
        if self._guardrail == "async":
            self._shown += texts

    def _more_text(self, payload: bytes) -> str | None:
        """The text of a delta for the same block as the last one; None for any other event."""
        try:
            event = orjson.loads(payload)
            text = event["delta"]["text"]
            return text if type(text) is str and event["contentBlockIndex"] == self._text_index else None
        except (ValueError, KeyError, TypeError):
            return None

    def _end(self) -> None:
        if self._stop_reason is None or self._decoder.inside_frame:
            raise ModelError(ModelErrorKind.TRUNCATED, "the model provider's answer broke off before its end")
        self._finish(self._stop_reason)

    def _on_frame(self, frame: Frame) -> None:
        headers = frame.headers
        if headers.get(":message-type") != "event":
            raise frame_error(frame, self._model_id)
        kind = headers.get(":event-type")
        event = load_object(frame.payload)
        if kind == "contentBlockDelta":
            self._delta(event["contentBlockIndex"], event["delta"])
            if self._text_index is not None and self._text_headers is None:
                self._text_headers = headers
        elif kind == "contentBlockStart":
            self._start(event["contentBlockIndex"], event.get("start") or {})
        elif kind == "contentBlockStop":
            self._stop(event["contentBlockIndex"])
        elif kind == "messageStop":
            self._stop_reason = str(event["stopReason"])
            if fields := event.get("additionalModelResponseFields"):
                self._builder.raw({"additionalModelResponseFields": fields})
        elif kind == "metadata":
            self._metadata(event)
        if self._usage is not None and self._stop_reason is not None and not self.done:
            self._finish(self._stop_reason)

    def _start(self, index: int, start: Mapping[str, JsonValue]) -> None:
        self._text_index = self._text_headers = None
        self._close_over()
        call = start.get("toolUse")
        if isinstance(call, dict) and call.get("type") != "server_tool_use" and call["name"] != NO_TOOL:
            name, call_id = str(call["name"]), call.get("toolUseId")
            self._builder.tool_started(("call", index), str(call_id or "") or None, self._names.get(name, name))
        elif start:
            self._foreign.add(index)
            self._builder.raw({"contentBlockStart": {"contentBlockIndex": index, "start": dict(start)}})

    def _delta(self, index: int, delta: Mapping[str, JsonValue]) -> None:
        if self._over:
            self._close_over()
        text = delta.get("text")
        if text is not None and index not in self._foreign:
            if self._tags is None:
                self._builder.text(("text", index), text)  # type: ignore[arg-type]  # see _read
                self._text_index = index
                if self._guardrail == "async":
                    self._shown.append(str(text))
            else:
                self._tagged_text(index, str(text))
        elif index in self._foreign:
            self._builder.raw({"contentBlockDelta": {"contentBlockIndex": index, "delta": dict(delta)}})
        elif isinstance(call := delta.get("toolUse"), dict):
            fragment = call.get("input", "")
            text = fragment if isinstance(fragment, str) else strict_json.dump(fragment).decode()
            self._builder.tool_arguments(("call", index), text)
        elif isinstance(reasoning := delta.get("reasoningContent"), dict):
            self._reasoning(index, reasoning)
        elif delta:
            self._builder.raw({"contentBlockDelta": {"contentBlockIndex": index, "delta": dict(delta)}})

    def _reasoning(self, index: int, reasoning: Mapping[str, JsonValue]) -> None:
        if text := reasoning.get("text"):
            self._builder.reasoning(("reasoning", index), str(text))
        if signature := reasoning.get("signature"):
            self._builder.opaque(("reasoning", index), "signature", str(signature))
        if sealed := reasoning.get("redactedContent"):
            # Each piece is base64 of its own: only the bytes can be joined.
            self._sealed.setdefault(index, bytearray()).extend(base64.b64decode(str(sealed), validate=True))

    def _tagged_text(self, index: int, text: str) -> None:
        if (tagged := self._tagged.get(index)) is None:
            assert self._tags is not None
            tagged = self._tagged[index] = TaggedReasoning(*self._tags)
        self._emit_tagged(index, tagged.feed(text))

    def _emit_tagged(self, index: int, pieces: Sequence[tuple[bool, str]]) -> None:
        for is_reasoning, words in pieces:
            if is_reasoning:
                self._builder.close(("text", index))
                self._builder.reasoning(("reasoning", index), words)
            else:
                self._builder.close(("reasoning", index))
                self._builder.text(("text", index), words)
                if self._guardrail == "async":
                    self._shown.append(words)

    def _stop(self, index: int) -> None:
        if index == self._text_index:
            self._text_index = self._text_headers = None
        if index in self._foreign:
            self._foreign.discard(index)
            self._builder.raw({"contentBlockStop": {"contentBlockIndex": index}})
        if (tagged := self._tagged.pop(index, None)) is not None:
            self._emit_tagged(index, tagged.flush())
        if (sealed := self._sealed.pop(index, None)) is not None:
            self._builder.opaque(("sealed", index), "redacted", base64.b64encode(sealed).decode("ascii"))
            self._builder.close(("sealed", index))
        for kind in ("reasoning", "text", "call"):
            if kind == "text" and self._guardrail != "none":
                self._over.append((kind, index))
            else:
                self._builder.close((kind, index))

    def _close_over(self) -> None:
        for key in self._over:
            self._builder.close(key)
        self._over = []

    def _metadata(self, event: Mapping[str, JsonValue]) -> None:
        usage = event.get("usage")
        self._usage = _usage(usage if isinstance(usage, dict) else {}, self._model_id)
        self._finding = read_trace(event.get("trace"))

    def _finish(self, stop_reason: str) -> None:
        for index in [*self._tagged, *self._sealed]:
            self._stop(index)
        if self._usage is not None:
            self._builder.usage(self._usage)
        if stop_reason in _MALFORMED:
            raise ModelError(
                ModelErrorKind.PROTOCOL, "the model wrote an answer that cannot be read", provider_message=stop_reason
            )
        reason = _STOP_REASONS.get(stop_reason)
        if reason is None:
            logger.warning("a stop reason that is not known", extra={"stop_reason": stop_reason[:64]})
        elif stop_reason == "guardrail_intervened":
            reason = self._intervened()
        self._builder.finish(reason or StopReason.END_TURN, stop_reason)
        self._text_headers = None
        self.done = True

    def _intervened(self) -> StopReason:
        finding = self._finding
        if finding.only_masked:
            return StopReason.END_TURN  # only words were replaced: the answer is complete
        if self._shown and (instead := in_its_place(self._shown, finding)) is not None:
            self._builder.retract(instead)
        elif finding.blocked_input:
            for key in self._over:
                if self._builder.is_open(key):
                    self._builder.opaque(key, BLOCKED_INPUT, "blocked")
        return StopReason.CONTENT_FILTER


def _usage(usage: Mapping[str, JsonValue], model_id: str) -> Usage:
    """Bedrock counts cached input separately. Here the input's total includes it."""
    fresh, output = token_count(usage, "inputTokens"), token_count(usage, "outputTokens")
    read, written = token_count(usage, "cacheReadInputTokens"), token_count(usage, "cacheWriteInputTokens")
    total = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(PROVIDER_NAME, model_id, total, output, cached_input_tokens=read, cache_write_input_tokens=written)
