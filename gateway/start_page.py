"""The page at `/`: a small chat that shows everything a run can show, in plain files without a build.

Above: the application. Nothing of ours is below. It speaks to the gateway as any front end does, over AG-UI.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE_PATHS = ("/", "/page/", "/favicon.ico")
"""What the page needs: open to everybody, since it holds no secret."""

_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def page_routes() -> Sequence[Route]:
    """`/` and its files."""
    return [
        _file("/", "index.html"),
        _file("/page/page.js", "page.js"),
        _file("/page/markdown.js", "markdown.js"),
        _file("/page/stream.js", "stream.js"),
        _file("/page/page.css", "page.css"),
        Route("/favicon.ico", _no_icon),
    ]


def _file(path: str, name: str) -> Route:
    content = files("gateway").joinpath("page_files", name).read_bytes()
    media_type = _TYPES[name.rpartition(".")[2]]

    async def serve(request: Request) -> Response:
        return Response(content, headers={**_HEADERS, "content-type": media_type})

    return Route(path, serve)


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204, headers={"cache-control": "max-age=86400"})
