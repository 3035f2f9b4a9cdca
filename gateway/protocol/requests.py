"""Reads a request: its caller, its page, the ids in its path, its body.

Below: paths, callers, errors. Above: the protocols.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect, Request

from gateway.access.callers import Caller
from gateway.access.limits import ONLY_READS
from gateway.errors import FieldProblem, InvalidRequestError, TooLargeError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.protocol.paths import unmarked
from gateway.protocol.time_sharing import TimeSharing
from gateway.wire import strict_json
from gateway.wire.large_json import MAX_VALUES, TooManyValuesError, load_in_steps

END_WITH_INPUT: Final = "agui_gateway.end_with_input"
"""The server's extension of a request's scope that `end_with_client` calls."""

_SMALL_BYTES = 64 * 1024  # are parsed and read in up to 10 ms, without waiting for a turn
_AT_ONCE_BYTES = 256 * 1024  # are parsed in up to 40 ms
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


def only_reads(request: Request) -> None:
    """Note that the request changes nothing, whatever its method."""
    request.scope["state"][ONLY_READS] = True


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


async def read_body(request: Request, *, max_bytes: int | None = None, pause_seconds: float = 30.0) -> bytes:
    """The request's body. `max_bytes`: if an endpoint takes less than the access middleware admits. `pause_seconds`:
    how long it may pause; how long it may take in all is the access middleware's rule. Both are real time, not the
    clock's.

    Raises:
        InvalidRequestError: 408, it did not arrive in time: a request may not stay open for ever.
        TooLargeError: it is larger than `max_bytes`.
        ClientDisconnect: there is nobody to answer.
    """
    size = 0
    loop = asyncio.get_running_loop()
    latest = loop.time() + request.scope["state"]["max_body_seconds"]
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout_at(min(loop.time() + pause_seconds, latest)) as limit:
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
                limit.reschedule(min(loop.time() + pause_seconds, latest))
    except TimeoutError:
        raise InvalidRequestError(
            "the body did not arrive in time; send it faster, without pauses, or raise server.max_body_seconds",
            code="body_timeout",
            status=408,
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_json(request: Request, *, max_bytes: int | None = None) -> JsonValue:
    """The request's body as parsed JSON. Raises as `read_body` and `parsed_json`."""
    return await json_of(request, await read_body(request, max_bytes=max_bytes))


def expect_object(body: JsonValue) -> JsonObject:
    """A body, if it is an object. Raises InvalidRequestError (400)."""
    if not isinstance(body, dict):
        raise InvalidRequestError(no_object(body), status=400)
    return body


def no_object(body: JsonValue) -> str:
    """The error of a body that is not an object."""
    return f"the body is {json_kind(body)}; it must be a JSON object"


async def json_of(request: Request, body: bytes) -> JsonValue:
    """The request's body, which was read, as parsed JSON. Raises as `parsed_json`."""
    state = request.scope["state"]
    return await parsed_json(body, state.get("owner", ""), state["time"])


async def parsed_json(body: bytes, owner: str, time: TimeSharing) -> JsonValue:
    """A body as JSON. A large one is parsed in steps, and read in a step of its own, so that it holds nobody up.

    Raises:
        InvalidRequestError: 400, it is not strict JSON; 413, it has too many values.
    """
    try:
        if len(body) <= _SMALL_BYTES:
            value: JsonValue = strict_json.load(body)
            return value
        return await loaded_json(body, owner, time)
    except strict_json.NotStrictJsonError as error:
        raise not_strict(error) from None


def not_strict(error: strict_json.NotStrictJsonError) -> InvalidRequestError:
    """The error of a body that is not strict JSON."""
    problems = [FieldProblem(pointer, "half a surrogate pair is not text") for pointer in error.pointers]
    return InvalidRequestError(
        f"the body is not strict JSON: {error}", code="invalid_json", status=400, problems=problems
    )


async def loaded_json(body: bytes, owner: str, time: TimeSharing, *, size: int | None = None) -> JsonValue:
    """As `parsed_json`. `size`: that of the whole body of which this is a part.

    Raises:
        NotStrictJsonError: it is not strict JSON.
        InvalidRequestError: 413, it has too many values.
    """
    try:
        value: JsonValue
        if len(body) > _AT_ONCE_BYTES:
            value = await time.run(owner, load_in_steps(body, size))
            await time.turn(owner)  # what is read of it takes its time, too
        else:
            if len(body) > _SMALL_BYTES:
                await time.turn(owner)
            value = strict_json.load(body, size)
    except TooManyValuesError:
        raise InvalidRequestError(
            f"the body has more than {MAX_VALUES:,} values, members and items of all levels together; send fewer",
            code="too_many_values",
            status=413,
        ) from None
    return value
