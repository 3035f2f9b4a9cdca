"""Refuses keys the protocols that are turned off for them: `protocols.<name>: false` of a key.

Below: callers. Above: the composition root, which asks before each request that reaches a route.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from gateway.access.callers import Caller
from gateway.errors import ForbiddenError


class MayBeOff(Protocol):
    """The members of a WireProtocol that are read here."""

    @property
    def settings(self) -> Mapping[str, object]: ...

    def is_off(self, names: Collection[str]) -> bool: ...


class ClosedProtocols:
    """The protocols that single keys may not use."""

    def __init__(
        self, served: Iterable[tuple[MayBeOff, Sequence[BaseRoute]]], off: Mapping[str, Collection[str]]
    ) -> None:
        """`served`: the protocols with their routes, in the order in which routes are tried. `off`: the names of the
        settings that are turned off, by the names of keys.
        """
        self._off = {name: frozenset(names) for name, names in off.items() if names}
        self._routes = [(route, protocol) for protocol, routes in served for route in routes] if self._off else []

    def check(self, caller: Caller, scope: Scope) -> None:
        """Refuse a request for a route of a protocol that the caller's key may not use. Raises ForbiddenError."""
        off = self._off.get(caller.key_name)
        if off is None:
            return
        for route, protocol in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                if protocol.is_off(off):
                    why = " and ".join(f"protocols.{name} is false" for name in protocol.settings)
                    raise ForbiddenError(f"this key may not use it: {why} for the key", code="protocol_not_allowed")
                return
