"""The grammar of a response: response > message > content, as one state machine that gives the frames.

Below: deltas. Above: the builder and the renderer, which both speak by it, so that they cannot differ. Pure.

    response   created, in_progress, its messages, then one terminal status
    message    created, perhaps in_progress, its contents, then a final status with all contents in it
    content    deltas and whole values, in_progress; then its whole value, completed

A frame is the bytes of its event, numbered as it is made: `sequence_number` counts all frames of a response from 0.
Members that are None are left out. A content's last value is written as JSON once: the last frames of its message and
of the response have those bytes again. `read` gives the object in a frame.

Clients differ in what they make of deltas, so the grammar keeps to what all of them understand: a completed content has
its whole value, a completed message its contents, and each frame of the response its messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import orjson

from gateway.agent_api.deltas import VALUES, joined_data
from gateway.messages import JsonObject, JsonValue
from gateway.tool_output import encodable
from gateway.wire import strict_json

Frame: TypeAlias = bytes
"""`data: `, a JSON object on one line, an empty line."""

Body: TypeAlias = bytes
"""The members of a JSON object without its braces. Where it begins with a comma, it goes behind others."""

DELTA: Final = b'data: {"sequence_number":%d%b%b}\n\n'
"""The frame of a text's delta: its number, `ContentState.delta_head`, the piece (`written`)."""

_FRAME: Final = b'data: {"sequence_number":%d,%b}\n\n'
_UNNUMBERED: Final = b"data: {%b}\n\n"

# Bodies, and the frames of those that are not needed again.
_RESPONSE: Final = b'"object":"response","status":"%b"%b,"output":%b%b'
_RESPONSE_FRAME: Final = _FRAME.replace(b"%b", _RESPONSE)
_MESSAGE: Final = b'"object":"message","status":"%b"%b'
_CONTENT: Final = b'"object":"content","status":"%b","type":"%b","index":%d,"delta":%b,"msg_id":%b%b'
_DATA: Final = b'"object":"content","status":"%b","type":"data","index":0,"delta":false,"msg_id":%b,"data":%b'
_ONE_CONTENT: Final = _MESSAGE + b',"content":[{%b}]'
_MESSAGE_FRAME: Final = _FRAME.replace(b"%b", _MESSAGE)
_CONTENT_FRAME: Final = _FRAME.replace(b"%b", _CONTENT)
_DATA_FRAME: Final = _FRAME.replace(b"%b", _DATA)

_TEXTS: Final = ("text", "refusal")

# The next states of a response, by its state; "" before the first frame.
_NEXT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "": ("created",),
        "created": ("in_progress", "failed", "canceled", "rejected"),
        "in_progress": ("completed", "incomplete", "failed", "canceled", "rejected"),
    }
)


class ProtocolStateError(ValueError):
    """The call may not come next. The text says which calls may."""


class Progress:
    """How far a response is: its messages and contents refer to this object alone. If they referred to the response,
    which refers to them, only the garbage collector would free their memory.
    """

    __slots__ = ("ended", "frames", "status")

    def __init__(self) -> None:
        self.frames = 0
        self.status = ""
        self.ended = False

    def take(self, frames: int = 1) -> int:
        """The number of the next frame, where so many are made."""
        number = self.frames
        self.frames = number + frames
        return number


