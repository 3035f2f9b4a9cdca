"""The types of an index's fields in OpenSearch's form, given or found in documents; and values of these types. Pure.

Source: https://docs.opensearch.org/latest/field-types/ (3.x; text, keyword, the numbers, boolean, date, object),
dynamic mapping included: text gets a `keyword` beside it. Above: the search engines.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias

Json: TypeAlias = Any  # wire formats stand beside messages.py, whose JsonValue this would be
Kind: TypeAlias = Literal["text", "keyword", "long", "double", "boolean", "date"]

KEYWORD_LIMIT = 256
"""How long a text may be to count as a keyword too (`ignore_above`)."""

_MAX_FIELDS = 1_000
_MAX_DEPTH = 20
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
}
_LONG_LIMIT = 2**63


class MappingError(ValueError):
    """A mapping or a value that does not fit; the text says which field and what would fit."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A field's type. `limit`: longer keywords are left out."""

    kind: Kind
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One value of one field in the form that is searched: text (text, keyword) or a number (dates in milliseconds)."""

    field: str
    kind: Kind
    text: str | None
    number: int | float | None


def field_types(properties: Mapping[str, Json]) -> dict[str, FieldType]:
    """The fields of `properties` by their dotted paths, the fields beside a field (`name.keyword`) included.

    Raises:
        MappingError: a type that is not known.
    """
    return dict(_field_types(properties, "", 0))


def _field_types(properties: Mapping[str, Json], prefix: str, depth: int) -> Iterator[tuple[str, FieldType]]:
    if depth > _MAX_DEPTH:
        raise MappingError(f"{prefix!r} is nested too deeply: {_MAX_DEPTH} levels are possible")
    for name, definition in properties.items():
        path = prefix + name
        if not isinstance(definition, Mapping):
            raise MappingError(f"the mapping of {path!r} is an object such as {{'type': 'text'}}")
        if "properties" in definition:
            yield from _field_types(definition["properties"], f"{path}.", depth + 1)
            continue
        kind = definition.get("type", "object")
        if kind == "object":
            continue
        if kind not in _KINDS:
            raise MappingError(
                f"the type {kind!r} of {path!r} is not supported; there are: {', '.join(_KINDS)}, object"
            )
        yield path, FieldType(_KINDS[kind], definition.get("ignore_above"))
        yield from _field_types(definition.get("fields", {}), f"{path}.", depth + 1)


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
                if inner.get("type", "object") != "object":
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


def document_values(document: Mapping[str, Json], types: Mapping[str, FieldType]) -> Iterator[FieldValue]:
    """Every value of a document that can be searched.

    Raises:
        MappingError: a value that is not of its field's type.
    """
    beside: dict[str, list[str]] = {}
    for path in types:
        parent = path.rpartition(".")[0]
        if parent in types:
            beside.setdefault(parent, []).append(path)
    for path, value in _leaves(document, ""):
        for field in (path, *beside.get(path, ())):
            if (kind := types.get(field)) is None:
                continue
            if kind.limit is not None and len(str(value)) > kind.limit:
                continue
            yield _field_value(field, kind.kind, value)


def _leaves(document: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, Json]]:
    for name, value in document.items():
        for item in _flat(value):
            if isinstance(item, Mapping):
                yield from _leaves(item, f"{prefix}{name}.")
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
    """A value as a text or keyword field holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_number(field: str, kind: Kind, value: Json, *, round_up: bool = False) -> int | float:
    """A value as a field that is neither text nor keyword holds it. `round_up`: a date such as 2023 means its end.

    Raises:
        MappingError: it is not of this type.
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
        ValueError: no such date; date arithmetic (`now-1d`) is not supported.
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
