"""The HTTP clients, one per endpoint: transport and timeouts. Callers sign their requests themselves.

Above: models and tools. Below: fetcher, transport_errors, deadline, errors, clock.

httpx makes the calls and aiohttp moves the bytes (the httpx-aiohttp package): httpx's own pool costs three to four
times the CPU per read, and searches all of its connections for each new one. Bodies are read from aiohttp directly,
since each layer of httpx's response iterators would cost another task step per read. Requests go to httpx's transport
and not to its AsyncClient, whose redirects, cookies, authentication and timing are unused here and took 0.2 ms of each
call. Headers are passed to and from aiohttp unchanged, and a URL is parsed once; that saved another eighth of a call.

Decided here, for all callers:
- Any number of connections: the gateway limits runs. Idle ones are kept for 30 seconds.
- No proxy or `.netrc` of the environment is used, and no cookie is kept; proxies from the environment (HTTPS_PROXY,
  NO_PROXY) are used only with `environment_proxies`. SSL_CERT_FILE names private authorities.
- Answers are requested uncompressed, and compressed ones are refused: inflating costs latency and allows decompression
  bombs.
- asyncio's own TLS keeps a 256 KB buffer per connection (uvloop's does not). It stays: shrinking it would change a
  class of the standard library for the whole process.
"""

from __future__ import annotations

import asyncio
import io
import math
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import yarl
from httpx_aiohttp import AiohttpTransport

from gateway.agent import ModelTimeouts
from gateway.clock import Clock, Deadline, DeadlineError, Timer
from gateway.errors import ModelError, ModelErrorKind
from gateway.http_client.endpoint_policy import CheckedResolver, EndpointAddressError, EndpointPolicy
from gateway.http_client.fetch_policy import DEFAULT_FETCH_PORTS
from gateway.http_client.fetcher import Fetcher, Resolver, Route
from gateway.http_client.transport_errors import TRANSPORT_ERRORS, model_error
from gateway.traces import Span

KEEPALIVE_SECONDS = 30.0
LARGEST_HEADER = 32_768

# The request extension with the transport's arguments: clock, StreamTimeouts, when it began, the call.
_CALL = "gateway.call"
_OWN_HEADERS = {"accept-encoding": "identity", "user-agent": "agui-gateway"}
_NO_AUTOMATIC_HEADERS = frozenset({"Accept", "Accept-Encoding", "Content-Type", "User-Agent"})
_GIVEN_HEADERS = frozenset({"accept", "content-type"})  # with our own values, aiohttp adds neither
# Headers and bodies bypass httpx, which would encode them and look for headers that aiohttp adds itself: Host, lengths.
_AT_HAND = httpx.ByteStream(b"")
_INLINE_BODY = 2**20  # aiohttp writes larger bodies in pieces if they are files


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A complete request, as a request writer builds it and a signer signs it. The URL is sent exactly as it is."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes = b""

    def part_of(self, trace: Span | None) -> HttpCall:
        """The call with a span's trace headers, so that the server's spans belong to it; on signed calls too."""
        return self if trace is None else replace(self, headers={**self.headers, **trace.headers})


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Seconds. `first_byte`: from the call to the response's headers, connecting included; `idle`: between two reads.

    `settle`: for the rest of a response that is not needed any more.
    """

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 120.0
    total: float | None = None
    settle: float = 0.05

    @classmethod
    def of_model(cls, settings: ModelTimeouts) -> StreamTimeouts:
        """The operator's timeouts for a model."""
        return cls(settings.connect_seconds, settings.first_byte_seconds, settings.idle_seconds, settings.total_seconds)


