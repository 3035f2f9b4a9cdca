"""The Vercel AI SDK's openai provider, 6 and 7, in Node, over both of OpenAI's APIs."""

from __future__ import annotations

from typing import Any, Final

import pytest

CLIENT: Final = "ai_sdk.mjs"
# It takes questions as items, and sends no tool that would say so.
PROTOCOLS: Final = {"responses": {"approvals": "mcp_approval_request"}}
VERSIONS: Final = [{"AI_SDK": "6"}, {"AI_SDK": "7"}]
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.parametrize("told", VERSIONS, ids=["6", "7"], indirect=True, scope="module"),
]
every_api = pytest.mark.parametrize("api", ["chat", "responses"])


@every_api
def test_words_come_whole_and_in_pieces_with_their_usage(told: dict[str, Any], api: str) -> None:
    assert told[api]["words"] == {
        "text": "I heard: hello",
        "streamed": "I heard: hello",
        "pieces": True,
        "usage": [12, 5],
        "finish": "stop",
    }


def test_reasoning_is_shown_over_responses(told: dict[str, Any]) -> None:
    assert told["responses"]["reasoning"] == ["Six times seven.", "It is 42."]
    assert told["chat"]["reasoning"][1] == "It is 42.", "the provider leaves reasoning_content out"


@every_api
def test_its_own_tools_run_once_each_until_the_agent_has_answered(told: dict[str, Any], api: str) -> None:
    assert told[api]["clientTools"] == [
        {"text": "It is sunny in Paris.", "asked": ["Paris"], "steps": 2},
        {"text": "It is sunny in Rome.", "asked": ["Paris", "Rome"], "steps": 2},
    ]


@every_api
def test_a_conversation_that_is_sent_again_goes_on(told: dict[str, Any], api: str) -> None:
    assert told[api]["conversation"] == ["It is sunny in Paris.", "I heard: and now?"]


@every_api
def test_tools_of_the_gateway_are_never_its_own(told: dict[str, Any], api: str) -> None:
    answer = told[api]["backendTools"]
    assert answer["text"].endswith("The sum is 5.0.")
    assert answer["second"].endswith("The sum is 5.0.")
    assert all(executed for _, _, executed in answer["shown"])
    assert bool(answer["shown"]) is (api == "responses")


def test_a_tool_of_the_gateway_waits_for_its_approval(told: dict[str, Any]) -> None:
    answer = told["responses"]["approval"]
    assert (answer["asked"], answer["again"]) == (1, 1)
    assert '"status":"refunded"' in answer["text"]


def test_reasoning_calls_and_pictures_that_are_sent_again_change_nothing(told: dict[str, Any]) -> None:
    answers = {"thinker": "It is 42.", "adder": "I add. The sum is 5.0.", "painter": "Here it is."}
    assert told["responses"]["replays"] == {
        f"{agent} {kept}": [text] for agent, text in answers.items() for kept in ("kept", "unkept")
    }


@every_api
def test_an_object_has_its_form(told: dict[str, Any], api: str) -> None:
    assert told[api]["object"] == {"city": "Paris", "degrees": 21}


@every_api
def test_failures_are_told(told: dict[str, Any], api: str) -> None:
    assert told[api]["failure"] == {"errors": True, "status": 404, "retryable": False}
