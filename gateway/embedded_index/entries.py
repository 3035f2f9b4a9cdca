"""What an index has of a document so that it is found: the values of its fields, and the words of its texts.

The embedded search engine's file and the store have these tables, each in its own database. A document is known by the
number of its row in the table `documents` there. An object in a nested field has a hidden row in the same table, with
the field as its `path` and the row that it is in as its `parent`. Below: query_dsl.field_mapping. Above: words,
documents and the store.
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
"""Changes with what entries are made of: whoever has those of another version makes them anew."""

# `number` of a text is how many words it has.
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
_GAP = 100  # between the texts of one field, so that no phrase goes from one to the next

# About the words of Unicode (UAX 29), as OpenSearch's standard analyzer: an apostrophe or a full stop may stand inside
# a word ("don't"), a separator inside a number ("3,519,000"); of Chinese and of hiragana, each character is a word.
_ACCENTS = re.compile("[\u0300-\u036f]")
_IDEOGRAPH = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|(?:[^\W{_IDEOGRAPH}]|(?<=[^\W\d_])['\u2019.](?=[^\W\d_])|(?<=\d)[.,;](?=\d))+")


def folded(text: str) -> str:
    """A text in the form in which words are compared: in lower case and without accents."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", text.lower())))


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return [word for word in _WORD.findall(folded(text).replace("\u2019", "'")) if word.strip("_")]


def has_more_entries(content: SearchedObject, most: int) -> bool:
    """Whether there are more values, words and objects to be found by than so many."""
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
    """The ids of an index's fields, by their paths; those that are new get one."""
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
    """Have a document found by its content. `fields` as `add_fields` gave them."""
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
    """Have a document found no more. `content` is what it was added with: it tells where its words are."""
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
    """Where a word stands, counted in words."""
    return struct.unpack(f"<{len(packed) // POSITION_BYTES}I", packed)


def _places(texts: Iterable[str]) -> tuple[dict[str, list[int]], int]:
    """Where each word stands, and how many there are."""
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
