"""What Anthropic is asked: any history as turns that its API takes, held against the official SDK's types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from gateway.anthropic.messages_api import (
    DECLINED,
    ITEM,
    PROVIDER_NAME,
    REDACTED,
    REFUSED,
    SIGNATURE,
    messages_url,
    profile_of,
    wire_name,
)
from gateway.anthropic.request import anthropic_request
from gateway.history.model_view import model_view
from gateway.messages import (
    AudioBlock,
    Base64Source,
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
    ToolSpec,
    UrlSource,
)
from gateway.model import ModelRequest
from gateway.options.generation import OneTool
from gateway.wire.stand_ins import GO_ON, NO_CONTENT, OPENING
from tests.history_samples import any_histories
from tests.recorded_traffic import Entry, Recordings, each
from tests.said_messages import assistant, result
from tests.sdk_types import check_accepted
from tests.word_samples import REPEATABLE

RECORDINGS = Recordings("anthropic-messages")
MODEL = "claude-sonnet-4-5"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("shop.find", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))


def check_with_sdk(body: object) -> None:
    # here, because it takes seconds to load all of its types
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

    check_accepted(MessageCreateParamsStreaming, body)


def body_of(*messages: Message, system: str = "", **parameters: Any) -> JsonObject:
    body = anthropic_request(
        ModelRequest("turn", messages, system, TOOLS, parameters=parameters), MODEL, profile_of(MODEL)
    )
    if "max_tokens" in body:
        check_with_sdk(body)
    return body


def turns_of(*messages: Message, **parameters: Any) -> Any:
    return body_of(*messages, **parameters)["messages"]


def own(kind: str, value: str, model: str = MODEL) -> Opaque:
    return Opaque(PROVIDER_NAME, model, kind, value)


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


def test_what_failed_is_told_in_words_alone() -> None:
    picture = ImageBlock(Base64Source("iVBORw0KGgo=", "image/png"))
    messages = (HELLO, assistant(ToolCall("c1", "add", "{}")), result("c1", TextBlock("no"), picture, is_error=True))
    (told,) = turns_of(*messages)[-1]["content"]
    assert told["is_error"] is True
    assert [block["type"] for block in told["content"]] == ["text", "text"]
    assert "an image was left out" in told["content"][1]["text"]


@pytest.mark.parametrize(("budget", "most"), [(1_024, 64_000), (63_999, 68_095), (100_000, 104_096)])
def test_thoughts_leave_room_for_an_answer(budget: int, most: int) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}
    assert body_of(HELLO, thinking=thinking)["max_tokens"] == most
    assert body_of(HELLO, thinking=thinking, max_tokens=5)["max_tokens"] == 5  # the operator's own word


def test_a_tool_is_declared_as_one_plain_object() -> None:
    union = ToolSpec("pick", "", {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]})
    body: Any = anthropic_request(ModelRequest("turn", (HELLO,), tools=(union,)), MODEL, profile_of(MODEL))
    schema = body["tools"][0]["input_schema"]
    assert schema == {"type": "object", "properties": {"a": {"type": "string"}}, "required": []}


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
        "(an image was left out: the model cannot reach it where it is)",
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
    without = ModelRequest("turn", (HELLO,), parameters=forced)
    assert "tool_choice" not in anthropic_request(without, MODEL, profile_of(MODEL))


def test_a_tool_that_has_to_be_called_is_named_and_nothing_is_thought_about_it() -> None:
    """Anthropic refuses a forced tool together with thinking."""
    thinking: JsonObject = {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "tool_choice": {"type": "auto"}}
    request = ModelRequest("turn", (HELLO,), tools=TOOLS, tool_choice=OneTool(TOOLS[0].name), parameters=thinking)
    body = anthropic_request(request, MODEL, profile_of(MODEL))
    assert body["tool_choice"] == {"type": "tool", "name": TOOLS[0].name}
    assert body["thinking"] == {"type": "disabled"}
    plain = ModelRequest("turn", (HELLO,), tools=TOOLS, tool_choice=OneTool(TOOLS[0].name))
    assert "thinking" not in anthropic_request(plain, MODEL, profile_of(MODEL))


def test_prompt_caching_marks_what_stays_the_same() -> None:
    body: Any = body_of(HELLO, system="Be brief.", prompt_caching="1h")
    point = {"type": "ephemeral", "ttl": "1h"}
    assert body["tools"][-1]["cache_control"] == point
    assert body["system"][-1]["cache_control"] == point
    assert body["messages"][-1]["content"][-1]["cache_control"] == point
    assert "cache_control" not in body["tools"][0]
    assert "prompt_caching" not in body


@pytest.mark.thorough
@REPEATABLE
@given(any_histories())
def test_any_history_becomes_a_request_that_the_api_takes(history: list[Message]) -> None:
    body = anthropic_request(ModelRequest("turn", model_view(history), tools=TOOLS), MODEL, profile_of(MODEL))
    check_with_sdk(body)
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


def test_a_request_that_the_sdk_could_not_send_is_found() -> None:
    wrong: JsonValue = [{"role": "user", "content": [{"type": "t"}]}]
    with pytest.raises(ValidationError):
        check_with_sdk(body_of(HELLO) | {"messages": wrong})


# --- refusals --------------------------------------------------------------------------------------------------------


def refused(*blocks: TextBlock | ToolCall, provider: str = PROVIDER_NAME) -> Message:
    mark = TextBlock("To open it", 0, Opaque(provider, MODEL, REFUSED, "refusal"))
    return assistant(mark, *blocks)


def question(text: str) -> Message:
    return Message(f"u {text}", "user", (TextBlock(text),))


def test_a_question_that_was_refused_is_not_asked_again() -> None:
    turns = turns_of(HELLO, assistant(TextBlock("Hello")), question("a bomb"), refused(), question("thanks"))
    assert "bomb" not in str(turns)
    assert "To open it" not in str(turns)
    assert [turn["content"][0]["text"] for turn in turns] == [
        "Hi",
        "Hello",
        "(this message is withheld: the model declined to answer it)",
        DECLINED,
        "thanks",
    ]


def test_what_led_from_the_question_to_the_refusal_is_not_told_either() -> None:
    calls = [ToolCall(name, "add", "{}") for name in ("a", "b")]
    history = (question("a bomb"), assistant(calls[0]), result("a", "5"), refused(calls[1]), result("b", "not run"))
    turns = turns_of(HELLO, assistant(TextBlock("Hello")), *history, question("thanks"))
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2 + ["user"]
    assert "tool_use" not in str(turns)
    assert "tool_result" not in str(turns)
    assert turns[3]["content"] == [{"type": "text", "text": DECLINED}]


def test_a_refusal_of_somebody_elses_is_told_as_it_stands() -> None:
    turns = turns_of(question("a bomb"), refused(provider="openai/v1/chat/completions"), question("thanks"))
    assert [turn["content"][0]["text"] for turn in turns] == ["a bomb", "To open it", "thanks"]


@each(RECORDINGS.entries)
def test_the_recorded_request_would_be_ours_too(entry: Entry) -> None:
    recorded = RECORDINGS.request(entry)
    (asked,) = recorded["messages"]
    parameters = {name: value for name, value in recorded.items() if name not in ("messages", "model", "stream")}
    message = Message("u", "user", (TextBlock(asked["content"][0]["text"]),))
    request = ModelRequest("turn", (message,), parameters=parameters)
    assert anthropic_request(request, recorded["model"], profile_of(recorded["model"])) == recorded
