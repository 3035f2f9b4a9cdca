"""AG-UI's messages and calls as nearly all of them are, read in a quarter of the time.

Below: messages. Above: ag_ui.input, which reads whatever is not like this.
"""

from __future__ import annotations

from typing import Any

from gateway.messages import ContentBlock, Message, TextBlock, ToolCall, ToolResult


def usual_message(role: object, item: dict[str, Any]) -> Message | None:
    """The message, where it is what most are: a user's or an assistant's words, or a tool's text, and nothing else."""
    message_id, content = item.get("id"), item.get("content")
    if type(message_id) is not str or not message_id or type(content) is not str or not content:
        return None
    if len(item) == 3 and (role == "user" or role == "assistant"):
        return _message(message_id, role, _text_block(content))
    if len(item) == 4 and role == "tool" and type(call_id := item.get("toolCallId")) is str:
        return _message(message_id, role, ToolResult(call_id, (_text_block(content),)))
    return None


# A frozen dataclass sets its fields in a way that takes four times as long, and a history has thousands of them. Each
# is made of a class with the same slots that may be written, and is frozen then.


class _DraftOfText:
    __slots__ = TextBlock.__slots__

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = -1
        self.opaque = None


class _DraftOfMessage:
    __slots__ = Message.__slots__

    def __init__(self, message_id: str, role: object, block: ContentBlock) -> None:
        self.id = message_id
        self.role = role
        self.content = (block,)
        self.name = self.turn_id = self.metadata = self.conversation = None
        self.incomplete = False


def _text_block(text: str) -> TextBlock:
    draft: Any = _DraftOfText(text)
    draft.__class__ = TextBlock
    block: TextBlock = draft
    return block


def _message(message_id: str, role: object, block: ContentBlock) -> Message:
    draft: Any = _DraftOfMessage(message_id, role, block)
    draft.__class__ = Message
    message: Message = draft
    return message


def usual_call(item: Any) -> ToolCall | None:
    """The call, where it has nothing but what it must have."""
    if type(item) is not dict:
        return None
    function, call_id = item.get("function"), item.get("id")
    if len(item) != 3 or type(call_id) is not str or item.get("type") != "function" or type(function) is not dict:
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if len(function) == 2 and type(name) is str and type(arguments) is str:
        return ToolCall(call_id, name, arguments)
    return None
