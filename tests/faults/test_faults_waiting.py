"""Gateways that are killed while accepted messages wait for their turn: real processes, each protocol, one thread."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.a2a_scene import A2AClient, of_agent, said, state_of
from tests.ag_ui_verifier import read_stream
from tests.agent_api_scene import said as said_over_agent_api
from tests.fault_scenes import store_at
from tests.faults.test_faults_processes import drained, post_forever
from tests.ml_commons_scene import P
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayClient,
    GatewayProcess,
    agent,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_answered

HANGS = scripted([{"text": "at work"}, {"hang": True}])
AGENTS = [agent("queued", HANGS, on_concurrent_run="enqueue", on_disconnect="continue")]
THREAD = "thread-1"


async def asked(client: GatewayClient, method: str, path: str, **body: Any) -> Any:
    """A JSON answer with status 200."""
    answer = await client.http.request(method, path, json=body or None)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def accepted(client: GatewayClient, path: str, body: Any) -> None:
    """A stream's head; the stream is left open, and ends with its gateway."""
    request = client.http.build_request("POST", path, json=body)
    answer = await client.http.send(request, stream=True)
    assert answer.status_code == 200, await answer.aread()


# --- each protocol: what it is told when its message is accepted, and how it learns what became of it


async def over_ag_ui(client: GatewayClient, text: str) -> str:
    await accepted(client, "/agents/queued/run", run_body(text, thread_id=THREAD, run_id=f"run-{text}"))
    assert (await client.get(f"/runs/run-{text}"))["status"] == "queued"
    return f"run-{text}"


async def ended_over_ag_ui(client: GatewayClient, run_id: str) -> None:
    async with client.events(run_id) as replay:
        await replay.rest()
    events = [frame.event for frame in read_stream(bytes(replay.body))]
    assert [event["type"] for event in events] == ["RUN_STARTED", "RUN_ERROR"]
    assert events[-1]["code"] == "server_restarted"


async def over_a2a(client: GatewayClient, text: str) -> str:
    message = said(text, configuration={"returnImmediately": True}, contextId=THREAD)
    task = (await A2AClient(client).call("SendMessage", message, to=of_agent("queued")))["task"]
    assert state_of(task) == "SUBMITTED"
    return str(task["id"])


async def ended_over_a2a(client: GatewayClient, task_id: str) -> None:
    task = await A2AClient(client).task(task_id)
    assert state_of(task) == "FAILED"
    assert "restarted" in task["status"]["message"]["parts"][0]["text"]


async def over_ml_commons(client: GatewayClient, text: str) -> str:
    body = {"input": text, "parameters": {"memory_id": THREAD}}
    begun = await asked(client, "POST", f"{P}/agents/queued/_execute?async=true", **body)
    return str(begun["task_id"])


async def ended_over_ml_commons(client: GatewayClient, task_id: str) -> None:
    task = await asked(client, "GET", f"{P}/tasks/{task_id}")
    assert (task["state"], task["response"]["error_message"]) == ("FAILED", task["error"])
    assert "restarted" in task["error"]


async def over_responses(client: GatewayClient, text: str) -> str:
    body = {"model": "queued", "input": text, "conversation": THREAD, "background": True}
    begun = await asked(client, "POST", "/v1/responses", **body)
    assert begun["status"] == "queued"
    return str(begun["id"])


async def ended_over_responses(client: GatewayClient, response_id: str) -> None:
    response = await asked(client, "GET", f"/v1/responses/{response_id}")
    assert response["status"] == "failed"
    assert "restarted" in response["error"]["message"]
    items = await asked(client, "GET", f"/v1/responses/{response_id}/input_items")
    assert len(items["data"]) == 1, "its own message"


async def over_agent_api(client: GatewayClient, text: str) -> str:
    response_id = f"response-{text}"
    body = {"input": [said_over_agent_api(text)], "session_id": THREAD, "response_id": response_id}
    await accepted(client, "/agents/queued/process", body)
    assert (await asked(client, "GET", f"/process/{response_id}?stream=false"))["status"] == "queued"
    return response_id


