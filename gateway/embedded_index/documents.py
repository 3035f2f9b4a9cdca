"""Indices of JSON documents in one SQLite database: how documents are stored so that they can be found.

Words are in FTS5 tables, one for each text field, so that BM25 counts within one field. All other values are rows of
one table. These functions block; the caller runs them in its own thread. Below: query_dsl.field_mapping. Above:
evaluation.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import orjson

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue, new_id
from gateway.query_dsl.field_mapping import FieldType, MappingError, document_values, extend_properties, field_types

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE indices (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, properties BLOB NOT NULL);
CREATE TABLE documents (
    row INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, id TEXT NOT NULL, source BLOB NOT NULL, UNIQUE (index_id, id)
);
CREATE TABLE fields (id INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, path TEXT NOT NULL, UNIQUE (index_id, path));
CREATE TABLE field_values (field INTEGER NOT NULL, document INTEGER NOT NULL, text TEXT, number NUMERIC);
CREATE INDEX values_by_text ON field_values (field, text);
CREATE INDEX values_by_number ON field_values (field, number);
CREATE INDEX values_by_document ON field_values (document);
"""
# ... and `words_<field id>` for each text field.

_INDEX_NAME = re.compile(r"^[^A-Z\s\\/*?\"<>|,#:_+\-][^A-Z\s\\/*?\"<>|,#:]{0,254}$")


@dataclass(frozen=True, slots=True)
class Index:
    """An index: `properties` as a mapping has them, `types` the fields in them by their dotted paths."""

    id: int
    name: str
    properties: dict[str, Any]
    types: Mapping[str, FieldType]


