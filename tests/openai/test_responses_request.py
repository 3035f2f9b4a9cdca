"""Model requests in the words of the Responses API."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.history.model_view import model_view
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
from gateway.openai.chat_completions import safe_tool_name
from gateway.openai.responses import MESSAGE_ITEM, OUTPUT_ITEM, REASONING_ITEM, Profile, profile_of
from gateway.openai.responses_request import ResponsesTarget, input_items, responses_request, safe_call_id
from gateway.options.generation import OneTool
from gateway.wire.strict_json import object_text
from tests.history_samples import any_histories
from tests.responses_events import reasoning_item, web_search_item
from tests.responses_recordings import recorded_request, recorded_response, recording
from tests.responses_rules import accept
from tests.said_messages import assistant, result, user
from tests.word_samples import REPEATABLE

NAME = "openai/v1/responses"
MODEL = "gpt-5.6"
OPENAI = profile_of("api.openai.com", MODEL)
PLAIN = Profile()
PNG_DATA = "iVBORw0KGgo="
PNG = Base64Source(PNG_DATA, "image/png")
DATA_URL = f"data:image/png;base64,{PNG_DATA}"
PDF = Base64Source("JVBERi0=", "application/pdf")


def target(profile: Profile = OPENAI, **fields: Any) -> ResponsesTarget:
    return replace(ResponsesTarget(NAME, MODEL, profile, MODEL), **fields)


def own(kind: str, item: object, *, model: str = MODEL, provider: str = NAME) -> Opaque:
    return Opaque(provider, model, kind, json.dumps(item))


def thought(item: dict[str, Any], text: str = "", **whose: str) -> ReasoningBlock:
    return ReasoningBlock(text, opaque=own(REASONING_ITEM, item, **whose))


def body(*messages: Message, to: ResponsesTarget | None = None, **request: Any) -> Any:
    return json.loads(json.dumps(responses_request(ModelRequest("turn", messages, **request), to or target())))


def written(*messages: Message, to: ResponsesTarget | None = None, **request: Any) -> Any:
    asked = body(*messages, to=to, **request)
    accept(asked)
    return asked["input"]


# --- the whole -------------------------------------------------------------------------------------------------------


def test_a_plain_question_is_a_plain_request_that_nothing_is_stored_of() -> None:
    assert body(user("Hi"), system="Be kind.") == {
        "model": MODEL,
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_a_model_without_sealed_reasoning_is_not_asked_for_it() -> None:
    assert "include" not in body(user("Hi"), to=target(sealed=False))


def test_parameters_win_and_null_takes_a_field_away() -> None:
    parameters: JsonObject = {"max_output_tokens": 5, "model": "other", "store": None, "reasoning": {"effort": "low"}}
    asked = body(user("Hi"), parameters=parameters, system="x")
    assert (asked["model"], asked["max_output_tokens"], asked["reasoning"]) == ("other", 5, {"effort": "low"})
    assert "store" not in asked


def test_the_parameters_tools_and_include_stand_beside_ours() -> None:
    search: JsonObject = {"type": "web_search"}
    parameters: JsonObject = {"tools": [search], "include": ["web_search_call.action.sources"]}
    asked = body(user("Hi"), tools=(ToolSpec("now", "", {}),), parameters=parameters)
    accept(asked)
    assert [tool["type"] for tool in asked["tools"]] == ["function", "web_search"]
    assert asked["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert body(user("Hi"), parameters=parameters)["tools"] == [search]
    assert "include" not in body(user("Hi"), parameters={"include": None})


def test_params_go_out_last_and_unaltered() -> None:
    params: JsonObject = {"tools": [], "temperature": None, "model": "x", "extra": {"a": [None]}}
    asked = body(user("Hi"), tools=(ToolSpec("now", "", {}),), parameters={"model": "y"}, to=target(params=params))
    assert {name: asked[name] for name in params} == params


def test_tools_are_functions_with_whole_schemas_that_are_not_strict() -> None:
    tools = (ToolSpec("now", "", {}), ToolSpec("shop.find", "Finds.", {"type": "object", "properties": {"q": {}}}))
    asked = body(user("Hi"), tools=tools)
    accept(asked)
    assert asked["tools"] == [
        {
            "type": "function",
            "name": "now",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
        {
            "type": "function",
            "name": safe_tool_name("shop.find"),
            "description": "Finds.",
            "parameters": {"type": "object", "properties": {"q": {}}},
            "strict": False,
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
    tools = (ToolSpec("now", "", {}), ToolSpec("pick", "", {}))
    sent = body(user("Hi"), tools=tools, tool_choice=OneTool("pick"), parameters={"tool_choice": "none"})
    assert sent["tool_choice"] == {"type": "function", "name": "pick"}
    assert "tool_choice" not in body(user("Hi"), tool_choice=OneTool("pick"))


def test_instructions_in_the_history_stand_where_they_stood_in_the_servers_role() -> None:
    messages = (
        Message("s", "system", (TextBlock("One."),)),
        user("Hi"),
        Message("d", "developer", (TextBlock("Two."),)),
        Message("e", "developer", (TextBlock(" "),)),
    )
    assert [item["role"] for item in written(*messages)] == ["system", "user", "developer"]
    assert [item["role"] for item in written(*messages, to=target(PLAIN))] == ["system", "user", "system"]


@pytest.mark.parametrize("messages", [(), (Message("s", "system", (TextBlock("One."),)),), (assistant(" "),)])
def test_a_conversation_without_a_question_begins_with_one(messages: tuple[Message, ...]) -> None:
    assert written(*messages)[-1] == {"role": "user", "content": "(the conversation begins)"}


# --- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_goes_back_as_the_items_it_came_as() -> None:
    sealed = reasoning_item("Hm", encrypted="gAAA")
    search = web_search_item("x")
    answer = assistant(
        thought(sealed, "Hm"),
        ReasoningBlock("", opaque=own(OUTPUT_ITEM, {**search, "created_by": None})),
        TextBlock("Let me see.", opaque=own(MESSAGE_ITEM, {"phase": "commentary", "annotations": []})),
        ToolCall("c1", "shop.find", '{"q": 1}'),
        ToolCall("c2", "add", ""),
    )
    assert written(user("Hi"), answer, result("c1", "1"), result("c2", "2")) == [
        {"role": "user", "content": "Hi"},
        sealed,
        search,
        {"role": "assistant", "content": "Let me see.", "phase": "commentary"},
        {"type": "function_call", "call_id": "c1", "name": safe_tool_name("shop.find"), "arguments": '{"q": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
    ]


@pytest.mark.parametrize(
    "whose", [{"model": "gpt-5"}, {"provider": "bedrock/responses"}, {"provider": "anthropic/v1/messages"}]
)
def test_what_somebody_else_minted_does_not_go_back(whose: dict[str, str]) -> None:
    answer = assistant(
        thought(reasoning_item(encrypted="gAAA"), "Hm", **whose),
        ReasoningBlock("", opaque=own(OUTPUT_ITEM, web_search_item("x"), **whose)),
        TextBlock("Yes.", opaque=own(MESSAGE_ITEM, {"phase": "final_answer"}, **whose)),
    )
    assert written(user("Hi"), answer)[1:] == [{"role": "assistant", "content": "Yes."}]


@pytest.mark.parametrize("value", ["not json", "[]", '"x"'])
def test_an_opaque_part_that_is_no_item_does_not_go_back(value: str) -> None:
    answer = assistant(ReasoningBlock("Hm", opaque=Opaque(NAME, MODEL, REASONING_ITEM, value)), "Yes.")
    assert len(written(user("Hi"), answer)) == 2


def test_reasoning_that_nothing_follows_in_its_answer_does_not_go_back() -> None:
    answer = assistant("Yes.", thought(reasoning_item(encrypted="gAAA")))
    assert written(user("Hi"), answer)[1:] == [{"role": "assistant", "content": "Yes."}]


def test_reasoning_that_is_only_a_name_does_not_go_back() -> None:
    assert len(written(user("Hi"), assistant(thought(reasoning_item("Hm")), "Yes."))) == 2


def test_what_is_null_or_of_the_answer_only_is_left_out_of_reasoning() -> None:
    item = {**reasoning_item(encrypted="gAAA"), "status": None, "content": []}
    assert set(written(user("Hi"), assistant(thought(item), "Yes."))[1]) == {
        "type",
        "id",
        "summary",
        "encrypted_content",
    }


def test_reasoning_in_plain_words_goes_back_within_its_tool_loop_and_not_after() -> None:
    plain = thought(reasoning_item(raw=("Hm",)), "Hm")
    loop = (user("Hi"), assistant(plain, ToolCall("c", "add", "{}")), result("c", "3"))
    assert [item.get("type") for item in written(*loop)] == [None, "reasoning", "function_call", "function_call_output"]
    after = written(*loop, assistant("Three"), user("Thanks"))
    assert "reasoning" not in [item.get("type") for item in after]


def test_sealed_reasoning_goes_back_after_its_tool_loop_too() -> None:
    sealed = thought(reasoning_item(encrypted="gAAA"))
    history = (user("Hi"), assistant(sealed, ToolCall("c", "add", "{}")), result("c", "3"), user("Thanks"))
    assert "reasoning" in [item.get("type") for item in written(*history)]


def test_an_item_that_waits_for_a_client_does_not_go_back() -> None:
    waiting = {"type": "computer_call", "id": "cu_1", "call_id": "c"}
    answer = assistant(ReasoningBlock("", opaque=own(OUTPUT_ITEM, waiting)), "Look.")
    assert written(user("Hi"), answer)[1:] == [{"role": "assistant", "content": "Look."}]


def test_ids_that_the_wire_does_not_take_become_others_the_same_in_call_and_output() -> None:
    long = "resp_" + "x" * 60 + ":call_0"
    items = written(user("Hi"), assistant(ToolCall(long, "add", "{}")), result(long, "3"))
    assert items[1]["call_id"] == items[2]["call_id"] == safe_call_id(long)
    assert len(safe_call_id(long)) <= 64
    assert safe_call_id("call_0:x.y-Z") == "call_0:x.y-Z"
    assert safe_call_id("a b") != safe_call_id("a c")


def test_in_a_chain_calls_are_named_as_the_provider_named_them() -> None:
    call = ToolCall("call_0_abc", "add", "{}", provider_call_id="call_0")
    history = (assistant(call), result("call_0_abc", "3"))
    assert [item["call_id"] for item in input_items(history, target())] == ["call_0_abc"] * 2
    assert [item["call_id"] for item in input_items(history[1:], target(), history[0])] == ["call_0"]


def test_calls_that_are_told_anew_within_a_chain_keep_our_names() -> None:
    """Another model has answered meanwhile: its call is none of the stored response's, whatever it was called there."""
    stored = assistant(ToolCall("call_0", "add", "{}"))
    other = ToolCall("call_0_abc", "add", "{}", provider_call_id="call_0")
    new = (result("call_0", "3"), user("And?"), assistant(other), result("call_0_abc", "4"), user("Then?"))
    items = input_items(new, target(), stored)
    assert [item["call_id"] for item in items if "call_id" in item] == ["call_0", "call_0_abc", "call_0_abc"]


