"""Runs that wait or end at a gateway while another one may have their thread."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.events import RunFailed
from gateway.runs.phases import Phase
from gateway.store import RunStatus
from tests.invariants import check_log
from tests.opensearch.index_sets import INDEX_SETS
from tests.pieces import rows_of_pieces
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, GatedStore, agent_of, question, read
from tests.shared_store_scene import two_members
from tests.stored_samples import within
from tests.waiting import until


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


async def test_a_run_that_was_ending_here_keeps_the_end_that_another_gateway_gave_it(tmp_path: Path) -> None:
    async with two_members(tmp_path, lambda: [agent_of("a", HANGS)]) as (one, two):
        given = question("hi")
        viewer = await within(one.runner.start(OWNER, "a", given))
        told = asyncio.Event()

        async def end_left() -> None:
            await two.runner.driver.recover()
            told.set()

        two.store.gateways.events.on_left = end_left
        one.die()
        await within(told.wait())
        live = one.runner.driver.runs[OWNER, given.run_id]
        await within(one.runner.cancel(OWNER, given.run_id))
        await until(lambda: live.phase is Phase.ENDING)

        await one.come_back()

        await until(lambda: not one.runner.driver._tasks)
        assert live.shown_end is None
        assert viewer.dropped, "its client comes back"
        for member in (one, two):
            record = await within(member.store.load_run(OWNER, given.run_id))
            assert record is not None
            assert record.status is RunStatus.FAILED
            log = rows_of_pieces(await within(member.store.read_events(OWNER, given.run_id, after=0, limit=1000)))
            check_log(log)
            assert isinstance(log[-1].event, RunFailed)
            assert log[-1].event.code == "server_restarted"


async def test_a_run_that_waits_holds_its_thread_although_nobody_waited_when_the_last_one_ended(
    tmp_path: Path,
) -> None:
    agents = [agent_of("hangs", HANGS), agent_of("says", SAYS_HELLO, on_concurrent_run="enqueue")]
    async with two_members(tmp_path, lambda: agents) as (one, two):
        gated: Any = GatedStore(one.store)
        one.runner.driver.store = gated
        first = await within(one.runner.start(OWNER, "hangs", question("hi", run_id="r1")))
        gated.hold("end_run")
        await within(one.runner.cancel(OWNER, "r1"))
        await within(gated.reached["end_run"].wait())
        second = await within(one.runner.start(OWNER, "says", question("and you?", run_id="r2", history="append")))
        gated.reached["begin_run"].clear()
        gated.hold("begin_run")
        gated.release("end_run")
        await within(gated.reached["begin_run"].wait())
        assert await within(two.store.holder(OWNER, "t")) == one.id
        gated.release("begin_run")
        for viewer in (first, second):
            await read(viewer)
        assert (await within(two.store.unfinished_runs())) == []
