"""Base URLs and the addresses below them."""

from __future__ import annotations

import pytest

from gateway.providers.endpoints import address_below, split_endpoint


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("https://x.example/v1", "https://x.example/v1/things"),
        (" https://x.example/v1/ ", "https://x.example/v1/things"),
        ("https://x.example/v1/things", "https://x.example/v1/things"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/things"),
        ("https://x.example/v1?api-version=2", "https://x.example/v1/things?api-version=2"),
    ],
)
def test_an_address_is_below_its_endpoint_once(endpoint: str, address: str) -> None:
    assert address_below(endpoint, "/things") == address


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("ftp://x", "no|not an http"),
        ("https://", "not an http"),
        ("x.example", "not an http"),
        ("https://x example", "not an http"),
        ("https://u:p@x.example", "carries credentials"),
        ("https://x.example:port", "(?i)port"),
    ],
)
def test_what_is_no_endpoint_says_why(endpoint: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        split_endpoint(endpoint)
