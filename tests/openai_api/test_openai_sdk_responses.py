"""Responses as the official Python client uses them, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import openai
import pytest
from openai.types.responses import FunctionToolParam, Response, ResponseStreamEvent
from openai.types.responses.tool_param import Mcp
from pydantic import BaseModel

from tests.openai_scene import WEATHER_PARAMETERS, OpenAIScene, openai_gateway
from tests.running_gateway import agent, scripted

WEATHER_TOOL: Final[FunctionToolParam] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {**WEATHER_PARAMETERS},
    "strict": True,
}

TAKES_QUESTIONS: Final[Mcp] = {"type": "mcp", "server_label": "gateway"}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path) as running:
        yield running


async def events_of(scene: OpenAIScene, model: str, **more: Any) -> list[ResponseStreamEvent]:
    stream = await scene.openai.responses.create(model=model, input="hello", stream=True, **more)
    return [event async for event in stream]


async def helped(scene: OpenAIScene, model: str, **more: Any) -> Response:
    """What the strict helper folds a stream to."""
    async with scene.openai.responses.stream(model=model, input="hello", **more) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_response()


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


# --- answers


async def test_an_answer_in_words_is_one_response(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="words", input="hello", metadata={"order": "1234"})

    assert (answer.output_text, answer.status, answer.model) == ("I heard: hello", "completed", "words")
    assert answer.id.startswith("resp_")
    assert answer.metadata == {"order": "1234"}
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (12, 5, 17)
    assert answer.usage.output_tokens_details.reasoning_tokens == 2


async def test_a_stream_says_the_same_event_by_event(scene: OpenAIScene) -> None:
    events = await events_of(scene, "words")

    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "I heard: hello"
    assert len(deltas) > 3, "the answer came in pieces"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "I heard: hello"


@pytest.mark.parametrize(
    ("model", "items"),
    [
        ("words", ["message"]),
        ("thinker", ["reasoning", "message"]),
        ("adder", ["message", "mcp_call", "message"]),
        ("parallel-adder", ["mcp_call", "mcp_call", "message"]),
        ("refunder", ["mcp_approval_request"]),
        ("painter", ["message", "image_generation_call"]),
        ("refuser", ["message"]),
    ],
)
async def test_the_strict_stream_helper_ends_with_the_response_of_the_body(
    scene: OpenAIScene, model: str, items: list[str]
) -> None:
    streamed = await helped(scene, model, tools=[TAKES_QUESTIONS])
    whole = await scene.openai.responses.create(model=model, input="hello", tools=[TAKES_QUESTIONS])

    assert kinds(streamed) == kinds(whole) == items
    assert streamed.output_text == whole.output_text
    assert streamed.status == whole.status == "completed"


async def test_reasoning_is_a_summary(scene: OpenAIScene) -> None:
    answer = await helped(scene, "thinker", include=["reasoning.encrypted_content"])

    [reasoning] = [item for item in answer.output if item.type == "reasoning"]
    assert [part.text for part in reasoning.summary] == ["Six times seven."]
    assert reasoning.encrypted_content


@pytest.mark.parametrize("words", [{"text": "I will not.", "refusal": True}, {"text": "I will not."}])
async def test_a_refusal_is_completed_and_the_stream_helper_does_not_raise(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    async with openai_gateway(tmp_path, [agent("refuser", scripted([words, {"stop": "refusal"}]))]) as scene:
        answer = await helped(scene, "refuser")
        chat = await scene.openai.chat.completions.create(
            model="refuser", messages=[{"role": "user", "content": "tell"}]
        )
        async with scene.openai.chat.completions.stream(
            model="refuser", messages=[{"role": "user", "content": "tell"}]
        ) as chunks:
            streamed = await chunks.get_final_completion()

    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    assert answer.status == "completed"
    assert parts[-1].type == "refusal"
    for completion in (chat, streamed):
        assert completion.choices[0].finish_reason == "stop"
        assert completion.choices[0].message.refusal


async def test_a_response_is_the_same_object_in_the_body_at_the_streams_end_and_in_get(scene: OpenAIScene) -> None:
    body = await scene.openai.responses.create(model="words", input="hello")
    *_, last = await events_of(scene, "words")
    assert last.type == "response.completed"

    for given in (body, last.response):
        again = await scene.openai.responses.retrieve(given.id)
        assert given.completed_at
        assert again.to_dict() == given.to_dict()


async def test_an_answer_that_was_cut_off_is_incomplete(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="cut", input="tell me all")
    events = await events_of(scene, "cut")

    assert (answer.status, answer.output_text) == ("incomplete", "As long as it")
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert events[-1].type == "response.incomplete"


async def test_backend_calls_are_mcp_calls_with_their_output(scene: OpenAIScene) -> None:
    answer = await helped(scene, "adder")

    [call] = [item for item in answer.output if item.type == "mcp_call"]
    assert (call.name, json.loads(call.arguments), call.output) == ("add", {"a": 2, "b": 3}, "5.0")
    assert call.error is None
    assert answer.output_text.endswith("The sum is 5.0.")


class Report(BaseModel):
    city: str
    degrees: int


async def test_parse_gives_an_object_of_the_form_that_was_asked_for(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.parse(model="formed", input="the weather?", text_format=Report)
    async with scene.openai.responses.stream(model="formed", input="the weather?", text_format=Report) as stream:
        streamed = await stream.get_final_response()

    assert answer.output_parsed == Report(city="Paris", degrees=21)
    assert streamed.output_parsed == Report(city="Paris", degrees=21)


# --- tools


def outputs_for(answer: Response) -> list[Any]:
    """What the client's tool gives for each call."""
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": f"sunny in {json.loads(item.arguments)['city']}",
        }
        for item in answer.output
        if item.type == "function_call"
    ]


