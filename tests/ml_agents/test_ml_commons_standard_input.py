"""The standard input of agents over HTTP: every acceptance criterion of the requirements, by its number."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import bedrock_server as bedrock
from tests.bedrock_server import BedrockServer, bedrock_server
from tests.gemini_chunks import chunk
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.ml_executions import PNG, bedrock_model, gemini_answer, gemini_model, medium, openai_model, text
from tests.openai_chat_server import Script, chat_server, completion

IMAGE = {"type": "image", "source": {"type": "base64", "format": "png", "data": PNG}}
SENT_IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}
SUPPORTED = "text, image, video, document"

ROOMS = ("gateway.ml_agents", "gateway.ml_commons")
CONVERSIONS = "gateway.providers.conversions"


@dataclass(frozen=True, slots=True)
class Scene:
    """An agent on Bedrock, which answers `hello`."""

    ml: MlGateway
    server: BedrockServer
    agent_id: str

    async def execute(self, body: object) -> tuple[int, Any]:
        self.server.will_stream(bedrock.hello("hello"))
        return await self.ml.call("POST", f"/agents/{self.agent_id}/_execute", body)

    async def heard(self, body: object) -> list[Any]:
        """The messages that the model is sent for this body."""
        status, answer = await self.execute(body)
        assert status == 200, answer
        messages: list[Any] = self.server.requests[-1].json["messages"]
        return messages

    async def error(self, body: object) -> Any:
        status, answer = await self.execute(body)
        assert (status, answer["status"]) == (400, 400)
        assert not self.server.requests
        return answer["error"]


@asynccontextmanager
async def scene(directory: Path, kind: str = "conversational_v2") -> AsyncGenerator[Scene]:
    async with bedrock_server() as server, ml_gateway(directory) as ml:
        yield Scene(
            ml, server, await ml.register({"name": "a", "type": kind, "tools": [], "model": bedrock_model(server)})
        )


def words(error: Any) -> str:
    said: str = error.get("details") or error["reason"]
    return said


# --- 1: one field, several forms


async def test_r1_1_a_text_is_a_single_user_message(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": "simple text"})
    assert heard == [{"role": "user", "content": [{"text": "simple text"}]}]


async def test_r1_2_content_blocks_of_every_type_are_supported(tmp_path: Path) -> None:
    blocks = [
        text("a"), IMAGE, medium("video", "base64", "mp4", "AAAA"), medium("document", "base64", "pdf", "JVBERi0xLjQ="),
    ]  # fmt: skip
    async with scene(tmp_path) as agent:
        (message,) = await agent.heard({"input": blocks})
    assert [next(iter(block)) for block in message["content"]] == ["text", "image", "video", "document"]


async def test_r1_3_messages_with_roles_are_processed(tmp_path: Path) -> None:
    given = [{"role": "user", "content": [text("a")]}, {"role": "assistant", "content": [text("b")]}]
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": [*given, {"role": "user", "content": [text("c")]}]})
    assert [(each["role"], each["content"]) for each in heard] == [
        ("user", [{"text": "a"}]), ("assistant", [{"text": "b"}]), ("user", [{"text": "c"}]),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [42, {"text": "x"}, True, 1.5])
async def test_r1_4_an_invalid_form_is_a_400_that_explains_the_supported_ones(tmp_path: Path, given: Any) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": given})
    assert words(error) == "Invalid input format. Expected string or array."
    assert "content blocks" in error["fields"][0]["reason"]


async def test_r1_5_an_item_of_no_form_is_explained(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [{"foo": 1}]})
    assert words(error) == "Invalid item format. Must have 'role' (for messages) or 'type' (for content blocks)."


# --- 2: the older question


async def test_r2_1_the_question_goes_on_working(tmp_path: Path) -> None:
    async with scene(tmp_path, "conversational") as agent:
        heard = await agent.heard({"parameters": {"question": "text"}})
    assert heard == [{"role": "user", "content": [{"text": "text"}]}]


async def test_r2_2_input_wins_over_the_question_and_a_deprecation_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": "new", "parameters": {"question": "old"}})
    assert heard[0]["content"] == [{"text": "new"}]
    assert any("deprecated" in record.message for record in caplog.records if record.levelno == logging.WARNING)


async def test_r2_3_the_input_takes_the_form_of_the_agents_provider(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(completion("a"), Script(pieces=(chunk({"text": "b"}, finish="STOP"),)))
        for provider, key in (
            ("openai/v1/chat/completions", "openai_api_key"),
            ("gemini/v1beta/generatecontent", "gemini_api_key"),
        ):
            model = {"model_id": "m", "model_provider": provider, "endpoint": server.endpoint, "credential": {key: "k"}}
            agent_id = await ml.register({"name": "a", "tools": [], "model": model})
            await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": [text("look"), IMAGE]})
    openai, gemini = (request.json for request in server.requests)
    url = f"data:image/png;base64,{PNG}"
    assert openai["messages"][-1]["content"] == [text("look"), {"type": "image_url", "image_url": {"url": url}}]
    assert gemini["contents"][-1]["parts"] == [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]


async def test_r2_4_the_question_has_all_that_an_execution_has(tmp_path: Path) -> None:
    async with scene(tmp_path, "conversational") as agent:
        asked = {"question": "a", "memory_id": "m", "include_token_usage": True, "verbose": "true"}
        _, answer = await agent.execute({"parameters": asked})
        names = [each["name"] for each in answer["inference_results"][0]["output"]]
        heard = await agent.heard({"parameters": {"question": "b", "memory_id": "m"}})
    assert names == ["memory_id", "parent_interaction_id", "response", "token_usage"]
    assert [each["content"] for each in heard] == [[{"text": "a"}], [{"text": "hello"}], [{"text": "b"}]]


# --- 3: providers


@pytest.mark.parametrize("provider", ["openai/v1/chat/completions", "gemini/v1beta/generatecontent"])
async def test_r3_1_every_provider_maps_the_input_itself(tmp_path: Path, provider: str) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        is_openai = provider.startswith("openai")
        server.answers(completion("a") if is_openai else gemini_answer("a"))
        agent_id = await ml.register(
            {"name": "a", "tools": [], "model": (openai_model if is_openai else gemini_model)(server)}
        )
        status, _ = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": "hi"})
        sent = server.requests[0].json
    assert status == 200
    said = {"role": "user", "content": "hi"} if is_openai else {"role": "user", "parts": [{"text": "hi"}]}
    assert sent["messages" if is_openai else "contents"][-1] == said


async def test_r3_2_bedrock_is_sent_converses_messages(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": [text("look"), IMAGE]})
    assert heard == [{"role": "user", "content": [{"text": "look"}, SENT_IMAGE]}]


def test_r3_3_no_provider_knows_another() -> None:
    """Each vendor's writer is a module of its own; import-linter keeps them apart, and their files from each other."""
    contracts = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert '"(openai) | (anthropic) | (gemini) | (bedrock) | (demo) | (sqlite) | (opensearch)"' in contracts
    assert 'name = "Models never import each other"' in contracts


