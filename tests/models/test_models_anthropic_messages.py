"""Anthropic's Messages: recorded streams become canonical events, any history becomes a request that the API takes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from hypothesis import given
from pydantic import ValidationError

from gateway.agent import ModelSettings, Secret
from gateway.anthropic_request import (
    GO_ON,
    ITEM,
    NO_CONTENT,
    OPENING,
    PROVIDER_NAME,
    REDACTED,
    SIGNATURE,
    anthropic_request,
)
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events, Raw, StopReason, Usage
from gateway.history import model_view
from gateway.http_client import HttpClients
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
)
from gateway.model import Model, ModelEnvironment, ModelRequest
from gateway.models.anthropic_messages import PROVIDER, MessageReader
from gateway.wire.anthropic_messages import messages_url, profile_of, wire_name
from tests.history_samples import any_histories
from tests.model_answers import Answer, answer_of, collect
from tests.openai_chat_server import ChatServer, Script, chat_server, record
from tests.sdk_types import check_accepted
from tests.word_samples import REPEATABLE

RECORDINGS = Path(__file__).parent.parent / "recordings" / "anthropic-messages"
MANIFEST: list[dict[str, Any]] = json.loads((RECORDINGS / "manifest.json").read_text())
MODEL = "claude-sonnet-4-5"
KEY = "sk-ant-secret-0123456789"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("shop.find", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)
DEADLINE_SECONDS = 20


def read(*pieces: bytes, request: ModelRequest = REQUEST) -> tuple[Answer, ModelError | None]:
    reader = MessageReader(request, MODEL)
    events: Events = []
    for piece in pieces:
        events += reader.feed(piece)
        if reader.done or reader.failure is not None:
            break
    else:
        events += reader.eof()
    assert reader.done == (reader.failure is None)
    if reader.failure is not None:
        return Answer(), reader.failure
    return answer_of(events), None


def whole(*events: JsonObject, stop: str = "end_turn") -> list[bytes]:
    """A response's records around those of its content."""
    usage: JsonObject = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
    start: JsonObject = {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}
    delta: JsonObject = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}
    return [record(event) for event in (start, *events, delta, {"type": "message_stop"})]


