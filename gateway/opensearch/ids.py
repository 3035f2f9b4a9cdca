"""The ids of documents: digests, because threads and runs may have any text as their id, of any length.

Below: nothing. Above: everything that reads or writes documents.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from functools import lru_cache


@lru_cache(maxsize=4096)  # a run asks 25 times for those of its owner, its thread and itself
def digest(*parts: str) -> str:
    """The same id for the same texts, in 32 characters."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(4, "big"))
        found.update(data)
    return found.hexdigest()


def new_token() -> str:
    """A random text that names one write, or one life of a thread or of a log."""
    return secrets.token_hex(8)


class Order:
    """Numbers that grow, also from process to process: nanoseconds."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, time.time_ns())
        return self._last
