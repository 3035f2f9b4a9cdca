"""Counts as servers write them."""

from __future__ import annotations

import pytest

from gateway.providers.token_counts import token_count


@pytest.mark.parametrize(
    ("value", "count"),
    [(7, 7), (0, 0), (7.0, 7), (7.5, None), (-1, None), (True, None), ("7", None), (2**53, None), (None, None)],
)
def test_a_count_is_a_whole_number_that_every_reader_takes(value: object, count: int | None) -> None:
    assert token_count({"tokens": value}, "tokens") == count
    assert token_count({}, "tokens") is None
