"""A gateway, and OpenAI's client in front of it that speaks Chat Completions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai

from tests.running_gateway import LocalGateway, local_gateway

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object"}},
}


@dataclass(frozen=True, slots=True)
class ChatGateway:
    """`http` has the gateway's address, and answers of any status; `sdk` is the official client."""

    gateway: LocalGateway
    sdk: openai.AsyncOpenAI

    @property
    def http(self) -> httpx.AsyncClient:
        return self.gateway.client.http

    async def post(self, body: object, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        """The answer to a body; names of headers are written with `_`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(path, json=body, headers=named)

    async def ask(
        self, messages: Sequence[Mapping[str, Any]], thread_id: str = "", *, model: str = "helper", **more: Any
    ) -> dict[str, Any]:
        """The answer's message to a conversation."""
        headers = {"x_thread_id": thread_id} if thread_id else {}
        answer = await self.post({"model": model, "messages": list(messages), **more}, **headers)
        assert answer.status_code == 200, answer.text
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        return message

    async def stored(self, thread_id: str, version: int | None = None) -> list[dict[str, Any]]:
        """A thread's messages, as `GET /threads/{id}/messages` has them."""
        query = "" if version is None else f"?version={version}"
        messages: list[dict[str, Any]] = (await self.gateway.client.get(f"/threads/{thread_id}/messages{query}"))[
            "messages"
        ]
        return messages

    async def versions(self, thread_id: str) -> int:
        """How many versions a thread has."""
        return len((await self.gateway.client.get(f"/threads/{thread_id}/versions"))["versions"])


@contextlib.asynccontextmanager
async def chat_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]], **more: Any
) -> AsyncGenerator[ChatGateway]:
    """A gateway in this process. `more` as for `local_gateway`."""
    async with local_gateway(directory, agents, **more) as gateway:
        url = f"{gateway.client.base_url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="of-the-tests", max_retries=0) as sdk:
            yield ChatGateway(gateway, sdk)
