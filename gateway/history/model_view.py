"""The messages of a thread in the form that every provider accepts, and the open calls of the last answer.

Below: messages. Above: the loop, and intake. All functions are pure. An answer is a response of a model: the messages
of one turn id, or consecutive assistant messages from the client.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from gateway.frozen import replace
from gateway.messages import ContentBlock, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolResult
from gateway.wire.log_counts import counted
from gateway.wire.stand_ins import UNANSWERED, WAITING

logger = logging.getLogger(__name__)

_ROLES = frozenset(get_args(Role))


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result, in call order; none once a user message follows."""
    answer: list[Message] = []
    answered: set[str] = set()
    turn_id: str | None = None
    for message in reversed(messages):
        # A client's messages have no turn: consecutive ones are one answer, as in `model_view`.
        if answer and (message.turn_id != turn_id or (turn_id is None and message.role == "tool")):
            break
        if message.role == "tool":
            if (result := message.tool_result) is not None:
                answered.add(result.call_id)
        elif message.role in ("assistant", "reasoning"):
            turn_id = message.turn_id
            answer.append(message)
        elif message.role == "user" or answer:
            break
    calls = [call for message in reversed(answer) for call in message.tool_calls]
    if turn_id is not None and all(call.index >= 0 for call in calls):
        calls.sort(key=_index)
    return tuple(call for call in calls if call.call_id not in answered)


def model_view(messages: Sequence[Message], waiting: Collection[str] = ()) -> tuple[Message, ...]:
    """The messages as every provider accepts them. `waiting` are the calls that wait for a person.

    Each answer is one assistant message with its blocks in the order the model made them, followed at once by one tool
    message per call, in call order. Results without a call are dropped; calls without a result get an error result;
    of several results the server's own stays, else the last; of several calls with one id the server's own stays, else
    the first. Empty assistant messages disappear. A user message that came in a role of its own begins with that role.
    """
    if _is_plain_talk(messages):
        return tuple(messages)
    view: list[Message] = []
    results = _results(messages)
    for item in _entries(messages):
        if type(item) is Message:
            view.append(item)
            continue
        assert type(item) is _Answer
        message = item.build()
        view.append(message)
        if item.has_calls:
            calls = [block for block in message.content if type(block) is ToolCall]
            view += [
                results.pop(call.call_id) if call.call_id in results else _unanswered(call, waiting) for call in calls
            ]
    if results:
        logger.warning("dropped tool results whose calls are not in the history", extra=counted(results))
    return tuple(view)


def _is_plain_talk(messages: Sequence[Message]) -> bool:
    """Whether the messages need no change: only text, and no answers that are consecutive or split."""
    turns: set[str] = set()
    after_answer = False
    for message in messages:
        role = message.role
        if role == "assistant":
            content = message.content
            if after_answer or len(content) != 1 or type(block := content[0]) is not TextBlock:
                return False
            if not block.text or block.text.isspace():
                return False
            if (turn_id := message.turn_id) is not None:
                if turn_id in turns:
                    return False
                turns.add(turn_id)
            after_answer = True
        elif role == "tool" or role == "reasoning":
            return False
        else:
            if message.metadata is not None and _own_role(message):
                return False
            after_answer = False
    return True


def _own_role(message: Message) -> str:
    """The client's own role for a user message, which no provider knows; empty for any other message.

    Messages keep it in their metadata, so that every protocol can show it.
    """
    said = None if message.metadata is None or message.role != "user" else message.metadata.get("role")
    return said if isinstance(said, str) and said not in _ROLES else ""


def _in_own_role(message: Message) -> Message:
    """The message with its own role before its text."""
    if not (role := _own_role(message)):
        return message
    first = message.content[0] if message.content else None
    if type(first) is TextBlock:
        return replace(message, content=(TextBlock(f"[{role}] {first.text}"), *message.content[1:]))
    return replace(message, content=(TextBlock(f"[{role}]"), *message.content))


