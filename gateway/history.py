"""A thread's messages as a history: what a request makes of it, and what a model may be shown of it.

Below: messages. Above: the loop and intake. All functions are pure.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gateway.errors import ConflictError
from gateway.frozen import replace
from gateway.log_counts import counted
from gateway.messages import ContentBlock, Message, ReasoningBlock, TextBlock, ToolCall, ToolResult
from gateway.wire.stand_ins import UNANSWERED

logger = logging.getLogger(__name__)

# How many messages are compared at once: a tenth of the time of one by one.
_PREFIX_STEPS = (512, 32, 1)


class Unseen(NamedTuple):
    """Messages of a thread that a client does not know. `after`: the one that they follow; None: they are the first."""

    after: str | None
    messages: tuple[Message, ...]


class StaleHistoryError(ConflictError):
    """A client sent its history without messages of the thread that it does not know.

    Taken as it is, that history would delete them.
    """

    default_code = "stale_history"

    def __init__(self, unseen: Unseen) -> None:
        super().__init__(
            "the thread has messages that this client has not seen; take in those in `missing`, behind the message "
            "`after`, and send again with the id of the last one as `seen`"
        )
        self.unseen = unseen


def unseen_messages(stored: Sequence[Message], seen: str | None, sent: Sequence[Message]) -> Unseen | None:
    """The thread's messages behind the last one that a client knows, but for those that it sent; None: there are none.

    `seen` is that message's id, None where it knows none. Where it is not in the thread any more, what counts is the
    last message that was sent and is there. Reasoning and tool results of the answer that was seen are known:
    `merge_history` keeps them whoever sends them.
    """
    place = _place_of(stored, (seen,))
    if place == len(stored) - 1:
        return None
    known = {message.id for message in sent}
    if place < 0 and seen is not None:
        place = _place_of(stored, known)
    turn_id = stored[place].turn_id if place >= 0 else None
    unseen = tuple(
        message
        for message in stored[place + 1 :]
        if message.id not in known
        and not (turn_id is not None and message.turn_id == turn_id and message.role in ("tool", "reasoning"))
    )
    return Unseen(stored[place].id if place >= 0 else None, unseen) if unseen else None


def with_unseen(stored: Sequence[Message], sent: Sequence[Message], unseen: Unseen) -> tuple[Message, ...]:
    """What was sent with the unseen messages in it: behind what the thread has of it, in front of what is new."""
    place = _place_of(sent, {message.id for message in stored}) + 1
    return (*sent[:place], *unseen.messages, *sent[place:])


def _place_of(messages: Sequence[Message], ids: Container[str | None]) -> int:
    """Where the last message with one of these ids stands; -1 where none has."""
    return next((place for place in reversed(range(len(messages))) if messages[place].id in ids), -1)


def merge_history(
    stored: Sequence[Message], sent: Sequence[Message], answered_before: Collection[str] = frozenset()
) -> tuple[Message, ...]:
    """The thread after a client sent what it holds to be the whole history.

    What a model or backend tool of this server produced keeps the server's content, by its id; what the client left out
    leaves the thread, but for the reasoning and the tool results of an answer of which something stayed (clients drop
    these, and providers refuse an answer without them). A client's result for a call that the server answered is
    dropped; `answered_before` are calls that it answered in messages that are not in `stored`.
    """
    words = _words(sent)
    if not stored and not answered_before:
        return tuple(words.values())
    known = {message.id: message for message in stored}
    turns: dict[str, list[Message]] = {}
    answered: set[str] = set()
    for message in known.values():
        if message.turn_id is not None:
            turns.setdefault(message.turn_id, []).append(message)
            if message.role == "tool" and (result := message.tool_result) is not None:
                answered.add(result.call_id)
    merged: list[Message] = []
    dropped: list[str] = []
    for message_id, word in words.items():
        earlier = known.get(message_id)
        if earlier is not None and earlier.turn_id is not None:
            # The whole answer stands where its first message stands.
            if (turn := turns.pop(earlier.turn_id, None)) is not None:
                merged += turn if len(turn) == 1 else _kept_of(turn, words)
        elif (
            word.role == "tool"
            and (result := word.tool_result) is not None
            and (result.call_id in answered or result.call_id in answered_before)
        ):
            dropped.append(result.call_id)
        else:
            # The stored object in place of an equal one: what did not change is cheap to recognise.
            same = earlier is not None and (earlier is word or earlier == word)
            merged.append(earlier if same else word)  # type: ignore[arg-type]  # the same is not None
    if dropped:
        logger.warning("dropped a client's results for calls that have one", extra=counted(dropped))
    return tuple(merged)


def append_history(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    """The thread after a client sent only what is new. A message that the thread has already is not added twice."""
    known = {message.id for message in stored}
    answered = {
        result.call_id
        for message in stored
        if message.role == "tool" and message.turn_id is not None and (result := message.tool_result) is not None
    }
    new = [
        message
        for message in _words(sent).values()
        if message.id not in known and ((result := message.tool_result) is None or result.call_id not in answered)
    ]
    return (*stored, *new)


def unchanged_prefix(stored: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """How many leading messages of the two are the same."""
    count = 0
    for step in _PREFIX_STEPS:
        while count < len(stored) and stored[count : count + step] == now[count : count + step]:
            count += step
    return min(count, len(stored))


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last answer that have no result, in call order; none once a user message came after it."""
    answer: list[Message] = []
    answered: set[str] = set()
    turn_id: str | None = None
    for message in reversed(messages):
        # A client's words have no turn: what stands together is one answer, as in `model_view`.
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


