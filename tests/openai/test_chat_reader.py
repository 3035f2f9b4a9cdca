"""Streams of chat completions, recorded and invented, become canonical events."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ModelErrorKind
from gateway.events import ModelCallEnded, StopReason, TextDelta, TextEnded, TextStarted, UsageReported
from gateway.messages import JsonObject, Message, TextBlock, ToolCall, ToolSpec
from gateway.model import ModelRequest
from gateway.openai.chat_completions import PROVIDER_NAME, STOP_REASONS, safe_tool_name
from gateway.openai.chat_reader import LIKENESS, ChatCompletionReader
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.wire.stand_ins import TAKEN_BACK
from tests.model_answers import Answer, answer_of, read_to_end
from tests.openai_chat_server import DONE, chunk, record, text_records
from tests.recorded_traffic import Entry, Recordings, beginnings, each, ways_to_cut

RECORDINGS = Recordings("openai-chat")
TOOLS = (ToolSpec("add", "", {}), ToolSpec("now", "", {}), ToolSpec("shop.find", "", {}))
REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),), tools=TOOLS)


def read(*pieces: bytes, request: ModelRequest = REQUEST) -> Answer:
    events, failure = read_to_end(RepeatedEventsReader(ChatCompletionReader(request, "gpt-x"), LIKENESS), pieces)
    answer = answer_of(events)
    answer.failure = failure
    return answer


def read_chunks(*chunks: object, done: bool = True) -> Answer:
    return read(*[record(c) for c in chunks], *([DONE] if done else []))


def deltas(*parts: object, finish_reason: str | None = "stop") -> Answer:
    return read_chunks(*[chunk(part) for part in parts], chunk({}, finish_reason))


# --- recorded traffic --------------------------------------------------------------------------------------------

each_recording = each(RECORDINGS.entries)


def check(answer: Answer, expect: dict[str, Any]) -> None:
    assert answer.text == expect["text"]
    assert answer.reasoning == expect["reasoning"]
    assert [(name, arguments) for _, name, arguments in answer.calls] == [
        (t["name"], t["args"]) for t in expect["tools"]
    ]
    for (call_id, _, _), tool in zip(answer.calls, expect["tools"], strict=True):
        assert call_id == tool["id"] if tool["id"] else call_id.startswith("call_")
    (usage,) = answer.usages
    assert (usage.input_tokens, usage.output_tokens) == (
        expect["usage"]["prompt_tokens"],
        expect["usage"]["completion_tokens"],
    )
    assert (usage.provider, usage.model) == (PROVIDER_NAME, "gpt-x")
    if "error" in expect:
        assert answer.failure is not None
        assert answer.failure.kind is ModelErrorKind.INVALID
        assert expect["error"]["message"] in answer.failure.provider_message
        assert answer.end is None
    else:
        assert answer.end is not None
        assert answer.end.raw_reason == expect["stop"]
        assert answer.end.reason == STOP_REASONS[expect["stop"] or "stop"]


@each_recording
def test_a_recording_gives_what_its_manifest_says_however_it_is_cut(entry: Entry) -> None:
    for pieces in ways_to_cut(RECORDINGS.answer(entry)):
        check(read(*pieces), entry["expect"])


def test_every_recording_is_in_the_manifest() -> None:
    RECORDINGS.check_manifest()


@each(RECORDINGS.of_kind("sse"))
def test_a_recorded_stream_that_breaks_off_anywhere_is_no_answer(entry: Entry) -> None:
    data = RECORDINGS.answer(entry)
    whole = max(data.find(b'"finish_reason":"'), 0) or data.find(b"[DONE]")
    for begun in beginnings(data, whole):
        answer = read(begun)
        assert answer.end is None
        assert answer.failure is not None
        assert answer.failure.kind is ModelErrorKind.TRUNCATED
        assert answer.failure.retryable


# --- how a response ends -----------------------------------------------------------------------------------------


def test_events_come_with_the_read_that_brought_them() -> None:
    reader = ChatCompletionReader(REQUEST, "gpt-x")
    records = text_records("Hel", "lo")
    assert reader.feed(records[0]) == []
    first, second = reader.feed(records[1]), reader.feed(records[2])
    assert [type(event) for event in first] == [TextStarted, TextDelta]
    assert [type(event) for event in second] == [TextDelta]
    assert [type(e) for e in reader.feed(b"".join([*records[3:], DONE]))] == [TextEnded, UsageReported, ModelCallEnded]
    assert reader.done


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("STOP", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("model_length", StopReason.CONTEXT_OVERFLOW),
        ("tool_calls", StopReason.END_TURN),  # without any call
        ("never_heard_of", StopReason.END_TURN),
        (None, StopReason.END_TURN),
    ],
)
def test_the_finish_reason_tells_the_stop_reason(finish_reason: str | None, reason: StopReason) -> None:
    assert deltas({"content": "Hi"}, finish_reason=finish_reason).end == ModelCallEnded(reason, finish_reason)


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "function_call", None, "STOP"])
def test_calls_make_a_plain_end_a_tool_turn(finish_reason: str | None) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": "{}"}}
    end = deltas({"tool_calls": [call]}, finish_reason=finish_reason).end
    assert end == ModelCallEnded(StopReason.TOOL_CALLS, finish_reason)


def test_calls_of_a_response_that_was_cut_off_are_none_to_run() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a":'}}
    assert deltas({"tool_calls": [call]}, finish_reason="length").end == ModelCallEnded(StopReason.MAX_TOKENS, "length")


@pytest.mark.parametrize(
    ("finish_reason", "kind"),
    [("error", ModelErrorKind.SERVER), ("abort", ModelErrorKind.TRUNCATED), ("network_error", ModelErrorKind.NETWORK)],
)
def test_a_finish_reason_that_says_that_it_failed_is_a_failure(finish_reason: str, kind: ModelErrorKind) -> None:
    answer = deltas({"content": "Hi"}, finish_reason=finish_reason)
    assert answer.failure is not None
    assert answer.failure.kind is kind
    assert answer.end is None


def test_a_stream_without_done_ends_well_after_its_finish_reason() -> None:
    answer = read(*text_records("Hi"))
    assert answer.end == ModelCallEnded(StopReason.END_TURN, "stop")
    assert answer.usage


def test_a_last_record_without_its_blank_line_counts() -> None:
    assert read(b"".join(text_records("Hi", finish_reason=None)), b"data: [DONE]").text == "Hi"


def test_a_stream_without_done_and_finish_reason_is_cut_off() -> None:
    answer = read(*text_records("Hi", finish_reason=None))
    assert answer.text == "Hi"
    assert answer.failure is not None
    assert answer.failure.kind is ModelErrorKind.TRUNCATED


def test_what_follows_done_is_not_read() -> None:
    assert read(b"".join([*text_records("Hi"), DONE, record(chunk({"content": "again"}))])).text == "Hi"


def test_an_empty_answer_is_an_answer() -> None:
    answer = deltas({"role": "assistant", "content": None})
    assert answer.kinds == ["ModelCallEnded"]


# --- text and reasoning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field_name", ["reasoning_content", "reasoning"])
def test_reasoning_comes_before_the_text_as_a_block_of_its_own(field_name: str) -> None:
    answer = deltas({field_name: "Hm", "content": ""}, {field_name: "m", "content": None}, {"content": "Hi"})
    assert (answer.reasoning, answer.text) == ("Hmm", "Hi")
    assert answer.kinds[:4] == ["ReasoningStarted", "ReasoningEnded", "TextStarted", "TextEnded"]


def test_reasoning_in_several_fields_is_counted_once() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "index": 0}]
    answer = deltas(
        {"reasoning": "Hm", "reasoning_content": "Hm", "reasoning_details": details},
        {"reasoning": "m", "reasoning_content": "m"},
    )
    assert answer.reasoning == "Hmm"


def test_signed_reasoning_is_kept_to_go_back_as_it_was() -> None:
    answer = deltas(
        {"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "", "signature": "s", "index": 0}]},
        {"content": "Hi"},
    )
    (opaque,) = answer.opaques
    assert (opaque.provider, opaque.model, opaque.kind) == (PROVIDER_NAME, "gpt-x", "reasoning_details")
    assert json.loads(opaque.value) == [{"type": "reasoning.text", "text": "Hm", "signature": "s", "index": 0}]
    assert answer.kinds[:4] == ["ReasoningStarted", "ReasoningEnded", "TextStarted", "TextEnded"]


def test_encrypted_reasoning_alone_is_kept_too() -> None:
    answer = deltas({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, {"content": "Hi"})
    assert [opaque.kind for opaque in answer.opaques] == ["reasoning_details"]
    assert answer.reasoning == ""


def test_a_server_that_sends_thoughts_and_words_in_every_chunk_makes_one_block_of_each() -> None:
    answer = deltas(*({"reasoning_content": t, "content": w} for t, w in [("a", "1"), ("b", "2"), ("c", "3")]))
    assert (answer.reasoning, answer.text) == ("abc", "123")
    assert answer.kinds.count("TextStarted") == answer.kinds.count("ReasoningStarted") == 1


def test_content_may_be_a_list_of_parts() -> None:
    answer = deltas(
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}, {"type": "reference"}]}]},
        {"content": [{"type": "thinking", "thinking": "m"}, {"type": "text", "text": "H"}, "i", None]},
    )
    assert (answer.reasoning, answer.text) == ("Hmm", "Hi")


@given(cuts=st.lists(st.integers(0, 60), max_size=8))
def test_thoughts_between_tags_are_thoughts_wherever_they_are_cut(cuts: list[int]) -> None:
    text = "\n<think>Is it <b>? </thin k</think>\n\nYes. <think>"
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    answer = deltas(*({"content": text[a:b]} for a, b in pairwise(edges)))
    assert answer.reasoning == "Is it <b>? </thin k"
    assert answer.text == "Yes. <think>"


def test_white_space_before_a_call_is_no_message() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": "{}"}}
    answer = deltas({"content": "\n\n"}, {"tool_calls": [call]})
    assert answer.text == ""
    assert "TextStarted" not in answer.kinds


def test_white_space_before_words_belongs_to_them() -> None:
    assert deltas({"content": "\n"}, {"content": " Hi"}, {"content": " "}, {"content": "you "}).text == "\n Hi you "


def test_text_after_a_call_is_a_message_of_its_own() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": "{}"}}
    answer = deltas({"content": "One"}, {"tool_calls": [call]}, {"content": "Two"})
    assert answer.kinds.count("TextStarted") == 2
    assert answer.kinds.index("TextEnded") < answer.kinds.index("ToolCallStarted")


def test_a_refusal_is_text_and_the_stop_reason() -> None:
    answer = deltas({"refusal": "I "}, {"refusal": "won't"})
    assert answer.text == "I won't"
    assert (answer.refuses, deltas({"content": "Yes"}).refuses) == ([True], [False])
    assert answer.end == ModelCallEnded(StopReason.REFUSAL, "stop")


def test_halves_of_a_surrogate_pair_in_two_chunks_are_one_character() -> None:
    pieces = [b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half for half in (b"x\\ud83d", b"\\udc4b")]
    assert read(*pieces, DONE).text == "x👋"


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": {"content": 7, "tool_calls": {}, "reasoning": [], "refusal": 1}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"choices": [], "usage": None, "error": None},
        "text",
        None,
        [1],
    ],
)
def test_odd_chunks_between_others_change_nothing(odd: object) -> None:
    answer = read_chunks(chunk({"content": "H"}), odd, chunk({"content": "i"}), chunk({}, "stop"))
    assert answer.text == "Hi"
    assert answer.kinds.count("TextStarted") == 1


def test_comments_and_pings_change_nothing() -> None:
    answer = read(b": OPENROUTER PROCESSING\n\nevent: ping\ndata: ping\n\n", *text_records("Hi"), b": bye\n\n", DONE)
    assert answer.text == "Hi"


# --- calls -------------------------------------------------------------------------------------------------------


def test_calls_interleave_and_share_their_message() -> None:
    def piece(index: int, **more: object) -> dict[str, object]:
        return {"tool_calls": [{"index": index, **more}]}

    answer_events = deltas(
        piece(0, id="c1", function={"name": "add", "arguments": ""}),
        piece(1, id="c2", function={"name": "now", "arguments": ""}),
        piece(0, function={"arguments": '{"a":'}),
        piece(1, function={"arguments": "{}"}),
        piece(0, function={"arguments": "1}"}),
    )
    assert answer_events.calls == [("c1", "add", '{"a":1}'), ("c2", "now", "{}")]


def test_names_that_were_made_safe_come_back_as_they_were() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": safe_tool_name("shop.find"), "arguments": "{}"}}
    assert deltas({"tool_calls": [call]}).calls == [("c1", "shop.find", "{}")]


def test_an_id_that_the_thread_has_already_becomes_another() -> None:
    earlier = Message("a", "assistant", (ToolCall("call_0", "now", "{}"),))
    call = {"index": 0, "id": "call_0", "function": {"name": "now", "arguments": "{}"}}
    request = ModelRequest("turn", (earlier,), tools=TOOLS)
    answer = read(record(chunk({"tool_calls": [call]}, "tool_calls")), DONE, request=request)
    assert answer.calls[0][0] != "call_0"


def test_two_calls_of_one_id_become_two() -> None:
    entries = [{"index": i, "id": "same", "function": {"name": "now", "arguments": "{}"}} for i in range(2)]
    calls = deltas({"tool_calls": entries}).calls
    assert len({call_id for call_id, _, _ in calls}) == 2


def test_the_old_function_call_is_a_call() -> None:
    answer = deltas({"function_call": {"name": "add", "arguments": '{"a"'}}, {"function_call": {"arguments": ":1}"}})
    assert [call[1:] for call in answer.calls] == [("add", '{"a":1}')]


def test_what_a_server_adds_to_a_call_is_kept_to_go_back() -> None:
    extra: JsonObject = {"google": {"thought_signature": "s"}}
    call = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": "{}"}, "extra_content": extra}
    (opaque,) = deltas({"tool_calls": [call]}).opaques
    assert (opaque.kind, json.loads(opaque.value)) == ("extra_content", extra)


# --- usage -------------------------------------------------------------------------------------------------------


def test_usage_in_every_chunk_is_reported_once_as_it_was_last() -> None:
    chunks = [chunk({"content": "x"}, usage={"prompt_tokens": 5, "completion_tokens": n}) for n in (1, 2, 3)]
    assert [u.output_tokens for u in read_chunks(*chunks, chunk({}, "stop")).usages] == [3]


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "usage": {"prompt_tokens": 5}},
        {"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 5}}]},
        {"choices": [], "x_groq": {"usage": {"prompt_tokens": 5}}},
    ],
)
def test_usage_is_found_where_servers_put_it(last: object) -> None:
    assert [usage.input_tokens for usage in read_chunks(chunk({"content": "x"}, "stop"), last).usages] == [5]


def test_usage_is_reported_before_the_end_and_also_when_the_answer_fails() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    assert deltas({"content": "x"}).usages == []
    answer = read_chunks(chunk({"content": "x"}, usage=usage), {"error": {"message": "no"}})
    assert len(answer.usages) == 1
    assert answer.failure is not None


# --- errors and documents ----------------------------------------------------------------------------------------


def test_an_error_in_the_middle_comes_after_the_events_before_it() -> None:
    answer = read_chunks(chunk({"content": "Hi"}), {"error": {"message": "sk-abcdef123456 is bad", "code": 503}})
    assert answer.text == "Hi"
    assert answer.failure is not None
    assert answer.failure.kind is ModelErrorKind.OVERLOADED
    assert "abcdef" not in answer.failure.provider_message + answer.failure.message


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<!doctype html><title>Login</title>", ModelErrorKind.PROTOCOL),
        (b"\xef\xbb\xbf \n<html>", ModelErrorKind.PROTOCOL),
        (b'data: {"choices": [{"del\n\n', ModelErrorKind.PROTOCOL),
        (b'{"choices": [', ModelErrorKind.PROTOCOL),
        (b'{"hello": 1}', ModelErrorKind.PROTOCOL),
        (b"[]", ModelErrorKind.PROTOCOL),
        (b"[1]", ModelErrorKind.PROTOCOL),
        (b'{"error": {"message": "x", "code": "rate_limit_exceeded"}}', ModelErrorKind.THROTTLED),
        (b'[{"error": {"message": "x", "code": 400}}]', ModelErrorKind.INVALID),
        (b"", ModelErrorKind.TRUNCATED),
        (b"Bad Gateway", ModelErrorKind.TRUNCATED),
        (b'data: {"choices": [{"del', ModelErrorKind.TRUNCATED),
        (b"data: " + b"x" * 17 * 2**20, ModelErrorKind.PROTOCOL),
        (b'{"a": "' + b"x" * 17 * 2**20, ModelErrorKind.PROTOCOL),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_completion_is_an_error_of_its_kind(data: bytes, kind: ModelErrorKind) -> None:
    for pieces in ([data], [data[:1], data[1:]]):
        answer = read(*pieces)
        assert answer.failure is not None
        assert answer.failure.kind is kind
        assert answer.end is None


def test_a_document_in_answer_to_a_stream_request_gives_the_same_events() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "tool_calls": [call]}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    answer = read(json.dumps(document, indent=1).encode())
    assert (answer.reasoning, answer.text, answer.calls) == ("Hm", "Hi", [("c1", "add", '{"a":1}')])
    assert answer.kinds == [
        "ReasoningStarted",
        "ReasoningEnded",
        "TextStarted",
        "TextEnded",
        "ToolCallStarted",
        "UsageReported",
        "ToolCallEnded",
        "ModelCallEnded",
    ]


# --- Azure's asynchronous filter ---------------------------------------------------------------------------------

SAFE: JsonObject = {"hate": {"filtered": False, "severity": "safe"}}
OFFSETS: JsonObject = {"check_offset": 44, "start_offset": 44, "end_offset": 198}


def note(results: JsonObject, finish_reason: str | None = None) -> JsonObject:
    """What the filter says of what was out before it looked."""
    choice: JsonObject = {"index": 0, "finish_reason": finish_reason, "content_filter_results": results}
    return {
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "choices": [{**choice, "content_filter_offsets": OFFSETS}],
    }


def test_what_a_filter_let_out_before_it_had_looked_at_it_is_taken_back() -> None:
    found: JsonObject = {"protected_material_text": {"detected": True, "filtered": True}}
    said = [chunk({"reasoning_content": "Hm."}), *map(chunk, ({"content": "To open "}, {"content": "it"}))]
    for stop in ([], [chunk({}, "stop")]):  # the filter may come behind the model's own end
        answer = read_chunks(*said, note(SAFE), *stop, note(found, "content_filter"))
        assert answer.end is not None
        assert answer.end.reason is StopReason.CONTENT_FILTER
        assert sorted(answer.retracted) == sorted(answer.blocks)
        assert [text for text in answer.retracted.values() if text] == [TAKEN_BACK]


def test_what_a_filter_looked_at_first_stands_though_it_is_cut_off() -> None:
    found = {"hate": {"filtered": True, "severity": "high"}}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter", "content_filter_results": found}]}
    answer = read_chunks(chunk({"content": "To open "}), end)
    assert (answer.text, answer.retracted) == ("To open ", {})
    assert answer.end is not None
    assert answer.end.reason is StopReason.CONTENT_FILTER


def test_an_answer_that_the_asynchronous_filter_does_not_mind_stands() -> None:
    answer = read_chunks(chunk({"content": "Hello"}), note(SAFE), chunk({}, "stop"), note(SAFE))
    assert (answer.text, answer.retracted) == ("Hello", {})
    assert answer.end is not None
    assert answer.end.reason is StopReason.END_TURN
