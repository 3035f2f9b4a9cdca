"""The grammar of a response: response > message > content, as one state machine that gives the frames.

Below: deltas. Above: the builder and the renderer, which both speak by it, so that they cannot differ. Pure.

    response   created, in_progress, its messages, then one terminal status
    message    created, perhaps in_progress, its contents, then a final status with all contents in it
    content    deltas and whole values, in_progress; then its whole value, completed

A frame is a plain dict, numbered as it is made: `sequence_number` counts all frames of a response from 0. What is None
is left out. Frames are never changed once they are made.

Clients differ in what they make of deltas, so the grammar keeps to what all of them understand: a completed content has
its whole value, a completed message its contents, and each frame of the response its messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from gateway.agent_api.deltas import VALUES, joined_data
from gateway.messages import JsonObject, JsonValue
from gateway.wire import strict_json

Frame: TypeAlias = JsonObject

DELTA: Final = b'data: {"sequence_number":%d%b%b}\n\n'
"""The frame of a text's delta, as `encoded` writes it: its number, `ContentState.delta_head`, the piece (`written`)."""

_TEXTS: Final = ("text", "refusal")

# What a response may become, by what it is; "" is one that has no frame yet.
_NEXT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "": ("created",),
        "created": ("in_progress", "failed", "canceled", "rejected"),
        "in_progress": ("completed", "incomplete", "failed", "canceled", "rejected"),
    }
)


class ProtocolStateError(ValueError):
    """What was asked for is not what may come next. The text says what may."""


class ResponseState:
    """One response. `frames` is how many frames it has given: the number of the next one."""

    __slots__ = ("_ending", "_members", "frames", "messages", "status")

    def __init__(self, members: JsonObject) -> None:
        """`members` are those that each of its frames has: `id`, `created_at`, `session_id`, ..."""
        self._members = members
        self._ending: Frame | None = None
        self.status = ""
        self.frames = 0
        self.messages: dict[str, MessageState] = {}

    @property
    def ended(self) -> bool:
        return self._ending is not None

    def created(self) -> Frame:
        """The first frame.

        Raises:
            ProtocolStateError: it is created already.
        """
        self._expect("created")
        return self._frame("created", {})

    def in_progress(self) -> Frame:
        """The second frame.

        Raises:
            ProtocolStateError: it is not what comes next.
        """
        self._expect("in_progress")
        return self._frame("in_progress", {})

    def end(self, status: str, **members: JsonValue) -> Frame:
        """The last frame; the same again if it has ended so. `members` are its own: `completed_at`, `error`, ...

        Messages that are open are incomplete, or canceled; those of a completed response have to be closed.

        Raises:
            ProtocolStateError: it may not end so now.
        """
        if self._ending is not None and status == self.status:
            return self._ending
        if status not in _NEXT["in_progress"]:
            raise ProtocolStateError(f"a response ends as one of {', '.join(_NEXT['in_progress'])}, and not {status!r}")
        left = [message for message in self.messages.values() if not message.ended]
        if status == "completed" and left and self.status == "in_progress":
            raise ProtocolStateError(f"the response's message {left[0].id} is open: complete it first")
        self._expect(status)
        for message in left:
            message.cut_off("canceled" if status == "canceled" else "incomplete")
        self._ending = self._frame(status, members)
        return self._ending

    def message(self, message_id: str, kind: str = "message", role: str = "assistant") -> MessageState:
        """A new message, behind those there are.

        Raises:
            ProtocolStateError: the response has ended, or has a message of this id.
        """
        if self._ending is not None:
            raise ProtocolStateError(f"the response has ended as {self.status}: it takes no message any more")
        if message_id in self.messages:
            raise ProtocolStateError(f"the response has a message {message_id} already: a message's id is its own")
        message = self.messages[message_id] = MessageState(self, message_id, kind, role)
        return message

    def value(self, status: str, **members: JsonValue) -> JsonObject:
        """It as it is now, with all of its messages."""
        return self._whole({}, status, members)

    def take(self) -> int:
        """The number of the next frame."""
        number = self.frames
        self.frames = number + 1
        return number

    def _expect(self, status: str) -> None:
        following = _NEXT.get(self.status, ())
        if status not in following:
            now = f"is {self.status}" if self.status else "is not created yet"
            right = f"expected {' or '.join(following)}" if following else "nothing comes behind its end"
            raise ProtocolStateError(f"the response {now}: it cannot become {status}; {right}")

    def _frame(self, status: str, members: Mapping[str, JsonValue]) -> Frame:
        self.status = status
        return self._whole({"sequence_number": self.take()}, status, members)

    def _whole(self, value: JsonObject, status: str, members: Mapping[str, JsonValue]) -> JsonObject:
        """It behind what `value` has already."""
        value["object"], value["status"] = "response", status
        value.update(self._members)
        value["output"] = [message.value() for message in self.messages.values()]
        if members:
            value.update(_given(members))
        return value


