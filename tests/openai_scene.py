"""A gateway whose agents are asked by OpenAI's API, with one agent for each thing that an answer can be.

    async with openai_gateway(tmp_path) as scene:
        answer = await scene.openai.chat.completions.create(model="words", messages=[...])

The agents play scripts, so that every answer is known. Real sockets, loopback only.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import httpx2  # what the openai package speaks HTTP with
from openai import AsyncOpenAI

from tests.running_gateway import DEADLINE_SECONDS, NO_TLS, LocalGateway, agent, local_gateway, scripted

KEY: Final = "key-of-the-tests-0123456789"
PICTURE: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
USAGE: Final[Mapping[str, Any]] = {"usage": {"input_tokens": 12, "output_tokens": 5, "reasoning_tokens": 2}}
WEATHER_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_ADD: Final = {"type": "PythonTool", "name": "add", "parameters": {"function": "gateway.sample_tools:add"}}
_REFUND: Final = {
    "type": "PythonTool",
    "name": "refund",
    "parameters": {"function": "gateway.sample_tools:refund"},
    "approval": "always",
}
_ONCE: Final = {"model_attempts": 1}


def _weather(city: str) -> dict[str, Any]:
    return {"tool": "get_weather", "arguments": {"city": city}}


WORDS: Final = agent("words", scripted([{"text": "I heard: {{user}}", "chunk_characters": 3}, USAGE]))
THINKER: Final = agent(
    "thinker",
    scripted([{"reasoning": "Six times seven.", "chunk_characters": 4, "signature": "sealed"}, {"text": "It is 42."}]),
)
ADDER: Final = agent(
    "adder",
    scripted(
        [{"text": "I add. "}, {"tool": "add", "arguments": {"a": 2, "b": 3}}],
        [{"text": "The sum is {{result}}."}, USAGE],
    ),
    tools=[_ADD],
)
PARALLEL_ADDER: Final = agent(
    "parallel-adder",
    scripted(
        [{"tool": "add", "arguments": {"a": 2, "b": 3}}, {"tool": "add", "arguments": {"a": 20, "b": 30}}],
        [{"text": "Both are added."}],
    ),
    tools=[_ADD],
)
WEATHER: Final = agent(
    "weather",
    scripted(
        [{"text": "I heard: {{user}}"}],
        [{"text": "It is {{result}}."}],
        rules=[
            {
                "when": {"last_user_contains": "both", "turn": 0},
                "response": [_weather("Paris"), _weather("Rome")],
            },
            {"when": {"last_user_contains": "weather", "turn": 0}, "response": [_weather("Paris")]},
        ],
    ),
)
REFUNDER: Final = agent(
    "refunder",
    scripted([{"tool": "refund", "arguments": {"order_id": "1234", "amount": 99}}], [{"text": "It said: {{result}}"}]),
    tools=[_REFUND],
)
PAINTER: Final = agent("painter", scripted([{"text": "Here it is."}, {"medium": PICTURE, "media_type": "image/png"}]))
REFUSER: Final = agent("refuser", scripted([{"text": "I will not.", "refusal": True}]))
BREAKING: Final = agent(
    "breaking", scripted([{"text": "one two", "chunk_characters": 4}, {"error": "overloaded"}]), parameters=_ONCE
)
SLOW: Final = agent("slow", scripted([{"text": "word by word", "chunk_characters": 4}, {"hang": True}]))
FORMED: Final = agent("formed", scripted([{"text": '{"city": "Paris", "degrees": 21}', "chunk_characters": 5}]))
CUT: Final = agent("cut", scripted([{"text": "As long as it"}, {"stop": "max_tokens"}]))

AGENTS: Final[Sequence[Mapping[str, Any]]] = (
    WORDS, THINKER, ADDER, PARALLEL_ADDER, WEATHER, REFUNDER, PAINTER, REFUSER, BREAKING, SLOW, FORMED, CUT,
)  # fmt: skip


@dataclass(slots=True)
class OpenAIGateway:
    """`openai`, the official client, never asks twice by itself; `http` has the gateway's address."""

    gateway: LocalGateway
    openai: AsyncOpenAI

    @property
    def http(self) -> httpx.AsyncClient:
        return self.gateway.client.http

    @property
    def base_url(self) -> str:
        return f"{self.gateway.client.base_url}/v1"

    async def stored(self, thread_id: str, version: int | None = None) -> list[dict[str, Any]]:
        """A thread's messages as AG-UI has them."""
        query = "" if version is None else f"?version={version}"
        answer = await self.gateway.client.get(f"/threads/{thread_id}/messages{query}")
        messages: list[dict[str, Any]] = answer["messages"]
        return messages

    async def versions(self, thread_id: str) -> int:
        """How many versions a thread has."""
        return len((await self.gateway.client.get(f"/threads/{thread_id}/versions"))["versions"])


@dataclass(slots=True)
class OpenAIScene(OpenAIGateway):
    """`exchanges` are what `openai` sent and the status that came for it, in order."""

    exchanges: list[tuple[str, int]] = field(default_factory=list)

    def retrying(self, times: int = 2) -> AsyncOpenAI:
        """The client as people have it: it asks again where that may help."""
        return self.openai.with_options(max_retries=times)

    async def post(self, path: str, body: Mapping[str, Any], **headers: str) -> httpx.Response:
        """An answer to a body that is sent as it is; `path` is below /v1."""
        return await self.http.post(f"/v1{path}", json=dict(body), headers=headers)


@contextlib.asynccontextmanager
async def openai_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = AGENTS, **more: Any
) -> AsyncGenerator[OpenAIScene]:
    """A gateway in this process, and the official client before it. `more` as for `local_gateway`."""
    async with local_gateway(directory, agents, **more) as gateway:
        exchanges: list[tuple[str, int]] = []

        async def noted(response: httpx2.Response) -> None:
            exchanges.append((f"{response.request.method} {response.request.url.path}", response.status_code))

        async with openai_client(f"{gateway.client.base_url}/v1", noted) as client:
            yield OpenAIScene(gateway, client, exchanges)


def openai_client(base_url: str, *hooks: Callable[[httpx2.Response], Awaitable[None]], key: str = KEY) -> AsyncOpenAI:
    """The official client of a gateway; the `hooks` are shown each answer."""
    http = httpx2.AsyncClient(
        timeout=DEADLINE_SECONDS, trust_env=False, verify=NO_TLS, event_hooks={"response": [*hooks]}
    )
    return AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http)
