"""The input of ml-commons' executions: text, content blocks, messages, the older question. By the rows of 001."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
    VideoBlock,
)
from gateway.ml_agents.agent_input import is_ag_ui, read_execution
from gateway.ml_commons.content import INVALID_FORM, INVALID_INPUT, written_blocks

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PNG = "iVBORw0KGgo="
IMAGE = {"type": "image", "source": {"type": "base64", "format": "png", "data": PNG}}


def said(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def messages_of(given: Any) -> tuple[Message, ...]:
    return read_execution({"input": given}).messages


def refusal(body: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        read_execution(body)
    error = caught.value
    assert error.status == 400
    (problem,) = error.problems
    assert problem.detail, "an error says what would be right"
    return error


def test_r1_1_a_text_is_one_user_message() -> None:
    (message,) = messages_of("simple text")
    assert (message.role, message.content) == ("user", (TextBlock("simple text"),))


def test_r1_2_and_r5_1_blocks_are_one_user_message_with_media() -> None:
    given = [
        *said("what is this?"),
        IMAGE,
        {"type": "VIDEO", "source": {"type": "URL", "format": "mov", "data": "https://x/y.mov"}},
        {"type": "document", "source": {"type": "base64", "format": "pdf", "data": "JVBERi0="}},
    ]
    (message,) = messages_of(given)
    assert message.content == (
        TextBlock("what is this?"),
        ImageBlock(Base64Source(PNG, "image/png")),
        VideoBlock(UrlSource("https://x/y.mov", "video/quicktime")),
        DocumentBlock(Base64Source("JVBERi0=", "application/pdf")),
    )


def test_r1_3_and_r6_4_messages_keep_their_order_and_roles() -> None:
    given = [
        {"role": "user", "content": said("I like red")},
        {"role": "assistant", "content": said("Thanks!")},
        {"role": "user", "content": said("What do I like?")},
    ]
    messages = messages_of(given)
    assert [(each.role, each.text) for each in messages] == [
        ("user", "I like red"), ("assistant", "Thanks!"), ("user", "What do I like?"),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [42, {"type": "text", "text": "x"}, True])
def test_r1_4_and_c9_another_form_is_refused_with_the_supported_ones(given: Any) -> None:
    error = refusal({"input": given})
    assert "Invalid input format. Expected string or array." in error.message
    assert error.code == INVALID_FORM
    assert "content blocks" in error.problems[0].detail
    assert "messages" in error.problems[0].detail


@pytest.mark.parametrize("given", [[{"foo": 1}], ["x"], [None]])
def test_r1_5_and_c10_an_item_of_no_form_is_refused(given: Any) -> None:
    error = refusal({"input": given})
    assert error.message == "Invalid item format. Must have 'role' (for messages) or 'type' (for content blocks)."
    assert error.problems[0].pointer == "/input/0"


def test_messages_and_blocks_are_not_mixed() -> None:
    error = refusal({"input": [*said("a"), {"role": "user", "content": said("b")}]})
    assert error.message == (
        "Mixed array types detected. Expected all items to be ContentBlocks, but item at index 1 is of type Message"
    )


def test_r2_1_and_r7_1_the_question_is_read_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    (message,) = read_execution({"parameters": {"question": "how are you?"}}).messages
    assert message.text == "how are you?"
    assert not caplog.records, "R8.2: the question alone is no reason to warn"


def test_r2_2_input_wins_over_the_question_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    (message,) = read_execution({"input": "new", "parameters": {"question": "old"}}).messages
    assert message.text == "new"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "deprecated" in caplog.text


def test_r4_1_and_r4_5_an_unknown_content_type_is_refused_with_the_supported_ones() -> None:
    error = refusal({"input": [{"type": "hologram", "hologram": {}}]})
    assert error.message == "Unsupported content type 'hologram'. Supported types: text, image, video, document"
    assert "No enum constant" not in error.message
    assert error.problems[0].pointer == "/input/0/type"


@pytest.mark.parametrize("kind", ["image", "video", "document"])
def test_r4_2_and_c12_a_medium_needs_a_format(kind: str) -> None:
    for source in ("base64", "url", "s3"):
        error = refusal({"input": [{"type": kind, "source": {"type": source, "data": "x"}}]})
        assert error.message == f"{kind.capitalize()} format is required"
        assert error.problems[0].pointer == "/input/0/source/format"


@pytest.mark.parametrize("kind", ["image", "video", "document"])
@pytest.mark.parametrize("said_type", ["invalid", "bytes"])
def test_r4_2_and_c13_another_source_type_is_refused_with_the_supported_ones(kind: str, said_type: str) -> None:
    error = refusal({"input": [{"type": kind, "source": {"type": said_type, "format": "png", "data": "x"}}]})
    assert "Invalid source type" in error.message
    assert "BASE64, URL" in error.message
    assert "BYTES" not in error.message


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"type": "image"}, "Image source cannot be null"),
        ({"type": "document", "source": None}, "Document source cannot be null"),
        ({"type": "image", "source": {"format": "png", "data": "x"}}, "Image source type is required"),
        ({"type": "video", "source": {"type": "url", "format": "mp4"}}, "Video data is required"),
        (
            {"type": "image", "source": {"type": "s3", "format": "png", "data": "https://x"}},
            "Image data of source type S3 must be a URI such as s3://bucket/key",
        ),
    ],
)
def test_a_medium_needs_a_whole_source(block: Any, message: str) -> None:
    assert refusal({"input": [block]}).message == message


@pytest.mark.parametrize(
    ("item", "message", "code"),
    [
        ({"role": "", "content": said("a")}, "Message role cannot be null or empty", INVALID_INPUT),
        ({"role": None, "content": said("a")}, "Message role cannot be null or empty", INVALID_INPUT),
        ({"role": "user"}, "user message must have content", INVALID_INPUT),
        ({"role": "system", "content": []}, "system message must have content", INVALID_INPUT),
        ({"role": "wizard"}, "Message with role 'wizard' must have content", INVALID_INPUT),
        ({"role": "assistant"}, "Assistant message must have either content or tool calls", INVALID_INPUT),
        ({"role": "tool", "content": said("a")}, "Tool message must have toolCallId", INVALID_INPUT),
        ({"role": "tool", "toolCallId": "c1"}, "Tool message must have content", INVALID_INPUT),
        ({"role": "user", "content": 7}, "Invalid message content. Expected string or array.", INVALID_FORM),
        (
            {"role": "user", "content": [{"role": "user", "content": "x"}]},
            "Invalid content array. Expected ContentBlock at index 0 but found Message",
            INVALID_FORM,
        ),
        (
            {"role": "assistant", "toolCalls": [{"id": "c1"}]},
            "ToolCall must have 'id' and 'function' fields",
            INVALID_FORM,
        ),
        (
            {"role": "assistant", "toolCalls": [{"id": "c1", "function": {"name": "t"}}]},
            "ToolFunction must have 'name' and 'arguments' fields",
            INVALID_FORM,
        ),
        (
            {"role": "assistant", "toolCalls": [{"id": "", "function": {"name": "t", "arguments": ""}}]},
            "Tool call must have an id",
            INVALID_INPUT,
        ),
        (
            {"role": "assistant", "toolCalls": [{"id": "c", "type": "", "function": {"name": "t", "arguments": ""}}]},
            "Tool call must have a type",
            INVALID_INPUT,
        ),
        ({"role": "assistant", "content": said("a")}, "Last message must be from role 'user' or 'tool'", INVALID_INPUT),
    ],
)
def test_r4_3_and_c18_and_c19_a_message_has_what_its_role_needs(item: Any, message: str, code: str) -> None:
    error = refusal({"input": [item]})
    assert (error.message, error.code) == (message, code)
    assert error.problems[0].pointer.startswith("/input/0")


@pytest.mark.parametrize("given", ["", "   "])
def test_c15_a_text_has_to_have_words(given: str) -> None:
    assert refusal({"input": given}).message == "Text input cannot be null or empty"
    assert refusal({"parameters": {"question": given}}).problems[0].pointer == "/parameters/question"


def test_c16_a_text_block_has_to_have_words() -> None:
    error = refusal({"input": said("")})
    assert error.message == "Text content block cannot have null or empty text"
    assert (error.code, error.problems[0].pointer) == (INVALID_INPUT, "/input/0/text")


def test_an_empty_array_is_no_input() -> None:
    assert refusal({"input": []}).message == "Content blocks cannot be null or empty"


def test_c4_nothing_of_an_input_is_refused() -> None:
    assert refusal({}).message == "Agent input data can not be empty."
    assert refusal({"junk": 1, "parameters": {"memory_id": "m"}}).code == INVALID_INPUT


def test_r5_4_and_r5_5_media_may_be_in_s3_or_at_the_provider() -> None:
    given = [
        {"type": "document", "source": {"type": "s3", "format": "pdf", "data": "s3://b/i.pdf"}, "name": "i.pdf"},
        {"type": "image", "source": {"type": "url", "format": "jpg", "data": "s3://b/i.jpg"}},
        {"type": "document", "source": {"type": "file", "data": "file-7"}},
        {"type": "document", "source": {"type": "base64", "format": "application/x-own", "data": "AA=="}},
    ]
    (message,) = messages_of(given)
    assert message.content == (
        DocumentBlock(UrlSource("s3://b/i.pdf", "application/pdf"), "i.pdf"),
        ImageBlock(UrlSource("s3://b/i.jpg", "image/jpeg")),
        DocumentBlock(FileSource("file-7")),
        DocumentBlock(Base64Source("AA==", "application/x-own")),
    )


def test_r6_2_and_c22_content_may_be_a_text() -> None:
    (message,) = messages_of([{"role": "user", "content": "hi"}])
    assert message.content == (TextBlock("hi"),)


def test_r6_3_an_unknown_role_is_a_user_message_with_the_role_in_its_metadata() -> None:
    (message,) = messages_of([{"role": "wizard", "content": said("abracadabra"), "metadata": {"a": 1}}])
    assert (message.role, message.metadata) == ("user", {"a": 1, "role": "wizard"})


def test_r6_5_and_r7_4_calls_results_and_media_of_messages_are_kept() -> None:
    given = [
        {"role": "user", "content": [*said("look"), IMAGE], "id": "u1"},
        {
            "role": "assistant",
            "content": [*said("a"), *said("b"), IMAGE],
            "toolCalls": [{"id": "c1", "function": {"name": "t", "arguments": '{"q": 1}'}}],
        },
        {"role": "tool", "toolCallId": "c1", "content": [*said("found"), IMAGE]},
    ]
    asked, answered, medium, result = messages_of(given)
    assert asked.id == "u1"
    assert answered.content == (TextBlock("a\nb"), ToolCall("c1", "t", '{"q": 1}'))
    assert medium.is_medium
    picture = ImageBlock(Base64Source(PNG, "image/png"))
    assert result.content == (ToolResult("c1", (TextBlock("found"), picture)),)


def test_a_system_message_has_text_alone() -> None:
    given = [{"role": "system", "content": [IMAGE]}, {"role": "user", "content": "x"}]
    assert refusal({"input": given}).problems[0].pointer == "/input/0/content/0"


def test_messages_are_told_apart_by_their_ids_and_get_one_where_they_have_none() -> None:
    execution = read_execution(
        {"input": [{"role": "user", "content": "a", "id": "mine"}, {"role": "user", "content": "b"}]}
    )
    mine, made = execution.messages
    assert mine.id == "mine"
    assert len(made.id) == 20
    assert execution.minted == {made.id}


def test_the_run_answers_the_user_messages_after_the_last_answer() -> None:
    given: list[Any] = [
        {"role": "user", "content": "a", "id": "1"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c", "id": "3"},
        {"role": "user", "content": "d", "id": "4"},
    ]
    assert read_execution({"input": given}).asked == ("3", "4")
    result: dict[str, Any] = {"role": "tool", "toolCallId": "c1", "content": "x"}
    assert read_execution({"input": [result]}).asked == ()


def test_r8_1_what_failed_is_logged_with_the_format_and_without_content(caplog: pytest.LogCaptureFixture) -> None:
    refusal({"input": [{"role": "user", "content": said("secret words")}, {"role": "tool", "content": said("more")}]})
    (record,) = caplog.records
    details = vars(record)
    assert (details["input_format"], details["field"]) == ("MESSAGES", "/input/1/toolCallId")
    assert details["reason"] == "Tool message must have toolCallId"
    assert "secret" not in str(details)


def test_r8_5_each_step_of_a_conversion_is_logged_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    for room in ("ml_agents", "ml_commons"):
        caplog.set_level(logging.DEBUG, f"gateway.{room}")
    messages_of([{"role": "wizard", "content": [*said("secret words"), IMAGE]}])
    steps = [vars(record) for record in caplog.records]
    assert [(step["msg"], step["levelname"]) for step in steps] == [
        ("read a medium of an agent's input", "DEBUG"),
        ("kept a message of an unknown role as a user's", "DEBUG"),
        ("read an agent's input", "DEBUG"),
    ]
    assert steps[0]["media_type"] == "image/png"
    assert steps[2]["input_format"] == "MESSAGES"
    assert "secret" not in str(steps)
    assert PNG not in str(steps)


def test_what_an_answer_has_may_be_sent_back() -> None:
    blocks = (
        TextBlock("a"),
        ImageBlock(Base64Source(PNG, "image/png")),
        VideoBlock(UrlSource("s3://b/v", "video/mp4")),
    )
    (message,) = messages_of(written_blocks(blocks))
    assert message.content == blocks


def test_what_was_stored_may_be_sent_back() -> None:
    stored = [
        {"type": "TEXT", "text": "a"},
        {"type": "IMAGE", "image": {"type": "BASE64", "format": "png", "data": PNG}},
    ]
    (message,) = messages_of(stored)
    assert message.content == (TextBlock("a"), ImageBlock(Base64Source(PNG, "image/png")))


# --- parameters -------------------------------------------------------------------------------------------------


def test_numbers_may_be_texts_and_flags_too() -> None:
    given: dict[str, Any] = {
        "question": "q", "temperature": "0.5", "top_p": 0.25, "max_tokens": "100", "stop": '["a", "b"]',
        "max_iteration": "3", "message_history_limit": "4", "verbose": "true", "include_token_usage": True,
        "selected_tools": '["B", "A"]', "unknown": {"x": 1},
    }  # fmt: skip
    found = read_execution({"parameters": given, "isAsync": "true"}).parameters
    options = found.options
    assert (options.temperature, options.top_p, options.max_tokens, options.stop) == (0.5, 0.25, 100, ("a", "b"))
    assert (found.max_iteration, found.history_limit, found.verbose, found.token_usage) == (3, 4, True, True)
    assert found.selected_tools == ("B", "A")
    assert found.is_async
    assert read_execution({"parameters": {"question": "q", "stop": "END"}}).parameters.options.stop == ("END",)


@pytest.mark.parametrize("name", ["temperature", "top_p", "max_tokens", "max_iteration", "selected_tools"])
def test_a_wrong_parameter_is_named(name: str) -> None:
    error = refusal({"parameters": {"question": "q", name: "abc"}})
    assert name in error.message
    assert "abc" in error.message
    assert error.problems[0].pointer == f"/parameters/{name}"


@pytest.mark.parametrize(
    "body",
    [
        {"parameters": {"memory_id": "m1"}},
        {"parameters": {"session_id": "m1"}},
        {"memory_id": "m1"},
        {"memory": {"session_id": "m1"}},
        {"parameters": {"memory": '{"memory_id": "m1"}'}},
    ],
)
def test_a_memory_goes_by_each_of_its_names(body: dict[str, Any]) -> None:
    assert read_execution({"input": "x", **body}).parameters.memory_id == "m1"


def test_an_interaction_is_answered_or_answered_again_but_not_both() -> None:
    both = {"memory_id": "m", "parent_message_id": "i1", "regenerate_interaction_id": "i2"}
    assert "Provide either `parent_interaction_id`" in refusal({"parameters": both}).message
    alone = {"regenerate_interaction_id": "i2"}
    assert refusal({"parameters": alone}).message == "A memory ID must be provided to regenerate."


def test_an_ag_ui_body_is_known_by_its_ids() -> None:
    assert is_ag_ui({"threadId": "t", "messages": []})
    assert not is_ag_ui({"threadId": "t", "input": "x"})
    assert not is_ag_ui({"input": "x"})


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ([{"role": "user", "content": "hi"}] * 10_001, "/input"),
        (said("hi") * 10_001, "/input"),
        ([{"role": "user", "content": said("hi") * 5_000}] * 3, "/input/1/content"),
        ([{"role": "assistant", "toolCalls": [CALL] * 10_000}], "/input/0/toolCalls"),
    ],
    ids=["messages", "blocks", "blocks of messages", "calls"],
)
def test_all_messages_blocks_and_calls_together_are_bounded(given: Any, pointer: str) -> None:
    error = refusal({"input": given})
    assert (error.code, error.problems[0].pointer) == (INVALID_FORM, pointer)
    assert "more than 10,000 messages, content blocks and tool calls" in error.message
