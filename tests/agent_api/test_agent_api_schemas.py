"""The models of the Agent API: their words, their defaults, what they read and write."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from gateway.agent_api_builder import schemas
from gateway.agent_api_builder.schemas import (
    AgentRequest,
    AgentResponse,
    AnyContent,
    AudioContent,
    BaseResponse,
    Content,
    ContentType,
    DataContent,
    Error,
    FileContent,
    FunctionCall,
    FunctionCallOutput,
    FunctionParameters,
    FunctionTool,
    ImageContent,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpCallOutput,
    McpListTools,
    Message,
    MessageType,
    RefusalContent,
    Role,
    RunStatus,
    TextContent,
    Tool,
    VideoContent,
)

CONTENTS: list[tuple[type[Content], str, list[str]]] = [
    (TextContent, "text", ["text"]),
    (DataContent, "data", ["data"]),
    (ImageContent, "image", ["image_url"]),
    (AudioContent, "audio", ["data", "format"]),
    (VideoContent, "video", ["video_url"]),
    (FileContent, "file", ["file_url", "file_id", "filename", "file_data"]),
    (RefusalContent, "refusal", ["refusal"]),
]
EVENT = {"sequence_number": None, "error": None}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (Role, "assistant user system tool"),
        (
            MessageType,
            "message function_call function_call_output plugin_call plugin_call_output component_call"
            " component_call_output mcp_list_tools mcp_approval_request mcp_call mcp_call_output"
            " mcp_approval_response reasoning heartbeat error a2ui_response a2ui_action",
        ),
        (ContentType, "text data image audio file refusal video"),
        (RunStatus, "created in_progress completed canceled failed rejected unknown queued incomplete"),
    ],
)
def test_the_words_are_those_of_the_protocol(words: type[StrEnum], expected: str) -> None:
    assert list(words) == expected.split()


def test_the_names_of_the_words_are_those_of_the_protocol() -> None:
    assert [MessageType.MCP_TOOL_CALL, Role.TOOL, ContentType.REFUSAL] == ["mcp_call", "tool", "refusal"]
    assert [RunStatus.Created, RunStatus.InProgress, RunStatus.Canceled] == ["created", "in_progress", "canceled"]


# --- defaults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "word", "values"), CONTENTS)
def test_a_content_has_the_defaults_of_its_type(model: type[Content], word: str, values: list[str]) -> None:
    told = {"object": "content", "status": None, "type": word, "index": None, "delta": False, "msg_id": None}
    assert model().model_dump() == {**EVENT, **told, **dict.fromkeys(values)}  # type: ignore[call-arg]


def test_a_message_has_the_defaults_of_the_protocol() -> None:
    message = Message()
    assert message.id.startswith("msg_")
    assert message.model_dump(exclude={"id"}) == {
        **EVENT, "object": "message", "status": "created", "type": "message", "role": None, "content": None,
        "code": None, "message": None, "usage": None, "metadata": None,
    }  # fmt: skip


def test_a_response_has_the_defaults_of_the_protocol() -> None:
    before = int(time.time())
    response = AgentResponse()
    assert before <= response.created_at <= time.time()
    assert response.id.startswith("response_")
    assert response.model_dump(exclude={"id", "created_at"}) == {
        **EVENT, "object": "response", "status": "created", "completed_at": None, "output": None, "usage": None,
        "session_id": None,
    }  # fmt: skip


def test_a_request_has_the_defaults_of_the_protocol() -> None:
    request = AgentRequest(input=[])
    told = request.model_dump(exclude_none=True)
    assert told == {"input": [], "stream": True, "n": 1}
    absent = "id model top_p temperature frequency_penalty presence_penalty max_tokens stop seed tools session_id"
    assert request.model_dump().keys() - told.keys() == {*absent.split(), "response_id", "user_id"}


@pytest.mark.parametrize(
    ("model", "required", "optional"),
    [
        (FunctionParameters, "type properties", "required"),
        (FunctionTool, "name description parameters", ""),
        (Tool, "", "type function"),
        (FunctionCall, "", "call_id name arguments"),
        (FunctionCallOutput, "call_id output", "name"),
        (McpCall, "", "call_id name arguments server_label"),
        (McpCallOutput, "call_id output", "name"),
        (McpListTools, "id server_label tools", "error"),
        (McpApprovalRequest, "id arguments name server_label", ""),
        (McpApprovalResponse, "approval_request_id approve", "id reason"),
        (Error, "code message", ""),
    ],
)
def test_a_model_requires_what_the_protocol_requires(model: type[BaseModel], required: str, optional: str) -> None:
    fields = model.model_fields
    assert {name for name, field in fields.items() if field.is_required()} == set(required.split())
    assert {name for name, field in fields.items() if field.default is None} == set(optional.split())


def test_each_one_has_an_id_of_its_own() -> None:
    assert Message().id != Message().id
    assert BaseResponse().id != BaseResponse().id


def test_an_id_of_null_is_none_at_all() -> None:
    assert AgentResponse.model_validate({"id": None}).id.startswith("response_")


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "word", "_values"), CONTENTS)
def test_the_type_of_a_content_decides_its_model(model: type[Content], word: str, _values: list[str]) -> None:
    message = Message.model_validate({"role": "user", "content": [{"type": word}]})
    assert message.content is not None
    assert [type(each) for each in message.content] == [model]


@pytest.mark.parametrize("part", [{"type": "hologram"}, {"text": "hello"}, "hello"])
def test_a_content_of_no_known_type_is_refused(part: object) -> None:
    with pytest.raises(ValidationError, match="content"):
        Message.model_validate({"role": "user", "content": [part]})


def test_a_role_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValidationError, match="role"):
        Message.model_validate({"role": "robot"})


@pytest.mark.parametrize("n", [1, 5, None])
def test_one_to_five_answers_may_be_asked_for(n: int | None) -> None:
    assert AgentRequest.model_validate({"input": [], "n": n}).n == n


@pytest.mark.parametrize("n", [0, 6])
def test_no_answer_and_six_answers_are_refused(n: int) -> None:
    with pytest.raises(ValidationError, match="n\n"):
        AgentRequest.model_validate({"input": [], "n": n})


def test_parameters_are_those_of_an_object() -> None:
    assert FunctionParameters.model_validate({"type": "object", "properties": {}}).required is None
    with pytest.raises(ValidationError, match="type"):
        FunctionParameters.model_validate({"type": "string", "properties": {}})


def test_a_message_of_the_type_assistant_is_the_assistants_message() -> None:
    message = Message.model_validate({"type": "assistant", "content": [{"type": "text", "text": "hello"}]})
    assert (message.type, message.role) == ("message", "assistant")
    assert Message.model_validate({"type": "assistant", "role": "user"}).role == "user"


def test_a_sequence_number_is_read_as_a_number_or_as_text_and_written_as_a_number() -> None:
    response = AgentResponse.model_validate({"sequence_number": "7"})
    assert response.sequence_number == 7
    assert '"sequence_number":7,' in response.model_dump_json()
    assert AgentResponse.model_validate({"sequence_number": 0}).sequence_number == 0


@pytest.mark.parametrize("number", ["first", -1, 1.5])
def test_what_is_no_sequence_number_is_refused(number: object) -> None:
    with pytest.raises(ValidationError, match="sequence_number"):
        AgentResponse.model_validate({"sequence_number": number})


def test_the_british_spelling_of_canceled_is_read() -> None:
    assert AgentResponse.model_validate({"status": "cancelled"}).status == "canceled"


def test_tools_are_objects_or_flat_and_lose_nothing() -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
    function = {"name": "weather", "description": "Says it.", "parameters": parameters, "strict": True}
    tools: list[Any] = [{"type": "function", "function": function}, {"type": "function", **function}]
    request = AgentRequest.model_validate({"input": [], "tools": tools})
    assert request.model_dump(exclude_unset=True)["tools"] == tools
    assert request.tools is not None
    assert [type(tool) for tool in request.tools] == [Tool, dict]
    assert AgentRequest.model_validate({"input": [], "tools": [{"function": {}}]}).tools == [{"function": {}}]


def test_members_without_a_name_here_are_kept() -> None:
    frame = {
        "object": "response", "id": "response_1", "status": "failed", "created_at": 1, "completed_at": 2,
        "error": {"code": "model_timeout", "message": "It took too long.", "retryable": True},
        "output": [], "metadata": {"warnings": ["n is 1"]},
    }  # fmt: skip
    assert AgentResponse.model_validate(frame).model_dump(exclude_none=True) == frame


def test_nulls_within_data_stay_where_the_other_nulls_are_left_out() -> None:
    content = DataContent(data={"name": None})
    assert content.model_dump_json(exclude_none=True) == (
        '{"object":"content","type":"data","delta":false,"data":{"name":null}}'
    )


# --- methods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("say", "status"),
    [
        (AgentResponse.created, "created"),
        (AgentResponse.in_progress, "in_progress"),
        (AgentResponse.completed, "completed"),
        (AgentResponse.rejected, "rejected"),
        (AgentResponse.canceled, "canceled"),
        (AgentResponse.incomplete, "incomplete"),
    ],
)
def test_a_status_is_set_by_its_method(say: Callable[[AgentResponse], AgentResponse], status: str) -> None:
    response = AgentResponse()
    assert say(response) is response
    assert response.status == status


def test_a_failure_has_its_error() -> None:
    error = Error(code="boom", message="It broke.")
    assert (Message().failed(error).status, Message().failed(error).error) == ("failed", error)


def test_deltas_become_a_completed_content() -> None:
    message = Message(role="assistant")
    first = message.add_delta_content(TextContent(text="Hello", delta=True))
    second = message.add_delta_content(TextContent(text=" World", delta=True, index=0))
    assert [first, second] == [
        TextContent(text=text, delta=True, index=0, msg_id=message.id, status="in_progress")
        for text in ("Hello", " World")
    ]
    whole = TextContent(text="Hello World", delta=False, index=0, msg_id=message.id, status="completed")
    assert message.content_completed(0) == whole
    assert message.content == [whole]


def test_a_piece_without_delta_replaces_what_there_was() -> None:
    message = Message()
    message.add_delta_content(TextContent(text="Hel", delta=True))
    message.add_delta_content(TextContent(text="Hello", index=0))
    assert message.get_text_content() == "Hello"


def test_deltas_of_data_bring_members_that_were_not_there() -> None:
    message = Message()
    message.add_delta_content(DataContent(data={"name": "weather"}))
    message.add_delta_content(DataContent(data={"arguments": "{", "count": 1}, delta=True, index=0))
    message.add_delta_content(DataContent(data={"arguments": "}", "count": 1}, delta=True, index=0))
    completed = message.content_completed(0)
    assert isinstance(completed, DataContent)
    assert completed.data == {"name": "weather", "arguments": "{}", "count": 2}


def test_whole_contents_follow_each_other() -> None:
    message = Message()
    added = message.add_content(TextContent(text="This is an image:"))
    message.add_content(ImageContent(image_url="https://example.com/image.jpg"))
    message.add_content(AudioContent(data="AAAA", format="wav"))
    assert message.content is not None
    assert message.content[0] == added
    assert [(each.index, each.status, each.msg_id) for each in message.content] == [
        (index, "completed", message.id) for index in range(3)
    ]
    assert message.get_text_content() == "This is an image:"
    assert message.get_image_content() == ["https://example.com/image.jpg"]
    assert message.get_audio_content() == ["AAAA"]


def test_what_was_given_and_what_is_kept_are_apart() -> None:
    message = Message()
    given = DataContent(data={"list": []})
    frame = message.add_delta_content(given)
    assert isinstance(frame, DataContent)
    assert frame.data is not None
    frame.data["list"] = [1]
    message.add_delta_content(DataContent(data={"list": [2]}, delta=True, index=0))
    assert (given.data, given.index) == ({"list": []}, None)
    assert message.content_completed(0).model_dump()["data"] == {"list": [2]}


@pytest.mark.parametrize("add", [lambda m: m.add_delta_content(TextContent(index=2)), lambda m: m.content_completed(2)])
def test_a_content_that_is_not_there_is_an_error(add: Callable[[Message], AnyContent]) -> None:
    message = Message()
    message.add_delta_content(TextContent(text="a", delta=True))
    with pytest.raises(ValueError, match="no content at index 2: the message has 1"):
        add(message)


@pytest.mark.parametrize("add", [lambda m: m.add_delta_content(TextContent(index=0)), lambda m: m.content_completed(0)])
def test_a_completed_content_takes_nothing_more(add: Callable[[Message], AnyContent]) -> None:
    message = Message()
    message.add_content(TextContent(text="a"))
    with pytest.raises(ValueError, match="index 0 is complete; a new one has the index 1"):
        add(message)


def test_a_content_keeps_its_type() -> None:
    message = Message()
    message.add_delta_content(TextContent(text="a", delta=True))
    with pytest.raises(ValueError, match="of type 'text', not 'image'"):
        message.add_delta_content(ImageContent(image_url="https://example.com/", index=0))


def test_every_content_that_a_message_may_have_is_named_once() -> None:
    adapter: TypeAdapter[AnyContent] = TypeAdapter(schemas.AnyContent)
    assert {type(adapter.validate_python({"type": word})) for word in ContentType} == {each for each, *_ in CONTENTS}
