"""Gateways that are killed, asked to stop, or started twice: real processes, real signals, one SQLite file."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.events import RunFailed
from tests.ag_ui_verifier import read_stream, verify_server
from tests.fault_scenes import check_kept, store_at
from tests.invariants import check_nothing_leaks
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayProcess,
    OpenStream,
    agent,
    gateway_command,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_answered, until_outside

# A tool that leaves a trace outside the process: one line for each time it really ran.
TOOLS = '''
import asyncio
from pathlib import Path

from gateway.tool import ToolContext

TRACE = Path(__file__).with_name("trace.txt")


async def pay(context: ToolContext) -> str:
    """Pay once."""
    with TRACE.open("a") as trace:
        trace.write(context.call_id + "\\n")
    await asyncio.sleep(0)
    return "paid"


async def pay_slowly(context: ToolContext) -> str:
    """Pay once, and never come back."""
    with TRACE.open("a") as trace:
        trace.write(context.call_id + "\\n")
    await asyncio.get_running_loop().create_future()
    return "paid"
'''
PAY = {"type": "PythonTool", "name": "pay", "parameters": {"function": "kill_tools:pay"}}
PAY_SLOWLY = {"type": "PythonTool", "name": "pay_slowly", "parameters": {"function": "kill_tools:pay_slowly"}}

SLOW_WORDS = {"text": "word ", "repeat": 400, "delta_seconds": 0.002}
AGENTS = [
    agent(
        "talker", scripted([{"text": "some words ", "chunk_characters": 3}, {"hang": True}]), on_disconnect="continue"
    ),
    agent("slow", scripted([{"reasoning": "hm"}, SLOW_WORDS]), on_disconnect="continue"),
    agent(
        "payer",
        scripted([{"text": "paying"}, {"tool": "pay"}], [{"text": "paid"}, {"hang": True}]),
        tools=[PAY],
        on_disconnect="continue",
    ),
    agent(
        "stuck", scripted([{"tool": "pay_slowly"}], [{"text": "paid"}]), tools=[PAY_SLOWLY], on_disconnect="continue"
    ),
    agent("approving", scripted([{"tool": "pay"}], [{"text": "done"}]), tools=[{**PAY, "approval": "always"}]),
    agent(
        "queued", scripted([{"text": "first"}, {"hang": True}]), on_concurrent_run="enqueue", on_disconnect="continue"
    ),
]


def configure(directory: Path, **server: Any) -> Path:
    (directory / "kill_tools.py").write_text(TOOLS)
    return write_configuration(directory, AGENTS, server={"drain_seconds": 20, **server}, search=None)


def trace(directory: Path) -> list[str]:
    path = directory / "trace.txt"
    return path.read_text().split() if path.exists() else []


async def post_forever(gateway: GatewayProcess, agent_id: str, body: dict[str, Any]) -> OpenStream:
    """A stream that its gateway takes down with it; it is closed with the client."""
    request = gateway.client.http.build_request("POST", f"/agents/{agent_id}/run", json=body)
    return OpenStream(await gateway.client.http.send(request, stream=True))


async def drained(stream: OpenStream) -> None:
    """Read what is left, however it ends."""
    with suppress(httpx.HTTPError):
        await stream.rest()


def seen_numbers(stream: OpenStream) -> dict[int, dict[str, Any]]:
    return {frame.id: frame.data for frame in stream.frames if frame.id is not None}


# --- 54: kill -9 in the middle of a run


@pytest.mark.parametrize(("agent_id", "until"), [("talker", "TEXT_MESSAGE_CONTENT"), ("payer", "TOOL_CALL_RESULT")])
async def test_after_kill_9_the_run_has_an_end_and_its_thread_goes_on(
    tmp_path: Path, agent_id: str, until: str
) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, agent_id, run_body())
        await stream.until(until)
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
        seen = seen_numbers(stream)
    assert seen
    before = trace(tmp_path)
    async with gateway_process(configuration) as gateway:
        run = await gateway.client.get("/runs/run-1")
        assert (run["status"], run["error"]["code"]) == ("failed", "server_restarted")
        async with gateway.client.events("run-1") as replay:
            await replay.rest()
        frames = read_stream(bytes(replay.body))
        verify_server([each.event for each in frames], thread_id="thread-1", run_id="run-1")
        kept = {each.id: each.event for each in frames if each.id is not None}
        assert {number: kept.get(number) for number in seen} == seen, "what a viewer saw is in the log, same id"
        assert frames[-1].event["type"] == "RUN_ERROR"
        assert frames[-1].event["code"] == "server_restarted"
        async with gateway.client.stream(agent_id, run_body(run_id="other", messages=[]), to="connect") as stream:
            assert (await stream.rest())[-1].data["code"] == "server_restarted"
        # the thread is free, and its history is one that goes on
        stream = await post_forever(gateway, agent_id, run_body("go on", run_id="run-2"))
        await stream.until("TEXT_MESSAGE_CONTENT")
        await gateway.client.http.post("/runs/run-2/cancel")
        await drained(stream)
        assert await gateway.signal(signal.SIGTERM) == 0
    assert trace(tmp_path)[: len(before)] == before
    assert len(set(trace(tmp_path))) == len(trace(tmp_path)), "no call ran twice"
    async with store_at(tmp_path) as store:
        log = await check_kept(store, "run-1")
        assert isinstance(log[-1].event, RunFailed)
        await check_kept(store, "run-2")


async def test_after_kill_9_in_a_tool_the_tool_is_not_run_again(tmp_path: Path) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "stuck", run_body())
        await stream.until("TOOL_CALL_END")
        await until_outside(lambda: trace(tmp_path))
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    for _ in range(2):  # the second restart finds nothing more to end
        async with gateway_process(configuration) as gateway:
            async with gateway.client.events("run-1") as replay:
                frames = await replay.rest()
            types = [frame.type for frame in frames]
            assert types.count("RUN_ERROR") == 1
            assert types[-1] == "RUN_ERROR"
            # the same request again is the same run: it is replayed, not run
            again = await gateway.client.run("stuck", run_body())
            assert [frame.type for frame in again] == types
            await gateway.signal(signal.SIGKILL)
    assert len(trace(tmp_path)) == 1
    async with store_at(tmp_path) as store:
        await check_kept(store, "run-1")


async def test_after_kill_9_an_approval_is_still_open_and_runs_once(tmp_path: Path) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        frames = await gateway.client.run("approving", run_body())
        (interrupt,) = frames[-1].data["outcome"]["interrupts"]
        await gateway.signal(signal.SIGKILL)
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    async with gateway_process(configuration) as gateway:
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        body = run_body(run_id="run-2", messages=messages, resume=resume)
        frames = await gateway.client.run("approving", body)
        assert frames[-1].type == "RUN_FINISHED"
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(configuration) as gateway:
        assert [f.type for f in await gateway.client.run("approving", body)] == [f.type for f in frames]
        late = await gateway.client.http.post("/agents/approving/run", json={**body, "runId": "run-3"})
        assert late.status_code in (200, 422)
        await gateway.signal(signal.SIGKILL)
    assert len(trace(tmp_path)) == 1


async def test_after_kill_9_runs_that_waited_have_an_end_too(tmp_path: Path) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        streams = [await post_forever(gateway, "queued", run_body(run_id=f"run-{n}")) for n in range(3)]
        await streams[0].until("TEXT_MESSAGE_CONTENT")
        assert (await gateway.client.get("/runs/run-2"))["status"] == "queued"
        await gateway.signal(signal.SIGKILL)
        for stream in streams:
            await drained(stream)
    async with gateway_process(configuration) as gateway:
        for n in range(3):
            run = await gateway.client.get(f"/runs/run-{n}")
            assert (run["status"], run["error"]["code"]) == ("failed", "server_restarted")
        await gateway.signal(signal.SIGKILL)
    async with store_at(tmp_path) as store:
        assert await store.unfinished_runs() == []
        for n in range(3):
            await check_kept(store, f"run-{n}")


# --- 52, 53: SIGTERM and SIGINT


async def until_unready(gateway: GatewayProcess) -> None:
    """Until it takes no new runs, while it still answers."""
    await until_answered(lambda: gateway.client.http.get("/readyz"), lambda answer: answer.status_code == 503)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_runs_end_and_takes_no_new_ones(tmp_path: Path, number: signal.Signals) -> None:
    async with gateway_process(configure(tmp_path)) as gateway:
        assert (await gateway.client.http.get("/readyz")).status_code == 200
        stream = await post_forever(gateway, "slow", run_body())
        await stream.until("TEXT_MESSAGE_CONTENT")
        gateway.process.send_signal(number)
        await until_unready(gateway)
        refused = await gateway.client.http.post("/agents/slow/run", json=run_body(run_id="run-2", thread_id="t-2"))
        assert (refused.status_code, refused.json()["code"]) == (503, "shutting_down")
        assert (await gateway.client.http.get("/healthz")).status_code == 200
        frames = await stream.rest()
        assert frames[-1].type == "RUN_FINISHED"
        assert await gateway.wait() == 0
        _quiet(gateway)
    async with store_at(tmp_path) as store:
        await check_kept(store, "run-1")


async def test_a_run_that_does_not_end_in_time_is_told_so_and_ended(tmp_path: Path) -> None:
    async with gateway_process(configure(tmp_path, drain_seconds=0.2)) as gateway:
        stream = await post_forever(gateway, "talker", run_body())
        await stream.until("TEXT_MESSAGE_CONTENT")
        tool = await post_forever(gateway, "stuck", run_body(run_id="run-2", thread_id="t-2"))
        await tool.until("TOOL_CALL_END")
        gateway.process.send_signal(signal.SIGTERM)
        for each in (stream, tool):
            last = (await each.rest())[-1].data
            assert (last["type"], last["code"]) == ("RUN_ERROR", "server_shutdown")
        assert await gateway.wait() == 0
        _quiet(gateway)
    async with store_at(tmp_path) as store:
        for run_id in ("run-1", "run-2"):
            log = await check_kept(store, run_id)
            assert isinstance(log[-1].event, RunFailed)
            assert log[-1].event.code == "server_shutdown"


async def test_viewers_of_what_ends_with_the_server_are_told_to_come_back(tmp_path: Path) -> None:
    async with gateway_process(configure(tmp_path, drain_seconds=0.2)) as gateway:
        first = await post_forever(gateway, "queued", run_body())
        await first.until("TEXT_MESSAGE_CONTENT")
        waiting = await post_forever(gateway, "queued", run_body(run_id="run-2"))
        gateway.process.send_signal(signal.SIGTERM)
        await drained(first)
        await drained(waiting)
        assert await gateway.wait() == 0
        assert waiting.frames[-1].data["code"] == "server_shutdown"
        for each in (first, waiting):
            assert b"\nretry: " in each.body
        _quiet(gateway)
    async with store_at(tmp_path) as store:
        assert await store.unfinished_runs() == []
        for run_id in ("run-1", "run-2"):
            log = await check_kept(store, run_id)
            assert isinstance(log[-1].event, RunFailed)
            assert log[-1].event.code == "server_shutdown"


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with gateway_process(configure(tmp_path, drain_seconds=600)) as gateway:
        stream = await post_forever(gateway, "talker", run_body())
        await stream.until("TEXT_MESSAGE_CONTENT")
        gateway.process.send_signal(signal.SIGTERM)
        await until_unready(gateway)
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_SECONDS):  # far below the 600 of its drain
            code = await gateway.process.wait()
        await drained(stream)
        assert code in (0, 1, 143, -signal.SIGTERM)
        _quiet(gateway)
    async with gateway_process(configure(tmp_path)) as gateway:  # and nothing was lost
        assert (await gateway.client.get("/runs/run-1"))["status"] in ("failed", "cancelled")
        await gateway.signal(signal.SIGTERM)
    async with store_at(tmp_path) as store:
        await check_kept(store, "run-1")


async def test_an_idle_gateway_stops_at_once_with_idle_connections_open(tmp_path: Path) -> None:
    async with gateway_process(configure(tmp_path)) as gateway:
        await gateway.client.get("/agents")  # the client keeps its connection
        async with asyncio.timeout(15):
            assert await gateway.signal(signal.SIGTERM) == 0
        _quiet(gateway)


def _quiet(gateway: GatewayProcess) -> None:
    check_nothing_leaks(gateway.log.read_text())


# --- a second process, foreign files


async def refused(configuration: Path, *arguments: str) -> tuple[int, str]:
    """A gateway that must not start: its exit code and what it said."""
    return await gateway_command(configuration.parent, "serve", "--config", str(configuration), *arguments)


async def test_a_second_process_on_one_file_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        code, said = await refused(configuration)
        assert code == 1
        assert "in use by another process" in said
        assert "gateway.db" in said
        check_nothing_leaks(said)
        stream = await post_forever(gateway, "slow", run_body())
        assert (await stream.rest())[-1].type == "RUN_FINISHED"
        assert await gateway.signal(signal.SIGTERM) == 0
    async with gateway_process(configuration) as gateway:  # the lock went with the process
        assert await gateway.signal(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("content", "hint"), [(b"this is no database, but a text of some length\n" * 100, "damaged"), (b"", "")]
)
async def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path, content: bytes, hint: str) -> None:
    configuration = configure(tmp_path)
    (tmp_path / "gateway.db").write_bytes(content)
    if not content:  # an empty file is a new store
        async with gateway_process(configuration) as gateway:
            assert await gateway.signal(signal.SIGTERM) == 0
        return
    code, said = await refused(configuration)
    assert code == 1
    assert hint in said
    check_nothing_leaks(said)
    assert (tmp_path / "gateway.db").read_bytes() == content


async def test_a_store_of_a_newer_gateway_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    configuration = configure(tmp_path)
    async with gateway_process(configuration) as gateway:
        assert await gateway.signal(signal.SIGTERM) == 0
    with closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    before = (tmp_path / "gateway.db").read_bytes()
    code, said = await refused(configuration)
    assert code == 1
    assert "newer" in said
    check_nothing_leaks(said)
    assert (tmp_path / "gateway.db").read_bytes() == before


async def test_a_port_that_is_taken_is_a_message(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = await refused(configure(tmp_path), "--port", str(taken.getsockname()[1]))
        assert code == 1
        assert "cannot listen" in said
        assert "--port" in said
        check_nothing_leaks(said)
