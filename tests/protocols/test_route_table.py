"""A request finds its route among those whose paths begin as its own does: the one that it finds among all of them."""

from __future__ import annotations

from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, Route, Router
from starlette.types import ASGIApp, Scope

from gateway.protocol.route_table import RouteTable
from tests.embedded_gateway import application_of, client_of

PATHS = (
    "/agents",
    "/agents/",
    "/agents/a/run",
    "/agents/last",
    "/agents/a/else",
    "/files/a/b",
    "/mounted/a",
    "/mounted/a/b",
    "/any/last",
    "/nothing",
    "/",
)


async def _named(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.scope['endpoint'].__name__} {sorted(request.path_params.items())}")


async def _other(request: Request) -> PlainTextResponse:
    return await _named(request)


ROUTES: list[BaseRoute] = [
    Route("/agents/{id}/run", _named, methods=["POST"]),
    Route("/agents", _named),
    Route("/{first}/last", _other),
    Route("/agents/{id}", _named),
    Route("/files/{name:path}", _named),
    Mount("/mounted", routes=[Route("/{name}", _named)]),
    Route("/", _named),
]


async def _answers(app: ASGIApp) -> list[tuple[str, str, int, str]]:
    transport = httpx.ASGITransport(Starlette(routes=[Mount("", app=app)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answers = [(method, path, await client.request(method, path)) for path in PATHS for method in ("GET", "POST")]
    return [(method, path, each.status_code, each.text) for method, path, each in answers]


async def test_a_request_finds_the_route_that_it_finds_among_all() -> None:
    found = await _answers(RouteTable(ROUTES))
    assert found == await _answers(Router(ROUTES))
    assert {status for _, _, status, _ in found} == {200, 307, 404, 405}


async def test_a_run_tries_no_route_of_a_path_that_begins_otherwise() -> None:
    """There are more than a hundred, and each try takes a microsecond: a run would pay for them."""
    tried: list[str] = []

    class Counted(Route):
        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            tried.append(self.path)
            return super().matches(scope)

    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("")

    others = [Counted(f"/{name}", answer) for name in ("a", "b", "{any}/c")]
    async with client_of(RouteTable([*others, Route("/agents/{id}/run", answer, methods=["POST"])])) as client:
        assert (await client.post("/agents/a/run")).status_code == 200
    assert tried == ["/{any}/c"]


def test_the_run_endpoint_of_ag_ui_is_tried_first(tmp_path: Path) -> None:
    routes = application_of(tmp_path).starlette.routes
    assert isinstance(routes[0], Route)
    assert routes[0].path == "/agents/{agent_id}/run"
