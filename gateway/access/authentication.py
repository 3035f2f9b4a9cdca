"""The access middleware: checks key, origin, host and body of each request, and adds headers to every answer.

Below: problems. Above: the application, which gives the settings' values and puts `AccessMiddleware` around its routes.
Pure ASGI: only the start of a response is changed, so a stream's chunks cost one plain function call each.

With configured keys a request needs one, and its owner is the key's name. Each visitor of a website with a publishable
key is an owner of its own (see visitors). Without any key everybody is the owner `local`, and the origin of requests is
the protection: a website must not use a server on its visitor's machine. So a foreign Origin is refused, and so is a
Host that is neither a loopback name nor an address, because DNS rebinding can point a foreign website's own name here
(https://developer.mozilla.org/en-US/docs/Web/Security/Attacks).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access.api_keys import ApiKeys, basic_in
from gateway.access.callers import Caller, bearer_in
from gateway.access.compression import (
    as_unpacked,
    encoding_of,
    may_be_packed,
    send_packed,
    takes_gzip,
    unpacked,
    with_vary,
)
from gateway.access.limits import ONLY_READS, UNREAD, KeyLimits
from gateway.access.origins import Origins, RequestHeaders, foreign_origin
from gateway.access.visitors import Visitors, is_visitors
from gateway.agent import Secret
from gateway.errors import (
    ForbiddenError,
    GatewayError,
    TooLargeError,
    TooManyRequestsError,
    UnsupportedMediaTypeError,
)
from gateway.problems import ErrorForm, Problem, http_problem, internal_problem, problem_json, problem_of
from gateway.wire.mounts import below_mount

logger = logging.getLogger(__name__)

ADDED_HEADERS: Final = frozenset(
    {
        "access-control-allow-origin",
        "access-control-expose-headers",
        "vary",
        "x-content-type-options",
        "x-request-id",
    }
)
"""The headers that the middleware adds to answers."""

_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_HEADERS = ("accept", "authorization", "cache-control", "content-type", "last-event-id", "x-request-id")
_PREFLIGHT_SECONDS = "600"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}\Z")
_JSON_TYPE = re.compile(r"application/([a-z0-9!#$&^_.-]+\+)?json\Z")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LARGE_ANSWER = 262_144  # bytes; smaller ones are always given
_UNREAD_SECONDS = 5
_REFUSED_STATUSES = frozenset({401, 403, 413, 429})
# How long the body of a refused request is still read: a client that sees the connection close while it writes may not
# read the answer.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 64_000_000
_LOGGED_CHARACTERS = 500  # of a path, which may be as long as a request's head


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The middleware's settings.

    `keys` are (owner, key), `key_limits` by owner; `approvers` are the owners that may approve, `administrators` those
    that may change settings. `allowed_hosts` are host names besides loopback ones. `open_paths` need no key and any
    origin may use them: health, the page and its assets; a path that ends with `/` includes everything below it. On
    `basic_paths` a key may also be sent as the password of its owner (Basic). On `document_paths` a request for JSON
    (see `asks_for_json`) needs a key, though they are open. `quiet_paths` are logged only at DEBUG, since probes ask
    for them every few seconds.
    """

    keys: Sequence[tuple[str, Secret]] = ()
    key_limits: Mapping[str, KeyLimits] = field(default_factory=dict)
    approvers: Collection[str] = ()
    administrators: Collection[str] = ()
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    open_paths: Sequence[str] = ()
    basic_paths: Sequence[str] = ()
    document_paths: Collection[str] = ()
    quiet_paths: Sequence[str] = ()
    max_body_bytes: int = 10_000_000
    max_body_seconds: float = 120.0
    max_unread_bytes: int = 32_000_000


