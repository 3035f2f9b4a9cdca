"""What clients said on a thread as items: messages, calls and their outputs.

Below: media_out, messages. Above: conversations, responses_stored. Pure.

A message's item has the message's id. A call is an item of its own, with the id `fc_<call id>`; where the message says
nothing else, the call stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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
from gateway.openai_api.media_out import address_of, markdown_of
from gateway.store import RunRecord
from gateway.tool_output import encodable

_NOTE: Final = "openai_api"  # the member of a message's metadata that says how its items are called


@quickly_made
@dataclass(frozen=True, slots=True)
class ThreadItem:
    """An item, and the message that it is of. `call_id`: of the message it is this call alone. `run_id`: the run that
    shows it in its response; empty where none does.
    """

    value: JsonObject
    message_id: str
    call_id: str = ""
    run_id: str = ""

    @property
    def id(self) -> str:
        return str(self.value["id"])


def items_of(messages: Iterable[Message], runs: Sequence[RunRecord]) -> list[ThreadItem]:
    """The items of a thread. `runs` are the thread's, the newest first."""
    return [item for message in messages for item in message_items(message)]


def with_ids(message: Message, ids: Sequence[str]) -> Message:
    """The message that notes the ids of its items."""
    return replace(message, metadata={**(message.metadata or {}), _NOTE: {"items": [*ids]}})


def message_items(message: Message) -> list[ThreadItem]:
    """The items of a message that no response shows."""
    return [*_items(message)]


def _items(message: Message) -> Iterator[ThreadItem]:
    said = [block for block in message.content if not isinstance(block, ToolCall)]
    status = "incomplete" if message.incomplete else "completed"
    if said or not message.content:
        yield ThreadItem({"id": message.id, "status": status, **_said(message, said)}, message.id)
    for call in message.tool_calls:
        value: JsonObject = {"id": f"fc_{call.call_id}", "type": "function_call", "status": status}
        value |= {"call_id": call.call_id, "name": encodable(call.name), "arguments": encodable(call.arguments)}
        yield ThreadItem(value, message.id, call.call_id)


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
