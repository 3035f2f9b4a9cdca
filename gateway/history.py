"""A thread's messages as a history: what a request makes of it, and what a model may be shown of it.

Below: messages. Above: the loop and the runner. All functions are pure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gateway.messages import ContentBlock, Message, ReasoningBlock, TextBlock, ToolCall, ToolResult

logger = logging.getLogger(__name__)

UNANSWERED = "This call was not answered: it was given up before there was a result."


def merge_history(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    """The thread after a client sent what it holds to be the whole history.

    What a model or backend tool of this server produced keeps the server's content, by its id; what the client left out
    leaves the thread, but for the reasoning and the tool results of an answer of which anything stayed (clients drop
    these, and providers refuse an answer without them). A client's result for a call that the server answered is
    dropped.
    """
    produced = {message.id: message for message in stored if message.turn_id is not None}
    if not produced:
        return tuple(_reuse(stored, sent))
    turns: dict[str, list[Message]] = {}
    answered: set[str] = set()
    for message in produced.values():
        turns.setdefault(message.turn_id or "", []).append(message)
        if (result := message.tool_result) is not None:
            answered.add(result.call_id)
    sent_ids = {message.id for message in sent}
    merged: list[Message] = []
    placed: set[str] = set()
    for message in _reuse(stored, sent):
        own = produced.get(message.id)
        if own is not None and own.role == message.role:
            turn_id = own.turn_id or ""
            if turn_id not in placed:
                placed.add(turn_id)
                merged += [part for part in turns[turn_id] if part.id in sent_ids or part.role in ("reasoning", "tool")]
        elif (result := message.tool_result) is None or result.call_id not in answered:
            merged.append(message)
    return tuple(merged)


def append_history(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    """The thread after a client sent only what is new. A message that the thread has already is not added twice."""
    known = {message.id for message in stored}
    answered = {result.call_id for m in stored if m.turn_id is not None and (result := m.tool_result) is not None}
    new = [
        message
        for message in sent
        if message.id not in known and ((result := message.tool_result) is None or result.call_id not in answered)
    ]
    return (*stored, *new)


def unchanged_prefix(stored: Sequence[Message], now: Sequence[Message]) -> int:
    """How many leading messages of the two are the same."""
    count = 0
    for old, new in zip(stored, now, strict=False):
        if old is not new and old != new:
            break
        count += 1
    return count


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result, in call order; none once a user message came after it."""
    last_turn: list[Message] = []
    answered: set[str] = set()
    turn_id: str | None = None
    for message in reversed(messages):
        if message.role == "tool":
            if last_turn and message.turn_id != turn_id:
                break
            if (result := message.tool_result) is not None:
                answered.add(result.call_id)
        elif message.role in ("assistant", "reasoning"):
            if last_turn and message.turn_id != turn_id:
                break
            turn_id = message.turn_id
            last_turn.append(message)
        elif message.role == "user" or last_turn:
            break
    calls = [call for message in reversed(last_turn) for call in message.tool_calls]
    calls.sort(key=lambda call: call.index)  # stable: a client's calls, all -1, stay as they stand
    return tuple(call for call in calls if call.call_id not in answered)


def model_view(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as every provider accepts them.

    Each answer is one assistant message with its blocks in the order the model made them, followed at once by one tool
    message per call, in call order. Results without a call are dropped; calls without a result get an error result;
    of several results the server's own stays, else the last. Empty assistant messages disappear.
    """
    view: list[Message] = []
    results = _results(messages)
    seen_calls: set[str] = set()
    for item in _entries(messages):
        if isinstance(item, Message):
            view.append(item)
            continue
        blocks = _turn_blocks(item, seen_calls)
        if all(isinstance(block, ReasoningBlock) for block in blocks):
            continue
        first = item.messages[0]
        view.append(
            Message(first.id, "assistant", blocks, first.name, item.turn_id, any(m.incomplete for m in item.messages))
        )
        for block in blocks:
            if isinstance(block, ToolCall):
                view.append(results.pop(block.call_id) if block.call_id in results else _unanswered(block))
    for call_id in results:
        logger.warning("dropped a tool result whose call is not in the history", extra={"call_id": call_id})
    return tuple(view)


@dataclass(slots=True)
class _Turn:
    """The messages of one answer."""

    turn_id: str | None
    messages: list[Message] = field(default_factory=list)


def _entries(messages: Iterable[Message]) -> list[Message | _Turn]:
    """Messages that stand alone, and answers: by turn_id, and for a client's words by standing together."""
    entries: list[Message | _Turn] = []
    turns: dict[str, _Turn] = {}
    words: _Turn | None = None
    for message in messages:
        if message.role == "tool":
            words = None
        elif message.role not in ("assistant", "reasoning"):
            words = None
            entries.append(message)
        elif message.turn_id is not None:
            words = None
            turn = turns.get(message.turn_id)
            if turn is None:
                turn = turns[message.turn_id] = _Turn(message.turn_id)
                entries.append(turn)
            turn.messages.append(message)
        else:
            if words is None:
                words = _Turn(None)
                entries.append(words)
            words.messages.append(message)
    return entries


def _turn_blocks(turn: _Turn, seen_calls: set[str]) -> tuple[ContentBlock, ...]:
    blocks: list[ContentBlock] = []
    for message in turn.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                if block.call_id in seen_calls:
                    logger.warning("dropped a repeated tool call from the history", extra={"call_id": block.call_id})
                    continue
                seen_calls.add(block.call_id)
            elif isinstance(block, TextBlock) and not block.text.strip() and block.opaque is None:
                continue
            blocks.append(block)
    places = [_index(block) for block in blocks]
    if blocks and min(places) >= 0:
        blocks.sort(key=_index)
    return tuple(blocks)


def _index(block: ContentBlock) -> int:
    return block.index if isinstance(block, TextBlock | ReasoningBlock | ToolCall) else -1


def _results(messages: Iterable[Message]) -> dict[str, Message]:
    results: dict[str, Message] = {}
    for message in messages:
        if message.role != "tool" or (result := message.tool_result) is None:
            continue
        earlier = results.get(result.call_id)
        if earlier is None or earlier.turn_id is None:
            results[result.call_id] = message
    return results


def _unanswered(call: ToolCall) -> Message:
    result = ToolResult(call.call_id, (TextBlock(UNANSWERED),), is_error=True)
    return Message(f"unanswered_{call.call_id}", "tool", (result,))


def _reuse(stored: Sequence[Message], sent: Sequence[Message]) -> list[Message]:
    """`sent` with the stored object in place of an equal one, and each id once: the last message of an id counts."""
    by_id = {message.id: message for message in sent}
    known = {message.id: message for message in stored}
    reused: list[Message] = []
    for message in sent:
        latest = by_id.pop(message.id, None)
        if latest is None:
            logger.warning("dropped a message whose id stands twice", extra={"message_id": message.id})
            continue
        # Who made a message is the server's knowledge: a client cannot claim a turn.
        if latest.turn_id is not None:
            latest = replace(latest, turn_id=None)
        earlier = known.get(latest.id)
        reused.append(earlier if earlier == latest and earlier is not None else latest)
    return reused
