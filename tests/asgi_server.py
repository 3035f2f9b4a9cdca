"""Any ASGI application behind a real uvicorn on a loopback port, in the test's own event loop.

    async with serving(application) as port:
        client = await RawClient.connect(port)

Nothing of it touches signals, and nothing outlives the `async with`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

DEADLINE_SECONDS = 10.0
_CUT_SECONDS = 0.1  # for the ends of requests whose connections were cut
_LOOK_SECONDS = 0.001


class QuietServer(uvicorn.Server):
    """Leaves signals alone, tells when it listens, and ends as soon as it can.

    uvicorn looks only ten times a second whether it is to end and whether all connections are closed: with a server for
    each test, that was half of the time of thousands of tests.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self, *, cut: bool = False) -> None:
        """Let `serve` end, once its connections have; `cut` is without waiting for them."""
        self.should_exit = True
        self.force_exit = cut
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # it writes the date that responses have
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in (*self.servers, *(sockets or ())):
            each.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(_CUT_SECONDS if self.force_exit else self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            for task in state.tasks if not self.force_exit else ():
                task.cancel()


@contextlib.asynccontextmanager
async def serving(application: ASGIApp, protocol: type[asyncio.Protocol] = HttpToolsProtocol) -> AsyncGenerator[int]:
    """The port; what is still connected at the end is cut."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off", http=protocol)
    server = QuietServer(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.listening.wait()
        yield listener.getsockname()[1]
    finally:
        server.end(cut=True)
        for connection in list(server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await task
        listener.close()


@dataclass
class RawClient:
    """One HTTP/1.1 connection, byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, port: int) -> RawClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, method: str, path: str, body: bytes = b"", headers: str = "") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        self.writer.write(head.encode() + body)

    async def read_until(self, end: bytes) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.readuntil(end)

    async def read_head(self) -> dict[str, str]:
        """The headers of the response, in lower case, and its status under `status`."""
        lines = (await self.read_until(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        return {"status": lines[0].split(" ")[1], **headers}

    async def read_chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = int(await self.read_until(b"\r\n"), 16)
        async with asyncio.timeout(DEADLINE_SECONDS):
            return (await self.reader.readexactly(size + 2))[:-2]

    async def read_rest(self) -> bytes:
        """Everything until the server closes the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.read(-1)

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
