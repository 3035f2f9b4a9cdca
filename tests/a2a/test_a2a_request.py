"""What clients of both versions send, read as one request; and what is wrong with it, by field."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.compat.v0_3 import types as v03
from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from gateway.a2a.dialects import Dialect, stream_response
from gateway.a2a.request import CallOutput, Decision, SendRequest, read_send_request
from gateway.a2a.start import answers_of, results_of
from gateway.a2a.stored_tasks import StoredTask
from gateway.a2a.tasks import TaskFold
from gateway.errors import InvalidRequestError
from gateway.events import Completed, Interrupt, Interrupted, RunFinished
from gateway.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolSpec,
    UrlSource,
    VideoBlock,
)


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": list(parts), **more}}


def sent(*parts: Any, dialect: Dialect = Dialect.V1, **more: Any) -> SendRequest:
    return read_send_request(message(*parts, **more), dialect)


def problems(params: Any, dialect: Dialect = Dialect.V1) -> dict[str, str]:
    """What is wrong, by pointer."""
    with pytest.raises(InvalidRequestError) as caught:
        read_send_request(params, dialect)
    assert caught.value.status == 400
    return {each.pointer: each.detail for each in caught.value.problems}


# --- what is said -----------------------------------------------------------------------------------------------------


def test_what_the_package_writes_is_read() -> None:
    asked = SendMessageRequest(
        message=Message(
            message_id="m1",
            role=Role.ROLE_USER,
            context_id="c",
            task_id="t",
            parts=[Part(text="Hi"), Part(raw=b"hi", media_type="image/png", filename="a.png")],
            reference_task_ids=["t0"],
            extensions=["urn:x"],
        ),
        configuration=SendMessageConfiguration(
            accepted_output_modes=["text/plain"], history_length=0, return_immediately=True
        ),
    )
    asked.message.parts.append(Part(data=ParseDict({"a": 1}, Value())))
    for params in (MessageToDict(asked), MessageToDict(asked, preserving_proto_field_name=True)):
        request = read_send_request(params, Dialect.V1)
        assert (request.message_id, request.task_id, request.context_id) == ("m1", "t", "c")
        image = ImageBlock(Base64Source("aGk=", "image/png"), "a.png")
        assert request.blocks == (TextBlock("Hi"), image, TextBlock('{"a":1.0}'))
        assert (request.history_length, request.return_immediately) == (0, True)
        assert ParseDict(request.message, Message()) == asked.message


def test_what_clients_of_0_3_write_is_read() -> None:
    files = [
        v03.FilePart(file=v03.FileWithBytes(bytes="aGk=", mime_type="application/pdf", name="a.pdf")),
        v03.FilePart(file=v03.FileWithUri(uri="https://a/b.mp4")),
    ]
    asked = v03.MessageSendParams(
        message=v03.Message(
            message_id="m1",
            role=v03.Role.user,
            parts=[
                v03.Part(root=v03.TextPart(text="Hi")),
                *(v03.Part(root=file) for file in files),
                v03.Part(root=v03.DataPart(data={"a": 1})),
            ],
            metadata={"x": 1},
        ),
        configuration=v03.MessageSendConfiguration(blocking=False, history_length=0, accepted_output_modes=["text"]),
    )
    params = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
    request = read_send_request(params, Dialect.V03)
    assert request.blocks == (
        TextBlock("Hi"),
        DocumentBlock(Base64Source("aGk=", "application/pdf"), "a.pdf"),
        VideoBlock(UrlSource("https://a/b.mp4")),
        TextBlock('{"a":1}'),
    )
    assert request.return_immediately
    assert request.history_length is None, "0 is all of it in 0.3"
    ParseDict(request.message, Message())
    again: Any = stream_response(Dialect.V03, "message", request.message)
    assert v03.Message.model_validate(again) == asked.message


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"text": ""}, TextBlock("")),
        ({"raw": "_-8"}, DocumentBlock(Base64Source("/+8=", "application/octet-stream"))),
        ({"raw": "aGk=", "filename": "a.mp3"}, AudioBlock(Base64Source("aGk=", "audio/mpeg"), "a.mp3")),
        ({"url": "HTTPS://a/b.png?x=1"}, ImageBlock(UrlSource("HTTPS://a/b.png?x=1"))),
        ({"url": "http://a", "mediaType": "image/x"}, ImageBlock(UrlSource("http://a", "image/x"))),
        ({"url": "http://a", "media_type": "image/x"}, ImageBlock(UrlSource("http://a", "image/x"))),
        ({"data": None}, TextBlock("null")),
        ({"text": "x", "raw": None, "tckUnknown": 1}, TextBlock("x")),
    ],
    ids=str,
)
def test_parts_become_content(part: Any, block: Any) -> None:
    assert sent(part).blocks == (block,)


@pytest.mark.parametrize(
    ("configuration", "dialect", "length", "immediately"),
    [
        ({}, Dialect.V1, None, False),
        ({"historyLength": 2, "returnImmediately": True}, Dialect.V1, 2, True),
        ({"history_length": 2, "return_immediately": True}, Dialect.V1, 2, True),
        ({"historyLength": 2, "blocking": True}, Dialect.V03, 2, False),
        ({}, Dialect.V03, None, False),
    ],
)
def test_the_configuration_says_how_to_answer(
    configuration: Any, dialect: Dialect, length: int | None, immediately: bool
) -> None:
    request = read_send_request({**message({"text": "x"}), "configuration": configuration}, dialect)
    assert (request.history_length, request.return_immediately) == (length, immediately)


def test_where_to_notify_is_handed_on_as_it_was_sent() -> None:
    for dialect, name in ((Dialect.V1, "taskPushNotificationConfig"), (Dialect.V03, "pushNotificationConfig")):
        params = {**message({"text": "x"}), "configuration": {name: {"url": "https://a"}}}
        request = read_send_request(params, dialect)
        assert request.push_config == {"url": "https://a"}
        assert request.push_pointer == f"/configuration/{name}"


def test_a_clients_tools_stand_in_the_metadata() -> None:
    tools: list[Any] = [
        {"name": "ask", "description": "Asks.", "parameters": {"type": "object"}, "metadata": {"x": 1}},
        {"name": "ask", "description": "Asks again."},
        {"name": "look"},
    ]
    expected = (ToolSpec("ask", "Asks again.", {}), ToolSpec("look", "", {}))
    assert sent({"text": "x"}, metadata={"tools": tools, "own_name": 1}).tools == expected
    outside = read_send_request({**message({"text": "x"}), "metadata": {"tools": tools}}, Dialect.V1)
    assert outside.tools == expected
    assert (sent({"text": "x"}, metadata={"tools": [tools[0]]}).tools or ())[0].metadata == {"x": 1}
    assert (sent({"text": "x"}).tools, sent({"text": "x"}, metadata={"tools": []}).tools) == (None, ())


# --- answers ----------------------------------------------------------------------------------------------------------


def answers(*parts: Any) -> SendRequest:
    return sent(*parts, taskId="t")


def test_data_with_a_calls_output_answer_it() -> None:
    request = answers(
        {"data": {"tool_call_id": "c1", "output": "42"}},
        {"kind": "data", "data": {"tool_call_id": "c2", "output": {"a": 1}, "is_error": True}},
        {"data": {"tool_call_id": "c3", "output": None}},
        {"text": "That is all."},
    )
    assert request.outputs == (
        CallOutput("c1", (TextBlock("42"),)),
        CallOutput("c2", (TextBlock('{"a":1}'),), is_error=True),
        CallOutput("c3", ()),
    )
    assert request.blocks == (TextBlock("That is all."),)
    assert len(request.message["parts"]) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "decision"),
    [
        ({"data": {"decision": "approve"}}, Decision("", True)),
        ({"data": {"decision": "deny", "reason": "no", "tool_call_id": "c1"}}, Decision("c1", False, "no")),
        ({"data": {"decision": "approve", "arguments": {"a": 2}}}, Decision("", True, None, {"a": 2})),
        ({"text": "approve"}, Decision("", True)),
        ({"kind": "text", "text": " Deny\n"}, Decision("", False)),
        ({"data": "approve"}, Decision("", True)),
    ],
    ids=str,
)
def test_a_decision_is_data_or_exactly_that_word(part: Any, decision: Decision) -> None:
    request = answers(part)
    assert [(each.call_id, each.approved, each.reason, each.arguments, each.pointer) for each in request.decisions] == [
        (decision.call_id, decision.approved, decision.reason, decision.arguments, "/message/parts/0")
    ]
    assert request.blocks == ()


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "I approve"}],
        [{"text": "approve"}, {"text": "it"}],
        [{"data": {"decision": "maybe"}}],
        [{"data": "approve it"}],
        [{"data": ["approve"]}],
    ],
    ids=str,
)
def test_anything_else_is_said(parts: list[Any]) -> None:
    request = answers(*parts)
    assert not request.decisions
    assert not request.outputs
    assert len(request.blocks) == len(parts)


def test_a_message_without_a_task_answers_nothing() -> None:
    assert sent({"text": "approve"}).blocks == (TextBlock("approve"),)
    assert sent({"data": {"tool_call_id": "c1", "output": 1}}).outputs == ()


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "pointer", "said"),
    [
        ({}, "/message", "message is missing"),
        ({"message": "hi"}, "/message", "message must be an object, not a string"),
        ({"message": {"role": "user", "parts": [{"text": "x"}]}}, "/message/messageId", "messageId is missing"),
        (message({"text": "x"}, messageId=""), "/message/messageId", "must not be empty"),
        (message({"text": "x"}, messageId="x" * 257), "/message/messageId", "at most 256"),
        (message({"text": "x"}, role=None), "/message/role", "message.role is missing"),
        (message({"text": "x"}, role="robot"), "/message/role", "must be one of ROLE_USER"),
        (message({"text": "x"}, role="ROLE_AGENT"), "/message/role", "must be one of ROLE_USER"),
        (message({"text": "x"}, taskId=7), "/message/taskId", "message.taskId must be a string, not a number"),
        (message({"text": "x"}, contextId="a\nb"), "/message/contextId", "printable"),
        (message({"text": "x"}, contextId="a" * 257), "/message/contextId", "256"),
        (message({"text": "x"}, metadata=[]), "/message/metadata", "must be an object"),
        (message({"text": "x"}, referenceTaskIds=[1]), "/message/referenceTaskIds", "array of strings"),
        (message(), "/message/parts", "missing or empty"),
        (message(parts="x"), "/message/parts", "must be an array"),
        (message("x"), "/message/parts/0", "must be an object"),
        (message({}), "/message/parts/0", "exactly one of text, raw, url, data; this one has none"),
        (message({"kind": "file", "file": {}}), "/message/parts/0/file", "must have bytes or uri, one of them"),
        (
            message({"kind": "file", "file": {"bytes": "aGk=", "uri": "https://example.com"}}),
            "/message/parts/0/file",
            "must have bytes or uri, one of them",
        ),
        (message({"text": "x", "url": "http://a"}), "/message/parts/0", "text and url"),
        (message({"text": "x"}, {"text": 1}), "/message/parts/1/text", "message.parts[1].text must be a string"),
        (message({"raw": "a b"}), "/message/parts/0/raw", "message.parts[0].raw must be base64"),
        (message({"raw": "a"}), "/message/parts/0/raw", "base64"),
        (message({"url": "file:///etc/passwd"}), "/message/parts/0/url", "http or https"),
        (message({"url": ""}), "/message/parts/0/url", "http or https"),
        (message({"url": 1}), "/message/parts/0/url", "must be a string"),
        (message({"kind": "file", "file": {"uri": "x"}}), "/message/parts/0/file/uri", "file.uri must be an http"),
        (message({"text": "x", "mediaType": 1}), "/message/parts/0/mediaType", "must be a string"),
        (message({"kind": "video"}), "/message/parts/0/kind", "must be one of text, data, file"),
        (message({"kind": "file"}), "/message/parts/0/file", "missing"),
        (message({"kind": "file", "file": {"bytes": "!"}}), "/message/parts/0/file/bytes", "file.bytes must be base64"),
        ({**message({"text": "x"}), "configuration": []}, "/configuration", "must be an object"),
        (
            {**message({"text": "x"}), "configuration": {"historyLength": -1}},
            "/configuration/historyLength",
            "at least 0",
        ),
        (
            {**message({"text": "x"}), "configuration": {"returnImmediately": "yes"}},
            "/configuration/returnImmediately",
            "true or false",
        ),
        ({**message({"text": "x"}), "metadata": []}, "/metadata", "must be an object"),
        (
            {**message({"text": "x"}), "configuration": {"acceptedOutputModes": "text"}},
            "/configuration/acceptedOutputModes",
            "array of strings",
        ),
        (
            message({"data": {"tool_call_id": "c1", "result": "sunny"}}, taskId="t"),
            "/message/parts/0/data/output",
            "missing; data with a tool_call_id has output or decision",
        ),
        (
            message({"data": {"tool_call_id": "c1", "decision": "maybe"}}, taskId="t"),
            "/message/parts/0/data/decision",
            "must be one of approve, deny",
        ),
        (
            message({"data": {"tool_call_id": "c1", "decision": None}}, taskId="t"),
            "/message/parts/0/data/decision",
            "missing",
        ),
        (
            message({"data": {"decision": "approve", "arguments": "{}"}}, taskId="t"),
            "/message/parts/0/data/arguments",
            "must be an object",
        ),
        (
            message({"data": {"decision": "approve", "tool_call_id": 7}}, taskId="t"),
            "/message/parts/0/data/tool_call_id",
            "must be a string",
        ),
        (
            message({"data": {"decision": "approve", "tool_call_id": ""}}, taskId="t"),
            "/message/parts/0/data/tool_call_id",
            "must not be empty",
        ),
        (
            message({"data": {"decision": "approve", "tool_call_id": None}}, taskId="t"),
            "/message/parts/0/data/tool_call_id",
            "missing",
        ),
        (
            message({"data": {"tool_call_id": 7, "output": "sunny"}}, taskId="t"),
            "/message/parts/0/data/tool_call_id",
            "must be a string",
        ),
        (
            message({"data": {"tool_call_id": "c1", "output": "", "is_error": "yes"}}, taskId="t"),
            "/message/parts/0/data/is_error",
            "true or false",
        ),
        (message({"text": "x"}, metadata={"tools": {}}), "/message/metadata/tools", "array"),
        (message({"text": "x"}, metadata={"tools": [{}]}), "/message/metadata/tools/0/name", "missing"),
        (message({"text": "x"}, metadata={"tools": [{"name": "a\n"}]}), "/message/metadata/tools/0/name", "printable"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/") else "",
)
def test_what_is_wrong_is_named(params: Any, pointer: str, said: str) -> None:
    found = problems(params)
    assert pointer in found
    assert said in found[pointer]


def test_everything_that_is_wrong_is_named_at_once() -> None:
    assert problems({"message": {}}).keys() == {"/message/messageId", "/message/role", "/message/parts"}
    wrong = {"message": {"parts": [{"text": 1}], "role": "robot"}, "configuration": {"historyLength": "x"}}
    assert problems(wrong).keys() == {
        "/message/messageId",
        "/message/parts/0/text",
        "/message/role",
        "/configuration/historyLength",
    }


class Counted(str):
    """A call's id that counts how often it is compared or written."""

    work = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.work += 1
        return str.__eq__(self, other)

    def __repr__(self) -> str:
        Counted.work += 1
        return str.__repr__(self)


