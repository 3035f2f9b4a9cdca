"""A store whose documents are in a cluster, and everything else in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

from gateway.agent import Secret
from gateway.clock import Clock
from gateway.documents.sealing import Sealing
from gateway.opensearch.address import Address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.document_transfer import DocumentImport
from gateway.opensearch.documents import OpenSearchDocuments
from gateway.opensearch.indices import DOCUMENTS, STATE
from gateway.opensearch.sources import Sources
from gateway.store import Store
from gateway.store.transfer import MovedDocument, MovedIndex
from tests.movable_clock import MovableClock
from tests.stored_samples import memory_store

KEY = b"k" * 32


def new_prefix() -> str:
    return f"test-{uuid4().hex}"


async def take_in(
    documents: OpenSearchDocuments, pieces: Iterable[MovedIndex | MovedDocument], last_version: int
) -> None:
    """Store the documents of another store, as an import does."""
    taker = DocumentImport(documents.index)
    for piece in pieces:
        await taker.take(piece)
    await taker.finish(last_version)


class DocumentsInCluster:
    """Not opened. With `keeps` its indices stay when it is closed."""

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        prefix: str | None = None,
        keeps: bool = False,
        keys: Sequence[bytes] = (KEY,),
        on_secrets: Callable[[Iterable[Secret]], None] = lambda secrets: None,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        address = Address(parts.hostname, parts.port or 9200, prefix=prefix or new_prefix())
        self.cluster = Cluster(address)
        self.bulks = Bulks(self.cluster)
        self._rest: Any = memory_store(Path())
        self._keeps = keeps
        self.documents = OpenSearchDocuments(
            Sources(self.cluster, self.bulks), clock or MovableClock(), Sealing(keys), on_secrets, self._has_thread
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)

    async def open(self) -> None:
        await self._rest.open()
        await self.documents.open()

    async def close(self) -> None:
        await self.documents.close()
        await self.bulks.close()
        if not self._keeps:
            for name in (DOCUMENTS, STATE):
                await self.cluster.request("DELETE", f"/{self.cluster.index(name)}", allowed=(404,))
        await self.cluster.close()
        await self._rest.close()

    async def delete_thread(self, owner: str, thread_id: str) -> bool:
        deleted: bool = await self._rest.delete_thread(owner, thread_id)
        await self.documents.delete_of_thread(owner, thread_id)
        return deleted

    async def stored_bytes(self, site: str) -> int:
        rest: int = await self._rest.stored_bytes(site)
        return rest + await self.documents.stored_bytes(site)

    async def _has_thread(self, owner: str, thread_id: str) -> bool:
        return await self._rest.load_thread(owner, thread_id) is not None

    def as_store(self) -> Store:
        return cast(Store, self)
