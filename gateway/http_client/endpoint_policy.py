"""Which endpoints the models and tools of callers may reach: trusted patterns, and addresses of the public internet.

Above: clients, which asks before every call. Below: fetch_policy, whose rules on addresses hold here too. The model or
tool of a caller names its endpoint, so that whoever may make an agent could send the gateway's requests anywhere. Both
locks have to open: the URL matches a pattern, and the connection goes to an address that was checked.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import unquote

import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.errors import InvalidRequestError
from gateway.http_client.fetch_policy import address_allowed, looks_numeric, parse_fetch_url
from gateway.http_client.fetcher import Resolver, Route, resolve, resolved
from gateway.wire.endpoint_patterns import EndpointPattern

_SLASH = re.compile(r"[/\\]")


class EndpointPolicy:
    """`patterns` are regular expressions, see EndpointPattern; at least one has to match.

    `private_addresses`: endpoints may be in private networks, and on this machine, unless `open_private` closes them.
    Link-local addresses, where clouds keep their metadata, and the other special ranges are never reached.
    """

    def __init__(self, patterns: Sequence[str], *, private_addresses: bool = False) -> None:
        """Raises ConfigurationError for a pattern that cannot be used."""
        self.configured = tuple(patterns)
        self.configured_private = self.private_addresses = private_addresses
        self.trust(None)

    def trust(self, patterns: Sequence[str] | None) -> None:
        """Use these patterns from now on in place of the configured ones; None: the configured ones again.

        Raises:
            ConfigurationError: one cannot be used; nothing has changed.
        """
        chosen = self.configured if patterns is None else patterns
        self._patterns = [EndpointPattern.parse(pattern) for pattern in chosen]

    def open_private(self, is_open: bool) -> None:
        """Whether endpoints may be in private networks from now on, if the configuration lets them at all."""
        self.private_addresses = self.configured_private and is_open

    def refusal(self, url: str, *, sent_to: yarl.URL | None = None) -> str | None:
        """Why no call may go to `url`, by what the URL says; None where one may. Names are resolved with the call.

        `sent_to`: the URL as the HTTP client will read it.
        """
        try:
            parsed = parse_fetch_url(url)
        except InvalidRequestError as error:
            return str(error).partition(": ")[2]
        if sent_to is not None and sent_to.origin() != parsed.origin():
            return "its host can be read in two ways"
        if _goes_up(parsed if sent_to is None else sent_to):
            return "its path has '.' or '..' in it"
        urls = (parsed,) if sent_to is None else (parsed, sent_to)
        if not any(all(pattern.matches(each) for each in urls) for pattern in self._patterns):
            return "it matches none of the trusted endpoints (callers.endpoints)"
        host = (parsed.raw_host or "").rstrip(".")
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return "its host is a number, but not a proper address" if looks_numeric(host) else None
        return None if address_allowed(host, self.private_addresses) else "its host is not on the public internet"


class CheckedResolver(AbstractResolver):
    """Gives a connection only addresses that the policy allows: it connects to what was checked, and nothing else.

    A name is resolved for each new connection, and all of its addresses have to be allowed.
    """

    def __init__(self, policy: EndpointPolicy, lookup: Resolver | None, route: Route | None) -> None:
        """`lookup` and `route` are for tests, as the fetcher's."""
        self._policy = policy
        self._lookup = lookup or resolve
        self._route = route

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """Raises OSError where there is no address, or one that is not allowed."""
        addresses = await self._lookup(host, port)
        if not all(address_allowed(address, self._policy.private_addresses) for address in addresses):
            raise EndpointAddressError(0, "its host is not on the public internet")
        targets = [(address, port) if self._route is None else self._route(address, port) for address in addresses]
        return resolved(host, targets)

    async def close(self) -> None:
        return None


class EndpointAddressError(OSError):
    """A name led to an address that the policy does not allow."""


def _goes_up(url: yarl.URL) -> bool:
    """Whether servers could read another path than the patterns do."""
    return not {".", ".."}.isdisjoint(_SLASH.split(unquote(url.raw_path)))
