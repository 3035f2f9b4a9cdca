"""The hybrid ReAct loop: the model reasons and calls tools until it answers, or until a tool is not ours to run.

Below: model, tool, history, transcript. Above: the run driver. Backend tools run here; a frontend tool is a spec
without a tool behind it, and a call of one ends the run with the call pending; a call that needs a person ends it with
a question. Nothing waits across requests: the next request finds in the thread's messages where things stand.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from gateway.agent import AgentDefinition
from gateway.deadline import Deadline, DeadlineError
from gateway.errors import LimitError, ModelError, ModelErrorKind, ToolError, limit_reached
from gateway.events import (
    Completed,
    Event,
    Events,
    Incomplete,
    Interrupt,
    Interrupted,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    RunFinished,
    StopReason,
    TextDelta,
    ToolReturned,
    said_bytes,
)
from gateway.history import open_calls
from gateway.known_thread import KnownThread, SettledView, turns_of
from gateway.loop import AgentType, Decision, LoopContext, LoopEnvironment, TakenUp
from gateway.messages import JsonObject, Message, ToolCall, ToolResult, new_id, new_message_id
from gateway.model import ModelRequest, OneTool, ToolChoice
from gateway.owners import may_approve
from gateway.records import dump_json
from gateway.tool import Tool, ToolContext
from gateway.transcript import Transcript
from gateway.turns.attempts import TriedStream, stream_with_retries
from gateway.turns.client_words import ClientWords, client_words, own_messages
from gateway.turns.context_reduction import ShortenedHistory
from gateway.turns.prompt import system_text
from gateway.turns.resumption import Retold, kept_input
from gateway.turns.state_changes import StateChanges
from gateway.turns.tool_calls import ArgumentChecks, CompiledSchemas, approval_schema, canonical_call
from gateway.turns.tool_executions import ToolExecutions, error_result
from gateway.usage import UsageLedger

logger = logging.getLogger(__name__)

# Reasons after which a response is not what the model meant to say: none of its calls is run.
_CUT_OFF = frozenset(
    {StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER, StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW}
)

_WHOLE = frozenset({StopReason.END_TURN, StopReason.TOOL_CALLS, StopReason.STOP_SEQUENCE})

_SUMMARIZE = (
    "A limit of this run is reached ({limit}): no tool can be called any more. Answer the user now from what is known "
    "so far, and say what could not be done."
)
# What a client is told whose own approval would be refused: it may only cancel the call.
_OTHERS_APPROVE: JsonObject = {"agui_gateway": {"approvers": "keys"}}
_ANSWER = "Your last response was empty. Answer the user now."


class ReactLoop:
    """Serves all runs of an agent."""

    def __init__(self) -> None:
        self._schemas = CompiledSchemas()

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        """As loop.Loop says. The model's batches pass through as they are.

        Raises:
            ModelError: the model failed.
            LimitError: a budget is used up and there was no answer even without tools.
        """
        run = _Run(context, self._schemas)
        deadline = run.deadline
        try:
            if context.decisions:
                async with aclosing(run.carry_out(context.decisions)) as batches:
                    async for batch in batches:
                        yield batch
            outcome = None
            if context.taken_up is not None:
                run.recall(context.taken_up)
            else:
                outcome = run.outcome_before_model()
            while outcome is None:
                # Not a generator of its own: this is the hot path, and every layer costs each batch a switch.
                async with aclosing(run.ask_model()) as responses:
                    with deadline:
                        while True:  # without what `async for` asks the iterator's class for each time
                            try:
                                response = await responses.__anext__()
                            except StopAsyncIteration:
                                break
                            if events := run.follow_model(response):
                                deadline.pause()
                                yield events
                                deadline.resume()
                if run.made_calls():
                    async with aclosing(run.answer_calls()) as batches:
                        async for batch in batches:
                            yield batch
                outcome = run.outcome_after_turn()
            yield run.finish(outcome)
        except DeadlineError as error:
            raise run.limit_error("max_run_seconds") from error
        except ModelError as error:
            if run.limit is None:
                raise
            raise run.limit_error(run.limit) from error
        finally:
            deadline.close()


@dataclass(slots=True)
class _Repeat:
    """How often in a row a call was made with the same outcome; `refused_in` is the turn it was first refused in."""

    result: ToolResult | None = None
    count: int = 0
    refused_in: int | None = None


class _Run:
    """Where one run stands."""

    def __init__(self, context: LoopContext, schemas: CompiledSchemas) -> None:
        self._context = context
        self._budgets = context.agent.budgets
        self.deadline = Deadline(context.clock, self._budgets.max_run_seconds)
        self.limit: str | None = None  # the budget that is used up: the next model call is the last, without tools
        settings = context.agent.context
        thread = (context.owner, context.input.thread_id)
        self._history = ShortenedHistory(settings.limits, settings.summarize, context.fits, thread)
        self._frontend = {spec.name: spec for spec in context.input.tools}
        self._specs = (*(tool.spec for tool in context.tools.values()), *context.input.tools)
        self._known = context.input.known or KnownThread()
        self._transcript = Transcript(turns_of(self._known.own_calls(context.messages)))
        self._ledger = UsageLedger()
        self._state_changes = StateChanges(context.state)
        self._checks = ArgumentChecks(schemas)
        self._repeats: dict[bytes, _Repeat] = {}
        self._keys: dict[str, bytes] = {}
        self._model_calls = 0
        self._tool_calls = 0
        self._prompted_again = False
        self._said_nothing = False
        # the turn under way
        self._run_room = self._budgets.max_run_bytes  # what is left of it, but for the answer under way
        self._answer_room = 0  # how many bytes that may have
        self._room = 0  # and how many of them are left
        self._turn_id = ""
        self._turn: Sequence[Message] = ()  # what the model said in it
        self._summarizing = False
        self._asked: tuple[Message, ...] = ()
        self._own_messages = own_messages(context)
        self._words = ClientWords()
        self._settled: SettledView | None = None
        self._accepted: str | None = None  # the response that is under way already
        self._retold: Retold | None = None
        self._opening: Event | None = None
        self._reason: StopReason | None = None
        self._calls: Sequence[ToolCall] = ()
        self._pending: list[ToolCall] = []
        self._interrupts: list[Interrupt] = []

    # --- before the model -----------------------------------------------------------------------------------------

    async def carry_out(self, decisions: Sequence[Decision]) -> AsyncGenerator[Events]:
        """Run what a person approved, tell the model what was denied; in call order."""
        places = {call.call_id: place for place, call in enumerate(_all_calls(self._context.messages))}
        async with self._executions() as executions:
            for decision in sorted(decisions, key=lambda decision: places.get(decision.call.call_id, 0)):
                self._carry_out(decision, executions)
            async with aclosing(self._results(executions)) as batches:
                async for batch in batches:
                    yield batch

    def _carry_out(self, decision: Decision, executions: ToolExecutions) -> None:
        call = decision.call
        if not decision.approved:
            reason = f": {decision.reason}" if decision.reason else ""
            executions.add_result(error_result(call, f"The user denied this call{reason}. It was not run."))
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

    def outcome_before_model(self) -> Outcome | None:
        """How the run ends without asking the model: with questions or frontend calls that are still open."""
        still_open = self._context.still_open
        messages = self._messages()
        pending = tuple(call for call in open_calls(messages) if call.name not in self._context.tools)
        if pending:
            out = {item.call.call_id for item in still_open}
            # A failed answer's calls were never handed to the browser.
            out |= {call.call_id for message in messages if message.incomplete for call in message.tool_calls}
            pending = tuple(call for call in pending if call.call_id not in out)
        if still_open:
            return Interrupted(tuple(item.interrupt for item in still_open), pending)
        return Completed(pending) if pending else None

    # --- the model ------------------------------------------------------------------------------------------------

    def ask_model(self) -> AsyncGenerator[Events] | TriedStream:
        """Begin the next turn; without tools where a budget is used up.

        Raises:
            LimitError: no tokens are left for it.
        """
        context, model, accepted = self._context, self._context.model, self._accepted
        if accepted is not None:
            self._accepted = None
            return model.stream(self._request(accepted))
        self._check_budgets()
        self._begin_turn(new_id("turn"))
        self._opening = ModelCallStarted(self._turn_id, model.provider, model.model_id)
        return stream_with_retries(
            model,
            self._request(),
            context.clock,
            self._budgets.model_attempts,
            on_retry=context.on_retry,
            fallback=context.fallback,
            shorten=self._history.shorten,
        )

    def _begin_turn(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._retold = None
        self._summarizing = self.limit is not None
        self._reason = None
        self._calls = ()
        self._pending = []
        self._model_calls += 1
        self._run_room -= self._answer_room - self._room
        self._answer_room = self._room = min(self._budgets.max_answer_bytes, self._run_room)
        self._words = client_words(self._context)
        view, self._settled = self._known.view((*self._own_messages, *self._transcript.messages))
        # A server that keeps the conversation looks after its length itself.
        shown = self._history.shown if self._context.conversation is None else self._history.whole
        self._asked = shown(view)

    def _request(self, accepted: str | None = None) -> ModelRequest:
        """The turn's question; `accepted` is the response that answers it, where there is one already."""
        instruction = ""
        if self.limit is not None:
            instruction = _SUMMARIZE.format(limit=self.limit)
        elif self._said_nothing:
            instruction = _ANSWER
        conversation = self._context.conversation
        return ModelRequest(
            self._turn_id,
            self._words.before_last(self._asked),
            system_text(self._context, instruction),
            # Some providers refuse a history with calls in it where no tools are declared: they stay declared.
            tools=self._specs,
            tool_choice=self._tool_choice(),
            parameters=self._context.agent.model.model_parameters,
            continuation=None
            if conversation is None
            else self._words.continued(conversation.continuation(self._asked)),
            settled=self._settled,
            elsewhere=self._context.elsewhere,
            accepted=accepted,
            is_left=self._context.is_left,
            on_kept=None if conversation is None else conversation.kept,
            max_answer_bytes=self._budgets.max_answer_bytes,
            max_calls=self._budgets.max_calls_per_answer,
        )

    def _tool_choice(self) -> ToolChoice:
        if self.limit is not None:
            return "none"
        forced = self._context.input.forced_tool
        # The first answer alone: a model that has to call a tool in every turn would never come to an end.
        return "auto" if forced is None or self._model_calls > 1 else OneTool(forced)

    def recall(self, taken_up: TakenUp) -> None:
        """Stand where the run stood when its process ended: in the middle of an answer, which is told again."""
        for event in taken_up.before:
            kind = type(event)
            if kind is ModelCallStarted and event.turn_id != self._turn_id:  # type: ignore[union-attr]
                self._check_iterations()
                self._begin_turn(event.turn_id)  # type: ignore[union-attr]
            elif kind is ToolReturned:
                self._tool_calls += 1
            self.follow_model([event])
        self._accepted = taken_up.response_id
        self._retold = Retold(taken_up.told)

    def follow_model(self, batch: Events) -> Events:
        """Take a batch of the model's in; gives what to pass on: the same list, but for a turn's first.

        Raises:
            LimitError: the answer is too large with it.
        """
        transcript = self._transcript
        if len(batch) == 1 and type(event := batch[0]) is TextDelta and event.message_id == transcript.text_id:
            text = event.text
            self._room -= len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
            if self._room < 0:
                raise self._too_large()
            transcript.text_parts.append(text)
            return batch if self._retold is None else self._retold.rest(batch)
        self._room -= said_bytes(batch)
        if self._room < 0:
            raise self._too_large()
        if self._opening is not None:
            batch = [self._opening, *batch]
            self._opening = None
        if rare := self._follow(batch):
            self._ledger.follow(rare)
            last = batch[-1]
            if type(last) is ModelCallEnded:
                self._reason = last.reason
                self._note_held(last)
            elif any(type(event) is ModelCallAccepted for event in rare):
                batch = [self._with_input(event) for event in batch]
        return batch if self._retold is None else self._retold.rest(batch)

    def _too_large(self) -> LimitError:
        """Why there is no room left for the answer under way."""
        is_whole = self._answer_room == self._budgets.max_answer_bytes
        return self.limit_error("max_answer_bytes" if is_whole else "max_run_bytes")

    def _with_input(self, event: Event) -> Event:
        """What is told of a response in the background is enough to take it up again."""
        return replace(event, input=kept_input(self._context.input)) if type(event) is ModelCallAccepted else event

    def _note_held(self, ended: ModelCallEnded) -> None:
        """The model's server holds a response: only one that is whole can be gone on from."""
        conversation = self._context.conversation
        if conversation is not None and ended.response_id is not None and ended.reason in _WHOLE:
            now, told = self._context.clock.now(), self._words.digest
            conversation.completed(self._asked, self._turn_id, ended.response_id, ended.continued, now, told)

    def _follow(self, batch: Events) -> Sequence[Event]:
        """Take a batch into the transcript; gives those that are no deltas."""
        try:
            return self._transcript.follow(batch)
        except (KeyError, AssertionError) as error:
            raise ModelError(ModelErrorKind.PROTOCOL, "the model's response came out of order") from error

    def _check_budgets(self) -> None:
        tokens = self._budgets.max_total_tokens
        if tokens is not None and self._ledger.total_tokens >= tokens:
            raise self.limit_error("max_total_tokens")
        self._check_iterations()

    def _check_iterations(self) -> None:
        if self.limit is None and self._model_calls >= self._budgets.max_iteration:
            self._reach_limit("max_iteration")

    def _reach_limit(self, name: str) -> None:
        if self.limit is None:
            logger.warning("a run's budget is used up", extra={"run_id": self._context.input.run_id, "limit": name})
            self.limit = name

    def limit_error(self, name: str) -> LimitError:
        return limit_reached(name, getattr(self._budgets, name))

    # --- the calls of a turn --------------------------------------------------------------------------------------

    def made_calls(self) -> bool:
        """Whether the model's response, which is over, calls tools.

        Raises:
            ModelError: it broke off.
            LimitError: it calls too many.
        """
        if self._reason is None:
            raise ModelError(ModelErrorKind.TRUNCATED, "the model's response ended too early")
        self._turn = [message for message in self._transcript.messages if message.turn_id == self._turn_id]
        self._calls = self._turn_calls()
        if len(self._calls) > self._budgets.max_calls_per_answer:
            raise self.limit_error("max_calls_per_answer")
        return bool(self._calls)

    async def answer_calls(self) -> AsyncGenerator[Events]:
        """Run the turn's backend calls and give their results; remember what is left to the browser or a person."""
        async with self._executions() as executions:
            for call in self._calls:
                self._dispatch(call, executions)
            async with aclosing(self._results(executions)) as batches:
                async for batch in batches:
                    yield batch

    def _turn_calls(self) -> list[ToolCall]:
        calls = {call.call_id: call for message in self._turn for call in message.tool_calls}
        return sorted(calls.values(), key=lambda call: call.index)

    def _dispatch(self, call: ToolCall, executions: ToolExecutions) -> None:
        """Decide what becomes of a call: it is run, refused with an error, left to the browser, or to a person."""
        tool = self._context.tools.get(call.name)
        spec = tool.spec if tool is not None else self._frontend.get(call.name)
        try:
            # A refused call of the browser's is answered too: clients run every closed call that has no result.
            self._refuse_unwanted()
            if spec is None:
                raise ToolError(self._unknown_tool(call.name))
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

    def _refuse_unwanted(self) -> None:
        if self._reason in _CUT_OFF:
            raise ToolError(f"This call was not run: the response it stands in was cut off ({self._reason}).")
        if self._summarizing:
            raise ToolError(f"This call was not run: the run reached its limit {self.limit}.")

    def _count_call(self) -> None:
        if self._tool_calls >= self._budgets.max_tool_calls:
            self._reach_limit("max_tool_calls")
            raise ToolError(f"This call was not run: a run may call tools {self._budgets.max_tool_calls} times.")
        self._tool_calls += 1

    def _refuse_repeated(self, call: ToolCall, key: bytes) -> None:
        """Stop a call that keeps giving the same: an error at first, the end of the run when it comes again."""
        self._keys[call.call_id] = key
        repeat = self._repeats.setdefault(key, _Repeat())
        repeat.count += 1
        if repeat.count <= self._budgets.max_repeated_calls:
            return
        if repeat.refused_in is None:
            repeat.refused_in = self._model_calls
        elif repeat.refused_in != self._model_calls:
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
            repeat.count = 1  # something else came of it: that is progress
        repeat.result = result

    def _unknown_tool(self, name: str) -> str:
        known = ", ".join(repr(spec.name) for spec in self._specs) or "none"
        return f"There is no tool {name[:200]!r}. The tools are: {known}."

    def _interrupt(self, call: ToolCall, tool: Tool) -> Interrupt:
        message, metadata = f"The tool {call.name!r} needs your approval before it runs.", None
        if not may_approve(self._context.owner, self._context.approvals[call.name]):
            message, metadata = f"The tool {call.name!r} waits for somebody else's approval.", dict(_OTHERS_APPROVE)
        return Interrupt(
            f"int-{call.call_id}",
            "tool_call",
            message,
            call.call_id,
            approval_schema(tool.spec),
            self._context.clock.now() + self._budgets.approval_timeout_seconds,
            metadata,
        )

    def _executions(self) -> ToolExecutions:
        budgets = self._budgets
        return ToolExecutions(self._context.clock, budgets.max_parallel_tools, budgets.tool_timeout_seconds)

    def _execute(
        self, executions: ToolExecutions, call: ToolCall, tool: Tool, arguments: JsonObject, note: str = ""
    ) -> None:
        context = self._context
        asked = context.input
        where = ToolContext(
            call.call_id,
            context.owner,
            asked.thread_id,
            asked.run_id,
            context.agent.id,
            context.state,
            executions.announcements,
            {} if context.conversation is None else context.conversation.state,
            asked.request_id,
        )
        executions.add(call, tool, arguments, where, note=note)

    async def _results(self, executions: ToolExecutions) -> AsyncGenerator[Events]:
        """Each result as soon as those before it are there, behind what it announced and did to the state."""
        try:
            while not executions.finished:
                with self.deadline:
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
        self._follow(events)
        return events

    # --- the end --------------------------------------------------------------------------------------------------

    def outcome_after_turn(self) -> Outcome | None:
        """How the run ends after this turn; None where the model is to be asked again.

        Raises:
            LimitError: the last answer that the budgets allowed is none.
        """
        assert self._reason is not None
        if self._reason in _CUT_OFF:
            return Incomplete(self._reason)
        pending = tuple(self._pending)
        if self._interrupts:
            return Interrupted(tuple(self._interrupts), pending)
        if pending:
            return Completed(pending)
        if self._summarizing:
            if self._calls or not self._said_something():
                raise self.limit_error(self.limit or "max_iteration")
            return Completed()
        self._said_nothing = not self._calls and not self._said_something()
        if self._calls or self._reason is StopReason.PAUSE:
            return None
        if self._said_nothing and not self._prompted_again:
            self._prompted_again = True
            return None
        return Completed()

    def finish(self, outcome: Outcome) -> Events:
        """The run's last batch."""
        return [*self._state_changes.take(), RunFinished(outcome, self._ledger.total)]

    def _said_something(self) -> bool:
        return any(message.text.strip() for message in self._turn)

    def _messages(self) -> tuple[Message, ...]:
        return (*self._context.messages, *self._transcript.messages)


def _all_calls(messages: Iterable[Message]) -> list[ToolCall]:
    return [call for message in messages for call in message.tool_calls]


def open_react(definition: AgentDefinition, environment: LoopEnvironment) -> ReactLoop:
    """The loop of a conversational agent: a run's context tells it all there is to know."""
    return ReactLoop()


AGENT_TYPE = AgentType("conversational", open_react)
