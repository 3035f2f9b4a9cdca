"""Indices of JSON documents in the file of the embedded search engine.

These functions block; the caller runs them in its own thread. Below: entries. Above: evaluation.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import orjson

from gateway.embedded_index.entries import TABLES, add_entries, add_fields, field_numbers, remove_entries
from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue, new_id
from gateway.query_dsl.field_mapping import FieldType, MappingError, extend_properties, field_types, searched_object

_SCHEMA_VERSION = 2
_SCHEMA = (
    "CREATE TABLE indices (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, properties BLOB NOT NULL)",
    "CREATE TABLE documents (row INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, id TEXT, source BLOB,"
    " path TEXT NOT NULL DEFAULT '', parent INTEGER, UNIQUE (index_id, id))",
    "CREATE INDEX documents_by_path ON documents (index_id, path)",
    "CREATE INDEX documents_by_parent ON documents (parent) WHERE parent IS NOT NULL",
    *TABLES,
)

_INDEX_NAME = re.compile(r"^[^A-Z\s\\/*?\"<>|,#:_+\-][^A-Z\s\\/*?\"<>|,#:]{0,254}$")


@dataclass(frozen=True, slots=True)
class Index:
    """An index: `types` are its fields by their dotted paths, `properties` the same fields as a mapping has them."""

    id: int
    name: str
    types: Mapping[str, FieldType]
    properties: Mapping[str, Any] = field(default_factory=dict)


def prepare(database: sqlite3.Connection) -> None:
    """Create the tables if there are none, or convert those of the previous version.

    Raises:
        ToolError: the file is no search index of this version.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == _SCHEMA_VERSION:
        return
    is_empty = database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if version != 1 and not (version == 0 and is_empty):
        raise ToolError("the search index's file is not one of this version of the gateway; name another file")
    with transaction(database):
        documents = _take_out(database) if version == 1 else []
        for statement in _SCHEMA:
            database.execute(statement)
        for name, properties, found in documents:
            index = _extended_index(database, name, [], {"properties": orjson.loads(properties)})
            for id_, source in found:
                _put(database, index, {**orjson.loads(source), "_id": id_})
        database.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _take_out(database: sqlite3.Connection) -> list[tuple[str, bytes, list[tuple[str, bytes]]]]:
    """Read each index's name, properties and documents from the first version's tables, and drop these."""
    found = [
        (
            name,
            properties,
            database.execute("SELECT id, source FROM documents WHERE index_id = ? ORDER BY row", (id_,)).fetchall(),
        )
        for id_, name, properties in database.execute("SELECT id, name, properties FROM indices").fetchall()
    ]
    words = database.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'").fetchall()
    for (table,) in [*words, ("indices",), ("documents",), ("fields",), ("field_values",)]:
        database.execute(f'DROP TABLE "{table}"')
    return found


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Keep all writes of the block, or none if it fails."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def _indices(database: sqlite3.Connection) -> list[Index]:
    rows = database.execute("SELECT id, name, properties FROM indices ORDER BY name")
    return [Index(id_, name, field_types(found := orjson.loads(text)), found) for id_, name, text in rows]


def find_indices(database: sqlite3.Connection, names: Sequence[str]) -> list[Index]:
    """The indices with these names, which may be patterns; without names, all indices.

    Raises:
        ToolError: there is no index of that name.
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
    """About how many documents all indices have, hidden ones included. A replaced document counts again."""
    (last,) = database.execute("SELECT max(row) FROM documents").fetchone()
    return last or 0


def described(index: Index) -> JsonValue:
    """The index's mappings and settings, in the form of `GET /{index}`."""
    settings = {"number_of_shards": "1", "number_of_replicas": "0", "provided_name": index.name, "uuid": _uuid(index)}
    return {"mappings": {"properties": dict(index.properties)}, "settings": {"index": dict(settings)}}


def cat_row(database: sqlite3.Connection, index: Index) -> JsonObject:
    """The index's row of `_cat/indices?format=json`. As there, the objects in nested fields count as documents.

    The size is that of the documents' JSON.
    """
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
    with transaction(database):
        index = _extended_index(database, name, documents, mappings)
        return [_put(database, index, document) for document in documents]


def _extended_index(
    database: sqlite3.Connection,
    name: str,
    documents: Sequence[Mapping[str, JsonValue]],
    mappings: Mapping[str, Any] | None,
) -> Index:
    row = database.execute("SELECT id, properties FROM indices WHERE name = ?", (name,)).fetchone()
    properties: dict[str, Any] = orjson.loads(row[1]) if row else {}
    for path, definition in (mappings or {}).get("properties", {}).items():
        if properties.setdefault(path, definition) != definition:
            raise ToolError(f"the field {path!r} of the index {name!r} has another type already")
    for document in documents:
        extend_properties(properties, _content(document))
    types = field_types(properties)
    database.execute(
        "INSERT INTO indices (name, properties) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET properties = excluded.properties",
        (name, orjson.dumps(properties)),
    )
    (id_,) = database.execute("SELECT id FROM indices WHERE name = ?", (name,)).fetchone()
    add_fields(database, id_, types)
    return Index(id_, name, types, properties)


def _content(document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in document.items() if key != "_id"}


def _put(database: sqlite3.Connection, index: Index, document: Mapping[str, JsonValue]) -> str:
    fields = field_numbers(database, index.id)
    id_ = str(document.get("_id") or new_id("doc"))
    old = database.execute(
        "SELECT row, source FROM documents WHERE index_id = ? AND id = ?", (index.id, id_)
    ).fetchone()
    if old is not None:
        remove_entries(database, fields, old[0], searched_object(orjson.loads(old[1]), index.types))
        database.execute("DELETE FROM documents WHERE row = ?", old[:1])
    content = _content(document)
    try:
        source = orjson.dumps(content)
    except TypeError as error:
        raise MappingError(f"the document {id_!r} is not JSON") from error
    added = database.execute("INSERT INTO documents (index_id, id, source) VALUES (?, ?, ?)", (index.id, id_, source))
    add_entries(database, index.id, fields, added.lastrowid or 0, searched_object(content, index.types))
    return id_
