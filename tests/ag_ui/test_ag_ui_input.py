"""What a client may send: case by case, and side by side with the package's own models."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from gateway.ag_ui.answers import resolved_answer
from gateway.ag_ui.input import parse_run_input
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import ABSENT, ContextEntry
from gateway.errors import InvalidRequestError
from gateway.messages import (
    Base64Source,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from tests.ag_ui_inputs import DROP, parse, pointers, profile, refusal, user
from tests.agent_inputs import agent_input

# --- the whole ---------------------------------------------------------------------------------------------------


def test_members_in_snake_case_are_taken_for_those_of_the_protocol(caplog: pytest.LogCaptureFixture) -> None:
    """As Microsoft's AGUIChatClient writes some of them, and the Python SDK takes all."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    picture = {"type": "image", "source": {"type": "data", "value": "AA==", "mime_type": "image/png"}}
    sent = {
        "thread_id": "t", "run_id": "r", "parent_run_id": "r0", "protocol_version": "1.0",
        "forwarded_props": {"a_b": 1},
        "messages": [
            {"id": "a", "role": "assistant", "content": "", "tool_calls": [{**call, "encrypted_value": "x"}]},
            {"id": "b", "role": "tool", "content": "3", "tool_call_id": "c1"},
            {"id": "c", "role": "user", "content": [picture], "subagent_run_id": "s"},
            {"id": "d", "role": "user", "content": "4", "tool_call_id": "c1"},
        ],
        "resume": [{"interrupt_id": "i1", "status": "resolved", "payload": {"tool_calls": 1}}],
    }  # fmt: skip
    with caplog.at_level(logging.WARNING):
        given, profile = parse_run_input(json.dumps(sent).encode())
    assert (given.thread.id, given.run_id, given.parent_run_id) == ("t", "r", "r0")
    assert given.application.forwarded == {"a_b": 1}
    assert profile is PeerProfile.FULL
    assert given.sent.messages == (
        Message("a", "assistant", (ToolCall("c1", "add", "{}"),)),
        Message("b", "tool", (ToolResult("c1", (TextBlock("3"),)),)),
        Message("c", "user", (ImageBlock(Base64Source("AA==", "image/png")),)),
        Message("d", "tool", (ToolResult("c1", (TextBlock("4"),)),)),
    )
    assert given.answers == (resolved_answer("i1", {"tool_calls": 1}, "/resume/0"),)
    assert caplog.records == []


@pytest.mark.parametrize("reverse", [False, True])
def test_where_both_spellings_stand_the_protocols_own_counts(reverse: bool) -> None:
    both = [("toolCallId", "c1"), ("tool_call_id", "c2")]
    message = {"id": "b", "role": "tool", "content": "3", **dict(reversed(both) if reverse else both)}
    given = parse(message, thread_id="other", run_id=5)
    assert (given.thread.id, given.run_id) == ("t", "r")
    assert given.sent.messages == (Message("b", "tool", (ToolResult("c1", (TextBlock("3"),)),)),)


def test_only_three_members_are_needed() -> None:
    assert parse(user()) == agent_input("t", "r", (Message("u", "user", (TextBlock("Hi"),)),))


def test_null_is_the_same_as_absent() -> None:
    nulls = dict.fromkeys(["tools", "context", "state", "forwardedProps", "resume", "parentRunId", "protocolVersion"])
    given = user(name=None, metadata=None, encryptedValue=None, subagentRunId=None)
    assert parse(given, **nulls) == parse(user())


def test_what_the_application_sends_along_is_taken() -> None:
    given = parse(
        user(),
        state={"a": [None, 1.5]},
        tools=[{"name": "show", "description": "Shows.", "parameters": {"type": "object"}, "metadata": {"k": 1}}],
        context=[{"description": "page", "value": "home"}],
        forwardedProps={"x": {"y": None}},
        parentRunId="p",
    )
    assert given.application.state == {"a": [None, 1.5]}
    assert given.application.tools == (ToolSpec("show", "Shows.", {"type": "object"}, {"k": 1}),)
    assert given.application.context == (ContextEntry("page", "home"),)
    assert given.application.forwarded == {"x": {"y": None}}
    assert given.parent_run_id == "p"


