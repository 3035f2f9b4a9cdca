"""What a wire protocol is to the application: a name and the routes it serves.

Below: the runner. A protocol parses requests into AgentInput (pure), asks the runner, and renders events (pure).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from gateway.access.callers import Caller
from gateway.access.limits import Meter, Release
from gateway.access.visitors import Visitors
from gateway.errors import ForbiddenError, InvalidRequestError, TooLargeError
from gateway.messages import JsonValue
from gateway.metrics import Metrics
from gateway.open_agent import OpenAgent, no_agent
from gateway.runner import Admission, Runner
from gateway.sse import OpenStreams
from gateway.wire import strict_json

# How long a body may pause, and take in all; the network's time, not the clock's.
BODY_PAUSE_SECONDS = 30.0
LONGEST_BODY_SECONDS = 300.0
_PAGE = 50
_MAX_PAGE = 500
_SLASH = "\0"  # in no id: they have no control characters


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the application lends to a protocol."""

    runner: Runner
    metrics: Metrics
    streams: OpenStreams
    configured_url: str | None = None
    runs: Meter | None = None
    visitors: Visitors | None = None
    open_to_all: bool = False
    """Whether strangers may be among the callers without a key."""

    def is_operators(self, caller: Caller) -> bool:
        """Whether the caller may know why a model failed: who has an API key, or is alone with a gateway without."""
        return not caller.is_visitor and (bool(caller.key_name) or not self.open_to_all)

    def public_url(self, request: Request) -> str:
        """The address under which the caller reaches the gateway, without a slash at the end."""
        return (self.configured_url or str(request.base_url)).rstrip("/")

    def agent(self, caller: Caller, agent_id: str) -> OpenAgent:
        """The agent of that id. Raises NotFoundError, also where it is not there for this caller."""
        if not caller.may_use(agent_id):
            raise no_agent(agent_id)
        return self.runner.agent(agent_id)

    def admission(self, caller: Caller) -> Admission | None:
        """What Runner.start asks before a new run of this caller; None where nothing is counted."""
        meter, quotas = self.runs, caller.run_quotas()
        if meter is None or not (quotas or meter.bounded):
            return None

        def admit() -> Release:
            return meter.begin(quotas)

        return admit


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A part: `routes(gateway)` gives what the protocol serves."""

    name: str
    routes: Callable[[Gateway], Sequence[BaseRoute]]


class VisitorRoute(Route):
    """A route that visitors of websites may use too: it shows the caller's own threads, runs and agents alone.

    All others are closed to them, also those of protocols that know nothing of visitors. No id in its path is empty.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return (match, found) if match is Match.NONE or all(found["path_params"].values()) else (Match.NONE, {})


def check_open_to_visitors(routes: Sequence[BaseRoute], scope: Scope) -> None:
    """Refuse what no VisitorRoute serves; what nothing serves is left to the router.

    Raises:
        ForbiddenError
    """
    for route in routes:
        if route.matches(scope)[0] is Match.FULL:
            if not isinstance(route, VisitorRoute):
                raise ForbiddenError("this is not for the visitors of a website", code="not_for_visitors")
            return


class Endpoint:
    """A function from a request to its response as an ASGI application, to be a route's endpoint.

    Starlette wraps functions in its own handling of exceptions, which every chunk of a stream then passes; the door
    answers for exceptions here.
    """

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)


def caller_of(request: Request) -> Caller:
    """Who asks, as the door found it."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def owner_of(request: Request) -> str:
    """Whose threads and runs the caller's are."""
    owner: str = request.scope["state"]["owner"]
    return owner


def path_id(request: Request, name: str) -> str:
    """An id from the path. Ids are any text, so a `/` in one arrives as itself."""
    value: str = request.path_params[name]
    return value.replace(_SLASH, "/")


def path_with_marked_slashes(raw_path: bytes) -> str:
    """The path with the slashes in it that were sent as `%2F`: these part nothing, and stand for themselves in an id.

    Otherwise nobody could ask for the run `a/events`: servers decode a path before it is taken apart.
    """
    parts = (unquote(part.decode("ascii", "replace")) for part in raw_path.split(b"/"))
    # a NUL that was sent is no slash, and in no id either
    return "/".join(part.replace(_SLASH, "\ufffd").replace("/", _SLASH) for part in parts)


def page_asked(request: Request) -> tuple[int, str | None]:
    """How many of a list are asked for, and behind which cursor. Raises InvalidRequestError (400)."""
    text = request.query_params.get("limit", str(_PAGE))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _MAX_PAGE):
        raise InvalidRequestError(f"limit is {text[:64]!r}; it has to be a number from 1 to {_MAX_PAGE}", status=400)
    return int(text), request.query_params.get("cursor")


def time_text(seconds: float | None) -> str | None:
    """A time in Unix seconds as answers tell it (RFC 3339, UTC)."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_response(value: JsonValue, status: int = 200) -> Response:
    """A JSON answer that nobody may keep."""
    headers = {"cache-control": "no-store", "content-type": "application/json"}
    return Response(orjson.dumps(value), status, headers)


async def read_body(request: Request, *, max_bytes: int | None = None) -> bytes:
    """The request's body. `max_bytes`: where an endpoint takes less than the door lets through.

    Raises:
        InvalidRequestError: 408, it stopped coming: nobody may hold a request for ever.
        TooLargeError: it is larger than `max_bytes`.
        ClientDisconnect: nobody is left to answer.
    """
    size = 0
    loop = asyncio.get_running_loop()
    latest = loop.time() + LONGEST_BODY_SECONDS
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_PAUSE_SECONDS) as limit:
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                if max_bytes is not None and size > max_bytes:
                    raise TooLargeError(f"the body is larger than {max_bytes:,} bytes; send less")
                if not message.get("more_body", False):
                    break
                limit.reschedule(min(loop.time() + BODY_PAUSE_SECONDS, latest))
    except TimeoutError:
        raise InvalidRequestError("the body did not come in time", code="body_timeout", status=408) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_json(request: Request, *, max_bytes: int | None = None) -> JsonValue:
    """The request's body as read_body has it. Raises InvalidRequestError (400) where it is not strict JSON."""
    try:
        value: JsonValue = strict_json.load(await read_body(request, max_bytes=max_bytes))
    except strict_json.NotStrictJsonError as error:
        raise InvalidRequestError(f"the body is not strict JSON: {error}", code="invalid_json", status=400) from None
    return value
