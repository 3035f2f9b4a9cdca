"""A thread may change its provider between any two turns: whatever the others left in it, the next request is valid.

Each provider's real codec reads an answer with everything in it (a sealed thought, words, calls side by side); its
messages, with results, are what the next provider is asked with. Requests are held against the providers' own models.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import orjson
import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from gateway.anthropic import messages_api as anthropic_messages
from gateway.anthropic.reader import MessageReader
from gateway.anthropic.request import anthropic_request
from gateway.bedrock.converse_reader import ConverseReader
from gateway.bedrock.converse_request import converse_request, encoded
from gateway.bedrock.families import family_of
from gateway.events import Events, ModelCallStarted, ToolReturned
from gateway.gemini import generate_content as gemini
from gateway.gemini.reader import GenerateContentReader
from gateway.gemini.request import gemini_request
from gateway.history.model_view import model_view
from gateway.messages import Message, TextBlock, ToolSpec, new_id
from gateway.model import ModelRequest
from gateway.openai import responses as openai_responses
from gateway.openai.chat_completions import dialect_of
from gateway.openai.chat_reader import ChatCompletionReader
from gateway.openai.chat_request import chat_request
from gateway.openai.responses_reader import ResponsesReader
from gateway.openai.responses_request import ResponsesTarget, responses_request
from gateway.providers.answer_builder import AnswerBuilder
from gateway.transcript import Transcript
from tests import bedrock_server
from tests.converse_rules import broken_rules
from tests.openai_chat_server import DONE, chunk, record
from tests.responses_events import call_item, message_item, reasoning_item, stream_events
from tests.responses_rules import accept
from tests.sdk_types import check_accepted
from tests.word_samples import REPEATABLE

TOOLS = (ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}}),)
_CONVERSE = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"), "bedrock-runtime")
_CONVERSE_INPUT = _CONVERSE.operation_model("ConverseStream").input_shape


class Speaker(Protocol):
    """A provider: what it answers, with `seal` as the sealed part of its thought, and what it is asked with."""

    name: str
    model: str

    @abstractmethod
    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events: ...

    @abstractmethod
    def body(self, request: ModelRequest) -> Any:
        """The request's JSON, which was found to be valid."""


class Chat(Speaker):
    name = "chat completions"
    model = "some/model"

    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events:
        reader = ChatCompletionReader(request, self.model)
        detail = {"type": "reasoning.text", "text": "hm", "signature": seal, "index": 0}
        calls = [
            {"index": place, "id": call_id, "function": {"name": "add", "arguments": '{"a": 1}'}}
            for place, call_id in enumerate(call_ids)
        ]
        chunks = [chunk({"reasoning_details": [detail]}), chunk({"content": "Let me see."})]
        if calls:
            chunks.append(chunk({"tool_calls": calls}))
        return reader.feed(b"".join(map(record, [*chunks, chunk({}, "stop")])) + DONE)

    def body(self, request: ModelRequest) -> Any:
        body = chat_request(request, self.model, dialect_of("https://openrouter.ai/api/v1"))
        check_accepted(CompletionCreateParamsStreaming, body)
        return body


class Converse(Speaker):
    name = "converse"
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"

    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events:
        builder = AnswerBuilder(request, "bedrock/converse", self.model)
        reader = ConverseReader(builder, self.model, family_of(self.model), {})
        start = bedrock_server.event("messageStart", role="assistant")
        thought = bedrock_server.thought(0, text="hm") + bedrock_server.thought(0, signature=seal)
        words = bedrock_server.text("Let me see.", 1) + bedrock_server.block_stop(1)
        tools = [bedrock_server.tool(2 + i, call_id, "add", '{"a": 1}') for i, call_id in enumerate(call_ids)]
        ending = bedrock_server.message_stop("tool_use" if tools else "end_turn") + bedrock_server.metadata()
        return reader.feed(b"".join((start, thought, bedrock_server.block_stop(0), words, *tools, ending)))

    def body(self, request: ModelRequest) -> Any:
        family = family_of(self.model)
        body = orjson.loads(encoded(converse_request(request, self.model, family).body))
        report = ParamValidator().validate({"modelId": self.model, **body}, _CONVERSE_INPUT)
        assert not report.has_errors(), report.generate_report()
        assert broken_rules(body["messages"], family) == []
        return body


class Responses(Speaker):
    name = "responses"
    model = "gpt-5.6"

    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events:
        reader = ResponsesReader(request, "openai/v1/responses", self.model)
        calls = [call_item("add", '{"a": 1}', call_id) for call_id in call_ids]
        events = stream_events([reasoning_item("hm", encrypted=seal), message_item("Let me see."), *calls])
        return reader.feed(b"".join(map(record, events)))

    def body(self, request: ModelRequest) -> Any:
        profile = openai_responses.profile_of("api.openai.com", self.model)
        body: Any = responses_request(request, ResponsesTarget("openai/v1/responses", self.model, profile, self.model))
        accept(body)
        return body


