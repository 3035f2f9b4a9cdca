"""Documents as they are stored in the index, and back.

Below: document_fields, indices. Above: documents, document_search, document_transfer. What is searched is a projection,
which is not kept; everything else is text that no mapping knows. A document's version is its number in the index, after
the numbers of the store that it was moved from; one that was moved or indexed again names its version itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.documents.document import MAX_DOCUMENT_BYTES, Document, DocumentKind
from gateway.documents.sealing import key_ids_in
from gateway.embedded_index.document_values import searched_again
from gateway.errors import TooLargeError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.bulks import Place
from gateway.opensearch.document_fields import ANALYSIS, SEARCHED, Layout
from gateway.opensearch.ids import digest, new_token
from gateway.opensearch.indices import SETTINGS, mapping_of
from gateway.opensearch.run_record import thread_id_of
from gateway.owners import site_of
from gateway.query_dsl.field_mapping import SearchedObject
from gateway.records import dump_json, load_json

_KEYWORD: Final = {"type": "keyword"}
_FIELDS: Final[Mapping[str, Any]] = {
    "kind": _KEYWORD,
    "indexed_as": _KEYWORD,
    "place": _KEYWORD,
    "owner": _KEYWORD,
    "public": {"type": "boolean"},
    "thread": _KEYWORD,
    "site": _KEYWORD,
    "keys": _KEYWORD,
    "bytes": {"type": "long"},
    "version": {"type": "long"},
    SEARCHED: {"type": "object"},
    # has no values: for what is asked of fields that a kind does not have
    "nothing": {"properties": {"k": _KEYWORD, "d": {"type": "double"}, "n": {"type": "integer"}}},
}
INDEX: Final[JsonObject] = {
    "settings": {"index": {**SETTINGS, **ANALYSIS}},
    "mappings": {**mapping_of(_FIELDS), "_source": {"excludes": [SEARCHED]}},
}
META: Final = ["record", "version", "kind", "indexed_as"]
"""What of a stored document is needed to know everything but its body."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to be written: `source` and `sealed` are JSON. `version`: None is the next one of the index."""

    document_id: str
    owner: str
    public: bool
    thread_id: str | None
    source: bytes
    sealed: bytes | None
    searched: SearchedObject
    created_at: float
    updated_at: float
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document. `source` and `sealed` are empty if they were not asked for. `indexed_as`: the digest of the
    kind's fields by which it was indexed.
    """

    document_id: str
    owner: str
    public: bool
    thread_id: str | None
    created_at: float
    updated_at: float
    version: int
    place: Place
    kind: str
    indexed_as: str
    source: bytes = b""
    sealed: bytes | None = None

    def seen_by(self, owner: str) -> bool:
        return self.public or self.owner == owner

    def document(self, kind: DocumentKind) -> Document:
        return Document(
            kind.name,
            self.document_id,
            self.owner,
            self.version,
            load_json(self.source),
            self.created_at,
            self.updated_at,
            self.public,
            self.thread_id,
        )

    def again(self, layout: Layout) -> NewDocument:
        """The same document, to be indexed by the kind's fields of now."""
        return NewDocument(
            self.document_id,
            self.owner,
            self.public,
            self.thread_id,
            self.source,
            self.sealed,
            searched_again(self.source, layout.kind.types),
            self.created_at,
            self.updated_at,
            self.version,
        )


def keys_of(kind: DocumentKind, document_id: str, owner: str) -> list[str]:
    """The `_id`s that the document may have in the index; the first is that of a new one. One that was moved in has the
    last: what is moved does not say whether the kind has `own_ids`.
    """
    own, shared = own_key(kind.name, document_id, owner), shared_key(kind.name, document_id)
    return [own, shared] if kind.own_ids else [shared]


def own_key(kind_name: str, document_id: str, owner: str) -> str:
    return digest(kind_name, owner, document_id)


def shared_key(kind_name: str, document_id: str) -> str:
    return digest(kind_name, document_id)


def place_of(document_id: str) -> str:
    """A text by which ids are in order: by their UTF-8, and behind all others those with half a surrogate pair."""
    try:
        return f"0{document_id.encode().hex()}"
    except UnicodeEncodeError:
        return f"1{document_id.encode('utf-8', 'surrogatepass').hex()}"


def id_at(place: str) -> str:
    """The id that has the place."""
    return bytes.fromhex(place[1:]).decode("utf-8", "surrogatepass")


def encoded(layout: Layout, new: NewDocument) -> bytes:
    """The stored document as JSON, in a form that Sources can read.

    Raises:
        TooLargeError: its sealed members are too large.
    """
    if len(new.sealed or b"") > 2 * MAX_DOCUMENT_BYTES:
        raise TooLargeError(f"the secrets of the {layout.kind.name} are too large; at most 4 MiB are stored")
    record: list[JsonValue] = [
        new.document_id,
        new.owner,
        new.public,
        new.thread_id,
        new.created_at,
        new.updated_at,
    ]
    stored: dict[str, Any] = {
        "token": new_token(),
        "parts": 0,
        "kind": layout.kind.name,
        "indexed_as": layout.digest,
        "place": place_of(new.document_id),
        "owner": digest(new.owner),
        "public": new.public,
        "bytes": len(new.source) + len(new.sealed or b""),
        "record": dump_json(record).decode(),
        "body": new.source.decode(),
        SEARCHED: layout.values(new.searched),
    }
    if new.thread_id is not None:
        stored["thread"] = thread_id_of(new.owner, new.thread_id)
    if (site := site_of(new.owner)) is not None:
        stored["site"] = digest(site)
    if new.sealed is not None:
        stored |= {"sealed": new.sealed.decode(), "keys": sorted(key_ids_in(load_json(new.sealed)))}
    if new.version is not None:
        stored["version"] = new.version
    return orjson.dumps(stored)


def no_document() -> bytes:
    """What stands in the place of a document that may still be created by a request that was given up."""
    return orjson.dumps({"token": new_token(), "parts": 0, "record": ""})


def place_in(found: Mapping[str, Any]) -> Place:
    """The state of what stands in a document's place."""
    return Place(found["_seq_no"], found["_primary_term"])


def decoded(found: Mapping[str, Any], base: int) -> Stored | None:
    """A stored document in the form in which the cluster gives it; None: it is `no_document`. `base`: versions of the
    index come after it.
    """
    source = found["_source"]
    if not source["record"]:
        return None
    document_id, owner, public, thread_id, created_at, updated_at = load_json(source["record"].encode())
    place = place_in(found)
    version = source.get("version", base + place.seq_no + 1)
    sealed = source.get("sealed")
    return Stored(
        document_id,
        owner,
        public,
        thread_id,
        created_at,
        updated_at,
        version,
        place,
        source["kind"],
        source["indexed_as"],
        source.get("body", "").encode(),
        None if sealed is None else sealed.encode(),
    )
