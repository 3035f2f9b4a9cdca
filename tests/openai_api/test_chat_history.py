"""What is recognised of a history that a client of Chat Completions sends again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from gateway.messages import (
    Base64Source,
    ContentBlock,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
)
from gateway.openai_api.chat_history import common_beginning
from gateway.openai_api.chat_request import read_chat_request
from gateway.openai_api.questions import REFUSED
from gateway.protocol.input_cache import known_and_new

PIXEL = Base64Source("iVBORw0KGgo=", "image/png")
PIXEL_URL = "data:image/png;base64,iVBORw0KGgo="
_numbers = itertools.count()


def user(*content: str | ContentBlock) -> Message:
    blocks = tuple(TextBlock(each) if isinstance(each, str) else each for each in content)
    return Message(f"m{next(_numbers)}", "user", blocks)


def answer(text: str, *calls: ToolCall, turn: str = "t1", incomplete: bool = False) -> Message:
    words = (TextBlock(text),) if text else ()
    return Message(f"m{next(_numbers)}", "assistant", (*words, *calls), turn_id=turn, incomplete=incomplete)


def thought(turn: str = "t1") -> Message:
    sealed = ReasoningBlock("hm", opaque=Opaque("p", "m", "signature", "sealed"))
    return Message(f"m{next(_numbers)}", "reasoning", (sealed,), turn_id=turn)


def result(call_id: str, text: str, turn: str | None = "t1") -> Message:
    """A backend tool's result; without a turn the client's."""
    return Message(f"m{next(_numbers)}", "tool", (ToolResult(call_id, (TextBlock(text),)),), turn_id=turn)


def picture(turn: str = "t1") -> Message:
    return Message(f"m{next(_numbers)}", "assistant", (ImageBlock(PIXEL),), turn_id=turn)


ADD = ToolCall("c1", "add", '{"a":2}')
LOOK = ToolCall("c2", "look", "{}")


def sent(*messages: JsonValue) -> tuple[Message, ...]:
    return read_chat_request({"model": "helper", "messages": list(messages)}).messages


def says(role: str, content: JsonValue, **more: JsonValue) -> JsonObject:
    return {"role": role, "content": content, **more}


def calls(*call_ids: str, content: JsonValue = None, arguments: str = "{}") -> JsonObject:
    function: JsonObject = {"name": "look", "arguments": arguments}
    return says(
        "assistant", content, tool_calls=[{"id": each, "type": "function", "function": function} for each in call_ids]
    )


def gives(call_id: str, content: JsonValue) -> JsonObject:
    return says("tool", content, tool_call_id=call_id)


def known(stored: Sequence[Message], *messages: JsonValue) -> tuple[int, int]:
    """How many of the stored messages the sent ones became, and how many of those stayed as they were sent."""
    given = sent(*messages)
    found = known_and_new(tuple(stored), given, common_beginning)
    count = next((place for place, pair in enumerate(zip(found, stored, strict=False)) if pair[0] is not pair[1]), None)
    kept = min(len(found), len(stored)) if count is None else count
    assert all(message in given for message in found[kept:])
    return kept, len(found) - kept


HIDDEN = (
    user("sum"),
    thought(),
    answer("I add.", ADD),
    result("c1", "5"),
    thought("t2"),
    answer("It is 5.", turn="t2"),
)
SHOWN = (says("user", "sum"), says("assistant", "I add.\n\nIt is 5."))


def test_hidden_tool_turns_and_reasoning_stay_in_front_of_what_is_new() -> None:
    assert known(HIDDEN, *SHOWN, says("user", "and now?")) == (6, 1)


def test_the_same_history_without_its_last_answer_is_the_question_alone() -> None:
    assert known(HIDDEN, SHOWN[0]) == (1, 0)


@pytest.mark.parametrize(
    "copy",
    [
        says("assistant", "I add.\n\nIt is 5.\n"),
        says("assistant", [{"type": "text", "text": "I add.\n\nIt is 5."}]),
        says("assistant", "I add.\n\nIt is 5.", reasoning_content="hm", refusal=None, annotations=[]),
        says("assistant", "<think>hm</think>\n\nI add.\n\nIt is 5."),
        says(
            "assistant",
            '<details type="reasoning" done="true">\n<summary>Thought</summary>\nhm</details>\nI add.\n\nIt is 5.',
        ),
    ],
)
def test_what_clients_change_at_an_answer_is_a_copy_still(copy: JsonObject) -> None:
    assert known(HIDDEN, SHOWN[0], copy, says("user", "and now?")) == (6, 1)


def test_what_clients_add_is_found_in_one_pass() -> None:
    words = "<think>" * 50_000 + "</thinking>"

    assert known((user("sum"), answer("5")), SHOWN[0], says("assistant", words), says("user", "ok")) == (1, 2)
    twice = says("assistant", "<think>a</think>I add.\n\n<think>b</think>It is 5.")
    assert known(HIDDEN, SHOWN[0], twice, says("user", "ok")) == (6, 1)


def test_an_answer_may_come_back_in_pieces_and_with_its_hidden_calls() -> None:
    pieces = (says("assistant", "I add."), says("assistant", "It is 5."))
    full = (calls("c1", content="I add."), gives("c1", "5"), says("assistant", "It is 5."))

    assert known(HIDDEN, SHOWN[0], *pieces, says("user", "and now?")) == (6, 1)
    assert known(HIDDEN, SHOWN[0], *full, says("user", "and now?")) == (6, 1)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("sum!", "I add.\n\nIt is 5."),
        ("sum", "It is 5."),
        ("sum", "I add.\n\nIt is 6."),
        ("sum", "I add.\n\nIt is"),
        ("sum", "I ADD.\n\nIt is 5."),
    ],
)
def test_other_words_are_an_edit(question: str, reply: str) -> None:
    count = known(HIDDEN, says("user", question), says("assistant", reply), says("user", "and now?"))

    assert count == ((1, 2) if question == "sum" else (0, 3))


def test_the_answer_to_a_client_s_call_is_new_and_later_a_copy() -> None:
    paused = (user("where?"), answer("I look.", LOOK))
    asked = (says("user", "where?"), calls("c2", content="I look.", arguments=" { } "), gives("c2", "here"))
    ended = (*paused, result("c2", "here", None), answer("It is here.", turn="t2"))

    assert known(paused, *asked) == (2, 1)
    assert known(ended, *asked, says("assistant", "It is here."), says("user", "thanks")) == (4, 1)
    again = (*asked[:2], gives("c2", [{"type": "text", "text": "here "}]), says("assistant", "It is here."))
    assert known(ended, *again, says("user", "thanks")) == (4, 1)
    other = (*asked[:2], gives("c2", "there"), says("assistant", "It is here."))
    assert known(ended, *other, says("user", "thanks")) == (2, 3)


def test_parallel_calls_of_both_kinds_are_told_apart() -> None:
    stored = (user("both"), answer("", ADD, LOOK), result("c1", "5"))

    assert known(stored, says("user", "both"), calls("c2"), gives("c2", "here")) == (3, 1)
    assert known(stored, says("user", "both"), calls("c9"), gives("c9", "here")) == (1, 2)


def test_an_answered_call_that_a_client_leaves_out_is_an_edit() -> None:
    stored = (user("where?"), answer("", LOOK), result("c2", "here", None), answer("It is here.", turn="t2"))

    assert known(stored, says("user", "where?"), says("assistant", "It is here.")) == (1, 1)


def test_a_turn_that_nobody_saw_stays_hidden() -> None:
    failed = (user("sum"), answer("", ADD), result("c1", "5"), user("sum"), answer("It is 5.", turn="t2"))

    assert known(failed, says("user", "sum"), says("user", "sum"), says("assistant", "It is 5.")) == (5, 0)


def test_an_answer_that_was_cut_off_may_be_known_in_part() -> None:
    stored = (user("tell"), answer("Once upon a time", incomplete=True))

    assert known(stored, says("user", "tell"), says("assistant", "Once upon "), says("user", "go on")) == (2, 1)
    assert known(stored, says("user", "tell"), says("assistant", "Once up in"), says("user", "go on")) == (1, 2)


def test_a_question_of_an_approval_is_no_message_of_the_thread() -> None:
    note = "[Approval needed] May it add?"
    open_still = (user("sum"), answer("I add.", ADD))
    approved = (*open_still, result("c1", "5"), answer("It is 5.", turn="t2"))
    copy = (says("user", "sum"), says("assistant", f"I add.\n\n{note}"), says("user", "yes"))

    assert known(open_still, *copy) == (2, 1)
    assert known(approved, *copy) == (4, 1)
    nothing_said = (user("sum"), answer("", ADD), user("yes"), answer("Soon.", turn="t3"))
    assert known(nothing_said, says("user", "sum"), says("assistant", note), says("user", "yes")) == (3, 0)
    ended_at_once = (user("sum"), user("yes"), answer("Soon.", turn="t3"))
    assert known(ended_at_once, says("user", "sum"), says("assistant", note), says("user", "yes")) == (2, 0)


def test_media_that_a_model_made_come_back_as_markdown_or_elsewhere() -> None:
    stored = (user("draw"), answer("Here it is."), picture())

    for link in (f"![image]({PIXEL_URL})", "![image](/files/1)"):
        assert known(stored, says("user", "draw"), says("assistant", f"Here it is.\n\n{link}"), says("user", "ok")) == (
            3,
            1,
        )


def test_media_of_a_person_have_to_be_the_same() -> None:
    stored = (user("what is it?", ImageBlock(PIXEL, "a.png")), answer("A pixel."))
    words: JsonObject = {"type": "text", "text": "what is it? "}
    same: JsonObject = {"type": "image_url", "image_url": {"url": PIXEL_URL, "detail": "auto"}}
    other: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    assert known(stored, says("user", [words, same]), says("assistant", "A pixel.")) == (2, 0)
    assert known(stored, says("user", [same, words]), says("assistant", "A pixel.")) == (2, 0)
    assert known(stored, says("user", [words, other]), says("assistant", "A pixel.")) == (0, 2)


def test_a_refusal_for_which_the_model_had_no_words_is_no_part_of_the_thread() -> None:
    silent, cut = (user("tell"),), (user("tell"), answer("So", incomplete=True))
    wordless, begun = says("assistant", None, refusal=REFUSED), says("assistant", "So", refusal=REFUSED)
    assert known(silent, says("user", "tell"), wordless, says("user", "so?")) == (1, 1)
    assert known(cut, says("user", "tell"), begun, says("user", "so?")) == (2, 1)


def test_a_refusal_may_come_back_as_refusal_as_content_or_not_at_all() -> None:
    refused = Message("r", "assistant", (TextBlock("I will not.", refusal=True),), turn_id="t1")
    stored = (user("tell"), refused)

    for copy in (says("assistant", None, refusal="I will not."), says("assistant", "I will not.")):
        assert known(stored, says("user", "tell"), copy, says("user", "please")) == (2, 1)
    assert known(stored, says("user", "tell"), says("assistant", ""), says("user", "please")) == (2, 1)
    assert known(stored, says("user", "tell"), says("assistant", "I will."), says("user", "please")) == (1, 2)


def test_instructions_that_another_client_stored_stay_at_the_beginning() -> None:
    stored = (Message("s", "system", (TextBlock("be brief"),)), user("hello"), answer("Hi."))

    assert known(stored, says("user", "hello"), says("assistant", "Hi."), says("user", "more")) == (3, 1)


def test_later_instructions_are_compared_as_words_are() -> None:
    stored = (user("hello"), answer("Hi."), Message("s", "system", (TextBlock("in French"),)), user("more"))
    begin = (says("user", "hello"), says("assistant", "Hi."))

    assert known(stored, *begin, says("developer", "in French"), says("user", "more")) == (4, 0)
    assert known(stored, *begin, says("system", "in German"), says("user", "more")) == (2, 2)


def test_an_empty_thread_and_a_longer_history_are_all_new() -> None:
    assert known((), says("user", "hello")) == (0, 1)
    assert known((user("hello"),), says("user", "hello"), says("assistant", "Hi."), says("user", "more")) == (1, 2)


def test_nobody_else_s_role_is_taken_for_the_same() -> None:
    assert known((user("hello"),), says("assistant", "hello"), says("user", "x")) == (0, 2)
    assert known((answer("hello"),), says("user", "hello")) == (0, 1)
