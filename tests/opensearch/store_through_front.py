"""A store that reaches the cluster through a front, and a reader of the same indices that does not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway.clock import SystemClock
from gateway.documents.document import Document, DocumentKind
from gateway.opensearch.address import Address
from gateway.opensearch.store import OpenSearchStore
from gateway.store import RunFilter, Store, StoreEnvironment
from tests.openai_chat_server import Received
from tests.opensearch.front import PASS, Fate, Front, front_before
from tests.stored_samples import CLUSTER_KEY
from tests.whole_writes import seen

NOTE = DocumentKind("note", {"title": {"type": "text"}})
IMPATIENT = 0.02
"""Deadlines of 0.1 and 1.2 seconds."""


def store_at(url: str, prefix: str) -> OpenSearchStore:
    """A store of these indices, not opened."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    address = Address(parts.hostname, parts.port or 9200, prefix=prefix)
    return OpenSearchStore(address, StoreEnvironment(SystemClock(), Path(), (CLUSTER_KEY,)))


def is_beat(request: Received) -> bool:
    """Whether it only says that the gateway is there, or looks for others, which it does all the time."""
    is_heartbeat = request.method in ("PUT", "DELETE") and "-state/_doc/" in request.target
    return is_heartbeat or b'"_id":"gateways"' in request.body


class Counted:
    """A rule by the number of the request, from 1, in which nobody counts a gateway's beats."""

    def __init__(self, rule: Callable[[int], Fate] = lambda number: PASS) -> None:
        self.count = 0
        self._rule = rule

    def __call__(self, number: int, request: Received) -> Fate:
        if is_beat(request):
            return PASS
        self.count += 1
        return self._rule(self.count)


@dataclass(frozen=True, slots=True)
class Scene:
    """`store` is reached through `front`; `reader` reads the same indices, as another process would."""

    front: Front
    store: OpenSearchStore
    reader: OpenSearchStore
    http: httpx.AsyncClient
    prefix: str

    @contextmanager
    def broken(self, rule: Callable[[int], Fate], patience: float = 1.0) -> Generator[Counted]:
        """The front follows this rule for a while, and the store's deadlines are so much shorter."""
        self.store._cluster.patience = patience
        self.front.forget(counted := Counted(rule))
        try:
            yield counted
        finally:
            self.front.forget()
            self.store._cluster.patience = 1.0

    async def view(self, owner: str, store: Store | None = None) -> str:
        """All that the owner sees, without the owner's name: by default what the reader sees."""
        if store is None:
            (await self.http.post(f"/{self.prefix}-*/_refresh")).raise_for_status()
        return str(await everything(store or self.reader, owner)).replace(owner, "OWNER")


@asynccontextmanager
async def scene_at(url: str, prefix: str) -> AsyncGenerator[Scene]:
    """A scene whose indices are gone afterwards."""
    async with front_before(url) as front, httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as http:
        store = store_at(front.url, prefix)
        reader = store_at(url, prefix)
        try:
            await store.open()
            yield Scene(front, store, reader, http, prefix)
        finally:
            front.forget()
            await store.close()
            await reader.close()
            await http.delete(f"/{prefix}-*")


async def everything(store: Store, owner: str) -> tuple[object, ...]:
    """All that is shown to an owner."""
    waiting = [each for each in await store.waiting_runs() if each[0].owner == owner]
    unfinished = [run for run in await store.unfinished_runs() if run.owner == owner]
    due = [each for each in await store.due_deletions() if owner in str(each)]
    page, total = await store.find_runs(owner, RunFilter("", stem=100), limit=100, cursor=None)
    return (
        *await seen(store, owner),
        await store.list_threads(owner, limit=100, cursor=None),
        await store.find_message(owner, "msg_2", limit=10),
        await store.message_times(owner, "t1"),
        await store.load_run(owner, "r1"),
        await store.load_run(owner, "r2"),
        sorted(waiting, key=lambda each: each[0].run_id),
        sorted(unfinished, key=lambda run: run.run_id),
        due,
        page.items,
        total,
        _body(await store.documents.get(NOTE, note_id(owner), owner)),
    )


def note_id(owner: str) -> str:
    return f"note-of-{owner}"


def _body(document: Document | None) -> object:
    return None if document is None else document.body
