"""Tools that hang, crash, flood, block, leave: one failure is one result, and the run goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fault_scenes import SECRET, SERVER, WORDS, check_ended, executions, fault_tool, release, replayed
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.observed_runs import check_run
from tests.running_gateway import Frame, LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until, until_answered

ADD = {"tool": "add", "arguments": {"a": 1, "b": 2}}
SAY = [{"text": "it gave {{result}}"}]


def results(frames: list[Frame]) -> list[str]:
    return [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]


async def run(gateway: LocalGateway, agent_id: str, **more: Any) -> list[Frame]:
    """A run to its end, checked."""
    frames = await gateway.client.run(agent_id, run_body(**more))
    check_nothing_leaks(str([frame.data for frame in frames]), [SECRET])
    return frames


# --- 43, 44: hangs and crashes


@pytest.mark.parametrize("tool", ["fail", "leave", "interrupt", "self_cancel", "binary", "flood"])
async def test_one_tool_that_fails_is_one_result_and_the_others_have_theirs(tmp_path: Path, tool: str) -> None:
    clock = MovableClock()
    mixed = agent("mixed", scripted([ADD, {"tool": tool}, ADD], SAY), tools=[fault_tool("add"), fault_tool(tool)])
    async with local_gateway(tmp_path, [mixed], clock=clock, server=SERVER) as gateway:
        frames = await run(gateway, "mixed")
        first, odd, last = results(frames)
        assert first == last
        assert "3" in first
        assert odd
        assert len(odd) < 2_000_000, "what a tool gives has a bound"
        assert frames[-1].type == "RUN_FINISHED"
        assert executions.total() == 3
        await check_ended(gateway, "run-1", "completed")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "The tool 'fail' failed (request shop-7)."),
        ({"expose_errors": True}, "The tool 'fail' failed: the shelf is empty"),
    ],
)
async def test_what_an_exception_says_is_for_the_log_alone_until_the_operator_exposes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: dict[str, Any], said: str
) -> None:
    """The model is told what the caller is."""
    failing = agent("failing", scripted([{"tool": "fail"}], SAY), tools=[fault_tool("fail", **more)])
    async with local_gateway(tmp_path, [failing], server=SERVER) as gateway:
        frames = await gateway.client.run("failing", run_body(), **{"x-request-id": "shop-7"})
    assert results(frames) == [said]
    assert "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT") == f"it gave {said}"
    [record] = [record for record in caplog.records if record.message == "a tool raised an exception"]
    assert vars(record)["request_id"] == "shop-7"
    assert "the shelf is empty" in str(record.exc_info)


@pytest.mark.parametrize("tool", ["stuck", "blocked", "stubborn"])
async def test_a_tool_that_hangs_is_given_up_and_the_run_goes_on(tmp_path: Path, tool: str) -> None:
    clock = MovableClock()
    release.clear()
    slow = agent("slow", scripted([ADD, {"tool": tool}], SAY), tools=[fault_tool("add"), fault_tool(tool)])
    try:
        async with local_gateway(tmp_path, [slow], clock=clock, server=SERVER) as gateway:
            async with gateway.client.stream("slow", run_body()) as stream:
                await until(lambda: executions.total() == 2)
                await clock.advance(29)
                assert "RUN_FINISHED" not in stream.types
                await clock.advance(1.5)
                frames = await stream.rest()
            _, late = results(frames)
            assert "30" in late
            assert frames[-1].type == "RUN_FINISHED"
            await check_ended(gateway, "run-1", "completed")
            release.set()
    finally:
        release.set()


# --- 45: a tool that blocks


async def test_a_tool_that_blocks_its_thread_blocks_nobody_else(tmp_path: Path) -> None:
    release.clear()
    agents = [
        agent("blocked", scripted([{"tool": "blocked"}], SAY), tools=[fault_tool("blocked")]),
        agent("greeter", scripted([{"text": WORDS}])),
    ]
    try:
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            async with gateway.client.stream("blocked", run_body()) as stream:
                await until(executions.total)
                await gateway.client.run("greeter", run_body(run_id="run-2", thread_id="thread-2"))
                release.set()
                assert results(await stream.rest()) == ["let go"]
            await check_ended(gateway, "run-1", "completed")
            await check_ended(gateway, "run-2", "completed")
    finally:
        release.set()


# --- 42: very many, very large


@pytest.mark.thorough
async def test_a_thousand_calls_at_once_stay_within_the_budget(tmp_path: Path) -> None:
    calls = [{"tool": "add", "arguments": {"a": number, "b": 2}} for number in range(1_000)]
    many = agent(
        "many",
        scripted(calls, rules=[{"when": {"after_tool": "add"}, "response": SAY}]),
        tools=[fault_tool("add")],
        parameters={"max_calls_per_answer": 1_000},
    )
    async with local_gateway(tmp_path, [many], server=SERVER) as gateway:
        frames = await run(gateway, "many")
        assert len(results(frames)) == 1_000, "every call has its result"
        assert executions.total() == 50, "and only as many ran as may"
        assert frames[-1].type == "RUN_FINISHED"
        await check_ended(gateway, "run-1", "completed")


@pytest.mark.thorough
async def test_arguments_of_megabytes_are_taken_or_refused_but_never_hang(tmp_path: Path) -> None:
    large = {"tool": "add", "arguments": '{"a": 1, "b": 2, "c": "' + "x" * 4_000_000 + '"}'}
    agents = [agent("large", scripted([large], SAY), tools=[fault_tool("add")])]
    async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
        frames = await run(gateway, "large")
        assert len(results(frames)) == 1
        await check_ended(gateway, "run-1", "completed")


# --- 41: names


async def test_an_unknown_tool_is_answered_with_those_there_are(tmp_path: Path) -> None:
    lost = agent("lost", scripted([{"tool": "ad"}, {"tool": "add\r\nid: 7"}], SAY), tools=[fault_tool("add")])
    async with local_gateway(tmp_path, [lost], server=SERVER) as gateway:
        frames = await run(gateway, "lost")
        assert all("add" in text for text in results(frames))
        assert not executions
        ids = [each.id for each in await replayed(gateway, "run-1") if each.id is not None]
        assert ids == sorted(set(ids)), "no name breaks a line"
        await check_ended(gateway, "run-1", "completed")


async def test_a_frontend_tool_with_a_backend_tools_name_is_dropped(tmp_path: Path) -> None:
    both = agent("both", scripted([ADD], SAY), tools=[fault_tool("add")])
    declared = [{"name": "add", "description": "Mine.", "parameters": {"type": "object"}}]
    async with local_gateway(tmp_path, [both], server=SERVER) as gateway:
        frames = await run(gateway, "both", tools=declared)
        assert len(results(frames)) == 1
        assert executions.total() == 1
        await check_ended(gateway, "run-1", "completed")


# --- 47: loops without an end


@pytest.mark.parametrize("budget", [{"max_iteration": 3}, {"max_tool_calls": 2}, {"max_repeated_calls": 1}])
async def test_a_model_that_never_stops_calling_is_stopped(tmp_path: Path, budget: dict[str, int]) -> None:
    model = scripted(
        rules=[
            {"when": {"tool_choice": "none"}, "response": [{"text": "that is all"}]},
            {"when": {"tool_choice": "auto"}, "response": [ADD]},
        ]
    )
    endless = agent("endless", model, tools=[fault_tool("add")], parameters=budget)
    async with local_gateway(tmp_path, [endless], server=SERVER) as gateway:
        frames = await run(gateway, "endless")
        assert "".join(frame.data.get("delta", "") for frame in frames).endswith("that is all")
        assert executions.total() <= 3
        await check_ended(gateway, "run-1", "completed")


async def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    clock = MovableClock()
    release.clear()
    long = agent("long", scripted([{"tool": "stuck"}], SAY), tools=[fault_tool("stuck")],
                 parameters={"max_run_seconds": 10})  # fmt: skip
    async with local_gateway(tmp_path, [long], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("long", run_body()) as stream:
            await until(executions.total)
            await clock.advance(11)
            last = (await stream.rest())[-1].data
        assert last["type"] == "RUN_ERROR"
        await check_ended(gateway, "run-1", "failed", code="limit_max_run_seconds")


# --- 48: a tool server that is not there


async def test_a_tool_server_that_is_down_leaves_the_agent_working_and_is_reported(tmp_path: Path) -> None:
    missing = {"type": "McpServer", "name": "gone", "parameters": {"command": "no-such-program-anywhere"}}
    degraded = agent("degraded", scripted([ADD], SAY), tools=[fault_tool("add"), missing])
    async with local_gateway(tmp_path, [degraded], server=SERVER) as gateway:
        frames = await run(gateway, "degraded")
        assert len(results(frames)) == 1
        ready = await gateway.client.http.get("/readyz")
        assert ready.status_code == 200
        assert any("gone" in warning for warning in ready.json()["warnings"])
        check_nothing_leaks(ready.content)
        await check_ended(gateway, "run-1", "completed")


@pytest.mark.parametrize(
    ("server", "more"),
    [
        ({"api_keys": [{"name": "alice", "key": "a-key-of-some-length"}]}, []),
        (
            {"public_url": "https://agents.example", "allow_unauthenticated": True},
            ["others than this machine reach the gateway and need no key: server.allow_unauthenticated is set"],
        ),
    ],
)
async def test_strangers_are_not_told_which_tool_servers_there_are(
    tmp_path: Path, server: dict[str, Any], more: list[str]
) -> None:
    missing = {"type": "McpServer", "name": "gone", "parameters": {"command": "no-such-program-anywhere"}}
    degraded = agent("degraded", scripted(SAY), tools=[missing])
    async with local_gateway(tmp_path, [degraded], server=SERVER | server) as gateway:
        ready = await until_answered(
            lambda: gateway.client.http.get("/readyz"), lambda answer: len(answer.json()["warnings"]) > len(more)
        )
    assert ready.json()["warnings"] == [*more, "tool servers that are down: 1; the log says which"]


async def test_runs_under_way_in_all_kinds_of_trouble_end_with_their_gateway(tmp_path: Path) -> None:
    release.clear()
    agents = [
        agent(name, scripted([{"tool": name}], SAY), tools=[fault_tool(name)], on_disconnect="continue")
        for name in ("stuck", "blocked", "stubborn")
    ]
    try:
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            for name in ("stuck", "blocked", "stubborn"):
                async with gateway.client.stream(name, run_body(run_id=name, thread_id=name)) as stream:
                    await stream.until("TOOL_CALL_END")
            await until(lambda: executions.total() == 3)
            async with asyncio.timeout(10):
                await gateway.application.stop()
            for name in ("stuck", "blocked", "stubborn"):
                run_json = await gateway.client.get(f"/runs/{name}")
                assert (run_json["status"], run_json["error"]["code"]) == ("failed", "server_shutdown")
                await check_run(gateway, name)  # no replay: a gateway that closes sends nobody a log any more
            release.set()
    finally:
        release.set()
