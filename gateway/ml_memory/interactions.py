"""A thread's messages as ml-commons' interactions and traces.

Below: the words, the store's records. Above: the protocol of memories. Pure.

An interaction is a turn: a question, and everything that followed until the next question. Its id is the id of the
turn's first question. The steps of the model and its tools before the answer are its traces. A turn ends where a run
ends and where the next question follows an answer; questions in a row are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.frozen import quickly_made
from gateway.messages import INSTRUCTION_ROLES, JsonObject, JsonValue, Message, ReasoningBlock, TextBlock, ToolResult
from gateway.ml_memory.interaction_notes import Note, note_of
from gateway.protocol import time_text
from gateway.records import dump_json
from gateway.store import RunRecord, RunStatus

_OF_MODEL: Final = "LLM"


@quickly_made
@dataclass(frozen=True, slots=True)
class Turn:
    """The messages of a thread that are one interaction, at least one, without instructions.

    `runs` are the runs that worked on it, in order. `times` are the times at which messages came, by message id; some
    may be missing. `began` is when the thread began. All times are Unix seconds.
    """

    messages: tuple[Message, ...]
    runs: tuple[RunRecord, ...]
    times: Mapping[str, float]
    began: float

    @property
    def id(self) -> str:
        """The first question's id; of a turn without a question the first message's."""
        return next((message.id for message in self.messages if message.role == "user"), self.messages[0].id)

    @property
    def question(self) -> str | None:
        """The text of the question; None if there is none."""
        asked = [message for message in self.messages if message.role == "user"]
        return question_text(asked) if asked else None

    @property
    def note(self) -> Note:
        """The note on the interaction."""
        return note_of(self.messages[0])

    @property
    def additional_info(self) -> JsonObject:
        """The results of tools, and the members that clients noted."""
        return {**tool_outputs(self.messages), **(self.note.additional_info or {})}

    # Of times, notes and runs know best: messages that are stored anew have a new time.

    @property
    def created_at(self) -> float:
        """When the question came."""
        if (noted := self.note.create_time) is not None:
            return noted
        first, times = self.messages[0].id, self.times
        started = [run.created_at for run in self.runs] + ([times[first]] if first in times else [])
        return min(started, default=self.began)

    @property
    def updated_at(self) -> float | None:
        """When its last message after the question came or was changed; None: there is none."""
        later = [at for message in self.messages if (at := note_of(message).update_time) is not None]
        later += [run.finished_at for run in self.runs if run.finished_at is not None]
        if not self.runs:
            noted, times = self.note.create_time, self.times
            answered = (times[each.id] for each in self.messages if each.role != "user" and each.id in times)
            later += answered if noted is None else [noted]
        return max(later, default=None)

    @property
    def steps(self) -> list[tuple[Message, ...]]:
        """The messages after the question, in order: answers of a model, each of one or more messages, and tools'
        results.
        """
        steps: list[tuple[Message, ...]] = []
        for message in self.messages:
            if message.role == "user":
                continue
            last = steps[-1][-1] if steps else None
            if last is not None and "tool" not in (message.role, last.role) and message.turn_id == last.turn_id:
                steps[-1] = (*steps[-1], message)
            else:
                steps.append((message,))
        return steps

    @property
    def failure(self) -> str | None:
        """The reason for which it has no answer; None if it has one."""
        last, run = self.messages[-1], self.runs[-1] if self.runs else None
        if run is None or run.status is not RunStatus.FAILED or run.last_message_id != last.id:
            return None
        if note_of(last).is_answer:
            return None
        return run.error_message or run.error_code or "the run failed"

    @property
    def response(self) -> str | None:
        """The answer as far as there is one; None if nothing was answered yet."""
        if (failure := self.failure) is not None:
            return f"Agent execution failed: {failure}"
        return _text(next((step for step in reversed(self.steps) if step[0].role != "tool"), ()))

    @property
    def answer(self) -> tuple[Message, ...]:
        """The messages of the model's last answer, if that calls no tool."""
        steps = self.steps
        return steps[-1] if steps and _is_answer(steps[-1]) else ()


def turns_of(
    messages: Iterable[Message], runs: Sequence[RunRecord], times: Mapping[str, float], began: float
) -> list[Turn]:
    """The turns of a thread that began then, the oldest first. `runs` are the thread's, the newest first; `times` say
    when messages came, by id.
    """
    ended: dict[str, list[RunRecord]] = {}
    for run in reversed(runs):
        if run.last_message_id is not None:
            ended.setdefault(run.last_message_id, []).append(run)
    parts: list[tuple[list[Message], list[RunRecord]]] = []
    is_over = True
    for message in messages:
        if message.role in INSTRUCTION_ROLES:
            continue
        begins_one = note_of(message).begins
        if not parts or begins_one or (is_over and message.role == "user"):
            parts.append(([], []))
        here = ended.get(message.id, [])
        parts[-1][0].append(message)
        parts[-1][1].extend(here)
        is_over = begins_one or bool(here) or message.role != "user"
    if parts and runs and runs[0].status is RunStatus.RUNNING:
        parts[-1][1].append(runs[0])
    return [Turn(tuple(said), tuple(worked), times, began) for said, worked in parts]