async def test_r3_4_an_input_that_the_provider_cannot_take_is_named(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error(
            {"input": [text("look"), medium("document", "base64", "application/zip", "UEsDBA==")]}
        )
    assert "cannot be sent to bedrock/converse" in words(error)
    assert "documents (csv, doc, docx" in words(error)
    assert error["fields"][0]["field"] == "/input/1"


# --- 4: validation


@pytest.mark.parametrize("kind", ["text", "image", "video", "document"])
async def test_r4_1_the_supported_types_are_checked_before_anything_is_sent(tmp_path: Path, kind: str) -> None:
    async with scene(tmp_path) as agent:
        await agent.error({"input": [{"type": kind}]})


async def test_r4_5_an_unsupported_type_is_refused_with_those_that_are_supported(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [text("a"), {"type": "hologram"}]})
    assert words(error) == f"Unsupported content type 'hologram'. Supported types: {SUPPORTED}"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"type": "bytes", "format": "png", "data": PNG}, "Invalid source type. Supported types: BASE64, URL"),
        ({"type": "base64", "data": PNG}, "Image format is required"),
    ],
)
async def test_r4_2_a_picture_needs_a_known_source_and_a_format(tmp_path: Path, source: Any, said: str) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [{"type": "image", "source": source}]})
    assert words(error).startswith(said)


@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "", "content": [text("a")]}])
async def test_r4_3_a_message_needs_a_role_and_content(tmp_path: Path, message: Any) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [message]})
    assert words(error) in ("user message must have content", "Message role cannot be null or empty")


async def test_r4_4_an_error_says_in_detail_what_is_wrong(tmp_path: Path) -> None:
    given = [{"role": "user", "content": [text("a")]}, text("b")]
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": given})
    assert words(error) == (
        "Mixed array types detected. Expected all items to be Messages, but item at index 1 is of type ContentBlock"
    )


