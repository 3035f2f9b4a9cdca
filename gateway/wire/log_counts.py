"""Many things of one kind as the fields of one line of the log.

Nothing of ours is below. A request may bring thousands of things that are ignored, and names of any length: what is
logged of it stays small.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

MOST_NAMED = 5
MOST_CHARACTERS = 64


def counted(names: Collection[str]) -> dict[str, object]:
    """How many there are, and the beginnings of the first few."""
    return {"count": len(names), "first": [name[:MOST_CHARACTERS] for name in islice(names, MOST_NAMED)]}
