"""Responses that are kept or run in the background, as the official Python client uses them, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import openai
import pytest
from openai.types.responses import Response

from tests.openai_scene import OpenAIScene, openai_gateway
from tests.running_gateway import DEADLINE_SECONDS


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(tmp_path) as running:
        yield running


async def done(scene: OpenAIScene, answer: Response) -> Response:
    """The response once it has ended."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while answer.status in ("queued", "in_progress"):
            answer = await scene.openai.responses.retrieve(answer.id)
    return answer


async def test_a_response_is_kept_listed_and_deleted(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="words", input="hello")
    kept = await scene.openai.responses.retrieve(answer.id)
    items = [item async for item in scene.openai.responses.input_items.list(answer.id)]
    await scene.openai.responses.delete(answer.id)

    assert kept.completed_at
    assert kept.to_dict() == answer.to_dict()
    assert [item.type for item in items] == ["message"]
    with pytest.raises(openai.NotFoundError):
        await scene.openai.responses.retrieve(answer.id)


async def test_a_stream_is_taken_up_again_behind_any_event(scene: OpenAIScene) -> None:
    whole = await scene.openai.responses.create(model="words", input="hello", stream=True)
    events = [event async for event in whole]
    first = events[0]
    assert first.type == "response.created"
    stream = await scene.openai.responses.retrieve(first.response.id, stream=True, starting_after=4)
    again = [event async for event in stream]

    assert [event.to_dict() for event in again] == [event.to_dict() for event in events[5:]]


async def test_a_background_response_is_polled_until_it_is_done(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="words", input="hello", background=True)
    assert answer.status in ("queued", "in_progress")
    answer = await done(scene, answer)

    assert (answer.status, answer.output_text) == ("completed", "I heard: hello")


async def test_a_background_response_is_cancelled(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="slow", input="hello", background=True)
    cancelled = await scene.openai.responses.cancel(answer.id)
    cancelled = await done(scene, cancelled)

    assert cancelled.status == "cancelled"


async def test_a_background_response_that_fails_says_so_in_its_status(scene: OpenAIScene) -> None:
    answer = await scene.openai.responses.create(model="breaking", input="hello", background=True)
    answer = await done(scene, answer)

    assert answer.status == "failed"
    assert answer.error is not None
