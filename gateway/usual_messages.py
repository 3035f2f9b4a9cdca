"""AG-UI's messages and calls as nearly all of them are, read in a quarter of the time.

Below: messages. Above: ag_ui_input, which reads whatever is not like this.
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


# A frozen dataclass sets its fields in a way that costs twice as much as this, and a history has thousands of them.
_new = object.__new__
_set_text, _set_index, _set_opaque = (vars(TextBlock)[name].__set__ for name in ("text", "index", "opaque"))
_set_id, _set_role, _set_content, _set_name, _set_turn_id, _set_incomplete, _set_metadata, _set_conversation = (
    vars(Message)[name].__set__
    for name in ("id", "role", "content", "name", "turn_id", "incomplete", "metadata", "conversation")
)


def _text_block(text: str) -> TextBlock:
    block = _new(TextBlock)
    _set_text(block, text)
    _set_index(block, -1)
    _set_opaque(block, None)
    return block


def _message(message_id: str, role: str, block: ContentBlock) -> Message:
    message = _new(Message)
    _set_id(message, message_id)
    _set_role(message, role)
    _set_content(message, (block,))
    _set_name(message, None)
    _set_turn_id(message, None)
    _set_incomplete(message, False)
    _set_metadata(message, None)
    _set_conversation(message, None)
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
