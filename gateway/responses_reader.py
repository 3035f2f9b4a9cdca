"""Reads one response of the Responses API: bytes in, canonical events out. Pure.

Above: responses_model. Below: response (the builder), wire. Source:
https://platform.openai.com/docs/api-reference/responses-streaming (API version 1).

Events belong to output items; servers name these by `item_id`, by `output_index`, or by one of the two only. What an
item's end says that no delta said is put in there, so a server that streams little, or answers with one JSON document,
gives the same events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, StopReason, Usage
from gateway.messages import JsonValue
from gateway.model import ModelRequest
from gateway.model_failures import failure
from gateway.output_items import OutputItem, OutputItems
from gateway.response import ResponseBuilder
from gateway.responses_request import MESSAGE_ITEM, OUTPUT_ITEM, REASONING_ITEM
from gateway.wire import strict_json
from gateway.wire.answer_body import AnswerBody
from gateway.wire.openai_chat import safe_tool_name
from gateway.wire.openai_responses import (
    INCOMPLETE_REASONS,
    REPLAYED_ITEMS,
    failed_response,
    replayed_reasoning,
    token_counts,
)
from gateway.wire.provider_errors import ProviderError, error_in, load
from gateway.wire.sse_reader import UnreadableAnswerError

logger = logging.getLogger(__name__)

_TEXT_DELTA = "response.output_text.delta"
_OWN_TYPES = frozenset({"message", "reasoning", "function_call"})


class ResponsesReader:
    """One per response. After each `feed` look at `failure`, to be raised once the events are passed on, and `done`.

    `response_id` and `sequence_number` (of the last event, -1 before any) are what a stored or background response is
    taken up again by; `status` is the response's own word.
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
        """`stored`: the provider keeps the response; `background`: it may have to be taken up again."""
        self.done = False
        self.failure: ModelError | None = None
        self.error: ProviderError | None = None  # the provider's own words for the failure, where they are its words
        self.response_id: str | None = None
        self.sequence_number = -1
        self.status: str | None = None
        self._provider = provider
        self._model_id = model_id
        self._stored = stored
        self._background = background
        self._taken_to = -1  # events up to this number were taken before the response was taken up again
        self._words: dict[tuple[int, object], list[str]] | None = {} if background else None  # by part of an item
        self._continued = None if request.continuation is None else request.continuation.response_id
        self._builder = ResponseBuilder(request, provider, model_id)
        self._names = {safe: spec.name for spec in request.tools if (safe := safe_tool_name(spec.name)) != spec.name}
        self._body = AnswerBody()
        self._items = OutputItems()
        self._text_key: tuple[int, object] | None = None  # of the part that text is coming for
        self._text_place: tuple[object, object, object] = (None, None, None)
        self._text_item: OutputItem | None = None
        self._wordless: list[tuple[int, str, str]] = []  # items that ended without a word: number, kind, value
        self._refused = False
        self._usage: Mapping[str, Any] | None = None

    @property
    def was_document(self) -> bool:
        """Whether the answer came as one JSON document, and no stream."""
        return self._body.is_document

    def take_up(self, response_id: str | None = None) -> None:
        """Expect the response again: what was taken of it is not given twice. `response_id` where it is new to it."""
        if response_id is not None:
            self.response_id = response_id
            self._builder.name_after(response_id)
        self.failure = self.error = None
        self._body = AnswerBody()
        self._taken_to = self.sequence_number
        self._text_key = None

    def feed(self, data: bytes) -> Events:
        """The events of what one network read brought; possibly none."""
        try:
            if self.failure is None:
                self._read(self._body.feed(data))
        except UnreadableAnswerError as error:
            self._fail(ModelErrorKind.PROTOCOL, str(error), error.sample)
        return self._builder.take()

    def _read(self, records: list[bytes]) -> None:
        texts: list[str] = []  # more of the part that text came for last: nearly every event is that
        for record in records:
            try:
                event: Any = orjson.loads(record)
            except ValueError:
                event = self._odd_record(record)
            else:
                if self._is_more(event):
                    texts.append(event["delta"])
                    continue
            if texts:
                self._more_text(texts)
                texts = []
            self._take(event)
            if self._is_over():
                return
        if texts:
            if self._words is None:
                self._builder.texts(self._text_key, texts)
            else:
                self._more_text(texts)

    def _more_text(self, texts: list[str]) -> None:
        if self._words is not None and self._text_key is not None:
            self._words[self._text_key] += texts
        self._builder.texts(self._text_key, texts)

    def _is_more(self, event: Any) -> bool:
        """Whether it is a delta, as the book has it, for the part that the last one was for."""
        if self._text_key is None:
            return False
        try:
            if (
                event["type"] != _TEXT_DELTA
                or event["content_index"] != self._text_place[2]
                or event["output_index"] != self._text_place[1]
                or event["item_id"] != self._text_place[0]
                or type(event["delta"]) is not str
            ):
                return False
            self.sequence_number = event["sequence_number"]
        except (KeyError, TypeError):
            return False
        return True

    def eof(self) -> Events:
        """The events of a response whose bytes have ended."""
        if self._is_over():
            return []
        if self._body.is_document:
            self._on_document()
        else:
            for record in self._body.eof():
                self._take(self._odd_record(record, cut=True))
        if not self._is_over():
            self._fail(ModelErrorKind.TRUNCATED, "the model provider's answer was cut off")
        return self._builder.take()

    def _is_over(self) -> bool:
        return self.done or self.failure is not None

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _on_document(self) -> None:
        try:
            answer = self._body.document()
        except UnreadableAnswerError as error:
            self._fail(ModelErrorKind.PROTOCOL, str(error), error.sample)
            return
        fields = answer if isinstance(answer, dict) else {}
        if isinstance(fields.get("output"), list) or fields.get("status") in ("failed", "incomplete"):
            self._trusting(self._terminal, {"response": fields})
        elif (error_said := error_in(fields)) is not None:
            self._report_failure(error_said)
        else:
            self._fail(ModelErrorKind.PROTOCOL, "the model provider's answer is not a response", self._body.beginning)

    def _take(self, event: object) -> None:
        if type(event) is dict:
            self._trusting(self._on_event, event)

    def _odd_record(self, record: bytes, *, cut: bool = False) -> object:
        """What the fast reader refuses: `[DONE]`, an event all the same, or nothing."""
        if record.startswith(b"[DONE]"):
            self._fail(ModelErrorKind.TRUNCATED, "the model provider's answer ended without its last event")
            return None
        try:
            return load(record)
        except ValueError:
            # `ping`s and the like are skipped; a broken event is a loss that nobody may overlook
            if record.lstrip().startswith(b"{") and not cut:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a broken event", record[:200])
            return None

    def _trusting(self, read: Callable[[dict[str, Any]], None], event: dict[str, Any]) -> None:
        """Read an event that is trusted to have its documented shape: checking each field would cost every delta."""
        try:
            read(event)
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
        if (read := _READERS.get(kind)) is not None:
            read(self, event)
        elif "_call" in kind or kind.startswith("response.mcp_"):
            self._builder.raw(event)  # what a tool at the provider is doing

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

    # --- items ------------------------------------------------------------------------------------------------------

    def _item_added(self, event: dict[str, Any]) -> None:
        self._text_key = None  # the place that text came for may be this item's from now on
        fields = event["item"]
        kind = str(fields.get("type"))
        item = self._items.open(kind, fields.get("id"), event.get("output_index"))
        if kind == "function_call":
            self._start_call(item, fields)
        elif kind not in _OWN_TYPES:
            self._builder.raw(event)

    def _item_done(self, event: dict[str, Any]) -> None:
        fields = event["item"]
        kind = str(fields.get("type"))
        place = {"item_id": fields.get("id"), "output_index": event.get("output_index")}
        self._finish_item(self._items.of(place, kind), fields)
        if kind not in _OWN_TYPES:
            self._builder.raw(event)

    def _finish_item(self, item: OutputItem, fields: dict[str, Any]) -> None:
        """An item is whole: give what of it was not given yet, and what is sent back with it."""
        match item.type:
            case "message":
                self._finish_message(item, fields)
            case "reasoning":
                self._finish_reasoning(item, fields)
            case "function_call":
                self._start_call(item, fields)
                self._complete_arguments(item, fields.get("arguments"))
                self._builder.close((item.number, None))
            case kind if kind in REPLAYED_ITEMS:
                self._wordless.append((item.number, OUTPUT_ITEM, _text_of(fields)))
            case _:
                logger.info("an item that is not sent back", extra={"item_type": item.type[:64]})
        item.done = True

    def _show_wordless(self) -> None:
        """What is kept without a word of it goes before the next words: until then nobody has seen anything of this
        answer, and it may be asked for again.
        """
        for number, kind, value in self._wordless:
            self._builder.opaque((number, None), kind, value)
            self._builder.close((number, None))
        self._wordless.clear()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _text(self, event: dict[str, Any]) -> None:
        item = self._items.of(event, "message")
        key = (item.number, event.get("content_index") or 0)
        self._text_place = (event.get("item_id"), event.get("output_index"), event.get("content_index"))
        self._text_item = item
        delta = event["delta"]
        self._text_key = key if delta else None  # what has said nothing yet is not gone on with
        if delta:
            item.said[key] = None
            self._show_wordless()
        self._note(key, delta)
        self._builder.text(key, delta)

    def _note(self, key: tuple[int, object], text: str) -> None:
        if self._words is not None:
            self._words.setdefault(key, []).append(text)

    def _rest(self, key: tuple[int, object], whole: str) -> str:
        """What is missing of a part of which something was given, where the response was taken up in its middle."""
        given = "".join((self._words or {}).get(key, (whole,)))
        return whole.removeprefix(given) if whole.startswith(given) else ""

    def _text_done(self, event: dict[str, Any]) -> None:
        self._complete_text(
            self._items.of(event, "message", late=True), event.get("content_index") or 0, event.get("text")
        )

    def _refusal(self, event: dict[str, Any]) -> None:
        self._refused = True
        self._text(event)

    def _refusal_done(self, event: dict[str, Any]) -> None:
        self._refused = True
        self._complete_text(
            self._items.of(event, "message", late=True), event.get("content_index") or 0, event.get("refusal")
        )

    def _complete_text(self, item: OutputItem, part: object, text: object) -> None:
        key = (item.number, part)
        if isinstance(text, str) and key in item.said:
            text = self._rest(key, text)
        if isinstance(text, str) and text:
            item.said[key] = None
            self._show_wordless()
            self._note(key, text)
            self._builder.text(key, text)

    def _annotation(self, event: dict[str, Any]) -> None:
        self._items.of(event, "message", late=True).annotations.append(event["annotation"])
        self._builder.raw(event)

    def _finish_message(self, item: OutputItem, fields: dict[str, Any]) -> None:
        content = fields.get("content")
        annotations: list[JsonValue] = []
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if part.get("type") == "refusal":
                self._refused = True
            self._complete_text(item, place, part.get("text") or part.get("refusal"))
            annotations += part.get("annotations") or ()
        beside: dict[str, JsonValue] = {"phase": fields["phase"]} if fields.get("phase") else {}
        if annotations := annotations or item.annotations:
            beside["annotations"] = annotations
        keys = [key for key in item.said if self._builder.is_open(key)]
        for key in keys:
            if beside:
                self._builder.opaque(key, MESSAGE_ITEM, _text_of(beside))
            self._builder.close(key)
        if self._text_item is item:
            self._text_key = None

    # --- reasoning --------------------------------------------------------------------------------------------------

    def _thought(self, event: dict[str, Any]) -> None:
        self._more_thought(self._items.of(event, "reasoning"), _part_of(event), event["delta"])

    def _thought_done(self, event: dict[str, Any]) -> None:
        item, part, text = self._items.of(event, "reasoning", late=True), _part_of(event), event.get("text")
        if isinstance(text, str):
            self._complete_thought(item, part, text)

    def _complete_thought(self, item: OutputItem, part: tuple[str, object], text: str) -> None:
        if part in item.said:
            text = self._rest((item.number, part), text) if part == item.part else ""
        self._more_thought(item, part, text)

    def _more_thought(self, item: OutputItem, part: tuple[str, object], text: str) -> None:
        """Words of one part. Parts are paragraphs; of summary and raw text, where there are both, the first counts."""
        if not text or (item.part is not None and item.part[0] != part[0]):
            return
        self._show_wordless()
        if item.part is not None and item.part != part:
            self._builder.reasoning((item.number, None), "\n\n")
        item.part = part
        item.said[part] = None
        self._note((item.number, part), text)
        self._builder.reasoning((item.number, None), text)

    def _finish_reasoning(self, item: OutputItem, fields: dict[str, Any]) -> None:
        for carrier in ("summary", "content"):
            parts = fields.get(carrier)
            for place, part in enumerate(parts if isinstance(parts, list) else ()):
                if isinstance(text := part.get("text"), str):
                    self._complete_thought(item, (carrier, place), text)
        key = (item.number, None)
        if replayed_reasoning(fields) is not None:
            if self._builder.is_open(key):
                self._builder.opaque(key, REASONING_ITEM, _text_of(fields))
            else:
                self._wordless.append((item.number, REASONING_ITEM, _text_of(fields)))
        self._builder.close(key)

    # --- calls ------------------------------------------------------------------------------------------------------

    def _start_call(self, item: OutputItem, fields: Mapping[str, Any]) -> None:
        """A call begins once its name is known; what came of its arguments before that is given then."""
        name = fields.get("name")
        if item.started or not isinstance(name, str) or not name:
            return
        item.started = True
        self._show_wordless()
        call_id = fields.get("call_id")
        key = (item.number, None)
        self._builder.tool_started(key, str(call_id) if call_id else None, self._names.get(name, name))
        for fragment in item.arguments:
            self._builder.tool_arguments(key, fragment)

    def _arguments(self, event: dict[str, Any]) -> None:
        self._more_arguments(self._items.of(event, "function_call"), event["delta"])

    def _more_arguments(self, item: OutputItem, fragment: str) -> None:
        item.arguments.append(fragment)
        if item.started:
            self._builder.tool_arguments((item.number, None), fragment)

    def _arguments_done(self, event: dict[str, Any]) -> None:
        self._complete_arguments(self._items.of(event, "function_call", late=True), event.get("arguments"))

    def _complete_arguments(self, item: OutputItem, arguments: object) -> None:
        """The arguments as a whole: give what is missing of them, where it was left out of the deltas."""
        if arguments is None or item.done:
            return
        whole = arguments if isinstance(arguments, str) else strict_json.dump(arguments).decode()
        given = "".join(item.arguments)
        if len(whole) > len(given) and whole.startswith(given):
            self._more_arguments(item, whole[len(given) :])

    # --- the end ----------------------------------------------------------------------------------------------------

    def _terminal(self, event: dict[str, Any]) -> None:
        """`response.completed`, `.incomplete`, `.failed`, `.cancelled`, or a document, which has no event's type."""
        self._created(event)
        response = event["response"]
        self._take_missing(response.get("output"))
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
                self._fail(ModelErrorKind.PROTOCOL, "the model provider's answer is not there yet")
            case _:
                self._finish(StopReason.END_TURN, "completed")

    def _finish_early(self, details: object) -> None:
        raw = str(details.get("reason") or "") if isinstance(details, dict) else ""
        if raw not in INCOMPLETE_REASONS:
            logger.warning("a response is incomplete for a reason that is not known", extra={"reason": raw[:64]})
        self._finish(StopReason(INCOMPLETE_REASONS.get(raw, "max_tokens")), raw or "incomplete")

    def _take_missing(self, output: object) -> None:
        """Items that only the end tells of, and the ends of those whose own end was left out.

        The first message at the end is the first that was streamed, and so on: ids and places change with some servers.
        """
        streamed: dict[str, list[OutputItem]] = {}
        for item in self._items.all:
            streamed.setdefault(item.type, []).append(item)
        for index, fields in enumerate(output if isinstance(output, list) else ()):
            kind = str(fields.get("type"))
            ones = streamed.get(kind)
            item = ones.pop(0) if ones else self._items.open(kind, fields.get("id"), index)
            if not item.done:
                self._finish_item(item, fields)
                if kind not in _OWN_TYPES:
                    self._builder.raw({"type": "response.output_item.done", "output_index": index, "item": fields})

    def _finish(self, reason: StopReason, raw: str) -> None:
        if self._refused and reason is StopReason.END_TURN:
            reason = StopReason.REFUSAL
        for item in self._items.all:
            if item.type == "function_call" and not item.started:
                self._fail(ModelErrorKind.PROTOCOL, "the model provider sent a call without a name")
                return
        self._show_wordless()
        self._report_usage()
        if self._stored:
            self._builder.finish(reason, raw, self.response_id, self._continued)
        else:
            self._builder.finish(reason, raw)
        self.done = True

    def _error(self, event: dict[str, Any]) -> None:
        self._report_failure(failed_response(event))

    def _report_failure(self, error: ProviderError) -> None:
        self._report_usage()
        self.error = error
        self.failure = failure(error)

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

    def _fail(self, kind: ModelErrorKind, message: str, sample: bytes = b"") -> None:
        self._report_usage()
        self.failure = ModelError(kind, message, provider_message=sample.decode("utf-8", "replace"))


