"""openai-agents before the gateway's agents, over both of OpenAI's APIs."""

from __future__ import annotations

from typing import Any, Final

import pytest

CLIENT: Final = "agents_client.py"
pytestmark = pytest.mark.timeout(120)
every_api = pytest.mark.parametrize("api", ["chat", "responses"])


@every_api
def test_agents_that_run_their_own_tools_are_answered_in_one_turn(told: dict[str, Any], api: str) -> None:
    words, thinker, adder, parallel_adder = told[f"{api} words_and_backend_tools"]
    assert (words, thinker, parallel_adder) == ("I heard: hello", "It is 42.", "Both are added.")
    assert adder.endswith("The sum is 5.0.")


@every_api
def test_streamed_runs_end_with_the_answer(told: dict[str, Any], api: str) -> None:
    answer, types = told[f"{api} streamed"]
    assert answer.endswith("The sum is 5.0.")
    assert "raw_response_event" in types


@every_api
def test_its_own_tools_run_once_each(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} client_tools"] == ["It is sunny in Rome.", ["Paris", "Rome"]]


def test_a_chain_of_responses_sends_only_what_is_new(told: dict[str, Any]) -> None:
    assert told["responses chained"] == ["It is sunny in Rome.", "I heard: and now?"]


@every_api
def test_a_session_of_its_own_keeps_the_conversation(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} own_session"] == ["It is sunny in Paris.", "I heard: and now?"]


@every_api
def test_a_session_may_hold_the_gateways_own_calls(told: dict[str, Any], api: str) -> None:
    first, second = told[f"{api} session_with_backend_tools"]
    assert first.endswith("The sum is 5.0.")
    assert second.endswith("The sum is 5.0.")


def test_a_session_may_be_a_conversation_of_the_gateway(told: dict[str, Any]) -> None:
    assert told["responses conversation_session"] == ["I heard: one", "I heard: two", ["user", "assistant"] * 2]
    *answers, kinds = told["responses conversation_session_with_tools"]
    assert answers == ["It is sunny in Paris.", "I heard: and now?"]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message", "message"]


@every_api
def test_a_conversation_is_handed_to_another_agent(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} handoff"] == ["poet", "A poem."]


@every_api
def test_a_tool_waits_for_its_approval(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} approved"] == [1, "It is rainy in Paris."]


def test_a_tool_of_the_gateway_waits_for_its_approval(told: dict[str, Any]) -> None:
    asked, answer, asked_again = told["responses backend_approval"]
    assert (asked, asked_again) == (1, 1)
    assert '"status":"refunded"' in answer


@every_api
def test_an_output_type_is_kept(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} formed"] == {"city": "Paris", "degrees": 21}
