"""What a backend tool is, and the `ToolType` part that opens tools from an agent's configuration.

Below: messages, agent, events. A tool knows nothing of the loop, the wire or the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gateway.agent import ToolSettings
from gateway.clock import Clock
from gateway.http_client import HttpClients
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.search import SearchEngine


@dataclass(slots=True)
class SharedState:
    """The thread's state as one run sees it. Tools read `value` and call `replace`; the loop tells the viewers."""

    value: JsonValue
    changes: list[JsonValue] = field(default_factory=list)

    def replace(self, value: JsonValue) -> None:
        """Make `value` the state. It is not to be changed in place afterwards."""
        self.value = value
        self.changes.append(value)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a call comes from."""

    call_id: str
    owner: str
    thread_id: str
    run_id: str
    agent_id: str
    state: SharedState


class Tool(Protocol):
    """Something the gateway runs for a model."""

    @property
    def spec(self) -> ToolSpec:
        """As the model sees it."""

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        """Run once with arguments that fit the schema; give text and media blocks.

        Cancelling the call stops the work as far as it can be stopped. The loop puts the time limit on it.

        Raises:
            ToolError: it failed; the message is told to the model.
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


@dataclass(frozen=True, slots=True)
class ToolType:
    """A part: how the tools of one `type` are opened.

    `open` does no I/O; it raises ConfigurationError for parameters that can never work.
    """

    name: str
    open: Callable[[ToolSettings, ToolEnvironment], Toolbox]


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
