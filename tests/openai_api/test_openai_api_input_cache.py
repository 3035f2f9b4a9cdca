"""What is kept of a conversation's last request: it makes the next one cheaper, and changes nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequestError
from gateway.messages import Message, TextBlock, ToolCall, ToolResult, new_message_id
from gateway.openai_api import chat_history, responses_history
from gateway.openai_api.chat_request import ChatRequest, ReadItems, read_chat_request
from gateway.openai_api.responses_items import ReadInput, SaidItem, plain_messages
from gateway.openai_api.responses_request import ResponsesRequest, read_request
from gateway.protocol.input_cache import LIMIT_BYTES, CommonBeginning, InputCache, KnownInput
from gateway.protocol.requests import parsed_json
from gateway.protocol.time_sharing import TimeSharing
from tests.waiting import at_once
from tests.word_samples import REPEATABLE

SYSTEM = {"role": "system", "content": "Be brief."}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ask", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "yes"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


TALK = [user("one"), CALLS, RESULT, said("So."), user("two")]


def read(messages: Sequence[Any], known: ChatRequest | None = None) -> ChatRequest:
    return read_chat_request({"model": "a", "messages": [*messages]}, None if known is None else known.read)


def without_ids(request: ChatRequest) -> ChatRequest:
    messages = tuple(replace(message, id="") for message in request.messages)
    return replace(request, messages=messages, read=None)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (TALK, [*TALK, said("Two."), user("three")]),
        (TALK, TALK),
        ([SYSTEM, *TALK], [{"role": "system", "content": "It is noon."}, *TALK, said("Two."), user("three")]),
        (TALK, [SYSTEM, SYSTEM, *TALK, SYSTEM, user("three")]),
        (TALK, [user("another"), *TALK[1:], user("three")]),
        (TALK, TALK[:-1]),
        ([SYSTEM, said(""), SYSTEM, user("one")], [SYSTEM, said(""), SYSTEM, user("one"), said("1"), user("2")]),
        ([SYSTEM], [SYSTEM, user("one")]),
    ],
)
def test_a_body_is_read_the_same_whatever_was_read_before(before: list[Any], now: list[Any]) -> None:
    assert without_ids(read(now, read(before))) == without_ids(read(now))


def test_what_was_read_is_not_read_again() -> None:
    before = read([SYSTEM, *TALK])
    now = read([SYSTEM, SYSTEM, *TALK, said("Two."), user("three")], before)
    assert [one is other for one, other in zip(now.messages, before.messages, strict=False)] == [True] * 5
    assert now.call_ids == ("c1",)


@pytest.mark.parametrize("wrong", [{"role": "robot"}, RESULT, 5])
def test_what_is_wrong_behind_it_is_named_by_its_place_in_the_whole_body(wrong: Any) -> None:
    for known in (None, read(TALK)):
        with pytest.raises(InvalidRequestError) as caught:
            read([SYSTEM, *TALK, said("Two."), wrong], known)
        assert caught.value.problems[0].pointer.startswith("/messages/7")


# --- the same items over Responses

ITEMS: Final[list[Any]] = [
    {"role": "user", "content": "one"},
    {"type": "reasoning", "id": "rs_resp_1_0", "summary": [], "encrypted_content": "sealed"},
    {"type": "function_call", "call_id": "c1", "name": "ask", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "yes"},
    {"type": "message", "role": "assistant", "id": "msg_resp_1_2", "content": [{"type": "output_text", "text": "So."}]},
]
AGAIN: Final = {"role": "user", "content": "again"}


def read_items(items: Sequence[Any], known: ReadInput | None = None) -> ResponsesRequest:
    return read_request({"model": "a", "input": [*items]}, known)


def items_without_ids(request: ResponsesRequest) -> list[Any]:
    return [
        replace(item, messages=tuple(replace(each, id="") for each in item.messages))
        if isinstance(item, SaidItem)
        else item
        for item in request.items
    ]


@pytest.mark.parametrize("now", [[*ITEMS, AGAIN], ITEMS, [AGAIN, *ITEMS], ITEMS[:-1], [*ITEMS[:-1], AGAIN]])
def test_an_input_is_read_the_same_whatever_was_read_before(now: list[Any]) -> None:
    before = read_items(ITEMS)
    known = ReadInput(ITEMS, before.items)
    assert items_without_ids(read_items(now, known)) == items_without_ids(read_items(now))
    is_known = now[: len(ITEMS)] == ITEMS
    assert (read_items(now, known).items[0] is before.items[0]) is is_known


TEXTS: Final[list[Any]] = [
    {"role": "user", "content": "one"},
    {"type": "message", "role": "assistant", "id": "msg_resp_1_2", "content": [{"type": "output_text", "text": "So."}]},
]
MEDIUM: Final[Any] = {**TEXTS[1], "content": [{"type": "output_text", "text": "![a](https://a.example/a.png)"}]}


@pytest.mark.parametrize(
    ("before", "now", "plain"),
    [
        (TEXTS, [*TEXTS, AGAIN], 3),
        (TEXTS, [AGAIN, *TEXTS], 3),
        (TEXTS, [*TEXTS, MEDIUM, AGAIN], 2),
        ([*TEXTS, MEDIUM], [*TEXTS, MEDIUM, AGAIN], 2),
        ([*TEXTS, ITEMS[2]], [*TEXTS, AGAIN], 3),
    ],
)
def test_the_plain_items_in_front_are_found_whatever_was_read_before(
    before: list[Any], now: list[Any], plain: int
) -> None:
    first = read_items(before).items
    known = ReadInput(before, first, plain_messages(first))
    read = read_items(now, known).items
    assert plain_messages(read, known) == plain_messages(read)
    assert [message.text for message in plain_messages(read)] == [
        message.text for item in read[:plain] if isinstance(item, SaidItem) for message in item.messages
    ]


def test_what_is_wrong_behind_known_items_is_named_by_its_place_in_the_whole_input() -> None:
    for known in (None, ReadInput(ITEMS, read_items(ITEMS).items)):
        with pytest.raises(InvalidRequestError) as caught:
            read_items([*ITEMS, 5], known)
        assert caught.value.problems[0].pointer == "/input/5"


# --- bytes


def spaced(value: Any) -> bytes:
    """As Python's own encoder writes it."""
    return json.dumps(value).encode()


