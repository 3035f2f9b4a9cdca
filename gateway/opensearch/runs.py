"""Runs in the cluster: their begin, their queue and their end, and reading them by their ids.

Below: threads, logs, run_record. Above: the store. A run's document is made before its thread's commit; a run that its
thread does not name has not begun, and anybody may overwrite its document. A commit that changes a run has it in the
thread's record too, and that one counts until the run's own document is up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gateway.errors import ConflictError, NotFoundError, StoreError, UnavailableError
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, JsonValue, Message
from gateway.opensearch import run_record
from gateway.opensearch.bulks import Item
from gateway.opensearch.cluster import USUAL_SECONDS
from gateway.opensearch.ids import Order, new_token
from gateway.opensearch.indices import EVENTS, MESSAGES
from gateway.opensearch.logs import LONG_SECONDS, Logs, OpenLog, chunk_items
from gateway.opensearch.run_record import StoredRun, joined_messages, known_key, members_of, run_key, thread_id_of
from gateway.opensearch.sources import Found, Key, Replacement, Sources, documents_of, write
from gateway.opensearch.thread_record import ThreadRecord, fresh_of, with_fresh, with_run
from gateway.opensearch.thread_writes import ThreadWrites
from gateway.opensearch.threads import Change, Held, ThreadKey, Threads, thread_key
from gateway.records import EventRecords, dump_json, load_json
from gateway.store import Fork, HeldElsewhereError, RunRecord, RunsAndThread, RunStatus, Thread
from gateway.store.transfer import MovedRun

RunKey = tuple[str, str]


class Runs:
    """The runs of a store. `open` has the logs of those under way, `under_end` of those whose end is being
    stored."""

    def __init__(self, sources: Sources, threads: Threads, writes: ThreadWrites, logs: Logs, order: Order) -> None:
        self._sources = sources
        self._threads = threads
        self._writes = writes
        self._logs = logs
        threads.erase = logs.erase
        self._order = order
        self.open: dict[RunKey, OpenLog] = {}
        self.under_end: set[OpenLog] = set()

    # --- reads

    async def find(self, keys: Sequence[RunKey]) -> dict[RunKey, StoredRun]:
        """The runs with these owners and ids that have begun or wait."""
        await self._threads.sure.known([run_key(*key) for key in keys])
        documents = await self._sources.read([run_key(*key) for key in keys])
        seen = {key: run_record.decode(found) for key, found in zip(keys, documents, strict=True) if found is not None}
        return await self.confirmed(seen)

    async def confirmed(
        self, seen: Mapping[RunKey, StoredRun], known: Mapping[ThreadKey, ThreadRecord | None] | None = None
    ) -> dict[RunKey, StoredRun]:
        """Those that their threads confirm, as of their threads' last commits. `known` are threads that were just
        read.
        """
        records: dict[ThreadKey, ThreadRecord | None] = {**(known or {})}
        threads = dict.fromkeys(map(_thread_of, seen.values()))
        records |= await self._threads.records([key for key in threads if key not in records])
        confirmed: dict[RunKey, StoredRun] = {}
        for key, stored in seen.items():
            now = as_committed(stored, records[_thread_of(stored)])
            if now is not None:
                confirmed[key] = now
        return confirmed

    async def find_one(self, owner: str, run_id: str) -> StoredRun | None:
        return (await self.find([(owner, run_id)])).get((owner, run_id))

    async def known_as(self, owner: str, client_id: str) -> list[StoredRun]:
        """All runs with this client id, the newest first."""
        first, known = await self._sources.read([run_key(owner, client_id), known_key(owner, client_id)])
        return await self._known(owner, client_id, first, known)

    async def _known(
        self,
        owner: str,
        client_id: str,
        first: Found | None,
        known: Found | None,
        records: Mapping[ThreadKey, ThreadRecord | None] | None = None,
    ) -> list[StoredRun]:
        seen: dict[RunKey, StoredRun] = {}
        if first is not None:
            stored = run_record.decode(first)
            if stored.run.reused_id is None:
                seen[owner, client_id] = stored
        if known is not None:
            keys = [(owner, run_id) for run_id in load_json(known.record)]
            for key, found in zip(keys, await self._sources.read([run_key(*key) for key in keys]), strict=True):
                if found is not None:
                    seen[key] = run_record.decode(found)
        confirmed = await self.confirmed(seen, records) if seen else {}
        return sorted(confirmed.values(), key=lambda each: each.order, reverse=True)

    async def load_start(self, owner: str, client_id: str, thread_id: str | None) -> RunsAndThread:
        """As RunStore.load_start."""
        keys = [run_key(owner, client_id), known_key(owner, client_id)]
        if thread_id is not None:
            keys.append(thread_key(owner, thread_id))
            await self._threads.sure.known([(owner, thread_id)])
        await self._threads.sure.known(keys[:1])
        first, known, *threads = await self._sources.read(keys)
        records: dict[ThreadKey, ThreadRecord | None] = {}
        if thread_id is not None:
            held = self._threads.took((owner, thread_id), threads[0])
            records[owner, thread_id] = None if held is None else held.record
            self._threads.note_start((owner, thread_id))
        found = await self._known(owner, client_id, first, known, records) if first or known else []
        runs = [each.run for each in found]
        if thread_id is None and runs:
            thread_id = runs[0].thread_id
            records[owner, thread_id] = await self._threads.record((owner, thread_id))
        record = None if thread_id is None else records[owner, thread_id]
        if record is None:
            return RunsAndThread(runs, None)
        return RunsAndThread(runs, await self._threads.whole(record), await self._threads.holder_of(record))

    async def holder(self, owner: str, thread_id: str, run_id: str) -> str | None:
        """As RunStore.holder."""
        record = await self._threads.record((owner, thread_id))
        if record is not None and (holder := await self._threads.holder_of(record)):
            return holder
        if record is not None and run_id and record.working == run_id and self._threads.is_left(record, self.open):
            raise _left_behind(run_id)
        stored = await self.find_one(owner, run_id) if run_id else None
        if stored is None or stored.run.status.ended or not stored.waits:
            return None
        holder = await self._threads.holder_of(stored)
        if holder is None and stored.holder != self._threads.own_id:
            raise _left_behind(run_id)
        return holder

    # --- begin

    def check_not_left(self, record: ThreadRecord) -> None:
        """Raises ConflictError if a gateway that is gone left a run on the thread."""
        if self._threads.is_left(record, self.open):
            raise ConflictError(
                f"thread {record.about.thread_id!r} is busy with run {record.working!r} of a gateway that is gone; it"
                " ends in a moment",
                code="thread_busy",
            )

    async def begin(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        rewrite: Rewrite | None,
        records: EventRecords,
        fork: Fork | None,
        patient: bool,
    ) -> None:
        """As RunStore.begin_run."""
        key = (thread.owner, thread.thread_id)
        log = OpenLog(
            StoredRun(MovedRun(run), self._order.next(), new_token(), holder=self._threads.own_id),
            thread_id_of(*key),
            next=records.count + 1,
        )
        self.open[run.owner, run.run_id] = log
        seconds = LONG_SECONDS if patient else USUAL_SECONDS

        async def work() -> None:
            try:
                await self._begin(log, thread, keep, rewrite, records, fork, seconds)
            except BaseException as error:
                if self.open.get((run.owner, run.run_id)) is log:
                    del self.open[run.owner, run.run_id]
                self._logs.lose(log, error if isinstance(error, StoreError) else StoreError("the run did not begin"))
                raise

        await asyncio.shield(self._threads.in_line(key, work))

    async def _begin(
        self,
        log: OpenLog,
        thread: Thread,
        keep: int,
        rewrite: Rewrite | None,
        records: EventRecords,
        fork: Fork | None,
        seconds: float,
    ) -> None:
        key = (thread.owner, thread.thread_id)
        held = await self._threads.own(key, as_known=True)
        before = None if held is None else held.record
        if before is not None:
            self.check_not_left(before)
        self._threads.check_as_read(held, thread)
        items: list[Item] = []
        if fork is not None:
            before, items = await self._writes.forked(
                log.stored.run.owner, fork.of, fork.version, fork.thread, fork.start, held
            )
            if before is None:
                raise NotFoundError(
                    f"there is no version {fork.version} of thread {fork.of!r}", code="version_not_found"
                )
        change = await self._writes.written(before, thread, keep, rewrite)
        record = change.record
        log.stored = stored = replace(log.stored, life=record.key)
        items += change.items
        if records.count:
            items += chunk_items(stored.log, log.thread, 0, 1, records)
        if stored.run.reused_id is not None:
            await self.note_known(stored)
        previous = record.runs[-1:]
        with self._threads.unless_refused(before, record):
            now = await self._commit_begin(log, held, Change(record, items, change.after), seconds)
        if records.count:
            log.firsts.append(1)
            log.size = len(records.lines)
        log.is_begun = True
        self._logs.go_on(log)
        self._afterwards(key, lambda: self._follow(key, now, previous))

    async def _commit_begin(self, log: OpenLog, held: Held | None, change: Change, seconds: float) -> Held:
        """Commit the begin of the run of `log`, after the documents that it names."""
        stored, record = log.stored, change.record
        key = _thread_of(stored)
        # together, so that one request takes both
        writing = asyncio.ensure_future(self._threads.write_items(key, held, change.items, seconds))
        try:
            log.stored = stored = await self._take_place(stored, seconds, is_ours=self._is_ours(held))
        except ConflictError:
            self._afterwards(key, lambda: self._threads.release(key))
            raise
        finally:
            await asyncio.wait([writing])
            writing.exception()  # marks it as seen
        held = writing.result()
        if stored.stands:
            record = with_fresh(record, stored)
        record, page = with_run(self._threads.hold(record, stored.run.run_id), stored.run.run_id)
        items = page_items(record, page) if page else []
        return await self._threads.commit(key, held, Change(record, items, change.after), seconds=seconds)

    def _afterwards(self, key: ThreadKey, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Bring documents up to date after a commit, while nobody waits for it."""

        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and isinstance(task.exception(), StoreError):
                self._threads.sure.repeat(lambda: self._threads.in_line(key, work))

        self._threads.in_line(key, work).add_done_callback(done)

    async def _follow(self, key: ThreadKey, held: Held, previous: Sequence[str]) -> None:
        """Bring the documents of runs up to date after a begin."""
        keys = [run_key(key[0], run_id) for run_id in previous]
        await self._sources.bulks.write(
            [Item("update", each.name, each.document_id, b'{"doc":{"followed":true}}') for each in keys]
        )
        await self._threads.settle(key, held)

    async def _take_place(self, stored: StoredRun, seconds: float, *, is_ours: bool) -> StoredRun:
        """Make the document of a run that begins. If it waited, its document stays, and stands already. `is_ours` as in
        `_check_here`.

        Raises:
            ConflictError: the run was begun already.
            HeldElsewhereError: another gateway is beginning it.
        """
        run = stored.run
        key = run_key(run.owner, run.run_id)
        source, parts = _document(key, stored)
        await self._sources.write_new(parts, seconds=seconds)
        done = await self._sources.write_one(write("create", key, source), seconds=seconds)
        while done.place is None:
            found = await self._sources.read_one(key)
            if found is None:
                done = await self._sources.write_one(write("create", key, source), seconds=seconds)
                continue
            there = run_record.decode(found)
            if there.log == stored.log:  # the answer was lost
                return replace(stored, place=found.place)
            if there.stands and there.waits:
                return replace(stored, order=there.order, stands=True, place=found.place)
            if await self._has_begun(there):
                raise ConflictError(f"run {run.run_id!r} exists already; use another id")
            await self._check_here(there, stored, is_ours=is_ours)
            done = await self._sources.write_one(write("index", key, source, found.place), seconds=seconds)
        return replace(stored, place=done.place)

    def _is_ours(self, held: Held | None) -> bool:
        return held is not None and held.record is not None and held.record.holder == self._threads.own_id

    async def _check_here(self, there: StoredRun, stored: StoredRun, *, is_ours: bool) -> None:
        """Raises HeldElsewhereError if another gateway is beginning the run. It cannot on our thread: the run is what a
        begin left there that was refused.
        """
        if is_ours and there.run.thread_id == stored.run.thread_id:
            return
        if holder := await self._threads.holder_of(there):
            raise HeldElsewhereError(there.run.thread_id, holder)

    async def _has_begun(self, stored: StoredRun) -> bool:
        record = await self._threads.record((stored.run.owner, stored.run.thread_id))
        return as_committed(stored, record) is not None

    async def note_known(self, stored: StoredRun) -> None:
        """Add the run to those with its client id."""
        run = stored.run
        key = known_key(run.owner, run.client_id)
        while True:
            found = await self._sources.read_one(key)
            ids: list[str] = [] if found is None else load_json(found.record)
            if run.run_id in ids:
                return
            members = {"thread": thread_id_of(run.owner, run.thread_id)}
            source, _ = documents_of(key, dump_json([*ids, run.run_id]), {**members}, new_token())
            place = None if found is None else found.place
            done = await self._sources.write_one(write("create" if place is None else "index", key, source, place))
            if done.place is not None:
                return

    # --- the queue

    async def queue(self, run: RunRecord, messages: Sequence[Message]) -> None:
        """As RunStore.queue_run."""
        key = (run.owner, run.thread_id)
        await asyncio.shield(self._threads.in_line(key, lambda: self._queue(run, messages)))

    async def _queue(self, run: RunRecord, messages: Sequence[Message]) -> None:
        key = run_key(run.owner, run.run_id)
        await self._threads.sure.known([key])
        # nothing of a deleted thread is left
        held = await self._threads.own((run.owner, run.thread_id), as_known=True)
        moved = MovedRun(run, waiting_messages=joined_messages(messages))
        stored = StoredRun(moved, self._order.next(), new_token(), stands=True, holder=self._threads.own_id)
        there: StoredRun | None = None
        found = await self._sources.read_one(key)
        if found is not None:
            there = run_record.decode(found)
            if there.stands or await self._has_begun(there):
                if run.status is RunStatus.QUEUED or not there.waits:
                    raise ConflictError(f"run {run.run_id!r} exists already; use another id")
                moved = replace(there.moved, run=run)
                stored = replace(there, moved=moved)
            else:
                await self._check_here(there, stored, is_ours=self._is_ours(held))
        source, parts = _document(key, stored)
        await self._sources.write_new(parts)
        if run.reused_id is not None:
            await self.note_known(stored)
        item = write("create", key, source) if found is None else write("index", key, source, found.place)
        # a run that a thread does not name, and that no thread has: it is not there
        before = there or replace(stored, stands=False, life=new_token())
        subjects = [key, (run.owner, run.thread_id)]
        now = await self._threads.sure.write(subjects, item, lambda: _document(key, before))
        if now is None:
            raise ConflictError(f"run {run.run_id!r} exists already; use another id")

    # --- end

    def log_to_end(self, run: RunRecord) -> OpenLog | None:
        """The log of a run that is about to end, if it was begun here: nobody appends to it any more."""
        log = self.open.pop((run.owner, run.run_id), None)
        if log is not None:
            self.under_end.add(log)
        return log

    @contextmanager
    def ending(self, run: RunRecord, log: OpenLog | None) -> Generator[None]:
        """If the end cannot be stored in this block, the run goes on, and can be ended again."""
        try:
            yield
        except StoreError:
            if log is not None and not log.is_taken_over:
                self.open.setdefault((run.owner, run.run_id), log)
            raise
        finally:
            if log is not None:
                self.under_end.discard(log)

    async def end(
        self,
        run: RunRecord,
        thread: Thread,
        log: OpenLog | None,
        *,
        keep: int,
        first: int,
        records: EventRecords,
        erase: frozenset[str],
        holds: bool,
    ) -> None:
        """As RunStore.end_run. `log`: the run's log if it was begun here."""
        key = (thread.owner, thread.thread_id)
        if log is None:
            log = await self.reopened(run.owner, run.run_id)
        else:
            await self._logs.at_rest(log)
            if log.error is not None and log.is_taken_over:
                raise log.error
            await self._threads.sure.known([run_key(run.owner, run.run_id)], LONG_SECONDS)
        if records.count and first != log.next:
            raise StoreError(f"the log of run {run.run_id!r} ends with event {log.next - 1}, not before event {first}")
        held = await self._threads.own(key, as_known=True)
        while True:
            try:
                await self._end(run, thread, log, held, keep, first, records, erase, holds=holds)
                return
            except HeldElsewhereError as error:  # another gateway may have written what belongs to earlier runs
                held = await self._threads.find(key)
                if held is None or held.record is None or held.record.holder != self._threads.own_id:
                    raise ConflictError(f"run {run.run_id!r} was taken over by another gateway") from error

    async def _end(
        self,
        run: RunRecord,
        thread: Thread,
        log: OpenLog,
        held: Held | None,
        keep: int,
        first: int,
        records: EventRecords,
        erase: frozenset[str],
        *,
        holds: bool,
    ) -> None:
        before = None if held is None else held.record
        if log.stored.life and (before is None or before.key != log.stored.life):
            raise NotFoundError(f"there is no run {run.run_id!r}")
        change = await self._writes.written(before, thread, keep, None)
        record, items = change.record, [*change.items]
        chunks, size, last = len(log.firsts), log.size, log.next - 1
        if records.count:
            items += chunk_items(log.stored.log, log.thread, chunks, first, records, is_end=True)
            chunks, size, last = chunks + 1, size + len(records.lines), last + records.count
        ended = replace(
            log.stored,
            moved=MovedRun(run),
            life=record.key,
            stands=True,
            chunks=chunks,
            last=last,
            size=size,
            erase=tuple(sorted(erase)),
            holder="",
        )
        record, page = with_run(with_fresh(record, ended), run.run_id)
        if page:
            items += page_items(record, page)
        record = self._threads.hold(record) if holds else replace(record, holder="", working="")
        key = (thread.owner, thread.thread_id)
        now = await self._threads.commit(key, held, Change(record, items, change.after), seconds=LONG_SECONDS)
        self._afterwards(key, lambda: self._threads.settle(key, now))

    async def reopened(self, owner: str, run_id: str) -> OpenLog:
        """The log of a run that was not begun here, or that waited, for more events.

        Raises:
            NotFoundError: there is no such run.
            ConflictError: it has ended.
        """
        stored = await self.find_one(owner, run_id)
        if stored is None:
            raise NotFoundError(f"there is no run {run_id!r}")
        thread = thread_id_of(owner, stored.run.thread_id)
        if stored.waits:
            return OpenLog(stored, thread, is_begun=True, is_reopened=True)
        if stored.run.status.ended:
            raise ConflictError(f"run {run_id!r} has ended")
        return await self._logs.reopened(stored, thread)

    # --- deletion

    async def delete(self, owner: str, run_id: str) -> bool:
        """As RunStore.delete_run."""
        stored = await self.find_one(owner, run_id)
        if stored is None:
            return False
        thread = (owner, stored.run.thread_id)
        return await asyncio.shield(self._threads.in_line(thread, lambda: self._delete(owner, run_id)))

    async def _delete(self, owner: str, run_id: str) -> bool:
        stored = await self.find_one(owner, run_id)
        if stored is None:
            return False
        if not stored.run.status.ended:
            raise ConflictError(f"run {run_id!r} has not ended")
        await self._without_fresh(stored)
        key = run_key(owner, run_id)
        found = await self._sources.read_one(key)
        if found is None:
            return False
        item = Item("delete", key.name, key.document_id, None, found.place)
        subjects = [key, (owner, stored.run.thread_id)]
        as_now = replace(stored, stands=True, erase=())
        now = await self._threads.sure.write(subjects, item, lambda: _document(key, as_now))
        if now is None:
            raise StoreError(f"run {run_id!r} was written meanwhile; try again")
        try:
            await self._remove_log(stored)
        except StoreError:
            self._threads.sure.repeat(lambda: self._remove_log(stored))
        return True

    async def without_logs(self, runs: Sequence[StoredRun]) -> int:
        """Delete the logs of runs that ended; the runs stay. Gives how many: not those on threads that other gateways
        hold.
        """
        threads = await asyncio.gather(*map(self._alone, runs), return_exceptions=True)
        changed: list[Replacement] = []
        logs: list[JsonValue] = []
        for held, stored in zip(threads, runs, strict=True):
            if isinstance(held, HeldElsewhereError):
                continue
            if isinstance(held, BaseException):
                raise held
            logs.append(stored.log)
            if held is not None and held.record is not None:
                now = replace(stored, moved=replace(stored.moved, has_log=False))
                changed.append(self._threads.run_document(held.record, now))
        await self._sources.replace(changed)
        await self._sources.delete_found((EVENTS,), {"terms": {"log": logs}})
        return len(logs)

    def _alone(self, stored: StoredRun) -> asyncio.Task[Held | None]:
        key = (stored.run.owner, stored.run.thread_id)
        return self._threads.in_line(key, lambda: self._without_fresh(stored))

    async def _without_fresh(self, stored: StoredRun) -> Held | None:
        """Take a run out of its thread's record, so that its own document counts alone. Gives the thread.

        Raises:
            HeldElsewhereError: another gateway holds the thread.
        """
        key = (stored.run.owner, stored.run.thread_id)
        held = await self._threads.own(key)
        if held is None or held.record is None or fresh_of(held.record, stored.run.run_id) is None:
            return held
        return await self._threads.commit(key, held, Change(held.record))

    async def _remove_log(self, stored: StoredRun) -> None:
        """Delete the chunks of a log that ended."""
        await self._sources.delete_found((EVENTS,), {"term": {"log": stored.log}})


