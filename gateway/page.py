"""The built page, the sample shop and the widget: read once at start, served from memory.

Above: the application. Below: errors. `make page` builds them from `web-demo/`, and this package contains the result in
`page_files/`: HTML files, `assets/` whose names contain a hash of their content, `widget.js`, and in `widget/` and
`texts/` the scripts and texts that the widget loads when it needs them.

The served paths are a table that is made at start, so no request reaches the file system. Without a built page the
gateway serves everything else, and says at `/` that the page is missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.access.authentication import asks_for_json
from gateway.errors import NotFoundError
from gateway.messages import JsonObject
from gateway.problems import shown_path

WIDGET_PATH = "/widget.js"
SHOP_PATH = "/shop"
_ASSETS = "assets/"
_BESIDE_WIDGET = ("texts/", "widget/")  # the widget loads these on other sites: texts by language, rare scripts
_ICON_PATH = "/favicon.ico"

_CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "jpg": "image/jpeg",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "md": "text/plain; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff2": "font/woff2",
}
_ENCODINGS = {"br": ".br", "gzip": ".gz"}  # best first; the build writes the compressed files

_NO_WEIGHT = re.compile(r"q=0(\.0*)?")
_POLICY_NAME = "content-security-policy"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:;"
    " media-src data: blob:; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HTML_HEADERS = {
    "cache-control": "no-cache",
    _POLICY_NAME: _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
_ASSET_HEADERS = {
    "cache-control": "public, max-age=31536000, immutable",  # changed content has a new name
    _POLICY_NAME: _POLICY,  # an SVG that is opened by itself is a document
    "cross-origin-resource-policy": "same-origin",
}
_WIDGET_HEADERS = {
    "access-control-allow-origin": "*",  # browsers always load a module of another origin with CORS
    # Sites keep the tag for years: its script changes with the gateway, within minutes.
    "cache-control": "public, max-age=300, stale-while-revalidate=3600",
    "cross-origin-resource-policy": "cross-origin",
}
_OTHER_HEADERS = {**_ASSET_HEADERS, "cache-control": "public, max-age=3600"}

NOT_BUILT = "the page is not built; 'make page' in a checkout of the source builds it (it needs Node.js)"
_NOT_BUILT_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>agui-gateway</title>
</head>
<body>
<main>
<h1>The gateway works, but its page is not built</h1>
<p>The page, the sample shop and the widget are made from <code>web-demo/</code>. In a checkout of the source:</p>
<pre>make page</pre>
<p>It takes the system's Node.js (20.19, 22.12 or newer), or else one from PyPI, and says why it fails if it does.
Then start the gateway again. <code>make run</code> does both.</p>
<p>Everything else is served: <a href="docs">the API's description</a>.</p>
</main>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file with its headers and its compressed forms by encoding, best first."""

    content: bytes
    compressed: Mapping[str, bytes]
    digest: str
    headers: Mapping[str, str]

    def response(self, request: Request) -> Response:
        """The file in the best encoding that the client accepts; 304 if the client has it."""
        headers = dict(self.headers)
        body, tag = self.content, self.digest
        if self.compressed:
            headers["vary"] = "Accept-Encoding"
        taken = _encodings_taken(request.headers.get("accept-encoding", ""))
        encoding = next((name for name in self.compressed if name in taken), None)
        if encoding is not None:
            body, tag = self.compressed[encoding], f"{self.digest}-{encoding}"
            headers["content-encoding"] = encoding
        headers["etag"] = f'"{tag}"'
        if _has(headers["etag"], request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=_without_content(headers))
        return Response(body, headers=headers)


