"""Ends or continues the unfinished runs of an earlier process, or of another gateway that is gone.

Below: endings, live_run, turns.resumption. Above: the run driver. A run can be continued if its provider works on in
the background. Every other run is ended from its log: a tool that was running is never run again. Messages that waited
with a run are added after those of the run that worked on the thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from gateway.agent import AgentInput
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import Clock
from gateway.errors import ConflictError, NotFoundError, StoreError
from gateway.events import Event, RunFailed, RunStarted, RunTakenOver
from gateway.frozen import replace
from gateway.loop import Decision, ResumedRun
from gateway.messages import Message
from gateway.records import encode_events
from gateway.runs.endings import (
    conversation_of,
    end_left_behind,
    ended_record,
    new_thread,
    terminal_of,
    with_waited,
    withdrawn_by,
)
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.thread_points import begun_thread
from gateway.runs.viewer import read_log
from gateway.runs.waiting_input import waiting_input
from gateway.store import Fork, HeldElsewhereError, RunRecord, RunStatus, Store, Terminal, Thread
from gateway.turns.resumption import (
    RESTARTED,
    left_run,
    open_call,
    restored_decisions,
    restored_input,
    returned_calls,
)

logger = logging.getLogger(__name__)

_RESTARTED = RunFailed("server_restarted", RESTARTED)


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A run that can be continued. `events` are its log; `thread` has the run's input in it. `decisions` are those that
    are not carried out yet.
    """

    record: RunRecord
    thread: Thread
    agent: OpenAgent
    events: tuple[Event, ...]
    resumed: ResumedRun
    input: AgentInput
    decisions: tuple[Decision, ...] = ()


class Waiting(NamedTuple):
    """A run that waited for its thread, or had left the queue; and the messages that waited with it."""

    record: RunRecord
    messages: Sequence[Message]


class Found(NamedTuple):
    """The runs that can be continued; and, for each thread, the runs that waited for such a run (`waiting`), in the
    order of the queue.
    """

    left_open: Sequence[LeftOpen]
    waiting: Sequence[Sequence[Waiting]]


async def recover(
    store: Store,
    clock: Clock,
    agents: AgentDirectory,
    leases: AsyncExitStack,
    own: Collection[tuple[str, str]] = (),
) -> Found:
    """End the runs that an earlier process, or a gateway that is gone, left unfinished, except runs that can be
    continued and the runs that wait for these. The agents of runs that can be continued stay open until `leases` ends.
    `own`: the runs of this process, by owner and the id that clients know.

    Raises:
        StoreError: the store cannot be used now.
    """
    left_open: list[LeftOpen] = []
    for record in await store.unfinished_runs():
        if record.status is RunStatus.RUNNING and (record.owner, record.client_id) not in own:
            with _one_of_many(record):
                await store.hold_thread(record.owner, record.thread_id, holds=True, takes_over=True)
                async with AsyncExitStack() as lease:
                    agent = await lease.enter_async_context(agents.usable(record.owner, record.agent_id))
                    left = None if agent is None else await _left_open(store, agent, record)
                    if left is not None:
                        left_open.append(left)
                        leases.push_async_callback(lease.pop_all().aclose)
                        continue
                await _end(store, clock, record)
    waiting: dict[tuple[str, str], list[Waiting]] = {
        (each.record.owner, each.record.thread_id): [] for each in left_open
    }
    for record, messages in await store.waiting_runs():
        if (record.owner, record.client_id) in own:
            continue
        runs = waiting.get((record.owner, record.thread_id))
        if runs is None:
            await end_waiting(store, clock, [Waiting(record, messages)])
        else:
            runs.append(Waiting(await _out_of_queue(store, clock, record), messages))
    return Found(left_open, [runs for runs in waiting.values() if runs])


async def end_waiting(store: Store, clock: Clock, runs: Sequence[Waiting]) -> None:
    """End runs that waited for a run that is over, and add the messages that waited with them to their thread.

    Raises:
        StoreError: the store cannot be used now.
    """
    for record, messages in runs:
        with _one_of_many(record):
            await _end(store, clock, record, messages)


