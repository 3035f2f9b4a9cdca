"""Stores the pieces that another store gave (see gateway.store.transfer): all of them, or none.

Below: threads, runs, state, documents. Above: the store. A mark in the state's index says that an import is under way.
If it fails, everything is deleted before the mark; if its process ends, whoever opens the store next does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gateway.documents.sealing import Sealing
from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.opensearch import piece_batches, run_record, thread_record
from gateway.opensearch.bulks import MOST_BYTES, Item
from gateway.opensearch.document_index import BASE
from gateway.opensearch.document_transfer import DocumentImport
from gateway.opensearch.documents import OpenSearchDocuments
from gateway.opensearch.ids import Order, digest, new_token
from gateway.opensearch.indices import APPROVALS, DOCUMENTS, EVENTS, MESSAGES, RUNS, STATE, THREADS
from gateway.opensearch.logs import LONG_SECONDS, chunk_items
from gateway.opensearch.run_record import StoredRun, run_items, run_key, thread_id_of
from gateway.opensearch.runs import Runs, page_items
from gateway.opensearch.sources import Sources, part_deletions, write
from gateway.opensearch.state import DUE, SECRET, State, due_items
from gateway.opensearch.thread_record import ThreadRecord, with_run
from gateway.opensearch.thread_writes import approval_item
from gateway.opensearch.threads import ThreadKey, Threads, document_of, message_items, message_key, thread_key
from gateway.opensearch.version_states import moved_out
from gateway.records import EventRecords, decode_message
from gateway.store import DueDeletion
from gateway.store.transfer import (
    Moved,
    MovedApproval,
    MovedDocument,
    MovedEvents,
    MovedIndex,
    MovedLate,
    MovedMessage,
    MovedRun,
    MovedSecret,
    MovedStore,
    MovedThread,
    MovedVersion,
)

_MOST_ITEMS: Final = 2_000
_KINDS: Final[JsonObject] = {"terms": {"kind": [SECRET, DUE, BASE]}}
"""What an import writes into the state's index."""
_DATA: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "threads": (THREADS, {"exists": {"field": "updated_at"}}),
    "runs": (RUNS, {"exists": {"field": "status"}}),
    "secrets": (STATE, {"term": {"kind": SECRET}}),
    "due deletions": (STATE, {"term": {"kind": DUE}}),
    "documents": (DOCUMENTS, {"exists": {"field": "place"}}),
}


class Import:
    """Fills an empty store that nobody uses."""

    def __init__(
        self,
        sources: Sources,
        state: State,
        threads: Threads,
        runs: Runs,
        documents: OpenSearchDocuments,
        sealing: Sealing,
    ) -> None:
        self._sources = sources
        self._state = state
        self._threads = threads
        self._runs = runs
        self._documents = documents
        self._sealing = sealing

    async def take_all(self, moved: Iterable[Moved]) -> None:
        """As TransferStore.import_."""
        if found := [what for what, (name, query) in _DATA.items() if await self._sources.count(name, query)]:
            raise ConfigurationError(
                f"the store is not empty: it has {' and '.join(found)}. Name another store, with another prefix"
            )
        await self._state.begin_import()
        try:
            taker = _Taker(self._sources, self._state, self._runs, DocumentImport(self._documents.index), self._sealing)
            async with aclosing(piece_batches.read(moved)) as pieces:
                async for piece in pieces:
                    await taker.take(piece)
            await taker.finish()
        except BaseException:
            await self._undo()
            raise
        await self._state.end_import()
        self._threads.forget_all()

    async def undo_unfinished(self) -> None:
        """Empty the store if the process of an import ended in the middle."""
        if await self._state.is_importing():
            await self._undo()

    async def _undo(self) -> None:
        everything: JsonObject = {"match_all": {}}
        for name in (THREADS, RUNS, APPROVALS, MESSAGES, EVENTS, DOCUMENTS):
            self._sources.cluster.wrote(name)
            await self._sources.delete_found((name,), everything)
        self._sources.cluster.wrote(STATE)
        await self._sources.delete_found((STATE,), _KINDS)
        self._documents.index.forget()
        self._threads.forget_all()
        await self._state.end_import()