@dataclass(slots=True)
class _Answer:
    """The messages of one answer, and the blocks of these that a model gets."""

    messages: list[Message]
    blocks: list[ContentBlock]
    has_calls: bool = False

    def build(self) -> Message:
        first = self.messages[0]
        blocks = self.blocks
        # A client's blocks have no index, or one without meaning beside those of other messages.
        if len(blocks) > 1 and first.turn_id is not None and all(_index(block) >= 0 for block in blocks):
            blocks.sort(key=_index)
        content = tuple(blocks)
        if len(self.messages) == 1 and first.role == "assistant" and first.content == content:
            return first
        incomplete = any(message.incomplete for message in self.messages)
        return Message(first.id, "assistant", content, first.name, first.turn_id, incomplete)


def _entries(messages: Sequence[Message]) -> list[Message | _Answer]:
    """Single messages, and answers that are not empty. The messages of an answer share a turn id; those of a client's
    answer have none and are consecutive.
    """
    entries: list[Message | _Answer] = []
    turns: dict[str, _Answer] = {}
    words: _Answer | None = None
    calls = _CallFilter(messages)
    for message in messages:
        role = message.role
        if role == "tool":
            words = None
        elif role != "assistant" and role != "reasoning":
            words = None
            entries.append(_in_own_role(message))
        elif (turn_id := message.turn_id) is None:
            if words is None:
                words = _Answer([], [])
                entries.append(words)
            calls.add(message, words)
        else:
            words = None
            answer = turns.get(turn_id)
            if answer is None:
                answer = turns[turn_id] = _Answer([], [])
                entries.append(answer)
            calls.add(message, answer)
    if calls.dropped:
        logger.warning("dropped repeated tool calls from the history", extra=counted(calls.dropped))
    return _joined(entries)


class _CallFilter:
    """Lets each call into one answer only."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._seen: set[str] = set()
        self.dropped: list[str] = []

    @cached_property
    def _own(self) -> set[str]:
        """The calls in this server's answers; computed only if the client's messages have calls."""
        answers = [message for message in self._messages if message.turn_id is not None]
        return {call.call_id for message in answers for call in message.tool_calls}

    def add(self, message: Message, answer: _Answer) -> None:
        """Add the message to the answer, without blank texts and without calls of other answers."""
        answer.messages.append(message)
        for block in message.content:
            if type(block) is TextBlock:
                if block.opaque is None and (not block.text or block.text.isspace()):
                    continue
            elif type(block) is ToolCall:
                call_id = block.call_id
                if call_id in self._seen or (message.turn_id is None and call_id in self._own):
                    self.dropped.append(call_id)
                    continue
                self._seen.add(call_id)
                answer.has_calls = True
            answer.blocks.append(block)


def _joined(entries: Iterable[Message | _Answer]) -> list[Message | _Answer]:
    """The entries without empty answers; a client's text without calls is joined with the text that follows."""
    joined: list[Message | _Answer] = []
    for item in entries:
        if type(item) is _Answer:
            blocks = item.blocks
            if not blocks or (type(blocks[0]) is ReasoningBlock and all(type(b) is ReasoningBlock for b in blocks)):
                continue
            last = joined[-1] if joined else None
            if (
                type(last) is _Answer
                and not last.has_calls
                and last.messages[0].turn_id is None
                and item.messages[0].turn_id is None
            ):
                last.messages += item.messages
                last.blocks += item.blocks
                last.has_calls = item.has_calls
                continue
        joined.append(item)
    return joined


def _index(block: ContentBlock) -> int:
    return -1 if isinstance(block, ToolResult) else block.index


def _results(messages: Iterable[Message]) -> dict[str, Message]:
    results: dict[str, Message] = {}
    for message in messages:
        if message.role != "tool" or (result := message.tool_result) is None:
            continue
        earlier = results.get(result.call_id)
        if earlier is None or earlier.turn_id is None:
            results[result.call_id] = message
    return results


def _unanswered(call: ToolCall, waiting: Collection[str]) -> Message:
    waits = call.call_id in waiting
    result = ToolResult(call.call_id, (TextBlock(WAITING if waits else UNANSWERED),), is_error=not waits)
    return Message(f"unanswered_{call.call_id}", "tool", (result,))
