"""Makes a run's events from its messages, for renderers of runs whose log is gone.

Below: runs.endings. Above: the rooms of protocols. Pure. Events that only a log has are missing: steps, state, which
MCP server had a tool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from gateway.events import (
    Completed,
    Event,
    Executor,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    approval_id,
)
from gateway.messages import ContentBlock, Message, ReasoningBlock, TextBlock, ToolCall, ToolResult, unanswered_calls
from gateway.runs.endings import terminal_of
from gateway.store import RunRecord, RunStatus, Terminal


def events_of(record: RunRecord, produced: Sequence[Message], answered: Collection[str] = ()) -> list[Event]:
    """The events of an ended run that added these messages. `answered` are calls that a client answered later."""
    waiting = unanswered_calls(produced)
    asked = [call for call in waiting if record.status is RunStatus.INTERRUPTED and call.call_id not in answered]
    pending = tuple(call for call in waiting if call not in asked)
    events: list[Event] = [RunStarted(record.thread_id, record.client_id)]
    is_whole = record.status in (RunStatus.COMPLETED, RunStatus.INTERRUPTED)
    clients = {call.call_id for call in pending} if is_whole else set()
    end = _end(record, pending, asked)
    groups = groupby(produced, key=lambda message: None if message.role == "tool" else message.turn_id)
    for turn_id, messages in [(turn_id, [*messages]) for turn_id, messages in groups]:
        if turn_id is None:
            events += (_returned(message) for message in messages)
        else:
            reason = _stop_reason(end) if messages[-1] is produced[-1] else StopReason.END_TURN
            events += _answer(turn_id, messages, clients, {call.call_id for call in asked}, reason)
    return [*events, end]


def _stop_reason(end: Terminal) -> StopReason:
    """Why the last response of the model ended."""
    match end:
        case RunFinished(Incomplete(reason)):
            return reason
        case _:
            return StopReason.END_TURN


def _returned(message: Message) -> ToolReturned:
    result = message.tool_result
    assert result is not None, "a tool's message has a result"
    return ToolReturned(message.id, result.call_id, result.content, result.is_error)


def _answer(
    turn_id: str, messages: Sequence[Message], clients: Collection[str], asked: Collection[str], reason: StopReason
) -> Iterator[Event]:
    yield ModelCallStarted(turn_id, "", "")
    for message, block in blocks_in_order(messages):
        executor: Executor = "client" if isinstance(block, ToolCall) and block.call_id in clients else "backend"
        yield from _block(message, block, executor, asks=isinstance(block, ToolCall) and block.call_id in asked)
    if not any(message.incomplete for message in messages):
        yield ModelCallEnded(reason)


def blocks_in_order(answer: Sequence[Message]) -> list[tuple[Message, ContentBlock]]:
    """The blocks of one model response, or of tool results, in the order in which they began."""
    blocks = [(message, block) for message in answer for block in message.content]
    if all(not isinstance(block, ToolResult) and block.index >= 0 for _, block in blocks):
        blocks.sort(key=lambda each: getattr(each[1], "index", -1))
    return blocks


def _block(message: Message, block: ContentBlock, executor: Executor, *, asks: bool) -> Iterator[Event]:
    match block:
        case TextBlock(text, index, opaque, refusal):
            yield TextStarted(message.id, message.role, index, refusal)
            if text:
                yield TextDelta(message.id, text)
            yield TextEnded(message.id, opaque)
        case ReasoningBlock(text, index, opaque):
            yield ReasoningStarted(message.id, index)
            if text:
                yield ReasoningDelta(message.id, text)
            yield ReasoningEnded(message.id, opaque)
        case ToolCall(call_id, name, arguments, index, opaque, provider_call_id):
            yield ToolCallStarted(call_id, name, message.id, index, provider_call_id, executor, asks=asks)
            if arguments:
                yield ToolCallDelta(call_id, arguments)
            yield ToolCallEnded(call_id, opaque)
        case ToolResult():
            pass
        case _:
            yield MediaGiven(message.id, block)


def _end(record: RunRecord, pending: tuple[ToolCall, ...], asked: Sequence[ToolCall]) -> Terminal:
    if record.terminal is not None:
        return record.terminal
    match record.status:
        case RunStatus.INTERRUPTED:
            questions = tuple(Interrupt(approval_id(call.call_id), "tool_call", "", call.call_id) for call in asked)
            return RunFinished(Interrupted(questions, pending), record.usage)
        case RunStatus.COMPLETED:
            return RunFinished(Completed(pending), record.usage)
        case _:
            return terminal_of(record)
