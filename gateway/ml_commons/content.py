"""The content blocks of ml-commons' agent API: read from requests, and written into answers.

Below: messages. Above: agent_input, execution. A block is `{"type": "text", "text"}`, or a medium `{"type": "image",
"source": {"type", "format", "data"}}`; the blocks of answers and of stored messages are read, too.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/execute-agent/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import (
    MEDIA_KINDS,
    Base64Source,
    ContentBlock,
    FileSource,
    JsonObject,
    JsonValue,
    MediaBlock,
    MediaSource,
    TextBlock,
    ToolCall,
    UrlSource,
    block_of_media,
    json_kind,
)

logger = logging.getLogger(__name__)

INVALID_FORM: Final = "invalid_input_form"
"""The code of an input that is none of the supported forms; its error has ml-commons' usual form."""
INVALID_INPUT: Final = "invalid_input"
"""The code of an input that is of a supported form and cannot be used; an execution's error."""

_MEDIA_KINDS: Final = ("image", "video", "document")
CONTENT_TYPES: Final = ("text", *_MEDIA_KINDS)
_SOURCES: Final = ("BASE64", "URL", "S3", "FILE")
_PLACES: Final = ("data", "url", "uri", "file_id")  # where a source's value may stand

_MEDIA_TYPES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "image": {"jpg": "image/jpeg", "svg": "image/svg+xml", "tif": "image/tiff"},
        "video": {
            "mov": "video/quicktime",
            "mkv": "video/x-matroska",
            "flv": "video/x-flv",
            "wmv": "video/x-ms-wmv",
            "mpg": "video/mpeg",
            "3gp": "video/3gpp",
            "three_gp": "video/3gpp",
        },
        "document": {
            "pdf": "application/pdf",
            "csv": "text/csv",
            "txt": "text/plain",
            "html": "text/html",
            "md": "text/markdown",
            "json": "application/json",
            "xml": "application/xml",
            "doc": "application/msword",
            "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "xls": "application/vnd.ms-excel",
            "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        },
    }
)
_FAMILIES: Final = {"document": "application"}
_FORMATS: Mapping[str, str] = MappingProxyType(
    {**{said: name for table in _MEDIA_TYPES.values() for name, said in table.items()}, "image/jpeg": "jpeg"}
)


def wrong(message: str, pointer: str, right: str, *, code: str = INVALID_INPUT) -> InvalidRequestError:
    """The error of one wrong field: `message` is ml-commons' own where it has one, `right` describes right values."""
    return InvalidRequestError(message, code=code, problems=[FieldProblem(pointer, right)], status=400)


def is_block(item: Mapping[str, Any]) -> bool:
    """Whether an item of an array is meant as a content block. Answers have texts without a type."""
    return "type" in item or "text" in item


def read_blocks(value: Any, at: str) -> list[ContentBlock]:
    """The blocks of an array that stands at the pointer `at`.

    Raises:
        InvalidRequestError
    """
    return [_block(item, f"{at}/{place}", place) for place, item in enumerate(value)]


def _block(item: Any, at: str, place: int) -> ContentBlock:
    if type(item) is not dict or not is_block(item):
        found = "Message" if type(item) is dict and "role" in item else json_kind(item)
        raise wrong(
            f"Invalid content array. Expected ContentBlock at index {place} but found {found}",
            at,
            f"give each block a 'type', one of {', '.join(CONTENT_TYPES)}",
            code=INVALID_FORM,
        )
    said = item.get("type", "text")
    kind = said.lower() if type(said) is str else ""
    if kind == "text":
        text = item.get("text")
        if type(text) is not str or not text.strip():
            message = "Text content block cannot have null or empty text"
            raise wrong(message, f"{at}/text", "give it text, or leave the block out")
        return TextBlock(text)
    if kind not in _MEDIA_KINDS:
        supported = ", ".join(CONTENT_TYPES)
        raise wrong(
            f"Unsupported content type {_shown(said)}. Supported types: {supported}",
            f"{at}/type",
            f"use one of {supported}",
            code=INVALID_FORM,
        )
    member = kind if kind in item and "source" not in item else "source"
    source, form = _source(item.get(member), kind, f"{at}/{member}")
    logger.debug(
        "read a medium of an agent's input",
        extra={"field": at, "kind": kind, "source": form, "media_type": source.media_type},
    )
    name = item.get("name")
    return block_of_media(kind, source, name if type(name) is str else None)


