"""The contract of renderers: how a protocol shows a run; and what follows a run with one, as a stream or as one body.

Below: sse, runs.viewer. Above: the protocols. A protocol with a streaming and a non-streaming answer writes one
renderer: both come from it, so they cannot differ. AG-UI has a renderer of another kind, because its clients take a
thread's messages and state at once: what came before needs no frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request

from gateway.errors import UnavailableError
from gateway.events import Event, RunFailed, RunFinished
from gateway.runs.viewer import Viewer
from gateway.sse import EventStreamResponse, OpenStreams, RunFrames

BodyT = TypeVar("BodyT")
BodyT_co = TypeVar("BodyT_co", covariant=True)


class Renderer(Protocol[BodyT_co]):
    """One run as a protocol shows it to one viewer: a fold over the run's log, from event 1.

    What it gives depends on the request that made it and on the events alone: not on how they are cut into batches, nor
    on the time, nor on what is random. Then a viewer that comes late gets the frames that the first one got. Ids and
    times that a protocol shows come from the request's record or from the events' own ids.

    Frames are numbered by counting them, so a client that lost its stream names the last frame it has and goes on
    behind it. What was taken back comes to later viewers without its words: each delta of such a text has an empty
    `text`, and a medium no data (`messages.NO_DATA`). Each gives as many frames as it gave before.
    """

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events, each of them ready to be sent; none for events that are not shown.

        `first` is the number of the first one; below 1, they are the run's end and not in its log, because the store
        could not be used. The last event of all is a RunFinished or a RunFailed.
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
        leaving = asyncio.create_task(_close_if_left(request, viewer))
        try:
            async for batch in viewer:
                renderer.render(batch.events, batch.first)
                last = batch.events[-1]
        finally:
            leaving.cancel()
    if isinstance(last, RunFinished | RunFailed):
        return renderer.final()
    if leaving.done():
        raise ClientDisconnect
    raise UnavailableError("the run's events could not be read to their end; ask for the run again")


async def rendered_so_far(viewer: Viewer, renderer: Renderer[object]) -> Event | None:
    """Render all events that there are already. Gives the last one."""
    last: Event | None = None
    while (batch := await viewer.next(0)) is not None and batch.events:
        renderer.render(batch.events, batch.first)
        last = batch.events[-1]
    return last


async def _close_if_left(request: Request, viewer: Viewer) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    viewer.close()


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