@pytest.mark.parametrize("state", [[1], "text", 0, False, {}])
def test_any_state_is_passed_as_it_is(state: object) -> None:
    assert parse(state=state).application.state == state


def test_a_state_of_null_is_none_at_all() -> None:
    assert parse(state=None).application.state is ABSENT


def test_there_may_be_no_messages() -> None:
    assert parse().sent.messages == ()


@pytest.mark.parametrize("bad", [b"", b"{", b"\xef\xbb\xbf{}", b'{"threadId":"\xff"}', b"NaN", b"[" * 100_000])
def test_what_is_no_json_is_a_400(bad: bytes) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_run_input(bad)
    assert (refused.value.status, refused.value.code) == (400, "invalid_json")


def test_half_a_surrogate_pair_is_a_400_that_says_where() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_run_input(rb'{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"\ud83d"}]}')
    assert refused.value.status == 400
    assert pointers(refused.value) == {"/messages/0/content"}


@pytest.mark.parametrize("bad", [b"[]", b"null", b'"x"', b"5", b"true"])
def test_what_is_no_object_is_a_422(bad: bytes) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_run_input(bad)
    assert (refused.value.status, refused.value.code, pointers(refused.value)) == (422, "invalid_request", {""})


def test_all_wrong_fields_are_listed() -> None:
    error = refusal(
        {"id": 5, "role": "user", "content": "x"},
        {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {"name": 1}}]},
        "words",
        threadId=DROP,
        runId=7,
        tools=[{"name": "t"}, 3],
        context=[{"description": "d", "value": {"an": "object"}}],
        resume=[{"interruptId": "i", "status": "maybe"}],
        forwardedProps=None,
    )
    assert (error.status, error.code) == (422, "invalid_request")
    assert pointers(error) == {
        "/threadId",
        "/runId",
        "/messages/0/id",
        "/messages/1/toolCalls/0/function/name",
        "/messages/1/toolCalls/0/function/arguments",
        "/messages/2",
        "/tools/0/description",
        "/tools/1",
        "/context/0/value",
        "/resume/0/status",
    }


def test_the_list_of_wrong_fields_has_an_end() -> None:
    error = refusal(*[5] * 10_000)
    assert len(error.problems) < 100
    assert "9999 more" in error.message


@pytest.mark.parametrize("name", ["threadId", "runId"])
@pytest.mark.parametrize("value", ["", "x" * 257, "a\nb", "a\x00b", "a\x7fb", "a\x85b"])
def test_ids_are_1_to_256_characters_without_control_characters(name: str, value: str) -> None:
    assert pointers(refusal(**{name: value})) == {f"/{name}"}
    assert parse(**{name: "x" * 256}) is not None
    assert parse(**{name: "käse/ü 1"}) is not None


def test_unknown_members_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        given = parse(
            user(mood="good"),
            {"role": "user", "content": "x", "mood": "bad"},
            {"id": "a", "role": "assistant", "content": "b", "snake_case": 1},
            extra=1,
        )
    assert [message.text for message in given.sent.messages] == ["Hi", "x", "b"]
    [record] = caplog.records
    assert vars(record)["left_out"] == {
        "member 'extra' of input": 1,
        "member 'mood' of a message of role user": 2,
        "member 'snake_case' of a message of role assistant": 1,
    }


# --- versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.10", "01.0", "abc", "", "1", "1.0.0", "v1.0"])
def test_a_peer_of_1_x_or_of_no_known_form_gets_everything(version: str) -> None:
    assert profile(protocolVersion=version) is PeerProfile.FULL


@pytest.mark.parametrize("version", [None, DROP, "0.0", "0.1", "0.0.59"])
def test_a_peer_that_declares_nothing_or_0_x_gets_what_0_x_knows(version: object) -> None:
    assert profile(protocolVersion=version) is PeerProfile.LEGACY


@pytest.mark.parametrize("version", ["2.0", "9.9", "10.0", "9" * 5000 + ".0"])
def test_only_another_major_version_is_refused(version: str) -> None:
    error = refusal(protocolVersion=version)
    assert (error.status, error.code, pointers(error)) == (422, "unsupported_protocol_version", {"/protocolVersion"})


