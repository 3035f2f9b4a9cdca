"""Connections: how long a head and its trailers may take, and how large they may be."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.types import Receive, Scope, Send

from gateway.server.connection import LARGEST_READ, MAX_HEAD_BYTES, Connection
from tests.asgi_server import RawClient, serving
from tests.connection_scene import CHUNKED_HEAD, Stream, answer_nothing, keeping, parted


class Impatient(Connection):
    """Waits no longer than a tenth of a second for a head."""

    head_seconds = 0.1


# The read in which they begin may bring the end of a body.
MOST_TRAILERS = LARGEST_READ + MAX_HEAD_BYTES


async def test_a_head_that_goes_on_and_on_is_refused() -> None:
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/", headers=f"X-Long: {'x' * (MAX_HEAD_BYTES // 2)}\r\n")
        assert (await client.read_head())["status"] == "204"
        # no byte more than the first that is too much: one that nobody reads would reset the connection
        head = b"GET / HTTP/1.1\r\nX-Long: ".ljust(MAX_HEAD_BYTES + 1, b"x")
        for begin in range(0, len(head), 20_000):
            client.writer.write(head[begin : begin + 20_000])
        refused = await client.read_rest()
        assert refused.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        lines, body = parted(refused)
        assert json.loads(body)["code"] == "request_header_fields_too_large"
        assert sum(line.startswith("x-request-id: ") for line in lines) == 1, "as every answer has one"
        await client.close()


@pytest.mark.parametrize(("begun", "said"), [(b"", b""), (b"GET / HTTP/1.1\r\nHost:", b"HTTP/1.1 408 Request Timeout")])
async def test_who_says_nothing_or_not_all_is_not_waited_for(begun: bytes, said: bytes) -> None:
    async with serving(answer_nothing, Impatient) as port:
        client = await RawClient.connect(port)
        client.writer.write(begun)
        refused = await client.read_rest()
        assert refused.startswith(said)
        assert bool(refused) == bool(said)
        await client.close()


async def test_the_head_of_a_later_request_is_not_waited_for_either() -> None:
    async with serving(answer_nothing, Impatient) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        assert (await client.read_head())["status"] == "204"
        client.writer.write(b"GET / HTTP/1.1\r\nHost:")
        assert (await client.read_rest()).startswith(b"HTTP/1.1 408 Request Timeout")
        await client.close()


async def test_what_is_no_request_keeps_no_connection() -> None:
    async with serving(answer_nothing, Impatient) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        assert (await client.read_head())["status"] == "204"
        client.writer.write(b"\r\n")
        assert await client.read_rest() == b""
        await client.close()


@pytest.mark.parametrize("begun", ["", "0\r\n"])
async def test_a_chunk_that_comes_late_is_no_late_head(begun: str) -> None:
    bodies: list[bytes] = []

    async with serving(keeping(bodies), Impatient) as port:
        client = await RawClient.connect(port)
        client.writer.write(f"{CHUNKED_HEAD}5\r\nhello\r\n{begun}".encode())
        other = await RawClient.connect(port)
        assert await other.read_rest() == b""  # a head's time was up
        client.writer.write("0\r\n\r\n".removeprefix(begun).encode())
        assert (await client.read_head())["status"] == "204"
        await client.close()
        await other.close()
    assert bodies == [b"hello"]


async def test_a_late_head_is_not_answered_in_the_middle_of_a_response() -> None:
    stream = Stream()
    async with serving(stream, Impatient) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/stream")
        await client.read_head()
        assert await client.read_chunk() == b"first"
        client.writer.write(b"GET / HTTP/1.1\r\nHost:")
        other = await RawClient.connect(port)
        assert await other.read_rest() == b""  # a head's time was up, and this one's sooner or later
        stream.go_on.set()
        assert [await client.read_chunk() for _ in range(2)] == [b"last", b""]
        refused = await client.read_rest()
        assert refused.startswith(b"HTTP/1.1 408 Request Timeout")
        await client.close()
        await other.close()


async def test_trailers_that_go_on_and_on_are_refused() -> None:
    begun = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["body"] == b"hello"
        begun.set()
        assert (await receive())["type"] == "http.disconnect"

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        body = b"5\r\nhello\r\n0\r\nX-Long: "
        client.writer.write(CHUNKED_HEAD.encode() + body)
        async with asyncio.timeout(10):
            await begun.wait()
        client.writer.write(b"x" * (MOST_TRAILERS + 1 - len(body)))  # what is not read when it closes resets it
        assert (await client.read_rest()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        await client.close()


async def test_trailers_of_what_was_answered_already_have_a_limit_too() -> None:
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        body = b"0\r\nX-Long: "
        client.writer.write(CHUNKED_HEAD.encode() + body)
        assert (await client.read_head())["status"] == "204"
        client.writer.write(b"x" * (MOST_TRAILERS + 1 - len(body)))
        assert await client.read_rest() == b""
        await client.close()


async def test_a_large_body_and_a_trailer_are_no_large_trailers() -> None:
    bodies: list[bytes] = []
    body = b"x" * 2 * MAX_HEAD_BYTES
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"%b%x\r\n%b\r\n0\r\nX-Hash: " % (CHUNKED_HEAD.encode(), len(body), body))
        await client.writer.drain()
        client.writer.write(b"1\r\n\r\n")
        assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [body]


async def test_a_head_behind_a_large_body_is_no_large_head() -> None:
    bodies: list[bytes] = []
    body = b"x" * 2 * MAX_HEAD_BYTES
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
        client.writer.write(body + b"GET / HTTP/1.1\r\nHost:")
        assert (await client.read_head())["status"] == "204"
        client.writer.write(b" localhost\r\n\r\n")
        assert (await client.read_head())["status"] == "204"
        await client.close()
    assert bodies == [body, b""]


async def test_a_request_that_came_in_time_may_take_its_time() -> None:
    go_on = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await answer_nothing(scope, receive, send)

    async with serving(application, Impatient) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        other = await RawClient.connect(port)
        assert await other.read_rest() == b""  # its time was up, and so would be the first one's
        go_on.set()
        assert (await client.read_head())["status"] == "204"
        await client.close()
        await other.close()
