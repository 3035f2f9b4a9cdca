"""What a loop is: how an agent type turns an input into events; and the `AgentType` part.

Below: the words, model, tool. Above: the run driver, which drives it and owns everything that outlives it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gateway.agent import AgentDefinition, AgentInput, Approvers
from gateway.clock import Clock
from gateway.events import Event, Events, OpenInterrupt
from gateway.frozen import quickly_made
from gateway.history.context_limits import KnownFits
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, Message, ToolCall
from gateway.model import Fallback, Model, OnRetry
from gateway.model_state import Conversation
from gateway.tool import SharedState, Tool
from gateway.traces import Span


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a call. Made only by `intake`, only from interrupts that were open on the thread.

    `arguments` replaces the model's arguments where the person edited them; already valid. `reason` goes to the model.
    """

    call: ToolCall
    approved: bool
    arguments: JsonObject | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A run as its log has it: what came `before` the answer under way, and what was `told` of that.

    `before` ends with the ModelCallStarted of the open call, and what failed tries of it reported.
    """

    before: tuple[Event, ...]
    told: tuple[Event, ...]
    response_id: str
    input: JsonObject


@quickly_made
@dataclass(frozen=True, slots=True)
class LoopContext:
    """Everything one run of a loop works with.

    `messages` is the thread's history, this run's input in it; `elsewhere` what was said in the thread's other
    conversations, where a stateful model keeps them apart. `tools` are the backend tools by name, `approvals` those
    that need a person first, with who that may be (see owners.may_approve). `input.tools` are the frontend tools that
    remain after name collisions. `decisions` are to be carried out before anything else; `still_open` interrupts, which
    the request left uncovered, end the run again after that. `fallback` are asked once `model` has failed; `fits` is
    what is known of threads that were too long for it. `conversation` is what the model's server holds, where it is
    stateful. `taken_up`: the run was begun by another process, and goes on in the middle of an answer. `is_left` tells
    whether this process gives the run up, so that another one can go on with it. `trace` is the run's span, for what
    the loop asks models and tools.
    """

    agent: AgentDefinition
    input: AgentInput
    owner: str
    model: Model
    tools: Mapping[str, Tool]
    approvals: Mapping[str, Approvers | None]
    messages: tuple[Message, ...]
    state: SharedState
    clock: Clock
    decisions: tuple[Decision, ...] = ()
    still_open: tuple[OpenInterrupt, ...] = ()
    on_retry: OnRetry | None = None
    fallback: Fallback = field(default_factory=Fallback)
    fits: KnownFits = field(default_factory=KnownFits)
    conversation: Conversation | None = None
    elsewhere: tuple[Message, ...] = ()
    taken_up: TakenUp | None = None
    is_left: Callable[[], bool] = bool
    trace: Span | None = None


class Loop(Protocol):
    """How one agent works. One object serves all of its runs at once: where a run stands is a local of `run`."""

    def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        """Batches of events, none empty, without RunStarted (the run driver's); the last event is RunFinished.

        The loop tells ModelCallStarted before each answer, and passes on what the model tells; ToolReturned and what
        tools did to the state come from turns.tool_turn. An outcome with open calls or interrupts ends the run: the
        next request has the results in its `messages`, or the `decisions`, and comes to a run of its own.

        Cancelling the run is cancelling the generator's task. Open texts and calls need not be closed: the sealer does.

        Raises:
            GatewayError: the run failed; the run driver makes it RunFailed.
        """


@dataclass(frozen=True, slots=True)
class LoopEnvironment:
    """What loops may use of the process. `directory` is where the configuration file is."""

    clock: Clock
    http: HttpClients
    directory: Path


@dataclass(frozen=True, slots=True)
class AgentType:
    """A part: how the loops of the agents of one `type` are opened, one for each agent.

    `open` does no I/O; it raises ConfigurationError for a definition that can never work.
    """

    name: str
    open: Callable[[AgentDefinition, LoopEnvironment], Loop]