def block(index: int, content: JsonObject, *deltas: JsonObject) -> list[JsonObject]:
    events: list[JsonObject] = [{"type": "content_block_start", "index": index, "content_block": content}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def text(index: int, *words: str) -> list[JsonObject]:
    deltas: list[JsonObject] = [{"type": "text_delta", "text": word} for word in words]
    return block(index, {"type": "text", "text": ""}, *deltas)


def answered(*records: bytes) -> Answer:
    answer, failed = read(*records)
    assert failed is None
    return answer


# --- recorded traffic ------------------------------------------------------------------------------------------------

each_recording = pytest.mark.parametrize("entry", MANIFEST, ids=[entry["response"] for entry in MANIFEST])


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
def test_a_recording_read_whole_gives_what_its_manifest_says(entry: dict[str, Any]) -> None:
    check(answered((RECORDINGS / entry["response"]).read_bytes()), entry["expect"])


@each_recording
def test_a_recording_read_byte_by_byte_gives_the_same(entry: dict[str, Any]) -> None:
    data = (RECORDINGS / entry["response"]).read_bytes()
    check(answered(*(data[i : i + 1] for i in range(len(data)))), entry["expect"])


@each_recording
@pytest.mark.parametrize("seed", range(8))
def test_a_recording_cut_anywhere_gives_the_same(entry: dict[str, Any], seed: int) -> None:
    data, cuts = (RECORDINGS / entry["response"]).read_bytes(), random.Random(seed)
    edges = [0, *sorted(cuts.sample(range(len(data)), k=min(len(data) - 1, 2 ** (seed + 1)))), len(data)]
    check(answered(*(data[a:b] for a, b in pairwise(edges))), entry["expect"])


@each_recording
def test_a_recorded_stream_that_breaks_off_anywhere_is_no_answer(entry: dict[str, Any]) -> None:
    data = (RECORDINGS / entry["response"]).read_bytes()
    last = data.index(b"event: message_stop")
    for end in range(0, last, max(1, last // 40)):
        _, failed = read(data[:end])
        assert failed is not None
        assert (failed.kind, failed.retryable) == (ModelErrorKind.TRUNCATED, True)


def test_every_recording_is_in_the_manifest() -> None:
    named = {entry["response"] for entry in MANIFEST} | {entry["request"] for entry in MANIFEST} | {"manifest.json"}
    assert {path.name for path in RECORDINGS.iterdir()} == named


@each_recording
def test_the_recorded_request_would_be_ours_too(entry: dict[str, Any]) -> None:
    recorded = json.loads((RECORDINGS / entry["request"]).read_text())
    (asked,) = recorded["messages"]
    parameters = {name: value for name, value in recorded.items() if name not in ("messages", "model", "stream")}
    message = Message("u", "user", (TextBlock(asked["content"][0]["text"]),))
    request = ModelRequest("turn", (message,), parameters=parameters)
    assert anthropic_request(request, recorded["model"], profile_of(recorded["model"])) == recorded


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


@pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b'\xef\xbb\xbf{"id": "msg_1"}', b"data: {broken\n\n"])
def test_what_is_no_stream_of_messages_is_an_error(start: bytes) -> None:
    _, failed = read(start)
    assert failed is not None
    assert failed.kind is ModelErrorKind.PROTOCOL


# --- requests --------------------------------------------------------------------------------------------------------


def body_of(*messages: Message, system: str = "", **parameters: Any) -> JsonObject:
    body = anthropic_request(
        ModelRequest("turn", messages, system, TOOLS, parameters=parameters), MODEL, profile_of(MODEL)
    )
    if "max_tokens" in body:
        check_accepted(MessageCreateParamsStreaming, body)
    return body


def turns_of(*messages: Message, **parameters: Any) -> Any:
    return body_of(*messages, **parameters)["messages"]


def assistant(*blocks: ContentBlock) -> Message:
    return Message("a", "assistant", blocks, turn_id="t")


def own(kind: str, value: str, model: str = MODEL) -> Opaque:
    return Opaque(PROVIDER_NAME, model, kind, value)


def result(call_id: str, *content: ContentBlock, is_error: bool = False) -> Message:
    return Message(f"r{call_id}", "tool", (ToolResult(call_id, content, is_error),), turn_id="t")


def test_a_plain_question() -> None:
    body = body_of(HELLO, system="Be brief.", temperature=0.5)
    assert body["max_tokens"] == 64_000
    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert body["temperature"] == 0.5
    assert body["tools"] == [
        {
            "name": "add",
            "description": "Add.",
            "input_schema": {"type": "object", "properties": {"a": {"type": "number"}}},
        },
        {"name": wire_name("shop.find"), "input_schema": {"type": "object"}},
    ]
    assert "max_tokens" not in body_of(HELLO, max_tokens=None)


def test_all_results_are_in_the_next_users_turn_before_its_words() -> None:
    calls = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "add", "not json"))
    question = Message("u2", "user", (TextBlock("and?"),))
    turns = turns_of(
        HELLO, assistant(TextBlock("Sure"), *calls), result("c1", TextBlock("1")), result("c2", is_error=True), question
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        {"type": "text", "text": "Sure"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
    ]
    assert turns[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}]},
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": [{"type": "text", "text": NO_CONTENT}],
            "is_error": True,
        },
        {"type": "text", "text": "and?"},
    ]