@pytest.mark.parametrize(("arguments", "valid"), [('{"a":1}', '{"a":1}'), ("", "{}"), ("[1]", "{}"), ('{"a', "{}")])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str, valid: str) -> None:
    assert object_text(arguments) == valid


# --- results ---------------------------------------------------------------------------------------------------------

CALL = assistant(ToolCall("c", "look", "{}"))


@pytest.mark.parametrize(
    ("blocks", "is_error", "output"),
    [
        (("a", "b"), False, "a\nb"),
        ((), False, "(no output)"),
        ((" ",), True, "Error: (no output)"),
        (("bad",), True, "Error: bad"),
    ],
)
def test_a_result_in_words_is_a_text(blocks: tuple[str, ...], is_error: bool, output: str) -> None:
    assert written(user("Hi"), CALL, result("c", *blocks, is_error=is_error))[-1]["output"] == output


def test_a_result_with_media_is_of_parts_where_the_model_takes_them() -> None:
    items = written(user("Hi"), CALL, result("c", "See:", ImageBlock(PNG), DocumentBlock(PDF, "a.pdf"), is_error=True))
    assert items[-1]["output"] == [
        {"type": "input_text", "text": "Error:"},
        {"type": "input_text", "text": "See:"},
        {"type": "input_image", "detail": "auto", "image_url": DATA_URL},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
    ]


