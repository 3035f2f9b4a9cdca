"""A run's record has the event with which its log ends, so that lists read no logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.events import RunFailed, RunFinished
from gateway.owners import LOCAL_OWNER
from tests.openai_scene import AGENTS
from tests.running_gateway import agent, local_gateway, run_body, scripted

OF_ITS_OWN = agent("own", scripted([{"text": "hi"}]), usage_event=True)
EVERY = [each for each in [*AGENTS, OF_ITS_OWN] if "hang" not in str(each)]


@pytest.mark.parametrize("asked", EVERY, ids=lambda asked: str(asked["id"]))
async def test_a_record_ends_as_its_log_does(tmp_path: Path, asked: dict[str, object]) -> None:
    async with local_gateway(tmp_path, EVERY) as gateway:
        await gateway.client.run(str(asked["id"]), run_body(run_id="one"))
        store = gateway.application.store
        record = await store.load_run(LOCAL_OWNER, "one")
        log = await store.read_events(LOCAL_OWNER, "one", after=0, limit=1_000)
    assert record is not None
    assert isinstance(record.terminal, RunFinished | RunFailed)
    assert record.terminal == log[-1].event
    assert record.has_custom is (asked["id"] == "own")
