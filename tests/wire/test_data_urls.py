"""`data:` URLs: their type, and their content in base64."""

from __future__ import annotations

import pytest

from gateway.wire.data_urls import DataUrl, read_data_url


@pytest.mark.parametrize(
    ("url", "read", "content"),
    [
        ("data:image/png;base64,aGk=", DataUrl("image/png", "aGk=", is_base64=True), "aGk="),
        ("DATA: Image/PNG ; charset=x ; Base64 ,aGk=", DataUrl("Image/PNG", "aGk=", is_base64=True), "aGk="),
        ("data:;base64,aG%6b=", DataUrl("", "aG%6b=", is_base64=True), "aG%6b="),
        ("data:text/plain,h%69", DataUrl("text/plain", "h%69", is_base64=False), "aGk="),
        ("data:,", DataUrl("", "", is_base64=False), ""),
    ],
)
def test_a_url_that_holds_its_content_is_read(url: str, read: DataUrl, content: str) -> None:
    assert read_data_url(url) == read
    assert read.base64 == content


@pytest.mark.parametrize("url", ["", "data:", "data:image/png;base64", "https://x.example/a,b", "dat,a"])
def test_any_other_url_is_none_of_them(url: str) -> None:
    assert read_data_url(url) is None
