"""Agents are added, changed and removed fifty times while two hundred streams are open: nobody notices."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import ToolSettings
from gateway.configuration.known_parts import KnownParts, known_parts
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, TextBlock, ToolSpec
from gateway.server.reloading import Reloading
from gateway.settings import Flags
from gateway.tool import Tool, ToolContext, ToolEnvironment, ToolType
from tests.running_gateway import (
    Frame,
    GatewayClient,
    LocalGateway,
    OpenStream,
    agent,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until, until_answered

RELOADS = 50
AT_FIRST = 50  # streams on each of the two agents of the beginning; each reload opens two more
ALL = 2 * AT_FIRST + 2 * RELOADS
DEADLINE_SECONDS = 55.0
# Before the last reload a stream has said one half, after it the other one.
SPEAKS = scripted([{"text": "before "}, {"tool": "wait", "arguments": {}}], [{"text": "after"}])
STORE = "sqlite:///gateway.db"
WAIT = ToolSpec("wait", "Wait.", {"type": "object", "properties": {}})


@dataclass
class Clients:
    """What toolboxes hold while they are open, and what is waited for."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    connect: asyncio.Event = field(default_factory=asyncio.Event)
    opened: int = 0
    open: int = 0
    closed_again: int = 0

    def parts(self) -> KnownParts:
        """All parts, and a tool type whose toolboxes are these."""

        def open_client(settings: ToolSettings, environment: ToolEnvironment) -> Client:
            return Client(self)

        parts = known_parts()
        return dataclasses.replace(parts, tools={**parts.tools, "Client": ToolType("Client", open_client)})


@dataclass
class Client:
    """A toolbox as a tool server's: it connects when it is first asked for its tools."""

    clients: Clients
    state: str = "new"
    spec: ToolSpec = WAIT

    async def tools(self) -> tuple[Tool, ...]:
        await self.clients.connect.wait()
        if self.state != "open":
            self.clients.opened += 1
            self.clients.open += 1
            self.state = "open"
        return (self,)

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        await self.clients.go_on.wait()
        if self.state != "open":
            raise ToolError("the client was closed while its tool ran")
        return (TextBlock("waited"),)

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        if self.state == "closed":
            self.clients.closed_again += 1
        elif self.state == "open":
            self.clients.open -= 1
        self.state = "closed"


def of_round(number: int) -> list[Mapping[str, Any]]:
    """One agent that stays, one that changes, and one that is there for this round alone."""
    more: dict[str, Any] = {"tools": [{"type": "Client"}], "parameters": {"tool_timeout_seconds": 120}}
    return [
        agent("stays", SPEAKS, **more),
        agent("changes", SPEAKS, description=f"round {number}", **more),
        agent(f"only-{number}", SPEAKS, **more),
    ]


@dataclass
class Load:
    directory: Path
    gateway: LocalGateway
    stack: AsyncExitStack
    clients: list[GatewayClient]
    streams: list[OpenStream] = field(default_factory=list)

    async def begin(self, agent_id: str) -> None:
        """One more stream, read up to its first words."""
        number = len(self.streams)
        client = self.clients[number * len(self.clients) // ALL]
        body = run_body(thread_id=f"thread-{number}", run_id=f"run-{number}")
        stream = await self.stack.enter_async_context(client.stream(agent_id, body))
        assert stream.response.status_code == 200, await stream.response.aread()
        self.streams.append(stream)
        await stream.until("TOOL_CALL_END")

    async def reload(self, reloading: Reloading, agents: list[Mapping[str, Any]]) -> None:
        """Change the file, have it read, and wait until these are the agents."""
        write_configuration(self.directory, agents, store=STORE)
        reloading.ask()
        wanted = [(each["id"], each.get("description", "")) for each in agents]
        await until_answered(
            lambda: self.gateway.client.get("/agents"),
            lambda answer: [(each["id"], each["description"]) for each in answer["agents"]] == wanted,
        )


def undisturbed(frames: list[Frame]) -> tuple[bool, str, str]:
    """Whether the events are in order and none came twice, what was said, and how it ended."""
    numbers = [frame.id for frame in frames if frame.id is not None]
    words = "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")
    results = [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]
    return numbers == sorted(set(numbers)), "".join([words, *results]), frames[-1].type


@pytest.mark.thorough
async def test_two_hundred_streams_do_not_notice_fifty_reloads_and_no_client_is_left_open(tmp_path: Path) -> None:
    clients = Clients()
    clients.connect.set()
    parts = clients.parts()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        local_gateway(tmp_path, of_round(0), parts=parts, store=STORE) as gateway,
        AsyncExitStack() as stack,
    ):
        speakers = [GatewayClient(gateway.client.base_url) for _ in range(4)]  # one has a hundred connections at most
        for speaker in speakers:
            stack.push_async_callback(speaker.close)
        load = Load(tmp_path, gateway, stack, speakers)
        reloading = Reloading(gateway.application, Flags())
        for _ in range(AT_FIRST):
            await load.begin("stays")
            await load.begin("changes")
        for number in range(1, RELOADS + 1):
            await load.reload(reloading, of_round(number))
            await load.begin("changes")
            await load.begin(f"only-{number}")
        assert len(load.streams) == ALL
        assert clients.open == 1 + (RELOADS + 1) + RELOADS, "each has a run, but the first of those for one round"

        clients.go_on.set()
        ends = await asyncio.gather(*(stream.rest() for stream in load.streams))
        assert Counter(map(undisturbed, ends)) == {(True, "before afterwaited", "RUN_FINISHED"): ALL}

        await until(lambda: clients.open == 3)  # those of the agents that there are
        await load.reload(reloading, [])
        await until(lambda: clients.open == 0)
        assert (clients.opened, clients.closed_again) == (1 + (RELOADS + 1) + (RELOADS + 1), 0)
        await reloading.close()


async def test_an_agent_that_goes_while_its_tools_are_first_asked_for_is_closed_after_that(tmp_path: Path) -> None:
    clients = Clients()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        local_gateway(tmp_path, of_round(0), parts=clients.parts(), store=STORE) as gateway,
        AsyncExitStack() as stack,
    ):
        load = Load(tmp_path, gateway, stack, [])
        reloading = Reloading(gateway.application, Flags())
        await load.reload(reloading, [])
        clients.connect.set()
        await until(lambda: clients.opened == 3)
        await until(lambda: clients.open == 0)
        await reloading.close()
