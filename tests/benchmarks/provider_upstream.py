"""All model providers on loopback: each request is answered on the wire that its path asks for, in its own time.

    python -m tests.benchmarks.provider_upstream [CERTIFICATE]

The model's name says what it answers: `bench-COUNT-GAP-EACH` is so many deltas, EACH of them in one write, a write
every GAP milliseconds by the clock, not by when the last one was done. Each write is a chunk of HTTP's and a record of
TLS's own. With a certificate (and its key in the same file) it speaks TLS. Prints its port.
"""

from __future__ import annotations

import asyncio
import re
import sys
from functools import cache
from pathlib import Path
from typing import cast

import uvloop

from tests.benchmarks.provider_wires import DISTINCT, Wire, wire_at, wire_of
from tests.local_certificate import tls_contexts

_MODEL = re.compile(rb"bench-(\d+)-(\d+)-(\d+)")
_END = b"0\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


@cache
def _deltas(provider: str, first: int, each: int) -> bytes:
    """The chunk with the deltas from `first` on."""
    return _chunk(b"".join(wire_of(provider).delta(number) for number in range(first, first + each)))


class _Answer:
    """One answer that is being sent."""

    def __init__(self, transport: asyncio.Transport, wire: Wire, count: int, gap: float, each: int) -> None:
        self._transport = transport
        self._wire = wire
        self._count = count
        self._gap = gap
        self._each = each
        self._sent = 0
        self._loop = asyncio.get_running_loop()
        self._next_at = self._loop.time()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {wire.content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        transport.write(head.encode() + _chunk(wire.opening))
        self._write()

    def _write(self) -> None:
        if self._transport.is_closing():
            return
        if self._sent >= self._count:
            self._transport.write(_chunk(self._wire.ending) + _END)
            return
        each = min(self._each, self._count - self._sent)
        self._transport.write(_deltas(self._wire.provider, self._sent % DISTINCT, each))
        self._sent += each
        self._next_at += self._gap
        self._loop.call_at(self._next_at, self._write)


class _Provider(asyncio.Protocol):
    """One connection, which may ask again once it was answered."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if len(body) < int(length[1] if length else 0):
            return
        found = _MODEL.search(self._got)
        assert found is not None, "the model's name says what to answer"
        count, gap, each = map(int, found.groups())
        assert self._transport is not None
        _Answer(self._transport, wire_at(head.split(b" ", 2)[1].decode()), count, gap / 1000, each)
        self._got = b""


async def _main(certificate: str | None) -> None:
    tls = tls_contexts(Path(certificate))[0] if certificate else None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Provider, "127.0.0.1", 0, backlog=2048, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1] if len(sys.argv) > 1 else None))
