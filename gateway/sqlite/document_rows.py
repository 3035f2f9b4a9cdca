"""Documents as rows, with their index entries.

Below: embedded_index, row_values. Above: message_rows, which deletes those of a thread, and documents. Every function
takes a connection inside a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.documents.checks import check_change, check_number, no_thread
from gateway.documents.document import Document, DocumentKind
from gateway.documents.sealing import key_ids_in
from gateway.embedded_index.budget import Budget, SearchSteps
from gateway.embedded_index.document_values import searched_again
from gateway.embedded_index.documents import Index
from gateway.embedded_index.entries import (
    ENTRIES_VERSION,
    add_entries,
    add_fields,
    field_numbers,
    remove_entries,
)
from gateway.embedded_index.search import search_in
from gateway.embedded_index.search_slots import Rest
from gateway.messages import JsonObject
from gateway.query_dsl.field_mapping import SearchedObject, field_types
from gateway.query_dsl.search_body import parse_search_body
from gateway.records import load_json
from gateway.sqlite import stored_bytes
from gateway.sqlite.row_values import from_text, to_text
from gateway.sqlite.schema import has_documents, make_documents
from gateway.store.transfer import MovedDocument, MovedIndex

_SLICE_ROWS = 100
_SLICE_BYTES = 200_000
# Half the steps that a search by the search tools may take: one search runs at a time.
_STEPS = SearchSteps(500_000, 10)
_BYTES_PER_STEP = 100  # of the hits' documents: at most about 50 MB

# A document of a deleted thread is gone for everybody, although its row still exists: see sweep_thread.
_DELETED_THREADS = "SELECT key FROM threads WHERE owner = x''"
_GONE = f"SELECT row FROM documents WHERE thread IN ({_DELETED_THREADS})"
_COLUMNS = (
    "row, index_id, owner, source, created_at, updated_at, thread, sealed,"
    f" ifnull(thread IN ({_DELETED_THREADS}), 0) AS is_gone"
)

BY_ID = f"SELECT {_COLUMNS} FROM documents WHERE kind = ? AND id = ?"
# An object in a nested field has NULL as its id, which is not greater than any id.
PAGE = (
    f"SELECT id, {_COLUMNS} FROM documents WHERE index_id = ? AND id > ?"
    f" AND (thread IS NULL OR thread NOT IN ({_DELETED_THREADS})) ORDER BY id LIMIT ?"
)


class StaleIndexError(Exception):
    """Documents are indexed by fields that their kind had in an older version."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to be written: `source` and `sealed` are JSON, `searched` has the values to be indexed."""

    document_id: str
    owner: str
    public: bool
    thread_id: str | None
    source: bytes
    sealed: bytes | None
    searched: SearchedObject


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    index: int
    owner: str
    source: bytes
    created_at: float
    updated_at: float
    thread: int | None
    sealed: bytes | None
    is_gone: bool

    @property
    def size(self) -> int:
        return len(self.source) + len(self.sealed or b"")


def put(
    connection: sqlite3.Connection,
    kind: DocumentKind,
    new: NewDocument,
    if_version: int | None,
    now: float,
    most: int | None = None,
) -> int:
    """Write the document; gives its version. Raises as DocumentStore.put."""
    make_documents(connection)
    old = _find(connection, kind, new.document_id, new.owner)
    if old is not None and old.is_gone:
        _remove(connection, old)
        old = None
    _check(old, kind, new.document_id, new.owner, if_version)
    if old is None and most is not None:
        _check_number(connection, kind, new.owner, most)
    thread = None if new.thread_id is None else _thread(connection, new.owner, new.thread_id)
    if old is not None:
        _remove(connection, old)
        stored_bytes.count(connection, new.owner, -old.size)
    index = _index(connection, kind, new.owner, public=new.public)
    _reindex(connection, kind, index)
    added = connection.execute(
        "INSERT INTO documents (index_id, id, source, kind, owner, created_at, updated_at, thread, sealed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(index, to_text(new.document_id), new.source, kind.name, to_text(new.owner)),
            *(now if old is None else old.created_at, now, thread, new.sealed),
        ),
    )
    version = added.lastrowid or 0
    fields = add_fields(connection, index, kind.types)
    add_entries(connection, index, fields, version, new.searched)
    stored_bytes.count(connection, new.owner, len(new.source) + len(new.sealed or b""))
    return version


