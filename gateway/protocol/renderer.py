"""The contract of renderers: how a protocol shows a run; and what follows a run with one, as a stream or as one body.

Below: sse, runs.viewer. Above: the protocols. A protocol with a streaming and a non-streaming answer writes one
renderer: both come from it, so they cannot differ. AG-UI has a renderer of another kind, because its clients take a
thread's messages and state at once: what came before needs no frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request

from gateway.errors import UnavailableError
from gateway.events import (
    Event,
    MediaGiven,
    ReasoningDelta,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallStarted,
    ToolReturned,
)
from gateway.runs.viewer import Viewer
from gateway.sse import EventStreamResponse, OpenStreams, RunFrames

BodyT = TypeVar("BodyT")
BodyT_co = TypeVar("BodyT_co", covariant=True)

_ANSWERS: Final = frozenset({TextDelta, ReasoningDelta, MediaGiven, ToolCallStarted, ToolReturned, RunFinished})


class Renderer(Protocol[BodyT_co]):
    """One run as a protocol shows it to one viewer: a fold over the run's log, from event 1.

    Its frames depend on the request that made it and on the events alone: not on how they are cut into batches and
    pieces into `Deltas`, nor on the time, nor on what is random. Then a viewer that comes late gets the frames that the
    first one got. Ids and times that a protocol shows come from the request's record or from the events' own ids.

    Frames are numbered by counting them, so a client that lost its stream names the last frame it has and goes on after
    it. Text that was taken back comes to later viewers without its words: each piece of such a text is empty, and a
    medium has no data (`messages.NO_DATA`). Each gives as many frames as it gave before.
    """

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events, each of them ready to be sent; none for events that are not shown.

        `first` is the number of the first one, of a `Deltas` that of its first piece; below 1, they are the run's end
        and not in its log, because the store could not be used. The last event of all is a RunFinished or a RunFailed.
        """

    def final(self) -> BodyT_co:
        """The non-streaming answer, after the last event.

        Raises:
            GatewayError: it is an error of the protocol's form.
        """


def rendered_stream(
    viewer: Viewer,
    renderer: Renderer[object],
    streams: OpenStreams,
    *,
    after: int = 0,
    heartbeat: bytes = b"",
    comments: bool = True,
    headers: Mapping[str, str] | None = None,
) -> EventStreamResponse:
    """The response that streams the renderer's frames, all but the first `after` of them.

    The viewer is one from event 1: of `environment.start` with `from_first`, or of `environment.attach`. `heartbeat` is
    sent where nothing came for a while, in place of a comment; it is no frame that counts. Without `comments` the
    stream has none at all.
    """
    frames = _FramesBehind(renderer, after)
    opening = b""
    try:
        if (there := viewer.take()) is not None:
            opening = frames.render(there.events, there.first)
    except BaseException:  # nobody else knows the viewer, and a run with a viewer is never taken for abandoned
        viewer.close()
        raise
    source = RunFrames(viewer, frames.render, heartbeat=heartbeat)
    return EventStreamResponse(source, streams, opening=opening, headers=headers, comments=comments)


async def rendered_stream_once_shown(
    request: Request,
    viewer: Viewer,
    renderer: Renderer[object],
    streams: OpenStreams,
    *,
    headers: Mapping[str, str] | None = None,
) -> EventStreamResponse | RunFailed:
    """As `rendered_stream`, but not before there is something of the answer to show: words, a call, its end; and at
    most `OpenStreams.head_seconds` after the run's turn has come. Gives the failure of a run that fails before that.

    Raises:
        ClientDisconnect: the client has left, which the run takes as it takes a stream's viewer that leaves.
        StoreError: the run's events cannot be read.
    """
    leaving = _Leaving(request, viewer, streams.unwatched_seconds)
    try:
        opening, last = await _opening(viewer, renderer, streams.head_seconds)
        if leaving.noticed:
            raise ClientDisconnect
    except BaseException:
        viewer.close()
        raise
    finally:
        leaving.stop()
    if isinstance(last, RunFailed):
        viewer.close()
        return last
    source = RunFrames(viewer, _FramesBehind(renderer, 0).render)
    return EventStreamResponse(source, streams, opening=opening, headers=headers)


async def _opening(viewer: Viewer, renderer: Renderer[object], seconds: float) -> tuple[bytes, RunFailed | None]:
    """The frames up to the first of the answer, or those that there are so long after the run's turn has come; and the
    failure that comes before anything of an answer.
    """
    now, until = viewer.clock.monotonic, None
    frames: list[bytes] = []
    while True:
        batch = await viewer.next(seconds if until is None else until - now())
        if batch is None and until is None:
            continue
        if batch is None or not batch.events:
            break
        frames += renderer.render(batch.events, batch.first)
        if any(type(event) in _ANSWERS for event in batch.events):
            break
        if isinstance(last := batch.events[-1], RunFailed):
            return b"", last
        if until is None and any(type(event) is RunStarted for event in batch.events):
            until = now() + seconds
    return b"".join(frames), None


async def rendered_body(request: Request, viewer: Viewer, renderer: Renderer[BodyT]) -> BodyT:
    """The renderer's non-streaming answer, once the run has ended. The viewer is as for `rendered_stream`.

    Raises:
        ClientDisconnect: the client has left, which the run takes as it takes a stream's viewer that leaves.
        UnavailableError: the run's events end before the run does.
        StoreError: they cannot be read.
        GatewayError: as `Renderer.final`.
    """
    last: Event | None = None
    with closing(viewer):
        leaving = _Leaving(request, viewer)
        try:
            async for batch in viewer:
                renderer.render(batch.events, batch.first)
                last = batch.events[-1]
        finally:
            leaving.stop()
    if isinstance(last, RunFinished | RunFailed):
        return renderer.final()
    if leaving.noticed:
        raise ClientDisconnect
    raise UnavailableError("the run's events could not be read to their end; ask for the run again")


async def rendered_so_far(viewer: Viewer, renderer: Renderer[object]) -> Event | None:
    """Render all events that there are already. Gives the last one."""
    last: Event | None = None
    while (batch := await viewer.next(0)) is not None and batch.events:
        renderer.render(batch.events, batch.first)
        last = batch.events[-1]
    return last


class _Leaving:
    """Closes the viewer of a request whose client leaves. `noticed`: it has left."""

    def __init__(self, request: Request, viewer: Viewer, after_seconds: float = 0.0) -> None:
        """A task costs something, so it begins late where a stream is about to look by itself."""
        self.noticed = False
        self._request = request
        self._viewer = viewer
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after_seconds, self._begin)

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None  # it ends with an exception whose traceback refers to this object

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.noticed = True
        self._viewer.close()


class _FramesBehind:
    """A renderer's frames without the first ones, whose events it has to see all the same."""

    def __init__(self, renderer: Renderer[object], after: int) -> None:
        self._renderer = renderer
        self._left_out = after

    def render(self, events: Sequence[Event], first: int) -> bytes:
        frames = self._renderer.render(events, first)
        if self._left_out:
            left_out = min(self._left_out, len(frames))
            self._left_out -= left_out
            frames = frames[left_out:]
        return b"".join(frames)
