"""The contract of loops: how an agent type turns an input into events; and the `AgentType` part.

Below: events, messages, model, tool. Above: the run driver, which runs it and owns everything that outlives it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gateway.agent import AgentDefinition, AgentInput, Approvers
from gateway.clock import Clock
from gateway.events import Event, Events, OpenInterrupt
from gateway.frozen import quickly_made
from gateway.history.context_limits import FitCache
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, Message, ToolCall
from gateway.model import Fallback, Model, OnRetry
from gateway.model_state import Conversation
from gateway.options.generation import ToolChoice
from gateway.tool import SharedState, Tool
from gateway.traces import Span


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about a call. Only `intake` makes it, from interrupts that were open on the thread.

    `arguments` replaces the model's arguments if the person edited them; they are valid. `reason` goes to the model.
    """

    call: ToolCall
    approved: bool
    arguments: JsonObject | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """A run to resume, from its log. `input` is the part of its input that the log keeps.

    If its provider works on the response `response_id`: the events `before` the answer that was under way, and the
    events of that answer (`logged`). `before` ends with the ModelCallStarted of the open call, and the reports of its
    failed tries. Else `response_id` is None and `before` has all events: an answer that is cut off there is asked for
    again. `begun` are the calls whose tool was running: nobody knows whether they were carried out.
    """

    before: tuple[Event, ...]
    logged: tuple[Event, ...]
    response_id: str | None
    input: JsonObject
    begun: frozenset[str] = frozenset()


@quickly_made
@dataclass(frozen=True, slots=True)
class LoopContext:
    """Everything that one run of a loop works with.

    `messages` is the thread's history with this run's input; `elsewhere` has the messages of the thread's other
    conversations, if a stateful model keeps them apart. `tools` are the backend tools by name; `approvals` are the
    tools that need approval, each with who may approve (see owners.may_approve). `input.tools` are the frontend tools
    that remain after name collisions. `decisions` must be carried out before anything else. After that, `still_open`
    interrupts, which the request did not answer, end the run again. `waiting` are the calls that wait for a person at
    other agents: this run leaves them as they are. `fallback` models are asked once `model` has failed; `fits`
    remembers threads that were too long for it. `conversation` is the conversation at a stateful model's server.
    `resumed`: another process began the run, and it continues from its log. `is_left` tells whether this process gives
    the run up for another one to continue. `before_call` is to be awaited with the id of each call of a backend tool
    before it: it returns once this process surely has the run still, and others will know of the call. `trace` is the
    run's span, the parent of the loop's calls.

    `agent` contains the options of the request already, except these: `tool_choice` says which of `input.tools` the
    first answer has to call; `instructions` are shown to the model as the client's; the model may call only those of
    `tools` that `selected_tools` names, None: all.
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
    waiting: frozenset[str] = frozenset()
    on_retry: OnRetry | None = None
    fallback: Fallback = field(default_factory=Fallback)
    fits: FitCache = field(default_factory=FitCache)
    conversation: Conversation | None = None
    elsewhere: tuple[Message, ...] = ()
    resumed: ResumedRun | None = None
    is_left: Callable[[], bool] = bool
    before_call: Callable[[str], Awaitable[None]] | None = None
    trace: Span | None = None
    tool_choice: ToolChoice = "auto"
    instructions: str = ""
    selected_tools: tuple[str, ...] | None = None


class Loop(Protocol):
    """The work of one agent. One object serves all of its runs at once: a run's state is in the locals of `run`."""

    def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        """Batches of events, none empty, without RunStarted (the run driver's); the last event is RunFinished.

        The loop emits ModelCallStarted before each answer, and passes on the model's events, with the executor in each
        ToolCallStarted. The executor, ToolReturned and changes of the state come from turns.tool_turn. An outcome with
        open calls or interrupts ends the run: the next request is a run of its own, with the results in its `messages`,
        or the `decisions`.

        Cancelling the run cancels the generator's task. Open texts and calls need not be closed: the sealer does that.

        Raises:
            GatewayError: the run failed; the run driver makes it RunFailed.
        """


@dataclass(frozen=True, slots=True)
class LoopEnvironment:
    """The process's resources for loops. `directory` is the folder of the configuration file."""

    clock: Clock
    http: HttpClients
    directory: Path


@dataclass(frozen=True, slots=True)
class AgentType:
    """A part: opens the loops of the agents of one `type`, one for each agent.

    `open` does no I/O; it raises ConfigurationError for a definition that can never work. `goes_on`: the loops obey
    `LoopContext.resumed`, so a run can go on in another process.
    """

    name: str
    open: Callable[[AgentDefinition, LoopEnvironment], Loop]
    goes_on: bool = False
