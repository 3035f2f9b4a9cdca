"""The store in an OpenSearch cluster: keeps each promise of `gateway.store.Store` with documents.

Below: everything in this package. One conditional write of a thread's document commits what many documents hold (see
threads). Reads by ids see the last write; lists are searches, which see this process's own writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from gateway.clock import Kept, SystemClock
from gateway.commit_window import WindowSeconds
from gateway.documents.sealing import Sealing, parse_key
from gateway.errors import ConflictError, NotFoundError, StoreError
from gateway.events import OpenInterrupt
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.model_state import ModelState, decode_states
from gateway.opensearch import export_pieces, thread_record
from gateway.opensearch.address import Address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.collected_threads import CollectedThreads
from gateway.opensearch.documents import OpenSearchDocuments
from gateway.opensearch.ids import Order
from gateway.opensearch.import_pieces import Import
from gateway.opensearch.indices import (
    APPROVALS,
    EVENTS,
    MESSAGES,
    RUNS,
    STATE,
    THREADS,
    check_version,
    make_indices,
    note_format,
)
from gateway.opensearch.lists import Lists
from gateway.opensearch.logs import Logs, OpenLog, fail
from gateway.opensearch.membership import Membership
from gateway.opensearch.run_record import StoredRun, thread_id_of
from gateway.opensearch.runs import Runs, page_key
from gateway.opensearch.sources import Sources
from gateway.opensearch.state import State, due_items
from gateway.opensearch.thread_record import ThreadRecord, positions
from gateway.opensearch.thread_writes import ThreadWrites
from gateway.opensearch.threads import Change, Held, ThreadKey, Threads
from gateway.records import NO_EVENTS, EventRecords, load_json
from gateway.store import (
    Approval,
    DueDeletion,
    Fork,
    Gateways,
    HeldElsewhereError,
    NumberedEvent,
    Page,
    RunFilter,
    RunRecord,
    RunsAndThread,
    StoreEnvironment,
    Thread,
    ThreadChange,
    ThreadSummary,
    ThreadVersion,
    Vacuumed,
    VersionContent,
)
from gateway.store.cursors import place_cursor, read_place
from gateway.store.transfer import Moved

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

WINDOW: Final = WindowSeconds(0.050, 0.500)

_LARGEST = 2**62
_TRIES = 5
_SLICE = 100
_OF_A_THREAD = (MESSAGES, RUNS, EVENTS, APPROVALS)
_ALONE = StoreEnvironment(SystemClock(), Path())


class OpenSearchStore:
    """Threads, runs and logs in the indices of one prefix. It belongs to the event loop that opened it."""

    def __init__(self, address: Address, environment: StoreEnvironment = _ALONE) -> None:
        self._cluster = Cluster(address)
        self._bulks = Bulks(self._cluster)
        self._sources = Sources(self._cluster, self._bulks)
        self._order = Order()
        self._members = Membership(self._sources, environment.address, environment.lease_seconds, environment.clock.now)
        self._members.on_lost = self._lost
        self._bulks.may_send = lambda: self._members.may_act or not self._members.own_id  # else it is no gateway yet
        self._threads = Threads(self._sources, self._order, self._members)
        self._writes = ThreadWrites(self._threads, self._order)
        self._logs = Logs(self._sources, self._threads.sure)
        self._runs = Runs(self._sources, self._threads, self._writes, self._logs, self._order)
        self._lists = Lists(self._sources, self._threads, self._runs)
        self._state = State(self._sources)
        self._appending: set[asyncio.Task[None]] = set()
        self._sealing = Sealing([parse_key(key.reveal()) for key in environment.master_keys])
        self._documents = OpenSearchDocuments(
            self._sources, environment.clock, self._sealing, environment.on_secrets, self._has_thread
        )
        self._collected = CollectedThreads(environment.thread_documents, self._documents, self._threads)
        self._threads.follower = self._collected
        self._import = Import(self._sources, self._state, self._threads, self._runs, self._documents, self._sealing)
        self._threads.finish = self._finish

    async def open(self) -> None:
        self._cluster.open()
        try:
            await check_version(self._cluster)
            await make_indices(self._cluster)
            await note_format(self._cluster)
            await self._members.join()
            await self._begin_work()
        except BaseException:
            await self.close()
            raise
        if not self._sealing.has_key:
            logger.warning("'server.master_keys' has no key: documents with secrets are refused")

    async def _begin_work(self) -> None:
        await self._import.undo_unfinished()
        await self._documents.open()
        for name in (*_OF_A_THREAD, THREADS, STATE):
            self._cluster.wrote(name)  # whatever the last process wrote is to be found
        await self._finish_deletions()

    async def close(self) -> None:
        await self._threads.close()
        await self._documents.close()
        while self._appending:
            await asyncio.wait(self._appending)
        await self._bulks.close()
        await self._members.leave()
        self._runs.open.clear()
        await self._cluster.close()

    async def check(self) -> None:
        self._cluster.check()
        self._members.check()

    @property
    def gateways(self) -> Gateways:
        return self._members

    async def _lost(self) -> None:
        """Give up everything, and come back as another gateway: this one was taken for dead."""
        self._bulks.refuse(StoreError("this gateway was taken for dead"))
        taken = ConflictError("the run was taken over by another gateway")
        logs = [*self._runs.open.values(), *self._runs.under_end]
        self._runs.open.clear()
        for log in logs:
            self._logs.lose(log, taken)
        if self._members.events.on_lost is not None:
            await self._members.events.on_lost()
        self._threads.forget_all()
        await self._members.come_back()
        self._bulks.refuse(None)
        logger.warning("the gateway is back, as another one")

    async def vacuum(self) -> Vacuumed:
        raise StoreError("an OpenSearch cluster frees the space of deleted data by itself, when it merges segments")

    def stop_waiting(self) -> None:
        """Nothing waits for other programs."""

    @property
    def documents(self) -> OpenSearchDocuments:
        return self._documents

    async def _has_thread(self, owner: str, thread_id: str) -> bool:
        return await self._threads.record((owner, thread_id)) is not None

    @property
    def commit_window(self) -> WindowSeconds:
        return WINDOW

    async def export(self, take: Callable[[Moved], None]) -> None:
        await export_pieces.export(self._cluster.address, take)

    async def import_(self, moved: Iterable[Moved]) -> None:
        await self._import.take_all(moved)

    # --- threads

    async def load_thread(self, owner: str, thread_id: str) -> Thread | None:
        held = await self._threads.find_started((owner, thread_id))
        return None if held is None else await self._threads.whole(held.record)

    async def list_threads(self, owner: str, *, limit: int, cursor: str | None, skip: int = 0) -> Page[ThreadSummary]:
        return await self._lists.threads(owner, max(limit, 1), cursor, skip)

    async def load_summary(self, owner: str, thread_id: str) -> ThreadSummary | None:
        record = await self._threads.record((owner, thread_id))
        return None if record is None else record.summary

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
        start = 0 if cursor is None else read_place(b"m", cursor)
        limit = min(max(limit, 1), _LARGEST)
        return await self._lists.messages(owner, thread_id, start, limit, version, max_bytes)

    async def message_times(self, owner: str, thread_id: str) -> list[float | None]:
        record = await self._threads.record((owner, thread_id))
        if record is None:
            return []
        return [each.at for each in await self._threads.messages(record, positions(record.current))]

    async def find_message(self, owner: str, message_id: str, *, limit: int) -> list[str]:
        return await self._lists.with_message(owner, message_id, limit)

    async def list_interrupts(self, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
        record = await self._threads.record((owner, thread_id))
        return None if record is None else record.interrupts

    async def create_thread(self, thread: Thread, metadata: JsonObject) -> None:
        async def work(held: Held | None, record: ThreadRecord | None) -> Change:
            if record is not None:
                raise ConflictError(f"thread {thread.thread_id!r} exists already", code="thread_exists")
            change = await self._writes.written(None, thread, 0, None)
            return replace(change, record=thread_record.updated(change.record, ThreadChange(metadata=metadata)))

        await self._write((thread.owner, thread.thread_id), work)

    async def write_thread(self, thread: Thread, *, keep: int, rewrite: Rewrite | None = None) -> None:
        async def work(held: Held | None, record: ThreadRecord | None) -> Change:
            if record is None:
                raise NotFoundError(f"there is no thread {thread.thread_id!r}", code="thread_not_found")
            self._threads.check_as_read(held, thread)
            return await self._writes.written(record, thread, keep, rewrite)

        await self._write((thread.owner, thread.thread_id), work)

    async def update_thread(self, owner: str, thread_id: str, change: ThreadChange) -> bool:
        return await self._change((owner, thread_id), lambda record: thread_record.updated(record, change))

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        thread = thread_id_of(owner, thread_id)
        gone = NotFoundError(f"thread {thread_id!r} was deleted", code="thread_not_found")
        for key, log in list(self._runs.open.items()):
            if log.thread == thread:
                del self._runs.open[key]
                self._logs.lose(log, gone)
        key = (owner, thread_id)
        return await asyncio.shield(self._threads.in_line(key, lambda: self._delete(key, due)))

    async def _delete(self, key: ThreadKey, due: Sequence[DueDeletion]) -> bool:
        held = await self._threads.own(key)
        if held is None or held.record is None:
            return False
        held = await self._threads.delete(key, held, due)
        try:
            await self._finish(key, held)
        except StoreError:  # the thread is gone; `known` finishes it too
            self._threads.sure.repeat(lambda: self._threads.in_line(key, lambda: self._threads.known(key)))
        return True

    async def _finish(self, key: ThreadKey, held: Held) -> None:
        """Delete what belonged to a deleted thread, then its document."""
        await self._bulks.write(due_items(held.due or ()))
        await self._documents.delete_of_thread(*key)
        await self._sources.delete_found(_OF_A_THREAD, {"term": {"thread": thread_id_of(*key)}})
        await self._threads.forget(key, held)

    async def _finish_deletions(self) -> None:
        """Finish the deletions that an earlier process began."""
        for found in await self._lists.every(THREADS, {"term": {"deleted": True}}):
            data = load_json(found.record)
            if (named := data.get("key")) is None:
                continue
            key: ThreadKey = (named[0], named[1])
            held = self._threads.took(key, found)
            if held is not None and held.due is not None:
                await self._finish(key, held)

    async def load_version(self, owner: str, thread_id: str, version: int) -> VersionContent | None:
        record = await self._threads.record((owner, thread_id))
        record = await self._threads.loaded(record, lambda _: [version])
        if record is None or version not in record.versions:
            return None
        kept = await self._threads.messages(record, positions(record.versions[version], hidden=True))
        thread = record.thread(version, [each.message for each in kept])
        return VersionContent(thread, tuple([each.at for each in kept]))

    async def list_versions(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[ThreadVersion]:
        after = 0 if cursor is None else read_place(b"v", cursor)
        limit = min(max(limit, 1), _LARGEST)
        record = await self._threads.record((owner, thread_id))
        found = [] if record is None else [each for each in record.listed_versions() if each.number > after]
        more = len(found) > limit
        return Page(tuple(found[:limit]), place_cursor(b"v", found[limit - 1].number) if more else None)

    async def select_version(self, owner: str, thread_id: str, version: int) -> bool:
        return await self._change((owner, thread_id), lambda record: thread_record.with_version(record, version))

    async def delete_version(self, owner: str, thread_id: str, version: int, due: Sequence[DueDeletion] = ()) -> bool:
        async def work(held: Held | None, record: ThreadRecord | None) -> Change | None:
            without = None if record is None else thread_record.without_version(record, version)
            if record is None or without is None:
                return None
            change = Change(replace(without, due=(*without.due, *due)))
            return self._writes.completed(record, await self._writes.without_unused(record, change))

        return await self._write((owner, thread_id), work)

    async def version_states(self, owner: str, thread_id: str) -> Mapping[int, Mapping[str, ModelState]]:
        record = await self._threads.record((owner, thread_id))
        record = await self._threads.loaded(record, lambda each: each.versions)
        versions = {} if record is None else record.versions
        return {
            number: decode_states(each.model_states)
            for number, each in sorted(versions.items())
            if each.model_states is not None
        }

    async def fork_thread(self, owner: str, thread_id: str, fork: Thread) -> bool:
        async def work(held: Held | None, record: ThreadRecord | None) -> Change | None:
            forked, items = await self._writes.forked(owner, thread_id, None, fork, 0, held)
            return None if forked is None else Change(forked, items)

        return await self._write((fork.owner, fork.thread_id), work)

    async def expired_threads(self, *, by: float, limit: int) -> list[tuple[str, str]]:
        return await self._lists.expired(by, limit)

    async def idle_visitor_threads(self, *, before: float, limit: int) -> list[tuple[str, str]]:
        return await self._lists.idle_visitors(before, limit)

    async def stored_bytes(self, site: str) -> int:
        return await self._lists.summed(site) + await self._documents.stored_bytes(site)

    async def list_approvals(self, *, now: float, limit: int, cursor: str | None) -> Page[Approval]:
        return await self._lists.approvals(now, max(limit, 1), cursor)

    async def find_approval(self, approval_id: str) -> tuple[str, str] | None:
        return await self._lists.approval(approval_id)

    async def due_deletions(self) -> list[DueDeletion]:
        return await self._state.due_deletions()

    async def update_deletion(self, deletion: DueDeletion) -> None:
        await self._state.update_deletion(deletion)

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        return await self._state.keep_secret(name, fresh)

    # --- runs

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
        await self._runs.begin(run, thread, keep=keep, rewrite=rewrite, records=records, fork=fork, patient=patient)

    async def queue_run(self, run: RunRecord, messages: Sequence[Message] = ()) -> None:
        await self._runs.queue(run, messages)

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        log = self._runs.open.get((owner, run_id))
        if log is not None:
            return self._logs.append(log, first, records)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._append_later(owner, run_id, first, records, future))
        self._appending.add(task)
        task.add_done_callback(self._appending.discard)
        return future

    async def _append_later(
        self, owner: str, run_id: str, first: int, records: EventRecords, future: asyncio.Future[None]
    ) -> None:
        """Append to the log of a run that was not begun here."""
        try:
            log = await self._runs.reopened(owner, run_id)
            log = self._runs.open.setdefault((owner, run_id), log)
            await self._logs.append(log, first, records)
        except Exception as error:
            fail(future, error)
        else:
            if not future.done():
                future.set_result(None)

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
        kept: Kept[None] = Kept(loop=asyncio.get_running_loop())
        log = self._runs.log_to_end(run)

        async def work() -> None:
            with self._runs.ending(run, log):
                await self._runs.end(
                    run, thread, log, keep=keep, first=first, records=records, erase=erase, holds=holds
                )

        task = self._threads.in_line((thread.owner, thread.thread_id), work)
        task.add_done_callback(lambda done: _pass_on(done, kept))
        return kept

    async def holder(self, owner: str, thread_id: str, run_id: str = "") -> str | None:
        return await self._runs.holder(owner, thread_id, run_id)

    async def hold_thread(self, owner: str, thread_id: str, *, holds: bool, takes_over: bool = False) -> bool:
        def changed(record: ThreadRecord) -> ThreadRecord | None:
            if holds and not takes_over:
                self._runs.check_not_left(record)
            if takes_over and not record.working:  # its run has ended meanwhile
                return None
            if holds:
                return None if record.holder == self._threads.own_id else self._threads.hold(record, record.working)
            return None if record.working or not record.holder else replace(record, holder="")

        await self._change((owner, thread_id), changed)
        return await self.load_summary(owner, thread_id) is not None

    async def load_run(self, owner: str, run_id: str) -> RunRecord | None:
        found = await self._runs.find_one(owner, run_id)
        return None if found is None else found.run

    async def runs_known_as(self, owner: str, client_id: str) -> list[RunRecord]:
        return [each.run for each in await self._runs.known_as(owner, client_id)]

    async def list_runs(self, owner: str, thread_id: str, *, limit: int, cursor: str | None) -> Page[RunRecord]:
        before = _LARGEST if cursor is None else read_place(b"r", cursor)
        limit = min(max(limit, 1), _LARGEST)
        record = await self._threads.record((owner, thread_id))
        found = [each for each in await self._lists.queued(owner, thread_id) if each.order < before]
        begun = 0
        ids = [] if record is None else [*record.runs]
        page = 0 if record is None else record.pages
        while record is not None and begun <= limit:
            while ids and begun <= limit:
                ids, newest = ids[:-_SLICE], ids[-_SLICE:]
                runs = await self._runs.find([(owner, run_id) for run_id in newest])
                older = [each for each in runs.values() if each.order < before and not each.waits]
                found += older
                begun += len(older)
            if not page:
                break
            page -= 1
            earlier = await self._sources.read_one(page_key(record.key, page))
            ids = [] if earlier is None else load_json(earlier.record)
        found.sort(key=lambda each: each.order, reverse=True)
        more = len(found) > limit
        items = tuple([each.run for each in found[:limit]])
        return Page(items, place_cursor(b"r", found[limit - 1].order) if more else None)

    async def find_runs(
        self, owner: str, wanted: RunFilter, *, limit: int, cursor: str | None, total: int | None = None
    ) -> tuple[Page[RunRecord], int]:
        return await self._lists.runs(owner, wanted, max(limit, 1), cursor, total)

    async def delete_run(self, owner: str, run_id: str) -> bool:
        return await self._runs.delete(owner, run_id)

    async def load_start(self, owner: str, client_id: str, thread_id: str | None = None) -> RunsAndThread:
        return await self._runs.load_start(owner, client_id, thread_id)

    async def read_events(self, owner: str, run_id: str, *, after: int, limit: int) -> list[NumberedEvent]:
        stored, log = await self._log(owner, run_id)
        if stored is None or not stored.moved.has_log:
            return []
        return await self._logs.read(stored, log, after=min(max(after, 0), _LARGEST), limit=max(limit, 1))

    async def _log(self, owner: str, run_id: str) -> tuple[StoredRun | None, OpenLog | None]:
        log = self._runs.open.get((owner, run_id))
        stored = await self._runs.find_one(owner, run_id)
        return stored, None if stored is None or stored.run.status.ended else log

    async def read_logs(
        self, owner: str, run_ids: Sequence[str], *, limit: int, max_bytes: int
    ) -> Mapping[str, list[NumberedEvent]]:
        wanted: list[tuple[StoredRun, OpenLog | None]] = []
        found = await self._runs.find([(owner, run_id) for run_id in run_ids])
        for (_, run_id), stored in found.items():
            log = None if stored.run.status.ended else self._runs.open.get((owner, run_id))
            last = await self._last(stored, log) if stored.moved.has_log else 0
            if 0 < last < max(limit, 1):
                wanted.append((stored, log))
        return await self._logs.read_whole(wanted, max_bytes)

    async def last_sequence(self, owner: str, run_id: str) -> int:
        stored, log = await self._log(owner, run_id)
        return 0 if stored is None or not stored.moved.has_log else await self._last(stored, log)

    async def _last(self, stored: StoredRun, log: OpenLog | None) -> int:
        if stored.run.status.ended:
            return stored.last
        if log is not None and not log.under_way and not log.waiting:
            return log.next - 1
        chunks = await self._logs.all_chunks(stored)
        return chunks[-1].last if chunks else 0

    async def unfinished_runs(self) -> list[RunRecord]:
        return await self._lists.unfinished()

    async def waiting_runs(self) -> list[tuple[RunRecord, tuple[Message, ...]]]:
        return await self._lists.waiting()

    async def remove_logs(self, *, finished_before: float) -> int:
        removed = 0
        ended: JsonObject = {"range": {"finished_at": {"lt": finished_before}}}
        old: JsonObject = {"bool": {"filter": [{"term": {"has_log": True}}, ended]}}
        while runs := await self._lists.some_runs(old, _SLICE):
            if not (count := await self._runs.without_logs(runs)):
                break  # other gateways hold their threads
            removed += count
        await self._catch_up()
        return removed

    async def _catch_up(self) -> None:
        """Write the documents of threads that a killed process left late."""
        for found in await self._lists.every(THREADS, {"term": {"late": True}}):
            record = self._threads.decoded(found)
            if record is not None:
                with suppress(HeldElsewhereError):
                    await self._change((record.about.owner, record.about.thread_id), lambda record: record)

    # --- ways to a thread

    async def _write(
        self,
        key: ThreadKey,
        prepare: Callable[[Held | None, ThreadRecord | None], Coroutine[Any, Any, Change | None]],
    ) -> bool:
        """Write a thread outside a run. False: there is nothing to write."""

        async def work() -> bool:
            for _ in range(_TRIES):
                held = await self._threads.own(key)
                change = await prepare(held, None if held is None else held.record)
                if change is None:
                    return False
                try:
                    await self._threads.commit(key, held, change)
                except HeldElsewhereError as error:
                    if error.gateway_id is None:
                        continue  # another gateway has just written the thread
                    raise
                return True
            raise HeldElsewhereError(key[1], None)

        return await asyncio.shield(self._threads.in_line(key, work))

    async def _change(self, key: ThreadKey, work: Callable[[ThreadRecord], ThreadRecord | None]) -> bool:
        """Change a thread's record, and what follows from it. False: there is no such thread, or nothing to change."""

        async def prepare(held: Held | None, record: ThreadRecord | None) -> Change | None:
            changed = None if record is None else work(record)
            return None if changed is None else self._writes.completed(record, Change(changed))

        return await self._write(key, prepare)


def _pass_on(done: asyncio.Task[None], kept: Kept[None]) -> None:
    if done.cancelled():
        kept.set_exception(StoreError("the store was closed"))
    elif (error := done.exception()) is not None:
        kept.set_exception(error)
    else:
        kept.set_result(None)
    if not kept.cancelled():
        kept.exception()  # marks it as seen: nobody may be waiting