@contextmanager
def _one_of_many(record: RunRecord) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except HeldElsewhereError:
        logger.info("another gateway ends a run", extra={"run_id": record.run_id})
    except (NotFoundError, ConflictError):
        logger.warning("a run was gone before it could be ended", extra={"run_id": record.run_id})
    except Exception:  # one unreadable log must not stop the gateway
        logger.exception("a run of the last process cannot be ended", extra={"run_id": record.run_id})


async def _end(store: Store, clock: Clock, record: RunRecord, messages: Sequence[Message] = ()) -> None:
    logger.warning("ending a run that the last process left behind", extra={"run_id": record.run_id})
    terminal = terminal_of(record) if record.status.ended else _RESTARTED
    if record.status is RunStatus.RUNNING:
        await end_left_behind(store, clock, record, terminal)
    else:
        await end_unbegun(store, clock, record, terminal, messages)


async def end_unbegun(
    store: Store, clock: Clock, record: RunRecord, terminal: Terminal, messages: Sequence[Message]
) -> None:
    """End a run that has not begun, and add the messages that waited with it to its thread. A thread that does not
    exist
    begins as the run would have begun it.

    Raises:
        StoreError: the store cannot be used now.
    """
    begins: Thread | None = None
    if await store.load_thread(record.owner, record.thread_id) is None:
        now, given = clock.now(), waiting_input(record, messages)
        begins, fork = await _begun_thread(store, record, given, now)
        begins = replace(begins, collection=given.thread.collection)
        if fork is not None:  # only a begin stores a fork
            thread = replace(with_waited(begins, record, messages), updated_at=now)
            record = replace(record, status=RunStatus.RUNNING, started_at=now)
            started = encode_events([RunStarted(record.thread_id, record.run_id)], now)
            await store.begin_run(record, thread, keep=len(begins.messages), records=started, fork=fork)
            messages = ()
    await end_left_behind(store, clock, record, terminal, messages, begins)


async def _begun_thread(store: Store, record: RunRecord, given: AgentInput, now: float) -> tuple[Thread, Fork | None]:
    try:
        return await begun_thread(store, record.owner, given, record.agent_id, now)
    except NotFoundError:  # the thread that it was to begin from was deleted meanwhile
        return new_thread(record.owner, given, record.agent_id, now), None


async def _out_of_queue(store: Store, clock: Clock, record: RunRecord) -> RunRecord:
    """The run's record after the run has left the queue. It is stored before the thread's working run ends."""
    if record.status.ended or withdrawn_by(record):  # the latter ends together with the interrupts that it withdraws
        return record
    left = replace(ended_record(record, _RESTARTED, clock.now()), started_at=None)
    await store.queue_run(left)
    return left


async def _left_open(store: Store, agent: OpenAgent, record: RunRecord) -> LeftOpen | None:
    goes_on = agent.definition.on_takeover == "continue"
    if not (goes_on or agent.model.capabilities.background):
        return None
    thread = await store.load_thread(record.owner, record.thread_id)
    log = read_log(store, record.owner, record.run_id, after=0, until=None)
    events = tuple([event async for batch in log for event in batch.events])
    resumed = open_call(events) if agent.model.capabilities.background else None
    if resumed is None and goes_on:
        resumed = left_run(events)
    if thread is None or thread.last_run_id != record.run_id or resumed is None:
        return None
    given = restored_input(resumed.input, record.thread_id, record.run_id)
    returned = returned_calls(events)
    decisions = restored_decisions(resumed.input, thread.messages)
    left = tuple(decision for decision in decisions if decision.call.call_id not in returned)
    return LeftOpen(record, thread, agent, events, resumed, given, left)


def restore(live: LiveRun, left: LeftOpen) -> None:
    """Bring a run to the end of its log."""
    logger.warning(
        "going on with a run that the last process left behind",
        extra={"run_id": left.record.run_id, "response_id": left.resumed.response_id},
    )
    thread, terms = left.thread, live.terms
    conversation = conversation_of(
        terms.definition, terms.model.capabilities, thread, left.input.thread.conversation_id
    )
    live.begin_with(thread, conversation)
    live.resume_after(list(left.events))
    if left.resumed.response_id is None:
        live.accept([RunTakenOver()])
        live.must_be_kept = True  # before the model is asked: a run that ends each of its processes must have an end
    live.enter(Phase.RUNNING)
    live.watch().close()  # starts the wait for a viewer, for runs that end without one
