"""The items of a Responses request's input, as messages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import (
    Base64Source,
    ContentBlock,
    ImageBlock,
    JsonObject,
    JsonValue,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
)
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.responses_items import ApprovalItem, InputItem, ReferenceItem, SaidItem, read_input

FUNCTION_CALL: JsonObject = {"type": "function_call", "call_id": "c1", "name": "map", "arguments": "{}"}


def read(value: JsonValue) -> Sequence[InputItem]:
    fields = OpenAIFields({"input": value})
    items = read_input(fields)
    fields.check()
    return items


def wrong_fields(value: JsonValue) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        read(value)
    assert caught.value.status == 400
    return [problem.pointer for problem in caught.value.problems]


def said(item: JsonObject) -> list[tuple[str, tuple[ContentBlock, ...]]]:
    """What one item says, by role."""
    (found,) = read([item])
    assert isinstance(found, SaidItem)
    return [(message.role, message.content) for message in found.messages]


def test_a_text_is_one_user_message() -> None:
    (item,) = read("Hello")

    assert isinstance(item, SaidItem)
    assert item.item_id == ""
    (message,) = item.messages
    assert (message.role, message.content) == ("user", (TextBlock("Hello"),))


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
@pytest.mark.parametrize("named", [{}, {"type": "message"}])
def test_a_message_has_a_role_and_a_text_or_parts_and_its_type_may_be_left_out(role: str, named: JsonObject) -> None:
    kind = "output_text" if role == "assistant" else "input_text"

    contents: list[JsonValue] = ["Hello", [{"type": kind, "text": "Hello"}]]
    for content in contents:
        assert said({**named, "role": role, "content": content, "status": "completed"}) == [
            (role, (TextBlock("Hello"),))
        ]


def test_a_user_says_media_and_everybody_else_one_text() -> None:
    picture: JsonValue = {"type": "input_image", "image_url": "https://pictures.example/a.png"}
    parts: list[JsonValue] = [{"type": "output_text", "text": "No, "}, {"type": "refusal", "refusal": "never."}]

    assert said({"role": "user", "content": [{"type": "input_text", "text": "Look"}, picture]}) == [
        ("user", (TextBlock("Look"), ImageBlock(UrlSource("https://pictures.example/a.png"))))
    ]
    assert said({"role": "assistant", "content": parts}) == [("assistant", (TextBlock("No, never."),))]
    assert said({"role": "assistant", "content": parts[1:]}) == [("assistant", (TextBlock("never.", refusal=True),))]
    assert wrong_fields([{"role": "assistant", "content": [picture]}]) == ["/input/0/content/0/type"]


def test_calls_and_their_outputs_are_messages() -> None:
    parts: list[JsonValue] = [{"type": "input_text", "text": "here"}]

    assert said(FUNCTION_CALL) == [("assistant", (ToolCall("c1", "map", "{}"),))]
    outputs: list[tuple[JsonValue, tuple[ContentBlock, ...]]] = [
        ("here", (TextBlock("here"),)),
        (parts, (TextBlock("here"),)),
        ("", ()),
    ]
    for output, content in outputs:
        item: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": output}
        assert said(item) == [("tool", (ToolResult("c1", content),))]


def test_a_replayed_backend_call_is_a_call_with_its_result() -> None:
    item: JsonObject = {
        "type": "mcp_call",
        "id": "mcp_r_1",
        "name": "add",
        "arguments": "{}",
        "server_label": "gateway",
    }
    call = ("assistant", (ToolCall("mcp_r_1", "add", "{}"),))

    assert said({**item, "output": "5", "error": None}) == [
        call,
        ("tool", (ToolResult("mcp_r_1", (TextBlock("5"),)),)),
    ]
    assert said(item) == []
    errors: list[JsonValue] = [
        "no",
        {"type": "http_error", "code": 500, "message": "no"},
        {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]},
    ]
    for error in errors:
        failed = ToolResult("mcp_r_1", (TextBlock("no"),), is_error=True)
        assert said({**item, "error": error}) == [call, ("tool", (failed,))]


def test_reasoning_says_its_summary_and_keeps_its_envelope() -> None:
    summary: list[JsonValue] = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    item: JsonObject = {"type": "reasoning", "id": "rs_r_0", "summary": summary, "encrypted_content": "sealed"}

    (found,) = read([item])

    assert isinstance(found, SaidItem)
    assert (found.item_id, found.sealed) == ("rs_r_0", "sealed")
    assert found.messages[0].content == (ReasoningBlock("One.\n\nTwo."),)
    raw: JsonObject = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Raw."}]}
    assert said(raw) == [("reasoning", (ReasoningBlock("Raw."),))]


def test_a_replayed_picture_is_a_medium_of_the_assistant() -> None:
    item: JsonObject = {"type": "image_generation_call", "id": "ig_r_2", "status": "completed", "result": "AAAA"}

    assert said(item) == [("assistant", (ImageBlock(Base64Source("AAAA", "image/png")),))]
    assert said({**item, "output_format": "webp"}) == [("assistant", (ImageBlock(Base64Source("AAAA", "image/webp")),))]
    assert said({**item, "result": None}) == []


def test_references_questions_and_answers_name_their_ids() -> None:
    question: JsonObject = {"type": "mcp_approval_request", "id": "mcpr_r_3", "name": "send", "arguments": "{}"}
    answer: JsonObject = {"type": "mcp_approval_response", "approval_request_id": "mcpr_r_3", "approve": False}

    assert read([{"type": "item_reference", "id": "msg_r_1"}, {"id": "msg_r_1"}]) == (
        ReferenceItem("/input/0", "msg_r_1"),
        ReferenceItem("/input/1", "msg_r_1"),
    )
    assert read([question]) == (SaidItem("/input/0", (), "mcpr_r_3"),)
    assert read([{**answer, "reason": "too early"}]) == (ApprovalItem("/input/0", "mcpr_r_3", False, "too early"),)


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        (7, ["/input"]),
        (["Hello"], ["/input/0"]),
        ([{"type": "web_search_call"}], ["/input/0/type"]),
        ([{"type": ["message"]}], ["/input/0/type"]),
        ([{"role": "robot", "content": "x"}], ["/input/0/role"]),
        ([{"role": ["user"], "content": "x"}], ["/input/0/role"]),
        ([{"role": "user", "content": "x", "id": 7}], ["/input/0/id"]),
        ([{"role": "user", "content": [{"type": "input_text", "text": 7}]}], ["/input/0/content/0/text"]),
        ([{"type": "message"}], ["/input/0/role", "/input/0/content"]),
        ([{"role": "user", "content": [{"type": "output_video"}]}], ["/input/0/content/0/type"]),
        ([{**FUNCTION_CALL, "call_id": ""}], ["/input/0/call_id"]),
        ([{"type": "function_call"}], ["/input/0/call_id", "/input/0/name", "/input/0/arguments"]),
        ([{"type": "function_call_output", "call_id": "c"}], ["/input/0/output"]),
        ([{"type": "item_reference"}], ["/input/0/id"]),
        ([{"type": "mcp_approval_response", "approval_request_id": "a"}], ["/input/0/approve"]),
        ([{"type": "mcp_approval_response", "approval_request_id": "a", "approve": "yes"}], ["/input/0/approve"]),
        ([{"type": "reasoning", "summary": "thoughts"}], ["/input/0/summary"]),
        ([FUNCTION_CALL, {"type": "mcp_call", "id": "m", "name": 1, "arguments": "{}"}], ["/input/1/name"]),
    ],
)  # fmt: skip
def test_a_wrong_item_names_the_field(value: JsonValue, pointers: list[str]) -> None:
    assert wrong_fields(value) == pointers