@pytest.mark.parametrize("are_named", [True, False])
def test_many_decisions_of_many_calls_cost_no_more_than_their_number(
    are_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "work", 0)
    calls = [f"call_{number}" for number in range(200)]
    task = StoredTask(TaskFold("task_1", "context_1"))
    task.end = RunFinished(outcome=Interrupted(tuple(Interrupt(f"int_{c}", "approval", "", Counted(c)) for c in calls)))
    parts = [{"data": {"decision": "approve", **({"tool_call_id": call} if are_named else {})}} for call in calls]
    request = sent(*parts, taskId="task_1")
    if are_named:
        assert [each.interrupt_id for each in answers_of(task, request)] == [f"int_{call}" for call in calls]
    else:
        with pytest.raises(InvalidRequestError, match="decides one call twice"):
            answers_of(task, request)
    assert Counted.work <= 4 * len(calls)


def test_many_outputs_of_many_calls_cost_no_more_than_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "work", 0)
    calls = [f"call_{number}" for number in range(200)]
    task = StoredTask(TaskFold("task_1", "context_1"))
    task.end = RunFinished(outcome=Completed(tuple(ToolCall(Counted(call), "tool", "{}") for call in calls)))
    parts = [{"data": {"tool_call_id": call, "output": "sunny"}} for call in calls]
    request = sent(*parts, taskId="task_1")
    assert len(results_of(task, request, "task_1_2")) == len(calls)
    assert Counted.work <= 4 * len(calls)
