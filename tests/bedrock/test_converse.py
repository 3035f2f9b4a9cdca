"""gateway.bedrock.converse: the turn rules, one by one and over arbitrary conversations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bedrock.converse import (
    ACKNOWLEDGED,
    DOCUMENT_ATTACHED,
    Block,
    Turn,
    arrange,
    call_id,
    document_name,
    drop_impossible_thinking,
    place_cache_points,
    tool_name,
)
from gateway.bedrock.families import FAMILIES, UNKNOWN, Family, family_of
from gateway.wire.stand_ins import GO_ON, NO_CONTENT, NO_OUTPUT, OPENING, UNANSWERED
from tests.converse_rules import broken_rules

CLAUDE = family_of("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
NOVA = family_of("us.amazon.nova-lite-v1:0")


def user(*blocks: Block | str) -> Turn:
    return {"role": "user", "content": [{"text": b} if isinstance(b, str) else b for b in blocks]}


def assistant(*blocks: Block | str) -> Turn:
    return {"role": "assistant", "content": [{"text": b} if isinstance(b, str) else b for b in blocks]}


def called(identifier: str) -> Block:
    return {"toolUse": {"toolUseId": identifier, "name": "add", "input": {}}}


def gave(identifier: str, *words: str) -> Block:
    return {"toolResult": {"toolUseId": identifier, "content": [{"text": word} for word in words]}}


def thinking(signature: str) -> Block:
    return {"reasoningContent": {"reasoningText": {"text": "hm", "signature": signature}}}


def document(name: str) -> Block:
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": "JVBERi0="}}}


PICTURE: Block = {"image": {"format": "png", "source": {"bytes": "iVBORw0K"}}}


def test_a_plain_conversation_stays_as_it_is() -> None:
    turns = [user("hi"), assistant(thinking("s"), "let me see", called("a")), user(gave("a", "5")), assistant("5")]
    assert arrange([*turns, user("thanks")], CLAUDE) == [*turns, user("thanks")]


def test_neighbours_of_one_role_become_one_message() -> None:
    assert arrange([user("a"), user("b"), assistant("c"), assistant("d"), user("e")], CLAUDE) == [
        user("a", "b"),
        assistant("c", "d"),
        user("e"),
    ]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    assert arrange([assistant("hello")], CLAUDE) == [user(OPENING), assistant("hello"), user(GO_ON)]
    assert arrange([], CLAUDE) == [user(OPENING)]


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u00a0\u2003"])
def test_blank_texts_disappear_and_what_is_empty_then_says_so(blank: str) -> None:
    assert arrange([user(blank, "hi"), assistant(blank), user(blank)], CLAUDE) == [user("hi")]
    assert arrange([user(blank)], CLAUDE) == [user(NO_CONTENT)]
    assert arrange([user("go"), assistant(called("a")), user(gave("a", blank))], CLAUDE)[-1] == user(
        gave("a", NO_OUTPUT)
    )


def test_all_results_stand_first_in_the_next_message_in_call_order() -> None:
    turns = [user("go"), assistant(called("a"), called("b")), user("wait"), user(gave("b", "2")), user(gave("a", "1"))]
    assert arrange(turns, CLAUDE)[-1] == user(gave("a", "1"), gave("b", "2"), "wait")


def test_a_late_answer_moves_to_its_call_and_a_missing_one_is_put_in() -> None:
    turns = [user("go"), assistant(called("a"), called("b")), user("hm"), assistant("yes?"), user(gave("a", "1"))]
    assert arrange(turns, CLAUDE) == [
        user("go"),
        assistant(called("a"), called("b")),
        user(gave("a", "1"), gave("b", UNANSWERED), "hm"),
        assistant("yes?"),
        user(GO_ON),
    ]


def test_orphaned_and_repeated_results_and_repeated_calls_are_not_there() -> None:
    turns = [
        user(gave("ghost", "boo"), "go"),
        assistant(called("a")),
        user(gave("a", "1"), gave("a", "2"), gave("other", "x")),
        assistant("so", called("a")),
        user(gave("a", "3")),
    ]
    assert arrange(turns, CLAUDE) == [
        user("go"),
        assistant(called("a")),
        user(gave("a", "1")),
        assistant("so"),
        user(GO_ON),
    ]


def test_an_answer_of_reasoning_only_is_gone_and_none_ends_with_reasoning() -> None:
    assert arrange([user("a"), assistant(thinking("s")), user("b")], CLAUDE) == [user("a", "b")]
    assert arrange([user("a"), assistant("words", thinking("s")), user("b")], CLAUDE)[1] == assistant("words")


def test_families_that_take_nothing_beside_results_get_it_in_a_message_of_its_own() -> None:
    turns = [user("go"), assistant(called("a")), user(gave("a", "1"), "and now?", PICTURE)]
    assert arrange(turns, CLAUDE)[-1] == user(gave("a", "1"), "and now?", PICTURE)
    apart = [user(gave("a", "1")), assistant(ACKNOWLEDGED), user("and now?", PICTURE)]
    assert arrange(turns, UNKNOWN)[2:] == apart
    with_document = [*turns[:2], user(gave("a", "1"), "read", document("x"))]
    assert arrange(with_document, CLAUDE)[2:] == [
        user(gave("a", "1")),
        assistant(ACKNOWLEDGED),
        user("read", document("x")),
    ]
    assert arrange(with_document, NOVA)[2:] == [user(gave("a", "1"), "read", document("x"))]


def test_a_document_gets_a_text_and_names_differ_within_the_conversation() -> None:
    turns = [user(document("a/b.pdf")), assistant("ok"), user("again", document("a b"), document("a b"))]
    assert arrange(turns, CLAUDE) == [
        user(document("a b"), DOCUMENT_ATTACHED),
        assistant("ok"),
        user("again", document("a b (2)"), document("a b (3)")),
    ]


def test_a_document_in_a_result_gets_a_text_too() -> None:
    result: Block = {"toolResult": {"toolUseId": "a", "content": [{"document": document("r.pdf")["document"]}]}}
    (answer,) = arrange([user("go"), assistant(called("a")), user(result)], CLAUDE)[-1]["content"]
    assert answer["toolResult"]["content"] == [
        {"document": document("r")["document"]},
        {"text": DOCUMENT_ATTACHED},
    ]


def test_what_is_too_many_for_one_message_is_left_out_with_a_note() -> None:
    (turn,) = arrange([user(*[PICTURE] * 22, *[document("d")] * 6)], CLAUDE)
    kinds = [next(iter(block)) for block in turn["content"]]
    assert kinds.count("image") == 20
    assert kinds.count("document") == 5
    assert [block["text"] for block in turn["content"] if "text" in block] == [
        "(an image was left out: at most 20 may stand in one message)",
        "(an image was left out: at most 20 may stand in one message)",
        "(a document was left out: at most 5 may stand in one message)",
    ]


def test_arranging_changes_nothing_that_it_was_given() -> None:
    turns = [user("a"), user("b", document("x")), assistant(called("a"), thinking("s"))]
    before = repr(turns)
    arrange(turns, UNKNOWN)
    assert repr(turns) == before


@pytest.mark.parametrize("name", ["add", "a-b_C9", "x" * 64])
def test_a_good_tool_name_stays(name: str) -> None:
    assert tool_name(name) == name


def test_bad_names_and_ids_are_mapped_always_to_the_same_and_never_two_to_one() -> None:
    names = ["a.b", "a:b", "a b", "", "ü", "x" * 65, "x" * 66, "call|fc_1", "\ud800"]
    assert len({tool_name(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool_name(name)) for name in names)
    assert tool_name("a.b") == tool_name("a.b")
    assert call_id("tooluse_W9-a.b:c") == "tooluse_W9-a.b:c"
    assert len({call_id(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", call_id(name)) for name in names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.pdf", "report"),
        ("Q1 (final) [v2]-x.docx", "Q1 (final) [v2]-x"),
        ("../../etc/passwd", "etc passwd"),
        ("a   b\n\tc", "a b c"),
        ("übersicht 東京.csv", "bersicht"),
        ("", "document"),
        (None, "document"),
        ("...", "document"),
        ("x" * 300, "x" * 190),
    ],
)
def test_document_names_keep_what_is_allowed(name: str | None, expected: str) -> None:
    assert document_name(name) == expected


def test_cache_points_stand_at_the_end_of_tools_system_and_conversation() -> None:
    body: dict[str, Any] = {"toolConfig": {"tools": [{}]}, "system": [{"text": "be brief"}]}
    turns = [user("hi")]
    place_cache_points(body, turns, CLAUDE, "1h")
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert body["toolConfig"]["tools"][-1] == body["system"][-1] == turns[0]["content"][-1] == point
    body = {"toolConfig": {"tools": [{}]}}
    turns = [user("read", document("x"))]
    place_cache_points(body, turns, NOVA, True)
    assert "cachePoint" not in repr((body, turns))


@pytest.mark.parametrize(
    ("answer", "kept"), [(assistant(called("a")), False), (assistant(thinking("s"), called("a")), True)]
)
def test_thinking_is_not_asked_for_in_the_middle_of_a_turn_without(answer: Turn, kept: bool) -> None:
    body: dict[str, object] = {
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 5}
    }
    drop_impossible_thinking(body, [user("go"), answer, user(gave("a", "1"))])
    fields = body["additionalModelRequestFields"]
    assert isinstance(fields, dict)
    assert fields["top_k"] == 5
    assert ("thinking" in fields) is kept


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude without thinking"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude"),
        ("eu.anthropic.claude-sonnet-4-20250514-v1:0", "claude"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude 4.1"),
        ("us.anthropic.claude-opus-4-6-v1", "claude 4.6"),
        ("anthropic.claude-opus-4-7", "claude since 4.7"),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude 4.5"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0", "nova"),
        ("arn:aws:bedrock:us-east-1:123456789012:custom-model/amazon.nova-micro-v1.0/abcdefghijkl", "nova"),
        ("mistral.mistral-7b-instruct-v0:2", "early mistral"),
        ("mistral.mistral-large-2407-v1:0", "mistral"),
        ("us.meta.llama3-2-90b-instruct-v1:0", "llama with eyes"),
        ("meta.llama3-8b-instruct-v1:0", "llama"),
        ("us.deepseek.r1-v1:0", "reasoning in the open"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss"),
        ("deepseek.v3-v1:0", "reasoning in the open, with schemas"),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3", "unknown"),
    ],
)
def test_a_model_id_tells_its_family(model_id: str, name: str) -> None:
    assert family_of(model_id).name == name


BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.sampled_from(["", " ", "hi", "x\n"]).map(lambda words: {"text": words}),
    st.sampled_from("abc").map(called),
    st.sampled_from("abcd").map(lambda key: gave(key, *["out", " "][: ord(key) % 3])),
    st.sampled_from(["s", "t"]).map(thinking),
    st.sampled_from(["x", "a/b.pdf", "", "document"]).map(document),
    st.just(PICTURE),
)
TURNS: st.SearchStrategy[list[Turn]] = st.lists(
    st.one_of(
        st.builds(lambda blocks: user(*blocks), st.lists(BLOCKS, max_size=8)),
        st.builds(
            lambda blocks: assistant(*(b for b in blocks if not {"image", "document"} & b.keys())),
            st.lists(BLOCKS, max_size=8),
        ),
    ),
    max_size=12,
)


@pytest.mark.thorough
@settings(max_examples=300)
@given(TURNS, st.sampled_from([*FAMILIES, UNKNOWN]))
def test_any_conversation_keeps_the_rules_afterwards(turns: list[Turn], family: Family) -> None:
    arranged = arrange(turns, family)
    assert broken_rules(arranged, family) == []
    assert arrange(arranged, family) == arranged
