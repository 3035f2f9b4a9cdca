"""A run under way: its numbered events, and the prelude for viewers that join late.

Below: events, messages, event_order, transcript, records, store, audience, phases. Above: the run driver, which owns
the task that feeds a run. An accepted event is numbered and handed to the store, and reaches viewers once the store has
it: nobody ever sees an event that a crash could take back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.agent import Approvers
from gateway.agents.open_agent import OpenAgent
from gateway.clock import Clock
from gateway.commit_window import CommitWindow
from gateway.errors import ConflictError, GatewayError, StoreError
from gateway.event_order import Sealer
from gateway.events import (
    Deltas,
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    MessagesReplaced,
    ModelCallAccepted,
    ModelCallEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    TextStarted,
    ToolCallStarted,
    TurnRetracted,
    UsageReported,
    count_of,
    joined,
)
from gateway.frozen import replace
from gateway.history.cache import HistoryCache, turns_of
from gateway.messages import Message
from gateway.model_state import Conversation
from gateway.records import EventRecords, encode_events
from gateway.runs.audience import Audience
from gateway.runs.paced_viewer import PacedViewer
from gateway.runs.phases import CONCLUDED, FINISHING, OVER, SETTLED, Phase, Phases
from gateway.runs.run_terms import RunTerms, own_terms
from gateway.runs.store_waits import soon_stored
from gateway.runs.viewer import Prelude, Viewer, read_log
from gateway.store import RunRecord, Store, Thread
from gateway.tool import Tool
from gateway.traces import Span
from gateway.transcript import RunFold
from gateway.usage import OF_USAGE

logger = logging.getLogger(__name__)

# A person waits for the first of these in a run: it is committed at once, without waiting for later events.
_FIRST_SIGNS = (TextStarted, ReasoningStarted, ToolCallStarted, MediaGiven)


class LiveRun:
    """A run from its begin to its end. Only its own methods change it. The run driver calls them."""

    # Above CPython's limit for shared attribute tables: without slots each run would have a table of its own, 2 KB.
    __slots__ = (
        "_clock", "_fold", "_gathered", "_kept_waiters", "_last_future", "_phases", "_sealer", "_sequence", "_store",
        "_unkept", "_waiting", "_window", "accepted", "agent", "audience", "backlog", "cancel_reason", "conversation",
        "failure", "first_sign_at", "kept", "left", "must_be_kept", "record", "shown_end", "task", "terms", "thread",
        "trace", "unattended", "unkept", "waiting_messages",
    )  # fmt: skip

    def __init__(
        self,
        record: RunRecord,
        agent: OpenAgent,
        store: Store,
        clock: Clock,
        *,
        grace_seconds: float,
        on_abandoned: Callable[[LiveRun], None],
        terms: RunTerms | None = None,
        unattended: bool = False,
        trace: Span | None = None,
        max_viewer_events: int = 10_000,
        window: CommitWindow | None = None,
    ) -> None:
        """`terms`: None stands for the agent's own terms. `on_abandoned` is called once nobody has watched for
        `grace_seconds`. Runs share a `window`.
        """
        self.record = record
        self.agent: Final = agent  # the run holds it open
        self.terms: Final = terms or own_terms(agent)
        self.unattended: Final = unattended or self.terms.detached  # it goes on without viewers
        self.trace: Final = trace  # its span; ends with the run; None without tracing
        self.task: asyncio.Task[None] | None = None
        self.cancel_reason: str | None = None
        self.failure: GatewayError | None = None  # why the store could not store the run
        self.conversation: Conversation | None = None  # at a stateful model's server
        self.thread: Thread | None = None  # with the run's input; None while the run waits
        self.waiting_messages: tuple[Message, ...] = ()  # its user's new messages: no thread has them while it waits
        self.shown_end: RunFinished | RunFailed | None = None  # the end that viewers saw before it could be stored
        self.unkept: StoreError | None = None  # why its end cannot be stored now
        self.accepted = False  # its answer comes from a background response: another process may continue it
        self.must_be_kept = False  # a background answer is over and must be in the log before its tools run
        self.left = False  # this process gave it up; the code that closes its loop later must know
        self.first_sign_at: float | None = None  # of the model's first output, in Unix seconds
        self.kept = 0  # the number of the last event that is stored and shown
        self.backlog = 0  # how many accepted events the store has not confirmed
        self._phases = Phases()
        self._sealer = Sealer()
        self._store = store
        self._clock = clock
        self._window = window or CommitWindow()
        self._fold = RunFold()
        self._sequence = 0
        self._waiting: Events = []  # accepted deltas that are neither put in order nor numbered yet
        self._gathered: Events = []  # numbered, but not handed to the store yet
        self._unkept: deque[tuple[asyncio.Future[None] | None, int, int, Events]] = deque()  # first and last number
        self._last_future: asyncio.Future[None] | None = None
        self._kept_waiters: list[asyncio.Future[None]] = []
        self.audience = Audience(
            clock,
            grace_seconds=grace_seconds,
            on_abandoned=lambda: on_abandoned(self),
            max_viewer_events=max_viewer_events,
            log_id=record.log_id,
        )

    @property
    def key(self) -> tuple[str, str]:
        return self.record.owner, self.record.run_id

    @property
    def thread_key(self) -> tuple[str, str]:
        return self.record.owner, self.record.thread_id

    @property
    def goes_on(self) -> bool:
        """Whether another process may go on with it, if this one ends first."""
        return self.terms.definition.on_takeover == "continue"

    @property
    def fold(self) -> RunFold:
        """The fold of all accepted events."""
        self._number_waiting()
        return self._fold

    @property
    def sequence(self) -> int:
        """The number of the last accepted event."""
        self._number_waiting()
        return self._sequence

    @property
    def begun(self) -> bool:
        """Whether the store has the run's first event: its begin is stored and counted."""
        return self.kept > 0

    @property
    def retracted(self) -> frozenset[str]:
        """The ids of retracted messages: their text must not stay in the log."""
        return self._fold.retracted

    @property
    def sealed(self) -> bool:
        """Whether the terminal event was accepted: no event follows."""
        return self._sealer.sealed

    # --- its phase

    @property
    def phase(self) -> Phase:
        return self._phases.now

    @property
    def finishing(self) -> bool:
        """Whether no events are added any more, and the run can no longer be stopped."""
        return self._phases.now in FINISHING

    @property
    def settled(self) -> asyncio.Future[None]:
        """A future: done once the run was refused, or cannot be refused any more."""
        return self._phases.reached(SETTLED)

    @property
    def concluded(self) -> asyncio.Future[None]:
        """A future: done once the run has ended, or its end cannot be stored now (`unkept`)."""
        return self._phases.reached(CONCLUDED)

    @property
    def ended(self) -> asyncio.Future[None]:
        """A future: done once the run is over."""
        return self._phases.reached(OVER)

    def enter(self, phase: Phase) -> None:
        """Go to that phase. Raises PhaseError if the table does not allow it."""
        self._phases.enter(phase)

    def become(self, record: RunRecord) -> None:
        """Replace its record."""
        self.record = record
        if record.finished_at is not None:
            self.audience.end_at(record.finished_at)

    def work_in(self, task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
        """Set the task that `stop` and `leave` cancel. Returns the previous one."""
        before, self.task = self.task, task
        return before

    async def tools(self) -> tuple[Mapping[str, Tool], Mapping[str, Approvers | None]]:
        """As OpenAgent.tools; no tools if the run is stopped meanwhile: a tool server may be slow."""
        task = asyncio.current_task()
        assert task is not None
        before = self.work_in(task)
        try:
            return await self.agent.tools()
        except asyncio.CancelledError:
            if self.cancel_reason is None or task.uncancel():  # the request was cancelled, not the run
                raise
            return {}, {}
        finally:
            self.work_in(before)

    def stop(self, reason: str) -> bool:
        """Stop its work. False: it was stopped before, or is ending."""
        if self.cancel_reason is not None or self.finishing:
            return False
        self.cancel_reason = reason
        if self.task is not None:
            self.task.cancel()
        return True

    def leave(self) -> bool:
        """Stop its work without an end, if the next process may continue the run. False: it may not."""
        may_leave = (self.accepted or self.goes_on) and self.cancel_reason is None and self.phase is Phase.RUNNING
        if not may_leave or self.task is None:
            return False
        self.enter(Phase.LEAVING)
        self.left = True
        self.task.cancel()
        return True

    def lose(self, error: ConflictError) -> None:
        """Stop its work without an end, and store no more of it: another gateway has the run."""
        self.left = True
        self.failure = error
        if self.task is not None:
            self.task.cancel()

    def stop_keeping(self) -> None:
        """Stop trying to store its end: its thread is deleted."""
        if self.phase is Phase.UNKEPT and self.task is not None:
            self.task.cancel()

    def finish(self) -> None:
        """End the run, whose events are all published: viewers read the rest, then end."""
        self.audience.finish()
        self.enter(Phase.OVER)
        self._wake_kept_waiters()

    # --- events in

    def begin_with(self, thread: Thread, conversation: Conversation | None, cache: HistoryCache | None = None) -> None:
        """Set the thread with the run's input, the stateful model's conversation in it, and the cache of its
        messages.
        """
        cache, messages = cache or HistoryCache(), thread.messages
        self.thread, self.conversation = thread, conversation
        self._fold = RunFold(turns_of(cache.own_calls(messages)), thread.state)
        self._sealer.reserve(cache.ids(messages))

    def resume_after(self, events: Events) -> None:
        """Continue at the end of the run's log, which has these events."""
        self.follow(events)
        self._sequence = self.kept = count_of(events)

    def rename_thread(self, title: str | None) -> None:
        """Take over the thread's new title, because the run's end stores the whole thread."""
        if self.thread is not None:
            self.thread = replace(self.thread, title=title)

    def follow(self, batch: Events) -> Events:
        """Put the batch in order and fold it; returns the events to send, not yet numbered."""
        self._number_waiting()
        return self._follow(batch)

    def _follow(self, batch: Events) -> Events:
        events = self._sealer.follow(batch)
        if not (rare := self._fold.follow(events)):
            return events
        kinds = set(map(type, rare))
        if self.accepted or self.must_be_kept or ModelCallAccepted in kinds:
            self._follow_accepted(rare)
        # Clients have no other way to change a message than a snapshot of all.
        if MessageRetracted in kinds or TurnRetracted in kinds:
            events = [*events, MessagesReplaced(self._closed_messages())]
        return events

    def _follow_accepted(self, events: Sequence[Event]) -> None:
        """Note where the answers of background responses begin and end."""
        for event in events:
            kind = type(event)
            if kind in OF_USAGE:
                self.must_be_kept = self.accepted and kind is ModelCallEnded
                self.accepted = self.accepted and kind is UsageReported
            elif kind is ModelCallAccepted:
                self.accepted = True

    def accept(self, batch: Events) -> RunFinished | RunFailed | None:
        """Accept the next events. The store gets them soon, and viewers once it has them. Returns the run's end, if it
        is the last of them: it is not accepted, because it is stored in another way.

        Deltas wait until something else comes, somebody asks for them or they are handed over: those of one text are
        then put in order, folded and numbered as one event, which takes a third of the time.
        """
        for event in batch:
            if not isinstance(event, Deltas):
                return self._accept_at_once(batch)
            self.backlog += len(event.texts)
        first = not self._waiting
        self._waiting += batch
        if first:
            self._window.add(self)
        return None

    def _accept_at_once(self, batch: Events) -> RunFinished | RunFailed | None:
        self._number_waiting()
        last = batch[-1]
        end = last if isinstance(last, RunFinished | RunFailed) else None
        self._number(batch if end is None else batch[:-1])
        if self._gathered:
            self._window.add(self)
        return end

    def _number_waiting(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._number(joined(waiting))

    def _number(self, batch: Events) -> None:
        """Put the batch in order, fold it and number its events."""
        events = self._follow(batch)
        if self.failure is not None:  # after lost events, they would leave a gap
            return
        self._sequence += count_of(events)
        self.backlog = self._sequence - self.kept
        self._gathered += events
        if self.first_sign_at is None and any(isinstance(event, _FIRST_SIGNS) for event in events):
            self.first_sign_at = self._clock.now()
            self.hand_over()

    def hand_over(self) -> int:
        """Hand the gathered events to the store; returns how many they were."""
        try:
            self._number_waiting()
            events, self._gathered = self._gathered, []
            self._window.discard(self)
            if not events or self.failure is not None:
                return 0
            records = encode_events(events, self._clock.now())
        except Exception:  # in a timer's call for many runs: only this one must fail
            logger.exception("events could not be written as JSON", extra={"run_id": self.record.run_id})
            self._fail(GatewayError("the gateway failed; its log has the details"))
            return 0
        first = self._sequence - records.count + 1
        future = self._store.append_events(self.record.owner, self.record.run_id, first, records)
        self._unkept.append((future, first, self._sequence, events))
        if future is not self._last_future:
            self._last_future = future
            future.add_done_callback(self._on_kept)
        return records.count

    def number(self, events: Events) -> tuple[int, EventRecords]:
        """Number events that are stored in another way (begin, end); returns the first number and the records."""
        self.hand_over()
        first = self._sequence + 1
        self._sequence += count_of(events)
        self.backlog = self._sequence - self.kept
        self._unkept.append((None, first, self._sequence, events))
        return first, encode_events(events, self._clock.now())

    def publish_numbered(self) -> None:
        """Show the events that `number` numbered, and all before them: they are stored now."""
        while self._unkept:
            _, first, last, events = self._unkept.popleft()
            self._publish(first, last, events)

    def give_up(self, end: RunFinished | RunFailed) -> None:
        """The run's end cannot be stored now: show it without a number, and end the viewers."""
        self.shown_end = end
        self._number_waiting()
        self._unkept.clear()
        self._gathered = []
        self._window.discard(self)
        started = [] if self.begun else [RunStarted(self.record.thread_id, self.record.run_id)]
        self.audience.show_unnumbered([*started, end])
        self._wake_kept_waiters()

    def block(self, error: StoreError) -> None:
        """Note that the store cannot store the run's end now; wake everybody who waits for it."""
        self.unkept = error
        self.enter(Phase.UNKEPT)
        self._wake_kept_waiters()

    async def wait_kept(self) -> None:
        """Wait until everything appended is stored.

        Raises:
            StoreError: it could not be stored.
        """
        self.must_be_kept = False
        self.hand_over()
        if self._last_future is not None:
            await asyncio.shield(self._last_future)

    def _on_kept(self, future: asyncio.Future[None]) -> None:
        error = StoreError("the store was closed") if future.cancelled() else future.exception()
        if error is not None:
            self._fail(error)
            return
        unkept = self._unkept
        if not unkept or unkept[0][0] is not future:
            return
        _, first, last, events = unkept.popleft()
        while unkept and unkept[0][0] is future:
            _, _, last, more = unkept.popleft()
            events = [*events, *more]
        self._publish(first, last, events)

    def _fail(self, error: BaseException) -> None:
        """Events can no longer be stored: end the run, with the reason as its failure."""
        if self.failure is None:
            self.failure = error if isinstance(error, GatewayError) else StoreError("the store failed")
            if self.task is not None:
                self.task.cancel()

    def first_failure(self, error: GatewayError) -> GatewayError:
        """The error for which the run could not be stored: `error`, or the earlier one that caused it."""
        return self.failure or error

    def _publish(self, first: int, last: int, events: Events) -> None:
        self.backlog -= last - self.kept
        self.kept = last
        self.audience.feed(first, events)
        if self._kept_waiters:
            self._wake_kept_waiters()

    # --- viewers

    def watch(self) -> Viewer:
        """A viewer of all events that are not published yet."""
        return self.audience.add(after=self.kept)

    async def join(self) -> Viewer:
        """A viewer with a prelude of everything so far, then the next events.

        Raises:
            StoreError: the events so far could not be stored.
        """
        accepted = self.sequence
        record, messages = self.record, self._closed_messages()
        open_items = self._fold.open_items()
        prelude = Prelude(record.thread_id, record.client_id, self._fold.state, messages, open_items)
        viewer = self.audience.add(after=accepted, prelude=prelude)
        self.hand_over()
        try:
            await soon_stored(self._clock, self._until_kept(accepted))
        except BaseException:  # the caller is gone, so nobody else could close it
            viewer.close()
            raise
        return viewer

    async def until_concluded(self) -> None:
        """Wait until it has ended, or its end cannot be stored now.

        Raises:
            StoreError: its end is not stored soon.
        """
        await soon_stored(self._clock, asyncio.wait((self.concluded,)))

    async def follow_from(self, after: int, pace: float | None = None) -> Viewer:
        """A viewer of the events after that number: from the log, at that `pace` (PacedViewer's), then live."""
        viewer = self.audience.add(after=max(after, self.kept))
        owner, run_id = self.key
        log = read_log(self._store, owner, run_id, after=after, until=self.kept, by_time=pace is not None)
        if pace is not None:
            return PacedViewer(self._clock, log, viewer, pace)
        viewer.read_first(log)
        return viewer

    def _closed_messages(self) -> tuple[Message, ...]:
        """The thread's messages that will not change any more."""
        before = () if self.thread is None else self.thread.messages
        return (*before, *self._fold.closed_messages())

    async def _until_kept(self, sequence: int) -> None:
        while self.kept < sequence:
            if self.phase in CONCLUDED:
                raise StoreError("what the run said so far could not be kept; try again in a moment")
            waiter = asyncio.get_running_loop().create_future()
            self._kept_waiters.append(waiter)
            await waiter

    def _wake_kept_waiters(self) -> None:
        waiters, self._kept_waiters = self._kept_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
