"""Gemini: recorded streams become canonical events, any history becomes a request that the API takes."""

from __future__ import annotations

import base64
import json
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest
from google.genai import types
from hypothesis import given

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import StopReason
from gateway.gemini.generate_content import (
    FAILED_REASONS,
    ITEM,
    PROVIDER_NAME,
    SIGNATURE,
    STOP_REASONS,
    TEXT_SIGNATURE,
    function_name,
    profile_of,
)
from gateway.gemini.request import FOREIGN_SIGNATURE, gemini_request
from gateway.history import model_view
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
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
from gateway.model import Model, ModelRequest, OneTool
from gateway.models.gemini_generatecontent import PROVIDER, GenerateContentReader
from gateway.wire.stand_ins import NO_CONTENT, OPENING
from tests import provider_scene
from tests.history_samples import any_histories
from tests.model_answers import Answer, answer_of, collect, read_to_end
from tests.openai_chat_server import ChatServer, Script, chat_server
from tests.provider_scene import Fault, connection_faults, failure_of
from tests.recorded_traffic import Entry, Recordings, beginnings, each, ways_to_cut
from tests.said_messages import assistant, result
from tests.word_samples import REPEATABLE

RECORDINGS = Recordings("gemini-generatecontent")
MODEL = "gemini-3-pro"
KEY = "AIza-secret-0123456789"
TOOLS = (ToolSpec("add", "Add.", {"properties": {"a": {"type": "number"}}}), ToolSpec("a b", "", {}))
HELLO = Message("u1", "user", (TextBlock("Hi"),))
REQUEST = ModelRequest("turn", (HELLO,), tools=TOOLS)


def read(*pieces: bytes) -> tuple[Answer, ModelError | None]:
    events, failure = read_to_end(GenerateContentReader(REQUEST, MODEL), pieces)
    return (Answer() if failure is not None else answer_of(events)), failure


def answered(*pieces: bytes) -> Answer:
    answer, failed = read(*pieces)
    assert failed is None
    return answer


def failed(*pieces: bytes) -> ModelError:
    _, failure = read(*pieces)
    assert failure is not None
    return failure


