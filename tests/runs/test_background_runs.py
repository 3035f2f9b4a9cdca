"""Runs of agents whose model works in the background: ordinary ones to whoever watches, also across a restart."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agui_client import agui_clients
from tests.fault_scenes import SERVER, check_ended, fault_tool
from tests.movable_clock import MovableClock
from tests.observed_runs import run_client
from tests.openai_chat_server import Script
from tests.responses_events import Item, call_item, message_item, reasoning_item
from tests.responses_server import Answer, ResponsesServer, responses_server
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body
from tests.stateful_scene import ADDING, PICK, StatefulScene, bedrock_model, openai_model

DEADLINE_SECONDS = 30
WORDS = 6  # the event behind the first words of an answer that is one message


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        yield running


@asynccontextmanager
async def gateway_before(
    directory: Path, server: ResponsesServer, grace: float = 30, **more: Any
) -> AsyncGenerator[LocalGateway]:
    tools = [fault_tool("add")]
    models = {"openai": openai_model(server, background=True), "bedrock": bedrock_model(server, background=True)}
    agents = [agent(name, model, tools=tools, on_disconnect="continue") for name, model in models.items()]
    agents.append(agent("watched", models["openai"]))
    settings = {**SERVER, "disconnect_grace_seconds": grace}
    async with local_gateway(directory, agents, server=settings, **more) as gateway:
        yield gateway


async def begun(
    directory: Path, server: ResponsesServer, *items: Item, agent_id: str = "openai", **more: Any
) -> Answer:
    """A run that was seen to say something when its gateway was stopped; the provider waits at that place."""
    answer = server.will_answer(*items, hold=asyncio.Event(), hold_before=WORDS)
    async with (
        gateway_before(directory, server, **more) as gateway,
        gateway.client.stream(agent_id, run_body("Hi", thread_id="t", run_id="run-1")) as stream,
    ):
        await stream.until("TEXT_MESSAGE_CONTENT")
    assert server.asked[-1].status == "in_progress"
    return answer


def cancels(server: ResponsesServer) -> Sequence[str]:
    return [request.target for request in server.requests if request.target.endswith("/cancel")]


# --- as seen by clients


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_a_client_sees_an_ordinary_run(tmp_path: Path, server: ResponsesServer, agent_id: str) -> None:
    async with gateway_before(tmp_path, server) as gateway, agui_clients("1.0.0") as clients:
        server.will_answer(reasoning_item("Hm", encrypted="gAAA"), call_item(*ADDING, "c1"), cut_before=6)
        server.will_answer(message_item("Three"), cut_before=6)
        client = await clients.create(gateway.client.run_url(agent_id))
        report = await run_client(gateway, client, "run-1", text="Hi", tools=[PICK])
        assert [message["role"] for message in report.new_messages] == ["reasoning", "assistant", "tool", "assistant"]
        assert report.new_messages[-1]["content"] == "Three"
        assert clients.console == clients.unhandled == []
    assert [stored.background for stored in server.asked] == [True, True]


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_a_cancelled_run_is_cancelled_at_its_provider_at_once(
    tmp_path: Path, server: ResponsesServer, agent_id: str
) -> None:
    async with gateway_before(tmp_path, server) as gateway:
        server.will_answer(message_item("Here it is"), hold=asyncio.Event(), hold_before=WORDS)
        async with gateway.client.stream(agent_id, run_body("Hi", run_id="run-1")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            async with asyncio.timeout(DEADLINE_SECONDS):
                await gateway.client.http.post("/runs/run-1/cancel")
                await server.received(2)
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")
    assert len(cancels(server)) == 1
    assert server.asked[0].status == "cancelled"


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_a_run_that_is_cancelled_before_its_provider_has_said_a_word_is_cancelled_there_too(
    tmp_path: Path, server: ResponsesServer, agent_id: str
) -> None:
    async with gateway_before(tmp_path, server) as gateway:
        name = asyncio.Event()
        server.will_answer(message_item("Here it is"), named=name, hold=asyncio.Event())
        async with gateway.client.stream(agent_id, run_body("Hi", run_id="run-1")) as stream:
            await server.received(1)
            await gateway.client.http.post("/runs/run-1/cancel")
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")
        assert cancels(server) == [], "the run does not wait for it"
        name.set()
        await server.received(2)
    assert len(cancels(server)) == 1
    assert server.asked[0].status == "cancelled"


# --- across a restart


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_a_viewer_that_comes_back_sees_the_run_go_on(
    tmp_path: Path, server: ResponsesServer, agent_id: str
) -> None:
    answer = await begun(tmp_path, server, message_item("Here it is"), agent_id=agent_id)
    assert answer.hold is not None
    async with gateway_before(tmp_path, server) as gateway:
        async with gateway.client.events("run-1") as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            answer.hold.set()
            frames = await stream.rest()
        assert "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT") == "Here it is"
        await check_ended(gateway, "run-1", "completed")
    assert cancels(server) == []


async def test_a_thread_is_connected_to_in_the_middle_of_a_run_that_was_taken_up(
    tmp_path: Path, server: ResponsesServer
) -> None:
    answer = await begun(tmp_path, server, message_item("Here it is"))
    assert answer.hold is not None
    async with gateway_before(tmp_path, server) as gateway:
        body = run_body(thread_id="t", run_id="looking", messages=[])
        async with gateway.client.stream("openai", body, to="connect") as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            answer.hold.set()
            frames = await stream.rest()
        assert frames[-1].type == "RUN_FINISHED"
        assert "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT") == "Here it is"
        await check_ended(gateway, "run-1", "completed")


async def test_where_nothing_is_streamed_again_the_answer_is_asked_for(tmp_path: Path, server: ResponsesServer) -> None:
    answer = await begun(tmp_path, server, message_item("Here it is"))
    assert answer.hold is not None
    server.streams_again = False
    answer.hold.set()
    async with gateway_before(tmp_path, server) as gateway:
        await check_ended(gateway, "run-1", "completed")
        scene = StatefulScene(gateway, server, _runs=5)
        server.will_answer(message_item("Gladly"))
        await scene.say("Thanks")
        assert scene.sent() == (server.asked[0].id, [("user", "Thanks")])
        assert scene.shown() == [("user", "Hi"), ("assistant", "Here it is"), ("user", "Thanks")]


async def test_a_run_survives_as_many_restarts_as_there_are(tmp_path: Path, server: ResponsesServer) -> None:
    answer = await begun(tmp_path, server, message_item("Here it is"))
    assert answer.hold is not None
    for _ in range(2):
        async with gateway_before(tmp_path, server) as gateway:
            assert (await gateway.client.get("/runs/run-1"))["status"] == "running"
            await server.received(len(server.requests))
    answer.hold.set()
    async with gateway_before(tmp_path, server) as gateway:
        await check_ended(gateway, "run-1", "completed")
    assert cancels(server) == []


async def test_repeated_model_calls_of_a_run_that_was_taken_up_are_counted_too(
    tmp_path: Path, server: ResponsesServer
) -> None:
    answer = await begun(tmp_path, server, message_item("Here it is"), call_item(*ADDING, "c1"))
    assert answer.hold is not None
    server.will_answer(message_item("Three"))
    async with gateway_before(tmp_path, server) as gateway:
        await server.received(2)
        server.answers(Script(503, (b"{}",), "application/json", framing="length"))
        answer.hold.set()
        await check_ended(gateway, "run-1", "completed")
        metrics = (await gateway.client.http.get("/metrics")).text
    assert re.search(r'provider_retries_total\{[^}]*code="model_overloaded"[^}]*\} 1\.0', metrics), metrics


async def test_a_run_that_was_taken_up_is_cancelled_at_its_provider(tmp_path: Path, server: ResponsesServer) -> None:
    await begun(tmp_path, server, message_item("Here it is"))
    async with gateway_before(tmp_path, server) as gateway:
        await server.received(2)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await gateway.client.http.post("/runs/run-1/cancel")
            await server.received(3)
        await check_ended(gateway, "run-1", "cancelled")
        scene = StatefulScene(gateway, server, _runs=5)
        server.will_answer(message_item("Fine"))
        await scene.say("Never mind")
        assert scene.shown() == [("user", "Hi"), ("assistant", "Here "), ("user", "Never mind")]
    assert server.asked[0].status == "cancelled"


async def test_a_run_whose_viewers_do_not_come_back_ends_as_any_other(tmp_path: Path, server: ResponsesServer) -> None:
    clock = MovableClock()
    await begun(tmp_path, server, message_item("Here it is"), agent_id="watched")
    async with gateway_before(tmp_path, server, clock=clock) as gateway:
        await server.received(2)
        await clock.advance(31)
        await check_ended(gateway, "run-1", "cancelled")
        await server.received(3)
    assert server.asked[0].status == "cancelled"


async def test_a_response_that_is_gone_ends_the_run_and_the_thread_goes_on(
    tmp_path: Path, server: ResponsesServer
) -> None:
    await begun(tmp_path, server, message_item("Here it is"))
    server.expire()
    async with gateway_before(tmp_path, server) as gateway:
        await check_ended(gateway, "run-1", "failed", code="model_server")
        scene = StatefulScene(gateway, server, _runs=5)
        server.will_answer(message_item("Yes"))
        await scene.say("Still there?")
        assert scene.shown() == [("user", "Hi"), ("assistant", "Here "), ("user", "Still there?")]


async def test_an_answer_that_is_told_otherwise_ends_the_run(tmp_path: Path, server: ResponsesServer) -> None:
    await begun(tmp_path, server, message_item("Here it is"))
    for event in server.asked[0].events:
        if "delta" in event:
            event["delta"] = "Nowhere"
    async with gateway_before(tmp_path, server) as gateway:
        await check_ended(gateway, "run-1", "failed", code="server_restarted")
        await server.received(3)
    assert server.asked[0].status == "cancelled", "nobody wants it any more"


async def test_an_agent_that_is_there_no_more_ends_the_run(tmp_path: Path, server: ResponsesServer) -> None:
    await begun(tmp_path, server, message_item("Here it is"))
    model = openai_model(server)
    async with local_gateway(tmp_path, [agent("openai", model)], server=SERVER) as gateway:
        await check_ended(gateway, "run-1", "failed", code="server_restarted")
    assert len(server.requests) == 1
