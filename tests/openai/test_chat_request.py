"""Model requests in the words of chat completions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    Message,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolSpec,
    UrlSource,
    VideoBlock,
)
from gateway.model import ModelRequest
from gateway.openai.chat_completions import DETAILS, EXTRA_CONTENT, PROVIDER_NAME, Dialect, dialect_of, safe_tool_name
from gateway.openai.chat_request import chat_request
from gateway.options.generation import OneTool
from gateway.wire.strict_json import object_text
from tests.said_messages import assistant, result, user

PNG = Base64Source("iVBORw0KGgo=", "image/png")
DATA_URL = "data:image/png;base64,iVBORw0KGgo="
DEEPSEEK = dialect_of("https://api.deepseek.com")
OPENROUTER = dialect_of("https://openrouter.ai/api/v1")
OPENAI = dialect_of("https://api.openai.com/v1")
PLAIN = Dialect()


def body(*messages: Message, dialect: Dialect = PLAIN, **request: Any) -> Any:
    return json.loads(json.dumps(chat_request(ModelRequest("turn", messages, **request), "gpt-x", dialect)))


def written(*messages: Message, dialect: Dialect = PLAIN, **request: Any) -> Any:
    return body(*messages, dialect=dialect, **request)["messages"]


def test_a_plain_question_is_a_plain_request() -> None:
    assert body(user("Hi"), system="Be kind.") == {
        "model": "gpt-x",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_parameters_come_last_and_null_takes_a_field_away() -> None:
    parameters: JsonObject = {"max_completion_tokens": 5, "model": "other", "stream_options": None}
    assert body(user("Hi"), parameters=parameters) == {
        "model": "other",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "max_completion_tokens": 5,
    }


def test_tools_are_functions_with_whole_schemas_and_names_that_the_wire_takes() -> None:
    tools = (ToolSpec("now", "", {}), ToolSpec("shop.find", "Finds.", {"type": "object", "properties": {"q": {}}}))
    assert body(user("Hi"), tools=tools)["tools"] == [
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
        {
            "type": "function",
            "function": {
                "name": safe_tool_name("shop.find"),
                "description": "Finds.",
                "parameters": {"type": "object", "properties": {"q": {}}},
            },
        },
    ]


def test_no_tool_may_be_called_where_the_loop_says_so_whatever_the_parameters_say() -> None:
    required: JsonObject = {"tool_choice": "required"}
    tools = (ToolSpec("now", "", {}),)
    assert body(user("Hi"), tools=tools, tool_choice="none", parameters=required)["tool_choice"] == "none"
    assert body(user("Hi"), tools=tools, parameters=required)["tool_choice"] == "required"
    assert "tool_choice" not in body(user("Hi"), tool_choice="none")
    assert "tool_choice" not in body(user("Hi"), parameters=required)


def test_a_tool_that_has_to_be_called_is_named_whatever_the_parameters_say() -> None:
    tools = (ToolSpec("now", "", {}), ToolSpec("my.tool", "", {}))
    sent = body(user("Hi"), tools=tools, tool_choice=OneTool("my.tool"), parameters={"tool_choice": "none"})
    assert sent["tool_choice"] == {"type": "function", "function": {"name": safe_tool_name("my.tool")}}
    assert "tool_choice" not in body(user("Hi"), tool_choice=OneTool("my.tool"))


def test_instructions_that_follow_one_another_become_one_in_the_dialects_role() -> None:
    messages = (
        Message("s", "system", (TextBlock("Two."),)),
        Message("d", "developer", (TextBlock("Three."),)),
        user("Hi"),
        Message("s2", "system", (TextBlock("Later."),)),
    )
    assert written(*messages, system="One.") == [
        {"role": "system", "content": "One.\n\nTwo.\n\nThree."},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Later."},
    ]
    assert [m["role"] for m in written(*messages, dialect=OPENAI)] == ["system", "developer", "user", "system"]


def test_text_parts_alone_are_one_plain_text_and_nothing_is_said_to_be_nothing() -> None:
    assert written(user("a", "b"))[0]["content"] == "a\nb"
    assert written(user("", " "))[0]["content"] == "(no content)"
    assert written(user())[0]["content"] == "(no content)"


def test_media_are_parts_beside_the_text() -> None:
    message = user(
        "Look:",
        ImageBlock(PNG),
        ImageBlock(UrlSource("https://example.com/a.png")),
        ImageBlock(UrlSource(DATA_URL)),
        AudioBlock(Base64Source("UklGRg==", "audio/x-wav")),
        AudioBlock(UrlSource("data:audio/mpeg;base64,SUQz")),
        DocumentBlock(Base64Source("JVBERi0=", "application/pdf"), "a.pdf"),
        DocumentBlock(FileSource("file-1")),
    )
    assert written(message)[0]["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


def test_documents_of_text_are_text() -> None:
    source = Base64Source(base64.b64encode("größe\n1".encode()).decode(), "text/csv; charset=utf-8")
    assert written(user(DocumentBlock(source, "a.csv")))[0]["content"] == (
        '<document name="a.csv">\ngröße\n1\n</document>'
    )


@pytest.mark.parametrize(
    "block",
    [
        VideoBlock(Base64Source("AAAA", "video/mp4")),
        AudioBlock(UrlSource("https://example.com/a.mp3")),
        ImageBlock(FileSource("file-1")),
        ImageBlock(UrlSource("file:///etc/passwd")),
        ImageBlock(UrlSource("s3://bucket/key")),
        ImageBlock(UrlSource("data:image/png")),
        DocumentBlock(UrlSource("https://example.com/a.pdf")),
        DocumentBlock(FileSource("f", "bedrock/converse")),
        DocumentBlock(Base64Source("AAAA", "application/msword")),
    ],
)
def test_what_the_wire_cannot_carry_is_left_out_with_a_word_and_a_warning(
    block: ContentBlock, caplog: pytest.LogCaptureFixture
) -> None:
    content = written(user("See", block))[0]["content"]
    assert content.startswith("See\n(")
    assert "left out" in content
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]


def test_a_dialect_that_takes_videos_and_files_behind_urls_gets_them() -> None:
    blocks = (VideoBlock(UrlSource("https://h/v.mp4")), DocumentBlock(UrlSource("https://h/a.pdf"), "a.pdf"))
    assert written(user(*blocks), dialect=OPENROUTER)[0]["content"] == [
        {"type": "video_url", "video_url": {"url": "https://h/v.mp4"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://h/a.pdf"}},
    ]


def test_participants_names_go_where_they_are_taken() -> None:
    assert written(user("Hi", name="Ada"), dialect=OPENAI)[0]["name"] == "Ada"
    assert "name" not in written(user("Hi", name="Ada L."), dialect=OPENAI)[0]
    assert "name" not in written(user("Hi", name="Ada"))[0]


def test_calls_and_results_follow_one_another_in_order() -> None:
    messages = (
        user("Hi"),
        assistant("Let me", ToolCall("c1", "shop.find", '{"q": 1}'), ToolCall("c2", "now", "")),
        result("c1", "found", "more"),
        result("c2", is_error=True),
        user("Go on"),
    )
    assert written(*messages)[1:] == [
        {
            "role": "assistant",
            "content": "Let me",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": safe_tool_name("shop.find"), "arguments": '{"q": 1}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found\nmore"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: (no output)"},
        {"role": "user", "content": "Go on"},
    ]


def test_ids_that_are_too_long_are_shortened_alike_in_call_and_result() -> None:
    call_id = "c" * 80
    _, answer, outcome = written(user("Hi"), assistant(ToolCall(call_id, "now", "{}")), result(call_id, "x"))
    assert answer["tool_calls"][0]["id"] == outcome["tool_call_id"]
    assert len(outcome["tool_call_id"]) <= 40
    assert answer["content"] is None


@pytest.mark.parametrize("arguments", ["", " ", "{", "[1]", "null", '"{}"', '{"a": NaN}', '{"a": 1}{"b": 2}'])
def test_arguments_that_are_no_object_become_one(arguments: str) -> None:
    assert object_text(arguments) == "{}"


def test_valid_arguments_stay_as_the_model_wrote_them() -> None:
    assert object_text('{ "a":  1.0 }') == '{ "a":  1.0 }'


def test_images_in_results_follow_in_a_user_message_after_the_last_result() -> None:
    messages = (
        user("Hi"),
        assistant(ToolCall("c1", "draw", "{}"), ToolCall("c2", "now", "{}")),
        result("c1", "done", ImageBlock(PNG)),
        result("c2", "12:00"),
    )
    assert written(*messages)[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "done\n(an image is attached below)"},
        {"role": "tool", "tool_call_id": "c2", "content": "12:00"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From the result of the tool draw:"},
                {"type": "image_url", "image_url": {"url": DATA_URL}},
            ],
        },
    ]
    assert [m["role"] for m in written(*messages, user("Thanks"))[2:]] == ["tool", "tool", "user", "user"]


def test_reasoning_goes_back_only_within_the_tool_loop_and_only_where_it_is_wanted() -> None:
    earlier = assistant(ReasoningBlock("old"), "Hello")
    current = assistant(ReasoningBlock("one"), ReasoningBlock("two"), ToolCall("c1", "now", "{}"))
    messages = (user("Hi"), earlier, user("Time?"), current, result("c1", "12:00"))
    answers = [m for m in written(*messages, dialect=DEEPSEEK) if m["role"] == "assistant"]
    assert [answer.get("reasoning_content") for answer in answers] == [None, "one\n\ntwo"]
    assert "reasoning" not in json.dumps(written(*messages, dialect=OPENAI))
    assert "reasoning" not in json.dumps(written(*messages))


@pytest.mark.parametrize(
    ("provider", "model", "goes"),
    [(PROVIDER_NAME, "gpt-x", True), (PROVIDER_NAME, "other", False), ("b", "gpt-x", False)],
)
def test_opaque_parts_go_back_only_to_the_model_that_minted_them(provider: str, model: str, goes: bool) -> None:
    details: list[object] = [{"type": "reasoning.encrypted", "data": "x"}]
    thought = ReasoningBlock("why", opaque=Opaque(provider, model, DETAILS, json.dumps(details)))
    extra = {"google": {"thought_signature": "s"}}
    call = ToolCall("c1", "now", "{}", opaque=Opaque(provider, model, EXTRA_CONTENT, json.dumps(extra)))
    answer = written(user("Hi"), assistant(thought, call), result("c1", "x"), dialect=OPENROUTER)[1]
    assert answer.get(DETAILS) == (details if goes else None)
    assert answer["tool_calls"][0].get(EXTRA_CONTENT) == (extra if goes else None)
    assert answer.get("reasoning") == (None if goes else "why")


def test_an_answer_without_words_and_calls_does_not_go_back() -> None:
    assert [m["role"] for m in written(user("Hi"), assistant(ReasoningBlock("hm"), "  "), user("?"))] == [
        "user",
        "user",
    ]


def test_of_a_picture_that_a_model_made_there_are_words() -> None:
    messages = written(user("Draw"), assistant(TextBlock("See"), ImageBlock(PNG)), user("Larger"))
    assert messages[1] == {"role": "assistant", "content": "See\n\n(an image was left out: only users can send one)"}
