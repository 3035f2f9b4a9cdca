"""Documents by their ids: how records are put into them, and read from them.

Below: cluster, bulks. Above: everything that reads or writes threads, messages, runs and logs. A record is text in the
member `record`, which no mapping knows. If it is large, the rest is in documents of its own, whose ids have the
write's token, so that no reader mixes two writes. Reads by id see the last write at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from gateway.errors import StoreError
from gateway.messages import JsonObject
from gateway.opensearch.bulks import Action, Bulks, Done, Item, Place
from gateway.opensearch.cluster import USUAL_SECONDS, Cluster

PART_CHARACTERS: Final = 500_000
"""The most characters of a record in one document."""
_AT_ONCE = 200
_TRIES = 4
_DELETED_AT_ONCE = 1_000
_DELETE_SECONDS = 60.0
_HITS = "?filter_path=hits.hits._id,hits.hits._source,hits.hits.sort"
_WHERE = "?filter_path=docs.found,docs.error,docs._source,docs._seq_no,docs._primary_term"


class Key(NamedTuple):
    """Where a document is: its index, without the prefix, and its id."""

    name: str
    document_id: str


@dataclass(frozen=True, slots=True)
class Found:
    """A document: its members and its state. `record` is its record, with all parts."""

    source: Mapping[str, Any]
    place: Place
    record: bytes

    @property
    def token(self) -> str:
        return str(self.source["token"])


def documents_of(key: Key, record: bytes, members: JsonObject, token: str) -> tuple[bytes, list[Item]]:
    """The source of a document with this record; and the documents of the parts that are too many for it, which have to
    be written before.
    """
    text = record.decode()
    count = (len(text) - 1) // PART_CHARACTERS if text else 0
    source: JsonObject = {**members, "token": token, "parts": count, "record": text[:PART_CHARACTERS]}
    parts: list[Item] = []
    for number, start in enumerate(range(PART_CHARACTERS, len(text), PART_CHARACTERS), 1):
        part: JsonObject = {"record": text[start : start + PART_CHARACTERS]}
        if "thread" in members:
            part["thread"] = members["thread"]
        parts.append(Item("index", key.name, _part_id(key.document_id, token, number), orjson.dumps(part)))
    return orjson.dumps(source), parts


def part_deletions(key: Key, found: Found) -> list[Item]:
    """Deletes the parts of a document that was replaced or deleted."""
    return parts_deletions(key, found.token, found.source["parts"])


def parts_deletions(key: Key, token: str, count: int) -> list[Item]:
    """Deletes so many parts of a document that was written with this token."""
    return [Item("delete", key.name, _part_id(key.document_id, token, number)) for number in range(1, count + 1)]


def _part_id(document_id: str, token: str, number: int) -> str:
    return f"{document_id}.{token}.{number}"


class Replacement(NamedTuple):
    """What a document is replaced with: its source, and the documents of its parts. `place` is the state that it had
    last, as far as is known.
    """

    key: Key
    source: bytes
    parts: Sequence[Item]
    place: Place | None = None


class Hit(NamedTuple):
    """A document that a search found. `sort` are the values by which it was sorted."""

    document_id: str
    source: Mapping[str, Any]
    sort: Sequence[Any]


class _MissingPart(Exception):  # noqa: N818
    """The document was replaced while its parts were read."""


class Sources:
    """Reads and writes documents of the store's indices."""

    def __init__(self, cluster: Cluster, bulks: Bulks) -> None:
        self.cluster = cluster
        self.bulks = bulks

    async def read(self, keys: Sequence[Key], *, seconds: float = USUAL_SECONDS) -> list[Found | None]:
        """The documents with these keys, as they were last written; None: there is none.

        Raises:
            StoreError: the cluster could not read them.
        """
        for _ in range(_TRIES):
            with suppress(_MissingPart):
                return await self._read(keys, seconds)
        raise StoreError("a part of a document is missing in the OpenSearch cluster")

    async def _read(self, keys: Sequence[Key], seconds: float) -> list[Found | None]:
        sources = await self._get(keys, seconds)
        missing = [
            Key(key.name, _part_id(key.document_id, found[0]["token"], number))
            for key, found in zip(keys, sources, strict=True)
            if found is not None
            for number in range(1, found[0]["parts"] + 1)
        ]
        parts = iter(await self._get(missing, seconds))
        return [None if found is None else _whole(found, parts) for found in sources]

    async def read_one(self, key: Key) -> Found | None:
        return (await self.read([key]))[0]

    async def _get(self, keys: Sequence[Key], seconds: float) -> list[tuple[Mapping[str, Any], Place] | None]:
        slices = [keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)]
        if len(slices) < 2:
            return await self._get_slice(keys, seconds) if keys else []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._get_slice(each, seconds)) for each in slices]
        return [found for task in tasks for found in task.result()]

    async def _get_slice(self, keys: Sequence[Key], seconds: float) -> list[tuple[Mapping[str, Any], Place] | None]:
        docs: list[Any] = [{"_index": self.cluster.index(name), "_id": document_id} for name, document_id in keys]
        answer = await self.cluster.request("POST", f"/_mget{_WHERE}", {"docs": docs}, seconds=seconds)
        found: Any = answer.body.get("docs")
        if not isinstance(found, list) or len(found) != len(keys):
            raise StoreError("the OpenSearch cluster's answer to a read cannot be read")
        return [_one(document) for document in found]

    async def write_new(self, items: Sequence[Item], *, seconds: float = USUAL_SECONDS) -> None:
        """Create documents that nobody else writes. One that is there already is a lost answer's, or what a refused
        write left: it is replaced if it has another token.

        Raises:
            StoreError: one of them was not written.
        """
        await self.replace_taken(items, await self.bulks.write(items, seconds=seconds), seconds=seconds)

    async def replace_taken(
        self, items: Sequence[Item], done: Sequence[Done], *, seconds: float = USUAL_SECONDS
    ) -> None:
        """As write_new, after a first try, which gave `done`."""
        taken = [item for item, each in zip(items, done, strict=True) if each.status == 409]
        while taken:
            keys = [Key(item.index, item.document_id) for item in taken]
            there = await self._get(keys, seconds)
            again: list[Item] = []
            for item, found in zip(taken, there, strict=True):
                if found is None:
                    again.append(item)
                elif not _is_same(item, found[0]):
                    again.append(Item("index", item.index, item.document_id, item.source, found[1]))
            done = await self.bulks.write(again, seconds=seconds)
            taken = [item for item, each in zip(again, done, strict=True) if each.status == 409]

    async def is_there(self, item: Item) -> bool:
        """Whether a document is as this write would leave it: the answer to an earlier try was lost."""
        (found,) = await self._get([Key(item.index, item.document_id)], USUAL_SECONDS)
        return found is not None and _is_same(item, found[0])

    async def search(self, name: str, body: JsonObject, *, seconds: float = USUAL_SECONDS) -> list[Hit]:
        """The documents of an index that a query finds, those that this process has just written included."""
        await self.cluster.refreshed(name, seconds=seconds)
        # a cluster that counts no hits skips those that come after the asked ones
        asked: JsonObject = {**body, "track_total_hits": False}
        path = f"/{self.cluster.index(name)}/_search{_HITS}"
        answer = await self.cluster.request("POST", path, asked, seconds=seconds)
        hits: Any = answer.body.get("hits")
        return [
            Hit(each["_id"], each.get("_source", {}), each.get("sort", ())) for each in (hits or {}).get("hits", ())
        ]

    async def pages(
        self, name: str, query: JsonObject, sort: Sequence[str], *, seconds: float = USUAL_SECONDS
    ) -> AsyncGenerator[list[Found]]:
        """All documents of an index that a query finds, in the order of some fields, whose values never change and are
        together unique.
        """
        body: JsonObject = {"query": query, "size": _AT_ONCE, "sort": [{each: "asc"} for each in sort]}
        while True:
            hits = await self.search(name, {**body, "_source": False}, seconds=seconds)
            found = await self.read([Key(name, hit.document_id) for hit in hits], seconds=seconds)
            yield [each for each in found if each is not None]
            if len(hits) < _AT_ONCE:
                return
            body["search_after"] = [*hits[-1].sort]

    async def count(self, name: str, query: JsonObject) -> int:
        """How many documents of an index a query finds."""
        await self.cluster.refreshed(name)
        answer = await self.cluster.request("POST", f"/{self.cluster.index(name)}/_count", {"query": query})
        count = answer.body.get("count")
        return count if isinstance(count, int) else 0

    async def delete_found(self, names: Sequence[str], query: JsonObject) -> None:
        """Delete all documents of these indices that a query finds. Not by one request: if it were late, it would
        delete what was written since.
        """
        body: JsonObject = {"query": query, "size": _DELETED_AT_ONCE, "_source": False, "seq_no_primary_term": True}
        for name in names:
            while True:
                await self.cluster.refreshed(name, seconds=_DELETE_SECONDS)
                path = f"/{self.cluster.index(name)}/_search?filter_path=hits.hits"
                answer: Any = (await self.cluster.request("POST", path, body)).body
                hits = answer.get("hits", {}).get("hits", ())
                items = [
                    Item("delete", name, each["_id"], expected=Place(each["_seq_no"], each["_primary_term"]))
                    for each in hits
                ]
                await self.bulks.write(items)
                if len(hits) < _DELETED_AT_ONCE:
                    break

    async def replace(self, replacements: Sequence[Replacement]) -> None:
        """Replace those of these documents that are there. A request that is late replaces nothing."""
        while replacements:
            unknown = [each.key for each in replacements if each.place is None]
            there = dict(zip(unknown, await self._get(unknown, USUAL_SECONDS), strict=True))
            places = [each.place or _place(there[each.key]) for each in replacements]
            left = [(each, place) for each, place in zip(replacements, places, strict=True) if place is not None]
            parts = [part for each, _ in left for part in each.parts]
            await self.bulks.write(parts)
            done = await self.bulks.write([write("index", each.key, each.source, place) for each, place in left])
            refused = [each for (each, _), one in zip(left, done, strict=True) if one.place is None]
            now = await self._get([each.key for each in refused], USUAL_SECONDS)
            replacements = [
                each._replace(place=found[1])
                for each, found in zip(refused, now, strict=True)
                if found is not None and found[0] != orjson.loads(each.source)
            ]

    async def write_one(self, item: Item, *, seconds: float = USUAL_SECONDS) -> Done:
        return (await self.bulks.write([item], seconds=seconds))[0]


def _is_same(item: Item, source: Mapping[str, Any]) -> bool:
    return item.source is not None and bool(orjson.loads(item.source) == source)


def _place(found: tuple[Mapping[str, Any], Place] | None) -> Place | None:
    return None if found is None else found[1]


def _one(document: Any) -> tuple[Mapping[str, Any], Place] | None:
    if "error" in document:
        raise StoreError("the OpenSearch cluster could not read a document")
    if not document.get("found"):
        return None
    return document["_source"], Place(document["_seq_no"], document["_primary_term"])


def _whole(
    found: tuple[Mapping[str, Any], Place], parts: Iterator[tuple[Mapping[str, Any], Place] | None]
) -> Found | None:
    source, place = found
    texts = [str(source["record"]).encode()]
    for _ in range(source["parts"]):
        part = next(parts)
        if part is None:
            raise _MissingPart
        texts.append(str(part[0]["record"]).encode())
    return Found(source, place, b"".join(texts))


def write(action: Action, key: Key, source: bytes, expected: Place | None = None) -> Item:
    return Item(action, key.name, key.document_id, source, expected)
