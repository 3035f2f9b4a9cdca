"""A gateway, and OpenAI's client in front of it that speaks Chat Completions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.openai_scene import OpenAIGateway, openai_client
from tests.running_gateway import local_gateway

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object"}},
}


class ChatGateway(OpenAIGateway):
    """A gateway that is asked by Chat Completions."""

    __slots__ = ()

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


@contextlib.asynccontextmanager
async def chat_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]], **more: Any
) -> AsyncGenerator[ChatGateway]:
    """A gateway in this process. `more` as for `local_gateway`."""
    async with (
        local_gateway(directory, agents, **more) as gateway,
        openai_client(f"{gateway.client.base_url}/v1") as client,
    ):
        yield ChatGateway(gateway, client)