class HttpStream:
    """A response whose body is still coming. Names of `headers` are not case-sensitive."""

    def __init__(self, url: str, status: int, headers: Mapping[str, str], body: _Body) -> None:
        self._url = url
        self.status = status
        self.headers = headers
        self.receive = body.receive  # not wrapped: another coroutine would cost every read a step
        self._body = body

    @property
    def address(self) -> str:
        """The requested address for the log, without the user and the query, which may be secret."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives, one item per network read, as `receive` gives it."""
        while data := await self.receive():
            yield data

    async def read(self, limit: int = 1_000_000) -> bytes:
        """The rest of the body, at most `limit` bytes: for error bodies."""
        pieces: list[bytes] = []
        size = 0
        while size < limit and (data := await self.receive()):
            pieces.append(data)
            size += len(data)
        return b"".join(pieces)[:limit]

    def pause(self) -> bool:
        """Leave incoming bytes in the system's buffers until `resume`, so that they are read together; `receive` still
        waits for them. False: the body has ended, or its bytes must not be left there.
        """
        return self._body.pause()

    def resume(self) -> None:
        """Continue reading. Does nothing if the body has ended or the stream was closed."""
        self._body.resume()

    async def settle(self) -> None:
        """The caller needs no more of the response. If its end is there or comes at once, the connection is kept for
        the next call; without this call, leaving the context closes it. Never raises because of the server.
        """
        await self._body.settle()


class _Body(httpx.AsyncByteStream):
    """A response's body. Each read gives all bytes that aiohttp has by then, under the stream's time limits."""

    def __init__(self, response: aiohttp.ClientResponse, clock: Clock, timeouts: StreamTimeouts, began: float) -> None:
        self._response = response
        self._content = response.content
        # aiohttp's own; a response without a body has none
        self._pieces: deque[bytes] | None = getattr(self._content, "_buffer", None)
        self._clock = clock
        self._idle = timeouts.idle
        self._settle_seconds = timeouts.settle
        self._ends_at = math.inf if timeouts.total is None else began + timeouts.total
        self._waits_since: float | None = None
        self._timer: Timer | None = None
        self._paused: asyncio.Transport | None = None
        # uvloop's TLS discards bytes that it has not delivered if a connection ends without TLS's close_notify, as many
        # servers end theirs: a body that probably ends so is read as it arrives.
        said = response.headers.get("connection", "")
        self._ends_connection = "close" in said.lower() or response.version != aiohttp.HttpVersion11

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def content_coding(self) -> str:
        return self._response.headers.get("content-encoding", "").strip().lower()

    async def receive(self) -> bytes:
        """The bytes of the next network read: all that are there by then. Empty at the body's end."""
        self._waits_since = self._clock.monotonic()
        if self._timer is None:
            self._watch()
        content, pieces = self._content, self._pieces
        try:
            if pieces is None:
                return await content.readany()
            # As aiohttp's readany, but readany checks limits and parser for each chunk of HTTP: a seventh of the cost
            # of bytes that arrived during a pause.
            while not pieces and not content.is_eof() and content.exception() is None:
                await content._wait("receive")
            if len(pieces) > 1:
                whole = b"".join(pieces)
                pieces.clear()
                pieces.append(whole)
            return content.read_nowait()
        except TRANSPORT_ERRORS as error:
            raise model_error(error) from error
        finally:
            self._waits_since = None

    def pause(self) -> bool:
        connection = self._response.connection
        transport = None if connection is None else connection.transport
        if transport is None or transport.is_closing() or self._ends_connection:
            return False
        # All of aiohttp's bytes are read by now. Its own pause depends on how full its buffers are, and ends with each
        # read.
        transport.pause_reading()
        self._paused = transport
        return True

    def resume(self) -> None:
        transport, self._paused = self._paused, None
        if transport is not None and not transport.is_closing():
            transport.resume_reading()

    def _watch(self) -> None:
        """Checks whether the reader's time is up. One timer serves many reads: a timer per read would cost as much as
        the read.
        """
        self._timer = None
        if self._waits_since is None:
            return  # the caller is at work; its next read starts the timer again
        now = self._clock.monotonic()
        limit = min(self._waits_since + self._idle, self._ends_at)
        if now < limit:
            self._timer = self._clock.call_later(limit - now, self._watch)
            return
        what = "answer took longer than it may" if now >= self._ends_at else "answer stopped in the middle"
        # An exception on aiohttp's stream wakes its reader, and stays for later reads.
        self._content.set_exception(ModelError(ModelErrorKind.TIMEOUT, f"the model provider's {what}"))

    async def settle(self) -> None:
        if self._content.at_eof():  # as nearly always: without a timer
            return
        self.resume()
        try:
            async with asyncio.timeout(self._settle_seconds):
                while await self._content.readany():
                    pass
        except (ModelError, *TRANSPORT_ERRORS):
            return

    async def aclose(self) -> None:
        """Close the socket at once. After the body's end the connection is back in aiohttp's pool, and nothing is
        done.
        """
        if self._timer is not None:
            self._timer.cancel()
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # close() would wait for unsent bytes, and under TLS for the peer's close_notify
            connection.transport.abort()
        self._response.close()


