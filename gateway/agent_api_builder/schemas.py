"""The Agent API's words and models, for programs that write or read its bodies and frames.

Below: deltas. Above: the builder. The gateway itself reads bodies and writes frames without them: they are for its
users. A member that is not named here is kept. Nulls are left out on the wire: `model_dump_json(exclude_none=True)`.
Agent API protocol of agentscope-runtime 1.1 (November 2026)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Final, Literal, Self, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from gateway.agent_api.deltas import VALUES, joined
from gateway.messages import JsonObject, JsonValue

# --- enums -----------------------------------------------------------------------------------------------------------


class Role(StrEnum):
    ASSISTANT = "assistant"
    USER = "user"
    SYSTEM = "system"
    TOOL = "tool"


class MessageType(StrEnum):
    """The backend's tools are plugins or an MCP server's tools; a function is the client's."""

    MESSAGE = "message"
    FUNCTION_CALL = "function_call"
    FUNCTION_CALL_OUTPUT = "function_call_output"
    PLUGIN_CALL = "plugin_call"
    PLUGIN_CALL_OUTPUT = "plugin_call_output"
    COMPONENT_CALL = "component_call"
    COMPONENT_CALL_OUTPUT = "component_call_output"
    MCP_LIST_TOOLS = "mcp_list_tools"
    MCP_APPROVAL_REQUEST = "mcp_approval_request"
    MCP_TOOL_CALL = "mcp_call"
    MCP_TOOL_CALL_OUTPUT = "mcp_call_output"
    MCP_APPROVAL_RESPONSE = "mcp_approval_response"
    REASONING = "reasoning"
    HEARTBEAT = "heartbeat"
    ERROR = "error"
    A2UI_RESPONSE = "a2ui_response"
    A2UI_ACTION = "a2ui_action"


class ContentType(StrEnum):
    TEXT = "text"
    DATA = "data"
    IMAGE = "image"
    AUDIO = "audio"
    FILE = "file"
    REFUSAL = "refusal"
    VIDEO = "video"


class RunStatus(StrEnum):
    """The statuses of responses, messages and contents."""

    Created = "created"
    InProgress = "in_progress"
    Completed = "completed"
    Canceled = "canceled"
    Failed = "failed"
    Rejected = "rejected"
    Unknown = "unknown"
    Queued = "queued"
    Incomplete = "incomplete"


# --- tools -----------------------------------------------------------------------------------------------------------


class _Open(BaseModel):
    """A model that keeps members that it does not know."""

    model_config = ConfigDict(extra="allow")


class FunctionParameters(_Open):
    """A JSON schema of arguments."""

    type: Literal["object"]
    properties: JsonObject
    required: list[str] | None = None


class FunctionTool(_Open):
    name: str
    description: str
    parameters: FunctionParameters | JsonObject


class Tool(_Open):
    """A tool of the client. `type` is "function"."""

    type: str | None = None
    function: FunctionTool | None = None


def _read_tool(value: object) -> object:
    """A tool that names its function is a `Tool`; a function alone stays an object."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        with suppress(ValidationError):
            return Tool.model_validate(value)
    return value


class FunctionCall(_Open):
    """The data of a call. `arguments` are JSON text exactly as the model wrote it: it may be no JSON at all."""

    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class FunctionCallOutput(_Open):
    """The data of a call's result."""

    call_id: str
    name: str | None = None
    output: str


class McpCall(FunctionCall):
    """The data of a call to an MCP server's tool. `server_label` is the server's name."""

    server_label: str | None = None


class McpCallOutput(FunctionCallOutput):
    pass


class McpListToolsTool(_Open):
    input_schema: JsonValue
    name: str
    annotations: JsonValue = None
    description: str | None = None


class McpListTools(_Open):
    """The tools of an MCP server."""

    id: str
    server_label: str
    tools: list[McpListToolsTool]
    error: str | None = None


class McpApprovalRequest(_Open):
    """The data of a question: may this call run?"""

    id: str
    arguments: str
    name: str
    server_label: str


class McpApprovalResponse(_Open):
    """The data of a person's answer to it."""

    approval_request_id: str
    approve: bool
    id: str | None = None
    reason: str | None = None