def read(
    connection: sqlite3.Connection, kind: DocumentKind, document_id: str, owner: str
) -> tuple[Document, Mapping[str, str]] | None:
    """The document, if the owner may see it, and its sealed members."""
    found = _find(connection, kind, document_id, owner)
    if found is None or found.is_gone:
        return None
    public = _is_public(connection, found)
    if found.owner != owner and not public:
        return None
    document = _document(connection, kind, document_id, found, public=public)
    return document, {} if found.sealed is None else load_json(found.sealed)


def page(connection: sqlite3.Connection, kind: DocumentKind, owner: str, after: str, limit: int) -> list[Document]:
    """The documents that the owner may see, in the order of their ids, after the id `after`."""
    found = [
        (document_id, _row(columns), public)
        for index, public, _ in _seen_indices(connection, kind, owner)
        for document_id, *columns in connection.execute(PAGE, (index, to_text(after), limit))
    ]
    found.sort(key=lambda each: _place(each[0]))
    return [
        _document(connection, kind, from_text(document_id), row, public=public)
        for document_id, row, public in found[:limit]
    ]


def read_owner(connection: sqlite3.Connection, kind: DocumentKind, document_id: str) -> str | None:
    """The owner of the document with that id; None if there is no such document."""
    found = _find(connection, kind, document_id, "")
    return None if found is None or found.is_gone else found.owner


def read_owners(connection: sqlite3.Connection, kind: DocumentKind) -> list[str]:
    """The owners who have, or had, documents of this kind that are not public."""
    if not has_documents(connection):
        return []
    rows = connection.execute("SELECT owner FROM document_indices WHERE kind = ? AND public = 0", (kind.name,))
    return [from_text(owner) for (owner,) in rows]


def delete(
    connection: sqlite3.Connection, kind: DocumentKind, document_id: str, owner: str, if_version: int | None
) -> bool:
    """Delete the owner's document. Raises as DocumentStore.delete."""
    found = _find(connection, kind, document_id, owner)
    if found is None or found.is_gone or found.owner != owner:
        return False
    _check(found, kind, document_id, owner, if_version)
    _remove(connection, found)
    stored_bytes.count(connection, owner, -found.size)
    return True


def search(
    connection: sqlite3.Connection, kind: DocumentKind, body: JsonObject, owner: str, now: float, rest: Rest
) -> JsonObject:
    """The result of `_search`, at `now`, over the owner's documents and the public ones. `rest` lets others work.

    Raises:
        QueryError, MappingError, ToolError: as embedded_index.search_in.
        StaleIndexError: the documents must be indexed again first.
    """
    asked = parse_search_body(body)
    types, seen = kind.types, _seen_indices(connection, kind, owner)
    if any(searched != _searched_by(kind) for _, _, searched in seen):
        raise StaleIndexError
    indices = {index: public for index, public, _ in seen}
    count = "SELECT count(*) FROM documents WHERE index_id = ?"
    documents = sum(connection.execute(count, (index,)).fetchone()[0] for index in indices)
    gone = {row for (row,) in connection.execute(_GONE)} if indices else set()

    budget = Budget(documents, _STEPS, rest, owns_connection=True)

    def hit(row: int) -> tuple[JsonObject, JsonObject]:
        document_id, source, index, whose = connection.execute(
            "SELECT id, source, index_id, owner FROM documents WHERE row = ?", (row,)
        ).fetchone()
        budget.spend(len(source) // _BYTES_PER_STEP)
        members: JsonObject = {"_id": from_text(document_id), "_version": row, "_owner": from_text(whose)}
        return {**members, "_public": indices[index]}, load_json(source)

    searched = [Index(index, kind.name, types) for index in indices]
    return search_in(connection, searched, asked, budget, hit, now=now, hidden=gone, strict=False)


def sweep_thread(connection: sqlite3.Connection, thread: int) -> bool:
    """Delete a slice of the documents of a deleted thread. Gives whether there were any."""
    if not has_documents(connection):
        return False
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM documents WHERE thread = ? LIMIT ?", (thread, _SLICE_ROWS)
    ).fetchall()
    size = 0
    for row in map(_row, rows):
        _remove(connection, row)
        size += row.size
        if size > _SLICE_BYTES:
            break
    return bool(rows)