class _Taker:
    """Stores pieces that come in order: each belongs to the last thread or run before it. The keys of threads' records
    are made of a name of this import, so that a run's thread does not have to be looked up.
    """

    def __init__(self, sources: Sources, state: State, runs: Runs, documents: DocumentImport, sealing: Sealing) -> None:
        self._sources = sources
        self._state = state
        self._runs = runs
        self._documents = documents
        self._sealing = sealing
        self._name = new_token()
        self._order = Order()
        self._thread: ThreadRecord | None = None
        self._run: StoredRun | None = None
        self._last_document_version = 0
        self._items: list[Item] = []
        self._size = 0

    async def take(self, piece: Moved) -> None:
        """Store the next piece, at the latest with `finish`."""
        match piece:
            case MovedStore():
                self._sealing.check(piece.key_ids)
                self._last_document_version = piece.last_document_version
            case MovedSecret():
                await self._state.keep_secret(piece.name, piece.content)
            case DueDeletion():
                await self._add(due_items([piece]))
            case MovedThread():
                await self._end_last()
                life = self._life(piece.owner, piece.thread_id)
                self._thread = ThreadRecord(piece, life, self._order.next(), {})
            case MovedMessage() | MovedVersion() | MovedLate():
                await self._take_of_thread(piece)
            case MovedApproval():
                await self._end_last()
                # the piece does not say when it was opened: those that are opened later come after it
                life = self._life(piece.owner, piece.thread_id)
                await self._add([approval_item(piece, life, 0.0, self._order.next())])
            case MovedRun():
                await self._end_last()
                self._run = self._begun(piece)
            case MovedEvents():
                await self._take_events(piece)
            case MovedIndex() | MovedDocument():
                await self._documents.take(piece)

    async def finish(self) -> None:
        """All pieces were taken."""
        await self._end_last()
        await self._flush()
        await self._name_runs()
        await self._flush()
        await self._documents.finish(self._last_document_version)

    def _life(self, owner: str, thread_id: str) -> str:
        return digest(self._name, owner, thread_id)[: len(self._name)]

    # --- threads and runs

    async def _take_of_thread(self, piece: MovedMessage | MovedVersion | MovedLate) -> None:
        record = self._thread
        assert record is not None, "a thread comes before what belongs to it"
        match piece:
            case MovedMessage():
                key = message_key(record.key, record.next_position)
                message_id = decode_message(piece.record).id
                await self._add(message_items("index", record.about, key, message_id, piece.record, piece.at))
                size = record.size + len(piece.record)
                self._thread = replace(record, next_position=record.next_position + 1, size=size)
            case MovedVersion():
                self._thread = replace(record, versions={**record.versions, piece.number: piece})
            case MovedLate():
                self._thread = replace(record, late=True)

    def _begun(self, moved: MovedRun) -> StoredRun:
        run = moved.run
        stored = StoredRun(moved, self._order.next(), new_token(), stands=True)
        return stored if stored.waits else replace(stored, life=self._life(run.owner, run.thread_id))

    async def _take_events(self, piece: MovedEvents) -> None:
        stored = self._run
        assert stored is not None, "a run comes before its events"
        records = EventRecords(piece.last - piece.first + 1, piece.lines, piece.at)
        thread = thread_id_of(stored.run.owner, stored.run.thread_id)
        chunks = chunk_items(stored.log, thread, stored.chunks, piece.first, records)
        await self._add([replace(item, action="index") for item in chunks])
        size = stored.size + len(piece.lines)
        self._run = replace(stored, chunks=stored.chunks + 1, last=piece.last, size=size)

    async def _end_last(self) -> None:
        """Store the document of the last thread or run, of which all pieces have come."""
        if (record := self._thread) is not None:
            self._thread = None
            out = moved_out(None, record)
            await self._add([*out.created, *_thread_items(out.record)])
        if (stored := self._run) is not None:
            self._run = None
            if not stored.run.status.ended:
                stored = replace(stored, chunks=0, last=0, size=0)
            await self._add(run_items("index", stored, followed=bool(stored.life)))
            if stored.run.reused_id is not None:
                await self._runs.note_known(stored)

    async def _name_runs(self) -> None:
        """Write the ids of the runs into the records of their threads. The newest run of each is followed by none."""
        runs: dict[ThreadKey, list[str]] = {}
        begun: JsonObject = {"exists": {"field": "status"}}
        async for page in self._sources.pages(RUNS, begun, ("thread", "order"), seconds=LONG_SECONDS):
            for stored in map(run_record.decode, page):
                if stored.life:
                    runs.setdefault((stored.run.owner, stored.run.thread_id), []).append(stored.run.run_id)
            last = runs.popitem() if runs else None  # its next runs may be on the next page
            await self._name_runs_of(runs)
            runs = {} if last is None else dict([last])
        await self._name_runs_of(runs)

    async def _name_runs_of(self, runs: Mapping[ThreadKey, Sequence[str]]) -> None:
        keys = [thread_key(*key) for key in runs]
        documents = await self._sources.read(keys, seconds=LONG_SECONDS)
        for key, (owner, _), ids, found in zip(keys, runs, runs.values(), documents, strict=True):
            if found is None:
                continue
            record = thread_record.decode(found.record)
            for run_id in ids:
                record, page = with_run(record, run_id)
                await self._add(page_items(record, page) if page else [])
            newest = run_key(owner, ids[-1])
            await self._add([*_thread_items(record), *part_deletions(key, found)])
            await self._add([Item("update", *newest, b'{"doc":{"followed":false}}')])

    # --- writes

    async def _add(self, items: Sequence[Item]) -> None:
        self._items += items
        self._size += sum(len(item.source or b"") for item in items)
        if self._size > MOST_BYTES or len(self._items) >= _MOST_ITEMS:
            await self._flush()

    async def _flush(self) -> None:
        items, self._items, self._size = self._items, [], 0
        await self._sources.bulks.write(items, seconds=LONG_SECONDS)


def _thread_items(record: ThreadRecord) -> list[Item]:
    """Writes a thread's document, in place of an earlier one."""
    source, parts = document_of(record, new_token())
    return [*parts, write("index", thread_key(record.about.owner, record.about.thread_id), source)]
