"""Messages, content blocks or a text, as executions and working memory take them. Pure.

Below: content. Above: ml_agents.agent_input, ml_memory.memory_messages.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/execute-agent/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, cast

from gateway.messages import (
    ContentBlock,
    JsonObject,
    JsonValue,
    MediaBlock,
    Message,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    json_kind,
)
from gateway.ml_commons.answers import new_document_id
from gateway.ml_commons.content import INVALID_FORM, is_block, read_blocks, wrong
from gateway.protocol.fields import MOST_ITEMS

logger = logging.getLogger(__name__)

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_ONE_TEXT: Final = ("system", "developer")
SUPPORTED: Final = (
    'give a text; or an array of content blocks: [{"type": "text", "text": "..."}]; or an array of messages: '
    '[{"role": "user", "content": [{"type": "text", "text": "..."}]}]'
)
_LONGEST_ID: Final = 256


def read_messages(items: Sequence[tuple[str, JsonValue]]) -> tuple[Message, ...]:
    """Messages that are no run's input: the last may be of any role. Each comes with its pointer.

    Raises:
        InvalidRequestError
    """
    reader = InputReader("")
    messages: list[Message] = []
    for at, item in items:
        said = item if isinstance(item, dict) else {}
        if said.get("role") is None or all(said.get(name) is None for name in ("content", "toolCalls", "tool_calls")):
            raise wrong("Message must have role and content", at, "give it both", code=INVALID_FORM)
        messages += reader.message(said, at)
    return tuple(messages)


class InputReader:
    """Reads one input. `form` is ml-commons' name for its form; `minted` are the ids that were made here; `media` are
    the media of a run's input, each with its pointer.
    """

    def __init__(self, at: str) -> None:
        self._at = at
        self.form = "TEXT"
        self.minted: set[str] = set()
        self.media: list[tuple[str, MediaBlock]] = []
        self._items = 0

    def messages(self, given: JsonValue) -> tuple[Message, ...]:
        if isinstance(given, str):
            if not given.strip():
                raise wrong("Text input cannot be null or empty", self._at, "send a text")
            return (self._user([TextBlock(given)]),)
        if not isinstance(given, list):
            message = "Invalid input format. Expected string or array."
            raise wrong(message, self._at, f"is {json_kind(given)}; {SUPPORTED}", code=INVALID_FORM)
        self._count(given, self._at)
        if not given:
            raise wrong("Content blocks cannot be null or empty", self._at, SUPPORTED)
        self._check_items(given)
        if self.form == "CONTENT_BLOCKS":
            return (self._user(self._blocks(given, self._at)),)
        messages = [
            message
            for place, item in enumerate(given)
            for message in self.message(cast(JsonObject, item), f"{self._at}/{place}")
        ]
        if messages[-1].role not in ("user", "tool"):
            last = f"{self._at}/{len(given) - 1}/role"
            raise wrong("Last message must be from role 'user' or 'tool'", last, "end with what is to be answered")
        return tuple(messages)

    def _count(self, items: Sequence[JsonValue], at: str) -> None:
        self._items += len(items)
        if self._items > MOST_ITEMS:
            message = f"the request has more than {MOST_ITEMS:,} messages, content blocks and tool calls together"
            raise wrong(message, at, f"with these it has {self._items:,}; send fewer", code=INVALID_FORM)

    def _check_items(self, items: Sequence[JsonValue]) -> None:
        """All items are messages, or all are content blocks."""
        kinds = [self._kind(item, place) for place, item in enumerate(items)]
        self.form = "MESSAGES" if kinds[0] == "Message" else "CONTENT_BLOCKS"
        for place, kind in enumerate(kinds):
            if kind != kinds[0]:
                raise wrong(
                    f"Mixed array types detected. Expected all items to be {kinds[0]}s, but item at index {place} is"
                    f" of type {kind}",
                    f"{self._at}/{place}",
                    "send messages alone, or content blocks alone",
                    code=INVALID_FORM,
                )

    def _kind(self, item: JsonValue, place: int) -> str:
        if isinstance(item, dict):
            if "role" in item:
                return "Message"
            if is_block(item):
                return "ContentBlock"
        message = "Invalid item format. Must have 'role' (for messages) or 'type' (for content blocks)."
        raise wrong(message, f"{self._at}/{place}", SUPPORTED, code=INVALID_FORM)

    def _blocks(self, given: list[JsonValue], at: str) -> list[ContentBlock]:
        blocks = read_blocks(given, at)
        self.media += [(f"{at}/{place}", each) for place, each in enumerate(blocks) if isinstance(each, MediaBlock)]
        return blocks

    def _user(self, content: Sequence[ContentBlock]) -> Message:
        return Message(self._mint(), "user", tuple(content))

    def _mint(self) -> str:
        minted = new_document_id()
        self.minted.add(minted)
        return minted

    # --- messages

    def message(self, item: JsonObject, at: str) -> list[Message]:
        """The message; several where it has media that a model made."""
        said = item["role"]
        if type(said) is not str or not said.strip():
            raise wrong("Message role cannot be null or empty", f"{at}/role", "name the role, such as 'user'")
        role = _ROLES.get(said.strip().lower())
        message_id, name, metadata = self._id(item, at), item.get("name"), item.get("metadata")
        content = self._content(item, said, at, required=role != "assistant")
        kept = metadata if isinstance(metadata, dict) else None
        if role is None:
            logger.debug("kept a message of an unknown role as a user's", extra={"field": at, "role": said[:64]})
            role, kept = "user", {**(kept or {}), "role": said}
        if role == "assistant":
            return self._assistant(message_id, content, item, at)
        if role == "tool":
            content = [self._result(content, item, at)]
        elif role in _ONE_TEXT:
            content = [TextBlock(_one_text(content, role, at))]
        return [Message(message_id, role, tuple(content), name if type(name) is str else None, metadata=kept)]

    def _id(self, item: JsonObject, at: str) -> str:
        value = item.get("id")
        if value is None or value == "":
            return self._mint()
        if type(value) is not str or len(value) > _LONGEST_ID:
            message = f"Message id must be a text of at most {_LONGEST_ID} characters"
            raise wrong(message, f"{at}/id", "leave it out, and one is made", code=INVALID_FORM)
        return value

    def _content(self, item: JsonObject, role: str, at: str, *, required: bool) -> list[ContentBlock]:
        value, at = item.get("content"), f"{at}/content"
        if isinstance(value, str):
            content: list[ContentBlock] = [TextBlock(value)] if value.strip() else []
        elif isinstance(value, list):
            self._count(value, at)
            content = read_blocks(value, at) if role.strip().lower() == "assistant" else self._blocks(value, at)
        elif value is None:
            content = []
        else:
            message = "Invalid message content. Expected string or array."
            raise wrong(message, at, f"is {json_kind(value)}; give an array of content blocks", code=INVALID_FORM)
        if required and not content:
            known = role.strip().lower()
            whose = "Tool message" if known == "tool" else f"{known} message"
            message = (
                f"{whose} must have content"
                if known in _ROLES
                else f"Message with role '{role[:64]}' must have content"
            )
            raise wrong(message, at, 'give it content, such as [{"type": "text", "text": "..."}]')
        return content

    def _assistant(self, message_id: str, content: Sequence[ContentBlock], item: JsonObject, at: str) -> list[Message]:
        """A model's message, in the order of threads: its words and calls are a message, and so is each medium."""
        calls = self._calls(item, at)
        if not content and not calls:
            message = "Assistant message must have either content or tool calls"
            raise wrong(message, at, "give it 'content' or 'toolCalls'")
        text = "\n".join(block.text for block in content if isinstance(block, TextBlock))
        media = [block for block in content if not isinstance(block, TextBlock)]
        said = (*((TextBlock(text),) if text else ()), *calls)
        messages = [Message(message_id, "assistant", said)] if said else []
        for medium in media:
            messages.append(Message(self._mint() if messages else message_id, "assistant", (medium,)))
        return messages

    def _calls(self, item: JsonObject, at: str) -> list[ToolCall]:
        name = "tool_calls" if "tool_calls" in item and "toolCalls" not in item else "toolCalls"
        value, at = item.get(name), f"{at}/{name}"
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong("Tool calls must be an array", at, f"is {json_kind(value)}; give an array", code=INVALID_FORM)
        self._count(value, at)
        return [_call(call, f"{at}/{place}") for place, call in enumerate(value)]

    def _result(self, content: Sequence[ContentBlock], item: JsonObject, at: str) -> ToolResult:
        call_id = item.get("toolCallId", item.get("tool_call_id"))
        if type(call_id) is not str or not call_id:
            raise wrong("Tool message must have toolCallId", f"{at}/toolCallId", "name the call whose result it is")
        return ToolResult(call_id, tuple(content))


