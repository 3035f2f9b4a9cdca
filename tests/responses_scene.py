"""A gateway, and OpenAI's client in front of it that speaks Responses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.openai_scene import OpenAIGateway, openai_client
from tests.running_gateway import agent, local_gateway, scripted

WEATHER: dict[str, Any] = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
ADD: dict[str, Any] = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
_SUM: dict[str, Any] = {"tool": "add", "arguments": {"a": 2, "b": 3}}
_RULES: list[dict[str, Any]] = [
    {
        "when": {"last_user_contains": "weather", "turn": 0},
        "response": [{"text": "I look."}, {"tool": "weather", "arguments": {"city": "Rome"}, "id": "theirs"}],
    },
    {
        "when": {"last_user_contains": "both", "turn": 0},
        "response": [{"tool": "weather", "arguments": {"city": each}} for each in ("Rome", "Oslo")],
    },
    {"when": {"after_tool": "weather"}, "response": [{"text": "It is {{result}}."}]},
    {
        "when": {"last_user_contains": "sum", "turn": 0},
        "response": [{"reasoning": "Sums need the tool.", "signature": "c2lnbmVk"}, {"text": "I add."}, _SUM],
    },
    {"when": {"after_tool": "add"}, "response": [{"text": "It is {{result}}."}]},
    {"when": {"last_user_contains": "fail"}, "response": [{"text": "Well"}, {"error": "overloaded"}]},
    {"when": {"last_user_contains": "wait"}, "response": [{"text": "Well"}, {"hang": True}]},
]
HELPER = agent("helper", scripted([{"text": "Hello {{user}}.", "chunk_characters": 3}], rules=_RULES), tools=[ADD])
CAREFUL = agent("careful", scripted([{"text": "Hello {{user}}."}], rules=_RULES), tools=[{**ADD, "approval": "always"}])


class ResponsesGateway(OpenAIGateway):
    """A gateway that is asked by Responses."""

    __slots__ = ()

    async def post(self, body: Mapping[str, Any], **headers: str) -> httpx.Response:
        """The answer to a body, whose `model` may be left out; names of headers are written with `_`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post("/v1/responses", json={"model": "helper", **body}, headers=named)

    async def create(self, **body: Any) -> dict[str, Any]:
        """A response that was made."""
        answer = await self.post(body)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response

    async def error(self, status: int, **body: Any) -> dict[str, Any]:
        """The error of a request that is refused with that status."""
        answer = await self.post(body)
        assert answer.status_code == status, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error

    async def said(self, thread_id: str) -> list[str]:
        """The roles of a thread's messages."""
        return [message["role"] for message in await self.stored(thread_id)]


@contextlib.asynccontextmanager
async def responses_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = (HELPER, CAREFUL), **more: Any
) -> AsyncGenerator[ResponsesGateway]:
    """A gateway in this process. `more` as for `local_gateway`."""
    async with (
        local_gateway(directory, agents, **more) as gateway,
        openai_client(f"{gateway.client.base_url}/v1") as client,
    ):
        yield ResponsesGateway(gateway, client)


def thread_of(response: Mapping[str, Any]) -> str:
    """The id of a stored response's thread."""
    thread_id: str = response["conversation"]["id"]
    return thread_id


def text_of(response: Mapping[str, Any]) -> str:
    """What a response says, all of it."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


def kinds(response: Mapping[str, Any]) -> list[str]:
    """The types of a response's items."""
    return [item["type"] for item in response["output"]]


def output(call_id: str, text: str) -> dict[str, Any]:
    """What a client's tool gave."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
