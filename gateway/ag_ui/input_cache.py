"""Keeps the messages of a thread's last input, so that the next input is read without them: 0.03 ms instead of 1.9 ms
for 2,000 messages of 300 characters, 0.01 ms instead of 0.16 ms for 200.

Below: ag_ui.input, which reads everything else. Above: the protocol. A client sends its whole history with every run,
and writes it the same way each time: the array of one request begins, byte for byte, as the array of the request
before it. If so, these bytes are compared and cut out, and the messages are the ones that were read before.
If not, or if anything else is unusual, the input is read as if nothing were cached. The result is the same either
way, and with `limit_bytes=0` nothing is ever cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from gateway.ag_ui.content import MEDIA_KINDS
from gateway.ag_ui.input import InputReader, expect_object, items_of
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import AgentInput
from gateway.errors import InvalidRequestError
from gateway.history.cache import HistoryCache
from gateway.lru import LruCache
from gateway.messages import Message
from gateway.protocol.input_cache import LEAST_MESSAGES, LIMIT_BYTES, MESSAGE_BYTES, marked, place_of
from gateway.protocol.requests import loaded_json, parsed_json
from gateway.protocol.time_sharing import TimeSharing
from gateway.wire import strict_json

_Key: TypeAlias = tuple[str, str | None]

_CHUNK = 64
_MOST_PIECES = 256
_EDGE = 4096

_THREAD_ID = re.compile(rb'"thread(?:Id|_id)": ?"([^"\\]{1,1024})"')
_MEMBER = "messages"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the array: its bytes (with the comma before them, but for the first), items and messages. `counted`
    are the items with those of their arrays.
    """

    raw: bytes
    items: int
    counted: int
    messages: tuple[Message, ...]
    has_media: bool


