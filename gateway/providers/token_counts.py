"""Reads token counts, in whatever form servers write whole numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_LARGEST_COUNT = 2**53 - 1  # the largest that every JSON reader accepts


def token_count(counts: Mapping[str, object], name: str) -> int | None:
    """The count of that name; None if it is missing or not a count."""
    value = counts.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT:
        return value
    return None
