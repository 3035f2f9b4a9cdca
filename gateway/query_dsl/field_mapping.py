"""The types of an index's fields in OpenSearch's form, given or found in documents; and values of these types. Pure.

Source: https://docs.opensearch.org/latest/field-types/ (3.x; text, keyword, the numbers, boolean, date, object, nested,
flat_object), dynamic mapping included: text gets a `keyword` beside it. Fields of the type binary, with `index: false`
and below `enabled: false` are kept and not searched. Above: the search engines.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias

Json: TypeAlias = Any  # not messages.JsonValue: this room imports no other
Kind: TypeAlias = Literal["text", "keyword", "long", "double", "boolean", "date", "flat_object", "nested"]

KEYWORD_LIMIT = 256
"""How long a text may be to count as a keyword too (`ignore_above`)."""

# Separates the path of a value in a flat_object from the value.
PATH_END = "\x1f"
FLAT_LIMIT = 8_191
"""Longer values in a flat_object are not searched."""

_MAX_FIELDS = 1_000
_MAX_DEPTH = 20
_MAX_FLAT_DEPTH = 50
_KINDS: Mapping[str, Kind] = {
    "text": "text",
    "keyword": "keyword",
    "byte": "long",
    "short": "long",
    "integer": "long",
    "long": "long",
    "half_float": "double",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
    "flat_object": "flat_object",
    "nested": "nested",
}
_UNSEARCHED = frozenset({"binary", "object"})
_LONG_LIMIT = 2**63


class MappingError(ValueError):
    """A mapping or a value that does not fit; the text says which field and what would fit."""


class TooMuchSearchedError(ValueError):
    """A document has too many searched values, or a searched text is too long; the text says which."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field's type. `limit`: longer keywords are left out. `nested`: the nested field that it is in; empty: none."""

    kind: Kind
    limit: int | None = None
    nested: str = ""


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One value of one field in the form that is searched: text (text, keyword) or a number (dates in milliseconds).

    A value in a flat_object comes twice: alone, in the field `flat_values(path)`, and after its path within the object.
    """

    field: str
    kind: Kind
    text: str | None
    number: int | float | None


@dataclass(frozen=True, slots=True)
class SearchedObject:
    """The searched values of a document, or of one object in the nested field `path`, and its own nested objects."""

    path: str = ""
    values: list[FieldValue] = field(default_factory=list)
    inner: list[SearchedObject] = field(default_factory=list)


def flat_values(path: str) -> str:
    """The hidden field that has the values of a flat_object without their paths."""
    return path + PATH_END


def field_types(properties: Mapping[str, Json]) -> dict[str, FieldType]:
    """The fields of `properties` by their dotted paths, the fields beside a field (`name.keyword`) included.

    Raises:
        MappingError: a type is not supported.
    """
    return dict(_field_types(properties, "", 0, ""))


def _field_types(
    properties: Mapping[str, Json], prefix: str, depth: int, nested: str
) -> Iterator[tuple[str, FieldType]]:
    if depth > _MAX_DEPTH:
        raise MappingError(f"{prefix!r} is nested too deeply: {_MAX_DEPTH} levels are possible")
    for name, definition in properties.items():
        path = prefix + name
        if not isinstance(definition, Mapping):
            raise MappingError(f"the mapping of {path!r} is an object such as {{'type': 'text'}}")
        if definition.get("enabled") is False or definition.get("index") is False:
            continue
        kind = definition.get("type", "object")
        if kind not in _KINDS and kind not in _UNSEARCHED:
            listed = ", ".join([*_KINDS, *sorted(_UNSEARCHED)])
            raise MappingError(f"the type {kind!r} of {path!r} is not supported; there are: {listed}")
        if kind not in _UNSEARCHED:
            yield path, FieldType(_KINDS[kind], definition.get("ignore_above"), nested)
        beside = definition.get("properties" if kind in ("object", "nested") else "fields", {})
        yield from _field_types(beside, f"{path}.", depth + 1, path if kind == "nested" else nested)


def extend_properties(properties: dict[str, Json], document: Mapping[str, Json]) -> None:
    """Add the fields of `document` that `properties` lacks, with the types that their values have.

    Raises:
        MappingError: the document has an object where a field has values, or too many fields.
    """
    _extend(properties, document, "", 0)
    if len(field_types(properties)) > _MAX_FIELDS:
        raise MappingError(f"an index has at most {_MAX_FIELDS} fields")


def _extend(properties: dict[str, Json], document: Mapping[str, Json], prefix: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MappingError(f"{prefix!r} is nested too deeply: {_MAX_DEPTH} levels are possible")
    for name, value in document.items():
        for item in _flat(value):
            if isinstance(item, Mapping):
                inner = properties.setdefault(name, {"properties": {}})
                if inner.get("type") == "flat_object" or inner.get("enabled") is False:
                    continue
                if inner.get("type", "object") not in ("object", "nested"):
                    raise MappingError(f"{prefix + name!r} is {inner['type']!r} and cannot hold an object")
                _extend(inner.setdefault("properties", {}), item, f"{prefix}{name}.", depth + 1)
            elif name not in properties:
                properties[name] = _definition_of(item)


def _definition_of(value: Json) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "long"}
    if isinstance(value, float):
        return {"type": "double"}
    if _FULL_DATE.match(str(value)):
        try:
            date_milliseconds(value)
        except ValueError:
            pass  # 2024-99-99 is a text
        else:
            return {"type": "date"}
    return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": KEYWORD_LIMIT}}}


def searched_object(
    document: Mapping[str, Json], types: Mapping[str, FieldType], *, most_values: int | None = None, longest: int = 0
) -> SearchedObject:
    """Every value of a document that can be searched.

    Raises:
        MappingError: a value does not have its field's type.
        TooMuchSearchedError: there are more than `most_values`, or a text has more than `longest` characters.
    """
    beside: dict[str, list[str]] = {}
    for path in types:
        parent = path.rpartition(".")[0]
        if parent in types and types[parent].kind not in ("nested", "flat_object"):
            beside.setdefault(parent, []).append(path)
    return _Reading(types, beside, most_values, longest).read("", document, "")


@dataclass(slots=True)
class _Reading:
    types: Mapping[str, FieldType]
    beside: Mapping[str, Sequence[str]]  # the fields beside a field
    most_values: int | None
    longest: int
    values: int = 0

    def read(self, path: str, document: Mapping[str, Json], prefix: str) -> SearchedObject:
        found = SearchedObject(path)
        self._read_into(found, document, prefix, 0)
        return found

    def _read_into(self, found: SearchedObject, document: Mapping[str, Json], prefix: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            return  # no mapping is so deep
        for name, value in document.items():
            path = prefix + name
            kind = None if (known := self.types.get(path)) is None else known.kind
            for item in _flat(value):
                if kind in ("nested", "flat_object"):
                    if not isinstance(item, Mapping):
                        raise MappingError(f"{path!r} is {kind}: its values are objects, and not {str(item)[:100]!r}")
                    if kind == "nested":
                        self._count(path)
                        found.inner.append(self.read(path, item, f"{path}."))
                    else:
                        found.values.extend(self._counted(path, _values_in(path, item)))
                elif isinstance(item, Mapping):
                    self._read_into(found, item, f"{path}.", depth + 1)
                else:
                    found.values.extend(self._counted(path, self._values(path, item)))

    def _counted(self, path: str, values: Iterator[FieldValue]) -> Iterator[FieldValue]:
        for value in values:
            self._count(path)
            if self.most_values is not None and value.kind == "text" and len(value.text or "") > self.longest:
                raise TooMuchSearchedError(
                    f"the text in {path!r} has {len(value.text or '')} characters; at most {self.longest} are searched"
                )
            yield value

    def _count(self, path: str) -> None:
        self.values += 1
        if self.most_values is not None and self.values > self.most_values:
            raise TooMuchSearchedError(f"with {path!r} more than {self.most_values} values would be searched")

    def _values(self, path: str, value: Json) -> Iterator[FieldValue]:
        for name in (path, *self.beside.get(path, ())):
            known = self.types.get(name)
            if known is not None and (known.limit is None or len(str(value)) <= known.limit):
                yield _field_value(name, known.kind, value)


def _values_in(path: str, document: Mapping[str, Json]) -> Iterator[FieldValue]:
    """The values of a flat_object."""
    for place, value in _leaves(document, "", 0):
        text = plain_text(value)
        if len(text) <= FLAT_LIMIT:
            yield FieldValue(flat_values(path), "flat_object", text, None)
            yield FieldValue(path, "flat_object", f"{plain_text(place).replace(PATH_END, ' ')}{PATH_END}{text}", None)


def _leaves(document: Mapping[str, Json], prefix: str, depth: int) -> Iterator[tuple[str, Json]]:
    if depth > _MAX_FLAT_DEPTH:
        raise MappingError(f"{prefix[:100]!r} is nested too deeply: {_MAX_FLAT_DEPTH} levels are possible")
    for name, value in document.items():
        for item in _flat(value):
            if isinstance(item, Mapping):
                yield from _leaves(item, f"{prefix}{name}.", depth + 1)
            else:
                yield prefix + name, item


def _flat(value: Json) -> Iterator[Json]:
    """The values of a field. Nested arrays are flattened, and null gives nothing."""
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif value is not None:
        yield value


def _field_value(field: str, kind: Kind, value: Json) -> FieldValue:
    if kind in ("text", "keyword"):
        return FieldValue(field, kind, plain_text(value), None)
    return FieldValue(field, kind, None, plain_number(field, kind, value))


def plain_text(value: Json) -> str:
    """A value in the form of a text or keyword field."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text.isascii() else _HALF_PAIR.sub("\ufffd", text)  # databases refuse half a pair


