"""Lists of items: which part of one a request asks for, and the answer.

Below: errors. Above: the protocols of conversations and of stored responses. Pure.
https://platform.openai.com/docs/api-reference/responses/input-items
"""

from __future__ import annotations

from collections.abc import Reversible, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.messages import JsonObject
from gateway.openai_api.errors import wrong
from gateway.protocol.pages import PageSize
from gateway.protocol.requests import whole_number

_USUAL: Final = 20
_MOST: Final = 100


class ListedItem(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str: ...

    @property
    def value(self) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class ListPart:
    """At most `limit` items after the one with the id `after`, the latest first unless `oldest_first`; fewer where
    they are large (PageSize).
    """

    limit: int = _USUAL
    after: str | None = None
    oldest_first: bool = False

    def of(self, items: Reversible[ListedItem]) -> JsonObject:
        """The answer with this part of the items, of which the oldest comes first.

        Raises:
            InvalidRequestError: 400, there is no item with the id `after`.
        """
        ordered = iter(items) if self.oldest_first else reversed(items)
        if self.after is not None and all(item.id != self.after for item in ordered):
            raise wrong(f"after is {self.after[:200]!r}, which is the id of no item here", "/after")
        found: list[JsonObject] = []
        size = PageSize()
        for item in ordered:
            if len(found) == self.limit or size.is_full:
                return item_list(found, has_more=True)
            found.append(item.value)
            size.add(item.value)
        return item_list(found)


def item_list(items: Sequence[JsonObject], *, has_more: bool = False) -> JsonObject:
    """The answer with these items."""
    return {
        "object": "list",
        "data": [*items],
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }


def part_asked(query: Sequence[tuple[str, str]]) -> ListPart:
    """The part that a query asks for. Raises InvalidRequestError (400)."""
    given = dict(query)
    limit = given.get("limit", str(_USUAL))
    if (most := whole_number(limit)) is None or not 1 <= most <= _MOST:
        raise wrong(f"limit is {limit[:64]!r}; it must be a number from 1 to {_MOST}", "/limit")
    order = given.get("order", "desc")
    if order not in ("asc", "desc"):
        raise wrong(f"order is {order[:64]!r}; it must be 'asc' or 'desc'", "/order")
    return ListPart(most, given.get("after") or None, oldest_first=order == "asc")
