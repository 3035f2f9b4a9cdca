"""Cancel in every state: within a second, the provider's socket closed at once, `cancelled`, the thread free, once."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from gateway.history.model_view import model_view
from tests.fault_scenes import (
    SERVER,
    WORDS,
    check_ended,
    check_free,
    executions,
    fault_tool,
    pausing,
    release,
    replayed,
    talker,
    upstream_agent,
)
from tests.invariants import check_history
from tests.movable_clock import MovableClock
from tests.observed_runs import OWNER
from tests.openai_chat_server import Script, chat_server, text_records
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until, until_answered

WITHIN_SECONDS = 1.5  # a second, and what a busy machine takes to notice


async def cancel(gateway: LocalGateway, run_id: str = "run-1") -> tuple[int, str]:
    """Status and the run's status; the answer never waits for the end."""
    response = await gateway.client.http.post(f"/runs/{run_id}/cancel")
    return response.status_code, response.json()["status"]


async def ran(count: int = 1) -> None:
    """Until that many tool calls have begun."""
    await until(lambda: executions.total() >= count)


# --- 50: every state


async def test_cancel_before_the_providers_headers_closes_its_socket(tmp_path: Path) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(Script(headers_after=asyncio.Event()))
        async with gateway.client.stream("upstream", run_body()) as stream:
            await stream.until("RUN_STARTED")
            request = await upstream.received()
            began = time.monotonic()
            assert await cancel(gateway) == (202, "running")
            await asyncio.wait_for(request.disconnected.wait(), WITHIN_SECONDS)
            frames = await stream.rest()
            assert time.monotonic() - began < WITHIN_SECONDS
        assert frames[-1].data["outcome"]["type"] == "cancelled"
        await check_ended(gateway, "run-1", "cancelled")
        assert len(upstream.requests) == 1, "a cancelled call is not tried again"


