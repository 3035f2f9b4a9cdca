"""The output items of one response, whatever servers call them. Pure.

Servers identify an event's item by `item_id`, by `output_index` or by both. Some announce no items, and some give
several items the same id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gateway.messages import JsonValue


@dataclass(slots=True)
class OutputItem:
    """An unfinished output item. `said`: the content parts of which something was emitted."""

    number: int
    type: str
    index: int | None  # its place by the server's count
    said: dict[object, None] = field(default_factory=dict)
    part: tuple[str, object] | None = None  # the part of reasoning that is arriving
    annotations: list[JsonValue] = field(default_factory=list)
    started: bool = False  # a call
    arguments: list[str] = field(default_factory=list)
    done: bool = False


class OutputItems:
    """All of a response's items so far, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}

    def of(self, event: dict[str, Any], kind: str, *, late: bool = False) -> OutputItem:
        """The item of an event. An item that was not announced is begun.

        The id decides. If the id is new or belongs to several items, the place decides. Without both it is the last
        item. `late`: the item may be over already.
        """
        item_id, index = event.get("item_id"), event.get("output_index")
        item = self._by_id.get(item_id) if isinstance(item_id, str) else None
        if isinstance(index, int) and (item is None or item.index not in (None, index)):
            item = self._by_index.get(index)
        elif item is None and item_id is None and self.all:
            item = self.all[-1]
        if item is None or item.type != kind or (item.done and not late):
            item = self.open(kind, item_id, index)
        return item

    def open(self, kind: str, item_id: object, index: object) -> OutputItem:
        """A new item."""
        item = OutputItem(len(self.all), kind, index if isinstance(index, int) else None)
        self.all.append(item)
        if isinstance(item_id, str):
            self._by_id[item_id] = item
        if isinstance(index, int):
            self._by_index[index] = item
        return item
