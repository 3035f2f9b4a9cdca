"""Ends that cannot be stored at first: over each protocol, what is read later is the end that was shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from gateway.errors import StoreFullError
from gateway.store import Store
from tests.a2a_scene import A2AClient, of_agent, said
from tests.agent_api_scene import frames_of
from tests.agent_api_scene import said as said_over_agent_api
from tests.fault_scenes import SERVER, fault_tool
from tests.ml_commons_scene import P
from tests.movable_clock import MovableClock
from tests.runner_scene import GatedStore
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayClient,
    LocalGateway,
    agent,
    local_gateway,
    parse_frames,
    parts_with_store,
    run_body,
    scripted,
)
from tests.waiting import until_answered

FULL = StoreFullError("the store is full")
USED = {"usage": {"input_tokens": 7, "output_tokens": 5}}
ADDS = {"tool": "add", "id": "call-1", "arguments": {"a": 1, "b": 2}}
PAUSE_SECONDS = 7.0
SPEAKS: list[dict[str, Any]] = [
    {"reasoning": "let me see"},
    {"text": "one two three four"},
    {"delay_seconds": PAUSE_SECONDS},
    {"text": "and five"},
    USED,
]
AGENTS = [agent("talker", scripted([{"text": "adding"}, ADDS, USED], SPEAKS), tools=[fault_tool("add")])]
THREAD = "thread-1"

Read = Callable[[GatewayClient], Awaitable[Any]]


class Shown(NamedTuple):
    """The end of a run as its client was shown it; `reads` ask for it again."""

    end: Any
    reads: Mapping[str, Read]


async def post(client: GatewayClient, path: str, body: Mapping[str, Any]) -> bytes:
    answer = await client.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


async def over_ag_ui(client: GatewayClient) -> Shown:
    body = run_body("first", thread_id=THREAD)

    async def attach(client: GatewayClient) -> Any:
        return parse_frames((await client.http.get("/runs/run-1/events")).content)[-1].data

    async def connect(client: GatewayClient) -> Any:
        answer = await client.http.post("/agents/talker/connect", json=run_body(thread_id=THREAD, run_id="look"))
        return parse_frames(answer.content)[-1].data if answer.status_code == 200 else answer.status_code

    shown = parse_frames(await post(client, "/agents/talker/run", body))[-1].data
    return Shown(shown, {"attach": attach, "connect": connect})


async def over_a2a(client: GatewayClient) -> Shown:
    frames = await A2AClient(client).frames(
        "SendStreamingMessage", said("first", contextId=THREAD), to=of_agent("talker")
    )
    shown = frames[-1]["statusUpdate"]

    async def task(client: GatewayClient) -> Any:
        return (await A2AClient(client).task(shown["taskId"]))["status"]

    return Shown(shown["status"], {"GetTask": task})


async def over_ml_commons(client: GatewayClient) -> Shown:
    begun = json.loads(await post(client, f"{P}/agents/talker/_execute?async=true", {"input": "first"}))

    async def task(client: GatewayClient) -> Any:
        return await client.get(f"{P}/tasks/{begun['task_id']}")

    shown = await until_answered(lambda: task(client), lambda told: told["state"] == "FAILED")
    return Shown(shown, {"task": task})


async def over_responses(client: GatewayClient) -> Shown:
    def response(stream: bytes) -> Any:
        return json.loads([line for line in stream.split(b"\n") if line.startswith(b"data: {")][-1][6:])["response"]

    shown = response(await post(client, "/v1/responses", {"model": "talker", "input": "first", "stream": True}))
    path = f"/v1/responses/{shown['id']}"

    async def stream(client: GatewayClient) -> Any:
        return response((await client.http.get(f"{path}?stream=true")).content)

    return Shown(shown, {"response": lambda client: client.get(path), "stream": stream})


async def over_agent_api(client: GatewayClient) -> Shown:
    body = {"input": [said_over_agent_api("first")], "session_id": THREAD, "response_id": "response-1"}
    shown = frames_of(await post(client, "/agents/talker/process", body))[-1]

    async def stream(client: GatewayClient) -> Any:
        return frames_of((await client.http.get("/process/response-1")).content)[-1]

    return Shown(shown, {"response": lambda client: client.get("/process/response-1?stream=false"), "stream": stream})


PROTOCOLS = {
    "ag_ui": over_ag_ui,
    "a2a": over_a2a,
    "ml_commons": over_ml_commons,
    "responses": over_responses,
    "agent_api": over_agent_api,
}


class Scene(NamedTuple):
    gateway: LocalGateway
    store: GatedStore
    clock: MovableClock


@asynccontextmanager
async def opened(folder: Path, clock: MovableClock, agents: Any = AGENTS) -> AsyncGenerator[Scene]:
    stores: list[GatedStore] = []

    def gated(store: Store) -> Store:
        stores.append(GatedStore(store))
        return cast(Store, stores[-1])

    parts = parts_with_store(gated)
    async with local_gateway(folder, agents, clock=clock, parts=parts, server=SERVER, search=None) as gateway:
        yield Scene(gateway, stores[0], clock)


async def shown_without_being_stored(scene: Scene, name: str, *fails: str) -> Shown:
    """What a client is shown of a run while the store refuses its end, and what else is named."""
    runs = scene.gateway.application.runner._runs
    asked = asyncio.create_task(PROTOCOLS[name](scene.gateway.client))
    await scene.clock.until_timer(PAUSE_SECONDS)
    await scene.clock.until(lambda: all(live.backlog == 0 for live in runs.values()))
    for each in ("end_run", *fails):
        scene.store.refuse(each, FULL)
    await scene.clock.advance(PAUSE_SECONDS)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await asked


def mended(scene: Scene) -> None:
    for each in ("end_run", "append_events", "begin_run"):
        scene.store.refuse(each, None)


async def until_blocked(scene: Scene, run_id: str) -> None:
    """Until the run's end was tried to be stored, in vain."""
    live = scene.gateway.application.runner._runs["local", run_id]
    await scene.clock.until(lambda: live.unkept is not None)


