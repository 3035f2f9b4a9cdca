"""A run that is over is gone: nothing of it waits for the garbage collector, which looks through all others too."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.running_gateway import agent, local_gateway, run_body, scripted


@contextmanager
def garbage_of_ours() -> Generator[Counter[str]]:
    """The objects, by class, that came to know each other in circles within the block and that nobody else knows."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(item) for item in gc.garbage]
        found.update(kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] == "gateway")
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("unwatched_seconds", [0, 3600])
async def test_runs_that_are_over_leave_nothing_for_the_garbage_collector(
    unwatched_seconds: float, tmp_path: Path
) -> None:
    words = scripted([{"tool": "ListIndexTool"}], [{"text": "word ", "repeat": 50}], switch_every_delta=True)
    async with local_gateway(tmp_path, [agent("a", words, tools=[{"type": "ListIndexTool"}])]) as gateway:
        gateway.application.streams.unwatched_seconds = unwatched_seconds
        await gateway.client.run("a", run_body(thread_id="first", run_id="first"))  # what is made once
        with garbage_of_ours() as found:
            for number in range(5):
                frames = await gateway.client.run("a", run_body(thread_id=f"thread-{number}", run_id=f"run-{number}"))
                assert frames[-1].type == "RUN_FINISHED"
    assert found == {}
