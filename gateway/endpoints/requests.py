"""Reads what a request says: who asks, which page, ids in its path, its body.

Below: paths, callers, errors. Above: the protocols.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect, Request

from gateway.access.callers import Caller
from gateway.endpoints.paths import unmarked
from gateway.errors import InvalidRequestError, TooLargeError
from gateway.messages import JsonValue
from gateway.wire import strict_json

END_WITH_INPUT: Final = "agui_gateway.end_with_input"
"""The server's extension of a request's scope that `end_with_client` calls."""

_PAGE = 50
_MAX_PAGE = 500


def caller_of(request: Request) -> Caller:
    """The caller, whom the access middleware has identified."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def request_id_of(request: Request) -> str:
    """The request's id, which its answer carries too."""
    request_id: str = request.scope["state"]["request_id"]
    return request_id


def path_id(request: Request, name: str) -> str:
    """An id from the path. Ids are any text, so a `/` in one arrives unchanged."""
    return unmarked(request.path_params[name])


def page_asked(request: Request, *, usual: int = _PAGE) -> tuple[int, str | None]:
    """The requested length of a list, else the `usual` one, and its cursor. Raises InvalidRequestError (400)."""
    text = request.query_params.get("limit", str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _MAX_PAGE):
        raise InvalidRequestError(f"limit is {text[:64]!r}; it must be a number from 1 to {_MAX_PAGE}", status=400)
    return int(text), request.query_params.get("cursor")


def whole_number(text: str, *, most_digits: int = 15) -> int | None:
    """The number, from 0, that a text of a path, a query or a header is; None: it is none, or has too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most_digits else None


def end_with_client(request: Request) -> None:
    """Take a client that closes its sending side before its answer as one that has left: `request.receive` says so.

    Most who do that have left. The others, such as `nc -N`, get no answer.
    """
    if (extension := request.scope.get("extensions", {}).get(END_WITH_INPUT)) is not None:
        extension["ask"]()


@dataclass(frozen=True, slots=True)
class BodyTimes:
    """How long a body may pause, and take in all; in real time, not the clock's."""

    pause_seconds: float = 30.0
    longest_seconds: float = 300.0


async def read_body(request: Request, *, max_bytes: int | None = None, times: BodyTimes = BodyTimes()) -> bytes:
    """The request's body. `max_bytes`: if an endpoint takes less than the access middleware admits.

    Raises:
        InvalidRequestError: 408, it stopped arriving: a request may not stay open for ever.
        TooLargeError: it is larger than `max_bytes`.
        ClientDisconnect: there is nobody to answer.
    """
    size = 0
    loop = asyncio.get_running_loop()
    latest = loop.time() + times.longest_seconds
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(times.pause_seconds) as limit:
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
                limit.reschedule(min(loop.time() + times.pause_seconds, latest))
    except TimeoutError:
        raise InvalidRequestError(
            "the body did not arrive in time; send it without pauses", code="body_timeout", status=408
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_json(request: Request, *, max_bytes: int | None = None) -> JsonValue:
    """The request's body as parsed JSON, see read_body. Raises InvalidRequestError (400) if it is not strict JSON."""
    return parsed_json(await read_body(request, max_bytes=max_bytes))


def parsed_json(body: bytes) -> JsonValue:
    """A body as JSON. Raises InvalidRequestError (400) if it is not strict JSON."""
    try:
        value: JsonValue = strict_json.load(body)
    except strict_json.NotStrictJsonError as error:
        raise InvalidRequestError(f"the body is not strict JSON: {error}", code="invalid_json", status=400) from None
    return value
