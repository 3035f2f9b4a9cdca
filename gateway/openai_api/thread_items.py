"""A thread's messages as items.

Below: responses_renderer, protocol.run_events, media_out. Above: conversations, responses_stored. Pure.

What a run added are the items of its response, with their ids. They are counted anew each time, so where one is
deleted, the messages of the others note the ids of theirs. Any other message's item has the message's id, and a call of
it is an item of its own, `fc_<call id>`: what clients said, and answers of runs that were forgotten or that a fork took
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final, NamedTuple

from gateway.frozen import quickly_made, replace
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    MediaBlock,
    MediaSource,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
    VideoBlock,
)
from gateway.openai_api.ids import place_of
from gateway.openai_api.media_out import address_of, markdown_of
from gateway.openai_api.response_view import ResponseView
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.run_events import events_of
from gateway.store import RunRecord
from gateway.tool_output import encodable

_NOTE: Final = "openai_api"  # the member of a message's metadata that says how its items are called


class RunPart(NamedTuple):
    """Messages of a thread that follow each other, and the run that added them; None: that is not known, or it is one
    message of a client's.
    """

    run: RunRecord | None
    messages: tuple[Message, ...]


_NO_RUN: Final = RunPart(None, ())


@quickly_made
@dataclass(frozen=True, slots=True)
class ThreadItem:
    """An item, the message that it is of, and the part in which it is shown. `call_id`: of the message it is this call
    alone, or what came of it.
    """

    value: JsonObject
    message_id: str
    call_id: str = ""
    part: RunPart = _NO_RUN

    @property
    def id(self) -> str:
        return str(self.value["id"])


class ThreadItems:
    """The items of a thread, the oldest first. They are made as they are asked for, a part at a time."""

    def __init__(
        self,
        messages: Sequence[Message],
        brought: Iterable[str | None],
        runs: Iterable[RunRecord],
        view: ResponseView,
    ) -> None:
        """`brought`: for each message the id of the run that was given or added it. `runs` are the thread's."""
        self._view = view
        self._parts = [*_parts(messages, brought, {run.client_id: run for run in runs})]
        self._calls = {call.call_id: (message.id, call) for message in messages for call in message.tool_calls}
        results = ((message, message.tool_result) for message in messages if message.turn_id is None)
        self._answered = {result.call_id for _, result in results if result is not None}

    def __iter__(self) -> Iterator[ThreadItem]:
        for part in self._parts:
            yield from self.of(part)

    def __reversed__(self) -> Iterator[ThreadItem]:
        for part in reversed(self._parts):
            yield from reversed(self.of(part))

    def find(self, item_id: str) -> ThreadItem | None:
        """The item of that id."""
        return next((item for part in self._candidates(item_id) for item in self.of(part) if item.id == item_id), None)

    def cut_at(self, item_id: str, *, oldest_first: bool) -> ThreadItems:
        """These items without parts that come before the item's, in that order; none where there is no such item."""
        cut, found = copy(self), self.find(item_id)
        place = None if found is None else self._parts.index(found.part)
        cut._parts = [] if place is None else self._parts[place:] if oldest_first else self._parts[: place + 1]
        return cut

    def _candidates(self, item_id: str) -> Iterator[RunPart]:
        """The parts that may have the item, the latest first."""
        place = place_of(item_id)
        for part in reversed(self._parts):
            if part.run is None or (place is not None and part.run.client_id == place.run_id):
                yield part

    def of(self, part: RunPart) -> list[ThreadItem]:
        """The items of a part."""
        if part.run is None:
            return [item for message in part.messages for item in message_items(message, part)]
        renderer = self._rendered(part.run, part.messages)
        noted = {message.id: noted_ids(message) for message in part.messages}
        items = []
        for shown in renderer.items:
            value, message_id, call_id = shown.value(), shown.source_id, ""
            if (called := self._calls.get(message_id)) is not None:
                message_id, call_id = called[0], message_id
            if ids := noted.get(message_id):
                value["id"] = ids.pop(0)
            items.append(ThreadItem(value, message_id, call_id, part))
        return items

    def response(self, run: RunRecord, produced: tuple[Message, ...]) -> JsonObject:
        """The response of a run that added these messages of the thread."""
        output = [item.value for item in self.of(RunPart(run, produced))]
        return {**self._rendered(run, produced).final(), "output": [*output]}

    def _rendered(self, run: RunRecord, produced: Sequence[Message]) -> ResponsesRenderer:
        results = (message.tool_result for message in produced)
        answered = [self._calls.get(result.call_id) for result in results if result is not None]
        earlier = [earlier_call(called[1]) for called in answered if called is not None]
        renderer = self._view.renderer(run, earlier)
        renderer.render(events_of(run, produced, self._answered), 1)
        return renderer


