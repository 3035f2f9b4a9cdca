"""What a document and a kind of them is, and what a store of them promises: `Store.documents`.

A document is a JSON object with an id and an owner. A kind says which of its members are searched and which are sealed.
Below: messages. Above: the store. All times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.messages import JsonObject

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 10_000
"""How many words and values of one document may be searched: writing them keeps other writes waiting."""
MAX_ID_LENGTH = 512
"""How long the id of a document may be."""


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of documents.

    `properties` are the fields that are searched, as the `properties` of an OpenSearch mapping have them; nothing else
    is, and nothing is found in the documents by itself. When they change, the documents that are there are read again.
    `sealed` are JSON pointers (RFC 6901) to the members that are kept encrypted; `*` stands for every member or item.
    Ids are unique over all owners, or with `own_ids` each owner has ids of its own: such documents cannot be public.
    """

    name: str
    properties: Mapping[str, Any]
    sealed: tuple[str, ...] = ()
    own_ids: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A document. `body` lacks what is sealed, unless that was asked for.

    `version` is larger than that of every document that was written before, also of one that was deleted since.
    `public`: everybody may see it, and only the owner may change it. `thread_id`: the thread that it belongs to.
    """

    kind: str
    document_id: str
    owner: str
    version: int
    body: JsonObject
    created_at: float
    updated_at: float
    public: bool = False
    thread_id: str | None = None


class DocumentStore(Protocol):
    """Documents by kind and id. Writes are as the store's others: in the order of the calls, whole, or StoreError."""

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
    ) -> int:
        """Create the document, or replace it whole; gives its version.

        `if_version`: the version that is replaced, 0 for a document that is new; None: whatever is there. With
        `thread_id` the document goes when that thread of its owner's is deleted, in the same transaction. What is
        sealed is in no line of the log from now on.

        Raises:
            ConflictError: code `version_conflict`: the document has another version, or is not there; `id_taken`: there
                is one (with `if_version` 0), or the id is another owner's.
            NotFoundError: the owner has no such thread.
            InvalidRequestError: a member is not of its field's type.
            TooLargeError: the document has more than MAX_DOCUMENT_BYTES, or more than MAX_ENTRIES to be searched.
        """

    async def get(self, kind: DocumentKind, document_id: str, owner: str, *, unsealed: bool = False) -> Document | None:
        """The document, if it is the owner's or public. `unsealed`: with what is sealed; for whoever uses it.

        Raises:
            UnavailableError: what is sealed cannot be opened: the key is not there any more, or another one.
        """

    async def owner_of(self, kind: DocumentKind, document_id: str) -> str | None:
        """Who owns the document of that id; None: there is none. Not for kinds whose owners have ids of their own."""

    async def delete(self, kind: DocumentKind, document_id: str, owner: str, if_version: int | None = None) -> bool:
        """Delete the owner's document. False: there is none.

        Raises:
            ConflictError: code `version_conflict`: it has another version.
        """

    async def search(self, kind: DocumentKind, body: JsonObject, owner: str) -> JsonObject:
        """What `_search` of OpenSearch answers, for the documents that the owner may see: its own and public ones.

        Others count for nothing in it, neither for the scores nor for the totals and aggregations. A field that the
        kind does not have finds nothing. Each hit has, beside `_id`, `_score` and `_source`, its `_version`, `_owner`
        and `_public`. Pages: `from`, `size` and `sort`, up to the 10,000th hit.

        Raises:
            InvalidRequestError: the search is wrong, or it would take too long.
        """
