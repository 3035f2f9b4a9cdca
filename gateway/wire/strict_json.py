"""Strict JSON: reads documents that clients send, and writes documents that every reader accepts.

Pure. `load` refuses documents that parsers read differently. `dump` never raises, because an error between two events
would break a stream.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.wire.json_pointer import escaped

MAX_DEPTH: Final = 200
"""How deep a document may be nested. It must still be writable inside another document (the encoder takes 254)."""

_ENCODER_DEPTH: Final = 254
_SPARE_LEVELS: Final = _ENCODER_DEPTH - MAX_DEPTH  # so that the encoder's limit becomes this one
COMPARED_BYTES: Final = 1024 * 1024
"""Larger documents are not searched for members that an object has twice."""
_POINTED_BYTES: Final = 256 * 1024
_SHORT_BYTES: Final = 1024
_MAX_POINTERS: Final = 20


class NotStrictJsonError(ValueError):
    """The text says why. `pointers` (RFC 6901) are the places with half a surrogate pair, if that is the reason."""

    def __init__(self, message: str, pointers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.pointers = tuple(pointers)


def load(body: bytes, size: int | None = None) -> Any:
    """The document's value. `size`: the bytes of the whole document if `body` is a part of it, for the limit of 1 MiB.

    Refused are, besides bytes that are no JSON: NaN and infinities, a byte order mark, bytes that are not UTF-8, half a
    surrogate pair, more than 200 levels, and a member that its object has twice (in documents of up to 1 MiB; the last
    one counts beyond that, because looking costs more than reading).

    Raises:
        NotStrictJsonError: the document is refused.
    """
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise NotStrictJsonError(where, _lone_surrogates(body)) from None
    # A document with few brackets cannot be too deep. Counting them is quick in a short document.
    is_flat = len(body) <= _SHORT_BYTES and body.count(b"[") + body.count(b"{") <= MAX_DEPTH
    if (written := _written_length(data, 0 if is_flat else _SPARE_LEVELS)) is None:
        raise too_deep()
    # A document that JSON.stringify wrote has the same length when written again, unless a repeated member is lost.
    if written != len(body) and (size or len(body)) <= COMPARED_BYTES:
        json.loads(body, object_pairs_hook=_expect_distinct)
    return data


def too_deep() -> NotStrictJsonError:
    return NotStrictJsonError(f"it is nested more than {MAX_DEPTH} deep")


def expect_distinct_members(data: Any, body: bytes) -> None:
    """Raises NotStrictJsonError if an object of the document, which is not too deep, has a member twice."""
    if _written_length(data, 0) != len(body):
        json.loads(body, object_pairs_hook=_expect_distinct)


def begins_with(items: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether the array `items` begins with the items of `known`, compared by their JSON: 1, 1.0 and true differ,
    though Python takes them for equal, and so do objects with the same members in another order. Items that are
    the same Python object are equal without a comparison.
    """
    beginning = items[: len(known)]
    if beginning != known:
        return False
    others = [(one, other) for one, other in zip(beginning, known, strict=True) if one is not other]
    try:
        return not others or orjson.dumps([one for one, _ in others]) == orjson.dumps([other for _, other in others])
    except TypeError:  # half a surrogate pair, which `load` refuses
        return False


def is_too_deep(value: Any, text: str) -> bool:
    """Whether a value is nested more than MAX_DEPTH deep. `text` is its JSON."""
    return text.count("[") + text.count("{") > MAX_DEPTH and _written_length(value, _SPARE_LEVELS) is None


def has_more_values(value: Any, most: int) -> bool:
    """Whether a document has more than `most` values: members and items of all levels. Counting ends there."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict | list):
            most -= len(inner)
            if most < 0:
                return True
            waiting += inner.values() if isinstance(inner, dict) else inner
    return False


def object_in(text: str) -> dict[str, Any]:
    """The JSON object in the text; an empty one if the text is none, or is nested too deep for a request. So providers
    accept a call's arguments, whatever the model wrote.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) and not is_too_deep(value, text) else {}


def object_text(text: str) -> str:
    """The text if it is a JSON object, else an empty object: servers that parse arguments fail on anything else."""
    try:
        return text if isinstance(orjson.loads(text), dict) else "{}"
    except orjson.JSONDecodeError:
        return "{}"


def _written_length(data: Any, levels: int) -> int | None:
    """The length of the document when it is written again; None if, with `levels` more levels around it, it is too deep
    for the encoder.
    """
    wrapped = data
    for _ in range(levels):
        wrapped = [wrapped]
    try:
        return len(orjson.dumps(wrapped)) - 2 * levels
    except TypeError:
        return None


def _expect_distinct(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) == len(pairs):
        return
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise repeated(name)
        seen.add(name)


def repeated(name: str) -> NotStrictJsonError:
    return NotStrictJsonError(f"an object has the member {name[:64]!r} twice")


def _lone_surrogates(body: bytes) -> list[str]:
    if len(body) > _POINTED_BYTES or b"\\u" not in body:
        return []
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(body))]
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    while waiting and len(found) < _MAX_POINTERS:
        pointer, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{pointer}/{_token(name)}", item) for name, item in reversed(value.items())]
            found += [f"{pointer}/{_token(name)}" for name in value if not _is_text(name)]
        elif isinstance(value, list):
            waiting += reversed([(f"{pointer}/{i}", item) for i, item in enumerate(value)])
        elif isinstance(value, str) and not _is_text(value):
            found.append(pointer)
    return found


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _token(name: str) -> str:
    return escaped(name.encode(errors="replace").decode())


def dump(value: object) -> bytes:
    """Compact JSON in UTF-8, on one line.

    NaN and infinities become null. Half a surrogate pair stays as its `\\ud83d` escape: a reader that joins two texts
    gets the whole character back. Values that JSON lacks become strings: dates in ISO 8601, bytes in base64.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, an integer beyond 64 bits, a key or value that is no JSON, too deep
        return json.dumps(_plain(value, 0), separators=(",", ":"), allow_nan=False).encode()


def dump_to_keep(value: object) -> bytes:
    """As `dump`, for bytes that are held for long, such as a request while its answer streams: they are a copy, since
    the encoder's own bytes keep its buffer of 4 kB, however short they are.
    """
    return bytes(memoryview(dump(value)))


def on_one_line(data: bytes) -> bytes:
    """The same JSON with U+2028, U+2029 and U+0085 escaped: some readers end a line there, such as httpx's and those of
    packages that use httpx.
    """
    if data.isascii() or not (b"\xe2\x80" in data or b"\xc2\x85" in data):
        return data
    return (
        data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029").replace(b"\xc2\x85", b"\\u0085")
    )


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 1024 else None  # beyond that a reader's number is infinite
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == _ENCODER_DEPTH:
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    try:
        return json.loads(orjson.dumps(value))  # dates, UUIDs, enumerations, dataclasses
    except TypeError:
        return str(value)
