"""The parts of an AG-UI input's messages, its tools, its answers, and the conversation that it names."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gateway.ag_ui.answers import cancelled_answer, resolved_answer
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    TextBlock,
    ToolResult,
    ToolSpec,
    UrlSource,
    VideoBlock,
)
from tests.ag_ui_inputs import DROP, parse, pointers, refusal, user

# --- content parts -----------------------------------------------------------------------------------------------

DATA = {"type": "data", "value": "AAAA", "mimeType": "image/png"}
URL = {"type": "url", "value": "https://x.test/a"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "text", "text": "x", "id": "p", "metadata": 5}, TextBlock("x")),
        ({"type": "image", "source": DATA}, ImageBlock(Base64Source("AAAA", "image/png"))),
        ({"type": "image", "source": URL}, ImageBlock(UrlSource("https://x.test/a"))),
        (
            {"type": "audio", "source": {**URL, "mimeType": "audio/wav"}},
            AudioBlock(UrlSource(URL["value"], "audio/wav")),
        ),
        ({"type": "video", "source": {**URL, "mimeType": None}}, VideoBlock(UrlSource(URL["value"]))),
        (
            {"type": "document", "source": {"type": "file", "value": "file-1", "provider": "openai"}},
            DocumentBlock(FileSource("file-1", "openai")),
        ),
        (
            {"type": "document", "source": URL, "metadata": {"filename": "a.pdf"}},
            DocumentBlock(UrlSource(URL["value"]), "a.pdf"),
        ),
        (
            {"type": "image", "source": URL, "metadata": {"filename": "a.png"}},
            ImageBlock(UrlSource(URL["value"]), "a.png"),
        ),
        (
            {"type": "image", "source": {"type": "url", "value": "data:image/gif;base64,R0lG"}},
            ImageBlock(Base64Source("R0lG", "image/gif")),
        ),
        (
            {"type": "image", "source": {"type": "url", "value": "data:text/plain,hello"}},
            ImageBlock(UrlSource("data:text/plain,hello")),
        ),
        (
            {"type": "binary", "mimeType": "image/png", "data": "AAAA"},
            ImageBlock(Base64Source("AAAA", "image/png")),
        ),
        (
            {"type": "binary", "mimeType": "Image/PNG;Name=A", "data": "AAAA"},
            ImageBlock(Base64Source("AAAA", "image/png;Name=A")),
        ),
        (
            {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/PNG"}},
            ImageBlock(Base64Source("AAAA", "image/png")),
        ),
        (
            {"type": "image", "source": {"type": "url", "value": "data:IMAGE/gif;base64,R0lG"}},
            ImageBlock(Base64Source("R0lG", "image/gif")),
        ),
        (
            {"type": "binary", "mimeType": "audio/*", "url": URL["value"], "data": None},
            AudioBlock(UrlSource(URL["value"])),
        ),
        ({"type": "binary", "mimeType": "video/mp4", "id": "f"}, VideoBlock(FileSource("f", None, "video/mp4"))),
        (
            {"type": "binary", "mimeType": "application/pdf", "data": "AAAA", "filename": "a.pdf"},
            DocumentBlock(Base64Source("AAAA", "application/pdf"), "a.pdf"),
        ),
    ],
)
def test_parts_become_blocks_in_questions_and_in_results(part: dict[str, Any], block: ContentBlock) -> None:
    sent = user([part]), {"id": "t", "role": "tool", "toolCallId": "c", "content": [part]}
    asked, answered = parse(*sent).sent.messages
    assert asked.content == (block,)
    assert answered.tool_result == ToolResult("c", (block,))


def test_unknown_parts_and_sources_are_left_out_and_the_rest_is_served(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        [message] = parse(
            user(
                [
                    {"type": "hologram", "rays": 5},
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "telepathy", "value": 5}},
                ]
            )
        ).sent.messages
    assert message.content == (TextBlock("x"),)
    [record] = caplog.records
    assert len(vars(record)["left_out"]) == 2


# --- tools and answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [DROP, None, {}, True, "x", []])
def test_a_tool_without_a_usable_schema_takes_no_arguments(parameters: object) -> None:
    tool = {"name": "t", "description": "", "parameters": parameters}
    [spec] = parse(tools=[{name: value for name, value in tool.items() if value is not DROP}]).application.tools
    assert spec == ToolSpec("t", "", {})


def test_a_tool_that_is_declared_again_counts_as_it_was_last() -> None:
    [spec] = parse(tools=[{"name": "t", "description": "old"}, {"name": "t", "description": "new"}]).application.tools
    assert spec.description == "new"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 257, 5, None])
def test_a_tool_needs_a_name_that_fits_on_a_line(name: object) -> None:
    assert pointers(refusal(tools=[{"name": name, "description": "d"}])) == {"/tools/0/name"}


def test_answers_are_taken_with_whatever_they_say() -> None:
    given = parse(
        resume=[
            {"interruptId": "a", "status": "resolved", "payload": {"approved": True}, "metadata": {"m": 1}},
            {"interruptId": "b", "status": "cancelled", "payload": "ignored"},
            {"interruptId": "c", "status": "resolved", "payload": None},
            {"interruptId": "c", "status": "resolved"},
        ]
    )
    assert given.answers == (
        resolved_answer("a", {"approved": True}, "/resume/0"),
        cancelled_answer("b"),
        resolved_answer("c", None, "/resume/2"),
    )
    assert [answer.payload for answer in given.answers] == [{"approved": True}, None, None]


def test_two_different_answers_to_one_question_are_refused() -> None:
    yes = {"interruptId": "a", "status": "resolved", "payload": {"approved": True}}
    no = {"interruptId": "a", "status": "cancelled"}
    assert pointers(refusal(resume=[yes, no])) == {"/resume/1/interruptId"}


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({"status": "resolved"}, "/interruptId"),
        ({"interruptId": "a"}, "/status"),
        ({"interruptId": "a", "status": ["resolved"]}, "/status"),
        ({"interruptId": "a", "status": "resolved", "metadata": 5}, "/metadata"),
    ],
)
def test_a_malformed_answer_is_refused(entry: dict[str, Any], pointer: str) -> None:
    assert pointers(refusal(resume=[entry])) == {f"/resume/0{pointer}"}


# --- conversations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("props", [DROP, None, {}, "billing", ["conversation_id"], {"conversationId": "x"}])
def test_who_names_no_conversation_is_in_the_default_one(props: object) -> None:
    assert parse(forwardedProps=props).thread.conversation_id == "default"


@pytest.mark.parametrize("name", ["billing", "default", "x" * 256, "Rückfragen 1"])
def test_an_application_names_the_conversation(name: str) -> None:
    assert parse(forwardedProps={"conversation_id": name, "other": 1}).thread.conversation_id == name


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", 7, None, ["x"], {"a": 1}])
def test_what_is_no_conversations_name_is_refused(name: object) -> None:
    """Silently another conversation would be somebody else's words."""
    assert pointers(refusal(forwardedProps={"conversation_id": name})) == {"/forwardedProps/conversation_id"}
