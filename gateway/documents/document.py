"""A document, a kind of documents, and the contract of a store of documents, `Store.documents`.

A document is a JSON object with an id and an owner. Its kind says which members are searched and which are sealed.
Below: messages, query_dsl. Above: the store. All times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.messages import JsonObject
from gateway.query_dsl.field_mapping import FieldType, field_types

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 10_000
"""The most searched words and values of one document: writing them keeps other writes waiting."""
MAX_TEXT_CHARACTERS = 100_000
"""The longest text in a field whose words are searched."""
MAX_ID_LENGTH = 512
"""The longest id of a document."""


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of documents.

    `properties` are the searched fields, in the form of `properties` in an OpenSearch mapping. Other members are stored
    and not searched; no field is added dynamically. When `properties` change, stored documents are indexed again.
    `sealed` are JSON pointers (RFC 6901) to the members that are stored encrypted; `*` stands for every member or item.
    `types` are the searched fields by their paths. Ids are unique over all owners. With `own_ids` each owner has its
    own ids; such documents cannot be public.
    """

    name: str
    properties: Mapping[str, Any]
    sealed: tuple[str, ...] = ()
    own_ids: bool = False
    types: Mapping[str, FieldType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", field_types(self.properties))


@dataclass(frozen=True, slots=True)
class Document:
    """A document. `body` has the sealed members only if they were asked for.

    `version` is larger than the version of every document that was written before, deleted ones included.
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
    """Documents by kind and id. Like all writes of the store, those of documents happen in the order of the calls,
    whole, or raise StoreError.
    """

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
        """Create the document, or replace all of it. Returns its version.

        `if_version`: the version to replace, or 0 to create a new document; None: create or replace. With `thread_id`
        the document is deleted with that thread of its owner, in the same transaction. From now on no line of the log
        shows the sealed values. `most`: how many documents of this kind the owner may have.

        Raises:
            ConflictError: code `version_conflict`: the document has another version, or does not exist; `id_taken`: it
                exists already (`if_version` is 0), or belongs to another owner; `too_many`: the owner has `most`
                documents.
            NotFoundError: the owner has no such thread.
            InvalidRequestError: the value of a searched field does not have the field's type.
            TooLargeError: the document has more than MAX_DOCUMENT_BYTES, or more than MAX_ENTRIES
                to be searched, or a searched text has more than MAX_TEXT_CHARACTERS.
            UnavailableError: code `sealing_key_missing`: the store's own key was lost.
        """

    async def get(self, kind: DocumentKind, document_id: str, owner: str, *, unsealed: bool = False) -> Document | None:
        """The document, if it is the owner's or public. `unsealed`: with the sealed members, for code that uses them.

        Raises:
            UnavailableError: a sealed member cannot be decrypted (see documents.sealing.Sealing.open).
        """

    async def owner_of(self, kind: DocumentKind, document_id: str) -> str | None:
        """The owner of the document with this id; None: there is none. Not for kinds with `own_ids`."""

    async def owners(self, kind: DocumentKind) -> list[str]:
        """The owners who have, or had, documents of this kind that are not public."""

    async def page(self, kind: DocumentKind, owner: str, *, after: str = "", limit: int) -> list[Document]:
        """The documents that the owner may see, its own and public ones, in the order of their ids, after the id
        `after`.

        The time depends on `limit` alone, however many documents are stored.
        """

    async def delete(self, kind: DocumentKind, document_id: str, owner: str, if_version: int | None = None) -> bool:
        """Delete the owner's document. False: there is none.

        Raises:
            ConflictError: code `version_conflict`: it has another version.
        """

    async def search(self, kind: DocumentKind, body: JsonObject, owner: str) -> JsonObject:
        """The result of OpenSearch's `_search` over the documents that the owner may see: its own and public ones.

        No other document affects scores, totals or aggregations. A query for a field that the kind does not have finds
        nothing. Each hit also has `_version`, `_owner` and `_public`. Pages: `from`, `size` and `sort`, up to the
        10,000th hit; for later hits, a range query over the field of the sort.

        Raises:
            InvalidRequestError: code `invalid_search`: the search is wrong; `search_too_large`: it would take too long.
        """