def plain_number(field: str, kind: Kind, value: Json, *, round_up: bool = False) -> int | float:
    """A value in the form of a field that is neither text nor keyword. `round_up`: a date such as 2023 means its end.

    Raises:
        MappingError: the value is not of this type.
    """
    try:
        match kind:
            case "boolean":
                return _boolean(value)
            case "date":
                return date_milliseconds(value, round_up=round_up)
            case _:
                return _number(value)
    except (ValueError, OverflowError):
        example = {"boolean": "true or false", "date": "a date such as 2024-02-29 or 2024-02-29T12:30:00Z"}
        raise MappingError(
            f"{value!r} does not fit the field {field!r}: it is {example.get(kind, 'a number')}"
        ) from None


def _boolean(value: Json) -> int:
    if value in (True, "true"):
        return 1
    if value in (False, "false", ""):
        return 0
    raise ValueError


def _number(value: Json) -> int | float:
    if isinstance(value, bool):
        raise ValueError
    number = value if isinstance(value, int | float) else float(value)
    if not math.isfinite(number):
        raise ValueError
    if number == int(number) and abs(number) < _LONG_LIMIT:
        return int(number)
    return float(number)


_HALF_PAIR = re.compile("[\ud800-\udfff]")
_FULL_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}(T|$)", re.ASCII)
_DATE = re.compile(
    r"^(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:T(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?)?)?)?$",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def date_milliseconds(value: Json, *, round_up: bool = False) -> int:
    """Milliseconds since 1970 of an ISO 8601 date with or without a time (`strict_date_optional_time||epoch_millis`).

    Missing parts count as the earliest moment, or with `round_up` as the latest.

    Raises:
        ValueError: there is no such date.
    """
    match = _DATE.match(str(value))
    if match is None:
        if str(value).lstrip("-").isascii() and str(value).lstrip("-").isdigit() and abs(int(value)) < _LONG_LIMIT:
            return int(value)
        raise ValueError
    given = {name: int(text) for name, text in match.groupdict().items() if text and name not in ("fraction", "zone")}
    year = given["year"]
    month = given.get("month", 12 if round_up else 1)
    if not (1 <= month <= 12 and 1 <= year <= 9999):
        raise ValueError
    last_day = calendar.monthrange(year, month)[1]
    moment = datetime(
        year,
        month,
        given.get("day", last_day if round_up else 1),
        given.get("hour", 23 if round_up else 0),
        given.get("minute", 59 if round_up else 0),
        given.get("second", 59 if round_up else 0),
        int((match["fraction"] or ("999" if round_up else "0")).ljust(6, "0")[:6]),
        tzinfo=_zone(match["zone"]),
    )
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
