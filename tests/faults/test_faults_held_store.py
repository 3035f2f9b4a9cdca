"""A store whose file another program holds, or that is taken away under the process."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.fault_scenes import SERVER, check_ended, check_kept, pausing, store_at, talker
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayClient,
    LocalGateway,
    OpenStream,
    agent,
    gateway_process,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)

GREETER = agent("greeter", scripted([{"text": "hi"}]))


@asynccontextmanager
async def held(folder: Path, client: GatewayClient) -> AsyncGenerator[None]:
    """Another program writes to the store, and the gateway has noticed."""
    with closing(sqlite3.connect(folder / "gateway.db", isolation_level=None, timeout=DEADLINE_SECONDS)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert (await client.http.get("/readyz")).status_code == 200, "it may be for a moment"
        yield
        other.execute("ROLLBACK")


async def start(gateway: LocalGateway, **body: Any) -> asyncio.Task[httpx.Response]:
    """A run that is asked for, once its request has come to the store."""
    before = len(gateway.application.runner._runs)
    asked = asyncio.create_task(gateway.client.http.post("/agents/greeter/run", json=run_body(**body)))
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(gateway.application.runner._runs) == before and not asked.done():
            await asyncio.sleep(0)
    return asked


async def check_refused(asked: asyncio.Task[httpx.Response]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        response = await asked
    assert (response.status_code, response.json()["code"]) == (503, "store_unavailable")
    assert "another program holds its file" in response.json()["detail"]
    check_nothing_leaks(response.content)


async def test_a_file_that_is_held_for_long_ends_no_run_and_refuses_new_ones_soon(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        local_gateway(tmp_path, [pausing(), GREETER], clock=clock, server=SERVER) as gateway,
        AsyncExitStack() as stack,
    ):
        await gateway.client.run("greeter", run_body(run_id="before", thread_id="before"))
        streams: list[OpenStream] = []
        for number in range(3):
            body = run_body(run_id=f"run-{number}", thread_id=f"t-{number}")
            stream = await stack.enter_async_context(gateway.client.stream("pausing", body))
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            streams.append(stream)
        async with held(tmp_path, gateway.client):
            fresh = await start(gateway, run_id="fresh", thread_id="fresh")
            await clock.advance(5)  # the models go on; what they say waits for the file
            await check_refused(fresh)
            await check_refused(await start(gateway, run_id="second", thread_id="second"))
            ready = await gateway.client.http.get("/readyz")
            assert (ready.status_code, ready.json()["problems"]) == (
                503,
                ["the store is busy: another program holds its file"],
            )
            assert (await gateway.client.get("/runs/before"))["status"] == "completed"
            assert len((await gateway.client.get("/threads"))["threads"]) == 4
            assert (await gateway.client.get("/threads/before/messages"))["messages"]
            await clock.advance(50)
            shown = [stream.types for stream in streams]
            assert not any("RUN_FINISHED" in types or "RUN_ERROR" in types for types in shown)
        for number, stream in enumerate(streams):
            assert (await stream.rest())[-1].type == "RUN_FINISHED"
            await check_ended(gateway, f"run-{number}", "completed")
        for run_id in ("fresh", "second"):
            assert (await gateway.client.http.get(f"/runs/{run_id}")).status_code == 404
        await gateway.client.run("greeter", run_body(run_id="after", thread_id="fresh"))
        assert (await gateway.client.http.get("/readyz")).status_code == 200


async def test_a_file_that_is_held_for_too_long_is_a_failure_of_the_store(tmp_path: Path) -> None:
    clock = MovableClock()
    store = "sqlite:///gateway.db?max_wait_seconds=20"
    async with local_gateway(tmp_path, [pausing()], clock=clock, server=SERVER, store=store) as gateway:
        async with gateway.client.stream("pausing", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            async with held(tmp_path, gateway.client):
                await clock.advance(5)
                await clock.advance(14)
                assert "RUN_ERROR" not in stream.types
                await clock.advance(2)
                frames = await stream.rest()
            assert (frames[-1].type, frames[-1].data["code"]) == ("RUN_ERROR", "store_unavailable")
            verify_server(
                [each.event for each in read_stream(bytes(stream.body))], thread_id="thread-1", run_id="run-1"
            )
        async with asyncio.timeout(DEADLINE_SECONDS):
            while gateway.application.runner._runs:
                await clock.advance(2)
        await check_ended(gateway, "run-1", "failed", code="store_unavailable")


async def test_a_run_behind_one_whose_end_waits_is_refused_soon(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing(), GREETER], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            async with held(tmp_path, gateway.client):
                await gateway.client.http.post("/runs/run-1/cancel")
                asked = await start(gateway, run_id="run-2", history="append")
                joining = asyncio.create_task(
                    gateway.client.http.post("/agents/pausing/connect", json=run_body(run_id="look"))
                )
                await clock.until_timer(4.5)
                await clock.advance(5)
                async with asyncio.timeout(DEADLINE_SECONDS):
                    assert ((await asked).status_code, (await joining).status_code) == (503, 503)
            assert (await stream.rest())[-1].type == "RUN_FINISHED"
        await check_ended(gateway, "run-1", "cancelled")


async def test_a_queued_run_whose_turn_comes_meanwhile_waits_as_those_under_way_do(tmp_path: Path) -> None:
    clock = MovableClock()
    agents = [pausing(on_concurrent_run="enqueue")]
    async with local_gateway(tmp_path, agents, clock=clock, server=SERVER) as gateway:
        async with (
            gateway.client.stream("pausing", run_body()) as first,
            gateway.client.stream("pausing", run_body(run_id="run-2")) as second,
        ):
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            await gateway.client.until_status("run-2", "queued")
            async with held(tmp_path, gateway.client):
                await clock.advance(5)
                await clock.advance(50)
            assert (await first.rest())[-1].type == "RUN_FINISHED"
            await second.until("TEXT_MESSAGE_CONTENT", 3)
            await clock.advance(5)
            assert (await second.rest())[-1].type == "RUN_FINISHED"
        await check_ended(gateway, "run-2", "completed")


async def test_sigterm_waits_for_nobody_who_holds_the_file(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [talker()], server=SERVER)
    async with gateway_process(configuration) as gateway:
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            async with held(tmp_path, gateway.client):
                gateway.process.send_signal(signal.SIGTERM)
                frames = await stream.rest()
                assert await gateway.wait() == 0, "within the test's deadline, which is that of the lock"
        assert (frames[-1].type, frames[-1].data["code"]) == ("RUN_ERROR", "store_unavailable")
    async with gateway_process(configuration) as gateway:
        await gateway.client.until_status("run-1", "failed")
    async with store_at(tmp_path) as store:
        await check_kept(store, "run-1")


@pytest.mark.parametrize("name", ["gateway.db", "gateway.db-wal"])
async def test_a_file_that_is_taken_away_fails_the_runs_under_way_and_those_to_come(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing(), GREETER], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            (tmp_path / name).rename(tmp_path / "moved")
            await clock.advance(5)
            frames = await stream.rest()
        assert (frames[-1].type, frames[-1].data["code"]) == ("RUN_ERROR", "store_unavailable")
        verify_server([each.event for each in read_stream(bytes(stream.body))], thread_id="thread-1", run_id="run-1")
        response = await gateway.client.http.post("/agents/greeter/run", json=run_body(run_id="r2", thread_id="t2"))
        assert (response.status_code, response.json()["code"]) == (503, "store_unavailable")
        check_nothing_leaks(response.content)
        assert str(tmp_path) not in response.text
        assert [record.message for record in caplog.records].count("store cannot write") == 1
        (tmp_path / "moved").rename(tmp_path / name)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while gateway.application.runner._runs:
                await clock.advance(2)
        await check_ended(gateway, "run-1", "failed", code="store_unavailable")