def test_elsewhere_media_follow_in_a_users_message_after_the_last_result() -> None:
    answer = assistant(ToolCall("c", "look", "{}"), ToolCall("d", "look", "{}"))
    items = written(user("Hi"), answer, result("c", "See:", ImageBlock(PNG)), result("d", "no"), to=target(PLAIN))
    assert [item.get("type", item.get("role")) for item in items[-3:]] == [
        "function_call_output",
        "function_call_output",
        "user",
    ]
    assert items[-3]["output"] == "See:\n(an image is attached below)"
    assert items[-1]["content"] == [
        {"type": "input_text", "text": "From the result of the tool look:"},
        {"type": "input_image", "detail": "auto", "image_url": DATA_URL},
    ]


# --- content ---------------------------------------------------------------------------------------------------------


def test_text_parts_alone_are_one_plain_text_and_nothing_is_said_to_be_nothing() -> None:
    assert written(user("a", "b"))[0]["content"] == "a\nb"
    assert written(user("", " "))[0]["content"] == "(no content)"


def test_media_are_parts_beside_the_text() -> None:
    message = user(
        "Look:",
        ImageBlock(PNG),
        ImageBlock(UrlSource("https://example.com/a.png")),
        ImageBlock(UrlSource(DATA_URL)),
        ImageBlock(FileSource("file-1")),
        ImageBlock(Base64Source(PNG_DATA, "application/octet-stream")),
        DocumentBlock(PDF),
        DocumentBlock(UrlSource("https://example.com/a.pdf"), "a.pdf"),
        DocumentBlock(FileSource("file-2", NAME)),
    )
    image = {"type": "input_image", "detail": "auto"}
    assert written(message)[0]["content"] == [
        {"type": "input_text", "text": "Look:"},
        {**image, "image_url": DATA_URL},
        {**image, "image_url": "https://example.com/a.png"},
        {**image, "image_url": DATA_URL},
        {**image, "file_id": "file-1"},
        {**image, "image_url": DATA_URL},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_file", "file_id": "file-2"},
    ]


