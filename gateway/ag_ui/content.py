"""The content parts of AG-UI's messages, read by hand: text and media, as clients of any version write them.

Below: members. Above: input. Source: https://docs.ag-ui.com/spec/1.0/basic/messages
"""

from __future__ import annotations

from typing import Any, Final

from gateway.ag_ui.members import MemberReader
from gateway.messages import (
    Base64Source,
    ContentBlock,
    FileSource,
    MediaBlock,
    MediaSource,
    TextBlock,
    UrlSource,
    block_of_media,
    json_kind,
)
from gateway.wire.data_urls import read_data_url

MEDIA_KINDS: Final = ("image", "audio", "video", "document")

_TEXT_PART = frozenset({"type", "id", "text", "metadata"})
_MEDIA_PART = frozenset({"type", "id", "source", "metadata"})
_BINARY_PART = frozenset({"type", "mimeType", "id", "url", "data", "filename"})
_SOURCE = frozenset({"type", "value", "mimeType", "provider"})


class ContentReader(MemberReader):
    """`media_seen`: there was a media part in the form of AG-UI 0.0.48 and later."""

    def __init__(self) -> None:
        super().__init__()
        self.media_seen = False

    def parts(self, item: dict[str, Any], at: str) -> tuple[ContentBlock, ...]:
        if type(item.get("content")) is not list:
            got = (
                f"expected a string or an array, got {json_kind(item['content'])}" if "content" in item else "required"
            )
            self.wrong(f"{at}/content", got)
            return ()
        blocks = (self.part(part, part_at) for part_at, part in self.objects(item, "content", at))
        return tuple(block for block in blocks if block is not None)

    def part(self, item: dict[str, Any], at: str) -> ContentBlock | None:
        kind = item.get("type")
        if kind == "text":
            item = self.known_members(item, _TEXT_PART, "a text part")
            self.text(item, "id", at, optional=True)
            return TextBlock(self.text(item, "text", at))
        if kind == "binary":
            return self.binary_part(item, at)
        if kind in MEDIA_KINDS:
            self.media_seen = True
            item = self.known_members(item, _MEDIA_PART, "a media part")
            self.text(item, "id", at, optional=True)
            source = self.source(item, f"{at}/source")
            return None if source is None else block_of_media(kind, source, _file_name(item.get("metadata")))
        if isinstance(kind, str):
            self.leave_out(f"part of type {kind[:64]!r}")
        else:
            self.text(item, "type", at)
        return None

    def source(self, item: dict[str, Any], at: str) -> MediaSource | None:
        source = item.get("source")
        if type(source) is not dict:
            self.wrong(at, f"expected an object, got {json_kind(source)}" if "source" in item else "required")
            return None
        kind = source.get("type")
        if kind not in ("data", "url", "file"):
            if isinstance(kind, str):
                self.leave_out(f"part whose source is of type {kind[:64]!r}")
            else:
                self.text(source, "type", at)
            return None
        source = self.known_members(source, _SOURCE, "a source")
        value = self.text(source, "value", at)
        media_type = self.media_type(source, at, optional=kind != "data")
        if kind == "data":
            return Base64Source(value, media_type)
        if kind == "url":
            return _url_source(value, media_type)
        return FileSource(value, self.text(source, "provider", at, optional=True), media_type)

    def media_type(self, item: dict[str, Any], at: str, *, optional: bool = False) -> Any:
        value = self.text(item, "mimeType", at, optional=optional)
        return value if value is None else _lower_type(value)

    def binary_part(self, item: dict[str, Any], at: str) -> MediaBlock | None:
        """A media part as clients up to 0.0.47 write it; AG-UI 1.0 has removed it."""
        item = self.known_members(item, _BINARY_PART, "a binary part")
        media_type: str = self.media_type(item, at)
        data, url, file_id, name = (
            self.text(item, name, at, optional=True) for name in ("data", "url", "id", "filename")
        )
        known_type = None if media_type.endswith("/*") else media_type  # so ag_ui.messages writes it
        source: MediaSource
        if data:
            source = Base64Source(data, media_type)
        elif url:
            source = _url_source(url, known_type)
        elif file_id:
            source = FileSource(file_id, None, known_type)
        else:
            self.wrong(at, "expected one of data, url and id")
            return None
        return block_of_media(media_type.partition("/")[0], source, name)


def _lower_type(media_type: str) -> str:
    """The type in lower case, since case means nothing there; its parameters unchanged."""
    name, semicolon, parameters = media_type.partition(";")
    return name.strip().lower() + semicolon + parameters


def _url_source(url: str, media_type: str | None) -> MediaSource:
    """The source; a `data:` URL in base64 is data: there is nothing to fetch."""
    held = read_data_url(url)
    if held is None or not held.is_base64:
        return UrlSource(url, media_type)
    return Base64Source(held.payload, held.media_type.lower() or media_type or "application/octet-stream")


def _file_name(metadata: object) -> str | None:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else None
