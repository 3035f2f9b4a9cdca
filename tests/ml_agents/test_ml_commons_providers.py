"""What ml-commons' agents send to Bedrock, OpenAI and Gemini, and what they make of the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import bedrock_server as bedrock
from tests.bedrock_server import BedrockServer, bedrock_server
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.ml_executions import PNG, bedrock_model, gemini_answer, gemini_model, medium, openai_model, text
from tests.openai_chat_server import ChatServer, chat_server, completion

PDF = "JVBERi0xLjQ="
MP4 = "AAAAIGZ0eXBpc29t"
USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}


CALLED = [
    {"role": "user", "content": [text("2+3?")]},
    {
        "role": "assistant",
        "content": [text("let me see")],
        "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}],
    },
    {"role": "tool", "toolCallId": "c1", "content": [text("5")]},
]


async def answer_of(ml: MlGateway, model: dict[str, Any], body: object, **agent: Any) -> Any:
    """What an agent that was just registered answers; its status has to be 200."""
    status, answer = await result_of(ml, model, body, **agent)
    assert status == 200, answer
    return answer


async def result_of(ml: MlGateway, model: dict[str, Any], body: object, **agent: Any) -> tuple[int, Any]:
    registered = {"name": "a", "type": "conversational_v2", "tools": [], "model": model, **agent}
    agent_id = await ml.register(registered)
    return await ml.call("POST", f"/agents/{agent_id}/_execute", body)


@asynccontextmanager
async def bedrock_scene(directory: Path) -> AsyncGenerator[tuple[MlGateway, BedrockServer]]:
    async with bedrock_server() as server, ml_gateway(directory) as ml:
        yield ml, server


@asynccontextmanager
async def http_scene(directory: Path) -> AsyncGenerator[tuple[MlGateway, ChatServer]]:
    async with chat_server() as server, ml_gateway(directory) as ml:
        yield ml, server


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_d15_a_unified_agent_answers_with_a_message_and_its_metrics(tmp_path: Path) -> None:
    async with bedrock_scene(tmp_path) as (ml, server):
        start = bedrock.event("messageStart", role="assistant")
        words = bedrock.text("hello") + bedrock.block_stop() + bedrock.message_stop()
        server.will_stream(start + words + bedrock.metadata(USAGE))
        answer = await answer_of(ml, bedrock_model(server), {"input": "hi"})
    assert len(answer.pop("memory_id")) == 20
    assert answer == {
        "stop_reason": "end_turn",
        "message": {"content": [{"text": "hello"}], "role": "assistant"},
        "metrics": {"total_usage": USAGE},
    }


async def test_a_unified_answer_that_is_cut_off_says_why(tmp_path: Path) -> None:
    async with bedrock_scene(tmp_path) as (ml, server):
        start = bedrock.event("messageStart", role="assistant") + bedrock.text("hel") + bedrock.block_stop()
        server.will_stream(start + bedrock.message_stop("max_tokens"))
        answer = await answer_of(ml, bedrock_model(server), {"input": "hi"})
    assert (answer["stop_reason"], answer["message"]["content"]) == ("max_tokens", [{"text": "hel"}])


async def test_d12_a_conversational_agent_with_a_model_names_its_interaction_too(tmp_path: Path) -> None:
    async with http_scene(tmp_path) as (ml, server):
        server.answers(completion("hello"))
        answer = await answer_of(ml, openai_model(server), {"input": "hi"}, type="conversational")
    output = answer["inference_results"][0]["output"]
    assert [each["name"] for each in output] == ["memory_id", "parent_interaction_id", "response"]


async def test_c6_a_conversational_agent_takes_blocks_and_messages_too(tmp_path: Path) -> None:
    async with http_scene(tmp_path) as (ml, server):
        server.answers(completion("a"), completion("b"))
        for given in ([text("blocks")], [{"role": "user", "content": [text("messages")]}]):
            await answer_of(ml, openai_model(server), {"input": given}, type="conversational")
    assert [request.json["messages"][-1]["content"] for request in server.requests] == ["blocks", "messages"]


async def test_c7_a_unified_agent_takes_the_older_question_too(tmp_path: Path) -> None:
    async with http_scene(tmp_path) as (ml, server):
        server.answers(completion("a"))
        answer = await answer_of(ml, openai_model(server), {"parameters": {"question": "hi"}})
    assert answer["message"]["content"] == [{"text": "a"}]
    assert server.requests[0].json["messages"][-1]["content"] == "hi"


async def test_c25_a_refusal_of_bedrock_comes_with_its_status(tmp_path: Path) -> None:
    async with bedrock_scene(tmp_path) as (ml, server):
        server.will_refuse(400, "ValidationException", "no such thing")
        status, answer = await result_of(ml, bedrock_model(server), {"input": "hi"})
    assert (status, answer["error"]["details"]) == (400, 'Error from remote service: {"message": "no such thing"}')


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_r3_2_bedrock_is_sent_messages_with_media_calls_and_results(tmp_path: Path) -> None:
    blocks = [
        text("look"), medium("image", "base64", "png", PNG), medium("document", "base64", "pdf", PDF),
        medium("video", "base64", "mp4", MP4), medium("image", "s3", "jpeg", "s3://b/i.jpg"),
        medium("video", "url", "mp4", "s3://b/v.mp4"),
    ]  # fmt: skip
    async with bedrock_scene(tmp_path) as (ml, server):
        server.will_stream(bedrock.hello())
        server.will_stream(bedrock.hello())
        await answer_of(ml, bedrock_model(server), {"input": blocks})
        await answer_of(ml, bedrock_model(server), {"input": CALLED})
    (message,) = server.requests[0].json["messages"]
    said, picture, document, film, far_picture, far_film = message["content"]
    assert said == {"text": "look"}
    assert picture == {"image": {"format": "png", "source": {"bytes": PNG}}}
    assert document["document"]["source"] == {"bytes": PDF}
    assert film == {"video": {"format": "mp4", "source": {"bytes": MP4}}}
    assert far_picture == {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://b/i.jpg"}}}}
    assert far_film == {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v.mp4"}}}}
    asked, called, result = server.requests[1].json["messages"]
    assert asked == {"role": "user", "content": [{"text": "2+3?"}]}
    assert called["content"][1] == {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 2, "b": 3}}}
    assert result["content"][0]["toolResult"]["content"] == [{"text": "5"}]
    assert {request.signature_problem for request in server.requests} == {None}


async def test_openai_is_sent_messages_with_pictures_calls_and_results(tmp_path: Path) -> None:
    far = medium("image", "url", "png", "https://x/y.png")
    blocks = [text("look"), medium("image", "base64", "png", PNG), far]
    async with http_scene(tmp_path) as (ml, server):
        server.answers(completion("a"), completion("b"))
        await answer_of(ml, openai_model(server), {"input": blocks})
        await answer_of(ml, openai_model(server), {"input": CALLED})
    first, second = (request.json["messages"] for request in server.requests)
    assert first[-1]["content"] == [
        text("look"),
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]
    asked, called, result = second[-3:]
    function = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    assert asked["content"] == "2+3?"
    assert called["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "5"}


async def test_gemini_is_sent_messages_with_media_calls_and_results(tmp_path: Path) -> None:
    blocks = [
        text("look"), medium("image", "base64", "png", PNG), medium("document", "base64", "pdf", PDF),
        medium("video", "url", "mp4", "gs://b/v.mp4"),
    ]  # fmt: skip
    async with http_scene(tmp_path) as (ml, server):
        server.answers(gemini_answer("a"), gemini_answer("b"))
        await answer_of(ml, gemini_model(server), {"input": blocks})
        answer = await answer_of(ml, gemini_model(server), {"input": CALLED})
    assert answer["message"]["content"] == [{"text": "b"}]
    first, second = (request.json["contents"] for request in server.requests)
    assert first[0]["parts"] == [
        {"text": "look"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
        {"fileData": {"fileUri": "gs://b/v.mp4", "mimeType": "video/mp4"}},
    ]
    assert [each["role"] for each in second] == ["user", "model", "user"]
    assert second[1]["parts"][1]["functionCall"]["args"] == {"a": 2, "b": 3}
    assert second[2]["parts"][0]["functionResponse"]["response"] == {"output": "5"}


async def test_f19_bedrock_is_sent_what_the_user_set_and_nothing_else(tmp_path: Path) -> None:
    async with bedrock_scene(tmp_path) as (ml, server):
        for _ in range(3):
            server.will_stream(bedrock.hello())
        await answer_of(ml, bedrock_model(server, top_p=0.5, temperature=0.2, max_tokens="90"), {"input": "hi"})
        await answer_of(ml, bedrock_model(server), {"input": "hi"})
        asked = {"temperature": "0.3", "stop": "END"}
        await answer_of(ml, bedrock_model(server), {"input": "hi", "parameters": asked})
    both, none, wished = (request.json.get("inferenceConfig", {}) for request in server.requests)
    assert both["topP"] == 0.5
    assert both["maxTokens"] == 90
    assert none == {}
    assert (wished["temperature"], wished["stopSequences"]) == (0.3, ["END"])


@pytest.mark.parametrize("names", [("temperature", "top_p", "max_tokens", "stop")])
async def test_samplers_mean_the_same_with_every_provider(tmp_path: Path, names: tuple[str, ...]) -> None:
    asked = dict(zip(names, ("0.5", 0.25, "100", ["END"]), strict=True))
    async with http_scene(tmp_path) as (ml, server):
        server.answers(completion("a"), gemini_answer("b"))
        await answer_of(ml, openai_model(server), {"input": "hi", "parameters": asked})
        await answer_of(ml, gemini_model(server), {"input": "hi", "parameters": asked})
    openai, gemini = (request.json for request in server.requests)
    assert [openai[name] for name in ("temperature", "top_p", "stop")] == [0.5, 0.25, ["END"]]
    assert 100 in (openai.get("max_tokens"), openai.get("max_completion_tokens"))
    config = gemini["generationConfig"]
    assert [config[name] for name in ("temperature", "topP", "maxOutputTokens", "stopSequences")] == [
        0.5, 0.25, 100, ["END"],
    ]  # fmt: skip


async def test_f22_every_provider_is_sent_the_system_prompt(tmp_path: Path) -> None:
    prompt = {"parameters": {"system_prompt": 'Answer as {"json": true}.'}}
    async with bedrock_scene(tmp_path) as (ml, server):
        server.will_stream(bedrock.hello())
        await answer_of(ml, bedrock_model(server), {"input": "hi"}, **prompt)
        assert server.requests[0].json["system"] == [{"text": 'Answer as {"json": true}.'}]
    async with http_scene(tmp_path) as (ml, chat):
        chat.answers(completion("a"), gemini_answer("b"))
        await answer_of(ml, openai_model(chat), {"input": "hi"}, **prompt)
        await answer_of(ml, gemini_model(chat), {"input": "hi"}, **prompt)
    openai, gemini = (request.json for request in chat.requests)
    assert openai["messages"][0] == {"role": "system", "content": 'Answer as {"json": true}.'}
    assert gemini["systemInstruction"] == {"parts": [{"text": 'Answer as {"json": true}.'}]}


# --- what a provider does not take -----------------------------------------------------------------------------------


MODELS: dict[str, Callable[[ChatServer], dict[str, Any]]] = {"openai": openai_model, "gemini": gemini_model}


@pytest.mark.parametrize(
    ("provider", "block", "supported"),
    [
        ("openai", medium("video", "base64", "mp4", MP4), "OpenAI Chat Completions takes images"),
        ("openai", medium("image", "s3", "png", "s3://b/i.png"), "OpenAI Chat Completions takes images"),
        ("openai", medium("document", "base64", "docx", "UEsDBA=="), "application/pdf"),
        ("gemini", medium("image", "s3", "png", "s3://b/i.png"), "gs://"),
    ],
)
async def test_r3_4_and_r7_5_what_a_provider_does_not_take_is_named_with_what_it_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: str, block: Any, supported: str
) -> None:
    async with http_scene(tmp_path) as (ml, server):
        model = MODELS[provider](server)
        status, answer = await result_of(ml, model, {"input": [{"role": "user", "content": [text("look"), block]}]})
        assert not server.requests
    error = answer["error"]
    assert (status, error["reason"]) == (400, "Invalid Request")
    assert error["fields"][0]["field"] == "/input/0/content/1"
    assert supported in error["details"]
    (record,) = (each for each in caplog.records if "medium" in each.message)
    assert vars(record)["provider"] == model["model_provider"], "R8.3: the log names the provider and the reason"
    assert supported in vars(record)["reason"]


async def test_f20_media_behind_other_schemes_are_refused_by_bedrock(tmp_path: Path) -> None:
    async with bedrock_scene(tmp_path) as (ml, server):
        block = medium("image", "url", "png", "ftp://x/y.png")
        status, answer = await result_of(ml, bedrock_model(server), {"input": [block]})
    assert status == 400
    assert "URL-based content must use S3 URIs (s3://...)" in answer["error"]["details"]
    assert answer["error"]["fields"][0]["field"] == "/input/0"


async def test_an_unknown_role_is_sent_in_front_of_the_words(tmp_path: Path) -> None:
    body = {"input": [{"role": "wizard", "content": [text("abracadabra")]}]}
    async with bedrock_scene(tmp_path) as (ml, server):
        server.will_stream(bedrock.hello())
        await answer_of(ml, bedrock_model(server), body)
    assert json.loads(server.requests[0].body)["messages"] == [
        {"role": "user", "content": [{"text": "[wizard] abracadabra"}]}
    ]