class AccessMiddleware:
    """An ASGI application around another. It puts `request_id` into `scope["state"]`; also `caller` and `owner`, except
    on open paths; and `key_name` if a publishable key was sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        rules: AccessRules,
        *,
        visitors: Visitors | None = None,
        on_refused: Callable[[str, str], None] = lambda code, key_name: None,
        error_form: Callable[[Scope], ErrorForm] = lambda scope: problem_json,
    ) -> None:
        """`visitors` checks publishable keys and visitors' tokens. `on_refused` gets the problem's code and the key's
        name. `error_form` gives the error format for a request.
        """
        self._app = app
        self._max_body_bytes = rules.max_body_bytes
        self._max_body_seconds = rules.max_body_seconds
        self._max_unread_bytes = rules.max_unread_bytes
        self._visitors = visitors
        self._on_refused = on_refused
        self._error_form = error_form
        self._keys = ApiKeys(rules.keys, rules.key_limits, rules.approvers, rules.administrators)
        self._origins = Origins(rules.cors_origins, rules.allowed_hosts, visitors.origins if visitors else ())
        self._is_public = not rules.keys and visitors is None
        self._checks_host = self._is_public or bool(rules.allowed_hosts)
        self._open_paths = Paths(rules.open_paths)
        self._basic_paths = Paths(rules.basic_paths)
        self._document_paths = frozenset(rules.document_paths)
        self._quiet_paths = Paths(rules.quiet_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope.get("root_path") or not scope.get("raw_path"):
                scope = below_mount(scope)
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # the gateway has no WebSockets
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        state = scope.setdefault("state", {})
        state["max_body_seconds"] = self._max_body_seconds
        state["request_id"] = request_id = _request_id(headers.get("x-request-id"))
        bearer = bearer_in(headers.get("authorization"))
        for_visitor = self._visitors is not None and (not bearer or is_visitors(bearer))
        cors_headers = self._origins.headers_for(headers, for_visitor=for_visitor)
        answer = _ResponseHeaders(send, request_id, cors_headers, packs=takes_gzip(headers.get("accept-encoding", "")))
        begun = time.perf_counter()
        try:
            preflight = self._admit(scope, headers, bearer)
            if preflight is not None:
                await preflight(scope, receive, answer.send)
            else:
                answer.check = partial(self._check_unread, scope)
                await self._app(*self._checked_body(scope, receive, headers), answer.send)
        except GatewayError as error:
            if not answer.status:
                await self._refuse(error, scope, receive, answer.send)
            else:
                logger.exception("a request failed after its answer had begun", extra=_fields(scope))
        except HTTPException as error:
            await self._response_for(http_problem(error, scope), scope)(scope, receive, answer.send)
        except ClientDisconnect:  # before its body was complete: there is nobody to answer
            logger.info("a client left before its request was whole", extra=_fields(scope))
        except Exception:
            # The server cuts off an answer that has begun.
            logger.exception("a request failed", extra=_fields(scope))
            if not answer.status:
                await self._response_for(internal_problem(scope), scope)(scope, receive, answer.send)
        finally:
            self._log(scope, answer.status, time.perf_counter() - begun)

    def _admit(self, scope: Scope, headers: RequestHeaders, bearer: str) -> Response | None:
        """None if the request is admitted, or the answer to a preflight.

        Raises:
            InvalidRequestError: it is refused.
        """
        is_open = scope["path"] in self._open_paths and not (
            scope["path"] in self._document_paths and asks_for_json(headers)
        )
        origin = headers.get("origin")
        if self._checks_host and not is_open:
            self._origins.check_host(headers.get("host", ""))
        if scope["method"] == "OPTIONS" and origin and "access-control-request-method" in headers:
            return self._preflight(headers)
        if is_open:
            return None
        if self._is_public:
            self._origins.check(headers)
        state = scope["state"]
        if self._visitors is not None and is_visitors(bearer):
            caller = self._visitor(self._visitors, scope, headers, bearer)
        elif not self._is_public and not bearer and scope["path"] in self._basic_paths:
            caller = self._by_password(headers)
        else:
            caller = self._keys.caller(bearer, needed=not self._is_public)
        state["caller"], state["owner"] = caller, caller.owner
        return None

    def _by_password(self, headers: RequestHeaders) -> Caller:
        # Browsers send a password that they were once given by themselves, also for another website's page.
        if "authorization" in headers:
            self._origins.check(headers, visitors=False)
        return self._keys.caller_by_password(basic_in(headers.get("authorization")))

    def _visitor(self, visitors: Visitors, scope: Scope, headers: RequestHeaders, bearer: str) -> Caller:
        key, token = visitors.identify(bearer)
        scope["state"]["key_name"] = key.name
        address, _ = scope.get("client") or ("", 0)
        visitors.note_proxy(headers, address)
        return visitors.caller(key, token, headers, address)

    def _checked_body(self, scope: Scope, receive: Receive, headers: RequestHeaders) -> tuple[Scope, Receive]:
        """The `scope` and the `receive` for the application.

        Raises:
            InvalidRequestError: the headers say that the body is too large, or not JSON, or packed in an unknown way.
        """
        most = self._max_body_bytes
        caller: Caller | None = scope["state"].get("caller")
        if caller is not None and caller.limits.max_body_bytes is not None:
            most = min(most, caller.limits.max_body_bytes)
        encoding = None
        if has_body(headers):
            _check_length(headers, most)
            if scope["method"] in _WITH_BODY:
                check_json(headers)
            encoding = encoding_of(headers)
        receive = _limited(receive, headers, most)
        if encoding is None:
            return scope, receive
        return as_unpacked(scope), unpacked(receive, encoding, most, _too_large)

    async def _refuse(self, error: GatewayError, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        if error.status in _REFUSED_STATUSES or error.code == "overloaded":
            caller: Caller | None = state.get("caller")
            self._on_refused(error.code, state.get("key_name", "") if caller is None else caller.key_name)
        response = self._response_for(problem_of(error), scope)
        if isinstance(error, TooLargeError) and error.code == TooLargeError.default_code:
            await _respond_and_cut(response, receive, send)
        else:
            await response(scope, receive, send)

    def _response_for(self, problem: Problem, scope: Scope) -> Response:
        try:
            return _with_headers(self._error_form(scope)(problem, scope), problem)
        except Exception:
            logger.exception("a protocol could not tell an error", extra=_fields(scope) | {"code": problem.code})
            return _with_headers(problem_json(internal_problem(scope), scope), problem)

    def _check_unread(self, scope: Scope, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Refuse a request for a large answer while the caller's clients leave others unread: those take memory.

        Raises:
            TooManyRequestsError: too many bytes are unread.
        """
        only_reads = scope["state"].get(ONLY_READS, False)
        if not (only_reads or scope["method"] == "GET"):  # what it did is done, and would not be known
            return
        found = next((value for name, value in headers if name == b"content-length"), None)
        # a stream that only reads begins with what there is, and nobody knows yet how much that is
        length = int(found) if found is not None else _LARGE_ANSWER + 1 if only_reads else 0
        unread, caller = scope.get("extensions", {}).get(UNREAD), scope["state"].get("caller")
        if caller is None or unread is None or length <= _LARGE_ANSWER:
            return
        waiting = unread["of"](caller.owner)
        if waiting and waiting + length > self._max_unread_bytes:
            raise TooManyRequestsError(
                f"{waiting:,} bytes of answers to you have not been read yet, and with this one they would be more than"
                f" {self._max_unread_bytes:,} (server.max_unread_bytes); read them first",
                code="limit_unread_bytes",
                retry_after_seconds=_UNREAD_SECONDS,
            )

    def _preflight(self, headers: RequestHeaders) -> Response:
        if not self._origins.allows(headers):
            raise ForbiddenError(foreign_origin(headers["origin"]), code="origin_not_allowed")
        # An allowed origin is trusted fully: any header is allowed.
        asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
        names = dict.fromkeys((*_HEADERS, *(name for name in asked[:64] if _HEADER_NAME.match(name))))
        answer = {
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": ", ".join(names),
            "access-control-max-age": _PREFLIGHT_SECONDS,
        }
        if headers.get("access-control-request-private-network") == "true":
            answer["access-control-allow-private-network"] = "true"
        return Response(status_code=204, headers=answer)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        level = logging.DEBUG if scope["path"] in self._quiet_paths else logging.INFO
        if logger.isEnabledFor(level):
            extra = _fields(scope) | {"status": status, "seconds": round(seconds, 4)}
            logger.log(level, "request", extra=extra)


