"""What a backend tool is, and the `ToolType` part that opens tools from an agent's configuration.

Below: messages, agent, tool_output. A tool knows nothing of the loop, the wire or the model. Tools that others write
import from here alone: `ToolContext`, and `ToolError` for what they have to say when they fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

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
    """The thread's state as one run sees it. Tools read `value` and call `replace`; the loop tells the viewers."""

    value: JsonValue
    changes: list[JsonValue] = field(default_factory=list)

    def replace(self, value: JsonValue) -> None:
        """Make `value` the state. It is not to be changed in place afterwards."""
        self.value = value
        self.changes.append(value)


class Announcements:
    """What the tools of one run announced and viewers have not been told. Made on the event loop, fed from anywhere."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: Events = []
        self._waiter: asyncio.Future[None] | None = None

    def add(self, event: Announcement) -> None:
        """Announce, from any thread."""
        self._events.append(event)
        self._loop.call_soon_threadsafe(self._wake)

    def take(self) -> Events:
        """What was announced since the last take."""
        events, self._events = self._events, []
        return events

    async def wait_beside(self, other: asyncio.Future[ResultT]) -> None:
        """Until something is announced or `other` is done."""
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
    """Where a call comes from, and the way to the viewers while it is under way.

    `model_state`: what a stateful model's server holds of the agent's conversations in this thread; empty for others.
    `request_id` is that of the request that began the run, as the log has it; empty where another process began it.
    `trace` is the span of the call, where traces are collected: its headers go with what the tool asks elsewhere.
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
        """Let viewers see a step, an activity or an application's own event now, before the result. From any thread.

        Its values become JSON as results do.

        Raises:
            ToolError: it is none of these, or clients would refuse it.
        """
        event = announced(event)
        if self.announcements is not None:
            self.announcements.add(event)


class Tool(Protocol):
    """Something the gateway runs for a model."""

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        """Run once with arguments that fit the schema; give text and media blocks.

        Cancelling the call stops the work as far as it can be stopped. The loop puts the time limit on it.

        Raises:
            ToolError: it failed; the message is told to the model and to viewers. Of any other exception they are told
                that there was one, see tool_failures.
        """


class Toolbox(Protocol):
    """What one entry of an agent's `tools` opened to: usually one tool, for a tool server all of its tools."""

    async def tools(self) -> tuple[Tool, ...]:
        """The tools there are at present; fewer, or none, while their server is down. Never raises for that."""

    def problem(self) -> str | None:
        """Why tools are missing at present, for readiness and the log; None when all is well."""

    async def close(self) -> None:
        """Let go of connections and processes."""


@dataclass(frozen=True, slots=True)
class ToolEnvironment:
    """What tools may use of the process. `directory` is where the configuration file is."""

    clock: Clock
    http: HttpClients
    directory: Path
    search: SearchEngine | None

    def search_engine(self, tool: str) -> SearchEngine:
        """What is configured to search in.

        Raises:
            ConfigurationError: nothing is; `tool`, as messages speak of it, needs it.
        """
        if self.search is None:
            hint = "add 'search: embedded:sample' to the configuration"
            raise ConfigurationError(f"the tool {tool} needs a search engine; {hint}")
        return self.search


@dataclass(frozen=True, slots=True)
class ToolType:
    """A part: how the tools of one `type` are opened.

    `open` does no I/O; it raises ConfigurationError for parameters that can never work. `from_callers`: agents that
    callers make may have such tools too; what they reach, they reach by the environment's `http`.
    """

    name: str
    open: Callable[[ToolSettings, ToolEnvironment], Toolbox]
    from_callers: bool = False


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
