"""One owner's documents, for the protocols: no other owner's can be reached by it.

Below: document. Above: the protocols' environment, which makes one for a caller.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from gateway.documents.document import Document, DocumentKind, DocumentStore
from gateway.messages import JsonObject


class OwnedDocuments:
    """The methods of DocumentStore, for one owner. They raise what those raise, and `put` what `counted` raises."""

    def __init__(
        self, documents: DocumentStore, owner: str, counted: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`counted` is entered for as long as a `put` takes."""
        self._documents = documents
        self._counted = counted
        self.owner = owner

    async def put(
        self,
        kind: DocumentKind,
        document_id: str,
        body: JsonObject,
        if_version: int | None = None,
        *,
        thread_id: str | None = None,
    ) -> int:
        """Create the document, or replace all of it; its version."""
        with self._counted():
            return await self._documents.put(kind, document_id, self.owner, body, if_version, thread_id=thread_id)

    async def get(self, kind: DocumentKind, document_id: str, *, unsealed: bool = False) -> Document | None:
        """The document, if it is the owner's; `unsealed` as in DocumentStore."""
        found = await self._documents.get(kind, document_id, self.owner, unsealed=unsealed)
        return None if found is None or found.owner != self.owner else found

    async def page(self, kind: DocumentKind, *, after: str = "", limit: int) -> list[Document]:
        """The documents that the owner may see, by id, from behind that id."""
        return await self._documents.page(kind, self.owner, after=after, limit=limit)

    async def delete(self, kind: DocumentKind, document_id: str, if_version: int | None = None) -> bool:
        """Delete the document. False: there is none."""
        return await self._documents.delete(kind, document_id, self.owner, if_version)

    async def search(self, kind: DocumentKind, body: JsonObject) -> JsonObject:
        """The answer of a search over the documents that the owner may see."""
        return await self._documents.search(kind, body, self.owner)
