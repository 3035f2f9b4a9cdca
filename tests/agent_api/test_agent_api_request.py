"""What the body of `POST /process` says; and that it is read as the package's own models read it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from gateway.agent_api.input_messages import ApprovalAnswer, SaidMessage
from gateway.agent_api.request import ProcessRequest, read_request
from gateway.agent_api_builder.schemas import AgentRequest
from gateway.errors import InvalidRequestError
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
    VideoBlock,
)

PIXEL = "iVBORw0KGgo="


def said(*contents: JsonValue, role: str = "user", kind: str = "message", **more: JsonValue) -> JsonObject:
    return {"type": kind, "role": role, "content": [*contents], **more}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def data(**members: JsonValue) -> JsonObject:
    return {"type": "data", "data": members}


def body(*messages: JsonValue, **more: JsonValue) -> JsonObject:
    return {"input": [*messages] or [said(text("hi"))], **more}


def read(*messages: JsonValue, **more: JsonValue) -> ProcessRequest:
    return read_request(body(*messages, **more))


def read_messages(*messages: JsonValue) -> list[Message]:
    return [each for one in read(*messages).input.read if isinstance(one, SaidMessage) for each in one.messages]


def read_block(content: JsonValue) -> ContentBlock:
    return read_messages(said(content))[0].content[0]


def problems_of(value: JsonValue) -> dict[str, str]:
    with pytest.raises(InvalidRequestError) as refused:
        read_request(value)
    assert refused.value.status == 422
    return {each.pointer: each.detail for each in refused.value.problems}


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (text("hi"), TextBlock("hi")),
        ({"type": "refusal", "refusal": "no"}, TextBlock("no", refusal=True)),
        (data(city="Bern"), TextBlock('{"city":"Bern"}')),
        ({"type": "image", "image_url": "https://a.example/b.png"}, ImageBlock(UrlSource("https://a.example/b.png"))),
        (
            {"type": "image", "image_url": f"data:image/png;base64,{PIXEL}"},
            ImageBlock(Base64Source(PIXEL, "image/png")),
        ),
        ({"type": "audio", "data": "UklGRg==", "format": "mp3"}, AudioBlock(Base64Source("UklGRg==", "audio/mpeg"))),
        ({"type": "audio", "data": "https://a.example/b.wav"}, AudioBlock(UrlSource("https://a.example/b.wav"))),
        ({"type": "video", "video_url": "https://a.example/b.mp4"}, VideoBlock(UrlSource("https://a.example/b.mp4"))),
        (
            {"type": "file", "file_data": "JVBERi0=", "filename": "a.pdf"},
            DocumentBlock(Base64Source("JVBERi0=", "application/pdf"), "a.pdf"),
        ),
        (
            {"type": "file", "file_url": "https://a.example/b.pdf", "filename": "b.pdf"},
            DocumentBlock(UrlSource("https://a.example/b.pdf"), "b.pdf"),
        ),
        ({"type": "file", "file_id": "file-1"}, DocumentBlock(FileSource("file-1"))),
    ],
)
def test_every_type_of_content_is_read(content: JsonValue, block: ContentBlock) -> None:
    assert read_block(content) == block


def test_the_roles_and_types_of_messages_are_read() -> None:
    messages = read_messages(
        said(text("be kind"), role="system"),
        said(text("hi"), id="m1"),
        said(text("think"), kind="reasoning", role="assistant"),
        said(text("Hello"), kind="assistant", role="assistant"),
        said(data(call_id="c1", name="look", arguments="{}"), kind="function_call", role="assistant"),
        said(data(call_id="c1", name="look", output="blue"), kind="function_call_output", role="tool"),
        said(data(call_id="c2", name="add", arguments={"a": 1}), kind="mcp_call", role="assistant"),
        said(data(call_id="c2", output=3, is_error=True), kind="mcp_call_output", role="tool"),
    )
    assert [(message.role, message.content) for message in messages] == [
        ("system", (TextBlock("be kind"),)),
        ("user", (TextBlock("hi"),)),
        ("reasoning", (ReasoningBlock("think"),)),
        ("assistant", (TextBlock("Hello"),)),
        ("assistant", (ToolCall("c1", "look", "{}"),)),
        ("tool", (ToolResult("c1", (TextBlock("blue"),)),)),
        ("assistant", (ToolCall("c2", "add", '{"a":1}'),)),
        ("tool", (ToolResult("c2", (TextBlock("3"),), is_error=True),)),
    ]
    assert messages[1].id == "m1"


def test_what_the_gateway_said_beside_its_answers_says_nothing_when_it_comes_back() -> None:
    question = said(data(id="i1", name="pay", arguments="{}", server_label="gateway"), kind="mcp_approval_request")
    answer = said(data(approval_request_id="i1", approve=True, reason="ok"), kind="mcp_approval_response")
    request = read({"type": "heartbeat"}, {"type": "error", "code": "x", "message": "y"}, question, answer)
    assert request.input.read == (ApprovalAnswer("/input/3", "i1", approve=True, reason="ok"),)


def test_a_question_that_comes_back_is_its_call_once() -> None:
    asked = data(id="i1", call_id="c1", name="pay", arguments="{}", server_label="gateway")
    question = said(asked, kind="mcp_approval_request")
    call = said(data(call_id="c1", name="pay", arguments="{}"), kind="plugin_call")
    [message] = read_messages(question, question, call)
    assert (message.role, message.content) == ("assistant", (ToolCall("c1", "pay", "{}"),))


def test_two_messages_of_one_id_are_two_messages() -> None:
    one, other = read_messages(said(text("a"), id="1"), said(text("b"), id="1"))
    assert one.id == "1" != other.id


def test_tools_are_objects_or_flat() -> None:
    schema: JsonObject = {"type": "object", "properties": {}}
    request = read(
        tools=[
            {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": schema}},
            {"name": "pay", "description": "Pay.", "parameters": schema},
        ]
    )
    assert [(each.name, each.description, each.input_schema) for each in request.tools] == [
        ("look", "Look.", schema),
        ("pay", "Pay.", schema),
    ]


def test_every_generation_parameter_is_read() -> None:
    request = read(
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=1,
        presence_penalty=-1,
        max_tokens=7,
        stop="END",
        seed=3,
        n=2,
        model="gpt-4-vision",
        stream=False,
        session_id="s1",
        id="r0",
        response_id="r1",
        user_id="u",
        biz_params={"any": 1},
    )
    options = request.options
    assert (options.temperature, options.top_p, options.frequency_penalty, options.presence_penalty) == (
        0.5,
        0.9,
        1,
        -1,
    )
    assert (options.max_tokens, options.stop, options.seed) == (7, ("END",), 3)
    assert (request.answers, request.model, request.stream) == (2, "gpt-4-vision", False)
    assert (request.thread_id, request.run_id) == ("s1", "r1")
    assert read(id="r0", stop=["a", "b"]).run_id == "r0"


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ([], ""),
        ({}, "/input"),
        ({"input": "x"}, "/input"),
        ({"input": []}, "/input"),
        ({"input": ["x"]}, "/input/0"),
        (body(said(text("a"), role="robot")), "/input/0/role"),
        (body(said({"type": "smell"})), "/input/0/content/0/type"),
        (body({"type": "dance", "role": "user"}), "/input/0/type"),
        (body({"role": "user", "content": "hi"}), "/input/0/content"),
        (body(said({"type": "text", "text": 1})), "/input/0/content/0/text"),
        (body(said({"type": "image", "image_url": "/etc/passwd"})), "/input/0/content/0/image_url"),
        (body(said(kind="function_call_output")), "/input/0/content"),
        (body(said(data(output="x"), kind="function_call_output")), "/input/0/content/0/data/call_id"),
        (body(said(data(approval_request_id="i"), kind="mcp_approval_response")), "/input/0/content/0/data/approve"),
        (body(n=6), "/n"),
        (body(n=0), "/n"),
        (body(temperature="hot"), "/temperature"),
        (body(top_p=2), "/top_p"),
        (body(max_tokens=0), "/max_tokens"),
        (body(stop={"a": 1}), "/stop"),
        (body(seed=1.5), "/seed"),
        (body(tools={"name": "look"}), "/tools"),
        (body(tools=[{"type": "mcp", "server_url": "https://a.example"}]), "/tools/0/type"),
        (body(tools=[{"name": ""}]), "/tools/0/name"),
        (body(tools=[{"name": "look", "parameters": {"type": "array"}}]), "/tools/0/parameters/type"),
        (
            body(tools=[{"function": {"name": "look", "parameters": {"required": "a"}}}]),
            "/tools/0/function/parameters/required",
        ),
        (body(tools=[{"name": "look", "parameters": {"properties": []}}]), "/tools/0/parameters/properties"),
        (body(said({"text": "a"})), "/input/0/content/0/type"),
        (body(stream="yes"), "/stream"),
        (body(session_id="a\nb"), "/session_id"),
        (body(response_id="x" * 257), "/response_id"),
    ],
)
def test_wrong_input_names_its_field(wrong: JsonValue, pointer: str) -> None:
    assert pointer in problems_of(wrong)


def test_a_content_without_a_type_is_told_which_there_are() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"input\[0\]\.content\[0\]\.type is missing; it must be one of text, "
    ):
        read_request(body(said({"text": "a"})))


def test_all_wrong_fields_are_named_at_once() -> None:
    found = problems_of(body(said({"type": "smell"}, role="robot"), n=9))
    assert set(found) == {"/input/0/role", "/input/0/content/0/type", "/n"}
    assert found["/n"] == "n must be a whole number from 1 to 5, not 9"
    assert problems_of(body(n=0))["/n"] == "n must be a whole number from 1 to 5, not 0"


# --- as the package's models read it ---------------------------------------------------------------------------------

_VALUES: dict[str, list[Any]] = {
    "stream": [True, False, None, {}],
    "model": ["m", None, 1],
    "temperature": [0.5, 1, None, "hot"],
    "top_p": [0.5, None, []],
    "frequency_penalty": [0.5, None, "x"],
    "presence_penalty": [0.5, None, "x"],
    "max_tokens": [10, None, "x", 1.5],
    "stop": ["a", ["a"], None, 1, [1]],
    "n": [1, 5, None, 0, 6, "x"],
    "seed": [1, None, "x"],
    "tools": [None, [], [{"name": "a"}], [{"type": "function", "function": {"name": "a", "description": ""}}], {}, [1]],
    "session_id": ["s", None, 1],
    "response_id": ["r", None, 1],
    "id": ["r", None, 1],
    "user_id": ["u", None, 1],
    "input": [None, {}, "x", [1], [None], [{}, said(text("hi"))]],
}
_MESSAGE_VALUES: dict[str, list[Any]] = {
    "role": ["user", "assistant", "system", None, "robot", 1],
    "id": ["m1", 1],
    "type": ["message", "assistant", "reasoning", 1],
    "content": [[text("a")], None, [], "hi", {}, [1], [{}], [{"type": "smell"}], [{"type": "text"}], [text("a")] * 2],
    "metadata": [{}, None, 1],
}
# one of the two is stricter on purpose: `stream: null` means the default
_STRICTER = ({"stream": None},)


def _accepted(value: JsonValue) -> bool:
    try:
        read_request(value)
    except InvalidRequestError:
        return False
    return True


@pytest.mark.parametrize(
    "value",
    [
        *(
            body(**{name: value}) if name != "input" else {"input": value}
            for name in _VALUES
            for value in _VALUES[name]
        ),
        *(
            body({**said(text("a")), name: value}, said(text("hi")))
            for name in _MESSAGE_VALUES
            for value in _MESSAGE_VALUES[name]
        ),
    ],
    ids=lambda value: orjson.dumps(value).decode()[:60],
)
def test_the_endpoint_accepts_what_the_models_accept(value: JsonObject) -> None:
    try:
        AgentRequest.model_validate(value)
        expected = True
    except ValidationError:
        expected = False
    if not any(all(value.get(name, ()) is each for name, each in case.items()) for case in _STRICTER):
        assert _accepted(value) == expected
