"""Any history becomes a request that Gemini takes: every body is held against its SDK's types."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.genai import types
from hypothesis import given

from gateway.gemini.generate_content import ITEM, PROVIDER_NAME, SIGNATURE, TEXT_SIGNATURE, function_name, profile_of
from gateway.gemini.request import FOREIGN_SIGNATURE, gemini_request
from gateway.history.model_view import model_view
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    Message,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
    VideoBlock,
)
from gateway.model import ModelRequest
from gateway.options.generation import OneTool
from gateway.wire.stand_ins import NO_CONTENT, OPENING
from tests.history_samples import any_histories
from tests.recorded_traffic import Entry, Recordings, each
from tests.said_messages import assistant, result, user
from tests.word_samples import REPEATABLE

RECORDINGS = Recordings("gemini-generatecontent")
MODEL = "gemini-3-pro"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("a b", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def accept(body: Any) -> None:
    """Held against the SDK's own types, which forbid what they do not know."""
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    if "systemInstruction" in body:
        types.Content.model_validate(body["systemInstruction"])
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    if "toolConfig" in body:
        types.ToolConfig.model_validate(body["toolConfig"])


def body_of(*messages: Message, model: str = MODEL, system: str = "", **parameters: Any) -> Any:
    request = ModelRequest("turn", messages, system, TOOLS, parameters=parameters)
    body = gemini_request(request, model, profile_of(model))
    accept(body)
    return body


def own(kind: str, value: str, model: str = MODEL) -> Opaque:
    return Opaque(PROVIDER_NAME, model, kind, value)


def test_parameters_go_where_they_belong() -> None:
    body = body_of(
        HELLO, system="Be brief.", temperature=0.5, thinkingConfig={"thinkingBudget": 0}, safetySettings=[], topP=None
    )
    assert body["generationConfig"] == {"temperature": 0.5, "thinkingConfig": {"thinkingBudget": 0}}
    assert body["safetySettings"] == []
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [declared["name"] for declared in body["tools"][0]["functionDeclarations"]] == ["add", function_name("a b")]
    assert "parameters" not in body["tools"][0]["functionDeclarations"][1]


def test_a_tool_of_the_providers_own_stands_beside_ours() -> None:
    assert body_of(HELLO, tools=[{"googleSearch": {}}])["tools"][1] == {"googleSearch": {}}


