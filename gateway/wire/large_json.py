"""Reads a large document of strict JSON in steps, so that other tasks can run in between: while the parser works, no
other Python code runs, and an object of 600,000 members takes it 300 ms.

Pure. Below: strict_json. The brackets and commas outside of texts show where the document can be cut. The text between
two cuts is parsed by itself, and the parts are put together to the value of the whole document.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import orjson

from gateway.wire import strict_json
from gateway.wire.strict_json import COMPARED_BYTES, MAX_DEPTH, NotStrictJsonError

MAX_VALUES: Final = 500_000
"""How many values a document may have: members and items of all levels. They take up to 100 MB."""

_WINDOW_BYTES: Final = 16_384  # searched in a step, in up to 5 ms
_PIECE_BYTES: Final = 65_536  # parsed in a step, in up to 2 ms
_FEW_VALUES: Final = 20_000  # so many are parsed at once, in up to 20 ms
_TOKEN: Final = re.compile(rb'"[^"]*"?|[\[\]{},]')
_QUOTE, _COMMA, _BRACKET, _END_BRACKET = b'",[]'
_OPENING: Final = frozenset(b"[{")

Steps: TypeAlias = Generator[None, None, Any]
"""Each step takes some milliseconds. It returns the document, and raises NotStrictJsonError."""


class TooManyValuesError(ValueError):
    """The document has more than MAX_VALUES."""


@dataclass(slots=True)
class _Container:
    """An array or an object that is too large to be parsed at once: the places of its brackets and of commas between
    its items, and the containers in it that are too large as well.
    """

    start: int
    end: int
    is_array: bool
    cuts: list[int]
    inner: list[_Container]


@dataclass(slots=True)
class _Open:
    """An array or an object without an end so far. `last` is the beginning of the piece that is not cut off yet."""

    start: int
    is_array: bool
    last: int
    cuts: list[int] | None = None
    inner: list[_Container] | None = None


def load_in_steps(body: bytes, size: int | None = None) -> Steps:
    """As `strict_json.load`, in steps.

    Raises:
        NotStrictJsonError: the document is refused.
        TooManyValuesError: it has too many values, and was not parsed.
    """
    most = 1
    for sign in (b",", b"[", b"{"):
        most += body.count(sign)
        yield
    if most <= _FEW_VALUES:
        return strict_json.load(body, size)
    cutter = _Cutter()
    for window in _windows(body):
        cutter.follow(*window)
        yield
    cutter.finish()
    if cutter.root is None:  # a single text
        return strict_json.load(body, size)
    return (yield from _Joiner(body, (size or len(body)) <= COMPARED_BYTES).document(cutter.root))


def _windows(body: bytes) -> Iterator[tuple[int, bytes]]:
    """The body in pieces, each with its place, in which dots stand for escaped `"` and `\\`."""
    place, open_escape = 0, b""
    while place < len(body):
        window = open_escape + body[place : place + _WINDOW_BYTES]
        start, place = place - len(open_escape), place + _WINDOW_BYTES
        if b"\\" in window:
            window = window.replace(b"\\\\", b"..")
            open_escape = b"\\" if window.endswith(b"\\") else b""
            window = window.removesuffix(b"\\").replace(b'\\"', b"..")
        else:
            open_escape = b""
        yield start, window


class _Cutter:
    """Finds where a document can be cut, and counts its values."""

    def __init__(self) -> None:
        self.root: _Container | None = None
        self._open: list[_Open] = []
        self._in_text = False
        self._values = 1

    def follow(self, start: int, window: bytes) -> None:
        """Find the cuts in `window`, the bytes from `start` on."""
        place = 0
        if self._in_text:
            place = window.find(b'"') + 1
            self._in_text = not place
        if self._in_text:
            return
        still_open = self._open
        for token in _TOKEN.finditer(window, place):
            at = token.start()
            sign = window[at]
            if sign == _QUOTE:
                self._in_text = token.end() - at == 1 or window[token.end() - 1] != _QUOTE
            elif sign == _COMMA:
                self._values += 1
                if still_open and start + at - still_open[-1].last > _PIECE_BYTES:
                    self._cut(still_open[-1], start + at)
            elif sign in _OPENING:
                self._values += 1
                still_open.append(_Open(start + at, sign == _BRACKET, start + at))
                if len(still_open) > MAX_DEPTH:
                    raise strict_json.too_deep()
            else:
                self._end(start + at, sign == _END_BRACKET)
        if self._values > MAX_VALUES:
            raise TooManyValuesError

    def finish(self) -> None:
        """To be called after the last window. Raises NotStrictJsonError: the document has not ended."""
        if self._open or self._in_text:
            raise NotStrictJsonError("unexpected end of data")

    def _cut(self, container: _Open, place: int) -> None:
        container.cuts = [*(container.cuts or ()), place]
        container.last = place

    def _end(self, place: int, is_array: bool) -> None:
        if not self._open or self._open[-1].is_array != is_array:
            raise NotStrictJsonError(f"unexpected end of an {'array' if is_array else 'object'} (byte {place + 1})")
        ended = self._open.pop()
        if place - ended.start <= _PIECE_BYTES:
            return
        container = _Container(ended.start, place, is_array, ended.cuts or [], ended.inner or [])
        if self._open:
            around = self._open[-1]
            around.inner = [*(around.inner or ()), container]
        elif self.root is None:
            self.root = container


class _Joiner:
    """Parses a document in the pieces that it was cut into."""

    def __init__(self, body: bytes, compares: bool) -> None:
        """`compares`: whether to look for members that an object has twice."""
        self._body = body
        self._compares = compares
        # a text that the document cannot contain marks the place of a container
        self._mark = os.urandom(16).hex()
        self._written_mark = b'"%b"' % self._mark.encode()

    def document(self, root: _Container) -> Steps:
        around = self._without(root, -1, len(self._body))
        document = yield from self._value(root)
        if self._parsed(around, 0) != self._mark:
            raise NotStrictJsonError("unexpected data around the document")
        return document

    def _value(self, container: _Container) -> Steps:
        """The array, or the object."""
        items: list[Any] = []
        members: dict[str, Any] = {}
        places = [container.start, *container.cuts, container.end]
        waiting = container.inner[::-1]
        for before, after in pairwise(places):
            inner = waiting.pop() if waiting and waiting[-1].start < after else None
            written = self._body[before + 1 : after] if inner is None else self._without(inner, before, after)
            value = None if inner is None else (yield from self._value(inner))
            part = self._parsed((b"[%b]" if container.is_array else b"{%b}") % written, before)
            if not part and container.cuts:
                raise self._unexpected("a comma", after)
            if inner is not None:
                self._put(part, value, inner)
            if container.is_array:
                items += part
            else:
                self._expect_new(part, members)
                members |= part
            yield
        return items if container.is_array else members

    def _without(self, inner: _Container, before: int, after: int) -> bytes:
        """The text between two places, with the mark instead of the container."""
        body = self._body
        return body[before + 1 : inner.start] + self._written_mark + body[inner.end + 1 : after]

    def _put(self, part: Any, value: Any, inner: _Container) -> None:
        """Put the container's value in place of its mark, which is the last item, since the comma after it was cut."""
        if isinstance(part, list):
            name: Any = len(part) - 1 if part[-1] == self._mark else None
        else:
            name = next((name for name, each in part.items() if each == self._mark), None)
        if name is None:
            raise self._unexpected("a value", inner.start)
        part[name] = value

    def _expect_new(self, part: dict[str, Any], members: dict[str, Any]) -> None:
        if self._compares and not part.keys().isdisjoint(members):
            raise strict_json.repeated(next(name for name in part if name in members))

    def _parsed(self, written: bytes, place: int) -> Any:
        try:
            data = orjson.loads(written)
        except orjson.JSONDecodeError as error:
            raise self._unexpected(error.msg, place + error.pos) from None
        if self._compares:
            strict_json.expect_distinct_members(data, written)
        return data

    def _unexpected(self, what: str, place: int) -> NotStrictJsonError:
        line = self._body.count(b"\n", 0, place) + 1
        return NotStrictJsonError(f"{what} (line {line}, byte {place + 1})")
