"""Compressed bodies: unpacks those of requests, and packs JSON answers for those who ask.

Below: errors. Above: authentication. Starlette's GZipMiddleware unpacks nothing, packs whatever is large in the event
loop, and answers with secrets too, which the length of a packed body can reveal (https://www.breachattack.com); and it
costs each chunk of a stream a coroutine.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from gateway.errors import InvalidRequestError, UnsupportedMediaTypeError

NOT_PACKED: Final = "no-transform"
"""The word of an answer's Cache-Control that keeps its body as it is: for answers with a secret."""

_GZIP: Final = 31  # zlib's `wbits` for gzip's format
_FORMATS: Final = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": 15}
_PIECE_BYTES: Final = 262_144  # unpacked at once, in 1 ms
_MOST_MEMBERS: Final = 1_000  # of gzip: each costs some microseconds, however empty it is
_LEAST_PACKED_BYTES: Final = 1_000
_PACKED_AT_ONCE_BYTES: Final = 262_144  # in some 5 ms
_LEVEL: Final = 4
_JSON: Final = re.compile(rb"application/([a-z0-9.-]+\+)?json *(;|\Z)")
_VARY: Final = (b"vary", b"Accept-Encoding")


def encoding_of(headers: Mapping[str, str]) -> str | None:
    """The encoding of a request's body; None: not packed. Raises UnsupportedMediaTypeError for an unknown one."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in _FORMATS:
        raise UnsupportedMediaTypeError(
            f"bodies with 'Content-Encoding: {encoding[:64]}' are not read; send gzip or deflate, once, or the body as"
            " it is"
        )
    return encoding


def as_unpacked(scope: Scope) -> Scope:
    """The scope of the request as the application sees it: its body is not packed, and of unknown length."""
    left_out = (b"content-encoding", b"content-length", b"transfer-encoding")
    headers = [field for field in scope["headers"] if field[0] not in left_out]
    return {**scope, "headers": [*headers, (b"transfer-encoding", b"chunked")]}


def unpacked(receive: Receive, encoding: str, most: int, too_large: Callable[[int], Exception]) -> Receive:
    """A `receive` that gives the body unpacked, in pieces.

    It raises `too_large(most)` once the body is larger than that, and InvalidRequestError (400) if it is not in the
    encoding.
    """
    pieces = _Unpacked(_FORMATS[encoding], encoding)
    ready: Iterator[bytes] = iter(())
    size, more_body = 0, True

    async def receive_unpacked() -> Message:
        nonlocal ready, size, more_body
        if not more_body and pieces.is_given:
            return await receive()
        while (piece := next(ready, None)) is None:
            if not more_body:
                pieces.expect_end()
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await receive()
            if message["type"] != "http.request":
                return message
            more_body = message.get("more_body", False)
            ready = pieces.of(message.get("body", b""))
        size += len(piece)
        if size > most:
            raise too_large(most)
        await asyncio.sleep(0)
        return {"type": "http.request", "body": piece, "more_body": True}

    return receive_unpacked


class _Unpacked:
    """Unpacks a body. `is_given`: the whole body was passed on."""

    def __init__(self, wbits: int, encoding: str) -> None:
        self._wbits = wbits
        self._encoding = encoding
        self._member = zlib.decompressobj(wbits)
        self._members = 1
        self.is_given = False

    def of(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            if self._member.eof:
                self._next_member()
            try:
                piece = self._member.decompress(packed, _PIECE_BYTES)
            except zlib.error:
                raise self._wrong("cannot be unpacked") from None
            packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece
        # the rest of the bytes that zlib has read
        while not self._member.eof and (piece := self._member.decompress(b"", _PIECE_BYTES)):
            yield piece

    def expect_end(self) -> None:
        self.is_given = True
        if not self._member.eof:
            raise self._wrong("ends too early")

    def _next_member(self) -> None:
        self._members += 1
        if self._wbits != _GZIP or self._members > _MOST_MEMBERS:
            raise self._wrong("has more behind its end" if self._wbits != _GZIP else "has too many members")
        self._member = zlib.decompressobj(self._wbits)

    def _wrong(self, what: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"the body {what}: it is not what 'Content-Encoding: {self._encoding}' says",
            code="invalid_encoding",
            status=400,
        )


def takes_gzip(accepted: str) -> bool:
    """Whether a client with this Accept-Encoding takes gzip (https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3)."""
    weights = {}
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        weights[name.strip()] = weight.replace(" ", "")
    asked = weights.get("gzip", weights.get("x-gzip", weights.get("*")))
    return asked is not None and asked.rstrip("0.") not in ("q=", "q")


def may_be_packed(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether an answer with these headers is sent packed to those who ask: JSON of some length, without secrets."""
    fields = dict(headers)
    return (
        _JSON.match(fields.get(b"content-type", b"")) is not None
        and int(fields.get(b"content-length", b"0")) >= _LEAST_PACKED_BYTES
        and NOT_PACKED.encode() not in fields.get(b"cache-control", b"")
        and b"content-encoding" not in fields
        and b"etag" not in fields  # it stands for these very bytes
    )


def with_vary(message: Message) -> Message:
    """The start of an answer, with a Vary header: whether the body is packed depends on the client."""
    return {**message, "headers": [*message["headers"], _VARY]}


async def send_packed(start: Message, message: Message, send: Send) -> None:
    """Send an answer packed. `message` has its body, or the beginning of one, which is sent as it is."""
    if message.get("more_body"):
        await send(start)
        await send(message)
        return
    body = message.get("body", b"")
    if len(body) <= _PACKED_AT_ONCE_BYTES:
        packed = _packed(body)
    else:
        packed = await asyncio.to_thread(_packed, body)
    headers = [field for field in start["headers"] if field[0] != b"content-length"]
    headers += [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(packed))]
    await send({**start, "headers": headers})
    await send({**message, "body": packed})


def _packed(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL, _GZIP)
