"""The messages of a request's `input`, and a person's answers to questions in them. Pure.

Below: content. Above: request, recognition, which finds those that the thread has already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import orjson

from gateway.agent_api.content import read_content, read_data
from gateway.agent_api.fields import AgentApiFields
from gateway.frozen import replace
from gateway.messages import (
    ContentBlock,
    JsonValue,
    MediaBlock,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    new_message_id,
)
from gateway.protocol.fields import is_id, shown_word
from gateway.wire.strict_json import begins_with


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message that says something itself, `at` that JSON pointer."""

    at: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A person's answer to the question `request_id`, whether a call may run."""

    at: str
    request_id: str
    approve: bool
    reason: str | None


InputMessage: TypeAlias = SaidMessage | ApprovalAnswer


@dataclass(frozen=True, slots=True)
class ReadInput:
    """The messages of an input: `items` as they were sent, `read` the ones with content or an answer, `messages` the
    canonical messages of these. `ids` are the ids of `messages`, `calls` the ids of the calls in them, `outputs` the
    ids of the calls that have an output there. `counted` is the number of items in their arrays, as far as these were
    read.
    """

    items: Sequence[JsonValue] = ()
    read: tuple[InputMessage, ...] = ()
    messages: tuple[Message, ...] = ()
    ids: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    counted: int = 0


_NOTHING: Final = ReadInput()
_Reader: TypeAlias = Callable[[AgentApiFields], InputMessage | None]

_ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}
)


def read_input(body: AgentApiFields, known: ReadInput | None = None) -> ReadInput:
    """The messages of `input`. Problems are noted. Items that are `known` are not read again; that changes nothing but
    the ids of messages that came without one.
    """
    if body.value.get("input") is None:
        body.missing("input", "an array of messages")
    given, counted = body.items("input"), body.counted
    before = known if known is not None and begins_with(given, known.items) else _NOTHING
    body.count(before.counted)
    start = len(before.items)
    found = (
        _usual(item, f"/input/{place}") or _unusual(body, place, item)
        for place, item in enumerate(given[start:], start)
    )
    calls, ids = set(before.calls), set(before.ids)
    new = tuple(_own_ids(_calls_once(found, calls), ids))
    said = [message for each in new for message in _messages_of(each)]
    outputs = [block.call_id for message in said for block in message.content if isinstance(block, ToolResult)]
    return ReadInput(
        given,
        (*before.read, *new),
        (*before.messages, *said),
        frozenset(ids),
        frozenset(calls),
        before.outputs.union(outputs),
        body.counted - counted,
    )


def _calls_once(read: Iterable[InputMessage | None], seen: set[str]) -> Iterator[InputMessage]:
    """The messages, each call of them once: it is sent as a question, with the answer, and with its output. `seen` are
    the calls before them, and then all.
    """
    for message in read:
        if message is None:
            continue
        calls = {block.call_id for said in _messages_of(message) for block in said.content if type(block) is ToolCall}
        if not calls or not calls <= seen:
            yield message
        seen |= calls


def _messages_of(message: InputMessage) -> tuple[Message, ...]:
    return message.messages if isinstance(message, SaidMessage) else ()


def _own_ids(read: Iterable[InputMessage], taken: set[str]) -> Iterator[InputMessage]:
    """The messages, of which no two have one id. `taken` are the ids before them, and then all."""
    for message in read:
        if isinstance(message, SaidMessage):
            if not taken.isdisjoint([each.id for each in message.messages]):
                said = [replace(each, id=new_message_id()) if each.id in taken else each for each in message.messages]
                message = SaidMessage(message.at, tuple(said))
            taken.update([each.id for each in message.messages])
        yield message


def _usual(item: JsonValue, at: str) -> SaidMessage | None:
    """The message, if it is a person's or an agent's and one text, as most are: of a long talk there are thousands."""
    if type(item) is not dict or item.get("type", "message") != "message" or item.get("metadata") is not None:
        return None
    role, content, given = item.get("role"), item.get("content"), item.get("id")
    if type(content) is not list or len(content) != 1 or type(part := content[0]) is not dict:
        return None
    text = part.get("text")
    if part.get("type") != "text" or type(text) is not str or not text or not (given is None or type(given) is str):
        return None
    if role == "assistant":
        return SaidMessage(at, (Message(new_message_id(), "assistant", (TextBlock(text),)),))
    if role == "user":
        message_id = given if given and is_id(given) else new_message_id()
        return SaidMessage(at, (Message(message_id, "user", (TextBlock(text),)),))
    return None


def _unusual(body: AgentApiFields, place: int, item: JsonValue) -> InputMessage | None:
    if isinstance(item, dict):
        return _read(body.below(f"input/{place}", item))
    body.no_object("input", place, item)
    return None


