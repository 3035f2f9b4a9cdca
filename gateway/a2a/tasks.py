"""A task, made of its runs: their records and events as A2A's objects, in the form of 1.0.

Below: parts, states, ids. Above: the renderer, and the readers of tasks. Pure. There is no other store of tasks: a task
is one run, or several where it waited for its client between them, and its state is that of the last one.

The words of each message, and each medium, are an artifact of their own, with the message's id. The calls and questions
that the task waits for stand in its status. If the client asked for `ACTIVITY`, the status shows reasoning and the
calls of the gateway's tools, too.
https://a2a-protocol.org/latest/specification/#41-core-objects (1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from gateway.a2a.dialects import ACTIVITY, StreamKind
from gateway.a2a.ids import status_message_id
from gateway.a2a.parts import agents_parts, data_part, media_part, parts_of, text_part
from gateway.a2a.states import TaskState, state_of_end
from gateway.events import (
    Custom,
    Event,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.messages import JsonObject, JsonValue, ToolCall
from gateway.protocol.answers import time_text
from gateway.protocol.failure_words import shown_message
from gateway.store import RunRecord
from gateway.usage import add_usage

ORIGIN: Final = "a2a"
"""RunRecord.origin of runs that began over A2A."""
ARTIFACT_EVENT: Final = "a2a.artifact"
"""The Custom event by which an agent gives an artifact of its own: `{"parts": [...], "artifactId"?, "name"?,
"description"?, "metadata"?, "append"?, "lastChunk"?}`.
"""
MESSAGE_EVENT: Final = "a2a.message"
"""The Custom event by which an agent answers with a message: `{"parts": [...], "metadata"?}`. Where nothing else is
said, SendMessage's result is that message and no task.
"""

_NAME: Final = "response"
_NOTHING: Final = ()
_DECISION: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "tool_call_id": {"type": "string"},
        "decision": {"enum": ["approve", "deny"]},
        "arguments": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["decision"],
}
_OUTPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {"tool_call_id": {"type": "string"}, "output": {}, "is_error": {"type": "boolean"}},
    "required": ["tool_call_id", "output"],
}


class Update(NamedTuple):
    """One change by an event: the value of a stream's frame of this kind."""

    kind: StreamKind
    value: JsonObject


@dataclass(slots=True)
class _Artifact:
    """`texts` are the pieces of a message's text, joined to one part; `others` are the parts that come whole."""

    id: str
    texts: list[str] = field(default_factory=list)
    others: list[JsonValue] = field(default_factory=list)
    members: JsonObject = field(default_factory=dict)

    def value(self) -> JsonObject:
        said = [text_part("".join(self.texts))] if self.texts else []
        return {"artifactId": self.id, **self.members, "parts": [*said, *self.others]}


@dataclass(slots=True)
class _Call:
    name: str
    is_shown: bool  # as an activity
    server: str | None = None
    arguments: list[str] = field(default_factory=list)


