"""The one HTTP client per endpoint: transport, timeouts, signing left to the caller, the fetch policy.

Above: models and tools. Below: fetch_policy, deadline, errors, clock.

httpx carries the calls, aiohttp the bytes (the httpx-aiohttp package): httpx's own pool costs three to four times the
CPU per read and looks through all of its connections for each new one. Bodies are read from aiohttp directly, since
every layer of httpx's response iterators would cost another task step per read. Requests are handed to httpx's
transport and not to its AsyncClient, whose redirects, cookies, authentication flow and elapsed time would all be off
here: doing nothing took 0.2 ms of each call, and of each first token. Headers go to aiohttp and come from it as they
are, and a URL is parsed once: another eighth of a call.

Decided here, for all callers:
- Any number of connections: the gateway's own limits are on runs. Idle ones are kept for 30 seconds.
- No proxy or `.netrc` of the environment reaches an endpoint, and no cookie; proxies from the environment (HTTPS_PROXY,
  NO_PROXY) are used only where the operator says `environment_proxies`. SSL_CERT_FILE names private authorities.
- Answers are asked for uncompressed, and compressed ones are refused: inflating costs latency and invites bombs.
- asyncio's own TLS keeps a 256 KB buffer per connection (uvloop's does not). It is left alone: shrinking it means
  changing a class of the standard library for everybody in the process.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
import math
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp import AiohttpTransport

from gateway.agent import ModelTimeouts
from gateway.clock import Clock, Timer
from gateway.deadline import Deadline, DeadlineError
from gateway.errors import ModelError, ModelErrorKind
from gateway.fetch_policy import (
    DEFAULT_FETCH_PORTS,
    MOST_REDIRECTS,
    REDIRECT_STATUSES,
    Fetch,
    address_allowed,
    fetch_failed,
    fetch_refused,
    fetch_too_large,
    looks_numeric,
    parse_fetch_url,
)

KEEPALIVE_SECONDS = 30.0
LARGEST_HEADER = 32_768
SETTLE_SECONDS = 0.05

# Where the transport finds, among a request's extensions, what it needs: clock, StreamTimeouts, when it began, the call
_CALL = "gateway.call"
_OWN_HEADERS = {"accept-encoding": "identity", "user-agent": "agui-gateway"}
_NO_AUTOMATIC_HEADERS = frozenset({"Accept", "Accept-Encoding", "Content-Type", "User-Agent"})
# Headers and bodies go past httpx, which would encode them and look for what aiohttp adds itself: Host, lengths.
_AT_HAND = httpx.ByteStream(b"")
_INLINE_BODY = 2**20  # aiohttp writes larger bodies piece by piece when they come as a file

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Name and port to the addresses behind them. Raises OSError where there are none."""

Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""A checked address and port to where they are really reached: the same, but for tests."""


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request, whole: what a codec builds and what a signer signs. The URL goes out exactly as it stands here."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Seconds. `first_byte`: from the call to the response's headers, with connecting; `idle`: between two reads."""

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 120.0
    total: float | None = None

    @classmethod
    def of_model(cls, settings: ModelTimeouts) -> StreamTimeouts:
        """Those that the operator set for a model."""
        return cls(settings.connect_seconds, settings.first_byte_seconds, settings.idle_seconds, settings.total_seconds)


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """What a fetch under the policy brought. `media_type` is lower-case and has no parameters."""

    content: bytes
    media_type: str | None
    status: int = 200


class HttpStream:
    """A response whose body is still coming. `headers` are looked up without regard to case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: _Body) -> None:
        self.status = status
        self.headers = headers
        self.receive = body.receive  # itself: a coroutine between the two would cost every read a step
        self._body = body

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

    async def gather(self, moment: asyncio.Future[None]) -> None:
        """Let what comes gather until the moment is over; or until the body's end has come, which nothing follows."""
        await self._body.gather(moment)

    async def settle(self) -> None:
        """The caller needs no more. Where the response's end is there, or comes at once, the connection is kept for the
        next call; without this, leaving the context closes it. Never raises for what the server does.
        """
        await self._body.settle()