def known_body(items: list[Any]) -> tuple[KnownInput[ReadItems], dict[str, Any]]:
    known = KnownInput[ReadItems]("messages", chat_history.common_beginning)
    body: Any = {"model": "a", "messages": items}
    known.keep(ReadItems(items, (), ()), body, orjson.dumps(body))
    return known, body


@pytest.mark.parametrize("write", [orjson.dumps, spaced])
@pytest.mark.parametrize(
    "now",
    [
        {"model": "a", "messages": [*TALK, user("three")]},
        {"model": "a", "messages": TALK, "stream": True},
        {"messages": [*TALK, user("three")], "metadata": {"messages": [*TALK]}},
        {"metadata": {"messages": [*TALK, user("x")]}, "messages": [user("three")]},
        {"metadata": {"messages": [*TALK]}},
        {"model": "a", "messages": TALK[:-1]},
        {"model": "a", "messages": [SYSTEM, *TALK]},
        {"model": "a", "messages": "text"},
        {"messages": [user('"messages":[' + orjson.dumps(TALK)[1:-1].decode()), *TALK]},
        [],
    ],
)
def test_a_body_is_parsed_the_same_whatever_was_parsed_before(write: Any, now: Any) -> None:
    known, _ = known_body(TALK)
    content = write(now)
    assert at_once(known.parsed(content, "o", TimeSharing())) == at_once(parsed_json(content, "o", TimeSharing()))


@pytest.mark.parametrize(
    "broken", [b'{"messages":[%b,]}', b'{"messages":[%b]', b'{"messages":[%b 5]}', b'{"messages":[%b,NaN]}']
)
def test_a_body_that_is_no_json_behind_known_items_is_refused_as_any(broken: bytes) -> None:
    known, _ = known_body(TALK)
    content = broken % orjson.dumps(TALK)[1:-1]
    with pytest.raises(InvalidRequestError) as alone:
        at_once(parsed_json(content, "o", TimeSharing()))
    with pytest.raises(InvalidRequestError, match=re.escape(str(alone.value))):
        at_once(known.parsed(content, "o", TimeSharing()))


def test_items_that_are_written_as_before_are_not_parsed_again() -> None:
    known, before = known_body(TALK)
    items = TALK
    for number in range(3):
        items = [*items, said(f"{number}"), user("more")]
        content = orjson.dumps({"model": "a", "messages": items})
        now: Any = at_once(known.parsed(content, "o", TimeSharing()))
        kept = len(before["messages"])
        assert all(one is other for one, other in zip(now["messages"][:kept], before["messages"], strict=True))
        known.keep(ReadItems(now["messages"], (), ()), now, content)
        before = now


# --- recognition


def message(role: Any, text: str, turn_id: str | None = None) -> Message:
    return Message(new_message_id(), role, (TextBlock(text),), turn_id=turn_id)


def answer(number: int, *, hidden: bool) -> list[Message]:
    turn = f"turn {number}"
    call = Message(new_message_id(), "assistant", (ToolCall(f"call {number}", "add", "{}"),), turn_id=turn)
    result = Message(new_message_id(), "tool", (ToolResult(f"call {number}", (TextBlock("5"),)),), turn_id=turn)
    end = message("assistant", f"answer {number}", f"{turn} end")
    return [message("reasoning", "Hm.", turn), call, result, end] if hidden else [end]


