"""Renders a run as the answer of ml-commons' `_execute`.

Below: content, interactions, transcript, usage. Above: the protocol of `_execute`, and tasks, which keep the answer.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import orjson

from gateway.events import (
    Completed,
    Event,
    Incomplete,
    Interrupted,
    ModelCallEnded,
    Outcome,
    RunFailed,
    RunFinished,
    StopReason,
    Usage,
)
from gateway.messages import JsonObject, JsonValue, Message
from gateway.ml_commons.content import written_blocks, written_call
from gateway.ml_memory.interactions import result_text, tool_outputs
from gateway.protocol.failure_status import RunFailedError, failure_of
from gateway.store import RunRecord
from gateway.transcript import Transcript
from gateway.usage import UsageLedger, token_usage

_STOP_REASONS: Mapping[StopReason, str] = MappingProxyType(
    {
        StopReason.TOOL_CALLS: "tool_use",
        StopReason.CONTENT_FILTER: "content_filtered",
        StopReason.CONTEXT_OVERFLOW: "model_context_window_exceeded",
    }
)
_SERVER_ERROR: Final = 500
_REPEATED: Final = (502, 503, 504)
"""Statuses on which OpenSearch's clients send a request again by themselves (opensearch-py: `retry_on_status`)."""


class ExecutionFailedError(RunFailedError):
    """An execution that failed after its run had begun, with the status that its failure has on this surface. None of
    them makes a client send it again: it would be another run, and its tools would run once more.
    """

    def __init__(self, message: str, code: str, status: int) -> None:
        super().__init__(message, code, _SERVER_ERROR if status in _REPEATED else status)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The parts of an answer that come from its request. `is_unified`: the form of `conversational_v2`."""

    memory_id: str
    interaction_id: str
    is_unified: bool = False
    verbose: bool = False
    token_usage: bool = False

    @property
    def remembered(self) -> JsonObject:
        """The form in which the run's record keeps it; `answer_of` reads it."""
        return {
            "interaction_id": self.interaction_id,
            "unified": self.is_unified,
            "verbose": self.verbose,
            "token_usage": self.token_usage,
        }


class ExecutionAnswer:
    """The renderer of one execution (renderer.Renderer). It has no frames: `_execute` answers once."""

    def __init__(self, form: AnswerForm, *, to_operator: bool = True) -> None:
        """`to_operator`: the caller may see why a model failed."""
        self._form = form
        self._to_operator = to_operator
        self._transcript = Transcript()
        self._usage = UsageLedger()
        self._reason: StopReason | None = None
        self._last: RunFinished | RunFailed | None = None

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        rare = self._transcript.follow(events)
        self._usage.follow(rare)
        for event in rare:
            if isinstance(event, ModelCallEnded):
                self._reason = event.reason
            elif isinstance(event, RunFinished | RunFailed):
                self._last = event
        return ()

    def final(self) -> JsonObject:
        """The answer.

        Raises:
            ExecutionFailedError: the run failed, or was cancelled.
        """
        last = self._last
        assert last is not None, "a run ends before its answer is wanted"
        if (failure := execution_failure(last, to_operator=self._to_operator)) is not None:
            raise failure
        assert isinstance(last, RunFinished), "all others failed"
        messages = self._transcript.messages
        if self._form.is_unified:
            return self._unified(messages, last)
        return {"inference_results": [{"output": self._tensors(messages, last.outcome)}]}

    # --- conversational, ag_ui

    def _tensors(self, messages: Sequence[Message], outcome: Outcome) -> list[JsonValue]:
        form = self._form
        tensors: list[JsonValue] = [
            {"name": "memory_id", "result": form.memory_id},
            {"name": "parent_interaction_id", "result": form.interaction_id},
        ]
        if form.verbose:
            tensors += ({"name": "response", "result": step} for step in _steps(messages))
            if waits := waits_for(outcome):
                tensors.append({"name": "response", "result": waits})
        else:
            tensors.append({"name": "response", "dataAsMap": self._response(messages, outcome)})
        if form.token_usage:
            tensors.append({"name": "token_usage", "dataAsMap": token_usage(self._usage.by_turn)})
        return tensors

    def _response(self, messages: Sequence[Message], outcome: Outcome) -> JsonObject:
        """The answer's text and the outputs of tools. Media, pauses and an early end, which ml-commons has no members
        for, are added if there are any.
        """
        turn = _last_turn(messages)
        response: JsonObject = {
            "response": "".join(each.text for each in turn) or waits_for(outcome),
            "additional_info": tool_outputs(messages),
            **pending_of(outcome),
        }
        if any(each.is_medium for each in turn):
            response["content"] = _content(turn)
        if isinstance(outcome, Incomplete):
            response["stop_reason"] = stop_reason(outcome, self._reason)
        return response

    # --- conversational_v2

    def _unified(self, messages: Sequence[Message], last: RunFinished) -> JsonObject:
        turn = _last_turn(messages)
        message: JsonObject = {"content": _content(turn), "role": "assistant"}
        if calls := [call for each in turn for call in each.tool_calls]:
            message["toolCalls"] = [written_call(call) for call in calls]
        return {
            "stop_reason": stop_reason(last.outcome, self._reason),
            "message": message,
            "memory_id": self._form.memory_id,
            "metrics": {"total_usage": _total_metrics(last.usage)},
            **pending_of(last.outcome),
        }