class _Body(httpx.AsyncByteStream):
    """A response's body, read from aiohttp in pieces as large as they are there, under the stream's time limits."""

    def __init__(self, response: aiohttp.ClientResponse, clock: Clock, timeouts: StreamTimeouts, began: float) -> None:
        self._response = response
        self._content = response.content
        self._clock = clock
        self._idle = timeouts.idle
        self._ends_at = math.inf if timeouts.total is None else began + timeouts.total
        self._waits_since: float | None = None
        self._timer: Timer | None = None
        self._moment: asyncio.Future[None] | None = None
        self._content.on_eof(self._end_moment)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def content_coding(self) -> str:
        return self._response.headers.get("content-encoding", "").strip().lower()

    async def receive(self) -> bytes:
        """What the next network read brings: all that is there by then. Empty at the body's end."""
        self._waits_since = self._clock.monotonic()
        if self._timer is None:
            self._watch()
        try:
            return await self._content.readany()
        except _TRANSPORT_ERRORS as error:
            raise model_error(error) from error
        finally:
            self._waits_since = None

    async def gather(self, moment: asyncio.Future[None]) -> None:
        if not self._content.is_eof():
            self._moment = moment
            await moment

    def _end_moment(self) -> None:
        if self._moment is not None and not self._moment.done():
            self._moment.set_result(None)

    def _watch(self) -> None:
        """Looks after the reader once its time may be up. One timer for many reads: one per read would cost as much as
        the read itself.
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
        # An exception on aiohttp's stream wakes its reader, and stays for those to come.
        self._content.set_exception(ModelError(ModelErrorKind.TIMEOUT, f"the model provider's {what}"))

    async def settle(self) -> None:
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while await self._content.readany():
                    pass
        except (ModelError, *_TRANSPORT_ERRORS):
            return

    async def aclose(self) -> None:
        """Closes the socket at once, unless the body was read to its end: then aiohttp has it back already."""
        if self._timer is not None:
            self._timer.cancel()
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # close() would wait for what is unsent, and under TLS for the peer's goodbye
            connection.transport.abort()
        self._response.close()


class _Transport(AiohttpTransport):
    """httpx-aiohttp's transport with three things put right.

    It passes URLs as text, in which aiohttp decodes `%3A` (a signed URL is then another one); it reports a connection
    that the server dropped as a connect timeout, where here aiohttp's own exceptions go up; and it cuts bodies into
    pieces of 16 KB.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        clock, timeouts, began, call, url = request.extensions[_CALL]
        response = await self.get_client().request(
            request.method,
            url,
            headers={**_OWN_HEADERS, **call.headers},
            skip_auto_headers=_NO_AUTOMATIC_HEADERS,
            data=(io.BytesIO(call.content) if len(call.content) > _INLINE_BODY else call.content) or None,
            allow_redirects=False,
            auto_decompress=False,
            # no total: aiohttp's default would end every stream after 300 seconds
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
            proxy=str(self.proxy.url) if self.proxy else None,
            proxy_auth=aiohttp.BasicAuth(*self.proxy.auth) if self.proxy and self.proxy.auth else None,
        )
        return httpx.Response(response.status, stream=_Body(response, clock, timeouts, began))