# --- events ----------------------------------------------------------------------------------------------------------


class Error(_Open):
    """`code` is stable, `message` is for people."""

    code: str
    message: str


def _read_status(value: object) -> object:
    return RunStatus.Canceled.value if value == "cancelled" else value


Status: TypeAlias = Annotated[str, BeforeValidator(_read_status)]


class Event(_Open):
    """One frame. `sequence_number` counts from 0; it may be read as text. Its methods only set the status."""

    sequence_number: Annotated[int, Field(ge=0)] | None = None
    object: str
    status: Status | None = None
    error: Error | None = None

    def created(self) -> Self:
        return self._with_status(RunStatus.Created)

    def in_progress(self) -> Self:
        return self._with_status(RunStatus.InProgress)

    def completed(self) -> Self:
        return self._with_status(RunStatus.Completed)

    def failed(self, error: Error) -> Self:
        self.error = error
        return self._with_status(RunStatus.Failed)

    def rejected(self) -> Self:
        return self._with_status(RunStatus.Rejected)

    def canceled(self) -> Self:
        return self._with_status(RunStatus.Canceled)

    def incomplete(self) -> Self:
        return self._with_status(RunStatus.Incomplete)

    def _with_status(self, status: RunStatus) -> Self:
        self.status = status.value
        return self


class Content(Event):
    """A part of the message `msg_id`, at `index`. `delta`: it is a piece that continues the earlier ones."""

    type: str
    object: str = "content"
    index: int | None = None
    delta: bool | None = False
    msg_id: str | None = None


# Each type narrows `type` to one word, which nobody assigns afterwards.
class TextContent(Content):
    type: Literal["text"] = "text"  # type: ignore[mutable-override]
    text: str | None = None


class ImageContent(Content):
    """`image_url` may be a data URL."""

    type: Literal["image"] = "image"  # type: ignore[mutable-override]
    image_url: str | None = None


class DataContent(Content):
    type: Literal["data"] = "data"  # type: ignore[mutable-override]
    data: JsonObject | None = None


class AudioContent(Content):
    """`data`: base64, or a URL."""

    type: Literal["audio"] = "audio"  # type: ignore[mutable-override]
    data: str | None = None
    format: str | None = None


class VideoContent(Content):
    """`video_url` may be a data URL."""

    type: Literal["video"] = "video"  # type: ignore[mutable-override]
    video_url: str | None = None


class FileContent(Content):
    """`file_data`: base64."""

    type: Literal["file"] = "file"  # type: ignore[mutable-override]
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None
    file_data: str | None = None


class RefusalContent(Content):
    """The model says that it will not answer."""

    type: Literal["refusal"] = "refusal"  # type: ignore[mutable-override]
    refusal: str | None = None


AnyContent: TypeAlias = Annotated[
    TextContent | ImageContent | DataContent | AudioContent | VideoContent | FileContent | RefusalContent,
    Field(discriminator="type"),
]


ContentT = TypeVar("ContentT", bound=Content)
_CONTENT: Final[TypeAdapter[AnyContent]] = TypeAdapter(AnyContent)


def read_content(given: Content | JsonObject) -> AnyContent:
    """A content of one of the seven types, made from a model or from its JSON. It shares nothing with `given`.

    Raises:
        ValueError: `given` is no content.
    """
    return _CONTENT.validate_python(given.model_dump(warnings=False) if isinstance(given, Content) else given)


