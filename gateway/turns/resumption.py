"""Finds what is left of a run after the gateway's process had ended, from the run's log: above all the new events of a
model call that its provider continued.

Below: events, messages. Above: the loop, which continues the run; recovery, which finds such runs. Pure.

The provider sends the response again from its beginning. The part that the run's log has must come again with the same
ids; only the rest is new. A provider may split the text into other deltas than before, so texts are compared, not
events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gateway.agent import AgentInput, ClientApplication, ContextEntry, InputTerms, InputThread
from gateway.errors import GatewayError
from gateway.events import (
    Deltas,
    Event,
    Events,
    MediaGiven,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    RunTakenOver,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolReturned,
)
from gateway.loop import Decision, ResumedRun
from gateway.messages import JsonObject, JsonValue, Message, ToolSpec
from gateway.options.run_options import options_record, stored_options
from gateway.traces import Span

_STARTED = (TextStarted, ReasoningStarted, ToolCallStarted)
_ENDED = (TextEnded, ReasoningEnded, ToolCallEnded)

_MOST_TAKEOVERS = 3

RESTARTED = "the server was restarted while this run was under way"


class AnswerDiffersError(GatewayError):
    """The repeated response differs from the logged one, so nothing can be added to the log."""

    default_code = "server_restarted"


def open_call(events: Sequence[Event]) -> ResumedRun | None:
    """The model call that a run's log leaves unfinished; None if there is none that another process can continue."""
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if isinstance(event, ModelCallAccepted):
            if event.input is None:
                return None
            return ResumedRun(tuple(events[:place]), tuple(events[place + 1 :]), event.response_id, event.input)
        if isinstance(event, ModelCallStarted | ModelCallEnded):
            return None
    return None


def left_run(events: Sequence[Event]) -> ResumedRun | None:
    """The run that a log leaves unfinished; None if its input is not there, it has an end, or it was taken over too
    often before.
    """
    first = events[0] if events else None
    if not isinstance(first, RunStarted) or first.input is None or isinstance(events[-1], RunFinished | RunFailed):
        return None
    if sum(isinstance(event, RunTakenOver) for event in events) >= _MOST_TAKEOVERS:
        return None
    begun = {event.call_id for event in events if isinstance(event, ToolExecutionStarted)}
    return ResumedRun(tuple(events), (), None, first.input, frozenset(begun - returned_calls(events)))


def returned_calls(events: Sequence[Event]) -> set[str]:
    """The calls that have a result in the log."""
    return {event.call_id for event in events if isinstance(event, ToolReturned)}


class RepeatedAnswer:
    """Follows a repeated response, and passes on the events that the log does not have."""

    def __init__(self, logged: Sequence[Event]) -> None:
        self._started: dict[tuple[type, str], Event] = {}
        self._ended: dict[tuple[type, str], Event] = {}
        self._texts: dict[tuple[type, str], str] = {}
        self._whole: list[Event] = []  # the logged events that come in one piece
        parts: dict[tuple[type, str], list[str]] = {}
        for event in logged:
            if isinstance(event, _STARTED):
                self._started[_key(event)] = event
            elif isinstance(event, _ENDED):
                self._ended[_key(event)] = event
            elif isinstance(event, Deltas):
                parts.setdefault(_key(event), []).extend(event.texts)
            elif isinstance(event, Raw | MediaGiven):
                self._whole.append(event)
        self._texts = {key: "".join(texts) for key, texts in parts.items()}

    def rest(self, batch: Events) -> Events:
        """The new part of the batch; possibly nothing.

        Raises:
            AnswerDiffersError: the response begins differently from the logged one.
        """
        return [new for event in batch for new in self._rest(event)]

    def _rest(self, event: Event) -> Events:
        if isinstance(event, Deltas):
            return self._rest_of_deltas(event)
        if isinstance(event, _STARTED):
            return self._unless_logged(self._started, event)
        if isinstance(event, _ENDED):
            if _key(event) in self._texts:
                raise AnswerDiffersError(RESTARTED)
            return self._unless_logged(self._ended, event)
        if isinstance(event, Raw | MediaGiven) and event in self._whole:
            self._whole.remove(event)
            return []
        if isinstance(event, ModelCallEnded) and (self._started or self._ended or self._texts):
            raise AnswerDiffersError(RESTARTED)
        return [event]

    def _unless_logged(self, known: dict[tuple[type, str], Event], event: Event) -> Events:
        earlier = known.pop(_key(event), None)
        if earlier is None:
            return [event]
        if earlier != event:
            raise AnswerDiffersError(RESTARTED)
        return []

    def _rest_of_deltas(self, event: TextDelta | ReasoningDelta | ToolCallDelta) -> Events:
        key = _key(event)
        left = self._texts.pop(key, "")
        if not left:
            return [event]
        rest: list[str] = []
        for text in event.texts:
            if not (left.startswith(text) or text.startswith(left)):
                raise AnswerDiffersError(RESTARTED)
            if len(text) > len(left):
                rest.append(text[len(left) :])
            left = left[len(text) :]
        if left:
            self._texts[key] = left
        return [event.changed(event.id, rest)] if rest else []


