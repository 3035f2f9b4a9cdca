"""Finds a request's route among those whose paths begin as its own does: with A2A's there are more than a hundred. And
looks that no two protocols have the same one.

Below: starlette, errors. Above: the composition root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from gateway.errors import ConfigurationError

_PARAMETER: Final = re.compile(r"\{[^}:]*")  # of a path: its name, and not its kind


class HasName(Protocol):
    """The members of a WireProtocol that are read here."""

    @property
    def name(self) -> str: ...


class RouteTable:
    """Routers by the first part of a path, each with the routes in their order. As one with all routes, but sooner."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        parts = [_first(each) for each in routes]
        self._routers = {
            first: Router([each for each, part in zip(routes, parts, strict=True) if part in ("", first)])
            for first in {"", *parts}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request, whose `root_path` is empty."""
        router = self._routers.get(_first_of(scope["path"])) or self._routers[""]
        await router(scope, receive, send)


def _first(route: BaseRoute) -> str:
    """The first part of all paths of a route; empty: they have not the same one."""
    first = _first_of(route.path) if isinstance(route, Route | Mount) else ""
    return "" if "{" in first else first


def _first_of(path: str) -> str:
    return path[1:].partition("/")[0]


def expect_distinct(served: Iterable[tuple[HasName, Sequence[BaseRoute]]]) -> None:
    """Refuse a route that would never be reached, because another one has its path and method.

    Raises:
        ConfigurationError: there is one.
    """
    owners: dict[tuple[str, str], str] = {}
    for protocol, routes in served:
        for route in (each for each in routes if isinstance(each, Route)):
            pattern = _PARAMETER.sub("{", route.path)
            for method in sorted(route.methods or ()):
                if (owner := owners.get((method, pattern))) is not None:
                    raise ConfigurationError(
                        f"{method} {route.path} is there twice, of the protocols {owner!r} and {protocol.name!r};"
                        " give one of them another path"
                    )
                owners[method, pattern] = protocol.name
