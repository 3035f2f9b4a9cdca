"""Connections: how requests come in and responses leave, whatever the client does."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.protocol.requests import end_with_client
from gateway.server.connection import LARGEST_READ, MAX_HEAD_BYTES, Connection
from tests.asgi_server import DEADLINE_SECONDS, RawClient, serving
from tests.connection_scene import CHUNKED_HEAD, HEAD, Stream, answer_nothing, keeping, parted

# Where Linux's tcp_info counts the segments with data in them that came.
_DATA_SEGMENTS_IN = 152


def segments_in(client: RawClient) -> int:
    connection = client.writer.get_extra_info("socket")
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    count: int
    (count,) = struct.unpack_from("I", info, _DATA_SEGMENTS_IN)
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="segments are counted as Linux does")
async def test_a_head_and_what_follows_it_at_once_arrive_together() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(HEAD))
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await send({"type": "http.response.body", "body": b"second", "more_body": False})

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        for responses in (1, 2):
            client.send("GET", "/")
            assert (await client.read_head())["status"] == "200"
            assert [await client.read_chunk() for _ in range(3)] == [b"first", b"second", b""]
            assert segments_in(client) == 2 * responses
        await client.close()


async def test_a_head_that_nothing_follows_is_there_all_the_same() -> None:
    go_on = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(HEAD))
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"HTTP/1.1 is a protocol", "more_body": False})

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        assert (await client.read_head())["status"] == "200"
        go_on.set()
        assert [await client.read_chunk() for _ in range(2)] == [b"HTTP/1.1 is a protocol", b""]
        await client.close()


async def test_a_response_without_a_body_comes_before_its_connection_is_closed() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        client.send("HEAD", "/", headers="Connection: close\r\n")
        answer = await client.read_rest()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n")
        await client.close()


# --- other protocols

H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


@pytest.mark.parametrize("begun", [0, 2, 5])
async def test_who_asks_for_another_protocol_is_answered_in_this_one(begun: int) -> None:
    """As Java's client asks with every request. `begun`: how much of the body comes with the head."""
    bodies: list[bytes] = []
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        for _ in range(2):
            head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n{H2C}Expect: 100-continue\r\n\r\n"
            client.writer.write(head.encode() + b"hello"[:begun])
            assert (await client.read_head())["status"] == "100"
            client.writer.write(b"hello"[begun:])
            assert (await client.read_head())["status"] == "204"
        client.send("GET", "/", headers="Connection: Upgrade\r\nUpgrade: websocket\r\n")
        assert (await client.read_head())["status"] == "204"
        client.writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\n{H2C}\r\n".encode() * 3)
        assert [(await client.read_head())["status"] for _ in range(3)] == ["204"] * 3
        client.writer.write(f"{CHUNKED_HEAD[:-2]}{H2C}\r\n5\r\nhello\r\n0\r\n\r\n".encode())
        assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [b"hello"] * 2 + [b""] * 4 + [b"hello"]


