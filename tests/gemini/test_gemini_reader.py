"""Streams of Gemini's generateContent, recorded and invented, become canonical events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import StopReason
from gateway.gemini.generate_content import (
    FAILED_REASONS,
    ITEM,
    PROVIDER_NAME,
    SIGNATURE,
    STOP_REASONS,
    TEXT_SIGNATURE,
    function_name,
)
from gateway.gemini.reader import LIKENESS, GenerateContentReader
from gateway.messages import Base64Source, ImageBlock, JsonObject, JsonValue, Message, Opaque, TextBlock, ToolSpec
from gateway.model import ModelRequest
from gateway.providers.repeated_events import RepeatedEventsReader
from tests.gemini_chunks import chunk, record
from tests.model_answers import Answer, answer_of, read_to_end
from tests.recorded_traffic import Entry, Recordings, beginnings, each, ways_to_cut

RECORDINGS = Recordings("gemini-generatecontent")
MODEL = "gemini-3-pro"
KEY = "AIza-secret-0123456789"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("a b", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def read(*pieces: bytes) -> tuple[Answer, ModelError | None]:
    events, failure = read_to_end(RepeatedEventsReader(GenerateContentReader(REQUEST, MODEL), LIKENESS), pieces)
    return (Answer() if failure is not None else answer_of(events)), failure


def answered(*pieces: bytes) -> Answer:
    answer, failed = read(*pieces)
    assert failed is None
    return answer


def failed(*pieces: bytes) -> ModelError:
    _, failure = read(*pieces)
    assert failure is not None
    return failure


# --- recorded traffic ------------------------------------------------------------------------------------------------

each_stream = each(RECORDINGS.of_kind("sse"))


def check(answer: Answer, expect: dict[str, Any]) -> None:
    assert answer.text == expect["text"]
    assert answer.reasoning == expect["reasoning"]
    assert [(name, json.loads(arguments)) for _, name, arguments in answer.calls] == [
        (tool["name"], json.loads(tool["args"])) for tool in expect["tools"]
    ]
    assert all(call_id.startswith("call_") for call_id, _, _ in answer.calls)
    counts, usage = expect["usage"], answer.usage
    assert usage is not None
    assert usage.input_tokens == counts["promptTokenCount"]
    assert usage.total_tokens == counts["totalTokenCount"]
    assert usage.reasoning_tokens == counts.get("thoughtsTokenCount")
    expected = StopReason.TOOL_CALLS if expect["tools"] else StopReason.END_TURN
    assert (answer.stop, answer.raw_stop) == (expected, expect["stop"])


@each_stream
def test_a_recording_gives_what_its_manifest_says_however_it_is_cut(entry: Entry) -> None:
    for pieces in ways_to_cut(RECORDINGS.answer(entry)):
        check(answered(*pieces), entry["expect"])


@each_stream
def test_a_recorded_stream_that_breaks_off_before_its_last_chunk_is_no_answer(entry: Entry) -> None:
    data = RECORDINGS.answer(entry)
    for begun in beginnings(data, data.index(b'"finishReason"')):
        failure = failed(begun)
        assert (failure.kind, failure.retryable) == (ModelErrorKind.TRUNCATED, True)


def test_a_recorded_answer_that_was_blocked_is_filtered() -> None:
    (entry,) = RECORDINGS.of_kind("json")
    answer = answered(record(json.loads(RECORDINGS.answer(entry))))
    assert (answer.stop, answer.raw_stop) == (StopReason.CONTENT_FILTER, "SAFETY")


def test_every_recording_is_in_the_manifest() -> None:
    RECORDINGS.check_manifest()


# --- responses -------------------------------------------------------------------------------------------------------


def test_calls_side_by_side_are_apart_and_keep_their_signature() -> None:
    first: JsonObject = {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    second: JsonObject = {"functionCall": {"id": "g7", "name": function_name("a b"), "args": {}}}
    answer = answered(chunk({"text": "Sure."}), chunk(first, second, finish="STOP"))
    assert [(name, arguments) for _, name, arguments in answer.calls] == [("add", '{"a":1}'), ("a b", "{}")]
    assert answer.calls[1][0] == "g7"
    assert answer.stop is StopReason.TOOL_CALLS
    reader = GenerateContentReader(REQUEST, MODEL)
    ended = [e for e in reader.feed(chunk(first, finish="STOP")) if type(e).__name__ == "ToolCallEnded"]
    assert [e.opaque for e in ended] == [Opaque(PROVIDER_NAME, MODEL, SIGNATURE, "c2ln")]  # type: ignore[union-attr]


def test_a_signature_is_on_its_thought_on_its_text_or_behind_a_text_of_many_parts() -> None:
    thought: JsonObject = {"text": "hm", "thought": True, "thoughtSignature": "dGhvdWdodA=="}
    answer = answered(chunk(thought), chunk({"text": "OK", "thoughtSignature": "d2hvbGU="}, finish="STOP"))
    assert [(o.kind, o.value) for o in answer.opaques] == [(SIGNATURE, "dGhvdWdodA=="), (SIGNATURE, "d2hvbGU=")]
    parts = [
        chunk({"text": "Hel"}),
        chunk({"text": "lo"}),
        chunk({"text": "", "thoughtSignature": "ZW5k"}, finish="STOP"),
    ]
    answer = answered(*parts)
    assert answer.text == "Hello"
    assert [(o.kind, o.value) for o in answer.opaques] == [(TEXT_SIGNATURE, "ZW5k")]


def test_what_ran_or_was_made_at_the_provider_is_kept_and_shown() -> None:
    code: JsonObject = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    outcome: JsonObject = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    answer = answered(chunk({"text": "Let me see."}, code), chunk(outcome, {"text": "2"}, finish="STOP"))
    assert answer.raws == [code, outcome]
    assert [(o.kind, json.loads(o.value)) for o in answer.opaques] == [(ITEM, code), (ITEM, outcome)]
    assert answer.text == "Let me see.2"


@pytest.mark.parametrize("in_one_read", [True, False])
def test_counts_are_those_of_the_last_chunk_that_has_any(in_one_read: bool) -> None:
    chunks = [
        chunk({"text": f"{n} "}, usageMetadata={"promptTokenCount": 10, "candidatesTokenCount": n}) for n in range(8)
    ]
    chunks.append(chunk({"text": "end"}, finish="STOP"))
    answer = answered(b"".join(chunks)) if in_one_read else answered(*chunks)
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 7)


def test_counts_are_those_of_the_last_chunk() -> None:
    usage: JsonObject = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    more: JsonObject = usage | {"toolUsePromptTokenCount": 2, "cachedContentTokenCount": 5, "candidatesTokenCount": 6}
    answer = answered(
        chunk({"text": "a"}, usageMetadata=usage), chunk({"text": "b"}, finish="STOP", usageMetadata=more)
    )
    found = answer.usage
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.reasoning_tokens, found.cached_input_tokens) == (
        12,
        10,
        4,
        5,
    )


@pytest.mark.parametrize(("word", "reason"), STOP_REASONS.items())
def test_the_finish_reason_tells_the_stop_reason(word: str, reason: str) -> None:
    assert answered(chunk({"text": "Hi"}, finish=word)).stop == StopReason(reason)


@pytest.mark.parametrize(("word", "kind"), FAILED_REASONS.items())
def test_a_finish_reason_that_says_that_it_failed_is_a_failure(word: str, kind: str) -> None:
    assert failed(chunk({"text": "Hi"}, finish=word)).kind is ModelErrorKind(kind)


def test_a_prompt_that_was_blocked_is_filtered() -> None:
    answer = answered(record({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    assert (answer.stop, answer.raw_stop) == (StopReason.CONTENT_FILTER, "PROHIBITED_CONTENT")


def test_an_error_in_the_middle_is_an_error_of_its_kind() -> None:
    error: JsonObject = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    assert failed(chunk({"text": "Hi"}), record(error)).kind is ModelErrorKind.OVERLOADED


def test_half_a_character_in_a_call_is_no_failure_of_ours() -> None:
    call = rb'{"functionCall": {"id": "c1", "name": "add", "args": {"a": "\ud83d"}}}'
    ran = rb'{"executableCode": {"language": "PYTHON", "code": "\ud83d"}}'
    whole = b'data: {"candidates": [{"content": {"parts": [%s, %s]}, "finishReason": "STOP"}]}\n\n'
    assert answered(whole % (ran, call)).calls == [("c1", "add", '{"a":"\\ud83d"}')]


@pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b'[{"candidates": []}]', b"data: {broken\n\n"])
def test_what_is_no_stream_of_chunks_is_an_error(start: bytes) -> None:
    assert failed(start).kind is ModelErrorKind.PROTOCOL


def test_a_key_that_the_provider_quotes_is_in_no_log() -> None:
    error: JsonObject = {"code": 400, "status": "INVALID_ARGUMENT", "message": f"API key not valid: {KEY}"}
    failure = failed(record({"error": error}))
    assert failure.kind is ModelErrorKind.AUTHENTICATION
    assert KEY not in failure.provider_message


# --- media -----------------------------------------------------------------------------------------------------------

PNG: JsonObject = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


def test_a_picture_is_a_medium_of_its_own_between_the_texts_with_its_signature() -> None:
    found = answered(chunk({"text": "See"}, {**PNG, "thoughtSignature": "c2ln"}, {"text": "there"}, finish="STOP"))

    opaque = Opaque(PROVIDER_NAME, MODEL, SIGNATURE, "c2ln")
    assert found.media == [ImageBlock(Base64Source("aGk=", "image/png"), index=1, opaque=opaque)]
    assert found.kinds[:5] == ["TextStarted", "TextEnded", "MediaGiven", "TextStarted", "TextEnded"]
    assert found.raws == []


def test_a_thought_in_pictures_is_kept_and_not_shown_as_the_answer() -> None:
    assert answered(chunk({**PNG, "thought": True}, finish="STOP")).media == []


@pytest.mark.parametrize("data", ["not base64!", "", "aGk", None, 7])
def test_a_medium_that_is_none_fails_the_answer_with_words_that_say_so(data: JsonValue) -> None:
    failure = failed(chunk({"inlineData": {"mimeType": "image/png", "data": data}}))
    assert failure.kind is ModelErrorKind.PROTOCOL
    assert "not base64" in failure.message
