"""The contract of backend tools, and the `ToolType` part that opens tools from an agent's configuration.

Below: messages, agent, tool_output. A tool does not know the loop, the wire or the model. Foreign tools need only this
module: `ToolContext`, and `ToolError` for their error messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel

from gateway.agent import ToolSettings
from gateway.clock import Clock
from gateway.errors import ConfigurationError
from gateway.errors import ToolError as ToolError
from gateway.events import Events
from gateway.frozen import quickly_made
from gateway.http_client.clients import HttpClients
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.model_state import ModelState
from gateway.search_engine import SearchEngine
from gateway.tool_output import Announcement, announced
from gateway.traces import Span

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class SharedState:
    """The thread's state during one run. Tools read `value` and call `replace`; the loop tells the viewers."""

    value: JsonValue
    changes: list[JsonValue] = field(default_factory=list)

    def replace(self, value: JsonValue) -> None:
        """Make `value` the state. It must not be changed in place afterwards."""
        self.value = value
        self.changes.append(value)


class Announcements:
    """Announcements of a run's tools that viewers have not got yet. Made on the event loop, filled from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: Events = []
        self._waiter: asyncio.Future[None] | None = None

    def add(self, event: Announcement) -> None:
        """Announce, from any thread."""
        self._events.append(event)
        self._loop.call_soon_threadsafe(self._wake)

    def take(self) -> Events:
        """The announcements since the last take."""
        events, self._events = self._events, []
        return events

    async def wait_beside(self, other: asyncio.Future[ResultT]) -> None:
        """Wait until something is announced or `other` is done."""
        if self._events or other.done():
            return
        self._waiter = self._loop.create_future()
        await asyncio.wait((self._waiter, other), return_when=asyncio.FIRST_COMPLETED)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolContext:
    """A call's context, and its way to show events while it runs.

    `model_state`: the state of the agent's conversations in this thread at a stateful model's server; empty for other
    models. `request_id` is the id in the log of the request that began the run; empty if another process began it.
    `trace` is the call's span, if traces are collected: its headers go with the tool's own requests.
    """

    call_id: str
    owner: str
    thread_id: str
    run_id: str
    agent_id: str
    state: SharedState
    announcements: Announcements | None = None
    model_state: ModelState = field(default_factory=dict)
    request_id: str = ""
    trace: Span | None = field(default=None, compare=False, repr=False)

    def announce(self, event: Announcement) -> None:
        """Show viewers a step, an activity or an application's own event now, before the result. From any thread.

        Its values become JSON as results do.

        Raises:
            ToolError: the event is of another kind, or clients would refuse it.
        """
        event = announced(event)
        if self.announcements is not None:
            self.announcements.add(event)


class Tool(Protocol):
    """Something the gateway runs for a model."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        """Run once with arguments that fit the schema; gives text and media blocks.

        Cancelling the call stops the work as far as possible. The loop enforces the time limit.

        Raises:
            ToolError: it failed; the model and viewers get the message. Of any other exception they only learn that
            there was one, see tool_failures.
        """


@dataclass(frozen=True, slots=True)
class ConfiguredTool:
    """A tool with those of its settings that count while it is called: `expose_errors` and `idempotent`."""

    tool: Tool
    settings: ToolSettings

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        return await self.tool.call(arguments, context)


class Toolbox(Protocol):
    """The tools of one entry of an agent's `tools`: usually one tool, for a tool server all of its tools."""

    async def tools(self) -> tuple[Tool, ...]:
        """The tools available at present; fewer, or none, while their server is down. Never raises for that."""

    def problem(self) -> str | None:
        """Why tools are missing at present, for readiness and the log; None if none are."""

    async def close(self) -> None:
        """Close connections and processes."""


@dataclass(frozen=True, slots=True)
class ToolEnvironment:
    """The process's resources for tools. `directory` is the folder of the configuration file."""

    clock: Clock
    http: HttpClients
    directory: Path
    search: SearchEngine | None

    def search_engine(self, tool: str, *, plugin: str = "") -> SearchEngine:
        """The configured search engine. `plugin`: what the tool needs of OpenSearch's plugins.

        Raises:
            ConfigurationError: there is none, or it has no plugins; the message names `tool`, which needs it.
        """
        if self.search is None:
            hint = "add 'search: embedded:sample' to the configuration"
            raise ConfigurationError(f"the tool {tool} needs a search engine; {hint}")
        if plugin and not self.search.has_plugins:
            hint = "search: {url: 'opensearch://HOST:9200', indices: ['books-*']}"
            raise ConfigurationError(
                f"the tool {tool} needs a cluster with the plugin {plugin!r}; name one by '{hint}'"
            )
        return self.search


@dataclass(frozen=True, slots=True)
class ToolType:
    """A part: opens the tools of one `type`.

    `open` does no I/O; it raises ConfigurationError for parameters that can never work. `from_callers`: agents that
    callers make may have such tools too; they send all requests by the environment's `http`. `of_server`: if an entry
    of this type stands for all tools of a server, their description; empty for a type with one tool. `parameters`: the
    model of the entry's `parameters`, by which `config schema` describes them; None: any are accepted there.
    """

    name: str
    open: Callable[[ToolSettings, ToolEnvironment], Toolbox]
    from_callers: bool = False
    of_server: str = ""
    parameters: type[BaseModel] | None = None


@dataclass(frozen=True, slots=True)
class SingleTool:
    """A toolbox with one tool in it and nothing to close."""

    tool: Tool

    async def tools(self) -> tuple[Tool, ...]:
        return (self.tool,)

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        return None