class Message(Event):
    """`code` and `message` are the error, in a message of the type `error`."""

    id: str = Field(default_factory=lambda: f"msg_{uuid4()}")
    object: str = "message"
    type: str = MessageType.MESSAGE.value
    status: Status | None = RunStatus.Created.value
    role: Literal["user", "assistant", "system", "tool"] | None = None
    content: list[AnyContent] | None = None
    code: str | None = None
    message: str | None = None
    usage: JsonObject | None = None
    metadata: JsonObject | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_assistant(cls, value: JsonValue) -> JsonValue:
        """The type `assistant` means a message of the assistant."""
        if not isinstance(value, dict) or value.get("type") != "assistant":
            return value
        return {**value, "type": "message", "role": value.get("role") or "assistant"}

    def add_delta_content(self, new_content: Content | JsonObject) -> AnyContent:
        """Take in a piece, a model or its JSON, and give the frame that says so.

        A piece without an index begins a new content. With an index, a piece with `delta` continues the content there,
        and one without replaces its value.

        Raises:
            ValueError: the piece is no content, or the one at its index is missing, complete or of another type.
        """
        frame = read_content(new_content)
        contents = self._contents()
        frame.msg_id, frame.status = self.id, RunStatus.InProgress.value
        if frame.index is None:
            frame.index = len(contents)
        if frame.index == len(contents):
            contents.append(frame.model_copy(deep=True))
            return frame
        held = self._open_content(frame.index)
        if held.type != frame.type:
            raise ValueError(f"the content at index {frame.index} is of type {held.type!r}, not {frame.type!r}")
        for member in VALUES[held.type]:
            value = getattr(frame, member)
            setattr(held, member, joined(member, getattr(held, member), value) if frame.delta else value)
        return frame

    def content_completed(self, content_index: int) -> AnyContent:
        """Complete the content at an index, and give the frame that says so: it has the whole value.

        Raises:
            ValueError: there is none, or it is complete.
        """
        held = self._open_content(content_index)
        held.delta = False
        held.completed()
        return held.model_copy(deep=True)

    def add_content(self, new_content: Content | JsonObject) -> AnyContent:
        """Add a whole content, a model or its JSON, and give the frame that says so. Raises ValueError: it is none."""
        content = read_content(new_content)
        contents = self._contents()
        content.msg_id, content.index, content.delta = self.id, len(contents), False
        contents.append(content.completed())
        return contents[-1].model_copy(deep=True)

    def get_text_content(self) -> str | None:
        """The text of the first text, None if there is none."""
        return next((each.text for each in _contents_of(TextContent, self)), None)

    def get_image_content(self) -> list[str]:
        """The URLs of all images."""
        return [each.image_url for each in _contents_of(ImageContent, self) if each.image_url is not None]

    def get_audio_content(self) -> list[str]:
        """The data of all audio."""
        return [each.data for each in _contents_of(AudioContent, self) if each.data is not None]

    def _contents(self) -> list[AnyContent]:
        if self.content is None:
            self.content = []
        return self.content

    def _open_content(self, index: int) -> AnyContent:
        contents = self._contents()
        if not 0 <= index < len(contents):
            raise ValueError(f"there is no content at index {index}: the message has {len(contents)}")
        if contents[index].status == RunStatus.Completed:
            raise ValueError(f"the content at index {index} is complete; a new one has the index {len(contents)}")
        return contents[index]


def _contents_of(kind: type[ContentT], message: Message) -> Iterator[ContentT]:
    return (each for each in message.content or () if isinstance(each, kind))


# --- requests and responses ------------------------------------------------------------------------------------------


class BaseRequest(BaseModel):
    input: list[Message]
    stream: bool = True
    id: str | None = None


class AgentRequest(BaseRequest):
    """`session_id` is the thread; `response_id`, else `id`, is the response that the request begins."""

    model_config = ConfigDict(extra="allow")

    model: str | None = None
    top_p: float | None = None
    temperature: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1, le=5)] | None = 1
    seed: int | None = None
    tools: list[Annotated[Tool | JsonObject, BeforeValidator(_read_tool)]] | None = None
    session_id: str | None = None
    response_id: str | None = None
    user_id: str | None = None


def _new_response_id() -> str:
    return f"response_{uuid4()}"


def _read_response_id(value: object) -> object:
    return _new_response_id() if value is None else value


class BaseResponse(Event):
    """Times are Unix seconds. `output` has every message of the response once it has ended."""

    id: Annotated[str, BeforeValidator(_read_response_id)] = Field(default_factory=_new_response_id)
    object: str = "response"
    status: Status | None = RunStatus.Created.value
    created_at: int = Field(default_factory=lambda: int(time.time()))
    completed_at: int | None = None
    output: list[Message] | None = None
    usage: JsonObject | None = None


class AgentResponse(BaseResponse):
    session_id: str | None = None
