"""What may be fetched on behalf of a caller or a model: which URLs, which addresses, which redirects. Pure.

Above: fetcher, which resolves, connects and reads under these rules. Below: errors. The URL type is aiohttp's own,
so that what is checked here is the very object that is connected to; two parsers would disagree about hostile URLs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yarl

from gateway.errors import InvalidRequestError

DEFAULT_FETCH_PORTS = frozenset({80, 443})
MOST_REDIRECTS = 3
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_LOOKS_NUMERIC = re.compile(r"(^|\.)(\d+|0[xX][0-9a-fA-F]*)\.?$")
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_LONGEST_URL = 8192

# Addresses that embed others or lead to clouds' metadata though they look public. Sources: RFC 6052 and RFC 8215
# (NAT64), RFC 3056 (6to4), RFC 4380 (Teredo), RFC 4291 2.5.5.1 (IPv4-compatible), Azure's platform address.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "2002::/16",
            "2001::/32",
            "::/96",
            "168.63.129.16/32",
            "100.100.100.200/32",
            "169.254.0.0/16",
            "fd00:ec2::/32",
            "192.0.0.0/24",
            "0.0.0.0/8",
        ),
    )
)
_LOOPBACK_6 = ipaddress.IPv6Address("::1")
# What an operator's allow-list opens: private networks (RFC 1918, RFC 4193), loopback, carriers' addresses (RFC 6598).
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "fc00::/7", "::1/128"),
    )
)


def address_allowed(address: str, private_allowed: bool = False) -> bool:
    """Whether a fetch may connect to `address`: public ones, and private ones where the operator allowed the host.

    Link-local, metadata, multicast, reserved and translated addresses are never allowed.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None:
            return False
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
    if ip.is_multicast or (ip != _LOOPBACK_6 and _within(ip, _NEVER)):
        return False
    if _within(ip, _PRIVATE):
        return private_allowed
    return ip.is_global and not ip.is_reserved


def _within(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
    networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network],
) -> bool:
    return any(ip.version == network.version and ip in network for network in networks)


def looks_numeric(host: str) -> bool:
    """Whether a host that is no proper address would be read as one: 127.1, 0x7f000001, 2130706433, 0177.0.0.1."""
    return _LOOKS_NUMERIC.search(host) is not None


def fetch_refused(why: str) -> InvalidRequestError:
    """The policy forbids it."""
    return InvalidRequestError(f"this URL is not fetched: {why}", code="fetch_refused")


def fetch_failed(why: str) -> InvalidRequestError:
    """It was tried and did not work."""
    return InvalidRequestError(f"this URL could not be fetched: {why}", code="fetch_failed")


def parse_fetch_url(url: str) -> yarl.URL:
    """The URL, if one of its kind may be fetched at all.

    Raises:
        InvalidRequestError: code `fetch_refused`.
    """
    if len(url) > _LONGEST_URL or _NOT_IN_A_URL.search(url):
        raise fetch_refused("it holds characters that no URL holds, or is too long")
    try:
        parsed = yarl.URL(url)
        host = parsed.raw_host
        parsed.port  # noqa: B018  # raises for a port that is none
    except (ValueError, UnicodeError) as error:
        raise fetch_refused("it is not a URL") from error
    if parsed.scheme not in ("http", "https") or not host:
        raise fetch_refused("only http and https URLs with a host are")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise fetch_refused("it carries credentials")
    if "%" in host:
        raise fetch_refused("its host is not a name or address")
    return parsed


@dataclass(frozen=True, slots=True)
class Fetch:
    """One request of a fetch; redirects lead to the next."""

    method: str
    url: yarl.URL
    headers: Mapping[str, str]
    content: bytes

    def redirected(self, status: int, location: str) -> Fetch:
        """Where a redirect leads. The method and body survive 307 and 308; headers only within the origin."""
        if _NOT_IN_A_URL.search(location):
            raise fetch_refused("it redirects to something that is not a URL")
        try:
            target = parse_fetch_url(str(self.url.join(yarl.URL(location))))
        except ValueError as error:
            raise fetch_refused("it redirects to something that is not a URL") from error
        if self.url.scheme == "https" and target.scheme == "http":
            raise fetch_refused("it redirects from https to http")
        same_origin = target.origin() == self.url.origin()
        keeps = status in (307, 308) or self.method in ("GET", "HEAD")
        if keeps and self.content and not same_origin:
            raise fetch_refused("it redirects a request with a body to another host")
        return Fetch(
            self.method if keeps else "GET",
            target,
            self.headers if same_origin else {},
            self.content if keeps else b"",
        )


def fetch_too_large(max_bytes: int) -> InvalidRequestError:
    """It is there, but larger than the caller takes."""
    return InvalidRequestError(f"this URL is not fetched: it is larger than {max_bytes} bytes", code="fetch_too_large")