def test_documents_of_text_are_text() -> None:
    source = Base64Source(base64.b64encode("größe\n1".encode()).decode(), "text/csv; charset=utf-8")
    content = written(user(DocumentBlock(source, "a.csv")))[0]["content"]
    assert content == '<document name="a.csv">\ngröße\n1\n</document>'


@pytest.mark.parametrize(
    "block",
    [
        VideoBlock(Base64Source("AAAA", "video/mp4")),
        AudioBlock(Base64Source("AAAA", "audio/mpeg")),
        ImageBlock(UrlSource("file:///etc/passwd")),
        ImageBlock(UrlSource("s3://bucket/key")),
        ImageBlock(UrlSource("data:image/png")),
        ImageBlock(Base64Source("", "image/png")),
        ImageBlock(Base64Source("!", "image/png")),
        ImageBlock(Base64Source("AAAA", "image/tiff")),
        ImageBlock(FileSource("f", "bedrock/converse")),
        DocumentBlock(FileSource("f", "bedrock/converse")),
        DocumentBlock(Base64Source("AAAA", "application/zip")),
        DocumentBlock(Base64Source("", "application/pdf")),
    ],
)
def test_what_the_wire_cannot_carry_is_left_out_with_a_word_and_a_warning(
    block: ContentBlock, caplog: pytest.LogCaptureFixture
) -> None:
    content = written(user("See", block))[0]["content"]
    assert content.startswith("See\n(")
    assert "left out" in content
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]


