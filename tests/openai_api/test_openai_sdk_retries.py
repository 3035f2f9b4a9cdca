"""What the official client asks again and what it does not, so that no tool runs twice: over real sockets, with the
faults of a provider behind the agent.
"""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from gateway.owners import GATEWAY
from tests.openai_api.test_responses_envelope_key import EARLIER_KEY
from tests.openai_chat_server import Script, chat_server, completion, error, text_records
from tests.openai_scene import AGENTS, BREAKING, KEY, WORDS, OpenAIScene, openai_gateway
from tests.running_gateway import agent
from tests.waiting import until

Surface: TypeAlias = Literal["chat", "responses"]
every_surface = pytest.mark.parametrize("surface", ["chat", "responses"])
PATHS: Final = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
TESTER: Final = {"name": "tester", "key": KEY}
LIMITS: Final[Mapping[int, Mapping[str, Any]]] = {
    429: {"api_keys": [{**TESTER, "limits": {"concurrent_runs": 1}}]},
    503: {"api_keys": [TESTER], "max_concurrent_runs": 1},
}


async def ask(client: AsyncOpenAI, surface: Surface, model: str, words: str = "hello", **more: Any) -> str:
    """The id of the answer to one question."""
    if surface == "chat":
        completed: ChatCompletion = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": words}], **more
        )
        return completed.id
    answered: Response = await client.responses.create(model=model, input=words, **more)
    return answered.id