async def test_cancel_between_tokens_closes_the_providers_socket_and_keeps_the_words(tmp_path: Path) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(
            Script(pieces=text_records("one", " two", finish_reason=None), ending="silence"),
            Script(pieces=[*text_records("go on"), b"data: [DONE]\n\n"]),
        )
        async with gateway.client.stream("upstream", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            began = time.monotonic()
            assert (await cancel(gateway))[0] == 202
            await asyncio.wait_for(upstream.requests[0].disconnected.wait(), WITHIN_SECONDS)
            frames = await stream.rest()
            assert time.monotonic() - began < WITHIN_SECONDS
        said = "".join(frame.data.get("delta", "") for frame in frames)
        assert said
        await check_ended(gateway, "run-1", "cancelled")
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert messages[-1]["content"] == said
        # and the thread goes on from there, with a history that the provider takes
        await gateway.client.run("upstream", run_body(run_id="run-2", messages=[*messages, _user("more")]))
        await check_ended(gateway, "run-2", "completed")
        assert [message["role"] for message in upstream.requests[1].json["messages"]] == ["user", "assistant", "user"]


def _user(text: str) -> dict[str, str]:
    return {"id": f"user-{text}", "role": "user", "content": text}


async def test_cancel_between_two_tries_ends_the_waiting(tmp_path: Path) -> None:
    clock = MovableClock()
    failing = agent("failing", scripted([{"error": "throttled", "retry_after_seconds": 30}]))
    async with local_gateway(tmp_path, [failing], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("failing", run_body()) as stream:
            await stream.until("RUN_STARTED")
            await clock.until(lambda: any(30 <= due <= 31 for due in clock.pending))
            assert (await cancel(gateway))[0] == 202
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")


@pytest.mark.parametrize("tool", ["stuck", "blocked", "stubborn"])
async def test_cancel_in_a_tool_whether_it_listens_or_not(tmp_path: Path, tool: str) -> None:
    release.clear()
    busy = agent("busy", scripted([{"text": "wait"}, {"tool": tool}], [{"text": "never"}]), tools=[fault_tool(tool)])
    async with local_gateway(tmp_path, [busy], server=SERVER) as gateway:
        async with gateway.client.stream("busy", run_body()) as stream:
            await stream.until("TOOL_CALL_END")
            await ran()
            began = time.monotonic()
            assert (await cancel(gateway))[0] == 202
            frames = await stream.rest()
            assert time.monotonic() - began < WITHIN_SECONDS
        assert frames[-1].data["outcome"]["type"] == "cancelled"
        await check_ended(gateway, "run-1", "cancelled")
        await check_free(gateway, "busy", "thread-1")
        release.set()
        thread = await gateway.application.store.load_thread(OWNER, "thread-1")
        assert thread is not None
        check_history(model_view(thread.messages))


async def test_cancel_of_a_run_that_waits_for_its_turn(tmp_path: Path) -> None:
    clock = MovableClock()
    queued = pausing("queued", on_concurrent_run="enqueue")
    async with local_gateway(tmp_path, [queued], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("queued", run_body()) as first:
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            async with (
                gateway.client.stream("queued", run_body(run_id="run-2")) as second,
                gateway.client.stream("queued", run_body(run_id="run-3")) as third,
            ):
                assert (await gateway.client.get("/runs/run-2"))["status"] == "queued"
                began = time.monotonic()
                await cancel(gateway, "run-2")
                frames = await second.rest()
                assert time.monotonic() - began < WITHIN_SECONDS
                assert [frame.type for frame in frames] == ["RUN_STARTED", "RUN_FINISHED"]
                assert (await gateway.client.get("/runs/run-2"))["status"] == "cancelled"
                await clock.advance(5)
                assert (await first.rest())[-1].type == "RUN_FINISHED"
                await third.until("TEXT_MESSAGE_CONTENT", 3)
                await clock.advance(5)
                await third.rest()
        await check_ended(gateway, "run-1", "completed")
        await check_ended(gateway, "run-3", "completed")
        await check_ended(gateway, "run-2", "cancelled")


async def test_cancel_after_the_end_changes_nothing(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("greeter", scripted([{"text": "hi"}]))], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        before = await replayed(gateway, "run-1")
        assert await cancel(gateway) == (200, "completed")
        assert await cancel(gateway) == (200, "completed")
        assert await replayed(gateway, "run-1") == before
        await check_ended(gateway, "run-1", "completed")
        unknown = await gateway.client.http.post("/runs/nobody/cancel")
    assert unknown.status_code == 404


async def test_cancel_twice_is_cancel_once(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [talker()], server=SERVER) as gateway:
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            answers = await asyncio.gather(*(cancel(gateway) for _ in range(5)))
            await stream.rest()
        assert {status for status, _ in answers} <= {200, 202}
        log = await check_ended(gateway, "run-1", "cancelled")
        assert "".join(getattr(row.event, "text", "") for row in log) == WORDS


async def test_cancel_while_the_run_begins(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [talker()], server=SERVER) as gateway:
        posting = asyncio.create_task(gateway.client.http.post("/agents/talker/run", json=run_body()))
        await until_answered(
            lambda: gateway.client.http.post("/runs/run-1/cancel"), lambda answer: answer.status_code != 404
        )
        response = await asyncio.wait_for(posting, DEADLINE_SECONDS)
        assert response.status_code == 200
        await check_ended(gateway, "run-1", "cancelled")


async def test_a_thread_that_is_deleted_ends_its_runs_first(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [talker(on_concurrent_run="enqueue")], server=SERVER) as gateway:
        async with (
            gateway.client.stream("talker", run_body()) as first,
            gateway.client.stream("talker", run_body(run_id="run-2")) as second,
        ):
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            response = await gateway.client.http.delete("/threads/thread-1")
            assert response.status_code == 204
            assert (await first.rest())[-1].data["outcome"]["type"] == "cancelled"
            assert (await second.rest())[-1].data["outcome"]["type"] == "cancelled"
        for path in ("/threads/thread-1/messages", "/runs/run-1", "/runs/run-2"):
            assert (await gateway.client.http.get(path)).status_code == 404
        await check_free(gateway, "talker", "thread-1")


# --- 51: the race with the end


async def test_cancel_that_races_the_end_gives_one_end(tmp_path: Path) -> None:
    racer = agent("racer", scripted([{"text": WORDS, "chunk_characters": 1}], switch_every_delta=True))
    outcomes: dict[str, int] = {}
    async with local_gateway(tmp_path, [racer], server=SERVER) as gateway:
        for round in range(24):
            run_id = f"run-{round}"
            async with gateway.client.stream("racer", run_body(run_id=run_id, thread_id=f"t-{round}")) as stream:
                await stream.until("RUN_STARTED")
                for _ in range(round):  # a little later each time
                    await asyncio.sleep(0)
                await gateway.client.http.post(f"/runs/{run_id}/cancel")
                last = (await stream.rest())[-1].data
            run = await gateway.client.until_status(run_id, "completed", "cancelled")
            await check_ended(gateway, run_id, run["status"])
            told = "cancelled" if last.get("outcome", {}).get("type") == "cancelled" else "completed"
            assert run["status"] == told, "the run's row says what its viewers were told"
            outcomes[told] = outcomes.get(told, 0) + 1
    assert sum(outcomes.values()) == 24


async def test_who_asks_sees_an_end_only_when_it_is_kept(tmp_path: Path) -> None:
    greeter = agent("greeter", scripted([{"text": "hi"}]))
    async with local_gateway(tmp_path, [greeter], server=SERVER) as gateway:
        store = gateway.application.store
        for round in range(20):
            run_id = f"run-{round}"
            async with gateway.client.stream("greeter", run_body(run_id=run_id, thread_id=f"t-{round}")):
                await until_answered(partial(gateway.client.get, f"/runs/{run_id}"), lambda run: run["finishedAt"])
                kept = await store.load_run(OWNER, run_id)
                assert kept is not None
                assert kept.status.ended, "a run looked ended before its end was kept"