class Paths:
    """A set of paths; one that ends with `/` stands for everything below it, and `{...}` for any part between two."""

    def __init__(self, paths: Iterable[str]) -> None:
        paths = tuple(paths)
        self._exact = frozenset(paths)
        self._below = tuple(path for path in paths if path.endswith("/") and path != "/")
        patterns = [re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) for path in paths if "{" in path]
        self._like = re.compile("|".join(patterns)) if patterns else None

    def __contains__(self, path: str) -> bool:
        if path in self._exact or path.startswith(self._below):
            return True
        return self._like is not None and self._like.fullmatch(path) is not None


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a request's headers announce a body."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def asks_for_json(headers: Mapping[str, str]) -> bool:
    """Whether a client wants JSON where browsers get a page. OpenSearch's clients name no type that they accept, and
    say `Content-Type: application/json` even without a body.
    """
    wanted = headers.get("accept") or headers.get("content-type", "")
    return "json" in wanted and "html" not in wanted


def _check_length(headers: RequestHeaders, max_body_bytes: int) -> None:
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:32]) > max_body_bytes:
        raise _too_large(max_body_bytes)


def check_json(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not JSON by its headers. Raises UnsupportedMediaTypeError."""
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    if not _JSON_TYPE.match(media_type.strip().lower()):
        # A website could send any other type without a preflight (a form, text/plain).
        raise UnsupportedMediaTypeError("the body must be JSON: send 'Content-Type: application/json'")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters.lower())
    if charset is not None and charset[1] not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaTypeError("JSON is UTF-8: send 'Content-Type: application/json' without another charset")


def _too_large(max_body_bytes: int) -> TooLargeError:
    what = f"the body is larger than {max_body_bytes:,} bytes"
    return TooLargeError(f"{what}; send less, or raise max_body_bytes of the key or the server")


def _limited(receive: Receive, headers: RequestHeaders, max_body_bytes: int) -> Receive:
    """A `receive` that counts bytes if no length was announced. The server enforces an announced one."""
    if "transfer-encoding" not in headers:
        return receive
    received = 0

    async def receive_counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_body_bytes:
            raise _too_large(max_body_bytes)
        return message

    return receive_counted


def _with_headers(response: Response, problem: Problem) -> Response:
    for name, value in problem.headers.items():
        response.headers.setdefault(name, value)
    return response


async def _respond_and_cut(response: Response, receive: Receive, send: Send) -> None:
    """Answer while the body still arrives, then let the server cut the connection: a body is not read for ever."""
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    left = _LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (message := await receive()).get("more_body"):
                left -= len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})


class _ResponseHeaders:
    """Adds the headers that every answer has, and packs its body where the client takes that."""

    __slots__ = ("_cors_headers", "_headers", "_packs", "_send", "_start", "check", "status")

    def __init__(self, send: Send, request_id: str, cors_headers: list[tuple[bytes, bytes]], *, packs: bool) -> None:
        self._send = send
        self._headers = [(b"x-request-id", request_id.encode("ascii")), (b"x-content-type-options", b"nosniff")]
        self._cors_headers = cors_headers
        self._packs = packs
        self._start: Message | None = None  # of an answer that is packed, until its body is there
        self.status = 0  # until the answer has begun
        # may refuse an answer by its headers
        self.check: Callable[[Sequence[tuple[bytes, bytes]]], None] | None = None

    def send(self, message: Message) -> Awaitable[None]:
        # Not a coroutine: a stream's chunk costs this one comparison.
        if not self.status and message["type"] == "http.response.start":
            if self.check is not None:
                self.check(message.get("headers", ()))
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self._headers]
            # the response allows every origin itself, and browsers accept that header only once
            if self._cors_headers and not any(name == b"access-control-allow-origin" for name, _ in headers):
                headers += self._cors_headers
            message["headers"] = headers
            if may_be_packed(headers):
                message = with_vary(message)
                if self._packs:
                    self._start = message
                    return _nothing()
        elif self._start is not None:
            start, self._start = self._start, None
            return send_packed(start, message, self._send)
        return self._send(message)


async def _nothing() -> None:
    """Send nothing now: the message is sent later, with the next one."""


def _headers(scope: Scope) -> RequestHeaders:
    """All headers at once: looking each up in the raw list costs more than the rest of this module."""
    # of a repeated header the first one counts, as in the application behind the middleware
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _request_id(received: str | None) -> str:
    return received if received is not None and _REQUEST_ID.match(received) else os.urandom(16).hex()


def _fields(scope: Scope) -> dict[str, object]:
    state = scope["state"]
    path = scope["path"][:_LOGGED_CHARACTERS]
    fields = {"request_id": state["request_id"], "method": scope["method"], "path": path}
    return fields | ({"owner": state["owner"]} if "owner" in state else {})