def reindex(connection: sqlite3.Connection, kind: DocumentKind, owner: str) -> None:
    """Index the documents that the owner may see again, if the kind's fields have changed."""
    for index, _, _ in _seen_indices(connection, kind, owner):
        _reindex(connection, kind, index)


def sealed_key_ids(connection: sqlite3.Connection) -> set[str]:
    """The ids of the keys that open the sealed members of all documents."""
    if not has_documents(connection):
        return set()
    rows = connection.execute("SELECT sealed FROM documents WHERE sealed IS NOT NULL")
    return {key_id for (sealed,) in rows for key_id in key_ids_in(load_json(sealed))}


def any_sealed(connection: sqlite3.Connection) -> bool:
    """Whether any document has sealed members."""
    return (
        has_documents(connection)
        and connection.execute("SELECT 1 FROM documents WHERE sealed IS NOT NULL LIMIT 1").fetchone() is not None
    )


def read_every_document(connection: sqlite3.Connection) -> Iterator[MovedIndex | MovedDocument]:
    """All indices, each with its documents by version."""
    for index, kind, owner, public, searched in connection.execute(
        "SELECT id, kind, owner, public, searched FROM document_indices ORDER BY id"
    ):
        yield MovedIndex(kind, _properties(searched).encode(), from_text(owner), bool(public))
        for document_id, *columns in connection.execute(
            f"SELECT id, {_COLUMNS} FROM documents WHERE index_id = ? AND id IS NOT NULL ORDER BY row", (index,)
        ):
            row = _row(columns)
            if not row.is_gone:
                thread_id = None if row.thread is None else _thread_id(connection, row.thread)
                content = (row.number, row.source, row.created_at, row.updated_at, thread_id, row.sealed)
                yield MovedDocument(from_text(document_id), row.owner, *content)


class RestoredIndex:
    """An index of another store, whose documents are to be inserted."""

    def __init__(self, connection: sqlite3.Connection, index: MovedIndex) -> None:
        make_documents(connection)
        self._connection = connection
        self._kind = index.kind
        self._types = field_types(orjson.loads(index.properties))
        searched = f"{ENTRIES_VERSION} {index.properties.decode()}"
        added = connection.execute(
            "INSERT INTO document_indices (kind, owner, public, searched) VALUES (?, ?, ?, ?)",
            (index.kind, to_text(index.owner), index.public, searched),
        )
        self._id = added.lastrowid or 0
        self._fields = add_fields(connection, self._id, self._types)

    def insert(self, document: MovedDocument) -> None:
        thread = None if document.thread_id is None else _thread(self._connection, document.owner, document.thread_id)
        self._connection.execute(
            "INSERT INTO documents (row, index_id, id, source, kind, owner, created_at, updated_at, thread, sealed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(document.version, self._id, to_text(document.document_id), document.source, self._kind),
                *(to_text(document.owner), document.created_at, document.updated_at, thread, document.sealed),
            ),
        )
        searched = searched_again(document.source, self._types)
        add_entries(self._connection, self._id, self._fields, document.version, searched)


def _document(
    connection: sqlite3.Connection, kind: DocumentKind, document_id: str, row: _Row, *, public: bool
) -> Document:
    return Document(
        kind.name,
        document_id,
        row.owner,
        row.number,
        load_json(row.source),
        row.created_at,
        row.updated_at,
        public,
        None if row.thread is None else _thread_id(connection, row.thread),
    )


def _place(document_id: str | bytes) -> tuple[bool, bytes]:
    """A key that sorts ids as SQLite does: first text by its bytes, then ids that are stored as bytes."""
    return (False, document_id.encode()) if isinstance(document_id, str) else (True, document_id)


def _find(connection: sqlite3.Connection, kind: DocumentKind, document_id: str, owner: str) -> _Row | None:
    """The document with that id, even if its thread is deleted or it belongs to another owner."""
    if not has_documents(connection):
        return None
    whose = " AND owner = ?" if kind.own_ids else ""
    values = (kind.name, to_text(document_id), to_text(owner)) if kind.own_ids else (kind.name, to_text(document_id))
    found = connection.execute(BY_ID + whose, values).fetchone()
    return None if found is None else _row(found)


def _row(columns: Sequence[Any]) -> _Row:
    number, index, owner, source, created_at, updated_at, thread, sealed, is_gone = columns
    return _Row(number, index, from_text(owner), source, created_at, updated_at, thread, sealed, bool(is_gone))


