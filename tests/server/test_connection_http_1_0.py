"""Connections of clients that speak HTTP/1.0: answered without chunks, and kept where they ask for it."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from gateway.server.connection import Connection
from tests.asgi_server import RawClient, serving
from tests.connection_scene import HEAD, Stream, keeping, parted


@pytest.mark.parametrize("more", ["", "Connection: keep-alive\r\n"])
async def test_a_stream_in_http_1_0_ends_with_its_connection(more: str) -> None:
    stream = Stream()
    async with serving(stream, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(f"GET /stream HTTP/1.0\r\n{more}\r\n".encode())
        begun = await client.read_until(b"first")
        stream.go_on.set()
        lines, body = parted(begun + await client.read_rest())
        assert body == b"firstlast"
        assert [line for line in lines if line.startswith(("connection", "transfer-encoding"))] == ["connection: close"]
        await client.close()


async def test_a_stream_in_http_1_0_that_is_cut_off_does_not_look_whole() -> None:
    go_on = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(HEAD))
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await go_on.wait()

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await client.read_until(b"first")
        go_on.set()
        with pytest.raises(ConnectionResetError):
            await client.read_rest()
        await client.close()


@pytest.mark.parametrize("leaves", ["before the answer", "within the answer"])
async def test_who_leaves_in_http_1_0_is_no_failure_of_the_application(leaves: str) -> None:
    ends: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if leaves == "within the answer":
            await send(dict(HEAD))
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        try:
            if leaves == "before the answer":
                await send(dict(HEAD))
            await send({"type": "http.response.body", "body": b"last", "more_body": False})
            ends.put_nowait(None)
        except Exception as error:
            ends.put_nowait(error)

    async with serving(application, Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhel")
        if leaves == "within the answer":
            await client.read_until(b"first")
        await client.close()
        async with asyncio.timeout(10):
            assert await ends.get() is None


async def test_http_1_0_keeps_a_connection_that_it_asks_to_keep() -> None:
    async with serving(Stream(), Connection) as port:
        client = await RawClient.connect(port)
        for path in ("/one", "/two"):
            client.writer.write(f"GET {path} HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n".encode())
            head = await client.read_head()
            assert (head["connection"], head["content-length"]) == ("keep-alive", "4")
            assert await client.read_until(path.encode()) == path.encode()
        client.writer.write(b"GET /three HTTP/1.0\r\n\r\n")
        lines, body = parted(await client.read_rest())
        assert ("connection: close" in lines, body) == (True, b"/three")
        await client.close()


async def test_http_1_0_knows_neither_chunks_nor_100_continue() -> None:
    bodies: list[bytes] = []
    async with serving(keeping(bodies), Connection) as port:
        client = await RawClient.connect(port)
        head = "POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n"
        client.writer.write(f"{head}Content-Length: 5\r\n\r\nhello".encode())
        assert (await client.read_head())["status"] == "204"
        client.writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".encode())
        lines, _ = parted(await client.read_rest())
        assert (lines[0], lines[-1]) == ("http/1.1 204 no content", "connection: close")
        await client.close()
    assert bodies == [b"hello"] * 2
