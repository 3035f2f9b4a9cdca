"""The two transports to an MCP server: a program, or a URL. Both limit the size of the server's messages.

Above: connection. Below: child_process.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from gateway import __version__
from gateway.http_client.clients import HttpClients, StreamTimeouts
from gateway.mcp_client.checked_transport import CheckedTransport
from gateway.mcp_client.child_process import ChildProcess, child_process

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 16 * 2**20
_HTTP_SECONDS = 30.0
_HTTP_READ_SECONDS = 300.0  # a tool may take long; the loop has its own time limit

Incoming: TypeAlias = SessionMessage | Exception


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is a program: `command` is run in `directory`, without a shell, with `environment` added to a
    scrubbed one."""

    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server at a URL, by streamable HTTP. `headers` go with every request.

    `through`: the HTTP client that checks where calls go, for a server that a caller named; None: the operator named
    it.
    """

    url: str
    headers: Mapping[str, str]
    through: HttpClients | None = None


@asynccontextmanager
async def stdio_transport(server: StdioServer, name: str) -> AsyncGenerator[TransportStreams]:
    """The program as a transport of JSON-RPC lines.

    It replaces the package's own transport, which accepts lines of any length, and leaves the program's children
    running if the program itself ends in time.
    """
    child: ChildProcess | None = None
    try:
        async with child_process(server.command, server.arguments, server.environment, server.directory) as child:
            to_session, reading = anyio.create_memory_object_stream[Incoming](0)
            writing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
            with to_session, reading, writing, from_session:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_read_lines, child, to_session, name)
                    tasks.start_soon(_write_lines, child, from_session)
                    try:
                        yield reading, writing
                    finally:
                        tasks.cancel_scope.cancel()
    finally:
        if child is not None and child.ended_by_itself:
            extra = {"server": name, "exit_code": child.exit_code, "stderr": child.last_lines}
            logger.warning("an MCP server's program ended", extra=extra)


async def _read_lines(child: ChildProcess, to_session: MemoryObjectSendStream[Incoming], name: str) -> None:
    async with to_session, aclosing(child.lines()) as lines:
        async for line in lines:
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip():
                    logger.debug("an MCP server wrote a line that is not a message", extra={"server": name})
                continue
            await to_session.send(SessionMessage(message))


async def _write_lines(child: ChildProcess, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with from_session:
        async for message in from_session:
            await child.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


@asynccontextmanager
async def http_transport(
    server: HttpServer, note_status: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncGenerator[TransportStreams]:
    client = httpx2.AsyncClient(
        transport=_BoundedTransport(await _transport_to(server)),
        headers={"user-agent": f"agui-gateway/{__version__}", **server.headers},
        timeout=httpx2.Timeout(_HTTP_SECONDS, read=_HTTP_READ_SECONDS),
        trust_env=False,  # as in http_client: no proxy of the environment
        event_hooks={"response": [note_status]},
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


async def _transport_to(server: HttpServer) -> httpx2.AsyncBaseTransport:
    if server.through is not None:
        times = StreamTimeouts(connect=_HTTP_SECONDS, first_byte=_HTTP_READ_SECONDS, idle=_HTTP_READ_SECONDS)
        return CheckedTransport(server.through, times)
    # reading the certificate authorities blocks noticeably
    secure = server.url.lower().startswith("https:")
    tls: ssl.SSLContext | bool = await asyncio.to_thread(httpx2.create_ssl_context) if secure else False
    return httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Ends responses that are too long. Event streams may be endless; the package bounds each of their events."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def __aenter__(self) -> _BoundedTransport:
        await self._transport.__aenter__()
        return self

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._transport.handle_async_request(request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedBody(response.stream)
        return response


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                # the package turns this kind into an error of the one request
                raise httpx2.StreamError(f"more than {MAX_MESSAGE_BYTES:,} bytes in one answer")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
