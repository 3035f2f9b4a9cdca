"""What a client of Responses replays is recognised as the thread's own messages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.messages import (
    ImageBlock,
    Message,
    Opaque,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
)
from gateway.openai_api.responses_history import common_beginning
from gateway.protocol.input_cache import known_and_new

PICTURE = ImageBlock(UrlSource("https://pictures.example/a.png"))


def said(id: str, role: Role, text: str, turn_id: str | None = None) -> Message:
    return Message(id, role, (TextBlock(text),), turn_id=turn_id)


def result(id: str, call_id: str, turn_id: str | None = None) -> Message:
    return Message(id, "tool", (ToolResult(call_id, (TextBlock("5"),)),), turn_id=turn_id)


def calls(id: str, *call_ids: str, text: str = "", turn_id: str | None = None) -> Message:
    words = (TextBlock(text),) if text else ()
    return Message(id, "assistant", (*words, *(ToolCall(each, "tool", "{}") for each in call_ids)), turn_id=turn_id)


QUESTION, SECOND = said("s1", "user", "What is 2 + 3?"), said("s6", "user", "And where?")
THOUGHT = Message("s2", "reasoning", (ReasoningBlock("Hm.", opaque=Opaque("p", "m", "k", "v")),), turn_id="t1")
HIDDEN, HIDDEN_RESULT = calls("s3", "add", turn_id="t1"), result("s4", "add", "t1")
ANSWER = said("s5", "assistant", "It is 5.", "t2")
MAP = calls("s7", "map", text="Look.", turn_id="t3")
STORED = (QUESTION, THOUGHT, HIDDEN, HIDDEN_RESULT, ANSWER, SECOND, MAP)
NEW = said("n", "user", "Thanks.")


def recognised(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    return known_and_new(stored, tuple(sent), common_beginning)


def copies(*messages: Message) -> tuple[Message, ...]:
    """As a client sends them: with ids of their own, and nothing that is the server's."""
    return tuple(Message(f"copy of {each.id}", each.role, each.content) for each in messages)


SHOWN = copies(QUESTION, ANSWER, SECOND)


@pytest.mark.parametrize(
    "sent",
    [
        SHOWN,
        copies(QUESTION, Message("", "reasoning", (ReasoningBlock("Hm."),)), ANSWER, SECOND),
        copies(QUESTION, HIDDEN, HIDDEN_RESULT, ANSWER, SECOND),  # backend tools shown as function calls
        copies(QUESTION, calls("", "mcp_r_1"), result("", "mcp_r_1"), ANSWER, SECOND),  # ... as MCP's
    ],
)
def test_hidden_turns_and_sealed_reasoning_stay_where_the_client_replays_what_it_saw(sent: tuple[Message, ...]) -> None:
    assert recognised(STORED, (*sent, NEW))[:6] == STORED[:6]


def test_the_output_of_a_call_follows_the_recognised_call() -> None:
    look, output = copies(said("", "assistant", "Look.")), result("n", "map")

    assert recognised(STORED, (*SHOWN, *look, *copies(calls("", "map")), output)) == (*STORED, output)


def test_a_question_that_waits_for_a_person_stays_with_its_call() -> None:
    asked = (QUESTION, calls("s2", "send", turn_id="t1"))

    assert recognised(asked, copies(QUESTION)) == asked
    assert recognised(asked, (*copies(QUESTION), NEW)) == (*asked, NEW)


def test_what_differs_is_new_from_there_on() -> None:
    edited = said("e", "user", "And why?")

    assert recognised(STORED, (*copies(QUESTION, ANSWER), edited)) == (*STORED[:5], edited)
    assert recognised(STORED, copies(QUESTION, ANSWER, SECOND)) == STORED[:6]  # the answer is wanted again
    assert recognised(STORED, (edited, *SHOWN[1:])) == (edited, *SHOWN[1:])
    other = said("e", "assistant", "It is 6.")
    assert recognised(STORED, (*copies(QUESTION), other, NEW)) == (QUESTION, other, NEW)


def test_the_results_of_a_kept_answer_stay_where_the_next_one_differs() -> None:
    first = calls("s2", "add", text="I add.", turn_id="t1")
    stored = (QUESTION, first, result("s3", "add", "t1"), ANSWER)
    other = said("e", "assistant", "It is 6.")

    assert recognised(stored, (*copies(QUESTION, said("", "assistant", "I add.")), other)) == (*stored[:3], other)


def test_media_have_to_be_the_same_and_pictures_of_the_model_need_not_be_replayed() -> None:
    shown = Message("s1", "user", (TextBlock("Look"), PICTURE))
    drawn = Message("s2", "assistant", (PICTURE,), turn_id="t1")

    assert recognised((shown, drawn), (*copies(shown), NEW)) == (shown, drawn, NEW)
    assert recognised((shown, drawn), (*copies(shown, drawn), NEW)) == (shown, drawn, NEW)
    bare = said("e", "user", "Look")
    assert recognised((shown, drawn), (bare, NEW)) == (bare, NEW)


@pytest.mark.parametrize(("stored", "sent"), [((), ()), ((), (NEW,)), (STORED, ())])
def test_nothing_in_common_leaves_what_was_sent(stored: Sequence[Message], sent: tuple[Message, ...]) -> None:
    assert recognised(stored, sent) == sent
