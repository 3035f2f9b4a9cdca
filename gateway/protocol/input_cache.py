"""Keeps a conversation's last request as it was read and recognised, so that the next request costs only as much as its
new part.

Below: the history's cache. Above: the rooms of protocols whose clients send their whole conversation with every
request; they say how they recognise it. Where the bytes of its items begin as they did before, these are not parsed
again. Where the items do, the objects that were read then stand for them. So they, and the thread's messages, are
compared by identity. The result is the same without any of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson

from gateway.history.cache import HistoryCache
from gateway.lru import LruCache
from gateway.messages import JsonObject, JsonValue, Message, ToolCall, ToolResult
from gateway.protocol.requests import loaded_json, parsed_json
from gateway.protocol.time_sharing import TimeSharing
from gateway.wire import strict_json

CommonBeginning: TypeAlias = Callable[[Sequence[Message], Sequence[Message], tuple[int, int]], tuple[int, int]]
"""How many of the thread's messages are recognised, and for how many of the sent ones they stand. What is before the
given places is recognised already, ends with a person's message, and shares no call with the rest.
"""
KnownBeginning: TypeAlias = Callable[[Sequence[Message], tuple[Message, ...]], tuple[int, int]]
"""The same, from the first place on; it looks up what was recognised before."""
Recogniser: TypeAlias = Callable[[Sequence[Message], tuple[Message, ...], KnownBeginning], tuple[Message, ...]]
"""The thread as a client's messages say that it is, its own messages in place of their copies."""
_Key: TypeAlias = tuple[str, str]

LIMIT_BYTES: Final = 64 * 1024 * 1024
LEAST_MESSAGES: Final = 8
"""Fewer are read as fast as they are looked up."""
MESSAGE_BYTES: Final = 2_000
"""What a message, and its thread's entry, take besides the message's own bytes."""
_MOST_PLACES: Final = 3


class ReadBefore(Protocol):
    """A request's items, as they were read."""

    @property
    def items(self) -> Sequence[JsonValue]: ...


_Read = TypeVar("_Read", bound=ReadBefore)


class _Recognition(NamedTuple):
    """The thread's messages and the sent ones, and the thread that they make."""

    stored: Sequence[Message]
    sent: tuple[Message, ...]
    result: tuple[Message, ...]


class _Ended(NamedTuple):
    """Sent messages that the next request may go on from, and the thread's that stand for them; the calls in both."""

    sent: tuple[Message, ...]
    result: tuple[Message, ...]
    calls: frozenset[str]


class _Written(NamedTuple):
    """Items, and how the client wrote them."""

    raw: bytes
    items: Sequence[JsonValue]


_NOT_ASKED: Final = _Recognition((), (), ())
_NOTHING: Final = _Ended((), (), frozenset())
_UNWRITTEN: Final = _Written(b"", ())


def known_and_new(
    stored: Sequence[Message], sent: tuple[Message, ...], beginning: KnownBeginning
) -> tuple[Message, ...]:
    """The sent messages, with the thread's own in place of the beginning that is a copy of them."""
    known, new = beginning(stored, sent)
    return (*stored[:known], *sent[new:])