class MessageState:
    """One message of a response. `kind` is its `type`."""

    __slots__ = ("_ending", "_last", "_members", "_response", "_status", "contents", "id", "kind", "role")

    def __init__(self, response: ResponseState, message_id: str, kind: str, role: str) -> None:
        self._response = response
        self._members: Mapping[str, JsonValue] = {}
        self._ending: Frame | None = None
        self._last: JsonObject | None = None  # how its response shows it, once it has ended
        self._status = ""
        self.id = message_id
        self.kind = kind
        self.role = role
        self.contents: dict[int, ContentState] = {}  # by index, in its order

    @property
    def ended(self) -> bool:
        return self._ending is not None

    def opened(self) -> Frame:
        """Its first frame, which has no contents.

        Raises:
            ProtocolStateError: it is not new.
        """
        if self._status:
            raise ProtocolStateError(f"the message {self.id} is open already: expected contents, or its end")
        self._status = "created"
        return self._frame(self._head("created"))

    def in_progress(self) -> Frame:
        """Its second frame, where it has one: some clients show reasoning and calls only then.

        Raises:
            ProtocolStateError: more than its first frame was given.
        """
        if self._status != "created" or self.contents:
            raise ProtocolStateError(f"the message {self.id} is not new: it is in progress right behind its opening")
        self._status = "in_progress"
        return self._frame(self._head("in_progress"))

    def content(self, kind: str, index: int | None = None) -> ContentState:
        """A new content, behind those there are, or at that place.

        Raises:
            ProtocolStateError: the message is not open, or has a content at that place.
            ValueError: there are no contents of that type, or no such place.
        """
        if kind not in VALUES:
            raise ValueError(f"a content is one of {', '.join(VALUES)}, and not {kind!r}")
        if self._ending is not None:
            raise ProtocolStateError(f"the message {self.id} has ended as {self._status}: it takes no content any more")
        if not self._status:
            raise ProtocolStateError(f"the message {self.id} is not open yet: expected its first frame")
        place = max(self.contents, default=-1) + 1 if index is None else index
        if place < 0:
            raise ValueError(f"a content's index counts from 0, and is not {place}")
        if place in self.contents:
            raise ProtocolStateError(f"the message {self.id} has a content {place} already: its next one is another")
        content = self.contents[place] = ContentState(self._response, self.id, kind, place)
        if place != len(self.contents) - 1:
            self.contents = dict(sorted(self.contents.items()))
        return content

    def close(self, status: str = "completed", **members: JsonValue) -> Frame:
        """Its last frame, with its contents; the same again if it has one. `members` are its own: `code`, ...

        Raises:
            ProtocolStateError: a content is open, or missing.
        """
        if self._ending is None:
            for place, content in enumerate(self.contents.values()):
                if content.index != place:
                    raise ProtocolStateError(
                        f"the message {self.id} has no content {place}, but {content.index}: expected both"
                    )
                if not content.ended:
                    raise ProtocolStateError(f"the content {place} of {self.id} is open: complete it first")
            self._status, self._members = status, _given(members) if members else {}
            self._ending = self._last_frame()
        return self._ending

    def whole(
        self, contents: Iterable[tuple[str, JsonObject]], status: str = "completed", **members: JsonValue
    ) -> Frame:
        """The frame of it with these contents, as type and value, all complete: of a new one, or in place of what an
        ended one had.

        Raises:
            ProtocolStateError: it is open, or its response has ended.
            ValueError: there are no contents of such a type or value.
        """
        if self._response.ended:
            raise ProtocolStateError(
                f"the response has ended as {self._response.status}: its messages stay as they are"
            )
        if self._status and self._ending is None:
            raise ProtocolStateError(f"the message {self.id} is open: expected its contents, or its end")
        self.contents = {}
        for index, (kind, value) in enumerate(contents):
            content = self.contents[index] = ContentState(self._response, self.id, kind, index)
            content.replace(kind, **value)
            content.cut_off("completed")
        self._status, self._members = status, _given(members)
        self._ending = self._last_frame()
        return self._ending

    def again(self) -> Frame:
        """Its last frame once more, with another number: its contents have changed."""
        if self._ending is None:
            raise ProtocolStateError(f"the message {self.id} is open: it is shown again once it has ended")
        self._ending = self._last_frame()
        return self._ending

    def cut_off(self, status: str) -> None:
        """Its response ends before it does: it gives no frame any more."""
        for content in self.contents.values():
            content.cut_off(status)
        self._status = status
        self._ending = self._last = self._now()

    def value(self) -> JsonObject:
        """It as it is now, with its contents."""
        return self._last or self._now()

    def _now(self) -> JsonObject:
        status = "in_progress" if self._status in ("", "created") else self._status
        contents: list[JsonValue] = [content.value() for content in self.contents.values()]
        return {**self._head(status), "content": contents, **self._members}

    def _last_frame(self) -> Frame:
        self._last = self._now()
        return self._frame(self._last)

    def _head(self, status: str) -> JsonObject:
        return {"object": "message", "status": status, "id": self.id, "type": self.kind, "role": self.role}

    def _frame(self, value: JsonObject) -> Frame:
        return {"sequence_number": self._response.take(), **value}


