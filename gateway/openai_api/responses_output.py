"""The items of a Response's output as they grow, and the events of each.

Below: media_out, messages. Above: the renderer, which puts the events in order and numbers them. Pure. Each item that
can be under way has a `status`, because some clients cannot read one without.
https://platform.openai.com/docs/api-reference/responses/object (November 2026)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from gateway.messages import Base64Source, ContentBlock, JsonObject, MediaBlock, Opaque, TextBlock
from gateway.openai_api.media_out import markdown_of
from gateway.tool_output import encodable
from gateway.wire import strict_json

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]

Fact: TypeAlias = tuple[str, JsonObject]
"""An event: its type, and its members but for `type` and `sequence_number`."""

Seal: TypeAlias = Callable[[str, Opaque | None], str]
"""(reasoning's text, its provider's data) -> the `encrypted_content` of its item; the same for the same reasoning."""

GATEWAY: Final = "gateway"
"""The `server_label` of tools that are on no MCP server."""

_FORMATS: Mapping[str, str] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpeg", "image/webp": "webp", "image/gif": "gif"}
)


class OutputItem:
    """An item. `index` is its place in the output, `source_id` the message or call that it shows. The whole output is
    without retracted ones.
    """

    __slots__ = ("id", "index", "is_retracted", "source_id", "status")

    def __init__(self, item_id: str, index: int, source_id: str) -> None:
        self.id = item_id
        self.index = index
        self.source_id = source_id
        self.status: ItemStatus = "in_progress"
        self.is_retracted = False

    def value(self) -> JsonObject:
        """The item as it is now."""
        raise NotImplementedError

    def opened(self) -> Iterator[Fact]:
        """The events with which it begins."""
        yield "response.output_item.added", {"output_index": self.index, "item": self.value()}

    def closed(self, status: ItemStatus) -> Iterator[Fact]:
        """It is done; the events with which it ends."""
        self.status = status
        yield "response.output_item.done", {"output_index": self.index, "item": self.value()}

    @property
    def place(self) -> JsonObject:
        """The members of its events that say where they belong."""
        return {"item_id": self.id, "output_index": self.index}


class WordsItem(OutputItem):
    """An item of words that come as deltas. `parts` are those that have come."""

    __slots__ = ("_replacement", "head", "opaque", "parts")

    def __init__(self, item_id: str, index: int, source_id: str, delta: str, more: JsonObject) -> None:
        """`delta` is the type of the events of its deltas, `more` their members besides the place."""
        super().__init__(item_id, index, source_id)
        self.head = _head(delta, {**self.place, **more})
        self.parts: list[str] = []
        self.opaque: Opaque | None = None
        self._replacement: str | None = None

    @property
    def text(self) -> str:
        """The whole text; the text that replaces it where it was taken back."""
        return encodable("".join(self.parts)) if self._replacement is None else self._replacement

    def replace(self, text: str) -> None:
        """It was taken back."""
        self._replacement, self.opaque = encodable(text), None

    def begun(self) -> Iterator[Fact]:
        """The events before its first delta."""
        yield from ()


class MessageItem(WordsItem):
    """A text of the model, or a refusal if `is_refusal`."""

    __slots__ = ("is_refusal",)

    def __init__(self, item_id: str, index: int, source_id: str, *, refusal: bool = False) -> None:
        more: JsonObject = {"content_index": 0} if refusal else {"content_index": 0, "logprobs": []}
        kind = "refusal" if refusal else "output_text"
        super().__init__(item_id, index, source_id, f"response.{kind}.delta", more)
        self.is_refusal = refusal

    def value(self) -> JsonObject:
        content = [self._part(self.text)] if self.parts or self.status != "in_progress" else []
        return {"id": self.id, "type": "message", "status": self.status, "role": "assistant", "content": [*content]}

    def opened(self) -> Iterator[Fact]:
        yield from super().opened()
        yield "response.content_part.added", {**self.place, "content_index": 0, "part": self._part("")}

    def closed(self, status: ItemStatus) -> Iterator[Fact]:
        where: JsonObject = {**self.place, "content_index": 0}
        text = self.text
        if self.is_refusal:
            yield "response.refusal.done", {**where, "refusal": text}
        else:
            yield "response.output_text.done", {**where, "text": text, "logprobs": []}
        yield "response.content_part.done", {**where, "part": self._part(text)}
        yield from super().closed(status)

    def _part(self, text: str) -> JsonObject:
        if self.is_refusal:
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ReasoningItem(WordsItem):
    """Reasoning of the model; without a part if only its provider can read it."""

    __slots__ = ("_seal", "_sealed")

    def __init__(self, item_id: str, index: int, source_id: str, seal: Seal | None) -> None:
        super().__init__(item_id, index, source_id, "response.reasoning_summary_text.delta", {"summary_index": 0})
        self._seal = seal
        self._sealed: str | None = None

    def value(self) -> JsonObject:
        summary = [_summary(self.text)] if self.parts else []
        item: JsonObject = {"id": self.id, "type": "reasoning", "status": self.status, "summary": [*summary]}
        if self._seal is not None and self.status != "in_progress":
            if self._sealed is None:
                self._sealed = self._seal(self.text, self.opaque)
            item["encrypted_content"] = self._sealed
        return item

    def replace(self, text: str) -> None:
        super().replace(text)
        self._sealed = None

    def begun(self) -> Iterator[Fact]:
        yield "response.reasoning_summary_part.added", {**self.place, "summary_index": 0, "part": _summary("")}

    def closed(self, status: ItemStatus) -> Iterator[Fact]:
        if self.parts:
            where: JsonObject = {**self.place, "summary_index": 0}
            text = self.text
            yield "response.reasoning_summary_text.done", {**where, "text": text}
            yield "response.reasoning_summary_part.done", {**where, "part": _summary(text)}
        yield from super().closed(status)


class CallItem(OutputItem):
    """A call, whose arguments come as deltas: its reader runs it, or, if it is a backend tool's, its output follows."""

    __slots__ = ("_namespace", "call_id", "head", "name", "parts")

    _arguments: str = "response.function_call_arguments"

    def __init__(self, item_id: str, index: int, call_id: str, name: str, namespace: str | None = None) -> None:
        super().__init__(item_id, index, call_id)
        self.call_id, self.name, self._namespace = call_id, encodable(name), namespace
        self.head = _head(f"{self._arguments}.delta", self.place)
        self.parts: list[str] = []

    @property
    def arguments(self) -> str:
        """All of them as JSON: models write nothing, or null, for none."""
        written = encodable("".join(self.parts))
        return "{}" if written.strip() in ("", "null") else written

    def value(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "function_call",
            "status": self.status,
            "call_id": self.call_id,
            **({} if self._namespace is None else {"namespace": encodable(self._namespace)}),
            "name": self.name,
            "arguments": self.arguments if self.parts or self.status != "in_progress" else "",
        }

    def written(self) -> Iterator[Fact]:
        """The events for the end of its arguments."""
        named: JsonObject = {} if isinstance(self, McpCallItem) else {"name": self.name}
        yield f"{self._arguments}.done", {**self.place, "arguments": self.arguments, **named}

    def whole(self, arguments: str) -> Iterator[Fact]:
        """All of its events up to the end of its arguments."""
        yield from self.opened()
        if arguments:
            self.parts.append(arguments)
            yield f"{self._arguments}.delta", {**self.place, "delta": self.arguments}
        yield from self.written()


