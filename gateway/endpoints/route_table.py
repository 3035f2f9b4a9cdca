"""Finds a request's route among those whose paths begin as its own does: with A2A's there are more than a hundred.

Below: starlette. Above: the composition root.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send


class RouteTable:
    """Routers by the first part of a path, each with the routes in their order. As one with all routes, but sooner."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        firsts = {"", *map(_first, routes)}
        self._routers = {first: Router([each for each in routes if _first(each) in ("", first)]) for first in firsts}

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
