"""The pieces in which everything moves from one store to another (see transfer), and runs, as JSON.

Below: transfer, records. Above: export_file, and stores that keep such pieces. Bytes are written as text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from gateway.events import Usage
from gateway.messages import JsonObject, JsonValue
from gateway.records import decode_events, decode_record, encode_record
from gateway.store.runs import RunRecord, RunStatus
from gateway.store.transfer import Moved

Piece = TypeVar("Piece")

Codec = tuple[Callable[[Any], JsonValue], Callable[[Any], Any]]


def to_json(value: Any) -> JsonObject:
    """The piece's fields by name, without those that have their default value."""
    data: JsonObject = {}
    for name, (default, encode, _) in _CODECS[type(value)].items():
        member = getattr(value, name)
        if member != default:
            data[name] = encode(member)
    return data


def from_json(cls: type[Piece], data: Mapping[str, Any]) -> Piece:
    """The piece that `to_json` wrote.

    Raises:
        KeyError: it has no such field.
        TypeError: a field is missing.
    """
    codecs = _CODECS[cls]
    return cls(**{name: codecs[name][2](member) for name, member in data.items()})


def _as_it_is(value: Any) -> Any:
    return value


# Records are UTF-8; a secret may be any bytes.
_BYTES: Codec = (
    lambda value: value.decode("utf-8", "surrogateescape"),
    lambda text: text.encode("utf-8", "surrogateescape"),
)
_RECORDS: Codec = (
    lambda values: [encode_record(value).decode() for value in values],
    lambda texts: tuple([decode_record(Usage, text.encode()) for text in texts]),
)
_EVENT: Codec = (lambda event: encode_record(event).decode(), lambda text: next(decode_events(text.encode())))
# How a field is written, by its annotation. A default value is not written, None for instance.
_BY_ANNOTATION: dict[str, Codec] = {
    **dict.fromkeys(
        ("str", "str | None", "int", "int | None", "float", "float | None", "bool"), (_as_it_is, _as_it_is)
    ),
    "JsonObject | None": (_as_it_is, _as_it_is),
    "bytes": _BYTES,
    "bytes | None": _BYTES,
    "tuple[str, ...]": (list, tuple),
    "tuple[tuple[int, int], ...]": (
        lambda rows: [[*row] for row in rows],
        lambda rows: tuple([tuple(row) for row in rows]),
    ),
    "RunRecord": (to_json, lambda data: from_json(RunRecord, data)),
    "RunStatus": (str, RunStatus),
    "tuple[Usage, ...]": _RECORDS,
    "Terminal | None": _EVENT,
}
_CODECS = {
    cls: {field.name: (field.default, *_BY_ANNOTATION[str(field.type)]) for field in dataclasses.fields(cls)}
    for cls in (RunRecord, *get_args(Moved))
}
