"""The rules for fetching what a caller or a model names: which URLs, addresses and redirects are allowed. Pure.

Above: fetcher, which resolves, connects and reads under these rules. Below: special_addresses. URLs are aiohttp's own
type, so that the checked object is the one that is connected to: two parsers could read a hostile URL differently.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yarl

from gateway.errors import InvalidRequestError
from gateway.http_client.special_addresses import GLOBAL_UNICAST_6, special_range

DEFAULT_FETCH_PORTS = frozenset({80, 443})
MOST_REDIRECTS = 3
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_LOOKS_NUMERIC = re.compile(r"(^|\.)(\d+|0[xX][0-9a-fA-F]*)\.?$")
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_LONGEST_URL = 8192


def address_allowed(address: str, private_allowed: bool = False) -> bool:
    """Whether a fetch may connect to `address`: public ones, and private ones where the operator allowed the host.

    All other special ranges (link-local, metadata, multicast, reserved, translated, ...) are never allowed.
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
    special = special_range(ip)
    if special is not None:
        return special.is_private and private_allowed
    # Python's own tables are checked too: they may be newer than these.
    return (ip.version == 4 or ip in GLOBAL_UNICAST_6) and ip.is_global


def looks_numeric(host: str) -> bool:
    """Whether some systems would read the host as an address, although it is not one: 127.1, 0x7f000001, 2130706433."""
    return _LOOKS_NUMERIC.search(host) is not None


def fetch_refused(why: str) -> InvalidRequestError:
    """The policy forbids it."""
    return InvalidRequestError(f"this URL is not fetched: {why}", code="fetch_refused")


def fetch_failed(why: str) -> InvalidRequestError:
    """It was tried and did not work."""
    return InvalidRequestError(f"this URL could not be fetched: {why}", code="fetch_failed")


def parse_fetch_url(url: str) -> yarl.URL:
    """The parsed URL, if the policy allows its kind.

    Raises:
        InvalidRequestError: code `fetch_refused`.
    """
    if len(url) > _LONGEST_URL or _NOT_IN_A_URL.search(url):
        raise fetch_refused("it holds characters that no URL holds, or is too long")
    try:
        parsed = yarl.URL(url)
        host = parsed.raw_host
        parsed.port  # noqa: B018  # raises for an invalid port
    except (ValueError, UnicodeError) as error:
        raise fetch_refused("it is not a URL") from error
    if parsed.scheme not in ("http", "https") or not host:
        raise fetch_refused("only http and https URLs with a host are fetched")
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
    """The content is larger than the caller takes."""
    return InvalidRequestError(f"this URL is not fetched: it is larger than {max_bytes} bytes", code="fetch_too_large")
