"""The requests about runs and threads: start, cancel, attach, connect, read, rename, delete.

Below: runs, store. Above: the protocols' environment, which checks the caller's rights. Everything that can fail before
the first byte fails in `start`, as an exception with a status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TypeAlias

from gateway.agent import (
    ABSENT,
    Absent,
    AgentInput,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentMessages,
)
from gateway.agents.open_agent import OpenAgent
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.events import Completed, Event, Interrupt, OpenInterrupt, RunFinished, RunStarted
from gateway.frozen import replace
from gateway.messages import JsonObject, JsonValue, Message, new_id
from gateway.model_state import conversation_of_call
from gateway.runs.approvals import AnsweredApproval, approval_of_other_agent
from gateway.runs.driver import RunDriver
from gateway.runs.elsewhere import check_here, is_staying
from gateway.runs.endings import approval_answered, input_digest, no_message, no_thread, no_version, run_exists
from gateway.runs.ids import RunIds
from gateway.runs.intake import is_whole_history, recognised
from gateway.runs.limits import RunLimits, check_input, check_request
from gateway.runs.live_run import LiveRun
from gateway.runs.replay import end_of, join, replay, so_far, without_log
from gateway.runs.run_terms import check_options, terms_of
from gateway.runs.second_tries import failed_before, is_second_try, may_be_second_try
from gateway.runs.thread_points import RunMessages, ThreadHead, begun_from, run_messages
from gateway.runs.thread_versions import ThreadVersions
from gateway.runs.thread_writes import ThreadWrites, check_room
from gateway.runs.viewer import Prelude, Viewer
from gateway.store import (
    MOST_VERSIONS,
    Approval,
    HeldElsewhereError,
    Page,
    RunFilter,
    RunRecord,
    RunStatus,
    Thread,
    ThreadSummary,
)
from gateway.transcript import OpenItems

Admission: TypeAlias = Callable[[], Callable[[object], None]]

_AT_ONCE = 100
_SHORT_LOG = 2_000  # events
_LOGS_BYTES = 1_000_000  # of the logs that one call reads
_APPROVALS = "approvals"  # the origin of runs that continue after an answer by an approval's id


class Runner:
    """The runs and threads of this process's store. `driver` runs them."""

    def __init__(self, driver: RunDriver) -> None:
        self.driver = driver
        self.agents = driver.agents
        self.store = driver.store
        self.clock = driver.clock
        self.removal = driver.removal
        self.writes = ThreadWrites(driver)
        self.versions = ThreadVersions(driver)
        self._runs: Mapping[tuple[str, str], LiveRun] = driver.runs
        self._ids = RunIds(driver.store, driver.runs)
        self._lines = driver.lines
        self._metrics = driver.metrics

    # --- runs

    async def start(
        self,
        owner: str,
        agent_id: str,
        given: AgentInput,
        admit: Admission | None = None,
        limits: RunLimits | None = None,
        *,
        from_first: bool = False,
    ) -> Viewer:
        """Begin a run and watch it; a repeated request watches its earlier run again: with `from_first` from its first
        event on, else from its current event on, after a prelude.

        A new run must keep `limits`; then `admit` is called, and may refuse it. The function that `admit` gives is
        called once the run is over.

        Raises:
            NotFoundError: no such agent.
            ConflictError: the thread is busy, or the run id belongs to another request.
            TooManyRequestsError: too many runs wait for the thread, or `admit` or `limits` say so.
            TooLargeError: more of the input is new than `limits` allow.
            InvalidRequestError: an answer does not fit its interrupt, or an option cannot be met.
            StoreError, UnavailableError: the store or the gateway cannot be used now.
        """
        if (agent := self.agents.get(agent_id)) is not None:
            return await self._start(owner, agent, given, admit, limits, from_first)
        async with self.agents.leased(owner, agent_id) as agent:
            return await self._start(owner, agent, given, admit, limits, from_first)

    async def _start(
        self,
        owner: str,
        agent: OpenAgent,
        given: AgentInput,
        admit: Admission | None,
        limits: RunLimits | None,
        from_first: bool,
    ) -> Viewer:
        agent_id = agent.definition.id
        check_request(given.origin.request)
        while True:
            before = await self._ids.before(owner, given)
            goes_on = bool(before) and await self._ids.goes_on(owner, agent_id, given, before)
            if before and not goes_on:
                if (viewer := await self._watch_again(owner, agent_id, given, before, from_first)) is not None:
                    return viewer
                if await self._ids.are_all(owner, given.run_id, before):
                    raise run_exists(given)
                continue  # its own run began or ended while the others were checked
            if limits is not None:
                await self._check_new(owner, agent, given, limits)
            if (owner, given.run_id) not in self._runs:  # else the same request came twice at one moment
                break
        self.driver.check_open()
        agent = self.agents.as_it_is_now(agent)
        check_options(agent, given)
        release = None if admit is None else admit()
        record = self._record(owner, agent, given)
        if goes_on:
            record = replace(record, run_id=new_id("run"), reused_id=given.run_id)
            given = replace(given, run_id=record.run_id, terms=replace(given.terms, must_answer=True))
        live = self.driver.open(record, agent, terms_of(agent, given), unattended=given.terms.unattended)
        if release is not None:
            live.ended.add_done_callback(release)
        viewer = live.watch()
        await self.driver.start(live, given)
        return viewer

    async def is_second_try(self, owner: str, agent_id: str, given: AgentInput) -> bool:
        """Whether an earlier run stored the input's results or answers and then failed. A run of this input then only
        asks the model.
        """
        return may_be_second_try(given) and await is_second_try(
            self.store, await self.store.load_thread(owner, given.thread.id), agent_id, given
        )

    async def _check_new(self, owner: str, agent: OpenAgent, given: AgentInput, limits: RunLimits) -> None:
        """Check a new run against the limits.

        Raises:
            TooLargeError: too much of its input is new.
            TooManyRequestsError: its site has no room left in the store.
        """
        await check_room(self.store, owner, limits)
        messages, state = await self._messages_and_state(owner, given)
        given = recognised(given, messages)
        replaces = is_whole_history(given, agent.definition, messages)
        check_input(given, limits, messages, state, replaces=replaces)

    async def _messages_and_state(self, owner: str, given: AgentInput) -> tuple[Sequence[Message], JsonValue | Absent]:
        """The messages and the state of the input's thread, including those that the running run has added so far."""
        head = self._lines.head(owner, given.thread.id)
        if head is not None and head.thread is not None:
            return (*head.thread.messages, *head.fold.messages), head.fold.state
        thread = await self.store.load_thread(owner, given.thread.id)
        if thread is None and given.thread.begins_from is not None:
            thread = (await begun_from(self.store, owner, given, given.thread.begins_from, self.clock.now())).thread
        return ((), ABSENT) if thread is None else (thread.messages, thread.state)

    def _record(self, owner: str, agent: OpenAgent, given: AgentInput) -> RunRecord:
        return RunRecord(
            owner, given.run_id, given.thread.id, agent.definition.id, RunStatus.QUEUED, self.clock.now(),
            input_digest=input_digest(given), origin=given.origin.protocol, request=given.origin.request,
        )  # fmt: skip

    async def _watch_again(
        self, owner: str, agent_id: str, given: AgentInput, before: Sequence[RunRecord], from_first: bool
    ) -> Viewer | None:
        """A viewer of the run that an earlier copy of this request began, if that run is among `before`; else None."""
        if (begun := await self._ids.begun_by(owner, agent_id, given, before)) is None:
            return None
        record, produced = begun
        if (live := self._ids.live(record)) is not None:
            if live.thread is None:
                return live.watch()
            if from_first and not live.ended.done():
                return await live.follow_from(0)
            if (joined := await join(live)) is not None:
                return joined
            record = await self.store.load_run(owner, record.run_id) or record
        if await self.store.last_sequence(owner, record.run_id) == 0:
            return without_log(self.clock, record)
        if from_first or not any(message.id in produced for message in given.sent.messages):
            return replay(self.store, self.clock, record, after=0)
        # The client has a part of the answer: it has to be removed first, or the log would be added to it.
        sent = tuple(message for message in given.sent.messages if message.id not in produced)
        viewer = replay(self.store, self.clock, record, after=1)
        viewer.prelude = Prelude(record.thread_id, record.client_id, given.application.state, sent, OpenItems())
        return viewer

    async def cancel(self, owner: str, run_id: str) -> RunRecord:
        """Cancel a run; returns its record as it is now. A run that has not ended yet ends within a second.

        Raises:
            NotFoundError: no such run.
        """
        record = await self.run(owner, run_id)
        if (live := self._runs.get((owner, run_id))) is None:  # after loading: it may begin while the store is read
            return record
        self.driver.cancel(live, "cancelled")
        return live.record

    async def run(self, owner: str, run_id: str) -> RunRecord:
        """A run's record. Raises NotFoundError."""
        return await self._ids.newest(owner, run_id)

    async def run_messages(self, owner: str, run_id: str) -> RunMessages:
        """The messages of a run on its thread, with or without its log; of a run under way, those so far. Empty if the
        run has not begun, or its messages were deleted.

        Raises:
            NotFoundError: no such run; or the version of the thread that it worked on is gone.
        """
        record = await self.run(owner, run_id)
        return await run_messages(self.store, record, self._ids.live(record))

    async def thread_head(self, owner: str, thread_id: str) -> ThreadHead | None:
        """The messages and the last run of a thread's current version; None: there is no such thread."""
        thread = await self.store.load_thread(owner, thread_id)
        return None if thread is None else self._head(thread)

    async def run_and_head(self, owner: str, run_id: str) -> tuple[RunRecord, ThreadHead | None]:
        """A run's record and its thread, in one read; None: the run has not begun it yet. Raises NotFoundError."""
        record, thread = await self._ids.newest_and_thread(owner, run_id)
        return record, None if thread is None else self._head(thread)

    def _head(self, thread: Thread) -> ThreadHead:
        return ThreadHead(thread, self._answerable(thread.interrupts))

    async def delete_run(self, owner: str, run_id: str) -> None:
        """Delete a run's record and its log; its messages stay on the thread.

        Raises:
            NotFoundError: no such run.
            ConflictError: it is under way.
        """
        records = await self._ids.known(owner, run_id)
        if (owner, run_id) in self._runs:
            raise ConflictError(f"run {run_id!r} is under way; cancel it, or wait for its end", code="run_not_ended")
        for record in records:
            await self.store.delete_run(owner, record.run_id)

    async def attach(
        self,
        owner: str,
        run_id: str,
        *,
        after: int,
        log_id: str = "",
        pace: float | None = None,
        needs_log: bool = False,
    ) -> Viewer | None:
        """Watch a run's events after that number; None if the run is over and has no more.

        `log_id` is the prefix of the event id that had the number (RunRecord.log_id). `pace`: logged events come with
        the pauses between them, divided by it. `needs_log`: a log that was deleted is an error, and not one without
        events.

        Raises:
            NotFoundError: no such run; or `log_expired`.
            InvalidRequestError: the run's log does not reach that number.
        """
        while True:
            live = await self._ids.settled(owner, run_id)
            record = await self._ids.of_cursor(owner, run_id, log_id, after)
            if live is self._runs.get((owner, run_id)):  # else it began while the store was read
                break
        live = self._ids.live(record)
        last = live.sequence if live is not None else await self.store.last_sequence(owner, record.run_id)
        if needs_log and last == 0 and record.status.ended and record.started_at is not None:
            raise NotFoundError(
                f"the log of run {run_id!r} was deleted; what it said is on its thread", code="log_expired"
            )
        if after > last:
            raise InvalidRequestError(
                f"run {run_id!r} has no event {after}; its last is {last}", code="invalid_cursor", status=400
            )
        if live is not None and not live.ended.done():
            self._metrics.resumed("attached")
            if live.trace is not None:
                live.trace.note_watched()
            return await live.follow_from(after, pace)
        if live is None and not record.status.ended and is_staying():
            return so_far(self.store, self.clock, record, after=after)
        if after == last:
            self._metrics.resumed("ended")
            return None
        self._metrics.resumed("replayed")
        return replay(self.store, self.clock, record, after=after, pace=pace)

    async def connect(self, owner: str, agent_id: str, given: AgentInput) -> Viewer:
        """Watch a thread: its history, then its live run's events, or the end of its last run.

        Raises:
            NotFoundError: no such agent.
        """
        await self.agents.check(owner, agent_id)
        thread = None
        live = self._lines.head(owner, given.thread.id)
        if live is None or live.thread is None:
            found = await self.store.load_start(owner, given.run_id, given.thread.id)
            check_here(given.thread.id, found.holder)
            thread = found.thread
            last_run_id = None if thread is None else thread.last_run_id
            line = self._lines.line(owner, given.thread.id)
            live = next((each for each in line if each.record.run_id == last_run_id), None)
        if live is not None:
            if (joined := await join(live)) is not None:
                return joined
            thread = await self.store.load_thread(owner, given.thread.id)
        viewer = Viewer(self.clock)
        if thread is None or not (thread.messages or thread.last_run_id):
            viewer.feed_unnumbered([RunStarted(given.thread.id, given.run_id), RunFinished(Completed())])
        elif thread.last_run_id is None:  # it was written without a run
            viewer.prelude = Prelude(thread.thread_id, given.run_id, thread.state, thread.messages, OpenItems())
            viewer.feed_unnumbered([RunFinished(Completed())])
        else:
            last_run = thread.last_run_id
            record = await self.store.load_run(owner, last_run)
            shown_id = last_run if record is None else record.client_id
            viewer.prelude = Prelude(thread.thread_id, shown_id, thread.state, thread.messages, OpenItems())
            end = RunFinished(Completed()) if record is None else await end_of(self.store, record)
            viewer.feed_unnumbered([end])
        viewer.finish()
        return viewer

    # --- approvals

    async def approvals(self, *, limit: int, cursor: str | None) -> Page[Approval]:
        """All open approvals, of every owner, the oldest first."""
        return await self.store.list_approvals(now=self.clock.now(), limit=limit, cursor=cursor)

    async def answer(
        self, approval_id: str, answer: InterruptAnswer, admit: Admission | None = None
    ) -> AnsweredApproval:
        """Answer an approval for the owner of its thread; a run continues with it. `admit` as in `start`.

        `answer` needs no ids.

        Raises:
            NotFoundError: there is no such approval.
            ConflictError: it was answered, or has expired; its agent is gone, so it can only be denied; or the thread
                is busy.
            InvalidRequestError: the arguments do not fit the tool.
            StoreError, TooManyRequestsError, UnavailableError: as `start`.
        """
        found = await self.store.find_approval(approval_id)
        thread = None if found is None else await self.store.load_thread(*found)
        if thread is None:
            raise NotFoundError(f"there is no approval {approval_id!r}", code="approval_not_found")
        asked = next((item for item in thread.interrupts if item.approval_id == approval_id), None)
        if asked is None:
            return await self._answer_again(thread, approval_id, answer, admit)
        expires_at = asked.interrupt.expires_at
        if expires_at is not None and expires_at <= self.clock.now():
            raise ConflictError("the question has expired, which counts as a no", code="approval_expired")
        agent_id = asked.agent_id or thread.agent_id
        if not await self.agents.has(thread.owner, agent_id):
            if answer.approved:
                raise approval_of_other_agent(asked, is_gone=True)
            with ExitStack() as counted:
                if admit is not None:
                    counted.callback(admit(), None)
                await self.writes.deny(thread.owner, thread.thread_id, approval_id, answer.reason)
            return AnsweredApproval(thread.thread_id, agent_id)
        about: JsonObject = {
            "approval_id": approval_id,
            "interrupt_id": asked.interrupt.id,
            "conversation_id": conversation_of_call(thread.messages, asked.call),
        }
        return await self._answer(thread, agent_id, answer, about, admit)

    async def _answer_again(
        self, thread: Thread, approval_id: str, answer: InterruptAnswer, admit: Admission | None
    ) -> AnsweredApproval:
        """Begin a run after the failed run of an earlier copy of the answer. Raises as `answer`."""
        last = await failed_before(self.store, thread)
        about = None if last is None or last.origin != _APPROVALS else last.request
        if last is None or about is None or about.get("approval_id") != approval_id:
            raise approval_answered()
        return await self._answer(thread, last.agent_id, answer, about, admit)

    async def _answer(
        self, thread: Thread, agent_id: str, answer: InterruptAnswer, about: JsonObject, admit: Admission | None
    ) -> AnsweredApproval:
        """Begin the run that continues after the answer. `about`: the facts about the approval that the run's record
        keeps.
        """
        approval_id, interrupt_id = str(about["approval_id"]), str(about["interrupt_id"])
        given = AgentInput(
            new_id("run"),
            InputThread(thread.thread_id, str(about["conversation_id"])),
            SentMessages(history="append"),
            (replace(answer, interrupt_id=interrupt_id, approval_id=approval_id),),
            terms=InputTerms(unattended=True, must_answer=True),
            origin=InputOrigin(_APPROVALS, about),
        )
        (await self.start(thread.owner, agent_id, given, admit)).close()
        return AnsweredApproval(thread.thread_id, agent_id, await self.run(thread.owner, given.run_id))

    # --- threads

    async def threads(self, owner: str, *, limit: int, cursor: str | None, skip: int = 0) -> Page[ThreadSummary]:
        return await self.store.list_threads(owner, limit=limit, cursor=cursor, skip=skip)

    async def thread(self, owner: str, thread_id: str) -> ThreadSummary:
        """A thread without its messages. Raises NotFoundError."""
        if (found := await self.store.load_summary(owner, thread_id)) is None:
            raise no_thread(thread_id)
        return found

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message:
        """A message of a thread. Raises NotFoundError, also for an unknown thread."""
        thread = await self.store.load_thread(owner, thread_id)
        for message in () if thread is None else thread.messages:
            if message.id == message_id:
                return message
        raise no_message(thread_id, message_id)

    async def messages(
        self,
        owner: str,
        thread_id: str,
        *,
        limit: int,
        cursor: str | None,
        version: int | None = None,
        max_bytes: int | None = None,
    ) -> Page[Message]:
        """A page of a thread's messages in a version; None: the current one. Raises NotFoundError for an unknown thread
        or version.
        """
        page = await self.store.list_messages(
            owner, thread_id, limit=limit, cursor=cursor, version=version, max_bytes=max_bytes
        )
        if not page.items:
            await self._check_version(owner, thread_id, version)
        return page

    async def _check_version(self, owner: str, thread_id: str, version: int | None) -> None:
        await self.thread(owner, thread_id)
        if version is not None:
            versions = await self.store.list_versions(owner, thread_id, limit=MOST_VERSIONS, cursor=None)
            if all(each.number != version for each in versions.items):
                raise no_version(thread_id, version)

    async def thread_runs(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[RunRecord]:
        """A thread's runs, the newest first. Raises NotFoundError for an unknown thread."""
        page = await self.store.list_runs(owner, thread_id, limit=limit, cursor=cursor)
        if not page.items:
            await self.thread(owner, thread_id)
        return page

    async def find_runs(
        self, owner: str, wanted: RunFilter, *, limit: int, cursor: str | None, total: int | None = None
    ) -> tuple[Page[RunRecord], int]:
        """As Store.find_runs."""
        return await self.store.find_runs(owner, wanted, limit=limit, cursor=cursor, total=total)

    async def ended_logs(self, owner: str, runs: Sequence[RunRecord]) -> Mapping[str, Sequence[Event]]:
        """The events of ended runs, by run id: only of runs with a short log, and only until _LOGS_BYTES are read."""
        ids = [run.run_id for run in runs]
        logs = await self.store.read_logs(owner, ids, limit=_SHORT_LOG, max_bytes=_LOGS_BYTES)
        return {run_id: [row.event for row in rows] for run_id, rows in logs.items()}

    async def interrupts(self, owner: str, thread_id: str) -> list[Interrupt]:
        """The thread's interrupts that can still be answered. Empty for an unknown thread."""
        there = await self.store.list_interrupts(owner, thread_id) or ()
        return [each.interrupt for each in self._answerable(there)]

    def _answerable(self, items: Iterable[OpenInterrupt]) -> list[OpenInterrupt]:
        now = self.clock.now()
        return [each for each in items if each.interrupt.expires_at is None or each.interrupt.expires_at > now]

    async def delete_thread(self, owner: str, thread_id: str) -> None:
        """Delete a thread and its runs; a running one is cancelled first. Raises NotFoundError for an unknown
        thread.
        """
        deleted, held = False, await self.removal.look(self.agents, owner, thread_id)
        while line := self._lines.line(owner, thread_id):
            for live in line:
                self.driver.cancel(live, "cancelled")
            head = line[0]
            await asyncio.wait((head.concluded,))
            if head.unkept is not None and not head.ended.done():  # its end is deleted with its thread
                deleted = await self.removal.delete(self.agents, owner, thread_id, held) or deleted
                head.stop_keeping()
                await asyncio.wait((head.ended,))
            held = await self.removal.look(self.agents, owner, thread_id)
        with self._lines.held(owner, thread_id):
            deleted = await self.removal.delete(self.agents, owner, thread_id, held) or deleted
        if not deleted:
            raise no_thread(thread_id)

    async def delete_expired(self) -> int:
        """Delete the threads that have expired, with their runs and logs; returns how many. A thread with a run under
        way stays until the run is over.

        Raises:
            StoreError: the store cannot be used now.
        """
        deleted = 0
        while True:
            now, limit = self.clock.now(), _AT_ONCE + len(self._runs)
            found = await self.store.expired_threads(by=now, limit=limit)
            with ExitStack() as held:
                free = [key for key in found if self._lines.is_free(*key)]
                for key in free:
                    held.enter_context(self._lines.held(*key))
                still = await self.store.expired_threads(by=now, limit=limit) if free else []
                gone = await self.removal.delete_all(self.agents, [key for key in free if key in still])
            deleted += gone
            if not gone:
                return deleted

    async def delete_idle_visitors(self, *, before: float) -> int:
        """Delete the threads of visitors whose last run ended before then; returns how many. The removal's next `go_on`
        deletes their responses at providers.

        Raises:
            StoreError: the store cannot be used now.
        """
        deleted = 0
        while idle := await self.store.idle_visitor_threads(before=before, limit=_AT_ONCE):
            gone = sum([await self._delete_idle(owner, thread_id, before) for owner, thread_id in idle])
            deleted += gone
            if not gone:  # they have runs again
                break
        return deleted

    async def _delete_idle(self, owner: str, thread_id: str, before: float) -> bool:
        if not self._lines.is_free(owner, thread_id):
            return False
        with self._lines.held(owner, thread_id):
            thread = await self.store.load_thread(owner, thread_id)
            if thread is None or thread.updated_at >= before:
                return False
            held = await self.removal.look(self.agents, owner, thread_id)
            with suppress(HeldElsewhereError):
                return await self.removal.delete(self.agents, owner, thread_id, held, later=True)
        return False
