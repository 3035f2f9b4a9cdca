"""Reads the body of `POST /v1/chat/completions`. Pure.

Below: content, tools, generation. Above: chat_start. Members that are not read are ignored, and null is the same as
absent: clients send much that only OpenAI's own service has.
https://platform.openai.com/docs/api-reference/chat/create (November 2026)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.messages import (
    INSTRUCTION_ROLES,
    ContentBlock,
    JsonObject,
    JsonValue,
    Message,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    json_kind,
    new_message_id,
)
from gateway.openai_api.content import read_content
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.generation import read_generation
from gateway.openai_api.metadata import read_metadata
from gateway.openai_api.tools import read_tool_choice, read_tools
from gateway.options.run_options import RunOptions
from gateway.protocol.fields import shown_word
from gateway.wire.strict_json import begins_with

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True)
class ReadItems:
    """A body's messages after its leading instructions, and the objects that were read of them. Each call has its
    result. `counted`: how many items the arrays in them have (Fields.counted).
    """

    items: Sequence[JsonValue]
    messages: tuple[Message, ...]
    call_ids: tuple[str, ...]
    counted: int = 0


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A body as it was read. `model` is the agent's id; `call_ids` are those of all calls in its messages. `read` is
    for the next body, which may begin with the same messages. `left_out` as in ReadTools.

    The messages are the conversation without the leading instructions, which are among the options. Their ids were made
    here.
    """

    model: str
    messages: tuple[Message, ...]
    call_ids: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    options: RunOptions
    stream: bool
    include_usage: bool
    store: bool | None
    metadata: JsonObject | None
    read: ReadItems | None
    left_out: tuple[str, ...] = ()


def read_chat_request(
    value: JsonObject, known: ReadItems | None = None, *, refuses_others: bool = False
) -> ChatRequest:
    """Read the body. Items that are `known` are not read again; that changes nothing but the messages' ids.
    `refuses_others` as for `read_tools`.

    Raises:
        InvalidRequestError: 400, with all of its problems.
    """
    body = OpenAIFields(value)
    model = body.required("model", filled=True)
    conversation = _Conversation(body, known)
    given = read_tools(body, refuses_others=refuses_others)
    tools, choice = read_tool_choice(body, given)
    options = read_generation(body)
    stream_options = body.inner("stream_options")
    request = ChatRequest(
        model,
        tuple(conversation.messages),
        tuple(conversation.call_ids),
        tools,
        RunOptions(options, choice, conversation.instructions),
        body.boolean("stream") or False,
        (stream_options is not None and stream_options.boolean("include_usage")) or False,
        body.boolean("store"),
        read_metadata(body),
        conversation.read,
        given.left_out,
    )
    _refuse_unsupported(body)
    body.check()
    return request


def _refuse_unsupported(body: OpenAIFields) -> None:
    """Note members that would change the answer's form in a way that the gateway does not have."""
    if (body.number("n", least=1) or 1) != 1:
        body.wrong("n", "n must be 1: an agent gives one answer; send the request again for another")
    if body.boolean("logprobs") or body.number("top_logprobs"):
        name = "logprobs" if body.value.get("logprobs") else "top_logprobs"
        body.wrong(name, f"{name} cannot be given: an agent's answer has no probabilities; leave it out")
    if body.value.get("audio") is not None:
        body.wrong("audio", "audio cannot be given: answers are text; leave it out")
    if any(kind != "text" for kind in body.strings("modalities") or ()):
        body.wrong("modalities", "modalities must be ['text']: answers are text")
    for name, right in (("functions", "tools"), ("function_call", "tool_choice")):
        if body.value.get(name) is not None:
            body.wrong(name, f"{name} is not used any more; send {right}")


