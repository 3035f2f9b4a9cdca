"""The parts of messages and artifacts: text, files and data, to and from the gateway's content blocks.

Below: errors. Above: messages' reader, both dialects. Parts that are read may have the form of either version; parts
that are made here have that of 1.0, and `part_v03` writes them as 0.3 does.
https://a2a-protocol.org/latest/specification/#416-part (1.0), https://a2a-protocol.org/v0.3.0/specification/#65-part-union-type
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.a2a.errors import Parameters
from gateway.agent import ABSENT, Absent
from gateway.messages import (
    Base64Source,
    ContentBlock,
    FileSource,
    JsonObject,
    JsonValue,
    MediaBlock,
    TextBlock,
    UrlSource,
    block_of_media,
)
from gateway.wire import strict_json

_CONTENTS: Final = ("text", "raw", "url", "data")
_UNKNOWN_TYPE: Final = "application/octet-stream"
_FETCHED: Final = ("http://", "https://")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_JSON_TYPE: Final = "application/json"
_FILE_V03: Final = {"raw": "bytes", "url": "uri", "filename": "name", "mediaType": "mimeType"}


class _FileV03(Parameters):
    """A file of 0.3 by the names of 1.0; messages call its members as they were sent."""

    def pointer(self, name: str) -> str:
        return super().pointer(_FILE_V03[name])


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part that a client sent. `written`: as 1.0 writes it; `block`: as a model is shown it. `data` is the value of a
    data part, ABSENT of any other.
    """

    written: JsonObject
    block: ContentBlock
    data: JsonValue | Absent = ABSENT


# --- in ---------------------------------------------------------------------------------------------------------------


def read_parts(fields: Parameters) -> list[ReadPart]:
    """The parts of a message. Problems are noted."""
    if fields.value.get("parts") in (None, []):
        fields.wrong("parts", f"{fields.called('parts')} is missing or empty; it must be an array of parts")
    return [part for each in fields.objects("parts") if (part := _read_part(each, fetched=True)) is not None]


def _read_part(part: Parameters, *, fetched: bool = False) -> ReadPart | None:
    """`fetched`: a file's URL must be one that can be fetched."""
    if len(part.value) == 1 and type(said := part.value.get("text")) is str:  # as most are
        return ReadPart({"text": said}, TextBlock(said))
    flat = _flat(part) if part.value.get("kind") is not None else part
    if flat is None:
        return None
    given = [name for name in _CONTENTS if name in flat.value and (name == "data" or flat.value[name] is not None)]
    if len(given) != 1:
        said = " and ".join(given) or "none of them"
        part.wrong_here(f"each part must have exactly one of {', '.join(_CONTENTS)}; this one has {said}")
        return None
    url = flat.value.get("url")
    if fetched and isinstance(url, str) and not url.lower().startswith(_FETCHED):
        flat.wrong("url", f"{flat.called('url')} must be an http or https URL; send a file's data as raw")
        return None
    common: JsonObject = {}
    for name in ("filename", "mediaType"):
        if text := flat.text(name):
            common[name] = text
    if (metadata := part.object("metadata")) is not None:
        common["metadata"] = metadata
    return _READERS[given[0]](flat, common)


def _flat(part: Parameters) -> Parameters | None:
    """A part of 0.3 with the names of 1.0. Its file has `bytes` or `uri`, a `name` and a `mimeType`."""
    if (kind := part.word("kind", {"text": "text", "data": "data", "file": "file"})) is None:
        return None
    if kind != "file":
        return part
    if (file := part.inner("file")) is None:
        part.wrong("file", f"{part.called('file')} is missing; it must be an object with bytes or uri")
        return None
    if (file.value.get("bytes") is None) == (file.value.get("uri") is None):
        file.wrong_here(f"{part.called('file')} must have bytes or uri, one of them")
        return None
    renamed = {new: file.value[old] for new, old in _FILE_V03.items() if old in file.value}
    return _FileV03(renamed, file.at, part.problems)


