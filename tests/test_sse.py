"""Streams of frames over real sockets: framing, heartbeat, disconnects, the drain."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import pytest
import uvicorn
from sse_starlette.sse import AppStatus
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.events import Completed, Event, ModelCallStarted, RunFailed, RunFinished, RunStarted, TextDelta
from gateway.sse import COMMENT, CutOffError, EventStreamResponse, OpenStreams, RunFrames
from tests.asgi_server import DEADLINE_SECONDS, RawClient, serving
from tests.movable_clock import MovableClock


class Frames:
    """A source that a test feeds."""

    def __init__(self, clock: MovableClock) -> None:
        self.clock = clock
        self.waiting: list[bytes] = []
        self.ended = False
        self.closed = asyncio.Event()
        self.asked = asyncio.Event()
        self.taken: asyncio.Queue[bytes] = asyncio.Queue()
        self._woken = asyncio.Event()

    def put(self, frames: bytes) -> None:
        self.waiting.append(frames)
        self._woken.set()

    async def next(self, timeout_seconds: float) -> bytes | None:
        self.asked.set()
        self._woken.clear()
        if not self.waiting and not self.closed.is_set():
            timer = self.clock.call_later(timeout_seconds, self._woken.set)
            await self._woken.wait()
            timer.cancel()
        if self.waiting:
            self.taken.put_nowait(self.waiting[0])
            return self.waiting.pop(0)
        return b"" if self.closed.is_set() else None

    def close(self) -> None:
        self.closed.set()
        self._woken.set()


@dataclass
class Served:
    """A server whose every answer is one stream."""

    port: int
    clock: MovableClock
    streams: OpenStreams
    source: Frames
    ended: asyncio.Event

    async def connect(self, method: str = "POST") -> RawClient:
        client = await RawClient.connect(self.port)
        client.send(method, "/")
        return client

    async def wait_ended(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.ended.wait()


@pytest.fixture
async def served() -> AsyncGenerator[Served, None]:
    clock = MovableClock()
    streams = OpenStreams(heartbeat_seconds=15)
    source = Frames(clock)
    ended = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await EventStreamResponse(source, streams)(scope, receive, send)
        finally:
            ended.set()

    async with serving(application) as port:
        yield Served(port, clock, streams, source, ended)


async def test_the_headers_forbid_caching_buffering_and_changing_the_stream(served: Served) -> None:
    client = await served.connect()
    head = await client.read_head()
    assert head["status"] == "200"
    assert head["content-type"] == "text/event-stream; charset=utf-8"
    assert head["cache-control"] == "no-store, no-transform"
    assert head["x-accel-buffering"] == "no"
    await client.close()


async def test_a_comment_goes_out_before_the_source_has_anything(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    assert await client.read_chunk() == COMMENT
    await client.close()


async def test_frames_leave_as_they_came_and_the_connection_can_be_used_again(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    await client.read_chunk()
    served.source.put(b'data: {"a":1}\nid: 1\n\ndata: {"b":2}\nid: 2\n\n')
    assert await client.read_chunk() == b'data: {"a":1}\nid: 1\n\ndata: {"b":2}\nid: 2\n\n'
    served.source.close()
    assert await client.read_chunk() == b""
    await served.wait_ended()
    client.send("HEAD", "/")
    assert (await client.read_head())["status"] == "200"
    await client.close()


async def test_the_last_frames_and_the_end_leave_together(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    await client.read_chunk()
    served.source.ended = True
    served.source.put(b"data: {}\n\n")
    assert await client.read_chunk() == b"data: {}\n\n"
    assert await client.read_chunk() == b""
    await served.wait_ended()
    await client.close()


async def test_silence_is_broken_by_one_comment_per_heartbeat(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    await client.read_chunk()
    await served.source.asked.wait()
    await served.clock.advance(14)
    served.source.put(b"data: {}\n\n")
    assert await client.read_chunk() == b"data: {}\n\n"
    await served.clock.advance(14.9)
    await served.clock.advance(0.2)
    assert await client.read_chunk() == COMMENT
    await served.clock.advance(15)
    assert await client.read_chunk() == COMMENT
    served.source.put(b"data: 2\n\n")
    assert await client.read_chunk() == b"data: 2\n\n"
    await client.close()


async def test_where_comments_are_off_there_is_none_whatever_happens() -> None:
    clock = MovableClock()
    streams, source = OpenStreams(heartbeat_seconds=None), Frames(clock)
    async with serving(EventStreamResponse(source, streams, opening=b"data: 0\n\n")) as port:
        client = await RawClient.connect(port)
        client.send("POST", "/")
        await client.read_head()
        assert await client.read_chunk() == b"data: 0\n\n"
        await source.asked.wait()
        await clock.advance(100)
        streams.drain()
        source.put(b"data: 1\n\n")
        assert await client.read_chunk() == b"data: 1\n\n"
        source.close()
        assert await client.read_chunk() == b""
        await client.close()


async def test_a_client_that_leaves_closes_the_source(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    await client.read_chunk()
    await client.close()
    await served.wait_ended()
    assert served.source.closed.is_set()
    assert len(served.streams) == 0


async def test_a_client_that_leaves_while_it_reads_nothing_closes_the_source(served: Served) -> None:
    client = await served.connect()
    await fill_the_socket(served)
    client.writer.transport.abort()
    await served.wait_ended()
    assert served.source.closed.is_set()
    assert len(served.streams) == 0


async def test_a_server_that_closes_says_when_to_come_back(served: Served) -> None:
    client = await served.connect()
    await client.read_head()
    await client.read_chunk()
    served.streams.close()
    assert re.fullmatch(rb": [a-z ]+\nretry: \d{3,4}\n\n", await client.read_chunk())
    assert await client.read_chunk() == b""
    await served.wait_ended()
    await client.close()


async def test_a_stream_that_begins_while_the_server_closes_ends_at_once(served: Served) -> None:
    served.streams.close()
    client = await served.connect()
    await client.read_head()
    assert await client.read_chunk() == COMMENT
    assert b"retry: " in await client.read_chunk()
    assert await client.read_chunk() == b""
    await client.close()


async def test_head_gets_the_headers_and_no_stream(served: Served) -> None:
    client = await served.connect("HEAD")
    head = await client.read_head()
    assert head["content-type"] == "text/event-stream; charset=utf-8"
    await served.wait_ended()
    assert served.source.closed.is_set()
    assert not served.source.asked.is_set()
    await client.close()


async def test_a_source_that_fails_is_closed_and_the_answer_stays_incomplete() -> None:
    clock = MovableClock()
    streams = OpenStreams()

    class Failing(Frames):
        async def next(self, timeout_seconds: float) -> bytes | None:
            raise RuntimeError("the log is gone")

    source = Failing(clock)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(RuntimeError):
            await EventStreamResponse(source, streams)(scope, receive, send)

    async with serving(application) as port:
        client = await RawClient.connect(port)
        client.send("POST", "/")
        await client.read_head()
        assert not (await client.read_rest()).endswith(b"0\r\n\r\n")
        assert source.closed.is_set()
        assert len(streams) == 0
        assert clock.pending == []
        await client.close()


async def test_what_is_to_happen_afterwards_happens() -> None:
    clock = MovableClock()
    done = asyncio.Event()

    async def finish() -> None:
        done.set()

    source = Frames(clock)
    response = EventStreamResponse(source, OpenStreams(), background=BackgroundTask(finish))
    async with serving(response) as port:
        source.close()
        client = await RawClient.connect(port)
        client.send("POST", "/")
        await client.read_head()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await done.wait()
        await client.close()


def test_a_signal_is_left_to_whoever_runs_the_server() -> None:
    server = uvicorn.Server(uvicorn.Config("nothing:at_all"))
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
    assert not AppStatus.should_exit, "sse-starlette would cut every stream"


async def test_the_parents_own_path_would_send_the_same_frames() -> None:
    source = Frames(MovableClock())
    response = EventStreamResponse(source, OpenStreams())
    source.put(b"data: 1\n\n")
    source.close()
    assert [frames async for frames in response.body_iterator] == [b"data: 1\n\n"]
    assert isinstance(response, Response)


async def fill_the_socket(served: Served) -> None:
    """Give the client, which reads nothing, more than any buffer between it and the server takes."""
    served.source.put(b"data: 0\n\n")
    for _ in range(8):
        served.source.put(b"data: %b\n\n" % (b"x" * 4_000_000))
    async with asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(2):
            await served.source.taken.get()
    await served.clock.settle()
    assert served.source.waiting, "the client took everything"


# --- a run's events as frames ------------------------------------------------------------------------------------


@dataclass
class Events:
    first: int
    events: Sequence[Event]


class Viewer:
    def __init__(self, batches: list[Events | None]) -> None:
        self.batches = batches
        self.closed = False
        self.dropped = False

    async def next(self, timeout_seconds: float) -> Events | None:
        assert timeout_seconds == 15
        return self.batches.pop(0)

    def close(self) -> None:
        self.closed = True


def render(events: Sequence[Event], first: int) -> bytes:
    return b"".join(b"%d " % (first + i) for i, event in enumerate(events) if not isinstance(event, ModelCallStarted))


async def test_a_run_is_its_prelude_then_its_events_and_ends_with_its_terminal_one() -> None:
    call = ModelCallStarted("turn", "demo", "")
    viewer = Viewer(
        [
            Events(4, (RunStarted("t", "r"), call)),
            None,
            Events(6, (call,)),  # nothing to show: waits on
            Events(7, (TextDelta("m", "a"),)),
            Events(8, (RunFinished(Completed()),)),
        ]
    )
    frames = RunFrames(viewer, render, b"prelude")
    assert await frames.next(15) == b"prelude"
    assert await frames.next(15) == b"4 "
    assert await frames.next(15) is None
    assert await frames.next(15) == b"7 "
    before_the_last = frames.ended
    assert await frames.next(15) == b"8 "
    assert (before_the_last, frames.ended) == (False, True)
    frames.close()
    assert viewer.closed


@pytest.mark.parametrize(
    ("batch", "ended"), [(Events(1, (RunFailed("x", "y"),)), True), (Events(0, ()), False)], ids=["failed", "cut off"]
)
async def test_a_run_that_is_over_ends_its_frames(batch: Events, ended: bool) -> None:
    frames = RunFrames(Viewer([batch]), render)
    assert await frames.next(15) == (b"1 " if ended else b"")
    assert frames.ended is ended


async def test_a_viewer_that_was_dropped_breaks_its_frames_off() -> None:
    viewer = Viewer([Events(0, ())])
    viewer.dropped = True
    with pytest.raises(CutOffError):
        await RunFrames(viewer, render).next(15)
