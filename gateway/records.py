"""Converts events, messages and their parts to JSON records and back, for the store.

Below: events, messages. Above: the stores and live_run. A record is a JSON object with the class's name as `type` and
its fields by name; fields with their default value are left out, so a new field with a default reads old records.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from types import UnionType
from typing import Any, Final, TypeVar, cast, get_args

import orjson

from gateway import events, messages
from gateway.events import Deltas, Event, StopReason, joined
from gateway.frozen import quickly_made
from gateway.messages import JsonObject, JsonValue, Message, TextBlock

MOST_LEVELS: Final = 500
"""How deep a stored value may be nested. Code that reads it by recursion stays far below the limit of any Python
version.
"""

Record = TypeVar("Record")
Encode = Callable[[Any], JsonValue]
Decode = Callable[[Any], Any]

_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *get_args(events.Event),
        *get_args(events.Outcome),
        *get_args(messages.ContentBlock),
        *get_args(messages.MediaSource),
        events.Interrupt,
        events.OpenInterrupt,
        events.RemoteError,
        events.Usage,
        messages.Message,
        messages.Opaque,
        messages.ToolSpec,
    )
}


@quickly_made
@dataclass(frozen=True, slots=True)
class EventRecords:
    """Consecutive events as a store keeps them: their number, their lines, and when they came (`at`, Unix seconds).

    A line is an event's record. The record of a `Deltas` counts as one event for each piece. One piece is written as a
    text, several as a list.
    """

    count: int
    lines: bytes
    at: float | None = None


NO_EVENTS = EventRecords(0, b"")


def encode_events(events: list[Event], at: float | None = None) -> EventRecords:
    """The events as lines, in order, with pieces of one text in one line; `at` as in EventRecords."""
    count, lines = 0, []
    for event in joined(events):
        count += len(event.texts) if isinstance(event, Deltas) else 1
        lines.append(dump_json(_to_json(event)))
    # orjson's output keeps a buffer of 4 KB however short it is, and those of many runs wait at once: joining makes a
    # copy without that buffer.
    return EventRecords(count, b"".join((b"\n".join(lines), b"")), at)


def decode_events(lines: bytes) -> Iterator[Event]:
    """The events that `encode_events` wrote."""
    for line in lines.split(b"\n"):
        yield cast(Event, _from_json(load_json(line)))


def encode_message(message: Message) -> bytes:
    """The message as one JSON object."""
    content = message.content
    # A client's plain texts, which come by the thousand, are written directly.
    if (
        len(content) == 1
        and type(block := content[0]) is TextBlock
        and block.index == -1
        and block.opaque is None
        and not block.refusal
        and message.turn_id is None
        and message.name is None
        and message.metadata is None
        and message.conversation is None
        and not message.incomplete
    ):
        words: JsonValue = [{"type": "TextBlock", "text": block.text}]
        record = dump_json({"type": "Message", "id": message.id, "role": message.role, "content": words})
    else:
        record = encode_record(message)
    # orjson's bytes keep its buffer of 4 kB, and a request may have thousands of messages
    return bytes(memoryview(record))


def beginnings_of_message(message_id: str) -> tuple[bytes, bytes]:
    """The two beginnings that `encode_message` may write for a message of that id. No other record begins with one of
    them.
    """
    beginning: JsonObject = {"type": "Message", "id": message_id}
    return dump_json(beginning)[:-1] + b",", (_MARK + _dump_any(beginning))[:-1] + b","


def decode_message(data: bytes) -> Message:
    """The message that `encode_message` wrote."""
    return cast(Message, _from_json(load_json(data)))


def encode_record(record: object) -> bytes:
    """Any other record type (a Usage, an OpenInterrupt, ...) as one JSON object."""
    return dump_json(_to_json(record))


def decode_record(kind: type[Record], data: bytes) -> Record:
    """The record of that kind that `encode_record` wrote.

    Raises:
        TypeError: it is of another kind.
    """
    record = _from_json(load_json(data))
    if not isinstance(record, kind):
        raise TypeError(f"expected a record of type {kind.__name__}, found {type(record).__name__}")
    return record


def join_records(records: Iterable[object]) -> bytes:
    """The records as bytes, one line for each."""
    return b"\n".join(map(encode_record, records))


def split_records(kind: type[Record], data: bytes) -> tuple[Record, ...]:
    """The records that `join_records` joined."""
    return tuple([decode_record(kind, line) for line in data.split(b"\n")]) if data else ()


def dump_json(value: JsonValue) -> bytes:
    """Compact JSON. NaN and infinities become null, lone surrogates escapes; integers of any size stay as they are.

    Raises:
        ValueError: it is nested too deeply (more than MOST_LEVELS).
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, an integer beyond 64 bits, or deeper than orjson goes
        return _MARK + _dump_any(value)


