"""The contract of stores: threads, runs and the log of every run's events; and the `StoreType` part.

Below: events, messages. A store knows no protocol and no model. Threads and runs are keyed by (owner, id): an id of
another owner is unknown. All times are Unix seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gateway.agent import ABSENT, Absent, Secret, ThreadPoint
from gateway.clock import Clock
from gateway.clock import Kept as Kept  # what a store's writes give
from gateway.documents.document import DocumentKind, DocumentStore
from gateway.events import Event, OpenInterrupt, Usage
from gateway.frozen import quickly_made
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, JsonValue, Message
from gateway.model_state import ModelState
from gateway.records import NO_EVENTS, EventRecords

Item = TypeVar("Item")

LEAST_LIFE_SECONDS = 3600.0
"""How long a thread stays behind its last write, so that retries and those who watch again find it."""

PAUSED_LIFE_SECONDS = 86_400.0
"""How long one stays that waits for its client or for a person: these may come back the next day."""

# More than a thread may ever have: what the operator may set as max_versions.
MOST_VERSIONS = 1000


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
    """A run. `input_digest` recognises a repeated request, see runs.endings. `error_*` are set if it failed.

    `reused_id`: the id by which clients know it, if that belongs to an earlier run of the thread (see runs.ids).
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

    @property
    def end(self) -> ThreadPoint | None:
        """Where the run left its thread; None while it has not ended."""
        if self.thread_length is None:
            return None
        return ThreadPoint(self.thread_id, self.thread_version, self.thread_length, self.last_message_id)

    @property
    def changed_at(self) -> float:
        """When it ended, began or was asked for, whichever came last."""
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
    """Which of an owner's runs are wanted: those that came by the protocol `origin`; of one agent, of one thread, with
    one of these statuses, changed at `since` or later (Unix seconds), where that is said. Runs whose ids begin with the
    same `stem` characters are one piece of work: only the newest of them is wanted. `followed`: further statuses, of
    runs behind which another one began on their thread.
    """

    origin: str
    stem: int
    thread_id: str | None = None
    statuses: frozenset[RunStatus] | None = None
    since: float | None = None
    agent_id: str | None = None
    followed: frozenset[RunStatus] = frozenset()


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """What is told of a thread without its messages. `agent_id` is empty where no agent has worked on it yet.
    `metadata` is its owner's. `listed` and `collection` as in Thread; `expires_at` is the later one of a paused thread.
    """

    owner: str
    thread_id: str
    title: str | None
    agent_id: str
    created_at: float
    updated_at: float
    metadata: JsonObject = field(default_factory=dict)
    listed: bool = True
    expires_at: float | None = None
    collection: str = ""


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """What is to be another of a thread; ABSENT: it stays. `metadata` replaces what there is."""

    title: str | Absent | None = ABSENT
    metadata: JsonObject | Absent = ABSENT
    listed: bool | Absent = ABSENT
    expires_at: float | Absent | None = ABSENT
    collection: str | Absent = ABSENT
    updated_at: float | Absent = ABSENT


@quickly_made
@dataclass(frozen=True, slots=True)
class Thread:
    """A whole thread. `state` is ABSENT if no run ever had one. `last_run_id` is the run that began last.

    `model_states` says what providers' servers keep of the thread's conversations, by agent. A thread that is not
    `listed` is left out by list_threads; its id still works. One that is `hidden` is never listed, whatever its runs
    say. `expires_at`: it is to be deleted then; each write moves that to LEAST_LIFE_SECONDS behind itself, if that is
    later; one that is `paused` stays for PAUSED_LIFE_SECONDS behind its last write, however early it expires. None:
    never.

    `version` is the number of the thread's current version: the messages, state, interrupts, last run and
    `model_states` are that version's. `last_version` is the highest number so far. A version is `shortened` if a
    history without the beginning of its parent's made it (see history.versions).

    `collection` names what it belongs to, for documents that are found beside it (see ThreadDocuments); empty: nothing.
    A stored one stays, whatever is written; only update_thread changes it.
    """

    owner: str
    thread_id: str
    agent_id: str
    created_at: float
    updated_at: float
    title: str | None = None
    messages: tuple[Message, ...] = ()
    state: JsonValue | Absent = ABSENT
    interrupts: tuple[OpenInterrupt, ...] = ()
    last_run_id: str | None = None
    model_states: Mapping[str, ModelState] = field(default_factory=dict)
    listed: bool = True
    hidden: bool = False
    expires_at: float | None = None
    paused: bool = False
    version: int = 1
    last_version: int = 1
    shortened: bool = False
    collection: str = ""