class ResponseState:
    """One response."""

    __slots__ = ("_ending", "_members", "_progress", "messages")

    def __init__(self, members: JsonObject) -> None:
        """`members` are those that each of its frames has: `id`, `created_at`, `session_id`, ..."""
        self._members = _more(members)
        self._ending: Frame | None = None
        self._progress = Progress()
        self.messages: dict[str, MessageState] = {}

    @property
    def status(self) -> str:
        return self._progress.status

    @property
    def frames(self) -> int:
        """How many frames it has given: the number of the next one."""
        return self._progress.frames

    @frames.setter
    def frames(self, count: int) -> None:
        self._progress.frames = count

    def begin(self) -> tuple[Frame, Frame]:
        """The first two frames: `created`, `in_progress`.

        Raises:
            ProtocolStateError: it is created already.
        """
        self._expect("created")
        progress, said = self._progress, (self._members, self._output(), b"")
        progress.status, number = "in_progress", progress.take(2)
        return _RESPONSE_FRAME % (number, b"created", *said), _RESPONSE_FRAME % (number + 1, b"in_progress", *said)

    def created(self) -> Frame:
        """The first frame.

        Raises:
            ProtocolStateError: it is created already.
        """
        self._expect("created")
        return self._frame("created")

    def in_progress(self) -> Frame:
        """The second frame.

        Raises:
            ProtocolStateError: the response is not created yet, or has had this frame.
        """
        self._expect("in_progress")
        return self._frame("in_progress")

    def end(self, status: str, **members: JsonValue) -> Frame:
        """The last frame; if the response has ended with this status already, the same frame again. `members` are
        further members of the frame: `completed_at`, `error`, ...

        Open messages become incomplete, or canceled with a canceled response. Before a response is completed, all must
        be closed.

        Raises:
            ProtocolStateError: the response may not end with this status now.
        """
        if self._ending is not None and status == self.status:
            return self._ending
        if status not in _NEXT["in_progress"]:
            raise ProtocolStateError(f"a response ends as one of {', '.join(_NEXT['in_progress'])}, and not {status!r}")
        left = [message for message in self.messages.values() if not message.ended]
        if left and status == "completed" and self.status == "in_progress":
            raise ProtocolStateError(f"the response's message {left[0].id} is open: complete it first")
        self._expect(status)
        for message in left:
            message.cut_off("canceled" if status == "canceled" else "incomplete")
        self._ending = self._frame(status, _more(members))
        self._progress.ended = True
        return self._ending

    def message(self, message_id: str, kind: str = "message", role: str = "assistant") -> MessageState:
        """A new message, after the others.

        Raises:
            ProtocolStateError: the response has ended, or has a message of this id.
        """
        self._expect_new(message_id)
        message = self.messages[message_id] = MessageState(self._progress, message_id, kind, role)
        return message

    def data_message(self, message_id: str, kind: str, role: str = "assistant") -> DataMessage:
        """As `message`, for one content of data."""
        self._expect_new(message_id)
        message = self.messages[message_id] = DataMessage(self._progress, message_id, kind, role)
        return message

    def value(self, status: str) -> JsonObject:
        """The response as it is now, with all of its messages."""
        return read(_UNNUMBERED % (_RESPONSE % (status.encode(), self._members, self._output(), b"")))

    def take(self) -> int:
        """The number of the next frame."""
        return self._progress.take()

    def _expect(self, status: str) -> None:
        following = _NEXT.get(self.status, ())
        if status not in following:
            now = f"is {self.status}" if self.status else "is not created yet"
            right = f"expected {' or '.join(following)}" if following else "nothing comes behind its end"
            raise ProtocolStateError(f"the response {now}: it cannot become {status}; {right}")

    def _expect_new(self, message_id: str) -> None:
        if self._ending is not None:
            raise ProtocolStateError(f"the response has ended as {self.status}: it takes no message any more")
        if message_id in self.messages:
            raise ProtocolStateError(f"the response has a message {message_id} already: a message's id is its own")

    def _frame(self, status: str, members: Body = b"") -> Frame:
        self._progress.status = status
        return _RESPONSE_FRAME % (self.take(), status.encode(), self._members, self._output(), members)

    def _output(self) -> bytes:
        return _array([message.last or message.body() for message in self.messages.values()])


