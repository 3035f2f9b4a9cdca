"""Runs agents: a run from its begin to its end, with all that may come between.

Below: live_run, thread_queue, directory, intake, store. Above: the runner, which is asked for runs. What fails before
a run is kept as begun is an exception; what fails after that becomes the run's one terminal event, here.

A run belongs to this object, not to the socket that asked for it. One thread has one run at a time, whichever agents
work on it: the head of the thread's line runs, the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from gateway.agent import Absent, AgentInput, Approvers
from gateway.clock import Clock, unhurt
from gateway.commit_window import CommitWindow
from gateway.directory import AgentDirectory
from gateway.errors import ConflictError, GatewayError, NotFoundError, StoreError
from gateway.events import RunFailed, RunFinished, RunStarted
from gateway.frozen import replace
from gateway.loop import Decision, LoopContext, TakenUp
from gateway.metrics import Metrics
from gateway.open_agent import OpenAgent, with_frontend_tools
from gateway.runs.counts import count_end, count_failed_tools
from gateway.runs.endings import (
    Terminal,
    conversation_of,
    end_left_behind,
    ended_record,
    ended_thread,
    failed,
    stopped,
    words_alone,
)
from gateway.runs.intake import take_in, up_to_date
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.recovery import LeftOpen, recover, restore
from gateway.runs.run_trace import begin_trace, end_trace
from gateway.runs.thread_queue import ThreadLines
from gateway.store import RunRecord, RunStatus, Store, Thread
from gateway.tool import SharedState, Tool
from gateway.traces import NO_HEADERS, Tracer, current, part_of
from gateway.turns.resumption import kept_trace

logger = logging.getLogger(__name__)

# How long a cancelled run may take to come to its end by itself.
_CANCEL_SECONDS = 0.8
_STORE_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The operator's decisions that concern runs."""

    disconnect_grace_seconds: float = 15.0
    max_waiting_per_thread: int = 8
    max_viewer_events: int = 10_000
    max_unkept_events: int = 2_000