_Read = Callable[[ResponsesReader, dict[str, Any]], None]
_READERS: Mapping[str, _Read] = {
    "response.created": ResponsesReader._created,
    "response.queued": ResponsesReader._created,
    "response.in_progress": ResponsesReader._created,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    _TEXT_DELTA: ResponsesReader._text,
    "response.output_text.done": ResponsesReader._text_done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.output_text_annotation.added": ResponsesReader._annotation,  # as it was called at first
    "response.refusal.delta": ResponsesReader._refusal,
    "response.refusal.done": ResponsesReader._refusal_done,
    "response.reasoning_summary_text.delta": ResponsesReader._thought,
    "response.reasoning_summary_text.done": ResponsesReader._thought_done,
    "response.reasoning_text.delta": ResponsesReader._thought,
    "response.reasoning_text.done": ResponsesReader._thought_done,
    "response.function_call_arguments.delta": ResponsesReader._arguments,
    "response.function_call_arguments.done": ResponsesReader._arguments_done,
    "response.completed": ResponsesReader._terminal,
    "response.done": ResponsesReader._terminal,  # OpenRouter
    "response.incomplete": ResponsesReader._terminal,
    "response.failed": ResponsesReader._terminal,
    "response.cancelled": ResponsesReader._terminal,
    "error": ResponsesReader._error,
    "response.error": ResponsesReader._error,
}


def _part_of(event: Mapping[str, Any]) -> tuple[str, object]:
    """Which part of the reasoning an event is about."""
    if "summary_index" in event:
        return ("summary", event["summary_index"])
    return ("content", event.get("content_index") or 0)


def _text_of(fields: Mapping[str, Any]) -> str:
    return strict_json.dump(fields).decode()
