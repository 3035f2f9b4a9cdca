"""litellm as a client, over both of OpenAI's APIs."""

from __future__ import annotations

from typing import Any, Final

import pytest

CLIENT: Final = "litellm_client.py"
pytestmark = pytest.mark.timeout(120)


def test_chat_words_come_whole_and_in_pieces_with_their_usage(told: dict[str, Any]) -> None:
    assert told["chat_words"] == {"text": "I heard: hello", "streamed": "I heard: hello", "usage": [12, 5]}


def test_chat_reasoning_stands_beside_the_words(told: dict[str, Any]) -> None:
    assert told["chat_reasoning"] == ["Six times seven.", "It is 42."]


def test_chat_tools_are_called_and_their_results_go_on(told: dict[str, Any]) -> None:
    assert told["chat_tools"] == {"finish": "tool_calls", "calls": 2, "told": "It is sunny in Rome."}


def test_errors_are_the_classes_that_people_catch(told: dict[str, Any]) -> None:
    assert told["chat_errors"] == ["NotFoundError", "ServiceUnavailableError"]


def test_responses_come_whole_and_in_pieces(told: dict[str, Any]) -> None:
    assert told["responses_words"] == {"text": "I heard: hello", "last": "response.completed", "deltas": True}


def test_responses_are_chained(told: dict[str, Any]) -> None:
    assert told["responses_chained"] == ["I heard: one", "I heard: two"]


def test_responses_tools_are_called_and_their_outputs_go_on(told: dict[str, Any]) -> None:
    assert told["responses_tools"] == "It is fine."


def test_tools_of_the_gateway_are_items_of_the_response(told: dict[str, Any]) -> None:
    assert told["responses_backend"] == ["message", "mcp_call", "message"]
