"""Serves the gateway's own documentation: the document, and the page that shows it.

Below: page. Above: the composition root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.messages import JsonObject
from gateway.openapi.page import render_page

_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def docs_routes(document: Callable[[], JsonObject]) -> Sequence[Route]:
    """`/openapi.json` and `/docs` with its stylesheet, for the OpenAPI document that the function gives."""
    # few gateways are ever asked for it, and rendering it takes as long as much else of a start
    page = cache(lambda: render_page(document(), stylesheet="docs/style.css"))
    style = files("gateway.openapi").joinpath("page.css").read_text(encoding="utf-8")

    async def serve_document(request: Request) -> Response:
        shown, prefix = document(), request.scope.get("app_root_path")  # see wire.mounts
        if prefix:
            shown = {**shown, "servers": [{"url": prefix}]}
        return JSONResponse(shown, headers={"cache-control": "no-cache"})

    async def serve_page(request: Request) -> Response:
        return Response(page(), media_type="text/html", headers=_PAGE_HEADERS)

    async def serve_style(request: Request) -> Response:
        return Response(style, media_type="text/css", headers={"cache-control": "no-cache"})

    return [
        Route("/openapi.json", serve_document),
        Route("/docs", serve_page),
        Route("/docs/style.css", serve_style),
    ]
