"""Runs agents: takes inputs in, drives the loop, keeps the thread, lets viewers in, stops.

Below: live_run, open_agent, approvals, history, store. Above: every protocol. All that can fail before the first byte
fails in `start`, as an exception with a status; what fails after it becomes the run's one terminal event, here.

A run belongs to this object, not to the socket that asked for it. One thread has one run at a time, whichever agents
work on it: the head of the thread's line runs, the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from gateway.agent import Absent, AgentInput
from gateway.bookkeeping import (
    Terminal,
    conversation_of,
    end_left_behind,
    ended_record,
    ended_thread,
    failed,
    input_digest,
    no_thread,
    run_exists,
    stopped,
    words_alone,
)
from gateway.clock import Clock
from gateway.deadline import unhurt
from gateway.errors import (
    ConflictError,
    GatewayError,
    InvalidRequestError,
    NotFoundError,
    StoreError,
    UnavailableError,
)
from gateway.events import Completed, RunFailed, RunFinished, RunStarted
from gateway.gather_window import GatherWindow
from gateway.intake import take_in
from gateway.live_run import LiveRun
from gateway.loop import LoopContext
from gateway.messages import Message
from gateway.metrics import Metrics
from gateway.open_agent import OpenAgent, frontend_tools, no_agent
from gateway.recovery import LeftOpen, loop_context, recover, restore
from gateway.replay import join, last_event, produced_by, replay, without_log
from gateway.run_counts import count_end, count_failed_tools
from gateway.store import Page, RunRecord, RunStatus, Store, Thread, ThreadSummary
from gateway.thread_lines import ThreadLines
from gateway.thread_removal import ThreadRemoval
from gateway.tool import SharedState, Tool
from gateway.transcript import OpenItems
from gateway.viewer import Prelude, Viewer

logger = logging.getLogger(__name__)

Admission: TypeAlias = Callable[[], Callable[[object], None]]

# How long a cancelled run may take to come to its end by itself.
_CANCEL_SECONDS = 0.8
_STORE_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """The operator's decisions that concern runs."""

    disconnect_grace_seconds: float = 15.0
    max_waiting_per_thread: int = 8
    max_viewer_events: int = 10_000
    max_unkept_events: int = 2_000