HOW = ["on", "on", "on", "again", "edit", "elsewhere", "client", "old call", "reading"]
TURNS = st.lists(st.tuples(st.booleans(), st.sampled_from(HOW)), max_size=8)
every_protocol = pytest.mark.parametrize(
    "common_beginning", [chat_history.common_beginning, responses_history.common_beginning], ids=["chat", "responses"]
)


def known_input(common_beginning: CommonBeginning) -> KnownInput[Any]:
    return KnownInput("messages", common_beginning)


def called(call_id: str, turn_id: str | None = None) -> Message:
    return Message(new_message_id(), "assistant", (ToolCall(call_id, "map", "{}"),), turn_id=turn_id)


def result(call_id: str, turn_id: str | None = None) -> Message:
    return Message(new_message_id(), "tool", (ToolResult(call_id, (TextBlock("5"),)),), turn_id=turn_id)


@every_protocol
@REPEATABLE
@given(TURNS)
def test_a_talk_is_recognised_the_same_with_and_without_what_was_recognised_before(
    common_beginning: CommonBeginning, turns: list[tuple[bool, str]]
) -> None:
    known = known_input(common_beginning)
    stored: tuple[Message, ...] = ()
    sent: tuple[Message, ...] = ()
    for number, (hidden, how) in enumerate(turns):
        if how == "again":
            sent = sent[:-2]
        elif how == "edit" and sent:
            sent = (*sent[:-1], message("assistant", "Something else."))
        elif how == "elsewhere":
            stored = (*stored, message("user", "From elsewhere."), *answer(-number, hidden=hidden))
        elif how == "client" and stored:
            stored = (*stored, called(f"map {number}", f"map {number}"))
            sent = (*sent, called(f"map {number}"), result(f"map {number}"))
        elif how == "old call":
            sent = (*sent, result("call 0"), result("map 1"))
        elif how == "reading":
            stored = (*stored, called("map 1", "late"), result("map 1", "late"))
        sent = (*sent, message("user", f"question {number}"))
        start, rest = common_beginning(stored, sent, (0, 0))
        expected = (*stored[:start], *sent[rest:])
        assert known.recognise(stored, sent) == expected
        assert known.recognise(stored, sent) == expected
        said = answer(number, hidden=hidden)
        stored = (*expected, *said)
        sent = (*sent, message("assistant", said[-1].text))


@every_protocol
def test_a_run_that_asks_again_gets_what_it_got(common_beginning: CommonBeginning) -> None:
    chat, stored = known_input(common_beginning), (message("user", "one"), message("assistant", "1"))
    sent = tuple(replace(each, id=new_message_id()) for each in stored)
    assert chat.recognise(stored, sent) is chat.recognise((*stored,), sent)


@every_protocol
def test_what_is_recognised_already_is_not_looked_at_again(common_beginning: CommonBeginning) -> None:
    stored = (message("user", "one"), message("assistant", "1"))
    before = (message("user", "zero"), stored[0])
    sent = (message("user", "something else"), stored[0], message("assistant", "1"))
    assert common_beginning((*before, *stored[1:]), sent, (0, 0)) == (0, 0)
    assert common_beginning((*before, *stored[1:]), sent, (2, 2)) == (3, 3)


def chats(limit_bytes: int = LIMIT_BYTES) -> InputCache[ReadItems]:
    return InputCache("messages", chat_history.common_beginning, limit_bytes)


def keep(cache: InputCache[ReadItems], name: str, messages: list[Any]) -> ReadItems | None:
    body: Any = {"model": "a", "messages": messages}
    request = read_chat_request(body)
    cache.keep("o", name, cache.find("o", name), request.read, body, orjson.dumps(body))
    return request.read


def test_only_so_much_is_kept_and_what_was_used_longest_ago_goes_first() -> None:
    cache = chats(limit_bytes=300_000)
    long = [user("x" * 2_000) for _ in range(10)]
    for name in ("t1", "t2", "t3", "t1", "t4", "t5"):
        keep(cache, name, long)
    found = {name: cache.find("o", name).read is not None for name in ("t1", "t2", "t3", "t4", "t5")}
    assert found == {"t1": True, "t2": False, "t3": True, "t4": True, "t5": True}
    assert cache.find("another", "t1").read is None
    keep(cache, "t1", [user("x" * 60_000)] * 10)
    assert cache.find("o", "t1").read is None


def test_a_short_conversation_is_not_kept_and_drops_nothing() -> None:
    cache = chats()
    keep(cache, "t", [user("hi")])
    assert cache.find("o", "t").read is None
    long = keep(cache, "t", [user("x")] * 10)
    keep(cache, "t", [user("Give this chat a title.")])
    assert cache.find("o", "t").read is long
