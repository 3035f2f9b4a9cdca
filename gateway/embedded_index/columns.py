"""The SQL that reads the values of a field from the table `field_values`.

The values in a flat_object are keywords. Each is stored twice: alone, for queries of the whole field, and after its
path, for queries of a path in it. Below: query_dsl.field_mapping. Above: evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.query_dsl.field_mapping import PATH_END, FieldType, Kind, flat_values

_BEHIND_PATH_END = chr(ord(PATH_END) + 1)


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one field: the expression `value` over the rows of the condition `within`, whose parameters are
    `values`. `name` is the indexed column; it has each value after `prefix`.
    """

    kind: Kind
    name: str
    value: str
    within: str
    values: tuple[int | str, ...]
    prefix: str = ""

    def kept(self, value: str | int | float) -> str | int | float:
        """The value in the form of the indexed column."""
        return f"{self.prefix}{value}" if self.prefix else value


def column_of(path: str, types: Mapping[str, FieldType], fields: Mapping[str, int]) -> tuple[FieldType, Column] | None:
    """The field's type and its column; None if there is no such field. `fields` are the fields' ids."""
    known = types.get(path)
    if known is not None and known.kind == "flat_object":
        return known, _column("keyword", fields.get(flat_values(path), 0))
    if known is not None:
        return known, _column(known.kind, fields.get(path, 0))
    begin, _, rest = path.partition(".")
    while rest:
        outer = types.get(begin)
        if outer is not None and outer.kind == "flat_object":
            return outer, _within_flat(fields.get(begin, 0), rest + PATH_END)
        step, _, rest = rest.partition(".")
        begin = f"{begin}.{step}"
    return None


def _column(kind: Kind, field: int) -> Column:
    name = "text" if kind == "keyword" else "number"
    return Column(kind, name, name, "field = ?", (field,))


def _within_flat(field: int, prefix: str) -> Column:
    end = prefix[:-1] + _BEHIND_PATH_END
    return Column(
        "keyword",
        "text",
        f"substr(text, {len(prefix) + 1})",
        "field = ? AND text >= ? AND text < ?",
        (field, prefix, end),
        prefix,
    )