def record(chunk: JsonObject) -> bytes:
    """As the service frames it."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\r\n\r\n"


def chunk(*parts: JsonObject, finish: str | None = None, **more: JsonValue) -> bytes:
    content: JsonObject = {"role": "model", "parts": list(parts)}
    candidate: JsonObject = {"content": content, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return record({"candidates": [candidate], **more})


# --- recorded traffic ------------------------------------------------------------------------------------------------

each_stream = each(RECORDINGS.of_kind("sse"))


def check(answer: Answer, expect: dict[str, Any]) -> None:
    assert answer.text == expect["text"]
    assert answer.reasoning == expect["reasoning"]
    assert [(name, json.loads(arguments)) for _, name, arguments in answer.calls] == [
        (tool["name"], json.loads(tool["args"])) for tool in expect["tools"]
    ]
    assert all(call_id.startswith("call_") for call_id, _, _ in answer.calls)
    counts, usage = expect["usage"], answer.usage
    assert usage is not None
    assert usage.input_tokens == counts["promptTokenCount"]
    assert usage.total_tokens == counts["totalTokenCount"]
    assert usage.reasoning_tokens == counts.get("thoughtsTokenCount")
    expected = StopReason.TOOL_CALLS if expect["tools"] else StopReason.END_TURN
    assert (answer.stop, answer.raw_stop) == (expected, expect["stop"])


@each_stream
def test_a_recording_gives_what_its_manifest_says_however_it_is_cut(entry: Entry) -> None:
    for pieces in ways_to_cut(RECORDINGS.answer(entry)):
        check(answered(*pieces), entry["expect"])


@each_stream
def test_a_recorded_stream_that_breaks_off_before_its_last_chunk_is_no_answer(entry: Entry) -> None:
    data = RECORDINGS.answer(entry)
    for begun in beginnings(data, data.index(b'"finishReason"')):
        failure = failed(begun)
        assert (failure.kind, failure.retryable) == (ModelErrorKind.TRUNCATED, True)


def test_a_recorded_answer_that_was_blocked_is_filtered() -> None:
    (entry,) = RECORDINGS.of_kind("json")
    answer = answered(record(json.loads(RECORDINGS.answer(entry))))
    assert (answer.stop, answer.raw_stop) == (StopReason.CONTENT_FILTER, "SAFETY")


def test_every_recording_is_in_the_manifest() -> None:
    RECORDINGS.check_manifest()


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


# --- responses -------------------------------------------------------------------------------------------------------


def test_calls_side_by_side_are_apart_and_keep_their_signature() -> None:
    first: JsonObject = {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    second: JsonObject = {"functionCall": {"id": "g7", "name": function_name("a b"), "args": {}}}
    answer = answered(chunk({"text": "Sure."}), chunk(first, second, finish="STOP"))
    assert [(name, arguments) for _, name, arguments in answer.calls] == [("add", '{"a":1}'), ("a b", "{}")]
    assert answer.calls[1][0] == "g7"
    assert answer.stop is StopReason.TOOL_CALLS
    reader = GenerateContentReader(REQUEST, MODEL)
    ended = [e for e in reader.feed(chunk(first, finish="STOP")) if type(e).__name__ == "ToolCallEnded"]
    assert [e.opaque for e in ended] == [Opaque(PROVIDER_NAME, MODEL, SIGNATURE, "c2ln")]  # type: ignore[union-attr]


def test_a_signature_is_on_its_thought_on_its_text_or_behind_a_text_of_many_parts() -> None:
    thought: JsonObject = {"text": "hm", "thought": True, "thoughtSignature": "dGhvdWdodA=="}
    answer = answered(chunk(thought), chunk({"text": "OK", "thoughtSignature": "d2hvbGU="}, finish="STOP"))
    assert [(o.kind, o.value) for o in answer.opaques] == [(SIGNATURE, "dGhvdWdodA=="), (SIGNATURE, "d2hvbGU=")]
    parts = [
        chunk({"text": "Hel"}),
        chunk({"text": "lo"}),
        chunk({"text": "", "thoughtSignature": "ZW5k"}, finish="STOP"),
    ]
    answer = answered(*parts)
    assert answer.text == "Hello"
    assert [(o.kind, o.value) for o in answer.opaques] == [(TEXT_SIGNATURE, "ZW5k")]


def test_what_ran_or_was_made_at_the_provider_is_kept_and_shown() -> None:
    code: JsonObject = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    outcome: JsonObject = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    answer = answered(chunk({"text": "Let me see."}, code), chunk(outcome, {"text": "2"}, finish="STOP"))
    assert answer.raws == [code, outcome]
    assert [(o.kind, json.loads(o.value)) for o in answer.opaques] == [(ITEM, code), (ITEM, outcome)]
    assert answer.text == "Let me see.2"


@pytest.mark.parametrize("in_one_read", [True, False])
def test_counts_are_those_of_the_last_chunk_that_has_any(in_one_read: bool) -> None:
    chunks = [
        chunk({"text": f"{n} "}, usageMetadata={"promptTokenCount": 10, "candidatesTokenCount": n}) for n in range(8)
    ]
    chunks.append(chunk({"text": "end"}, finish="STOP"))
    answer = answered(b"".join(chunks)) if in_one_read else answered(*chunks)
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 7)


def test_counts_are_those_of_the_last_chunk() -> None:
    usage: JsonObject = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    more: JsonObject = usage | {"toolUsePromptTokenCount": 2, "cachedContentTokenCount": 5, "candidatesTokenCount": 6}
    answer = answered(
        chunk({"text": "a"}, usageMetadata=usage), chunk({"text": "b"}, finish="STOP", usageMetadata=more)
    )
    found = answer.usage
    assert found is not None
    assert (found.input_tokens, found.output_tokens, found.reasoning_tokens, found.cached_input_tokens) == (
        12,
        10,
        4,
        5,
    )


@pytest.mark.parametrize(("word", "reason"), STOP_REASONS.items())
def test_the_finish_reason_tells_the_stop_reason(word: str, reason: str) -> None:
    assert answered(chunk({"text": "Hi"}, finish=word)).stop == StopReason(reason)


@pytest.mark.parametrize(("word", "kind"), FAILED_REASONS.items())
def test_a_finish_reason_that_says_that_it_failed_is_a_failure(word: str, kind: str) -> None:
    assert failed(chunk({"text": "Hi"}, finish=word)).kind is ModelErrorKind(kind)


def test_a_prompt_that_was_blocked_is_filtered() -> None:
    answer = answered(record({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    assert (answer.stop, answer.raw_stop) == (StopReason.CONTENT_FILTER, "PROHIBITED_CONTENT")


def test_an_error_in_the_middle_is_an_error_of_its_kind() -> None:
    error: JsonObject = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    assert failed(chunk({"text": "Hi"}), record(error)).kind is ModelErrorKind.OVERLOADED


def test_half_a_character_in_a_call_is_no_failure_of_ours() -> None:
    call = rb'{"functionCall": {"id": "c1", "name": "add", "args": {"a": "\ud83d"}}}'
    ran = rb'{"executableCode": {"language": "PYTHON", "code": "\ud83d"}}'
    whole = b'data: {"candidates": [{"content": {"parts": [%s, %s]}, "finishReason": "STOP"}]}\n\n'
    assert answered(whole % (ran, call)).calls == [("c1", "add", '{"a":"\\ud83d"}')]


@pytest.mark.parametrize("start", [b"<!DOCTYPE html>", b'[{"candidates": []}]', b"data: {broken\n\n"])
def test_what_is_no_stream_of_chunks_is_an_error(start: bytes) -> None:
    assert failed(start).kind is ModelErrorKind.PROTOCOL


# --- requests --------------------------------------------------------------------------------------------------------


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


def test_a_key_that_the_provider_quotes_is_in_no_log() -> None:
    error: JsonObject = {"code": 400, "status": "INVALID_ARGUMENT", "message": f"API key not valid: {KEY}"}
    failure = failed(record({"error": error}))
    assert failure.kind is ModelErrorKind.AUTHENTICATION
    assert KEY not in failure.provider_message


# --- over a socket ---------------------------------------------------------------------------------------------------


def model_behind(*scripts: Script) -> AbstractAsyncContextManager[tuple[Model, ChatServer]]:
    return provider_scene.model_behind(PROVIDER, MODEL, *scripts, server=chat_server, key=KEY)


def refused(status: int, word: str, message: str = "no") -> Script:
    body = json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()
    return Script(status, (body,), "application/json", framing="length")


async def test_an_answer_comes_as_events_and_the_request_goes_out_as_it_should() -> None:
    script = Script(pieces=(chunk({"text": "Hel"}), chunk({"text": "lo 👋"}, finish="STOP")))
    async with model_behind(script) as (model, server):
        answer = answer_of(await collect(model.stream(REQUEST)))
    assert (answer.text, answer.stop) == ("Hello 👋", StopReason.END_TURN)
    (received,) = server.requests
    assert (received.method, received.target) == ("POST", f"/v1/models/{MODEL}:streamGenerateContent?alt=sse")
    assert received.headers["x-goog-api-key"] == KEY
    assert received.json["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


async def test_closing_the_stream_closes_the_socket() -> None:
    async with model_behind(Script(pieces=(chunk({"text": "Hi"}),), ending="silence")) as (model, server):
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        await server.requests[0].disconnected.wait()


CUT = (chunk({"text": "Hel"}),)
FAULTS: dict[str, Fault] = {
    "429": (refused(429, "RESOURCE_EXHAUSTED"), ModelErrorKind.THROTTLED, True),
    "503": (refused(503, "UNAVAILABLE"), ModelErrorKind.OVERLOADED, True),
    "500": (refused(500, "INTERNAL"), ModelErrorKind.SERVER, True),
    "403": (refused(403, "PERMISSION_DENIED", f"key {KEY} has no access"), ModelErrorKind.AUTHENTICATION, False),
    "404": (refused(404, "NOT_FOUND"), ModelErrorKind.NOT_FOUND, False),
    "400": (refused(400, "INVALID_ARGUMENT"), ModelErrorKind.INVALID, False),
    "too long": (
        refused(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        ModelErrorKind.CONTEXT_OVERFLOW,
        False,
    ),
    **connection_faults(CUT),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_an_error_of_its_kind_and_never_an_end(fault: str) -> None:
    script, kind, retryable = FAULTS[fault]
    async with model_behind(script) as (model, _):
        error = await failure_of(model, REQUEST, key=KEY)
    assert (error.kind, error.retryable) == (kind, retryable)


async def test_an_answer_whose_connection_breaks_after_its_finish_reason_is_whole() -> None:
    script = Script(pieces=(chunk({"text": "Hi"}, finish="STOP"),), ending="close")
    async with model_behind(script) as (model, _):
        assert answer_of(await collect(model.stream(REQUEST))).stop is StopReason.END_TURN
