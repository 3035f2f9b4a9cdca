"""openai-agents before the gateway's agents, over Responses and over Chat Completions: see scenes.py."""

from __future__ import annotations

import loopback_only  # type: ignore[import-not-found,unused-ignore]  # noqa: F401  # isort: skip
from collections.abc import Callable
from functools import partial
from typing import Any

from agents import (  # type: ignore[import-not-found,unused-ignore]
    Agent,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from scenes import play  # type: ignore[import-not-found,unused-ignore]

set_tracing_disabled(True)
calls: list[str] = []
Model = Callable[[str, str], Any]  # of a base URL and an agent of the gateway


class Report(BaseModel):
    city: str
    degrees: int


@function_tool  # type: ignore[untyped-decorator,unused-ignore]
def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}"


@function_tool(name_override="get_weather", needs_approval=True)  # type: ignore[untyped-decorator,unused-ignore]
def get_weather_once_agreed(city: str) -> str:
    """The weather of a city."""
    return f"rainy in {city}"


def client(base_url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0)


def responses(base_url: str, agent: str) -> Any:
    return OpenAIResponsesModel(model=agent, openai_client=client(base_url))


def chat(base_url: str, agent: str) -> Any:
    return OpenAIChatCompletionsModel(model=agent, openai_client=client(base_url))


async def words_and_backend_tools(base_url: str, model: Model) -> list[str]:
    """Agents whose tools the gateway runs: openai-agents has to take the answer without calling anything itself."""
    ran = [
        await Runner.run(Agent(name="a", model=model(base_url, agent)), "hello")
        for agent in ("words", "thinker", "adder", "parallel-adder")
    ]
    return [each.final_output for each in ran]


async def streamed(base_url: str, model: Model) -> list[Any]:
    ran = Runner.run_streamed(Agent(name="a", model=model(base_url, "adder")), "hello")
    types = {event.type async for event in ran.stream_events()}
    return [ran.final_output, sorted(types)]


async def client_tools(base_url: str, model: Model) -> list[Any]:
    calls.clear()
    ran = await Runner.run(Agent(name="a", model=model(base_url, "weather"), tools=[get_weather]), "both, please")
    return [ran.final_output, sorted(calls)]


async def chained(base_url: str, model: Model) -> list[str]:
    """The library sends only what is new, behind previous_response_id."""
    agent = Agent(name="a", model=model(base_url, "weather"), tools=[get_weather])
    first = await Runner.run(agent, "both, please", auto_previous_response_id=True)
    second = await Runner.run(agent, "and now?", previous_response_id=first.last_response_id)
    return [first.final_output, second.final_output]


async def own_session(base_url: str, model: Model) -> list[str]:
    """The library keeps the history, and sends it whole each time."""
    agent = Agent(name="a", model=model(base_url, "weather"), tools=[get_weather])
    session = SQLiteSession("one")
    ran = [await Runner.run(agent, question, session=session) for question in ("weather?", "and now?")]
    return [each.final_output for each in ran]


async def session_with_backend_tools(base_url: str, model: Model) -> list[str]:
    """What the library keeps has the gateway's own calls in it, where it saw them."""
    agent = Agent(name="a", model=model(base_url, "adder"))
    session = SQLiteSession("two")
    ran = [await Runner.run(agent, question, session=session) for question in ("one", "two")]
    return [each.final_output for each in ran]


async def conversation_session(base_url: str, model: Model) -> list[Any]:
    """The gateway keeps the history: the session is a conversation."""
    agent = Agent(name="a", model=model(base_url, "words"))
    session = OpenAIConversationsSession(openai_client=client(base_url))
    ran = [await Runner.run(agent, words, session=session) for words in ("one", "two")]
    return [*(each.final_output for each in ran), [item["role"] for item in await session.get_items()]]


async def conversation_session_with_tools(base_url: str, model: Model) -> list[Any]:
    agent = Agent(name="a", model=model(base_url, "weather"), tools=[get_weather])
    session = OpenAIConversationsSession(openai_client=client(base_url))
    ran = [await Runner.run(agent, words, session=session) for words in ("weather?", "and now?")]
    return [*(each.final_output for each in ran), [item["type"] for item in await session.get_items()]]


async def handoff(base_url: str, model: Model) -> list[str]:
    poet = Agent(name="poet", model=model(base_url, "poet"), handoff_description="Writes poems")
    desk = Agent(name="desk", model=model(base_url, "desk"), handoffs=[poet])
    ran = await Runner.run(desk, "a poem, please")
    return [ran.last_agent.name, ran.final_output]


async def approved(base_url: str, model: Model) -> list[Any]:
    """A tool of the client that a person has to agree to: the library pauses, and goes on with the answer."""
    agent = Agent(name="a", model=model(base_url, "weather"), tools=[get_weather_once_agreed])
    paused = await Runner.run(agent, "weather?")
    state = paused.to_state()
    for question in paused.interruptions:
        state.approve(question)
    return [len(paused.interruptions), (await Runner.run(agent, state)).final_output]


async def backend_approval(base_url: str, model: Model) -> list[Any]:
    """A tool of the gateway that a person has to agree to; then the conversation goes on with all of its items."""
    own = HostedMCPTool(tool_config={"type": "mcp", "server_label": "gateway", "require_approval": "always"})
    agent = Agent(name="a", model=model(base_url, "refunder"), tools=[own])
    session = SQLiteSession("three")
    paused = await Runner.run(agent, "a refund, please", session=session)
    state = paused.to_state()
    for question in paused.interruptions:
        state.approve(question)
    agreed = await Runner.run(agent, state, session=session)
    again = await Runner.run(agent, "and another one", session=session)
    return [len(paused.interruptions), agreed.final_output, len(again.interruptions)]


async def formed(base_url: str, model: Model) -> Any:
    agent = Agent(name="a", model=model(base_url, "formed"), output_type=Report)
    return (await Runner.run(agent, "the weather?")).final_output.model_dump()


BOTH = (
    words_and_backend_tools, streamed, client_tools, own_session, session_with_backend_tools, handoff, approved, formed,
)  # fmt: skip
RESPONSES = (*BOTH, chained, conversation_session, conversation_session_with_tools, backend_approval)
play(
    {f"responses {scene.__name__}": partial(scene, model=responses) for scene in RESPONSES}
    | {f"chat {scene.__name__}": partial(scene, model=chat) for scene in BOTH}
)
