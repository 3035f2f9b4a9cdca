"""Merges a client's history into a thread, and decides between different messages of the client and the server.

Below: messages. Above: intake, the cache. All functions are pure. An answer is a response of this server's model: the
messages of one turn id.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from gateway.errors import ConflictError
from gateway.frozen import replace
from gateway.messages import Message
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)

# How many messages are compared at once, which takes a tenth of the time of single comparisons.
_PREFIX_STEPS = (512, 32, 1)


class Unseen(NamedTuple):
    """Messages of a thread that a client does not know. `after`: the message before them; None: they are the first."""

    after: str | None
    messages: tuple[Message, ...]


class StaleHistoryError(ConflictError):
    """A client sent its whole history, which lacks messages of the thread that it does not know.

    Merging that history would make a version of the thread without these messages.
    """

    default_code = "stale_history"

    def __init__(self, unseen: Unseen) -> None:
        super().__init__(
            "the thread has messages that this client has not seen; take in those in `missing`, behind the message "
            "`after`, and send again with the id of the last one as `seen`"
        )
        self.unseen = unseen


def unseen_messages(stored: Sequence[Message], seen: str | None, sent: Sequence[Message]) -> Unseen | None:
    """The thread's messages after the last one that a client knows, except those that it sent; None if there are none.

    `seen` is the id of the last message that the client knows, None if it knows none. If the thread no longer has that
    message, the last sent message that is in the thread takes its place. Media, and reasoning and tool results of the
    seen answer, count as seen: `merge_history` keeps them even if the client leaves them out.
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
        and not message.is_medium
        and not (turn_id is not None and message.turn_id == turn_id and message.role in ("tool", "reasoning"))
    )
    return Unseen(stored[place].id if place >= 0 else None, unseen) if unseen else None


def with_unseen(stored: Sequence[Message], sent: Sequence[Message], unseen: Unseen) -> tuple[Message, ...]:
    """The sent messages with the unseen ones inserted: after those that the thread has, before the new ones."""
    place = _place_of(sent, {message.id for message in stored}) + 1
    return (*sent[:place], *unseen.messages, *sent[place:])


def _place_of(messages: Sequence[Message], ids: Container[str | None]) -> int:
    """The place of the last message with one of these ids; -1 if there is none."""
    return next((place for place in reversed(range(len(messages))) if messages[place].id in ids), -1)


def merge_history(
    stored: Sequence[Message], sent: Sequence[Message], answered_before: Collection[str] = frozenset()
) -> tuple[Message, ...]:
    """The thread after a client sent its whole history.

    Messages of this server's models and tools are found by their ids and keep the server's content. Other messages keep
    their metadata if the client sends none. A message that the client left out is removed, with two exceptions: the
    reasoning, the media and the tool results of an answer that is partly kept (clients drop these, and providers refuse
    an answer without them), and an answer of media alone that is not the last. A client's result is dropped if its call
    has a result of the server; `answered_before` are such calls whose results are in messages outside `stored`.
    """
    if not stored and not answered_before:
        return tuple(_words(sent).values())
    known = {message.id: message for message in stored}
    words = _words(sent, known)
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
            # The whole answer is inserted at its first message.
            if (turn := turns.pop(earlier.turn_id, None)) is not None:
                merged += turn if len(turn) == 1 else _kept_of(turn, words)
        elif (
            word.role == "tool"
            and (result := word.tool_result) is not None
            and (result.call_id in answered or result.call_id in answered_before)
        ):
            dropped.append(result.call_id)
        else:
            if earlier is not None and earlier.metadata is not None and word.metadata is None:
                word = replace(word, metadata=earlier.metadata)  # clients leave out metadata that they do not know
            # The stored object in place of an equal one: identity makes unchanged messages cheap to recognise.
            merged.append(earlier if earlier is not None and (earlier is word or earlier == word) else word)
    if turns:
        merged = _with_media(merged, stored, turns)
    if dropped:
        logger.warning("dropped a client's results for calls that have a result", extra=counted(dropped))
    return tuple(merged)