class Runner:
    """Everything that runs in this process. `open` before use, `shut_down` at the end."""

    def __init__(
        self,
        agents: Mapping[str, OpenAgent],
        store: Store,
        clock: Clock,
        options: RunnerOptions = RunnerOptions(),
        metrics: Metrics | None = None,
    ) -> None:
        self.agents = agents
        self._metrics = metrics or Metrics()
        self.store = store
        self.clock = clock
        self.removal = ThreadRemoval(store, clock)
        self._options = options
        self._runs: dict[tuple[str, str], LiveRun] = {}
        most = options.max_waiting_per_thread
        self._lines = ThreadLines(most, stop=self._cancel, ends_unwatched=self._ends_unwatched)
        self.window = GatherWindow()
        self._draining = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- a run's begin

    async def start(self, owner: str, agent_id: str, given: AgentInput, admit: Admission | None = None) -> Viewer:
        """Begin a run and watch it; a request that was made before is watched again.

        `admit` is asked before a new run and may refuse it; what it gives is called once that run is over.

        Raises:
            NotFoundError: no such agent.
            ConflictError: the thread is busy, or the run id belongs to another request.
            TooManyRequestsError: too many runs wait for the thread, or `admit` says so.
            InvalidRequestError: an answer that does not fit its interrupt.
            StoreError, UnavailableError: not now.
        """
        agent = self.agent(agent_id)
        while True:
            if (viewer := await self._start_again(owner, agent, given)) is not None:
                return viewer
            if (owner, given.run_id) not in self._runs:  # else it came meanwhile: the same request twice at one moment
                break
        if self._draining:
            raise UnavailableError("the gateway is shutting down; try again in a moment", code="shutting_down")
        release = None if admit is None else admit()
        live = self._new_run(owner, agent, given)
        if release is not None:
            live.ended.add_done_callback(release)
        viewer = live.watch()
        try:
            waiting = await self._lines.enter(live, agent.definition.on_concurrent_run)
            if waiting:
                await self.store.queue_run(live.record)
                self._metrics.runs_waiting.inc()
                self._spawn(live, self._wait_and_run(live, agent, given))
            else:
                context = await self._begin(live, agent, given)
                self._spawn(live, self._drive(live, agent, context))
        except BaseException:
            self._leave(live)
            raise
        return viewer

    def agent(self, agent_id: str) -> OpenAgent:
        """The agent of that id. Raises NotFoundError."""
        if (agent := self.agents.get(agent_id)) is None:
            raise no_agent(agent_id)
        return agent

    def _new_run(self, owner: str, agent: OpenAgent, given: AgentInput) -> LiveRun:
        record = RunRecord(
            owner, given.run_id, given.thread_id, agent.definition.id, RunStatus.QUEUED, self.clock.now(),
            input_digest=input_digest(given),
        )  # fmt: skip
        return self._open_run(record)

    def _open_run(self, record: RunRecord) -> LiveRun:
        live = self._runs[record.owner, record.run_id] = LiveRun(
            record,
            self.store,
            self.clock,
            grace_seconds=self._options.disconnect_grace_seconds,
            on_abandoned=self._abandoned,
            max_viewer_events=self._options.max_viewer_events,
            window=self.window,
        )
        return live

    async def _begin(self, live: LiveRun, agent: OpenAgent, given: AgentInput) -> LoopContext:
        """Read the thread, take the input in, keep both with RunStarted: from here on the run exists."""
        owner = live.record.owner
        tools, approvals = await _tools(live, agent) if live.cancel_reason is None else ({}, frozenset())
        if live.cancel_reason is not None:
            given = words_alone(given)
        now = self.clock.now()
        stored = await self.store.load_thread(owner, given.thread_id)
        thread = stored or Thread(owner, given.thread_id, agent.definition.id, now, now)
        live.conversation = conversation_of(agent.definition, agent.model.capabilities, thread, given.conversation_id)
        taken = take_in(given, thread, agent.definition, tools, now, live.conversation)
        messages, state = taken.thread.messages, taken.thread.state
        live.thread = taken.thread
        live.state = state
        live.begin_with(messages, given.known)
        record = replace(live.record, status=RunStatus.RUNNING, started_at=now, finished_at=None)
        if live.cancel_reason is None:
            live.record = record
        started = live.follow([RunStarted(given.thread_id, given.run_id, given.parent_run_id)])
        _, records = live.number(started)
        await self.store.begin_run(record, live.thread, keep=taken.keep, records=records)
        live.begun = True
        self._metrics.runs_active.inc()
        live.publish_numbered()
        offered = frontend_tools(given.tools, tools)
        return LoopContext(
            agent=agent.definition,
            input=given if offered == given.tools else replace(given, tools=offered),
            owner=owner,
            model=agent.model,
            tools=tools,
            approvals=approvals,
            messages=taken.own,
            elsewhere=taken.elsewhere,
            state=SharedState({} if isinstance(state, Absent) else state),
            clock=self.clock,
            decisions=taken.decisions,
            still_open=taken.thread.interrupts,
            on_retry=self._metrics.provider_retried,
            fallback=agent.fallback,
            fits=agent.fits,
            conversation=live.conversation,
            is_left=lambda: live.left,
        )

    # --- a run under way

    def _spawn(self, live: LiveRun, work: Coroutine[None, None, None]) -> None:
        # `live.task` is set by the task itself: one that is cancelled before its first step never runs a line.
        task = asyncio.create_task(work, name=f"run {live.record.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        live.settle()

    async def _wait_and_run(self, live: LiveRun, agent: OpenAgent, given: AgentInput) -> None:
        live.task = asyncio.current_task()
        try:
            await self._wait_for_turn(live)
        finally:
            self._metrics.runs_waiting.dec()
        try:
            context = await unhurt(self._begin(live, agent, given))
        except Exception as error:
            self._end_unkept(live, failed(live.record, error))
            return
        await self._drive(live, agent, context)

    async def _wait_for_turn(self, live: LiveRun) -> None:
        told = False
        while not live.turn.done():
            if live.cancel_reason is not None and not told:
                told = True
                end = stopped(live.cancel_reason)
                live.record = replace(ended_record(live.record, end, self.clock.now()), started_at=None)
                live.give_up([RunStarted(live.record.thread_id, live.record.run_id), end])
                await self._keep_left(live)
            try:
                await asyncio.shield(live.turn)
            except asyncio.CancelledError:
                if told or live.cancel_reason is None:  # not the run is stopped, but the process
                    raise

    async def _keep_left(self, live: LiveRun) -> None:
        """Keep that a run has left the queue. Its words and its log have to wait: until its turn the thread is another
        run's.
        """
        try:
            await unhurt(self.store.queue_run(live.record))
        except GatewayError as error:  # then its turn is when it is kept, as all else of it
            logger.warning(
                "a run that left the queue is not kept as ended yet",
                extra={"run_id": live.record.run_id, "code": error.code},
            )

    async def _drive(self, live: LiveRun, agent: OpenAgent, context: LoopContext) -> None:
        live.task = asyncio.current_task()
        terminal: Terminal
        try:
            if live.cancel_reason is None:
                terminal = await self._follow_loop(live, agent, context)
            else:  # it was stopped while it began
                terminal = stopped(live.cancel_reason)
        except asyncio.CancelledError:
            if live.left:
                await self._leave_open(live)
                return
            terminal = stopped(live.cancel_reason)
        except Exception as error:
            terminal = failed(live.record, error)
        await self._finish(live, terminal)

    async def _leave_open(self, live: LiveRun) -> None:
        """The process ends, and the run's provider works on: the next process takes it up from what is kept."""
        live.finishing = True
        with suppress(GatewayError):
            await live.wait_kept()
        self._leave(live)

    async def _follow_loop(self, live: LiveRun, agent: OpenAgent, context: LoopContext) -> Terminal:
        most_unkept = self._options.max_unkept_events
        async with aclosing(agent.loop.run(context)) as batches:
            async for batch in batches:
                last = batch[-1]
                if type(last) is RunFinished or type(last) is RunFailed:
                    live.accept(batch[:-1])
                    return last
                live.accept(batch)
                if live.backlog > most_unkept or live.must_be_kept:
                    await live.wait_kept()
        raise GatewayError("the agent stopped without an end")

    async def _finish(self, live: LiveRun, terminal: Terminal) -> None:
        """Keep the run's end, then show it: the only place where runs end."""
        if live.finishing:
            return
        live.finishing = True
        if live.failure is not None:
            self._end_unkept(live, RunFailed(live.failure.code, live.failure.message))
            return
        try:
            record = await self._keep_end(live, terminal)
        except StoreError as error:
            cause = live.first_failure(error)
            self._end_unkept(live, RunFailed(cause.code, cause.message))
        except Exception as error:
            self._end_unkept(live, failed(live.record, error))
        else:
            live.record = record  # not before: an end that was told and not kept would change after a kill -9
            live.publish_numbered()
            self._leave(live)

    async def _keep_end(self, live: LiveRun, terminal: Terminal) -> RunRecord:
        assert live.thread is not None, "a run that ends has begun"
        if not terminal.usage and (usage := live.usage.total):
            terminal = replace(terminal, usage=usage)
        events = live.follow([terminal])
        now = self.clock.now()
        record = ended_record(live.record, terminal, now)
        produced = live.transcript.messages
        count_failed_tools(self._metrics, produced, self.agent(record.agent_id).definition)
        thread = ended_thread(live.thread, produced, terminal, now, live.state, live.conversation)
        first, records = live.number(events)
        keep = len(live.thread.messages)
        end = self.store.end_run(record, thread, keep=keep, first=first, records=records, erase=live.retracted)
        await end.unhurt()
        return record

    def _end_unkept(self, live: LiveRun, terminal: RunFailed) -> None:
        """The run's end cannot be kept as it is: viewers are told, and an end is kept once there is room."""
        live.finishing = True
        terminal = replace(terminal, usage=live.usage.total)
        self._metrics.store_failed(terminal.code)
        logger.error("a run ended before it could be kept", extra={"run_id": live.record.run_id, "code": terminal.code})
        live.record = replace(
            live.record,
            status=RunStatus.FAILED,
            finished_at=self.clock.now(),
            error_code=terminal.code,
            error_message=terminal.message,
        )
        started = [] if live.begun else [RunStarted(live.record.thread_id, live.record.run_id)]
        live.give_up([*started, terminal])
        self._spawn(live, self._keep_later(live, terminal))

    async def _keep_later(self, live: LiveRun, terminal: RunFailed) -> None:
        # The thread stays locked until then: what it holds is not what its viewers saw.
        live.task = asyncio.current_task()
        try:
            while True:
                try:
                    await end_left_behind(
                        self.store, self.clock, live.record, code=terminal.code, message=terminal.message
                    )
                    return
                except StoreError as error:
                    self._lines.block(live, error)
                await self.clock.sleep(_STORE_RETRY_SECONDS)
        except (NotFoundError, ConflictError):
            logger.warning("a run was gone before it could be ended", extra={"run_id": live.record.run_id})
        except Exception:
            logger.exception("a run's end cannot be kept", extra={"run_id": live.record.run_id})
        finally:
            self._leave(live)

    def _leave(self, live: LiveRun) -> None:
        """The run is over, or never began: forget it and let the next of its thread run."""
        if self._runs.pop(live.key, None) is None:
            return
        live.finish()
        if live.begun:
            count_end(self._metrics, live)
        self._lines.leave(live)

    # --- stopping

    async def cancel(self, owner: str, run_id: str) -> RunRecord:
        """Stop a run; its record as it is now: one that has not ended will within a second.

        Raises:
            NotFoundError: no such run.
        """
        if (live := self._runs.get((owner, run_id))) is None:
            return await self.run(owner, run_id)
        self._cancel(live, "cancelled")
        return live.record

    def _cancel(self, live: LiveRun, reason: str) -> None:
        if live.cancel_reason is None and not live.finishing:
            live.cancel_reason = reason
            if live.task is not None:
                live.task.cancel()
            asyncio.get_running_loop().call_later(_CANCEL_SECONDS, self._force_end, live)

    def _force_end(self, live: LiveRun) -> None:
        """End a run whose task does not."""
        if live.finishing or not live.begun:
            return
        logger.warning("a run's work did not stop in time", extra={"run_id": live.record.run_id})
        self._spawn(live, self._finish(live, stopped(live.cancel_reason)))

    def _ends_unwatched(self, live: LiveRun) -> bool:
        return self.agent(live.record.agent_id).definition.on_disconnect == "cancel"

    def _abandoned(self, live: LiveRun) -> None:
        if self._ends_unwatched(live):
            self._cancel(live, "abandoned")

    async def shut_down(self, drain_seconds: float) -> None:
        """Take no more runs, let those under way end, stop what has not ended by then. A second call does not wait."""
        if self._draining:
            drain_seconds = 0
        self._draining = True
        live_runs = list(self._runs.values())
        for live in live_runs:
            if live.record.status is RunStatus.QUEUED:
                self._cancel(live, "server_shutdown")
        if live_runs:
            await asyncio.wait([live.ended for live in live_runs], timeout=drain_seconds)
            for live in live_runs:
                if not live.leave():
                    self._cancel(live, "server_shutdown")
            await asyncio.wait([live.ended for live in live_runs], timeout=2 * _CANCEL_SECONDS)
        # What cannot be kept now is ended at the next start, from what the log has.
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_SECONDS)

    @property
    def draining(self) -> bool:
        return self._draining

    async def recover(self) -> None:
        """End the runs that an earlier process left behind, or go on with them. Call once, before serving."""
        for left in await recover(self.store, self.clock, self.agents):
            live = self._open_run(left.record)
            restore(live, left)
            await self._lines.enter(live, "enqueue")
            self._metrics.runs_active.inc()
            self._spawn(live, self._go_on(live, left))

    async def _go_on(self, live: LiveRun, left: LeftOpen) -> None:
        live.task = asyncio.current_task()
        await self._drive(live, left.agent, loop_context(live, left, *await _tools(live, left.agent), self.clock))

    # --- reading

    async def run(self, owner: str, run_id: str) -> RunRecord:
        """A run's record. Raises NotFoundError."""
        live = self._runs.get((owner, run_id))
        record = live.record if live is not None else await self.store.load_run(owner, run_id)
        if record is None:
            raise NotFoundError(f"there is no run {run_id!r}", code="run_not_found")
        return record

    async def _settled(self, owner: str, run_id: str) -> LiveRun | None:
        live = self._runs.get((owner, run_id))
        if live is not None and not live.settled.done():  # it may yet be refused
            await asyncio.wait((live.settled,))
        return self._runs.get((owner, run_id))

    async def attach(self, owner: str, run_id: str, *, after: int) -> Viewer | None:
        """Watch a run's events after that number; None where the run is over and there are none.

        Raises:
            NotFoundError: no such run.
            InvalidRequestError: the run's log has not come that far.
        """
        live = await self._settled(owner, run_id)
        record = await self.run(owner, run_id)
        last = live.sequence if live is not None else await self.store.last_sequence(owner, run_id)
        if after > last:
            raise InvalidRequestError(
                f"run {run_id!r} has no event {after}; its last is {last}", code="invalid_cursor", status=400
            )
        if live is not None and not live.ended.done():
            self._metrics.resumed("attached")
            return await live.follow_from(after)
        if after == last:
            self._metrics.resumed("ended")
            return None
        self._metrics.resumed("replayed")
        return replay(self.store, self.clock, record, after=after)

    async def connect(self, owner: str, agent_id: str, given: AgentInput) -> Viewer:
        """Watch a thread: its history, then its live run's tail, or how its last run ended.

        Raises:
            NotFoundError: no such agent.
        """
        self.agent(agent_id)
        thread = None
        live = self._lines.head(owner, given.thread_id)
        if live is None or live.thread is None:
            thread = await self.store.load_thread(owner, given.thread_id)
            live = None if thread is None else self._runs.get((owner, thread.last_run_id or ""))
        if live is not None:
            if (joined := await join(live)) is not None:
                return joined
            thread = await self.store.load_thread(owner, given.thread_id)
        viewer = Viewer(self.clock)
        if thread is None or thread.last_run_id is None:
            viewer.feed_unnumbered([RunStarted(given.thread_id, given.run_id), RunFinished(Completed())])
        else:
            last_run = thread.last_run_id
            viewer.prelude = Prelude(thread.thread_id, last_run, thread.state, thread.messages, OpenItems())
            viewer.feed_unnumbered([await last_event(self.store, owner, last_run)])
        viewer.finish()
        return viewer

    async def threads(self, owner: str, *, limit: int, cursor: str | None) -> Page[ThreadSummary]:
        return await self.store.list_threads(owner, limit=limit, cursor=cursor)

    async def messages(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[Message]:
        """Raises NotFoundError for an unknown thread."""
        page = await self.store.list_messages(owner, thread_id, limit=limit, cursor=cursor)
        if not page.items and await self.store.load_thread(owner, thread_id) is None:
            raise no_thread(thread_id)
        return page

    async def rename_thread(self, owner: str, thread_id: str, title: str | None) -> None:
        """Raises NotFoundError for an unknown thread."""
        for live in self._lines.line(owner, thread_id):
            if live.thread is not None:
                live.thread = replace(live.thread, title=title)
        if not await self.store.rename_thread(owner, thread_id, title):
            raise no_thread(thread_id)

    async def delete_thread(self, owner: str, thread_id: str) -> None:
        """Forget a thread and its runs; a run on it is cancelled first. Raises NotFoundError for an unknown thread."""
        deleted, held = False, await self.removal.look(self.agents, owner, thread_id)
        while line := self._lines.line(owner, thread_id):
            for live in line:
                self._cancel(live, "cancelled")
            head = line[0]
            await asyncio.wait((head.concluded,))
            if head.unkept is not None and not head.ended.done():  # nobody wants to keep it any more
                deleted = await self.removal.delete(self.agents, owner, thread_id, held) or deleted
                if head.task is not None:
                    head.task.cancel()
                await asyncio.wait((head.ended,))
            held = await self.removal.look(self.agents, owner, thread_id)
        if not (await self.removal.delete(self.agents, owner, thread_id, held) or deleted):
            raise no_thread(thread_id)

    # --- a request that was made before

    async def _start_again(self, owner: str, agent: OpenAgent, given: AgentInput) -> Viewer | None:
        """A viewer of the run that this request began earlier; None where there is no such run.

        Raises:
            ConflictError: the run id belongs to another request.
        """
        live = await self._settled(owner, given.run_id)
        record = live.record if live else await self.store.load_start(owner, given.run_id, given.thread_id)
        if record is None:
            return None
        produced = frozenset(m.id for m in await produced_by(self.store, record, live))
        same = record.agent_id == agent.definition.id and record.thread_id == given.thread_id
        if not same or input_digest(given, produced) != record.input_digest:
            raise run_exists(given.run_id)
        live = self._runs.get((owner, given.run_id))
        if live is not None:
            if live.thread is None:
                return live.watch()
            if (joined := await join(live)) is not None:
                return joined
            record = await self.run(owner, given.run_id)
        if await self.store.last_sequence(owner, given.run_id) == 0:
            return without_log(self.clock, record)
        if not any(message.id in produced for message in given.messages):
            return replay(self.store, self.clock, record, after=0)
        # The client holds a part of the answer: it has to go first, or the log would be added to it.
        sent = tuple(message for message in given.messages if message.id not in produced)
        viewer = replay(self.store, self.clock, record, after=1)
        viewer.prelude = Prelude(record.thread_id, record.run_id, given.state, sent, OpenItems())
        return viewer


async def _tools(live: LiveRun, agent: OpenAgent) -> tuple[Mapping[str, Tool], frozenset[str]]:
    """The agent's tools; none where the run is stopped before they are there: a tool server may take its time."""
    before, task = live.task, asyncio.current_task()
    assert task is not None
    live.task = task
    try:
        return await agent.tools()
    except asyncio.CancelledError:
        if live.cancel_reason is None or task.uncancel():  # not the run is stopped, but the request
            raise
        return {}, frozenset()
    finally:
        live.task = before
