"""Renderers: one object gives the stream and the body, whenever it begins to look and wherever a client goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request

from gateway.errors import UnavailableError
from gateway.events import (
    Completed,
    Event,
    Events,
    MessageRetracted,
    RunFinished,
    RunStarted,
    TextDelta,
    TextStarted,
    ToolCallStarted,
)
from gateway.protocol.renderer import Renderer, rendered_body, rendered_stream
from gateway.runs.viewer import Batch, Viewer
from gateway.sse import EventStreamResponse, OpenStreams
from tests.event_samples import batches_of_a_run, seal
from tests.movable_clock import MovableClock
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, Scene, agent_of, question, read_until, runner_scene
from tests.word_samples import REPEATABLE

RETRACTS: list[list[dict[str, Any]]] = [
    [{"text": "a secret", "chunk_characters": 2}, {"retract": "[removed]"}, {"text": "more", "chunk_characters": 2}]
]


class Numbered:
    """A protocol whose frames have numbers: some events give two of them, some none, and it adds up what was said."""

    def __init__(self) -> None:
        self.count = 0
        self.said = ""

    def render(self, events: Sequence[Event], first: int) -> list[bytes]:
        return [frame for event in events for frame in self._frames(event)]

    def _frames(self, event: Event) -> list[bytes]:
        match event:
            case TextDelta():
                return [self._words(text) for text in event.texts]
            case TextStarted():
                return [self._frame("begun"), self._frame(event.message_id)]
            case ToolCallStarted():
                return [self._frame(event.name)]
            case MessageRetracted():
                self.said = ""
                return [self._frame("forget it")]
            case RunFinished():
                return [self._frame("done"), b"[DONE]\n"]
            case _:
                return []

    def _words(self, text: str) -> bytes:
        self.said += text
        return self._frame(f"{len(self.said)} {text!r}")

    def _frame(self, text: str) -> bytes:
        self.count += 1
        return f"{self.count} {text}\n".encode()

    def final(self) -> dict[str, Any]:
        return {"said": self.said, "frames": self.count}


async def streamed(response: EventStreamResponse) -> list[bytes]:
    """The frames that a client gets, to the end of its stream."""
    body = b""

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal body
        body += message.get("body", b"")

    async with asyncio.timeout(10):
        await response({"type": "http", "method": "GET"}, receiving(), send)
    return body.splitlines(keepends=True)


def receiving(*messages: str) -> Any:
    """What a client sends: these, then nothing any more."""
    left = [*messages]

    async def receive() -> MutableMapping[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return {"type": left.pop(0)}

    return receive


def asked(*messages: str) -> Request:
    return Request({"type": "http", "method": "POST", "headers": []}, receiving(*messages))


def fed(*batches: Events) -> Viewer:
    """A viewer of these, whose run is over."""
    viewer = Viewer(MovableClock())
    viewer.read_first(_in_turn(batches))
    viewer.finish()
    return viewer


async def _in_turn(batches: Sequence[Events]) -> AsyncGenerator[Batch]:
    first = 1
    for batch in batches:
        yield Batch(first, batch)
        first += len(batch)


def stream(viewer: Viewer, renderer: Renderer[object], **more: Any) -> EventStreamResponse:
    return rendered_stream(viewer, renderer, OpenStreams(heartbeat_seconds=None), **more)


@REPEATABLE
@given(batches_of_a_run, st.lists(st.integers(0, 200), max_size=6), st.integers(0, 60))
def test_any_cut_of_the_events_and_any_place_to_go_on_from_give_the_same_frames(
    batches: list[Events], cuts: list[int], after: int
) -> None:
    async def check() -> None:
        events = seal(*batches)
        places = sorted({0, len(events), *(min(cut, len(events)) for cut in cuts)})
        pieces = [events[start:end] for start, end in pairwise(places)]
        whole = await streamed(stream(fed(events), Numbered()))

        assert await streamed(stream(fed(*pieces), Numbered(), after=after)) == whole[after:]
        body = await rendered_body(asked(), fed(events), Numbered())
        assert await rendered_body(asked(), fed(*pieces), Numbered()) == body

    asyncio.run(check())


async def attached(scene: Scene) -> Viewer:
    viewer = await scene.runner.attach(OWNER, "r", after=0)
    assert viewer is not None
    return viewer


async def test_who_comes_in_the_middle_and_who_comes_at_the_end_gets_what_the_first_one_got() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        first = await scene.start("a", question())
        seen = await read_until(await attached(scene), TextDelta)
        repeated = await scene.runner.start(OWNER, "a", question(), from_first=True)
        readers = [asyncio.create_task(streamed(stream(each, Numbered()))) for each in (first, repeated)]
        await scene.runner.cancel(OWNER, "r")
        frames = [await reader for reader in readers]
        late = await streamed(stream(await attached(scene), Numbered()))
        again = await scene.runner.start(OWNER, "a", question(), from_first=True)

        assert any(isinstance(event, TextDelta) for event in seen)
        assert frames[0] == frames[1] == late == await streamed(stream(again, Numbered()))
        assert await streamed(stream(await attached(scene), Numbered(), after=3)) == late[3:]
        assert late[-1] == b"[DONE]\n"


async def test_words_that_were_taken_back_are_gone_and_all_later_frames_keep_their_numbers() -> None:
    async with runner_scene(agent_of("a", RETRACTS)) as scene:
        frames = await streamed(stream(await scene.start("a", question()), Numbered()))
        late = await streamed(stream(await attached(scene), Numbered()))
        back = frames.index(next(frame for frame in frames if b"forget it" in frame))

        assert b"secr" not in b"".join(late)
        assert len(late) == len(frames)
        assert late[back:] == frames[back:]
        assert [frame.split()[0] for frame in late] == [frame.split()[0] for frame in frames]


async def test_the_body_is_what_the_same_object_s_stream_said() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        renderer = Numbered()
        body = await rendered_body(asked(), await scene.start("a", question()), renderer)
        streaming = Numbered()
        await streamed(stream(await attached(scene), streaming))

        assert body == streaming.final() == {"said": "hello there", "frames": 6}


async def test_a_client_that_leaves_before_the_body_is_a_viewer_that_has_left() -> None:
    async with runner_scene(agent_of("a", HANGS, on_disconnect="continue")) as scene:
        viewer = await scene.start("a", question())
        live = next(iter(scene.runner._runs.values()))
        async with asyncio.timeout(10):
            with pytest.raises(ClientDisconnect):
                await rendered_body(asked("http.request", "http.disconnect"), viewer, Numbered())
        assert not live.audience.has_viewers


async def test_events_that_end_before_the_run_does_are_no_body() -> None:
    with pytest.raises(UnavailableError):
        await rendered_body(asked(), fed([RunStarted("t", "r"), TextStarted("m")]), Numbered())


async def test_a_viewer_that_a_failing_renderer_leaves_behind_is_closed() -> None:
    class Fails(Numbered):
        def render(self, events: Sequence[Event], first: int) -> list[bytes]:
            raise LookupError("a bug of the renderer's")

    closed: list[Viewer] = []
    viewer = Viewer(MovableClock(), on_close=closed.append)
    viewer.feed(1, [RunStarted("t", "r")])
    with pytest.raises(LookupError):
        stream(viewer, Fails())
    assert closed == [viewer]


async def test_a_heartbeat_stands_for_silence_and_does_not_count() -> None:
    clock = MovableClock()
    viewer = Viewer(clock)
    viewer.feed(1, [RunStarted("t", "r"), TextStarted("m")])
    response = stream(viewer, Numbered(), heartbeat=b"alive\n", after=1)
    beating = asyncio.create_task(response.source.next(15))
    await clock.advance(16)
    assert await beating == b"alive\n"
    viewer.feed(3, [TextDelta("m", "x"), RunFinished(Completed())])
    assert await response.source.next(15) == b"3 1 'x'\n4 done\n[DONE]\n"
