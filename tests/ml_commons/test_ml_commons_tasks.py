"""The tasks of executions that nobody waits for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.access.callers import LOCAL_CALLER, Caller
from gateway.access.limits import Meter
from gateway.errors import NotFoundError
from gateway.events import Event
from gateway.messages import JsonObject
from gateway.ml_commons.answers import hits_of
from gateway.ml_commons.tasks import Tasks, begin_task
from gateway.protocol import ProtocolEnvironment
from gateway.store import RunRecord
from gateway.transcript import Transcript
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

SAYS = agent("says", scripted([{"text": "done"}]))


class Said:
    """Renders a run as the text that it said."""

    def __init__(self, record: RunRecord) -> None:
        self._transcript = Transcript()

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        self._transcript.follow(events)
        return ()

    def final(self) -> JsonObject:
        return {"said": "".join(message.text for message in self._transcript.messages)}


def tasks_of(gateway: LocalGateway) -> tuple[ProtocolEnvironment, Tasks]:
    application = gateway.application
    runs = Meter(application.clock, "runs", most_at_once=None)
    environment = ProtocolEnvironment(application.runner, application.streams, runs)
    return environment, Tasks(environment, Said)


async def begun(gateway: LocalGateway, environment: ProtocolEnvironment, run_id: str, **body: Any) -> str:
    await gateway.client.run("says", run_body(run_id=run_id, thread_id=f"of-{run_id}", **body))
    answer = await begin_task(environment, LOCAL_CALLER, run_id, {"memory_id": f"of-{run_id}"})
    assert answer["status"] == "RUNNING"
    return str(answer["task_id"])


async def test_a_task_has_the_answer_of_its_run_and_is_found_by_its_state(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        found = await tasks.search(LOCAL_CALLER, {"query": {"term": {"state": "COMPLETED"}}})
        [hit] = hits_of(found)
        task = await tasks.task(LOCAL_CALLER, task_id)
        assert (hit["_id"], hit["_source"]) == (task_id, task)
        assert (task["task_type"], task["state"], task["response"]) == (
            "AGENT_EXECUTION",
            "COMPLETED",
            {"said": "done"},
        )
        none = await tasks.search(LOCAL_CALLER, {"query": {"terms": {"state": ["CREATED", "RUNNING", "FAILED"]}}})
        assert hits_of(none) == []


async def test_a_task_goes_with_its_memory(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        await tasks.task(LOCAL_CALLER, task_id)
        await environment.delete(LOCAL_CALLER, "of-r1")
        with pytest.raises(NotFoundError):
            await tasks.task(LOCAL_CALLER, task_id)


async def test_another_owners_task_is_unknown(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        with pytest.raises(NotFoundError):
            await tasks.task(Caller("somebody"), task_id)
