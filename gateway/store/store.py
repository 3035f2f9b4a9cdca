"""The contract of a whole store, and the `StoreType` part.

Below: the other contracts of the room. A store knows no protocol and no model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.agent import Secret
from gateway.clock import Clock
from gateway.commit_window import WindowSeconds
from gateway.documents.document import DocumentStore
from gateway.findings import Finding, unexamined
from gateway.store.gateways import Gateway, Gateways
from gateway.store.retention import RetentionStore
from gateway.store.runs import RunStore
from gateway.store.thread_documents import ThreadDocuments
from gateway.store.threads import ThreadStore
from gateway.store.transfer import TransferStore


class Vacuumed(NamedTuple):
    """`seconds`: how long nothing could be written. `before` and `after`: the store's size on the disk, in bytes."""

    seconds: float
    before: int
    after: int


class Store(ThreadStore, RunStore, RetentionStore, TransferStore, Protocol):
    """Everything that outlives a process.

    Writes of a thread happen in the order of the calls, and completely, even if the caller is cancelled meanwhile. Of
    each write, a begin, an end, an edit, a version, a fork or a deletion, a reader sees everything or nothing, also
    after a crash. A run's events and end raise ConflictError once another gateway has taken its thread over; other
    writes of a thread raise HeldElsewhereError if another gateway holds it or has just changed it.

    Data that are read by an id are as they were last written: a thread with its messages, versions, runs and open
    interrupts, a run and its log, a message that is looked up by its id. Lists and searches may lack the writes of the
    last second, and numbers of bytes and the `most` of documents are about right.

    Methods raise StoreError if the store cannot be used and StoreFullError if there is no room; both may pass.
    While another program holds the store, writes of a run under way (append_events, end_run) wait for it, up to the
    operator's limit; others wait for 5 seconds, and reads do not.

    A store gets a run's events as EventRecords, lines that it keeps as they are: one line may be several events, and
    `records.decode_events` makes events of lines, in order. It is free in how it keeps the rest: `encode_message`,
    `encode_record` and their opposites make JSON of messages and of everything else that threads and runs consist of.
    """

    async def open(self) -> None:
        """Create or migrate the store.

        Raises:
            ConfigurationError: another process uses it, or it is newer than this gateway.
        """

    async def close(self) -> None:
        """Write the queued changes, then release the store."""

    async def check(self) -> None:
        """Raises StoreError if a write would fail now; for readiness. It does not wait for other programs."""

    async def vacuum(self) -> Vacuumed:
        """Rewrite the store without the space that deleted data take; runs under way wait. Raises StoreError if that
        cannot be done now.
        """

    def stop_waiting(self) -> None:
        """The process ends: from now on writes fail where they would wait for other programs."""

    @property
    def gateways(self) -> Gateways:
        """The gateways that use the store."""

    @property
    def documents(self) -> DocumentStore:
        """The documents: data that are neither threads nor runs, in the same file and the same transactions."""

    @property
    def commit_window(self) -> WindowSeconds:
        """How long events of runs under way may wait to share a commit."""

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        """The secret of that name; if there is none yet, `fresh` becomes it for every process."""


@dataclass(frozen=True, slots=True)
class StoreEnvironment:
    """The process's resources for stores. Relative paths in a store's URL are relative to `directory`.

    `master_keys` seal members of documents: 32 bytes in base64 each; the first seals, all open. If there are none, the
    store generates one and keeps it in a file beside its own. `address` is the URL by which the store's other gateways
    reach this one; None: it takes the store alone. A gateway that has not been heard of for `lease_seconds` is gone.
    `on_secrets` is called with the secrets that come in or are opened, so that no log shows them. `thread_documents`
    makes the documents of threads; None: threads have none.
    """

    clock: Clock
    directory: Path
    master_keys: tuple[Secret, ...] = ()
    on_secrets: Callable[[Iterable[Secret]], None] = lambda secrets: None
    thread_documents: ThreadDocuments | None = None
    address: str | None = None
    lease_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class StoreType:
    """A part: `open(url, environment)` for store URLs whose scheme is `name`; it does no I/O.

    `file` returns the store's local file, None for a store without one: the process puts its own files beside it.
    `examine` looks at the store, whether or not a gateway serves it, and says whether a gateway could: it changes
    nothing, and ends in time even if the store does not answer. `gateways` lists the gateways that use the store; None:
    it takes one.
    """

    name: str
    open: Callable[[str, StoreEnvironment], Store]
    file: Callable[[str, StoreEnvironment], Path | None] = lambda url, environment: None
    examine: Callable[[str, StoreEnvironment], AsyncGenerator[Finding]] = unexamined
    gateways: Callable[[str, StoreEnvironment], Awaitable[Sequence[Gateway]]] | None = None