def _read(message: AgentApiFields) -> InputMessage | None:
    kind = message.value.get("type")
    name = "message" if kind is None else kind
    if isinstance(name, str) and (read := _TYPES.get(name)) is not None:
        message.word("role", _ROLES)  # the role of a call or of a result is said by its type
        message.text("id")
        message.object("metadata")
        return read(message)
    message.wrong("type", f"{message.called('type')} is {shown_word(kind)}; it must be one of {', '.join(_TYPES)}")
    return None


# --- the types -------------------------------------------------------------------------------------------------------


def _said(message: AgentApiFields, *messages: Message) -> SaidMessage | None:
    return SaidMessage(message.at, messages) if messages else None


def _read_message(message: AgentApiFields) -> InputMessage | None:
    kind = message.value.get("role")
    role = _ROLES.get(kind, "user") if isinstance(kind, str) else "user"
    if message.value.get("type") == "assistant" and kind is None:
        role = "assistant"
    blocks = read_content(message)
    if not blocks:
        return None
    match role:
        case "assistant":
            return _said(message, *(Message(new_message_id(), role, (block,)) for block in blocks))
        case "tool":
            message.wrong(
                "role",
                f"{message.called('role')} is 'tool'; send what a tool returned as a message of the type "
                "'function_call_output'",
            )
            return None
        case "user":
            return _said(message, Message(_id_of(message), role, blocks))
        case _:
            return _read_instructions(message, blocks)


def _read_instructions(message: AgentApiFields, blocks: tuple[ContentBlock, ...]) -> InputMessage | None:
    if any(isinstance(block, MediaBlock) for block in blocks):
        message.wrong("content", f"{message.called('content')} of a system message must be text")
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return _said(message, Message(_id_of(message), "system", (TextBlock(text),)))


def _id_of(message: AgentApiFields) -> str:
    """The id that the client gave its message, so that it finds it again; else a new one."""
    given = message.value.get("id")
    return given if isinstance(given, str) and is_id(given) else new_message_id()


def _read_reasoning(message: AgentApiFields) -> InputMessage | None:
    text = "\n\n".join(block.text for block in read_content(message) if isinstance(block, TextBlock))
    return _said(message, Message(new_message_id(), "reasoning", (ReasoningBlock(text),))) if text else None


def _read_call(message: AgentApiFields) -> InputMessage | None:
    if (data := read_data(message)) is None:
        return None
    call_id, name = data.required("call_id", filled=True), data.required("name", filled=True)
    return _said(message, Message(new_message_id(), "assistant", (ToolCall(call_id, name, _json(data, "arguments")),)))


def _read_output(message: AgentApiFields) -> InputMessage | None:
    if (data := read_data(message)) is None:
        return None
    call_id, output = data.required("call_id", filled=True), _json(data, "output")
    if data.value.get("output") is None:
        data.missing("output", "a string")
    blocks = (TextBlock(output),) if output else ()
    result = ToolResult(call_id, blocks, is_error=bool(data.boolean("is_error")))
    return _said(message, Message(new_message_id(), "tool", (result,)))


def _json(data: AgentApiFields, name: str) -> str:
    """A member that is a text; anything else is written as JSON text, as clients' programs have it."""
    value: JsonValue = data.value.get(name)
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def _read_approval(message: AgentApiFields) -> InputMessage | None:
    if (data := read_data(message)) is None:
        return None
    request_id, approve = data.required("approval_request_id", filled=True), data.boolean("approve")
    if data.value.get("approve") is None:
        data.missing("approve", "true or false")
    return ApprovalAnswer(message.at, request_id, bool(approve), data.text("reason"))


def _read_question(message: AgentApiFields) -> InputMessage | None:
    """A question that is sent back is the call that it asks about."""
    data = read_data(message)
    return _read_call(message) if data is not None and data.value.get("call_id") else None


def _read_nothing(message: AgentApiFields) -> InputMessage | None:
    """Skip a message of the gateway that is no answer: a client sends it back, and a model does not get it."""
    read_content(message)
    return None


_TYPES: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "message": _read_message,
        "assistant": _read_message,
        "function_call": _read_call,
        "function_call_output": _read_output,
        "plugin_call": _read_call,
        "plugin_call_output": _read_output,
        "component_call": _read_call,
        "component_call_output": _read_output,
        "mcp_call": _read_call,
        "mcp_call_output": _read_output,
        "mcp_list_tools": _read_nothing,
        "mcp_approval_request": _read_question,
        "mcp_approval_response": _read_approval,
        "reasoning": _read_reasoning,
        "heartbeat": _read_nothing,
        "error": _read_nothing,
        "a2ui_response": _read_message,
        "a2ui_action": _read_message,
    }
)