def execution_failure(last: RunFinished | RunFailed, *, to_operator: bool = True) -> ExecutionFailedError | None:
    """The error of a run that failed or was cancelled; None for another run. An error from the provider of the caller's
    own model comes as it is. `to_operator`: the caller may see why another model failed.
    """
    if isinstance(last, RunFinished) or (remote := last.remote) is None:
        failure = failure_of(last, to_operator=to_operator, what="execution")
        return None if failure is None else ExecutionFailedError(failure.message, failure.code, failure.status)
    said = f"Error from remote service: {remote.body}"
    empty = f"Remote service returned error status {remote.status} with empty body"
    return ExecutionFailedError(said if remote.body.strip() else empty, last.code, remote.status)


def stop_reason(outcome: Outcome, last_call: StopReason | None) -> str:
    """Why a run ended, in the words of `conversational_v2`. `last_call`: why the model's last response ended."""
    match outcome:
        case Interrupted():
            return "interrupt"
        case Completed(pending_calls) if pending_calls:
            return "tool_use"
        case Completed(_, limit) | Incomplete(_, limit) if limit is not None:
            return "max_iterations" if limit == "max_iteration" else limit
        case Incomplete(reason):
            return _STOP_REASONS.get(reason, reason.value)
        case _:
            return "stop_sequence" if last_call is StopReason.STOP_SEQUENCE else "end_turn"


def answer_of(record: RunRecord, to_operator: bool) -> ExecutionAnswer:
    """The renderer of the answer of an execution that has begun earlier, from its run's record."""
    request = record.request or {}
    form = AnswerForm(
        record.thread_id,
        str(request.get("interaction_id", "")),
        request.get("unified") is True,
        verbose=request.get("verbose") is True,
        token_usage=request.get("token_usage") is True,
    )
    return ExecutionAnswer(form, to_operator=to_operator)


def pending_of(outcome: Outcome) -> JsonObject:
    """The calls of the client's tools and the questions to a person that the run waits for; empty if it waits for
    none.
    """
    pending: JsonObject = {}
    if isinstance(outcome, Completed | Interrupted) and outcome.pending_calls:
        pending["pending_tool_calls"] = [written_call(call) for call in outcome.pending_calls]
    if isinstance(outcome, Interrupted):
        pending["interrupts"] = [
            {"id": each.id, "reason": each.reason, "message": each.message, "toolCallId": each.call_id}
            for each in outcome.interrupts
        ]
    return pending


def waits_for(outcome: Outcome) -> str:
    """A sentence that names the calls and questions that the run waits for, and says how to go on."""
    said: list[str] = []
    if isinstance(outcome, Interrupted):
        questions = "; ".join(each.message for each in outcome.interrupts)
        said.append(f"A person has to decide: {questions}. Answer over AG-UI, or as an approval.")
    if isinstance(outcome, Completed | Interrupted) and outcome.pending_calls:
        calls = ", ".join(f"{call.name} ({call.call_id})" for call in outcome.pending_calls)
        said.append(
            f"The agent waits for the results of: {calls}. Send them as messages of role 'tool' with this memory_id."
        )
    return " ".join(said)


def _last_turn(messages: Sequence[Message]) -> list[Message]:
    """The text of the model's last answer."""
    turn_id = next((each.turn_id for each in reversed(messages) if each.role == "assistant"), None)
    return [each for each in messages if each.role == "assistant" and each.turn_id == turn_id]


def _content(turn: Sequence[Message]) -> list[JsonValue]:
    return [block for each in turn for block in written_blocks(each.content)]


def _steps(messages: Sequence[Message]) -> Iterator[str]:
    """Each answer of the model and each result of a tool, as texts."""
    for message in messages:
        if (result := message.tool_result) is not None:
            yield result_text(result)
        elif message.role == "assistant":
            calls: list[JsonValue] = [written_call(call) for call in message.tool_calls]
            written: JsonObject = {"role": "assistant", "content": written_blocks(message.content), "toolCalls": calls}
            yield orjson.dumps(written).decode() if calls or message.is_medium else message.text


def _total_metrics(usages: Sequence[Usage]) -> JsonObject:
    """The `total_usage` of an answer of `conversational_v2`."""
    sums = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    cached = written = 0
    for usage in usages:
        sums["inputTokens"] += usage.input_tokens or 0
        sums["outputTokens"] += usage.output_tokens or 0
        cached += usage.cached_input_tokens or 0
        written += usage.cache_write_input_tokens or 0
    sums["totalTokens"] = sums["inputTokens"] + sums["outputTokens"]
    more = {"cacheReadInputTokens": cached, "cacheCreationInputTokens": written}
    return {**sums, **{name: count for name, count in more.items() if count}}
