"""Pages of lists.

Below: nothing. Above: the other contracts of the room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list. `next_cursor` is opaque text for the next part, None at the end. `cursors` has the cursor after
    each item, for a reader that takes fewer items; empty if the list has no such cursors.
    """

    items: tuple[Item, ...]
    next_cursor: str | None
    cursors: tuple[str, ...] = ()