def prepare(database: sqlite3.Connection) -> None:
    """Create the tables if there are none.

    Raises:
        ToolError: the file is no search index of this version.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == _SCHEMA_VERSION:
        return
    if version or database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise ToolError("the search index's file is not one of this version of the gateway; name another file")
    database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")


def _indices(database: sqlite3.Connection) -> list[Index]:
    rows = database.execute("SELECT id, name, properties FROM indices ORDER BY name")
    return [Index(id_, name, found := orjson.loads(text), field_types(found)) for id_, name, text in rows]


def find_indices(database: sqlite3.Connection, names: Sequence[str]) -> list[Index]:
    """The indices of these names, which may be patterns; none: all there are.

    Raises:
        ToolError: no index of that name.
    """
    there = _indices(database)
    if not names:
        return there
    found: dict[str, Index] = {}
    for name in names:
        pattern = "*" if name == "_all" else name
        fitting = [index for index in there if fnmatchcase(index.name, pattern.replace("[", "[[]"))]
        if not fitting and "*" not in pattern:
            listed = ", ".join(index.name for index in there) or "none"
            raise ToolError(f"no such index [{name}]; there are: {listed}")
        found.update((index.name, index) for index in fitting)
    return list(found.values())


def count_documents(database: sqlite3.Connection) -> int:
    """About how many documents all indices have. A replaced document counts again."""
    (last,) = database.execute("SELECT max(row) FROM documents").fetchone()
    return last or 0


def described(index: Index) -> JsonValue:
    """Mappings and settings, as `GET /{index}` has them."""
    settings = {"number_of_shards": "1", "number_of_replicas": "0", "provided_name": index.name, "uuid": _uuid(index)}
    return {"mappings": {"properties": index.properties}, "settings": {"index": dict(settings)}}


def cat_row(database: sqlite3.Connection, index: Index) -> JsonObject:
    """A row of `_cat/indices?format=json`. The size is that of the documents as they were given."""
    count, size = database.execute(
        "SELECT count(*), coalesce(sum(length(source)), 0) FROM documents WHERE index_id = ?", (index.id,)
    ).fetchone()
    shown = f"{size}b" if size < 1024 else f"{size / 1024:.1f}kb" if size < 1024**2 else f"{size / 1024**2:.1f}mb"
    return {
        "health": "green",
        "status": "open",
        "index": index.name,
        "uuid": _uuid(index),
        "pri": "1",
        "rep": "0",
        "docs.count": str(count),
        "docs.deleted": "0",
        "store.size": shown,
        "pri.store.size": shown,
    }


def _uuid(index: Index) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(index.name.encode()).digest())[:22].decode()


def put_documents(
    database: sqlite3.Connection,
    name: str,
    documents: Sequence[Mapping[str, JsonValue]],
    mappings: Mapping[str, Any] | None,
) -> list[str]:
    """Put documents in, all or none; gives their ids.

    Raises:
        ToolError: the name or the mapping does not fit.
        MappingError: a document does not fit.
    """
    if not _INDEX_NAME.match(name):
        raise ToolError(
            f'{name!r} cannot be the name of an index: lower case, without spaces or any of \\ / * ? " < > | ,'
        )
    database.execute("BEGIN IMMEDIATE")
    try:
        index = _extended_index(database, name, documents, mappings)
        ids = [_put(database, index, document) for document in documents]
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    return ids


def _extended_index(
    database: sqlite3.Connection,
    name: str,
    documents: Sequence[Mapping[str, JsonValue]],
    mappings: Mapping[str, Any] | None,
) -> Index:
    row = database.execute("SELECT id, properties FROM indices WHERE name = ?", (name,)).fetchone()
    properties: dict[str, Any] = orjson.loads(row[1]) if row else {}
    for field, definition in (mappings or {}).get("properties", {}).items():
        if properties.setdefault(field, definition) != definition:
            raise ToolError(f"the field {field!r} of the index {name!r} has another type already")
    for document in documents:
        extend_properties(properties, _content(document))
    types = field_types(properties)
    database.execute(
        "INSERT INTO indices (name, properties) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET properties = excluded.properties",
        (name, orjson.dumps(properties)),
    )
    (id_,) = database.execute("SELECT id FROM indices WHERE name = ?", (name,)).fetchone()
    known = {path for (path,) in database.execute("SELECT path FROM fields WHERE index_id = ?", (id_,))}
    for path, kind in types.items():
        if path not in known:
            added = database.execute("INSERT INTO fields (index_id, path) VALUES (?, ?)", (id_, path))
            if kind.kind == "text":
                database.execute(
                    f"CREATE VIRTUAL TABLE words_{added.lastrowid} "
                    "USING fts5 (words, tokenize = 'unicode61 remove_diacritics 2')"
                )
    return Index(id_, name, properties, types)


def _content(document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in document.items() if key != "_id"}


def _put(database: sqlite3.Connection, index: Index, document: Mapping[str, JsonValue]) -> str:
    fields = dict(database.execute("SELECT path, id FROM fields WHERE index_id = ?", (index.id,)).fetchall())
    text_fields = {path: fields[path] for path, kind in index.types.items() if kind.kind == "text"}
    id_ = str(document.get("_id") or new_id("doc"))
    old = database.execute("SELECT row FROM documents WHERE index_id = ? AND id = ?", (index.id, id_)).fetchone()
    if old is not None:
        database.execute("DELETE FROM documents WHERE row = ?", old)
        database.execute("DELETE FROM field_values WHERE document = ?", old)
        for field in text_fields.values():
            database.execute(f"DELETE FROM words_{field} WHERE rowid = ?", old)
    content = _content(document)
    try:
        source = orjson.dumps(content)
    except TypeError as error:
        raise MappingError(f"the document {id_!r} is not JSON") from error
    row = database.execute(
        "INSERT INTO documents (index_id, id, source) VALUES (?, ?, ?)", (index.id, id_, source)
    ).lastrowid
    words: dict[str, list[str]] = {}
    for value in document_values(content, index.types):
        if value.kind == "text":
            words.setdefault(value.field, []).append(value.text or "")
        text = None if value.kind == "text" else value.text
        database.execute("INSERT INTO field_values VALUES (?, ?, ?, ?)", (fields[value.field], row, text, value.number))
    for path, texts in words.items():
        database.execute(f"INSERT INTO words_{text_fields[path]} (rowid, words) VALUES (?, ?)", (row, "\n".join(texts)))
    return id_
