"""The most bytes that a page of a list may have: a page that reaches them ends early, and its cursor goes on from
there.

Above: the protocols, which add what they show. Pure.
"""

from __future__ import annotations

from typing import Final

from gateway.messages import JsonValue
from gateway.wire import strict_json

PAGE_BYTES: Final = 4_000_000
"""A page of a list ends early, with the item with which it has so many."""


class PageSize:
    """How many bytes the items of a page take as JSON."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the page has as many bytes as it may have."""
        return self._bytes >= PAGE_BYTES

    def add(self, item: JsonValue) -> None:
        """The page has this item, too."""
        self._bytes += len(strict_json.dump(item))