class _Endpoint(NamedTuple):
    """Where a call goes, in both packages' words, and the key of its client."""

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
    """All clients of the process, opened at first use.

    `allowed_private_hosts` are the names (or addresses) in private networks that `fetch` may reach all the same, on any
    port; `fetch_ports` those that it may use on all others. `resolver` and `route` are for tests.
    """

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
    ) -> None:
        self._clock = clock
        self._allowed_private_hosts = allowed_private_hosts
        self._fetch_ports = fetch_ports
        self._environment_proxies = environment_proxies
        self._tls = tls
        self._resolve = resolver or resolve
        self._route = route or (lambda address, port: (address, port))
        self._clients: dict[tuple[str, str, int | None], _Transport] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def stream(self, call: HttpCall, timeouts: StreamTimeouts = StreamTimeouts()) -> AsyncGenerator[HttpStream]:
        """Send and give the response once its headers are there. Leaving the context closes the socket at once.

        Raises:
            ModelError: NETWORK or TIMEOUT, also from the stream's methods; PROTOCOL where the answer is no HTTP or came
                compressed; INVALID for a URL that is none.
        """
        response = await self._send(call, timeouts)
        try:
            body = response.stream
            assert isinstance(body, _Body), "what the transport gave it"
            if (coding := body.content_coding) not in ("", "identity"):
                raise ModelError(
                    ModelErrorKind.PROTOCOL,
                    "the model provider sent its answer compressed, though none was asked for",
                    provider_message=f"content-encoding: {coding[:100]}",
                    retryable=False,
                )
            yield HttpStream(response.status_code, body.headers, body)
        finally:
            await response.aclose()

    async def _send(self, call: HttpCall, timeouts: StreamTimeouts) -> httpx.Response:
        seconds = timeouts.first_byte
        deadline = Deadline(self._clock, seconds if timeouts.total is None else min(seconds, timeouts.total))
        try:
            with deadline:
                endpoint = _endpoint(call.url)
                client = self._clients.get(endpoint.origin) or await self._client(endpoint)
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
        except _TRANSPORT_ERRORS as error:
            raise model_error(error) from error
        finally:
            deadline.close()

    async def _client(self, endpoint: _Endpoint) -> _Transport:
        tls: ssl.SSLContext | bool = await self._tls_context() if endpoint.url.scheme == "https" else False
        # another task may have opened it in the meantime
        known = self._clients.get(endpoint.origin)
        return known or self._clients.setdefault(endpoint.origin, self._open_client(endpoint.url, tls))

    def _open_client(self, url: httpx.URL, tls: ssl.SSLContext | bool) -> _Transport:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=tls or True)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
        )
        proxy = environment_proxy(url) if self._environment_proxies else None
        return _Transport(verify=tls, proxy=httpx.Proxy(proxy) if proxy else None, client=session)

    async def _tls_context(self) -> ssl.SSLContext:
        """The one context of the process. Reading the certificate authorities takes 80 ms: once, and in a thread."""
        async with self._opening:
            if self._tls is None:
                self._tls = await asyncio.to_thread(httpx.create_ssl_context)
            return self._tls

    async def fetch(
        self,
        url: str,
        *,
        max_bytes: int,
        timeout_seconds: float = 20.0,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        any_status: bool = False,
        allowed_private_hosts: frozenset[str] = frozenset(),
    ) -> FetchedContent:
        """Get something that a caller or a model named, under the fetch policy.

        http and https only, no credentials in the URL; every address that the name resolves to must be public, and the
        connection goes to one of those that were checked, whatever the name resolves to by then. At most three
        redirects, each checked like the first; `headers` and `content` stay with the first origin. No proxies. All of
        it within `timeout_seconds` and `max_bytes`. `any_status` gives answers that are no success too.

        Raises:
            InvalidRequestError: code `fetch_refused` for what the policy refuses, `fetch_too_large`, and `fetch_failed`
                where the other side did not deliver.
        """
        allowed = self._allowed_private_hosts | allowed_private_hosts
        deadline = Deadline(self._clock, timeout_seconds)
        request = Fetch(method, parse_fetch_url(url), dict(headers or {}), content)
        try:
            with deadline:
                for _ in range(MOST_REDIRECTS + 1):
                    answer = await self._fetch_once(request, allowed, max_bytes, any_status)
                    if isinstance(answer, FetchedContent):
                        return answer
                    request = answer
        except DeadlineError as error:
            raise fetch_failed(f"it did not arrive within {timeout_seconds:g} seconds") from error
        except _TRANSPORT_ERRORS as error:
            raise fetch_failed("the connection failed") from error
        finally:
            deadline.close()
        raise fetch_failed(f"it was redirected more than {MOST_REDIRECTS} times")

    async def _fetch_once(
        self, request: Fetch, allowed: frozenset[str], max_bytes: int, any_status: bool
    ) -> FetchedContent | Fetch:
        host, port = request.url.raw_host or "", request.url.port or 0
        private_allowed = host.rstrip(".") in allowed
        if port not in self._fetch_ports and not private_allowed:
            raise fetch_refused(f"port {port} is not one of {', '.join(map(str, sorted(self._fetch_ports)))}")
        addresses = await self._addresses(host, port, private_allowed)
        tls = await self._tls_context() if request.url.scheme == "https" else True
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(host, [self._route(address, port) for address in addresses]),
            use_dns_cache=False,
            force_close=True,
            ssl=tls,
        )
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                request.method,
                request.url,
                headers={**_OWN_HEADERS, "accept": "*/*", **request.headers},
                skip_auto_headers=_NO_AUTOMATIC_HEADERS,
                data=request.content or None,
                allow_redirects=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response,
        ):
            try:
                if response.status in REDIRECT_STATUSES and (location := response.headers.get("location")):
                    return request.redirected(response.status, location)
                return await _fetched(response, max_bytes, any_status)
            finally:
                response.close()

    async def _addresses(self, host: str, port: int, private_allowed: bool) -> Sequence[str]:
        try:
            addresses: Sequence[str] = [str(ipaddress.ip_address(host))]
        except ValueError:
            if looks_numeric(host):  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
                raise fetch_refused("its host is a number that is no proper address") from None
            addresses = await self._resolve(host, port)
        if not addresses:
            raise fetch_failed("its host is not known")
        for address in addresses:
            if not address_allowed(address, private_allowed):
                raise fetch_refused("its host is not in the public internet")
        return addresses

    async def close(self) -> None:
        """Close every client."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


# --- errors ------------------------------------------------------------------------------------------------------

_TRANSPORT_ERRORS = (
    aiohttp.ClientError,
    HttpProcessingError,
    httpx.HTTPError,
    httpx.InvalidURL,
    OSError,
    TimeoutError,
    ValueError,
)

# What each failure of the transport means, the special ones before the general.
_MEANINGS: tuple[tuple[type[Exception], ModelErrorKind, str, bool | None], ...] = (
    (aiohttp.ClientConnectorCertificateError, ModelErrorKind.NETWORK, "its certificate is not trusted", False),
    (aiohttp.ServerFingerprintMismatch, ModelErrorKind.NETWORK, "its certificate is not trusted", False),
    (aiohttp.ClientSSLError, ModelErrorKind.NETWORK, "no secure connection could be made", False),
    (ssl.SSLError, ModelErrorKind.NETWORK, "the secure connection broke", None),
    (aiohttp.InvalidURL, ModelErrorKind.INVALID, "its endpoint is not a URL", False),
    (aiohttp.NonHttpUrlClientError, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (httpx.InvalidURL, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (httpx.UnsupportedProtocol, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (ValueError, ModelErrorKind.INVALID, "its endpoint or a header cannot be sent", False),
    (aiohttp.ServerTimeoutError, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (httpx.TimeoutException, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (aiohttp.ClientProxyConnectionError, ModelErrorKind.NETWORK, "the proxy could not be reached", None),
    (aiohttp.ClientHttpProxyError, ModelErrorKind.NETWORK, "the proxy refused the connection", None),
    (aiohttp.ClientConnectorDNSError, ModelErrorKind.NETWORK, "its host name could not be resolved", None),
    (aiohttp.ClientConnectorError, ModelErrorKind.NETWORK, "it could not be reached", None),
    (aiohttp.ClientPayloadError, ModelErrorKind.NETWORK, "the connection broke in the middle of its answer", None),
    (aiohttp.ClientResponseError, ModelErrorKind.PROTOCOL, "its answer is not HTTP", None),
    (HttpProcessingError, ModelErrorKind.PROTOCOL, "its answer is not HTTP", None),
    (aiohttp.ClientError, ModelErrorKind.NETWORK, "the connection broke", None),
    (httpx.HTTPError, ModelErrorKind.NETWORK, "the connection broke", None),
    (TimeoutError, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (Exception, ModelErrorKind.NETWORK, "the connection broke", None),
)


def model_error(error: Exception) -> ModelError:
    """The transport's failure in the gateway's words. Hosts and addresses are in `provider_message`, for the log."""
    _, kind, what, retryable = next(meaning for meaning in _MEANINGS if isinstance(error, meaning[0]))
    return ModelError(
        kind, f"the model provider failed: {what}", provider_message=str(error)[:500], retryable=retryable
    )


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """How long a server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date (`now`: Unix time)."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(milliseconds) / 1000)
    except ValueError:
        pass
    asked = headers.get("retry-after", "").strip()
    if not asked:
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < 1e9 else None  # refuses nan and inf as well


def environment_proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment names for this endpoint, as NO_PROXY allows it."""
    return None if proxy_bypass(url.netloc.decode("ascii")) else getproxies().get(url.scheme)


# --- fetching ---------------------------------------------------------------------------------------------------------


async def _fetched(response: aiohttp.ClientResponse, max_bytes: int, any_status: bool) -> FetchedContent:
    if not any_status and not 200 <= response.status < 300:
        raise fetch_failed(f"the answer was status {response.status}")
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise fetch_failed("the answer came compressed, though none was asked for")
    if (response.content_length or 0) > max_bytes:
        raise fetch_too_large(max_bytes)
    content = bytearray()
    while data := await response.content.readany():
        content += data
        if len(content) > max_bytes:
            raise fetch_too_large(max_bytes)
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return FetchedContent(bytes(content), media_type or None, response.status)


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, and for no other name."""

    def __init__(self, host: str, targets: Sequence[tuple[str, int]]) -> None:
        self._host = host
        self._targets = targets

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host.rstrip(".") != self._host.rstrip("."):
            raise OSError(None, f"{host!r} was not checked")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=target_port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address, target_port in self._targets
        ]

    async def close(self) -> None:
        return None


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses behind a name, by the system's resolver. Raises OSError where there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
