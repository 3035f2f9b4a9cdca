"""Prepares a medium for a model: as a provider accepts it, or as a note that it was left out. Pure.

Above: the request writers and media_fetch. Below: messages, and `wire.media_bytes`, which knows the formats.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from gateway.messages import (
    MEDIA_KINDS,
    Base64Source,
    DocumentBlock,
    MediaBlock,
    MediaSource,
    UrlSource,
)
from gateway.wire import stand_ins
from gateway.wire.data_urls import read_data_url
from gateway.wire.media_bytes import IMAGE_FORMATS, bare_type, decoded_size, format_in, head_of

logger = logging.getLogger(__name__)


class UnsendableError(Exception):
    """A provider does not accept a medium. The text says why; the model reads it."""


class LeftOutMedia:
    """The media that one request leaves out. They are logged once, when the request is written."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def stand_in(self, block: MediaBlock, why: UnsendableError | str) -> str:
        """The text that the model reads in place of a medium."""
        kind = MEDIA_KINDS[type(block)]
        self._counts[f"{kind}: {why}"] += 1
        return stand_ins.left_out(kind, str(why))

    def tell(self) -> None:
        """Log how many media were left out, and why."""
        if self._counts:
            logger.warning("media are not sent to the model", extra={"left_out": dict(self._counts)})


def refusal_by(
    write: Callable[[MediaBlock], object], supported: str, *, fetches: bool = False
) -> Callable[[MediaBlock], str | None]:
    """A ModelCapabilities.media_refusal, by trying `write`, the request's writer. `supported` names the media that it
    takes; `fetches`: media behind URLs of the web are fetched before. Broken data is no reason: the model reads a note
    on it.
    """

    def refusal(block: MediaBlock) -> str | None:
        if fetches and isinstance(block.source, UrlSource) and is_of_web(block.source.url):
            return None
        try:
            write(block)
        except UnsendableError as error:
            return None if str(error) == stand_ins.BROKEN else f"{error}; {supported}"
        return None

    return refusal


def is_of_web(url: str) -> bool:
    """Whether a URL's content can be fetched, or is in it."""
    return url.partition(":")[0].lower() in ("http", "https", "data")


def reachable(source: MediaSource, *schemes: str) -> MediaSource:
    """The source; for a `data:` URL its bytes.

    Raises:
        UnsendableError: the URL is broken, or has none of `schemes` (`https://`).
    """
    if not isinstance(source, UrlSource):
        return source
    if source.url[:5].lower() == "data:":
        if (held := data_url_source(source.url, source.media_type)) is None:
            raise UnsendableError(stand_ins.BROKEN)
        return held
    if not source.url.lower().startswith(schemes):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    return source


def data_url_source(url: str, media_type: str | None = None) -> Base64Source | None:
    """The content of a `data:` URL (RFC 2397). None for any other URL, and for a broken one.

    `media_type`: the type from elsewhere, for a URL without one.
    """
    if (held := read_data_url(url)) is None:
        return None
    data = held.base64
    if held.is_base64:
        try:
            data = whole(unquote_to_bytes(data).decode("ascii") if "%" in data else data)
        except (UnsendableError, UnicodeDecodeError):
            return None
    return Base64Source(data, held.media_type or media_type or "text/plain")


def whole(data: str, most: int | None = None) -> str:
    """The base64 text without the line breaks of MIME.

    Raises:
        UnsendableError: it is empty, not base64, or more than `most` bytes.
    """
    if (size := decoded_size(data)) is None:
        data = "".join(data.split())
        size = decoded_size(data)
    if not size:
        raise UnsendableError(stand_ins.BROKEN)
    if most is not None and size > most:
        raise UnsendableError(f"it is larger than {most} bytes")
    return data


def picture(source: Base64Source) -> Base64Source:
    """The picture with the media type of its bytes: models refuse a picture whose declared type is wrong.

    Raises:
        UnsendableError: it is empty or broken, or of a format that no provider takes.
    """
    data = whole(source.data)
    form = format_in("image", head_of(data)) or IMAGE_FORMATS.get(bare_type(source.media_type))
    if form is None:
        raise UnsendableError(stand_ins.NO_SUCH_FORMAT)
    return Base64Source(data, f"image/{form}")


def text_in(data: str) -> str:
    """The text in the base64 `data`. It is never blank; bytes that are not UTF-8 are replaced.

    Raises:
        UnsendableError: there is none.
    """
    try:
        text = base64.b64decode(data, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise UnsendableError(stand_ins.BROKEN) from error
    if not text.strip():
        raise UnsendableError(stand_ins.BROKEN)
    return text


def quoted(block: DocumentBlock, data: str) -> str:
    """A text document as a part of the message's text.

    Raises:
        UnsendableError: there is no text in it.
    """
    return f'<document name="{block.name or "document"}">\n{text_in(data)}\n</document>'