class ContentState:
    """One content of a message. `parts` are the pieces of a text or a refusal."""

    __slots__ = (
        "_began",
        "_ending",
        "_last",
        "_message_id",
        "_response",
        "_status",
        "_value",
        "index",
        "kind",
        "parts",
    )

    def __init__(self, response: ResponseState, message_id: str, kind: str, index: int) -> None:
        self._response = response
        self._message_id = message_id
        self._value: Mapping[str, JsonValue] = {}
        self._status = "in_progress"
        self._began = False
        self._ending: Frame | None = None
        self._last: JsonObject | None = None  # how its message shows it, once it has ended
        self.kind = kind
        self.index = index
        self.parts: list[str] = []

    @property
    def ended(self) -> bool:
        return self._ending is not None

    def delta(self, piece: str | JsonObject) -> Frame:
        """The frame of the next piece: of a text or refusal, which is appended; or of data, which are merged.

        Raises:
            ProtocolStateError: the content is complete.
            ValueError: such a content has no pieces of this kind.
        """
        self._expect_open()
        if self.kind in _TEXTS and isinstance(piece, str):
            self.parts.append(piece)
            return self._frame(self._head("in_progress", delta=True, value={self.kind: piece}))
        if self.kind == "data" and isinstance(piece, dict):
            self._value = {"data": joined_data(cast(JsonObject, self._value.get("data") or {}), piece)}
            return self._frame(self._head("in_progress", delta=True, value={"data": piece}))
        raise ValueError(f"a content of type {self.kind} takes no delta that is {type(piece).__name__}")

    def set(self, **value: JsonValue) -> Frame:
        """The frame of its whole value, in place of what there was.

        Where it follows another content of the message and has no frame yet, the frame counts as a delta: clients put
        any other frame onto the last content that they have.

        Raises:
            ProtocolStateError: the content is complete.
            ValueError: such a content has no such members.
        """
        self._expect_open()
        self._put(value)
        opens = self.index > 0 and not self._began
        return self._frame(self._head("in_progress", delta=opens, value=self._whole()))

    def complete(self, status: str = "completed") -> Frame:
        """Its last frame, with its whole value; the same again if it has one."""
        if self._ending is None:
            self._status = status
            self._last = self.value()
            self._ending = self._frame(self._last)
        return self._ending

    def replace(self, kind: str, **value: JsonValue) -> None:
        """It becomes a content of that type and value: as it is completed, or as its message is shown `again`."""
        self.kind, self._last = kind, None
        self._put(value)

    def cut_off(self, status: str) -> None:
        """Its response ends before it does: it gives no frame any more."""
        if self._ending is None:
            self._status = status
            self._ending = self.value()

    def value(self) -> JsonObject:
        """It as it is now, as its message shows it."""
        return self._last or self._head(self._status, delta=False, value=self._whole())

    def delta_head(self) -> bytes:
        """What all frames of a text's deltas have between their number and the JSON of the piece; see DELTA.

        Whoever writes such a frame itself appends the piece to `parts`, and takes the number.
        """
        self._began = True
        head = self._head("in_progress", delta=True, value={})
        return b',%b,"%b":' % (written(head)[1:-1], self.kind.encode())

    def _put(self, value: Mapping[str, JsonValue]) -> None:
        if wrong := [name for name in value if name not in VALUES[self.kind]]:
            right = ", ".join(VALUES[self.kind])
            raise ValueError(f"{wrong[0]} is only supported for contents of another type; {self.kind} has {right}")
        if self.kind in _TEXTS:
            self.parts[:] = [cast(str, value.get(self.kind) or "")]
        else:
            self._value = _given(value)

    def _whole(self) -> Mapping[str, JsonValue]:
        return {self.kind: "".join(self.parts)} if self.kind in _TEXTS else self._value

    def _head(self, status: str, *, delta: bool, value: Mapping[str, JsonValue]) -> JsonObject:
        return {
            "object": "content",
            "status": status,
            "type": self.kind,
            "index": self.index,
            "delta": delta,
            "msg_id": self._message_id,
            **value,
        }

    def _frame(self, value: JsonObject) -> Frame:
        self._began = True
        return {"sequence_number": self._response.take(), **value}

    def _expect_open(self) -> None:
        if self._ending is not None:
            raise ProtocolStateError(
                f"the content {self.index} of {self._message_id} has ended as {self._status}:"
                " it takes nothing any more; open another one"
            )


def _given(members: Mapping[str, JsonValue]) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def encoded(frame: Frame) -> bytes:
    """The frame as an event of a stream."""
    return b"data: %b\n\n" % written(frame)


def written(value: object) -> bytes:
    """JSON on one line, also for clients that end a line at U+2028: those that read with httpx do."""
    return strict_json.on_one_line(strict_json.dump(value))
