"""Streams of Anthropic's Messages API, recorded and invented, become canonical events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.anthropic.messages_api import DECLINED, ITEM, PROVIDER_NAME, REDACTED, REFUSED, SIGNATURE, wire_name
from gateway.anthropic.reader import LIKENESS, MessageReader
from gateway.errors import LimitError, ModelError, ModelErrorKind
from gateway.events import Raw, StopReason, Usage
from gateway.messages import JsonObject, JsonValue, Message, Opaque, TextBlock, ToolSpec
from gateway.model import ModelRequest
from gateway.models.anthropic_messages import PROVIDER
from gateway.providers.repeated_events import RepeatedEventsReader
from tests.anthropic_events import block, text, whole
from tests.model_answers import Answer, answer_of, read_to_end
from tests.openai_chat_server import record
from tests.recorded_traffic import Entry, Recordings, beginnings, each, ways_to_cut

RECORDINGS = Recordings("anthropic-messages")
MODEL = "claude-sonnet-4-5"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("shop.find", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def read(*pieces: bytes, request: ModelRequest = REQUEST) -> tuple[Answer, ModelError | None]:
    events, failure = read_to_end(RepeatedEventsReader(MessageReader(request, MODEL), LIKENESS), pieces)
    return (Answer() if failure is not None else answer_of(events)), failure


def answered(*records: bytes) -> Answer:
    answer, failed = read(*records)
    assert failed is None
    return answer


# --- recorded traffic ------------------------------------------------------------------------------------------------

each_recording = each(RECORDINGS.entries)


def check(answer: Answer, expect: dict[str, Any]) -> None:
    assert answer.text == expect["text"]
    assert answer.reasoning == expect["reasoning"]
    assert answer.calls == []
    ran = [item for item in map(json.loads, (o.value for o in answer.opaques if o.kind == ITEM)) if "input" in item]
    assert [(item["type"], item["id"], item["name"], item["input"]) for item in ran] == [
        (tool["kind"], tool["id"], tool["name"], json.loads(tool["args"])) for tool in expect["tools"]
    ]
    counts = expect["usage"]
    cached, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
    total = counts["input_tokens"] + cached + written
    assert answer.usage == Usage(PROVIDER_NAME, MODEL, total, counts["output_tokens"], None, cached, written)
    assert (answer.stop, answer.raw_stop) == (StopReason(expect["stop"]), expect["stop"])


@each_recording
def test_a_recording_gives_what_its_manifest_says_however_it_is_cut(entry: Entry) -> None:
    for pieces in ways_to_cut(RECORDINGS.answer(entry)):
        check(answered(*pieces), entry["expect"])


@each_recording
def test_a_recorded_stream_that_breaks_off_anywhere_is_no_answer(entry: Entry) -> None:
    data = RECORDINGS.answer(entry)
    for begun in beginnings(data, data.index(b"event: message_stop")):
        _, failed = read(begun)
        assert failed is not None
        assert (failed.kind, failed.retryable) == (ModelErrorKind.TRUNCATED, True)


def test_every_recording_is_in_the_manifest() -> None:
    RECORDINGS.check_manifest()


# --- responses -------------------------------------------------------------------------------------------------------


def test_calls_stream_their_arguments_and_get_back_the_names_that_were_declared() -> None:
    call: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": wire_name("shop.find"), "input": {}}
    pieces: list[JsonObject] = [{"type": "input_json_delta", "partial_json": part} for part in ("", '{"q', '": 1}')]
    at_once: JsonObject = {"type": "tool_use", "id": "toolu_2", "name": "add", "input": {"a": 1}}
    events = [*text(0, "Let me see."), *block(1, call, *pieces), *block(2, at_once)]
    answer = answered(*whole(*events, stop="tool_use"))
    assert answer.calls == [("toolu_1", "shop.find", '{"q": 1}'), ("toolu_2", "add", '{"a":1}')]
    assert answer.stop is StopReason.TOOL_CALLS
    assert answer.usage == Usage(PROVIDER_NAME, MODEL, 15, 7, None, 5, None)


def test_a_signature_belongs_to_its_thought_and_a_sealed_thought_is_kept() -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    unseen = block(2, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "bm8="})
    events = [*thinking, *block(1, {"type": "redacted_thinking", "data": "c2VhbGVk"}), *unseen, *text(3, "Yes")]
    answer = answered(*whole(*events))
    assert answer.reasoning == "hm"
    assert [(o.kind, o.value) for o in answer.opaques] == [
        (SIGNATURE, "c2ln"),
        (REDACTED, "c2VhbGVk"),
        (SIGNATURE, "bm8="),
    ]
    assert {(o.provider, o.model) for o in answer.opaques} == {(PROVIDER_NAME, MODEL)}


def test_a_text_that_citations_cut_into_blocks_is_one_text() -> None:
    cited: JsonObject = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}
    quote = block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "it is blue"}, cited)
    answer = answered(*whole(*text(0, "They say "), *quote, *text(2, ".")))
    assert answer.text == "They say it is blue."
    assert len(answer.blocks) == 1
    assert answer.raws == [{"type": "citation", "citation": cited["citation"]}]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("pause_turn", StopReason.PAUSE),
        ("refusal", StopReason.REFUSAL),
        ("model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW),
        ("never_heard_of", StopReason.END_TURN),
    ],
)
def test_the_stop_reason_is_told(word: str, reason: StopReason) -> None:
    answer = answered(*whole(*text(0, "Hi"), stop=word))
    assert (answer.stop, answer.raw_stop) == (reason, word)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], DECLINED),
        (text(0, "To open "), "To open "),
        (
            [*text(0, "Look: "), *block(1, {"type": "tool_use", "id": "a", "name": "add", "input": {}})],
            f"Look: {DECLINED}",
        ),
    ],
    ids=["nothing", "words", "a call"],
)
def test_an_answer_that_was_refused_says_so_to_people_and_to_later_requests(
    events: list[JsonObject], said: str
) -> None:
    answer = answered(*whole(*events, stop="refusal"))
    assert answer.text == said
    assert answer.opaques == [Opaque(PROVIDER.name, MODEL, REFUSED, "refusal")]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ModelErrorKind.OVERLOADED),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, ModelErrorKind.THROTTLED),
        ({"type": "error", "error": {"type": "api_error", "message": "x"}}, ModelErrorKind.SERVER),
        ({"type": "error"}, ModelErrorKind.SERVER),
    ],
)
def test_an_error_in_the_middle_is_an_error_of_its_kind(event: JsonObject, kind: ModelErrorKind) -> None:
    _, failed = read(*whole(*text(0, "Hi"))[:-2], record(event))
    assert failed is not None
    assert failed.kind is kind


def test_pings_and_what_nobody_has_heard_of_are_passed_over() -> None:
    strange = block(7, {"type": "hologram", "x": 1}, {"type": "hologram_delta", "y": 2})
    answer = answered(*whole({"type": "ping"}, *strange, {"type": "later"}, *text(0, "Hi")))
    assert answer.text == "Hi"
    assert answer.opaques == []


@pytest.mark.parametrize("index", [None, [1], {}, "0"])
def test_a_block_without_a_number_that_is_one_is_read_all_the_same(index: JsonValue) -> None:
    events: list[JsonObject] = [{**event, "index": index} for event in text(0, "Hi")]
    assert answered(*whole(*events)).text == "Hi"


def test_half_a_character_in_a_call_is_no_failure_of_ours() -> None:
    half = '{"type": "content_block_start", "index": 0, "content_block": %s}'
    call = '{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": "\\ud83d"}}'
    ran = '{"type": "server_tool_use", "id": "s1", "name": "search", "input": {"q": "\\ud83d"}}'
    over = record({"type": "content_block_stop", "index": 0})
    records = [f"data: {half % block}\n\n".encode() + over for block in (ran, call)]
    (start, *_, delta, stop) = whole(stop="tool_use")
    assert answered(start, *records, delta, stop).calls == [("c1", "add", '{"a":"\\ud83d"}')]


@pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b'\xef\xbb\xbf{"id": "msg_1"}', b"data: {broken\n\n"])
def test_what_is_no_stream_of_messages_is_an_error(start: bytes) -> None:
    _, failed = read(start)
    assert failed is not None
    assert failed.kind is ModelErrorKind.PROTOCOL


def test_what_ran_at_the_provider_is_shown_as_it_came() -> None:
    item: JsonObject = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    reader = MessageReader(REQUEST, MODEL)
    delta: JsonObject = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    events = reader.feed(b"".join(whole(*block(0, item, delta), *text(1, "Hi"))))
    assert [event.event for event in events if isinstance(event, Raw)] == [{**item, "input": {"query": "x"}}]


def test_the_input_of_a_call_that_runs_at_the_provider_has_an_end() -> None:
    item: JsonObject = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    delta: JsonObject = {"type": "input_json_delta", "partial_json": "x" * 1_000}
    reader = MessageReader(replace(REQUEST, max_answer_bytes=5_000), MODEL)
    with pytest.raises(LimitError):
        reader.feed(b"".join(whole(*block(0, item, *[delta] * 6))))
