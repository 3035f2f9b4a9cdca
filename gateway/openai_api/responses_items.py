"""The items of a request's `input`: messages, outputs of calls, decisions and references. Pure.

Below: content, ids. Above: responses_request, which reads the rest of the body; responses_history.
https://platform.openai.com/docs/api-reference/responses/create (November 2026)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Final, TypeAlias

from gateway.messages import (
    Base64Source,
    ContentBlock,
    ImageBlock,
    JsonValue,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    json_kind,
    new_message_id,
)
from gateway.openai_api.content import read_content
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.questions import REFUSED, is_question
from gateway.openai_api.tools import flat_name
from gateway.protocol.fields import shown_word
from gateway.wire.strict_json import begins_with


@dataclass(frozen=True, slots=True)
class SaidItem:
    """An item that says something itself. `item_id` is empty where it has none; `at` is its JSON pointer. `sealed` is
    the `encrypted_content` of its one message, a reasoning. `plain`: it is one text, and stands for nothing else.
    """

    at: str
    messages: tuple[Message, ...]
    item_id: str = ""
    sealed: str = ""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class ReferenceItem:
    """An item that stands for a stored one."""

    at: str
    item_id: str


@dataclass(frozen=True, slots=True)
class ApprovalItem:
    """A person's answer to the question `request_id`, whether a call may run."""

    at: str
    request_id: str
    approve: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class ReadInput:
    """The items of a body, and the object that was read of each. `plain` are the messages of those up to the first that
    is not. `counted`: how many they are, with those of the arrays in them (Fields.counted).
    """

    items: Sequence[JsonValue]
    read: tuple[InputItem, ...]
    plain: tuple[Message, ...] = ()
    counted: int = 0


InputItem: TypeAlias = SaidItem | ReferenceItem | ApprovalItem

_ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "developer": "developer"}
)
_TEXTS: Final = ("input_text", "output_text", "text")
_QUESTION: Final = '"mcp_approval_response"'  # stood in what earlier versions asked by words alone
_REFERENCE: Final = "item_reference"
_PICTURES: Final = MappingProxyType({name: f"image/{name}" for name in ("png", "jpeg", "webp", "gif")})
_DEFAULT_PICTURE: Final = "image/png"


def read_input(fields: OpenAIFields, name: str = "input", known: ReadInput | None = None) -> tuple[InputItem, ...]:
    """The items in a member of a body; a text is one user message. Problems are noted. Items that are `known` are not
    read again; that changes nothing but the messages' ids.
    """
    value = fields.value.get(name)
    if isinstance(value, str):
        message = _message("user", (TextBlock(value),))
        return (SaidItem(fields.pointer(name), (message,), plain=not is_question(value)),)
    if value is not None and not isinstance(value, list):
        fields.wrong(name, f"{name} must be a string or an array of items, not {json_kind(value)}")
        return ()
    at, given = fields.pointer(name), value or []
    if not fields.admits(name, len(given)):
        return ()
    before: tuple[InputItem, ...] = ()
    if known is not None and begins_with(given, known.items):
        before = known.read
        fields.count(known.counted - len(known.items))
    items = (
        _usual(item, f"{at}/{place}") or _unusual(fields, name, place, item)
        for place, item in enumerate(given[len(before) :], len(before))
    )
    return (*before, *(item for item in items if item is not None))


def plain_messages(read: Sequence[InputItem], known: ReadInput | None = None) -> tuple[Message, ...]:
    """The messages of the plain items up to the first that is not; `known` as for `read_input`."""
    before = known.plain if known is not None and read[: len(known.read)] == known.read else ()
    plain = takewhile(lambda item: isinstance(item, SaidItem) and item.plain, read[len(before) :])
    return (*before, *(message for item in plain if isinstance(item, SaidItem) for message in item.messages))


def _usual(item: JsonValue, at: str) -> SaidItem | None:
    """The item, if it is a message of one text, as most are: reading 2,000 of them takes 5.5 ms so, else 7.5 ms."""
    if type(item) is not dict or item.get("type", "message") != "message":
        return None
    role, content, item_id = item.get("role"), item.get("content"), item.get("id")
    if type(content) is list and len(content) == 1 and type(part := content[0]) is dict:
        content = part.get("text") if part.get("type") in _TEXTS else None
    if type(role) is not str or role not in _ROLES or type(content) is not str or not content:
        return None
    if item_id is not None and type(item_id) is not str:
        return None
    message, item_id = _message(_ROLES[role], (TextBlock(content),)), item_id or ""
    stands = may_stand_for_another(content) if item_id else is_question(content)
    return SaidItem(at, (message,), item_id, plain=not stands)


def may_stand_for_another(text: str) -> bool:
    """Whether a text of an item with an id may be what a response showed in place of a medium, or is no part of its
    thread.
    """
    is_note = text == REFUSED or is_question(text) or _QUESTION in text
    return is_note or (text.endswith((")", "]")) and text.startswith(("![", "[")))


