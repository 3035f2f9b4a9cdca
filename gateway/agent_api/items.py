"""The things that a run shows in a response: words, media, calls and notes; each is one content of a message.

Below: grammar, media_out. Above: the renderer, which shows one after the other. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.agent_api.grammar import (
    Body,
    ContentState,
    DataMessage,
    Frame,
    MessageState,
    text_written,
    value_said,
    written,
)
from gateway.agent_api.media_out import medium_content
from gateway.events import Executor
from gateway.messages import MediaBlock
from gateway.tool_output import encodable


class Ending(NamedTuple):
    """The last status of an item's content, and of its message."""

    content: str
    message: str


COMPLETE: Final = Ending("completed", "completed")
CUT_OFF: Final = Ending("completed", "incomplete")
BROKEN: Final = Ending("incomplete", "incomplete")
CANCELED: Final = Ending("canceled", "canceled")


class Item:
    """A thing that is shown.

    `waits`: it was added to the queue of shown items. `ending` is None until a later event decides it.
    """

    message_kind = "message"
    turn = 0
    waits = False
    ending: Ending | None = None


class Part(Item):
    """One content of a message. `content_kind` is the type of its content; `content` and `message` are None until it is
    shown.
    """

    content_kind: str
    content: ContentState | None = None
    message: MessageState | None = None

    def show(self, message: MessageState) -> Frame | None:
        """Make it the message's next content. Gives the content's first frame; None: the renderer writes its frames."""
        self.message = message
        self.content = content = message.content(self.content_kind)
        return self._first(content)

    def value(self) -> Body:
        """The last value of its content."""
        raise NotImplementedError

    def _first(self, content: ContentState) -> Frame | None:
        raise NotImplementedError


class Whole(Item):
    """A message of its own, with one content of data."""

    role = "assistant"
    call_id = ""

    def begin(self, message: DataMessage) -> Sequence[Frame]:
        """Make it that message. Gives the message's first frames."""
        raise NotImplementedError

    def complete(self, ending: Ending) -> Sequence[Frame]:
        """Its last frames."""
        raise NotImplementedError


class Words(Part):
    """A text, a refusal or reasoning. `parts` are the deltas that have come; who shows it writes their frames."""

    _replacement: str | None = None

    def __init__(self, message_id: str, content_kind: str, message_kind: str = "message") -> None:
        self.message_id = message_id
        self.content_kind = content_kind
        self.message_kind = message_kind
        self.parts: list[str] = []

    def take_back(self, text: str) -> None:
        """It should not have been shown: the text replaces it."""
        self._replacement = text

    def value(self) -> Body:
        text = "".join(self.parts) if self._replacement is None else self._replacement
        return b',"%b":%b' % (self.content_kind.encode(), text_written(text))

    def _first(self, content: ContentState) -> None:
        content.parts.append("".join(self.parts) if self._replacement is None else self._replacement)
        self.parts = content.parts


class Medium(Part):
    """A medium that the model made."""

    def __init__(self, block: MediaBlock) -> None:
        self.content_kind, self._value = medium_content(block)

    def take_back(self, text: str) -> None:
        """It should not have been shown: the text replaces it."""
        self.content_kind, self._value = "text", {"text": text}

    def value(self) -> Body:
        return value_said(self.content_kind, self._value)

    def _first(self, content: ContentState) -> Frame:
        return content.set(**self._value)


class Call(Whole):
    """A call of a backend tool; also one that is not shown. `named` is the beginning of the JSON object in the call's
    content, and in its output's: the call's id, its tool and its server.
    """

    _message: DataMessage | None = None
    _length = _shown = 0
    _text: str | None = None
    _written = b""  # its data with that text

    def __init__(self, call_id: str, name: str, server: str | None, executor: Executor | None) -> None:
        self.message_kind = "plugin_call" if server is None else "mcp_call"
        self.call_id = call_id
        self.name = encodable(name)
        self.server = server
        self.executor = executor
        named = {"call_id": call_id, "name": self.name}
        self.named = written(named if server is None else {**named, "server_label": server})[:-1]
        self._parts: list[str] = []

    @property
    def arguments(self) -> str:
        """All of them, as JSON."""
        return arguments_text("".join(self._parts))

    def grow(self, arguments: str) -> Frame | None:
        """The next piece of its arguments. If they are twice as long as those that were shown, they are shown again:
        only then, so that all frames together stay short.
        """
        self._parts.append(arguments)
        self._length += len(arguments)
        if self._message is None or self._length < 2 * self._shown:
            return None
        return self._message.set(self._now())

    def begin(self, message: DataMessage) -> Sequence[Frame]:
        self._message = message
        return message.begin(self._now())

    def complete(self, ending: Ending) -> Sequence[Frame]:
        assert self._message is not None, "it is being shown"
        arguments = "".join(self._parts)
        return self._message.finish(self._data(_or_none(arguments)), ending.content, ending.message)

    def _now(self) -> bytes:
        self._shown = self._length
        return self._data("".join(self._parts))

    def _data(self, arguments: str) -> bytes:
        """Short arguments end as they were shown last, and are not written again then."""
        if arguments != self._text:
            self._text, self._written = arguments, b'%b,"arguments":%b}' % (self.named, text_written(arguments))
        return self._written


class Note(Whole):
    """Data that come at once, such as a tool's result. They are JSON. They are shown as a whole: results are long, and
    each frame repeats them.
    """

    def __init__(self, message_kind: str, data: bytes, role: str = "assistant") -> None:
        self.message_kind = message_kind
        self._data = data
        self.role = role

    def begin(self, message: DataMessage) -> Sequence[Frame]:
        return message.all_frames(self._data)

    def complete(self, ending: Ending) -> Sequence[Frame]:
        return ()


def arguments_text(written: str) -> str:
    """A call's arguments as JSON."""
    return encodable(_or_none(written))


def _or_none(arguments: str) -> str:
    """Models write nothing, or null, for none."""
    return "{}" if arguments.strip() in ("", "null") else arguments
