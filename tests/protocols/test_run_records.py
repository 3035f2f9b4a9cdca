"""What the records of runs tell, and the door to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.errors import NotFoundError
from gateway.owners import LOCAL_OWNER
from gateway.protocol import ProtocolEnvironment
from gateway.sse import OpenStreams
from tests.runner_scene import SAYS_HELLO, agent_of, question, read, runner_scene
from tests.running_gateway import agent, local_gateway, run_body, scripted

STAFF, ALICE = Caller("staff", "staff"), Caller("alice", "alice")


async def test_a_run_over_ag_ui_remembers_that_it_was(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))]) as gateway:
        await gateway.client.run("a", run_body())
        store = gateway.application.store
        (thread,) = (await store.list_threads(LOCAL_OWNER, limit=5, cursor=None)).items
        (record,) = (await store.list_runs(LOCAL_OWNER, thread.thread_id, limit=5, cursor=None)).items
        assert (record.origin, record.request, record.thread_length) == ("ag_ui", None, 2)


async def test_runs_are_listed_and_forgotten_for_their_owner_alone() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        environment = ProtocolEnvironment(scene.runner, OpenStreams(), Meter(scene.clock, "runs"))
        await read(await environment.start(STAFF, "a", question()))
        with pytest.raises(NotFoundError):
            await environment.thread_runs(ALICE, "t", limit=5)
        with pytest.raises(NotFoundError):
            await environment.delete_run(ALICE, "r")
        page = await environment.thread_runs(STAFF, "t", limit=5)
        assert [record.run_id for record in page.items] == ["r"]
        await environment.delete_run(STAFF, "r")
        assert (await environment.thread_runs(STAFF, "t", limit=5)).items == ()