class _Conversation:
    """The messages of a body. `instructions` are those that stand before all others."""

    def __init__(self, body: OpenAIFields, known: ReadItems | None = None) -> None:
        self._body = body
        self.read: ReadItems | None = None
        self.messages: list[Message] = []
        self.call_ids: list[str] = []
        self.instructions = ""
        self._unanswered: dict[str, str] = {}  # the calls that need a result next, with the pointer of each
        given = body.value.get("messages")
        if not isinstance(given, list) or not given:
            said = "is empty" if given == [] else "is missing" if given is None else f"is {json_kind(given)}"
            body.wrong("messages", f"messages {said}; it must be an array of at least one message")
            return
        if not body.admits("messages", len(given)):
            return
        first = next((place for place, item in enumerate(given) if not _is_instruction(item)), len(given))
        leading = self._read(given[:first])
        start, counted = first, body.counted
        if known is not None and begins_with(given[first:], known.items):
            self.messages += known.messages
            self.call_ids += known.call_ids
            start += len(known.items)
            body.count(known.counted)
        leading += self._read(given[start:], start, is_leading=start == first)
        self._refuse_unanswered()
        if not self.messages and not body.problems:
            body.wrong("messages", "messages say nothing; send what is to be answered")
        if leading < len(self.messages):  # without any other message they are the conversation
            self.instructions = "\n\n".join(message.text for message in self.messages[:leading] if message.text)
            del self.messages[:leading]
            if leading == first:
                read = body.counted - counted
                self.read = ReadItems(given[first:], tuple(self.messages), tuple(self.call_ids), read)

    def _read(self, given: Sequence[JsonValue], start: int = 0, *, is_leading: bool = True) -> int:
        """Read the messages from a place on; how many of them are leading instructions."""
        leading = 0
        for place, item in enumerate(given, start):
            message = _usual(item) or self._unusual(item, place)
            if message is None:
                if self._body.is_full:
                    break
                continue
            if message.role != "tool" and self._unanswered:
                self._refuse_unanswered()
            is_leading = is_leading and message.role in INSTRUCTION_ROLES
            leading += is_leading
            self.messages.append(message)
            if message.role == "assistant" and (calls := message.tool_calls):
                self.call_ids += (call.call_id for call in calls)
                at = f"/messages/{place}/tool_calls"
                self._unanswered = {call.call_id: f"{at}/{number}/id" for number, call in enumerate(calls)}
        return leading

    def _unusual(self, item: JsonValue, place: int) -> Message | None:
        """The message; None if it says nothing, or is wrong, which is noted."""
        if not isinstance(item, dict):
            self._body.wrong_at(f"messages/{place}", f"messages[{place}] must be an object, not {json_kind(item)}")
            return None
        fields = self._body.below(f"messages/{place}", item)
        said = item.get("role")
        role = _ROLES.get(said) if isinstance(said, str) else None
        if role is None:
            _refuse_role(fields, said)
            return None
        if role == "assistant":
            content = _assistant(fields)
        elif role == "tool":
            content = self._result(fields)
        elif role == "user":
            content = read_content(fields, "content")
            if item.get("content") is None:
                fields.missing("content", "a string or an array of parts")
        else:
            content = (TextBlock(_one_text(fields)),)
        if not content and role != "user":
            return None
        return Message(new_message_id(), role, content, fields.text("name") if role == "user" else None)

    def _result(self, fields: OpenAIFields) -> tuple[ContentBlock, ...]:
        call_id = fields.required("tool_call_id", filled=True)
        content = read_content(fields, "content")
        if call_id and self._unanswered.pop(call_id, None) is None:
            fields.wrong(
                "tool_call_id",
                f"{fields.called('tool_call_id')} is {call_id[:128]!r}, which is no call of the assistant's message "
                "before it that still needs a result; send that message with its tool_calls, too",
            )
        return (ToolResult(call_id, content),)

    def _refuse_unanswered(self) -> None:
        for call_id, pointer in self._unanswered.items():
            self._body.wrong_at(
                pointer[1:],
                f"no tool output was found for the call {call_id[:128]!r}; send a message of role 'tool' with this "
                "tool_call_id right behind the assistant's message",
            )
        self._unanswered = {}


def _is_instruction(item: JsonValue) -> bool:
    return isinstance(item, dict) and item.get("role") in INSTRUCTION_ROLES


def _usual(item: JsonValue) -> Message | None:
    """The message, if it is a user's or an assistant's text and nothing else; most are."""
    if type(item) is dict and len(item) == 2:
        role, content = item.get("role"), item.get("content")
        if type(content) is str and content:
            if role == "user":
                return Message(new_message_id(), "user", (TextBlock(content),))
            if role == "assistant":
                return Message(new_message_id(), "assistant", (TextBlock(content),))
    return None


def _refuse_role(fields: OpenAIFields, said: JsonValue) -> None:
    if said == "function":
        fields.wrong(
            "role", f"{fields.called('role')} is 'function', which is not used any more; send 'tool' and a tool_call_id"
        )
        return
    fields.wrong("role", f"{fields.called('role')} is {shown_word(said)}; it must be one of {', '.join(_ROLES)}")


def _one_text(fields: OpenAIFields) -> str:
    """The words of a message that has nothing else."""
    if fields.value.get("content") is None:
        fields.missing("content", "a string")
    blocks = read_content(fields, "content", media=False)
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _assistant(fields: OpenAIFields) -> tuple[ContentBlock, ...]:
    """An assistant's words and calls. Its reasoning is not read: the thread has it, where it is the agent's."""
    blocks = read_content(fields, "content", media=False)
    said = [block for block in blocks if isinstance(block, TextBlock)]
    words = "\n".join(block.text for block in said)
    refusal = fields.text("refusal") if not words else None
    text = TextBlock(refusal or words, refusal=bool(refusal) or any(block.refusal for block in said))
    if fields.value.get("function_call") is not None:
        fields.wrong("function_call", f"{fields.called('function_call')} is not used any more; send tool_calls")
    calls = (_call(call) for call in fields.objects("tool_calls"))
    return (*((text,) if text.text else ()), *(call for call in calls if call is not None))


def _call(call: OpenAIFields) -> ToolCall | None:
    call_id, kind = call.required("id", filled=True), call.value.get("type")
    if kind not in (None, "function"):
        call.wrong("type", f"{call.called('type')} is {shown_word(kind)}; it must be 'function'")
        return None
    function = call.inner("function")
    if function is None:
        if call.value.get("function") is None:
            call.missing("function", "an object with a name and arguments")
        return None
    name, arguments = function.required("name", filled=True), function.text("arguments") or ""
    return ToolCall(call_id, name, arguments) if call_id and name else None
