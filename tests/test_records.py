"""What a store keeps of the vocabulary is what it gives back."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tracemalloc
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.events import (
    Completed,
    Custom,
    Deltas,
    Event,
    Interrupt,
    ModelCallEnded,
    OpenInterrupt,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolCallDelta,
    Usage,
    count_of,
    joined,
)
from gateway.messages import ImageBlock, Message, TextBlock, ToolCall, UrlSource
from gateway.records import (
    MOST_LEVELS,
    decode_events,
    decode_message,
    decode_record,
    dump_json,
    encode_events,
    encode_message,
    encode_record,
    load_json,
)
from tests.pieces import pieces
from tests.word_samples import REPEATABLE, any_json, any_text, word_classes, words

each_class = pytest.mark.parametrize("cls", word_classes(), ids=lambda cls: cls.__name__)


# repr and not ==, because True == 1 and 1 == 1.0
@each_class
@settings(REPEATABLE, max_examples=12)
@given(data=st.data())
def test_every_word_comes_back_as_it_was(cls: type, data: st.DataObject) -> None:
    word = data.draw(words(cls))
    record = encode_record(word)
    assert repr(decode_record(cls, record)) == repr(word)
    assert b"\n" not in record, "stores keep one record per line"


@settings(REPEATABLE, max_examples=150)
@given(st.lists(st.one_of([words(cls) for cls in (TextDelta, ReasoningDelta, ToolCallDelta, *get_args(Event))])))
def test_a_batch_is_written_as_its_events_one_by_one(batch: list[Event]) -> None:
    twice = [event for event in batch for _ in range(2)]
    records = encode_events(joined(twice))
    assert records.count == count_of(twice)
    one_by_one = [event for each in twice for event in decode_events(encode_events([each]).lines)]
    assert repr(pieces(decode_events(records.lines))) == repr(pieces(one_by_one)) if twice else records.lines == b""


@settings(REPEATABLE, max_examples=150)
@given(words(Message))
def test_a_message_is_written_as_any_record(message: Message) -> None:
    for each in (message, Message(message.id, "user", (TextBlock("words"),)), Message(message.id, message.role)):
        assert load_json(encode_message(each)) == load_json(encode_record(each))


def test_a_batch_of_deltas_of_different_kinds_and_ids_keeps_them_apart() -> None:
    batch: list[Event] = [
        TextDelta("a", "x"), TextDelta("a", 'y"'), ReasoningDelta("a", "z"), ToolCallDelta("a", "{"),
        TextDelta("b", "x"), TextDelta("b", "\ud83d"), TextDelta("b", "w"),
    ]  # fmt: skip
    assert pieces(decode_events(encode_events(joined(batch)).lines)) == batch


def test_a_line_that_waits_to_be_kept_takes_the_room_of_its_bytes() -> None:
    tracemalloc.start()
    try:
        lines = [encode_events([TextDelta("m", "word")]).lines for _ in range(100)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 3 * sum(sys.getsizeof(line) for line in lines)


def test_deltas_that_share_a_line_are_those_that_have_one_each() -> None:
    batch: list[Event] = [TextDelta("a", word) for word in ("one ", "two ", "\ud83d", "")]
    shared = encode_events(joined(batch)).lines
    assert b"\n" not in shared
    apart = b"\n".join(encode_events([event]).lines for event in batch)
    assert pieces(decode_events(shared)) == list(decode_events(apart)) == batch


@settings(REPEATABLE, max_examples=150)
@given(st.one_of([words(cls) for cls in get_args(Event)]))
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    records = encode_events([event])
    assert [repr(each) for each in decode_events(records.lines)] == [repr(event)]
    assert b"\n" not in records.lines


@settings(REPEATABLE)
@given(words(Message))
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    assert repr(decode_message(encode_message(message))) == repr(message)


@settings(REPEATABLE)
@given(any_json)
def test_any_json_value_comes_back_as_it_was(value: Any) -> None:
    assert repr(load_json(dump_json(value))) == repr(value)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (TextDelta("m", "x"), b'{"type":"TextDelta","message_id":"m","text":"x"}'),
        (TextDelta("m", ["x", "y"]), b'{"type":"TextDelta","message_id":"m","text":["x","y"]}'),
        (ReasoningDelta("m", ["x", ""]), b'{"type":"ReasoningDelta","message_id":"m","text":["x",""]}'),
        (ToolCallDelta("c", "{"), b'{"type":"ToolCallDelta","call_id":"c","arguments":"{"}'),
    ],
)
def test_deltas_are_written_as_the_logs_of_earlier_gateways_have_them(event: Event, line: bytes) -> None:
    assert encode_events([event]).lines == line
    assert list(decode_events(line)) == [event]


@each_class
def test_a_record_of_before_a_field_was_added_reads_with_the_fields_default(cls: type) -> None:
    required = _required(cls)
    word = cls(**required)
    record = json.loads(encode_record(word))
    assert set(record) == {"type", *required}, "what has its default is left out, so nothing to add later is missed"
    assert decode_record(cls, json.dumps(record).encode()) == word


@each_class
def test_a_field_that_only_a_newer_gateway_knows_is_skipped(cls: type) -> None:
    word = cls(**_required(cls))
    record = {**json.loads(encode_record(word)), "field_of_the_future": {"type": "Unheard"}}
    assert decode_record(cls, json.dumps(record).encode()) == word


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("beside", ["", "\ud83d", 2**65])
def test_numbers_that_json_does_not_know_become_null_whatever_stands_beside_them(odd: float, beside: str | int) -> None:
    event = _kept(Custom("n", {"list": [odd, 1.5], "beside": beside}))
    assert event == Custom("n", {"list": [None, 1.5], "beside": beside})


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**40])
def test_integers_beyond_64_bits_keep_every_digit(number: int) -> None:
    assert load_json(dump_json({"n": [number]})) == {"n": [number]}


def test_two_halves_of_a_character_that_stand_together_become_the_character() -> None:
    assert _kept(TextDelta("m", "\ud83d\ude00")) == TextDelta("m", "😀")


@pytest.mark.parametrize("levels", [100, 250, 300, MOST_LEVELS])
def test_values_are_kept_some_hundreds_of_levels_deep(levels: int) -> None:
    value: Any = "\ud83d"
    for _ in range(levels):
        value = [value]
    assert load_json(dump_json(value)) == value


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 5_000, 100_000])
@pytest.mark.parametrize("bottom", [1, math.nan, "\ud83d"])
def test_a_value_that_is_nested_deeper_is_refused_with_a_clear_error(bottom: Any, levels: int) -> None:
    """However deep the running Python could write it."""
    value = bottom
    for _ in range(levels):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        dump_json(value)


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a record of type OpenInterrupt, found Usage"):
        decode_record(OpenInterrupt, encode_record(Usage("p", "m")))


def test_a_stop_reason_comes_back_as_one() -> None:
    event = _kept(ModelCallEnded(StopReason.TOOL_CALLS))
    assert isinstance(event, ModelCallEnded)
    assert event.reason is StopReason.TOOL_CALLS


@settings(REPEATABLE)
@given(any_text)
def test_any_text_survives_in_a_message(text: str) -> None:
    message = Message("m", "user", (TextBlock(text),))
    assert decode_message(encode_message(message)) == message


def _kept(event: Event) -> Event:
    """The event as the log gives it back."""
    (kept,) = decode_events(encode_events([event]).lines)
    return kept


def _required(cls: type[Any]) -> dict[str, Any]:
    """Values for the fields that have no default."""
    if issubclass(cls, Deltas):
        return dict.fromkeys(cls.__match_args__, "x")
    fields = dataclasses.fields(cls)
    return {field.name: _plain(str(field.type)) for field in fields if field.default is dataclasses.MISSING}


def _plain(annotation: str) -> Any:
    """Some value for a field without a default."""
    values: dict[str, Any] = {
        "str": "x",
        "int": 1,
        "Role": "user",
        "JsonValue": [1],
        "JsonObject": {"a": 1},
        "MediaSource": UrlSource("u"),
        "ToolCall": ToolCall("c", "n", ""),
        "Interrupt": Interrupt("i", "r", "m"),
        "Usage": Usage("p", "m"),
        "Outcome": Completed(),
        "StopReason": StopReason.PAUSE,
        "MediaBlock": ImageBlock(UrlSource("u")),
    }
    return () if annotation.startswith("tuple[") else values[annotation]


def test_the_records_of_many_messages_take_no_more_memory_than_their_bytes() -> None:
    messages = [Message(f"m{number}", "user", (TextBlock("hello"),)) for number in range(1_000)]
    tracemalloc.start()
    try:
        records = [encode_message(message) for message in messages]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * sum(map(sys.getsizeof, records))