class TaskFold:
    """A task as its events make it: `begin` a run, let it `follow` its events, and so on for each run of the task.

    `state` is as of now. `words` are the texts of the artifact `words_id`, to which the next delta of that message
    belongs; a renderer that writes deltas itself appends to them.
    """

    def __init__(
        self,
        task_id: str,
        context_id: str,
        *,
        shows_activity: bool = False,
        to_operator: bool = True,
        repeats_texts: bool = False,
    ) -> None:
        """`shows_activity`: the client asked for `ACTIVITY`. `to_operator`: the caller may see why a model failed.
        `repeats_texts`: the last chunk of a text is the whole text, in place of the chunks before it; else it is empty.
        """
        self.task_id = task_id
        self.context_id = context_id
        self.state = TaskState.SUBMITTED
        self.words_id = ""
        self.words: list[str] = []
        self._shows_activity = shows_activity
        self._to_operator = to_operator
        self._repeats_texts = repeats_texts
        self._common: JsonObject = {"taskId": task_id, "contextId": context_id}
        self._run_id = ""
        self._times: dict[TaskState, str | None] = {}
        self._ended_at: str | None = None
        self._status_message: JsonObject | None = None
        self._said: JsonObject | None = None  # the message that the agent answers with
        self._metadata: JsonObject = {}
        self._history: list[JsonObject] = []
        self._artifacts: dict[str, _Artifact] = {}
        self._refusals: dict[str, bool] = {}  # of the texts of this run, by message
        self._reasoning: dict[str, list[str]] = {}
        self._calls: dict[str, _Call] = {}
        self._activities = 0
        self._made = 0  # artifacts of the agent's own that have no id

    # --- runs and their events

    def begin(self, record: RunRecord) -> None:
        """The task's next run. Its events follow."""
        if self._status_message is not None:
            self._history.append(self._status_message)
        self._status_message = self._said = None
        self._metadata = {}
        self._run_id = record.client_id
        self._activities = 0
        self.state = TaskState.SUBMITTED
        self.words_id = ""
        self.note_times(record)
        message = (record.request or {}).get("message")
        if isinstance(message, dict):  # where another task answered for both, it is that one's
            self._history.append({**message, "taskId": self.task_id} if "taskId" in message else message)

    def note_times(self, record: RunRecord) -> None:
        """Take the times of the last run's states from its record, as far as that has them now."""
        self._times = {
            TaskState.SUBMITTED: time_text(record.created_at),
            TaskState.WORKING: time_text(record.started_at),
        }
        self._ended_at = time_text(record.finished_at)

    def note_end(self, at: float) -> None:
        """Take the time at which the last run ended."""
        self._ended_at = time_text(at)

    def follow(self, events: Iterable[Event]) -> None:
        """The next events of the run."""
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> Sequence[Update]:
        """Take in the next event of the run. Gives the changes for viewers."""
        rule = _RULES.get(type(event))
        return _NOTHING if rule is None else rule(self, event)

    # --- the task as it is

    @property
    def status(self) -> JsonObject:
        status: JsonObject = {"state": self.state.value}
        if self._status_message is not None:
            status["message"] = self._status_message
        if (time := self._times.get(self.state, self._ended_at)) is not None:
            status["timestamp"] = time
        return status

    @property
    def direct_message(self) -> JsonObject | None:
        """The agent's message that is its whole answer; None: the task has artifacts, or has not completed."""
        return self._said if self.state is TaskState.COMPLETED and not self._artifacts else None

    def task(self, *, history_length: int | None = None, artifacts: bool = True) -> JsonObject:
        """The Task, with the last `history_length` messages of its history; None: all messages."""
        task: JsonObject = {"id": self.task_id, "contextId": self.context_id, "status": self.status}
        if artifacts and self._artifacts:
            task["artifacts"] = [artifact.value() for artifact in self._artifacts.values()]
        left_out = 0 if history_length is None else max(0, len(self._history) - history_length)
        if history := self._history[left_out:]:
            task["history"] = [*history]
        if self._metadata:
            task["metadata"] = {**self._metadata}
        return task

    def artifact(self, artifact_id: str) -> JsonObject:
        """An artifact with all parts that it has so far."""
        return self._artifacts[artifact_id].value()

    def chunk(self, artifact_id: str, text: str = "", *, last: bool = False) -> Update:
        """The next words of an artifact."""
        return self._artifact_update({"artifactId": artifact_id, "parts": [text_part(text)]}, append=True, last=last)

    # --- updates

    def _status_update(self, metadata: JsonObject | None = None) -> Update:
        value: JsonObject = {**self._common, "status": self.status}
        if metadata:
            value["metadata"] = metadata
        return Update("statusUpdate", value)

    def _artifact_update(self, artifact: JsonObject, *, append: bool | None = None, last: bool = False) -> Update:
        value: JsonObject = {**self._common, "artifact": artifact}
        if append is not None:
            value["append"] = append
        if last:
            value["lastChunk"] = True
        return Update("artifactUpdate", value)

    def _whole(self, artifact: _Artifact) -> Sequence[Update]:
        """The update with a whole artifact. If the artifact comes again, `append` is false: it replaces the old one."""
        append = False if artifact.id in self._artifacts else None
        self._artifacts[artifact.id] = artifact
        return (self._artifact_update(artifact.value(), append=append, last=True),)

    def _message(self, number: int, parts: list[JsonValue], metadata: JsonValue = None) -> JsonObject:
        """A message of the agent's."""
        message: JsonObject = {
            "messageId": status_message_id(self._run_id, number),
            **self._common,
            "role": "ROLE_AGENT",
            "parts": parts,
        }
        if isinstance(metadata, dict) and metadata:
            message["metadata"] = metadata
        return message

    def _activity(self, data: JsonObject) -> Sequence[Update]:
        """Something that goes on, for clients that asked for it. It stays in no status."""
        self._activities += 1
        if not self._shows_activity:
            return _NOTHING
        message: JsonObject = {**self._message(self._activities, [data_part(data)]), "extensions": [ACTIVITY]}
        status: JsonObject = {**self.status, "message": message}
        return (Update("statusUpdate", {**self._common, "status": status}),)

    # --- what events do, see _RULES

    def _start(self, event: RunStarted) -> Sequence[Update]:
        self.state = TaskState.WORKING
        return (self._status_update(),)

    def _begin_text(self, event: TextStarted) -> Sequence[Update]:
        if event.role == "assistant":
            self._refusals[event.message_id] = event.refusal
        return _NOTHING

    def _add_words(self, event: TextDelta) -> Sequence[Update]:
        """Add the next words. Gives a change where they belong to another text than the last ones."""
        message_id = event.id
        if message_id == self.words_id:
            self.words += event.texts
            return _NOTHING
        if message_id not in self._refusals:
            return _NOTHING
        begun = self._artifacts.get(message_id)
        artifact = begun or self._text_artifact(message_id)
        artifact.texts += event.texts
        self.words_id, self.words = message_id, artifact.texts
        if begun is not None:
            return (self.chunk(message_id, event.text),)
        self._artifacts[message_id] = artifact
        return (self._artifact_update(artifact.value()),)

    def _text_artifact(self, message_id: str) -> _Artifact:
        members: JsonObject = {"name": _NAME}
        if self._refusals.get(message_id):
            members["metadata"] = {"refusal": True}
        return _Artifact(message_id, members=members)

    def _end_text(self, event: TextEnded) -> Sequence[Update]:
        self.words_id = ""
        if event.message_id not in self._refusals or event.message_id not in self._artifacts:
            return _NOTHING
        if self._repeats_texts:
            return self._whole(self._artifacts[event.message_id])
        return (self.chunk(event.message_id, last=True),)

    def _give_medium(self, event: MediaGiven) -> Sequence[Update]:
        members: JsonObject = {"name": event.block.name or _NAME}
        return self._whole(_Artifact(event.message_id, others=[media_part(event.block)], members=members))

    def _retract(self, event: MessageRetracted) -> Sequence[Update]:
        message_id, text = event.message_id, event.text
        if message_id in self._reasoning:
            return self._activity({"type": "reasoning", "message_id": message_id, "text": text})
        if message_id not in self._artifacts and not (text and message_id in self._refusals):
            return _NOTHING  # it was not shown
        artifact = self._text_artifact(message_id)
        artifact.texts.append(text)
        return self._whole(artifact)

    def _retract_turn(self, event: TurnRetracted) -> Sequence[Update]:
        """Viewers are shown the artifacts without words; the task has them no more."""
        updates = [update for message_id in event.message_ids for update in self._retract(MessageRetracted(message_id))]
        for message_id in event.message_ids:
            self._artifacts.pop(message_id, None)
        return updates

    def _begin_reasoning(self, event: ReasoningStarted) -> Sequence[Update]:
        self._reasoning[event.message_id] = []
        return _NOTHING

    def _reason(self, event: ReasoningDelta) -> Sequence[Update]:
        self._reasoning[event.id] += event.texts
        return _NOTHING

    def _end_reasoning(self, event: ReasoningEnded) -> Sequence[Update]:
        text = "".join(self._reasoning[event.message_id])
        return self._activity({"type": "reasoning", "message_id": event.message_id, "text": text})

    def _begin_call(self, event: ToolCallStarted) -> Sequence[Update]:
        is_shown = event.executor == "backend" and not event.asks
        self._calls[event.call_id] = _Call(event.name, is_shown, event.server)
        return _NOTHING

    def _add_arguments(self, event: ToolCallDelta) -> Sequence[Update]:
        self._calls[event.id].arguments += event.texts
        return _NOTHING

    def _end_call(self, event: ToolCallEnded) -> Sequence[Update]:
        call = self._calls[event.call_id]
        if not call.is_shown:
            return _NOTHING
        data: JsonObject = {"type": "tool_call", **_called(event.call_id, call.name, "".join(call.arguments))}
        if call.server is not None:
            data["server"] = call.server
        return self._activity(data)

    def _return(self, event: ToolReturned) -> Sequence[Update]:
        data: JsonObject = {"type": "tool_result", "tool_call_id": event.call_id, "output": parts_of(event.content)}
        if event.is_error:
            data["is_error"] = True
        return self._activity(data)

    def _custom(self, event: Custom) -> Sequence[Update]:
        value = event.value
        if event.name not in (ARTIFACT_EVENT, MESSAGE_EVENT) or not isinstance(value, dict):
            return _NOTHING
        if not (parts := agents_parts(value.get("parts"))):
            return _NOTHING
        if event.name == ARTIFACT_EVENT:
            return self._agents_artifact(value, parts)
        self._said = self._message(0, parts, value.get("metadata"))
        return _NOTHING

    def _agents_artifact(self, value: JsonObject, parts: list[JsonValue]) -> Sequence[Update]:
        artifact_id = value.get("artifactId")
        if not isinstance(artifact_id, str) or not artifact_id:
            artifact_id = f"{self._run_id}_artifact_{self._made}"
            self._made += 1
        known = self._artifacts.get(artifact_id) if value.get("append") is True else None
        if known is None:
            self._artifacts[artifact_id] = known = _Artifact(artifact_id, members=_members_of(value))
            chunk = {"artifactId": artifact_id, **known.members, "parts": parts}
            append = None
        else:
            chunk, append = {"artifactId": artifact_id, "parts": parts}, True
        known.others += parts
        return (self._artifact_update(chunk, append=append, last=value.get("lastChunk") is not False),)

    def _end(self, last: RunFinished | RunFailed) -> Sequence[Update]:
        self.words_id = ""
        self.state = state_of_end(last)
        metadata: JsonObject = {}
        if isinstance(last, RunFailed):
            text = shown_message(last.code, last.message, to_operator=self._to_operator)
            self._status_message = self._message(0, [text_part(text)], {"code": last.code})
        elif self.state is TaskState.INPUT_REQUIRED:
            self._status_message = self._message(0, self._questions(last.outcome))
        elif self.state is TaskState.COMPLETED:
            self._status_message = self._said
            if isinstance(last.outcome, Incomplete):
                metadata["incompleteReason"] = last.outcome.reason.value
        if usage := _usage(last):
            metadata["usage"] = usage
        self._metadata = metadata
        return (self._status_update(metadata),)

    # --- what the task waits for

    def _questions(self, outcome: Any) -> list[JsonValue]:
        """The parts of the message that asks: text for people, then data that programs answer."""
        asked: Sequence[Interrupt] = outcome.interrupts if isinstance(outcome, Interrupted) else ()
        calls: Sequence[ToolCall] = outcome.pending_calls
        texts = [self._question_text(interrupt) for interrupt in asked]
        if any(interrupt.call_id for interrupt in asked):
            texts.append("Answer with the word approve or deny.")
        if calls:
            names = ", ".join(repr(call.name) for call in calls)
            texts.append(f"The task waits for the output of {names}.")
        parts: list[JsonValue] = [text_part(" ".join(texts))]
        parts += [data_part(self._question(interrupt)) for interrupt in asked]
        parts += [
            data_part({**_called(call.call_id, call.name, call.arguments), "response_schema": _OUTPUT})
            for call in calls
        ]
        return parts

    def _question_text(self, interrupt: Interrupt) -> str:
        call = self._calls.get(interrupt.call_id or "")
        return interrupt.message or ("" if call is None else f"The tool {call.name!r} needs your approval.")

    def _question(self, interrupt: Interrupt) -> JsonObject:
        message = self._question_text(interrupt)
        if interrupt.call_id is None:
            return {"interrupt_id": interrupt.id, "message": message, "response_schema": interrupt.response_schema}
        called: JsonObject = {"tool_call_id": interrupt.call_id}
        if (call := self._calls.get(interrupt.call_id)) is not None:  # else another task of the context has the call
            called = _called(interrupt.call_id, call.name, "".join(call.arguments))
        return {**called, "message": message, "response_schema": _DECISION}


