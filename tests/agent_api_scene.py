"""A gateway whose agents are asked over the Agent API, and a client that knows no more than the protocol.

    async with agent_api_gateway(tmp_path) as scene:
        frames = await scene.stream("hi", agent="words")

The agents play the scripts of openai_scene. Real sockets, loopback only.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from tests.openai_scene import AGENTS, WEATHER_PARAMETERS
from tests.running_gateway import LocalGateway, local_gateway

Frame = dict[str, Any]

WEATHER_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather.", "parameters": WEATHER_PARAMETERS},
}


def said(text: str, role: str = "user", **more: Any) -> Frame:
    """A message of one text."""
    return {"type": "message", "role": role, "content": [{"type": "text", "text": text}], **more}


def told(kind: str, **data: Any) -> Frame:
    """A message of one data: a call, an output, an answer to a question."""
    return {"type": kind, "role": "user", "content": [{"type": "data", "data": data}]}


def frames_of(stream: bytes) -> list[Frame]:
    """The frames of a whole stream, which has nothing else but comments and ends with an empty line."""
    assert b"\r" not in stream
    assert stream.endswith(b"\n\n")
    frames = []
    for block in stream.decode().split("\n\n"):
        if block and not block.startswith(":"):
            assert block.startswith("data: "), block
            assert "\n" not in block
            frames.append(orjson.loads(block.removeprefix("data: ")))
    return frames


def words_of(response: Frame) -> str:
    """The texts of a response's answers."""
    answers = [each for each in response["output"] if each["type"] == "message"]
    return "".join(part.get("text", "") for each in answers for part in each["content"])


@dataclass(slots=True)
class AgentApiScene:
    """`http` has the gateway's address."""

    gateway: LocalGateway

    @property
    def http(self) -> httpx.AsyncClient:
        return self.gateway.client.http

    async def post(self, body: Any, *, agent: str | None = None, **headers: str) -> httpx.Response:
        """An answer to a body that is sent as it is."""
        path = "/process" if agent is None else f"/agents/{agent}/process"
        return await self.http.post(path, json=body, headers=headers)

    async def stream(self, *given: Any, agent: str | None = None, **more: Any) -> list[Frame]:
        """All frames of a response."""
        answer = await self.post({"input": _messages(given), **more}, agent=agent)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        return frames_of(answer.content)

    async def whole(self, *given: Any, agent: str | None = None, **more: Any) -> Frame:
        """A response as one object."""
        answer = await self.post({"input": _messages(given), "stream": False, **more}, agent=agent)
        assert answer.status_code == 200, answer.text
        response: Frame = answer.json()
        return response

    async def refused(self, body: Any, *, agent: str | None = None) -> httpx.Response:
        """An answer that is an error in this protocol's form."""
        answer = await self.post(body, agent=agent)
        check_error(answer)
        return answer


def check_error(answer: httpx.Response) -> None:
    """The form of every error before a response."""
    assert answer.status_code >= 400
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["object"] == "error"
    assert body["error"] == {"code": body["code"], "message": body["message"]}


def _messages(given: Sequence[Any]) -> list[Any]:
    return [said(each) if isinstance(each, str) else each for each in given]


@contextlib.asynccontextmanager
async def agent_api_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = AGENTS, **more: Any
) -> AsyncGenerator[AgentApiScene]:
    """A gateway in this process. `more` as for `local_gateway`."""
    async with local_gateway(directory, agents, **more) as gateway:
        yield AgentApiScene(gateway)