def model_view(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as every provider accepts them.

    Each answer is one assistant message with its blocks in the order the model made them, followed at once by one tool
    message per call, in call order. Results without a call are dropped; calls without a result get an error result;
    of several results the server's own stays, else the last; of several calls with one id the server's own stays, else
    the first. Empty assistant messages disappear.
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
            view += [results.pop(call.call_id) if call.call_id in results else _unanswered(call) for call in calls]
    if results:
        logger.warning("dropped tool results whose calls are not in the history", extra=counted(results))
    return tuple(view)


def _is_plain_talk(messages: Sequence[Message]) -> bool:
    """Whether the messages are their own view: words alone, and no two answers that follow one another or are one."""
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
            after_answer = False
    return True


@dataclass(slots=True)
class _Answer:
    """The messages of one answer and those of their blocks that a model may see."""

    messages: list[Message]
    blocks: list[ContentBlock]
    has_calls: bool = False

    def build(self) -> Message:
        first = self.messages[0]
        blocks = self.blocks
        # A client's words have no index, or one that means nothing beside those of other words.
        if len(blocks) > 1 and first.turn_id is not None and all(_index(block) >= 0 for block in blocks):
            blocks.sort(key=_index)
        content = tuple(blocks)
        if len(self.messages) == 1 and first.role == "assistant" and first.content == content:
            return first
        incomplete = any(message.incomplete for message in self.messages)
        return Message(first.id, "assistant", content, first.name, first.turn_id, incomplete)


def _entries(messages: Sequence[Message]) -> list[Message | _Answer]:
    """Messages that stand alone, and answers with something in them: by turn_id, a client's by standing together."""
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
            entries.append(message)
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
        """The calls in this server's answers. Asked for only where a client brings calls."""
        answers = [message for message in self._messages if message.turn_id is not None]
        return {call.call_id for message in answers for call in message.tool_calls}

    def add(self, message: Message, answer: _Answer) -> None:
        """Add the message to the answer, without its blank texts and without calls that stand elsewhere."""
        answer.messages.append(message)
        for block in message.content:
            kind = type(block)
            if kind is TextBlock:
                if block.opaque is None and (not block.text or block.text.isspace()):  # type: ignore[union-attr]
                    continue
            elif kind is ToolCall:
                call_id: str = block.call_id  # type: ignore[union-attr]
                if call_id in self._seen or (message.turn_id is None and call_id in self._own):
                    self.dropped.append(call_id)
                    continue
                self._seen.add(call_id)
                answer.has_calls = True
            answer.blocks.append(block)


def _joined(entries: Iterable[Message | _Answer]) -> list[Message | _Answer]:
    """The entries without empty answers; a client's words without calls go together with the words that follow."""
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
    kind = type(block)
    if kind is TextBlock or kind is ToolCall or kind is ReasoningBlock:
        return block.index  # type: ignore[union-attr]  # one of the three, by the line above
    return -1


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


def _kept_of(turn: Sequence[Message], sent: Container[str]) -> list[Message]:
    """What stays of an answer of several messages of which the client has some."""
    kept = [message for message in turn if message.id in sent]
    if len(kept) == len(turn) or not any(message.role == "assistant" for message in kept):
        return kept
    calls = {call.call_id for message in kept for call in message.tool_calls}
    return [
        message
        for message in turn
        if message.id in sent
        or message.role == "reasoning"
        or ((result := message.tool_result) is not None and result.call_id in calls)
    ]


def _words(sent: Sequence[Message]) -> dict[str, Message]:
    """What a client may say, by id: the last message of an id counts, and none is this server's answer."""
    words = {message.id: message for message in sent}
    if len(words) < len(sent):
        logger.warning("dropped messages whose id stands twice", extra={"count": len(sent) - len(words)})
    # Who made a message is the server's knowledge: a client cannot claim a turn.
    claims = [message for message in words.values() if message.turn_id is not None]
    for message in claims:
        words[message.id] = replace(message, turn_id=None)
    return words