def task_of(record: RunRecord) -> str:
    """The id of the task that a run began, or went on with. A run of another protocol is shown as a task of its own."""
    task_id = (record.request or {}).get("task") if record.origin == ORIGIN else None
    return task_id if isinstance(task_id, str) else record.client_id


def _called(call_id: str, name: str, arguments: str) -> JsonObject:
    """A call as data. Arguments that are no JSON are shown as the model wrote them."""
    try:
        parsed: JsonValue = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        parsed = arguments
    return {"tool_call_id": call_id, "name": name, "arguments": parsed}


def _members_of(value: JsonObject) -> JsonObject:
    """The members of an artifact that an agent gave itself."""
    members: JsonObject = {name: value[name] for name in ("name", "description") if isinstance(value.get(name), str)}
    if isinstance(value.get("metadata"), dict):
        members["metadata"] = value["metadata"]
    return members


def _usage(last: RunFinished | RunFailed) -> JsonObject | None:
    """The tokens of the run, of all its models together, as far as they are known."""
    if not last.usage:
        return None
    total = reduce(add_usage, last.usage)
    counts = {"inputTokens": total.input_tokens, "outputTokens": total.output_tokens, "totalTokens": total.total_tokens}
    return {name: count for name, count in counts.items() if count is not None}


# What each kind of event does to a task. A look-up: a `match` asks for one class after the other.
_RULES: Final[Mapping[type[Event], Callable[[TaskFold, Any], Sequence[Update]]]] = MappingProxyType(
    {
        RunStarted: TaskFold._start,
        TextStarted: TaskFold._begin_text,
        TextDelta: TaskFold._add_words,
        TextEnded: TaskFold._end_text,
        ReasoningStarted: TaskFold._begin_reasoning,
        ReasoningDelta: TaskFold._reason,
        ReasoningEnded: TaskFold._end_reasoning,
        MediaGiven: TaskFold._give_medium,
        MessageRetracted: TaskFold._retract,
        TurnRetracted: TaskFold._retract_turn,
        ToolCallStarted: TaskFold._begin_call,
        ToolCallDelta: TaskFold._add_arguments,
        ToolCallEnded: TaskFold._end_call,
        ToolReturned: TaskFold._return,
        Custom: TaskFold._custom,
        RunFinished: TaskFold._end,
        RunFailed: TaskFold._end,
    }
)