async def until_stored(scene: Scene) -> None:
    """Until the store has all ends, some time later."""
    mended(scene)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while scene.gateway.application.runner._runs:
            await scene.clock.advance(2)


# With `end_run` alone all words are stored; with `append_events` the last ones are lost.
@pytest.mark.parametrize("fails", ["end_run", "append_events"])
@pytest.mark.parametrize("name", PROTOCOLS)
async def test_an_end_that_could_not_be_stored_is_read_later_as_it_was_shown(
    tmp_path: Path, name: str, fails: str
) -> None:
    async with opened(tmp_path, MovableClock()) as scene:
        shown = await shown_without_being_stored(scene, name, fails)
        assert "the store is full" in json.dumps(shown.end)
        await scene.clock.advance(3)
        for way, read in shown.reads.items():
            assert await read(scene.gateway.client) in (shown.end, 503), way
        await until_stored(scene)
        for way, read in shown.reads.items():
            assert await read(scene.gateway.client) == shown.end, way


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_an_end_that_is_first_read_once_it_is_stored_is_the_one_that_was_shown(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path, MovableClock()) as scene:
        shown = await shown_without_being_stored(scene, name, "append_events")
        await until_stored(scene)
        for way, read in shown.reads.items():
            assert await read(scene.gateway.client) == shown.end, way


@pytest.mark.parametrize("name", PROTOCOLS)
async def test_a_process_that_ends_tries_once_more_to_store_the_end_that_was_shown(tmp_path: Path, name: str) -> None:
    clock = MovableClock()
    async with opened(tmp_path, clock) as scene:
        shown = await shown_without_being_stored(scene, name, "append_events")
        mended(scene)  # and the next try is two seconds away
    clock.put_forward(60)
    async with opened(tmp_path, clock) as scene:
        for way, read in shown.reads.items():
            assert await read(scene.gateway.client) == shown.end, way


# --- what else is read of such a run


async def test_words_that_were_lost_are_in_no_answer_while_the_store_fails(tmp_path: Path) -> None:
    async with opened(tmp_path, MovableClock()) as scene:
        await shown_without_being_stored(scene, "ag_ui", "append_events")
        client = scene.gateway.client
        during = await client.get("/runs/run-1")
        said_then = (await client.http.get("/v1/responses/run-1")).text
        assert "one two three four" in said_then
        assert "and five" not in said_then
        await until_stored(scene)
        assert await client.get("/runs/run-1") == during
        assert "and five" not in (await client.http.get("/v1/responses/run-1")).text


@pytest.mark.parametrize("fails", ["begin_run", "end_run"])
async def test_a_run_that_left_the_queue_stays_cancelled_when_its_turn_cannot_be_stored(
    tmp_path: Path, fails: str
) -> None:
    agents = [agent("talker", scripted(SPEAKS), on_concurrent_run="enqueue")]
    async with opened(tmp_path, MovableClock(), agents) as scene:
        client = scene.gateway.client
        async with (
            client.stream("talker", run_body("first")) as first,
            client.stream("talker", run_body("second", run_id="run-2", history="append")) as second,
        ):
            await client.until_status("run-2", "queued")
            await client.http.post("/runs/run-2/cancel")
            shown = (await second.rest())[-1].data
            left = await client.get("/runs/run-2")
            assert (left["status"], shown["outcome"]["type"]) == ("cancelled", "cancelled")
            await scene.clock.until_timer(PAUSE_SECONDS)
            scene.store.reached["begin_run"].clear()
            scene.store.hold("begin_run")
            await scene.clock.advance(PAUSE_SECONDS)
            await first.rest()
            async with asyncio.timeout(DEADLINE_SECONDS):
                await scene.store.reached["begin_run"].wait()
            for each in ("end_run", fails):
                scene.store.refuse(each, FULL)
            scene.store.release("begin_run")
            await until_blocked(scene, "run-2")
        await scene.clock.advance(1)
        again = await client.http.get("/runs/run-2/events")
        assert parse_frames(again.content)[-1].data == shown
        await until_stored(scene)
        run = await client.get("/runs/run-2")
        assert {**run, "startedAt": None} == {**left, "startedAt": None}
        again = await client.http.get("/runs/run-2/events")
        assert parse_frames(again.content)[-1].data == shown
