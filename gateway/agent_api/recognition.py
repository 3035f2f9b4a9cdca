"""Recognises a thread's messages in the input of a request. Pure.

Below: messages. Above: start, which gives it to the run as SentMessages.recognition.

Most clients send what is new, and the session has the rest. Some send the whole talk again, or its last part. An input
is such a copy if an agent's message in it has text, or if it begins with a person's message and has an agent's. Then
the thread's own part is found in it, and the messages after that part replace the thread's: that is an edit, or an
answer that is wanted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

from gateway.frozen import replace
from gateway.history.recognition import common_beginning
from gateway.messages import INSTRUCTION_ROLES, Message, ReasoningBlock

Beginning: TypeAlias = Callable[[Sequence[Message], tuple[Message, ...]], tuple[int, int]]
"""As `common_beginning`."""

_MOST_COMPARED: Final = 50_000  # messages: a thread of nothing but the same words would take minutes


def recognise(
    stored: Sequence[Message],
    sent: tuple[Message, ...],
    beginning: Beginning = common_beginning,
    *,
    spare_ids: Mapping[str, str],
) -> tuple[Message, ...]:
    """The thread after the input: its own messages in place of their copies, then the new ones.

    A new message whose id another one has gets its spare id: clients may number theirs in each request anew.
    """
    told, talk = _instructions(sent), sent[len(_instructions(sent)) :]
    if not stored:
        return sent
    if _is_copy(talk):
        own = _instructions(stored)
        kept, new = _shared(stored[len(own) :], talk, beginning)
        if new:
            there = stored[len(own) : len(own) + kept]
            first = own if not told or _same_words(own, told) else _renamed(there, told, spare_ids)
            before = (*first, *there)
            return (*before, *_renamed(before, _outputs_once(talk[new:]), spare_ids))
    return (*stored, *_renamed(stored, _outputs_once(_unknown(stored, sent)), spare_ids))


def _instructions(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(takewhile(lambda message: message.role in INSTRUCTION_ROLES, messages))


def _same_words(one: Sequence[Message], other: Sequence[Message]) -> bool:
    return [message.text for message in one] == [message.text for message in other]


def _is_copy(talk: Sequence[Message]) -> bool:
    """Whether a client sends a conversation again, and not only new messages."""
    answers = [message for message in talk if message.role == "assistant"]
    return bool(answers) and (talk[0].role == "user" or any(message.text for message in answers))


def _shared(stored: Sequence[Message], talk: tuple[Message, ...], beginning: Beginning) -> tuple[int, int]:
    """How many of the thread's messages stay, and how many messages of `talk` are their copies.

    A talk that does not begin as the thread does may be the thread's last part: often the last answer, followed by a
    call's output. If that part may begin at several places, the place with the most copies counts.
    """
    kept, new = beginning(stored, talk)
    if new:
        return kept, new
    first = next(place for place, message in enumerate(talk) if message.role == "user" or message.text)
    if any(message.role != "reasoning" for message in _unknown(stored, talk[:first])):
        return 0, 0
    best, left = (0, 0), _MOST_COMPARED
    for place in reversed(range(len(stored))):
        if not _begins(stored[place], talk[first]):
            continue
        if (left := left - (len(stored) - place) - (len(talk) - first)) < 0:
            break
        kept, new = common_beginning(stored[place:], talk[first:])
        if new > best[1] and any(each.role == "assistant" for each in talk[first : first + new]):
            best = place + kept, new
            if best[0] == len(stored):
                break
    kept, new = best
    return (kept, first + new) if new else (0, 0)


def _begins(stored: Message, sent: Message) -> bool:
    """Whether a message of the thread is a sent one, or begins with it: its calls are sent as messages of their own."""
    if stored.role != sent.role:
        return False
    return stored.content == sent.content or (stored.role == "assistant" and stored.text == sent.text)


def _unknown(stored: Sequence[Message], sent: Sequence[Message]) -> list[Message]:
    """The sent messages without copies of the thread's: a client sends its calls again with their outputs, the same
    instructions each time, or a request again whose run gave no answer.
    """
    roles = {message.role for message in sent}  # a long thread is looked through only for what they need
    calls = {call.call_id for message in stored for call in message.tool_calls} if "assistant" in roles else ()
    results = (message.tool_result for message in stored) if "tool" in roles else ()
    answered = {result.call_id for result in results if result is not None}
    instructions = stored if not roles.isdisjoint(INSTRUCTION_ROLES) else ()
    told = {message.text for message in instructions if message.role in INSTRUCTION_ROLES}
    thoughts = {_thought(message) for message in stored if message.role == "reasoning"} if "reasoning" in roles else ()
    unanswered = {message.id: message for message in _after_last_answer(stored)}
    return [
        message
        for message in sent
        if not (
            (message.role == "assistant" and any(call.call_id in calls for call in message.tool_calls))
            or ((result := message.tool_result) is not None and result.call_id in answered)
            or (message.role in INSTRUCTION_ROLES and message.text in told)
            or (message.role == "reasoning" and _thought(message) in thoughts)
            or ((copy := unanswered.get(message.id)) is not None and copy.content == message.content)
        )
    ]


def _outputs_once(new: Iterable[Message]) -> Iterator[Message]:
    """New messages without further outputs of a call, which are the same."""
    seen: set[str] = set()
    for message in new:
        if (result := message.tool_result) is not None:
            if result.call_id in seen:
                continue
            seen.add(result.call_id)
        yield message


def _thought(message: Message) -> str:
    return "".join(block.text for block in message.content if isinstance(block, ReasoningBlock))


def _after_last_answer(stored: Sequence[Message]) -> list[Message]:
    """The person's messages at the end of the thread that nobody answered."""
    return list(takewhile(lambda message: message.role == "user", reversed(stored)))


def _renamed(before: Sequence[Message], added: Iterable[Message], spare_ids: Mapping[str, str]) -> list[Message]:
    new = [*added]
    taken = {message.id for message in new}
    taken.intersection_update([message.id for message in before])
    return [replace(message, id=spare_ids[message.id]) if message.id in taken else message for message in new]
