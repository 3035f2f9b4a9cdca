"""Documents as pieces for another store, and back (see gateway.store.transfer).

Below: document_index. Above: documents. Moved documents keep their versions, which they name themselves; those of new
ones come after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import orjson

from gateway.documents.document import DocumentKind
from gateway.embedded_index.document_values import searched_again
from gateway.opensearch.bulks import MOST_BYTES, Item
from gateway.opensearch.document_fields import Layout
from gateway.opensearch.document_index import DocumentIndex
from gateway.opensearch.document_records import NewDocument, own_key, shared_key
from gateway.opensearch.indices import DOCUMENTS
from gateway.store.transfer import MovedDocument, MovedIndex

_ORDER = ["kind", "public", "owner", "place"]
_ORDER_OF_PUBLIC = ["kind", "place"]


async def last_version(index: DocumentIndex) -> int:
    """The largest version that a document has, or had."""
    path = f"/{index.cluster.index(DOCUMENTS)}/_stats?level=shards&filter_path=**.seq_no.max_seq_no"
    answer: Any = await index.cluster.request("GET", path)
    shards = [each for found in answer.body.get("indices", {}).values() for each in found["shards"].values()]
    newest = [copy["seq_no"]["max_seq_no"] for copies in shards for copy in copies]
    return index.base + max(newest, default=-1) + 1


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


async def take_in(index: DocumentIndex, pieces: Iterable[MovedIndex | MovedDocument], last: int) -> None:
    """Store the pieces. New documents get versions after `last`."""
    await index.set_base(last)
    layout: Layout | None = None
    public = False
    batch: list[tuple[MovedDocument, Item]] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, MovedIndex):
            layout, public = Layout(DocumentKind(piece.kind, orjson.loads(piece.properties))), piece.public
            await index.prepare(layout)
            continue
        assert layout is not None, "an index comes before its documents"
        data, _ = await index.encoded(layout, await asyncio.to_thread(_new, layout, piece, public))
        batch.append((piece, Item("create", DOCUMENTS, shared_key(layout.kind.name, piece.document_id), data)))
        size += len(data)
        if size > MOST_BYTES:
            await _write(index, batch)
            batch, size = [], 0
    await _write(index, batch)


async def _write(index: DocumentIndex, batch: Sequence[tuple[MovedDocument, Item]]) -> None:
    """Write moved documents. One whose key another owner has is of a kind with `own_ids`, whose key has the owner."""
    done = await index.write([item for _, item in batch])
    taken = {item.document_id: 0 for (_, item), result in zip(batch, done, strict=True) if result.place is None}
    holders = {key: stored async for key, stored in index.read_many(taken, body=False)}
    others = [
        each for each in batch if each[1].document_id in holders and holders[each[1].document_id].owner != each[0].owner
    ]
    await index.write(
        [
            Item(
                "index", DOCUMENTS, own_key(holders[item.document_id].kind, moved.document_id, moved.owner), item.source
            )
            for moved, item in others
        ]
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