@dataclass(frozen=True, slots=True)
class ThreadVersion:
    """A version of a thread. `parent` is the version that it was made from, None where there was none or it is gone;
    `from_message` the id of the last message that it began with as its parent has it.
    """

    number: int
    is_current: bool
    parent: int | None
    from_message: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version with all of its messages, those that it hides too. `thread`: what the thread is, or would be, with this
    version as its current one. `times` as Store.message_times.
    """

    thread: Thread
    times: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """`thread`, which is new, begins with messages of another thread of its owner's: those of the `version` of thread
    `of` from number `start` on, among all that it has.
    """

    thread: Thread
    of: str
    version: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person, and its thread."""

    owner: str
    thread_id: str
    asked: OpenInterrupt


@dataclass(frozen=True, slots=True)
class DueDeletion:
    """Responses of a deleted thread that a provider's server must still be asked to delete.

    `agent_id` and `holder`: the agent whose model asks, if it still asks the server that holds them (see
    model_state.Chain). `names` are the responses that are left. `tries` counts the failed tries.
    """

    deletion_id: str
    agent_id: str
    holder: str
    names: tuple[str, ...]
    since: float
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list. `next_cursor` is opaque text for the next part, None at the end."""

    items: tuple[Item, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event with its number in its run's log, from 1.

    `at`: when those came that were kept together with it, in Unix seconds; None where nobody said.
    """

    sequence: int
    event: Event
    at: float | None = field(default=None, compare=False)


DOCUMENTS_AT_ONCE = 100
"""So many documents of a thread are written in one transaction at most."""


class Vacuumed(NamedTuple):
    """For how many seconds nothing could be written, and the store's size before and after, in bytes."""

    seconds: float
    before: int
    after: int


class ThreadDocuments(Protocol):
    """What is searched of threads in a collection: a document for the thread, and one for each message that its current
    version shows. They belong to the thread's owner and are deleted with the thread.

    The store writes them in the transaction that writes the message, the thread's own in the one that gives it its
    collection, unless it has one. Where one write changes more than DOCUMENTS_AT_ONCE of them, they follow a slice at a
    time, so that others can write meanwhile: whoever wrote is told when all are there, and after a crash `remove_logs`
    makes the rest. A message that is not in the current version any more has no document any more; where a message
    changes, or its number, its document is made anew. A document that cannot be made or stored is left out.
    Both kinds have `own_ids`; a thread's document has the thread's id. The methods are pure, and may be called in
    another thread.
    """

    @property
    def thread_kind(self) -> DocumentKind: ...

    @property
    def message_kind(self) -> DocumentKind: ...

    def of_thread(self, thread: ThreadSummary) -> JsonObject: ...

    def id_of(self, thread_id: str, message_id: str) -> str:
        """The id of a message's document."""

    def of_message(self, thread: ThreadSummary, message: Message, number: int, at: float) -> JsonObject | None:
        """A message's document; None: it has none. `number` is its place in the thread, from 0; `at`: when it came (see
        Store.message_times), or when the thread was made where that is not known.
        """


