"""The door: who may ask, from where, with what; what every answer carries.

Below: problems, settings' values are given. Above: the application, which puts `Door` around its routes. Pure ASGI: on
the way out only the response's start is touched, so a stream's chunks cost one plain function call each.

With keys configured a request needs one, and its owner is the key's name. Without keys everybody is the owner `local`,
and what protects the gateway is where requests come from: a website may not drive a server on its visitor's machine, so
a foreign Origin is refused, and so is a Host that is neither a loopback name nor an address, because DNS rebinding
makes a foreign website's own name lead here (https://developer.mozilla.org/en-US/docs/Web/Security/Attacks).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
import re
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.agent import Secret
from gateway.errors import (
    ForbiddenError,
    GatewayError,
    TooLargeError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
)
from gateway.problems import http_problem, internal_problem, problem

logger = logging.getLogger(__name__)

LOCAL_OWNER = "local"
RequestHeaders: TypeAlias = "Mapping[str, str]"  # names in lower case

_METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
_HEADERS = ("accept", "authorization", "cache-control", "content-type", "last-event-id", "x-request-id")
_EXPOSED = b"x-request-id, retry-after, www-authenticate"
_PREFLIGHT_SECONDS = "600"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}\Z")
_JSON_TYPE = re.compile(r"application/([a-z0-9!#$&^_.-]+\+)?json\Z")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class DoorRules:
    """What the door lets in.

    `keys` are (owner, key). `allowed_hosts` are host names besides loopback ones. `open_paths` need no key and may come
    from anywhere: health, the page and its assets; a path that ends with `/` opens everything below it. `quiet_paths`
    are logged at DEBUG only, since probes ask for them every few seconds.
    """

    keys: Sequence[tuple[str, Secret]] = ()
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    open_paths: Sequence[str] = ()
    quiet_paths: Sequence[str] = ()
    max_body_bytes: int = 10_000_000


class Door:
    """An ASGI application around another. `scope["state"]` gets `request_id`, and `owner` but on open paths."""

    def __init__(self, app: ASGIApp, rules: DoorRules) -> None:
        self._app = app
        self._max_body_bytes = rules.max_body_bytes
        self._owners = Owners(rules.keys)
        self._origins = Origins(rules.cors_origins, rules.allowed_hosts)
        self._checks_host = not rules.keys or bool(rules.allowed_hosts)
        self._checks_origin = not rules.keys
        self._open_paths = Paths(rules.open_paths)
        self._quiet_paths = Paths(rules.quiet_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # nothing is served over them
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = _request_id(headers.get("x-request-id"))
        answer = _Answer(send, request_id, self._origins.headers_for(headers))
        begun = time.perf_counter()
        try:
            refusal = self._admit(scope, headers)
            if refusal is not None:
                await refusal(scope, receive, answer.send)
            else:
                await self._app(scope, _limited(receive, headers, self._max_body_bytes), answer.send)
        except GatewayError as error:
            if not answer.status:
                await problem(error, scope)(scope, receive, answer.send)
            else:
                logger.exception("a request failed after its answer had begun", extra=_fields(scope))
        except HTTPException as error:
            await http_problem(error, scope)(scope, receive, answer.send)
        except ClientDisconnect:  # before its body was whole: there is nobody to answer
            logger.info("a client left before its request was whole", extra=_fields(scope))
        except Exception:
            # What is half sent, the server cuts off.
            logger.exception("a request failed", extra=_fields(scope))
            if not answer.status:
                await internal_problem(scope)(scope, receive, answer.send)
        finally:
            self._log(scope, answer.status, time.perf_counter() - begun)

    def _admit(self, scope: Scope, headers: RequestHeaders) -> Response | None:
        """None: come in. A response: the preflight's answer.

        Raises:
            InvalidRequestError: stay out.
        """
        is_open = scope["path"] in self._open_paths
        origin = headers.get("origin")
        if self._checks_host and not is_open:
            self._origins.check_host(headers.get("host", ""))
        if scope["method"] == "OPTIONS" and origin and "access-control-request-method" in headers:
            return self._preflight(headers)
        if self._checks_origin and not is_open:
            self._origins.check(headers)
        if not is_open:
            scope["state"]["owner"] = self._owners.owner(headers.get("authorization"))
        if scope["method"] in _WITH_BODY:
            _check_body(headers, self._max_body_bytes)
        return None

    def _preflight(self, headers: RequestHeaders) -> Response:
        if not self._origins.allows(headers):
            raise ForbiddenError(_foreign_origin(headers["origin"]), code="origin_not_allowed")
        # The page is trusted by its exact origin: which headers it adds is its own affair.
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
    """A set of paths; one that ends with `/` stands for everything below it."""

    def __init__(self, paths: Iterable[str]) -> None:
        paths = tuple(paths)
        self._exact = frozenset(paths)
        self._below = tuple(path for path in paths if path.endswith("/") and path != "/")

    def __contains__(self, path: str) -> bool:
        return path in self._exact or path.startswith(self._below)


class Owners:
    """Whose key it is. Keys are kept as hashes; all are compared, in a time that says nothing."""

    def __init__(self, keys: Iterable[tuple[str, Secret]]) -> None:
        self._digests = [(_digest(key.reveal()), name) for name, key in keys]

    def owner(self, authorization: str | None) -> str:
        """The name behind an `Authorization` header; `local` where no keys are configured.

        Raises:
            UnauthenticatedError: no key, or none that is known.
        """
        if not self._digests:
            return LOCAL_OWNER
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthenticatedError("a key is needed; send it as 'Authorization: Bearer <key>'")
        presented = _digest(token.strip())
        found = None
        for digest, name in self._digests:
            if hmac.compare_digest(digest, presented):
                found = name
        if found is None:
            raise UnauthenticatedError("this key is not known; send one of server.api_keys")
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Origins:
    """Which pages may use the gateway, and under which names it answers."""

    def __init__(self, cors_origins: Iterable[str], allowed_hosts: Iterable[str]) -> None:
        self._cors_origins = frozenset(cors_origins)
        self._hosts = frozenset(host.lower().rstrip(".") for host in allowed_hosts)

    def allows(self, headers: RequestHeaders) -> bool:
        """Whether the request's Origin is configured or the gateway's own."""
        origin = headers.get("origin", "")
        return origin in self._cors_origins or _is_same_origin(origin, headers.get("host", ""))

    def headers_for(self, headers: RequestHeaders) -> list[tuple[bytes, bytes]]:
        """The CORS headers of an answer; they go on every answer, errors too, or the page cannot read it."""
        if not self._cors_origins:
            return []
        vary = [(b"vary", b"Origin")]
        origin = headers.get("origin")
        if origin is None or origin not in self._cors_origins:
            return vary
        allow = (b"access-control-allow-origin", origin.encode("latin-1"))
        return [*vary, allow, (b"access-control-expose-headers", _EXPOSED)]

    def check(self, headers: RequestHeaders) -> None:
        """Refuse what a foreign website makes a browser send.

        Raises:
            ForbiddenError
        """
        origin = headers.get("origin")
        if origin is not None:
            if not self.allows(headers):
                raise ForbiddenError(_foreign_origin(origin), code="origin_not_allowed")
        elif _is_embedded(headers):
            raise ForbiddenError("another website's page asked for this", code="origin_not_allowed")

    def check_host(self, host: str) -> None:
        """Refuse names that somebody else may have pointed here.

        Raises:
            ForbiddenError
        """
        name = _host_name(host)
        if name is None or not (name in self._hosts or _is_own_name(name)):
            raise ForbiddenError(
                f"this gateway does not answer under the host name {host!r}; add it to server.allowed_hosts",
                code="host_not_allowed",
            )


def _is_embedded(headers: RequestHeaders) -> bool:
    """Whether a foreign page loads this as a picture or the like: browsers send no Origin then. A link is fine."""
    foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    return foreign and headers.get("sec-fetch-mode") != "navigate"


def _foreign_origin(origin: str) -> str:
    return f"pages of the origin {origin!r} may not use this gateway; add it to server.cors_origins"


def _is_same_origin(origin: str, host: str) -> bool:
    """Whether the page came from this very server. The scheme is not compared: a proxy may have taken TLS off."""
    scheme, separator, authority = origin.partition("://")
    if not separator or not authority or not host:
        return False
    port = {"http": ":80", "https": ":443"}.get(scheme)
    if port is None:
        return False
    return authority.lower().removesuffix(port) == host.lower().removesuffix(port)


def _host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None where it is no valid one."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host or parts.hostname is None:
        return None
    return parts.hostname.rstrip(".")


def _is_own_name(name: str) -> bool:
    # An address in Host was typed or linked as such: rebinding needs a name of the attacker's.
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_body(headers: RequestHeaders, max_body_bytes: int) -> None:
    length = headers.get("content-length")
    if length is not None and length.isascii() and length.isdigit() and int(length[:32]) > max_body_bytes:
        raise _too_large(max_body_bytes)
    has_body = "transfer-encoding" in headers or (length or "0").strip("0") != ""
    if not has_body:
        return
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    if not _JSON_TYPE.match(media_type.strip().lower()):
        # Anything else a website could send without asking first (a form, text/plain).
        raise UnsupportedMediaTypeError("the body must be JSON: send 'Content-Type: application/json'")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters.lower())
    if charset is not None and charset[1] not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaTypeError("JSON is UTF-8: send 'Content-Type: application/json' without another charset")


def _too_large(max_body_bytes: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {max_body_bytes:,} bytes; send less, or raise server.max_body_bytes")


def _limited(receive: Receive, headers: RequestHeaders, max_body_bytes: int) -> Receive:
    """`receive`, counting where no length was announced. Where it was, the server holds the client to it."""
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


class _Answer:
    """The way out: adds the headers that every answer has, then is out of the way."""

    __slots__ = ("_cors_headers", "_headers", "_send", "status")

    def __init__(self, send: Send, request_id: str, cors_headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = [(b"x-request-id", request_id.encode("ascii")), (b"x-content-type-options", b"nosniff")]
        self._cors_headers = cors_headers
        self.status = 0  # until the answer has begun

    def send(self, message: Message) -> Awaitable[None]:
        # No coroutine of its own: a stream's chunk passes for the price of this comparison.
        if not self.status and message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self._headers]
            # what is for every origin says so itself, and browsers take that header only once
            if self._cors_headers and not any(name == b"access-control-allow-origin" for name, _ in headers):
                headers += self._cors_headers
            message["headers"] = headers
        return self._send(message)


def _headers(scope: Scope) -> RequestHeaders:
    """All at once: looking each up in the raw list costs more than the rest of the door."""
    # of a repeated header the first one counts, as it does for the application behind the door
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _request_id(received: str | None) -> str:
    return received if received is not None and _REQUEST_ID.match(received) else os.urandom(16).hex()


def _fields(scope: Scope) -> dict[str, object]:
    state = scope["state"]
    fields = {"request_id": state["request_id"], "method": scope["method"], "path": scope["path"]}
    return fields | ({"owner": state["owner"]} if "owner" in state else {})
