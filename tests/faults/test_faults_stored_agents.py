"""What a stored agent's provider keeps or is at work on: deleted with the thread, taken up after a kill."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_faults_processes import drained, post_forever
from tests.movable_clock import MovableClock
from tests.responses_events import message_item, stream_events
from tests.responses_server import ResponsesServer, responses_server
from tests.running_gateway import (
    GatewayClient,
    agent,
    gateway_process,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)
from tests.stateful_scene import openai_model
from tests.waiting import until

DEADLINE_SECONDS = 60
CONFIGURED = agent("configured", scripted([{"text": "from the file"}]))
ANSWER = message_item("Here it is")
NOBODY = "responses of a deleted thread stay at a server that no agent asks any more"


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        yield running


def callers(server: ResponsesServer) -> dict[str, Any]:
    return {"endpoints": [rf"^http://127\.0\.0\.1:{server.port}/.*$"], "private_addresses": True}


async def put(client: GatewayClient, model: Mapping[str, Any], **more: Any) -> None:
    response = await client.http.put(
        "/agents/mine", json={"model": {**model, "credential": {"openai_api_key": "sk-mine"}}, **more}
    )
    assert response.status_code in (200, 201), response.text


def deletions(server: ResponsesServer) -> list[str]:
    return [request.target.rpartition("/")[2] for request in server.requests if request.method == "DELETE"]


@pytest.mark.parametrize("change", ["left as it is", "replaced"])
async def test_a_deleted_thread_of_a_stored_agent_is_deleted_at_its_provider(
    tmp_path: Path, server: ResponsesServer, change: str
) -> None:
    server.will_answer(ANSWER)
    async with local_gateway(tmp_path, [CONFIGURED], callers=callers(server)) as gateway:
        await put(gateway.client, openai_model(server))
        await gateway.client.run("mine", run_body())
    # a clock that stands still: on a busy machine an answer could come after its time limit, and be asked for again
    clock = MovableClock()
    async with local_gateway(tmp_path, [CONFIGURED], callers=callers(server), clock=clock) as gateway:
        if change == "replaced":
            await put(gateway.client, openai_model(server), system_prompt="Be brief.")
        deleted = await gateway.client.http.delete("/threads/thread-1")
        assert deleted.status_code == 204
        await until(lambda: deletions(server))
    assert deletions(server) == [server.asked[0].id]
    assert server.requests[-1].headers["authorization"] == "Bearer sk-mine"


@pytest.mark.parametrize("change", ["deleted", "replaced by another model"])
async def test_where_the_agent_is_gone_its_provider_is_not_told_and_that_is_logged(
    tmp_path: Path, server: ResponsesServer, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.will_answer(ANSWER)
    async with local_gateway(tmp_path, [CONFIGURED], callers=callers(server)) as gateway:
        await put(gateway.client, openai_model(server))
        await gateway.client.run("mine", run_body())
        if change == "deleted":
            assert (await gateway.client.http.delete("/agents/mine")).status_code == 204
        else:
            await put(gateway.client, openai_model(server, model_id="another"))
        with caplog.at_level(logging.WARNING):
            deleted = await gateway.client.http.delete("/threads/thread-1")
            assert deleted.status_code == 204
            await until(lambda: any(record.message == NOBODY for record in caplog.records))
        assert (await gateway.client.http.get("/threads/thread-1/messages")).status_code == 404
    assert deletions(server) == []


@pytest.mark.parametrize("change", ["left as it is", "replaced", "deleted"])
async def test_a_run_of_a_stored_agent_in_the_background_is_taken_up_after_a_kill(
    tmp_path: Path, server: ResponsesServer, change: str
) -> None:
    model = openai_model(server, background=True, stateful=False)
    configuration = write_configuration(tmp_path, [CONFIGURED], search=None, callers=callers(server))
    hold = asyncio.Event()
    types = [event["type"] for event in stream_events((ANSWER,), background=True)]
    server.will_answer(ANSWER, hold=hold, hold_before=types.index("response.output_text.delta") + 1)
    async with gateway_process(configuration) as gateway:
        await put(gateway.client, model, on_disconnect="continue")
        stream = await post_forever(gateway, "mine", run_body())
        await stream.until("TEXT_MESSAGE_CONTENT")
        if change == "replaced":
            await put(gateway.client, model, on_disconnect="continue", system_prompt="Be brief.")
        elif change == "deleted":
            assert (await gateway.client.http.delete("/agents/mine")).status_code == 204
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    hold.set()
    async with gateway_process(configuration) as gateway:
        run = await gateway.client.until_status("run-1", "completed", "failed")
        if change == "deleted":
            assert (run["status"], run["error"]["code"]) == ("failed", "server_restarted")
            return
        assert run["status"] == "completed", run
        [_, answer] = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert answer["content"] == "Here it is"
    assert [request.method for request in server.requests].count("POST") == 1, "nothing was asked for twice"
