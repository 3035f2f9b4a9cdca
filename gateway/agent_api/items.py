"""What a run shows in a response: words, media, calls, and what comes at once; each is one content of a message.

Below: grammar, media_out. Above: the renderer, which shows one after the other. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.agent_api.grammar import ContentState, Frame, MessageState
from gateway.agent_api.media_out import medium_content
from gateway.events import Executor
from gateway.messages import JsonObject, MediaBlock
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
    """Something that is shown. `content_kind` is the type of its content.

    `waits`: it has a place among what is shown. `content` and `message` are there once it is being shown, `ending` once
    it is known how it ended.
    """

    __slots__ = ("content", "content_kind", "ending", "message", "message_kind", "role", "turn", "waits")

    def __init__(self, content_kind: str, message_kind: str, role: str = "assistant") -> None:
        self.content_kind = content_kind
        self.message_kind = message_kind
        self.role = role
        self.turn = 0
        self.waits = False
        self.ending: Ending | None = None
        self.content: ContentState | None = None
        self.message: MessageState | None = None

    def show(self, message: MessageState) -> Frame | None:
        """It becomes the message's next content. The content's first frame, where it has one of its own here."""
        self.message = message
        self.content = content = message.content(self.content_kind)
        return self._first(content)

    def finish(self, content: ContentState) -> None:
        """Its content gets its last value."""
        raise NotImplementedError

    def _first(self, content: ContentState) -> Frame | None:
        raise NotImplementedError


class Words(Item):
    """A text, a refusal or reasoning. `parts` are the deltas that have come; who shows it writes their frames."""

    __slots__ = ("_replacement", "message_id", "parts")

    def __init__(self, message_id: str, content_kind: str, message_kind: str = "message") -> None:
        super().__init__(content_kind, message_kind)
        self.message_id = message_id
        self.parts: list[str] = []
        self._replacement: str | None = None

    def take_back(self, text: str) -> None:
        """It should not have been shown: the text replaces it."""
        self._replacement = text

    def finish(self, content: ContentState) -> None:
        said = encodable("".join(self.parts)) if self._replacement is None else self._replacement
        content.replace(self.content_kind, **{self.content_kind: said})

    def _first(self, content: ContentState) -> None:
        content.parts.append("".join(self.parts) if self._replacement is None else self._replacement)
        self.parts = content.parts


class Medium(Item):
    """A medium that the model made."""

    __slots__ = ("_value",)

    def __init__(self, block: MediaBlock) -> None:
        kind, self._value = medium_content(block)
        super().__init__(kind, "message")

    def take_back(self, text: str) -> None:
        """It should not have been shown: the text replaces it."""
        self.content_kind, self._value = "text", {"text": text}

    def finish(self, content: ContentState) -> None:
        content.replace(self.content_kind, **self._value)

    def _first(self, content: ContentState) -> Frame:
        return content.set(**self._value)


class Call(Item):
    """A call of a backend tool; also one that is not shown."""

    __slots__ = ("_length", "_parts", "_shown", "call_id", "executor", "name", "server")

    def __init__(self, call_id: str, name: str, server: str | None, executor: Executor | None) -> None:
        super().__init__("data", "plugin_call" if server is None else "mcp_call")
        self.call_id = call_id
        self.name = encodable(name)
        self.server = server
        self.executor = executor
        self._parts: list[str] = []
        self._length = self._shown = 0

    @property
    def named(self) -> JsonObject:
        """What its content, and that of its output, say of it."""
        named: JsonObject = {"call_id": self.call_id, "name": self.name}
        return named if self.server is None else {**named, "server_label": self.server}

    @property
    def arguments(self) -> str:
        """All of them, as JSON."""
        return arguments_text("".join(self._parts))

    def grow(self, arguments: str) -> bool:
        """The next piece of its arguments. Whether they are twice as long as those that were shown: only then they are
        shown again, so that all frames together stay short.
        """
        self._parts.append(arguments)
        self._length += len(arguments)
        return self._length >= 2 * self._shown

    def snapshot(self, content: ContentState) -> Frame:
        """The frame with the arguments as they are now."""
        self._shown = self._length
        return content.set(data={**self.named, "arguments": encodable("".join(self._parts))})

    def finish(self, content: ContentState) -> None:
        content.replace("data", data={**self.named, "arguments": self.arguments})

    def _first(self, content: ContentState) -> Frame:
        return self.snapshot(content)


class Note(Item):
    """Data that come at once, such as a tool's result, as a message of their own."""

    __slots__ = ("_data",)

    def __init__(self, message_kind: str, data: JsonObject, role: str = "assistant") -> None:
        super().__init__("data", message_kind, role)
        self._data = data

    def finish(self, content: ContentState) -> None:
        content.replace("data", data=self._data)

    def _first(self, content: ContentState) -> None:
        """None: results are long, and each frame repeats them."""


def arguments_text(written: str) -> str:
    """A call's arguments as JSON: models write nothing, or null, for none."""
    return "{}" if written.strip() in ("", "null") else encodable(written)
