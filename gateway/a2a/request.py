"""Reads the parameters of SendMessage and SendStreamingMessage, of either version.

Below: parts, errors. Above: the starts of runs. Pure. Unknown members are ignored, as readers of protobuf's JSON do.
Beyond the specification:

- The message's metadata, or those of the whole request, may have `tools`: the client's own, as AG-UI writes them.
- A message to a task that waits answers by data parts: `{"tool_call_id", "output"}` is the output of a client's tool,
  `{"decision": "approve"}` or `"deny"` decides the call of its `tool_call_id`, or all calls if it has none. A message
  that says exactly `approve` or `deny`, as text or as data, decides, too. Case and the space around the word do not
  matter.
https://a2a-protocol.org/latest/specification/#321-sendmessagerequest (1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.a2a.dialects import Dialect
from gateway.a2a.errors import Parameters
from gateway.a2a.parts import ReadPart, read_parts
from gateway.messages import ContentBlock, JsonObject, TextBlock, ToolSpec
from gateway.wire import strict_json

_CALL: Final = "tool_call_id"
_DECISIONS: Final = {"approve": True, "deny": False}
_ROLES: Final = {"ROLE_USER": "user", "user": "user"}
_LONGEST_ID: Final = 256
_VALUE_CHARACTERS: Final = 10  # of a value with its name, in JSON


@dataclass(frozen=True, slots=True)
class CallOutput:
    """The output of a client's tool."""

    call_id: str
    content: tuple[ContentBlock, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a call may run. `call_id` is empty where the answer does not name it. `pointer` is its place."""

    call_id: str
    approved: bool
    reason: str | None = None
    arguments: JsonObject | None = None
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """What a client sends. `message` is the whole in the form of 1.0, as the task's history shows it; `blocks` are its
    content. `outputs` and `decisions` are those of a message that names a task; other parts are in `blocks`.

    `tools` is None if the client sends none. `metadata` has the whole request's `tools`, if the message has none of its
    own; `tools_of` reads them there. `history_length` is None for all. `push_config` is as it was sent, None: none;
    `push_pointer` is its place.
    """

    message: JsonObject
    message_id: str
    task_id: str = ""
    context_id: str = ""
    blocks: tuple[ContentBlock, ...] = ()
    outputs: tuple[CallOutput, ...] = ()
    decisions: tuple[Decision, ...] = ()
    tools: tuple[ToolSpec, ...] | None = None
    metadata: JsonObject | None = None
    history_length: int | None = None
    return_immediately: bool = False
    push_config: JsonObject | None = None
    push_pointer: str = ""

    @property
    def items(self) -> int:
        """How many things are in it, about: a value in a part's data or in metadata is one as a part is."""
        characters = sum(len(block.text) for block in self.blocks if isinstance(block, TextBlock))
        metadata = self.message.get("metadata")
        beside = len(metadata) if isinstance(metadata, dict) else 0
        answers = len(self.outputs) + len(self.decisions)
        return len(self.blocks) + answers + len(self.tools or ()) + characters // _VALUE_CHARACTERS + beside


def read_send_request(params: JsonObject, dialect: Dialect) -> SendRequest:
    """The parameters of SendMessage and SendStreamingMessage.

    Raises:
        InvalidRequestError: -32602, with all wrong fields.
    """
    fields = Parameters(params)
    message = fields.inner("message")
    if message is None and not fields.problems:
        fields.missing("message", "an object with messageId, role and parts")
    if message is None:
        fields.check()
    assert message is not None, "it is there, or refused"
    request = _request(fields, message, dialect)
    fields.check()
    return request


def _request(fields: Parameters, message: Parameters, dialect: Dialect) -> SendRequest:
    message_id = message.required("messageId", filled=True)
    if len(message_id) > _LONGEST_ID:
        message.wrong("messageId", f"{message.called('messageId')} must have at most {_LONGEST_ID} characters")
    task_id, context_id = _id(message, "taskId"), _id(message, "contextId")
    if message.value.get("role") is None:
        message.missing("role", "ROLE_USER")
    message.word("role", _ROLES)
    parts = read_parts(message)
    answers = _Answers(message)
    for place, part in enumerate(parts):
        answers.take(part, place, is_only=len(parts) == 1, is_answer=bool(task_id))
    configuration = fields.inner("configuration") or Parameters({})
    push_name = "taskPushNotificationConfig" if dialect is Dialect.V1 else "pushNotificationConfig"
    given = fields.object("metadata")
    configuration.strings("acceptedOutputModes")
    own_tools = _tools(message)
    tools = _tools(fields) if own_tools is None else own_tools
    metadata: JsonObject | None = None
    if own_tools is None and tools is not None and given is not None:
        metadata = {"tools": given["tools"]}
    return SendRequest(
        _canonical(message, message_id, task_id, context_id, parts),
        message_id,
        task_id,
        context_id,
        tuple(answers.blocks),
        tuple(answers.outputs),
        tuple(answers.decisions),
        tools,
        metadata,
        read_history_length(configuration, dialect),
        _returns_immediately(configuration, dialect),
        configuration.object(push_name),
        configuration.pointer(push_name),
    )


def read_history_length(fields: Parameters, dialect: Dialect) -> int | None:
    """How many messages of the history are wanted; None: all. 0.3 means all by 0, too. Problems are noted."""
    length = fields.number("historyLength")
    return None if length == 0 and dialect is Dialect.V03 else length


def _returns_immediately(configuration: Parameters, dialect: Dialect) -> bool:
    if dialect is Dialect.V1:
        return configuration.boolean("returnImmediately") is True
    return configuration.boolean("blocking") is False


def _id(message: Parameters, name: str) -> str:
    text = message.text(name) or ""
    if len(text) > _LONGEST_ID or not (text.isprintable() or not text):
        message.wrong(name, f"{message.called(name)} must have 1 to {_LONGEST_ID} printable characters")
        return ""
    return text


def _canonical(
    message: Parameters, message_id: str, task_id: str, context_id: str, parts: Sequence[ReadPart]
) -> JsonObject:
    written: JsonObject = {"messageId": message_id, "role": "ROLE_USER", "parts": [part.written for part in parts]}
    if task_id:
        written["taskId"] = task_id
    if context_id:
        written["contextId"] = context_id
    if (metadata := message.object("metadata")) is not None:
        written["metadata"] = metadata
    for name in ("extensions", "referenceTaskIds"):
        if texts := message.strings(name):
            written[name] = [*texts]
    return written


# --- answers ----------------------------------------------------------------------------------------------------------


class _Answers:
    """Parts a message's parts into answers and content."""

    def __init__(self, message: Parameters) -> None:
        self._message = message
        self.blocks: list[ContentBlock] = []
        self.outputs: list[CallOutput] = []
        self.decisions: list[Decision] = []

    def take(self, part: ReadPart, place: int, *, is_only: bool, is_answer: bool) -> None:
        pointer = f"{self._message.at}/parts/{place}"
        if is_answer and isinstance(part.data, dict):
            data = self._message.below(f"parts/{place}/data", part.data)
            if part.data.get("decision") in ("approve", "deny") or {"decision", _CALL} <= part.data.keys():
                self.decisions.append(_decision(data, pointer))
                return
            if {"output", _CALL} <= part.data.keys():
                self.outputs.append(_output(data))
                return
            if _CALL in part.data:  # half an answer: as words it would leave the call without output
                data.wrong("output", f"{data.called('output')} is missing; data with a {_CALL} has output or decision")
                return
        if is_answer and is_only and isinstance(part.block, TextBlock):
            word = (part.data if isinstance(part.data, str) else part.block.text).strip().lower()
            if word in _DECISIONS:
                self.decisions.append(Decision("", _DECISIONS[word], pointer=pointer))
                return
        self.blocks.append(part.block)


def _decision(data: Parameters, pointer: str) -> Decision:
    """A decision. Problems are noted: no call may run that was not meant."""
    if data.value.get("decision") is None:
        data.missing("decision", "approve or deny")
    named = data.required(_CALL, filled=True) if _CALL in data.value else ""
    approved = data.word("decision", _DECISIONS) is True
    return Decision(named, approved, data.text("reason"), data.object("arguments"), pointer)


def _output(data: Parameters) -> CallOutput:
    """The output of a call. Problems are noted."""
    output = data.value["output"]
    text = output if isinstance(output, str) else "" if output is None else strict_json.dump(output).decode()
    content = (TextBlock(text),) if text else ()
    return CallOutput(data.required(_CALL, filled=True), content, data.boolean("is_error") is True)


# --- tools ------------------------------------------------------------------------------------------------------------


def tools_of(kept: JsonObject) -> tuple[ToolSpec, ...] | None:
    """The client's own tools in a request with `message` and `metadata` that was read before."""
    message = kept.get("message")
    own = _tools(Parameters(message)) if isinstance(message, dict) else None
    return _tools(Parameters(kept)) if own is None else own


def _tools(fields: Parameters) -> tuple[ToolSpec, ...] | None:
    """The client's own tools in an object's metadata; None: the metadata have no `tools`. Of two tools with one name,
    the last counts.
    """
    metadata = fields.value.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("tools") is None:
        return None
    # the metadata are the client's own: only `tools` is read
    below = fields.below("metadata", {"tools": metadata["tools"]})
    specs = (_tool(tool) for tool in below.objects("tools"))
    return tuple({spec.name: spec for spec in specs}.values())


def _tool(tool: Parameters) -> ToolSpec:
    name: Any = tool.required("name", filled=True)
    if len(name) > _LONGEST_ID or not name.isprintable():
        tool.wrong("name", f"{tool.called('name')} must have 1 to {_LONGEST_ID} printable characters")
    return ToolSpec(
        name, tool.text("description") or "", tool.object("parameters") or {}, metadata=tool.object("metadata")
    )