class MessageState:
    """One message of a response. `kind` is its `type`. `named` is its id as JSON."""

    _members: Body = b""
    _status = ""
    _number: int | None = None  # of its last frame
    last: Body | None = None  # how its response shows it, once it has ended
    ended = False

    def __init__(self, progress: Progress, message_id: str, kind: str, role: str) -> None:
        self._progress = progress
        self.id = message_id
        self.contents: dict[int, ContentState] = {}  # by index, in its order
        # a copy: orjson's bytes keep its buffer of 4 kB, and this is kept as long as the stream
        self.named = named = bytes(memoryview(written(message_id)))
        self._head = b',"id":%b,"type":"%b","role":"%b"' % (named, kind.encode(), role.encode())

    def opened(self) -> Frame:
        """The message's first frame, which has no contents.

        Raises:
            ProtocolStateError: the message is not new.
        """
        if self._status:
            raise ProtocolStateError(f"the message {self.id} is open already: expected contents, or its end")
        self._status = "created"
        return _MESSAGE_FRAME % (self._progress.take(), b"created", self._head)

    def in_progress(self) -> Frame:
        """The message's second frame, which not all messages have: some clients show reasoning and calls only after it.

        Raises:
            ProtocolStateError: the message has no frame yet, or more than the first one.
        """
        if self._status != "created" or self.contents:
            raise ProtocolStateError(f"the message {self.id} is not new: it is in progress right behind its opening")
        self._status = "in_progress"
        return _MESSAGE_FRAME % (self._progress.take(), b"in_progress", self._head)

    def content(self, kind: str, index: int | None = None) -> ContentState:
        """A new content, after the others or at that place.

        Raises:
            ProtocolStateError: the message is not open, or has a content at that place.
            ValueError: there are no contents of that type, or no such place.
        """
        if kind not in VALUES:
            raise ValueError(f"a content is one of {', '.join(VALUES)}, and not {kind!r}")
        if self.ended:
            raise ProtocolStateError(f"the message {self.id} has ended as {self._status}: it takes no content any more")
        if not self._status:
            raise ProtocolStateError(f"the message {self.id} is not open yet: expected its first frame")
        place = (max(self.contents) + 1 if self.contents else 0) if index is None else index
        if place < 0:
            raise ValueError(f"a content's index counts from 0, and is not {place}")
        if place in self.contents:
            raise ProtocolStateError(f"the message {self.id} has a content {place} already: its next one is another")
        content = self.contents[place] = ContentState(self._progress, self.id, self.named, kind, place)
        if index is not None:
            self.contents = dict(sorted(self.contents.items()))
        return content

    def close(self, status: str = "completed", **members: JsonValue) -> Frame:
        """Its last frame, with its contents; the same again if it has one. `members` are its own: `code`, ...

        Raises:
            ProtocolStateError: a content is open, or missing.
        """
        if self.ended:
            return _frame(self._number, self.body())
        for place, content in enumerate(self.contents.values()):
            if content.index != place:
                raise ProtocolStateError(
                    f"the message {self.id} has no content {place}, but {content.index}: expected both"
                )
            if not content.ended:
                raise ProtocolStateError(f"the content {place} of {self.id} is open: complete it first")
        self._status = status
        if members:
            self._members = _more(members)
        return self._end()

    def end_with(self, content: ContentState, kind: str, value: Body, ending: str, status: str) -> tuple[Frame, Frame]:
        """As `finish` of its only content, which is open and whose last status is `ending`, and `close`: in fewer
        steps.
        """
        number = self._progress.take(2)
        content.settle(kind, value, ending, number)
        said = _CONTENT % (ending.encode(), kind.encode(), content.index, b"false", self.named, value)
        self._status, self.ended, self._number = status, True, number + 1
        self.last = last = _ONE_CONTENT % (status.encode(), self._head, said)
        return _FRAME % (number, said), _FRAME % (number + 1, last)

    def whole(
        self, contents: Iterable[tuple[str, JsonObject]], status: str = "completed", **members: JsonValue
    ) -> Frame:
        """The frame of a whole message with these contents, each a type and a value, all complete. The message is new,
        or has ended: then the contents replace its earlier ones.

        Raises:
            ProtocolStateError: the message is open, or its response has ended.
            ValueError: there are no contents of such a type or value.
        """
        if self._progress.ended:
            raise ProtocolStateError(
                f"the response has ended as {self._progress.status}: its messages stay as they are"
            )
        if self._status and not self.ended:
            raise ProtocolStateError(f"the message {self.id} is open: expected its contents, or its end")
        self.contents = {}
        for index, (kind, value) in enumerate(contents):
            content = self.contents[index] = ContentState(self._progress, self.id, self.named, kind, index)
            content.replace(kind, value_said(kind, value))
            content.cut_off("completed")
        self._status, self._members = status, _more(members)
        return self._end()

    def again(self) -> Frame:
        """The message's last frame once more, with another number, after its contents have changed."""
        if not self.ended:
            raise ProtocolStateError(f"the message {self.id} is open: it is shown again once it has ended")
        return self._end()

    def cut_off(self, status: str) -> None:
        """Its response ends before it does: it gives no frame any more."""
        for content in self.contents.values():
            content.cut_off(status)
        self._status, self.ended = status, True
        self.last = self.body()

    def value(self) -> JsonObject:
        """The message as it is now, with its contents."""
        return read(_UNNUMBERED % self.body())

    def body(self) -> Body:
        """The message as it is now, in the form that its response shows."""
        if self.last is not None:
            return self.last
        status = "in_progress" if self._status in ("", "created") else self._status
        return b'%b,"content":%b%b' % (_MESSAGE % (status.encode(), self._head), self._contents(), self._members)

    def _contents(self) -> bytes:
        return _array([content.body() for content in self.contents.values()])

    def _end(self) -> Frame:
        self.ended, self.last = True, None
        self.last = last = self.body()
        for content in self.contents.values():
            content.forget()
        self._number = number = self._progress.take()
        return _FRAME % (number, last)


