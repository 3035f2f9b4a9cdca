"""Handles the tool calls of a response before the model is asked again: each is run, refused or left open.

Below: tool_executions, tool_calls, loop. Above: the loops. A call of a backend tool is run here; if a person must
approve it first, it becomes an interrupt. A call of a frontend tool is pending: the browser runs it. A call that cannot
be run gets an error as its result, which the model reads. Results come in the order of the calls.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.clock import Deadline, DeadlineError
from gateway.errors import ToolError, limit_reached
from gateway.events import (
    Completed,
    Event,
    Events,
    Interrupt,
    Interrupted,
    Outcome,
    ToolCallStarted,
    ToolReturned,
    approval_id,
)
from gateway.frozen import replace
from gateway.history.model_view import open_calls
from gateway.loop import Decision, LoopContext
from gateway.messages import JsonObject, Message, ToolCall, ToolResult, new_message_id
from gateway.owners import OWN_KEY, may_approve
from gateway.records import dump_json
from gateway.tool import ConfiguredTool, Tool, ToolContext
from gateway.turns.state_changes import StateChanges
from gateway.turns.tool_calls import ArgumentChecks, CompiledSchemas, approval_schema, canonical_call
from gateway.turns.tool_executions import ToolExecutions, denied_result, error_result

# For a client that may not approve: it may only cancel the call.
_OTHERS_APPROVE: JsonObject = {"agui_gateway": {"approvers": "keys"}}

_MAY_HAVE_RUN = (
    "The server was restarted while this call was under way: it may have been carried out, and its result is lost. Find"
    " out before you call it again."
)


@dataclass(slots=True)
class _Repeat:
    """How often in a row a call had the same result; `refused_in` is the number of the model's response in which the
    call was first refused.
    """

    result: ToolResult | None = None
    count: int = 0
    refused_in: int | None = None


class ToolTurns:
    """The tool calls of one run, response by response, within its budgets.

    `specs` are all tools that its model may call. `calls_made` counts calls that were run or wait for a person.
    `limit_reached` names the budget that is used up, or is None; after that the model should get no tools.
    """

    def __init__(self, context: LoopContext, schemas: CompiledSchemas, deadline: Deadline) -> None:
        selected, tools = context.selected_tools, context.tools
        self._backend = tools if selected is None else {name: tools[name] for name in selected if name in tools}
        self.specs = (*(tool.spec for tool in self._backend.values()), *context.input.application.tools)
        self.calls_made = 0
        self.limit_reached: str | None = None
        self._context = context
        self._budgets = context.agent.budgets
        self._deadline = deadline
        self._frontend = {spec.name: spec for spec in context.input.application.tools}
        self._checks = ArgumentChecks(schemas)
        self._state_changes = StateChanges(context.state)
        self._repeats: dict[bytes, _Repeat] = {}
        self._keys: dict[str, bytes] = {}
        self._turn = 0
        self._begun = frozenset[str]() if context.resumed is None else context.resumed.begun
        self._pending: list[ToolCall] = []
        self._interrupts: list[Interrupt] = []

    def with_executors(self, events: Sequence[Event]) -> Events:
        """The model's events; those that begin a call say who runs the tool, and whether it has to wait for a
        person.
        """
        return [self._with_executor(event) if type(event) is ToolCallStarted else event for event in events]

    def _with_executor(self, call: ToolCallStarted) -> ToolCallStarted:
        tool = self._backend.get(call.name)
        if tool is not None:
            return replace(call, executor="backend", server=tool.spec.server, asks=call.name in self._context.approvals)
        return replace(call, executor="client" if call.name in self._frontend else "backend")

    def carry_out(self, decisions: Sequence[Decision]) -> AsyncGenerator[Events]:
        """Run the calls that a person approved, and give denied ones an error as result; in call order.

        Raises:
            DeadlineError: the time is up; all results were given before.
        """
        return self._results(partial(self._carry_out_all, decisions))

    def answer(self, calls: Sequence[ToolCall], *, refused_because: str = "") -> AsyncGenerator[Events]:
        """Run a response's backend calls and give their results; `outcome` names the calls left to the browser or a
        person.

        With `refused_because` none is run, and the model gets that reason.

        Raises:
            LimitError: the response has too many calls.
            DeadlineError: the time is up; all results were given before.
        """
        return self._results(partial(self._dispatch_all, calls, refused_because))

    def outcome(self) -> Outcome | None:
        """The outcome of a run in which the browser or a person has to act next; None if neither has to."""
        pending = tuple(self._pending)
        if self._interrupts:
            return Interrupted(tuple(self._interrupts), pending)
        return Completed(pending) if pending else None

    def has(self, name: str) -> bool:
        """Whether there is a tool of that name."""
        return name in self._backend or name in self._frontend

    def state_events(self) -> Events:
        """The changes to the shared state that no batch contains yet; a run's last batch begins with them."""
        return self._state_changes.take()

    # --- dispatching calls --------------------------------------------------------------------------------------------

    def _carry_out_all(self, decisions: Sequence[Decision], executions: ToolExecutions) -> None:
        calls = (call for message in self._context.messages for call in message.tool_calls)
        places = {call.call_id: place for place, call in enumerate(calls)}
        for decision in sorted(decisions, key=lambda decision: places.get(decision.call.call_id, 0)):
            self._carry_out(decision, executions)

    def _carry_out(self, decision: Decision, executions: ToolExecutions) -> None:
        call = decision.call
        if not decision.approved:
            executions.add_result(denied_result(call, decision.reason))
            return
        tool = self._context.tools.get(call.name)
        if tool is None:
            executions.add_result(error_result(call, f"There is no tool {call.name!r} any more. It was not run."))
            return
        try:
            if decision.arguments is None:
                arguments, note = self._checks.parse(tool.spec, call.arguments), ""
            else:
                arguments = decision.arguments
                changed = dump_json(arguments).decode()
                note = f"The user changed the arguments to {changed} before approving the call. It gave:\n"
        except ToolError as error:
            executions.add_result(error_result(call, error.message))
            return
        self._execute(executions, call, tool, arguments, note)

    def _dispatch_all(self, calls: Sequence[ToolCall], refused_because: str, executions: ToolExecutions) -> None:
        if len(calls) > self._budgets.max_calls_per_answer:
            raise limit_reached("max_calls_per_answer", self._budgets.max_calls_per_answer)
        self._turn += 1
        self._pending, self._interrupts = [], []
        for call in calls:
            self._dispatch(call, executions, refused_because)

    def _dispatch(self, call: ToolCall, executions: ToolExecutions, refused_because: str) -> None:
        """Run a call, refuse it with an error, or leave it to the browser or a person."""
        tool = self._backend.get(call.name)
        spec = tool.spec if tool is not None else self._frontend.get(call.name)
        try:
            # Refused frontend calls get a result too: clients run every closed call that has none.
            if refused_because:
                raise ToolError(f"This call was not run: {refused_because}.")
            if spec is None:
                raise ToolError(self._unknown_tool(call.name))
            if tool is None and self._context.input.terms.calls_as_written:
                self._pending.append(call)
                return
            arguments = self._checks.parse(spec, call.arguments, checked=tool is not None)
            if tool is None:
                self._pending.append(call)
                return
            self._refuse_repeated(call, canonical_call(spec.name, arguments))
            self._count_call()
        except ToolError as error:
            executions.add_result(error_result(call, error.message))
            return
        if call.name in self._context.approvals:
            self._interrupts.append(self._interrupt(call, tool))
        else:
            self._execute(executions, call, tool, arguments)

    def _unknown_tool(self, name: str) -> str:
        known = ", ".join(repr(spec.name) for spec in self.specs) or "none"
        return f"There is no tool {name[:200]!r}. The tools are: {known}."

    def _count_call(self) -> None:
        if self.calls_made >= self._budgets.max_tool_calls:
            self._reach_limit("max_tool_calls")
            raise ToolError(f"This call was not run: a run may call tools {self._budgets.max_tool_calls} times.")
        self.calls_made += 1

    def _reach_limit(self, name: str) -> None:
        if self.limit_reached is None:
            self.limit_reached = name

    def _refuse_repeated(self, call: ToolCall, key: bytes) -> None:
        """Refuse a call that keeps giving the same result: an error at first, the end of the run at the next
        repetition.
        """
        self._keys[call.call_id] = key
        repeat = self._repeats.setdefault(key, _Repeat())
        repeat.count += 1
        if repeat.count <= self._budgets.max_repeated_calls:
            return
        if repeat.refused_in is None:
            repeat.refused_in = self._turn
        elif repeat.refused_in != self._turn:
            self._reach_limit("max_repeated_calls")
        raise ToolError(
            "This call was not run: it was made with the same arguments before and gave the same result. Use that "
            "result, call with other arguments, or answer."
        )

    def _note_result(self, result: ToolResult) -> None:
        repeat = self._repeats.get(self._keys.get(result.call_id, b""))
        if repeat is None or repeat.refused_in is not None:
            return
        if repeat.result is not None and repeat.result.content != result.content:
            repeat.count = 1  # a different result is progress
        repeat.result = result

    def _interrupt(self, call: ToolCall, tool: Tool) -> Interrupt:
        message, metadata = f"The tool {call.name!r} needs your approval before it runs.", None
        approvers = self._context.approvals[call.name] or OWN_KEY
        if not may_approve(self._context.owner, approvers):
            message, metadata = f"The tool {call.name!r} waits for somebody else's approval.", dict(_OTHERS_APPROVE)
        return Interrupt(
            approval_id(call.call_id),
            "tool_call",
            message,
            call.call_id,
            approval_schema(tool.spec),
            self._context.clock.now() + self._budgets.approval_timeout_seconds,
            metadata,
            approvers,
        )

    # --- the calls under way

    def _execute(
        self, executions: ToolExecutions, call: ToolCall, tool: Tool, arguments: JsonObject, note: str = ""
    ) -> None:
        context = self._context
        if call.call_id in self._begun and not (isinstance(tool, ConfiguredTool) and tool.settings.idempotent):
            executions.add_result(error_result(call, _MAY_HAVE_RUN))
            return
        asked = context.input
        where = ToolContext(
            call.call_id,
            context.owner,
            asked.thread.id,
            asked.run_id,
            context.agent.id,
            context.state,
            executions.announcements,
            {} if context.conversation is None else context.conversation.state,
            asked.origin.request_id,
            context.trace,
        )
        executions.add(call, tool, arguments, where, note=note)

    async def _results(self, begin: Callable[[ToolExecutions], None]) -> AsyncGenerator[Events]:
        """The results of the calls that `begin` adds, in call order, each as soon as those before it are there, and
        after its announcements and state changes.
        """
        budgets = self._budgets
        async with ToolExecutions(
            self._context.clock, budgets.max_parallel_tools, budgets.tool_timeout_seconds, self._context.before_call
        ) as executions:
            begin(executions)
            try:
                while not executions.finished:
                    with self._deadline:
                        results = await executions.take()
                    if events := self._returned(executions, results):
                        yield events
            except DeadlineError:
                results = executions.give_up("This call was stopped: the time of the run was up.")
                if events := self._returned(executions, results):
                    yield events
                raise

    def _returned(self, executions: ToolExecutions, results: Iterable[ToolResult]) -> Events:
        events = [*executions.announcements.take(), *self._state_changes.take()]
        for result in results:
            self._note_result(result)
            events.append(ToolReturned(new_message_id(), result.call_id, result.content, result.is_error))
        return events


def calls_of(turn: Sequence[Message]) -> Sequence[ToolCall]:
    """The calls in the messages of one model response, in the model's order."""
    calls = {call.call_id: call for message in turn for call in message.tool_calls}
    return sorted(calls.values(), key=lambda call: call.index)


def open_outcome(context: LoopContext, messages: Sequence[Message]) -> Outcome | None:
    """The outcome of a run that must not ask the model, since these messages have open questions or frontend calls."""
    still_open = context.still_open
    pending = tuple(call for call in open_calls(messages) if call.name not in context.tools)
    if pending:
        out = {item.call.call_id for item in still_open} | context.waiting
        # A failed response's calls were never given to the browser.
        out |= {call.call_id for message in messages if message.incomplete for call in message.tool_calls}
        pending = tuple(call for call in pending if call.call_id not in out)
    if still_open:
        return Interrupted(tuple(item.interrupt for item in still_open), pending)
    return Completed(pending) if pending else None
