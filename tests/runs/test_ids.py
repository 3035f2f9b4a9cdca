"""Which run a client's id means while runs of that id come and go."""

from __future__ import annotations

import asyncio
from typing import cast

from gateway.runs.ids import RunIds
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.store import RunRecord, RunStatus, Store
from tests.live_run_scene import DEADLINE_SECONDS, GRACE_SECONDS, OWNER, RUN, THREAD, HeldStore, settle
from tests.movable_clock import MovableClock
from tests.runner_scene import SAYS_HELLO, agent_of


def asked_for() -> LiveRun:
    """A run that may still be refused."""
    record = RunRecord(OWNER, RUN, THREAD, "agent", RunStatus.QUEUED, 0.0)
    store = cast(Store, HeldStore())
    agent = agent_of("agent", SAYS_HELLO)
    return LiveRun(record, agent, store, MovableClock(), grace_seconds=GRACE_SECONDS, on_abandoned=lambda _: None)


async def test_a_run_that_may_still_be_refused_is_not_given_also_where_another_of_its_id_was() -> None:
    refused, begun = asked_for(), asked_for()
    live = {(OWNER, RUN): refused}
    finding = asyncio.create_task(RunIds(cast(Store, HeldStore()), live).settled(OWNER, RUN))
    await settle()
    refused.finish()
    live[OWNER, RUN] = begun
    await settle()
    assert not finding.done()
    begun.enter(Phase.RUNNING)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await finding is begun
