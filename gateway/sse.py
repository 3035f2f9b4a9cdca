"""Ready server-sent frames onto the wire: heartbeat, the client that goes away, the drain.

Below: events. Above: the protocols, which give an `EventStreamResponse` a `FrameSource`.

sse-starlette's EventSourceResponse is the response; its `__call__` is replaced, because it runs four tasks in a task
group per stream and passes each chunk through a cancel scope. Measured side by side (uvicorn 0.54 with uvloop and
httptools, Python 3.11, ready bytes of one delta per chunk and a task switch before each, 200 chunks per stream; two
shared cores, so read the ratios):

    what carries the stream                  us per chunk    KB per idle stream (1,500 of them)
    a bare ASGI application                       11                   9
    EventStreamResponse behind Starlette          15                  20
    EventSourceResponse behind Starlette          24                  42

By default sse-starlette cuts all streams when uvicorn gets a signal. That is switched off here: who shuts the gateway
down calls `OpenStreams.close`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Protocol

from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.background import BackgroundTask
from starlette.types import Receive, Scope, Send

from gateway.errors import StoreError
from gateway.events import Event, RunFailed, RunFinished

AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]

logger = logging.getLogger(__name__)

COMMENT: Final = b": keep-alive\n\n"
"""A heartbeat: every reader of server-sent events skips it."""

_RAW_HEADERS: Final = (
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
)


# The task that watches a stream was a twentieth of a short answer's cost, so it begins late.
UNWATCHED_SECONDS = 0.050
_SILENCE_SECONDS = 15.0


class CutOffError(Exception):
    """A source gives up on its reader: the stream breaks off, and must not look as if it had come to its end.

    Its text says why, for the log.
    """


class FrameSource(Protocol):
    """Where the frames of one stream come from."""

    async def next(self, timeout_seconds: float) -> bytes | None:
        """What there is to send; None when nothing came for that long; empty at the end.

        Raises:
            CutOffError: there is more, and this reader does not get it.
        """

    @property
    def ended(self) -> bool:
        """Nothing will follow what `next` gave last. May stay False where only an empty `next` tells the end."""

    def close(self) -> None:
        """The stream is over, or the client is gone: a waiting `next` gives empty at once. May be called again."""


class OpenStreams:
    """All streams of the process that are open, and what they have in common. One per application."""

    def __init__(self, *, heartbeat_seconds: float | None = 15.0, unwatched_seconds: float = UNWATCHED_SECONDS) -> None:
        """`heartbeat_seconds`: how long a stream may be silent before a comment goes out; None: none ever does.
        `unwatched_seconds`: how long a stream goes on before anybody looks whether its client is still there.
        """
        self.unwatched_seconds = unwatched_seconds
        self.silence_seconds = _SILENCE_SECONDS if heartbeat_seconds is None else heartbeat_seconds
        self.has_comments = heartbeat_seconds is not None
        self._streams: set[EventStreamResponse] = set()
        self.draining = False
        self.closing = False

    def __len__(self) -> int:
        return len(self._streams)

    def drain(self) -> None:
        """The server is about to go down: every client that is sent comments is told when to come back, with the next
        that it gets.
        """
        self.draining = True

    def close(self) -> None:
        """The server goes down: every client was told that, or is now, and its stream ends."""
        self.draining = self.closing = True
        for stream in list(self._streams):
            stream.source.close()

    def add(self, stream: EventStreamResponse) -> None:
        self._streams.add(stream)
        if self.closing:
            stream.source.close()

    def remove(self, stream: EventStreamResponse) -> None:
        self._streams.discard(stream)


class EventStreamResponse(EventSourceResponse):
    """A stream of ready frames. One comment goes out at once, before the source is asked for anything, where comments
    are sent at all.

    `opening` (ready frames) goes with it: each send costs as much as rendering twenty events. `headers` are further
    ones. EventSourceResponse's own `__init__` is not called: for each stream it builds the same headers and a lock
    anew, for a `__call__` that is replaced; what other code may look at is set here.
    """

    def __init__(
        self,
        source: FrameSource,
        streams: OpenStreams,
        *,
        opening: bytes = b"",
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        background: BackgroundTask | None = None,
    ) -> None:
        self.body_iterator = _Batches(source)
        self.status_code = status_code
        self.background = background
        self.raw_headers = [*_RAW_HEADERS]
        if headers:
            self.headers.update(headers)
        self.sep = "\n"
        self.active = True
        self.source = source
        self._opening = opening
        self._streams = streams
        self._watching: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] == "HEAD":  # or a client waits for the end of a stream that it cannot see
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._stream(receive, send)
        finally:
            self.source.close()
        if self.background is not None:
            await self.background()

    async def _stream(self, receive: Receive, send: Send) -> None:
        self._streams.add(self)
        timer = asyncio.get_running_loop().call_later(self._streams.unwatched_seconds, self._start_watch, receive)
        try:
            await self._send_all(send)
        except CutOffError as error:
            # The response stays incomplete: HttpAgent takes a stream that ends well for a run that did.
            logger.warning("cut off a stream before its end", extra={"reason": str(error)})
        finally:
            timer.cancel()
            if self._watching is not None:
                self._watching.cancel()
                self._watching = None  # it ends with an exception whose traceback knows this object
            self._streams.remove(self)

    async def _send_all(self, send: Send) -> None:
        source, streams = self.source, self._streams
        body = COMMENT + self._opening if streams.has_comments else self._opening
        self._opening = b""
        more, told = not source.ended, False
        await send({"type": "http.response.body", "body": body, "more_body": more})
        while more and self.active:  # once nobody reads, what a long log still has is left
            body = await self._next_body()
            more = bool(body) and not source.ended
            if streams.draining and streams.has_comments and not told:
                body, told = _farewell() + body, True
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _next_body(self) -> bytes:
        streams = self._streams
        while (body := await self.source.next(streams.silence_seconds)) is None:
            if streams.has_comments:
                return COMMENT
        return body

    def _start_watch(self, receive: Receive) -> None:
        self._watching = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.active = False
        self.source.close()


def _farewell() -> bytes:
    """Clients that can should come back, and not all at the same time."""
    return b": the server is restarting\nretry: %d\n\n" % random.randint(500, 3000)


class _Batches:
    """A source as the asynchronous iterable that sse-starlette knows."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        body = await self._source.next(EventSourceResponse.DEFAULT_PING_INTERVAL)
        if body == b"":
            raise StopAsyncIteration
        return COMMENT if body is None else body