@pytest.mark.parametrize("replayed", [False, True], ids=["previous_response_id", "full replay"])
@pytest.mark.parametrize(("question", "cities"), [("weather?", ["Paris"]), ("both, please", ["Paris", "Rome"])])
async def test_the_clients_tools_are_called_and_their_outputs_go_on(
    scene: OpenAIScene, question: str, cities: list[str], replayed: bool
) -> None:
    items: list[Any] = [{"role": "user", "content": question}]
    called = await scene.openai.responses.create(model="weather", input=items, tools=[WEATHER_TOOL])
    outputs = outputs_for(called)
    if replayed:
        items += [item.to_dict() for item in called.output] + outputs
        told = await scene.openai.responses.create(model="weather", input=items, tools=[WEATHER_TOOL])
    else:
        told = await scene.openai.responses.create(
            model="weather", input=outputs, previous_response_id=called.id, tools=[WEATHER_TOOL]
        )

    assert [output["output"] for output in outputs] == [f"sunny in {city}" for city in cities]
    assert kinds(called) == ["function_call"] * len(cities)
    assert called.status == "completed"
    assert told.output_text == f"It is sunny in {cities[-1]}."


async def test_a_streamed_call_is_whole_for_the_strict_helper(scene: OpenAIScene) -> None:
    async with scene.openai.responses.stream(model="weather", input="weather?", tools=[WEATHER_TOOL]) as stream:
        types = [event.type async for event in stream]
        answer = await stream.get_final_response()

    assert kinds(answer) == ["function_call"]
    assert "response.function_call_arguments.done" in types


async def test_an_output_that_is_missing_or_of_no_call_is_the_clients_error(scene: OpenAIScene) -> None:
    called = await scene.openai.responses.create(model="weather", input="both, please", tools=[WEATHER_TOOL])
    with pytest.raises(openai.BadRequestError):
        await scene.openai.responses.create(
            model="weather", input=outputs_for(called)[:1], previous_response_id=called.id, tools=[WEATHER_TOOL]
        )
    with pytest.raises(openai.BadRequestError):
        await scene.openai.responses.create(
            model="weather",
            input=[*outputs_for(called), {"type": "function_call_output", "call_id": "call_nobody", "output": "x"}],
            previous_response_id=called.id,
            tools=[WEATHER_TOOL],
        )