class DataMessage(MessageState):
    """A message with one content of data, and no other: a call, or its output. Data are JSON. It gives the frames that
    another message gives, in fewer steps.
    """

    def all_frames(self, data: bytes) -> tuple[Frame, ...]:
        """All frames of the message: opened, the content completed, closed."""
        return self.opened(), *self.finish(data)

    def begin(self, data: bytes) -> tuple[Frame, ...]:
        """Opened, in progress, the content as it is now."""
        head, self._data, self._status = self._head, data, "in_progress"
        number = self._progress.take(3)
        return (
            _MESSAGE_FRAME % (number, b"created", head),
            _MESSAGE_FRAME % (number + 1, b"in_progress", head),
            _DATA_FRAME % (number + 2, b"in_progress", self.named, data),
        )

    def set(self, data: bytes) -> Frame:
        """The content as it is now."""
        self._data = data
        return _DATA_FRAME % (self._progress.take(), b"in_progress", self.named, data)

    def finish(self, data: bytes, content: str = "completed", status: str = "completed") -> tuple[Frame, Frame]:
        """The content's last frame, and its own. `content` is the last status of the former."""
        self._data, self._status, self.ended = data, status, True
        self._number = number = self._progress.take(2) + 1
        whole = _DATA % (content.encode(), self.named, data)
        self.last = last = _ONE_CONTENT % (status.encode(), self._head, whole)
        return _FRAME % (number - 1, whole), _FRAME % (number, last)

    def _contents(self) -> bytes:
        return b"[{%b}]" % (_DATA % (self._status.encode(), self.named, self._data))


class ContentState:
    """One content of a message. `parts` are the pieces of a text or a refusal."""

    _value: Body | None = None  # where it has no `parts`; None: nothing yet
    _status = "in_progress"
    _began = False
    _last: Body | None = None  # how its message shows it, from its end to the message's
    _number: int | None = None  # of its last frame
    ended = False

    def __init__(self, progress: Progress, message_id: str, named: Body, kind: str, index: int) -> None:
        """`named` is its message's."""
        self._progress = progress
        self._message_id = message_id
        self._named = named
        self.kind = kind
        self.index = index
        self.parts: list[str] = []

    def delta(self, piece: str | JsonObject) -> Frame:
        """The frame of the next piece: of a text or refusal, which is appended; or of data, which are merged.

        Raises:
            ProtocolStateError: the content is complete.
            ValueError: such a content has no pieces of this kind.
        """
        self._expect_open()
        if self.kind in _TEXTS and isinstance(piece, str):
            self.parts.append(piece)
            return self._going(b"true", _more({self.kind: piece}))
        if self.kind == "data" and isinstance(piece, dict):
            held = self.value().get("data") or {}
            self._value = _more({"data": joined_data(cast(JsonObject, held), piece)})
            return self._going(b"true", _more({"data": piece}))
        raise ValueError(f"a content of type {self.kind} takes no delta that is {type(piece).__name__}")

    def set(self, **value: JsonValue) -> Frame:
        """The frame of its whole value, which replaces the earlier one.

        Where it follows another content of the message and has no frame yet, the frame counts as a delta: clients put
        any other frame onto the last content that they have.

        Raises:
            ProtocolStateError: the content is complete.
            ValueError: such a content has no such members.
        """
        self._expect_open()
        self._value = value_said(self.kind, value)
        if self.kind in _TEXTS:  # deltas go on with it
            self.parts[:] = [cast(str, value.get(self.kind) or "")]
        return self._shown()

    def complete(self, status: str = "completed") -> Frame:
        """Its last frame, with its whole value; the same again if it has one."""
        if self.ended:
            return _frame(self._number, self.body())
        self._status, self.ended, self._began = status, True, True
        self._last = last = self.body()
        self._number = number = self._progress.take()
        return _FRAME % (number, last)

    def finish(self, kind: str, value: Body, status: str = "completed") -> Frame:
        """As `complete`, with this value, as `value_said` gives it."""
        self.replace(kind, value)
        return self.complete(status)

    def replace(self, kind: str, value: Body) -> None:
        """Give the content another type and value, the latter as from `value_said`: before the content is completed, or
        before its message is shown `again`.
        """
        self.kind, self._value, self._last = kind, value, None
        self.parts.clear()

    def settle(self, kind: str, value: Body, status: str, number: int) -> None:
        """Note that the content has ended with this status. Its message gave its last frame, of that number."""
        self.replace(kind, value)
        self._status, self._number, self.ended, self._began = status, number, True, True

    def cut_off(self, status: str) -> None:
        """Its response ends before it does: it gives no frame any more."""
        if not self.ended:
            self._status, self.ended = status, True

    def forget(self) -> None:
        """Let go of the last value: the message has ended, and keeps the content as it is."""
        self._last = None

    def value(self) -> JsonObject:
        """The content as it is now, whole."""
        return read(_UNNUMBERED % self.body())

    def body(self) -> Body:
        """The content as it is now, in the form that its message shows."""
        if self._last is not None:
            return self._last
        kind, named = self.kind.encode(), self._named
        return _CONTENT % (self._status.encode(), kind, self.index, b"false", named, self._said())

    def delta_head(self) -> Body:
        """The bytes that all frames of a text's deltas have between their number and the JSON of the piece; see DELTA.

        Whoever writes such a frame itself appends the piece to `parts`, and takes the number.
        """
        self._began = True
        kind = self.kind.encode()
        named = self._named
        return b"," + _CONTENT % (b"in_progress", kind, self.index, b"true", named, b',"%b":' % kind)

    def _said(self) -> Body:
        if self.parts:
            return text_said(self.kind, "".join(self.parts))
        if self._value is None:
            return text_said(self.kind, "") if self.kind in _TEXTS else b""
        return self._value

    def _shown(self) -> Frame:
        opens = self.index > 0 and not self._began
        return self._going(b"true" if opens else b"false", self._said())

    def _going(self, delta: bytes, said: Body) -> Frame:
        self._began = True
        number, kind, named = self._progress.take(), self.kind.encode(), self._named
        return _CONTENT_FRAME % (number, b"in_progress", kind, self.index, delta, named, said)

    def _expect_open(self) -> None:
        if self.ended:
            raise ProtocolStateError(
                f"the content {self.index} of {self._message_id} has ended as {self._status}:"
                " it takes nothing any more; open another one"
            )