def test_only_what_this_model_signed_or_sealed_goes_back() -> None:
    item = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    answer = assistant(
        ReasoningBlock("mine", 0, own(SIGNATURE, "c2ln")),
        ReasoningBlock("", 1, own(REDACTED, "c2VhbGVk")),
        ReasoningBlock("other model's", 2, own(SIGNATURE, "x", "claude-opus-4-1")),
        ReasoningBlock("other provider's", 3, Opaque("bedrock/converse", MODEL, SIGNATURE, "x")),
        ReasoningBlock("unsigned", 4),
        ReasoningBlock("", 5, own(ITEM, json.dumps(item))),
        ReasoningBlock("", 6, own(ITEM, json.dumps(found))),
        TextBlock("Yes", 7),
    )
    turns = turns_of(HELLO, answer, HELLO)
    assert turns[1]["content"] == [
        {"type": "thinking", "thinking": "mine", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        item,
        found,
        {"type": "text", "text": "Yes"},
    ]


def test_a_paused_answer_goes_back_as_it_stands_and_what_follows_is_the_same_turn() -> None:
    item = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    paused = assistant(TextBlock("Looking.", 0), ReasoningBlock("", 1, own(ITEM, json.dumps(item))))
    assert turns_of(HELLO, paused)[-1]["content"][-1] == item
    rest = assistant(ReasoningBlock("", 0, own(ITEM, json.dumps(found))), TextBlock("Found.", 1))
    turns = turns_of(HELLO, paused, rest, HELLO)
    assert [part["type"] for part in turns[1]["content"]] == ["text", *(i["type"] for i in (item, found)), "text"]
    # given up: a call of the provider's own without its result would be refused
    assert [part["type"] for part in turns_of(HELLO, paused, HELLO)[1]["content"]] == ["text"]


def test_the_first_turn_is_a_users_and_so_is_the_last() -> None:
    turns = turns_of(assistant(TextBlock("Welcome!")))
    assert [turn["content"][0]["text"] for turn in turns] == [OPENING, "Welcome!", GO_ON]
    assert turns_of()[0]["content"][0]["text"] == OPENING
    assert turns_of(Message("u", "user", (TextBlock(" "),)))[0]["content"] == [{"type": "text", "text": NO_CONTENT}]


def test_system_and_developer_messages_join_the_prompt() -> None:
    extra = Message("s", "developer", (TextBlock("No jokes."),))
    body = body_of(HELLO, extra, system="Be brief.")
    assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "No jokes."}]


def test_media_go_as_the_api_takes_them_and_a_note_stands_for_the_rest() -> None:
    picture, pdf = Base64Source("aGk=", "image/PNG"), Base64Source("aGk=", "application/pdf")
    contents = turns_of(
        Message(
            "u",
            "user",
            (
                ImageBlock(picture),
                ImageBlock(UrlSource("https://x.example/a.png")),
                ImageBlock(UrlSource("data:image/gif;base64,aGk=")),
                ImageBlock(UrlSource("http://x.example/a.png")),
                ImageBlock(Base64Source("aGk=", "image/tiff")),
                ImageBlock(FileSource("file_1", "anthropic")),
                ImageBlock(FileSource("file_1", "openai")),
                DocumentBlock(pdf, "report.pdf"),
                DocumentBlock(Base64Source("aGVsbG8=", "text/csv")),
                DocumentBlock(Base64Source("aGk=", "application/msword")),
                AudioBlock(Base64Source("aGk=", "audio/wav")),
                ImageBlock(Base64Source("!", "image/png")),
            ),
        )
    )[0]["content"]
    assert [part.get("source", {}).get("type") or part["text"] for part in contents] == [
        "base64",
        "url",
        "base64",
        "(an image was left out: the model provider fetches https addresses only)",
        "(an image was left out: the model does not take its format)",
        "file",
        "(an image was left out: it is kept by another provider)",
        "base64",
        "text",
        "(a document was left out: the model does not take its format)",
        "(an audio was left out: the model takes no such thing)",
        "(an image was left out: its data is empty or broken)",
    ]
    assert contents[0]["source"]["media_type"] == "image/png"
    assert contents[7]["title"] == "report.pdf"
    assert contents[8]["source"]["data"] == "hello"