class _CachedInput:
    """The array of a thread's last request, in pieces, so that what precedes an edit stays cached."""

    def __init__(self, thread: HistoryCache) -> None:
        self.thread = thread
        self.pieces: list[_Piece] = []
        self.messages: tuple[Message, ...] = ()
        self.ids: set[str] = set()
        self.items = 0
        self.counted = 0
        self._bytes = 0

    @property
    def has_media(self) -> bool:
        return any(piece.has_media for piece in self.pieces)

    @property
    def size(self) -> int:
        return self._bytes + MESSAGE_BYTES * len(self.messages)

    def add(self, items: list[Any], messages: tuple[Message, ...], body: bytes, place: int, *, has_media: bool) -> None:
        """Add the items at that place of the body, as far as they are written as the encoder writes them."""
        pieces: list[_Piece] = []
        done = 0
        for chunk in _chunks(items):
            raw = (b"," if self.pieces or pieces else b"") + orjson.dumps(chunk)[1:-1]
            if not body.startswith(raw, place):
                break
            place += len(raw)
            # each of the others is a message
            count = len(chunk) - [item["role"] for item in chunk].count("activity")
            seen = has_media and any(map(_shows_media, chunk))
            pieces.append(_Piece(raw, len(chunk), items_of(chunk), messages[done : done + count], seen))
            done += count
            self.items += len(chunk)
            self.counted += pieces[-1].counted
            self._bytes += len(raw)
        self.pieces += pieces
        self.messages += messages[:done]
        self.ids.update([message.id for message in messages[:done]])
        if len(self.pieces) > _MOST_PIECES:
            self.pieces[: _MOST_PIECES // 2] = _joined(self.pieces[: _MOST_PIECES // 2])

    def keep(self, count: int) -> None:
        """Forget the pieces from that number on."""
        gone = self.pieces[count:]
        del self.pieces[count:]
        for piece in gone:
            self.items -= piece.items
            self.counted -= piece.counted
            self._bytes -= len(piece.raw)
        ids = [message.id for piece in gone for message in piece.messages]
        if ids:
            self.messages = self.messages[: -len(ids)]
            self.ids.difference_update(ids)


def _shows_media(item: dict[str, Any]) -> bool:
    content = item.get("content")
    return type(content) is list and any(part.get("type") in MEDIA_KINDS for part in content)


def _chunks(items: list[Any]) -> Iterator[list[Any]]:
    """The items in chunks, the last item alone: that is the one that people edit."""
    for start in range(0, len(items) - 1, _CHUNK):
        yield items[start : min(start + _CHUNK, len(items) - 1)]
    yield items[-1:]


def _joined(pieces: list[_Piece]) -> list[_Piece]:
    """The same in fewer pieces; those that are large already stay as they are."""
    joined: list[_Piece] = []
    for piece in pieces:
        if joined and joined[-1].items + piece.items <= _CHUNK:
            last = joined.pop()
            piece = _Piece(
                last.raw + piece.raw,
                last.items + piece.items,
                last.counted + piece.counted,
                last.messages + piece.messages,
                last.has_media or piece.has_media,
            )
        joined.append(piece)
    return joined


class InputCache:
    """Up to `limit_bytes` of inputs, roughly counted; those used longest ago go first. Used by the event loop only."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._most = limit_bytes // 4  # of one thread
        self._inputs: LruCache[_Key, _CachedInput] = LruCache(limit_bytes)

    async def parse(
        self,
        owner: str,
        body: bytes,
        time: TimeSharing,
        *,
        watches: bool = False,
        request_id: str = "",
        origin: str = "",
    ) -> tuple[AgentInput, PeerProfile]:
        """As `ag_ui.input.parse_run_input`; `watches`, `request_id` and `origin` are InputReader's."""
        key = (owner, _thread_id_in(body))
        cached = self._inputs.get(key)
        if (
            cached is not None
            and (start := place_of(cached.pieces[0].raw, _MEMBER, body)) is not None
            and (rest := await self._parse_rest(key, cached, body, start, time, watches, request_id, origin))
            is not None
        ):
            return rest
        data = expect_object(await parsed_json(body, owner, time))
        reader = InputReader(watches=watches, request_id=request_id, origin=origin)
        parsed = reader.read(data)
        items = data["messages"]
        if len(items) >= LEAST_MESSAGES and len(body) <= self._most and reader.messages_are_plain:
            cached = _CachedInput(HistoryCache() if cached is None else cached.thread)
            if (place := place_of(orjson.dumps(items[0]), _MEMBER, body)) is not None:
                cached.add(items, parsed[0].sent.messages, body, place, has_media=reader.media_seen)
            if cached.pieces:
                self._inputs.keep((owner, parsed[0].thread.id), cached, cached.size)
        return parsed

    async def _parse_rest(
        self,
        key: _Key,
        cached: _CachedInput,
        body: bytes,
        start: int,
        time: TimeSharing,
        watches: bool,
        request_id: str,
        origin: str,
    ) -> tuple[AgentInput, PeerProfile] | None:
        """The input whose array begins at `start` with the cached messages; None if it has to be read as a whole."""
        end, same = start, 0
        for piece in cached.pieces:
            if not body.startswith(piece.raw, end):
                break
            end += len(piece.raw)
            same += 1
        cached.keep(same)
        mark, written = marked(body, start, end)
        known = cached.messages
        try:
            data: Any = await loaded_json(written, key[0], time, size=len(body))
        except strict_json.NotStrictJsonError:
            return None
        if cached.messages is not known:  # another request of the thread came meanwhile
            return None
        items = data.get("messages") if type(data) is dict else None
        if type(items) is not list or not items or items[0] != mark:
            return None
        if data.get("threadId", data.get("thread_id")) != key[1]:
            return None
        new = data["messages"] = items[1:]
        reader = InputReader(
            cached.messages,
            cached.ids,
            cached.items,
            counted=cached.counted,
            watches=watches,
            media_before=cached.has_media,
            request_id=request_id,
            origin=origin,
        )
        try:
            parsed = reader.read(data, cached.thread)
        except InvalidRequestError:  # the whole of it says where
            return None
        if reader.repeats:
            return None
        if new and reader.messages_are_plain:
            cached.add(new, parsed[0].sent.messages[len(cached.messages) :], body, end, has_media=reader.media_seen)
        self._inputs.keep(key, cached, cached.size)
        return parsed


def _thread_id_in(body: bytes) -> str | None:
    """The thread that the input seems to name. It only says where to look in the cache."""
    found = _THREAD_ID.search(body, 0, _EDGE) or _THREAD_ID.search(body, max(0, len(body) - _EDGE))
    return None if found is None else found[1].decode("utf-8", "replace")