def test_results_name_their_call_and_are_in_one_content_with_their_media_behind() -> None:
    calls = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c2", "a b", "not json"))
    picture = ImageBlock(Base64Source("aGk=", "image/png"))
    messages = (HELLO, assistant(*calls), result("c1", TextBlock("see"), picture), result("c2", is_error=True))
    contents = body_of(*messages, model="gemini-2.5-pro")["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [
        {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}},
        {"functionCall": {"id": "c2", "name": function_name("a b"), "args": {}}},
    ]
    assert contents[2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "see\n(an image is attached below)"}}},
        {"functionResponse": {"id": "c2", "name": function_name("a b"), "response": {"error": ""}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]


def test_signatures_go_back_on_the_same_part_and_only_to_the_model_that_made_them() -> None:
    item = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    answer = assistant(
        ReasoningBlock("mine", 0, own(SIGNATURE, "dGhvdWdodA==")),
        ReasoningBlock("unsigned", 1),
        ReasoningBlock("another's", 2, own(SIGNATURE, "eA==", "gemini-2.5-pro")),
        ReasoningBlock("", 3, own(ITEM, json.dumps(item))),
        TextBlock("Sure.", 4, own(SIGNATURE, "dGV4dA==")),
        ReasoningBlock("", 5, own(TEXT_SIGNATURE, "ZW5k")),
        ToolCall("c1", "add", "{}", 6, own(SIGNATURE, "Y2FsbA==")),
        ToolCall("c2", "add", "{}", 7),
    )
    contents = body_of(HELLO, answer, result("c1"), result("c2"))["contents"]
    assert contents[1]["parts"] == [
        {"text": "mine", "thought": True, "thoughtSignature": "dGhvdWdodA=="},
        item,
        {"text": "Sure.", "thoughtSignature": "dGV4dA=="},
        {"text": "", "thoughtSignature": "ZW5k"},
        {"functionCall": {"id": "c1", "name": "add", "args": {}}, "thoughtSignature": "Y2FsbA=="},
        {"functionCall": {"id": "c2", "name": "add", "args": {}}},
    ]


def test_calls_from_elsewhere_say_so_to_a_model_that_insists_on_signatures() -> None:
    assert base64.b64decode(FOREIGN_SIGNATURE) == b"skip_thought_signature_validator"
    foreign = ToolCall("c1", "add", "{}", 0, own(SIGNATURE, "eA==", "gemini-2.5-pro"))
    messages = (HELLO, assistant(foreign, ToolCall("c2", "add", "{}", 1)), result("c1"), result("c2"))
    signed = [part.get("thoughtSignature") for part in body_of(*messages)["contents"][1]["parts"]]
    assert signed == [FOREIGN_SIGNATURE, None]
    older = body_of(*messages, model="gemini-2.5-flash")["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in older] == [None, None]
    before = body_of(*messages, HELLO)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in before] == [None, None]


def test_the_first_content_is_a_users_and_so_is_the_last() -> None:
    contents = body_of(assistant(TextBlock("Welcome!")))["contents"]
    assert [content["parts"][0]["text"] for content in contents] == [OPENING, "Welcome!", "(go on)"]
    assert body_of()["contents"] == [{"role": "user", "parts": [{"text": OPENING}]}]
    assert body_of(Message("u", "user"))["contents"][0]["parts"] == [{"text": NO_CONTENT}]


def test_media_go_as_the_api_takes_them_and_a_note_stands_for_the_rest() -> None:
    parts = body_of(
        Message(
            "u",
            "user",
            (
                ImageBlock(Base64Source("aGk=", "image/PNG")),
                VideoBlock(UrlSource("gs://bucket/a.mp4", "video/mp4")),
                DocumentBlock(FileSource("https://generativelanguage.googleapis.com/v1beta/files/x", "gemini")),
                DocumentBlock(Base64Source("e30=", "application/json")),
                ImageBlock(FileSource("file-1", "openai")),
                ImageBlock(UrlSource("ftp://x/a.png")),
                ImageBlock(Base64Source("", "image/png")),
            ),
        )
    )["contents"][0]["parts"]
    assert parts == [
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "gs://bucket/a.mp4", "mimeType": "video/mp4"}},
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x"}},
        {"inlineData": {"mimeType": "text/plain", "data": "e30="}},
        {"text": "(an image was left out: it is kept by another provider)"},
        {"text": "(an image was left out: the model cannot reach it where it is)"},
        {"text": "(an image was left out: its data is empty or broken)"},
    ]


def test_no_tool_may_be_called_where_an_answer_is_wanted_now() -> None:
    forced: JsonObject = {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}
    request = ModelRequest("turn", (HELLO,), tools=TOOLS, tool_choice="none", parameters=forced)
    body: Any = gemini_request(request, MODEL, profile_of(MODEL))
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == "NONE"
    without = ModelRequest("turn", (HELLO,), parameters=forced)
    assert "toolConfig" not in gemini_request(without, MODEL, profile_of(MODEL))


def test_a_tool_that_has_to_be_called_is_the_only_one_allowed() -> None:
    request = ModelRequest("turn", (HELLO,), tools=TOOLS, tool_choice=OneTool(TOOLS[0].name))
    body: Any = gemini_request(request, MODEL, profile_of(MODEL))
    assert body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": [TOOLS[0].name]}


