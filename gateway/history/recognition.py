"""Recognises a thread's messages in a history that a client sends again as it was shown it. Pure.

Below: messages. Above: the rooms of protocols whose clients do so. A client replays what it was shown: perhaps not the
messages' ids, the calls of hidden tools and the reasoning. So a message is recognised by what must be the same: the
words of users and of the assistant, and the ids of the calls of the client's tools. Everything else belongs to what
stands around it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from gateway.messages import Message, TextBlock

_Mark: TypeAlias = tuple[object, ...]


class _Marks(NamedTuple):
    """What a client must have kept of some messages, in order, and the place of the message that each belongs to.
    `bound`: the marks that are only recognised with the one before them, for the order of both was changed.
    """

    marks: list[_Mark]
    places: list[int]
    bound: Container[int] = ()


def common_beginning(
    stored: Sequence[Message],
    sent: Sequence[Message],
    start: tuple[int, int] = (0, 0),
    *,
    backend_calls: tuple[str, ...] = (),
) -> tuple[int, int]:
    """How many of the thread's messages are recognised, and for how many of the sent ones they stand. What is before
    `start` is recognised already, ends with a person's message, and shares no call with the rest. `backend_calls` begin
    ids that stand for calls of the gateway's own in what is sent alone.
    """
    known, new = start[0] - 1, start[1] - 1  # that message says where the rest begins
    if known < 0 or new < 0:
        return _common_beginning(stored, sent, backend_calls)
    end, rest = _common_beginning(stored[known:], sent[new:], backend_calls)
    return known + end, new + rest


def _common_beginning(
    stored: Sequence[Message], sent: Sequence[Message], backend_calls: tuple[str, ...]
) -> tuple[int, int]:
    shown = _shown_calls(stored, sent, backend_calls)
    replayed = {call.call_id for message in sent for call in message.tool_calls} & shown
    kept, told = _marks(stored, replayed, shown), _marks(sent, replayed, shown)
    same = _same(kept, told)
    if same == len(kept.marks):
        end = len(stored)
    elif same == 0:
        end = 0
    else:
        end = _end_of_answer(stored, kept.places[same - 1], kept.places[same])
    rest = told.places[same - 1] + 1 if same else 0
    if end == len(stored) or (end and _is_users(stored[end])):
        rest = _behind_copies(sent, rest, told.places[same] if same < len(told.places) else len(sent))
    return end, rest


def _shown_calls(stored: Sequence[Message], sent: Sequence[Message], backend_calls: tuple[str, ...]) -> set[str]:
    """The calls that the client sends again, or whose outputs it sends, but for those that the gateway answered: a
    client may replay these in one form or another, or not at all.
    """
    sent_calls = (call.call_id for message in sent for call in message.tool_calls)
    shown = {call_id for call_id in sent_calls if not call_id.startswith(backend_calls)}
    shown |= {
        result.call_id
        for message in sent
        if (result := message.tool_result) is not None and not result.call_id.startswith(backend_calls)
    }
    if shown:
        for message in stored:
            if message.role == "tool" and message.turn_id is not None and (result := message.tool_result) is not None:
                shown.discard(result.call_id)
    return shown


def _marks(messages: Sequence[Message], replayed: set[str], shown: Container[str]) -> _Marks:
    marks: list[_Mark] = []
    places: list[int] = []
    for place, message in enumerate(messages):
        for mark in _marks_of(message, replayed, shown):
            marks.append(mark)
            places.append(place)
    return _in_one_order(marks, places) if replayed else _Marks(marks, places)


def _in_one_order(marks: list[_Mark], places: list[int]) -> _Marks:
    """The marks, with those of calls that follow each other sorted: a client may be shown them in another order."""
    ordered: list[_Mark] = []
    bound: set[int] = set()
    for are_calls, group in groupby(marks, _is_call):
        following = [*group]
        in_order = sorted(following, key=str) if are_calls else following
        if in_order != following:
            bound.update(range(len(ordered) + 1, len(ordered) + len(following)))
        ordered += in_order
    return _Marks(ordered, places, bound)


def _is_call(mark: _Mark) -> bool:
    return mark[0] == "call"


def _marks_of(message: Message, replayed: set[str], shown: Container[str]) -> Sequence[_Mark]:
    """`replayed`: the calls that the client sends again. Its outputs may come without them."""
    role, content = message.role, message.content
    if role == "assistant":
        if len(content) == 1 and type(block := content[0]) is TextBlock:
            return ((role, block.text),) if block.text else ()
        said: list[_Mark] = [(role, text)] if (text := message.text) else []
        return [*said, *(("call", call.call_id) for call in message.tool_calls if call.call_id in replayed)]
    if role == "reasoning":
        return ()
    if role == "tool":
        result = message.tool_result
        return () if result is None or result.call_id not in shown else (("output", result.call_id),)
    return ((role, content),)


def _same(kept: _Marks, told: _Marks) -> int:
    """How many leading marks are the same, without a part of a message."""
    same = 0
    for one, other in zip(kept.marks, told.marks, strict=False):
        if one != other:
            break
        same += 1
    while same and (_splits(kept, same) or _splits(told, same)):
        same -= 1
    return same


def _splits(of: _Marks, same: int) -> bool:
    return same < len(of.places) and (of.places[same - 1] == of.places[same] or same in of.bound)


def _end_of_answer(stored: Sequence[Message], last: int, following: int) -> int:
    """Where the messages end that belong to those up to `last`, if the client has something else in place of those from
    `following` on.
    """
    if _is_users(stored[following]):
        return following
    calls = {call.call_id for call in stored[last].tool_calls}
    end = last + 1
    while end < following and (result := stored[end].tool_result) is not None and result.call_id in calls:
        end += 1
    return end


def _is_users(message: Message) -> bool:
    return message.role not in ("assistant", "reasoning", "tool")


def _behind_copies(sent: Sequence[Message], start: int, end: int) -> int:
    """The place behind messages that are copies of what the thread has behind the last recognised one."""
    while start < end and (sent[start].role in ("reasoning", "tool", "assistant")):
        start += 1
    return start
