"""The frames of `application/vnd.amazon.eventstream`, decoded as they arrive.

Source: https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html#streaming-event-stream and
https://smithy.io/2.0/aws/amazon-eventstream.html. A frame is: total length u32, headers length u32, CRC-32 of these
eight bytes, headers, payload, CRC-32 of everything before it; all numbers big-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import orjson

HeaderValue: TypeAlias = bool | int | bytes | str

MAX_HEADERS_BYTES = 128 * 1024
MAX_PAYLOAD_BYTES = 24 * 1024 * 1024

_PRELUDE = struct.Struct("!III")
_CHECKSUM = struct.Struct("!I")
_read_prelude, _read_checksum = _PRELUDE.unpack_from, _CHECKSUM.unpack_from
_new_tuple = tuple.__new__  # a NamedTuple's own costs twice as much
_LENGTH = struct.Struct("!H")
_NUMBERS = {2: struct.Struct("!b"), 3: struct.Struct("!h"), 4: struct.Struct("!i"), 5: struct.Struct("!q")}
_TIMESTAMP = struct.Struct("!q")
_OVERHEAD = _PRELUDE.size + _CHECKSUM.size
_CACHED_HEADERS = 64
_LARGEST_USUAL = MAX_HEADERS_BYTES  # a frame of this size cannot exceed either limit


class EventStreamError(ValueError):
    """The bytes are not frames: a wrong length, checksum or header."""


class Frame(NamedTuple):
    """One frame. Timestamps among the headers are milliseconds of Unix time, UUIDs their 16 bytes.

    Frames of one stream with equal headers share one object for them.
    """

    headers: Mapping[str, HeaderValue]
    payload: bytes


class EventStreamDecoder:
    """One per response. It cannot be used after an error."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed = 0  # bytes of the first frame in the buffer that must arrive before it is read again
        # A stream repeats a handful of header sets, each thousands of times.
        self._header_cache: dict[bytes, Mapping[str, HeaderValue]] = {}

    @property
    def inside_frame(self) -> bool:
        """Whether bytes of an unfinished frame are waiting. A stream that ends here was cut off."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. The iterator must be run to its end before the next feed.

        Raises:
            EventStreamError: at the first broken frame; the ones before it were given.
        """
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        start, end, known = 0, len(data), self._header_cache
        while end - start >= _PRELUDE.size:
            total, headers_length, prelude_checksum = _read_prelude(data, start)
            stop = start + total
            # The frame's checksum covers its lengths, too: their own is checked if that one cannot be, or is wrong.
            if (
                total - headers_length < _OVERHEAD
                or total > _LARGEST_USUAL
                or stop > end
                or crc32(data[start : stop - 4]) != _read_checksum(data, stop - 4)[0]
            ):
                if crc32(data[start : start + 8]) != prelude_checksum:
                    raise EventStreamError("the checksum of a frame's lengths is wrong")
                _check_lengths(total, headers_length)
                if stop > end:
                    self._keep(data, start, total)
                    return
                if crc32(data[start : stop - 4]) != _read_checksum(data, stop - 4)[0]:
                    raise EventStreamError("a frame's checksum is wrong")
            payload_start = start + 12 + headers_length
            raw = data[start + 12 : payload_start]
            headers = known.get(raw) or self._headers(raw)
            yield _new_tuple(Frame, (headers, data[payload_start : stop - 4]))
            start = stop
        if start < end:
            self._keep(data, start, _PRELUDE.size)

    def _keep(self, data: bytes, start: int, needed: int) -> None:
        self._buffer += data[start:]
        self._needed = needed

    def _headers(self, raw: bytes) -> Mapping[str, HeaderValue]:
        headers = parse_headers(raw)
        if len(self._header_cache) < _CACHED_HEADERS:
            self._header_cache[raw] = headers
        return headers


def parse_headers(raw: bytes) -> Mapping[str, HeaderValue]:
    """The headers of one frame.

    Raises:
        EventStreamError: they exceed their length, or have a type that does not exist.
    """
    headers: dict[str, HeaderValue] = {}
    offset = 0
    try:
        while offset < len(raw):
            name_end = offset + 1 + raw[offset]
            name = raw[offset + 1 : name_end].decode()
            headers[name], offset = _header_value(raw, raw[name_end], name_end + 1)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise EventStreamError("a frame's headers are broken") from None
    if offset != len(raw):
        raise EventStreamError("a frame's headers run over their end")
    return headers


def _check_lengths(total: int, headers_length: int) -> None:
    payload_length = total - headers_length - _OVERHEAD
    if payload_length < 0 or headers_length > MAX_HEADERS_BYTES or payload_length > MAX_PAYLOAD_BYTES:
        raise EventStreamError(f"a frame of {total} bytes with {headers_length} bytes of headers is not possible")


def _header_value(raw: bytes, kind: int, offset: int) -> tuple[HeaderValue, int]:
    """The value of the header type `kind` at `offset`, and where the next header begins."""
    if kind in (0, 1):
        return kind == 0, offset
    if kind in _NUMBERS:
        number = _NUMBERS[kind]
        return number.unpack_from(raw, offset)[0], offset + number.size
    if kind in (6, 7):
        start = offset + _LENGTH.size
        end = start + _LENGTH.unpack_from(raw, offset)[0]
        if end > len(raw):
            raise EventStreamError("a frame's headers run over their end")
        return (raw[start:end] if kind == 6 else raw[start:end].decode()), end
    if kind == 8:
        return _TIMESTAMP.unpack_from(raw, offset)[0], offset + _TIMESTAMP.size
    if kind == 9:
        return raw[offset : offset + 16], offset + 16
    raise EventStreamError(f"a header of type {kind} does not exist")


def load_object(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload; an empty one if the payload is empty.

    Raises:
        TypeError: it is JSON, but not an object.
        ValueError: it is not JSON.
    """
    if not payload:
        return {}
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:  # half a surrogate pair, which the builder can join with its other half
        event = json.loads(payload)
    if not isinstance(event, dict):
        raise TypeError("not an object")
    return event
