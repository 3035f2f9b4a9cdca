"""Sends ready server-sent frames: heartbeats, clients that leave, the shutdown.

Below: events. Above: the protocols, which give an `EventStreamResponse` a `FrameSource`.

The response is sse-starlette's EventSourceResponse with another `__call__`: the original runs four tasks in a task
group per stream and passes each chunk through a cancel scope. Measured side by side (uvicorn 0.54 with uvloop and
httptools, Python 3.11, ready bytes of one delta per chunk and a task switch before each, 200 chunks per stream; two
shared cores, so read the ratios):

    what carries the stream                  us per chunk    KB per idle stream (1,500 of them)
    a bare ASGI application                       11                   9
    EventStreamResponse behind Starlette          15                  20
    EventSourceResponse behind Starlette          24                  42

By default sse-starlette cuts all streams when uvicorn gets a signal. That is switched off here: the application's
shutdown calls `OpenStreams.close`.
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
"""A heartbeat: a comment, which every reader of server-sent events skips."""

_RAW_HEADERS: Final = (
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
)


# The task that watches a stream cost a twentieth of a short answer, so it starts late.
UNWATCHED_SECONDS = 0.050
HEAD_SECONDS = 2.0
_SILENCE_SECONDS = 15.0


class CutOffError(Exception):
    """The source gives up its reader: the stream must break off, so that it does not look complete.

    Its text says why, for the log.
    """


class FrameSource(Protocol):
    """The source of one stream's frames."""

    async def next(self, timeout_seconds: float) -> bytes | None:
        """The next frames; None if none came in that time; empty at the end.

        Raises:
            CutOffError: there are more, but this reader does not get them.
        """

    @property
    def ended(self) -> bool:
        """Whether the last frames of `next` were the end. May stay False if only an empty `next` shows the end."""

    def close(self) -> None:
        """The stream is over, or the client has left: a waiting `next` returns empty bytes at once. May be called
        again.
        """


class OpenStreams:
    """All open streams of the process, and their common settings. One per application."""

    def __init__(
        self,
        *,
        heartbeat_seconds: float | None = 15.0,
        unwatched_seconds: float = UNWATCHED_SECONDS,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        """`heartbeat_seconds`: how long a stream may be silent before a comment is sent; None: no comments.
        `unwatched_seconds`: how long a stream runs before it checks whether its client is still there. `head_seconds`:
        how long a response's head waits until there is something of the answer to show, if a protocol lets it wait.
        """
        self.unwatched_seconds = unwatched_seconds
        self.head_seconds = head_seconds
        self.silence_seconds = _SILENCE_SECONDS if heartbeat_seconds is None else heartbeat_seconds
        self.has_comments = heartbeat_seconds is not None
        self._streams: set[EventStreamResponse] = set()
        self.draining = False
        self.closing = False

    def __len__(self) -> int:
        return len(self._streams)

    def drain(self) -> None:
        """The server is about to shut down: the next comment to each client also says when to reconnect."""
        self.draining = True

    def close(self) -> None:
        """The server shuts down: tell clients when to reconnect, and end all streams."""
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
    """A stream of ready frames. If comments are sent at all, one goes out at once, before the first frames; `comments`
    is False for clients that may not know them.

    `opening` (ready frames) is sent together with that comment: each send costs as much as rendering twenty events.
    `headers` are additional. EventSourceResponse's own `__init__` is not called: it builds the same headers and a lock
    for each stream, for a `__call__` that is replaced. Attributes that other code may read are set here.
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
        comments: bool = True,
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
        self._has_comments = comments and streams.has_comments
        self._watching: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] == "HEAD":  # otherwise the client would wait for the end of a stream that it cannot see
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
            # The response stays incomplete: HttpAgent takes a stream that ends normally for a successful run.
            logger.warning("cut off a stream before its end", extra={"reason": str(error)})
        finally:
            timer.cancel()
            if self._watching is not None:
                self._watching.cancel()
                self._watching = None  # it ends with an exception whose traceback refers to this object
            self._streams.remove(self)

    async def _send_all(self, send: Send) -> None:
        source, streams, has_comments = self.source, self._streams, self._has_comments
        body = COMMENT + self._opening if has_comments else self._opening
        self._opening = b""
        more, announced = not source.ended, False
        await send({"type": "http.response.body", "body": body, "more_body": more})
        while more and self.active:  # stop even if a long log has more to send
            while (frames := await source.next(streams.silence_seconds)) is None and not has_comments:
                pass
            body = COMMENT if frames is None else frames
            more = bool(body) and not source.ended
            if streams.draining and has_comments and not announced:
                body, announced = _restart_notice() + body, True
            await send({"type": "http.response.body", "body": body, "more_body": more})

    def _start_watch(self, receive: Receive) -> None:
        self._watching = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.active = False
        self.source.close()


def _restart_notice() -> bytes:
    """Tells clients when to reconnect, at different times."""
    return b": the server is restarting\nretry: %d\n\n" % random.randint(500, 3000)


class _Batches:
    """A source as an asynchronous iterable, the form that sse-starlette expects."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        body = await self._source.next(EventSourceResponse.DEFAULT_PING_INTERVAL)
        if body == b"":
            raise StopAsyncIteration
        return COMMENT if body is None else body


# --- a run as frames --------------------------------------------------------------------------------------------------


class Batch(Protocol):
    """Events with consecutive numbers from `first`; no events at the end."""

    @property
    def first(self) -> int: ...

    @property
    def events(self) -> Sequence[Event]: ...


class EventSource(Protocol):
    """The source of a run's events: one of its viewers."""

    @property
    def dropped(self) -> bool:
        """Whether the reader was too slow: then its events end before the run does."""

    async def next(self, timeout_seconds: float) -> Batch | None:
        """The next events; None if none came in that time."""

    def close(self) -> None:
        """As FrameSource.close."""


class RunFrames:
    """A run's events as frames for one viewer; `prelude` (ready frames) goes first.

    If `heartbeat` is not empty, it is sent when a time passes without frames.
    """

    def __init__(
        self,
        viewer: EventSource,
        render: Callable[[Sequence[Event], int], bytes],
        prelude: bytes = b"",
        *,
        heartbeat: bytes = b"",
    ) -> None:
        self.ended = False
        self._viewer = viewer
        self._render = render
        self._prelude = prelude
        self._heartbeat = heartbeat or None

    async def next(self, timeout_seconds: float) -> bytes | None:
        if self._prelude:
            prelude, self._prelude = self._prelude, b""
            return prelude
        silent_since = None
        left = timeout_seconds
        while True:
            try:
                batch = await self._viewer.next(left)
            except StoreError as error:  # the thread was deleted while its log was read, or the store cannot be read
                raise CutOffError(error.message) from error
            if batch is None:
                return self._heartbeat
            events = batch.events
            if not events:
                if self._viewer.dropped:
                    raise CutOffError("its reader fell too far behind")
                return b""
            last = type(events[-1])
            self.ended = last is RunFinished or last is RunFailed
            if frames := self._render(events, batch.first):
                return frames
            # These events gave no frame: the client's silence goes on.
            now = asyncio.get_running_loop().time()
            silent_since = silent_since or now
            left = timeout_seconds - (now - silent_since)
            if left <= 0:
                return self._heartbeat

    def close(self) -> None:
        self._viewer.close()