def read(frame: Frame) -> JsonObject:
    """The object in a frame."""
    try:
        return cast(JsonObject, orjson.loads(frame[len(b"data: ") :]))
    except orjson.JSONDecodeError:  # half a surrogate pair
        return cast(JsonObject, json.loads(frame[len(b"data: ") :]))


def value_said(kind: str, value: Mapping[str, JsonValue]) -> Body:
    """The value of a content, by its members.

    Raises:
        ValueError: contents of that type have no such members.
    """
    if wrong := [name for name in value if name not in VALUES[kind]]:
        right = ", ".join(VALUES[kind])
        raise ValueError(f"{wrong[0]} is only supported for contents of another type; {kind} has {right}")
    return text_said(kind, cast(str, value.get(kind) or "")) if kind in _TEXTS else _more(value)


def text_said(kind: str, text: str) -> Body:
    """The text of a content of that type, a text or a refusal."""
    return b',"%b":%b' % (kind.encode(), written(text))


def text_written(text: str) -> bytes:
    """A text as `written`, with lone surrogates replaced."""
    try:
        data = orjson.dumps(text)
    except TypeError:
        data = orjson.dumps(encodable(text))
    return data if data.isascii() else strict_json.on_one_line(data)


def written(value: object) -> bytes:
    """JSON on one line, also for clients that end a line at U+2028: those that read with httpx do."""
    try:
        data = orjson.dumps(value)
    except TypeError:
        data = strict_json.dump(value)
    return data if data.isascii() else strict_json.on_one_line(data)


def _frame(number: int | None, body: Body) -> Frame:
    return _UNNUMBERED % body if number is None else _FRAME % (number, body)


def _more(members: Mapping[str, JsonValue]) -> Body:
    """Members that follow others; those that are None are left out."""
    if None in members.values():
        members = {name: value for name, value in members.items() if value is not None}
    return b",%b" % written(members)[1:-1] if members else b""


def _array(objects: Sequence[Body]) -> bytes:
    return b"[{%b}]" % b"},{".join(objects) if objects else b"[]"