def test_thinking_does_not_begin_in_the_middle_of_a_turn() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    call, answer = ToolCall("c1", "add", "{}"), result("c1", TextBlock("1"))
    assert "thinking" not in body_of(HELLO, assistant(call), answer, thinking=thinking)
    thought = ReasoningBlock("hm", 0, own(SIGNATURE, "c2ln"))
    assert body_of(HELLO, assistant(thought, call), answer, thinking=thinking)["thinking"] == thinking
    assert body_of(HELLO, thinking=thinking)["thinking"] == thinking


def test_no_tool_may_be_called_where_an_answer_is_wanted_now() -> None:
    forced: JsonObject = {"tool_choice": {"type": "any"}}
    request = ModelRequest("turn", (HELLO,), tools=TOOLS, tool_choice="none", parameters=forced)
    assert anthropic_request(request, MODEL, profile_of(MODEL))["tool_choice"] == {"type": "none"}


def test_prompt_caching_marks_what_stays_the_same() -> None:
    body: Any = body_of(HELLO, system="Be brief.", prompt_caching="1h")
    point = {"type": "ephemeral", "ttl": "1h"}
    assert body["tools"][-1]["cache_control"] == point
    assert body["system"][-1]["cache_control"] == point
    assert body["messages"][-1]["content"][-1]["cache_control"] == point
    assert "cache_control" not in body["tools"][0]
    assert "prompt_caching" not in body


@REPEATABLE
@given(any_histories())
def test_any_history_becomes_a_request_that_the_api_takes(history: list[Message]) -> None:
    body = anthropic_request(ModelRequest("turn", model_view(history), tools=TOOLS), MODEL, profile_of(MODEL))
    check_accepted(MessageCreateParamsStreaming, body)
    check_turns(body["messages"])


def check_turns(turns: Any) -> None:
    """https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use and the API's refusals."""
    assert [turn["role"] for turn in turns] == [("user", "assistant")[at % 2] for at in range(len(turns))]
    waiting: list[str] = []
    for turn in turns:
        assert turn["content"]
        results = [part["tool_use_id"] for part in turn["content"] if part["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting)
        kinds = [part["type"] == "tool_result" for part in turn["content"]]
        assert kinds == sorted(kinds, reverse=True), "results stand first"
        waiting = [part["id"] for part in turn["content"] if part["type"] == "tool_use"]
        assert len(set(waiting)) == len(waiting)
        assert all(part["text"].strip() for part in turn["content"] if part["type"] == "text")
    assert not waiting


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://proxy.example/anthropic/v1/messages", "https://proxy.example/anthropic/v1/messages"),
        ("http://127.0.0.1:8080/x?key=1", "http://127.0.0.1:8080/x/v1/messages?key=1"),
    ],
)
def test_the_address_is_below_the_endpoint(endpoint: str, url: str) -> None:
    assert messages_url(endpoint) == url


@pytest.mark.parametrize(
    ("model", "max_tokens"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-sonnet-latest", 8_192),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-sonnet-4-5", 64_000),
        ("anthropic/claude-sonnet-4-5", 64_000),
        ("some-model", 8_192),
    ],
)
def test_every_model_is_asked_for_as_long_an_answer_as_it_can_give(model: str, max_tokens: int) -> None:
    assert profile_of(model).max_tokens == max_tokens


# --- over a socket ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def model_behind(*scripts: Script) -> AsyncGenerator[tuple[Model, ChatServer]]:
    async with asyncio.timeout(DEADLINE_SECONDS), chat_server() as server:
        server.answers(*scripts)
        clock = SystemClock()
        http = HttpClients(clock)
        settings = ModelSettings(PROVIDER.name, MODEL, server.endpoint, {"anthropic_api_key": Secret(KEY)})
        try:
            yield PROVIDER.open(settings, ModelEnvironment(clock, http)), server
        finally:
            await http.close()