def merge_recognised(stored: tuple[Message, ...], sent: tuple[Message, ...]) -> tuple[Message, ...]:
    """As `merge_history`, for recognised messages. If they begin with the whole thread, the rest is only appended."""
    if sent[: len(stored)] == stored:
        return append_history(stored, sent[len(stored) :])
    return merge_history(stored, sent)


def append_history(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    """The thread after a client sent only new messages. A message that the thread has already is not added twice."""
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


def with_first_results(
    stored: Sequence[Message], sent: tuple[Message, ...], calls: Container[str], ids: Container[str]
) -> tuple[tuple[Message, ...], list[str]]:
    """The sent messages with only the client's first result for each of the `calls`, and the calls of the results that
    were left out. If the first result is stored and was not sent, it takes the place of the further one. `ids` are
    those of the stored messages: a result under one of them is an edit, and stays.
    """
    further = [each for each in sent if each.role == "tool" and each.id not in ids and _answers_one(each, calls)]
    if not further:
        return sent, []
    first = {result.call_id: each for each in reversed(stored) if (result := each.tool_result) is not None}
    new, there = {each.id for each in further}, {each.id for each in sent}
    kept: list[Message] = []
    left_out: list[str] = []
    for message in sent:
        if message.id not in new or (result := message.tool_result) is None:
            kept.append(message)
            continue
        earlier = first.setdefault(result.call_id, message)
        if earlier is message or earlier.turn_id is not None:  # merging drops a client's result for the server's call
            kept.append(message)
            continue
        left_out.append(result.call_id)
        if earlier.id not in there:
            there.add(earlier.id)
            kept.append(earlier)
    if left_out:
        logger.warning("left out further results of calls that have one", extra=counted(left_out))
    return tuple(kept), left_out


def _answers_one(message: Message, calls: Container[str]) -> bool:
    return (result := message.tool_result) is not None and result.call_id in calls


def unchanged_prefix(stored: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """The number of messages at the beginning of both that are the same."""
    count = 0
    for step in _PREFIX_STEPS:
        while count < len(stored) and stored[count : count + step] == now[count : count + step]:
            count += step
    return min(count, len(stored))


def _kept_of(turn: Sequence[Message], sent: Container[str]) -> list[Message]:
    """The messages of an answer that stay when the client sent only some of them."""
    kept = [message for message in turn if message.id in sent]
    said = [message for message in turn if message.role == "assistant" and not message.is_medium]
    if len(kept) == len(turn) or (said and not any(message.role == "assistant" for message in kept)):
        return kept
    calls = {call.call_id for message in kept for call in message.tool_calls}
    return [
        message
        for message in turn
        if message.id in sent
        or message.role == "reasoning"
        or message.is_medium
        or ((result := message.tool_result) is not None and result.call_id in calls)
    ]


def _with_media(
    merged: list[Message], stored: Sequence[Message], unsent: Mapping[str, Sequence[Message]]
) -> list[Message]:
    """`merged` with the unsent answers that are media alone, each after the message that it followed.

    If that message is gone or is now the last one, the answer is left out: the client wants a new one.
    """
    silent = {
        turn_id
        for turn_id, turn in unsent.items()
        if any(message.is_medium for message in turn)
        and all(message.is_medium or message.role == "reasoning" for message in turn)
    }
    if not silent:
        return merged
    behind: dict[str | None, list[Message]] = {}
    before: str | None = None
    for message in stored:
        if message.turn_id in silent:
            behind.setdefault(before, []).append(message)
        else:
            before = message.id
    with_media = [*behind.get(None, ())] if merged else []
    for message in merged[:-1]:
        with_media += (message, *behind.get(message.id, ()))
    return [*with_media, *merged[-1:]]


def _words(sent: Sequence[Message], known: Mapping[str, Message] = {}) -> dict[str, Message]:
    """The client's messages by id; of two with the same id, the last counts. A turn id is removed from them, unless the
    message is the stored one in `known`.
    """
    words = {message.id: message for message in sent}
    if len(words) < len(sent):
        logger.warning("dropped messages with repeated ids", extra={"count": len(sent) - len(words)})
    # Only the server knows who made a message: a client cannot claim a turn.
    claims = [
        message for message in words.values() if message.turn_id is not None and known.get(message.id) is not message
    ]
    for message in claims:
        words[message.id] = replace(message, turn_id=None)
    return words
