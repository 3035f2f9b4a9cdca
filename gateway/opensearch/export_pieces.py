"""Everything in the indices as pieces for another store (see gateway.store.transfer).

Below: threads, runs, logs, state, document_transfer. Above: the store. An export has a connection of its own, and
writes nothing. It gives what was there when it began, but not as of that moment, which a cluster does not keep: each
thread, run and document is as of the moment when it is read. What belongs to a thread that it did not give is left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gateway.errors import ConfigurationError, StoreError
from gateway.messages import JsonObject
from gateway.opensearch import document_transfer, piece_batches, run_record, thread_record
from gateway.opensearch.address import Address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.document_index import DocumentIndex
from gateway.opensearch.ids import Order
from gateway.opensearch.indices import APPROVALS, DOCUMENTS, MAPPINGS, RUNS, THREADS, check_format
from gateway.opensearch.logs import LONG_SECONDS, Logs
from gateway.opensearch.membership import Membership
from gateway.opensearch.run_record import StoredRun
from gateway.opensearch.runs import as_committed
from gateway.opensearch.sources import Found, Sources
from gateway.opensearch.state import State
from gateway.opensearch.thread_record import ThreadRecord, layout_of, positions
from gateway.opensearch.threads import ThreadKey, Threads, due_of, message_key, thread_key
from gateway.records import decode_message, load_json
from gateway.store import DueDeletion
from gateway.store.spans import Span, numbered, union
from gateway.store.transfer import (
    Moved,
    MovedApproval,
    MovedDocument,
    MovedEvents,
    MovedIndex,
    MovedLate,
    MovedMessage,
    MovedStore,
    MovedVersion,
)

_AT_ONCE: Final = 100
_TRIES: Final = 10
_KEPT: Final[JsonObject] = {"bool": {"must_not": [{"term": {"deleted": True}}]}}


async def export(address: Address, take: Callable[[Moved], None]) -> None:
    """As TransferStore.export."""
    cluster = Cluster(address)
    try:
        await _check_there(cluster)
        async with aclosing(_Export(cluster).pieces()) as pieces:
            await piece_batches.given(pieces, take)
    finally:
        await cluster.close()


async def _check_there(cluster: Cluster) -> None:
    path = f"/{cluster.index('*')}/_mapping?filter_path=*.mappings._meta,*.mappings.dynamic"
    there = (await cluster.request("GET", path, allowed=(404,), seconds=LONG_SECONDS)).body
    if not {cluster.index(name) for name in (*MAPPINGS, DOCUMENTS)} <= there.keys():
        raise ConfigurationError(f"there is no store {cluster.address.shown!r}; name another")
    await check_format(cluster)


class _Export:
    """Reads a store's indices. Threads and runs whose `order` is larger than the last ones' came after it began."""

    def __init__(self, cluster: Cluster) -> None:
        self._sources = Sources(cluster, Bulks(cluster))
        self._threads = Threads(self._sources, Order(), Membership(self._sources))
        self._logs = Logs(self._sources, self._threads.sure)
        self._state = State(self._sources)
        self._documents = DocumentIndex(self._sources)
        self._last_run = self._last_thread = -1

    async def pieces(self) -> AsyncGenerator[Moved]:
        """Everything, in the order of the contract."""
        for name in (*MAPPINGS, DOCUMENTS):
            self._sources.cluster.wrote(name)  # whatever was written is to be found
            await self._sources.cluster.refreshed(name, seconds=LONG_SECONDS)
        if await self._state.is_importing():
            yield MovedStore()  # the store is empty until the import is done
            return
        await self._documents.read_base()
        self._last_run = await self._newest(RUNS)
        self._last_thread = await self._newest(THREADS)
        yield MovedStore(
            tuple(await document_transfer.key_ids(self._documents)),
            await document_transfer.last_version(self._documents),
        )
        for secret in await self._state.secrets():
            yield secret
        for due in await self._due_deletions():
            yield due
        for part in (self._every_thread, self._every_approval, self._every_run, self._every_document):
            async with aclosing(part()) as pieces:
                async for piece in pieces:
                    yield piece

    async def _newest(self, name: str) -> int:
        """The largest `order` in an index."""
        hits = await self._sources.search(name, {"size": 1, "sort": [{"order": "desc"}], "_source": False})
        return int(hits[0].sort[0]) if hits else -1

    async def _due_deletions(self) -> list[DueDeletion]:
        """Those that are due, also those that only their threads name yet."""
        found = {each.deletion_id: each for each in await self._state.due_deletions()}
        unfinished: JsonObject = {"bool": {"should": [{"term": {"deleted": True}}, {"term": {"late": True}}]}}
        async for page in self._sources.pages(THREADS, unfinished, ("order",)):
            for thread in page:
                found |= {each.deletion_id: each for each in due_of(thread) or ()}
        return sorted(found.values(), key=lambda each: (each.since, each.deletion_id))

    # --- threads

    async def _every_thread(self) -> AsyncGenerator[Moved]:
        async for page in self._sources.pages(THREADS, _until(self._last_thread), ("order",), seconds=LONG_SECONDS):
            for found in page:
                for piece in await self._thread(found):
                    yield piece

    async def _thread(self, found: Found | None) -> Sequence[Moved]:
        """The thread of a document, unless it is deleted or new. Messages may be deleted while they are read: then the
        thread was written meanwhile, and is read again.
        """
        for _ in range(_TRIES):
            if found is None or found.source.get("deleted"):
                return ()
            record = thread_record.decode(found.record)
            if record.order > self._last_thread:
                return ()
            stretches = union(span for each in record.versions.values() for span in layout_of(each).spans)
            messages = await self._messages(record, stretches)
            loaded = await self._threads.with_states(record, record.versions)
            if messages is not None and loaded is not None:
                return [record.about, *messages, *_versions(loaded, stretches), *_late(record, stretches, messages)]
            found = await self._sources.read_one(thread_key(record.about.owner, record.about.thread_id))
        raise StoreError("a message or a state is missing in the OpenSearch cluster")

    async def _messages(self, record: ThreadRecord, stretches: Sequence[Span]) -> list[MovedMessage] | None:
        """The messages of these stretches; None: one of them is gone."""
        places = _places(stretches)
        messages: list[MovedMessage] = []
        for start in range(0, len(places), _AT_ONCE):
            keys = [message_key(record.key, place) for place in places[start : start + _AT_ONCE]]
            for found in await self._sources.read(keys, seconds=LONG_SECONDS):
                if found is None:
                    return None
                messages.append(MovedMessage(found.record, found.source.get("at")))
        return messages

    async def _given(self, keys: Iterable[ThreadKey]) -> dict[ThreadKey, ThreadRecord | None]:
        """The records of those of the threads that are exported: they are older than the export, and still there."""
        records = await self._threads.records(list(dict.fromkeys(keys)))
        return {
            key: record if record is not None and record.order <= self._last_thread else None
            for key, record in records.items()
        }

    # --- what belongs to threads

    async def _every_approval(self) -> AsyncGenerator[Moved]:
        query: JsonObject = {"exists": {"field": "order"}}
        pages = self._sources.pages(APPROVALS, query, ("opened_at", "order"), seconds=LONG_SECONDS)
        async for page in pages:
            named = [load_json(found.record) for found in page]
            records = await self._given((owner, thread_id) for owner, thread_id, _ in named)
            for found, (owner, thread_id, approval_id) in zip(page, named, strict=True):
                record = records[owner, thread_id]
                if record is not None and record.key == found.source["life"]:
                    waits = any(each.approval_id == approval_id for each in record.interrupts)
                    yield MovedApproval(approval_id, owner, thread_id, found.source.get("expires_at"), waits)

    async def _every_run(self) -> AsyncGenerator[Moved]:
        async for page in self._sources.pages(RUNS, _until(self._last_run), ("order",), seconds=LONG_SECONDS):
            runs = [run_record.decode(found) for found in page]
            records = await self._given((each.run.owner, each.run.thread_id) for each in runs)
            for each in runs:
                run = as_committed(each, records[each.run.owner, each.run.thread_id])
                if run is not None:
                    yield run.moved
                    async for chunk in self._log(run):
                        yield chunk

    async def _log(self, run: StoredRun) -> AsyncGenerator[MovedEvents]:
        number = 0
        while run.moved.has_log and (chunks := await self._logs.chunks(run, None, number)):
            for chunk in chunks:
                yield MovedEvents(*chunk)
            number += len(chunks)

    async def _every_document(self) -> AsyncGenerator[Moved]:
        batch: list[MovedIndex | MovedDocument] = []
        async for piece in document_transfer.every_document(self._documents):
            batch.append(piece)
            if len(batch) >= _AT_ONCE:
                for given in await self._of_given_threads(batch):
                    yield given
                batch = []
        for given in await self._of_given_threads(batch):
            yield given

    async def _of_given_threads(self, batch: Sequence[MovedIndex | MovedDocument]) -> list[MovedIndex | MovedDocument]:
        """The pieces without the documents of threads that are not exported."""
        keys = [key for piece in batch if (key := _thread_of(piece)) is not None]
        records = await self._given(keys) if keys else {}
        return [piece for piece in batch if (key := _thread_of(piece)) is None or records[key] is not None]


def _until(order: int) -> JsonObject:
    return {"bool": {"filter": [{"range": {"order": {"lte": order}}}, _KEPT]}}


def _places(stretches: Iterable[Span]) -> list[int]:
    return [place for span in stretches for place in range(span.first, span.first + span.length)]


def _versions(record: ThreadRecord, stretches: Sequence[Span]) -> list[MovedVersion]:
    return [
        replace(version, messages=numbered(layout_of(version).spans, stretches))
        for _, version in sorted(record.versions.items())
    ]


def _late(record: ThreadRecord, stretches: Sequence[Span], messages: Sequence[MovedMessage]) -> list[MovedLate]:
    """If documents are late, nobody knows which: those of all messages that are shown are to be written, and those of
    all others to be deleted.
    """
    if not record.late:
        return []
    shown = positions(record.current) if record.about.collection else []
    ids = {place: decode_message(each.record).id for place, each in zip(_places(stretches), messages, strict=True)}
    gone = {ids[place] for place in ids.keys() - set(shown)} - {ids[place] for place in shown}
    stretch = [MovedLate(0, len(shown))] if shown else []
    return [*stretch, *(MovedLate(gone=each) for each in sorted(gone))]


def _thread_of(piece: MovedIndex | MovedDocument) -> ThreadKey | None:
    if isinstance(piece, MovedIndex) or piece.thread_id is None:
        return None
    return piece.owner, piece.thread_id