def _source(source: Any, kind: str, at: str) -> tuple[MediaSource, str]:
    """A medium's source, and the name of its type."""
    title = kind.capitalize()
    if type(source) is not dict:
        example = '{"type": "base64", "format": "png", "data": "..."}'
        raise wrong(f"{title} source cannot be null", at, f"give it a source such as {example}", code=INVALID_FORM)
    said = source.get("type")
    supported = ", ".join(_SOURCES)
    if said is None:
        raise wrong(f"{title} source type is required", f"{at}/type", f"use one of {supported}", code=INVALID_FORM)
    form = said.upper() if type(said) is str else ""
    if form not in _SOURCES:
        raise wrong(
            f"Invalid source type. Supported types: {supported}",
            f"{at}/type",
            f"is {_shown(said)}; use one of {supported}",
            code=INVALID_FORM,
        )
    written = source.get("format")
    if form != "FILE" and (type(written) is not str or not written):
        known = "'png'" if kind == "image" else "'mp4'" if kind == "video" else "'pdf'"
        raise wrong(
            f"{title} format is required", f"{at}/format", f"name the format, such as {known}", code=INVALID_FORM
        )
    value = next((found for name in _PLACES if (found := source.get(name)) is not None), None)
    if type(value) is not str or not value:
        raise wrong(f"{title} data is required", f"{at}/data", _data_wanted(form), code=INVALID_FORM)
    if form == "S3" and not value.startswith("s3://"):
        message = f"{title} data of source type S3 must be a URI such as s3://bucket/key"
        raise wrong(message, f"{at}/data", _data_wanted(form), code=INVALID_FORM)
    media_type = _media_type(kind, written) if type(written) is str and written else None
    if form == "BASE64":
        assert media_type is not None, "only files may be without a format"
        return Base64Source(value, media_type), form
    return (FileSource(value, None, media_type) if form == "FILE" else UrlSource(value, media_type)), form


def _data_wanted(form: str) -> str:
    return {
        "BASE64": "put the medium here, in base64",
        "URL": "put the medium's URL here",
        "S3": "put the object's URI here: s3://bucket/key",
        "FILE": "put the provider's id of the file here",
    }[form]


def _media_type(kind: str, written: str) -> str:
    """The media type of a format, which may be one itself."""
    form = written.lower()
    return form if "/" in form else _MEDIA_TYPES[kind].get(form) or f"{_FAMILIES.get(kind, kind)}/{form}"


def _shown(said: object) -> str:
    return repr(said[:64]) if isinstance(said, str) else json_kind(said)


# --- in answers --------------------------------------------------------------------------------------------------


def written_blocks(content: Sequence[ContentBlock]) -> list[JsonValue]:
    """The texts and media of a message, as answers have them; an input may have them so, too."""
    written: list[JsonValue] = []
    for block in content:
        if isinstance(block, TextBlock):
            written.append({"text": block.text})
        elif isinstance(block, MediaBlock):
            written.append({"type": media_kind(block), "source": written_source(block.source)})
    return written


def written_call(call: ToolCall) -> JsonObject:
    """A call as messages of this surface have it."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def media_kind(block: MediaBlock) -> str:
    """The kind of a medium: `image`, `video`, `document` or `audio`."""
    return MEDIA_KINDS[type(block)]


def written_source(source: MediaSource) -> JsonObject:
    """A medium's source as requests have it."""
    written: JsonObject = {}
    match source:
        case Base64Source(data):
            written = {"type": "base64", "data": data}
        case UrlSource(url):
            written = {"type": "s3" if url.startswith("s3://") else "url", "data": url}
        case FileSource(file_id):
            written = {"type": "file", "data": file_id}
    if source.media_type:
        written["format"] = _FORMATS.get(source.media_type) or source.media_type.rpartition("/")[2]
    return written
