"""AG-UI's RunAgentInput as the canonical AgentInput: what a client may send, read by hand.

Below: the words. Above: the protocols that speak AG-UI. Source: https://docs.ag-ui.com/spec/1.0/basic/run-input and the
models of the PyPI package `ag-ui-protocol` 1.0.0; tests hold the two side by side. Written out because a client sends
its whole history with every request: a pydantic model per message costs ten times as much.

What a specification older or newer than 1.0 knows and this one does not (members, roles, part types) is left out with a
warning; a known field of the wrong type is refused. On top of the models:

- `threadId` and `runId` are 1-256 characters without control characters, and so are tool names.
- null is the same as absent wherever a field may be absent.
- A message without an `id` gets one (`AgentInput.minted_ids`). A second message of the same id and role (and, of tools,
  the same call) replaces the first where that stands, as AG-UI's own merge does; one that is something else gets an id
  of its own: some servers give a tool's result the id of its call's message.
- A user message with a `toolCallId` is that call's result. The `binary` parts of 0.0.x clients become media parts.
- `encryptedValue` is not read: what a provider sealed is kept on the server, by message id.
- An `error` of a tool message becomes the last text of its result; `messages.ag_ui_messages` undoes it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container
from typing import Any, Final

from gateway.ag_ui.usual_messages import usual_call, usual_message
from gateway.agent import ABSENT, AgentInput, Answer, ContextEntry
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.known_thread import KnownThread
from gateway.messages import (
    Base64Source,
    ContentBlock,
    FileSource,
    JsonObject,
    MediaBlock,
    MediaSource,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
    block_of_media,
    new_id,
)
from gateway.model_state import DEFAULT_CONVERSATION
from gateway.wire import strict_json
from gateway.wire.ag_ui_peer import PROTOCOL_VERSION, PeerProfile, profile_of

logger = logging.getLogger(__name__)

MEDIA_KINDS: Final = ("image", "audio", "video", "document")
_MAX_PROBLEMS: Final = 50
_NO_WORDS: Final = TextBlock("")
_WRONG_ID: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")

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
_TEXT_PART = frozenset({"type", "id", "text", "metadata"})
_MEDIA_PART = frozenset({"type", "id", "source", "metadata"})
_BINARY_PART = frozenset({"type", "mimeType", "id", "url", "data", "filename"})
_SOURCE = frozenset({"type", "value", "mimeType", "provider"})


def parse_run_input(body: bytes) -> tuple[AgentInput, PeerProfile]:
    """What the client asks for, and which dialect of AG-UI it takes for an answer.

    Raises:
        InvalidRequestError: 400 `invalid_json` for what is not strict JSON; 422 `invalid_request` with all fields that
            are wrong (at most 50 of them); 422 `unsupported_protocol_version` for another major version.
    """
    return InputReader().read(load_run_input(body))


def load_run_input(body: bytes) -> dict[str, Any]:
    """The body as JSON, for an `InputReader`.

    Raises:
        InvalidRequestError: 400 `invalid_json`; 422 for what is no object.
    """
    try:
        data: Any = strict_json.load(body)
    except strict_json.NotStrictJsonError as error:
        raise InvalidRequestError(
            f"the body is not strict JSON: {error}",
            code="invalid_json",
            status=400,
            problems=[FieldProblem(pointer, "half a surrogate pair is not text") for pointer in error.pointers],
        ) from None
    if type(data) is not dict:
        raise InvalidRequestError(
            "the body is not a RunAgentInput", problems=[FieldProblem("", f"expected an object, got {_kind(data)}")]
        )
    return data


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


# --- the input ---------------------------------------------------------------------------------------------------


class InputReader:
    """Reads one input; collects what is wrong with it and what was left out of it.

    `before` are messages that are known to be the first ones, `ids` theirs: `data["messages"]` goes on behind item
    number `place`. A reader that finds one of these ids again (`repeats`) has read something else than the input.
    """

    def __init__(
        self,
        before: tuple[Message, ...] = (),
        ids: Container[str] = frozenset(),
        place: int = 0,
        *,
        media_before: bool = False,
    ) -> None:
        self._before = before
        self._known_ids = ids
        self._place = place
        self._media_before = media_before
        self.repeats = False
        self.messages_are_plain = True  # nothing in them was odd: they will be read the same again
        self.problems: list[FieldProblem] = []
        self.problem_count = 0
        self.left_out: dict[str, int] = {}
        self._oddities = 0
        self.minted: set[str] = set()
        self.media_seen = False

    def read(self, data: dict[str, Any], known: KnownThread | None = None) -> tuple[AgentInput, PeerProfile]:
        self.expect_known(data, _INPUT, "input")
        profile = self.profile(self.text(data, "protocolVersion", "", optional=True))
        state = data.get("state")
        parsed = AgentInput(
            thread_id=self.identifier(data, "threadId"),
            run_id=self.identifier(data, "runId"),
            messages=self.messages(data),
            tools=self.tools(data),
            context=self.context(data),
            state=ABSENT if state is None else state,
            forwarded=data.get("forwardedProps"),
            answers=self.answers(data),
            parent_run_id=self.text(data, "parentRunId", "", optional=True),
            minted_ids=frozenset(self.minted),
            conversation_id=self.conversation_id(data.get("forwardedProps")),
            known=known,
        )
        if self.repeats:
            return parsed, profile
        self.finish()
        if profile is PeerProfile.LEGACY and (self.media_seen or self._media_before):
            profile = PeerProfile.LEGACY_MEDIA
        return parsed, profile

    def conversation_id(self, forwarded: object) -> str:
        """Which conversation of a stateful model it is: the protocol has no field for it, so it is an application's."""
        if type(forwarded) is not dict or "conversation_id" not in forwarded:
            return DEFAULT_CONVERSATION
        value = forwarded["conversation_id"]
        if type(value) is str and 0 < len(value) <= 256 and value.isprintable():
            return value
        self.wrong("/forwardedProps/conversation_id", "expected a text of 1 to 256 printable characters")
        return DEFAULT_CONVERSATION

    def finish(self) -> None:
        if self.left_out:
            logger.warning("left out of an AG-UI input what is not known", extra={"left_out": dict(self.left_out)})
        if not self.problems:
            return
        first = self.problems[0]
        count = self.problem_count
        more = f" and {count - 1} more" if count > 1 else ""
        raise InvalidRequestError(f"wrong fields: {first.pointer} ({first.detail}){more}", problems=self.problems)

    # What every part of the input is read with.

    def wrong(self, pointer: str, detail: str) -> None:
        self.problem_count += 1
        self._oddities += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(FieldProblem(pointer, detail))

    def leave_out(self, what: str) -> None:
        self._oddities += 1
        if what in self.left_out or len(self.left_out) < 20:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def expect_known(self, item: dict[str, Any], known: frozenset[str], what: str) -> None:
        if not item.keys() <= known:
            for name in item.keys() - known:
                self.leave_out(f"member {name[:64]!r} of {what}")

    def text(self, item: dict[str, Any], name: str, at: str, *, optional: bool = False) -> Any:
        """The string member `name`; None where it may be and is absent, and "" where it is wrong."""
        value = item.get(name)
        if type(value) is str:
            return value
        if value is None and optional:
            return None
        self.wrong(f"{at}/{name}", "required" if name not in item else f"expected a string, got {_kind(value)}")
        return ""

    def identifier(self, item: dict[str, Any], name: str, at: str = "") -> str:
        value: str = self.text(item, name, at)
        if type(item.get(name)) is str and (not 0 < len(value) <= 256 or _WRONG_ID.search(value)):
            self.wrong(f"{at}/{name}", "expected 1 to 256 characters without control characters")
        return value

    def metadata(self, item: dict[str, Any], at: str) -> JsonObject | None:
        value = item.get("metadata")
        if value is not None and type(value) is not dict:
            self.wrong(f"{at}/metadata", f"expected an object, got {_kind(value)}")
            return None
        return value

    def items(self, data: dict[str, Any], name: str, at: str = "", *, required: bool = False) -> list[Any]:
        value = data.get(name)
        if type(value) is list:
            return value
        if value is not None or required:
            got = f"expected an array, got {_kind(value)}" if name in data else "required"
            self.wrong(f"{at}/{name}", got)
        return []

    def objects(self, data: dict[str, Any], name: str, at: str = "") -> list[tuple[str, dict[str, Any]]]:
        """The objects in the array member `name`, each with its pointer."""
        found = []
        for i, item in enumerate(self.items(data, name, at)):
            if type(item) is dict:
                found.append((f"{at}/{name}/{i}", item))
            else:
                self.wrong(f"{at}/{name}/{i}", f"expected an object, got {_kind(item)}")
        return found

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
            self.expect_known(item, _TOOL, "a tool")
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
            self.expect_known(item, _CONTEXT, "a context entry")
            entries.append(ContextEntry(self.text(item, "description", at), self.text(item, "value", at)))
        return tuple(entries)

    def answers(self, data: dict[str, Any]) -> tuple[Answer, ...]:
        answers: dict[str, Answer] = {}
        for at, item in self.objects(data, "resume"):
            self.expect_known(item, _RESUME, "a resume entry")
            self.metadata(item, at)
            interrupt_id = self.text(item, "interruptId", at)
            status = item.get("status")
            if status != "resolved" and status != "cancelled":
                self.wrong(f"{at}/status", 'expected "resolved" or "cancelled"')
                continue
            if type(item.get("interruptId")) is not str:
                continue
            answer = Answer(interrupt_id, status, item.get("payload") if status == "resolved" else None)
            if answers.setdefault(interrupt_id, answer) != answer:
                self.wrong(f"{at}/interruptId", "the same interrupt has two answers")
        return tuple(answers.values())

    # Messages.

    def messages(self, data: dict[str, Any]) -> tuple[Message, ...]:
        messages: list[Message] = []
        places: dict[str, int] = {}
        oddities = self._oddities
        for i, item in enumerate(self.items(data, "messages", required=True), self._place):
            if type(item) is not dict:
                self.wrong(f"/messages/{i}", f"expected an object, got {_kind(item)}")
                continue
            role = item.get("role")
            read = _READ_BY_ROLE.get(role) if type(role) is str else None
            if read is None:
                self.skip_role(role, i)
                continue
            message = usual_message(role, item) or read(self, item, i)
            place = places.setdefault(message.id, len(messages))
            if place == len(messages):
                messages.append(message)
            else:
                self.add_duplicate(messages, places, place, message)
        if self._before:
            self.repeats = any(message_id in self._known_ids for message_id in places)
        self.messages_are_plain = not self.minted and self._oddities == oddities
        return self._before + tuple(messages)

    def skip_role(self, role: object, i: int) -> None:
        if not isinstance(role, str):
            self.wrong(f"/messages/{i}/role", f"expected a string, got {_kind(role)}")
        elif role != "activity":  # known, and not for a server
            self.leave_out(f"message of role {role[:64]!r}")

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
        fresh = new_id("msg")
        self.minted.add(fresh)
        return fresh

    def message_id(self, item: dict[str, Any], i: int) -> str:
        value = item.get("id")
        if type(value) is str and value:
            return value
        if value is not None and value != "":
            self.wrong(f"/messages/{i}/id", f"expected a string, got {_kind(value)}")
        return self.mint()

    def extras(self, item: dict[str, Any], role: Role, i: int) -> JsonObject | None:
        """Checks the members that all roles share, and gives the metadata."""
        at = f"/messages/{i}"
        self.expect_known(item, _KNOWN[role], f"a message of role {role}")
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
            if item.get("toolCallId") is not None and role == "user":
                return self.result(item, i)
            metadata = self.extras(item, role, i)
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
        blocks: list[ContentBlock] = []
        if content is not None:
            if type(content) is not str:
                self.text(item, "content", f"/messages/{i}")
            elif content:
                blocks.append(TextBlock(content))
        if "toolCalls" in item:
            blocks += self.tool_calls(item, f"/messages/{i}")
        if len(item) - ("content" in item) - ("toolCalls" in item) > 2 or "id" not in item:
            metadata = self.extras(item, "assistant", i)
            name = self.text(item, "name", f"/messages/{i}", optional=True)
        return Message(message_id, "assistant", tuple(blocks), name, None, False, metadata)

    def tool_calls(self, item: dict[str, Any], at: str) -> list[ToolCall]:
        sent = item["toolCalls"]
        usual = [usual_call(call) for call in sent] if type(sent) is list else [None]
        if None not in usual:
            return [call for call in usual if call is not None]
        return [self.tool_call(call, at) for at, call in self.objects(item, "toolCalls", at)]

    def tool_call(self, item: dict[str, Any], at: str) -> ToolCall:
        self.expect_known(item, _TOOL_CALL, "a tool call")
        if item.get("type", "function") not in ("function", None):
            self.wrong(f"{at}/type", 'expected "function"')
        self.text(item, "encryptedValue", at, optional=True)
        self.metadata(item, at)
        call_id = self.text(item, "id", at)
        function = item.get("function")
        if type(function) is not dict:
            self.wrong(f"{at}/function", f"expected an object, got {_kind(function)}" if function else "required")
            return ToolCall(call_id, "", "")
        self.expect_known(function, _FUNCTION, "a tool call's function")
        at = f"{at}/function"
        return ToolCall(call_id, self.text(function, "name", at), self.text(function, "arguments", at))

    def result(self, item: dict[str, Any], i: int) -> Message:
        """A tool message, or a user message that answers a call."""
        message_id = self.message_id(item, i)
        at = f"/messages/{i}"
        call_id = self.text(item, "toolCallId", at)
        content = item.get("content")
        blocks: tuple[ContentBlock, ...]
        if type(content) is str:
            blocks = (TextBlock(content),) if content else ()
        else:
            blocks = self.parts(item, at)
        metadata = error = None
        if len(item) > 4 or "id" not in item:
            metadata = self.extras(item, item["role"], i)
            error = self.text(item, "error", at, optional=True) if item["role"] == "tool" else None
            if error:
                said = tuple(block for block in blocks if block != _NO_WORDS)
                blocks = said if content == error else (*said, TextBlock(error))
        result = ToolResult(call_id, blocks, bool(error))
        return Message(message_id, "tool", (result,), None, None, False, metadata)

    # Content parts.

    def parts(self, item: dict[str, Any], at: str) -> tuple[ContentBlock, ...]:
        if type(item.get("content")) is not list:
            got = f"expected a string or an array, got {_kind(item['content'])}" if "content" in item else "required"
            self.wrong(f"{at}/content", got)
            return ()
        blocks = (self.part(part, part_at) for part_at, part in self.objects(item, "content", at))
        return tuple(block for block in blocks if block is not None)

    def part(self, item: dict[str, Any], at: str) -> ContentBlock | None:
        kind = item.get("type")
        if kind == "text":
            self.expect_known(item, _TEXT_PART, "a text part")
            self.text(item, "id", at, optional=True)
            return TextBlock(self.text(item, "text", at))
        if kind == "binary":
            return self.binary_part(item, at)
        if kind in MEDIA_KINDS:
            self.media_seen = True
            self.expect_known(item, _MEDIA_PART, "a media part")
            self.text(item, "id", at, optional=True)
            source = self.source(item, f"{at}/source")
            return None if source is None else block_of_media(kind, source, _file_name(item.get("metadata")))
        if isinstance(kind, str):
            self.leave_out(f"part of type {kind[:64]!r}")
        else:
            self.wrong(f"{at}/type", f"expected a string, got {_kind(kind)}")
        return None

    def source(self, item: dict[str, Any], at: str) -> MediaSource | None:
        source = item.get("source")
        if type(source) is not dict:
            self.wrong(at, f"expected an object, got {_kind(source)}" if "source" in item else "required")
            return None
        kind = source.get("type")
        if kind not in ("data", "url", "file"):
            if isinstance(kind, str):
                self.leave_out(f"part whose source is of type {kind[:64]!r}")
            else:
                self.wrong(f"{at}/type", f"expected a string, got {_kind(kind)}")
            return None
        self.expect_known(source, _SOURCE, "a source")
        value = self.text(source, "value", at)
        media_type = self.media_type(source, at, optional=kind != "data")
        if kind == "data":
            return Base64Source(value, media_type)
        if kind == "url":
            return _url_source(value, media_type)
        return FileSource(value, self.text(source, "provider", at, optional=True), media_type)

    def media_type(self, item: dict[str, Any], at: str, *, optional: bool = False) -> Any:
        value = self.text(item, "mimeType", at, optional=optional)
        return value if value is None else _lower_type(value)

    def binary_part(self, item: dict[str, Any], at: str) -> MediaBlock | None:
        """A media part as clients up to 0.0.47 write it; it left the protocol in 1.0."""
        self.expect_known(item, _BINARY_PART, "a binary part")
        media_type: str = self.media_type(item, at)
        data, url, file_id, name = (
            self.text(item, name, at, optional=True) for name in ("data", "url", "id", "filename")
        )
        known_type = None if media_type.endswith("/*") else media_type  # as ag_ui.events writes what has no type
        source: MediaSource
        if data:
            source = Base64Source(data, media_type)
        elif url:
            source = _url_source(url, known_type)
        elif file_id:
            source = FileSource(file_id, None, known_type)
        else:
            self.wrong(at, "expected one of data, url and id")
            return None
        return block_of_media(media_type.partition("/")[0], source, name)


def _lower_type(media_type: str) -> str:
    """The type in lower case, which is one type with any other; its parameters as they stand."""
    name, semicolon, parameters = media_type.partition(";")
    return name.strip().lower() + semicolon + parameters


def _url_source(url: str, media_type: str | None) -> MediaSource:
    """The source; a `data:` URL in base64 is data: there is nothing to fetch."""
    if url.startswith("data:"):
        head, comma, data = url[5:].partition(",")
        if comma and head.endswith(";base64"):
            return Base64Source(data, _lower_type(head.split(";")[0]) or media_type or "application/octet-stream")
    return UrlSource(url, media_type)


def _file_name(metadata: object) -> str | None:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else None


_READ_BY_ROLE: dict[str, Callable[[InputReader, dict[str, Any], int], Message]] = {
    "system": InputReader.plain,
    "developer": InputReader.plain,
    "user": InputReader.plain,
    "reasoning": InputReader.plain,
    "assistant": InputReader.assistant,
    "tool": InputReader.result,
}
