"""Small data that belong to no thread: secrets, and the deletions that are due at providers.

Below: sources. Above: the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.messages import JsonObject
from gateway.opensearch.bulks import Item
from gateway.opensearch.ids import digest, new_token
from gateway.opensearch.indices import STATE
from gateway.opensearch.sources import Key, Sources, documents_of, write
from gateway.records import dump_json, load_json
from gateway.store import DueDeletion
from gateway.store.piece_json import from_json, to_json
from gateway.store.transfer import MovedSecret

SECRET = "secret"
DUE = "due_deletion"
_IMPORT = Key(STATE, "import")
_MOST = 10_000


def secret_key(name: str) -> Key:
    return Key(STATE, digest(SECRET, name))


def due_key(deletion_id: str) -> Key:
    return Key(STATE, digest(DUE, deletion_id))


def due_items(due: Sequence[DueDeletion]) -> list[Item]:
    """Stores deletions that are due."""
    items: list[Item] = []
    for each in due:
        key = due_key(each.deletion_id)
        members: JsonObject = {"kind": DUE, "since": each.since}
        source, parts = documents_of(key, dump_json(to_json(each)), members, new_token())
        items += [*parts, write("index", key, source)]
    return items


class State:
    """The small data of a store."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        """As Store.keep_secret."""
        key = secret_key(name)
        record = dump_json(to_json(MovedSecret(name, fresh)))
        source, _ = documents_of(key, record, {"kind": SECRET}, new_token())
        await self._sources.write_one(write("create", key, source))
        found = await self._sources.read_one(key)
        assert found is not None, "it was just created, or was there"
        return from_json(MovedSecret, load_json(found.record)).content

    async def secrets(self) -> list[MovedSecret]:
        """All secrets, by their names."""
        found = await self._of_kind(SECRET)
        return sorted((from_json(MovedSecret, load_json(each)) for each in found), key=lambda each: each.name)

    async def due_deletions(self) -> list[DueDeletion]:
        """As RetentionStore.due_deletions."""
        found = [from_json(DueDeletion, load_json(each)) for each in await self._of_kind(DUE)]
        return sorted(found, key=lambda each: (each.since, each.deletion_id))

    async def update_deletion(self, deletion: DueDeletion) -> None:
        """As RetentionStore.update_deletion."""
        key = due_key(deletion.deletion_id)
        found = await self._sources.read_one(key)
        if found is None:
            return
        if deletion.names:
            await self._sources.bulks.write(due_items([deletion]))
        else:
            await self._sources.write_one(Item("delete", key.name, key.document_id))

    # --- whether the store is being filled by an import

    async def is_importing(self) -> bool:
        """Whether an import is under way, or its process has ended in the middle."""
        return await self._sources.read_one(_IMPORT) is not None

    async def begin_import(self) -> None:
        source, _ = documents_of(_IMPORT, b"{}", {"kind": "import"}, new_token())
        await self._sources.write_one(write("index", _IMPORT, source))

    async def end_import(self) -> None:
        await self._sources.write_one(Item("delete", *_IMPORT))

    async def _of_kind(self, kind: str) -> list[bytes]:
        body: JsonObject = {"query": {"term": {"kind": kind}}, "size": _MOST, "_source": False}
        hits = await self._sources.search(STATE, body)
        found = await self._sources.read([Key(STATE, hit.document_id) for hit in hits])
        return [each.record for each in found if each is not None]