class RunDriver:
    """Everything that runs in this process. `runs` and `lines` are for others to look at; `shut_down` at the end."""

    def __init__(
        self,
        agents: AgentDirectory,
        store: Store,
        clock: Clock,
        options: RunOptions = RunOptions(),
        metrics: Metrics | None = None,
        redacted: Callable[[str], str] = str,
        tracer: Tracer | None = None,
    ) -> None:
        """`redacted` gives a text without the operator's secrets."""
        self.agents = agents
        self.store = store
        self.clock = clock
        self.metrics = metrics or Metrics()
        self.runs: dict[tuple[str, str], LiveRun] = {}  # by owner and the id that clients know
        most = options.max_waiting_per_thread
        self.lines = ThreadLines(most, stop=self.cancel, ends_unwatched=self._ends_unwatched)
        self.window = CommitWindow()
        self._options = options
        self._redacted = redacted
        self._tracer = tracer
        self._draining = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- a run's begin

    def open(
        self,
        record: RunRecord,
        agent: OpenAgent,
        *,
        unattended: bool = False,
        earlier_trace: Mapping[str, str] = NO_HEADERS,
    ) -> LiveRun:
        """A run that can be watched, and that `start` is to follow; one that is `unattended` also where nobody does.

        It holds its agent from here to its end.
        """
        live = self.runs[record.owner, record.client_id] = LiveRun(
            record,
            agent,
            self.store,
            self.clock,
            grace_seconds=self._options.disconnect_grace_seconds,
            on_abandoned=self._abandoned,
            unattended=unattended,
            trace=begin_trace(self._tracer, record, agent.definition, earlier_trace),
            max_viewer_events=self._options.max_viewer_events,
            window=self.window,
        )
        self.agents.hold(agent, until=live.ended)
        return live

    async def start(self, live: LiveRun, given: AgentInput) -> None:
        """Begin a run, or let it wait for its turn. Where this fails there is no such run.

        Raises:
            ConflictError: the thread is busy.
            TooManyRequestsError: too many runs wait for the thread.
            InvalidRequestError: an answer that does not fit its interrupt.
            StaleHistoryError: the thread has messages that the client has not seen.
            StoreError: not now.
        """
        try:
            policy = live.agent.definition.on_concurrent_run
            if policy == "cancel_previous":
                self._check_seen(live, given)
            waiting = await self.lines.enter(live, policy)
            if waiting:
                await self.store.queue_run(live.record)
                self.metrics.runs_waiting.inc()
                live.enter(Phase.WAITING)
                self._spawn(live, self._wait_and_run(live, given))
            else:
                context = await self._begin(live, given)
                self._spawn(live, self._drive(live, context))
        except BaseException:
            self._leave(live)
            raise

    def _check_seen(self, live: LiveRun, given: AgentInput) -> None:
        """Refuse what has not seen the question that the run at work answers, before that run is cancelled for it."""
        head = self.lines.head(live.record.owner, given.thread_id)
        if head is not None and head.thread is not None:
            up_to_date(given, head.thread.messages)

    async def _begin(self, live: LiveRun, given: AgentInput, *, waited: bool = False) -> LoopContext:
        """Read the thread, take the input in, keep both with RunStarted: from here on the run exists."""
        agent, owner = live.agent, live.record.owner
        tools, approvals = await _tools(live) if live.cancel_reason is None else ({}, {})
        if live.cancel_reason is not None:
            given = words_alone(given)
        given = with_frontend_tools(given, tools)
        now = self.clock.now()
        stored = await self.store.load_thread(owner, given.thread_id)
        thread = stored or Thread(owner, given.thread_id, agent.definition.id, now, now)
        conversation = conversation_of(agent.definition, agent.model.capabilities, thread, given.conversation_id)
        taken = take_in(given, thread, agent.definition, tools, approvals, now, conversation, waited=waited)
        live.begin_with(taken.thread, conversation, given.history_cache)
        record = replace(live.record, status=RunStatus.RUNNING, started_at=now, finished_at=None)
        if live.cancel_reason is None:
            live.become(record)
        started = live.follow([RunStarted(given.thread_id, given.run_id, given.parent_run_id)])
        _, records = live.number(started)
        with part_of(live.trace, "commit begin_run", {"db.operation.name": "begin_run"}):
            await self.store.begin_run(record, taken.thread, keep=taken.keep, records=records)
        live.enter(Phase.RUNNING)
        self.metrics.runs_active.inc()
        live.publish_numbered()
        return self._context(live, given, tools, approvals, decisions=taken.decisions)

    def _context(
        self,
        live: LiveRun,
        given: AgentInput,
        tools: Mapping[str, Tool],
        approvals: Mapping[str, Approvers | None],
        *,
        decisions: Sequence[Decision] = (),
        taken_up: TakenUp | None = None,
    ) -> LoopContext:
        """What the loop works with: the run as it stands, and what its agent has."""
        assert live.thread is not None, "a loop gets a run that has begun"
        agent, conversation, messages, state = live.agent, live.conversation, live.thread.messages, live.fold.state
        own, elsewhere = (messages, ()) if conversation is None else conversation.split(messages)
        return LoopContext(
            agent=agent.definition,
            input=given,
            owner=live.record.owner,
            model=agent.model,
            tools=tools,
            approvals=approvals,
            messages=own,
            elsewhere=elsewhere,
            state=SharedState({} if isinstance(state, Absent) else state),
            clock=self.clock,
            decisions=tuple(decisions),
            still_open=live.thread.interrupts,
            on_retry=self.metrics.provider_retried,
            fallback=agent.fallback,
            fits=agent.fits,
            conversation=conversation,
            taken_up=taken_up,
            is_left=lambda: live.left,
            trace=live.trace,
        )

    # --- a run under way

    def _spawn(self, live: LiveRun, work: Coroutine[None, None, None]) -> None:
        # The task says itself that it works on the run: one that is cancelled before its first step never runs a line.
        with current(live.trace):
            task = asyncio.create_task(work, name=f"run {live.record.run_id}")
        self._tasks.add(task)
        self.agents.hold(live.agent, until=task)  # one that does not stop in time outlives its run
        task.add_done_callback(self._tasks.discard)

    async def _wait_and_run(self, live: LiveRun, given: AgentInput) -> None:
        live.work_in(asyncio.current_task())
        try:
            await self._wait_for_turn(live)
        finally:
            self.metrics.runs_waiting.dec()
        try:
            context = await unhurt(self._begin(live, given, waited=True))
        except Exception as error:
            live.enter(Phase.ENDING)
            self._end_unkept(live, failed(live.record, error, self._redacted))
            return
        await self._drive(live, context)

    async def _wait_for_turn(self, live: LiveRun) -> None:
        told, turn = False, self.lines.turn(live)
        while not turn.done():
            if live.cancel_reason is not None and not told:
                told = True
                end = stopped(live.cancel_reason)
                live.become(replace(ended_record(live.record, end, self.clock.now()), started_at=None))
                live.give_up([RunStarted(live.record.thread_id, live.record.run_id), end])
                await self._keep_left(live)
            try:
                await asyncio.shield(turn)
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

    async def _drive(self, live: LiveRun, context: LoopContext) -> None:
        live.work_in(asyncio.current_task())
        terminal: Terminal
        try:
            if live.cancel_reason is None:
                terminal = await self._follow_loop(live, context)
            else:  # it was stopped while it began
                terminal = stopped(live.cancel_reason)
        except asyncio.CancelledError:
            if live.phase is Phase.LEAVING:
                await self._leave_open(live)
                return
            terminal = stopped(live.cancel_reason)
        except Exception as error:
            terminal = failed(live.record, error, self._redacted)
        await self._finish(live, terminal)

    async def _leave_open(self, live: LiveRun) -> None:
        """The process ends, and the run's provider works on: the next process takes it up from what is kept."""
        if live.finishing:
            return
        live.enter(Phase.ENDING)
        with suppress(GatewayError):
            await live.wait_kept()
        self._leave(live)

    async def _follow_loop(self, live: LiveRun, context: LoopContext) -> Terminal:
        most_unkept = self._options.max_unkept_events
        async with aclosing(live.agent.loop.run(context)) as batches:
            async for batch in batches:
                if not batch:
                    raise TypeError("a loop yields lists of events, and none is empty")
                last = batch[-1]
                if type(last) is RunFinished or type(last) is RunFailed:
                    live.accept(batch[:-1])
                    return last
                live.accept(batch)
                if live.sequence - live.kept > most_unkept or live.must_be_kept:
                    await live.wait_kept()
        raise GatewayError("the agent stopped without an end")

    async def _finish(self, live: LiveRun, terminal: Terminal) -> None:
        """Keep the run's end, then show it: the only place where runs end."""
        if live.finishing:
            return
        live.enter(Phase.ENDING)
        if live.failure is not None:
            self._end_unkept(live, RunFailed(live.failure.code, live.failure.message))
            return
        try:
            record = await self._keep_end(live, terminal)
        except StoreError as error:
            cause = live.first_failure(error)
            self._end_unkept(live, RunFailed(cause.code, cause.message))
        except Exception as error:
            self._end_unkept(live, failed(live.record, error, self._redacted))
        else:
            live.become(record)  # not before: an end that was told and not kept would change after a kill -9
            live.publish_numbered()
            self._leave(live)

    async def _keep_end(self, live: LiveRun, terminal: Terminal) -> RunRecord:
        assert live.thread is not None, "a run that ends has begun"
        if not terminal.usage and (usage := live.fold.usage.total):
            terminal = replace(terminal, usage=usage)
        events = live.follow([terminal])
        now = self.clock.now()
        produced = live.fold.transcript.messages
        count_failed_tools(self.metrics, produced, live.agent.definition)
        thread = ended_thread(live.thread, produced, terminal, now, live.fold.state, live.conversation)
        record = ended_record(live.record, terminal, now, thread)
        first, records = live.number(events)
        keep = len(live.thread.messages)
        end = self.store.end_run(record, thread, keep=keep, first=first, records=records, erase=live.retracted)
        with part_of(live.trace, "commit end_run", {"db.operation.name": "end_run"}):
            await end.unhurt()
        return record

    def _end_unkept(self, live: LiveRun, terminal: RunFailed) -> None:
        """The run's end cannot be kept as it is: viewers are told, and an end is kept once there is room."""
        terminal = replace(terminal, usage=live.fold.usage.total)
        self.metrics.store_failed(terminal.code)
        logger.error("a run ended before it could be kept", extra={"run_id": live.record.run_id, "code": terminal.code})
        record = replace(
            live.record,
            status=RunStatus.FAILED,
            finished_at=self.clock.now(),
            error_code=terminal.code,
            error_message=terminal.message,
        )
        live.become(record)
        started = [] if live.begun else [RunStarted(live.record.thread_id, live.record.run_id)]
        live.give_up([*started, terminal])
        self._spawn(live, self._keep_later(live, terminal))

    async def _keep_later(self, live: LiveRun, terminal: RunFailed) -> None:
        # The thread stays locked until then: what it holds is not what its viewers saw.
        live.work_in(asyncio.current_task())
        try:
            while True:
                try:
                    await end_left_behind(
                        self.store, self.clock, live.record, code=terminal.code, message=terminal.message
                    )
                    return
                except StoreError as error:
                    self.lines.block(live, error)
                await self.clock.sleep(_STORE_RETRY_SECONDS)
        except (NotFoundError, ConflictError):
            logger.warning("a run was gone before it could be ended", extra={"run_id": live.record.run_id})
        except Exception:
            logger.exception("a run's end cannot be kept", extra={"run_id": live.record.run_id})
        finally:
            self._leave(live)

    def _leave(self, live: LiveRun) -> None:
        """The run is over, or never began: forget it and let the next of its thread run."""
        key = (live.record.owner, live.record.client_id)
        if self.runs.get(key) is not live:
            return
        del self.runs[key]
        live.finish()
        if live.begun:
            count_end(self.metrics, live)
        end_trace(live)
        self.lines.leave(live)

    # --- stopping

    def cancel(self, live: LiveRun, reason: str) -> None:
        """Stop a run: it will have ended within a second. Harmless when repeated."""
        if live.stop(reason):
            asyncio.get_running_loop().call_later(_CANCEL_SECONDS, self._force_end, live)

    def _force_end(self, live: LiveRun) -> None:
        """End a run whose task does not."""
        if live.finishing or not live.begun:
            return
        logger.warning("a run's work did not stop in time", extra={"run_id": live.record.run_id})
        self._spawn(live, self._finish(live, stopped(live.cancel_reason)))

    def _ends_unwatched(self, live: LiveRun) -> bool:
        return not live.unattended and live.agent.definition.on_disconnect == "cancel"

    def _abandoned(self, live: LiveRun) -> None:
        if self._ends_unwatched(live):
            self.cancel(live, "abandoned")

    async def shut_down(self, drain_seconds: float) -> None:
        """Take no more runs, let those under way end, stop what has not ended by then. A second call does not wait."""
        if self._draining:
            drain_seconds = 0
        self._draining = True
        live_runs = list(self.runs.values())
        for live in live_runs:
            if live.record.status is RunStatus.QUEUED:
                self.cancel(live, "server_shutdown")
        if live_runs:
            await asyncio.wait([live.ended for live in live_runs], timeout=drain_seconds)
            for live in live_runs:
                if not live.leave():
                    self.cancel(live, "server_shutdown")
            await asyncio.wait([live.ended for live in live_runs], timeout=2 * _CANCEL_SECONDS)
        # What cannot be kept now is ended at the next start, from what the log has.
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_SECONDS)

    @property
    def draining(self) -> bool:
        """No more runs are to be started."""
        return self._draining

    async def recover(self) -> None:
        """End the runs that an earlier process left behind, or go on with them. Call once, before serving."""
        for left in await recover(self.store, self.clock, self.agents):
            trace = kept_trace(left.taken_up.input)
            live = self.open(left.record, left.agent, unattended=left.input.unattended, earlier_trace=trace)
            restore(live, left)
            await self.lines.enter(live, "enqueue")
            self.metrics.runs_active.inc()
            self._spawn(live, self._go_on(live, left))

    async def _go_on(self, live: LiveRun, left: LeftOpen) -> None:
        live.work_in(asyncio.current_task())
        tools, approvals = await _tools(live)
        given = with_frontend_tools(left.input, tools)
        await self._drive(live, self._context(live, given, tools, approvals, taken_up=left.taken_up))


async def _tools(live: LiveRun) -> tuple[Mapping[str, Tool], Mapping[str, Approvers | None]]:
    """OpenAgent.tools; none where the run is stopped before they are there: a tool server may take its time."""
    task = asyncio.current_task()
    assert task is not None
    before = live.work_in(task)
    try:
        return await live.agent.tools()
    except asyncio.CancelledError:
        if live.cancel_reason is None or task.uncancel():  # not the run is stopped, but the request
            raise
        return {}, {}
    finally:
        live.work_in(before)
