"""Requests to the cluster over HTTP/1.1, in place of opensearch-py's connection, which makes them by aiohttp.

Below: httptools. Above: cluster. A request takes 0.08 ms of processor time; by aiohttp it took 0.3, and a run makes
five or more. opensearch-py's transport makes the exceptions of errors, and signs requests for AWS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import httptools
from opensearchpy import AsyncConnection
from opensearchpy.exceptions import ConnectionError as NoConnectionError
from opensearchpy.exceptions import ConnectionTimeout

# A server may close a connection that was idle for longer just when a request is sent.
_IDLE_SECONDS: Final = 15.0


class Connection(AsyncConnection):
    """The cluster's address, with at most `maxsize` connections. `http_auth` gives the headers of a signed request.
    `ca_certs` is a file with the certificates to trust; without it the system's are trusted.
    """

    def __init__(self, *, maxsize: int, ca_certs: str | None = None, http_auth: Any = None, **given: Any) -> None:
        super().__init__(**given)
        self._tls = ssl.create_default_context(cafile=ca_certs) if self.use_ssl else None
        self._sign = http_auth
        self._free = asyncio.Semaphore(maxsize)
        self._idle: list[_Wire] = []
        self._busy: set[_Wire] = set()

    async def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """As opensearch-py's connections do it; without the answer's headers, as every answer is JSON."""
        assert not params, "the URL has them"
        sent = {**self.headers, **(headers or {})}
        if self._sign is not None:
            sent |= self._sign(method=method, url=self.host + url, body=body, headers=sent)
        data = body or b""
        sent |= {"host": self.host.partition("://")[2], "content-length": str(len(data))}
        lines = [f"{method} {url} HTTP/1.1", *[f"{name}: {value}" for name, value in sent.items()], "\r\n"]
        try:
            async with asyncio.timeout(timeout):
                status, answer = await self._exchange("\r\n".join(lines).encode() + data)
        except TimeoutError as error:
            raise ConnectionTimeout("TIMEOUT", str(error), error) from error
        except (OSError, httptools.HttpParserError) as error:
            raise NoConnectionError("N/A", str(error), error) from error
        if not 200 <= status < 300 and status not in ignore:
            self._raise_error(status, answer.decode(errors="replace"))
        return status, {}, answer

    async def close(self) -> None:
        for wire in (*self._idle, *self._busy):
            wire.close()
        self._idle.clear()
        await asyncio.sleep(0)  # a closed transport ends in the next round of the event loop

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        async with self._free:
            wire = self._unused() or await self._open()
            self._busy.add(wire)
            try:
                answer = await wire.ask(request)
            except BaseException:
                wire.close()  # what it answers later would be taken for the next answer
                raise
            finally:
                self._busy.discard(wire)
            if wire.is_open:
                wire.idle_since = asyncio.get_running_loop().time()
                self._idle.append(wire)
        return answer

    def _unused(self) -> _Wire | None:
        """The connection that was used last."""
        oldest = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open and wire.idle_since > oldest:
                return wire
            wire.close()
        return None

    async def _open(self) -> _Wire:
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: _Wire(loop), self.hostname, self.port, ssl=self._tls)
        return wire


class _Wire(asyncio.Protocol):
    """A connection that answers one request after another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._pieces: list[bytes] = []
        self.idle_since = 0.0
        self.is_open = False

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """The status and the body of the answer. Raises OSError and HttpParserError."""
        assert self._transport is not None, "it was opened"
        self._answer = self._loop.create_future()
        if self.is_open:
            self._transport.write(request)
        else:
            self._fail(ConnectionResetError("the connection was closed"))
        return self._answer

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("the connection was closed"))

    # --- what the parser calls

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_open = self.is_open and self._parser.should_keep_alive()
        body, self._pieces = b"".join(self._pieces), []
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), body))
