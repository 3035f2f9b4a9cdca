"""Open Responses: the eight HTTP tests of its compliance suite, and its published schemas over every frame.

The suite is in no package registry, so its requests and checks are written anew here; the schemas are those of the
package `openresponses-types`, which is made from the specification's OpenAPI document. `make conformance` runs this.
https://www.openresponses.org/specification (2026-04-24), https://github.com/openresponses/openresponses
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from openresponses_types import types as schemas
from pydantic import BaseModel

from tests.openai_scene import ADDER, AGENTS, PICTURE, REFUNDER, USAGE, WEATHER_PARAMETERS, OpenAIScene, openai_gateway
from tests.running_gateway import agent, scripted

STRICT: Final = {"protocols": {"responses": {"backend_tools": "hidden", "approvals": "message"}}}
# Answers in words, and calls the tool get_weather where it is asked for the weather.
MODEL: Final = agent(
    "model",
    scripted(
        [{"text": "I heard: {{user}}", "chunk_characters": 4}, USAGE],
        rules=[
            {
                "when": {"last_user_contains": "weather", "turn": 0},
                "response": [{"tool": "get_weather", "arguments": {"city": "San Francisco"}}],
            }
        ],
    ),
)
TOOL: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather",
    "parameters": WEATHER_PARAMETERS,
}


def message(role: str, content: object, **more: object) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


LOOK: Final = [
    {"type": "input_text", "text": "What do you see?"},
    {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
]
MODELS: Final[Mapping[str, type[BaseModel]]] = {
    next(iter(model.model_fields["type"].annotation)).value: model
    for name, model in vars(schemas).items()
    if name.endswith("StreamingEvent")
}  # by the event's type
# the suite's tests, by their names there: what is sent
SUITE: Final[Mapping[str, Mapping[str, Any]]] = {
    "basic-response": {"input": [message("user", "Say hello in three words.")]},
    "assistant-phase": {
        "input": [
            message("assistant", "I look for the number.", phase="commentary"),
            message("assistant", "The number is four.", phase="final_answer"),
            message("user", "Say the number again."),
        ]
    },
    "response-output-phase-schema": {"input": [message("user", "Say one word.")]},
    "streaming-response": {"input": [message("user", "Count from 1 to 5.")], "stream": True},
    "system-prompt": {"input": [message("system", "Talk like a pirate."), message("user", "Say hello.")]},
    "tool-calling": {"input": [message("user", "What is the weather in San Francisco?")], "tools": [TOOL]},
    "image-input": {"input": [message("user", LOOK)]},
    "multi-turn": {
        "input": [
            message("user", "My name is Alice."),
            message("assistant", "Hello Alice! How can I help you?"),
            message("user", "What is my name?"),
        ]
    },
}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path, [MODEL, *AGENTS], sections=STRICT) as running:
        yield running


def frames_of(body: str) -> list[dict[str, Any]]:
    """The events of a stream. Each one's `event:` is its type, none has an `id:`, and `[DONE]` is the last."""
    *blocks, done, end = [block for block in body.split("\n\n") if not block.startswith(":")]
    assert (done, end) == ("data: [DONE]", "")
    frames: list[dict[str, Any]] = []
    for block in blocks:
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        frames.append(json.loads(lines["data"]))
        assert lines.keys() <= {"event", "data"}
        assert lines["event"] == frames[-1]["type"]
    return frames


def checked(frames: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The response that the last of a stream's events carries; all of them keep to their schemas."""
    for frame in frames:
        MODELS[frame["type"]].model_validate(frame)
    last: dict[str, Any] = frames[-1]["response"]
    return last


async def asked(scene: OpenAIScene, model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a body, which keeps to its schema, as all events before it do."""
    answer = await scene.post("/responses", {"model": model, **body})
    assert answer.status_code == 200, answer.text
    response = checked(frames_of(answer.text)) if body.get("stream") else answer.json()
    schemas.ResponseResource.model_validate(response)
    kept: dict[str, Any] = response
    return kept


@pytest.mark.parametrize("name", SUITE)
async def test_the_suites_http_tests_pass(scene: OpenAIScene, name: str) -> None:
    response = await asked(scene, "model", SUITE[name])

    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds == (["function_call"] if name == "tool-calling" else ["message"])


@pytest.mark.parametrize("streamed", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("words", "completed"),
        ("thinker", "completed"),
        ("adder", "completed"),
        ("parallel-adder", "completed"),
        ("refunder", "completed"),
        ("refuser", "completed"),
        ("cut", "incomplete"),
    ],
)
async def test_every_answer_keeps_to_the_published_schemas(
    scene: OpenAIScene, model: str, status: str, streamed: bool
) -> None:
    response = await asked(scene, model, {"input": "hello", "stream": streamed})

    assert response["status"] == status


async def test_a_stream_that_fails_keeps_to_the_published_schemas(scene: OpenAIScene) -> None:
    response = await asked(scene, "breaking", {"input": "hello", "stream": True})

    assert response["status"] == "failed"
    assert response["error"]["message"]


@pytest.mark.parametrize("model", ["adder", "refunder"])
async def test_backend_calls_as_function_calls_keep_to_the_published_schemas(tmp_path: Path, model: str) -> None:
    shown = {"protocols": {"responses": {"backend_tools": "function_call", "approvals": "message"}}}
    async with openai_gateway(tmp_path, [ADDER, REFUNDER], sections=shown) as scene:
        await asked(scene, model, {"input": "hello"})
        response = await asked(scene, model, {"input": "hello", "stream": True})

    kinds = [item["type"] for item in response["output"]]
    assert {"adder": {"function_call", "function_call_output"}}.get(model, {"message"}) <= set(kinds)
