"""The store's documents: keeps each promise of `DocumentStore` with conditional writes.

Below: document_index, document_search, document_transfer. Above: the store. A write reads the document by its id, and
writes only if nobody has written it since. It is a sure write (see there), except those that follow a thread's commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from gateway.agent import Secret
from gateway.clock import Clock
from gateway.documents.checks import check_change, check_id, check_number, dumped_body, no_thread
from gateway.documents.document import Document, DocumentKind
from gateway.documents.sealing import Sealing, put_together, taken_apart, texts_in
from gateway.embedded_index.document_values import searched_in
from gateway.errors import InvalidRequestError, StoreError, UnavailableError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.bulks import Item, Place
from gateway.opensearch.document_fields import Layout
from gateway.opensearch.document_index import DocumentIndex, of_kind, seen_by
from gateway.opensearch.document_records import NewDocument, Stored, encoded, keys_of, no_document, place_of
from gateway.opensearch.document_search import search_documents
from gateway.opensearch.ids import digest
from gateway.opensearch.indices import DOCUMENTS
from gateway.opensearch.run_record import thread_id_of
from gateway.opensearch.sources import Key, Sources
from gateway.opensearch.turns import Turns
from gateway.query_dsl.field_mapping import MappingError, SearchedObject
from gateway.records import load_json

logger = logging.getLogger(__name__)

_INLINE_BYTES: Final = 20_000
_MOST_TRIES: Final = 20  # while others write the same document
_OWNERS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class ThreadDocument:
    """A document of a thread that is to be written, or, without a body, deleted. `only_new`: one that exists stays."""

    kind: DocumentKind
    document_id: str
    body: JsonObject | None
    only_new: bool = False


async def _any_thread(owner: str, thread_id: str) -> bool:
    return True


class OpenSearchDocuments:
    """A DocumentStore in an `index`. `has_thread` says whether an owner has a thread."""

    def __init__(
        self,
        sources: Sources,
        clock: Clock,
        sealing: Sealing,
        on_secrets: Callable[[Iterable[Secret]], None],
        has_thread: Callable[[str, str], Awaitable[bool]] = _any_thread,
    ) -> None:
        self.index = DocumentIndex(sources)
        self._clock = clock
        self._sealing = sealing
        self._on_secrets = on_secrets
        self._has_thread = has_thread
        self._turns: Turns[str] = Turns()

    async def open(self) -> None:
        """Make the index, if there is none."""
        await self.index.open()

    async def close(self) -> None:
        """Wait until all writes have ended."""
        await self._turns.close()
        await self.index.sure.close()

    async def put(
        self,
        kind: DocumentKind,
        document_id: str,
        owner: str,
        body: JsonObject,
        if_version: int | None = None,
        *,
        public: bool = False,
        thread_id: str | None = None,
        most: int | None = None,
    ) -> int:
        """As DocumentStore says."""
        check_id(kind, document_id, public=public)
        kept, secrets = taken_apart(body, kind.sealed)
        self._learn(secrets)
        source = dumped_body(kept)

        async def work() -> int:
            sealed = self._sealed(kind, document_id, secrets)
            searched = await _searched_in(kind, source)
            now = self._clock.now()
            new = NewDocument(document_id, owner, public, thread_id, source, sealed, searched, now, now)
            return await self._put(kind, new, if_version, most)

        return await self._turns.run(keys_of(kind, document_id, owner)[:1], work)

    async def get(self, kind: DocumentKind, document_id: str, owner: str, *, unsealed: bool = False) -> Document | None:
        """As DocumentStore says."""
        stored = await self.index.read(kind, document_id, owner)
        if stored is None or not stored.seen_by(owner):
            return None
        document = stored.document(kind)
        if unsealed and stored.sealed is not None:
            secrets = self._sealing.open(kind.name, document_id, load_json(stored.sealed))
            self._learn(secrets)
            put_together(document.body, secrets)
        return document

    async def owner_of(self, kind: DocumentKind, document_id: str) -> str | None:
        """As DocumentStore says."""
        found = await self.index.read(kind, document_id, "", body=False)
        return None if found is None else found.owner

    async def owners(self, kind: DocumentKind) -> list[str]:
        """As DocumentStore says."""
        found: list[str] = []
        after: Any = None
        while True:
            source: Any = {"size": _OWNERS_AT_ONCE, "sources": [{"owner": {"terms": {"field": "owner"}}}]}
            one: Any = {"one": {"top_hits": {"size": 1, "_source": ["record"]}}}
            query: Any = {"bool": {"filter": [of_kind(kind), {"term": {"public": False}}]}}
            body: JsonObject = {"size": 0, "query": query, "aggs": {"owners": {"composite": source, "aggs": one}}}
            if after is not None:
                source["after"] = after
            (answer,) = await self.index.search(body)
            listed = answer["aggregations"]["owners"]
            for bucket in listed["buckets"]:
                record = load_json(bucket["one"]["hits"]["hits"][0]["_source"]["record"].encode())
                found.append(record[1])
            if (after := listed.get("after_key")) is None:
                return found

    async def page(self, kind: DocumentKind, owner: str, *, after: str = "", limit: int) -> list[Document]:
        """As DocumentStore says."""
        await self.index.prepare(self.index.layout(kind))
        begin = [place_of(after)] if after else []
        found = self.index.each(seen_by(kind, owner), ["place"], after=begin, most=limit)
        return [stored.document(kind) async for _, stored in found if stored.seen_by(owner)]

    async def delete(self, kind: DocumentKind, document_id: str, owner: str, if_version: int | None = None) -> bool:
        """As DocumentStore says."""
        keys = keys_of(kind, document_id, owner)[:1]
        return await self._turns.run(keys, lambda: self._delete(kind, document_id, owner, if_version))

    async def search(self, kind: DocumentKind, body: JsonObject, owner: str) -> JsonObject:
        """As DocumentStore says."""
        return await search_documents(self.index, kind, body, owner, self._clock.now())

    # --- what the store needs of them -----------------------------------------------------------------------------

    async def delete_of_thread(self, owner: str, thread_id: str, kind: DocumentKind | None = None) -> None:
        """Delete the documents of a thread; with a kind only those of this kind."""
        await self.index.sure.all_known()
        filters: list[JsonObject] = [{"term": {"thread": thread_id_of(owner, thread_id)}}]
        if kind is not None:
            filters.append(of_kind(kind))
        await self.index.sources.delete_found([DOCUMENTS], {"bool": {"filter": [*filters]}})

    async def write_of_thread(self, owner: str, thread_id: str, documents: Sequence[ThreadDocument]) -> None:
        """Write and delete documents of a thread, of kinds with `own_ids`, in few requests. One that cannot be stored
        is left out: an older one of its id is deleted.
        """
        keys = [keys_of(each.kind, each.document_id, owner)[0] for each in documents]
        if documents:
            await self._turns.run(keys, lambda: self._write_of_thread(owner, thread_id, documents))

    async def stored_bytes(self, site: str) -> int:
        """How many bytes the documents of a site's visitors have."""
        total: JsonObject = {"total": {"sum": {"field": "bytes"}}}
        body: JsonObject = {"size": 0, "query": {"term": {"site": digest(site)}}, "aggs": total}
        (answer,) = await self.index.search(body)
        return int(answer["aggregations"]["total"]["value"])

    # --- writes ---------------------------------------------------------------------------------------------------

    async def _put(self, kind: DocumentKind, new: NewDocument, if_version: int | None, most: int | None) -> int:
        layout = self.index.layout(kind)
        await self.index.prepare(layout)
        for _ in range(_MOST_TRIES):
            key, place, old = await self.index.find(kind, new.document_id, new.owner)
            check_change(
                kind, new.document_id, new.owner, None if old is None else (old.owner, old.version), if_version
            )
            if old is None and most is not None:
                owned: JsonObject = {"term": {"owner": digest(new.owner)}}
                check_number(kind, await self.index.count([of_kind(kind), owned]), most)
            await self._check_thread(new)
            data = await self.index.encoded(layout, new if old is None else replace(new, created_at=old.created_at))
            item = Item("create" if place is None else "index", DOCUMENTS, key, data, place)
            now = await self._write(layout, item, old)
            if now is not None:
                await self._stay_with_thread(kind, new)
                return self.index.base + now.seq_no + 1
        raise StoreError(f"the {kind.name} {new.document_id!r} is being written by others all the time")

    async def _write(self, layout: Layout, item: Item, old: Stored | None) -> Place | None:
        """The document's new state; None: somebody else has written it. `old` is the document as it is."""

        def before() -> tuple[bytes, list[Item]]:
            # a deleted document would let the lost write create it
            return no_document() if old is None else encoded(layout, old.again(layout)), []

        return await self.index.sure.write([Key(DOCUMENTS, item.document_id)], item, before)

    async def _check_thread(self, new: NewDocument) -> None:
        if new.thread_id is not None and not await self._has_thread(new.owner, new.thread_id):
            raise no_thread(new.thread_id)

    async def _stay_with_thread(self, kind: DocumentKind, new: NewDocument) -> None:
        """Delete the document if its thread was deleted while it was written: whoever deleted it has not seen it."""
        try:
            await self._check_thread(new)
        except InvalidRequestError:
            await self._delete(kind, new.document_id, new.owner, None)
            raise

    async def _delete(self, kind: DocumentKind, document_id: str, owner: str, if_version: int | None) -> bool:
        was_there = False
        for _ in range(_MOST_TRIES):
            key, _, old = await self.index.find(kind, document_id, owner)
            if old is None or old.owner != owner:
                return was_there
            check_change(kind, document_id, owner, (old.owner, old.version), if_version)
            was_there = True
            item = Item("delete", DOCUMENTS, key, expected=old.place)
            if await self._write(self.index.layout(kind), item, old) is not None:
                return True
        raise StoreError(f"the {kind.name} {document_id!r} is being written by others all the time")

    async def _write_of_thread(self, owner: str, thread_id: str, documents: Sequence[ThreadDocument]) -> None:
        for layout in {each.kind.name: self.index.layout(each.kind) for each in documents}.values():
            await self.index.prepare(layout)
        possible = [keys_of(each.kind, each.document_id, owner) for each in documents]
        sizes = {key: 0 for keys in possible for key in keys}
        await self.index.known(sizes)
        stored = {key: found async for key, found in self.index.read_many(sizes, body=False) if found.owner == owner}
        items: list[Item] = []
        for each, keys in zip(documents, possible, strict=True):
            key = next((key for key in keys if key in stored), keys[0])
            old = stored.get(key)
            if old is not None and each.only_new:
                continue
            data = await self._thread_document(owner, thread_id, each, old)
            if data is not None:
                items.append(Item("index", DOCUMENTS, key, data))
            elif old is not None:
                items.append(Item("delete", DOCUMENTS, key))
        await self.index.write(items)

    async def _thread_document(
        self, owner: str, thread_id: str, each: ThreadDocument, old: Stored | None
    ) -> bytes | None:
        """The document to be stored; None: there is none, or it cannot be stored."""
        if each.body is None:
            return None
        try:
            check_id(each.kind, each.document_id, public=False)
            source = dumped_body(each.body)
            searched = await _searched_in(each.kind, source)
        except InvalidRequestError:  # the run that writes the thread must not fail for its document
            logger.exception("a message or a thread gets no document", extra={"thread_id": thread_id})
            return None
        now = self._clock.now()
        made = now if old is None else old.created_at
        new = NewDocument(each.document_id, owner, False, thread_id, source, None, searched, made, now)
        return await self.index.encoded(self.index.layout(each.kind), new)

    def _sealed(self, kind: DocumentKind, document_id: str, secrets: Mapping[str, JsonValue]) -> bytes | None:
        if not secrets:
            return None
        if not self._sealing.has_key:
            raise UnavailableError(
                f"the {kind.name} has secrets, which a store in a cluster keeps only with a key: set"
                " 'server.master_keys'",
                code="sealing_key_missing",
            )
        return orjson.dumps(self._sealing.seal(kind.name, document_id, secrets))

    def _learn(self, secrets: Mapping[str, JsonValue]) -> None:
        if secrets:
            self._on_secrets(map(Secret, texts_in(secrets.values())))


async def _searched_in(kind: DocumentKind, source: bytes) -> SearchedObject:
    """The searched values of a document.

    Raises:
        InvalidRequestError: it is too large, or a value does not have its field's type.
    """
    try:
        if len(source) < _INLINE_BYTES:
            return searched_in(kind, source)
        return await asyncio.to_thread(searched_in, kind, source)
    except MappingError as error:
        raise InvalidRequestError(str(error), code="invalid_document") from error
