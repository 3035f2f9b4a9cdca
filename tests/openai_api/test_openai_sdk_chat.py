"""Chat Completions as the official Python client uses them, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import BaseModel

from tests.openai_scene import PICTURE, WEATHER_PARAMETERS, OpenAIScene, openai_gateway

WEATHER_TOOL: Final[ChatCompletionFunctionToolParam] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {**WEATHER_PARAMETERS}},
}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path) as running:
        yield running


def said(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


async def chunks_of(scene: OpenAIScene, model: str, text: str = "hello", **more: Any) -> list[ChatCompletionChunk]:
    stream = await scene.openai.chat.completions.create(model=model, messages=said(text), stream=True, **more)
    return [chunk async for chunk in stream]


# --- words


async def test_an_answer_in_words_is_one_completion(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="words", messages=said("hello"))

    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("I heard: hello", "stop")
    assert choice.message.tool_calls is None
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "words"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (12, 5, 17)


async def test_a_stream_says_the_same_chunk_by_chunk(scene: OpenAIScene) -> None:
    chunks = await chunks_of(scene, "words", stream_options={"include_usage": True})

    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == "I heard: hello"
    assert len(choices) > 3, "the answer came in pieces"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert len({(chunk.id, chunk.model, chunk.created) for chunk in chunks}) == 1
    usage = chunks[-1].usage
    assert not chunks[-1].choices
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (12, 5)


async def test_no_usage_is_streamed_to_whom_did_not_ask(scene: OpenAIScene) -> None:
    assert [chunk.usage for chunk in await chunks_of(scene, "words") if chunk.usage or not chunk.choices] == []


async def test_the_stream_helper_folds_the_stream_to_the_completion(scene: OpenAIScene) -> None:
    async with scene.openai.chat.completions.stream(model="words", messages=said("hello")) as stream:
        types = [event.type async for event in stream]
        answer = await stream.get_final_completion()

    assert answer.choices[0].message.content == "I heard: hello"
    assert {"content.delta", "content.done"} <= set(types)


async def test_reasoning_comes_beside_the_words(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="thinker", messages=said("six times seven?"))
    streamed = [chunk.choices[0].delta for chunk in await chunks_of(scene, "thinker") if chunk.choices]

    message = answer.choices[0].message
    assert (message.content, (message.model_extra or {}).get("reasoning_content")) == ("It is 42.", "Six times seven.")
    assert "".join(delta.content or "" for delta in streamed) == "It is 42."
    reasons = [(delta.model_extra or {}).get("reasoning_content") or "" for delta in streamed]
    assert "".join(reasons) == "Six times seven."


async def test_a_picture_of_the_agent_is_a_picture_in_markdown(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="painter", messages=said("paint"))

    content = answer.choices[0].message.content or ""
    assert content.startswith("Here it is.")
    assert f"](data:image/png;base64,{PICTURE})" in content
    assert "![" in content


async def test_a_refusal_stands_in_its_own_field(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="refuser", messages=said("do it"))
    streamed = [chunk.choices[0].delta for chunk in await chunks_of(scene, "refuser") if chunk.choices]

    assert (answer.choices[0].message.refusal, answer.choices[0].finish_reason) == ("I will not.", "stop")
    assert not answer.choices[0].message.content
    assert "".join(delta.refusal or "" for delta in streamed) == "I will not."


async def test_an_answer_that_was_cut_off_says_so(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="cut", messages=said("tell me all"))

    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("As long as it", "length")


# --- formed answers


class Report(BaseModel):
    city: str
    degrees: int


async def test_parse_gives_an_object_of_the_form_that_was_asked_for(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.parse(
        model="formed", messages=said("the weather?"), response_format=Report
    )
    async with scene.openai.chat.completions.stream(
        model="formed", messages=said("the weather?"), response_format=Report
    ) as stream:
        streamed = await stream.get_final_completion()

    assert answer.choices[0].message.parsed == Report(city="Paris", degrees=21)
    assert streamed.choices[0].message.parsed == Report(city="Paris", degrees=21)


# --- tools


async def test_backend_tools_run_unseen(scene: OpenAIScene) -> None:
    answer = await scene.openai.chat.completions.create(model="adder", messages=said("2 and 3?"))
    streamed = [chunk.choices[0] for chunk in await chunks_of(scene, "adder", "2 and 3?") if chunk.choices]

    message = answer.choices[0].message
    assert "The sum is 5.0." in (message.content or "")
    assert (message.tool_calls, answer.choices[0].finish_reason) == (None, "stop")
    assert [choice.delta.tool_calls for choice in streamed if choice.delta.tool_calls] == []
    assert "".join(choice.delta.content or "" for choice in streamed) == message.content


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("question", "cities"), [("weather?", ["Paris"]), ("both, please", ["Paris", "Rome"])])
async def test_the_clients_tools_are_called_and_their_results_go_on(
    scene: OpenAIScene, question: str, cities: list[str], streamed: bool
) -> None:
    messages: list[ChatCompletionMessageParam] = said(question)
    while True:
        if streamed:
            async with scene.openai.chat.completions.stream(
                model="weather", messages=messages, tools=[WEATHER_TOOL]
            ) as stream:
                choice: Any = (await stream.get_final_completion()).choices[0]
        else:
            answer = await scene.openai.chat.completions.create(
                model="weather", messages=messages, tools=[WEATHER_TOOL]
            )
            choice = answer.choices[0]
        if choice.finish_reason != "tool_calls":
            break
        calls = choice.message.tool_calls
        assert [json.loads(call.function.arguments)["city"] for call in calls] == cities
        messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in calls:
            weather = f"sunny in {json.loads(call.function.arguments)['city']}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})

    assert choice.message.content == f"It is sunny in {cities[-1]}."
    assert len(messages) == 2 + len(cities)


async def test_the_thread_of_a_call_is_found_by_its_id_and_is_the_same_over_ag_ui(scene: OpenAIScene) -> None:
    asked = await scene.openai.chat.completions.with_raw_response.create(
        model="weather", messages=said("weather?"), tools=[WEATHER_TOOL]
    )
    message = asked.parse().choices[0].message
    assert message.tool_calls is not None
    told = await scene.openai.chat.completions.with_raw_response.create(
        model="weather",
        messages=[
            *said("weather?"),
            {"role": "assistant", "tool_calls": [message.tool_calls[0].to_dict()]},  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "fine"},
        ],
        tools=[WEATHER_TOOL],
    )

    thread_id = asked.headers["x-thread-id"]
    assert told.headers["x-thread-id"] == thread_id
    roles = [each["role"] for each in await scene.stored(thread_id)]
    assert roles == ["user", "assistant", "tool", "assistant"]


async def test_a_thread_that_is_named_by_header_keeps_what_the_client_never_saw(scene: OpenAIScene) -> None:
    named = {"X-Thread-Id": "chat-7"}
    first = await scene.openai.chat.completions.create(model="adder", messages=said("2 and 3?"), extra_headers=named)
    again: list[ChatCompletionMessageParam] = [
        *said("2 and 3?"),
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "and again?"},
    ]
    await scene.openai.chat.completions.create(model="adder", messages=again, extra_headers=named)

    messages = await scene.stored("chat-7")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"] * 2
    assert messages[4]["content"] == "and again?"


# --- models and errors


async def test_the_agents_are_the_models(scene: OpenAIScene) -> None:
    models = [model.id async for model in scene.openai.models.list()]
    one = await scene.openai.models.retrieve("words")

    assert {"words", "weather", "refunder"} <= set(models)
    assert (one.id, one.object) == ("words", "model")
    with pytest.raises(openai.NotFoundError):
        await scene.openai.models.retrieve("nobody")


async def test_wrong_requests_are_the_clients_own_errors(scene: OpenAIScene) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await scene.openai.chat.completions.create(model="nobody", messages=said("hello"))
    with pytest.raises(openai.BadRequestError) as wrong:
        await scene.openai.chat.completions.create(model="words", messages=[{"role": "nobody"}])  # type: ignore[typeddict-item]
    with pytest.raises(openai.BadRequestError) as many:
        await scene.openai.chat.completions.create(model="words", messages=said("hello"), n=2)

    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert (wrong.value.param or "").startswith("messages[0]")
    assert many.value.param == "n"
