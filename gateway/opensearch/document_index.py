"""The index of documents: reads and writes of single documents, many at once, and searches as they are sent.

Below: document_records, sources. Above: documents, document_search, document_transfer. Reads by id see each
write at once; searches see what this process has written. All kinds share the index, and each has fields of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from gateway.documents.document import DocumentKind
from gateway.errors import StoreError
from gateway.messages import JsonObject
from gateway.opensearch.bulks import MOST_BYTES, Done, Item, Place
from gateway.opensearch.cluster import USUAL_SECONDS, failure, is_busy
from gateway.opensearch.document_fields import SEARCHED, Layout
from gateway.opensearch.document_records import INDEX, META, NewDocument, Stored, decoded, encoded, keys_of, place_in
from gateway.opensearch.ids import digest
from gateway.opensearch.indices import DOCUMENTS, STATE, make_index
from gateway.opensearch.sources import Key, Sources
from gateway.opensearch.sure_writes import SureWrites
from gateway.query_dsl.clauses import QueryError

BASE: Final = "document-base"
_INLINE_BYTES = 20_000  # a larger document is made ready in a thread
_FIRST_WAIT_SECONDS = 0.05
_ONE_PAGE: Final = 1_000
_TOO_MANY_BUCKETS = "too_many_buckets_exception"
_TOO_MANY_CLAUSES = ("too_many_clauses", "too_many_nested_clauses", "maxClauseCount")
_TOO_COMPLEX = "too_complex_to_determinize_exception"


class Standing(NamedTuple):
    """What stands in a document's place: `place` is its state, None if nothing does; `stored` the document, if it is
    one.
    """

    key: str
    place: Place | None = None
    stored: Stored | None = None


class DocumentIndex:
    """`base` is added to the numbers that the index gives, to make versions of them; see document_records."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.cluster = sources.cluster
        self.sure = SureWrites(sources)
        self.base = 0
        self._layouts: dict[int, Layout] = {}
        self._mapped: set[str] = set()
        self._prepared: set[str] = set()

    async def open(self) -> None:
        """Make the index if there is none, and read which fields it has and how versions are counted."""
        there = await self.cluster.request("GET", self._path("/_mapping"), allowed=(404,), seconds=30)
        self._mapped = set()
        if there.status == 404:
            await make_index(self.cluster, self.cluster.index(DOCUMENTS), INDEX)
        else:
            found: Any = there.body[self.cluster.index(DOCUMENTS)]
            self._mapped |= found["mappings"]["properties"][SEARCHED].get("properties", {}).keys()
        await self.read_base()

    async def read_base(self) -> None:
        """Read how versions are counted."""
        state = await self.cluster.request("GET", f"/{self.cluster.index(STATE)}/_doc/{BASE}", allowed=(404,))
        source: Any = state.body.get("_source") or {}
        self.base = int(source.get("base", 0))

    async def set_base(self, version: int) -> None:
        """Have all documents that come get a larger version."""
        base = version - await self.next_number()
        state = {"kind": BASE, "base": base}
        await self.sources.bulks.write([Item("index", STATE, BASE, orjson.dumps(state))])
        self.base = base

    async def next_number(self) -> int:
        """How many writes the index has seen: one more than the largest `_seq_no`."""
        path = self._path("/_stats?level=shards&filter_path=**.seq_no.max_seq_no")
        answer: Any = await self.cluster.request("GET", path)
        shards = [each for found in answer.body.get("indices", {}).values() for each in found["shards"].values()]
        return max((copy["seq_no"]["max_seq_no"] for copies in shards for copy in copies), default=-1) + 1

    def forget(self) -> None:
        """Forget what was there: the index was emptied."""
        self.base = 0
        self._prepared.clear()

    def layout(self, kind: DocumentKind) -> Layout:
        """The fields of a kind. Kinds are constants."""
        found = self._layouts.get(id(kind))
        if found is None:
            found = self._layouts[id(kind)] = Layout(kind)
        return found

    async def prepare(self, layout: Layout) -> None:
        """Make the fields of a kind, if they are not there."""
        if layout.digest in self._prepared:
            return
        if layout.container not in self._mapped:
            await self.cluster.request("PUT", self._path("/_mapping"), layout.mapping(), seconds=30)
        kept = {"kind_name": layout.kind.name, "properties": layout.properties.decode()}
        await self.sources.bulks.write([Item("create", DOCUMENTS, f"properties-{layout.digest}", orjson.dumps(kept))])
        self._prepared.add(layout.digest)

    async def properties(self, layout_digest: str) -> bytes:
        """The fields of the kind by which a document was indexed, as JSON."""
        found = await self.cluster.request("GET", self._path(f"/_doc/properties-{layout_digest}"), allowed=(404,))
        source: Any = found.body.get("_source") or {}
        return str(source.get("properties", "{}")).encode()

    # --- documents by their keys ----------------------------------------------------------------------------------

    async def read(self, kind: DocumentKind, document_id: str, owner: str, *, body: bool = True) -> Stored | None:
        """The document with that id; without its body if that is not asked for. `owner` counts for kinds with
        `own_ids`.
        """
        return (await self.find(kind, document_id, owner, body=body)).stored

    async def find(self, kind: DocumentKind, document_id: str, owner: str, *, body: bool = True) -> Standing:
        """As `read`, with where it is, or would be."""
        keys = keys_of(kind, document_id, owner)
        await self.known(keys)
        free = Standing(keys[0])
        for key in keys:
            path = self._path(f"/_doc/{key}{_included(body=body)}")
            answer = await self.cluster.request("GET", path, allowed=(404,))
            if answer.status == 404:
                continue
            place, found = place_in(answer.body), decoded(answer.body, self.base)
            if found is not None and (found.owner == owner or not kind.own_ids):
                return Standing(key, place, found)
            if key == free.key:
                free = Standing(key, place)
        return free

    async def known(self, keys: Iterable[str]) -> None:
        """Wait until it is known of all writes of these documents whether they were done."""
        await self.sure.known([Key(DOCUMENTS, key) for key in keys])

    async def read_many(self, sizes: Mapping[str, int], *, body: bool = True) -> AsyncGenerator[tuple[str, Stored]]:
        """Those of the documents that exist, in this order. `sizes`: about how many bytes each has."""
        for keys in _batches(sizes if body else dict.fromkeys(sizes, 0)):
            path = self._path(f"/_mget{_included(body=body)}")
            answer: Any = await self.cluster.request("POST", path, {"ids": list(keys)})
            for found in answer.body["docs"]:
                if found.get("found") and (stored := decoded(found, self.base)) is not None:
                    yield found["_id"], stored

    async def encoded(self, layout: Layout, new: NewDocument) -> bytes:
        """The stored document as JSON. Raises TooLargeError as document_records.encoded."""
        if len(new.source) < _INLINE_BYTES:
            return encoded(layout, new)
        return await asyncio.to_thread(encoded, layout, new)

    async def write(self, items: Sequence[Item], *, seconds: float = USUAL_SECONDS) -> list[Done]:
        """Write, and give the results in their order, conflicts included."""
        return await self.sources.bulks.write(items, seconds=seconds)

    # --- searches -------------------------------------------------------------------------------------------------

    async def search(self, *bodies: JsonObject) -> list[Mapping[str, Any]]:
        """The answers to some searches at one time. What this process wrote is found.

        Raises:
            QueryError: one of them is too much for the cluster.
        """
        await self.sure.all_known()
        await self.cluster.refreshed(DOCUMENTS)
        lines = b"".join(b"{}\n" + orjson.dumps(body) + b"\n" for body in bodies)
        loop = asyncio.get_running_loop()
        until, wait = loop.time() + USUAL_SECONDS, _FIRST_WAIT_SECONDS
        while True:
            path = self._path("/_msearch")
            answer: Any = await self.cluster.request("POST", path, lines, seconds=max(until - loop.time(), 0.1))
            refused = _refused(answer.body["responses"])
            if refused is None:
                return list(answer.body["responses"])
            pause = random.uniform(wait / 2, wait)
            if loop.time() + pause >= until:
                raise refused
            await asyncio.sleep(pause)
            wait *= 2

    async def each(
        self, filters: Sequence[JsonObject], sort: Sequence[str], *, after: Sequence[Any] = (), most: int | None = None
    ) -> AsyncGenerator[tuple[str, Stored]]:
        """All documents that pass the filters, in the order of these fields, whose values are together unique; at most
        `most`, and only those after the values `after`.
        """
        left = most
        while left is None or left > 0:
            size = _ONE_PAGE if left is None else min(left, _ONE_PAGE)
            body: dict[str, Any] = {
                "query": {"bool": {"filter": list(filters)}},
                "sort": list(sort),
                "size": size,
                "_source": False,
                "docvalue_fields": ["bytes"],
                "track_total_hits": False,
            }
            if after:
                body["search_after"] = list(after)
            (answer,) = await self.search(body)
            hits = answer["hits"]["hits"]
            async for found in self.read_many({hit["_id"]: size_of(hit) for hit in hits}):
                yield found
            if len(hits) < size:
                return
            after = hits[-1]["sort"]
            left = None if left is None else left - size

    async def count(self, filters: Sequence[JsonObject]) -> int:
        """How many documents pass the filters."""
        query: Any = {"bool": {"filter": list(filters)}}
        (answer,) = await self.search(counting(query))
        return total_of(answer)

    async def index_again(self, layout: Layout, filters: Sequence[JsonObject]) -> None:
        """Index the documents of a kind that pass the filters again, if its fields have changed. Each keeps its
        version; one that somebody changes meanwhile is left to them.
        """
        stale: Any = [*filters, {"bool": {"must_not": [{"term": {"indexed_as": layout.digest}}]}}]
        is_done = False
        while not is_done:
            items: list[Item] = []
            is_done, size = True, 0
            async for key, stored in self.each(stale, ["place", "owner"], most=_ONE_PAGE):
                data = await self.encoded(layout, await asyncio.to_thread(stored.again, layout))
                items.append(Item("index", DOCUMENTS, key, data, stored.place))
                is_done, size = False, size + len(data)
                if size > MOST_BYTES:
                    await self.write(items)
                    items, size = [], 0
            await self.write(items)

    def _path(self, rest: str) -> str:
        return f"/{self.cluster.index(DOCUMENTS)}{rest}"


