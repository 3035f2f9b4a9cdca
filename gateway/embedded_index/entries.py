"""The index entries of documents: the values of their fields, and the words of their texts.

The file of the embedded search engine and the store's have these tables, each in its own database. An entry belongs to
a row of the table `documents` of the same database. An object in a nested field has a hidden row there: its `path` is
the field, its `parent` the row of the document or object that contains it. Below: query_dsl.field_mapping. Above:
words, documents and the store.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from unicodedata import normalize

from gateway.query_dsl.field_mapping import FieldType, SearchedObject, flat_values

ENTRIES_VERSION = 1
"""Raise it when the entries of a document change: stored documents are indexed again then."""

# The `number` of a text is its number of words.
TABLES = (
    "CREATE TABLE fields (id INTEGER PRIMARY KEY, index_id INTEGER NOT NULL, path TEXT NOT NULL,"
    " UNIQUE (index_id, path))",
    "CREATE TABLE field_values (field INTEGER NOT NULL, document INTEGER NOT NULL, text TEXT, number NUMERIC)",
    "CREATE INDEX values_by_text ON field_values (field, text)",
    "CREATE INDEX values_by_number ON field_values (field, number)",
    "CREATE INDEX values_by_document ON field_values (document)",
    "CREATE TABLE words (field INTEGER NOT NULL, word TEXT NOT NULL, document INTEGER NOT NULL,"
    " length INTEGER NOT NULL, positions BLOB NOT NULL, PRIMARY KEY (field, word, document)) WITHOUT ROWID",
)

POSITION_BYTES = 4
_GAP = 100  # positions between two texts of one field: no phrase spans both

_ACCENTS = re.compile("[\u0300-\u036f]")
# Nearly the word boundaries of Unicode (UAX 29), like OpenSearch's standard analyzer. A word may contain an apostrophe
# or a full stop ("don't"), a number separators ("3,519,000"). Each Chinese or hiragana character is a word.
_IDEOGRAPH = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|(?:[^\W{_IDEOGRAPH}]|(?<=[^\W\d_])['\u2019.](?=[^\W\d_])|(?<=\d)[.,;](?=\d))+")


def folded(text: str) -> str:
    """The text in lower case and without accents: the form in which words are compared."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", text.lower())))


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return [word for word in _WORD.findall(folded(text).replace("\u2019", "'")) if word.strip("_")]


def has_more_entries(content: SearchedObject, most: int) -> bool:
    """Whether the content has more than `most` values, words and nested objects."""
    return next(islice(_entries(content), most, None), None) is not None


def _entries(content: SearchedObject) -> Iterator[object]:
    for value in content.values:
        yield value
        if value.kind == "text":
            yield from _WORD.finditer(folded(value.text or ""))
    for inner in content.inner:
        yield inner
        yield from _entries(inner)


def field_numbers(database: sqlite3.Connection, index: int) -> dict[str, int]:
    """The ids of an index's fields, by their paths."""
    return dict(database.execute("SELECT path, id FROM fields WHERE index_id = ?", (index,)).fetchall())


def add_fields(database: sqlite3.Connection, index: int, types: Mapping[str, FieldType]) -> dict[str, int]:
    """The ids of an index's fields, by their paths. New fields get an id."""
    known = field_numbers(database, index)
    hidden = (flat_values(path) for path, each in types.items() if each.kind == "flat_object")
    for path in (*types, *hidden):
        if path not in known:
            added = database.execute("INSERT INTO fields (index_id, path) VALUES (?, ?)", (index, path))
            known[path] = added.lastrowid or 0
    return known


def add_entries(
    database: sqlite3.Connection, index: int, fields: Mapping[str, int], row: int, content: SearchedObject
) -> None:
    """Store the index entries of a document. `fields` are the ids that `add_fields` gave."""
    texts: dict[str, list[str]] = {}
    rows: list[tuple[int, int, str | None, int | float | None]] = []
    for value in content.values:
        if value.kind == "text":
            texts.setdefault(value.field, []).append(value.text or "")
        else:
            rows.append((fields[value.field], row, value.text, value.number))
    for path, found in texts.items():
        places, length = _places(found)
        rows.append((fields[path], row, None, length))
        database.executemany(
            "INSERT INTO words (field, word, document, length, positions) VALUES (?, ?, ?, ?, ?)",
            [(fields[path], word, row, length, _pack(each)) for word, each in sorted(places.items())],
        )
    database.executemany("INSERT INTO field_values (field, document, text, number) VALUES (?, ?, ?, ?)", rows)
    for inner in content.inner:
        added = database.execute(
            "INSERT INTO documents (index_id, path, parent) VALUES (?, ?, ?)", (index, inner.path, row)
        )
        add_entries(database, index, fields, added.lastrowid or 0, inner)


def remove_entries(database: sqlite3.Connection, fields: Mapping[str, int], row: int, content: SearchedObject) -> None:
    """Delete the index entries of a document. `content`, which has the words, must be that of `add_entries`."""
    database.execute("DELETE FROM field_values WHERE document = ?", (row,))
    texts = [value for value in content.values if value.kind == "text"]
    words = {(value.field, word) for value in texts for word in words_of(value.text or "")}
    database.executemany(
        "DELETE FROM words WHERE field = ? AND word = ? AND document = ?",
        [(fields[path], word, row) for path, word in sorted(words)],
    )
    if content.inner:
        hidden = database.execute("SELECT row FROM documents WHERE parent = ? ORDER BY row", (row,)).fetchall()
        for (inner_row,), inner in zip(hidden, content.inner, strict=True):
            remove_entries(database, fields, inner_row, inner)
        database.execute("DELETE FROM documents WHERE parent = ?", (row,))


def unpack_positions(packed: bytes) -> tuple[int, ...]:
    """The positions of a word, counted in words."""
    return struct.unpack(f"<{len(packed) // POSITION_BYTES}I", packed)


def _places(texts: Iterable[str]) -> tuple[dict[str, list[int]], int]:
    """The positions of each word, and the number of words."""
    places: dict[str, list[int]] = {}
    begin = length = 0
    for text in texts:
        words = words_of(text)
        for place, word in enumerate(words, begin):
            places.setdefault(word, []).append(place)
        length += len(words)
        begin += len(words) + _GAP
    return places, length


def _pack(places: list[int]) -> bytes:
    return struct.pack(f"<{len(places)}I", *places)
