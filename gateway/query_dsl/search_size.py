"""Bounds the size of a search, because a large one takes long to parse. Pure.

Below: clauses, options. Above: search_body.
"""

from __future__ import annotations

from typing import TypeAlias

from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.options import Json

MAX_SEARCH_BYTES = 100_000
"""Of all texts and names in a search together, in UTF-8; each value counts for one more."""

_Place: TypeAlias = tuple["_Place", str] | None


def check_size(body: Json) -> None:
    """Refuse a search that is too large. It reads no more of the search than is allowed.

    Raises:
        QueryError: the search is too large; the text names the field that makes it so.
    """
    left = MAX_SEARCH_BYTES
    rest: list[tuple[_Place, Json]] = [(None, body)]
    while rest:
        place, value = rest.pop()
        size = 1
        if isinstance(value, str):
            size += text_bytes(value)
        elif isinstance(value, list):
            size += len(value)
            if size <= left:
                rest += [(place, item) for item in reversed(value)]
                size = 1
        elif isinstance(value, dict):
            size += len(value)
            if size <= left:
                rest += [((place, name), inner) for name, inner in reversed(value.items())]
                size = 1 + sum(map(text_bytes, value))
        left -= size
        if left < 0:
            raise QueryError(_too_large(place, size))


def text_bytes(text: str) -> int:
    """The size of a text in UTF-8; of a long one at least its number of characters."""
    if len(text) > MAX_SEARCH_BYTES or text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def _too_large(place: _Place, size: int) -> str:
    names: list[str] = []
    while place is not None:
        place, name = place
        names.append(name[:50])
    path = ".".join(reversed(names[-10:])) or "the search"
    return (
        f"the search is too large at {path!r}, which has {size} bytes: a search has at most {MAX_SEARCH_BYTES} bytes "
        "of text in all; look for fewer words"
    )
