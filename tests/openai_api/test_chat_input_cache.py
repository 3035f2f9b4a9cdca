"""What is kept of a chat's last request: it makes the next one cheaper, and changes nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import InvalidRequestError
from gateway.messages import Message, TextBlock, ToolCall, ToolResult, new_message_id
from gateway.openai_api.chat_history import common_beginning, recognise
from gateway.openai_api.chat_input_cache import ChatInputCache, KnownChat
from gateway.openai_api.chat_request import ChatRequest, read_chat_request
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


def message(role: Any, text: str, turn_id: str | None = None) -> Message:
    return Message(new_message_id(), role, (TextBlock(text),), turn_id=turn_id)


def answer(number: int, *, hidden: bool) -> list[Message]:
    turn = f"turn {number}"
    call = Message(new_message_id(), "assistant", (ToolCall(f"call {number}", "add", "{}"),), turn_id=turn)
    result = Message(new_message_id(), "tool", (ToolResult(f"call {number}", (TextBlock("5"),)),), turn_id=turn)
    end = message("assistant", f"answer {number}", f"{turn} end")
    return [message("reasoning", "Hm.", turn), call, result, end] if hidden else [end]


TURNS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["on", "on", "on", "again", "edit", "elsewhere"])), max_size=8
)


@REPEATABLE
@given(TURNS)
def test_a_talk_is_recognised_the_same_with_and_without_what_was_recognised_before(
    turns: list[tuple[bool, str]],
) -> None:
    chat = KnownChat()
    stored: tuple[Message, ...] = ()
    sent: tuple[Message, ...] = ()
    for number, (hidden, how) in enumerate(turns):
        if how == "again":
            sent = sent[:-2]
        elif how == "edit" and sent:
            sent = (*sent[:-1], message("assistant", "Something else."))
        elif how == "elsewhere":
            stored = (*stored, message("user", "From elsewhere."), *answer(-number, hidden=hidden))
        sent = (*sent, message("user", f"question {number}"))
        expected = recognise(stored, sent)
        assert chat.recognise(stored, sent) == expected
        assert chat.recognise(stored, sent) == expected
        said = answer(number, hidden=hidden)
        stored = (*expected, *said)
        sent = (*sent, message("assistant", said[-1].text))


def test_a_run_that_asks_again_gets_what_it_got() -> None:
    chat, stored = KnownChat(), (message("user", "one"), message("assistant", "1"))
    sent = tuple(replace(each, id=new_message_id()) for each in stored)
    assert chat.recognise(stored, sent) is chat.recognise((*stored,), sent)


def test_what_is_recognised_already_is_not_looked_at_again() -> None:
    stored = (message("user", "one"), message("assistant", "1"))
    sent = (message("user", "something else"), message("assistant", "1"))
    assert common_beginning(stored, sent) == (0, 0)
    assert common_beginning(stored, sent, (1, 1)) == (2, 2)


def test_only_so_much_is_kept_and_what_was_used_longest_ago_goes_first() -> None:
    cache = ChatInputCache(limit_bytes=200_000)
    long = [user("x" * 2_000) for _ in range(10)]
    for name in ("t1", "t2", "t3", "t1", "t4", "t5"):
        chat = cache.find("o", name)
        cache.keep("o", name, chat, read(long, None).read)
    found = {name: cache.find("o", name).read is not None for name in ("t1", "t2", "t3", "t4", "t5")}
    assert found == {"t1": True, "t2": False, "t3": True, "t4": True, "t5": True}
    assert cache.find("another", "t1").read is None
    cache.keep("o", "t1", cache.find("o", "t1"), read([user("x" * 60_000)] * 10).read)
    assert cache.find("o", "t1").read is None


def test_a_short_conversation_is_not_kept_and_drops_nothing() -> None:
    cache, long = ChatInputCache(), read([user("x")] * 10)
    cache.keep("o", "t", cache.find("o", "t"), read([user("hi")]).read)
    assert cache.find("o", "t").read is None
    cache.keep("o", "t", cache.find("o", "t"), long.read)
    cache.keep("o", "t", cache.find("o", "t"), read([user("Give this chat a title.")]).read)
    assert cache.find("o", "t").read is long.read
