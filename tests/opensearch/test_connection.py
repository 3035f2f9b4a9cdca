"""The connections to a cluster: an answer belongs to its request, and a connection is used as long as it is good."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.errors import StoreError
from gateway.opensearch.address import parse_address
from gateway.opensearch.cluster import Cluster
from tests.local_listener import listening, port_of


class Server:
    """Answers each request with its path, in two chunks. `hold` keeps the answers to `/held`."""

    def __init__(self, *, closes: bool = False) -> None:
        self.connections = 0
        self.hold = asyncio.Event()
        self._closes = closes

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            path = head.split(" ")[1]
            if path == "/held":
                await self.hold.wait()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b'9\r\n{"path":"\r\n')
            await writer.drain()
            rest = f'{path}"}}'.encode()
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest))
            if self._closes:
                writer.close()
                return


@asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[Callable[[str], asyncio.Task[str]]]:
    """Asks for a path, and gives the path in the answer."""
    async with listening(server.serve) as listener, asyncio.timeout(20):
        cluster = Cluster(parse_address(f"opensearch://127.0.0.1:{port_of(listener)}", Path()))

        async def ask(path: str) -> str:
            seconds = 0.1 if path == "/held" else 10.0
            return str((await cluster.request("GET", path, seconds=seconds)).body["path"])

        try:
            yield lambda path: asyncio.create_task(ask(path))
        finally:
            await cluster.close()


async def test_requests_that_follow_each_other_share_a_connection() -> None:
    server = Server()
    async with connected(server) as ask:
        assert [await ask(f"/{number}") for number in range(5)] == ["/0", "/1", "/2", "/3", "/4"]
    assert server.connections == 1


async def test_each_of_many_requests_at_once_gets_its_own_answer() -> None:
    async with connected(server := Server()) as ask:
        paths = [f"/{number}" for number in range(100)]
        assert await asyncio.gather(*map(ask, paths)) == paths
    assert server.connections == 32


async def test_the_answer_to_a_request_that_was_given_up_is_nobody_elses() -> None:
    server = Server()
    async with connected(server) as ask:
        with pytest.raises(StoreError, match="did not answer in time"):
            await ask("/held")
        server.hold.set()
        assert await ask("/next") == "/next"


async def test_the_answer_to_a_cancelled_request_is_nobody_elses() -> None:
    server = Server()
    async with connected(server) as ask:
        assert await ask("/first") == "/first"
        held = ask("/held")
        await asyncio.sleep(0)
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held
        server.hold.set()
        assert await ask("/next") == "/next"


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    async with connected(server := Server(closes=True)) as ask:
        assert [await ask(f"/{number}") for number in range(3)] == ["/0", "/1", "/2"]
    assert server.connections == 3
