"""Everything that a store keeps, piece by piece, so that another store can take it in.

Below: runs, retention. Above: the store, and export_file, which writes the pieces into a file. The pieces come in the
order of this module's classes: MovedStore, all secrets, all due deletions, each thread with its messages, versions and
late documents, all approvals, each run with its events, each index with its documents. What belongs to a thread, a run
or an index follows it directly. Ids, times and numbers stay. Fields of bytes are as `records` encodes them. All times
are Unix seconds.

Left out: cursors, counted bytes and what searches need (the new store makes them anew), logs that were deleted, and
messages that no version has. Messages that a fork has in common with its origin come with both threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gateway.store.retention import DueDeletion
from gateway.store.runs import RunRecord


@dataclass(frozen=True, slots=True)
class MovedStore:
    """The first piece. `key_ids`: the master keys with which documents are sealed (see documents.sealing).
    `last_document_version`: no document had a larger one, deleted ones included; new documents get larger ones.
    """

    key_ids: tuple[str, ...] = ()
    last_document_version: int = 0


@dataclass(frozen=True, slots=True)
class MovedSecret:
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class MovedThread:
    """The fields that all versions of a thread share, as in Thread; `metadata` is JSON, None: there is none. `versions`
    is their number, and `version` the current one's.
    """

    owner: str
    thread_id: str
    created_at: float
    updated_at: float
    title: str | None = None
    metadata: bytes | None = None
    listed: bool = True
    hidden: bool = False
    expires_at: float | None = None
    paused: bool = False
    collection: str = ""
    version: int = 1
    last_version: int = 1
    versions: int = 1


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """A message of at least one of the thread's versions. Its number is its place among the thread's MovedMessages,
    from 0. `at` as in Store.message_times.
    """

    record: bytes
    at: float | None = None


@dataclass(frozen=True, slots=True)
class MovedVersion:
    """A version of the thread, as in Thread and ThreadVersion. `interrupts` are records, a line each; `state` is JSON,
    None: it is ABSENT; `model_states` as model_state encodes them.

    `messages` are stretches of the thread's messages, each the number of its first and its length. The first `hidden`
    of them are not shown.
    """

    number: int
    created_at: float
    agent_id: str = ""
    parent: int | None = None
    from_message: str | None = None
    shortened: bool = False
    last_run_id: str | None = None
    interrupts: bytes = b""
    state: bytes | None = None
    model_states: bytes | None = None
    hidden: int = 0
    messages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MovedLate:
    """Documents of a thread in a collection that the store has yet to write (see ThreadDocuments): those of the shown
    messages from number `first` up to `stop`, without that one. Or, with `gone`, the id of a message whose document it
    has yet to delete.
    """

    first: int = 0
    stop: int = 0
    gone: str | None = None


@dataclass(frozen=True, slots=True)
class MovedApproval:
    """`waits`: the approval is open. The oldest approval is the first."""

    approval_id: str
    owner: str
    thread_id: str
    expires_at: float | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class MovedRun:
    """`has_log` is False if its log was deleted. `waiting_messages` are those of Store.queue_run, a line each. The run
    that was stored first is the first.
    """

    run: RunRecord
    has_log: bool = True
    waiting_messages: bytes | None = None


@dataclass(frozen=True, slots=True)
class MovedEvents:
    """Consecutive events of the run, the numbers `first` to `last`, that were stored together; see EventRecords."""

    first: int
    last: int
    lines: bytes
    at: float | None = None


@dataclass(frozen=True, slots=True)
class MovedIndex:
    """What its documents have in common: their kind and the kind's `properties`, as JSON. And their `owner`; `public`
    ones may have different owners, and their index has none.
    """

    kind: str
    properties: bytes
    owner: str = ""
    public: bool = False


@dataclass(frozen=True, slots=True)
class MovedDocument:
    """A document, as in Document: `source` is its body as JSON without the sealed members, `sealed` those by their JSON
    pointers, encrypted.
    """

    document_id: str
    owner: str
    version: int
    source: bytes
    created_at: float
    updated_at: float
    thread_id: str | None = None
    sealed: bytes | None = None


Moved: TypeAlias = (
    MovedStore
    | MovedSecret
    | DueDeletion
    | MovedThread
    | MovedMessage
    | MovedVersion
    | MovedLate
    | MovedApproval
    | MovedRun
    | MovedEvents
    | MovedIndex
    | MovedDocument
)


class TransferStore(Protocol):
    """Moves everything from one store to another. Both methods raise StoreError if the store fails, and
    ConfigurationError if it does not outlive its process.
    """

    async def export(self, take: Callable[[Moved], None]) -> None:
        """Give everything to `take`, as it was at one moment. A store in a cluster gives what there was when the export
        began, but each thread, run and document as it is at a moment of its own. `take` may be called in another
        thread. An error that it raises ends the export.

        The store need not be open, and a gateway may be using it meanwhile.

        Raises:
            ConfigurationError: there is no such store, or a gateway of another version has written it.
        """

    async def import_(self, moved: Iterable[Moved]) -> None:
        """Take in what an export gave. The store is open and was not used yet. `moved` may be iterated in another
        thread.

        The store takes in everything or nothing: it is empty after an error, also one that `moved` raises, and after a
        crash.

        Raises:
            ConfigurationError: the store is not empty, or lacks one of the keys that MovedStore names.
        """
