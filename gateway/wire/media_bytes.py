"""Facts about a medium's bytes, which come as base64: their number, their format, whether they are text. Pure.

Above: providers.media, and the vendors' rooms, which know the formats that each vendor accepts.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from types import MappingProxyType

from gateway.messages import MediaKind

# The formats of pictures that every provider accepts, if it accepts pictures at all.
IMAGE_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "image/png": "png",
        "image/jpeg": "jpeg",
        "image/jpg": "jpeg",
        "image/pjpeg": "jpeg",
        "image/gif": "gif",
        "image/webp": "webp",
    }
)
_WRITTEN = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})


def bare_type(media_type: str | None) -> str:
    """A media type without its parameters, in lower case; empty where there is none."""
    return (media_type or "").partition(";")[0].strip().lower()


def is_written(media_type: str) -> bool:
    """Whether content of this bare type is text."""
    return media_type.startswith("text/") or media_type in _WRITTEN or media_type.endswith(("+json", "+xml"))


def decoded_size(data: str) -> int | None:
    """The number of bytes that the standard base64 text `data` encodes; None if it is not base64."""
    try:
        return len(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return None


def head_of(data: str) -> bytes:
    """The first bytes that the base64 text `data` encodes."""
    try:
        return binascii.a2b_base64(data[:32])
    except (binascii.Error, ValueError):
        return b""


def format_in(kind: MediaKind, head: bytes) -> str | None:
    """The format that begins with these first bytes; None if no known one does."""
    if kind == "document":
        return "pdf" if head.startswith(b"%PDF-") else None
    if kind != "image":
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    return None