def _document(key: Key, stored: StoredRun) -> tuple[bytes, list[Item]]:
    """A run's document."""
    return documents_of(key, run_record.encode(stored), members_of(stored, followed=False), new_token())


def as_committed(stored: StoredRun, record: ThreadRecord | None) -> StoredRun | None:
    """A run as of its thread's last commit; None: it never began, or went with its thread."""
    if record is None:
        return None if stored.life else stored
    if stored.life and stored.life != record.key:
        return None
    fresh = fresh_of(record, stored.run.run_id)
    if fresh is not None:
        return fresh
    return stored if stored.stands or stored.run.run_id in record.runs else None


def _left_behind(run_id: str) -> UnavailableError:
    return UnavailableError(
        f"the gateway that had run {run_id!r} is gone; another one ends it in a moment",
        code="gateway_gone",
        retry_after_seconds=1,
    )


def page_key(life: str, number: int) -> Key:
    """The document of a page of a thread's oldest runs."""
    return Key(MESSAGES, f"{life}.runs.{number}")


def page_items(record: ThreadRecord, page: Sequence[str]) -> list[Item]:
    """Creates the page of the record's oldest runs."""
    about = record.about
    key = page_key(record.key, record.pages - 1)
    members: JsonObject = {"thread": thread_id_of(about.owner, about.thread_id)}
    source, parts = documents_of(key, dump_json([*page]), members, new_token())
    return [*parts, write("create", key, source)]


def _thread_of(stored: StoredRun) -> ThreadKey:
    return stored.run.owner, stored.run.thread_id
