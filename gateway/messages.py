"""Messages, their content blocks, and the tools that messages speak of.

The lowest words: nothing is below them. A message that is stored, sent to a model or shown by a protocol is one of
these. All types are immutable; a message is replaced, never changed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import uuid4

from pydantic import JsonValue as JsonValue

from gateway.frozen import quickly_made

# pydantic's, not our own, so that a border's models can name them too.
JsonObject: TypeAlias = dict[str, JsonValue]

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "reasoning", "tool"]


def new_id(prefix: str) -> str:
    """A fresh identifier such as `turn_0f6c...`: 32 hex digits of randomness behind the prefix."""
    return f"{prefix}_{os.urandom(16).hex()}"


def new_message_id() -> str:
    """A fresh message's id: a UUID, as there are clients that read nothing else."""
    return str(uuid4())


def json_kind(value: object) -> str:
    """What a JSON value is, as a message says it: `expected an object, got an array`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that only the provider and model that minted it understand, and that goes back only there.

    `kind` is the provider's own word for it (`signature`, `redacted`, `thought_signature`, `encrypted_content`, ...);
    `value` is text exactly as it came (base64 where the provider uses base64).
    """

    provider: str
    model: str
    kind: str
    value: str


@quickly_made
@dataclass(frozen=True, slots=True)
class TextBlock:
    """Words."""

    text: str
    index: int = -1
    opaque: Opaque | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """What the model thought; `text` may be empty where only the opaque part exists (redacted thinking)."""

    text: str
    index: int = -1
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class Base64Source:
    """Media carried in the message. `data` is standard base64; `media_type` e.g. `image/png`."""

    data: str
    media_type: str


@dataclass(frozen=True, slots=True)
class UrlSource:
    """Media somewhere else. Fetched only where a provider cannot, and only under the fetch policy."""

    url: str
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class FileSource:
    """A provider's own handle for a file: never fetched or parsed, passed only to that provider."""

    file_id: str
    provider: str | None = None
    media_type: str | None = None


MediaSource: TypeAlias = Base64Source | UrlSource | FileSource


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """A picture. `name` is the file's name where the sender gave one: nothing but what people are shown."""

    source: MediaSource
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A sound. `name` is the file's name where the sender gave one: nothing but what people are shown."""

    source: MediaSource
    name: str | None = None


@dataclass(frozen=True, slots=True)
class VideoBlock:
    """A film. `name` is the file's name where the sender gave one: nothing but what people are shown."""

    source: MediaSource
    name: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document (PDF, CSV, ...). `name` is the file's name where the sender gave one."""

    source: MediaSource
    name: str | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's wish to call a tool.

    `call_id` is unique in its thread. `arguments` is the JSON text exactly as the model wrote it: it may be empty or
    invalid. `provider_call_id` is the provider's own id where it differs (some repeat theirs in every response).
    """

    call_id: str
    name: str
    arguments: str
    index: int = -1
    opaque: Opaque | None = None
    provider_call_id: str | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave. `content` holds text and media blocks; an empty tuple is an empty result."""

    call_id: str
    content: tuple[ContentBlock, ...]
    is_error: bool = False


ContentBlock: TypeAlias = (
    TextBlock | ReasoningBlock | ImageBlock | AudioBlock | VideoBlock | DocumentBlock | ToolCall | ToolResult
)
MediaBlock: TypeAlias = ImageBlock | AudioBlock | VideoBlock | DocumentBlock


def block_of_media(kind: str, source: MediaSource, name: str | None = None) -> MediaBlock:
    """The block for the first half of a media type; what is no `image`, `audio` or `video` is a document."""
    match kind:
        case "image":
            return ImageBlock(source, name)
        case "audio":
            return AudioBlock(source, name)
        case "video":
            return VideoBlock(source, name)
        case _:
            return DocumentBlock(source, name)


@quickly_made
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a thread.

    What the blocks of each role are: `system`, `developer`: one TextBlock; `user`: text and media; `assistant`: at most
    one TextBlock, then ToolCalls; `reasoning`: one ReasoningBlock; `tool`: one ToolResult. One answer of a model may
    be several messages (text, reasoning and text again): they share a `turn_id`, and the blocks' `index` is their place
    in it (-1: as they stand). `turn_id` is None on what a client wrote. `incomplete` marks an answer that was cut off
    by a failure or a cancel. `conversation` names the one of the thread's conversations that it was said in, where that
    is not the default one. `model_view` (history.py) makes of them what a provider may be sent.
    """

    id: str
    role: Role
    content: tuple[ContentBlock, ...] = ()
    name: str | None = None
    turn_id: str | None = None
    incomplete: bool = False
    metadata: JsonObject | None = None
    conversation: str | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in this message."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def tool_result(self) -> ToolResult | None:
        """The result in this message, where it is a tool's."""
        for block in self.content:
            if isinstance(block, ToolResult):
                return block
        return None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. A spec without a `Tool` behind it is a frontend tool: the browser runs it.

    `input_schema` is a JSON Schema of type object; an empty dict takes no arguments.
    """

    name: str
    description: str
    input_schema: JsonObject
    metadata: JsonObject | None = None
