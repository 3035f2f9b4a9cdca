"""The thread of a request that names it by a header of `thread_headers`, as chat applications name their chats.

Below: the protocols' environment, routes, ids. Above: chat_start, responses_start.

Such an application sends a chat's id also with requests for itself, such as one for the chat's title, and some send
that one first. Those requests do not stream. So one that does not stream begins no thread of that name. It gets a
provisional one, whose id comes from the chat and the words before the first answer. The chat's thread begins with the
first request that streams. Where a request brings an answer of a provisional thread back, it begins as that one did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, TypeAlias

from gateway.access.callers import Caller
from gateway.agent import ThreadPoint
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import Message
from gateway.openai_api.ids import new_thread_id
from gateway.openai_api.routes import header_text
from gateway.protocol import ProtocolEnvironment
from gateway.store import RunRecord

Beginning: TypeAlias = Callable[[Sequence[Message], Sequence[Message]], tuple[int, int]]
"""How many of a thread's messages are recognised, and for how many of the sent ones they stand."""

_LONGEST_ID: Final = 256
_COMPARED: Final = 20  # messages of a thread of which a request may be no part
_ANSWERS: Final = ("assistant", "tool")


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """The thread that a request is on. `short_lived` and `begins_from` as in InputThread."""

    thread_id: str
    short_lived: bool = False
    begins_from: ThreadPoint | None = None


def thread_id_of(value: str) -> str | None:
    """The id of a thread that a client wrote, which may be empty; None: it can be none."""
    return value if len(value) <= _LONGEST_ID and value.isprintable() else None


def no_thread_id(called: str) -> str:
    """The problem of a text that can be no id of a thread."""
    return f"{called} must be the id of a thread: 1 to {_LONGEST_ID} printable characters"


def thread_of_header(headers: Mapping[str, str], name: str) -> str:
    """The id in a header; empty where it is not sent. Raises InvalidRequestError (400)."""
    if (named := thread_id_of(header_text(headers, name))) is None:
        raise InvalidRequestError(no_thread_id(name), code="invalid_value", status=400)
    return named


def first_named(headers: Mapping[str, str], names: Sequence[str]) -> str:
    """The id in the first of these headers that is sent; empty: none is. Raises InvalidRequestError (400)."""
    return next(filter(None, (thread_of_header(headers, name) for name in names)), "")


async def header_place(
    environment: ProtocolEnvironment,
    caller: Caller,
    named: str,
    messages: Sequence[Message],
    beginning: Beginning,
    *,
    stream: bool,
    aside: str,
) -> ThreadPlace:
    """The place of a request whose header names that thread. `messages` are all of its conversation; `aside` is the id
    of a new thread, for a request that is no part of another.
    """
    brings_answer = any(message.role in _ANSWERS for message in messages)
    if stream and not brings_answer:
        return ThreadPlace(named)
    try:
        page = await environment.messages(caller, named, limit=1 if stream else _COMPARED)
    except NotFoundError:
        provisional = _provisional_id(named, messages)
        last = await _last_run(environment, caller, provisional)
        if last is not None and brings_answer:
            taken = await _taken_over(environment, caller, named, last, messages, beginning)
            if taken is not None:
                return taken
        if stream:
            return ThreadPlace(named)
        is_free = last is None or last.status.ended
        return ThreadPlace(provisional if is_free else aside, short_lived=True)
    goes_on = stream or not page.items or beginning(page.items, messages)[1] > 0
    return ThreadPlace(named) if goes_on else ThreadPlace(aside, short_lived=True)


def _provisional_id(named: str, messages: Sequence[Message]) -> str:
    """The same for a request and for those that bring its answer back."""
    before = takewhile(lambda message: message.role not in _ANSWERS, messages)
    return new_thread_id(repr((named, [(message.role, message.text.strip()) for message in before])))


async def _last_run(environment: ProtocolEnvironment, caller: Caller, thread_id: str) -> RunRecord | None:
    try:
        runs = await environment.thread_runs(caller, thread_id, limit=1)
    except NotFoundError:
        return None
    return next(iter(runs.items), None)


async def _taken_over(
    environment: ProtocolEnvironment,
    caller: Caller,
    named: str,
    last: RunRecord,
    messages: Sequence[Message],
    beginning: Beginning,
) -> ThreadPlace | None:
    """The place of a request that brings back an answer of the provisional thread, whose last run is `last`; None: it
    does not. While somebody is asked there, the thread goes on itself: a question cannot be taken to another.
    """
    if (head := await environment.thread_head(caller, last.thread_id)) is None:
        return None
    known = head.messages[: beginning(head.messages, messages)[0]]
    if last.end is None or not any(message.role == "assistant" for message in known):
        return None
    if head.open:
        return ThreadPlace(last.thread_id, short_lived=True)
    return ThreadPlace(named, begins_from=replace(last.end, length=len(known), last_message_id=known[-1].id))
