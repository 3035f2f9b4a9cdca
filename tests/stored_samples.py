"""Threads, runs and events to store, and one way to open a store of each kind for a test."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from gateway.agent import Secret
from gateway.clock import Clock, SystemClock
from gateway.events import (
    Event,
    TextDelta,
    joined,
)
from gateway.messages import Message, TextBlock
from gateway.records import EventRecords, encode_events
from gateway.store import RunRecord, RunStatus, Store, StoreEnvironment, StoreType, Thread, ThreadDocuments
from gateway.stores.opensearch import STORE as OPENSEARCH
from gateway.stores.sqlite import STORE as SQLITE
from tests.opensearch.index_sets import INDEX_SETS
from tests.pieces import rows_of_pieces

Result = TypeVar("Result")

DEADLINE_SECONDS = 20.0
OWNER = "key-1"
CLUSTER_KEY = Secret(base64.b64encode(b"k" * 32).decode())
"""The master key of stores in a cluster, which have no key file."""


def sqlite_store(directory: Path, url: str = "sqlite:///gateway.db") -> Store:
    """An embedded store in a folder, not opened."""
    return SQLITE.open(url, StoreEnvironment(SystemClock(), directory))


@contextlib.contextmanager
def sqlite_file(directory: Path) -> Generator[sqlite3.Connection]:
    """The file of `sqlite_store`, as another program sees it."""
    with contextlib.closing(sqlite3.connect(directory / "gateway.db", isolation_level=None, timeout=0)) as connection:
        yield connection


def memory_store(directory: Path) -> Store:
    """An embedded store without a file, not opened."""
    return sqlite_store(directory, "sqlite://:memory:")


def opensearch_store(
    directory: Path, address: str | None = None, lease_seconds: float = 10.0, *, url: str = ""
) -> Store:
    """A store in the shared cluster, not opened; the folder stands for its indices. `address` and `lease_seconds` as in
    StoreEnvironment. `url`: another way to the node.
    """
    environment = StoreEnvironment(
        SystemClock(), directory, (CLUSTER_KEY,), address=address, lease_seconds=lease_seconds
    )
    return OPENSEARCH.open(INDEX_SETS.store_url(directory, url), environment)


class OpensIn(Protocol):
    def __call__(
        self,
        directory: Path,
        clock: Clock,
        on_secrets: Callable[[Iterable[Secret]], None] = ...,
        thread_documents: ThreadDocuments | None = None,
        master_keys: tuple[Secret, ...] = (),
    ) -> Store: ...


def _in_environment(store_type: StoreType, url_of: Callable[[Path], str]) -> OpensIn:
    def opened(
        directory: Path,
        clock: Clock,
        on_secrets: Callable[[Iterable[Secret]], None] = lambda secrets: None,
        thread_documents: ThreadDocuments | None = None,
        master_keys: tuple[Secret, ...] = (),
    ) -> Store:
        keys = master_keys or ((CLUSTER_KEY,) if store_type is OPENSEARCH else ())
        environment = StoreEnvironment(clock, directory, keys, on_secrets, thread_documents)
        return store_type.open(url_of(directory), environment)

    return opened


STORE_TYPES = {"sqlite": SQLITE, "opensearch": OPENSEARCH}
# A new kind of store is one more line: it then has to pass the whole suite.
STORES: dict[str, Callable[[Path], Store]] = {
    "sqlite": sqlite_store,
    "sqlite-memory": memory_store,
    "opensearch": opensearch_store,
}
ENVIRONMENTS = {
    "sqlite": _in_environment(SQLITE, lambda _: "sqlite:///gateway.db"),
    "sqlite-memory": _in_environment(SQLITE, lambda _: "sqlite://:memory:"),
    "opensearch": _in_environment(OPENSEARCH, INDEX_SETS.store_url),
}
LASTING_STORES: dict[str, Callable[[Path], Store]] = {"sqlite": sqlite_store, "opensearch": opensearch_store}


async def within(work: Awaitable[Result]) -> Result:
    """Wait, but not for ever."""
    return await asyncio.wait_for(asyncio.ensure_future(work), DEADLINE_SECONDS)


def message(number: int, text: str = "hello") -> Message:
    return Message(f"msg_{number}", "user", (TextBlock(text),))


def messages(count: int, text: str = "hello") -> tuple[Message, ...]:
    return tuple(message(number, text) for number in range(count))


def thread(
    thread_id: str = "t1", *, owner: str = OWNER, count: int = 1, at: float = 100.0, text: str = "hello"
) -> Thread:
    """A thread of `count` messages."""
    return Thread(owner, thread_id, "assistant", at, at, messages=messages(count, text), last_run_id="r1")


def run(
    run_id: str = "r1",
    thread_id: str = "t1",
    *,
    owner: str = OWNER,
    status: RunStatus = RunStatus.RUNNING,
    at: float = 100.0,
    finished_at: float | None = None,
) -> RunRecord:
    return RunRecord(owner, run_id, thread_id, "assistant", status, at, at, finished_at, input_digest="d1")


def ended(run_id: str = "r1", thread_id: str = "t1", *, owner: str = OWNER, at: float = 200.0) -> RunRecord:
    """A run that completed at a time."""
    return run(run_id, thread_id, owner=owner, status=RunStatus.COMPLETED, finished_at=at)


def delta(number: int) -> Event:
    """The event that the tests store under that number, of some 50 bytes."""
    return TextDelta("msg_a", f"word {number}".ljust(50, "."))


def records(first: int, last: int) -> EventRecords:
    return encode_events(joined([delta(number) for number in range(first, last + 1)]))


async def begin(store: Store, run_id: str = "r1", thread_id: str = "t1", *, owner: str = OWNER) -> None:
    """A run under way on a thread of its own with one message."""
    await within(store.begin_run(run(run_id, thread_id, owner=owner), thread(thread_id, owner=owner), keep=0))


async def logged(store: Store, run_id: str = "r1", *, owner: str = OWNER) -> list[tuple[int, Event]]:
    """All of a run's log."""
    rows = await within(store.read_events(owner, run_id, after=0, limit=100_000))
    return [(row.sequence, row.event) for row in rows_of_pieces(rows)]


def numbered(last: int) -> list[tuple[int, Event]]:
    """The log of a run that stored `records(1, last)`."""
    return [(number, delta(number)) for number in range(1, last + 1)]