async def test_an_approval_is_asked_for_and_answered(scene: OpenAIScene) -> None:
    asked = await scene.openai.responses.create(model="refunder", input="a refund, please", tools=[TAKES_QUESTIONS])
    [request] = [item for item in asked.output if item.type == "mcp_approval_request"]
    agreed = await scene.openai.responses.create(
        model="refunder",
        input=[{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}],
        previous_response_id=asked.id,
    )

    assert (request.name, json.loads(request.arguments)) == ("refund", {"order_id": "1234", "amount": 99})
    assert '"status":"refunded"' in agreed.output_text.replace(" ", "")


@pytest.mark.parametrize("referenced", [False, True], ids=["whole", "referenced"])
async def test_an_approval_is_answered_in_a_history_that_is_sent_again(scene: OpenAIScene, referenced: bool) -> None:
    """The library's own session: each turn is sent whole, with the approvals of earlier ones in it."""
    items: list[Any] = [{"role": "user", "content": "a refund, please"}]

    def keep(answer: Response) -> None:
        items.extend(
            {"type": "item_reference", "id": item.id} if referenced else item.to_dict() for item in answer.output
        )

    asked = await scene.openai.responses.create(model="refunder", input=items, tools=[TAKES_QUESTIONS])
    keep(asked)
    request_id = asked.output[0].id
    items.append({"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True})
    agreed = await scene.openai.responses.create(model="refunder", input=items, tools=[TAKES_QUESTIONS])
    keep(agreed)
    items.append({"role": "user", "content": "and another one"})
    again = await scene.openai.responses.create(model="refunder", input=items, tools=[TAKES_QUESTIONS])

    assert "refunded" in agreed.output_text
    assert kinds(again) == ["mcp_approval_request"]
    thread = again.conversation
    assert thread is not None
    roles = [message["role"] for message in await scene.stored(thread.id)]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]


# --- what is kept


async def test_a_chain_forks_where_it_is_continued_twice(scene: OpenAIScene) -> None:
    first = await scene.openai.responses.create(model="words", input="one")
    second = await scene.openai.responses.create(model="words", input="two", previous_response_id=first.id)
    other = await scene.openai.responses.create(model="words", input="three", previous_response_id=first.id)

    assert first.conversation == second.conversation != other.conversation
    assert other.conversation is not None
    messages = await scene.stored(other.conversation.id)
    assert [message["content"] for message in messages] == ["one", "I heard: one", "three", "I heard: three"]


async def test_what_is_not_stored_is_not_found(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="words", input="hello", store=False)
    with pytest.raises(openai.NotFoundError):
        await scene.openai.responses.retrieve(answer.id)
    with pytest.raises(openai.BadRequestError) as unknown:
        await scene.openai.responses.create(model="words", input="more", previous_response_id=answer.id)

    assert unknown.value.code == "previous_response_not_found"


async def test_a_conversation_is_one_thread_for_all_of_its_responses(scene: OpenAIScene) -> None:
    conversation = await scene.openai.conversations.create(metadata={"of": "tests"})
    for words in ("one", "two"):
        await scene.openai.responses.create(model="words", input=words, conversation=conversation.id)
    items = [item async for item in scene.openai.conversations.items.list(conversation.id, order="asc")]

    assert [item.type for item in items] == ["message"] * 4
    assert [message["content"] for message in await scene.stored(conversation.id)] == [
        "one", "I heard: one", "two", "I heard: two",
    ]  # fmt: skip
    with pytest.raises(openai.BadRequestError) as both:
        await scene.openai.responses.create(
            model="words", input="x", conversation=conversation.id, previous_response_id="resp_x"
        )
    assert both.value.code == "mutually_exclusive_parameters"
