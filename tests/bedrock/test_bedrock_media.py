"""gateway.bedrock.media, checked against botocore's service model."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.loaders import Loader

from gateway.bedrock.media import FORMATS, media_format
from gateway.messages import MediaKind

SHAPES: dict[str, Any] = Loader().load_service_model("bedrock-runtime", "service-2")["shapes"]


@pytest.mark.parametrize("kind", ["image", "document", "video", "audio"])
def test_every_format_is_one_of_the_services(kind: MediaKind) -> None:
    known = set(SHAPES[f"{kind.capitalize()}Format"]["enum"])
    assert set(FORMATS[kind].values()) <= known


def test_the_first_bytes_count_more_than_the_type_and_the_type_more_than_the_name() -> None:
    assert media_format("image", "image/jpeg", b"\x89PNG\r\n\x1a\n") == "png"
    assert media_format("image", "image/png", b"\xff\xd8\xff\xe0") == "jpeg"
    assert media_format("image", "application/octet-stream", b"GIF89a") == "gif"
    assert media_format("image", None, b"RIFF\0\0\0\0WEBP") == "webp"
    assert media_format("document", "text/plain", b"%PDF-1.7") == "pdf"
    assert media_format("document", "text/csv; charset=utf-8", b"a,b", "x.txt") == "csv"
    assert media_format("document", None, name="notes.MD") == "md"
    assert media_format("video", None, name="s3://bucket/film.3gp") == "three_gp"
    assert media_format("document", "text/x-python", b"import") == "txt"


@pytest.mark.parametrize(
    ("kind", "media_type"), [("image", "image/tiff"), ("document", "application/zip"), ("audio", "")]
)
def test_other_formats_are_not_taken(kind: MediaKind, media_type: str) -> None:
    assert media_format(kind, media_type, b"whatever") is None
