"""A gateway whose agents are asked over A2A, by JSON-RPC and by REST.

    async with a2a_gateway(tmp_path) as a2a:
        task = (await a2a.call("SendMessage", said("hello")))["task"]

The agents play the scripts of `openai_scene`, so that every answer is known. Real sockets, loopback only.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.openai_scene import AGENTS
from tests.running_gateway import GatewayClient, LocalGateway, OpenStream, local_gateway
from tests.waiting import until_answered

DEFAULT: Final = "/a2a"


def of_agent(agent_id: str) -> str:
    """Where an agent is served."""
    return f"/agents/{agent_id}/a2a"


def said(text: str, *, message_id: str = "", configuration: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """SendMessage's parameters: a user's words. `more` are members of the message."""
    return sent([{"text": text}], message_id=message_id, configuration=configuration, **more)


_numbers = itertools.count(1)


def sent(
    parts: Sequence[Mapping[str, Any]],
    *,
    message_id: str = "",
    configuration: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """SendMessage's parameters. Without an id the message has a new one."""
    message = {"messageId": message_id or f"message-{next(_numbers)}", "role": "ROLE_USER", "parts": parts, **more}
    return {"message": message, **({"configuration": configuration} if configuration is not None else {})}


def words_of(task: Mapping[str, Any]) -> str:
    """The texts of a task's artifacts."""
    return "".join(part.get("text", "") for artifact in task.get("artifacts", ()) for part in artifact["parts"])


def state_of(task: Mapping[str, Any]) -> str:
    state: str = task["status"]["state"]
    return state.removeprefix("TASK_STATE_")


@dataclass(slots=True)
class A2AClient:
    """`headers` are sent with every request."""

    client: GatewayClient
    headers: dict[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def http(self) -> httpx.AsyncClient:
        return self.client.http

    async def post(self, content: Any, *, to: str = DEFAULT, **headers: str) -> httpx.Response:
        """The answer to a body that is sent as it is, as JSON."""
        return await self.http.post(to, json=content, headers={**self.headers, **headers})

    async def answer(self, method: str, params: Any, *, to: str = DEFAULT, **headers: str) -> Any:
        """A call's whole answer."""
        response = await self.post(_call(method, params), to=to, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def call(self, method: str, params: Any, *, to: str = DEFAULT, **headers: str) -> Any:
        """A call's result."""
        answer = await self.answer(method, params, to=to, **headers)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Any, *, to: str = DEFAULT, **headers: str) -> Any:
        """A call's error."""
        answer = await self.answer(method, params, to=to, **headers)
        assert "error" in answer, answer
        return answer["error"]

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, params: Any, *, to: str = DEFAULT, **headers: str
    ) -> AsyncGenerator[OpenStream]:
        """The stream of a call, open until the block is left."""
        request = self.http.stream("POST", to, json=_call(method, params), headers={**self.headers, **headers})
        async with request as response:
            assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
            yield OpenStream(response)

    async def frames(self, method: str, params: Any, *, to: str = DEFAULT, **headers: str) -> list[Any]:
        """The results in the frames of a call's stream, to its end."""
        async with self.stream(method, params, to=to, **headers) as stream:
            return results(await stream.rest())

    async def task(self, task_id: str) -> Any:
        """A task as it is now."""
        return await self.call("GetTask", {"id": task_id})

    async def until(self, task_id: str, *states: str) -> Any:
        """A task once it is in one of these states."""
        return await until_answered(lambda: self.task(task_id), lambda task: state_of(task) in states)


@dataclass(slots=True)
class A2AScene(A2AClient):
    gateway: LocalGateway


def results(frames: Sequence[Any]) -> list[Any]:
    """What frames of JSON-RPC carry."""
    return [frame.data["result"] for frame in frames]


def _call(method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@contextlib.asynccontextmanager
async def a2a_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = AGENTS, **more: Any
) -> AsyncGenerator[A2AScene]:
    """A gateway in this process. `more` as for `local_gateway`."""
    async with local_gateway(directory, agents, **more) as gateway:
        yield A2AScene(gateway.client, gateway)


async def waiting_task(a2a: A2AScene) -> Any:
    """A task that waits for an approval."""
    return (await a2a.call("SendMessage", said("refund"), to=of_agent("refunder")))["task"]


async def asked_in(a2a: A2AScene, context_id: str) -> list[str]:
    """The ids of the questions that are open in a context."""
    thread = await a2a.gateway.application.store.load_thread("local", context_id)
    assert thread is not None
    return [item.interrupt.id for item in thread.interrupts]
