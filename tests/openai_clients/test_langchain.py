"""LangChain's ChatOpenAI, over both of OpenAI's APIs."""

from __future__ import annotations

from typing import Any, Final

import pytest

CLIENT: Final = "langchain_client.py"
pytestmark = pytest.mark.timeout(120)
every_api = pytest.mark.parametrize("api", ["chat", "responses"])


@every_api
def test_words_come_whole_and_in_pieces_with_their_usage(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} words"] == {
        "text": "I heard: hello",
        "streamed": "I heard: hello",
        "pieces": True,
        "usage": [12, 5],
    }


@every_api
def test_its_own_tools_are_called_and_the_conversation_goes_on(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} tools"] == {
        "calls": [["get_weather", {"city": "Paris"}], ["get_weather", {"city": "Rome"}]],
        "told": "It is sunny in Rome.",
        "later": "I heard: and now?",
        "answers": True,
    }


@every_api
def test_tools_of_the_gateway_are_not_its_calls(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} backend"]["calls"] == []
    assert told[f"{api} backend"]["text"].endswith("The sum is 5.0.")


@every_api
def test_a_structured_output_has_its_form(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} formed"] == {"city": "Paris", "degrees": 21}


@every_api
def test_a_second_turn_goes_on(told: dict[str, Any], api: str) -> None:
    assert told[f"{api} chained"] == ["I heard: one", "I heard: two"]