def _key(event: Any) -> tuple[type, str]:
    """The id of an event's part, with its family: one id may stand for a text and a call."""
    if isinstance(event, ToolCallStarted | ToolCallDelta | ToolCallEnded):
        return ToolCallStarted, event.call_id
    family = TextStarted if isinstance(event, TextStarted | TextDelta | TextEnded) else ReasoningStarted
    return family, event.message_id


# --- the part of a run's input that a loop needs ----------------------------------------------------------------------


def kept_input(given: AgentInput, trace: Span | None = None, decisions: Sequence[Decision] = ()) -> JsonObject:
    """The input's part that a loop needs, as JSON: the frontend tools, context, properties, the conversation's name,
    the options, the decisions that the run begins with, and `trace`: the headers that name the run's span. The
    messages are in the thread.
    """
    tools: list[Any] = [
        [tool.name, tool.description, tool.input_schema, tool.metadata] for tool in given.application.tools
    ]
    context: list[Any] = [[entry.description, entry.value] for entry in given.application.context]
    return {
        "tools": tools,
        "context": context,
        "forwarded": given.application.forwarded,
        "conversation_id": given.thread.conversation_id,
        "parent_run_id": given.parent_run_id,
        "unattended": given.terms.unattended,
        "names_calls": given.terms.names_calls,
        "calls_as_written": given.terms.calls_as_written,
        "forgets_pauses": given.thread.forgets_pauses,
        **({} if given.terms.options is None else {"wishes": options_record(given.terms.options)}),
        **({} if given.terms.forced_tool is None else {"forced_tool": given.terms.forced_tool}),
        **({"decisions": [_kept_decision(each) for each in decisions]} if decisions else {}),
        **({} if trace is None else {"trace": dict(trace.headers)}),
    }


def _kept_decision(decision: Decision) -> JsonValue:
    return [decision.call.call_id, decision.approved, decision.arguments, decision.reason]


def restored_decisions(kept: JsonObject, messages: Sequence[Message]) -> tuple[Decision, ...]:
    """The decisions that `kept_input` stored, about calls in these messages."""
    calls = {call.call_id: call for message in messages for call in message.tool_calls}
    stored = cast("list[list[Any]]", kept.get("decisions", []))
    return tuple(Decision(calls[call_id], *decided) for call_id, *decided in stored if call_id in calls)


def kept_trace(kept: JsonObject) -> Mapping[str, str]:
    """The headers of the run's span that `kept_input` stored; none where no traces were collected."""
    return cast("dict[str, str]", kept.get("trace", {}))


def restored_input(kept: JsonObject, thread_id: str, run_id: str) -> AgentInput:
    """The input that `kept_input` stored, for the run of that id."""
    stored = cast("dict[str, Any]", kept)
    return AgentInput(
        run_id,
        InputThread(thread_id, stored["conversation_id"], forgets_pauses=stored.get("forgets_pauses", False)),
        application=ClientApplication(
            tuple(ToolSpec(*tool) for tool in stored["tools"]),
            tuple(ContextEntry(*entry) for entry in stored["context"]),
            forwarded=stored["forwarded"],
        ),
        terms=InputTerms(
            stored_options(stored["wishes"]) if "wishes" in stored else None,
            forced_tool=stored.get("forced_tool"),
            unattended=stored.get("unattended", False),
            names_calls=stored.get("names_calls", False),
            calls_as_written=stored.get("calls_as_written", False),
        ),
        parent_run_id=stored["parent_run_id"],
    )
