"""The contents of a message, of all seven types, as blocks. Pure.

Below: fields. Above: input_messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import orjson

from gateway.agent_api.fields import AgentApiFields
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    ImageBlock,
    JsonObject,
    MediaBlock,
    TextBlock,
    VideoBlock,
)
from gateway.protocol.fields import shown_word
from gateway.protocol.media_fields import linked_medium, read_file

_Reader: TypeAlias = Callable[[AgentApiFields], ContentBlock | None]

_DEFAULT_FORMAT: Final = "wav"


def read_content(message: AgentApiFields) -> tuple[ContentBlock, ...]:
    """The blocks of a message's `content`; none where it is null or empty. Problems are noted."""
    match message.value.get("content"):
        case [{"type": "text", "text": str(text)}] if text:  # as nearly all are, and of a long talk there are thousands
            return (TextBlock(text),)
    blocks = (_block(content) for content in message.objects("content"))
    return tuple(block for block in blocks if block is not None)


def read_data(message: AgentApiFields) -> AgentApiFields | None:
    """The members of the data that are the only content; None where there are none, which is noted."""
    contents = [*message.objects("content")]
    if len(contents) != 1 or contents[0].value.get("type") != "data" or contents[0].value.get("data") is None:
        message.wrong("content", f"{message.called('content')} must be an array with one content of the type 'data'")
        return None
    return contents[0].inner("data")


def _block(content: AgentApiFields) -> ContentBlock | None:
    kind = content.value.get("type")
    if isinstance(kind, str) and (read := _TYPES.get(kind)) is not None:
        return read(content)
    if kind is None:
        content.missing("type", f"one of {', '.join(_TYPES)}")
        return None
    content.wrong("type", f"{content.called('type')} is {shown_word(kind)}; it must be one of {', '.join(_TYPES)}")
    return None


def _text(content: AgentApiFields) -> TextBlock | None:
    return TextBlock(text) if (text := content.text("text")) else None


def _refusal(content: AgentApiFields) -> TextBlock | None:
    return TextBlock(text, refusal=True) if (text := content.text("refusal")) else None


def _data(content: AgentApiFields) -> TextBlock | None:
    """A model gets data as JSON text."""
    data: JsonObject | None = content.object("data")
    return TextBlock(orjson.dumps(data).decode()) if data else None


def _image(content: AgentApiFields) -> MediaBlock | None:
    return linked_medium(content, "image_url", ImageBlock)


def _video(content: AgentApiFields) -> MediaBlock | None:
    return linked_medium(content, "video_url", VideoBlock)


def _audio(content: AgentApiFields) -> MediaBlock | None:
    """A sound's `data`: base64, a data URL or a URL."""
    data, kind = content.required("data", filled=True), content.text("format") or _DEFAULT_FORMAT
    if ":" in data:
        return linked_medium(content, "data", AudioBlock)
    media_type = kind.lower() if "/" in kind else f"audio/{_AUDIO_NAMES.get(kind.lower(), kind.lower())}"
    return AudioBlock(Base64Source(data, media_type)) if data else None


_AUDIO_NAMES: Final[Mapping[str, str]] = MappingProxyType({"mp3": "mpeg"})
_TYPES: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "text": _text,
        "data": _data,
        "image": _image,
        "audio": _audio,
        "file": read_file,
        "refusal": _refusal,
        "video": _video,
    }
)
