"""Fetches URLs of callers and models under the fetch policy: it connects only to addresses that it has checked.

Above: clients, which has the process's one. Below: fetch_policy, transport_errors, deadline, errors, clock. Each fetch
has a connection of its own, without cookies and proxies.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.clock import Clock, Deadline, DeadlineError
from gateway.http_client.fetch_policy import (
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
from gateway.http_client.transport_errors import TRANSPORT_ERRORS

_OWN_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "agui-gateway"}

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves name and port to addresses. Raises OSError if there are none."""

Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Maps a checked address and port to the ones to connect to: the same, except in tests."""


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """The content of a fetch. `media_type` is lower-case and has no parameters."""

    content: bytes
    media_type: str | None
    status: int = 200


class Fetcher:
    """`tls` gives the process's context. `allowed_private_hosts` are the names (or addresses) in private networks that
    may be reached nevertheless, on any port; `ports` are allowed for all other hosts. `resolver` and `route` are for
    tests.
    """

    def __init__(
        self,
        clock: Clock,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
        *,
        allowed_private_hosts: frozenset[str] = frozenset(),
        ports: frozenset[int] = DEFAULT_FETCH_PORTS,
        resolver: Resolver | None = None,
        route: Route | None = None,
    ) -> None:
        self._clock = clock
        self._tls = tls
        self._allowed_private_hosts = allowed_private_hosts
        self._ports = ports
        self._resolve = resolver or resolve
        self._route = route or (lambda address, port: (address, port))

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
        """Fetch a URL that a caller or a model named, under the fetch policy.

        http and https only, no credentials in the URL; every address of the name must be public, and the connection
        goes to one of the checked addresses, even if the name resolves differently by then. At most three redirects,
        each checked like the first; `headers` and `content` are sent only to the first origin. No proxies. All of it
        within `timeout_seconds` and `max_bytes`. With `any_status`, answers with an error status are given too.

        Raises:
            InvalidRequestError: code `fetch_refused` if the policy forbids it, `fetch_too_large`, and `fetch_failed` if
            the other server did not deliver.
        """
        allowed = self._allowed_private_hosts | allowed_private_hosts
        request = Fetch(method, parse_fetch_url(url), dict(headers or {}), content)
        with self._within(timeout_seconds):
            for _ in range(MOST_REDIRECTS + 1):
                answer = await self._ask(request, allowed, max_bytes, any_status)
                if isinstance(answer, FetchedContent):
                    return answer
                request = answer
        raise fetch_failed(f"it was redirected more than {MOST_REDIRECTS} times")

    async def post(self, url: str, *, headers: Mapping[str, str], content: bytes, timeout_seconds: float = 20.0) -> int:
        """POST to a URL that a caller named, under the fetch policy, and without redirects: the answer's status. Its
        content is not read.

        Raises:
            InvalidRequestError: code `fetch_refused` or `fetch_failed`, as `fetch`.
        """
        request = Fetch("POST", parse_fetch_url(url), headers, content)
        with self._within(timeout_seconds):
            async with self._answered(request, self._allowed_private_hosts) as response:
                return response.status

    def check(self, url: str) -> None:
        """Refuse a URL that the policy forbids by what the URL says. Names are resolved with the call.

        Raises:
            InvalidRequestError: code `fetch_refused`.
        """
        parsed = parse_fetch_url(url)
        private_allowed = self._check_port(parsed, self._allowed_private_hosts)
        if (address := _address(parsed.raw_host or "")) is not None:
            _check_addresses([address], private_allowed)

    @contextmanager
    def _within(self, timeout_seconds: float) -> Generator[None]:
        """What fails on the way, or takes longer than that, is told as `fetch_failed`."""
        deadline = Deadline(self._clock, timeout_seconds)
        try:
            with deadline:
                yield
        except DeadlineError as error:
            raise fetch_failed(f"the answer did not arrive within {timeout_seconds:g} seconds") from error
        except TRANSPORT_ERRORS as error:
            raise fetch_failed("the connection failed") from error
        finally:
            deadline.close()

    async def _ask(
        self, request: Fetch, allowed: frozenset[str], max_bytes: int, any_status: bool
    ) -> FetchedContent | Fetch:
        async with self._answered(request, allowed) as response:
            if response.status in REDIRECT_STATUSES and (location := response.headers.get("location")):
                return request.redirected(response.status, location)
            return await _fetched(response, max_bytes, any_status)

    @asynccontextmanager
    async def _answered(self, request: Fetch, allowed: frozenset[str]) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The answer to a request, once its headers are there; its connection is closed behind the block."""
        host, port = request.url.raw_host or "", request.url.port or 0
        addresses = await self._addresses(host, port, self._check_port(request.url, allowed))
        tls = await self._tls() if request.url.scheme == "https" else True
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
                headers={**_OWN_HEADERS, **request.headers},
                skip_auto_headers=("Content-Type",),
                data=request.content or None,
                allow_redirects=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response,
        ):
            try:
                yield response
            finally:
                response.close()

    def _check_port(self, url: yarl.URL, allowed: frozenset[str]) -> bool:
        """Refuse a port that is not allowed; whether the host may be a private one."""
        private_allowed = (url.raw_host or "").rstrip(".") in allowed
        if url.port not in self._ports and not private_allowed:
            raise fetch_refused(f"port {url.port} is not one of {', '.join(map(str, sorted(self._ports)))}")
        return private_allowed

    async def _addresses(self, host: str, port: int, private_allowed: bool) -> Sequence[str]:
        address = _address(host)
        addresses = await self._resolve(host, port) if address is None else [address]
        _check_addresses(addresses, private_allowed)
        return addresses


def _address(host: str) -> str | None:
    """The address that a host is, None where it is a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if looks_numeric(host):  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
            raise fetch_refused("its host is a number, but not a proper address") from None
        return None


def _check_addresses(addresses: Sequence[str], private_allowed: bool) -> None:
    if not addresses:
        raise fetch_failed("its host is not known")
    for address in addresses:
        if not address_allowed(address, private_allowed):
            raise fetch_refused("its host is not on the public internet")


async def _fetched(response: aiohttp.ClientResponse, max_bytes: int, any_status: bool) -> FetchedContent:
    if not any_status and not 200 <= response.status < 300:
        raise fetch_failed(f"the answer was status {response.status}")
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise fetch_failed("the answer came compressed, though the request did not allow that")
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
    """A resolver that knows only the checked host and its addresses."""

    def __init__(self, host: str, targets: Sequence[tuple[str, int]]) -> None:
        self._host = host
        self._targets = targets

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host.rstrip(".") != self._host.rstrip("."):
            raise OSError(None, f"{host!r} was not checked")
        return resolved(host, self._targets)

    async def close(self) -> None:
        return None


def resolved(host: str, targets: Sequence[tuple[str, int]]) -> list[ResolveResult]:
    """Addresses and ports in the form in which aiohttp's resolvers give them."""
    return [
        ResolveResult(
            hostname=host,
            host=address,
            port=port,
            family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            proto=0,
            flags=socket.AI_NUMERICHOST,
        )
        for address, port in targets
    ]


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses behind a name, by the system's resolver. Raises OSError where there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
