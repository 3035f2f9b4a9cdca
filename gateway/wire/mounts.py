"""A request to an application that is mounted below a prefix, as the application alone would get it.

Below: the standard library. https://asgi.readthedocs.io/en/latest/specs/www.html#http-connection-scope
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


def below_mount(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The scope without the prefix, `root_path`, with a fresh `state` and no `path_params`, since these are the host's.
    `app_root_path` has the prefix, so that starlette's `base_url` is the application's.
    """
    root: str = scope.get("root_path", "").rstrip("/")
    path: str = scope["path"]
    raw_path: bytes = scope.get("raw_path") or quote(path).encode()
    raw_root = next((each for each in (root.encode(), quote(root).encode()) if raw_path.startswith(each + b"/")), b"")
    if root and path.startswith(f"{root}/"):
        path = path[len(root) :]
        raw_path = raw_path[len(raw_root) :] if raw_root else quote(path).encode()
    own = {"path": path, "raw_path": raw_path, "root_path": "", "app_root_path": root, "path_params": {}, "state": {}}
    return {**scope, **own}


def prefixed_redirects(root: str, send: Send) -> Send:
    """The `send` for a request to an application below `root`. It puts `root` in front of the paths to which starlette
    redirects, from a path with a last slash to the one without, or back.
    """

    async def prefixed(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 307:
            headers = [(name, below(value) if name == b"location" else value) for name, value in message["headers"]]
            message = {**message, "headers": headers}
        await send(message)

    def below(location: bytes) -> bytes:
        url = urlsplit(location.decode("latin-1"))
        return url._replace(path=quote(root) + url.path).geturl().encode("latin-1")

    return prefixed