def test_a_version_that_is_no_text_is_malformed() -> None:
    assert pointers(refusal(protocolVersion=1.0)) == {"/protocolVersion"}


@pytest.mark.parametrize(("version", "warned"), [("1.0", False), ("1.1", True), ("abc", True), (None, False)])
def test_a_newer_peer_is_worth_a_warning(version: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        profile(protocolVersion=version)
    assert bool(caplog.records) is warned


def test_a_legacy_peer_that_sends_media_parts_knows_them() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "https://x.test/a.png"}}
    binary = {"type": "binary", "mimeType": "image/png", "url": "https://x.test/a.png"}
    assert profile(user([image])) is PeerProfile.LEGACY_MEDIA
    assert profile(user([binary])) is PeerProfile.LEGACY
    assert profile(user([image]), protocolVersion="1.0") is PeerProfile.FULL


# --- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (
            {"id": "s", "role": "system", "content": "Be brief.", "name": "app"},
            Message("s", "system", (TextBlock("Be brief."),), "app"),
        ),
        ({"id": "d", "role": "developer", "content": ""}, Message("d", "developer", (TextBlock(""),))),
        (user(metadata={"a": None}), Message("u", "user", (TextBlock("Hi"),), metadata={"a": None})),
        (user(""), Message("u", "user")),
        (user([]), Message("u", "user")),
        (
            {"id": "r", "role": "reasoning", "content": "Hm", "encryptedValue": "x"},
            Message("r", "reasoning", (ReasoningBlock("Hm"),)),
        ),
        (
            {"id": "a", "role": "assistant", "content": "Yes", "name": "bot"},
            Message("a", "assistant", (TextBlock("Yes"),), "bot"),
        ),
        ({"id": "a", "role": "assistant"}, Message("a", "assistant")),
        ({"id": "a", "role": "assistant", "content": ""}, Message("a", "assistant")),
        ({"id": "a", "role": "assistant", "content": None, "toolCalls": None}, Message("a", "assistant")),
        (
            {"id": "t", "role": "tool", "toolCallId": "c", "content": "3"},
            Message("t", "tool", (ToolResult("c", (TextBlock("3"),)),)),
        ),
        ({"id": "t", "role": "tool", "toolCallId": "c", "content": ""}, Message("t", "tool", (ToolResult("c", ()),))),
        (
            {"id": "t", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "3"}], "error": None},
            Message("t", "tool", (ToolResult("c", (TextBlock("3"),)),)),
        ),
    ],
)
def test_messages_of_every_role_are_taken(sent: dict[str, Any], message: Message) -> None:
    assert parse(sent).sent.messages == (message,)


@pytest.mark.parametrize("content", [DROP, None, ""])
def test_an_assistant_message_may_be_calls_alone(content: object) -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "add", "arguments": "{not json"},
        "encryptedValue": "e",
        "metadata": {"m": 1},
    }
    plain = {"id": "d", "type": "function", "function": {"name": "add", "arguments": ""}}
    sent = {"id": "a", "role": "assistant", "toolCalls": [call, plain], "content": content}
    [message] = parse({name: value for name, value in sent.items() if value is not DROP}).sent.messages
    assert message.content == (ToolCall("c", "add", "{not json"), ToolCall("d", "add", ""))


def test_the_call_comes_behind_the_words() -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": "{}"}}
    [message] = parse({"id": "a", "role": "assistant", "content": "Let me see.", "toolCalls": [call]}).sent.messages
    assert message.content == (TextBlock("Let me see."), ToolCall("c", "add", "{}"))


@pytest.mark.parametrize(
    ("content", "error", "blocks"),
    [
        ("", "boom", ("boom",)),
        ("half", "boom", ("half", "boom")),
        ("boom", "boom", ("boom",)),
        ([], "boom", ("boom",)),
    ],
)
def test_a_failed_tool_says_why_in_its_last_text(content: object, error: str, blocks: tuple[str, ...]) -> None:
    [message] = parse({"id": "t", "role": "tool", "toolCallId": "c", "content": content, "error": error}).sent.messages
    assert message.tool_result == ToolResult("c", tuple(TextBlock(text) for text in blocks), is_error=True)