class _Transport(AiohttpTransport):
    """httpx-aiohttp's transport with three corrections.

    It passes URLs as text, in which aiohttp decodes `%3A` (which breaks a signed URL); it reports a connection that the
    server dropped as a connect timeout, where here aiohttp's own exceptions are raised; and it cuts bodies into pieces
    of 16 KB.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        clock, timeouts, began, call, url = request.extensions[_CALL]
        response = await self.get_client().request(
            request.method,
            url,
            headers={**_OWN_HEADERS, **call.headers},
            skip_auto_headers=None if call.headers.keys() >= _GIVEN_HEADERS else _NO_AUTOMATIC_HEADERS,
            data=(io.BytesIO(call.content) if len(call.content) > _INLINE_BODY else call.content) or None,
            allow_redirects=False,
            auto_decompress=False,
            timeout=_client_timeout(timeouts.connect),
            proxy=str(self.proxy.url) if self.proxy else None,
            proxy_auth=aiohttp.BasicAuth(*self.proxy.auth) if self.proxy and self.proxy.auth else None,
        )
        return httpx.Response(response.status, stream=_Body(response, clock, timeouts, began))


@lru_cache(maxsize=64)
def _client_timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    # no total: aiohttp's default would end every stream after 300 seconds
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)


class _Endpoint(NamedTuple):
    """A call's address in the types of both packages, and the key of its client."""

    url: httpx.URL
    encoded: yarl.URL
    origin: tuple[str, str, int | None]


# Parsing takes 0.1 ms each time, and a model has one URL.
@lru_cache(maxsize=256)
def _endpoint(text: str) -> _Endpoint:
    url = httpx.URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise httpx.InvalidURL(f"not an http or https URL with a host: {url.scheme!r}")
    return _Endpoint(url, yarl.URL(str(url), encoded=True), (url.scheme, url.host, url.port))


