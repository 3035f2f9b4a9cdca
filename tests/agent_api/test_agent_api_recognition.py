"""What is recognised of an input that repeats messages of its session."""

from __future__ import annotations

import cProfile
from itertools import permutations

import pytest

from gateway.agent_api.recognition import recognise
from gateway.messages import ContentBlock, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolResult


def said(message_id: str, role: Role, words: str, turn_id: str | None = None) -> Message:
    return Message(message_id, role, (TextBlock(words),), turn_id=turn_id)


def block(message_id: str, role: Role, content: ContentBlock, turn_id: str | None = None) -> Message:
    return Message(message_id, role, (content,), turn_id=turn_id)


STORED = (
    said("u1", "user", "weather?"),
    block("a1", "assistant", ToolCall("call_r_0", "weather", "{}"), "t1"),
    block("r1", "tool", ToolResult("call_r_0", (TextBlock("sunny"),)), "t1"),
    said("a2", "assistant", "It is sunny.", "t2"),
    said("u2", "user", "and tomorrow?"),
    said("a3", "assistant", "Rain.", "t3"),
)
NEW = said("n1", "user", "thanks")


def recognised(stored: tuple[Message, ...], *sent: Message) -> tuple[Message, ...]:
    return recognise(stored, sent, spare_ids={message.id: f"spare {message.id}" for message in sent})


def copies(*messages: Message) -> list[Message]:
    """As a client sends them again: with ids of its own."""
    return [Message(f"c{place}", message.role, message.content) for place, message in enumerate(messages)]


def test_a_new_message_goes_behind_the_session() -> None:
    assert recognised(STORED, NEW) == (*STORED, NEW)
    assert recognised((), *copies(*STORED), NEW)[-1] == NEW


def test_a_whole_history_is_never_appended_twice() -> None:
    assert recognised(STORED, *copies(*STORED), NEW) == (*STORED, NEW)
    without_calls = [message for message in STORED if message.id not in ("a1", "r1")]
    assert recognised(STORED, *copies(*without_calls), NEW) == (*STORED, NEW)


def test_the_last_part_of_a_history_is_never_appended_twice() -> None:
    assert recognised(STORED, *copies(*STORED[4:]), NEW) == (*STORED, NEW)


def test_a_history_without_its_last_answer_wants_that_anew() -> None:
    assert recognised(STORED, *copies(*STORED[:5])) == STORED[:5]


def test_an_edited_question_takes_the_place_of_the_old_one() -> None:
    edited = said("e", "user", "and on Sunday?")
    assert recognised(STORED, *copies(*STORED[:4]), edited) == (*STORED[:4], edited)


def test_a_history_of_something_else_goes_behind_the_session() -> None:
    other = (said("x1", "user", "2+2?"), said("x2", "assistant", "4"), NEW)
    assert recognised(STORED, *other) == (*STORED, *other)


def test_a_call_that_comes_with_its_output_is_the_sessions_own() -> None:
    call = block("a4", "assistant", ToolCall("call_q_0", "look", "{}"), "t4")
    output = block("o", "tool", ToolResult("call_q_0", (TextBlock("blue"),)))
    stored = (*STORED, NEW, call)
    assert recognised(stored, *copies(call), output) == (*stored, output)
    assert recognised((*stored, output), *copies(output)) == (*stored, output)


def test_instructions_that_come_with_every_request_stand_in_the_session_once() -> None:
    kind, kinder = said("s1", "system", "Be kind."), said("s2", "system", "Be kinder.")
    assert recognised((kind, *STORED), *copies(kind), NEW) == (kind, *STORED, NEW)
    assert recognised((kind, *STORED), *copies(kind, *STORED), NEW) == (kind, *STORED, NEW)
    assert recognised((kind, *STORED), *copies(*STORED), NEW) == (kind, *STORED, NEW)
    assert recognised((kind, *STORED), kinder, *copies(*STORED), NEW) == (kinder, *STORED, NEW)


def test_a_question_that_nobody_answered_is_not_asked_twice() -> None:
    assert recognised((*STORED, NEW), NEW) == (*STORED, NEW)


