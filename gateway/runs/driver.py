"""Drives runs from their begin to their end.

Below: live_run, thread_queue, directory, intake, store. Above: the runner, which requests runs. A failure before the
run's begin is stored is an exception; a later one becomes the run's one terminal event, here.

A run belongs to this object, not to the connection that asked for it. A thread has one run at a time, whichever agents
work on it: the head of the thread's line runs, the others wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass

from gateway.agent import AgentInput, Approvers
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent, with_frontend_tools
from gateway.clock import Clock, shielded
from gateway.commit_window import CommitWindow
from gateway.errors import ConflictError, GatewayError, NotFoundError, StoreError, UnavailableError
from gateway.events import RunFailed, RunStarted
from gateway.frozen import replace
from gateway.loop import Decision, LoopContext, ResumedRun
from gateway.messages import Message
from gateway.metrics import Metrics
from gateway.runs.approvals import named_by
from gateway.runs.beginnings import Beginnings
from gateway.runs.counts import count_end, count_failed_tools
from gateway.runs.elsewhere import busy_elsewhere, until_held
from gateway.runs.endings import (
    conversation_of,
    end_left_behind,
    ended_record,
    ended_thread,
    failed,
    input_when_stopped,
    stopped,
    withdrawn_by,
)
from gateway.runs.intake import is_whole_history, recognised, take_in, up_to_date, waiting_messages
from gateway.runs.live_run import LiveRun
from gateway.runs.loop_contexts import loop_context
from gateway.runs.phases import Phase
from gateway.runs.recovery import LeftOpen, Waiting, end_unbegun, end_waiting, recover, restore
from gateway.runs.removal import ThreadRemoval
from gateway.runs.run_terms import RunTerms, check_selected_tools, terms_of
from gateway.runs.run_trace import begin_trace, end_trace
from gateway.runs.second_tries import as_second_try, is_second_try
from gateway.runs.thread_points import begun_thread
from gateway.runs.thread_queue import ThreadLines
from gateway.runs.waiting_input import waiting_record
from gateway.store import Fork, HeldElsewhereError, RunRecord, RunStatus, Store, Terminal, Thread
from gateway.tool import Tool
from gateway.traces import NO_HEADERS, Tracer, current, part_of
from gateway.turns.resumption import kept_input, kept_trace

logger = logging.getLogger(__name__)

# How long a cancelled run may take to end by itself.
_CANCEL_SECONDS = 0.8
_STORE_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The operator's settings for runs."""

    disconnect_grace_seconds: float = 15.0
    max_waiting_per_thread: int = 8
    max_viewer_events: int = 10_000
    max_unkept_events: int = 2_000
    max_versions: int = 50