def load_json(data: bytes) -> Any:
    """The value that `dump_json` wrote."""
    if data.startswith(_MARK):  # orjson would read its large integers as floats
        return json.loads(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


# JSON that orjson cannot write begins with a blank, so that orjson does not read it either.
_MARK = b" "


def _dump_any(value: JsonValue) -> bytes:
    try:
        try:
            text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        except ValueError:
            text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
        if text.count("[") + text.count("{") > MOST_LEVELS and _is_too_deep(value):
            raise RecursionError
    except RecursionError:
        raise ValueError("the value is nested too deeply to be kept") from None
    return text.encode()


def _is_too_deep(value: JsonValue) -> bool:
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [item for each in level if isinstance(each, dict | list | tuple) for item in _items(each)]
    return bool(level)


def _items(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _finite(value: JsonValue) -> JsonValue:
    """`value` with null for NaN and the infinities."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case list() | tuple():
            return [_finite(item) for item in value]
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case _:
            return value


def _to_json(record: object) -> JsonObject:
    name = type(record).__name__
    if isinstance(record, Deltas):  # nearly every event
        (id_name, texts_name), texts = record.__match_args__, record.texts
        return {"type": name, id_name: record.id, texts_name: texts[0] if len(texts) == 1 else [*texts]}
    encoded: JsonObject = {"type": name}
    fields, values_of = _WRITTEN[name]
    # Not `strict=True`: for so few fields it doubles the loop's time.
    for (field, default, encode, _), value in zip(fields, values_of(record)):  # noqa: B905
        if value is not default and value != default:
            encoded[field] = value if encode is None else encode(value)
    return encoded


def _from_json(data: dict[str, Any]) -> object:
    name = data["type"]
    values: dict[str, Any] = {}
    for field, _, _, decode in _FIELDS[name]:
        if field in data:
            values[field] = data[field] if decode is None else decode(data[field])
    return _CLASSES[name](**values)


def _many_to_json(records: tuple[object, ...]) -> JsonValue:
    return list(map(_to_json, records))


def _many_from_json(data: list[dict[str, Any]]) -> tuple[object, ...]:
    return tuple([_from_json(item) for item in data])


def _maybe_to_json(record: object | None) -> JsonValue:
    return None if record is None else _to_json(record)


def _maybe_from_json(data: dict[str, Any] | None) -> object | None:
    return None if data is None else _from_json(data)


_ONE: tuple[Encode, Decode] = (_maybe_to_json, _maybe_from_json)
_MANY: tuple[Encode, Decode] = (_many_to_json, _many_from_json)
_VALUES: tuple[Encode, Decode] = (list, tuple)

# How a field is written, by its annotation. All others are JSON already; a test checks that all are known.
_BY_ANNOTATION: dict[str, tuple[Encode, Decode]] = {
    "Opaque | None": _ONE,
    "RemoteError | None": _ONE,
    "MediaSource": _ONE,
    "MediaBlock": _ONE,
    "Interrupt": _ONE,
    "ToolCall": _ONE,
    "Usage": _ONE,
    "Outcome": _ONE,
    "tuple[ContentBlock, ...]": _MANY,
    "tuple[Message, ...]": _MANY,
    "tuple[Interrupt, ...]": _MANY,
    "tuple[ToolCall, ...]": _MANY,
    "tuple[Usage, ...]": _MANY,
    "tuple[JsonObject, ...]": _VALUES,
    "tuple[str, ...]": _VALUES,
    "StopReason": (str, StopReason),
}


def _fields(cls: type[Any]) -> list[tuple[str, object, Encode | None, Decode | None]]:
    if issubclass(cls, Deltas):  # the parameters of its `__init__`
        id_name, texts_name = cls.__match_args__
        return [(id_name, dataclasses.MISSING, None, None), (texts_name, dataclasses.MISSING, None, None)]
    rows: list[tuple[str, object, Encode | None, Decode | None]] = []
    for field in dataclasses.fields(cls):
        annotation = field.type if isinstance(field.type, str) else str(cast(UnionType, field.type))
        encode, decode = _BY_ANNOTATION.get(annotation, (None, None))
        rows.append((field.name, field.default, encode, decode))
    return rows


def _values_of(cls: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of a record's fields; one call reads several."""
    names = [field.name for field in dataclasses.fields(cls)]
    return attrgetter(*names) if len(names) > 1 else lambda record: tuple([getattr(record, name) for name in names])


_FIELDS = {name: _fields(cls) for name, cls in _CLASSES.items()}
_WRITTEN = {name: (_FIELDS[name], _values_of(cls)) for name, cls in _CLASSES.items()}
