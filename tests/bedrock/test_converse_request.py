"""gateway.bedrock.converse_request: every body is checked against botocore's service model."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bedrock.converse import NO_TOOL, PROVIDER_NAME
from gateway.bedrock.converse_request import converse_request, encoded
from gateway.bedrock.families import FAMILIES, UNKNOWN, Family, family_of
from gateway.bedrock.guardrails import BLOCKED_INPUT, WITHHELD
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    Message,
    Opaque,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
    VideoBlock,
)
from gateway.model import ModelRequest
from gateway.options.generation import OneTool
from tests.bedrock_recordings import recorded_model_id, recorded_request, recordings
from tests.converse_rules import broken_rules
from tests.said_messages import message, result

CLAUDE_ID = "us.anthropic.claude-sonnet-4-20250514-v1:0"
NOVA_ID = "us.amazon.nova-lite-v1:0"
LLAMA_ID = "us.meta.llama3-3-70b-instruct-v1:0"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()

_SERVICE = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"), "bedrock-runtime")
_INPUT = _SERVICE.operation_model("ConverseStream").input_shape


def written(request: ModelRequest, model_id: str = CLAUDE_ID, family: Family | None = None) -> Any:
    """The body as it arrives, after botocore and the turn rules had nothing to say against it."""
    family = family or family_of(model_id)
    body = orjson.loads(encoded(converse_request(request, model_id, family).body))
    report = ParamValidator().validate({"modelId": model_id, **body}, _INPUT)
    assert not report.has_errors(), report.generate_report()
    assert broken_rules(body["messages"], family) == []
    return body


def asked(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest("turn", messages, **fields)


USER = message("user", "hi")
CALLED = message("assistant", "let me see", ToolCall("a", "add", '{"x": 1}'))


def test_a_conversation_with_a_tool_reads_as_it_was() -> None:
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {"x": {"type": "integer"}}})
    body = written(asked(USER, CALLED, result("a", "5"), system="Be brief.", tools=(tool,)))
    assert body == {
        "messages": [
            {"role": "user", "content": [{"text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "let me see"},
                    {"toolUse": {"toolUseId": "a", "name": "add", "input": {"x": 1}}},
                ],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "5"}], "status": "success"}}],
            },
        ],
        "system": [{"text": "Be brief."}],
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "add",
                        "description": "Adds.",
                        "inputSchema": {"json": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                    }
                }
            ]
        },
    }


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("", {}),
        ("{", {}),
        ("[1]", {}),
        ('"text"', {}),
        ("null", {}),
        ('{"a": NaN}', {}),
        ('{"a": 1}{"b": 2}', {}),
        ("[" * 2000, {}),
    ],
)
def test_arguments_are_always_an_object(arguments: str, sent: object) -> None:
    body = written(asked(USER, message("assistant", ToolCall("a", "add", arguments)), result("a", "5")))
    assert body["messages"][1]["content"][0]["toolUse"]["input"] == sent


def test_a_history_with_calls_declares_a_tool_even_when_none_is_offered() -> None:
    tool = ToolSpec("add", "", {})
    for request in (asked(USER, CALLED, result("a")), asked(USER, CALLED, tools=(tool,), tool_choice="none")):
        (declared,) = written(request)["toolConfig"]["tools"]
        assert declared["toolSpec"]["name"] == NO_TOOL
    assert "toolConfig" not in written(asked(USER, tools=(tool,), tool_choice="none"))
    assert "toolConfig" not in written(asked(USER))


@pytest.mark.parametrize("model_id", [CLAUDE_ID, NOVA_ID])
def test_a_tool_that_has_to_be_called_is_named(model_id: str) -> None:
    tools = (ToolSpec("add", "", {}), ToolSpec("my.tool", "", {}))
    config = written(asked(USER, tools=tools, tool_choice=OneTool("my.tool")), model_id)["toolConfig"]
    assert config["toolChoice"] == {"tool": {"name": config["tools"][1]["toolSpec"]["name"]}}


def test_a_family_that_cannot_be_told_which_tool_to_call_is_asked_without(caplog: pytest.LogCaptureFixture) -> None:
    request = asked(USER, tools=(ToolSpec("add", "", {}),), tool_choice=OneTool("add"))
    assert "toolChoice" not in written(request, LLAMA_ID)["toolConfig"]
    assert "cannot be told which tool to call" in caplog.text


def test_claude_thinks_nothing_about_a_tool_that_has_to_be_called() -> None:
    """Claude refuses a forced tool together with thinking."""
    thinking: Any = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    request = asked(USER, tools=(ToolSpec("add", "", {}),), tool_choice=OneTool("add"), parameters=thinking)
    assert written(request)["additionalModelRequestFields"]["thinking"] == {"type": "disabled"}


def test_tool_names_are_mapped_there_and_back_and_stand_once() -> None:
    tools = (ToolSpec("mcp.server:find it", "  ", {}), ToolSpec("add", "one", {}), ToolSpec("add", "two", {}))
    request = asked(USER, message("assistant", ToolCall("a", "mcp.server:find it", "{}")), tools=tools)
    body = written(request)
    first, second = body["toolConfig"]["tools"]
    assert first["toolSpec"]["inputSchema"] == {"json": {"type": "object", "properties": {}}}
    assert "description" not in first["toolSpec"]
    assert second["toolSpec"]["description"] == "one"
    name = first["toolSpec"]["name"]
    assert body["messages"][1]["content"][0]["toolUse"]["name"] == name
    assert converse_request(request, CLAUDE_ID, UNKNOWN).names == {name: "mcp.server:find it"}


def test_ids_of_other_providers_are_mapped_alike_in_call_and_result() -> None:
    call_id = "call_1|fc_" + "x" * 80
    body = written(asked(USER, message("assistant", ToolCall(call_id, "add", "{}")), result(call_id, "5")))
    sent = body["messages"][1]["content"][0]["toolUse"]["toolUseId"]
    assert sent == body["messages"][2]["content"][0]["toolResult"]["toolUseId"]
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "5"}]


def test_system_and_developer_messages_are_folded_into_the_system_prompt() -> None:
    request = asked(
        message("system", "one"), USER, message("developer", " "), message("developer", "two"), system="zero"
    )
    body = written(request)
    assert body["system"] == [{"text": "zero"}, {"text": "one"}, {"text": "two"}]
    assert body["messages"] == [{"role": "user", "content": [{"text": "hi"}]}]
    old = written(request, "mistral.mistral-7b-instruct-v0:2")
    assert "system" not in old
    assert old["messages"][0]["content"] == [{"text": word} for word in ("zero", "one", "two", "hi")]


def reasoning(kind: str = "signature", provider: str = PROVIDER_NAME, model: str = CLAUDE_ID) -> ReasoningBlock:
    return ReasoningBlock("hm", opaque=Opaque(provider, model, kind, "c2ln"))


def test_signed_and_sealed_reasoning_goes_back_to_the_model_that_made_it() -> None:
    sealed = ReasoningBlock("", opaque=Opaque(PROVIDER_NAME, CLAUDE_ID, "redacted", "c2VhbA=="))
    answer = message("assistant", reasoning(), sealed, "so", ToolCall("a", "add", "{}"))
    content = written(asked(USER, answer))["messages"][1]["content"]
    assert content[0] == {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    assert content[1] == {"reasoningContent": {"redactedContent": "c2VhbA=="}}
    assert content[2] == {"text": "so"}


def test_the_region_group_makes_no_other_model() -> None:
    answer = message("assistant", reasoning(model=CLAUDE_ID.replace("us.", "eu.")), "so")
    assert "reasoningContent" in written(asked(USER, answer))["messages"][1]["content"][0]


@pytest.mark.parametrize(
    "block",
    [
        ReasoningBlock("unsigned"),
        reasoning(provider="openai/v1/responses"),
        reasoning(model="us.anthropic.claude-opus-4-20250514-v1:0"),
    ],
)
def test_other_reasoning_does_not_go_back(block: ReasoningBlock) -> None:
    body = written(asked(USER, message("assistant", block, "so")))
    assert body["messages"][1]["content"] == [{"text": "so"}]


@pytest.mark.parametrize("model_id", [NOVA_ID, LLAMA_ID, "us.deepseek.r1-v1:0", "openai.gpt-oss-120b-1:0"])
def test_families_that_take_no_reasoning_back_get_none(model_id: str) -> None:
    body = written(asked(USER, message("assistant", reasoning(model=model_id), "so")), model_id)
    assert body["messages"][1]["content"] == [{"text": "so"}]


def test_a_failed_call_says_so_in_the_way_that_the_family_knows() -> None:
    request = asked(USER, CALLED, result("a", "no such file", is_error=True))
    claude = written(request)["messages"][2]["content"][0]["toolResult"]
    assert claude == {"toolUseId": "a", "content": [{"text": "no such file"}], "status": "error"}
    llama = written(request, LLAMA_ID)["messages"][2]["content"][0]["toolResult"]
    assert llama == {"toolUseId": "a", "content": [{"text": "The call failed:"}, {"text": "no such file"}]}
    empty = written(asked(USER, CALLED, result("a", is_error=True)))["messages"][2]["content"][0]["toolResult"]
    assert empty["content"] == [{"text": "(no output)"}]


def test_media_in_results_stay_inside_where_the_family_takes_them_and_follow_where_not() -> None:
    picture = ImageBlock(Base64Source(PNG, "image/png"))
    request = asked(USER, CALLED, result("a", "look", picture))
    inside = written(request)["messages"][2]["content"][0]["toolResult"]["content"]
    assert inside == [{"text": "look"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
    messages = written(request, LLAMA_ID)["messages"]
    assert messages[2]["content"][0]["toolResult"]["content"] == [
        {"text": "look"},
        {"text": "(an image is attached below)"},
    ]
    assert messages[-1]["content"] == [{"image": {"format": "png", "source": {"bytes": PNG}}}]


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (ImageBlock(Base64Source(PNG, "image/jpeg")), {"image": {"format": "png", "source": {"bytes": PNG}}}),
        (
            ImageBlock(Base64Source(PNG[:16] + "\r\n" + PNG[16:], "image/png")),
            {"image": {"format": "png", "source": {"bytes": PNG}}},
        ),
        (
            DocumentBlock(Base64Source("YSxi", "text/csv"), "tables/Q1_sales.csv"),
            {"document": {"format": "csv", "name": "tables Q1 sales", "source": {"bytes": "YSxi"}}},
        ),
        (
            VideoBlock(UrlSource("s3://films/one.mp4")),
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://films/one.mp4"}}}},
        ),
        (
            DocumentBlock(FileSource("s3://papers/law.pdf", PROVIDER_NAME)),
            {
                "document": {
                    "format": "pdf",
                    "name": "law",
                    "source": {"s3Location": {"uri": "s3://papers/law.pdf"}},
                }
            },
        ),
        (
            AudioBlock(Base64Source("AAAA", "audio/wav")),
            {"audio": {"format": "wav", "source": {"bytes": "AAAA"}}},
        ),
    ],
)
def test_media_are_sent_as_what_they_are(block: ContentBlock, sent: object) -> None:
    assert written(asked(message("user", "see", block)), NOVA_ID)["messages"][0]["content"][1] == sent


@pytest.mark.parametrize(
    ("block", "note"),
    [
        (ImageBlock(Base64Source("", "image/png")), "an image was left out: its data is empty or broken"),
        (ImageBlock(Base64Source("!!!", "image/png")), "an image was left out: its data is empty or broken"),
        (ImageBlock(Base64Source("AAAA", "image/tiff")), "an image was left out: the model does not take its format"),
        (ImageBlock(Base64Source("A" * 5_300_000, "image/png")), "an image was left out: it is larger than"),
        (ImageBlock(FileSource("file-123")), "an image was left out: the model cannot reach it where it is"),
        (AudioBlock(UrlSource("ftp://x/y")), "an audio was left out: the model cannot reach it where it is"),
        (VideoBlock(UrlSource("s3://films/one")), "a video was left out: the model does not take its format"),
    ],
)
def test_media_that_cannot_be_sent_leave_a_note(block: ContentBlock, note: str) -> None:
    (turn,) = written(asked(message("user", block)))["messages"]
    assert note in turn["content"][0]["text"]


def test_parameters_and_cache_points_are_part_of_the_body() -> None:
    tool = ToolSpec("add", "", {})
    parameters: JsonObject = {"temperature": 0.1, "max_tokens": 9, "top_k": 3, "prompt_caching": "5m"}
    body = written(asked(USER, system="Be brief.", tools=(tool,), parameters=parameters))
    assert body["inferenceConfig"] == {"temperature": 0.1, "maxTokens": 9}
    assert body["additionalModelRequestFields"] == {"top_k": 3}
    point = {"cachePoint": {"type": "default", "ttl": "5m"}}
    assert [body["system"][-1], body["toolConfig"]["tools"][-1], body["messages"][-1]["content"][-1]] == [point] * 3


def test_half_a_surrogate_pair_and_huge_numbers_do_not_keep_a_request_from_being_sent() -> None:
    request = asked(
        message("user", "a\ud83d b\ud83d\ude00"), message("assistant", ToolCall("a", "add", '{"x": 1e999}')), USER
    )
    body = written(request)
    assert body["messages"][0]["content"] == [{"text": "a? b\N{GRINNING FACE}"}]


@pytest.mark.parametrize("entry", [*recordings("json"), *recordings("eventstream")], ids=lambda e: str(e["request"]))
def test_a_recorded_request_can_be_written_anew(entry: dict[str, Any]) -> None:
    """What the service accepted once is what this writes for the same conversation, but for what is empty."""
    recorded, model_id = recorded_request(entry), recorded_model_id(entry)
    parameters = {key: value for key, value in recorded.items() if key not in ("messages", "system", "toolConfig")}
    tools = tuple(
        ToolSpec(
            tool["toolSpec"]["name"], tool["toolSpec"].get("description", ""), tool["toolSpec"]["inputSchema"]["json"]
        )
        for tool in recorded.get("toolConfig", {}).get("tools", [])
    )
    messages = [canonical(turn, model_id) for turn in recorded["messages"]]
    system = "".join(block["text"] for block in recorded.get("system", []))
    body = written(asked(*messages, system=system, tools=tools, parameters=parameters), model_id)
    assert body == {key: value for key, value in recorded.items() if value}


def canonical(turn: dict[str, Any], model_id: str) -> Message:
    blocks: list[ContentBlock] = []
    for block in turn["content"]:
        match block:
            case {"text": text}:
                blocks.append(TextBlock(text))
            case {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}:
                blocks.append(ReasoningBlock(text, opaque=Opaque(PROVIDER_NAME, model_id, "signature", signature)))
            case {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}:
                blocks.append(ToolCall(call_id, name, orjson.dumps(arguments).decode()))
            case {"toolResult": {"toolUseId": call_id, "content": parts}}:
                blocks.append(ToolResult(call_id, tuple(TextBlock(part["text"]) for part in parts)))
            case _:
                raise AssertionError(f"a block that this does not know: {block}")
    return message("tool" if any(isinstance(b, ToolResult) for b in blocks) else turn["role"], *blocks)


WORDS = st.one_of(st.sampled_from(["", " ", "hi"]), st.text(max_size=6))
IDS = st.one_of(st.sampled_from(["a", "b", "c|d"]), st.text(max_size=3))
SOURCES = st.one_of(
    st.builds(
        Base64Source, st.sampled_from([PNG, "AAAA", "!", ""]), st.sampled_from(["image/png", "text/plain", "x/y"])
    ),
    st.builds(UrlSource, st.sampled_from(["s3://b/k.png", "s3://b/k.pdf", "ftp://x"])),
    st.builds(FileSource, st.just("file-1")),
)
PARTS: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextBlock, WORDS),
    st.builds(ImageBlock, SOURCES),
    st.builds(AudioBlock, SOURCES),
    st.builds(VideoBlock, SOURCES),
    st.builds(DocumentBlock, SOURCES, st.one_of(st.none(), WORDS)),
)
BLOCKS: st.SearchStrategy[ContentBlock] = st.one_of(
    PARTS,
    st.builds(ToolCall, IDS, st.sampled_from(["add", "a b", ""]), st.sampled_from(["", "{}", '{"a":1}', "["])),
    st.builds(ToolResult, IDS, st.lists(PARTS, max_size=3).map(tuple), st.booleans()),
    st.builds(ReasoningBlock, WORDS),
    st.sampled_from([reasoning(), reasoning("redacted"), reasoning(provider="other")]),
)
ROLES: st.SearchStrategy[Role] = st.sampled_from(["system", "developer", "user", "assistant", "reasoning", "tool"])
MESSAGES = st.builds(lambda role, blocks: message(role, *blocks), ROLES, st.lists(BLOCKS, max_size=5))
SCHEMAS: st.SearchStrategy[JsonObject] = st.sampled_from([{}, {"type": "object"}, {"type": ["object", "null"]}])
TOOLS = st.builds(ToolSpec, st.one_of(st.just("add"), WORDS), WORDS, SCHEMAS)


@pytest.mark.thorough
@settings(max_examples=250, deadline=None)
@given(
    st.lists(MESSAGES, max_size=10),
    st.lists(TOOLS, max_size=3),
    WORDS,
    st.booleans(),
    st.booleans(),
    st.sampled_from([*FAMILIES, UNKNOWN]),
)
def test_any_history_becomes_a_request_that_the_service_model_and_the_turn_rules_accept(
    messages: list[Message], tools: list[ToolSpec], system: str, choose: bool, cache: bool, family: Family
) -> None:
    request = asked(
        *messages,
        system=system,
        tools=tuple(tools),
        tool_choice="auto" if choose else "none",
        parameters={"prompt_caching": cache},
    )
    body = written(request, family=family)
    mentioned = any("toolUse" in block for turn in body["messages"] for block in turn["content"])
    assert not mentioned or body["toolConfig"]["tools"]
    assert all(block.get("text", "x").strip() for block in body.get("system", []))


# --- guardrails --------------------------------------------------------------------------------------------------

GUARDRAIL: JsonObject = {"guardrailIdentifier": "abc", "guardrailVersion": "1"}


def guarded(*messages: Message, **parameters: Any) -> Any:
    """The body, which botocore accepts; the turn rules know no marks."""
    request = asked(*messages, system="Be brief.", parameters={"guardrailConfig": GUARDRAIL, **parameters})
    body = orjson.loads(encoded(converse_request(request, CLAUDE_ID, family_of(CLAUDE_ID)).body))
    report = ParamValidator().validate({"modelId": CLAUDE_ID, **body}, _INPUT)
    assert not report.has_errors(), report.generate_report()
    return body


def test_a_guardrail_tells_what_it_found_unless_the_operator_says_otherwise() -> None:
    assert guarded(USER)["guardrailConfig"] == {**GUARDRAIL, "trace": "enabled"}
    silent = {**GUARDRAIL, "trace": "disabled"}
    assert guarded(USER, guardrailConfig=silent)["guardrailConfig"] == silent


def test_a_guardrail_looks_at_all_there_is_unless_told_at_what() -> None:
    assert "guardContent" not in str(guarded(USER, CALLED, result("a", "5")))


def test_the_question_is_marked_for_the_guardrail_through_the_whole_tool_loop() -> None:
    marked = {"guardContent": {"text": {"text": "hi"}}}
    places = {"guard_content": "latest_user_message", "prompt_caching": True}
    for messages in ((USER,), (USER, CALLED, result("a", "5"))):
        body = guarded(message("user", "before"), message("assistant", "ok"), *messages, **places)
        assert body["messages"][0]["content"] == [{"text": "before"}]
        assert body["messages"][2]["content"][0] == marked
        assert body["system"][0] == {"text": "Be brief."}


def test_the_system_prompt_may_be_what_answers_are_held_against() -> None:
    places = {"latest_user_message": ["query"], "system": ["grounding_source"]}
    body = guarded(USER, guard_content=places)
    assert body["system"] == [{"guardContent": {"text": {"text": "Be brief.", "qualifiers": ["grounding_source"]}}}]
    assert body["messages"][0]["content"] == [{"guardContent": {"text": {"text": "hi", "qualifiers": ["query"]}}}]


def test_how_the_guardrail_watches_is_known_to_whoever_reads_the_answer() -> None:
    def mode(**parameters: Any) -> str:
        return converse_request(asked(USER, parameters=parameters), CLAUDE_ID, family_of(CLAUDE_ID)).guardrail

    assert mode() == "none"
    assert mode(guardrailConfig=GUARDRAIL) == "sync"
    assert mode(guardrail_config={**GUARDRAIL, "streamProcessingMode": "async"}) == "async"


def test_a_question_that_a_guardrail_blocked_is_not_asked_again() -> None:
    blocked = TextBlock("I cannot talk about that.", 0, Opaque(PROVIDER_NAME, CLAUDE_ID, BLOCKED_INPUT, "blocked"))
    history = (USER, CALLED, result("a", "5"), message("assistant", "It is 5."), message("user", "a bomb", image()))
    body = written(asked(*history, message("assistant", blocked), message("user", "thanks")))
    assert "bomb" not in str(body)
    assert [turn["content"] for turn in body["messages"][4:]] == [
        [{"text": WITHHELD}],
        [{"text": "I cannot talk about that."}],
        [{"text": "thanks"}],
    ]
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "5"}]


def test_results_of_tools_stay_where_an_answer_was_blocked_behind_them() -> None:
    blocked = TextBlock("I cannot talk about that.", 0, Opaque(PROVIDER_NAME, CLAUDE_ID, BLOCKED_INPUT, "blocked"))
    body = written(asked(USER, CALLED, result("a", "5"), message("assistant", blocked), message("user", "thanks")))
    assert body["messages"][0]["content"] == [{"text": "hi"}]
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "5"}]


def image() -> ImageBlock:
    return ImageBlock(Base64Source(PNG, "image/png"))