class Anthropic(Speaker):
    name = "anthropic"
    model = "claude-sonnet-4-5"

    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events:
        blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"type": "thinking", "thinking": "hm"}, {"type": "signature_delta", "signature": seal}),
            ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me see."}),
        ]
        for call_id in call_ids:
            begin = {"type": "tool_use", "id": call_id, "name": "add", "input": {}}
            blocks.append((begin, {"type": "input_json_delta", "partial_json": '{"a": 1}'}))
        events: list[dict[str, Any]] = []
        for index, (begin, delta) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": begin})
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        reason = "tool_use" if call_ids else "end_turn"
        events += [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]
        return MessageReader(request, self.model).feed(b"".join(map(record, events)))

    def body(self, request: ModelRequest) -> Any:
        body = anthropic_request(request, self.model, anthropic_messages.profile_of(self.model))
        check_accepted(MessageCreateParamsStreaming, body)
        return body


class Gemini(Speaker):
    name = "gemini"
    model = "gemini-3-pro"

    def answer(self, request: ModelRequest, seal: str, call_ids: Sequence[str]) -> Events:
        reader = GenerateContentReader(request, self.model)
        parts: list[dict[str, Any]] = [{"text": "hm", "thought": True, "thoughtSignature": seal}]
        parts.append({"text": "Let me see."})
        parts += [{"functionCall": {"id": call_id, "name": "add", "args": {"a": 1}}} for call_id in call_ids]
        answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
        return reader.feed(record(answer)) + reader.eof()

    def body(self, request: ModelRequest) -> Any:
        body: Any = gemini_request(request, self.model, gemini.profile_of(self.model))
        for content in body["contents"]:
            types.Content.model_validate(content)
        return body


SPEAKERS: Sequence[Speaker] = (Chat(), Converse(), Responses(), Anthropic(), Gemini())
names = [speaker.name for speaker in SPEAKERS]


def user(text: str) -> Message:
    return Message(new_id("msg"), "user", (TextBlock(text),))


class Thread:
    """A thread that goes from speaker to speaker."""

    def __init__(self) -> None:
        self.messages: list[Message] = [user("Hello")]
        self.seals: list[tuple[str, str]] = []  # whose, and what

    def request(self) -> ModelRequest:
        return ModelRequest(new_id("turn"), model_view(self.messages), "Be brief.", TOOLS)

    def ask(self, speaker: Speaker) -> str:
        """Ask the speaker; the request's text."""
        text: str = json.dumps(speaker.body(self.request()))
        return text

    def answer(self, speaker: Speaker, call_ids: Sequence[str], results: int, then: str | None) -> None:
        """The speaker answers; so many of its calls get results; a user says something."""
        request = self.request()
        seal = f"c2VhbA{len(self.seals):02d}"
        self.seals.append((speaker.name, seal))
        transcript = Transcript()
        events = [ModelCallStarted(request.turn_id, "p", "m"), *speaker.answer(request, seal, call_ids)]
        transcript.follow(events)
        calls = [call for message in transcript.messages for call in message.tool_calls]
        assert len(calls) == len(call_ids)
        for call in calls[:results]:
            transcript.follow([ToolReturned(new_id("msg"), call.call_id, (TextBlock("1"),))])
        self.messages += transcript.messages
        if then is not None:
            self.messages.append(user(then))


@pytest.mark.parametrize("second", SPEAKERS, ids=names)
@pytest.mark.parametrize("first", SPEAKERS, ids=names)
def test_the_next_provider_takes_what_the_last_one_left_and_gets_no_seal_but_its_own(
    first: Speaker, second: Speaker
) -> None:
    thread = Thread()
    thread.answer(first, ["c1", "c2"], 2, None)
    within_the_loop = thread.ask(second)
    thread.answer(second, ["c1", "c3"], 1, "and now?")
    back = thread.ask(first)
    thread.messages.append(user("thanks"))
    (_, seal), (_, other) = thread.seals
    assert (seal in within_the_loop) == (first is second)
    assert seal in back, "what a provider sealed goes back to it, also after others have spoken"
    assert (other in back) == (first is second)
    assert "Let me see." in within_the_loop


turns = st.tuples(
    st.integers(0, len(SPEAKERS) - 1),
    st.lists(st.sampled_from(["c1", "c2", "toolu_1", "call|x", "0"]), max_size=3, unique=True),
    st.integers(0, 3),
    st.sampled_from([None, "go on", " "]),
)


@pytest.mark.thorough
@REPEATABLE
@given(st.lists(turns, min_size=1, max_size=5))
def test_any_way_through_the_providers_leaves_a_thread_that_all_of_them_take(
    drawn: list[tuple[int, list[str], int, str | None]],
) -> None:
    thread = Thread()
    for place, call_ids, results, then in drawn:
        thread.answer(SPEAKERS[place], call_ids, results, then)
        for speaker in SPEAKERS:
            asked = thread.ask(speaker)
            for owner, seal in thread.seals:
                assert owner == speaker.name or seal not in asked
