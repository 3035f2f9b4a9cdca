"""The output items of one response as canonical events. Pure.

Above: responses_reader, which reads the response. Below: responses_items (the item of an event), answer_builder.
Content that comes only at an item's end is emitted there, so a server that streams little gives the same events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.messages import JsonValue, ToolSpec
from gateway.openai.chat_completions import safe_tool_name
from gateway.openai.responses import MESSAGE_ITEM, OUTPUT_ITEM, REASONING_ITEM, REPLAYED_ITEMS, replayed_reasoning
from gateway.openai.responses_items import OutputItem, OutputItems
from gateway.providers.answer_builder import AnswerBuilder
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

_TEXT_DELTA = "response.output_text.delta"
_OWN_TYPES = frozenset({"message", "reasoning", "function_call"})


class ResponsesOutput:
    """One per response. `refused`: a part of it is a refusal.

    The readers of single events are in `OUTPUT_EVENTS`. They rely on an event's documented shape, and raise KeyError,
    TypeError, AttributeError or ValueError if it has another.
    """

    def __init__(self, builder: AnswerBuilder, tools: Iterable[ToolSpec], *, notes_words: bool) -> None:
        """`notes_words`: the response may be resumed in the middle of a part."""
        self.refused = False
        self._builder = builder
        self._names = {safe: spec.name for spec in tools if (safe := safe_tool_name(spec.name)) != spec.name}
        self._words: dict[tuple[int, object], list[str]] | None = {} if notes_words else None  # by part of an item
        self._items = OutputItems()
        self._text_key: tuple[int, object] | None = None  # of the part whose text is arriving
        self._text_place: tuple[object, object, object] = (None, None, None)
        self._text_item: OutputItem | None = None
        self._wordless: list[tuple[int, str, str]] = []  # items that ended without text: number, kind, value

    @property
    def has_nameless_call(self) -> bool:
        """Whether a call never got a name."""
        return any(item.type == "function_call" and not item.started for item in self._items.all)

    # --- more of the same -------------------------------------------------------------------------------------------

    @property
    def text_place(self) -> object:
        """The part whose text is arriving, and how its events name it. None if that is unknown."""
        return None if self._text_key is None else (self._text_key, self._text_place)

    def more_of_text(self, event: Any) -> str | None:
        """The delta, if the event is a documented one for the same part as the last delta. None for any other."""
        if self._text_key is None:
            return None
        try:
            item_id, output_index, content_index = self._text_place
            if (
                event["type"] != _TEXT_DELTA
                or event["content_index"] != content_index
                or event["output_index"] != output_index
                or event["item_id"] != item_id
                or "sequence_number" not in event
            ):
                return None
            delta = event["delta"]
        except (KeyError, TypeError):
            return None
        return delta if type(delta) is str else None

    def take_more(self, texts: list[str]) -> None:
        """Emit the deltas that `more_of_text` found, one after another."""
        if self._words is not None and self._text_key is not None:
            self._words[self._text_key] += texts
        self._builder.texts(self._text_key, texts)

    def forget_place(self) -> None:
        """Note that the next event may be for another part."""
        self._text_key = None

    # --- items ------------------------------------------------------------------------------------------------------

    def _item_added(self, event: dict[str, Any]) -> None:
        self._text_key = None  # the place of the arriving text may be this item's from now on
        fields = event["item"]
        kind = str(fields.get("type"))
        item = self._items.open(kind, fields.get("id"), event.get("output_index"))
        if kind == "function_call":
            self._start_call(item, fields)
        elif kind not in _OWN_TYPES:
            self._builder.raw({**event, "item": _without_picture(fields)})

    def _item_done(self, event: dict[str, Any]) -> None:
        fields = event["item"]
        kind = str(fields.get("type"))
        place = {"item_id": fields.get("id"), "output_index": event.get("output_index")}
        self._finish_item(self._items.of(place, kind), fields)
        if kind not in _OWN_TYPES:
            self._builder.raw({**event, "item": _without_picture(fields)})

    def _finish_item(self, item: OutputItem, fields: dict[str, Any]) -> None:
        """An item is complete: emit what was not emitted yet, and keep what later requests send back."""
        match item.type:
            case "message":
                self._finish_message(item, fields)
            case "reasoning":
                self._finish_reasoning(item, fields)
            case "function_call":
                self._start_call(item, fields)
                self._complete_arguments(item, fields.get("arguments"))
                self._builder.close((item.number, None))
            case "image_generation_call" if isinstance(fields.get("result"), str):
                self._show_picture(item, fields)
            case kind if kind in REPLAYED_ITEMS:
                self._wordless.append((item.number, OUTPUT_ITEM, _text_of(fields)))
            case _:
                logger.info("an item that is not sent back", extra={"item_type": item.type[:64]})
        item.done = True

    def _show_picture(self, item: OutputItem, fields: dict[str, Any]) -> None:
        """A picture that the provider made. The item that is kept for sending it back does not have the picture
        again.
        """
        self.show_wordless()
        form = fields.get("output_format")
        media_type = f"image/{form if isinstance(form, str) and form else 'png'}"
        kept = (OUTPUT_ITEM, _text_of(_without_picture(fields)))
        self._builder.medium((item.number, None), media_type, fields["result"], kept)

    def show_wordless(self) -> None:
        """Emit the items without text before the next text. Until then nothing of this answer was seen, and the request
        may be repeated.
        """
        for number, kind, value in self._wordless:
            self._builder.opaque((number, None), kind, value)
            self._builder.close((number, None))
        self._wordless.clear()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _text(self, event: dict[str, Any], *, refusal: bool = False) -> None:
        item = self._items.of(event, "message")
        key = (item.number, event.get("content_index") or 0)
        self._text_place = (event.get("item_id"), event.get("output_index"), event.get("content_index"))
        self._text_item = item
        delta = event["delta"]
        self._text_key = key if delta else None  # a part without text so far is not continued
        if delta:
            item.said[key] = None
            self.show_wordless()
        self._note(key, delta)
        self._builder.text(key, delta, refusal=refusal)

    def _note(self, key: tuple[int, object], text: str) -> None:
        if self._words is not None:
            self._words.setdefault(key, []).append(text)

    def _rest(self, key: tuple[int, object], whole: str) -> str:
        """The rest of a part that was begun before the response was resumed."""
        given = "".join((self._words or {}).get(key, (whole,)))
        return whole.removeprefix(given) if whole.startswith(given) else ""

    def _text_done(self, event: dict[str, Any]) -> None:
        self._complete_text(
            self._items.of(event, "message", late=True), event.get("content_index") or 0, event.get("text")
        )

    def _refusal(self, event: dict[str, Any]) -> None:
        self.refused = True
        self._text(event, refusal=True)

    def _refusal_done(self, event: dict[str, Any]) -> None:
        self.refused = True
        self._complete_text(
            self._items.of(event, "message", late=True),
            event.get("content_index") or 0,
            event.get("refusal"),
            refusal=True,
        )

    def _complete_text(self, item: OutputItem, part: object, text: object, *, refusal: bool = False) -> None:
        key = (item.number, part)
        if isinstance(text, str) and key in item.said:
            text = self._rest(key, text)
        if isinstance(text, str) and text:
            item.said[key] = None
            self.show_wordless()
            self._note(key, text)
            self._builder.text(key, text, refusal=refusal)

    def _annotation(self, event: dict[str, Any]) -> None:
        self._items.of(event, "message", late=True).annotations.append(event["annotation"])
        self._builder.raw(event)

    def _finish_message(self, item: OutputItem, fields: dict[str, Any]) -> None:
        content = fields.get("content")
        annotations: list[JsonValue] = []
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if is_refusal := part.get("type") == "refusal":
                self.refused = True
            self._complete_text(item, place, part.get("text") or part.get("refusal"), refusal=is_refusal)
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
        """Reasoning of one part. Each part is a paragraph. Of summary and raw text, the one that comes first counts."""
        if not text or (item.part is not None and item.part[0] != part[0]):
            return
        self.show_wordless()
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
        """Begin a call once its name is known, with the arguments that came before the name."""
        name = fields.get("name")
        if item.started or not isinstance(name, str) or not name:
            return
        item.started = True
        self.show_wordless()
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
        """The complete arguments: emit the part that the deltas left out."""
        if arguments is None or item.done:
            return
        whole = arguments if isinstance(arguments, str) else strict_json.dump(arguments).decode()
        given = "".join(item.arguments)
        if len(whole) > len(given) and whole.startswith(given):
            self._more_arguments(item, whole[len(given) :])

    def take_missing(self, output: object) -> None:
        """Emit items that only the response's end brings, and end items whose own end was missing.

        Items are paired in order (the first message with the first message), since some servers change ids and places.
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
                    self._builder.raw(
                        {"type": "response.output_item.done", "output_index": index, "item": _without_picture(fields)}
                    )


