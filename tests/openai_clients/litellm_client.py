"""litellm as a client, over Chat Completions and over Responses: see scenes.py."""

from __future__ import annotations

import loopback_only  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  # isort: skip
import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices

import litellm  # type: ignore[import-not-found,unused-ignore]
from scenes import play  # type: ignore[import-not-found,unused-ignore]

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def to(agent: str, base_url: str) -> dict[str, Any]:
    return {"model": f"openai/{agent}", "api_base": base_url, "api_key": "key", "num_retries": 0, "max_retries": 0}


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


async def chat_words(base_url: str) -> dict[str, Any]:
    answer = await litellm.acompletion(**to("words", base_url), messages=said("hello"))
    stream = await litellm.acompletion(
        **to("words", base_url), messages=said("hello"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    return {
        "text": answer.choices[0].message.content,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "usage": [answer.usage.prompt_tokens, answer.usage.completion_tokens],
    }


async def chat_reasoning(base_url: str) -> list[str]:
    answer = await litellm.acompletion(**to("thinker", base_url), messages=said("six times seven?"))
    return [answer.choices[0].message.reasoning_content, answer.choices[0].message.content]


async def chat_tools(base_url: str) -> dict[str, Any]:
    messages = said("both, please")
    tools = [{"type": "function", "function": TOOL}]
    called = (await litellm.acompletion(**to("weather", base_url), messages=messages, tools=tools)).choices[0]
    messages.append(called.message.model_dump(exclude_none=True))
    for call in called.message.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"sunny in {city}"})
    told = await litellm.acompletion(**to("weather", base_url), messages=messages, tools=tools)
    return {
        "finish": called.finish_reason,
        "calls": len(called.message.tool_calls),
        "told": told.choices[0].message.content,
    }


async def chat_errors(base_url: str) -> list[str]:
    """The classes that litellm makes of our errors."""
    named: list[str] = []
    for agent in ("nobody", "breaking"):
        try:
            await litellm.acompletion(**to(agent, base_url), messages=said("hello"))
        except Exception as error:  # which one is the question
            named.append(type(error).__name__)
    return named


async def responses_words(base_url: str) -> dict[str, Any]:
    answer = await litellm.aresponses(**to("words", base_url), input="hello")
    stream = await litellm.aresponses(**to("words", base_url), input="hello", stream=True)
    types = [str(getattr(event.type, "value", event.type)) async for event in stream]
    return {"text": text_of(answer), "last": types[-1], "deltas": types.count("response.output_text.delta") > 2}


async def responses_chained(base_url: str) -> list[str]:
    first = await litellm.aresponses(**to("words", base_url), input="one")
    second = await litellm.aresponses(**to("words", base_url), input="two", previous_response_id=first.id)
    return [text_of(first), text_of(second)]


async def responses_tools(base_url: str) -> str:
    tools = [{"type": "function", "strict": False, **TOOL}]
    called = await litellm.aresponses(**to("weather", base_url), input="weather?", tools=tools)
    [call] = [item for item in called.output if item.type == "function_call"]
    told = await litellm.aresponses(
        **to("weather", base_url),
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "fine"}],
        previous_response_id=called.id,
        tools=tools,
    )
    return text_of(told)


async def responses_backend(base_url: str) -> list[str]:
    answer = await litellm.aresponses(**to("adder", base_url), input="2 and 3?")
    return [item["type"] if isinstance(item, dict) else item.type for item in answer.output]


def text_of(answer: Any) -> str:
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    return "".join(part.text for part in parts)


SCENES = (
    chat_words, chat_reasoning, chat_tools, chat_errors,
    responses_words, responses_chained, responses_tools, responses_backend,
)  # fmt: skip
play({scene.__name__: scene for scene in SCENES})
