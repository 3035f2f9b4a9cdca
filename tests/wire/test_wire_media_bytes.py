"""What the bytes of a medium are."""

from __future__ import annotations

import base64

import pytest

from gateway.wire.media_bytes import bare_type, decoded_size, head_of, is_written


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100])
def test_the_size_of_base64_is_that_of_what_it_stands_for(size: int) -> None:
    data = base64.b64encode(bytes(size)).decode()
    assert decoded_size(data) == size
    assert head_of(data) == bytes(min(size, 24))


@pytest.mark.parametrize("data", ["a", "ab=c", "a b=", "ä", "ab==x", "\ud800"])
def test_what_is_no_base64_has_no_size(data: str) -> None:
    assert decoded_size(data) is None
    assert isinstance(head_of(data), bytes)


def test_written_is_what_can_be_read_as_text() -> None:
    written = ("text/csv", "application/json", "image/svg+xml", "application/vnd.api+json")
    assert all(map(is_written, written))
    assert not any(map(is_written, ("application/pdf", "image/png", "")))
    assert bare_type("Text/CSV; charset=utf-8") == "text/csv"
    assert bare_type(None) == ""
