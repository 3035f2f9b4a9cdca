"""Reads one response of the Responses API: bytes in, canonical events out. Pure.

Below: responses_output, which takes the events of output items. Source:
https://platform.openai.com/docs/api-reference/responses-streaming (API version 1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import StopReason, Usage
from gateway.model import ModelRequest
from gateway.openai.responses import INCOMPLETE_REASONS, failed_response, token_counts
from gateway.openai.responses_output import OUTPUT_EVENTS, ResponsesOutput
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import RecordReader
from gateway.providers.error_bodies import ProviderError, error_in
from gateway.providers.repeated_events import likeness
from gateway.providers.response_body import ResponseBody
from gateway.providers.sse_reader import UnreadableAnswerError
from gateway.wire.lenient_json import load

logger = logging.getLogger(__name__)

LIKENESS = likeness("delta", number="sequence_number", padding="obfuscation")


class ResponsesReader(RecordReader):
    """One per response. A stored or background response is resumed with `response_id` and `sequence_number` (of the
    last event, -1 before any); `status` is the response's own word.
    """

    def __init__(
        self,
        request: ModelRequest,
        provider: str,
        model_id: str,
        *,
        stored: bool = False,
        background: bool = False,
    ) -> None:
        """`stored`: the provider keeps the response; `background`: it may have to be resumed."""
        super().__init__(AnswerBuilder(request, provider, model_id))
        self.error: ProviderError | None = None  # the provider's own error, if it sent one
        self.response_id: str | None = None
        self.sequence_number = -1
        self.status: str | None = None
        self._provider = provider
        self._model_id = model_id
        self._stored = stored
        self._background = background
        self._taken_to = -1  # events up to this number were read before the response was resumed
        self._continued = None if request.continuation is None else request.continuation.response_id
        self._output = ResponsesOutput(self._builder, request.tools, notes_words=background)
        self._usage: Mapping[str, Any] | None = None

    @property
    def was_document(self) -> bool:
        """Whether the answer came as one JSON document, and no stream."""
        return self._body.is_document

    def take_up(self, response_id: str | None = None) -> None:
        """Resume the response: events that were read before are skipped. `response_id` if the reader does not know
        it.
        """
        if response_id is not None:
            self.response_id = response_id
            self._builder.name_after(response_id)
        self.failure = self.error = None
        self._body = ResponseBody()
        self._taken_to = self.sequence_number
        self._output.forget_place()

    @property
    def text_place(self) -> object:
        """As RecordReader says."""
        return self._output.text_place

    def take_texts(self, texts: list[str], last: bytes, number: int) -> None:
        """As RecordReader says."""
        self.sequence_number = number
        self._output.take_more(texts)

    def _read(self, records: list[bytes]) -> None:
        output = self._output
        texts: list[str] = []  # more text of the last part: nearly every event
        for record in records:
            try:
                event: Any = orjson.loads(record)
            except ValueError:
                event = self._odd_record(record)
            else:
                if (text := output.more_of_text(event)) is not None:
                    self.sequence_number = event["sequence_number"]
                    self.last_text = record, event, text
                    texts.append(text)
                    continue
            if texts:
                output.take_more(texts)
                texts = []
            self.last_text = None
            self._take(event)
            if self._is_over():
                return
        if texts:
            output.take_more(texts)

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _on_document(self, answer: object) -> None:
        fields = answer if isinstance(answer, dict) else {}
        if isinstance(fields.get("output"), list) or fields.get("status") in ("failed", "incomplete"):
            self._trusting(self._terminal, {"response": fields})
        elif (error_said := error_in(fields)) is not None:
            self._report_failure(error_said)
        else:
            self._fail(ModelErrorKind.PROTOCOL, "the model provider's answer is not a response", self._body.beginning)

    def _record(self, record: bytes, *, cut: bool = False) -> None:
        self._take(self._odd_record(record, cut=cut))

    def _take(self, event: object) -> None:
        if type(event) is dict:
            self._trusting(self._on_event, event)

    def _odd_record(self, record: bytes, *, cut: bool = False) -> object:
        """Read a record that the fast JSON reader refuses: `[DONE]`, an odd event, or nothing to read."""
        if record.startswith(b"[DONE]"):
            self._fail(ModelErrorKind.TRUNCATED, "the model provider's answer ended without its last event")
            return None
        try:
            return load(record)
        except ValueError:
            # skip pings and the like; a broken event must fail, since part of the answer is lost
            if record.lstrip().startswith(b"{") and not cut:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a broken event", record[:200])
            return None

    def _trusting(self, read: Callable[[dict[str, Any]], None], event: dict[str, Any]) -> None:
        """Read an event without checking its documented shape: checking each field would cost every delta."""
        try:
            read(event)
        except UnreadableAnswerError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            said = f"{event.get('type')}: {error!r}".encode()
            self._fail(ModelErrorKind.PROTOCOL, "the model provider sent an event of an unexpected shape", said)

    # --- events -----------------------------------------------------------------------------------------------------

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if type(number := event.get("sequence_number")) is int:
            if number <= self._taken_to:
                return
            self.sequence_number = number
        if type(kind) is not str:
            if (error := error_in(event)) is not None:
                self._report_failure(error)
            return
        if (tell := OUTPUT_EVENTS.get(kind)) is not None:
            tell(self._output, event)
        elif (read := RESPONSE_EVENTS.get(kind)) is not None:
            read(self, event)
        elif "_call" in kind or kind.startswith("response.mcp_"):
            self._builder.raw(event)  # progress of a tool at the provider

    def _created(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            if isinstance(response_id := response.get("id"), str):
                if self._background and self.response_id is None:
                    self._builder.name_after(response_id)
                    self._builder.accepted(response_id)
                self.response_id = response_id
            if isinstance(status := response.get("status"), str):
                self.status = status

    # --- the end ----------------------------------------------------------------------------------------------------

    def _terminal(self, event: dict[str, Any]) -> None:
        """`response.completed`, `.incomplete`, `.failed`, `.cancelled`, or a document, which has no event's type."""
        self._created(event)
        response = event["response"]
        self._output.take_missing(response.get("output"))
        usage = response.get("usage")
        self._usage = usage if isinstance(usage, dict) else None
        said = str(event.get("type", "")).removeprefix("response.")
        if said in ("", "completed", "done") and self.status in ("incomplete", "failed", "cancelled"):
            said = self.status
        match said:
            case "failed":
                self._report_failure(failed_response(response))
            case "cancelled":
                self._report_usage()
                cancelled = "the answer was cancelled at the model provider"
                self.failure = ModelError(ModelErrorKind.TRUNCATED, cancelled, retryable=False)
            case "incomplete":
                self._finish_early(response.get("incomplete_details"))
            case "" if self.status in ("queued", "in_progress"):
                self._fail(ModelErrorKind.PROTOCOL, "the model provider's answer is not finished yet")
            case _:
                self._finish(StopReason.END_TURN, "completed")

    def _finish_early(self, details: object) -> None:
        raw = str(details.get("reason") or "") if isinstance(details, dict) else ""
        if raw not in INCOMPLETE_REASONS:
            logger.warning("a response is incomplete for a reason that is not known", extra={"reason": raw[:64]})
        self._finish(StopReason(INCOMPLETE_REASONS.get(raw, "max_tokens")), raw or "incomplete")

    def _finish(self, reason: StopReason, raw: str) -> None:
        if self._output.refused and reason is StopReason.END_TURN:
            reason = StopReason.REFUSAL
        if self._output.has_nameless_call:
            self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a call without a name")
            return
        self._output.show_wordless()
        self._report_usage()
        if self._stored:
            self._builder.finish(reason, raw, self.response_id, self._continued)
        else:
            self._builder.finish(reason, raw)
        self.done = True

    def _error(self, event: dict[str, Any]) -> None:
        self._report_failure(failed_response(event))

    def _report_failure(self, error: ProviderError) -> None:
        super()._report_failure(error)
        self.error = error

    def _report_usage(self) -> None:
        if self._usage is None:
            return
        counts = token_counts(self._usage)
        self._usage = None
        self._builder.usage(
            Usage(
                self._provider,
                self._model_id,
                counts.prompt,
                counts.completion,
                counts.reasoning,
                counts.cached,
                counts.cache_write,
            )
        )


_Read = Callable[[ResponsesReader, dict[str, Any]], None]
RESPONSE_EVENTS: Mapping[str, _Read] = {
    "response.created": ResponsesReader._created,
    "response.queued": ResponsesReader._created,
    "response.in_progress": ResponsesReader._created,
    "response.completed": ResponsesReader._terminal,
    "response.done": ResponsesReader._terminal,  # OpenRouter
    "response.incomplete": ResponsesReader._terminal,
    "response.failed": ResponsesReader._terminal,
    "response.cancelled": ResponsesReader._terminal,
    "error": ResponsesReader._error,
    "response.error": ResponsesReader._error,
}
