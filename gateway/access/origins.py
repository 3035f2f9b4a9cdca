"""Which origins may use the gateway, and under which host names it answers.

Below: errors. Above: authentication and the visitors. An origin is scheme, host and port as browsers send them:
https://fetch.spec.whatwg.org/#origin-header
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

from gateway.errors import ForbiddenError

RequestHeaders: TypeAlias = "Mapping[str, str]"  # names in lower case

_MOST_HOSTS = 64  # a gateway has few names, and parsing one costs 10 us, so results are kept
_EXPOSED = (
    b"x-request-id, retry-after, www-authenticate, x-thread-id, x-run-id, x-should-retry, x-agui-gateway-left-out"
)


class Origins:
    """The allowed origins and host names."""

    def __init__(
        self, cors_origins: Iterable[str], allowed_hosts: Iterable[str], visitors_origins: Iterable[str] = ()
    ) -> None:
        """`visitors_origins` are those of publishable keys: for requests with these keys, and without any key."""
        self._cors_origins = frozenset(cors_origins)
        self._all_origins = self._cors_origins.union(visitors_origins)
        self._hosts = frozenset(host.lower().rstrip(".") for host in allowed_hosts)

    def allows(self, headers: RequestHeaders, *, visitors: bool = True) -> bool:
        """Whether the request's Origin is the gateway's own or configured; with `visitors`, also one of theirs."""
        origin = headers.get("origin", "")
        return origin in (self._all_origins if visitors else self._cors_origins) or is_same_origin(
            origin, headers.get("host", "")
        )

    def headers_for(self, headers: RequestHeaders, *, for_visitor: bool) -> list[tuple[bytes, bytes]]:
        """The CORS headers of an answer; they go on every answer, errors too, or the page cannot read it."""
        if not self._all_origins:
            return []
        vary = [(b"vary", b"Origin")]
        origin = headers.get("origin")
        if origin is None or origin not in (self._all_origins if for_visitor else self._cors_origins):
            return vary
        allow = (b"access-control-allow-origin", origin.encode("latin-1"))
        return [*vary, allow, (b"access-control-expose-headers", _EXPOSED)]

    def check(self, headers: RequestHeaders, *, visitors: bool = True) -> None:
        """Refuse a request that a foreign website made a browser send. `visitors` as for `allows`.

        Raises:
            ForbiddenError
        """
        origin = headers.get("origin")
        if origin is not None:
            if not self.allows(headers, visitors=visitors):
                raise ForbiddenError(foreign_origin(origin), code="origin_not_allowed")
        elif _is_embedded(headers):
            raise ForbiddenError(
                "another website's page loads this without CORS; open it directly, or load it with CORS from an origin"
                " in server.cors_origins",
                code="origin_not_allowed",
            )

    def check_host(self, host: str) -> None:
        """Refuse host names that somebody else may have pointed here.

        Raises:
            ForbiddenError
        """
        name = _host_name(host)
        if name is None or not (name in self._hosts or _is_own_name(name)):
            raise ForbiddenError(
                f"this gateway does not answer under the host name {host!r}; add it to server.allowed_hosts",
                code="host_not_allowed",
            )


def _is_embedded(headers: RequestHeaders) -> bool:
    """Whether a foreign page loads this as an image or the like: browsers then send no Origin. A link is fine."""
    foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    return foreign and headers.get("sec-fetch-mode") != "navigate"


def foreign_origin(origin: str) -> str:
    return f"pages of the origin {origin!r} may not use this gateway; add it to server.cors_origins"


def is_same_origin(origin: str, host: str) -> bool:
    """Whether the page came from this server. Schemes are not compared: a proxy may have ended TLS."""
    scheme, separator, authority = origin.partition("://")
    if not separator or not authority or not host:
        return False
    port = {"http": ":80", "https": ":443"}.get(scheme)
    if port is None:
        return False
    return authority.lower().removesuffix(port) == host.lower().removesuffix(port)


@lru_cache(maxsize=_MOST_HOSTS)
def _host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None where it is no valid one."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host or parts.hostname is None:
        return None
    return parts.hostname.rstrip(".")


@lru_cache(maxsize=_MOST_HOSTS)
def _is_own_name(name: str) -> bool:
    # An address in Host is safe: DNS rebinding needs a name of the attacker's.
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def origin_problem(origin: str) -> str | None:
    """Why no browser ever sends `origin`; None if one can. (https://fetch.spec.whatwg.org/#origin-header)"""
    if "*" in origin or origin == "null":
        return f"{origin!r} would let every website in; name each origin: 'https://app.example'"
    exact = _exact_origin(origin)
    if exact is None:
        return (
            f"{origin!r} is not an origin; write scheme, host, and port unless it is the default: 'https://app.example'"
        )
    return None if origin == exact else f"{origin!r} is not what a browser sends; write {exact!r}"


def _exact_origin(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
        host, port = parts.hostname, parts.port
        if not parts.scheme or not host:
            return None
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # UnicodeError is one
        return None
    exact = f"{parts.scheme}://[{host}]" if ":" in host else f"{parts.scheme}://{host}"
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return exact if port is None or port == usual else f"{exact}:{port}"
