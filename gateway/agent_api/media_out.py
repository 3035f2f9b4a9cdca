"""Media of models and results of tools, as contents. Pure.

Below: messages. Above: the renderer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    MediaBlock,
    TextBlock,
    UrlSource,
    VideoBlock,
)
from gateway.wire import strict_json

_FORMATS: Final = {"mpeg": "mp3", "x-wav": "wav", "vnd.wave": "wav", "x-m4a": "m4a"}


def medium_content(block: MediaBlock) -> tuple[str, JsonObject]:
    """The type and the value of the content that shows a medium. One that was taken back has an empty value."""
    source = block.source
    if isinstance(source, FileSource):  # only its provider has it
        return "file", {"file_id": source.file_id, "filename": block.name}
    address = _address(source)
    match block:
        case ImageBlock():
            return "image", {"image_url": address}
        case AudioBlock():
            data = source.data or None if isinstance(source, Base64Source) else address
            return "audio", {"data": data, "format": _format(source.media_type)}
        case VideoBlock():
            return "video", {"video_url": address}
        case _:
            member = "file_data" if isinstance(source, Base64Source) else "file_url"
            return "file", {member: address, "filename": block.name}


def result_text(content: Sequence[ContentBlock]) -> str:
    """A tool's result: its text, or the JSON of its contents where there is more than text. It may have lone
    surrogates.
    """
    if len(content) == 1 and isinstance(block := content[0], TextBlock):
        return block.text
    if all(isinstance(block, TextBlock) for block in content):
        return "\n".join(block.text for block in content if isinstance(block, TextBlock))
    return strict_json.dump([_content(block) for block in content]).decode()


def _content(block: ContentBlock) -> JsonValue:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if not isinstance(block, MediaBlock):
        return None
    kind, value = medium_content(block)
    return {"type": kind, **{name: each for name, each in value.items() if each is not None}}


def _address(source: Base64Source | UrlSource) -> str | None:
    """The URL of a medium, or a data URL."""
    if isinstance(source, UrlSource):
        return source.url
    return f"data:{source.media_type};base64,{source.data}" if source.data else None


def _format(media_type: str | None) -> str | None:
    """`wav` for `audio/wav`."""
    kind = (media_type or "").partition(";")[0].partition("/")[2].strip().lower()
    return _FORMATS.get(kind, kind) or None