def behind(endpoint: str) -> Mapping[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": endpoint}
    return agent("behind", model, parameters={"model_attempts": 1})


def sent(scene: OpenAIScene, surface: Surface) -> list[int]:
    """The statuses that came for what was asked."""
    return [status for request, status in scene.exchanges if request == f"POST {PATHS[surface]}"]


@every_surface
async def test_a_failure_after_the_begin_is_not_asked_again(tmp_path: Path, surface: Surface) -> None:
    async with openai_gateway(tmp_path, [BREAKING]) as scene:
        with pytest.raises(openai.APIStatusError) as failed:
            await ask(scene.retrying(), surface, "breaking")

    assert sent(scene, surface) == [503]
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert failed.value.code == "model_overloaded"


async def test_a_stream_that_fails_raises_behind_what_was_said(tmp_path: Path) -> None:
    words = io.StringIO()

    async def read(client: AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(
            model="breaking", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        async for chunk in stream:
            words.write(chunk.choices[0].delta.content or "")

    async with openai_gateway(tmp_path, [BREAKING]) as scene:
        with pytest.raises(openai.APIError) as failed:
            await read(scene.retrying())

    assert words.getvalue() == "one two"
    assert failed.value.code == "model_overloaded"
    assert sent(scene, "chat") == [200]


async def test_a_streamed_response_that_fails_ends_as_failed_without_an_exception(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path, [BREAKING]) as scene:
        stream = await scene.retrying().responses.create(model="breaking", input="hello", stream=True)
        events = [event async for event in stream]

    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.status == "failed"
    assert last.response.error is not None
    assert sent(scene, "responses") == [200]


CUT_OFF: Final = Script(pieces=text_records("one ", "two", finish_reason=None), ending="reset")
PROVIDER_FAULTS: Final = {
    "throttled": (error(429, "slow down"), 429, "rate_limit_exceeded"),
    "broken": (error(500, "oops"), 502, None),
    "cut off": (CUT_OFF, 502, None),
    "too long": (
        error(400, "maximum context length is 10 tokens", code="context_length_exceeded"), 400,
        "context_length_exceeded",
    ),
}  # fmt: skip


@every_surface
@pytest.mark.parametrize("fault", PROVIDER_FAULTS)
async def test_what_a_provider_fails_at_is_asked_of_it_once(tmp_path: Path, surface: Surface, fault: str) -> None:
    script, status, code = PROVIDER_FAULTS[fault]
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(script)
        provider.repeat = True
        with pytest.raises(openai.APIStatusError) as failed:
            await ask(scene.retrying(), surface, "behind")

    assert len(provider.requests) == 1
    assert sent(scene, surface) == [status]
    assert code is None or failed.value.code == code


async def test_a_provider_that_is_cut_off_within_a_stream_is_not_asked_again(tmp_path: Path) -> None:
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(CUT_OFF, CUT_OFF)
        said = io.StringIO()
        client = scene.retrying()

        async def read() -> None:
            async with client.chat.completions.stream(
                model="behind", messages=[{"role": "user", "content": "hello"}]
            ) as chunks:
                async for event in chunks:
                    said.write(event.delta if event.type == "content.delta" else "")

        with pytest.raises(openai.APIError):
            await read()
        stream = await client.responses.create(model="behind", input="hello", stream=True)
        events = [event async for event in stream]

    assert said.getvalue() == "one two"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "one two"
    assert events[-1].type == "response.failed"
    assert len(provider.requests) == 2


@pytest.mark.thorough
@every_surface
@pytest.mark.parametrize("status", LIMITS)
async def test_a_limit_before_the_begin_is_asked_again_until_there_is_room(
    tmp_path: Path, surface: Surface, status: int
) -> None:
    async with openai_gateway(tmp_path, AGENTS, server=LIMITS[status]) as scene:
        stream = await scene.openai.chat.completions.create(
            model="slow", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        first = await anext(aiter(stream))
        asking = asyncio.create_task(ask(scene.retrying(5), surface, "words"))
        await until(lambda: status in sent(scene, surface))
        cancelled = await scene.http.post(f"/runs/{first.id}/cancel", headers={"Authorization": f"Bearer {KEY}"})
        assert cancelled.status_code < 300, cancelled.text
        await asking
        await stream.close()

    statuses = sent(scene, surface)
    assert status in statuses
    assert statuses[-1] == 200


@every_surface
async def test_an_idempotency_key_names_the_run(tmp_path: Path, surface: Surface) -> None:
    key = {"Idempotency-Key": "order-1234"}
    async with chat_server() as provider, openai_gateway(tmp_path, [behind(provider.endpoint)]) as scene:
        provider.answers(completion("once"), completion("twice"))
        both = await asyncio.gather(*(ask(scene.openai, surface, "behind", extra_headers=key) for _ in range(2)))
        later = await ask(scene.openai, surface, "behind", extra_headers=key)
        other = await ask(scene.openai, surface, "behind", extra_headers={"Idempotency-Key": "order-1235"})
        with pytest.raises(openai.ConflictError):
            await ask(scene.openai, surface, "behind", "something else", extra_headers=key)

    assert {*both, later} == {later}
    assert other != later
    assert len(provider.requests) == 2


async def test_one_key_names_a_thread_on_each_surface(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "order-1234"}
    asked = [{"role": "user", "content": "hello"}]
    async with openai_gateway(tmp_path, [WORDS]) as scene:
        chat = await scene.post("/chat/completions", {"model": "words", "messages": asked}, **key)
        response = await scene.post("/responses", {"model": "words", "input": asked}, **key)
        threads = [answer.headers["x-thread-id"] for answer in (chat, response)]
        stored = [await scene.stored(thread_id) for thread_id in threads]

    assert threads[0] != threads[1]
    assert [len(messages) for messages in stored] == [2, 2]


async def test_nothing_begins_where_the_reasonings_key_of_an_earlier_version_cannot_be_read(tmp_path: Path) -> None:
    private = {"model": "words", "input": "hello", "store": False}
    one, other = ({"master_keys": [base64.b64encode(bytes([each]) * 32).decode()]} for each in (1, 2))
    async with openai_gateway(tmp_path, [WORDS], server=one) as scene:
        plain = await scene.openai.responses.create(model="words", input="hello")
        documents = scene.gateway.application.store.documents
        await documents.put(EARLIER_KEY, "openai_api", GATEWAY, {"key": bytes(32).hex()})
    async with openai_gateway(tmp_path, [WORDS], server=other) as scene:
        conversation = await scene.openai.conversations.create()
        refused = await scene.post("/responses", {**private, "conversation": conversation.id})
        stored = await scene.stored(conversation.id)
        read = await scene.openai.responses.retrieve(plain.id)
        sealed = await scene.http.get(f"/v1/responses/{plain.id}?include=reasoning.encrypted_content")

    assert (read.output_text, sealed.status_code) == (plain.output_text, 503)
    assert refused.status_code == 503, refused.text
    assert stored == []


@every_surface
@pytest.mark.parametrize("stream", [False, True])
async def test_a_repeated_request_whose_runs_log_was_deleted_is_no_empty_answer(
    tmp_path: Path, surface: Surface, stream: bool
) -> None:
    asked: Any = {"messages": [{"role": "user", "content": "hello"}]} if surface == "chat" else {"input": "hello"}
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": "order-1234"}
    async with openai_gateway(tmp_path, [WORDS], server={"api_keys": [TESTER]}) as scene:
        path = PATHS[surface].removeprefix("/v1")
        first = await scene.post(path, {"model": "words", "stream": stream, **asked}, **headers)
        await scene.gateway.application.store.remove_logs(finished_before=1e12)
        again = await scene.post(path, {"model": "words", "stream": stream, **asked}, **headers)

    assert first.status_code == 200
    assert (again.status_code, again.json()["error"]["code"]) == (404, "log_expired")