def _text(part: Parameters, common: JsonObject) -> ReadPart | None:
    text = part.text("text")
    return None if text is None else ReadPart({"text": text, **common}, TextBlock(text))


def _data(part: Parameters, common: JsonObject) -> ReadPart | None:
    data = part.value["data"]
    return ReadPart({"data": data, **common}, TextBlock(strict_json.dump(data).decode()), data)


def _raw(part: Parameters, common: JsonObject) -> ReadPart | None:
    raw = part.text("raw")
    if raw is None:
        return None
    if (data := _standard_base64(raw)) is None:
        part.wrong("raw", f"{part.called('raw')} must be base64")
        return None
    media_type = _media_type(part, "")
    block = block_of_media(media_type.partition("/")[0], Base64Source(data, media_type), part.text("filename"))
    return ReadPart({"raw": data, **common}, block)


def _url(part: Parameters, common: JsonObject) -> ReadPart | None:
    url = part.text("url")
    if url is None:
        return None
    media_type = _media_type(part, url)
    source = UrlSource(url, part.text("mediaType") or None)
    return ReadPart({"url": url, **common}, block_of_media(media_type.partition("/")[0], source, part.text("filename")))


def _standard_base64(text: str) -> str | None:
    """The text in standard base64 with its padding; None: it is none. Readers of protobuf's JSON accept both alphabets,
    and data without padding.
    """
    standard = text.translate(_URL_SAFE).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    try:
        base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError):
        return None
    return standard


def _media_type(part: Parameters, url: str) -> str:
    """The media type that the part names, else the one that follows from its file's name."""
    said = part.text("mediaType")
    return said or mimetypes.guess_type(part.text("filename") or url.partition("?")[0])[0] or _UNKNOWN_TYPE


_READERS: Final = {"text": _text, "raw": _raw, "url": _url, "data": _data}


# --- out --------------------------------------------------------------------------------------------------------------


def text_part(text: str) -> JsonObject:
    return {"text": text}


def data_part(data: JsonValue) -> JsonObject:
    return {"data": data, "mediaType": _JSON_TYPE}


def media_part(block: MediaBlock) -> JsonObject:
    """A medium: its data, its URL, or its provider's handle as data."""
    named: JsonObject = {"filename": block.name} if block.name else {}
    match block.source:
        case Base64Source(data, media_type):
            return {"raw": data, **({"mediaType": media_type} if media_type else {}), **named}
        case UrlSource(url, media_type):
            return {"url": url, **({"mediaType": media_type} if media_type else {}), **named}
        case FileSource(file_id, provider):
            return {**data_part({"file_id": file_id, "provider": provider}), **named}


def parts_of(blocks: Iterable[ContentBlock]) -> list[JsonValue]:
    """The texts and media of a tool's result."""
    parts: list[JsonValue] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(text_part(block.text))
        elif isinstance(block, MediaBlock):
            parts.append(media_part(block))
    return parts


def agents_parts(parts: JsonValue) -> list[JsonValue]:
    """The parts that an agent wrote itself, in the form of 1.0; those that are none are left out."""
    if not isinstance(parts, list):
        return []
    found: list[JsonValue] = []
    for part in parts:
        if isinstance(part, dict):
            read = _read_part(Parameters(part))
            if read is not None:
                found.append(read.written)
    return found


def part_v03(part: Any) -> JsonObject:
    """A part of 1.0 as 0.3 writes it. Data that is no object stands in one, as `value`."""
    metadata = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {"kind": "text", "text": part["text"], **metadata}
    if "data" in part:
        data = part["data"]
        return {"kind": "data", "data": data if isinstance(data, dict) else {"value": data}, **metadata}
    file: JsonObject = {old: part[name] for name, old in _FILE_V03.items() if name in part}
    return {"kind": "file", "file": file, **metadata}


def parts_v03(parts: Sequence[JsonValue]) -> list[JsonValue]:
    return [part_v03(part) for part in parts]
