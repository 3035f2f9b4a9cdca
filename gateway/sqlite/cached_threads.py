"""Whole threads, from the cache where it has them, and the runs with a client's id.

Below: access, thread_cache, tables, run_rows. Above: the store, which reports its writes. Index look-ups of one run, or
of a thread that is not there, are done on the event loop (StoreAccess.look says why).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from gateway.frozen import replace
from gateway.sqlite import run_rows, tables
from gateway.sqlite.access import StoreAccess
from gateway.sqlite.tables import KeptThread
from gateway.sqlite.thread_cache import Key, ThreadCache
from gateway.store import RunRecord, RunsAndThread, Thread

Result = TypeVar("Result")


class CachedThreads:
    """The threads of a store, of which up to `cache_bytes` stay in memory."""

    def __init__(self, access: StoreAccess, cache_bytes: int) -> None:
        self._access = access
        self._cache = ThreadCache(cache_bytes)

    async def load(self, owner: str, thread_id: str) -> Thread | None:
        """As Store.load_thread."""
        key = (owner, thread_id)
        known = self._known(key)
        return (await self._load(key, lambda _: None))[1] if known is None else known or None

    async def load_start(self, owner: str, client_id: str, thread_id: str | None) -> RunsAndThread:
        """As Store.load_start."""
        known = partial(run_rows.read_known_as, owner=owner, client_id=client_id)
        few = self._few_runs(owner, client_id)
        if thread_id is None:
            runs = await self._access.read(known) if few is None else few
            if not runs:
                return RunsAndThread(runs, None)
            thread_id = runs[0].thread_id
        key = (owner, thread_id)
        if few is not None and (thread := self._known(key)) is not None:  # as they were when the runs were found
            return RunsAndThread(few, thread or None)
        return RunsAndThread(*await self._load(key, known))

    async def runs_known_as(self, owner: str, client_id: str) -> list[RunRecord]:
        """As Store.runs_known_as."""
        if (few := self._few_runs(owner, client_id)) is not None:
            return few
        return await self._access.read(lambda connection: run_rows.read_known_as(connection, owner, client_id))

    def _few_runs(self, owner: str, client_id: str) -> list[RunRecord] | None:
        """The runs with this client id, if there is at most one. Nearly always that is so, and a reader's thread takes
        ten times as long to find it.
        """
        few = self._access.look(lambda connection: run_rows.read_known_as(connection, owner, client_id, limit=2))
        return few if few is not None and len(few) < 2 else None

    def written(self, thread: Thread, keep: int, written: KeptThread) -> None:
        """To be called when a commit stored the thread, with the messages from `keep` on."""
        stored = (written.title, written.created_at, written.listed, written.hidden, written.expires_at)
        same = (thread.title, thread.created_at, thread.listed, thread.hidden, thread.expires_at) == stored
        if not same or thread.collection != written.collection:
            thread = replace(
                thread,
                title=written.title,
                created_at=written.created_at,
                listed=written.listed,
                hidden=written.hidden,
                expires_at=written.expires_at,
                collection=written.collection,
            )
        key = (thread.owner, thread.thread_id)
        if written.sizes is None:
            self._cache.changed(key)
        else:
            self._cache.written(key, thread, keep, written.sizes, written.state_size)

    def changed(self, key: Key) -> None:
        """As ThreadCache.changed."""
        self._cache.changed(key)

    def _known(self, key: Key) -> Thread | Literal[False] | None:
        """The thread; False: it is certain that there is none; None: it has to be read."""
        known = self._cache.get(key)
        if known is None and self._access.look(partial(tables.has_thread, owner=key[0], thread_id=key[1])) is False:
            self._cache.found_absent(key)
            return False
        return known

    async def _load(self, key: Key, more: Callable[[sqlite3.Connection], Result]) -> tuple[Result, Thread | None]:
        """Read a thread, and `more` with it, and put the thread into the cache."""
        loading = self._cache.start_loading(key)
        try:
            result, loaded = await self._access.read(
                lambda connection: (more(connection), tables.read_thread(connection, *key))
            )
        except BaseException:
            self._cache.give_up_loading(key, loading)
            raise
        if loaded is None:
            self._cache.finish_loading(key, loading, None, [], 0)
            return result, None
        self._cache.finish_loading(key, loading, loaded.thread, loaded.sizes, loaded.state_size)
        return result, loaded.thread
