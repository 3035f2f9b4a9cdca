"""Shortens many items of one kind to the fields of one log line.

Below: the standard library. A request may bring thousands of ignored items, and names of any length: the log line stays
small.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

MOST_NAMED = 5
MOST_CHARACTERS = 64


def counted(names: Collection[str]) -> dict[str, object]:
    """Their number, and the beginnings of the first few."""
    return {"count": len(names), "first": [name[:MOST_CHARACTERS] for name in islice(names, MOST_NAMED)]}