def turn_with(turns: Sequence[Turn], message_id: str) -> Turn | None:
    """The turn that has this message."""
    return next((turn for turn in turns if any(message.id == message_id for message in turn.messages)), None)


def question_text(questions: Sequence[Message]) -> str:
    """The text of one or more questions: one text as it is, several texts as lines, several messages as paragraphs."""
    texts = [[block.text for block in message.content if isinstance(block, TextBlock)] for message in questions]
    if len(texts) == 1 and len(texts[0]) <= 1:
        return "".join(texts[0])
    return "\n".join("".join(f"{text.strip()}\n" for text in each) for each in texts)


def interaction_json(memory_id: str, turn: Turn) -> JsonObject:
    """An interaction as ml-commons shows it."""
    note = turn.note
    shown: JsonObject = {
        **_head(memory_id, turn.id, turn.created_at),
        "updated_time": time_text(turn.updated_at),
        "input": turn.question,
        "prompt_template": note.prompt_template,
        "response": turn.response,
        "origin": note.origin or (turn.runs[-1].agent_id if turn.runs else None),
        "additional_info": turn.additional_info or None,
    }
    return _without_none(shown)


def trace_jsons(memory_id: str, turn: Turn) -> list[JsonObject]:
    """The traces of a turn, numbered from 1: all steps but its answer."""
    steps = turn.steps
    if turn.failure is None and turn.answer:
        steps.pop()
    calls = {call.call_id: call for message in turn.messages for call in message.tool_calls}
    traces: list[JsonObject] = []
    for number, step in enumerate(steps, 1):
        result = step[0].tool_result
        if result is None:
            trace_id = next((message.id for message in step if message.role == "assistant"), step[0].id)
            words: JsonObject = {"input": turn.question, "response": _thought(step), "origin": _OF_MODEL}
        else:
            trace_id, call = step[0].id, calls.get(result.call_id)
            called: JsonObject = {"input": call.arguments, "origin": call.name} if call else {}
            words = {**called, "response": result_text(result)}
        came_at = turn.times.get(trace_id, turn.created_at)
        head: JsonObject = {**_head(memory_id, trace_id, came_at), "updated_time": time_text(came_at)}
        traces.append(_without_none({**head, **words, "parent_message_id": turn.id, "trace_number": number}))
    return traces


def tool_outputs(messages: Sequence[Message]) -> JsonObject:
    """The results of the tools, by `<tool>.output`."""
    names = {call.call_id: call.name for message in messages for call in message.tool_calls}
    outputs: dict[str, list[JsonValue]] = {}
    for message in messages:
        if (result := message.tool_result) is not None:
            outputs.setdefault(f"{names.get(result.call_id, 'tool')}.output", []).append(result_text(result))
    return {**outputs}


def result_text(result: ToolResult) -> str:
    """The text of a tool's result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextBlock))


def _head(memory_id: str, message_id: str, came_at: float) -> JsonObject:
    return {"memory_id": memory_id, "message_id": message_id, "create_time": time_text(came_at)}


def _is_answer(step: Sequence[Message]) -> bool:
    return step[0].role != "tool" and not any(message.tool_calls for message in step)


def _text(step: Sequence[Message]) -> str | None:
    """The text of a model's answer; None if it has none."""
    texts = [
        block.text
        for message in step
        if message.role == "assistant"
        for block in message.content
        if isinstance(block, TextBlock)
    ]
    return "".join(texts) if texts else None


def _thought(step: Sequence[Message]) -> str | None:
    """A model's words and calls, in the form of ml-commons' own reasoning: a line of JSON for each call."""
    thought = _text(step) or "\n".join(
        block.text for message in step for block in message.content if isinstance(block, ReasoningBlock)
    )
    calls = [call for message in step for call in message.tool_calls]
    if not calls:
        return thought or None
    lines = [{"action": call.name, "action_input": call.arguments} for call in calls]
    if thought:
        lines[0] = {"thought": thought, **lines[0]}
    return "\n".join(dump_json({**line}).decode() for line in lines)


def _without_none(shown: JsonObject) -> JsonObject:
    return {name: value for name, value in shown.items() if value is not None}