class Store(Protocol):
    """Everything that outlives a process.

    Writes happen in the order of the calls, and completely, even if the caller is cancelled meanwhile. Methods raise
    StoreError if the store cannot be used and StoreFullError if there is no room; both may pass. While another program
    holds the store, writes of a run under way (append_events, end_run) wait for it, up to the operator's limit; others
    wait for 5 seconds, and reads do not.

    A store gets a run's events as EventRecords, lines that it keeps as they are: one line may be several events, and
    `records.decode_events` makes events of lines, in order. How it keeps the rest is its own affair: `encode_message`,
    `encode_record` and their opposites make JSON of messages and of everything else that threads and runs consist of.
    """

    async def open(self) -> None:
        """Create or migrate the store.

        Raises:
            ConfigurationError: another process uses it, or it is newer than this gateway.
        """

    async def close(self) -> None:
        """Write what is queued, then release the store."""

    async def check(self) -> None:
        """Raises StoreError if a write would fail now; for readiness. It does not wait for other programs."""

    async def vacuum(self) -> Vacuumed:
        """Rewrite what is stored, without what was deleted; runs under way wait. Raises StoreError: not now."""

    def stop_waiting(self) -> None:
        """The process ends: from now on writes fail where they would wait for other programs."""

    # threads

    async def load_thread(self, owner: str, thread_id: str) -> Thread | None: ...

    async def list_threads(self, owner: str, *, limit: int, cursor: str | None, skip: int = 0) -> Page[ThreadSummary]:
        """Latest first, without the first `skip` of them, which are not read.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def load_summary(self, owner: str, thread_id: str) -> ThreadSummary | None: ...

    async def list_messages(
        self,
        owner: str,
        thread_id: str,
        *,
        limit: int,
        cursor: str | None,
        version: int | None = None,
        max_bytes: int | None = None,
    ) -> Page[Message]:
        """In order, from the first; of the current version without a number. Empty for an unknown thread or version.
        Raises as list_threads.

        `max_bytes`: a page ends early, with the message with which it has so many, as they are stored.

        A version that is asked for by its number has what it hides, too (see begin_run).
        """

    async def message_times(self, owner: str, thread_id: str) -> list[float | None]:
        """When each message of the thread's current version came, in order: `updated_at` of the thread that brought it.
        One that a `rewrite` changes keeps its time, unless that makes a version. None: an older gateway stored it.
        Empty for an unknown thread.
        """

    async def find_message(self, owner: str, message_id: str, *, limit: int) -> list[str]:
        """The ids of the owner's threads whose current version has a message of that id: listed ones first, then the
        others, of both the latest first.
        """

    async def list_interrupts(self, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
        """The thread's open interrupts. None: no such thread."""

    async def create_thread(self, thread: Thread, metadata: JsonObject) -> None:
        """Keep a thread that no run began.

        Raises:
            ConflictError: there is one of that id.
        """

    async def write_thread(self, thread: Thread, *, keep: int, rewrite: Rewrite | None = None) -> None:
        """The thread as it now is, outside a run; `keep`, `rewrite`, versions and what stays as in begin_run. Messages
        that no version has any more are deleted as those of a deleted thread.

        Raises:
            NotFoundError: it was deleted.
        """

    async def update_thread(self, owner: str, thread_id: str, change: ThreadChange) -> bool:
        """False: no such thread."""

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        """Delete the thread with its versions, messages, runs and logs. False: no such thread. Messages that a fork
        has too stay for the fork.

        The same transaction stores `due`: the deletions that this makes due at providers.
        """

    async def expired_threads(self, *, by: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads whose life ended before then (see Thread), those that expired first in front."""

    async def list_versions(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[ThreadVersion]:
        """By number. Every thread has one that is current. Empty for an unknown thread. Raises as list_threads."""

    async def load_version(self, owner: str, thread_id: str, version: int) -> VersionContent | None:
        """None: no such thread or version."""

    async def select_version(self, owner: str, thread_id: str, version: int) -> bool:
        """Make it the current version: the thread becomes what it was when it last was that. False: there is none."""

    async def delete_version(self, owner: str, thread_id: str, version: int, due: Sequence[DueDeletion] = ()) -> bool:
        """Delete the version, with the messages that no other version and no fork has. False: there is no such version.
        `due` as in delete_thread.

        Raises:
            ConflictError: it is the current one.
        """

    async def version_states(self, owner: str, thread_id: str) -> Mapping[int, Mapping[str, ModelState]]:
        """The `model_states` of a thread's versions that have any, by the versions' numbers."""

    async def fork_thread(self, owner: str, thread_id: str, fork: Thread) -> bool:
        """Store `fork`, a thread whose messages are the first ones of this thread's current version; they are not
        stored again. False: there is no such thread. Later changes of one thread change nothing in the other.

        Raises:
            ConflictError: the thread does not begin with these messages, or there is a thread of the fork's id.
        """

    async def idle_visitor_threads(self, *, before: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads of visitors (see owners) whose last run ended before then, the oldest first."""

    async def stored_bytes(self, site: str) -> int:
        """About how many bytes the threads and logs of a site's visitors take (see owners.site_of); a log counts once
        its run has ended.
        """

    async def due_deletions(self) -> list[DueDeletion]:
        """The oldest first."""

    async def update_deletion(self, deletion: DueDeletion) -> None:
        """Store its new state; one without names is done and removed. No effect if it is not there."""

    # approvals

    async def list_approvals(self, *, now: float, limit: int, cursor: str | None) -> Page[Approval]:
        """The open approvals of all threads that have not expired by `now`, the oldest first.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def find_approval(self, approval_id: str) -> tuple[str, str] | None:
        """Owner and id of the approval's thread, even if it was answered since; None: there was none, or its thread is
        gone.
        """

    # runs

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
        """In one transaction: the run's row (insert, or the queued row made `running`), the thread as it now is, and
        the run's first events, numbered from 1.

        `keep`: how many of the thread's leading messages are stored already and unchanged; the rest replaces the stored
        ones after them, except for those that stay by `rewrite`. Of a stored thread the title and the collection stay,
        and whether it is hidden or expires: only update_thread changes these.

        A thread whose `version` is not the stored one makes a new version with that number, which has to be higher than
        `last_version` was. Then nothing is replaced: the previous version stays as it was, and messages of both are
        stored once. The new one's parent is the previous one, and it was created at `thread.updated_at`.

        Messages that `rewrite` hides leave the thread; list_messages gives them when it is asked for the version.

        With a `fork` the thread is stored as that first, as fork_thread does. `patient`: it waits for other programs as
        long as a run under way; for a run that waited for its turn.

        Raises:
            ConflictError: the run was begun already; or the fork cannot be made, as in fork_thread.
            NotFoundError: there is no thread or version that the fork begins with.
        """

    async def queue_run(self, run: RunRecord, messages: Sequence[Message] = ()) -> None:
        """Store a run that waits for its thread, which need not exist yet; or the end of one that was waiting.

        A run that ended so has not begun (no `started_at`), and may be begun or ended by end_run, to store its input.
        `messages` are in no thread. They stay when the run leaves the queue, and go when it begins or end_run ends it.

        Raises:
            ConflictError: there is a run of that id, and it does not wait.
        """

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        """Queue the events numbered from `first`; gives a future that is done once they are stored.

        Returns at once. Several calls in one turn of the loop, also of different runs, share one commit and one future;
        they are written as soon as the writer is free. A cancelled task that waits for the future does not cancel it
        for others. Failure is in the future: StoreError (also if `first` does not follow the last stored or queued
        event), NotFoundError for an unknown (deleted) run, ConflictError for one that has ended. If events are lost,
        later ones of the run are lost too: a log has no gap.
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
    ) -> Kept[Any]:
        """In one transaction, after everything appended: the last events, the run's row, the thread as it now is.

        Returns at once, as append_events does: events appended in the same turn of the loop share the commit. `keep`
        and the title as in begin_run. `erase`: retracted messages, whose text and reasoning deltas keep their numbers
        in the log and lose their text; a medium keeps its number and has NO_DATA.

        Raises:
            StoreError: also if `first` does not follow the last stored event: earlier events were lost, and a log with
            a gap would be invalid.
            NotFoundError: no such run: its thread was deleted.
            ConflictError: the run has ended already, and not in the queue.
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
        """A page of the wanted runs, the one that changed last first (began, or ended); and how many there are in all:
        `total` where that is known, for counting costs as much as reading them all.

        Raises:
            InvalidRequestError: a cursor that this store did not give.
        """

    async def delete_run(self, owner: str, run_id: str) -> bool:
        """A run's record and its log; what it said stays on its thread. False: no such run.

        Raises:
            ConflictError: it has not ended.
        """

    async def load_start(self, owner: str, run_id: str, thread_id: str) -> RunRecord | None:
        """As `load_run`, for a run that may be about to begin: reads its thread too, so `load_thread` need not wait."""

    async def read_events(self, owner: str, run_id: str, *, after: int, limit: int) -> list[NumberedEvent]:
        """Events whose number is greater than `after`, in order, at most about `limit` (a few more may come)."""

    async def last_sequence(self, owner: str, run_id: str) -> int:
        """The number of the last stored event, 0 for none."""

    async def unfinished_runs(self) -> list[RunRecord]:
        """Stored runs that are queued or running: at start, those that the last process left behind."""

    async def waiting_runs(self) -> list[tuple[RunRecord, tuple[Message, ...]]]:
        """Runs that wait, and those that left the queue with messages, with these; in the order of queue_run."""

    async def remove_logs(self, *, finished_before: float) -> int:
        """Delete the logs of runs that ended before then (the runs' rows and the threads stay); gives how many."""

    # documents

    @property
    def documents(self) -> DocumentStore:
        """What is neither thread nor run, in the same file and the same transactions."""

    # the gateway's own

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        """The secret of that name; if there is none yet, `fresh` becomes it for every process."""


@dataclass(frozen=True, slots=True)
class StoreEnvironment:
    """The process's resources for stores. Relative paths in a store's URL are relative to `directory`.

    `master_keys` seal members of documents: 32 bytes in base64 each; the first seals, all open. If there are none, the
    store generates one and keeps it in a file beside its own. `on_secrets` is called with the secrets that come in or
    are opened, so that no log shows them. `thread_documents`: None: no thread has any.
    """

    clock: Clock
    directory: Path
    master_keys: tuple[Secret, ...] = ()
    on_secrets: Callable[[Iterable[Secret]], None] = lambda secrets: None
    thread_documents: ThreadDocuments | None = None


@dataclass(frozen=True, slots=True)
class StoreType:
    """A part: `open(url, environment)` for store URLs whose scheme is `name`; it does no I/O.

    `file` gives the store's local file, if it is one: the process puts its own files beside it.
    """

    name: str
    open: Callable[[str, StoreEnvironment], Store]
    file: Callable[[str, StoreEnvironment], Path | None] = lambda url, environment: None
