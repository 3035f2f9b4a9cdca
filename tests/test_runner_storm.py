"""Hundreds of runs at once, begun, watched, left, cancelled, deleted at random: nothing is left, every log is whole."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.events import RunFailed, RunFinished
from gateway.history.model_view import model_view
from gateway.messages import JsonObject
from gateway.runs.driver import RunOptions
from gateway.runs.viewer import Viewer
from gateway.tool import ToolContext
from tests.invariants import check_history, check_log
from tests.loop_runs import FunctionTool
from tests.pieces import rows_of_pieces
from tests.runner_scene import OWNER, Scene, agent_of, question, runner_scene

_RUNS = 200
_THREADS = 40
_SCRIPTS: dict[str, list[list[dict[str, Any]]]] = {
    "reject": [[{"text": "let me see ", "chunk_characters": 2}, {"tool": "wait"}], [{"text": "done"}]],
    "enqueue": [[{"tool": "wait"}, {"tool": "wait"}], [{"text": "one two", "chunk_characters": 3}, {"hang": True}]],
    "cancel_previous": [[{"text": "abc"}, {"delay_seconds": 1}, {"error": "network"}]],
}


async def _wait(arguments: JsonObject, context: ToolContext) -> str:
    for _ in range(random.randrange(5)):
        await asyncio.sleep(0)
    return "waited"


async def _watch(viewer: Viewer, seed: random.Random) -> None:
    """Read to the end, or leave after some reads."""
    reads = seed.choice([1, 3, 1000])
    last: object = None
    try:
        for _ in range(reads):
            batch = await viewer.next(3600)
            if batch is not None and not batch.events:
                assert viewer.dropped or isinstance(last, RunFinished | RunFailed), last
                return
            if batch is not None:
                last = batch.events[-1]
    finally:
        viewer.close()


async def _do_something(scene: Scene, number: int, seed: random.Random) -> None:
    runner = scene.runner
    agent_id = seed.choice(list(_SCRIPTS))
    thread_id, run_id = f"t{seed.randrange(_THREADS)}", f"r{number}"
    given = question(thread_id=thread_id, run_id=run_id)
    some_run = f"r{seed.randrange(_RUNS)}"
    for _ in range(seed.randrange(60)):
        await asyncio.sleep(0)
    with contextlib.suppress(GatewayError):
        match seed.randrange(10):
            case 0:
                await runner.cancel(OWNER, some_run)
            case 1:
                if (viewer := await runner.attach(OWNER, some_run, after=0)) is not None:
                    await _watch(viewer, seed)
            case 2:
                await _watch(await runner.connect(OWNER, agent_id, given), seed)
            case 3 if number % 4 == 0:
                await runner.delete_thread(OWNER, thread_id)
            case 4:  # the same request twice
                viewers = await asyncio.gather(*(runner.start(OWNER, agent_id, given) for _ in range(2)))
                await asyncio.gather(*(_watch(viewer, seed) for viewer in viewers))
            case _:
                await _watch(await runner.start(OWNER, agent_id, given), seed)


@pytest.mark.parametrize("number", range(6))
async def test_a_storm_leaves_nothing(number: int) -> None:
    seed = random.Random(number)
    tool = FunctionTool("wait", _wait)
    agents = [agent_of(id, script, (tool, "never"), on_concurrent_run=id) for id, script in _SCRIPTS.items()]
    options = RunOptions(disconnect_grace_seconds=5, max_waiting_per_thread=3)
    async with runner_scene(*agents, options=options) as scene:
        busy = asyncio.gather(*(_do_something(scene, each, seed) for each in range(_RUNS)))
        async with asyncio.timeout(20):
            while not busy.done() or scene.runner._runs:
                await scene.clock.advance(1)
            await busy
        assert all(task.done() for task in scene.runner.driver._tasks)  # their callbacks may not have run yet
        assert scene.runner.driver.metrics.runs_active._value.get() == 0
        assert scene.runner.driver.metrics.runs_waiting._value.get() == 0
        kept = 0
        for each in range(_RUNS):
            if await scene.store.load_run(OWNER, f"r{each}") is not None:
                kept += 1
                log = rows_of_pieces(await scene.store.read_events(OWNER, f"r{each}", after=0, limit=100_000))
                check_log(log, backend_tools=["wait"])
        assert kept > 20
        for each in range(_THREADS):
            thread = await scene.store.load_thread(OWNER, f"t{each}")
            if thread is not None:
                check_history(model_view(thread.messages))
