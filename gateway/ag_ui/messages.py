"""Canonical messages as AG-UI's messages: for snapshots and for reading a thread's history.

Below: the words. Above: ag_ui.events and the protocols. Pure; the other way is `ag_ui.input`. Source:
https://docs.ag-ui.com/spec/1.0/basic/messages and the models of the PyPI package `ag-ui-protocol` 1.0.0. A field
without a value is left out, never null: clients before 1.0 refuse a whole run for one null.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard

from gateway.ag_ui.peer import PeerProfile
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

logger = logging.getLogger(__name__)

MEDIA_ACTIVITY: Final = "agui_gateway.media"
"""The type of the activities that show media which a model made."""


def ag_ui_messages(messages: Iterable[Message], profile: PeerProfile = PeerProfile.FULL) -> list[JsonObject]:
    """The messages in their order, as that client takes them."""
    hidden = HiddenMedia()
    rendered = [_message(message, profile, hidden) for message in messages]
    hidden.tell()
    return rendered


class HiddenMedia:
    """Counts media of tools' results that a client cannot be shown, for one line in the log."""

    def __init__(self) -> None:
        self.count = 0

    def tell(self) -> None:
        """Log how many there were."""
        if self.count:
            logger.warning("a client before AG-UI 1.0 cannot be shown tools' media", extra={"count": self.count})


def result_content(content: Sequence[ContentBlock], profile: PeerProfile, hidden: HiddenMedia) -> JsonValue:
    """A tool's result as the content of a tool message: text, or parts where there is media and the client takes them.

    Clients before 1.0 take text alone: the media is left out, without a placeholder.
    """
    parts = [block for block in content if isinstance(block, TextBlock | MediaBlock)]
    texts = [block.text for block in parts if isinstance(block, TextBlock)]
    if len(texts) == len(parts):
        return "\n".join(texts)
    if profile.is_full:
        return [_part(block, profile) for block in parts]
    hidden.count += len(parts) - len(texts)
    return "\n".join(texts)


def media_content(block: MediaBlock) -> JsonObject:
    """The content of a medium's activity: its kind, its data in base64 or its address, and its other properties."""
    fields = {Base64Source: "data", UrlSource: "url", FileSource: "fileId"}
    source = block.source
    content: JsonObject = {"kind": _kind(block), fields[type(source)]: _value(source)}
    if source.media_type is not None:
        content["mediaType"] = source.media_type
    if block.name is not None:
        content["name"] = block.name
    return content


def _message(message: Message, profile: PeerProfile, hidden: HiddenMedia) -> JsonObject:
    if message.is_medium:
        (block,) = message.content
        assert isinstance(block, MediaBlock)
        return {"id": message.id, "role": "activity", "activityType": MEDIA_ACTIVITY, "content": media_content(block)}
    rendered: JsonObject = {"id": message.id, "role": message.role}
    match message.role:
        case "user":
            rendered["content"] = _user_content(message.content, profile)
        case "assistant":
            _add_answer(rendered, message)
        case "tool":
            _add_result(rendered, message.tool_result or ToolResult("", ()), profile, hidden)
        case "reasoning":
            _add_reasoning(rendered, message.content)
        case "system" | "developer":
            rendered["content"] = message.text
    if message.name is not None and message.role not in ("tool", "reasoning"):
        rendered["name"] = message.name
    if message.metadata is not None:
        rendered["metadata"] = message.metadata
    return rendered


def _user_content(content: Sequence[ContentBlock], profile: PeerProfile) -> JsonValue:
    parts = [block for block in content if isinstance(block, TextBlock) or _can_be_shown(block, profile)]
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextBlock):
        return parts[0].text
    return [_part(block, profile) for block in parts]


def _add_answer(rendered: JsonObject, message: Message) -> None:
    texts = [block for block in message.content if isinstance(block, TextBlock)]
    calls = message.tool_calls
    if texts or not calls:
        rendered["content"] = message.text
    if calls:
        rendered["toolCalls"] = [_call(call) for call in calls]
    for block in texts:
        if block.opaque is not None:
            rendered["encryptedValue"] = block.opaque.value


def _call(call: ToolCall) -> JsonObject:
    rendered: JsonObject = {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.opaque is not None:
        rendered["encryptedValue"] = call.opaque.value
    return rendered


def _add_result(rendered: JsonObject, result: ToolResult, profile: PeerProfile, hidden: HiddenMedia) -> None:
    content = result.content
    error: str | None = None
    if result.is_error:
        # The reverse of ag_ui.input: the last text is the error; if it is the only one, it is the content, too.
        last = content[-1] if content else None
        error = last.text if isinstance(last, TextBlock) and last.text else "the tool failed"
        if isinstance(last, TextBlock) and len(content) > 1:
            content = content[:-1]
    rendered["content"] = result_content(content, profile, hidden) or error or ""
    rendered["toolCallId"] = result.call_id
    if error is not None:
        rendered["error"] = error


def _add_reasoning(rendered: JsonObject, content: Sequence[ContentBlock]) -> None:
    blocks = [block for block in content if isinstance(block, ReasoningBlock)]
    rendered["content"] = "".join(block.text for block in blocks)
    for block in blocks:
        if block.opaque is not None:
            rendered["encryptedValue"] = block.opaque.value


def _can_be_shown(block: ContentBlock, profile: PeerProfile) -> TypeGuard[MediaBlock]:
    """Whether the block is media, and the client takes it: one before 1.0 refuses a `binary` part that is empty."""
    if not isinstance(block, MediaBlock):
        return False
    return not _is_binary(block.source, profile) or bool(_value(block.source))


def _is_binary(source: MediaSource, profile: PeerProfile) -> bool:
    return profile is PeerProfile.LEGACY or (isinstance(source, FileSource) and not profile.is_full)


def _value(source: MediaSource) -> str:
    match source:
        case Base64Source():
            return source.data
        case UrlSource():
            return source.url
        case FileSource():
            return source.file_id


def _part(block: TextBlock | MediaBlock, profile: PeerProfile) -> JsonObject:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    kind = _kind(block)
    if _is_binary(block.source, profile):
        return _binary_part(kind, block.source, block.name)
    part: JsonObject = {"type": kind, "source": _source(block.source)}
    if block.name is not None:
        part["metadata"] = {"filename": block.name}
    return part


def _kind(block: MediaBlock) -> str:
    match block:
        case ImageBlock():
            return "image"
        case AudioBlock():
            return "audio"
        case VideoBlock():
            return "video"
        case DocumentBlock():
            return "document"


def _source(source: MediaSource) -> JsonObject:
    kinds = {Base64Source: "data", UrlSource: "url", FileSource: "file"}
    rendered: JsonObject = {"type": kinds[type(source)], "value": _value(source)}
    if isinstance(source, FileSource) and source.provider is not None:
        rendered["provider"] = source.provider
    if source.media_type is not None:
        rendered["mimeType"] = source.media_type
    return rendered


def _binary_part(kind: str, source: MediaSource, name: str | None) -> JsonObject:
    """The part as all clients before 1.0 take it; 0.0.47 knows no other. It must have a type, so one may be made up."""
    made_up = "application/*" if kind == "document" else f"{kind}/*"
    fields = {Base64Source: "data", UrlSource: "url", FileSource: "id"}
    part: JsonObject = {"type": "binary", "mimeType": source.media_type or made_up}
    part[fields[type(source)]] = _value(source)
    if name is not None:
        part["filename"] = name
    return part
