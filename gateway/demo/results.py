"""Reads the results of tools: JSON, search hits, JSON lines, CSV. Pure."""

from __future__ import annotations

import csv

import orjson

from gateway.messages import JsonObject, JsonValue


def rows_of(text: str) -> list[JsonObject] | None:
    """The entries of a result that is a list of them: search hits, an array of objects, JSON lines, CSV."""
    value = parsed(text)
    if isinstance(value, dict) and isinstance(hits := value.get("hits"), dict):
        value = hits.get("hits")
    if isinstance(value, dict) and "_source" in value:
        value = [value]
    if value is None and text.startswith("{"):
        value = [parsed(line) for line in text.splitlines() if line.strip()]
    if value is None and text == "(The tool gave no output.)":
        return []
    if value is None:
        value = _csv_rows(text)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return None
    return [_flat_hit(row) for row in value if isinstance(row, dict)]


def _flat_hit(row: JsonObject) -> JsonObject:
    source = row.get("_source")
    if not isinstance(source, dict):
        return row
    return {**({"index": row["_index"]} if "_index" in row else {}), **source}


def _csv_rows(text: str) -> JsonValue:
    if text.partition("\n")[0].count(",") < 2:  # a first line with fewer commas is as likely prose
        return None
    names, *rows = csv.reader(text.splitlines())
    if not rows or any(len(row) != len(names) for row in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def values_named(text: str, name: str) -> list[str]:
    """The texts in a result that have that name as their key, at any depth."""
    found: list[str] = []
    pending: list[JsonValue] = [parsed(text) if parsed(text) is not None else list(rows_of(text) or ())]
    while pending:
        value = pending.pop(0)
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(inner for inner in value.values() if isinstance(inner, list | dict))
            if isinstance(inner := value.get(name), str):
                found.append(inner)
    return found


def parsed(text: str) -> JsonValue:
    """The JSON value of a text, None if it is not JSON."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value
