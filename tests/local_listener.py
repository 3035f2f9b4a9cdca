"""A TCP server on a free port of the loopback, of which nothing is left afterwards."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import TypeAlias

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None, *, backlog: int = 100) -> AsyncGenerator[socket]:
    """The listening socket; `serve` is called with each connection, and cancelled at the end, which resets those that
    are still open.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    listener = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls, backlog=backlog)
    try:
        yield listener.sockets[0]
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def port_of(listener: socket) -> int:
    port: int = listener.getsockname()[1]
    return port
