"""Reads AG-UI's RunAgentInput as the canonical AgentInput.

Below: the words. Above: the protocols that speak AG-UI. Source: https://docs.ag-ui.com/spec/1.0/basic/run-input and the
models of the PyPI package `ag-ui-protocol` 1.0.0; tests compare the two. It does without pydantic, since a client
sends its whole history with every request: a model per message takes ten times as long.

Members, roles and part types that AG-UI 1.0 does not have are left out with a warning; a known field of the wrong type
is refused. Beyond the models:

- `threadId` and `runId` are 1-256 characters without control characters, and so are tool names.
- null is the same as absent wherever a field may be absent.
- A member in snake_case (`thread_id`), as the Python SDK takes it and Microsoft's AGUIChatClient sends it, counts if
  the member in camelCase is missing. Problems name the member in camelCase.
- A message without an `id` gets one (`SentMessages.minted_ids`). A second message of the same id and role (and, of
  tools, the same call) replaces the first in its place, as AG-UI's own merge does. Any other gets an id of its own:
  some servers give a tool's result the id of its call's message.
- A user message with a `toolCallId` is that call's result. The `binary` parts of 0.0.x clients become media parts.
- `encryptedValue` is not read: what a provider encrypted is stored on the server, by message id.
- An `error` of a tool message becomes the last text of its result; `messages.ag_ui_messages` undoes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from gateway.ag_ui.answers import cancelled_answer, resolved_answer
from gateway.ag_ui.content import ContentReader
from gateway.ag_ui.peer import PROTOCOL_VERSION, PeerProfile, profile_of
from gateway.ag_ui.usual_messages import usual_call, usual_message
from gateway.agent import (
    ABSENT,
    Absent,
    AgentInput,
    ClientApplication,
    ContextEntry,
    InputNames,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentMessages,
)
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.history.cache import HistoryCache
from gateway.messages import (
    ContentBlock,
    JsonObject,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    json_kind,
    new_message_id,
)
from gateway.model_state import DEFAULT_CONVERSATION
from gateway.protocol.fields import MOST_ITEMS
from gateway.protocol.requests import not_strict
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

_NO_WORDS: Final = TextBlock("")

_INPUT = frozenset(
    {"threadId", "runId", "parentRunId", "protocolVersion"}
    | {"state", "messages", "tools", "context", "forwardedProps", "resume"}
)
_COMMON = frozenset({"id", "role", "content", "metadata", "subagentRunId", "encryptedValue"})
_KNOWN: dict[str, frozenset[str]] = {
    "system": _COMMON | {"name"},
    "developer": _COMMON | {"name"},
    "user": _COMMON | {"name", "toolCallId"},
    "assistant": _COMMON | {"name", "toolCalls"},
    "tool": _COMMON | {"toolCallId", "error"},
    "reasoning": _COMMON,
}
_TOOL_CALL = frozenset({"id", "type", "function", "encryptedValue", "metadata"})
_FUNCTION = frozenset({"name", "arguments"})
_TOOL = frozenset({"name", "description", "parameters", "metadata"})
_CONTEXT = frozenset({"description", "value"})
_RESUME = frozenset({"interruptId", "status", "payload", "metadata"})
_NAMES = InputNames(run_id="runId", parent_run_id="parentRunId", forwarded="forwardedProps", answers="resume")
_UNFORCED = InputTerms()


def parse_run_input(body: bytes) -> tuple[AgentInput, PeerProfile]:
    """The client's input, and the dialect of AG-UI that it understands.

    Raises:
        InvalidRequestError: 400 `invalid_json` for what is not strict JSON; 422 `invalid_request` with all fields that
            are wrong (at most 50 of them); 422 `unsupported_protocol_version` for another major version.
    """
    try:
        return InputReader().read(expect_object(strict_json.load(body)))
    except strict_json.NotStrictJsonError as error:
        raise not_strict(error) from None


def expect_object(data: Any) -> dict[str, Any]:
    """The body for an `InputReader`. Raises InvalidRequestError (422) if it is no object."""
    if type(data) is not dict:
        raise InvalidRequestError(
            "the body is not a RunAgentInput", problems=[FieldProblem("", f"expected an object, got {json_kind(data)}")]
        )
    return data


def items_of(messages: Any) -> int:
    """How many messages these are, with the items of their arrays."""
    if type(messages) is not list:
        return 0
    arrays = [value for each in messages if type(each) is dict for value in each.values() if type(value) is list]
    return len(messages) + sum(map(len, arrays))


class InputReader(ContentReader):
    """Reads one input.

    `before` are the first messages, which are known already, and `ids` their ids: `data["messages"]` continues after
    item number `place`, the items of their arrays are `counted`. If one of these ids comes again (`repeats`), the
    result is wrong: read the whole input. `request_id` is InputOrigin's, and `origin` its protocol. `watches`: nothing
    is sent, so a history that is too long to be read is left out.
    """

    def __init__(
        self,
        before: tuple[Message, ...] = (),
        ids: Container[str] = frozenset(),
        place: int = 0,
        *,
        counted: int = 0,
        watches: bool = False,
        media_before: bool = False,
        request_id: str = "",
        origin: str = "",
    ) -> None:
        super().__init__()
        self._before = before
        self._known_ids = ids
        self._place = place
        self.counted = counted
        self._watches = watches
        self._media_before = media_before
        self._request_id = request_id
        self._origin = origin
        self.repeats = False
        self.messages_are_plain = True  # nothing in them was wrong or left out: reading them again gives the same
        self.minted: set[str] = set()

    def read(self, data: dict[str, Any], history_cache: HistoryCache | None = None) -> tuple[AgentInput, PeerProfile]:
        data = self.known_members(data, _INPUT, "input")
        profile = self.profile(self.text(data, "protocolVersion", "", optional=True))
        state = data.get("state")
        forwarded = data.get("forwardedProps")
        tools = self.tools(data)
        thread_id, run_id = self.identifier(data, "threadId"), self.identifier(data, "runId")
        messages, context = self.messages(data), self.context(data)
        answers = self.answers(data)
        parent_run_id = self.text(data, "parentRunId", "", optional=True)
        forced = self.forced_tool(forwarded, tools)
        parsed = AgentInput(
            run_id,
            InputThread(thread_id, self.conversation_id(forwarded)),
            SentMessages(messages, None, frozenset(self.minted), self.seen(forwarded), history_cache=history_cache),
            answers,
            ClientApplication(tools, context, ABSENT if state is None else state, forwarded),
            _UNFORCED if forced is None else InputTerms(forced_tool=forced),
            InputOrigin(self._origin, None, self._request_id, _NAMES),
            parent_run_id,
        )
        if self.repeats:
            return parsed, profile
        self.finish()
        if profile is PeerProfile.LEGACY and (self.media_seen or self._media_before):
            profile = PeerProfile.LEGACY_MEDIA
        return parsed, profile

    def conversation_id(self, forwarded: object) -> str:
        """The conversation of a stateful model. AG-UI has no field for it, so the application's properties have it."""
        if type(forwarded) is not dict or "conversation_id" not in forwarded:
            return DEFAULT_CONVERSATION
        value = forwarded["conversation_id"]
        if type(value) is str and 0 < len(value) <= 256 and value.isprintable():
            return value
        self.wrong("/forwardedProps/conversation_id", "expected a text of 1 to 256 printable characters")
        return DEFAULT_CONVERSATION

    def seen(self, forwarded: object) -> str | Absent | None:
        """The last message that the client knows. AG-UI has no field for it, so it is under `agui_gateway`."""
        options = forwarded.get("agui_gateway") if type(forwarded) is dict else None
        if type(options) is not dict or "seen" not in options:
            return ABSENT
        value: object = options["seen"]
        if value is None or type(value) is str:
            return value
        self.wrong("/forwardedProps/agui_gateway/seen", f"expected a message's id or null, got {json_kind(value)}")
        return ABSENT

    def forced_tool(self, forwarded: object, tools: Sequence[ToolSpec]) -> str | None:
        """The client's tool that has to be called, as CopilotKit asks for suggestions.

        `{"toolChoice": {"type": "function", "function": {"name": ...}}}`; any other value is the application's own.
        """
        if type(forwarded) is not dict or "toolChoice" not in forwarded:
            return None
        choice = forwarded["toolChoice"]
        function = choice.get("function") if type(choice) is dict else None
        name = function.get("name") if type(function) is dict else None
        if type(name) is not str:
            return None
        if all(name != spec.name for spec in tools):
            self.leave_out(f"toolChoice {name[:64]!r}, which is none of the client's tools")
            return None
        return name

    # The members of the input.

    def profile(self, declared: str | None) -> PeerProfile:
        try:
            profile = profile_of(declared)
        except ValueError as error:
            raise InvalidRequestError(
                str(error),
                code="unsupported_protocol_version",
                problems=[FieldProblem("/protocolVersion", f"expected {PROTOCOL_VERSION} or another 1.x")],
            ) from None
        if profile.is_full and declared != PROTOCOL_VERSION:
            logger.warning(
                "an AG-UI client is newer than this server, or says something else",
                extra={"protocol_version": (declared or "")[:32], "served_as": PROTOCOL_VERSION},
            )
        return profile

    def tools(self, data: dict[str, Any]) -> tuple[ToolSpec, ...]:
        tools: dict[str, ToolSpec] = {}
        for at, item in self.objects(data, "tools"):
            item = self.known_members(item, _TOOL, "a tool")
            name = self.identifier(item, "name", at)
            schema = item.get("parameters")
            if schema is not None and type(schema) is not dict:
                self.leave_out("a tool's parameters that are no object")
            if name in tools:
                self.leave_out("a tool that is declared again")
            tools[name] = ToolSpec(
                name,
                self.text(item, "description", at),
                schema if type(schema) is dict else {},
                self.metadata(item, at),
            )
        return tuple(tools.values())

    def context(self, data: dict[str, Any]) -> tuple[ContextEntry, ...]:
        entries = []
        for at, item in self.objects(data, "context"):
            item = self.known_members(item, _CONTEXT, "a context entry")
            entries.append(ContextEntry(self.text(item, "description", at), self.text(item, "value", at)))
        return tuple(entries)

    def answers(self, data: dict[str, Any]) -> tuple[InterruptAnswer, ...]:
        answers: dict[str, InterruptAnswer] = {}
        for at, item in self.objects(data, "resume"):
            item = self.known_members(item, _RESUME, "a resume entry")
            self.metadata(item, at)
            interrupt_id = self.text(item, "interruptId", at)
            status = item.get("status")
            if status != "resolved" and status != "cancelled":
                self.wrong(f"{at}/status", 'expected "resolved" or "cancelled"')
                continue
            if type(item.get("interruptId")) is not str:
                continue
            if status == "resolved":
                answer = resolved_answer(interrupt_id, item.get("payload"), at)
            else:
                answer = cancelled_answer(interrupt_id)
            if answers.setdefault(interrupt_id, answer) != answer:
                self.wrong(f"{at}/interruptId", "the same interrupt has two answers")
        return tuple(answers.values())

    # Messages.

    def messages(self, data: dict[str, Any]) -> tuple[Message, ...]:
        messages: list[Message] = []
        places: dict[str, int] = {}
        oddities = self.oddities
        if self._watches and self.counted + items_of(data.get("messages")) > MOST_ITEMS:
            self.messages_are_plain = False
            return ()
        for i, item in enumerate(self.items(data, "messages", required=True), self._place):
            message = (usual_message(item) if type(item) is dict else None) or self.unusual_message(item, i)
            if message is None:
                continue
            place = places.setdefault(message.id, len(messages))
            if place == len(messages):
                messages.append(message)
            else:
                self.add_duplicate(messages, places, place, message)
        if self._before:
            self.repeats = any(message_id in self._known_ids for message_id in places)
        self.messages_are_plain = not self.minted and self.oddities == oddities
        return self._before + tuple(messages)

    def unusual_message(self, item: Any, i: int) -> Message | None:
        """The message; None if it is not for a server, or wrong."""
        if type(item) is not dict:
            self.wrong(f"/messages/{i}", f"expected an object, got {json_kind(item)}")
            return None
        role = item.get("role")
        if type(role) is not str:
            self.text(item, "role", f"/messages/{i}")
        elif (read := _READ_BY_ROLE.get(role)) is not None:
            return read(self, item, i)
        elif role != "activity":  # known, and not for a server
            self.leave_out(f"message of role {role[:64]!r}")
        return None

    def add_duplicate(self, messages: list[Message], places: dict[str, int], place: int, message: Message) -> None:
        before, result = messages[place], message.tool_result
        known = before.tool_result
        if before.role == message.role and (result is None or known is None or result.call_id == known.call_id):
            self.leave_out("message of which a later one has the id")
            messages[place] = message
            return
        fresh = self.mint()
        places[fresh] = len(messages)
        messages.append(Message(fresh, message.role, message.content, message.name, metadata=message.metadata))

    def mint(self) -> str:
        fresh = new_message_id()
        self.minted.add(fresh)
        return fresh

    def message_id(self, item: dict[str, Any], i: int) -> str:
        value = item.get("id")
        if type(value) is str and value:
            return value
        if value is not None and value != "":
            self.wrong(f"/messages/{i}/id", f"expected a string, got {json_kind(value)}")
        return self.mint()

    def message_members(self, item: dict[str, Any], role: Role) -> dict[str, Any]:
        return self.known_members(item, _KNOWN[role], f"a message of role {role}")

    def extras(self, item: dict[str, Any], i: int) -> JsonObject | None:
        """Checks the members that all roles share, and gives the metadata."""
        at = f"/messages/{i}"
        for name in ("subagentRunId", "encryptedValue"):
            self.text(item, name, at, optional=True)
        return self.metadata(item, at)

    def plain(self, item: dict[str, Any], i: int) -> Message:
        """A system, developer or user message, or reasoning."""
        role: Role = item["role"]
        message_id = self.message_id(item, i)
        content = item.get("content")
        name = metadata = None
        if len(item) > 3 or "id" not in item:
            if role == "user" and item.get("toolCallId", item.get("tool_call_id")) is not None:
                return self.result(item, i)
            item = self.message_members(item, role)
            metadata = self.extras(item, i)
            if role != "reasoning":
                name = self.text(item, "name", f"/messages/{i}", optional=True)
        blocks: tuple[ContentBlock, ...] = ()
        if type(content) is str:
            if role == "reasoning":
                blocks = (ReasoningBlock(content),)
            elif content or role != "user":
                blocks = (TextBlock(content),)
        elif role == "user":
            blocks = self.parts(item, f"/messages/{i}")
        else:
            self.text(item, "content", f"/messages/{i}")
        return Message(message_id, role, blocks, name, None, False, metadata)

    def assistant(self, item: dict[str, Any], i: int) -> Message:
        message_id = self.message_id(item, i)
        content = item.get("content")
        name = metadata = None
        if len(item) - ("content" in item) - ("toolCalls" in item) > 2 or "id" not in item:
            item = self.message_members(item, "assistant")
            metadata = self.extras(item, i)
            name = self.text(item, "name", f"/messages/{i}", optional=True)
        blocks: list[ContentBlock] = []
        if content is not None:
            if type(content) is not str:
                self.text(item, "content", f"/messages/{i}")
            elif content:
                blocks.append(TextBlock(content))
        if "toolCalls" in item:
            blocks += self.tool_calls(item, f"/messages/{i}")
        return Message(message_id, "assistant", tuple(blocks), name, None, False, metadata)

    def tool_calls(self, item: dict[str, Any], at: str) -> list[ToolCall]:
        sent = item["toolCalls"]
        is_read = type(sent) is list and len(sent) <= MOST_ITEMS
        usual = [usual_call(call) for call in sent] if is_read else [None]
        if None not in usual:
            self.counted += len(sent)
            if self.counted > MOST_ITEMS:
                raise self.too_many(f"{at}/toolCalls")
            return [call for call in usual if call is not None]
        return [self.tool_call(call, at) for at, call in self.objects(item, "toolCalls", at)]

    def tool_call(self, item: dict[str, Any], at: str) -> ToolCall:
        item = self.known_members(item, _TOOL_CALL, "a tool call")
        if item.get("type", "function") not in ("function", None):
            self.wrong(f"{at}/type", 'expected "function"')
        self.text(item, "encryptedValue", at, optional=True)
        self.metadata(item, at)
        call_id = self.text(item, "id", at)
        function = item.get("function")
        if type(function) is not dict:
            self.wrong(f"{at}/function", f"expected an object, got {json_kind(function)}" if function else "required")
            return ToolCall(call_id, "", "")
        function = self.known_members(function, _FUNCTION, "a tool call's function")
        at = f"{at}/function"
        return ToolCall(call_id, self.text(function, "name", at), self.text(function, "arguments", at))

    def result(self, item: dict[str, Any], i: int) -> Message:
        """A tool message, or a user message that answers a call."""
        message_id = self.message_id(item, i)
        at = f"/messages/{i}"
        is_plain = len(item) == 4 and "id" in item and "toolCallId" in item
        if not is_plain:
            item = self.message_members(item, item["role"])
        call_id = self.text(item, "toolCallId", at)
        content = item.get("content")
        blocks: tuple[ContentBlock, ...]
        if type(content) is str:
            blocks = (TextBlock(content),) if content else ()
        else:
            blocks = self.parts(item, at)
        metadata = error = None
        if not is_plain:
            metadata = self.extras(item, i)
            error = self.text(item, "error", at, optional=True) if item["role"] == "tool" else None
            if error:
                said = tuple(block for block in blocks if block != _NO_WORDS)
                blocks = said if content == error else (*said, TextBlock(error))
        result = ToolResult(call_id, blocks, bool(error))
        return Message(message_id, "tool", (result,), None, None, False, metadata)


_READ_BY_ROLE: dict[str, Callable[[InputReader, dict[str, Any], int], Message]] = {
    "system": InputReader.plain,
    "developer": InputReader.plain,
    "user": InputReader.plain,
    "reasoning": InputReader.plain,
    "assistant": InputReader.assistant,
    "tool": InputReader.result,
}
