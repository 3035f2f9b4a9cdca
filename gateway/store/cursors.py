"""The cursors of lists: the end of a page, as opaque text.

Below: errors. Above: the stores. The first byte of a cursor names its list.
"""

from __future__ import annotations

import base64
import math
import struct

from gateway.errors import InvalidRequestError

_TIME_CURSOR = struct.Struct(">cdq")
_PLACE_CURSOR = struct.Struct(">cq")


def time_cursor(kind: bytes, at: float, key: int) -> str:
    """The cursor after the row that has this key and changed `at` this time; `kind` begins the cursors of its list."""
    return base64.urlsafe_b64encode(_TIME_CURSOR.pack(kind, at, key)).decode()


def read_time(kind: bytes, cursor: str) -> tuple[float, int]:
    """The time and key in a cursor of `time_cursor`. Raises InvalidRequestError (400)."""
    _, at, key = _TIME_CURSOR.unpack(_cursor_bytes(cursor, kind, _TIME_CURSOR.size))
    if math.isnan(at) or key < 0:
        raise _bad_cursor(cursor)
    return at, key


def place_cursor(kind: bytes, place: int) -> str:
    """The cursor of a place in the list whose cursors begin with `kind`."""
    return base64.urlsafe_b64encode(_PLACE_CURSOR.pack(kind, place)).decode()


def read_place(kind: bytes, cursor: str) -> int:
    """The place in a cursor of `place_cursor`. Raises InvalidRequestError (400)."""
    place: int
    _, place = _PLACE_CURSOR.unpack(_cursor_bytes(cursor, kind, _PLACE_CURSOR.size))
    if place < 0:
        raise _bad_cursor(cursor)
    return place


def _cursor_bytes(cursor: str, kind: bytes, size: int) -> bytes:
    try:
        data = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        raise _bad_cursor(cursor) from None
    if len(data) != size or data[:1] != kind:
        raise _bad_cursor(cursor)
    return data


def _bad_cursor(cursor: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{cursor[:80]!r} is not a cursor of this list; pass a `nextCursor` unchanged, or none", status=400
    )