class HttpClients:
    """All clients of the process, opened at first use. The `fetcher` fetches URLs that callers and models name."""

    def __init__(
        self,
        clock: Clock,
        *,
        allowed_private_hosts: frozenset[str] = frozenset(),
        fetch_ports: frozenset[int] = DEFAULT_FETCH_PORTS,
        environment_proxies: bool = False,
        tls: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
        route: Route | None = None,
        endpoints: EndpointPolicy | None = None,
    ) -> None:
        """`endpoints`: which ones calls may reach, where callers named them; None: the operator named them all."""
        self._clock = clock
        self.endpoints = endpoints
        self._resolver = None if endpoints is None else CheckedResolver(endpoints, resolver, route)
        self._environment_proxies = environment_proxies
        self._tls = tls
        self._clients: dict[tuple[str, str, int | None], _Transport] = {}
        self._opening = asyncio.Lock()
        self.fetcher = Fetcher(
            clock,
            self._tls_context,
            allowed_private_hosts=allowed_private_hosts,
            ports=fetch_ports,
            resolver=resolver,
            route=route,
        )

    @asynccontextmanager
    async def stream(self, call: HttpCall, timeouts: StreamTimeouts = StreamTimeouts()) -> AsyncGenerator[HttpStream]:
        """Send the call; gives the response once its headers are there. Leaving the context closes the socket at once.

        Raises:
            ModelError: NETWORK or TIMEOUT, also from the stream's methods; PROTOCOL if the answer is not HTTP or is
            compressed; INVALID if the URL is not one.
        """
        url, response = call.url, await self._send(call, timeouts)
        del call  # its content may be large, and the answer may take hours
        body = response.stream
        assert isinstance(body, _Body), "what the transport gave it"
        try:
            if (coding := body.content_coding) not in ("", "identity"):
                raise ModelError(
                    ModelErrorKind.PROTOCOL,
                    "the model provider sent its answer compressed, though the request did not allow that",
                    provider_message=f"content-encoding: {coding[:100]}",
                    retryable=False,
                )
            yield HttpStream(url, response.status_code, body.headers, body)
        finally:
            await body.aclose()

    async def _send(self, call: HttpCall, timeouts: StreamTimeouts) -> httpx.Response:
        seconds = timeouts.first_byte
        deadline = Deadline(self._clock, seconds if timeouts.total is None else min(seconds, timeouts.total))
        try:
            with deadline:
                endpoint = _endpoint(call.url)
                if self.endpoints is not None:
                    _check_endpoint(endpoint.encoded, self.endpoints)
                client = self._clients.get(self._key(endpoint)) or await self._client(endpoint)
                return await client.handle_async_request(
                    httpx.Request(
                        call.method,
                        endpoint.url,
                        stream=_AT_HAND,
                        extensions={_CALL: (self._clock, timeouts, self._clock.monotonic(), call, endpoint.encoded)},
                    )
                )
        except DeadlineError as error:
            raise ModelError(ModelErrorKind.TIMEOUT, "the model provider did not begin to answer in time") from error
        except TRANSPORT_ERRORS as error:
            if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, EndpointAddressError):
                raise _refused_endpoint(str(error.os_error.strerror)) from error
            raise model_error(error) from error
        finally:
            deadline.close()

    async def _client(self, endpoint: _Endpoint) -> _Transport:
        tls: ssl.SSLContext | bool = await self._tls_context() if endpoint.url.scheme == "https" else False
        # another task may have opened it in the meantime
        known = self._clients.get(self._key(endpoint))
        return known or self._clients.setdefault(self._key(endpoint), self._open_client(endpoint.url, tls))

    def _key(self, endpoint: _Endpoint) -> tuple[str, str, int | None]:
        # Callers may name any number of endpoints: these share a client, and go when their connections do. Only new
        # connections are checked: once private addresses are closed, those that there are must not be used.
        if self.endpoints is None:
            return endpoint.origin
        return endpoint.origin[0], "private" if self.endpoints.private_addresses else "", None

    def _open_client(self, url: httpx.URL, tls: ssl.SSLContext | bool) -> _Transport:
        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=KEEPALIVE_SECONDS,
            ssl=tls or True,
            resolver=self._resolver,
            use_dns_cache=self._resolver is None,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )
        proxy = environment_proxy(url) if self._environment_proxies and self.endpoints is None else None
        return _Transport(verify=tls, proxy=httpx.Proxy(proxy) if proxy else None, client=session)

    async def _tls_context(self) -> ssl.SSLContext:
        """The one context of the process. Reading the certificate authorities takes 80 ms: once, and in a thread."""
        async with self._opening:
            if self._tls is None:
                self._tls = await asyncio.to_thread(httpx.create_ssl_context)
            return self._tls

    async def close(self) -> None:
        """Close every client."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


def _check_endpoint(url: yarl.URL, endpoints: EndpointPolicy) -> None:
    """Checks the very URL that the call is sent to: two parsers could read a hostile one differently."""
    if (refusal := endpoints.refusal(str(url), sent_to=url)) is not None:
        raise _refused_endpoint(refusal)


def _refused_endpoint(why: str) -> ModelError:
    return ModelError(ModelErrorKind.INVALID, f"this endpoint may not be reached: {why}", retryable=False)


def environment_proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment names for this endpoint, as NO_PROXY allows it."""
    return None if proxy_bypass(url.netloc.decode("ascii")) else getproxies().get(url.scheme)