_Tell = Callable[[ResponsesOutput, dict[str, Any]], None]
OUTPUT_EVENTS: Mapping[str, _Tell] = {
    "response.output_item.added": ResponsesOutput._item_added,
    "response.output_item.done": ResponsesOutput._item_done,
    _TEXT_DELTA: ResponsesOutput._text,
    "response.output_text.done": ResponsesOutput._text_done,
    "response.output_text.annotation.added": ResponsesOutput._annotation,
    "response.output_text_annotation.added": ResponsesOutput._annotation,  # as it was called at first
    "response.refusal.delta": ResponsesOutput._refusal,
    "response.refusal.done": ResponsesOutput._refusal_done,
    "response.reasoning_summary_text.delta": ResponsesOutput._thought,
    "response.reasoning_summary_text.done": ResponsesOutput._thought_done,
    "response.reasoning_text.delta": ResponsesOutput._thought,
    "response.reasoning_text.done": ResponsesOutput._thought_done,
    "response.function_call_arguments.delta": ResponsesOutput._arguments,
    "response.function_call_arguments.done": ResponsesOutput._arguments_done,
}


def _part_of(event: Mapping[str, Any]) -> tuple[str, object]:
    """The part of the reasoning that an event belongs to."""
    if "summary_index" in event:
        return ("summary", event["summary_index"])
    return ("content", event.get("content_index") or 0)


def _without_picture(fields: dict[str, Any]) -> dict[str, Any]:
    """A picture's item without the picture, which is an event of its own; any other as it is."""
    if fields.get("type") != "image_generation_call":
        return fields
    return {name: value for name, value in fields.items() if name != "result"}


def _text_of(fields: Mapping[str, Any]) -> str:
    return strict_json.dump(fields).decode()
