"""A store that has no room, is held by somebody, or forgets: the runs say so, reads work, and it passes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.fault_scenes import SERVER, check_ended, pausing, talker
from tests.full_disks import mounted_disk, take_all
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until

SMALL = "sqlite:///gateway.db?max_size_bytes=720000"
GREETER = agent("greeter", scripted([{"text": "hi"}]))
FLOOD = agent("flood", scripted([{"text": "x" * 2_000, "repeat": 1_000, "chunk_characters": 2_000}]))
"""Says far more than a small store holds."""


def stuffing(number: int, size: int = 60_000, name: str = "stuff") -> dict[str, object]:
    """A run whose own message takes a good part of a small store."""
    return run_body("y" * size, run_id=f"{name}-{number}", thread_id=f"{name}-{number}")


async def fill(gateway: LocalGateway, size: int = 60_000, name: str = "stuff") -> int:
    """Run until there is no room for another run of that size; how many there were."""
    for number in range(100):
        response = await gateway.client.http.post("/agents/greeter/run", json=stuffing(number, size, name))
        if response.status_code == 503:
            assert response.json()["code"] == "store_full"
            check_nothing_leaks(response.content)
            return number
    raise AssertionError("the store never became full")


# --- 57: no room


async def test_without_room_a_new_run_is_a_503_before_the_first_byte_and_reads_work(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], store=SMALL, server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        count = await fill(gateway)
        assert count > 1
        await fill(gateway, 1_000, "rest")  # what is left may be too much for the gateway to call itself full
        assert (await gateway.client.http.get("/readyz")).status_code == 503
        assert (await gateway.client.http.get("/healthz")).status_code == 200
        await check_ended(gateway, "run-1", "completed")
        assert len((await gateway.client.get("/threads"))["threads"]) >= count
        assert (await gateway.client.http.get(f"/runs/stuff-{count}")).status_code == 404
        # the thread that was refused is not locked, and deleting makes room
        assert (await gateway.client.http.delete("/threads/stuff-0")).status_code == 204
        assert (await gateway.client.http.delete("/threads/stuff-1")).status_code == 204
        response = await gateway.client.http.post("/agents/greeter/run", json=stuffing(count))
        assert response.status_code == 200
        await check_ended(gateway, f"stuff-{count}", "completed")
        assert (await gateway.client.http.get("/readyz")).status_code == 200


async def test_threads_are_deleted_on_a_full_disk_also_one_with_a_run_under_way(tmp_path: Path) -> None:
    agents = [GREETER, talker(on_disconnect="continue")]
    with mounted_disk(tmp_path, "64m") as disk:
        async with local_gateway(tmp_path, agents, store=f"sqlite:///{disk}/gateway.db", server=SERVER) as gateway:
            await gateway.client.run("greeter", stuffing(0))
            async with gateway.client.stream("talker", run_body()) as stream:
                await stream.until("TEXT_MESSAGE_CONTENT")
            take_all(disk)
            async with asyncio.timeout(DEADLINE_SECONDS):  # until the log's file is used up, too
                while (await gateway.client.http.post("/agents/greeter/run", json=stuffing(1))).status_code != 503:
                    assert (await gateway.client.http.delete("/threads/stuff-1")).status_code == 204
            for thread_id in ("stuff-0", "thread-1"):
                take_all(disk)
                assert (await gateway.client.http.delete(f"/threads/{thread_id}")).status_code == 204
                assert (await gateway.client.http.get(f"/threads/{thread_id}/messages")).status_code == 404
            assert (await gateway.client.get("/threads"))["threads"] == []


async def test_a_run_that_uses_the_last_room_ends_with_store_full_and_is_kept_when_there_is_room(
    tmp_path: Path,
) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [GREETER, FLOOD], clock=clock, store=SMALL, server=SERVER) as gateway:
        await gateway.client.http.post("/agents/greeter/run", json=stuffing(0))
        await gateway.client.http.post("/agents/greeter/run", json=stuffing(1))
        response = await gateway.client.http.post("/agents/flood/run", json=run_body())
        assert response.status_code == 200
        frames = read_stream(response.content)
        verify_server([each.event for each in frames], thread_id="thread-1", run_id="run-1")
        assert frames[-1].event["code"] == "store_full"
        check_nothing_leaks(response.content)
        run = await gateway.client.get("/runs/run-1")
        assert (run["status"], run["error"]["code"]) == ("failed", "store_full")
        # once there is room, the end is kept, as it was told
        await gateway.client.http.delete("/threads/stuff-0")
        await gateway.client.http.delete("/threads/stuff-1")
        async with asyncio.timeout(DEADLINE_SECONDS):
            while gateway.application.runner._runs:
                await clock.advance(2)
        log = await check_ended(gateway, "run-1", "failed", code="store_full")
        seen = {each.id for each in frames if each.id is not None}
        assert seen <= {row.sequence for row in log}
        await gateway.client.run("greeter", run_body(run_id="run-2"))
        await check_ended(gateway, "run-2", "completed")


async def test_a_full_store_at_start_still_starts_and_shows_what_it_has(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], store=SMALL, server=SERVER) as gateway:
        count = await fill(gateway)
    async with local_gateway(tmp_path, [GREETER], store=SMALL, server=SERVER) as gateway:
        assert len((await gateway.client.get("/threads"))["threads"]) >= count
        await check_ended(gateway, "stuff-0", "completed")


# --- 56: somebody else holds the file for a while


async def test_a_long_reader_of_the_file_delays_nobody(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        with closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchone()
            for number in range(5):
                await gateway.client.run("greeter", run_body(run_id=f"more-{number}", thread_id=f"t-{number}"))
        for number in range(5):
            await check_ended(gateway, f"more-{number}", "completed")


async def test_a_writer_that_lets_go_in_time_costs_no_event(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing()], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            with closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as writer:
                writer.execute("BEGIN IMMEDIATE")
                await clock.advance(5)  # the run goes on; what it says waits for the file
                await clock.settle()
                assert "RUN_FINISHED" not in stream.types
                writer.execute("ROLLBACK")
            assert (await stream.rest())[-1].type == "RUN_FINISHED"
        await check_ended(gateway, "run-1", "completed")


# --- retention


async def test_retention_removes_the_logs_of_finished_runs_and_nothing_else(tmp_path: Path) -> None:
    clock = MovableClock()
    agents = [GREETER, talker("talker", on_disconnect="continue", parameters={"max_run_seconds": None})]
    async with local_gateway(tmp_path, agents, clock=clock, server={**SERVER, "retention_days": 2}) as gateway:
        store = gateway.application.store
        await gateway.client.run("greeter", run_body(run_id="old"))
        async with gateway.client.stream("talker", run_body(run_id="live", thread_id="t-live")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
        await clock.advance(86_400)
        await gateway.client.run("greeter", run_body(run_id="young", thread_id="t-young"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await store.last_sequence("local", "old"):
                await clock.advance(3_600)
        await check_ended(gateway, "young", "completed")
        assert await store.last_sequence("local", "live") > 0
        assert (await gateway.client.get("/runs/old"))["status"] == "completed"
        assert (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert (await gateway.client.http.get("/runs/old/events")).status_code == 204
        await gateway.client.http.post("/runs/live/cancel")
        await check_ended(gateway, "live", "cancelled")


# --- 64: the clock


@pytest.mark.parametrize("hours", [-1, 1, 24 * 400])
async def test_a_clock_that_jumps_changes_no_order_and_no_waiting(tmp_path: Path, hours: int) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing()], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            clock.put_forward(hours * 3_600)
            await clock.advance(4)
            assert "RUN_FINISHED" not in stream.types
            await clock.advance(1)
            await stream.rest()
        await check_ended(gateway, "run-1", "completed")
        await gateway.application.store.check()
        async with gateway.client.stream("pausing", run_body(run_id="run-2")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            await clock.advance(5)
            await stream.rest()
        await check_ended(gateway, "run-2", "completed")
        await until(lambda: not gateway.application.runner._runs)
