"""What a model holds of its request while the answer streams."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from gateway.messages import Message, TextBlock
from gateway.model import ModelProvider, ModelRequest
from gateway.models import anthropic_messages, gemini_generatecontent, openai_chat_completions, openai_responses
from tests.model_answers import collect
from tests.openai_chat_server import Script, chat_server
from tests.provider_scene import model_behind

ROOMS = (anthropic_messages, gemini_generatecontent, openai_chat_completions, openai_responses)
REQUEST = ModelRequest("turn-1", (Message("m", "user", (TextBlock("hello"),)),))


@pytest.mark.parametrize("provider", [each.PROVIDER for each in ROOMS], ids=lambda each: each.name)
async def test_a_short_request_takes_no_more_than_its_bytes(provider: ModelProvider) -> None:
    async with model_behind(provider, "m", Script(headers_after=asyncio.Event()), server=chat_server) as (
        model,
        server,
    ):
        tracemalloc.start()
        try:
            answer = asyncio.create_task(collect(model.stream(REQUEST)))
            await server.received()
            made = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/wire/strict_json.py")])
        finally:
            tracemalloc.stop()
            answer.cancel()
        assert 0 < sum(each.size for each in made.statistics("lineno")) < 1_000
        with pytest.raises(asyncio.CancelledError):
            await answer
