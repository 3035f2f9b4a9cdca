"""How the searched values of documents are indexed: the fields of a kind, and the values of a document in them.

Below: embedded_index.entries, query_dsl.field_mapping. Above: document_records, which writes the values, and
document_queries, which looks for them. The words of texts are found here, and not by an analyzer of the cluster: so a
search finds what it finds in the embedded index. Every other value is also a keyword whose order is the values' order,
numbers included: a `long` of OpenSearch has no fractions, a `double` no large integers.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.documents.document import DocumentKind
from gateway.embedded_index.entries import ENTRIES_VERSION, words_of
from gateway.messages import JsonObject
from gateway.query_dsl.field_mapping import PATH_END, FieldValue, Kind, SearchedObject, flat_values

_FORM: Final = 1
"""Raise it when values are indexed in another way: stored documents are indexed again then."""

SEARCHED: Final = "searched"
"""The member of a stored document that has its searched values, below the name of its kind's fields."""

SIMILARITY: Final = "occurrences"
WORDS: Final = "words"
# A word's score is how often it occurs; searches make BM25 of that, with numbers of the owner's documents alone.
ANALYSIS: Final[Mapping[str, Any]] = {
    "similarity": {SIMILARITY: {"type": "scripted", "script": {"source": "return query.boost * doc.freq;"}}},
    "analysis": {
        "tokenizer": {WORDS: {"type": "whitespace", "max_token_length": 1_000_000}},
        "analyzer": {WORDS: {"type": "custom", "tokenizer": WORDS}},
    },
    # fields of kinds that have changed since stay
    "mapping": {"total_fields": {"limit": 10_000}, "nested_fields": {"limit": 1_000}},
}

