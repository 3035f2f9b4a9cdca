"""LangChain's ChatOpenAI, over Chat Completions and over Responses: see scenes.py."""

from __future__ import annotations

import loopback_only  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  # isort: skip
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # type: ignore[import-not-found,unused-ignore]
from langchain_core.tools import tool  # type: ignore[import-not-found,unused-ignore]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found,unused-ignore]
from pydantic import BaseModel, SecretStr
from scenes import play  # type: ignore[import-not-found,unused-ignore]


class Report(BaseModel):
    city: str
    degrees: int


@tool  # type: ignore[untyped-decorator,unused-ignore]
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def chat(base_url: str, agent: str, responses: bool, **more: Any) -> Any:
    return ChatOpenAI(
        model=agent, base_url=base_url, api_key=SecretStr("key"), use_responses_api=responses, max_retries=0, **more
    )


async def words(base_url: str, responses: bool) -> dict[str, Any]:
    model = chat(base_url, "words", responses)
    answer = await model.ainvoke("hello")
    streamed = [chunk async for chunk in model.astream("hello")]
    usage = answer.usage_metadata
    return {
        "text": answer.text,
        "streamed": "".join(chunk.text for chunk in streamed),
        "pieces": len(streamed) > 2,
        "usage": [usage["input_tokens"], usage["output_tokens"]] if usage else None,
    }


async def tools(base_url: str, responses: bool) -> dict[str, Any]:
    """Two of a client's tools at once, and the conversation goes on."""
    model = chat(base_url, "weather", responses).bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("both, please")]
    called = await model.ainvoke(messages)
    messages.append(called)
    messages += [ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in called.tool_calls]
    told = await model.ainvoke(messages)
    later = await model.ainvoke([*messages, told, HumanMessage("and now?")])
    return {
        "calls": [[call["name"], call["args"]] for call in called.tool_calls],
        "told": told.text,
        "later": later.text,
        "answers": isinstance(told, AIMessage),
    }


async def backend(base_url: str, responses: bool) -> dict[str, Any]:
    answer = await chat(base_url, "adder", responses).ainvoke("2 and 3?")
    return {"text": answer.text, "calls": answer.tool_calls}


async def formed(base_url: str, responses: bool) -> Any:
    report = await chat(base_url, "formed", responses).with_structured_output(Report).ainvoke("the weather?")
    return report.model_dump()


async def chained(base_url: str, responses: bool) -> list[str]:
    """Two turns, of which the second one sends only what is new, where the API can."""
    model = chat(base_url, "words", responses, **({"use_previous_response_id": True} if responses else {}))
    messages: list[Any] = [HumanMessage("one")]
    first = await model.ainvoke(messages)
    second = await model.ainvoke([*messages, first, HumanMessage("two")])
    return [first.text, second.text]


SCENES: tuple[Callable[..., Awaitable[Any]], ...] = (words, tools, backend, formed, chained)
play(
    {f"chat {scene.__name__}": partial(scene, responses=False) for scene in SCENES}
    | {f"responses {scene.__name__}": partial(scene, responses=True) for scene in SCENES}
)
