"""A span for each request: put around the application where traces are collected.

Below: traces. Above: the composition root. https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias

from gateway.traces import Attributes, Span, Tracer, error_type
from gateway.wire.mounts import below_mount

# As ASGI has them.
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
_LONGEST_PATH = 500


class TracedRequests:
    """An ASGI application around another. A request's span ends with its answer, the span of a run that it began with
    the run.
    """

    def __init__(self, app: Asgi, tracer: Tracer, quiet_paths: Collection[str]) -> None:
        """`quiet_paths` have no spans: probes ask for them every few seconds."""
        self._app = app
        self._tracer = tracer
        self._quiet_paths = quiet_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("root_path"):
            scope = below_mount(scope)
        if scope["type"] != "http" or scope["path"] in self._quiet_paths:
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        span = self._tracer.begin_request(_name(method), _attributes(scope, method, headers), headers)
        scope.setdefault("state", {})["span"] = span
        status = 0

        def send_on(message: Message) -> Awaitable[None]:
            nonlocal status
            if not status and message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        error = ""
        try:
            with span.current():
                await self._app(scope, receive, send_on)
        except BaseException as raised:
            error = error_type(raised)
            raise
        finally:
            _end(span, scope, method, status, error)


def _attributes(scope: Scope, method: str, headers: dict[str, str]) -> Attributes:
    attributes: dict[str, str] = {
        "http.request.method": method,
        "url.path": scope["path"][:_LONGEST_PATH],
        "url.scheme": scope.get("scheme", "http"),
    }
    if agent := headers.get("user-agent"):
        attributes["user_agent.original"] = agent[:_LONGEST_PATH]
    return attributes


def _end(span: Span, scope: Scope, method: str, status: int, error: str) -> None:
    route = getattr(scope.get("route"), "path_format", "")
    if route:
        span.rename(_name(method, route))
        span.add({"http.route": route})
    if status:
        span.add({"http.response.status_code": status})
    if request_id := scope.get("state", {}).get("request_id"):
        span.add({"agui_gateway.request_id": request_id})
    span.end(error or (str(status) if status >= 500 else ""))


def _name(method: str, route: str = "") -> str:
    return f"{'HTTP' if method == '_OTHER' else method} {route}".rstrip()
