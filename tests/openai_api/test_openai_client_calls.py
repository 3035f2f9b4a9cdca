"""Calls of the client's own tools: they are shown as the model wrote them, and only those that wait are to be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import httpx
import pytest

from gateway.messages import JsonObject
from tests.openai_chat_server import Script, chat_server, chunk, completion, record
from tests.openai_scene import WEATHER_PARAMETERS, OpenAIScene, openai_gateway
from tests.running_gateway import agent, run_body, scripted

Surface: TypeAlias = Literal["chat", "responses"]
every_surface = pytest.mark.parametrize("surface", ["chat", "responses"])
streamed_or_not = pytest.mark.parametrize("stream", [False, True])

MISFIT: Final = '{"town": 1}'
PATHS: Final = {"chat": "/chat/completions", "responses": "/responses"}
FORCED: Final = {"type": "function", "function": {"name": "get_weather"}}
ONCE: Final = {"model_attempts": 1}


def asked(surface: Surface, model: str, **more: Any) -> dict[str, Any]:
    function = {"name": "get_weather", "parameters": dict(WEATHER_PARAMETERS)}
    said = {"input": "hello"} if surface == "responses" else {"messages": [{"role": "user", "content": "hello"}]}
    return {"model": model, **said, "tools": [{"type": "function", "function": function}], **more}


def data_of(answer: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def told(scene: OpenAIScene, surface: Surface, model: str, *, stream: bool, **more: Any) -> tuple[Any, list[str]]:
    """How an answer ended, and the arguments of its calls."""
    answer = await scene.post(PATHS[surface], asked(surface, model, stream=stream, **more))
    assert answer.status_code == 200, answer.text
    if surface == "responses":
        response = data_of(answer)[-1]["response"] if stream else answer.json()
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        return response["status"], [call["arguments"] for call in calls]
    if not stream:
        choice = answer.json()["choices"][0]
        return choice["finish_reason"], [call["function"]["arguments"] for call in choice["message"]["tool_calls"]]
    written: list[str] = []
    reason = None
    for choice in (choice for each in data_of(answer) for choice in each["choices"]):
        for call in choice["delta"].get("tool_calls", ()):
            written += [""] * (call["index"] + 1 - len(written))
            written[call["index"]] += call["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return reason, written


def weather(arguments: Any, *more: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    call = {"tool": "get_weather", "arguments": arguments, "chunk_characters": 4}
    return agent("weather", scripted([call, *more], [{"text": "Summed up."}]), parameters={**ONCE, **parameters})


def behind(endpoint: str) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": endpoint}
    return agent("behind", model)


def calling(arguments: str, name: str = "get_weather") -> Script:
    call: JsonObject = {"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return Script(pieces=[record(chunk({"tool_calls": [call]})), record(chunk({}, "tool_calls")), b"data: [DONE]\n\n"])


@every_surface
@streamed_or_not
@pytest.mark.parametrize("arguments", [MISFIT, "no JSON", "[1]"])
async def test_a_call_is_the_clients_whatever_its_arguments(
    tmp_path: Path, surface: Surface, stream: bool, arguments: str
) -> None:
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(calling(arguments), completion("never"))
        ended = await told(scene, surface, "behind", stream=stream, tool_choice=FORCED)

    assert ended == ("completed" if surface == "responses" else "tool_calls", [arguments])
    assert len(provider.requests) == 1, "it is not asked for again"


async def test_over_ag_ui_the_model_is_told_what_is_wrong_with_its_arguments(tmp_path: Path) -> None:
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(calling(MISFIT), completion("It is sunny."))
        tool = {"name": "get_weather", "description": "", "parameters": dict(WEATHER_PARAMETERS)}
        frames = await scene.gateway.client.run("behind", run_body("hi", tools=[tool]))

    assert len(provider.requests) == 2
    assert not frames[-1].data["outcome"].get("pendingToolCallIds")


@every_surface
@pytest.mark.parametrize("first", [completion(""), calling("{}", "unknown")], ids=["nothing", "no tool of ours"])
async def test_a_force_holds_until_something_of_an_answer_is_there(
    tmp_path: Path, surface: Surface, first: Script
) -> None:
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(first, calling('{"city": "Paris"}'))
        ended = await told(scene, surface, "behind", stream=False, tool_choice=FORCED)

    assert ended[1] == ['{"city": "Paris"}']
    assert [request.json["tool_choice"] for request in provider.requests] == [FORCED, FORCED]


@every_surface
async def test_arguments_come_piece_by_piece_while_the_model_writes_them(tmp_path: Path, surface: Surface) -> None:
    async with openai_gateway(tmp_path, [weather({"city": "Paris"}, {"hang": True})]) as scene:
        body = asked(surface, "weather", stream=True)
        pieces: list[str] = []
        async with scene.http.stream("POST", f"/v1{PATHS[surface]}", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    pieces += _arguments(json.loads(line[6:]))
                if "".join(pieces) == '{"city":"Paris"}':
                    break

    assert len(pieces) > 3


def _arguments(data: Any) -> list[str]:
    if "choices" not in data:
        return [data["delta"]] if data["type"] == "response.function_call_arguments.delta" else []
    calls = (call for choice in data["choices"] for call in choice["delta"].get("tool_calls", ()))
    return [text for call in calls if (text := call["function"]["arguments"])]


@every_surface
@streamed_or_not
@pytest.mark.parametrize(
    ("more", "parameters"),
    [([{"stop": "max_tokens"}], {}), ([], {"max_iteration": 1, "on_max_iteration": "summarize"})],
    ids=["cut off", "over a limit"],
)
async def test_an_answer_whose_calls_are_not_to_be_run_does_not_end_with_them(
    tmp_path: Path, surface: Surface, stream: bool, more: list[dict[str, Any]], parameters: dict[str, Any]
) -> None:
    async with openai_gateway(tmp_path, [weather({"city": "Paris"}, *more, **parameters)]) as scene:
        ended = await told(scene, surface, "weather", stream=stream)

    assert ended == ("incomplete" if surface == "responses" else "length", ['{"city":"Paris"}'])


@every_surface
async def test_an_answer_that_fails_behind_a_call_ends_with_the_error(tmp_path: Path, surface: Surface) -> None:
    async with openai_gateway(tmp_path, [weather({"city": "Paris"}, {"error": "server"})]) as scene:
        whole = await scene.post(PATHS[surface], asked(surface, "weather"))
        answer = await scene.post(PATHS[surface], asked(surface, "weather", stream=True))

    *_, last = data_of(answer)
    assert whole.status_code == 502
    assert "tool_calls" not in answer.text or '"finish_reason":"tool_calls"' not in answer.text
    assert (last["response"]["status"] if surface == "responses" else last["error"]["code"]) in (
        "failed", "model_server",
    )  # fmt: skip


async def test_a_client_goes_on_behind_a_call_that_was_cut_off(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path, [weather({"city": "Paris"}, {"stop": "max_tokens"})]) as scene:
        first = (await scene.post("/responses", asked("responses", "weather"))).json()
        replayed = [{"role": "user", "content": "hello"}, *first["output"], {"role": "user", "content": "and now?"}]
        answers = [
            await scene.post("/responses", asked("responses", "weather", **more))
            for more in ({"previous_response_id": first["id"], "input": "and now?"}, {"input": replayed})
        ]

    assert first["output"][0]["status"] == "incomplete"
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