def test_an_empty_error_is_none() -> None:
    [message] = parse({"id": "t", "role": "tool", "toolCallId": "c", "content": "3", "error": ""}).sent.messages
    assert message.tool_result == ToolResult("c", (TextBlock("3"),))


def test_a_message_without_an_id_gets_one() -> None:
    given = parse(
        {"role": "user", "content": "a"},
        {"role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]},
        {"role": "tool", "content": "b", "toolCallId": "c"},
        {"role": "tool", "content": "b", "toolCallId": "d", "error": "e"},
        user("c"),
        {"role": "system", "content": "d", "id": None},
        {"role": "system", "content": "d", "id": ""},
    )
    minted = [message.id for message in given.sent.messages if message.id != "u"]
    assert len(set(minted)) == 6
    assert given.sent.minted_ids == frozenset(minted)
    assert [len(message.tool_calls) for message in given.sent.messages] == [0, 1, 0, 0, 0, 0, 0]
    results = [message.tool_result for message in given.sent.messages[2:4]]
    assert [result is not None and result.is_error for result in results] == [False, True]


@pytest.mark.parametrize("sent", [user("42", toolCallId="c"), {"role": "user", "content": "42", "toolCallId": "c"}])
def test_a_user_message_that_names_a_call_is_its_result(sent: dict[str, Any]) -> None:
    [message] = parse(sent).sent.messages
    assert message.role == "tool"
    assert message.tool_result == ToolResult("c", (TextBlock("42"),))


def test_a_user_message_that_names_no_call_is_the_users() -> None:
    assert parse(user(toolCallId=None)).sent.messages == parse(user()).sent.messages


def test_unknown_roles_and_activities_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    activity = {"id": "x", "role": "activity", "activityType": "PLAN", "content": {}}
    with caplog.at_level(logging.WARNING):
        given = parse({"id": "w", "role": "wizard", "content": 5}, activity, user())
    assert given == parse(user())
    assert [vars(record)["left_out"] for record in caplog.records] == [{"message of role 'wizard'": 1}]


def test_a_later_message_of_the_same_id_takes_the_place_of_the_first() -> None:
    given = parse(user("a"), {"id": "b", "role": "assistant", "content": "b"}, user("c"))
    assert [message.text for message in given.sent.messages] == ["c", "b"]


def test_a_message_of_the_same_id_that_is_something_else_gets_an_id_of_its_own() -> None:
    # agno's results have the id of their call, and so has the message that HttpAgent makes for an unparented call
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given = parse(
        {"id": "c", "role": "assistant", "toolCalls": [call]},
        {"id": "c", "role": "tool", "toolCallId": "c", "content": "1"},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": "1"},
        {"id": "t", "role": "tool", "toolCallId": "d", "content": "2"},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": "3"},
    )
    assert [message.role for message in given.sent.messages] == ["assistant", "tool", "tool", "tool"]
    results = [message.tool_result for message in given.sent.messages[1:]]
    assert [(result.call_id, result.content) for result in results if result] == [
        ("c", (TextBlock("1"),)),
        ("c", (TextBlock("3"),)),
        ("d", (TextBlock("2"),)),
    ]
    ids = [message.id for message in given.sent.messages]
    assert (ids[0], ids[2]) == ("c", "t")
    assert given.sent.minted_ids == {ids[1], ids[3]}


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (user(None), "/content"),
        (user(5), "/content"),
        (user({}), "/content"),
        ({"id": "u", "role": "user"}, "/content"),
        ({"id": "s", "role": "system", "content": []}, "/content"),
        ({"id": "s", "role": "reasoning", "content": None}, "/content"),
        ({"id": "a", "role": "assistant", "content": ["x"]}, "/content"),
        ({"id": "a", "role": "assistant", "toolCalls": {}}, "/toolCalls"),
        ({"id": "a", "role": "assistant", "toolCalls": [None]}, "/toolCalls/0"),
        ({"id": "a", "role": "assistant", "toolCalls": [{"id": "c"}]}, "/toolCalls/0/function"),
        ({"id": "t", "role": "tool", "content": "x"}, "/toolCallId"),
        ({"id": "t", "role": "tool", "toolCallId": "c"}, "/content"),
        ({"id": "t", "role": "tool", "toolCallId": "c", "content": "", "error": {}}, "/error"),
        (user(name=5), "/name"),
        (user(metadata=[]), "/metadata"),
        (user(subagentRunId=1), "/subagentRunId"),
        (user(encryptedValue=1), "/encryptedValue"),
        (user(toolCallId=1), "/toolCallId"),
        ({"id": "u", "role": 5, "content": "x"}, "/role"),
        ({"id": "u", "content": "x"}, "/role"),
        ({"id": [], "role": "user", "content": "x"}, "/id"),
        (user([{"type": "text"}]), "/content/0/text"),
        (user([{"text": "x"}]), "/content/0/type"),
        (user(["x"]), "/content/0"),
        (user([{"type": "image"}]), "/content/0/source"),
        (user([{"type": "image", "source": "x"}]), "/content/0/source"),
        (user([{"type": "image", "source": {}}]), "/content/0/source/type"),
        (user([{"type": "image", "source": {"type": "url"}}]), "/content/0/source/value"),
        (user([{"type": "image", "source": {"type": "data", "value": "AA=="}}]), "/content/0/source/mimeType"),
        (user([{"type": "binary", "mimeType": "image/png"}]), "/content/0"),
        (user([{"type": "binary", "data": "AA=="}]), "/content/0/mimeType"),
    ],
)
def test_a_known_field_of_the_wrong_type_is_refused(message: dict[str, Any], pointer: str) -> None:
    assert pointers(refusal(user(), message)) == {f"/messages/1{pointer}"}


