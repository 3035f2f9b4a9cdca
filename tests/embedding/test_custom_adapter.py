"""Adapters as others know them: the sample of the protocol's own documentation, and that of examples/adapter."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import A2AFastAPIDefaultAdapter, AdapterApp, ProtocolAdapter, ResponseAPIDefaultAdapter
from tests.documentation import EXAMPLES
from tests.embedded_gateway import HELPER, embedded
from tests.newcomers import file_in_room, what_mypy_says
from tests.running_gateway import agent, local_gateway, scripted

EXAMPLE = EXAMPLES / "adapter" / "custom_adapter.py"


class CustomProtocolAdapter(ProtocolAdapter):
    """Custom protocol adapter example"""

    def add_endpoint(self, app: AdapterApp, func: Callable[..., Any], **kwargs: Any) -> Any:
        """Add endpoint to adapter"""

        # Implement custom endpoint addition logic
        @app.post("/custom-endpoint")
        async def custom_handler(request: Any) -> Any:
            # Convert request format
            converted_request = self._convert_request(request)
            # Call handler function
            result = await func(converted_request)
            # Convert response format
            return self._convert_response(result)

        return custom_handler

    def _convert_request(self, request: Any) -> Any:
        """Convert external protocol request to internal format"""
        # Implement request conversion logic

    def _convert_response(self, response: Any) -> Any:
        """Convert internal response to external protocol format"""
        # Implement response conversion logic


class Converting(CustomProtocolAdapter):
    """The same with the two conversions that it leaves open."""

    def _convert_request(self, request: Any) -> Any:
        content = [{"type": "text", "text": request.data["say"]}]
        return {"input": [{"role": "user", "type": "message", "content": content}]}

    def _convert_response(self, response: Any) -> Any:
        return {"said": response["output"][-1]["content"][0]["text"]}


async def test_an_adapter_of_the_usual_shape_works_beside_the_built_in_ones(tmp_path: Path) -> None:
    friday = A2AFastAPIDefaultAdapter(agent_name="Friday", agent_description="A helpful assistant")
    async with embedded(tmp_path, friday, ResponseAPIDefaultAdapter(), Converting()) as client:
        answer = await client.post("/custom-endpoint", json={"say": "Hello?"})
        assert answer.json() == {"said": "hello there"}
        response = await client.post("/v1/responses", json={"model": "helper", "input": "Hello?"})
        assert response.status_code == 200
        assert (await client.get("/.well-known/agent-card.json")).json()["name"] == "Friday"


async def test_a_question_that_is_none_is_refused_by_its_fields(tmp_path: Path) -> None:
    async with embedded(tmp_path, CustomProtocolAdapter()) as client:
        refused = await client.post("/custom-endpoint", json={"say": "Hello?"})
        assert refused.status_code in (400, 422)
        assert refused.headers["content-type"] == "application/problem+json"


def the_example() -> Any:
    return runpy.run_path(str(EXAMPLE))["QuestionAdapter"]()


async def test_the_example_answers_at_once_and_word_by_word(tmp_path: Path) -> None:
    words = agent("helper", scripted([{"reasoning": "Hm."}, {"text": "hello there", "chunk_characters": 6}]))
    async with embedded(tmp_path, the_example(), agents=[words]) as client:
        first = (await client.post("/ask", json={"question": "Hello?"})).json()
        assert first["answer"] == "hello there"
        again = (await client.post("/ask", json={"question": "Hello?", "conversation": first["conversation"]})).json()
        assert again["conversation"] == first["conversation"]
        stream = await client.post("/ask/words", json={"question": "Hello?"})
        lines = [line for line in stream.text.split("\n\n") if line.startswith("data: ")]
        assert lines == ["data: hello ", "data: there"]
        refused = await client.post("/ask", json={"query": "Hello?"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_the_example_is_a_part_where_it_is_dropped_in(tmp_path: Path) -> None:
    code = f"# gateway/protocols/questions.py\n{EXAMPLE.read_text('utf-8')}"
    with file_in_room(code, tmp_path):
        async with local_gateway(tmp_path, [HELPER]) as gateway:
            answer = await gateway.client.http.post("/ask", json={"question": "Hello?"})
            assert answer.json()["answer"] == "hello there"
            assert (await gateway.client.http.get("/agents")).status_code == 200


@pytest.mark.timeout(120)
def test_the_example_has_no_wrong_types() -> None:
    assert what_mypy_says(EXAMPLE) == ""
