"""Visitors of websites: publishable keys, the visitors who use them, and the visitors' tokens.

Below: callers, limits, origins, visitor_tokens. Above: authentication, the protocol that issues tokens, the settings.

A publishable key stands in a page's HTML, so everybody can read it: it identifies the site, not the person. It works
only from the site's origins and for a few agents. A person is a visitor: an identity that the gateway issues as a
signed token, which the visitor's browser keeps. Browsers send the true origin, other programs any they like. So origins
keep other websites from using the key in their visitors' browsers; limits are the protection against programs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.access.callers import Caller, visitor_quotas
from gateway.access.limits import Meter, VisitorLimits
from gateway.access.origins import RequestHeaders, is_same_origin
from gateway.access.visitor_tokens import TOKEN_PREFIX, VisitorToken, new_visitor_id, read_token, write_token
from gateway.clock import Clock
from gateway.errors import ForbiddenError, UnauthenticatedError, UnavailableError
from gateway.owners import visitor_owner

logger = logging.getLogger(__name__)

PUBLISHABLE_PREFIX = "pk_"
RENEWAL_DAYS = 30
"""For how long after its expiry a token can still be renewed: nobody should lose a conversation over a holiday."""

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class PublishableKey:
    """A public key. `origins` are exact, as browsers send them; `agents` are ids."""

    name: str
    key: str
    origins: frozenset[str]
    agents: frozenset[str]
    limits: VisitorLimits

    def check_origin(self, headers: RequestHeaders) -> None:
        """Refuse requests that do not come from a page of the site.

        Raises:
            ForbiddenError
        """
        origin = headers.get("origin")
        if origin in self.origins:
            return
        if origin is None:
            # Browsers leave Origin out when a page only reads from its own origin, and say so in another header.
            host = headers.get("host", "")
            own = headers.get("sec-fetch-site") == "same-origin"
            if own and any(is_same_origin(allowed, host) for allowed in self.origins):
                return
            said = "the request has no Origin header; a publishable key is for web pages"
        else:
            said = f"pages of the origin {origin!r} may not use the key {self.name!r}"
        raise ForbiddenError(f"{said}; add the page's origin to the key's origins", code="origin_not_allowed")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token. `expires_at` is Unix seconds; `renewed`: its visitor had one before."""

    token: str
    expires_at: int
    renewed: bool


class Visitors:
    """The publishable keys and their visitors. Call `use_secret` before the first visitor comes."""

    def __init__(self, keys: Iterable[PublishableKey], clock: Clock, *, token_days: float) -> None:
        self._by_key = {key.key: key for key in keys}
        self._by_name = {key.name: key for key in self._by_key.values()}
        self.origins = frozenset(origin for key in self._by_key.values() for origin in key.origins)
        self._clock = clock
        self._lifetime_seconds = int(token_days * _DAY)
        self._meter = Meter(clock, "visitors")
        self._secret: bytes | None = None
        self._warned = False

    def use_secret(self, secret: bytes) -> None:
        """Set the secret that signs tokens."""
        self._secret = secret

    def key(self, bearer: str) -> PublishableKey:
        """The publishable key that was sent as a bearer.

        Raises:
            UnauthenticatedError: the key is unknown.
            ForbiddenError: it is not a publishable key.
        """
        if not bearer.startswith(PUBLISHABLE_PREFIX):
            raise ForbiddenError(
                "this needs a publishable key; send it as 'Authorization: Bearer pk_...'",
                code="publishable_key_needed",
            )
        try:
            return self._by_key[bearer]
        except KeyError:
            raise UnauthenticatedError("this key is not known; send one of server.publishable_keys") from None

    def identify(self, bearer: str) -> tuple[PublishableKey, VisitorToken | None]:
        """A bearer's key, and the content of its visitor's token; None in its place if the bearer is the key itself.

        Raises:
            UnauthenticatedError: the key or token is unknown.
        """
        if bearer.startswith(PUBLISHABLE_PREFIX):
            return self.key(bearer), None
        token = self._read(bearer)
        key = None if token is None else self._by_name.get(token.key_name)
        if key is None:
            raise UnauthenticatedError(
                "this visitor's token is not known; get another one from POST /visitors", code="visitor_unknown"
            )
        return key, token

    def caller(self, key: PublishableKey, token: VisitorToken | None, headers: RequestHeaders, address: str) -> Caller:
        """The visitor who asks.

        Raises:
            ForbiddenError: the request comes from another site's page.
            UnauthenticatedError: the token is missing or has expired.
        """
        key.check_origin(headers)
        if token is None:
            raise UnauthenticatedError(
                "a publishable key alone opens nothing; get a visitor's token from POST /visitors and send that",
                code="visitor_needed",
            )
        if token.expires_at <= self._clock.now():
            raise UnauthenticatedError(
                "this visitor's token has expired; send it to POST /visitors to get another for the same visitor",
                code="visitor_expired",
            )
        owner = visitor_owner(key.name, token.visitor_id)
        return Caller(owner, key.name, key.limits, key.agents, is_visitor=True, address=address)

    def issue_token(self, key: PublishableKey, former: str | None, address: str) -> IssuedToken:
        """A token for the visitor of the `former` one; for a new visitor if that is not valid any more.

        Raises:
            TooManyRequestsError: too many were issued in the last minute.
        """
        known = None if former is None else self._read(former)
        now = int(self._clock.now())
        if known is not None and (known.key_name != key.name or known.expires_at + RENEWAL_DAYS * _DAY <= now):
            known = None
        # A known visitor does not count as new for the site; but its address is limited, or it could have tokens signed
        # without end.
        quotas = visitor_quotas(key.name, key.limits, address)
        self._meter.begin(quotas if known is None else quotas[:1])(None)
        visitor_id = new_visitor_id() if known is None else known.visitor_id
        token = VisitorToken(key.name, visitor_id, now, now + self._lifetime_seconds)
        return IssuedToken(write_token(token, self._signed_with), token.expires_at, renewed=known is not None)

    def note_proxy(self, headers: RequestHeaders, address: str) -> None:
        """Warn, once, if all visitors share one address because they come through a proxy that is not configured.

        For a trusted proxy the server took the client's `address` out of the header.
        """
        if not self._warned and address not in headers.get("x-forwarded-for", address):
            self._warned = True
            logger.warning(
                "visitors come through a proxy that server.trusted_proxies does not name: they all count as one"
                " client address; add the proxy there"
            )

    def _read(self, text: str) -> VisitorToken | None:
        return read_token(text, self._signed_with) if text.startswith(TOKEN_PREFIX) else None

    @property
    def _signed_with(self) -> bytes:
        if self._secret is None:
            raise UnavailableError("the gateway is starting; try again in a moment")
        return self._secret


def is_visitors(bearer: str) -> bool:
    """Whether `Visitors` handles this bearer: a publishable key or a visitor's token."""
    return bearer.startswith((PUBLISHABLE_PREFIX, TOKEN_PREFIX))
