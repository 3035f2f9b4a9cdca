"""Recognises a thread's messages in a history that a client copies from earlier responses. Pure.

Below: messages. Above: the rooms of protocols whose clients do so. A copy may lack the messages' ids, the calls of
hidden tools and the reasoning. So a message is recognised by its marks, which every copy has: the words of users and of
the assistant, and the ids of the calls of the client's tools. A message without marks belongs to the messages around
it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from gateway.messages import Message, TextBlock

_Mark: TypeAlias = tuple[object, ...]


class _Marks(NamedTuple):
    """The marks of some messages, in order, and for each mark the place of its message. `bound`: marks that are
    recognised only together with the one before them, because both were sorted.
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
    """How many of the thread's messages are recognised, and how many of the sent ones are their copies.

    `start` counts the messages of both that are recognised already; they end with a person's message, and share no call
    with the rest. `backend_calls` are prefixes of ids that only sent messages have, for the gateway's own calls.
    """
    known, new = start[0] - 1, start[1] - 1  # the person's message is compared again: the rest begins after it
    if known < 0 or new < 0:
        return _common_beginning(stored, sent, backend_calls)
    end, rest = _common_beginning(stored[known:], sent[new:], backend_calls)
    return known + end, new + rest


def _common_beginning(
    stored: Sequence[Message], sent: Sequence[Message], backend_calls: tuple[str, ...]
) -> tuple[int, int]:
    shown = _shown_calls(stored, sent, backend_calls)
    replayed = {call.call_id for message in sent for call in message.tool_calls} & shown
    stored_marks, sent_marks = _marks(stored, replayed, shown), _marks(sent, replayed, shown)
    same = _same(stored_marks, sent_marks)
    if same == len(stored_marks.marks):
        end = len(stored)
    elif same == 0:
        end = 0
    else:
        end = _end_of_answer(stored, stored_marks.places[same - 1], stored_marks.places[same])
    rest = sent_marks.places[same - 1] + 1 if same else 0
    if end == len(stored) or (end and _is_users(stored[end])):
        rest = _after_copies(sent, rest, sent_marks.places[same] if same < len(sent_marks.places) else len(sent))
    return end, rest


def _shown_calls(stored: Sequence[Message], sent: Sequence[Message], backend_calls: tuple[str, ...]) -> set[str]:
    """The calls that the client sends again, or whose outputs it sends, except those with a result of the gateway: a
    client may copy these in several forms, or not at all.
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
    """The marks, with consecutive calls sorted: a client may have received them in another order."""
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
    """The message's marks. `replayed`: the calls that the client sends again; outputs may come without their calls."""
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


def _same(stored_marks: _Marks, sent_marks: _Marks) -> int:
    """How many marks at the beginning of both are the same; of each message all count or none."""
    same = 0
    for one, other in zip(stored_marks.marks, sent_marks.marks, strict=False):
        if one != other:
            break
        same += 1
    while same and (_splits(stored_marks, same) or _splits(sent_marks, same)):
        same -= 1
    return same


def _splits(of: _Marks, same: int) -> bool:
    return same < len(of.places) and (of.places[same - 1] == of.places[same] or same in of.bound)


def _end_of_answer(stored: Sequence[Message], last: int, following: int) -> int:
    """The end of the answer that the stored messages up to `last` belong to, if the client replaced the messages from
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


def _after_copies(sent: Sequence[Message], start: int, end: int) -> int:
    """The place after the copies of thread messages that follow the last recognised one."""
    while start < end and (sent[start].role in ("reasoning", "tool", "assistant")):
        start += 1
    return start