async def test_r8_4_an_error_names_the_field_and_what_would_be_right(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [{"role": "user", "content": [text("a"), text(" ")]}]})
    assert error["fields"] == [{"field": "/input/0/content/1/text", "reason": "give it text, or leave the block out"}]


# --- 5: media


async def test_r5_1_blocks_of_every_type_may_be_together_in_a_message(tmp_path: Path) -> None:
    content = [text("a"), IMAGE, medium("document", "base64", "csv", "YSxi")]
    async with scene(tmp_path) as agent:
        (message,) = await agent.heard({"input": [{"role": "user", "content": content}]})
    assert [next(iter(block)) for block in message["content"]] == ["text", "image", "document"]


async def test_r5_2_pictures_come_by_url_and_as_base64(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        (message,) = await agent.heard({"input": [IMAGE, medium("image", "url", "jpeg", "s3://b/i.jpg"), text("a")]})
    far = {"image": {"format": "jpeg", "source": {"s3Location": {"uri": "s3://b/i.jpg"}}}}
    assert message["content"][:2] == [SENT_IMAGE, far]


async def test_r5_3_films_come_by_url_and_as_base64(tmp_path: Path) -> None:
    near, far = medium("video", "base64", "mp4", "AAAA"), medium("video", "url", "mov", "s3://b/v.mov")
    async with scene(tmp_path) as agent:
        (message,) = await agent.heard({"input": [near, far, text("a")]})
    assert [block["video"]["source"] for block in message["content"][:2]] == [
        {"bytes": "AAAA"}, {"s3Location": {"uri": "s3://b/v.mov"}},
    ]  # fmt: skip


async def test_r5_4_documents_are_referenced(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        given = [medium("document", "s3", "pdf", "s3://b/report.pdf"), text("sum it up")]
        (message,) = await agent.heard({"input": given})
    assert message["content"][0]["document"]["source"] == {"s3Location": {"uri": "s3://b/report.pdf"}}


async def test_r5_5_each_source_is_handled_in_its_own_way(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(completion("a"))
        model = {"model_id": "m", "model_provider": "openai/v1/chat/completions", "endpoint": server.endpoint}
        agent_id = await ml.register({"name": "a", "tools": [], "model": {**model, "credential": {"api_key": "k"}}})
        file = {"type": "document", "source": {"type": "file", "data": "file-7"}}
        given = [IMAGE, medium("image", "url", "png", "https://x/y.png"), file]
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": given})
    assert status == 200, answer
    near, far, kept = server.requests[0].json["messages"][-1]["content"]
    assert near["image_url"]["url"].startswith("data:image/png;base64,")
    assert far["image_url"]["url"] == "https://x/y.png"
    assert kept == {"type": "file", "file": {"file_id": "file-7"}}


# --- 6: conversations


async def test_r6_1_an_array_of_messages_is_supported(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": [{"role": "user", "content": [text("a"), text("b")]}]})
    assert heard == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]


async def test_r6_2_each_message_has_a_role_and_an_array_of_blocks(tmp_path: Path) -> None:
    given = [{"role": "user", "content": [text("a"), IMAGE]}, {"role": "user", "content": [text("b")]}]
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": given})
        _, answer = await agent.execute({"input": [{"role": "user", "content": {"text": "a"}}]})
    assert [block for each in heard for block in each["content"]] == [{"text": "a"}, SENT_IMAGE, {"text": "b"}]
    assert words(answer["error"]) == "Invalid message content. Expected string or array."


async def test_r6_3_any_role_is_accepted(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": [{"role": "wizard", "content": [text("abracadabra")]}]})
    assert heard == [{"role": "user", "content": [{"text": "[wizard] abracadabra"}]}]


async def test_r6_4_order_and_context_are_kept(tmp_path: Path) -> None:
    given: list[Any] = [{"role": "system", "content": [text("be brief")]}]
    for number in range(3):
        given.append({"role": "user", "content": [text(f"u{number}")]})
        given.append({"role": "assistant", "content": [text(f"a{number}")]})
    given.append({"role": "user", "content": [text("last")]})
    async with scene(tmp_path) as agent:
        heard = await agent.heard({"input": given})
        assert agent.server.requests[0].json["system"] == [{"text": "be brief"}]
    said = [each["content"][0]["text"] for each in heard]
    assert said == ["u0", "a0", "u1", "a1", "u2", "a2", "last"]


async def test_r6_5_media_of_every_message_are_processed(tmp_path: Path) -> None:
    given = [
        {"role": "user", "content": [IMAGE, text("what?")]},
        {"role": "assistant", "content": [text("a dot")]},
        {"role": "user", "content": [text("and this?"), IMAGE]},
    ]
    async with scene(tmp_path) as agent:
        first, _, last = await agent.heard({"input": given})
    assert first["content"][0] == last["content"][1] == SENT_IMAGE


# --- 7: both forms


async def test_r7_1_both_forms_are_known_and_mean_the_same(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        old = await agent.heard({"parameters": {"question": "same"}})
        new = await agent.heard({"input": "same"})
    assert old == new


async def test_r7_2_messages_take_the_form_of_the_agents_provider(tmp_path: Path) -> None:
    calls = [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 2}'}}]
    given = [
        {"role": "user", "content": "2?"},
        {"role": "assistant", "toolCalls": calls},
        {"role": "tool", "toolCallId": "c1", "content": "2"},
    ]
    async with scene(tmp_path) as agent:
        _, called, result = await agent.heard({"input": given})
    assert called["content"] == [{"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 2}}}]
    assert result["content"][0]["toolResult"]["toolUseId"] == "c1"


async def test_r7_3_the_question_is_answered_as_ever(tmp_path: Path) -> None:
    async with scene(tmp_path, "conversational") as agent:
        _, answer = await agent.execute({"parameters": {"question": "text"}})
    *_, response = answer["inference_results"][0]["output"]
    assert response == {"name": "response", "dataAsMap": {"response": "hello", "additional_info": {}}}


async def test_r7_4_what_was_said_is_kept_whole_for_the_next_turn(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        await agent.heard({"input": [text("look"), IMAGE], "memory_id": "m"})
        heard = await agent.heard({"input": "again", "memory_id": "m"})
    assert heard[0]["content"] == [{"text": "look"}, SENT_IMAGE]
    assert [each["role"] for each in heard] == ["user", "assistant", "user"]


async def test_r7_5_a_conversion_that_fails_says_what_to_do(tmp_path: Path) -> None:
    async with scene(tmp_path) as agent:
        error = await agent.error({"input": [{"role": "tool", "content": [text("5")]}]})
    assert words(error) == "Tool message must have toolCallId"
    assert error["fields"] == [{"field": "/input/0/toolCallId", "reason": "name the call whose result it is"}]


# --- 8: logs


async def test_r8_1_a_failure_is_logged_with_its_format_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as agent:
        await agent.error({"input": [text("secret words"), {"type": "hologram"}]})
    (record,) = (each for each in caplog.records if each.name.startswith(ROOMS))
    assert vars(record)["input_format"] == "CONTENT_BLOCKS"
    assert "hologram" in vars(record)["reason"]
    assert "secret" not in str(vars(record))


async def test_r8_1_a_medium_that_the_model_cannot_have_is_logged_with_its_format(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as agent:
        await agent.error(
            {"input": [{"role": "user", "content": [medium("document", "base64", "application/zip", "UEsDBA==")]}]}
        )
    (record,) = (each for each in caplog.records if each.name.startswith(ROOMS))
    assert vars(record)["input_format"] == "MESSAGES"


async def test_r8_2_the_question_alone_is_no_reason_for_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as agent:
        caplog.clear()
        await agent.heard({"parameters": {"question": "text"}})
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_r8_3_a_failed_mapping_is_logged_with_the_provider(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as agent:
        await agent.error({"input": [medium("image", "url", "png", "ftp://x/y.png")]})
    (record,) = (each for each in caplog.records if "medium" in each.message)
    assert vars(record)["provider"] == "bedrock/converse"
    assert "S3 URIs" in vars(record)["reason"]


async def test_r8_5_every_step_is_logged_for_debugging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rooms = (*ROOMS, CONVERSIONS)
    for room in rooms:
        caplog.set_level(logging.DEBUG, room)
    async with scene(tmp_path) as agent:
        await agent.heard({"input": [text("secret words"), IMAGE]})
    steps = [vars(each) for each in caplog.records if each.name.startswith(rooms)]
    assert [step["msg"] for step in steps] == [
        "read a medium of an agent's input",
        "read an agent's input",
        "wrote a request in the provider's form",
    ]
    assert steps[-1]["blocks"] == {"TextBlock": 1, "ImageBlock": 1}
    assert "secret" not in str(steps)
