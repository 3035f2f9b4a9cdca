"""Runs of the ReAct loop for tests: a scripted model, tools that are coroutine functions, a clock that tests move.

run = LoopRun(responses=[[{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "3"}]], tools=[add])
events = await run.events()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.agent import AgentDefinition, Budgets, ContextEntry, ModelSettings
from gateway.event_order import Sealer
from gateway.events import (
    Event,
    Events,
    OpenInterrupt,
    Outcome,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolReturned,
)
from gateway.history.model_view import model_view
from gateway.loop import Decision, LoopContext
from gateway.loops.react import ReactLoop
from gateway.messages import ContentBlock, JsonObject, JsonValue, Message, TextBlock, ToolCall, ToolSpec
from gateway.model import Model, ModelRequest
from gateway.models.scripted import ScriptedModel, parse_script
from gateway.options.generation import NO_OPTIONS, GenerationOptions, ToolChoice
from gateway.tool import SharedState, Tool, ToolContext
from gateway.transcript import Transcript
from tests.agent_inputs import agent_input
from tests.movable_clock import MovableClock

DEADLINE_SECONDS = 10.0

EventT = TypeVar("EventT", bound=Event)
ToolFunction = Callable[[JsonObject, ToolContext], Awaitable[Any]]

NUMBERS: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}


@dataclass
class FunctionTool:
    """A backend tool that calls a coroutine function; text it returns becomes a text block, all else passes."""

    name: str
    function: ToolFunction
    schema: JsonObject = field(default_factory=dict)
    calls: list[JsonObject] = field(default_factory=list)
    server: str | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, f"The tool {self.name}.", self.schema, server=self.server)

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        self.calls.append(arguments)
        given: Any = await self.function(arguments, context)
        blocks: tuple[ContentBlock, ...] = (TextBlock(given),) if isinstance(given, str) else given
        return blocks


def adder() -> FunctionTool:
    async def add(arguments: JsonObject, context: ToolContext) -> str:
        a, b = arguments["a"], arguments["b"]
        assert isinstance(a, int | float)
        assert isinstance(b, int | float)
        return str(a + b)

    return FunctionTool("add", add, NUMBERS)


def tool_giving(name: str, text: str) -> FunctionTool:
    async def give(arguments: JsonObject, context: ToolContext) -> str:
        return text

    return FunctionTool(name, give)


class RecordingModel:
    """Passes everything on to a model and keeps what it was asked."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.provider = model.provider
        self.model_id = model.model_id
        self.capabilities = model.capabilities
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        return self._model.stream(request)

    async def close(self) -> None:
        await self._model.close()


def user(text: str, message_id: str = "u1") -> Message:
    return Message(message_id, "user", (TextBlock(text),))


class LoopRun:
    """One run: `events()` plays it to its end. Everything it was made of can be looked at afterwards."""

    def __init__(
        self,
        *,
        responses: Sequence[Sequence[JsonObject]] = (),
        rules: Sequence[JsonObject] = (),
        model: Model | None = None,
        tools: Sequence[FunctionTool] = (),
        frontend: Sequence[ToolSpec] = (),
        tool_choice: ToolChoice = "auto",
        approvals: Sequence[str] = (),
        messages: Sequence[Message] = (user("Hello"),),
        state: JsonValue = None,
        context: Sequence[ContextEntry] = (),
        budgets: Budgets | None = None,
        decisions: Sequence[Decision] = (),
        still_open: Sequence[OpenInterrupt] = (),
        system_prompt: str = "",
        instructions: str = "",
        selected_tools: tuple[str, ...] | None = None,
        options: GenerationOptions = NO_OPTIONS,
        clock: MovableClock | None = None,
    ) -> None:
        self.clock = clock or MovableClock()
        script: Any = {"responses": list(responses), "rules": list(rules)}
        self.model = RecordingModel(model or ScriptedModel(parse_script(script), self.clock))
        self.state = SharedState(state)
        by_name: dict[str, Tool] = {tool.name: tool for tool in tools}
        definition = AgentDefinition(
            "assistant",
            "Assistant",
            "conversational",
            ModelSettings("scripted", options=options),
            system_prompt=system_prompt,
            budgets=budgets or Budgets(),
        )
        self.context = LoopContext(
            agent=definition,
            input=agent_input(
                "thread",
                "run",
                tuple(messages),
                tools=tuple(frontend),
                context=tuple(context),
                state=state,
            ),
            owner="owner",
            model=self.model,
            tools=by_name,
            approvals=dict.fromkeys(approvals),
            messages=tuple(messages),
            state=self.state,
            clock=self.clock,
            decisions=tuple(decisions),
            still_open=tuple(still_open),
            tool_choice=tool_choice,
            instructions=instructions,
            selected_tools=selected_tools,
        )
        self.batches: list[Events] = []

    async def events(self) -> Events:
        """All events, which are in order as they leave the loop: the sealer has nothing to do."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._drive()
        events = self.so_far()
        sealer = Sealer()
        sealer.follow([RunStarted("thread", "run")])
        assert sealer.follow(list(events)) == events
        return events

    def start(self) -> asyncio.Task[Events]:
        """The run in a task of its own, for tests that move the clock."""
        return asyncio.create_task(self.events())

    def so_far(self) -> Events:
        return [event for batch in self.batches for event in batch]

    async def _drive(self) -> None:
        async with aclosing(ReactLoop().run(self.context)) as batches:
            async for batch in batches:
                assert batch
                self.batches.append(batch)

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests

    @property
    def outcome(self) -> Outcome:
        last = self.batches[-1][-1]
        assert isinstance(last, RunFinished)
        return last.outcome

    @property
    def results(self) -> list[ToolReturned]:
        return self.all_of(ToolReturned)

    @property
    def result_texts(self) -> list[str]:
        return [text_of(result.content) for result in self.results]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.all_of(TextDelta))

    def all_of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.so_far() if isinstance(event, kind)]

    @property
    def history(self) -> tuple[Message, ...]:
        """The thread's messages after the run."""
        transcript = Transcript()
        transcript.follow(self.so_far())
        return (*self.context.messages, *transcript.messages)


def text_of(content: Sequence[ContentBlock]) -> str:
    return "".join(block.text for block in content if isinstance(block, TextBlock))


def assert_valid_view(messages: Sequence[Message]) -> None:
    """Every call is followed at once by exactly one result, in call order; no result stands alone."""
    expected: list[str] = []
    for message in messages:
        if (result := message.tool_result) is not None:
            assert expected, f"an orphan result of {result.call_id}"
            assert result.call_id == expected.pop(0)
            continue
        assert not expected, f"no result of {expected}"
        if message.role == "assistant":
            expected = [call.call_id for call in message.tool_calls]
    assert not expected, f"no result of {expected}"


def view(messages: Sequence[Message]) -> tuple[Message, ...]:
    return model_view(messages)


def call(call_id: str, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments)
