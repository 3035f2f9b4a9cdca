"""A cache that forgets the value that was used longest ago.

Below: nothing. Above: the caches of threads, inputs, fetched media and fits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Values by their keys. `size`, the sum of the values' sizes, is at most `limit`; but the newest value is kept even
    if it is larger alone.
    """

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        """Whether there is a value; that does not count as use."""
        return key in self._kept

    def get(self, key: Key) -> Value | None:
        """The value, which counts as used now; None if there is none."""
        if (kept := self._kept.get(key)) is None:
            return None
        self._kept.move_to_end(key)
        return kept[0]

    def keep(self, key: Key, value: Value, size: int = 1) -> None:
        """Keep the value in place of an earlier one of this key."""
        self.drop(key)
        self._kept[key] = value, size
        self.size += size
        while self.size > self._limit and len(self._kept) > 1:
            _, (_, oldest) = self._kept.popitem(last=False)
            self.size -= oldest

    def clear(self) -> None:
        """Remove all values."""
        self._kept.clear()
        self.size = 0

    def drop(self, key: Key) -> Value | None:
        """Remove the value and return it; None if there is none."""
        if (kept := self._kept.pop(key, None)) is None:
            return None
        self.size -= kept[1]
        return kept[0]