@dataclass(frozen=True, slots=True)
class WebPage:
    """Everything served to browsers: `files` by their paths."""

    files: Mapping[str, PageFile]

    @property
    def is_built(self) -> bool:
        return "/" in self.files

    @property
    def open_paths(self) -> Sequence[str]:
        """The paths that need no key and allow any origin, since they hold no secret."""
        return ["/", SHOP_PATH, WIDGET_PATH, _ICON_PATH, f"/{_ASSETS}", *self.files]

    def routes(self, root: JsonObject | None = None) -> Sequence[Route]:
        """A route for each file, but one for all assets. `root` is shown in the place of the page at `/` to a client
        that asks for JSON.
        """
        single = [path for path in self.files if not path.startswith(f"/{_ASSETS}")]
        routes = [Route(path, self._file) for path in single] + [Route(f"/{_ASSETS}{{name:path}}", self._file)]
        absent = {"/": _not_built, SHOP_PATH: _not_built, WIDGET_PATH: _no_widget, _ICON_PATH: _no_icon}
        routes += [Route(path, endpoint) for path, endpoint in absent.items() if path not in self.files]
        return [_with_document(route, root) if route.path == "/" and root is not None else route for route in routes]

    async def _file(self, request: Request) -> Response:
        file = self.files.get(request.scope["path"])
        if file is None:
            raise NotFoundError(
                f"there is no file {shown_path(request.scope)}; it may be of an older page: load the page again"
            )
        return file.response(request)


def read_page(directory: Traversable | None = None) -> WebPage:
    """Read a built page, by default the package's own; without files if there is none."""
    root = files("gateway").joinpath("page_files") if directory is None else directory
    found: dict[str, PageFile] = {}
    if root.is_dir():
        contents = {name: file.read_bytes() for name, file in _walk(root, "")}
        for name in contents:
            file = _page_file(name, contents)
            found |= dict.fromkeys(_paths(name), file) if file else {}
    return WebPage(found)


def page_is_built() -> bool:
    """Whether the package contains a built page."""
    return files("gateway").joinpath("page_files", "index.html").is_file()


def _walk(directory: Traversable, prefix: str) -> Sequence[tuple[str, Traversable]]:
    """All files that are not hidden, by their names from the root, sorted."""
    found: list[tuple[str, Traversable]] = []
    for each in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if each.name.startswith("."):
            continue
        if each.is_dir():
            found += _walk(each, f"{prefix}{each.name}/")
        else:
            found.append((f"{prefix}{each.name}", each))
    return found


def _paths(name: str) -> Sequence[str]:
    """The paths of a file: a document is also served without its ending, `index.html` at the root."""
    if name == "index.html":
        return ["/"]
    return [f"/{name.removesuffix('.html')}", f"/{name}"] if name.endswith(".html") else [f"/{name}"]


def _page_file(name: str, contents: Mapping[str, bytes]) -> PageFile | None:
    """A file; None if its kind is not served."""
    content_type = _CONTENT_TYPES.get(name.rpartition(".")[2])
    if content_type is None:
        return None
    content = contents[name]
    compressed = {
        encoding: contents[name + ending] for encoding, ending in _ENCODINGS.items() if name + ending in contents
    }
    digest = hashlib.sha256(content).hexdigest()[:32]
    return PageFile(content, compressed, digest, {"content-type": content_type, **_headers(name)})


def _headers(name: str) -> Mapping[str, str]:
    if name.endswith(".html"):
        return _HTML_HEADERS
    if f"/{name}" == WIDGET_PATH or name.startswith(_BESIDE_WIDGET):
        return _WIDGET_HEADERS
    return _ASSET_HEADERS if name.startswith(_ASSETS) else _OTHER_HEADERS


def _encodings_taken(accept_encoding: str) -> frozenset[str]:
    """https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3, without `*`: clients that accept these encodings name
    them.
    """
    codings = (coding.replace(" ", "").partition(";") for coding in accept_encoding.lower().split(","))
    return frozenset(name for name, _, weight in codings if not _NO_WEIGHT.fullmatch(weight))


def _has(tag: str, if_none_match: str) -> bool:
    """A weak comparison: a proxy that compresses makes a tag weak."""
    known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return tag in known or "*" in known


def _without_content(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not name.startswith("content-") or name == _POLICY_NAME}


def _with_document(route: Route, document: JsonObject) -> Route:
    async def page_or_document(request: Request) -> Response:
        if asks_for_json(request.headers):
            return JSONResponse(document, headers={"cache-control": "no-store"})
        response: Response = await route.endpoint(request)
        return response

    return Route(route.path, page_or_document)


async def _not_built(request: Request) -> Response:
    return Response(_NOT_BUILT_PAGE, 503, {**_HTML_HEADERS, "cache-control": "no-store"}, "text/html")


async def _no_widget(request: Request) -> Response:
    raise NotFoundError(f"there is no widget here: {NOT_BUILT}", code="page_not_built")


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204, headers={"cache-control": "max-age=86400"})
