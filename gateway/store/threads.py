"""Threads and their versions, as a store keeps them.

Below: messages, pages. Above: runs, the store. Threads are keyed by (owner, id): an id of another owner is unknown. All
times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.agent import ABSENT, Absent
from gateway.events import OpenInterrupt
from gateway.frozen import quickly_made
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, JsonValue, Message
from gateway.model_state import ModelState
from gateway.store.pages import Page
from gateway.store.retention import DueDeletion

# The most that an operator may set as max_versions, so no thread has more.
MOST_VERSIONS = 1000


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A thread without its messages. `agent_id` is empty if no agent has worked on it yet. `metadata` is its owner's.
    `listed` and `collection` as in Thread; `expires_at` of a paused thread includes its longer life.
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
    """A change to fields of a thread; ABSENT: the field stays. `metadata` replaces all earlier metadata."""

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

    `model_states` has the states of the thread's conversations at providers' servers, by agent. A thread that is not
    `listed` is left out by list_threads; its id still works. A `hidden` thread is never listed, whatever its runs are.
    `expires_at`: when it is to be deleted; None: never. Each write moves that time to LEAST_LIFE_SECONDS after the
    write, if that is later. A `paused` thread stays for PAUSED_LIFE_SECONDS after its last write, even if it expires
    earlier.

    `version` is the number of the thread's current version: the messages, state, interrupts, last run and
    `model_states` are that version's. `last_version` is the highest number so far. A version is `shortened` if a
    history without the beginning of its parent's made it (see history.versions).

    `collection` names the collection that it belongs to, whose documents are searched together (see ThreadDocuments);
    empty: none. Writes leave a stored collection as it is; only update_thread changes it.

    `revision` is the store's name of the state that was read, empty for a thread that was not there. Where several
    gateways use the store, a write that rests on another state than the stored one raises HeldElsewhereError. None: it
    may rest on any.
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
    revision: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ThreadVersion:
    """A version of a thread. `parent` is the version that it was made from; None: there was none, or it is gone.
    `from_message` is the id of the last message that it had in common with its parent when it began.
    """

    number: int
    is_current: bool
    parent: int | None
    from_message: str | None
    created_at: float


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version with all of its messages, hidden ones included. `thread` is the thread with this version as the current
    one. `times` as Store.message_times.
    """

    thread: Thread
    times: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """A new `thread` that begins with messages of another thread of its owner: those of the `version` of thread `of`
    from number `start` on, hidden messages counted.
    """

    thread: Thread
    of: str
    version: int
    start: int = 0


class ThreadStore(Protocol):
    """Threads, their messages and versions. Every method raises StoreError if the store fails."""

    async def load_thread(self, owner: str, thread_id: str) -> Thread | None: ...

    async def list_threads(self, owner: str, *, limit: int, cursor: str | None, skip: int = 0) -> Page[ThreadSummary]:
        """The owner's listed threads, the latest first, without the first `skip` of them, which are not read.

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
        """The messages of a version, by default the current one, in order from the first. Empty for an unknown thread
        or version. Raises as list_threads.

        `max_bytes`: a page ends with the message with which it reaches so many stored bytes.

        With a `version`, hidden messages are included (see begin_run).
        """

    async def message_times(self, owner: str, thread_id: str) -> list[float | None]:
        """When each message of the thread's current version came, in order: the `updated_at` of the write that brought
        it. A message that a `rewrite` changes keeps its time, unless the rewrite makes a version. None: an older
        gateway stored it. Empty for an unknown thread.
        """

    async def find_message(self, owner: str, message_id: str, *, limit: int) -> list[str]:
        """The ids of the owner's threads whose current version has a message of that id: listed ones first, then the
        others, of both the latest first.
        """

    async def list_interrupts(self, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
        """The thread's open interrupts. None: no such thread."""

    async def create_thread(self, thread: Thread, metadata: JsonObject) -> None:
        """Store a thread that no run began.

        Raises:
            ConflictError: there is a thread of that id.
        """

    async def write_thread(self, thread: Thread, *, keep: int, rewrite: Rewrite | None = None) -> None:
        """Store the thread as it now is, outside a run; `keep`, `rewrite`, versions and the fields that stay are as in
        begin_run. Messages that no version has any more are deleted like those of a deleted thread.

        Raises:
            NotFoundError: it was deleted.
        """

    async def update_thread(self, owner: str, thread_id: str, change: ThreadChange) -> bool:
        """Change fields of the thread. False: no such thread."""

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        """Delete the thread with its versions, messages, runs and logs. False: no such thread. Messages that a fork
        has too stay for the fork.

        The same transaction stores `due`: the deletions that are due at providers because of this one.
        """

    async def list_versions(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[ThreadVersion]:
        """The thread's versions by number; one is current. Empty for an unknown thread. Raises as list_threads."""

    async def load_version(self, owner: str, thread_id: str, version: int) -> VersionContent | None:
        """A version with its messages. None: no such thread or version."""

    async def select_version(self, owner: str, thread_id: str, version: int) -> bool:
        """Make a version the current one: the thread becomes as it was when that version was last current. False: there
        is no such version.
        """

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
