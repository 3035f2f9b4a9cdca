"""Runs, their logs and the approvals that they wait for, as a store keeps them.

Below: events, threads. Above: the store. Runs are keyed by (owner, id): an id of another owner is unknown. All times
are Unix seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from gateway.agent import ThreadPoint
from gateway.clock import Kept
from gateway.events import Cancelled, Completed, Event, OpenInterrupt, RunFailed, RunFinished, Usage, count_of
from gateway.frozen import quickly_made
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.records import NO_EVENTS, EventRecords
from gateway.store.pages import Page
from gateway.store.threads import Fork, Thread

Terminal: TypeAlias = RunFinished | RunFailed


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)


@quickly_made
@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run. `input_digest` recognises a repeated request, see runs.endings. `error_*` are set if it failed. `origin`
    and `request` are as in AgentInput. `thread_version`, `thread_length` and `last_message_id` are those of `end`.
    `terminal` is the event with which a run ended; None: it has not ended, or an older gateway ended it. `has_custom`:
    its log has Custom events, which nothing else keeps.

    `reused_id`: the id by which clients know the run, if that is the `run_id` of an earlier run of the thread (see
    runs.ids).
    """

    owner: str
    run_id: str
    thread_id: str
    agent_id: str
    status: RunStatus
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: tuple[Usage, ...] = ()
    input_digest: str = ""
    reused_id: str | None = None
    origin: str = ""
    request: JsonObject | None = None
    thread_version: int = 1
    thread_length: int | None = None
    last_message_id: str | None = None
    terminal: Terminal | None = None
    has_custom: bool = False

    @property
    def end(self) -> ThreadPoint | None:
        """The point of its thread at which the run ended; None while it has not ended."""
        if self.thread_length is None:
            return None
        return ThreadPoint(self.thread_id, self.thread_version, self.thread_length, self.last_message_id)

    @property
    def plain_terminal(self) -> Terminal:
        """The terminal event that follows from the other fields: without pending calls, interrupts, a limit and the
        like.
        """
        if self.status is RunStatus.FAILED:
            return RunFailed(self.error_code or "internal_error", self.error_message or "", self.usage)
        outcome = Cancelled() if self.status is RunStatus.CANCELLED else Completed()
        return RunFinished(outcome, self.usage)

    @property
    def changed_at(self) -> float:
        """When it ended, began or was requested: the last of these."""
        return self.finished_at or self.started_at or self.created_at

    @property
    def client_id(self) -> str:
        """The id by which clients know it."""
        return self.run_id if self.reused_id is None else self.reused_id

    @property
    def log_id(self) -> str:
        """The prefix that distinguishes its events from those of other runs with the same client id; empty if there are
        none.
        """
        return "" if self.reused_id is None else self.run_id


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter of an owner's runs: those that came by the protocol `origin` and meet every condition that is set: one
    agent, one thread, one of these `statuses`, changed at `since` or later (Unix seconds). Runs whose ids begin with
    the same `stem` characters are one piece of work: only the newest of them is found. `followed`: further statuses,
    for runs after which another run began on their thread.
    """

    origin: str
    stem: int
    thread_id: str | None = None
    statuses: frozenset[RunStatus] | None = None
    since: float | None = None
    agent_id: str | None = None
    followed: frozenset[RunStatus] = frozenset()


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person, and its thread."""

    owner: str
    thread_id: str
    asked: OpenInterrupt


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event with its number in its run's log, from 1. A `Deltas` has the number of its first piece.

    `at`: when the event came, and with it all events that were stored together with it, in Unix seconds; None: unknown.
    """

    sequence: int
    event: Event
    at: float | None = field(default=None, compare=False)

    @property
    def last(self) -> int:
        """The number of its last piece."""
        return self.sequence + count_of((self.event,)) - 1


class RunsAndThread(NamedTuple):
    """All runs with one client id, the newest first; and a thread, with its messages, its last run and its open
    interrupts. None: there is no such thread. `holder`: the other gateway that holds the thread; None: no other one.
    """

    runs: Sequence[RunRecord]
    thread: Thread | None
    holder: str | None = None


class RunStore(Protocol):
    """Runs and their logs. Every method raises StoreError if the store fails."""

    async def list_approvals(self, *, now: float, limit: int, cursor: str | None) -> Page[Approval]:
        """The open approvals of all threads that have not expired by `now`, the oldest first.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def find_approval(self, approval_id: str) -> tuple[str, str] | None:
        """Owner and id of the approval's thread, even if it was answered since; None: there was no such approval, or
        its thread is gone.
        """

    async def begin_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        rewrite: Rewrite | None = None,
        records: EventRecords = NO_EVENTS,
        fork: Fork | None = None,
        patient: bool = False,
    ) -> None:
        """Store in one transaction the run's row (insert, or the queued row made `running`), the thread as it now is,
        and the run's first events, numbered from 1.

        `keep`: how many of the thread's leading messages are stored already and unchanged; the rest replaces the stored
        ones after them, except for those that stay by `rewrite`. Of a stored thread the title and the collection stay,
        and whether it is hidden or expires: only update_thread changes these.

        A thread whose `version` is not the stored one makes a new version with that number, which has to be higher than
        `last_version` was. Then nothing is replaced: the previous version stays as it was, and messages of both are
        stored once. The new one's parent is the previous one, and it was created at `thread.updated_at`.

        Messages that `rewrite` hides leave the thread; list_messages has them if it is asked for the version by its
        number.

        With a `fork`, the thread is first stored as this fork, as fork_thread does. `patient`: wait for other programs
        as long as for a run under way; for a run that waited for its thread.

        Raises:
            ConflictError: the run was begun already; or the fork cannot be made, as in fork_thread.
            NotFoundError: the thread or version that the fork begins with does not exist.
        """

    async def queue_run(self, run: RunRecord, messages: Sequence[Message] = ()) -> None:
        """Store a run that waits for its thread, which need not exist yet; or the end of one that was waiting.

        A run that ended in the queue has not begun (no `started_at`). It may still be begun, or ended by end_run, to
        store its input. `messages` are in no thread. They stay when the run leaves the queue, and go when it begins or
        end_run ends it.

        Raises:
            ConflictError: there is a run of that id, and it does not wait.
        """

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        """Queue the events numbered from `first`; returns a future that is done once they are stored.

        Returns at once. Several calls in one round of the event loop, also of different runs, share a commit, and may
        share a future; they are written as soon as the writer is free. A cancelled task that waits for the future does
        not cancel it for others. Failure is in the future: StoreError (also if `first` does not follow the last stored
        or queued event), NotFoundError for an unknown (deleted) run, ConflictError for one that has ended. If events
        are lost, later ones of the run are lost too: a log has no gap.
        """

    def end_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        first: int,
        records: EventRecords,
        erase: frozenset[str] = frozenset(),
        holds: bool = False,
    ) -> Kept[Any]:
        """Store in one transaction, after all appended events, the last events, the run's row and the thread as it now
        is. `holds`: this gateway goes on holding the thread, because other runs wait for it here.

        Returns at once, as append_events does: events appended in the same round of the event loop share the commit.
        `keep` and the title as in begin_run. `erase`: retracted messages, whose text and reasoning deltas keep their
        numbers in the log and lose their text; a medium keeps its number and has NO_DATA.

        Raises:
            StoreError: also if `first` does not follow the last stored event: earlier events were lost, and a log with
            a gap would be invalid.
            NotFoundError: no such run: its thread was deleted.
            ConflictError: the run has ended already, and did not end in the queue.
        """

    async def load_run(self, owner: str, run_id: str) -> RunRecord | None: ...

    async def runs_known_as(self, owner: str, client_id: str) -> list[RunRecord]:
        """All runs with this client id, the newest first."""

    async def list_runs(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[RunRecord]:
        """A thread's runs, the newest first. Empty for an unknown thread.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def find_runs(
        self, owner: str, wanted: RunFilter, *, limit: int, cursor: str | None, total: int | None = None
    ) -> tuple[Page[RunRecord], int]:
        """A page of the runs that the filter finds, the last changed (begun or ended) first, with a cursor after each;
        and how many there are in all. A caller that knows that number passes it as `total`: counting costs as much as
        reading all of them.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def delete_run(self, owner: str, run_id: str) -> bool:
        """Delete a run's record and its log; its messages stay on its thread. False: no such run.

        Raises:
            ConflictError: it has not ended.
        """

    async def load_start(self, owner: str, client_id: str, thread_id: str | None = None) -> RunsAndThread:
        """In one read the runs with this client id, and the thread of that id; without one the thread of the newest of
        the runs. A `load_thread` of the same thread does not have to wait then.
        """

    async def read_events(self, owner: str, run_id: str, *, after: int, limit: int) -> list[NumberedEvent]:
        """Events whose number is greater than `after`, in order, at most about `limit` (a few more may come, so that
        a `Deltas` comes whole; but its pieces up to `after` are left out). Fewer than `limit`: there are no more now.
        """

    async def read_logs(
        self, owner: str, run_ids: Sequence[str], *, limit: int, max_bytes: int
    ) -> Mapping[str, list[NumberedEvent]]:
        """The logs of those runs that have a log of fewer than `limit` events, by run id, in one read. The read ends
        with the log with which it reaches `max_bytes` stored bytes.
        """

    async def last_sequence(self, owner: str, run_id: str) -> int:
        """The number of the last stored event, 0 for none."""

    async def holder(self, owner: str, thread_id: str, run_id: str = "") -> str | None:
        """The other gateway that holds this thread, or where this run waits for it; None: no other gateway does.

        Raises:
            UnavailableError: the run is under way at a gateway that is gone; another one will end it in a moment.
        """

    async def hold_thread(self, owner: str, thread_id: str, *, holds: bool, takes_over: bool = False) -> bool:
        """Hold a thread for those who wait for its next run; without `holds`, release it, unless a run is under way on
        it. `takes_over`: hold it to end the run that a gateway which is gone left on it. False: there is no such
        thread.

        Raises:
            HeldElsewhereError: another gateway holds it.
            ConflictError: a gateway that is gone left a run on it.
        """

    async def unfinished_runs(self) -> list[RunRecord]:
        """The stored runs that are queued or running, without those of other gateways: at start, the runs that the last
        process left unfinished; later this process's own too, and those of gateways that are gone.
        """

    async def waiting_runs(self) -> list[tuple[RunRecord, tuple[Message, ...]]]:
        """The runs that wait, and the runs that left the queue but whose messages are still kept there, each with its
        messages; in the order of queue_run, and without those of other gateways.
        """
