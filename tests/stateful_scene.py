"""Agents whose provider keeps their conversations, before a server that keeps them as the real one does.

    async with stateful_scene(tmp_path) as scene:
        scene.server.will_answer(message_item("Hello"))
        await scene.say("Hi")
        assert scene.shown() == [("user", "Hi")]

What the model was shown is the test's word on everything: each message once, in order, whatever was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.tool import ToolContext
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY
from tests.fault_scenes import SERVER, fault_tool
from tests.observed_runs import Observed, observe, thread_messages
from tests.openai_chat_server import Received
from tests.responses_server import ResponsesServer, responses_server
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body

DEADLINE_SECONDS = 30
PICK = {"name": "pick", "description": "Pick.", "parameters": {"type": "object", "properties": {}}}
ADDING = ("add", '{"a":1,"b":2}')  # a call that gives 3.0

Said = tuple[str, ...]


def openai_model(server: ResponsesServer, **more: Any) -> dict[str, Any]:
    """A `model` block."""
    model = {"model_provider": "openai/v1/responses", "model_id": "gpt-5.6", "endpoint": server.endpoint}
    return {**model, "stateful": True, **more}


def bedrock_model(server: ResponsesServer, **more: Any) -> dict[str, Any]:
    """A `model` block, on Mantle."""
    return {
        "model_provider": "bedrock",
        "api": "responses",
        "model_id": "openai.gpt-5.6-luna",
        "endpoint": f"http://127.0.0.1:{server.port}",
        "region": REGION,
        "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
        "stateful": True,
        **more,
    }


def user(text: str) -> dict[str, Any]:
    return {"id": f"u-{text}", "role": "user", "content": text}


async def held(context: ToolContext) -> str:
    """Tell what the server holds."""
    return " ".join(f"{name}:{chain.responses[-1].response_id}" for name, chain in context.model_state.items())


def agents_of(server: ResponsesServer) -> list[dict[str, Any]]:
    """Two stateful ones, one that is told everything, and what tests ask for beside them."""
    tools = [fault_tool("add"), fault_tool("stuck")]
    held = {"type": "PythonTool", "name": "held", "parameters": {"function": "tests.stateful_scene:held"}}
    return [
        agent("openai", openai_model(server), tools=tools),
        agent("bedrock", bedrock_model(server), tools=tools),
        agent("plain", openai_model(server, stateful=False), tools=tools),
        agent("curious", openai_model(server), tools=[held]),
        agent("queueing", openai_model(server), on_concurrent_run="enqueue", history="append"),
    ]


def said(items: Sequence[Mapping[str, Any]]) -> list[Said]:
    """What a conversation comes to, as the model sees it."""
    return [_said(item) for item in items]


def _said(item: Mapping[str, Any]) -> Said:
    match item["type"]:
        case "message":
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            return (item["role"], text)
        case "function_call":
            return ("call", item["name"], item["call_id"])
        case "function_call_output":
            return ("output", item["output"], item["call_id"])
        case kind:
            return (kind,)


@dataclass
class StatefulScene:
    """A gateway, the server behind it, and a client that sends all it knows each time."""

    gateway: LocalGateway
    server: ResponsesServer
    agent_id: str = "openai"
    thread_id: str = "t"
    _runs: int = field(default=0)

    async def run(
        self, *new: Mapping[str, Any], known: Sequence[Any] | None = None, agent_id: str | None = None, **more: Any
    ) -> Observed:
        """One run. `known`: what the client holds already; what the thread has, unless given."""
        known = await self.messages() if known is None else known
        self._runs += 1
        run_id = f"{self.thread_id}-{self._runs}"
        body = run_body(run_id=run_id, thread_id=self.thread_id, messages=[*known, *new], tools=[PICK], **more)
        return await observe(self.gateway, agent_id or self.agent_id, body)

    async def say(self, text: str, **more: Any) -> Observed:
        """One run with one new user message."""
        return await self.run({"id": f"u-{text}", "role": "user", "content": text}, **more)

    async def messages(self) -> list[dict[str, Any]]:
        """The thread as the gateway has it; empty where there is none yet."""
        found = await self.gateway.client.http.get(f"/threads/{self.thread_id}/messages")
        return [] if found.status_code == 404 else await thread_messages(self.gateway, self.thread_id)

    def shown(self, number: int = -1) -> list[Said]:
        """What the model was shown for a response."""
        return said(self.server.seen(number))

    def sent(self, number: int = -1) -> tuple[str | None, list[Said]]:
        """What a request for a response continued, and what it brought."""
        asked = [each for each in self.server.requests if each.method == "POST" and each.target.endswith("/responses")]
        return sent_in(asked[number])

    def answered(self, number: int = -1) -> str:
        """The id of a response."""
        return self.server.asked[number].id


def sent_in(request: Received) -> tuple[str | None, list[Said]]:
    body = request.json
    items = [item if "type" in item else {"type": "message", **item} for item in body["input"]]
    return body.get("previous_response_id"), said(items)


@asynccontextmanager
async def stateful_gateway(directory: Path, server: ResponsesServer, **more: Any) -> AsyncGenerator[StatefulScene]:
    """A gateway before a server that is there already."""
    async with local_gateway(directory, agents_of(server), server=SERVER, **more) as gateway:
        yield StatefulScene(gateway, server)


@asynccontextmanager
async def stateful_scene(directory: Path, **more: Any) -> AsyncGenerator[StatefulScene]:
    """A gateway and its server."""
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        responses_server() as server,
        stateful_gateway(directory, server, **more) as scene,
    ):
        yield scene
