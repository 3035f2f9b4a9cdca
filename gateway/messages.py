"""Messages, their content blocks, and the tools that messages refer to.

Below: the standard library and pydantic. The store, the models and the protocols all use these types for messages. All
types are immutable; a message is replaced, never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue as JsonValue

from gateway.frozen import quickly_made

# pydantic's own types, so that models at the borders can use them too.
JsonObject: TypeAlias = dict[str, JsonValue]

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "reasoning", "tool"]
INSTRUCTION_ROLES: Final = ("system", "developer")
"""The roles of messages that instruct the model and are no part of the conversation."""

_UUID_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))  # its first two bits are 1 and 0


def new_id(prefix: str) -> str:
    """A new id such as `turn_0f6c...`: 32 random hex digits after the prefix."""
    return f"{prefix}_{os.urandom(16).hex()}"


def new_message_id() -> str:
    """A new message's id: a UUID (version 4), because some clients accept nothing else."""
    # Written here: uuid4 makes an object of it first, which takes three times as long.
    digits = os.urandom(16).hex()
    variant = _UUID_VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def json_kind(value: object) -> str:
    """The kind of a JSON value for messages: `expected an object, got an array`."""
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
    """Data that only the provider and model that made it understand, and that is sent back only to them.

    `kind` is the provider's own name for it (`signature`, `redacted`, `thought_signature`, `encrypted_content`, ...);
    `value` is its exact text (base64 if the provider uses base64).
    """

    provider: str
    model: str
    kind: str
    value: str


@quickly_made
@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text. `refusal`: the model says in it that it will not answer."""

    text: str
    index: int = -1
    opaque: Opaque | None = None
    refusal: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """The model's reasoning; `text` may be empty if only the opaque part exists (redacted thinking)."""

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
    """Media at a URL. Fetched only if a provider cannot, and only under the fetch policy."""

    url: str
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class FileSource:
    """A provider's own handle for a file: never fetched or parsed, passed only to that provider."""

    file_id: str
    provider: str | None = None
    media_type: str | None = None


NO_DATA: Final = Base64Source("", "")
"""In the log, the source of a medium that was taken back."""

MediaSource: TypeAlias = Base64Source | UrlSource | FileSource


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """A picture. `name` is the file's name, if the sender gave one; it is only shown to people."""

    source: MediaSource
    name: str | None = None
    index: int = -1
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A sound. `name` is the file's name, if the sender gave one; it is only shown to people."""

    source: MediaSource
    name: str | None = None
    index: int = -1
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class VideoBlock:
    """A film. `name` is the file's name, if the sender gave one; it is only shown to people."""

    source: MediaSource
    name: str | None = None
    index: int = -1
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document (PDF, CSV, ...). `name` is the file's name, if the sender gave one."""

    source: MediaSource
    name: str | None = None
    index: int = -1
    opaque: Opaque | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request to call a tool.

    `call_id` is unique in its thread. `arguments` is the JSON text exactly as the model wrote it: it may be empty or
    invalid. `provider_call_id` is the provider's own id if it differs (some repeat theirs in every response).
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
    """The result of a call. `content` holds text and media blocks; an empty tuple is an empty result."""

    call_id: str
    content: tuple[ContentBlock, ...]
    is_error: bool = False


ContentBlock: TypeAlias = (
    TextBlock | ReasoningBlock | ImageBlock | AudioBlock | VideoBlock | DocumentBlock | ToolCall | ToolResult
)
MediaBlock: TypeAlias = ImageBlock | AudioBlock | VideoBlock | DocumentBlock
MediaKind: TypeAlias = Literal["image", "document", "video", "audio"]
MEDIA_KINDS: Mapping[type[MediaBlock], MediaKind] = MappingProxyType(
    {ImageBlock: "image", DocumentBlock: "document", VideoBlock: "video", AudioBlock: "audio"}
)
"""The word for each kind of medium."""


def block_of_media(kind: str, source: MediaSource, name: str | None = None) -> MediaBlock:
    """The block for the first half of a media type; anything but `image`, `audio` and `video` is a document."""
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

    The blocks of each role: `system`, `developer`: one TextBlock; `user`: text and media; `assistant`: at most one
    TextBlock, then ToolCalls, or one medium; `reasoning`: one ReasoningBlock; `tool`: one ToolResult. One answer of a
    model may be several messages (text, reasoning and text again): they share a `turn_id`, and the blocks' `index` is
    their place in the answer (-1: in the order of the messages). `turn_id` is None on a client's message. `incomplete`
    marks an answer that was cut off by a failure or a cancel. `conversation` names the thread's conversation it belongs
    to, if that is not the default one. `history.model_view` gives messages the form that providers accept.
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
    def is_medium(self) -> bool:
        """Whether it is a medium that a model made: clients do not send such a message back."""
        return self.role == "assistant" and len(self.content) == 1 and isinstance(self.content[0], MediaBlock)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in this message."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def tool_result(self) -> ToolResult | None:
        """The result in a tool message; None in any other."""
        for block in self.content:
            if isinstance(block, ToolResult):
                return block
        return None


def answered_calls(messages: Iterable[Message]) -> set[str]:
    """The ids of the calls whose results are among the messages."""
    return {result.call_id for message in messages if (result := message.tool_result) is not None}


def unanswered_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls in the messages whose results are not among them."""
    answered = answered_calls(messages)
    return [call for message in messages for call in message.tool_calls if call.call_id not in answered]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. A spec without a `Tool` is a frontend tool: the browser runs it.

    `input_schema` is a JSON Schema of type object; an empty dict takes no arguments. `server` is the label of the MCP
    server that has the tool, for viewers; models do not see it.
    """

    name: str
    description: str
    input_schema: JsonObject
    metadata: JsonObject | None = None
    server: str | None = None