def _check(old: _Row | None, kind: DocumentKind, document_id: str, owner: str, if_version: int | None) -> None:
    check_change(kind, document_id, owner, None if old is None else (old.owner, old.number), if_version)


def _check_number(connection: sqlite3.Connection, kind: DocumentKind, owner: str, most: int) -> None:
    number = sum(
        connection.execute(
            f"SELECT count(*) FROM documents WHERE index_id = ? AND id IS NOT NULL{' AND owner = ?' if public else ''}",
            (index, to_text(owner)) if public else (index,),
        ).fetchone()[0]
        for index, public, _ in _seen_indices(connection, kind, owner)
    )
    check_number(kind, number, most)


def _remove(connection: sqlite3.Connection, old: _Row) -> None:
    """Delete the document and its index entries."""
    (searched,) = connection.execute("SELECT searched FROM document_indices WHERE id = ?", (old.index,)).fetchone()
    types = field_types(orjson.loads(_properties(searched)))
    fields = field_numbers(connection, old.index)
    remove_entries(connection, fields, old.number, searched_again(old.source, types))
    connection.execute("DELETE FROM documents WHERE row = ?", (old.number,))


def _index(connection: sqlite3.Connection, kind: DocumentKind, owner: str, *, public: bool) -> int:
    values = (kind.name, "" if public else to_text(owner), public)
    connection.execute(
        "INSERT OR IGNORE INTO document_indices (kind, owner, public, searched) VALUES (?, ?, ?, ?)",
        (*values, _searched_by(kind)),
    )
    found = connection.execute("SELECT id FROM document_indices WHERE kind = ? AND owner = ? AND public = ?", values)
    return int(found.fetchone()[0])


def _reindex(connection: sqlite3.Connection, kind: DocumentKind, index: int) -> None:
    (before,) = connection.execute("SELECT searched FROM document_indices WHERE id = ?", (index,)).fetchone()
    searched, types = _searched_by(kind), kind.types
    if before == searched:
        return
    for table in ("words", "field_values"):
        connection.execute(f"DELETE FROM {table} WHERE field IN (SELECT id FROM fields WHERE index_id = ?)", (index,))
    connection.execute("DELETE FROM documents WHERE index_id = ? AND parent IS NOT NULL", (index,))
    fields = add_fields(connection, index, types)
    rows = connection.execute("SELECT row, source FROM documents WHERE index_id = ?", (index,)).fetchall()
    for row, source in rows:
        add_entries(connection, index, fields, row, searched_again(source, types))
    connection.execute("UPDATE document_indices SET searched = ? WHERE id = ?", (searched, index))


def _seen_indices(connection: sqlite3.Connection, kind: DocumentKind, owner: str) -> list[tuple[int, bool, str]]:
    """The indices that the owner may search: the key of each, whether its documents are public, and its `searched`."""
    if not has_documents(connection):
        return []
    rows = connection.execute(
        "SELECT id, public, searched FROM document_indices WHERE kind = ? AND owner = ? AND public = 0"
        " UNION ALL SELECT id, public, searched FROM document_indices WHERE kind = ? AND owner = '' AND public = 1",
        (kind.name, to_text(owner), kind.name),
    ).fetchall()
    return [(index, bool(public), searched) for index, public, searched in rows]


def _is_public(connection: sqlite3.Connection, found: _Row) -> bool:
    return bool(connection.execute("SELECT public FROM document_indices WHERE id = ?", (found.index,)).fetchone()[0])


def _thread(connection: sqlite3.Connection, owner: str, thread_id: str) -> int:
    found = connection.execute(
        "SELECT key FROM threads WHERE owner = ? AND id = ?", (to_text(owner), to_text(thread_id))
    ).fetchone()
    if found is None:
        raise no_thread(thread_id)
    return int(found[0])


def _thread_id(connection: sqlite3.Connection, thread: int) -> str:
    return from_text(connection.execute("SELECT id FROM threads WHERE key = ?", (thread,)).fetchone()[0])


def _searched_by(kind: DocumentKind) -> str:
    """Identifies how documents of this kind are indexed: the version of the entries, and the fields."""
    return f"{ENTRIES_VERSION} {orjson.dumps(dict(kind.properties)).decode()}"


def _properties(searched: str) -> str:
    """The fields in what `_searched_by` gave, as JSON."""
    return searched.partition(" ")[2]
