"""How responses leave the process: the connection that uvicorn gets."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys

import pytest
from starlette.types import Receive, Scope, Send

from gateway.serving import MAX_HEAD_BYTES, Connection
from tests.asgi_server import RawClient, serving

# Where Linux's tcp_info counts the segments with data in them that came.
_DATA_SEGMENTS_IN = 152
HEAD = {"type": "http.response.start", "status": 200, "headers": []}


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


# --- heads


async def answer_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def test_a_head_that_goes_on_and_on_is_refused() -> None:
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/", headers=f"X-Long: {'x' * (MAX_HEAD_BYTES // 2)}\r\n")
        assert (await client.read_head())["status"] == "204"
        client.writer.write(b"GET / HTTP/1.1\r\nX-Long: ")
        for _ in range(4):
            client.writer.write(b"x" * (MAX_HEAD_BYTES // 4))
        refused = await client.read_rest()
        assert refused.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["code"] == "request_header_fields_too_large"
        await client.close()


@pytest.mark.parametrize(("begun", "said"), [(b"", b""), (b"GET / HTTP/1.1\r\nHost:", b"HTTP/1.1 408 Request Timeout")])
async def test_who_says_nothing_or_not_all_is_not_waited_for(
    begun: bytes, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.serving.HEAD_SECONDS", 1)
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(begun)
        refused = await client.read_rest()
        assert refused.startswith(said)
        assert bool(refused) == bool(said)
        await client.close()


async def test_the_head_of_a_later_request_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answer_nothing, Connection) as port:
        client = await RawClient.connect(port)
        client.send("GET", "/")
        assert (await client.read_head())["status"] == "204"
        monkeypatch.setattr("gateway.serving.HEAD_SECONDS", 1)
        client.writer.write(b"GET / HTTP/1.1\r\nHost:")
        assert (await client.read_rest()).startswith(b"HTTP/1.1 408 Request Timeout")
        await client.close()


async def test_a_request_that_came_in_time_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.serving.HEAD_SECONDS", 1)
    go_on = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await answer_nothing(scope, receive, send)

    async with serving(application, Connection) as port:
        client, other = await RawClient.connect(port), await RawClient.connect(port)
        client.send("GET", "/")
        assert await other.read_rest() == b""  # its time was up, and so would be the first one's
        go_on.set()
        assert (await client.read_head())["status"] == "204"
        await client.close()
        await other.close()
