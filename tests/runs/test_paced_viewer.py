"""A log that is shown at the pace at which it came, by the runner on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import StoreError
from gateway.events import Completed, Event, RunFinished, RunStarted, TextDelta, TextEnded, TextStarted
from gateway.frozen import replace
from gateway.records import encode_events
from gateway.runs.viewer import Batch, Viewer
from gateway.store import RunRecord, RunStatus, Thread
from tests.pieces import pieces
from tests.runner_scene import HANGS, OWNER, Scene, agent_of, question, read_until, runner_scene

# What came together, and how many seconds after the run's start. Ten minutes of thinking are in between.
TALK: Sequence[tuple[float, list[Event]]] = (
    (0.0, [RunStarted("t", "r")]),
    (2.0, [TextStarted("m"), TextDelta("m", "one ")]),
    (602.0, [TextDelta("m", "two "), TextDelta("m", "three")]),
    (602.5, [TextEnded("m"), RunFinished(Completed())]),
)
BEGUN = 1_000_000.0
HEARTBEAT = 15.0


async def kept(scene: Scene, *, timed_from: int = 0, words: int = 1) -> None:
    """The talk as a run that is over; what came before the row `timed_from` has no times. Its first word comes `words`
    times.
    """
    talk = [*TALK[:1], (2.0, [*TALK[1][1], *[TextDelta("m", "more ")] * (words - 1)]), *TALK[2:]]
    record = RunRecord(OWNER, "r", "t", "a", RunStatus.RUNNING, BEGUN, BEGUN)
    thread = Thread(OWNER, "t", "a", BEGUN, BEGUN, last_run_id="r")
    times = [None if row < timed_from else BEGUN + seconds for row, (seconds, _) in enumerate(talk)]
    rows = [encode_events(events, at) for (_, events), at in zip(talk, times, strict=True)]
    await scene.store.begin_run(record, thread, keep=0, records=rows[0])
    first = 2
    for row in rows[1:-1]:
        await scene.store.append_events(OWNER, "r", first, row)
        first += row.count
    over = replace(record, status=RunStatus.COMPLETED, finished_at=BEGUN + 602.5)
    await scene.store.end_run(over, thread, keep=0, first=first, records=rows[-1])


async def paced(scene: Scene, pace: float, after: int = 0) -> Viewer:
    viewer = await scene.runner.attach(OWNER, "r", after=after, pace=pace)
    assert viewer is not None
    scene.viewers.append(viewer)
    return viewer


async def shown(scene: Scene, viewer: Viewer, last: Event | None = None) -> list[tuple[float, list[Event]]]:
    """What the viewer is shown to its end, or to that event, and when: it is asked as a stream with heartbeats asks."""
    found: list[tuple[float, list[Event]]] = []
    begun = scene.clock.monotonic()
    while True:
        if (batch := await _next(scene, viewer)) is None:
            continue
        if not batch.events:
            return found
        found.append((round(scene.clock.monotonic() - begun, 3), pieces(batch.events)))
        if last is not None and batch.events[-1] == last:
            return found


async def _next(scene: Scene, viewer: Viewer) -> Batch | None:
    """What the viewer gives next; the clock moves on to when it has waited."""
    asked = asyncio.ensure_future(viewer.next(HEARTBEAT))
    while not asked.done():
        await scene.clock.until(lambda: asked.done() or viewer._waiter is not None)
        if not asked.done():
            await scene.clock.advance(scene.clock.pending[0])
    return asked.result()


async def test_a_run_is_shown_with_its_pauses() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene)
        assert await shown(scene, await paced(scene, 1)) == list(TALK)


@pytest.mark.parametrize("pace", [0.5, 2, 100])
async def test_pauses_are_divided_by_the_pace(pace: float) -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene)
        expected = [(round(seconds / pace, 3), events) for seconds, events in TALK]
        assert await shown(scene, await paced(scene, pace)) == expected


async def test_behind_a_cursor_the_first_comes_at_once() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene)
        assert await shown(scene, await paced(scene, 1, after=4)) == [
            (0.0, [TextDelta("m", "three")]),
            (0.5, TALK[3][1]),
        ]


@pytest.mark.parametrize("timed_from", [2, 4])
async def test_what_has_no_times_is_shown_at_once(timed_from: int) -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene, timed_from=timed_from)
        found = await shown(scene, await paced(scene, 1))
        assert [event for _, events in found for event in events] == [event for _, events in TALK for event in events]
        assert found[-1][0] == (0.5 if timed_from == 2 else 0.0)


async def test_a_reader_that_leaves_in_a_pause_ends_it() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene)
        viewer = await paced(scene, 1)
        assert await viewer.next(HEARTBEAT)
        pause = asyncio.ensure_future(viewer.next(HEARTBEAT))
        await scene.clock.until_timer(2.0)
        viewer.close()
        batch = await pause
        assert batch is not None
        assert not batch.events
        assert not scene.clock.pending, "a timer is left"


async def test_a_log_that_goes_in_a_pause_does_not_look_like_an_end() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene, words=5000)  # more than is read at once
        viewer = await paced(scene, 1)
        assert await viewer.next(HEARTBEAT)
        await scene.runner.delete_run(OWNER, "r")
        with pytest.raises(StoreError):
            await shown(scene, viewer)


async def test_a_read_that_is_cancelled_leaves_no_gap() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await kept(scene)
        viewer = await paced(scene, 1)
        reading = asyncio.ensure_future(viewer.next(HEARTBEAT))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        batch = await viewer.next(HEARTBEAT)
        assert batch is not None
        assert not batch.events
        assert viewer.dropped


async def test_what_a_run_under_way_says_from_now_on_comes_as_it_is_said() -> None:
    slow: list[list[dict[str, Any]]] = [[{"text": "one "}, {"delay_seconds": 8}, {"text": "two "}, {"hang": True}]]
    async with runner_scene(agent_of("a", slow)) as scene:
        first = await scene.start("a", question())
        await read_until(first, TextDelta)
        await scene.clock.until_timer(8)
        await scene.clock.advance(8)
        said = (await read_until(first, TextDelta))[-1]
        viewer = await paced(scene, 1)
        found = await shown(scene, viewer, last=said)
        assert found[0][0] == 0.0
        assert found[-1][0] == 8.0
        await scene.runner.cancel(OWNER, "r")
        assert await shown(scene, viewer) == [(0.0, await read_until(first, RunFinished))]