def test_a_model_that_sees_nothing_is_told_what_it_was_not_shown() -> None:
    profile = profile_of("bedrock-mantle.us-east-1.api.aws", "openai.gpt-oss-120b")
    blocks = (ImageBlock(PNG), ImageBlock(UrlSource("https://h/a.png")), DocumentBlock(PDF))
    content = written(user(*blocks, "?"), to=target(profile))[0]["content"]
    assert content.count("left out") == 3


# --- any history, and the recorded -----------------------------------------------------------------------------------


@pytest.mark.thorough
@REPEATABLE
@given(any_histories(), st.sampled_from([OPENAI, PLAIN, profile_of("api.aws", "openai.gpt-oss-20b")]))
def test_any_history_becomes_a_request_that_the_api_takes(history: list[Message], profile: Profile) -> None:
    view = model_view(history)
    asked = body(*view, to=target(profile), tools=(ToolSpec("add", "Adds.", {}),), system="s")
    accept(asked)
    calls = [item["call_id"] for item in asked["input"] if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in asked["input"] if item.get("type") == "function_call_output"]
    assert calls == outputs
    assert len(set(calls)) == len(calls)


@pytest.mark.parametrize(
    "name",
    ["test_deepseek_responses_function_tool_stream___", "test_reused_tool_call_ids_stream___"],
)
def test_a_recorded_conversation_is_asked_for_as_it_was_recorded(name: str) -> None:
    """Its items in their order; how they were written differs where the API leaves it open."""
    first, second = recording(f"{name}0"), recording(f"{name}1")
    recorded = recorded_request(second)
    model = recorded["model"]
    blocks: list[ContentBlock] = []
    for item in recorded_response(first)["output"]:
        if item["type"] == "reasoning":
            blocks.append(ReasoningBlock("", opaque=own(REASONING_ITEM, item, model=model)))
        else:
            blocks.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
    call = next(block for block in blocks if isinstance(block, ToolCall))
    answer = recorded["input"][-1]["output"]
    question = user(recorded["input"][0]["content"])
    asked = body(
        question,
        assistant(*blocks),
        result(call.call_id, answer),
        to=target(model_id=model, wire_model_id=model),
        system=recorded.get("instructions", ""),
    )
    accept(asked)
    assert asked["model"] == recorded["model"]
    assert asked.get("instructions") == recorded.get("instructions")
    shape = [_bare(item) for item in asked["input"]]
    assert shape == [_bare(item) for item in recorded["input"]]


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """Without ids of items and of calls, which others write differently, and without what is null."""
    left_out = {"call_id", "status"} | ({"id"} if item.get("type") != "reasoning" else set())
    return {name: value for name, value in item.items() if name not in left_out and value is not None}


PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}


def test_a_picture_that_this_model_made_goes_back_as_the_item_that_it_was() -> None:
    image = ImageBlock(PNG, opaque=own(OUTPUT_ITEM, PICTURE))
    items = input_items([user("Draw"), assistant(image), user("Larger")], target())
    assert items[1] == {**PICTURE, "result": PNG_DATA}


def test_of_a_picture_that_another_model_made_there_are_words() -> None:
    image = ImageBlock(PNG, opaque=own(OUTPUT_ITEM, PICTURE, model="another"))
    items = input_items([user("Draw"), assistant(image), user("Larger")], target())
    assert items[1] == {"role": "assistant", "content": "(an image was left out: only users can send one)"}