# --- a run as frames ---------------------------------------------------------------------------------------------


class Batch(Protocol):
    """Events with consecutive numbers from `first`; no events at the end."""

    @property
    def first(self) -> int: ...

    @property
    def events(self) -> Sequence[Event]: ...


class EventSource(Protocol):
    """Where a run's events come from: a viewer of it."""

    @property
    def dropped(self) -> bool:
        """The reader was too slow: its events end before the run does."""

    async def next(self, timeout_seconds: float) -> Batch | None:
        """What came; None when nothing came for that long."""

    def close(self) -> None:
        """As FrameSource.close."""


class RunFrames:
    """A run's events as one viewer's frames; `prelude` (ready frames) goes first."""

    def __init__(
        self, viewer: EventSource, render: Callable[[Sequence[Event], int], bytes], prelude: bytes = b""
    ) -> None:
        self.ended = False
        self._viewer = viewer
        self._render = render
        self._prelude = prelude

    async def next(self, timeout_seconds: float) -> bytes | None:
        if self._prelude:
            prelude, self._prelude = self._prelude, b""
            return prelude
        while (batch := await self._next_batch(timeout_seconds)) is not None:
            events = batch.events
            if not events:
                if self._viewer.dropped:
                    raise CutOffError("its reader fell too far behind")
                return b""
            last = type(events[-1])
            self.ended = last is RunFinished or last is RunFailed
            if frames := self._render(events, batch.first):
                return frames
        return None

    async def _next_batch(self, timeout_seconds: float) -> Batch | None:
        try:
            return await self._viewer.next(timeout_seconds)
        except StoreError as error:  # the thread was deleted while its log was read, or the store cannot be read
            raise CutOffError(error.message) from error

    def close(self) -> None:
        self._viewer.close()