def _call(item: JsonValue, at: str) -> ToolCall:
    if not isinstance(item, dict) or "id" not in item or "function" not in item:
        example = '{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}'
        raise wrong("ToolCall must have 'id' and 'function' fields", at, f"write it as {example}", code=INVALID_FORM)
    call_id, function = item["id"], item["function"]
    if type(call_id) is not str or not call_id:
        raise wrong("Tool call must have an id", f"{at}/id", "give it the id that its result names")
    if item.get("type") == "":
        raise wrong("Tool call must have a type", f"{at}/type", "write 'function', or leave it out")
    if not isinstance(function, dict) or "name" not in function or "arguments" not in function:
        message = "ToolFunction must have 'name' and 'arguments' fields"
        raise wrong(message, f"{at}/function", "name the tool, and give its arguments as JSON text", code=INVALID_FORM)
    name, arguments = function["name"], function["arguments"]
    if type(name) is not str or not name:
        raise wrong("Tool call function must have a name", f"{at}/function/name", "name the tool")
    if type(arguments) is not str:
        message = "Tool call function must have arguments"
        raise wrong(message, f"{at}/function/arguments", f"is {json_kind(arguments)}; give them as JSON text")
    return ToolCall(call_id, name, arguments)


def _one_text(content: Sequence[ContentBlock], role: str, at: str) -> str:
    for place, block in enumerate(content):
        if not isinstance(block, TextBlock):
            message = f"Message with role '{role}' can only have text"
            raise wrong(message, f"{at}/content/{place}", "put media into a user message")
    return "\n".join(cast(TextBlock, block).text for block in content)
