"""`func(request)` in an adapter's handlers: what it takes, what it gives, and that it asks once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gateway.adapters import AdapterApp, AdapterRequest, AgentFunction, ProtocolAdapter
from gateway.agent_api import AgentRequest, AgentResponse, Message, ResponseBuilder, TextContent
from tests.embedded_gateway import HELPER, embedded
from tests.running_gateway import agent, scripted
from tests.waiting import until_answered
from tests.website import AGENTS, SHOP, SHOP_KEY, keys

Handle: TypeAlias = Callable[[AgentFunction, AdapterRequest], Awaitable[Any]]

HELLO: dict[str, Any] = {
    "input": [{"role": "user", "type": "message", "content": [{"type": "text", "text": "Hello?"}]}]
}
SAID = Message(role="user", content=[TextContent(text="Hello?")])


class Handling(ProtocolAdapter):
    """`POST /handle` does what the test says."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> None:
        @app.post("/handle")
        async def handle(request: AdapterRequest) -> Any:
            return await self._handle(func, request)


async def answer_of(directory: Path, handle: Handle, *, helper: Any = HELPER) -> Any:
    async with embedded(directory, Handling(handle), agents=[helper]) as client:
        answer = await client.post("/handle", json=HELLO)
        assert answer.status_code == 200, answer.text
        return answer.json()


# --- what it takes


@pytest.mark.parametrize(
    "question",
    [
        lambda request: request.data,
        lambda request: request,
        lambda request: AgentRequest.model_validate(request.data),
        lambda request: AgentRequest(input=[SAID]),
        lambda request: {"input": [SAID]},
        lambda request: {"input": [Message(role="user", content=[]), *request.data["input"]]},
    ],
)
async def test_a_question_is_a_model_or_its_json_or_a_request_with_it(
    tmp_path: Path, question: Callable[[AdapterRequest], Any]
) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        return await func(question(request))

    response = await answer_of(tmp_path, handle)
    assert response["output"][0]["content"][0]["text"] == "hello there"


# --- once


async def test_a_call_asks_once_however_often_it_is_awaited_and_iterated(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        call = func(request.data)
        frames, first, second = await asyncio.gather(_frames(call), call, call)
        return [frames[-1], first, second, await call, (await _frames(call))[-1]]

    first, *others = await answer_of(tmp_path, handle)
    assert first["status"] == "completed"
    assert others == [first] * 4


async def _frames(call: Any) -> list[Any]:
    return [frame async for frame in call]


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        return await asyncio.gather(*(func(request.data) for _ in range(5)))

    responses = await answer_of(tmp_path, handle)
    assert [response["status"] for response in responses] == ["completed"] * 5
    assert len({response["session_id"] for response in responses}) == 5


async def test_a_session_goes_on_in_a_second_call(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        first = await func(request.data)
        second = await func({**request.data, "session_id": first["session_id"]})
        return [first["session_id"], second["session_id"]]

    first, second = await answer_of(tmp_path, handle)
    assert first == second


# --- what it gives


async def test_what_it_gives_is_what_the_models_read(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        return AgentResponse.model_validate(await func(request.data))

    response = AgentResponse.model_validate(await answer_of(tmp_path, handle))
    assert [message.get_text_content() for message in response.output or ()] == ["hello there"]


async def test_a_run_that_fails_is_a_response_that_has_failed(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        return [await func(request.data), (await _frames(func(request.data)))[-1]]

    broken = agent("helper", scripted([{"text": "part"}, {"error": "invalid", "message": "no"}]))
    for response in await answer_of(tmp_path, handle, helper=broken):
        assert response["status"] == "failed"
        assert {"code", "message", "retryable"} <= response["error"].keys()


async def test_half_of_a_surrogate_pair_is_answered_as_its_escape_and_no_question(tmp_path: Path) -> None:
    half = "a\ud83d"

    async def answers(func: AgentFunction, request: AdapterRequest) -> Any:
        return {"text": half}

    async def asks(func: AgentFunction, request: AdapterRequest) -> Any:
        return await func({"input": [Message(role="user", content=[TextContent(text=half)])]})

    async with embedded(tmp_path, Handling(answers)) as client:
        assert (await client.post("/handle", json=HELLO)).content == rb'{"text":"a\ud83d"}'
    async with embedded(tmp_path, Handling(asks)) as client:
        refused = await client.post("/handle", json=HELLO)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_json")


async def test_lines_end_in_a_stream_only_where_its_frames_do(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        return items()

    async def items() -> AsyncIterator[Any]:
        yield {"text": "a\u2028b\x85c"}
        for event in ResponseBuilder().generate_streaming_response(["a\u2029b"]):
            yield event

    async with embedded(tmp_path, Handling(handle)) as client:
        answer = await client.post("/handle", json=HELLO)
        data = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data")]
        assert data[0] == {"text": "a\u2028b\x85c"}
        assert data[-1]["output"][0]["content"][0]["text"] == "a\u2029b"


# --- who asks, and where


async def test_a_client_that_leaves_stops_the_run_that_its_handler_waits_for(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        try:
            return await func(request.data)
        finally:
            left.set()

    waits = agent("helper", scripted([{"text": "part"}, {"hang": True}]))
    server = {"disconnect_grace_seconds": 0}
    async with embedded(tmp_path, Handling(handle), agents=[waits], server=server) as client:

        async def status() -> Any:
            return (await client.get("/runs/response_1")).json().get("status")

        asking = asyncio.create_task(client.post("/handle", json={**HELLO, "response_id": "response_1"}))
        await until_answered(status, lambda said: said == "running")
        asking.cancel()
        async with asyncio.timeout(10):
            await left.wait()
        await until_answered(status, lambda said: said == "cancelled")


async def test_visitors_of_websites_do_not_reach_a_handler(tmp_path: Path) -> None:
    async def handle(func: AgentFunction, request: AdapterRequest) -> Any:
        raise AssertionError("it was reached")

    async with embedded(tmp_path, Handling(handle), server=keys(), agents=AGENTS) as client:
        asked = {"origin": SHOP, "authorization": f"Bearer {SHOP_KEY}"}
        token = (await client.post("/visitors", json={}, headers=asked)).json()["visitorToken"]
        visitor = {"origin": SHOP, "authorization": f"Bearer {token}"}
        assert (await client.get("/agents", headers=visitor)).status_code == 200
        refused = await client.post("/handle", json=HELLO, headers=visitor)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_for_visitors")
        assert (await client.post("/handle", json=HELLO)).status_code == 401


async def test_another_event_loop_is_told_where_func_works(tmp_path: Path) -> None:
    class Threads(ProtocolAdapter):
        def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> None:
            @app.post("/thread")
            def thread(request: AdapterRequest) -> Any:
                async def ask() -> Any:
                    return await func(request.data)

                try:
                    return asyncio.run(ask())
                except RuntimeError as error:
                    return str(error)

    async with embedded(tmp_path, Threads()) as client:
        assert "gateway's event loop" in (await client.post("/thread", json=HELLO)).json()