def failed(status: int, kind: str, message: str = "no") -> Script:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).encode()
    return Script(status, (body,), "application/json", framing="length")


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    request = ModelRequest("turn", (HELLO,), parameters={"anthropic_beta": ["a-1", "b-2"], "max_tokens": 9})
    async with model_behind(Script(pieces=whole(*text(0, "Hel", "lo 👋")))) as (model, server):
        answer = answer_of(await collect(model.stream(request)))
    assert answer.text == "Hello 👋"
    assert answer.stop is StopReason.END_TURN
    (received,) = server.requests
    assert (received.method, received.target) == ("POST", "/v1/messages")
    assert received.headers["x-api-key"] == KEY
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert received.headers["anthropic-beta"] == "a-1,b-2"
    assert received.json["max_tokens"] == 9
    assert "anthropic_beta" not in received.json


async def test_closing_the_stream_closes_the_socket() -> None:
    script = Script(pieces=whole(*text(0, "Hi"))[:-2], ending="silence")
    async with model_behind(script) as (model, server):
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


CUT = whole(*text(0, "Hel", "lo"))[:-2]
FAULTS: dict[str, tuple[Script, ModelErrorKind, bool]] = {
    "429": (failed(429, "rate_limit_error"), ModelErrorKind.THROTTLED, True),
    "529": (failed(529, "overloaded_error"), ModelErrorKind.OVERLOADED, True),
    "500": (failed(500, "api_error"), ModelErrorKind.SERVER, True),
    "401": (failed(401, "authentication_error", f"invalid x-api-key {KEY}"), ModelErrorKind.AUTHENTICATION, False),
    "404": (failed(404, "not_found_error"), ModelErrorKind.NOT_FOUND, False),
    "400": (failed(400, "invalid_request_error"), ModelErrorKind.INVALID, False),
    "too long": (
        failed(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        ModelErrorKind.CONTEXT_OVERFLOW,
        False,
    ),
    "a page with 200": (Script(pieces=(b"<html>Hi",), content_type="text/html"), ModelErrorKind.PROTOCOL, True),
    "nothing": (Script(), ModelErrorKind.TRUNCATED, True),
    "an end in the middle": (Script(pieces=CUT), ModelErrorKind.TRUNCATED, True),
    "a close in the middle": (Script(pieces=CUT, ending="close"), ModelErrorKind.NETWORK, True),
    "a reset": (Script(pieces=CUT, ending="reset"), ModelErrorKind.NETWORK, True),
    "no answer": (Script(raw=b""), ModelErrorKind.NETWORK, True),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_of_its_kind_and_never_an_end(fault: str) -> None:
    script, kind, retryable = FAULTS[fault]
    async with model_behind(script) as (model, _):
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(REQUEST))
    error = caught.value
    assert (error.kind, error.retryable) == (kind, retryable)
    assert KEY not in repr(error.__dict__) + str(error)


@pytest.mark.parametrize(
    ("endpoint", "key", "says"),
    [
        (None, "", "set anthropic_api_key"),
        ("ftp://x", "k", "is not an http or https URL"),
        ("http://u:p@x", "k", "carries credentials"),
        (None, "ä", "characters that no key has"),
    ],
)
def test_settings_that_can_never_work_are_refused(endpoint: str | None, key: str, says: str) -> None:
    settings = ModelSettings(PROVIDER.name, MODEL, endpoint, {"anthropic_api_key": Secret(key)})
    clock = SystemClock()
    with pytest.raises(ConfigurationError, match=says):
        PROVIDER.open(settings, ModelEnvironment(clock, HttpClients(clock)))


def test_what_ran_at_the_provider_is_shown_as_it_came() -> None:
    item: JsonObject = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    reader = MessageReader(REQUEST, MODEL)
    delta: JsonObject = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    events = reader.feed(b"".join(whole(*block(0, item, delta), *text(1, "Hi"))))
    assert [event.event for event in events if isinstance(event, Raw)] == [{**item, "input": {"query": "x"}}]


def test_a_request_that_the_sdk_could_not_send_is_found() -> None:
    wrong: JsonValue = [{"role": "user", "content": [{"type": "t"}]}]
    with pytest.raises(ValidationError):
        check_accepted(MessageCreateParamsStreaming, body_of(HELLO) | {"messages": wrong})
