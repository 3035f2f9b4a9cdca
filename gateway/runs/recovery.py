"""Ends or continues the unfinished runs of an earlier process.

Below: endings, live_run, turns.resumption. Above: the run driver. A run can be continued if its provider works on in
the background. Every other run is ended from its log: a tool that was running is never run again.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from gateway.agent import AgentInput
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import Clock
from gateway.errors import StoreError
from gateway.events import Event
from gateway.loop import ResumedRun
from gateway.runs.endings import conversation_of, end_left_behind
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.viewer import read_log
from gateway.store import RunRecord, RunStatus, Store, Thread
from gateway.turns.resumption import RESTARTED, open_call, restored_input

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A run whose model's answer is still coming. `events` are its log; `thread` has the run's input in it."""

    record: RunRecord
    thread: Thread
    agent: OpenAgent
    events: tuple[Event, ...]
    resumed: ResumedRun
    input: AgentInput


async def recover(store: Store, clock: Clock, agents: AgentDirectory, leases: AsyncExitStack) -> list[LeftOpen]:
    """End the runs that an earlier process left behind; gives those that can be continued. Their agents stay open until
    `leases` ends.

    Raises:
        StoreError: the store cannot be used now.
    """
    found: list[LeftOpen] = []
    for record in await store.unfinished_runs():
        try:
            async with AsyncExitStack() as lease:
                agent = await lease.enter_async_context(agents.usable(record.owner, record.agent_id))
                left = None if agent is None else await _left_open(store, agent, record)
                if left is not None:
                    found.append(left)
                    leases.push_async_callback(lease.pop_all().aclose)
                    continue
            logger.warning("ending a run that the last process left behind", extra={"run_id": record.run_id})
            await end_left_behind(store, clock, record, code="server_restarted", message=RESTARTED)
        except StoreError:
            raise
        except Exception:  # one unreadable log must not stop the gateway
            logger.exception("a run of the last process cannot be ended", extra={"run_id": record.run_id})
    return found


async def _left_open(store: Store, agent: OpenAgent, record: RunRecord) -> LeftOpen | None:
    if record.status is not RunStatus.RUNNING or not agent.model.capabilities.background:
        return None
    thread = await store.load_thread(record.owner, record.thread_id)
    log = read_log(store, record.owner, record.run_id, after=0, until=None)
    events = tuple([event async for batch in log for event in batch.events])
    resumed = open_call(events)
    if thread is None or thread.last_run_id != record.run_id or resumed is None:
        return None
    given = restored_input(resumed.input, record.thread_id, record.run_id)
    return LeftOpen(record, thread, agent, events, resumed, given)


def restore(live: LiveRun, left: LeftOpen) -> None:
    """Bring a run to the end of its log."""
    logger.warning(
        "going on with a run that the last process left behind",
        extra={"run_id": left.record.run_id, "response_id": left.resumed.response_id},
    )
    thread, terms = left.thread, live.terms
    conversation = conversation_of(terms.definition, terms.model.capabilities, thread, left.input.conversation_id)
    live.begin_with(thread, conversation)
    live.resume_after(list(left.events))
    live.enter(Phase.RUNNING)
    live.watch().close()  # starts the wait for a viewer, for runs that end without one
