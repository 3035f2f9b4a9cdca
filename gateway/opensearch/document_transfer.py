"""Documents as pieces for another store, and back (see gateway.store.transfer).

Below: document_index. Above: documents. Moved documents keep their versions, which they name themselves; those of new
ones come after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import orjson

from gateway.documents.document import DocumentKind
from gateway.embedded_index.document_values import searched_again
from gateway.opensearch.bulks import MOST_BYTES, Item
from gateway.opensearch.document_fields import Layout
from gateway.opensearch.document_index import DocumentIndex
from gateway.opensearch.document_records import NewDocument, own_key, shared_key
from gateway.opensearch.indices import DOCUMENTS
from gateway.opensearch.logs import LONG_SECONDS
from gateway.store.transfer import MovedDocument, MovedIndex

_MOST_AT_ONCE: Final = 1_000
_MOST_KEYS: Final = 10_000
_ORDER = ["kind", "public", "owner", "place"]
_ORDER_OF_PUBLIC = ["kind", "place"]


async def last_version(index: DocumentIndex) -> int:
    """The largest version that a document has, or had."""
    if not index.base and not await index.count([]):
        return 0  # the index has not even the properties of a kind, so there never was a document
    return index.base + await index.next_number()


async def key_ids(index: DocumentIndex) -> list[str]:
    """The ids of the keys with which documents are sealed."""
    (answer,) = await index.search({"size": 0, "aggs": {"keys": {"terms": {"field": "keys", "size": _MOST_KEYS}}}})
    return sorted(bucket["key"] for bucket in answer["aggregations"]["keys"]["buckets"])


async def every_document(index: DocumentIndex) -> AsyncGenerator[MovedIndex | MovedDocument]:
    """All indices, each with its documents."""
    for public, order in ((False, _ORDER), (True, _ORDER_OF_PUBLIC)):
        last: MovedIndex | None = None
        async for _, stored in index.each([{"term": {"public": public}}], order):
            owner = "" if public else stored.owner
            if last is None or (last.kind, last.owner) != (stored.kind, owner):
                # some documents may be indexed by older fields: they are indexed again where they come to be searched
                last = MovedIndex(stored.kind, await index.properties(stored.indexed_as), owner, public)
                yield last
            content = (stored.source, stored.created_at, stored.updated_at, stored.thread_id, stored.sealed)
            yield MovedDocument(stored.document_id, stored.owner, stored.version, *content)


class DocumentImport:
    """Stores the documents that another store gave."""

    def __init__(self, index: DocumentIndex) -> None:
        self._index = index
        self._layout: Layout | None = None
        self._public = False
        self._batch: list[tuple[MovedDocument, Item]] = []
        self._size = 0
        self._last = 0

    async def take(self, piece: MovedIndex | MovedDocument) -> None:
        """Store the next piece, at the latest with `finish`."""
        if isinstance(piece, MovedIndex):
            self._layout = Layout(DocumentKind(piece.kind, orjson.loads(piece.properties)))
            self._public = piece.public
            await self._index.prepare(self._layout)
            return
        layout = self._layout
        assert layout is not None, "an index comes before its documents"
        data = await self._index.encoded(layout, await asyncio.to_thread(_new, layout, piece, self._public))
        self._batch.append((piece, Item("create", DOCUMENTS, shared_key(layout.kind.name, piece.document_id), data)))
        self._size += len(data)
        self._last = max(self._last, piece.version)
        if self._size > MOST_BYTES or len(self._batch) >= _MOST_AT_ONCE:
            await self._write()

    async def finish(self, last: int) -> None:
        """All pieces were taken. New documents get versions after `last` and after those of the pieces."""
        await self._write()
        if last := max(last, self._last):
            await self._index.set_base(last)

    async def _write(self) -> None:
        """Write the batch. A document whose key another owner has is of a kind with `own_ids`, whose key has the
        owner.
        """
        batch, self._batch, self._size = self._batch, [], 0
        done = await self._index.write([item for _, item in batch], seconds=LONG_SECONDS)
        taken = {item.document_id: 0 for (_, item), result in zip(batch, done, strict=True) if result.place is None}
        holders = {key: stored async for key, stored in self._index.read_many(taken, body=False)}
        others = [
            (moved, item.source, holders[item.document_id].kind)
            for moved, item in batch
            if item.document_id in holders and holders[item.document_id].owner != moved.owner
        ]
        await self._index.write(
            [
                Item("index", DOCUMENTS, own_key(kind, moved.document_id, moved.owner), source)
                for moved, source, kind in others
            ],
            seconds=LONG_SECONDS,
        )


def _new(layout: Layout, moved: MovedDocument, public: bool) -> NewDocument:
    return NewDocument(
        moved.document_id,
        moved.owner,
        public,
        moved.thread_id,
        moved.source,
        moved.sealed,
        searched_again(moved.source, layout.kind.types),
        moved.created_at,
        moved.updated_at,
        moved.version,
    )
