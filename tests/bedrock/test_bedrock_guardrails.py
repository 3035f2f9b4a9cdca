"""gateway.bedrock.guardrails: what a guardrail is to look at, and what its trace says."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.bedrock.converse import Turn
from gateway.bedrock.guardrails import (
    Finding,
    check_guardrail,
    guard_places,
    guarded_system,
    guarded_turns,
    in_its_place,
    read_trace,
)
from gateway.wire.stand_ins import TAKEN_BACK

CONFIG = {"guardrailIdentifier": "abc", "guardrailVersion": "1"}
IMAGE: Any = {"format": "png", "source": {"bytes": "AAAA"}}
GIF: Any = {"format": "gif", "source": {"bytes": "AAAA"}}
STORED: Any = {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/picture.png"}}}
TURNS: list[Turn] = [
    {"role": "user", "content": [{"text": "first"}]},
    {"role": "assistant", "content": [{"text": "answer"}]},
    {"role": "user", "content": [{"text": "second"}, {"image": IMAGE}, {"image": GIF}, {"image": STORED}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "add", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "5"}]}}, {"text": "beside"}]},
]


def guarded_texts(turns: list[Any]) -> list[str]:
    blocks = [block["guardContent"] for turn in turns for block in turn["content"] if "guardContent" in block]
    return [block["text"]["text"] if "text" in block else "a picture" for block in blocks]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (None, []),
        ("latest_user_message", ["second", "a picture"]),
        ("user_messages", ["first", "second", "a picture"]),
        ("system", []),
        ({"latest_user_message": ["query"]}, ["second", "a picture"]),
    ],
)
def test_users_words_and_pictures_are_marked_where_it_is_asked_for(wish: object, expected: list[str]) -> None:
    before = repr(TURNS)
    assert guarded_texts(guarded_turns(TURNS, guard_places(wish))) == expected
    assert repr(TURNS) == before


def test_qualifiers_stand_with_the_text() -> None:
    places = guard_places({"latest_user_message": ["query", "guard_content"], "system": "grounding_source"})
    turns: list[Any] = guarded_turns(TURNS[:1], places)
    assert turns[0]["content"] == [
        {"guardContent": {"text": {"text": "first", "qualifiers": ["query", "guard_content"]}}}
    ]
    assert guarded_system([{"text": "Facts."}, {"cachePoint": {"type": "default"}}], places) == [
        {"guardContent": {"text": {"text": "Facts.", "qualifiers": ["grounding_source"]}}},
        {"cachePoint": {"type": "default"}},
    ]
    assert guarded_system([{"text": "Facts."}], guard_places("user_messages")) == [{"text": "Facts."}]


@pytest.mark.parametrize(
    ("config", "wish", "message"),
    [
        (
            {**CONFIG, "streamProcessingMode": "ASYNCHRONOUS"},
            None,
            "streamProcessingMode is 'ASYNCHRONOUS': it must be sync",
        ),
        ({**CONFIG, "trace": True}, None, "trace is True: it must be enabled or disabled or enabled_full"),
        ({"guardrailIdentifier": "abc"}, None, "needs a guardrailIdentifier and a guardrailVersion"),
        ({}, "latest_user_message", "guard_content needs a guardrailConfig"),
        (CONFIG, "everything", "guard_content is 'everything': it must be latest_user_message, user_messages"),
        (CONFIG, ["system"], "guard_content is"),
        (CONFIG, {"system": ["sources"]}, "guard_content.system is .*: it must be a list of grounding_source, query"),
    ],
)
def test_what_can_never_be_accepted_is_refused(config: dict[str, object], wish: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_guardrail(config, wish)


def test_what_is_right_is_not_refused() -> None:
    check_guardrail({}, None)
    check_guardrail({**CONFIG, "streamProcessingMode": "async", "trace": "enabled_full"}, {"system": None})


def trace(before: str = "NONE", after: str = "NONE", output: list[str] | None = None) -> dict[str, Any]:
    def found(action: str) -> dict[str, Any]:
        return {"topicPolicy": {"topics": [{"name": "t", "type": "DENY", "action": action}]}}

    guardrail: dict[str, Any] = {"inputAssessment": {"g": found(before)}, "outputAssessments": {"g": [found(after)]}}
    return {"guardrail": guardrail if output is None else {**guardrail, "modelOutput": output}}


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        (None, Finding()),
        ({}, Finding()),
        ({"guardrail": "?"}, Finding()),
        (trace("NONE", "NONE"), Finding()),
        (trace("BLOCKED"), Finding(blocked_input=True, masked=True)),
        (
            trace("NONE", "BLOCKED", ["Once", " upon"]),
            Finding(blocked_output=True, masked=True, model_output="Once upon"),
        ),
        (trace("NONE", "ANONYMIZED"), Finding(masked=True)),
    ],
)
def test_a_trace_says_what_was_found(given: object, finding: Finding) -> None:
    assert read_trace(given) == finding
    assert finding.only_masked == (finding.masked and not finding.blocked_input and not finding.blocked_output)


OUTPUT = "To open the lock you turn the left pin three times and then push."


TOLD = Finding(blocked_output=True, model_output=OUTPUT)


@pytest.mark.parametrize(
    ("shown", "finding", "instead"),
    [
        # the model's words, then the guardrail's, without a mark between them
        (["To open the lock ", "you turn ", "Sorry, not that."], TOLD, "Sorry, not that."),
        (["To open the lock ", "you turn ", "the", " model may not say that."], TOLD, "model may not say that."),
        (["To open the lock ", "you turn Sorry, ", "not that."], TOLD, "Sorry, not that."),
        (["To open the lock ", "you turn ", "That may not be said."], TOLD, "That may not be said."),
        # all that was shown is the guardrail's own message, however like the model's it begins
        (["Sorry, not that."], TOLD, None),
        (["To answer that is not allowed."], TOLD, None),
        (["Sorry, not that."], Finding(blocked_input=True), None),
        # what cannot be told apart is all taken back
        (["To open the lock you turn Sorry."], Finding(), TAKEN_BACK),
        (["To open the lock you turn Sorry."], Finding(blocked_output=True), TAKEN_BACK),
        ([OUTPUT], TOLD, TAKEN_BACK),
        (["To open the lock you turn Sorry."], TOLD, TAKEN_BACK),
        # ... also where the trace tells the model's words in another way than they were shown
        (["to open the lock ", "you turn the left pin Sorry."], TOLD, TAKEN_BACK),
        (["turn the left"], TOLD, TAKEN_BACK),
    ],
)
def test_what_stands_in_the_place_of_what_was_shown_is_never_the_models(
    shown: list[str], finding: Finding, instead: str | None
) -> None:
    assert in_its_place(shown, finding) == instead