@REPEATABLE
@given(any_histories())
def test_any_history_becomes_a_request_that_the_api_takes(history: list[Message]) -> None:
    for model in (MODEL, "gemini-2.5-flash"):
        body: Any = gemini_request(ModelRequest("turn", model_view(history), tools=TOOLS), model, profile_of(model))
        accept(json.loads(json.dumps(body)))
        contents = body["contents"]
        assert [content["role"] for content in contents] == [("user", "model")[at % 2] for at in range(len(contents))]
        assert contents[-1]["role"] == "user"
        waiting: list[str] = []
        for content in contents:
            parts = content["parts"]
            assert parts
            assert [p["functionResponse"]["id"] for p in parts if "functionResponse" in p] == waiting
            waiting = [p["functionCall"]["id"] for p in parts if "functionCall" in p]


def test_a_tool_whose_schema_is_a_choice_keeps_its_parameters() -> None:
    members: JsonObject = {"properties": {"a": {"type": "string"}}}
    union = ToolSpec("pick", "", {"oneOf": [members, {"properties": {"b": {"type": "number"}}}]})
    body: Any = gemini_request(ModelRequest("turn", (HELLO,), tools=(union,)), MODEL, profile_of(MODEL))
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert sorted(declared["parameters"]["properties"]) == ["a", "b"]


@each(RECORDINGS.entries)
def test_the_recorded_conversation_would_be_asked_the_same_way(entry: Entry) -> None:
    recorded = RECORDINGS.request(entry)
    messages = [message for content in recorded["contents"] for message in _canonical(content)]
    tools = [
        ToolSpec(declared["name"], declared["description"], _lower(declared["parameters"]))
        for tool in recorded.get("tools", ())
        for declared in tool["functionDeclarations"]
    ]
    system = "".join(part["text"] for part in recorded.get("systemInstruction", {}).get("parts", ()))
    parameters = {name: recorded[name] for name in ("generationConfig", "safetySettings") if recorded.get(name)}
    request = ModelRequest("turn", tuple(messages), system, tuple(tools), parameters=parameters)
    body: Any = gemini_request(request, "gemini-2.5-pro", profile_of("gemini-2.5-pro"))
    accept(body)
    assert body["contents"] == recorded["contents"]
    assert body.get("generationConfig", {}) == recorded["generationConfig"]
    assert body.get("safetySettings") == recorded.get("safetySettings")
    for tool, expected in zip(body.get("tools", ()), recorded.get("tools", ()), strict=True):
        for one, other in zip(tool["functionDeclarations"], expected["functionDeclarations"], strict=True):
            assert one.get("parameters", {"type": "OBJECT", "properties": {}}) == other["parameters"]


def _canonical(content: dict[str, Any]) -> list[Message]:
    made: list[Message] = []
    for part in content["parts"]:
        match part:
            case {"text": text}:
                made.append(Message("u", "user", (TextBlock(text),)))
            case {"functionCall": {"id": call_id, "name": name, "args": args}}:
                made.append(Message("a", "assistant", (ToolCall(call_id, name, json.dumps(args)),), turn_id=call_id))
            case {"functionResponse": {"id": call_id, "response": response}}:
                text = TextBlock(response["return_value"])
                response["output"] = response.pop("return_value")
                made.append(Message("t", "tool", (ToolResult(call_id, (text,)),), turn_id=call_id))
            case _:
                raise AssertionError(part)
    return made


def _lower(schema: Any) -> Any:
    """The recorded schema as JSON Schema spells it."""
    if isinstance(schema, dict):
        return {k: v.lower() if k == "type" and isinstance(v, str) else _lower(v) for k, v in schema.items()}
    return schema


def test_a_picture_that_the_model_made_goes_back_to_it_with_its_signature() -> None:
    source = Base64Source("aGk=", "image/png")
    for opaque, signed in ((own(SIGNATURE, "c2ln"), {"thoughtSignature": "c2ln"}), (own(SIGNATURE, "c2ln", "b"), {})):
        messages = (HELLO, assistant(TextBlock("See"), ImageBlock(source, opaque=opaque)), user("Larger"))
        picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, **signed}
        assert body_of(*messages)["contents"][1] == {"role": "model", "parts": [{"text": "See"}, picture]}
