"""The body of POST /v1/chat/completions: what is read, what is ignored, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import (
    Base64Source,
    ContentBlock,
    ImageBlock,
    JsonObject,
    JsonValue,
    TextBlock,
    ToolCall,
    ToolResult,
)
from gateway.openai_api.chat_request import ChatRequest, read_chat_request
from gateway.options.generation import GenerationOptions, OneTool

HELLO: JsonObject = {"role": "user", "content": "hello"}
CALL: JsonObject = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
ASKS: JsonObject = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SAYS: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": "rain"}


def read(*messages: JsonValue, **more: Any) -> ChatRequest:
    return read_chat_request({"model": "helper", "messages": list(messages), **more})


def said(request: ChatRequest) -> list[tuple[str, tuple[ContentBlock, ...]]]:
    return [(message.role, message.content) for message in request.messages]


def wrong_fields(body: JsonObject) -> dict[str, str]:
    with pytest.raises(InvalidRequestError) as caught:
        read_chat_request(body)
    assert caught.value.status == 400
    return {problem.pointer: problem.detail for problem in caught.value.problems}


def test_messages_of_all_roles_are_read() -> None:
    picture: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    request = read(
        {"role": "user", "content": [{"type": "text", "text": "what is it?"}, picture], "name": "ann"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}], "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rain"}], "name": "weather"},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "developer", "content": "be brief"},
        HELLO,
    )

    assert said(request) == [
        ("user", (TextBlock("what is it?"), ImageBlock(Base64Source("AAAA", "image/png")))),
        ("assistant", (TextBlock("I look."), ToolCall("c1", "weather", '{"city": "Rome"}'))),
        ("tool", (ToolResult("c1", (TextBlock("rain"),)),)),
        ("assistant", (TextBlock("no", refusal=True),)),
        ("developer", (TextBlock("be brief"),)),
        ("user", (TextBlock("hello"),)),
    ]
    assert request.messages[0].name == "ann"
    assert request.call_ids == ("c1",)
    assert len({message.id for message in request.messages}) == 6


def test_leading_instructions_are_a_wish_and_later_ones_are_messages() -> None:
    parts: list[JsonValue] = [{"type": "text", "text": "be brief"}, {"type": "text", "text": "be kind"}]
    request = read(
        {"role": "system", "content": "you are a helper"},
        {"role": "developer", "content": parts},
        HELLO,
        {"role": "system", "content": "now in French"},
    )

    assert request.options.instructions == "you are a helper\n\nbe brief\nbe kind"
    assert [role for role, _ in said(request)] == ["user", "system"]


def test_instructions_alone_are_the_conversation() -> None:
    request = read({"role": "system", "content": "say hello"})

    assert request.options.instructions == ""
    assert said(request) == [("system", (TextBlock("say hello"),))]


def test_options_tools_and_the_form_of_the_answer_are_read() -> None:
    tool: JsonObject = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    request = read(
        HELLO,
        temperature=0.5,
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        stream=True,
        stream_options={"include_usage": True},
        store=True,
        metadata={"thread_id": "t1"},
    )

    assert request.options.generation == GenerationOptions(temperature=0.5)
    assert request.options.tool_choice == OneTool("weather")
    assert [spec.name for spec in request.tools] == ["weather"]
    assert (request.stream, request.include_usage, request.store) == (True, True, True)
    assert request.metadata == {"thread_id": "t1"}


# What clients were seen to send. Open WebUI: backend/open_webui/routers/openai.py; LiteLLM: litellm/llms/openai;
# LangChain: langchain_openai/chat_models/base.py; AI SDK: @ai-sdk/openai-compatible.
@pytest.mark.parametrize(
    "more",
    [
        {"stream": False, "max_tokens": 1000, "user": {"name": "ann", "id": "1", "email": "", "role": "user"}},
        {"max_tokens": None, "stop": None, "n": None, "tools": None, "tool_choice": None, "metadata": None},
        {"n": 1, "temperature": 1, "logprobs": False, "top_logprobs": None, "logit_bias": {"50256": -100}},
        {"stream_options": None, "stream": None, "response_format": {"type": "text"}, "parallel_tool_calls": None},
        {"modalities": ["text"], "audio": None, "functions": None, "function_call": None, "store": False},
        {"service_tier": "auto", "prompt_cache_key": "k", "verbosity": "low", "prediction": None, "chat_id": "1"},
        {"stream_options": {"include_usage": False, "include_obfuscation": False}, "safety_identifier": "u"},
    ],
)
def test_what_real_clients_send_beside_the_conversation_is_accepted(more: JsonObject) -> None:
    assert said(read(HELLO, **more)) == [("user", (TextBlock("hello"),))]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"role": "assistant", "content": "", "tool_calls": [CALL]}, (ToolCall("c1", "weather", '{"city": "Rome"}'),)),
        ({"role": "assistant", "tool_calls": [CALL], "refusal": None, "audio": None, "annotations": []}, None),
        (
            {
                "role": "assistant",
                "content": "I look.",
                "reasoning_content": "hm",
                "function_call": None,
                "tool_calls": [{"id": "c1", "index": 0, "function": {"name": "weather", "arguments": None}}],
            },
            (TextBlock("I look."), ToolCall("c1", "weather", "")),
        ),
    ],
)
def test_what_real_clients_send_of_an_assistant_s_calls_is_accepted(
    message: JsonObject, content: tuple[ContentBlock, ...] | None
) -> None:
    request = read(HELLO, message, {"role": "tool", "tool_call_id": "c1", "content": None})

    assert request.messages[1].content == (content or (ToolCall("c1", "weather", '{"city": "Rome"}'),))
    assert request.messages[2].content == (ToolResult("c1", ()),)


@pytest.mark.parametrize("empty", [{"content": ""}, {"content": None}, {}, {"content": [], "tool_calls": []}])
def test_an_empty_answer_says_nothing(empty: JsonObject) -> None:
    assert said(read(HELLO, {"role": "assistant", **empty}, HELLO)) == [("user", (TextBlock("hello"),))] * 2


def test_a_conversation_of_empty_answers_alone_is_refused() -> None:
    problems = wrong_fields({"model": "helper", "messages": [{"role": "assistant", "content": ""}]})

    assert "say nothing" in problems["/messages"]


def test_everything_that_is_wrong_is_named_at_once() -> None:
    problems = wrong_fields(
        {
            "model": 7,
            "messages": [{"role": "robot", "content": "x"}, "hello", {"role": "user"}, {"role": "system"}],
            "temperature": 9,
            "stream": "yes",
            "store": "yes",
            "metadata": {"thread_id": 7},
            "stream_options": {"include_usage": "yes"},
        }
    )

    assert set(problems) == {
        "/model",
        "/messages/0/role",
        "/messages/1",
        "/messages/2/content",
        "/messages/3/content",
        "/temperature",
        "/stream",
        "/store",
        "/metadata/thread_id",
        "/stream_options/include_usage",
    }
    assert problems["/messages/0/role"].startswith("messages[0].role is 'robot'; it must be one of system, developer,")


def test_of_very_much_that_is_wrong_only_a_part_is_named() -> None:
    assert len(wrong_fields({"model": "helper", "messages": [7] * 10_000})) == 100


@pytest.mark.parametrize("messages", [None, [], "hello", {"role": "user"}])
def test_messages_are_required(messages: JsonValue) -> None:
    assert set(wrong_fields({"messages": messages})) == {"/model", "/messages"}


@pytest.mark.parametrize(
    ("more", "pointer", "right"),
    [
        ({"n": 2}, "/n", "an agent gives one answer"),
        ({"n": 0}, "/n", "at least 1"),
        ({"max_tokens": 10**12}, "/max_tokens", "at most 2147483647"),
        ({"logprobs": True}, "/logprobs", "leave it out"),
        ({"top_logprobs": 3}, "/top_logprobs", "leave it out"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "/audio", "answers are text"),
        ({"modalities": ["text", "audio"]}, "/modalities", "answers are text"),
        ({"functions": [{"name": "weather"}]}, "/functions", "send tools"),
        ({"function_call": "auto"}, "/function_call", "send tool_choice"),
    ],
)
def test_what_an_agent_cannot_give_is_refused(more: JsonObject, pointer: str, right: str) -> None:
    problems = wrong_fields({"model": "helper", "messages": [HELLO], **more})

    assert set(problems) == {pointer}
    assert right in problems[pointer]


@pytest.mark.parametrize(
    ("message", "pointer", "right"),
    [
        ({"role": "function", "name": "weather", "content": "rain"}, "/messages/1/role", "send 'tool'"),
        (
            {"role": "assistant", "function_call": {"name": "weather", "arguments": "{}"}},
            "/messages/1/function_call",
            "send tool_calls",
        ),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "/messages/1/tool_calls/0/id", "missing"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "/messages/1/tool_calls/0/function", "missing"),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {}}]},
            "/messages/1/tool_calls/0/type",
            "must be 'function'",
        ),
        ({"role": "assistant", "content": [{"type": "image_url"}]}, "/messages/1/content/0/type", "one of text"),
        ({"role": "tool", "content": "rain"}, "/messages/1/tool_call_id", "missing"),
    ],
)
def test_a_message_of_another_time_or_form_is_refused(message: JsonObject, pointer: str, right: str) -> None:
    problems = wrong_fields({"model": "helper", "messages": [HELLO, message]})

    assert right in problems[pointer]


def test_a_call_without_a_result_is_named() -> None:
    for behind in ([HELLO], []):
        problems = wrong_fields({"model": "helper", "messages": [HELLO, ASKS, *behind]})
        assert set(problems) == {"/messages/1/tool_calls/0/id"}
        assert "no tool output was found for the call 'c1'" in problems["/messages/1/tool_calls/0/id"]


def test_a_result_for_an_unknown_call_is_named() -> None:
    other: JsonObject = {**SAYS, "tool_call_id": "c2"}
    problems = wrong_fields({"model": "helper", "messages": [HELLO, ASKS, SAYS, other]})
    assert set(problems) == {"/messages/3/tool_call_id"}
    assert "'c2'" in problems["/messages/3/tool_call_id"]

    assert set(wrong_fields({"model": "helper", "messages": [HELLO, SAYS]})) == {"/messages/1/tool_call_id"}
    twice = wrong_fields({"model": "helper", "messages": [HELLO, ASKS, SAYS, SAYS]})
    assert set(twice) == {"/messages/3/tool_call_id"}