_GAP = 100  # positions between two texts of one field: no phrase spans both
_TERM_BYTES = 30_000  # Lucene refuses a document with a term of more than 32,766
_KEYWORD: Final = {"type": "keyword"}
_LISTED: Final = {"type": "keyword", "index": False}  # to be listed, not to be looked for
_COUNT: Final = {"type": "integer"}
_TEXT: Final[Mapping[str, Any]] = {
    "t": {
        "type": "text",
        "analyzer": WORDS,
        "similarity": SIMILARITY,
        "norms": False,
        "position_increment_gap": _GAP,
    },
    "w": _LISTED,
    "l": _COUNT,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A searched field. `name` is the object in the index that has its values. `level`: the nested field that it is in;
    empty: none. `prefix`: of the values of a flat_object, those that begin so are the field's.
    """

    path: str
    kind: Kind
    name: str
    level: str
    prefix: str = ""
    is_flat: bool = False

    @property
    def words(self) -> str:
        """Of a text: its words, analyzed."""
        return f"{self.name}.t"

    @property
    def listed(self) -> str:
        """Each word of a text, or each value, as a keyword."""
        if self.kind == "text":
            return f"{self.name}.w"
        return f"{self.name}.v" if self.is_flat and not self.prefix else f"{self.name}.k"

    @property
    def number(self) -> str:
        """The values as numbers."""
        return f"{self.name}.d"

    @property
    def count(self) -> str:
        """How many words a text has, or how many values a keyword has."""
        return f"{self.name}.l" if self.kind == "text" else f"{self.name}.n"

    @property
    def present(self) -> str:
        """A field that every document with a value has."""
        return self.count if self.kind == "text" else self.listed

    def term(self, value: str | int | float) -> str:
        """The value as a term of `listed`."""
        return fitted(f"{self.prefix}{value}") if isinstance(value, str) else sortable(value)

    def value(self, term: str) -> str | int | float:
        """The value of a term of `listed`."""
        return term[len(self.prefix) :] if self.kind == "keyword" else number_of(term)


class Layout:
    """The fields of a kind."""

    def __init__(self, kind: DocumentKind) -> None:
        self.kind = kind
        self.properties = orjson.dumps(dict(kind.properties))
        form = f"{_FORM} {ENTRIES_VERSION} ".encode() + kind.name.encode() + b" " + self.properties
        self.digest = hashlib.sha256(form).hexdigest()[:20]
        self.container = f"{re.sub('[^a-z0-9]', '_', kind.name.lower())}-{self.digest}"
        self._numbers = {path: str(number) for number, path in enumerate(kind.types)}
        self._flat = {flat_values(path): path for path, each in kind.types.items() if each.kind == "flat_object"}

    def mapping(self) -> JsonObject:
        """The mapping of the fields, to be added to that of the index."""
        fields = {self.container: {"properties": self._properties("")}}
        return {"properties": {SEARCHED: {"properties": fields}}}  # type: ignore[dict-item]

    def _properties(self, level: str) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for path, each in self.kind.types.items():
            if each.nested == level:
                inner = self._properties(path) if each.kind == "nested" else _FIELDS[each.kind]
                kept = {"type": "nested"} if each.kind == "nested" else {}
                properties[self._numbers[path]] = {**kept, "properties": dict(inner)}
        return properties

    def name(self, path: str) -> str:
        """The object in the index that has the values of a field."""
        known = self.kind.types[path]
        above = self.name(known.nested) if known.nested else f"{SEARCHED}.{self.container}"
        return f"{above}.{self._numbers[path]}"

    def field(self, path: str) -> Field | None:
        """The searched field at a path, which may lead into a flat_object; None: there is none."""
        known = self.kind.types.get(path)
        if known is not None and known.kind == "flat_object":
            return Field(path, "keyword", self.name(path), known.nested, is_flat=True)
        if known is not None:
            return Field(path, known.kind, self.name(path), known.nested)
        begin, _, rest = path.partition(".")
        while rest:
            outer = self.kind.types.get(begin)
            if outer is not None and outer.kind == "flat_object":
                return Field(path, "keyword", self.name(begin), outer.nested, rest + PATH_END, is_flat=True)
            step, _, rest = rest.partition(".")
            begin = f"{begin}.{step}"
        return None

    def values(self, content: SearchedObject) -> JsonObject:
        """The searched values of a document."""
        return {self.container: self._object(content)}

    def _object(self, content: SearchedObject) -> JsonObject:
        found: dict[str, list[FieldValue]] = {}
        for value in content.values:
            found.setdefault(value.field, []).append(value)
        fields: dict[str, Any] = {}
        for path, values in found.items():
            flat = self._flat.get(path)
            number = self._numbers[path if flat is None else flat]
            fields.setdefault(number, {}).update(_indexed(values, alone=flat is not None))
        for inner in content.inner:
            fields.setdefault(self._numbers[inner.path], []).append(self._object(inner))
        return fields


_NUMBERS: Final = {"k": _KEYWORD, "d": {"type": "double"}}
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": _TEXT,
    "keyword": {"k": _KEYWORD, "n": _COUNT},
    "flat_object": {"k": _KEYWORD, "v": _KEYWORD, "n": _COUNT},
    "long": _NUMBERS,
    "double": _NUMBERS,
    "boolean": _NUMBERS,
    "date": {"k": _KEYWORD, "d": {"type": "long"}},
}


def _indexed(values: list[FieldValue], *, alone: bool) -> dict[str, Any]:
    """The values of one field. `alone`: those of a flat_object without their paths."""
    match values[0].kind:
        case "text":
            texts = [[fitted(word) for word in words_of(value.text or "")] for value in values]
            listed = sorted({word for words in texts for word in words})
            return {"t": [" ".join(words) for words in texts], "w": listed, "l": sum(map(len, texts))}
        case "keyword" | "flat_object":
            terms = [fitted(value.text or "") for value in values]
            return {"v": terms, "n": len(terms)} if alone else {"k": terms, "n": len(terms)}
        case _:
            numbers = [value.number or 0 for value in values]
            return {"k": [sortable(number) for number in numbers], "d": numbers}


def fitted(term: str) -> str:
    """The term, or instead of a too long one its beginning and a digest."""
    if len(term) <= _TERM_BYTES // 4:
        return term
    data = term.encode()
    if len(data) <= _TERM_BYTES:
        return term
    return f"{data[:_TERM_BYTES].decode(errors='ignore')}#{hashlib.sha256(data).hexdigest()}"


def sortable(number: int | float) -> str:
    """The number as a text: the order of such texts is that of the numbers, also of integers that no double holds."""
    nearest = float(number)
    rest = number - int(nearest) if isinstance(number, int) else 0
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest))
    return f"{bits ^ (_ALL if bits >> 63 else _SIGN):016x}{rest + _MIDDLE:03x}"


def number_of(text: str) -> int | float:
    """The number that `sortable` wrote."""
    bits, rest = int(text[:16], 16), int(text[16:], 16) - _MIDDLE
    (nearest,) = struct.unpack(">d", struct.pack(">Q", bits ^ (_SIGN if bits >> 63 else _ALL)))
    if nearest.is_integer() and abs(whole := int(nearest) + rest) < 2**63:
        return whole
    return float(nearest)


_SIGN, _ALL, _MIDDLE = 1 << 63, (1 << 64) - 1, 0x800
