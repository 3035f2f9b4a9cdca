"""One owner's documents, for the protocols: of other owners' documents, only lists and searches show the public ones.

Below: document. Above: the protocols' environment, which makes an OwnedDocuments for a caller.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from gateway.documents.document import Document, DocumentKind, DocumentStore
from gateway.messages import JsonObject


class OwnedDocuments:
    """The methods of DocumentStore, for one owner. They raise the same errors; `put` also raises those of `counted`."""

    def __init__(
        self, documents: DocumentStore, owner: str, counted: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Each `put` runs within the context that `counted` gives."""
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
        """Create the document, or replace all of it. Returns its version."""
        with self._counted():
            return await self._documents.put(kind, document_id, self.owner, body, if_version, thread_id=thread_id)

    async def get(self, kind: DocumentKind, document_id: str, *, unsealed: bool = False) -> Document | None:
        """The document, if it is the owner's; `unsealed` as in DocumentStore."""
        found = await self._documents.get(kind, document_id, self.owner, unsealed=unsealed)
        return None if found is None or found.owner != self.owner else found

    async def page(self, kind: DocumentKind, *, after: str = "", limit: int) -> list[Document]:
        """The documents that the owner may see, in the order of their ids, after the id `after`."""
        return await self._documents.page(kind, self.owner, after=after, limit=limit)

    async def delete(self, kind: DocumentKind, document_id: str, if_version: int | None = None) -> bool:
        """Delete the document. False: there is none."""
        return await self._documents.delete(kind, document_id, self.owner, if_version)

    async def search(self, kind: DocumentKind, body: JsonObject) -> JsonObject:
        """The result of a search over the documents that the owner may see."""
        return await self._documents.search(kind, body, self.owner)
