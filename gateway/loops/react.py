"""The ReAct loop: the model reasons and calls tools until it answers, or until the browser or a person has to act.

Below: turns, model, history, transcript. Above: the run driver. `turns.tool_turn` runs the backend
tools. A call of a frontend tool, or one that needs approval, ends the run. Nothing waits between two requests: the next
run has only the thread's messages.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from gateway.agent import AgentDefinition
from gateway.clock import Deadline, DeadlineError
from gateway.errors import LimitError, ModelError, ModelErrorKind, limit_reached
from gateway.events import (
    Completed,
    Custom,
    Event,
    Events,
    Incomplete,
    MediaGiven,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    Raw,
    RunFinished,
    StopReason,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.history.cache import HistoryCache, SettledView, turns_of
from gateway.loop import AgentType, LoopContext, LoopEnvironment, ResumedRun
from gateway.messages import Base64Source, MediaSource, Message, ToolCall, new_id
from gateway.model import ModelRequest
from gateway.options.generation import ToolChoice
from gateway.transcript import RunFold
from gateway.turns.attempts import TriedStream, stream_with_retries
from gateway.turns.client_words import NO_WORDS, client_words, own_messages
from gateway.turns.context_reduction import ShortenedHistory
from gateway.turns.iteration_limit import STOPPED, Summary, ends_before_tools, most_model_calls
from gateway.turns.prompt import system_text
from gateway.turns.resumption import RepeatedAnswer, kept_input
from gateway.turns.tool_calls import CompiledSchemas
from gateway.turns.tool_turn import ToolTurns, calls_of, open_outcome
from gateway.usage import USAGE_EVENT, token_usage
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

# A response that ends for one of these reasons is not complete: none of its calls is run.
_CUT_OFF = frozenset(
    {StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER, StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW}
)

_WHOLE = frozenset({StopReason.END_TURN, StopReason.TOOL_CALLS, StopReason.STOP_SEQUENCE})

_SUMMARIZE = (
    "A limit of this run is reached ({limit}): no tool can be called any more. Answer the user now from what is known "
    "so far, and say what could not be done."
)
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
            if context.resumed is not None and (retracted := run.recall(context.resumed)):
                yield retracted
            if context.decisions:
                async with aclosing(run.tools.carry_out(context.decisions)) as batches:
                    async for batch in batches:
                        run.follow_tools(batch)
                        yield batch
            has_answer = run.has_answer
            outcome = None if has_answer else run.outcome_before_model()
            while outcome is None:
                if not has_answer:
                    # Not a generator of its own: this is the hot path, and every layer costs each batch a switch.
                    async with aclosing(run.ask_model()) as responses:
                        with deadline:
                            while not deadline.expired:
                                try:
                                    response = await responses.__anext__()  # `async for` would look it up each time
                                except StopAsyncIteration:
                                    break
                                if events := run.follow_model(response):
                                    deadline.paused = True
                                    yield events
                                    deadline.paused = False
                            else:
                                raise DeadlineError
                has_answer = False
                if run.made_calls():
                    async with aclosing(run.tools.answer(run.open_calls, refused_because=run.refusal())) as batches:
                        async for batch in batches:
                            run.follow_tools(batch)
                            yield batch
                outcome = run.outcome_after_turn()
            yield run.finish(outcome)
        except DeadlineError as error:
            raise run.limit_error("max_run_seconds") from error
        except ModelError as error:
            if run.limit is None:
                raise
            if run.summary is None:
                raise run.limit_error(run.limit) from error
            yield run.instead_of(run.summary, error)
        finally:
            deadline.close()


class _Run:
    """The state of one run."""

    def __init__(self, context: LoopContext, schemas: CompiledSchemas) -> None:
        self._context = context
        self._budgets = context.agent.budgets
        self.deadline = Deadline(context.clock, self._budgets.max_run_seconds)
        self.limit: str | None = None  # the budget that is used up: the next model call is the last, without tools
        self._most_model_calls = most_model_calls(self._budgets)
        self.summary: Summary | None = None  # the summary with which the run ends
        settings = context.agent.context
        thread = (context.owner, context.input.thread.id)
        self._history = ShortenedHistory(settings.limits, settings.summarize, context.fits, thread)
        self.tools = ToolTurns(context, schemas, self.deadline)
        self._history_cache = context.input.sent.history_cache or HistoryCache()
        self._fold = RunFold(turns_of(self._history_cache.own_calls(context.messages)))
        self._model_calls = 0
        self._prompted_again = False
        self._said_nothing = False
        self._answered = False  # the model has answered: in words, or by a call of a tool that exists
        # The current turn.
        self._run_room = self._budgets.max_run_bytes  # bytes that are left to the run, without the current answer
        self._answer_room = 0  # bytes that the current answer may have
        self._room = 0  # bytes that are left to the current answer
        self._turn_id = ""
        self._turn: Sequence[Message] = ()  # the model's messages in the current turn
        self._summarizing = False
        self._asked: tuple[Message, ...] = ()
        self._voice = context.agent.client_instructions.voice(context.owner)
        self._own_messages = own_messages(context, self._voice)
        self._words = NO_WORDS
        self._settled: SettledView | None = None
        self._accepted: str | None = None  # the id of a response that the provider already works on
        self._repeated: RepeatedAnswer | None = None
        self._opening: Event | None = None
        self._reason: StopReason | None = None
        self.calls: Sequence[ToolCall] = ()
        self._returned: set[str] = set()  # calls that had their results before the run was resumed

    # --- before the model -----------------------------------------------------------------------------------------

    def outcome_before_model(self) -> Outcome | None:
        """The run's outcome if a question or a frontend call is still open, so that the model must not be asked; else
        None.
        """
        return open_outcome(self._context, (*self._context.messages, *self._fold.messages))

    # --- the model ------------------------------------------------------------------------------------------------

    def ask_model(self) -> AsyncGenerator[Events] | TriedStream:
        """Begin the next turn; without tools if a budget is used up.

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
        self._repeated = None
        self._summarizing = self.limit is not None
        self._reason = None
        self.calls = ()
        self._model_calls += 1
        self._run_room -= self._answer_room - self._room
        self._answer_room = self._room = min(self._budgets.max_answer_bytes, self._run_room)
        self._words = client_words(self._context, self._voice)
        messages = (*self._own_messages, *self._fold.messages)
        view, self._settled = self._history_cache.view(messages, self._context.waiting)
        # A server that keeps the conversation limits its length itself.
        shown = self._history.shown if self._context.conversation is None else self._history.whole
        self._asked = shown(view)

    def _request(self, accepted: str | None = None) -> ModelRequest:
        """The turn's model request; `accepted` is the id of its response, if there is one already."""
        instruction = ""
        if self.limit is not None:
            instruction = _SUMMARIZE.format(limit=self.limit) if self.summary is None else self.summary.instruction
        elif self._said_nothing:
            instruction = _ANSWER
        conversation, tool_choice = self._context.conversation, self._tool_choice()
        return ModelRequest(
            self._turn_id,
            self._words.before_last(self._asked),
            system_text(self._context, instruction),
            # Some providers refuse a history with calls unless tools are declared: they stay declared.
            tools=self.tools.specs if tool_choice != "required" else self._context.input.application.tools,
            tool_choice=tool_choice,
            parameters=self._context.agent.model.model_parameters,
            options=self._context.agent.model.options,
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
            call_prefix=(prefix := self._context.input.call_prefix),
            next_call=self._calls_so_far() if prefix else 0,
            trace=self._context.trace,
        )

    def _calls_so_far(self) -> int:
        return sum(len(message.tool_calls) for message in self._fold.messages)

    def _tool_choice(self) -> ToolChoice:
        if self.limit is not None:
            return "none"
        # Only for the first answer: a model that has to call a tool in every turn would never come to an end.
        is_first = self._model_calls <= 1 or (self._context.input.terms.calls_as_written and not self._answered)
        return self._context.tool_choice if is_first else "auto"

    @property
    def has_answer(self) -> bool:
        """Whether the turn's answer is whole."""
        return self._reason is not None

    def recall(self, resumed: ResumedRun) -> Events:
        """Restore the run's state at the moment when its process ended. Returns the events that take an answer back
        which was cut off then; none where the provider sends it again.
        """
        summary: Summary | None = None  # its head is in the log
        for event in resumed.before:
            if type(event) is ModelCallStarted and event.turn_id != self._turn_id:
                self._uncount_cut_off()
                self._check_iterations()
                self._begin_turn(event.turn_id)
                summary, self.summary = self.summary or summary, None
            elif type(event) is ToolReturned:
                self.tools.calls_made += 1
                self._returned.add(event.call_id)
            self.follow_model([event])
        self.summary = summary
        if resumed.response_id is None:
            return self._retraction() if self._uncount_cut_off() else []
        self._accepted = resumed.response_id
        self._repeated = RepeatedAnswer(
            self.tools.with_executors(resumed.logged)
        )  # the log may be an earlier version's
        return []

    def _uncount_cut_off(self) -> bool:
        """Count the last model call only if its answer is whole. True: it is not."""
        is_cut_off = bool(self._turn_id) and self._reason is None
        self._model_calls -= is_cut_off
        return is_cut_off

    def _retraction(self) -> Events:
        """The events that take the current turn back; none where the model had said nothing."""
        turn = [message for message in self._fold.messages if message.turn_id == self._turn_id]
        words = [message.id for message in turn if any(type(block) is not ToolCall for block in message.content)]
        calls = [call.call_id for message in turn for call in message.tool_calls]
        retracted: Events = [TurnRetracted(self._turn_id, tuple(words), tuple(calls))] if turn else []
        self._fold.follow(retracted)
        return retracted

    def follow_model(self, batch: Events) -> Events:
        """Take in a batch of the model's events. Returns the events to pass on: the same list, except for the first
        batch of a turn.

        Raises:
            LimitError: this batch makes the answer too large.
        """
        if self._opening is not None:
            batch = [self._opening, *batch]
            self._opening = None
        if self.summary is not None:
            batch = self.summary.headed(batch)
        try:
            rare = self._fold.follow(batch)
        except (KeyError, AssertionError) as error:
            raise ModelError(ModelErrorKind.PROTOCOL, "the model's response came out of order") from error
        self._room -= self._fold.added_bytes
        if rare:
            batch = self._completed(batch, rare)
        elif self._room < 0:
            raise self._too_large()
        return batch if self._repeated is None else self._repeated.rest(batch)

    def _completed(self, batch: Events, rare: Sequence[Event]) -> Events:
        """The batch with what only the loop knows. `rare` are its events that are not deltas."""
        kinds = set(map(type, rare))
        if Raw in kinds or MediaGiven in kinds:
            self._room -= _passed_on_bytes(rare)
        if self._room < 0:
            raise self._too_large()
        if ToolCallStarted in kinds:
            batch = self.tools.with_executors(batch)
        last = batch[-1]
        if type(last) is ModelCallEnded:
            self._reason = last.reason
            self._note_held(last)
        elif ModelCallAccepted in kinds:
            batch = [self._with_input(event) for event in batch]
        return batch

    def _too_large(self) -> LimitError:
        """The limit that the current answer exceeds."""
        is_whole = self._answer_room == self._budgets.max_answer_bytes
        return self.limit_error("max_answer_bytes" if is_whole else "max_run_bytes")

    def _with_input(self, event: Event) -> Event:
        """The event; a ModelCallAccepted gets everything that is needed to resume the response."""
        if type(event) is not ModelCallAccepted:
            return event
        return replace(event, input=kept_input(self._context.input, self._context.trace))

    def _note_held(self, ended: ModelCallEnded) -> None:
        """Note a response that the model's server keeps; only a complete one can be continued."""
        conversation = self._context.conversation
        if conversation is not None and ended.response_id is not None and ended.reason in _WHOLE:
            now, digest = self._context.clock.now(), self._words.digest
            conversation.completed(self._asked, self._turn_id, ended.response_id, ended.continued, now, digest)

    def _check_budgets(self) -> None:
        tokens = self._budgets.max_total_tokens
        if tokens is not None and self._fold.usage.total_tokens >= tokens:
            raise self.limit_error("max_total_tokens")
        self._check_iterations()

    def _check_iterations(self) -> None:
        if self.limit is None and self._model_calls >= self._most_model_calls:
            self._reach_limit("max_iteration")
            if self._budgets.on_max_iteration == "summarize":
                self.summary = Summary(self._budgets)

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
        """
        if self._reason is None:
            raise ModelError(ModelErrorKind.TRUNCATED, "the model's response ended too early")
        self._turn = [message for message in self._fold.messages if message.turn_id == self._turn_id]
        self.calls = calls_of(self._turn)
        return bool(self.calls)

    @property
    def open_calls(self) -> Sequence[ToolCall]:
        """The turn's calls that have no result yet."""
        returned = self._returned
        return [call for call in self.calls if call.call_id not in returned] if returned else self.calls

    def refusal(self) -> str:
        """The reason why none of the turn's calls is run; empty if they are run."""
        if self._reason in _CUT_OFF:
            return f"the response it stands in was cut off ({self._reason})"
        if ends_before_tools(self._budgets, self._model_calls):
            return "the run reached its limit max_iteration"
        return f"the run reached its limit {self.limit}" if self._summarizing else ""

    def follow_tools(self, batch: Events) -> None:
        """Take in a batch of the tools' events."""
        self._fold.follow(batch)
        if self.tools.limit_reached is not None:
            self._reach_limit(self.tools.limit_reached)

    # --- the end --------------------------------------------------------------------------------------------------

    def outcome_after_turn(self) -> Outcome | None:
        """The run's outcome after this turn; None if the model is asked again.

        Raises:
            LimitError: the last answer that the budgets allowed was empty, or called tools again.
            ModelError: the summary was empty.
        """
        outcome = self._outcome()
        stops = outcome is None and self._budgets.on_max_iteration == "stop"
        return STOPPED if stops and self._model_calls >= self._most_model_calls else outcome

    def _outcome(self) -> Outcome | None:
        assert self._reason is not None
        self._answered |= self._said_something() or any(self.tools.has(call.name) for call in self.calls)
        if self.summary is not None and not self._said_something():
            raise ModelError(ModelErrorKind.PROTOCOL, "the model gave no summary")
        if self._reason in _CUT_OFF:
            return Incomplete(self._reason, self.limit)
        if (outcome := self.tools.outcome()) is not None:
            return outcome
        if self._summarizing:
            if self.summary is None and (self.calls or not self._said_something()):
                raise self.limit_error(self.limit or "max_iteration")
            return Completed(limit=self.limit)
        self._said_nothing = not self.calls and not self._said_something()
        if self.calls or self._reason is StopReason.PAUSE:
            return None
        if self._said_nothing and not self._prompted_again:
            self._prompted_again = True
            return None
        return Completed()

    def instead_of(self, summary: Summary, error: ModelError) -> Events:
        """The run's last batch if its summary failed."""
        extra = {"run_id": self._context.input.run_id, "code": error.code, "provider_message": error.provider_message}
        logger.warning("a run's summary failed", extra=extra)
        model = self._context.model
        said = summary.instead(self._fold, self._turn_id, model.provider, model.model_id)
        return [*said, *self.finish(Completed(limit=self.limit))]

    def finish(self, outcome: Outcome) -> Events:
        """The run's last batch."""
        usage, last = self._fold.usage, self.tools.state_events()
        if self._context.agent.usage_event:
            last.append(Custom(USAGE_EVENT, token_usage(usage.by_turn)))
        return [*last, RunFinished(outcome, usage.total)]

    def _said_something(self) -> bool:
        head = "" if self.summary is None else self.summary.head
        return any(message.text.removeprefix(head).strip() or message.is_medium for message in self._turn)


def _passed_on_bytes(events: Sequence[Event]) -> int:
    """The size in bytes of the media and of the provider's own events among these."""
    size = sum([len(strict_json.dump(event.event)) for event in events if type(event) is Raw])
    return size + sum([_data_bytes(event.block.source) for event in events if type(event) is MediaGiven])


def _data_bytes(source: MediaSource) -> int:
    return len(source.data) if isinstance(source, Base64Source) else 0


def open_react(definition: AgentDefinition, environment: LoopEnvironment) -> ReactLoop:
    """The loop of a conversational agent. It needs nothing but each run's context."""
    return ReactLoop()


AGENT_TYPE = AgentType("conversational", open_react, goes_on=True)
