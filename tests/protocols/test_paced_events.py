"""`GET /runs/{id}/events?pace=1`: the log of a run as it came, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.events import Completed, Event, RunFinished, RunStarted, TextDelta, TextEnded, TextStarted
from gateway.frozen import replace
from gateway.owners import LOCAL_OWNER
from gateway.records import encode_events
from gateway.store import RunRecord, RunStatus, Store, Thread
from tests.movable_clock import MovableClock
from tests.running_gateway import agent, local_gateway, scripted

HEARTBEAT = 15.0
AGENTS = [agent("a", scripted([{"text": "hi"}]))]


async def kept(store: Store) -> None:
    """A run that thought for 100 seconds before its words."""
    record = RunRecord(LOCAL_OWNER, "r", "t", "a", RunStatus.RUNNING, 1.0, 1.0)
    thread = Thread(LOCAL_OWNER, "t", "a", 1.0, 1.0, last_run_id="r")
    await store.begin_run(record, thread, keep=0, records=encode_events([RunStarted("t", "r")], 1.0))
    said: list[Event] = [TextStarted("m"), TextDelta("m", "hello"), TextEnded("m"), RunFinished(Completed())]
    over = replace(record, status=RunStatus.COMPLETED, finished_at=101.0)
    await store.end_run(over, thread, keep=0, first=2, records=encode_events(said, 101.0))


async def test_a_paced_log_has_the_same_frames_and_heartbeats_in_its_pauses(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, AGENTS, clock=clock) as gateway:
        await kept(gateway.application.store)
        at_once = await gateway.client.http.get("/runs/r/events")
        begun = clock.monotonic()
        asked = asyncio.ensure_future(gateway.client.http.get("/runs/r/events?pace=1"))
        while not asked.done():
            await clock.until(lambda: asked.done() or clock.pending[0] <= HEARTBEAT)
            if not asked.done():
                await clock.advance(clock.pending[0])
        assert clock.monotonic() - begun == pytest.approx(100.0)
        comments = [block for block in asked.result().text.split("\n\n") if block.startswith(":")]
        frames = [block for block in asked.result().text.split("\n\n") if not block.startswith(":")]
        assert len(comments) == 1 + 100 // HEARTBEAT
        assert frames == [block for block in at_once.text.split("\n\n") if not block.startswith(":")]


@pytest.mark.parametrize("pace", ["", "0", "-1", "0.05", "101", "fast", "1e1", "nan", "inf", "١", "1" * 5000])
async def test_another_pace_is_refused(tmp_path: Path, pace: str) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        await kept(gateway.application.store)
        answer = await gateway.client.http.get("/runs/r/events", params={"pace": pace})
        assert answer.status_code == 400
        assert answer.json()["code"] == "invalid_pace"
        assert "from 0.1 to 100" in answer.json()["detail"]
