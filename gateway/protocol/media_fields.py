"""Reads media from the members of a body: at a URL, or as their data.

Below: fields, messages. Above: the protocols' readers of content.
"""

from __future__ import annotations

import mimetypes
from typing import Final

from gateway.messages import (
    Base64Source,
    DocumentBlock,
    FileSource,
    MediaBlock,
    UrlSource,
    block_of_media,
)
from gateway.protocol.fields import Fields
from gateway.wire.data_urls import read_data_url

_UNKNOWN_TYPE: Final = "application/octet-stream"
_FETCHED: Final = ("http://", "https://")


def linked_medium(fields: Fields, name: str, kind: type[MediaBlock], title: str | None = None) -> MediaBlock | None:
    """The medium at the URL in a member; one that holds the data itself is of the kind that it says. Problems are
    noted.
    """
    url = fields.required(name, filled=True)
    if url.lower().startswith(_FETCHED):
        return kind(UrlSource(url), title)
    if (source := data_source(url)) is not None:
        return block_of_media(source.media_type.partition("/")[0], source, title)
    if url:
        fields.wrong(
            name,
            f"{fields.called(name)} must be an http or https URL, or a data URL such as data:image/png;base64,...; "
            f"not {url[:32]!r}",
        )
    return None


def read_file(fields: Fields) -> MediaBlock | None:
    """A file by its `file_data`, `file_url` or `file_id`, with its `filename`. Problems are noted."""
    title, file_id, data = fields.text("filename"), fields.text("file_id"), fields.text("file_data")
    if data:
        return linked_medium(fields, "file_data", DocumentBlock, title) if ":" in data else _named_file(data, title)
    if fields.value.get("file_url") is not None:
        return linked_medium(fields, "file_url", DocumentBlock, title)
    if file_id:
        return DocumentBlock(FileSource(file_id), title)
    fields.wrong("file_data", f"{fields.called('file_data')} is missing; give a file's data, its URL or its file_id")
    return None


def _named_file(data: str, title: str | None) -> MediaBlock:
    """A file in base64 without its type, which follows from the file's name."""
    media_type = mimetypes.guess_type(title or "")[0] or _UNKNOWN_TYPE
    return block_of_media(media_type.partition("/")[0], Base64Source(data, media_type), title)


def data_source(url: str) -> Base64Source | None:
    """The data that a `data:` URL holds; None: it is no such URL."""
    if (held := read_data_url(url)) is None:
        return None
    return Base64Source(held.base64, held.media_type.lower() or _UNKNOWN_TYPE)
