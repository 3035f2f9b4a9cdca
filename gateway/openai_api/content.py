"""The content of messages and tool results: a text, or the parts of Chat Completions or of Responses.

Below: fields. Above: the readers of both protocols' requests. Either protocol may use the other's parts: their names
differ, and clients mix them.
https://platform.openai.com/docs/api-reference/chat/create (November 2026),
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileSource,
    ImageBlock,
    MediaBlock,
    TextBlock,
    VideoBlock,
    json_kind,
)
from gateway.openai_api.fields import OpenAIFields
from gateway.protocol.fields import shown_word
from gateway.protocol.media_fields import linked_medium, read_file

_Part: TypeAlias = Callable[[OpenAIFields], ContentBlock | None]

_AUDIO_TYPES: Mapping[str, str] = MappingProxyType({"mp3": "audio/mpeg", "wav": "audio/wav"})


def read_content(fields: OpenAIFields, name: str, *, media: bool = True) -> tuple[ContentBlock, ...]:
    """The blocks of a member that is a text or an array of parts; none where it is null or empty. Problems are
    noted; without `media`, media are problems.
    """
    value = fields.value.get(name)
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (TextBlock(value),)
    if not isinstance(value, list):
        fields.wrong(name, f"{fields.called(name)} must be a string or an array of parts, not {json_kind(value)}")
        return ()
    blocks = (_block(part, media=media) for part in fields.objects(name))
    return tuple(block for block in blocks if block is not None)


def _block(part: OpenAIFields, *, media: bool) -> ContentBlock | None:
    kind = part.value.get("type")
    known = {**_TEXTS, **_MEDIA} if media else _TEXTS
    if isinstance(kind, str) and (read := known.get(kind)) is not None:
        return read(part)
    part.wrong("type", f"{part.called('type')} is {shown_word(kind)}; it must be one of {', '.join(known)}")
    return None


def _text(part: OpenAIFields) -> TextBlock | None:
    text = part.required("text")
    return TextBlock(text) if text else None


def _refusal(part: OpenAIFields) -> TextBlock | None:
    text = part.required("refusal")
    return TextBlock(text, refusal=True) if text else None


def _image(part: OpenAIFields) -> MediaBlock | None:
    """`image_url` is an object in Chat Completions, and a text in Responses; clients of either send both."""
    if (file_id := part.text("file_id")) and part.value.get("image_url") is None:
        return ImageBlock(FileSource(file_id))
    inside = part.inner("image_url") if isinstance(part.value.get("image_url"), dict) else None
    return linked_medium(part, "image_url", ImageBlock) if inside is None else linked_medium(inside, "url", ImageBlock)


def _video(part: OpenAIFields) -> MediaBlock | None:
    inside = part.inner("video_url") if isinstance(part.value.get("video_url"), dict) else None
    return linked_medium(part, "video_url", VideoBlock) if inside is None else linked_medium(inside, "url", VideoBlock)


def _audio(part: OpenAIFields) -> AudioBlock | None:
    inside = part.inner("input_audio")
    if inside is None:
        if part.value.get("input_audio") is None:
            part.wrong("input_audio", f"{part.called('input_audio')} is missing; give it data and a format")
        return None
    data, media_type = inside.required("data", filled=True), inside.word("format", _AUDIO_TYPES)
    if inside.value.get("format") is None:
        inside.wrong("format", f"{inside.called('format')} is missing; it must be one of {', '.join(_AUDIO_TYPES)}")
    return AudioBlock(Base64Source(data, media_type)) if data and media_type else None


def _chat_file(part: OpenAIFields) -> MediaBlock | None:
    inside = part.inner("file")
    if inside is not None:
        return read_file(inside)
    if part.value.get("file") is None:
        part.wrong("file", f"{part.called('file')} is missing; give it file_data or file_id")
    return None


_TEXTS: Final[Mapping[str, _Part]] = {"text": _text, "input_text": _text, "output_text": _text, "refusal": _refusal}
_MEDIA: Final[Mapping[str, _Part]] = {
    "image_url": _image,
    "input_image": _image,
    "input_audio": _audio,
    "file": _chat_file,
    "input_file": read_file,
    "video_url": _video,
}