def _unusual(fields: OpenAIFields, name: str, place: int, item: JsonValue) -> InputItem | None:
    if isinstance(item, dict):
        return _item(fields.below(f"{name}/{place}", item))
    fields.wrong_at(
        f"{name}/{place}", f"item {place} of {fields.called(name)} must be an object, not {json_kind(item)}"
    )
    return None


def _item(item: OpenAIFields) -> InputItem | None:
    kind = item.value.get("type")
    if kind is None:
        kind = "message" if "role" in item.value or "content" in item.value else _REFERENCE
    if isinstance(kind, str) and (read := _ITEMS.get(kind)) is not None:
        return read(item)
    item.wrong("type", f"{item.called('type')} is {shown_word(kind)}; it must be one of {', '.join(_ITEMS)}")
    return None


def _said(item: OpenAIFields, *messages: Message, sealed: str = "") -> SaidItem:
    return SaidItem(item.at, messages, item.text("id") or "", sealed)


def _message(role: Role, content: tuple[ContentBlock, ...]) -> Message:
    return Message(new_message_id(), role, content)


# --- the kinds -------------------------------------------------------------------------------------------------------


def _read_message(item: OpenAIFields) -> InputItem | None:
    role = item.word("role", _ROLES)
    if item.value.get("role") is None:
        item.missing("role", f"one of {', '.join(_ROLES)}")
    if item.value.get("content") is None:
        item.missing("content", "a string or an array of parts")
    content = read_content(item, "content", media=role in (None, "user"))
    if role is None:
        return None
    return _said(item, _message(role, content if role == "user" else _one_text(content)))


def _one_text(content: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    """The texts as one block, as all messages but the users' have them."""
    texts = [block for block in content if isinstance(block, TextBlock)]
    if len(texts) < 2:
        return content
    return (TextBlock("".join(text.text for text in texts), refusal=all(text.refusal for text in texts)),)


def _read_call(item: OpenAIFields) -> InputItem | None:
    call_id, name = item.required("call_id", filled=True), item.required("name", filled=True)
    if namespace := item.text("namespace"):
        name = flat_name(namespace, name)
    call = ToolCall(call_id, name, item.required("arguments"))
    return _said(item, _message("assistant", (call,)))


def _read_output(item: OpenAIFields) -> InputItem | None:
    call_id = item.required("call_id", filled=True)
    if item.value.get("output") is None:
        item.missing("output", "a string or an array of parts")
    result = ToolResult(call_id, read_content(item, "output"))
    return _said(item, _message("tool", (result,)))


def _read_reasoning(item: OpenAIFields) -> InputItem | None:
    texts = [part.required("text") for part in item.objects("summary")]
    if not texts:
        texts = [part.required("text") for part in item.objects("content")]
    block = ReasoningBlock("\n\n".join(texts))
    return _said(item, _message("reasoning", (block,)), sealed=item.text("encrypted_content") or "")


def _read_reference(item: OpenAIFields) -> InputItem | None:
    return ReferenceItem(item.at, item.required("id", filled=True))


def _read_backend_call(item: OpenAIFields) -> InputItem | None:
    """A call that the gateway made, with its result."""
    name, arguments = item.required("name", filled=True), item.required("arguments")
    call_id = item.required("id", filled=True)
    error = item.value.get("error")
    output = _error_text(error) if error is not None else item.text("output")
    call = _message("assistant", (ToolCall(call_id, name, arguments),))
    if output is None:  # it never came to its end
        return _said(item)
    blocks = (TextBlock(output),) if output else ()
    return _said(item, call, _message("tool", (ToolResult(call_id, blocks, is_error=error is not None),)))


def _error_text(error: object) -> str:
    """OpenAI's clients send a call's error as a text, or as an object of several forms."""
    if isinstance(error, str):
        return error
    said = error.get("message", error.get("content")) if isinstance(error, dict) else None
    if isinstance(said, list):
        said = "".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
    return said if isinstance(said, str) else "the call failed"


def _read_question(item: OpenAIFields) -> InputItem | None:
    """A question that the gateway asked: it leads to its thread, and says nothing to a model."""
    item.required("id", filled=True)
    return _said(item)


def _read_approval(item: OpenAIFields) -> InputItem | None:
    request_id, approve = item.required("approval_request_id", filled=True), item.boolean("approve")
    if item.value.get("approve") is None:
        item.missing("approve", "true or false")
    return ApprovalItem(item.at, request_id, bool(approve), item.text("reason"))


def _read_picture(item: OpenAIFields) -> InputItem | None:
    data = item.text("result")
    media_type = item.word("output_format", _PICTURES) or _DEFAULT_PICTURE
    return _said(item, _message("assistant", (ImageBlock(Base64Source(data, media_type)),))) if data else _said(item)


_ITEMS: Final[Mapping[str, Callable[[OpenAIFields], InputItem | None]]] = MappingProxyType(
    {
        "message": _read_message,
        "function_call": _read_call,
        "function_call_output": _read_output,
        "reasoning": _read_reasoning,
        _REFERENCE: _read_reference,
        "mcp_call": _read_backend_call,
        "mcp_approval_request": _read_question,
        "mcp_approval_response": _read_approval,
        "image_generation_call": _read_picture,
    }
)