@pytest.mark.parametrize("behind", ["", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_who_asks_for_another_protocol_and_for_the_end_of_the_connection_gets_both(behind: str) -> None:
    bodies: list[bytes] = []
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        head = (
            f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n{H2C.replace(': Upg', ': close, Upg', 1)}\r\n"
        )
        client.writer.write(f"{head}hello{behind}".encode())
        lines, _ = parted(await client.read_rest())
        assert (lines[0], lines[-1]) == ("http/1.1 204 no content", "connection: close")
        await client.close()
    assert bodies == [b"hello"]


async def test_a_tunnel_is_a_request_like_others() -> None:
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"CONNECT /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await client.read_head())["status"] == "204"
        await client.close()


# --- what comes behind a request that is being answered


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 no request\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n",
    b"GET / HTTP/1.1\r\nX-Long: ".ljust(MAX_HEAD_BYTES + LARGEST_READ + 1, b"x"),
]


@pytest.mark.parametrize("between", ["", "/between"])
@pytest.mark.parametrize("garbage", GARBAGE, ids=["no HTTP", "no version", "no address", "no chunk", "no end"])
async def test_what_is_wrong_with_a_later_request_is_said_behind_the_stream(garbage: bytes, between: str) -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/stream")
        await client.read_head()
        assert await client.read_chunk() == b"first"
        if between:
            client.send("GET", between)
        client.writer.write(garbage)
        await client.writer.drain()
        other = await RawClient.connect(port)  # the bytes before it were read when this one is answered
        other.send("GET", "/other")
        assert (await other.read_head())["status"] == "200"
        stream.go_on.set()
        assert [await client.read_chunk() for _ in range(2)] == [b"last", b""]
        if between:
            assert (await client.read_head())["status"] == "200"
            assert await client.read_until(b"/between") == b"/between"
        lines, body = parted(await client.read_rest())
        problem = json.loads(body)
        assert lines[0].startswith(f"http/1.1 {problem['status']} ")
        assert problem["status"] == (431 if b"X-Long" in garbage else 400)
        await client.close()
        await other.close()


async def test_a_body_that_turns_out_wrong_is_no_part_of_the_answer_that_has_begun() -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(CHUNKED_HEAD.replace("/", "/stream", 1).encode())
        await client.read_head()
        assert await client.read_chunk() == b"first"
        client.writer.write(b"no number\r\n")
        other = await RawClient.connect(port)
        other.send("GET", "/other")
        assert (await other.read_head())["status"] == "200"
        stream.go_on.set()
        assert await client.read_rest() == b"4\r\nlast\r\n0\r\n\r\n"
        await client.close()
        await other.close()


async def test_who_sends_garbage_into_a_stream_is_seen_to_leave() -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/stream")
        client.writer.write(b"\x00\r\n\r\n" * 10_000)
        await client.read_head()
        assert await client.read_chunk() == b"first"
        await client.close()
        async with asyncio.timeout(10):
            await stream.left.wait()


async def test_who_leaves_while_another_request_waits_is_seen_to_leave() -> None:
    left = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(watch(receive))
        await send(dict(HEAD))
        while not left.is_set():  # nothing is read while a request waits: only what is written finds nobody there
            await send({"type": "http.response.body", "body": b"more", "more_body": True})
            await asyncio.sleep(0)
        await watching

    async def watch(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/one")
        client.send("GET", "/two")
        await client.read_until(b"more")
        client.writer.transport.abort()
        try:
            async with asyncio.timeout(10):
                await left.wait()
        finally:
            left.set()


async def test_requests_that_come_together_are_answered_in_their_order() -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        paths = ["/stream", "/one", "/two", "/stream", "/three"]
        client.writer.write("".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths).encode())
        for path in paths:
            assert (await client.read_head())["status"] == "200"
            if path == "/stream":
                assert await client.read_chunk() == b"first"
                stream.go_on.set()
                assert [await client.read_chunk() for _ in range(2)] == [b"last", b""]
            else:
                assert await client.read_until(path.encode()) == path.encode()
        await client.close()


# --- what is sent ahead


class Counted(Connection):
    """Counts what it reads, and the most requests that ever waited."""

    unread_seconds = 0.01
    read = 0
    waiting = 0

    def data_received(self, data: bytes) -> None:
        Counted.read += len(data)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        Counted.waiting = max(Counted.waiting, len(self.pipeline))


@pytest.fixture
def counted() -> type[Counted]:
    Counted.read = Counted.waiting = 0
    return Counted


async def test_what_is_sent_ahead_of_an_answer_is_not_read(counted: type[Counted]) -> None:
    stream = Stream()
    ahead = 20_000
    async with serving(stream, counted) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/stream")
        assert (await client.read_head())["status"] == "200"
        assert await client.read_chunk() == b"first"
        for number in range(ahead):
            client.send("GET", f"/{number:05}")
        for _ in range(100):  # others are answered meanwhile, and nothing more of this client is read
            other = await RawClient.connect(port)
            other.send("GET", "/other")
            assert (await other.read_head())["status"] == "200"
            await other.close()
        assert counted.read < 2 * LARGEST_READ
        assert counted.waiting == 1
        stream.go_on.set()
        assert [await client.read_chunk() for _ in range(2)] == [b"last", b""]
        for number in range(ahead):
            await client.read_until(f"\r\n\r\n/{number:05}".encode())
        assert counted.waiting == 1
        await client.close()


async def test_of_what_follows_a_body_a_few_requests_come_to_wait(counted: type[Counted]) -> None:
    bodies: list[bytes] = []
    async with serving(keeping(bodies), counted) as port:
        client = await RawClient.connect(port)
        client.writer.write(f"{CHUNKED_HEAD}5\r\nhello\r\n0\r\n\r\n".encode() * 1000)
        for _ in range(1000):
            assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [b"hello"] * 1000
    assert counted.waiting < 40


async def test_a_body_of_blank_lines_is_parsed_in_few_pieces() -> None:
    pieces: list[int] = []

    class Pieces(Connection):
        def _feed(self, rest: memoryview) -> None:
            pieces.append(len(rest))
            super()._feed(rest)

    bodies: list[bytes] = []
    body = b"\r\n" * 500_000
    async with serving(keeping(bodies), Pieces) as port:
        client = await RawClient.connect(port)
        client.send("POST", "/", body)
        assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [body]
    assert len(pieces) < len(body) / 500


@pytest.mark.parametrize("at", range(1, 4))
async def test_heads_are_told_apart_wherever_they_are_parted(at: int) -> None:
    bodies: list[bytes] = []
    body = b"a\r\n\r\nb\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    chunked = CHUNKED_HEAD.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        whole = (head + body + chunked) * 3
        for start in range(0, len(whole), at):
            client.writer.write(whole[start : start + at])
            await client.writer.drain()
            await asyncio.sleep(0)
        for _ in range(6):
            assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [body] * 6


@pytest.mark.parametrize("leaves", ["closed", "half-closed", "reset"])
async def test_who_leaves_a_silent_stream_while_another_request_waits_is_seen_to_leave(
    leaves: str, counted: type[Counted]
) -> None:
    stream = Stream()
    async with serving(stream, counted) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        await client.read_head()
        assert await client.read_chunk() == b"first"
        if leaves == "reset":
            client.writer.transport.abort()
        elif leaves == "half-closed":
            client.writer.write_eof()
        else:
            await client.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await stream.left.wait()
        client.writer.transport.abort()


async def test_who_stays_at_a_silent_stream_gets_what_waits_behind_it(counted: type[Counted]) -> None:
    stream = Stream()
    async with serving(stream, counted) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        await client.read_head()
        assert await client.read_chunk() == b"first"
        other = await RawClient.connect(port)
        for _ in range(200):  # time for a look or two
            other.send("GET", "/other")
            await other.read_until(b"/other")
        await other.close()
        stream.go_on.set()
        assert [await client.read_chunk() for _ in range(2)] == [b"last", b""]
        await client.read_head()
        assert [await client.read_chunk() for _ in range(3)] == [b"first", b"last", b""]
        await client.close()


# --- half-closed


@pytest.mark.parametrize("path", ["/stream", "/short"])
@pytest.mark.parametrize("asked", ["once", "twice"])
async def test_who_has_no_more_to_say_may_still_listen(path: str, asked: str) -> None:
    """As `nc -N` does."""
    seen = asyncio.Event()
    stream = Stream()

    class HalfClosed(Connection):
        def eof_received(self) -> bool | None:  # type: ignore[override]
            stays = super().eof_received()
            seen.set()
            return stays

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if asked == "once" or scope["path"] != "/first":
            await seen.wait()
        stream.go_on.set()
        await stream(scope, receive, send)

    async with serving(application, HalfClosed) as port:
        client = await RawClient.connect(port)
        if asked == "twice":
            client.send("GET", "/first")
        client.send("GET", path)
        client.writer.write_eof()
        answer = await client.read_rest()
        if asked == "twice":
            _, first, answer = answer.partition(b"/first")
            assert first == b"/first"
        lines, body = parted(answer)
        assert "connection: close" in lines
        assert body == (b"5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n" if path == "/stream" else b"/short")
        await client.close()


async def test_who_stops_talking_within_a_stream_has_left() -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/stream")
        await client.read_head()
        assert await client.read_chunk() == b"first"
        client.writer.write_eof()
        async with asyncio.timeout(10):
            await stream.left.wait()
        await client.close()


@pytest.mark.parametrize("at", ["before", "after"])
async def test_an_application_may_take_who_stops_talking_as_one_who_left(at: str) -> None:
    waiting, closed = asyncio.Event(), asyncio.Event()
    received: list[Any] = []

    class HalfClosed(Connection):
        def eof_received(self) -> bool | None:  # type: ignore[override]
            stays = super().eof_received()
            closed.set()
            return stays

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if at == "after":
            await closed.wait()
        end_with_client(Request(scope))
        waiting.set()
        while not received or received[-1] != "http.disconnect":
            received.append((await receive())["type"])

    async with serving(application, HalfClosed) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        if at == "before":
            async with asyncio.timeout(10):
                await waiting.wait()
        client.writer.write_eof()
        assert await client.read_rest() == b""
        await client.close()
    assert received[-1] == "http.disconnect"


async def test_half_a_request_is_none() -> None:
    bodies: list[bytes] = []
    async with serving(keeping(bodies), Connection) as port:
        for half in (b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhel"):
            client = await RawClient.connect(port)
            client.writer.write(half)
            client.writer.write_eof()
            assert await client.read_rest() == b""
            await client.close()
    assert bodies == []