async def ended_over_agent_api(client: GatewayClient, response_id: str) -> None:
    response = await asked(client, "GET", f"/process/{response_id}?stream=false")
    assert (response["status"], response["error"]["code"]) == ("failed", "server_restarted")


class Spoken(NamedTuple):
    """`accepts` sends a message and gives the id under which `ended` finds it failed by the restart."""

    accepts: Callable[[GatewayClient, str], Awaitable[str]]
    ended: Callable[[GatewayClient, str], Awaitable[None]]


PROTOCOLS = {
    "ag_ui": Spoken(over_ag_ui, ended_over_ag_ui),
    "a2a": Spoken(over_a2a, ended_over_a2a),
    "ml_commons": Spoken(over_ml_commons, ended_over_ml_commons),
    "responses": Spoken(over_responses, ended_over_responses),
    "agent_api": Spoken(over_agent_api, ended_over_agent_api),
}


async def texts(client: GatewayClient) -> list[str]:
    """What the thread shows."""
    page = await client.get(f"/threads/{THREAD}/messages")
    return [message["content"] for message in page["messages"]]


async def begin(gateway: GatewayProcess) -> None:
    """A run at work on the thread, which hangs."""
    stream = await post_forever(gateway, "queued", run_body("first"))
    await stream.until("TEXT_MESSAGE_CONTENT")


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_messages_that_wait_when_their_gateway_is_killed_stand_in_the_thread(tmp_path: Path, name: str) -> None:
    speaks, configuration = PROTOCOLS[name], write_configuration(tmp_path, AGENTS, search=None)
    async with gateway_process(configuration) as gateway:
        await begin(gateway)
        ids = [await speaks.accepts(gateway.client, text) for text in ("second", "third")]
        assert await texts(gateway.client) == ["first"], "what waits is not shown"
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(configuration) as gateway:
        for each in ids:
            await speaks.ended(gateway.client, each)
        assert await texts(gateway.client) == ["first", "at work", "second", "third"]
        assert len((await gateway.client.get(f"/threads/{THREAD}/versions"))["versions"]) == 1
        stream = await post_forever(gateway, "queued", run_body("fourth", run_id="run-4", history="append"))
        await stream.until("TEXT_MESSAGE_CONTENT")
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    async with store_at(tmp_path) as store:
        assert await store.waiting_runs() == []


# --- behind a run that has not begun

MCP_SERVER = str(Path(__file__).parent.parent / "mcp_rough_server.py")


def slow_to_begin(seconds: float) -> dict[str, Any]:
    """An agent whose runs first wait that long for tools."""
    parameters = {"command": sys.executable, "args": [MCP_SERVER, "silent"], "first_wait_seconds": seconds}
    tool = {"type": "McpServer", "name": "m", "parameters": parameters}
    return agent("slow", HANGS, on_concurrent_run="enqueue", on_disconnect="continue", tools=[tool])


# It begins before the gateway is killed, or it does not.
@pytest.mark.thorough
@pytest.mark.parametrize("begins", [True, False])
async def test_a_history_without_ids_that_waits_stands_once_when_the_gateway_is_killed(
    tmp_path: Path, begins: bool
) -> None:
    agents = [*AGENTS, slow_to_begin(3 if begins else 600)]
    configuration = write_configuration(tmp_path, agents, search=None)
    async with gateway_process(configuration) as gateway:
        asking = asyncio.create_task(post_forever(gateway, "slow", run_body("first", thread_id=THREAD)))
        await until_answered(lambda: gateway.client.http.get("/runs/run-1"), lambda told: told.status_code == 200)
        body = {"input": [said_over_agent_api("first"), said_over_agent_api("second")], "session_id": THREAD}
        await accepted(gateway.client, "/agents/queued/process", {**body, "response_id": "response-2"})
        if begins:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await (await asking).until("TEXT_MESSAGE_CONTENT")
        asking.cancel()
        await asyncio.wait([asking])
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(configuration) as gateway:
        await ended_over_agent_api(gateway.client, "response-2")
        answered = ["at work"] if begins else []
        assert await texts(gateway.client) == ["first", *answered, "second"]
