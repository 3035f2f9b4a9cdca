"""Routes that visitors of websites may use too, the methods of a path, and functions as endpoints.

Below: errors. Above: the protocols, which name them; the composition root, which refuses visitors elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from gateway.errors import ForbiddenError


class VisitorRoute(Route):
    """A route that visitors of websites may use too: it shows only the caller's own threads, runs and agents.

    All other routes are closed to visitors, also in protocols that do not consider them. No id in its path is empty.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return (match, found) if match is Match.NONE or "" not in found["path_params"].values() else (Match.NONE, {})


def check_open_to_visitors(routes: Sequence[BaseRoute], scope: Scope) -> None:
    """Refuse visitors on routes other than VisitorRoute; unknown paths are left to the router.

    Raises:
        ForbiddenError
    """
    for route in routes:
        if route.matches(scope)[0] is Match.FULL:
            if not isinstance(route, VisitorRoute):
                raise ForbiddenError("this is not for the visitors of a website", code="not_for_visitors")
            return


def allowed_methods(scope: Scope) -> Sequence[str]:
    """The methods of all routes of the request's path: the router knows those of the first alone."""
    routes = [route for route in scope["app"].routes if isinstance(route, Route)]
    served = (route.methods or () for route in routes if route.matches(scope)[0] is Match.PARTIAL)
    return sorted({method for methods in served for method in methods})


class Endpoint:
    """A function from a request to its response as an ASGI application, for a route's endpoint.

    Starlette wraps functions in its own exception handling, which every chunk of a stream would pass; the access
    middleware handles exceptions instead.
    """

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)
