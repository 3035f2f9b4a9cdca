"""Ends or sums up a run that has used up `max_iteration` without an answer (see agent.Budgets.on_max_iteration).

Below: agent, events, transcript, tool_turn. Above: the loops. A run that stays below the limit pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.agent import Budgets
from gateway.events import (
    Events,
    Incomplete,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningEnded,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallEnded,
    ToolReturned,
)
from gateway.messages import Message, answered_calls, new_id, new_message_id
from gateway.transcript import Transcript
from gateway.turns.tool_executions import error_result
from gateway.turns.tool_turn import calls_of

NAME = "max_iteration"
STOPPED = Incomplete(StopReason.MAX_ITERATIONS, NAME)
"""The outcome of a run under `stop`."""

_NO_ANSWER = "Agent reached maximum iterations ({most}) without completing the task"
_NOT_RUN = "This call was not run: the run reached its limit max_iteration."


def most_model_calls(budgets: Budgets) -> int:
    """How often the model is asked with its tools. Under `summarize` a round of tool calls is an iteration, too."""
    most = budgets.max_iteration
    return (most + 1) // 2 if budgets.on_max_iteration == "summarize" else most


def ends_before_tools(budgets: Budgets, model_calls: int) -> bool:
    """Whether no iteration is left for the tools that the model calls in call number `model_calls` of the model."""
    odd = budgets.max_iteration % 2 == 1
    return odd and budgets.on_max_iteration == "summarize" and model_calls == most_model_calls(budgets)


class Summary:
    """The last response of a run under `summarize`: a sentence about the limit, then the model's summary of the steps
    so far.

    `head` is that sentence; `instruction` asks the model for the summary.
    """

    instruction = (
        "The most steps of this run are taken: no tool can be called any more. Summarize for the user the steps "
        "completed so far: what was done, what it gave, and what is still missing."
    )

    def __init__(self, budgets: Budgets) -> None:
        self._no_answer = _NO_ANSWER.format(most=budgets.max_iteration)
        self.head = f"{self._no_answer}. Here's a summary of the steps completed so far:\n\n"
        self._is_begun = False

    def headed(self, batch: Events) -> Events:
        """The events of the model's summary, with the head before its first words."""
        if self._is_begun:
            return batch
        for place, event in enumerate(batch):
            if type(event) is TextDelta:
                self._is_begun = True
                return [*batch[:place], TextDelta(event.id, self.head), *batch[place:]]
        return batch

    def instead(self, transcript: Transcript, turn_id: str, provider: str, model: str) -> Events:
        """The events of a response in place of the failed summary: a sentence about the limit, and the last text of the
        run, if it had any.

        `turn_id` is the failed response's. The new response has an id of its own, because the failed one stays
        incomplete.
        """
        messages = transcript.messages
        thought = _last_text(message for message in messages if message.turn_id != turn_id)
        text = f"{self._no_answer}. Last thought: {thought}" if thought else self._no_answer
        said = new_message_id()
        return [
            *_closing(transcript, [message for message in messages if message.turn_id == turn_id]),
            ModelCallStarted(new_id("turn"), provider, model),
            TextStarted(said),
            TextDelta(said, text),
            TextEnded(said),
            ModelCallEnded(StopReason.END_TURN),
        ]


def _last_text(messages: Iterable[Message]) -> str:
    texts = [message.text.strip() for message in messages if message.role == "assistant"]
    return next(filter(None, reversed(texts)), "")


def _closing(transcript: Transcript, turn: Sequence[Message]) -> Events:
    """The events that end everything a failed response left open; its calls get an error as result."""
    answered = answered_calls(turn)
    still_open = transcript.open_items()
    events: Events = [TextEnded(text.message_id) for text in still_open.texts]
    events += [ReasoningEnded(reasoning.message_id) for reasoning in still_open.reasoning]
    events += [ToolCallEnded(call.call_id) for call in still_open.calls if not call.ended]
    for call in calls_of(turn):
        if call.call_id not in answered:
            result = error_result(call, _NOT_RUN)
            events.append(ToolReturned(new_message_id(), result.call_id, result.content, is_error=True))
    return events