def earlier_call(call: ToolCall) -> EarlierCall:
    """A call as a run knows it that goes on behind it."""
    return EarlierCall(call.call_id, call.name, call.arguments)


def _parts(
    messages: Iterable[Message], brought: Iterable[str | None], runs: Mapping[str, RunRecord]
) -> Iterator[RunPart]:
    name, produced = "", list[Message]()
    for message, run_id in zip(messages, chain(brought, repeat(None)), strict=False):
        its_run = run_id or ""
        if produced and (message.turn_id is None or its_run != name):
            yield RunPart(runs.get(name), tuple(produced))
            produced = []
        if message.turn_id is None:
            yield RunPart(None, (message,))
        else:
            name = its_run
            produced.append(message)
    yield RunPart(runs.get(name), tuple(produced))


def noted_ids(message: Message) -> list[str]:
    """The ids that the message notes of its items, in order; none where they can be counted."""
    note = (message.metadata or {}).get(_NOTE)
    ids = note.get("items") if isinstance(note, dict) else None
    return [str(each) for each in ids] if isinstance(ids, list) else []


def with_ids(message: Message, ids: Sequence[str]) -> Message:
    """The message with a note of its items' ids: where others of its run are gone, they cannot be counted any more."""
    return replace(message, metadata={**(message.metadata or {}), _NOTE: {"items": [*ids]}})


def message_items(message: Message, part: RunPart = _NO_RUN) -> Iterator[ThreadItem]:
    """The items of a message that no response shows."""
    said = [block for block in message.content if not isinstance(block, ToolCall)]
    status = "incomplete" if message.incomplete else "completed"
    if said or not message.content:
        yield ThreadItem({"id": message.id, "status": status, **_said(message, said)}, message.id, part=part)
    for call in message.tool_calls:
        value: JsonObject = {"id": f"fc_{call.call_id}", "type": "function_call", "status": status}
        value |= {"call_id": call.call_id, "name": encodable(call.name), "arguments": encodable(call.arguments)}
        yield ThreadItem(value, message.id, call.call_id, part)


def _said(message: Message, blocks: Sequence[ContentBlock]) -> JsonObject:
    """The item of a message's blocks, without what all items have."""
    match blocks:
        case [ToolResult(call_id=call_id, content=content)]:
            return {"type": "function_call_output", "call_id": call_id, "output": _output_of(content)}
        case [ReasoningBlock(text=text)]:
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}] if text else []}
        case _:
            part = _output_part if message.role == "assistant" else _input_part
            return {"type": "message", "role": message.role, "content": [part(block) for block in blocks]}


def _output_of(content: Sequence[ContentBlock]) -> JsonValue:
    """A tool's result: its text, or parts where it has more."""
    texts = [block.text for block in content if isinstance(block, TextBlock)]
    return encodable("\n".join(texts)) if len(texts) == len(content) else [_input_part(block) for block in content]


def _output_part(block: ContentBlock) -> JsonObject:
    if isinstance(block, TextBlock) and block.refusal:
        return {"type": "refusal", "refusal": block.text}
    text = block.text if isinstance(block, TextBlock) else ""
    text = markdown_of(block) if isinstance(block, MediaBlock) else text
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _input_part(block: ContentBlock) -> JsonObject:
    match block:
        case ImageBlock(source=FileSource(file_id=file_id)):
            return {"type": "input_image", "detail": "auto", "file_id": file_id}
        case ImageBlock(source=source):
            return {"type": "input_image", "detail": "auto", "image_url": address_of(source)}
        case AudioBlock() | VideoBlock() | DocumentBlock():
            return {"type": "input_file", **_file(block.source), "filename": block.name}
        case TextBlock(text=text) | ReasoningBlock(text=text):
            return {"type": "input_text", "text": encodable(text)}
        case ToolCall() | ToolResult():
            return {"type": "input_text", "text": ""}


def _file(source: MediaSource) -> JsonObject:
    match source:
        case FileSource(file_id=file_id):
            return {"file_id": file_id}
        case UrlSource(url=url):
            return {"file_url": url}
        case Base64Source():
            return {"file_data": address_of(source)}