class McpCallItem(CallItem):
    """A call that the gateway runs. `server` is the label of the MCP server that has the tool."""

    __slots__ = ("_approval_request_id", "_result", "_server")

    _arguments = "response.mcp_call_arguments"

    def __init__(
        self,
        item_id: str,
        index: int,
        call_id: str,
        name: str,
        server: str | None,
        approval_request_id: str | None = None,
    ) -> None:
        super().__init__(item_id, index, call_id, name)
        self._server = server or GATEWAY
        self._approval_request_id = approval_request_id
        self._result: str | None = None

    def value(self) -> JsonObject:
        is_error = self.status == "failed"
        text: JsonObject = {"type": "text", "text": self._result}
        return {
            "id": self.id,
            "type": "mcp_call",
            "status": self.status,
            "server_label": self._server,
            "name": self.name,
            "arguments": self.arguments if self.parts or self.status != "in_progress" else "",
            "output": None if is_error else self._result,
            "error": {"type": "mcp_tool_execution_error", "content": [text]} if is_error else None,
            "approval_request_id": self._approval_request_id,
        }

    def opened(self) -> Iterator[Fact]:
        yield from super().opened()
        yield "response.mcp_call.in_progress", self.place

    def returned(self, result: str, *, is_error: bool) -> Iterator[Fact]:
        """The tool gave this; the item is done."""
        self._result = result
        yield f"response.mcp_call.{'failed' if is_error else 'completed'}", self.place
        yield from self.closed("failed" if is_error else "completed")


class PictureItem(OutputItem):
    """A picture that the model made; without one if it was taken back."""

    __slots__ = ("_source",)

    def __init__(self, item_id: str, index: int, source_id: str, source: Base64Source) -> None:
        super().__init__(item_id, index, source_id)
        self._source = source

    def value(self) -> JsonObject:
        shown = self.status == "completed"
        item: JsonObject = {
            "id": self.id,
            "type": "image_generation_call",
            "status": self.status,
            "result": self._source.data if shown else None,
        }
        if shown and (kind := _FORMATS.get(self._source.media_type)) is not None:
            item["output_format"] = kind
        return item

    def whole(self) -> Iterator[Fact]:
        """All of its events."""
        yield from self.opened()
        yield "response.image_generation_call.in_progress", self.place
        yield "response.image_generation_call.completed", self.place
        yield from self.closed("completed" if self._source.data else "failed")

    def take_back(self) -> None:
        """It should not have been shown."""
        self.status = "failed"


class GivenItem(OutputItem):
    """An item that comes at once."""

    __slots__ = ("_value",)

    def __init__(self, item_id: str, index: int, source_id: str, value: JsonObject) -> None:
        """`value` is all of it but its id."""
        super().__init__(item_id, index, source_id)
        self._value = value

    def value(self) -> JsonObject:
        return {"id": self.id, **self._value}


def function_output(call_id: str, output: str) -> JsonObject:
    """The result of a backend tool whose call is shown as a function's; without its id."""
    return {"type": "function_call_output", "status": "completed", "call_id": call_id, "output": output}


def approval_request(name: str, arguments: str, server: str | None) -> JsonObject:
    """The question whether a call may run; without its id."""
    return {
        "type": "mcp_approval_request",
        "server_label": server or GATEWAY,
        "name": encodable(name),
        "arguments": encodable(arguments) or "{}",
    }


def result_text(content: Sequence[ContentBlock]) -> str:
    """A tool's result as one text; its media in markdown."""
    return encodable("\n".join(block.text if isinstance(block, TextBlock) else _media(block) for block in content))


def _media(block: ContentBlock) -> str:
    return markdown_of(block) if isinstance(block, MediaBlock) else ""


def _summary(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}


def _head(kind: str, members: JsonObject) -> bytes:
    """All frames of an item's deltas begin alike, up to the delta."""
    name = kind.encode()
    return b'event: %b\ndata: {"type":"%b",%b,"delta":' % (name, name, strict_json.dump(members)[1:-1])