class RunDriver:
    """All runs of this process. Others may read `runs` and `lines`; call `shut_down` at the end."""

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
        self.runs: dict[tuple[str, str], LiveRun] = {}  # by owner and the run id that clients know
        most = options.max_waiting_per_thread
        self.lines = ThreadLines(most, clock, stop=self.cancel, ends_unwatched=self._ends_unwatched)
        self.removal = ThreadRemoval(store, clock)
        self.window = CommitWindow(*store.commit_window)
        self.beginnings = Beginnings(store, self.lines.line)
        self._options = options
        self._redacted = redacted
        self._tracer = tracer
        self._draining = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- beginning a run

    def open(
        self,
        record: RunRecord,
        agent: OpenAgent,
        terms: RunTerms,
        *,
        unattended: bool = False,
        earlier_trace: Mapping[str, str] = NO_HEADERS,
    ) -> LiveRun:
        """A run that can be watched; `start` must follow. An `unattended` one goes on without viewers.

        `terms` are its agent and options. It holds its agent from here to its end.
        """
        live = self.runs[record.owner, record.client_id] = LiveRun(
            record,
            agent,
            self.store,
            self.clock,
            grace_seconds=self._options.disconnect_grace_seconds,
            on_abandoned=self._abandoned,
            terms=terms,
            unattended=unattended,
            trace=begin_trace(self._tracer, record, terms.definition, earlier_trace),
            max_viewer_events=self._options.max_viewer_events,
            window=self.window,
        )
        self.agents.hold(agent, until=live.ended)
        return live

    async def start(self, live: LiveRun, given: AgentInput) -> None:
        """Begin a run, or let it wait in its thread's line. If this raises, no run was made.

        Raises:
            ConflictError: the thread is busy.
            TooManyRequestsError: too many runs wait for the thread.
            InvalidRequestError: an answer does not fit its interrupt, or a selected tool does not exist.
            StaleHistoryError: the thread has messages that the client has not seen.
            NotFoundError: the thread, version or message that the new thread is to begin from does not exist.
            StoreError: the store cannot be used now.
        """
        try:
            if live.terms.selected_tools is not None:
                await self._check_selected_tools(live, given)
            policy = live.terms.definition.on_concurrent_run
            if policy == "cancel_previous":
                self._check_seen(live, given)
            stored = await self._stored_ahead(live) if policy == "enqueue" else ()
            waiting = await self.lines.enter(live, policy)
            if waiting:
                # Nothing is awaited before this, so that the store gets the runs in the order of the line.
                ahead, stateful = self.lines.ahead(live, stored), live.terms.model.capabilities.is_stateful
                live.waiting_messages = waiting_messages(given, ahead, is_stateful=stateful)
                if not self.lines.has_begun(*live.thread_key):
                    live.become(waiting_record(live.record, given, _collection(live, given), stored, ahead))
                await self.store.queue_run(live.record, live.waiting_messages)
                self.metrics.runs_waiting.inc()
                live.enter(Phase.WAITING)
                self._spawn(live, self._wait_and_run(live, given))
            else:
                context = await self._begin(live, given)
                self._spawn(live, self._drive(live, context))
        except BaseException:
            self._leave(live)
            raise

    async def _stored_ahead(self, live: LiveRun) -> Sequence[Message]:
        """The stored messages of a thread whose working run has not stored its begin yet; empty in all other cases."""
        if self.lines.is_free(*live.thread_key) or self.lines.has_begun(*live.thread_key):
            return ()
        thread = await self.store.load_thread(*live.thread_key)
        return () if thread is None else thread.messages

    async def _check_selected_tools(self, live: LiveRun, given: AgentInput) -> None:
        tools, _ = await live.tools()
        if live.cancel_reason is None:
            check_selected_tools(live.terms, given, tools)

    def _check_seen(self, live: LiveRun, given: AgentInput) -> None:
        """Refuse a client that has not seen the messages of the thread's running run, before that run is cancelled for
        it.
        """
        head = self.lines.head(live.record.owner, given.thread.id)
        if head is not None and head.thread is not None:
            stored = head.thread.messages
            up_to_date(recognised(given, stored), stored)

    async def _begin(self, live: LiveRun, given: AgentInput, *, waited: bool = False) -> LoopContext:
        """Read the thread, take the input in, and store both with RunStarted. The run exists from then on."""
        definition, capabilities = live.terms.definition, live.terms.model.capabilities
        tools, approvals = await live.tools() if live.cancel_reason is None else ({}, {})
        now = self.clock.now()
        thread, fork = await self._thread_of(live, given, now)
        if await is_second_try(self.store, thread, definition.id, given, live.record.input_digest):
            is_whole = is_whole_history(given, definition, thread.messages)
            given = as_second_try(given, thread.messages, is_whole=is_whole)
        given = recognised(given, thread.messages)
        if live.cancel_reason is not None:
            given = input_when_stopped(given)
        given = with_frontend_tools(given, tools)
        conversation = conversation_of(definition, capabilities, thread, given.thread.conversation_id)
        gone = await self._gone_agents(given, thread, definition.id)
        taken = take_in(given, thread, definition, tools, approvals, now, conversation, waited=waited, gone=gone)
        if taken.thread.version != thread.version:
            await self.make_room_for_version(taken.thread)
            conversation = conversation_of(definition, capabilities, taken.thread, given.thread.conversation_id)
        live.begin_with(taken.thread, conversation, given.sent.history_cache)
        record = replace(live.record, status=RunStatus.RUNNING, started_at=now, finished_at=None)
        if live.cancel_reason is None:
            live.become(record)
        kept = kept_input(given, live.trace, taken.decisions) if live.goes_on else None
        started = live.follow([RunStarted(given.thread.id, given.run_id, given.parent_run_id, kept)])
        _, records = live.number(started)
        with part_of(live.trace, "commit begin_run", {"db.operation.name": "begin_run"}):
            await self.store.begin_run(
                record, taken.thread, keep=taken.keep, rewrite=taken.rewrite, records=records, fork=fork, patient=waited
            )
        if live.failure is not None:  # it was given up meanwhile
            raise live.failure
        live.enter(Phase.RUNNING)
        self.metrics.runs_active.inc()
        live.publish_numbered()
        self.beginnings.tell(record)
        return self._context(live, given, tools, approvals, decisions=taken.decisions)

    async def _thread_of(self, live: LiveRun, given: AgentInput, now: float) -> tuple[Thread, Fork | None]:
        """The stored thread of the input, or the new one that the input begins, with its fork if it is one."""
        owner, fork = live.record.owner, None
        thread = await self.store.load_thread(owner, given.thread.id)
        if thread is None:
            thread, fork = await begun_thread(self.store, owner, given, live.terms.definition.id, now)
        collection = _collection(live, given)
        if collection and thread.collection not in ("", collection):
            raise ConflictError(
                f"thread {given.thread.id!r} is in another memory container than its agent's are; use another thread",
                code="other_container",
            )
        if collection and not thread.collection:
            thread = replace(thread, collection=collection)
        return thread, fork

    async def _gone_agents(self, given: AgentInput, thread: Thread, agent_id: str) -> set[str]:
        """The other agents whose interrupts the input answers and which no longer exist."""
        named = named_by(thread.interrupts, given.answers)
        others = {item.agent_id for item in named if not item.is_asked_by(agent_id)}
        return {each for each in others if not await self.agents.has(thread.owner, each)}

    async def make_room_for_version(self, thread: Thread) -> None:
        """Delete a thread's oldest version if its next one would exceed the operator's limit."""
        most = self._options.max_versions
        if thread.last_version > most:  # fewer were ever made: there is room
            await self.removal.make_room_for_version(self.agents, thread.owner, thread.thread_id, most)

    def _context(
        self,
        live: LiveRun,
        given: AgentInput,
        tools: Mapping[str, Tool],
        approvals: Mapping[str, Approvers | None],
        *,
        decisions: Sequence[Decision] = (),
        resumed: ResumedRun | None = None,
    ) -> LoopContext:
        return loop_context(
            live, given, tools, approvals, self.clock, self.metrics, self.store.gateways.until_sure,
            decisions=decisions, resumed=resumed,
        )  # fmt: skip

    # --- running

    def _spawn(self, live: LiveRun, work: Coroutine[None, None, None]) -> None:
        # The task itself sets the run's task: a task that is cancelled before its first step never runs.
        with current(live.trace):
            self._follow(asyncio.create_task(work, name=f"run {live.record.run_id}"))

    def _follow(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait_and_run(self, live: LiveRun, given: AgentInput) -> None:
        live.work_in(asyncio.current_task())
        try:
            await self._wait_in_line(live)
        finally:
            self.metrics.runs_waiting.dec()
        try:
            context = await shielded(self._begin(live, given, waited=True))
        except Exception as error:
            if not live.finishing:  # else it was given up meanwhile
                live.enter(Phase.ENDING)
                if isinstance(error, HeldElsewhereError):  # too late to go there
                    error = busy_elsewhere(error)
                self._end_unkept(live, self._failed(live, error))
            return
        await self._drive(live, context)

    async def _wait_in_line(self, live: LiveRun) -> None:
        noticed, free = False, asyncio.ensure_future(self._until_free(live))
        while not free.done():
            if live.cancel_reason is not None and not noticed:
                noticed = True
                self._show_end(live, stopped(live.cancel_reason))
                if not withdrawn_by(live.record):  # else a restart would leave them open
                    await self._keep_left(live)
            try:
                await asyncio.shield(free)
            except asyncio.CancelledError:
                if noticed or live.cancel_reason is None:  # the process stops, not the run
                    free.cancel()
                    raise

    async def _until_free(self, live: LiveRun) -> None:
        await self.lines.until_head(live)
        await until_held(self.store, self.clock, *live.thread_key)

    async def _keep_left(self, live: LiveRun) -> None:
        """Store that a run has left the queue. Its messages and its log are stored once it is the head of the line:
        until then another run works on the thread.
        """
        try:
            await shielded(self.store.queue_run(live.record))
        except GatewayError as error:  # then it is stored once the run is the head, with everything else
            logger.warning(
                "a run left the queue, and this is not stored yet",
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
            terminal = self._failed(live, error)
        await self._finish(live, terminal)

    def _failed(self, live: LiveRun, error: Exception) -> RunFailed:
        return failed(live.record, error, self._redacted, own_model=live.agent.owner == live.record.owner)

    async def _leave_open(self, live: LiveRun) -> None:
        """Leave the run to the next process, which continues it from the store: its provider works on."""
        if live.finishing:
            return
        live.enter(Phase.ENDING)
        with suppress(GatewayError):
            await live.wait_kept()
        self._leave(live)

    async def _follow_loop(self, live: LiveRun, context: LoopContext) -> Terminal:
        most_unkept = self._options.max_unkept_events
        if live.must_be_kept:
            await live.wait_kept()
        async with aclosing(live.agent.loop.run(context)) as batches:
            async for batch in batches:
                if not batch:
                    raise TypeError("a loop yields lists of events, and none is empty")
                if (end := live.accept(batch)) is not None:
                    return end
                if live.backlog > most_unkept or live.must_be_kept:
                    await live.wait_kept()
        raise GatewayError("the agent stopped without an end")

    async def _finish(self, live: LiveRun, terminal: Terminal) -> None:
        """Store the run's end, then show it: the only place where runs end."""
        if live.finishing:
            return
        live.enter(Phase.ENDING)
        if live.failure is not None:
            self._end_unkept(live, RunFailed(live.failure.code, live.failure.message))
            return
        try:
            record = await self._keep_end(live, terminal)
        except ConflictError:
            self._give_up(live)
        except StoreError as error:
            cause = live.first_failure(error)
            self._end_unkept(live, RunFailed(cause.code, cause.message))
        except Exception as error:
            self._end_unkept(live, self._failed(live, error))
        else:
            live.become(record)  # not before: an end that was shown but not stored would change after a kill -9
            live.publish_numbered()
            self._leave(live)

    async def _keep_end(self, live: LiveRun, terminal: Terminal) -> RunRecord:
        assert live.thread is not None, "a run that ends has begun"
        if not terminal.usage and (usage := live.fold.usage.total):
            terminal = replace(terminal, usage=usage)
        events = live.follow([terminal])
        now = self.clock.now()
        produced = live.fold.messages
        count_failed_tools(self.metrics, produced, live.agent.definition)
        thread = ended_thread(
            live.thread, produced, terminal, now, live.fold.state, live.conversation,
            forgets_pauses=live.terms.forgets_pauses, withdrawn=withdrawn_by(live.record),
        )  # fmt: skip
        begun = live.record
        if begun.started_at is None:  # it was stopped while it waited, and began only to store its input
            begun = replace(begun, started_at=live.thread.updated_at)
        ended_at, has_custom = live.record.finished_at or now, live.fold.has_custom
        record = ended_record(begun, terminal, ended_at, thread, has_custom=has_custom)
        first, records = live.number(events)
        keep = len(live.thread.messages)
        holds = self.lines.is_awaited(live) or self.beginnings.are_awaited(*live.thread_key)
        end = self.store.end_run(
            record, thread, keep=keep, first=first, records=records, erase=live.retracted, holds=holds
        )
        with part_of(live.trace, "commit end_run", {"db.operation.name": "end_run"}):
            await end.shielded()
        return record

    def _give_up(self, live: LiveRun) -> None:
        """Leave the run without an end: another gateway has it now. Its viewers come back, and find it there."""
        logger.warning("a run was taken over by another gateway", extra={"run_id": live.record.run_id})
        live.audience.break_off()
        self._leave(live)

    async def give_up_all(self) -> None:
        """Leave all runs without an end, and wait for none: this gateway was taken for dead, and holds no thread."""
        for live in list(self.runs.values()):
            live.lose(ConflictError("another gateway has the run"))
            self._give_up(live)
        self.beginnings.give_up()

    def _end_unkept(self, live: LiveRun, terminal: RunFailed) -> None:
        """Show the run's end, unless one was shown, and store it later: the store cannot be used now."""
        if isinstance(live.failure, ConflictError):
            self._give_up(live)
            return
        self.metrics.store_failed(terminal.code)
        logger.error(
            "a run ended before its end could be stored", extra={"run_id": live.record.run_id, "code": terminal.code}
        )
        if live.shown_end is None:
            self._show_end(live, replace(terminal, usage=live.fold.usage.total))
        self._spawn(live, self._keep_later(live))

    def _show_end(self, live: LiveRun, end: Terminal) -> None:
        """Show a run's end before it is stored."""
        live.become(replace(ended_record(live.record, end, self.clock.now()), started_at=live.record.started_at))
        live.give_up(end)

    async def _keep_later(self, live: LiveRun) -> None:
        # The thread stays locked until then: the stored thread lacks the messages that its viewers saw.
        live.work_in(asyncio.current_task())
        try:
            while True:
                try:
                    await self._keep_shown_end(live)
                    return
                except StoreError as error:
                    self.lines.block(live, error)
                await self.clock.sleep(_STORE_RETRY_SECONDS)
        except (NotFoundError, ConflictError):
            logger.warning("a run was gone before it could be ended", extra={"run_id": live.record.run_id})
        except Exception:
            logger.exception("a run's end cannot be stored", extra={"run_id": live.record.run_id})
        finally:
            self._leave(live)

    async def _keep_shown_end(self, live: LiveRun) -> None:
        assert live.shown_end is not None, "it was given up"
        if live.begun:
            await end_left_behind(self.store, self.clock, live.record, live.shown_end)
        else:
            await end_unbegun(self.store, self.clock, live.record, live.shown_end, live.waiting_messages)

    def _leave(self, live: LiveRun) -> None:
        """The run is over, or never began: remove it and let the thread's next run begin."""
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
        """Stop a run: it will have ended within a second. Repeated calls have no effect."""
        if live.stop(reason):
            asyncio.get_running_loop().call_later(_CANCEL_SECONDS, self._force_end, live)

    def _force_end(self, live: LiveRun) -> None:
        """End a run whose task does not end."""
        if live.finishing or not live.begun:
            return
        logger.warning("a run's work did not stop in time", extra={"run_id": live.record.run_id})
        if live.task is not None:
            self.agents.hold(live.agent, until=live.task)  # it outlives its run
        self._spawn(live, self._finish(live, stopped(live.cancel_reason)))

    def _ends_unwatched(self, live: LiveRun) -> bool:
        return not live.unattended and live.agent.definition.on_disconnect == "cancel"

    def _abandoned(self, live: LiveRun) -> None:
        if self._ends_unwatched(live):
            self.cancel(live, "abandoned")

    async def shut_down(self, drain_seconds: float) -> None:
        """Refuse new runs, let running ones end, and stop those that have not ended by then. A second call does not
        wait.
        """
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
        self.store.stop_waiting()
        if live_runs:
            await asyncio.wait([live.concluded for live in live_runs], timeout=_CANCEL_SECONDS)
            await self._keep_shown_ends(live_runs)
        # Runs whose end cannot be stored now are ended at the next start, from their logs.
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CANCEL_SECONDS)

    async def _keep_shown_ends(self, live_runs: Sequence[LiveRun]) -> None:
        """Try once more to store ends that were shown: the next process cannot learn of them otherwise."""
        tries = [self._keep_shown_end(live) for live in live_runs if live.phase is Phase.UNKEPT]
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await asyncio.gather(*tries, return_exceptions=True)

    @property
    def draining(self) -> bool:
        """Whether new runs are refused."""
        return self._draining

    def check_open(self) -> None:
        """Refuse new work once the process is ending. Raises UnavailableError."""
        if self._draining:
            raise UnavailableError("the gateway is shutting down; try again in a moment", code="shutting_down")

    async def recover(self) -> None:
        """End or continue the unfinished runs of an earlier process, or of gateways that are gone."""
        async with AsyncExitStack() as leases:
            found = await recover(self.store, self.clock, self.agents, leases, self.runs)
            for left in found.left_open:
                trace = kept_trace(left.resumed.input)
                terms, unattended = terms_of(left.agent, left.input), left.input.terms.unattended
                live = self.open(left.record, left.agent, terms, unattended=unattended, earlier_trace=trace)
                restore(live, left)
                await self.lines.enter(live, "enqueue")
                self.metrics.runs_active.inc()
                self._spawn(live, self._go_on(live, left))
            for runs in found.waiting:
                self._follow(asyncio.create_task(self._end_waiting(runs)))

    async def _end_waiting(self, runs: Sequence[Waiting]) -> None:
        """End the runs that waited for a run of the earlier process, once that run is over."""
        record = runs[0].record
        try:
            async with self.lines.visit(record.owner, record.thread_id, waits=True):
                await end_waiting(self.store, self.clock, runs)
        except GatewayError as error:
            extra = {"thread_id": record.thread_id, "code": error.code}
            logger.warning("runs of the last process are ended at the next start", extra=extra)

    async def _go_on(self, live: LiveRun, left: LeftOpen) -> None:
        live.work_in(asyncio.current_task())
        tools, approvals = await live.tools()
        given = with_frontend_tools(left.input, tools)
        await self._drive(
            live, self._context(live, given, tools, approvals, decisions=left.decisions, resumed=left.resumed)
        )


def _collection(live: LiveRun, given: AgentInput) -> str:
    """The collection that the run's thread must be in; empty: any."""
    return given.thread.collection or live.agent.collection_of(live.record.owner)