def of_kind(kind: DocumentKind) -> JsonObject:
    return {"term": {"kind": kind.name}}


def seen_by(kind: DocumentKind, owner: str) -> list[JsonObject]:
    """The filters for the documents of a kind that an owner may see."""
    if kind.own_ids:  # none is public
        return [of_kind(kind), {"term": {"owner": digest(owner)}}]
    either: Any = [{"term": {"owner": digest(owner)}}, {"term": {"public": True}}]
    return [of_kind(kind), {"bool": {"should": either}}]


def counting(query: JsonObject) -> JsonObject:
    """A search that only counts."""
    return {"size": 0, "track_total_hits": True, "query": query}


def total_of(answer: Mapping[str, Any]) -> int:
    return int(answer["hits"]["total"]["value"])


def size_of(hit: Mapping[str, Any]) -> int:
    """About how many bytes the document of a hit has."""
    return int(hit.get("fields", {}).get("bytes", [0])[0])


def _included(*, body: bool) -> str:
    return "" if body else f"?_source_includes={','.join(META)}"


def _batches(sizes: Mapping[str, int]) -> Iterable[Sequence[str]]:
    """The keys, so many at once that their documents can be answered together."""
    batch: list[str] = []
    total = 0
    for key, size in sizes.items():
        if batch and (total + size > MOST_BYTES or len(batch) == _ONE_PAGE):
            yield batch
            batch, total = [], 0
        batch.append(key)
        total += size
    if batch:
        yield batch


def _refused(answers: Sequence[Mapping[str, Any]]) -> StoreError | None:
    """The error of an answer that may come if it is asked for again.

    Raises:
        QueryError, StoreError: another one was refused.
    """
    busy: StoreError | None = None
    for answer in answers:
        if (error := answer.get("error")) is None:
            continue
        said = orjson.dumps(error).decode()
        if _TOO_MANY_BUCKETS in said:
            raise QueryError("the aggregations have too many buckets; ask for larger or fewer ones")
        if any(each in said for each in _TOO_MANY_CLAUSES):
            raise QueryError(
                "the search looks up too many words and values at once; ask for fewer words, in fewer fields, in fewer "
                "clauses"
            )
        if _TOO_COMPLEX in said:
            raise QueryError("a pattern with wildcards is too complex; write fewer wildcards and more letters")
        busy = failure(answer["status"], error)
        if not is_busy(answer["status"], error):
            raise busy
    return busy