def test_a_new_message_with_the_id_of_another_one_is_a_new_message() -> None:
    same_id = said("u2", "user", "and on Sunday?")
    again = said("u2", "user", "and tomorrow?")
    assert recognised(STORED, same_id) == (*STORED, said("spare u2", "user", "and on Sunday?"))
    assert recognised(STORED, again) == (*STORED, said("spare u2", "user", "and tomorrow?"))


CALLS = (
    said("u1", "user", "weather?"),
    block("th", "reasoning", ReasoningBlock("hm"), "t1"),
    Message(
        "a1",
        "assistant",
        (TextBlock("I look."), ToolCall("call_r_0", "look", "{}"), ToolCall("call_r_1", "weather", "{}")),
        turn_id="t1",
    ),
)
ANSWER = (
    block("c1", "reasoning", ReasoningBlock("hm")),
    said("c2", "assistant", "I look."),
    block("c3", "assistant", ToolCall("call_r_1", "weather", "{}")),
    block("c4", "assistant", ToolCall("call_r_0", "look", "{}")),
)
OUTPUTS = (
    block("o1", "tool", ToolResult("call_r_1", (TextBlock("sunny"),))),
    block("o0", "tool", ToolResult("call_r_0", (TextBlock("blue"),))),
)


@pytest.mark.parametrize("answer", [ANSWER, ANSWER[1:], ANSWER[1:2], ANSWER[2:], ANSWER[:1], ()])
def test_an_answer_may_come_again_before_the_outputs_of_its_calls(answer: tuple[Message, ...]) -> None:
    assert recognised(CALLS, *answer, *OUTPUTS) == (*CALLS, *OUTPUTS)


@pytest.mark.parametrize("answer", [ANSWER, ANSWER[1:], ANSWER[1:2]])
def test_a_whole_history_may_come_again_before_the_outputs_of_its_calls(answer: tuple[Message, ...]) -> None:
    assert recognised(CALLS, *copies(CALLS[0]), *answer, *OUTPUTS) == (*CALLS, *OUTPUTS)


@pytest.mark.parametrize("order", [*permutations(("call_r_0", "call_r_1", "call_x"))])
def test_a_call_that_the_session_has_not_stands_once_beside_those_that_it_has(order: tuple[str, ...]) -> None:
    calls = [block(f"c_{call_id}", "assistant", ToolCall(call_id, "look", "{}")) for call_id in order]
    outputs = [block(f"o_{call_id}", "tool", ToolResult(call_id, (TextBlock("so"),))) for call_id in order]
    thread = recognised(CALLS, *copies(CALLS[0]), ANSWER[1], *calls, *outputs)
    assert sorted(call.call_id for message in thread for call in message.tool_calls) == sorted(order)
    assert thread[-3:] == tuple(outputs)


def test_an_answer_that_begins_with_the_gateways_own_call_may_come_again() -> None:
    call, result = block("a0", "assistant", ToolCall("b_0", "add", "{}"), "t0"), ToolResult("b_0", (TextBlock("5"),))
    stored = (CALLS[0], call, block("r0", "tool", result, "t0"), *CALLS[1:])
    assert recognised(stored, *copies(*stored[1:3]), *ANSWER, *OUTPUTS) == (*stored, *OUTPUTS)


def test_an_answer_that_says_the_same_words_as_earlier_ones_is_the_last_one() -> None:
    earlier = (
        said("u0", "user", "weather?"),
        Message("a0", "assistant", (TextBlock("I look."), ToolCall("call_q_0", "weather", "{}")), turn_id="t0"),
        block("r0", "tool", ToolResult("call_q_0", (TextBlock("rain"),))),
        said("a9", "assistant", "Rain.", "t0"),
    )
    stored = (*earlier, *CALLS)
    assert recognised(stored, *ANSWER, *OUTPUTS) == (*stored, *OUTPUTS)


def test_a_thread_of_nothing_but_the_same_words_is_soon_looked_through() -> None:
    stored = (said("s", "user", "first"), *(said(f"s{place}", "user", "again") for place in range(1_000)))
    talk = [said(f"t{place}", "user", "again") for place in range(1_001)]
    with cProfile.Profile() as profile:
        found = recognised(stored, *talk, said("t", "assistant", "Something else."))
    assert found[: len(stored)] == stored
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls < 1_000_000, "comparing it from each of its messages on takes many times as many"
