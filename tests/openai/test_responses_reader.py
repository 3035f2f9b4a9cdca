"""Streams of the Responses API, recorded and invented, become canonical events."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, Raw, StopReason, TextStarted, ToolCallStarted
from gateway.messages import Base64Source, ImageBlock, Message, Opaque, TextBlock, ToolCall, ToolSpec
from gateway.model import ModelRequest
from gateway.openai.chat_completions import safe_tool_name
from gateway.openai.responses import MESSAGE_ITEM, OUTPUT_ITEM, REASONING_ITEM
from gateway.openai.responses_output import OUTPUT_EVENTS
from gateway.openai.responses_reader import LIKENESS, RESPONSE_EVENTS, ResponsesReader
from gateway.providers.repeated_events import RepeatedEventsReader
from tests.model_answers import Answer, answer_of, read_to_end
from tests.recorded_traffic import Entry, each, ways_to_cut
from tests.responses_events import (
    Stream,
    call_item,
    error_event,
    message_item,
    reasoning_item,
    stream_events,
    web_search_item,
)
from tests.responses_recordings import recorded_bytes, recorded_events, recorded_response, recording, recordings
from tests.word_samples import REPEATABLE

NAME = "openai/v1/responses"
MODEL = "gpt-x"
TOOLS = (ToolSpec("add", "", {}), ToolSpec("shop.find", "", {}))
REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),), tools=TOOLS)


def read(pieces: list[bytes], request: ModelRequest = REQUEST) -> tuple[Events, ModelError | None]:
    """All events, and the failure; the body ends after the pieces."""
    return read_to_end(RepeatedEventsReader(ResponsesReader(request, NAME, MODEL), LIKENESS), pieces)


def answer(*events: dict[str, Any], request: ModelRequest = REQUEST) -> Answer:
    found, failed = read([Stream().record(event) for event in events], request)
    assert failed is None, failed.provider_message
    return answer_of(found)


def failed(*events: dict[str, Any]) -> ModelError:
    _, error = read([Stream().record(event) for event in events])
    assert error is not None
    return error


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(set(places)), len(body)]
    return [body[a:b] for a, b in pairwise(edges) if a < b]


each_stream = each(recordings("sse"))


# --- recordings ------------------------------------------------------------------------------------------------------


def check(entry: dict[str, Any], pieces: list[bytes]) -> None:
    events, failure = read(pieces)
    assert failure is None
    expect, found = entry["expect"], answer_of(events)
    assert found.text == expect["text"]
    assert found.reasoning.replace("\n\n", "") == expect["reasoning"].replace("\n\n", "")
    assert [(i, n, json.loads(a)) for i, n, a in found.calls] == [
        (call["id"], call["name"], json.loads(call["args"])) for call in expect["tools"]
    ]
    assert found.stop is (StopReason.TOOL_CALLS if expect["tools"] else StopReason.END_TURN)
    assert found.raw_stop == expect["stop"]
    usage, counted = expect["usage"], found.usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens) == (usage["input_tokens"], usage["output_tokens"])
    assert counted.reasoning_tokens == usage["output_tokens_details"]["reasoning_tokens"]
    assert counted.cached_input_tokens == usage["input_tokens_details"]["cached_tokens"]
    assert counted.cache_write_input_tokens == usage["input_tokens_details"].get("cache_write_tokens")
    assert (counted.provider, counted.model) == (NAME, MODEL)


@each_stream
def test_a_recording_gives_what_its_manifest_says_however_it_is_cut(entry: Entry) -> None:
    for pieces in ways_to_cut(recorded_bytes(entry)):
        check(entry, pieces)


@each_stream
def test_the_whole_response_as_a_document_gives_what_the_stream_gave(entry: dict[str, Any]) -> None:
    check(entry, [orjson.dumps(recorded_response(entry))])


@each_stream
def test_a_recording_that_is_cut_off_before_its_last_record_is_truncated(entry: dict[str, Any]) -> None:
    body = recorded_bytes(entry)
    last = max(body.rfind(b'"type":"response.completed"'), body.rfind(b"event: response.completed\ndata"))
    _, failure = read([body[: body.rfind(b"data: {", 0, last)]])
    assert failure is not None
    assert failure.kind is ModelErrorKind.TRUNCATED
    assert failure.retryable


@each_stream
def test_the_reader_knows_the_response_and_the_place_in_it(entry: dict[str, Any]) -> None:
    reader = ResponsesReader(REQUEST, NAME, MODEL)
    reader.feed(recorded_bytes(entry))
    assert reader.response_id == entry["expect"]["response_id"]
    assert reader.status == "completed"
    assert reader.sequence_number == recorded_events(entry)[-1]["sequence_number"]


def test_the_parts_of_a_recorded_summary_are_paragraphs() -> None:
    entry = recording("test_openai_responses_thinking_part_iter")
    events, _ = read([recorded_bytes(entry)])
    item = recorded_response(entry)["output"][0]
    assert len(item["summary"]) == 4
    assert answer_of(events).reasoning == "\n\n".join(part["text"] for part in item["summary"])


@each_stream
def test_recorded_reasoning_is_kept_as_the_item_that_its_end_showed(entry: dict[str, Any]) -> None:
    events, _ = read([recorded_bytes(entry)])
    kept = [json.loads(o.value) for o in answer_of(events).opaques if o.kind == REASONING_ITEM]
    # OpenAI seals it anew, and OpenRouter names it anew, for the whole response at the end
    ended = [e["item"] for e in recorded_events(entry) if e["type"] == "response.output_item.done"]
    assert kept == [
        item for item in ended if item["type"] == "reasoning" and (item.get("encrypted_content") or item.get("content"))
    ]


def test_a_recorded_call_id_that_the_thread_has_already_becomes_another() -> None:
    entry = recording("test_reused_tool_call_ids_stream___0")
    earlier = Message("a", "assistant", (ToolCall("call_0", "first_tool", "{}"),), turn_id="t")
    events, _ = read([recorded_bytes(entry)], ModelRequest("turn", (earlier,)))
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    assert started.call_id.startswith("call_0_")
    assert started.provider_call_id == "call_0"


# --- what answers consist of -----------------------------------------------------------------------------------------


def test_parallel_calls_interleave_and_keep_their_order() -> None:
    one, two = call_item("add", '{"a":1}', "c1"), call_item("shop_find", '{"q":"x"}', "c2")
    first, second = stream_events([one])[2:-1], stream_events([two])[2:-1]
    for event in second:
        event["output_index"] = 1
    zipped = [event for pair in zip(first, second, strict=True) for event in pair]
    found = answer(*stream_events([])[:2], *zipped, stream_events([one, two])[-1])
    assert found.calls == [("c1", "add", '{"a":1}'), ("c2", "shop_find", '{"q":"x"}')]
    assert found.stop is StopReason.TOOL_CALLS


def test_a_name_that_the_wire_did_not_take_comes_back_as_the_tools_own() -> None:
    found = answer(*stream_events([call_item(safe_tool_name("shop.find"), "{}", "c1")]))
    assert found.calls[0][1] == "shop.find"


def test_a_refusal_is_text_and_the_reason_that_the_answer_ended() -> None:
    found = answer(*stream_events([message_item(refusal="I will not.")]))
    assert (found.text, found.stop) == ("I will not.", StopReason.REFUSAL)


@pytest.mark.parametrize("first", [0, -1])
def test_only_the_text_that_refuses_is_one_that_refuses(first: int) -> None:
    events = stream_events([message_item("Well.", refusal="I will not.")])
    assert answer(*events[first:]).refuses == [False, True]


PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "output_format": "webp"}


@pytest.mark.parametrize("first", [0, -1])
def test_a_picture_is_a_medium_and_what_is_kept_beside_it_has_it_not_again(first: int) -> None:
    events = stream_events([message_item("See"), {**PICTURE, "result": "aGk="}])
    found = answer(*events[first:])
    (picture,) = found.media

    assert picture.opaque is not None
    assert picture == ImageBlock(Base64Source("aGk=", "image/webp"), index=1, opaque=picture.opaque)
    assert (picture.opaque.kind, json.loads(picture.opaque.value)) == (OUTPUT_ITEM, PICTURE)
    assert "aGk=" not in repr(found.raws)


def test_a_picture_that_is_none_fails_the_answer_with_words_that_say_so() -> None:
    failure = failed(*stream_events([{**PICTURE, "result": "not base64!"}]))
    assert (failure.kind, "not base64" in failure.message) == (ModelErrorKind.PROTOCOL, True)


def test_what_a_message_has_beside_its_text_is_kept_with_it_and_citations_are_shown() -> None:
    citation = {"type": "url_citation", "url": "https://h/", "title": "H", "start_index": 0, "end_index": 2}
    found = answer(*stream_events([message_item("Hi", annotations=[citation], phase="final_answer")]))
    (opaque,) = found.opaques
    assert (opaque.provider, opaque.model, opaque.kind) == (NAME, MODEL, MESSAGE_ITEM)
    assert json.loads(opaque.value) == {"phase": "final_answer", "annotations": [citation]}
    assert [raw["annotation"] for raw in found.raws if isinstance(raw, dict)] == [citation]


def test_a_plain_message_has_nothing_beside_it() -> None:
    assert answer(*stream_events([message_item("Hi")])).opaques == []


def test_the_parts_of_a_message_are_texts_of_their_own() -> None:
    events, _ = read([Stream().record(event) for event in stream_events([message_item("One", "Two")])])
    assert answer_of(events).text == "OneTwo"
    assert len([event for event in events if isinstance(event, TextStarted)]) == 2


def test_sealed_reasoning_without_words_is_kept() -> None:
    item = reasoning_item(encrypted="gAAAA")
    found = answer(*stream_events([item, message_item("Hi")]))
    assert found.reasoning == ""
    (opaque,) = found.opaques
    assert (opaque.kind, json.loads(opaque.value)) == (REASONING_ITEM, item)


def test_reasoning_that_could_not_go_back_leaves_nothing_but_its_words() -> None:
    found = answer(*stream_events([reasoning_item("Hm", "So"), message_item("Hi")]))
    assert (found.reasoning, found.opaques) == ("Hm\n\nSo", [])


def test_of_a_summary_and_raw_reasoning_in_one_item_the_first_counts() -> None:
    found = answer(*stream_events([reasoning_item("Sum", raw=("Raw",), encrypted="x"), message_item("Hi")]))
    assert found.reasoning == "Sum"


def test_an_item_of_the_providers_tools_is_shown_and_kept_in_its_place() -> None:
    item = web_search_item("weather")
    found = answer(*stream_events([reasoning_item(encrypted="x"), item, message_item("Sunny")]))
    assert [opaque.kind for opaque in found.opaques] == [REASONING_ITEM, OUTPUT_ITEM]
    assert json.loads(found.opaques[1].value) == item
    types = [raw["type"] for raw in found.raws if isinstance(raw, dict)]
    assert types == [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
    ]
    assert (found.text, found.stop) == ("Sunny", StopReason.END_TURN)


def test_an_item_that_waits_for_a_client_is_shown_but_not_kept() -> None:
    item = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "screenshot"}}
    found = answer(*stream_events([item, message_item("Look")]))
    assert found.opaques == []
    assert found.calls == []
    assert len(found.raws) == 2


# --- servers that do it differently ----------------------------------------------------------------------------------


def test_events_that_are_not_known_are_passed_over() -> None:
    events = stream_events([message_item("Hi")])
    odd: list[dict[str, Any]] = [
        {"type": "response.keepalive", "n": 1},
        {"type": "keepalive"},
        {"type": "response.new.thing", "x": {}},
        {},
    ]
    assert answer(*events[:3], *odd, *events[3:]).text == "Hi"


WHOLE = [
    reasoning_item("Hm", encrypted="x"),
    message_item("Grüße 👋"),
    call_item("add", '{"a": [1, 2]}', "c1"),
    call_item("add", "", "c2"),
]


@pytest.mark.parametrize(
    "left_out",
    [
        ("delta",),
        ("delta", ".done"),
        ("delta", "part.added", "part.done", "text.done", "arguments.done"),
        ("item.done",),
        ("item.added",),
        ("item.added", "part.added", "item.done", "part.done"),
        ("response.created", "response.in_progress"),
        ("response.output_", "response.content", "response.reasoning", "response.function"),
    ],
)
def test_what_a_server_leaves_out_is_made_good_by_what_it_sends(left_out: tuple[str, ...]) -> None:
    events = [e for e in stream_events(WHOLE) if not any(word in e["type"] for word in left_out)]
    found = answer(*events)
    assert (found.text, found.reasoning) == ("Grüße 👋", "Hm")
    assert [(name, arguments) for _, name, arguments in found.calls] == [("add", '{"a": [1, 2]}'), ("add", "")]
    assert found.stop is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    "places", [["item_id"], ["output_index"], ["content_index"], ["sequence_number"], ["item_id", "output_index"]]
)
def test_items_are_told_apart_by_either_of_their_names_or_by_their_order(places: list[str]) -> None:
    events = stream_events(WHOLE)
    for event in events:
        for place in places:
            event.pop(place, None)
        if "item_id" in places and "item" in event:
            event["item"].pop("id", None)
    found = answer(*events)
    assert (found.text, found.reasoning, len(found.calls)) == ("Grüße 👋", "Hm", 2)


@pytest.mark.parametrize(("name", "value"), [("item_id", "same"), ("output_index", 0)])
def test_a_name_that_all_items_share_is_passed_over(name: str, value: object) -> None:
    events = stream_events(WHOLE)
    for event in events:
        if name in event:
            event[name] = value
        if name == "item_id" and "item" in event:
            event["item"]["id"] = value
    found = answer(*events)
    assert (found.text, found.reasoning) == ("Grüße 👋", "Hm")
    assert [arguments for _, _, arguments in found.calls] == ['{"a": [1, 2]}', ""]


def test_parallel_calls_of_one_item_id_are_told_apart_by_their_places() -> None:
    one, two = ({**call_item("add", f'{{"a":{n}}}', f"c{n}"), "id": "fc"} for n in (1, 2))
    first, second = stream_events([one])[2:-1], stream_events([two])[2:-1]
    for event in second:
        event["output_index"] = 1
    zipped = [event for pair in zip(first, second, strict=True) for event in pair]
    assert answer(*zipped, stream_events([one, two])[-1]).calls == [("c1", "add", '{"a":1}'), ("c2", "add", '{"a":2}')]


def test_wholes_that_come_after_their_item_say_nothing_twice() -> None:
    events = stream_events(WHOLE)
    late = [event for event in events if event["type"].endswith((".done", "part.done")) and "item" not in event]
    early = [event for event in events if event not in late]
    assert len(late) > 5
    found = answer(*early[:-1], *late, early[-1])
    assert (found.text, found.reasoning, len(found.calls)) == ("Grüße 👋", "Hm", 2)


def test_ids_that_change_with_every_event_are_passed_over() -> None:
    events = stream_events(WHOLE)
    for number, event in enumerate(events):
        if "item_id" in event:
            event["item_id"] = f"x{number}"
        if "item" in event:
            event["item"] = {**event["item"], "id": f"y{number}"}
    found = answer(*events)
    assert (found.text, found.reasoning, len(found.calls)) == ("Grüße 👋", "Hm", 2)


def test_items_that_the_end_leaves_out_or_names_anew_are_not_said_twice() -> None:
    events = stream_events(WHOLE)
    output = [{**item, "id": f"other{i}"} for i, item in enumerate(WHOLE) if item["type"] != "reasoning"]
    events[-1]["response"]["output"] = output
    assert answer(*events).text == "Grüße 👋"


def test_arguments_that_come_as_an_object_become_text() -> None:
    found = answer(*stream_events([{**call_item("add", "", "c1"), "arguments": {"a": 1}}]))
    assert found.calls == [("c1", "add", '{"a":1}')]


@pytest.mark.parametrize("call_id", ["", None])
def test_a_call_without_an_id_gets_one(call_id: str | None) -> None:
    ((found, name, _),) = answer(*stream_events([{**call_item("add", "{}"), "call_id": call_id}])).calls
    assert found.startswith("call_")
    assert name == "add"


def test_two_calls_of_one_id_get_two() -> None:
    calls = answer(*stream_events([call_item("add", "{}", "c"), call_item("add", "{}", "c")])).calls
    assert calls[0][0] == "c"
    assert calls[1][0] != "c"


def test_a_call_without_a_name_is_no_answer() -> None:
    assert failed(*stream_events([{**call_item("add", "{}"), "name": None}])).kind is ModelErrorKind.PROTOCOL


def test_a_character_in_two_halves_is_put_together() -> None:
    events = stream_events([message_item("ab")])
    deltas = [event for event in events if event["type"].endswith("text.delta")]
    deltas[0]["delta"], deltas[1]["delta"] = "a\ud83d", "\ude00b"
    records = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    assert answer_of(read(records)[0]).text == "a😀b"


def test_done_after_the_last_event_is_none_of_our_business_and_before_it_is_a_truncation() -> None:
    whole = [Stream().record(event) for event in stream_events([message_item("Hi")])]
    assert answer_of(read([*whole, b"data: [DONE]\n\n"])[0]).text == "Hi"
    _, failure = read([*whole[:-1], b"data: [DONE]\n\n"])
    assert failure is not None
    assert failure.kind is ModelErrorKind.TRUNCATED


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("max_messages", StopReason.MAX_TOKENS),
        ("steered", StopReason.MAX_TOKENS),
    ],
)
def test_an_incomplete_response_says_why(reason: str, stop: StopReason) -> None:
    found = answer(*stream_events([message_item("Hal")], status="incomplete", incomplete_details={"reason": reason}))
    assert (found.text, found.stop, found.raw_stop) == ("Hal", stop, reason)
    assert found.usage is not None


def test_a_call_that_was_cut_off_is_never_called_a_call_to_make() -> None:
    events = stream_events([call_item("add", '{"a":', "c1")], status="incomplete")
    assert answer(*events).stop is StopReason.MAX_TOKENS


FAILURES = [
    ({"code": "server_error", "message": "oops"}, "server"),
    ({"code": "rate_limit_exceeded", "message": "slow"}, "throttled"),
    ({"code": "insufficient_quota", "message": "pay"}, "quota"),
    ({"code": "context_length_exceeded", "message": "long"}, "context_overflow"),
    ({"code": None, "message": "input exceeds model maximum"}, "context_overflow"),
    ({"code": "invalid_prompt", "message": "flagged"}, "content_filter"),
    ({"code": "image_content_policy_violation", "message": "no"}, "content_filter"),
    ({"code": "invalid_image_url", "message": "no"}, "invalid"),
    ({"code": "vector_store_timeout", "message": "no"}, "timeout"),
    ({"code": "throttlingexception", "message": "no"}, "throttled"),
    (None, "server"),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES)
def test_a_failed_response_is_an_error_with_the_kind_that_it_says(error: Any, kind: str) -> None:
    assert failed(*stream_events([message_item("Hi")], status="failed", error=error)).kind == kind
    assert failed(error_event(**(error or {"message": "?"}))).kind == kind
    assert failed({"type": "error", "error": error or {"message": "?"}}).kind == kind


def test_the_usage_of_a_failed_response_is_reported() -> None:
    records = [Stream().record(event) for event in stream_events([message_item("Hi")], status="failed")]
    reader = ResponsesReader(REQUEST, NAME, MODEL)
    events = reader.feed(b"".join(records))
    assert reader.failure is not None
    assert type(events[-1]).__name__ == "UsageReported"


def test_a_response_that_somebody_cancelled_is_not_tried_again() -> None:
    error = failed(*stream_events([message_item("Hi")], status="cancelled"))
    assert (error.kind, error.retryable) == (ModelErrorKind.TRUNCATED, False)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "truncated"),
        (b"<html>no</html>", "protocol"),
        (b'{"error": {"code": "rate_limit_exceeded", "message": "x"}}', "throttled"),
        (b'{"status": "queued", "output": []}', "protocol"),
        (b'{"hello": "world"}', "protocol"),
        (b"[1]", "protocol"),
        (b'{"output": [', "protocol"),
        (b'data: {"type": "response.output_text.delta", "delta": 5}\n\n', "protocol"),
        (b'data: {"type": "response.output_item.added"}\n\n', "protocol"),
        (b'data: {"type": "response.completed", "response": null}\n\n', "protocol"),
        (b'data: {"type": "response.output_t\n\n', "protocol"),
        (b'data: {"error": {"message": "x", "code": "overloaded_error"}}\n\n', "overloaded"),
        (b": ping\n\ndata: ping\n\n", "truncated"),
    ],
)
def test_what_is_no_answer_is_an_error(body: bytes, kind: str) -> None:
    _, failure = read([body] if body else [])
    assert failure is not None
    assert failure.kind == kind


# --- any answer ------------------------------------------------------------------------------------------------------

_words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_items = st.one_of(
    st.lists(_words, min_size=1, max_size=2).map(lambda words: message_item(*words)),
    st.tuples(st.lists(_words, max_size=2), st.booleans()).map(
        lambda t: reasoning_item(*t[0], encrypted="s" if t[1] else None)
    ),
    st.tuples(st.sampled_from(["add", "shop"]), st.dictionaries(_words, _words, max_size=2)).map(
        lambda t: call_item(t[0], json.dumps(t[1]))
    ),
    _words.map(web_search_item),
)


@REPEATABLE
@given(st.lists(_items, max_size=5), st.data())
def test_any_answer_gives_its_words_and_calls_however_it_is_cut(items: list[dict[str, Any]], data: Any) -> None:
    body = b"".join(Stream().record(event) for event in stream_events(items))
    places = data.draw(st.lists(st.integers(0, len(body)), max_size=12))
    events, failure = read(cut(body, places))
    assert failure is None
    found = answer_of(events)
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    assert found.text == "".join(texts)
    assert [(n, a) for _, n, a in found.calls] == [
        (item["name"], item["arguments"]) for item in items if item["type"] == "function_call"
    ]
    kept = [o for o in found.opaques if o.kind in (REASONING_ITEM, OUTPUT_ITEM)]
    wanted = [i for i in items if i.get("encrypted_content") or i["type"] == "web_search_call"]
    assert [json.loads(o.value) for o in kept] == wanted
    assert all(isinstance(opaque, Opaque) for opaque in kept)


def test_every_event_that_is_read_is_one_of_the_apis_or_a_known_dialects() -> None:
    from openai.types.responses import ResponseStreamEvent

    known = {member.model_fields["type"].annotation.__args__[0] for member in _members(ResponseStreamEvent)}
    dialects = {
        "response.done",
        "response.cancelled",
        "response.error",
        "response.output_text_annotation.added",
    }
    read = {*RESPONSE_EVENTS, *OUTPUT_EVENTS}
    assert read - dialects <= known
    shown = {kind for kind in known if "_call" in kind or kind.startswith("response.mcp_")}
    passed_over = known - read - shown
    assert passed_over == {
        "response.content_part.added",
        "response.content_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        *(
            kind
            for kind in passed_over
            if "audio" in kind or "shell" in kind or "steer" in kind or "compaction" in kind
        ),
    }


def _members(union: Any) -> list[Any]:
    from typing import get_args

    arguments = [a for a in get_args(union) if not isinstance(a, str)]
    members: list[Any] = []
    for argument in arguments:
        members += _members(argument) if get_args(argument) else [argument] if hasattr(argument, "model_fields") else []
    return members


def test_raw_events_name_their_provider() -> None:
    events, _ = read([Stream().record(event) for event in stream_events([web_search_item("x"), message_item("y")])])
    assert {event.source for event in events if isinstance(event, Raw)} == {NAME}