class KnownInput(Generic[_Read]):
    """The cache of one conversation. It may be dropped at any time."""

    def __init__(self, member: str, common_beginning: CommonBeginning) -> None:
        self.history = HistoryCache()
        self.read: _Read | None = None
        self.size = 0
        self._member = member
        self._common_beginning = common_beginning
        self._written = _UNWRITTEN
        self._last = _NOT_ASKED
        self._ended = _NOTHING

    async def parsed(self, content: bytes, owner: str, time: TimeSharing) -> JsonValue:
        """As `requests.parsed_json`."""
        raw, items = self._written
        if raw and (start := place_of(raw, self._member, content)) is not None:
            mark, rest = marked(content, start, start + len(raw))
            try:
                body = await loaded_json(rest, owner, time, size=len(content))
            except strict_json.NotStrictJsonError:
                return await parsed_json(content, owner, time)
            given = body.get(self._member) if isinstance(body, dict) else None
            if isinstance(given, list) and given and given[0] == mark:
                given[:1] = items
                return body
        return await parsed_json(content, owner, time)

    def recognise(
        self, stored: Sequence[Message], sent: tuple[Message, ...], how: Recogniser = known_and_new
    ) -> tuple[Message, ...]:
        """The thread that `how` makes of these messages. A run calls this several times before it begins, with the same
        `sent`."""
        last = self._last
        if sent is not last.sent or stored != last.stored:
            last = self._last = _Recognition(stored, sent, how(stored, sent, self._beginning))
        return last.result

    def _beginning(self, stored: Sequence[Message], sent: tuple[Message, ...]) -> tuple[int, int]:
        before = self._ended
        if stored[: len(before.result)] != before.result or sent[: len(before.sent)] != before.sent:
            before = _NOTHING
        calls = _calls(stored[len(before.result) :]) | _calls(sent[len(before.sent) :])
        if not calls.isdisjoint(before.calls):
            before, calls = _NOTHING, _calls(stored) | _calls(sent)
        known, new = self._common_beginning(stored, sent, (len(before.result), len(before.sent)))
        result = (*stored[:known], *sent[new:])
        is_whole = known == len(stored) and all(message.role == "user" for message in sent[new:])
        if is_whole and sent and sent[-1].role == result[-1].role == "user":
            self._ended = _Ended(sent, result, calls | before.calls)
        return known, new

    def keep(self, read: _Read, body: JsonObject, content: bytes) -> None:
        """Cache a request as it was read."""
        given = body[self._member]
        assert isinstance(given, list), "it was read"
        self.read = read
        self.size = 2 * len(content) + MESSAGE_BYTES * len(given)
        raw, items = self._written
        if not strict_json.begins_with(given, items):
            raw, items = self._written = _UNWRITTEN
        # others than the encoder's own bytes are not found, which their first item shows
        for count in (len(items) or 1, len(given)):
            if new := given[len(items) : count]:
                written = raw + (b"," if raw else b"") + orjson.dumps(new)[1:-1]
                if place_of(written, self._member, content) is None:
                    break
                raw, items = self._written = _Written(written, given[:count])


def place_of(raw: bytes, member: str, content: bytes) -> int | None:
    """Where `raw` stands in the body as the beginning of that member's array, if it does."""
    before, place = b'"%b":[' % member.encode(), 0
    for _ in range(_MOST_PLACES):
        if (found := content.find(before, place)) < 0:
            return None
        place = found + len(before)
        if content.startswith(raw, place):
            return place
    return None


def marked(content: bytes, start: int, end: int) -> tuple[str, bytes]:
    """A text that nobody can have written, and the body with it in place of the bytes from `start` to `end`."""
    mark = os.urandom(16).hex()
    return mark, b'%b"%b"%b' % (content[:start], mark.encode(), content[end:])


def _calls(messages: Sequence[Message]) -> frozenset[str]:
    """The calls that are made or answered."""
    return frozenset(
        block.call_id for message in messages for block in message.content if isinstance(block, ToolCall | ToolResult)
    )


class InputCache(Generic[_Read]):
    """Up to `limit_bytes` of conversations, roughly counted; those used longest ago go first. For the event loop.

    `member` of a body has its items.
    """

    def __init__(self, member: str, common_beginning: CommonBeginning, limit_bytes: int = LIMIT_BYTES) -> None:
        self._member = member
        self._common_beginning = common_beginning
        self._most = limit_bytes // 4  # of one conversation
        self._known: LruCache[_Key, KnownInput[_Read]] = LruCache(limit_bytes)

    def find(self, owner: str, name: str) -> KnownInput[_Read]:
        """The cache of a conversation, or an empty one. `name` only says where to look."""
        return self._known.get((owner, name)) or KnownInput(self._member, self._common_beginning)

    def keep(
        self, owner: str, name: str, known: KnownInput[_Read], read: _Read | None, body: JsonObject, content: bytes
    ) -> None:
        """Cache a request as it was read. A short request replaces nothing: chat applications ask for a title in
        between.
        """
        if read is None or len(read.items) < LEAST_MESSAGES:
            return
        known.keep(read, body, content)
        if known.size > self._most:
            self._known.drop((owner, name))
        else:
            self._known.keep((owner, name), known, known.size)