def test_what_is_not_there_is_called_required_wherever_it_belongs() -> None:
    no_source_type = {"type": "image", "source": {"value": "https://x.example/a.png"}}
    with pytest.raises(InvalidRequestError) as refused:
        parse({"content": "x"}, {"role": "user", "content": [{"text": "x"}, no_source_type]}, {"role": None})
    assert {problem.pointer: problem.detail for problem in refused.value.problems} == {
        "/messages/0/role": "required",
        "/messages/1/content/0/type": "required",
        "/messages/1/content/1/source/type": "required",
        "/messages/2/role": "expected a string, got null",
    }


def test_messages_that_are_no_array_are_refused() -> None:
    assert pointers(refusal(messages={})) == {"/messages"}
    assert pointers(refusal(messages=None)) == {"/messages"}
    assert pointers(refusal(messages=DROP)) == {"/messages"}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"messages": [user(id=f"m{i}") for i in range(10_001)]}, "/messages"),
        ({"messages": [user([{"type": "text", "text": "p"}] * 10_000)]}, "/messages/0/content"),
        ({"messages": [{"id": "a", "role": "assistant", "toolCalls": [CALL] * 10_000}]}, "/messages/0/toolCalls"),
        ({"messages": [{"id": "a", "role": "assistant", "tool_calls": [CALL] * 10_000}]}, "/messages/0/toolCalls"),
        ({"messages": [{"id": "a", "role": "assistant", "toolCalls": [CALL] * 5_000}] * 3}, "/messages/1/toolCalls"),
        ({"tools": [{"name": "t", "description": ""}] * 10_001}, "/tools"),
        ({"context": [{"description": "", "value": ""}] * 10_001}, "/context"),
        ({"resume": [{"interruptId": "i", "status": "cancelled"}] * 10_001}, "/resume"),
        ({"tools": [{"name": "t", "description": ""}] * 5_001, "messages": [user(id=f"m{i}") for i in range(5_000)]},
         "/messages"),
    ],
)  # fmt: skip
def test_all_items_of_an_input_together_are_bounded(members: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequestError, match="'history: append' or 'history: by_id'") as caught:
        parse_run_input(json.dumps({"threadId": "t", "runId": "r", "messages": [], **members}).encode())
    assert (caught.value.status, caught.value.code) == (422, "too_many_items")
    assert [problem.pointer for problem in caught.value.problems] == [pointer]
