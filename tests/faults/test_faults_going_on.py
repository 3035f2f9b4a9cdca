"""Runs under `on_takeover: continue` go on when their gateway is killed or asked to stop, and is started anew."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.agui_client import CLIENT_VERSIONS, ClientVersion, agui_clients
from tests.fault_scenes import check_kept, store_at
from tests.faults.test_faults_processes import PAY, PAY_SLOWLY, TOOLS, drained, post_forever, seen_numbers, trace
from tests.held_ports import held_port
from tests.invariants import check_thread
from tests.observed_runs import OWNER
from tests.running_gateway import (
    GatewayClient,
    GatewayProcess,
    OpenStream,
    agent,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_outside

HANG = {"hang": True}
WORDS = {"text": "some words ", "chunk_characters": 3}
CALL = {"tool": "pay", "id": "call_pay"}
PICK = {"name": "pick", "description": "Pick one.", "parameters": {"type": "object", "properties": {}}}
IDEMPOTENT = {**PAY_SLOWLY, "idempotent": True}


def configure(
    directory: Path, *script: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (PAY,), **more: Any
) -> Path:
    (directory / "kill_tools.py").write_text(TOOLS)
    options: dict[str, Any] = {"on_disconnect": "continue", "on_takeover": "continue", "history": "append", **more}
    agents = [agent("goer", scripted(*script), tools=[*tools], **options)]
    return write_configuration(directory, agents, server={"drain_seconds": 0}, search=None)


class Stop(NamedTuple):
    """Where the first process ends: after so many events of a type of this script."""

    script: Sequence[Sequence[Mapping[str, Any]]]
    type: str
    times: int = 1


PAID = [{"text": "paid {{result}}"}]
WHOLE = ([{"reasoning": "let me see"}, {"text": "I pay."}, CALL], PAID)
STOPS = {
    "before its first word": Stop(([HANG],), "RUN_STARTED"),
    "in its thoughts": Stop(([{"reasoning": "hm, hm", "chunk_characters": 2}, HANG],), "REASONING_MESSAGE_CONTENT", 2),
    "in its words": Stop(([WORDS, HANG],), "TEXT_MESSAGE_CONTENT", 2),
    "in its call": Stop(([WORDS, {**CALL, "arguments": '{"a', "id": "call_cut"}, HANG],), "TOOL_CALL_ARGS"),
    "in the call of the client's": Stop(
        ([WORDS, {"tool": "pick", "arguments": '{"a', "id": "call_cut"}, HANG],), "TOOL_CALL_ARGS"
    ),
    "after its tool": Stop((WHOLE[0], [HANG]), "TOOL_CALL_RESULT"),
    "in its last words": Stop((WHOLE[0], [WORDS, HANG]), "TEXT_MESSAGE_CONTENT", 3),
}


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
async def test_a_run_goes_on_after_its_gateway_ended(tmp_path: Path, stop: Stop, how: signal.Signals) -> None:
    configuration = configure(tmp_path, *stop.script)
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "goer", run_body("Pay", run_id="run-1", tools=[PICK]))
        await stream.until(stop.type, stop.times)
        await gateway.signal(how)
        await drained(stream)
        seen = seen_numbers(stream)
        assert "RUN_ERROR" not in stream.types
    configure(tmp_path, *WHOLE)
    async with gateway_process(configuration) as gateway:
        await check_whole(gateway.client, seen, "I pay.", "paid paid")
    assert len(trace(tmp_path)) == 1, "the tool ran once"
    async with store_at(tmp_path) as store:
        thread = await store.load_thread(OWNER, "thread-1")
        assert thread is not None
        check_thread(await check_kept(store, "run-1", backend_tools=["pay"]), thread.messages)


async def check_whole(client: GatewayClient, seen: Mapping[int, Mapping[str, Any]], *texts: str) -> None:
    """The run comes to its end, a viewer is shown one answer, and what was seen before is in the log."""
    async with client.events("run-1") as stream:
        await stream.rest()
    sent = read_stream(bytes(stream.body))
    verify_server([each.event for each in sent], thread_id="thread-1", run_id="run-1")
    events = [each.event for each in sent]
    assert events[-1]["type"] == "RUN_FINISHED", events[-1]
    assert shown_texts(events) == [*texts]
    found = (await client.get("/threads/thread-1/messages"))["messages"]
    assert [message["content"] for message in found if message["role"] == "assistant"] == [*texts]


def shown_texts(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The assistant's texts that a client of AG-UI has at the end."""
    texts: dict[str, str] = {}
    for event in events:
        if event["type"] == "TEXT_MESSAGE_START":
            texts[event["messageId"]] = ""
        elif event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] += event["delta"]
        elif event["type"] == "MESSAGES_SNAPSHOT":
            said = [message for message in event["messages"] if message["role"] == "assistant"]
            texts = {message["id"]: message.get("content", "") for message in said}
    return list(texts.values())


@pytest.mark.parametrize(("tool", "times"), [(PAY_SLOWLY, 1), (IDEMPOTENT, 2)], ids=["once", "idempotent"])
async def test_a_tool_that_was_under_way_runs_again_only_if_it_is_idempotent(
    tmp_path: Path, tool: Mapping[str, Any], times: int
) -> None:
    script = ([{"tool": "pay"}, {"tool": "pay_slowly"}, {"tool": "pay"}], PAID)
    configuration = configure(tmp_path, *script, tools=[PAY, tool], parameters={"max_parallel_tools": 1})
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "goer", run_body("Pay", run_id="run-1"))
        await stream.until("TOOL_CALL_RESULT")
        await until_outside(lambda: len(trace(tmp_path)) == 2)
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    (tmp_path / "kill_tools.py").write_text(TOOLS.replace("await asyncio.get_running_loop().create_future()", ""))
    async with gateway_process(configuration) as gateway:
        await gateway.client.until_status("run-1", "completed")
        found = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
    results = [message["content"] for message in found if message["role"] == "tool"]
    assert (results[0], results[2]) == ("paid", "paid"), "one had its result, the other had not begun"
    assert results[1] == "paid" if times == 2 else "may have been carried out" in results[1]
    ran = trace(tmp_path)
    assert [ran.count(call) for call in dict.fromkeys(ran)] == [1, times, 1]


async def test_an_approved_call_runs_once_and_its_run_goes_on(tmp_path: Path) -> None:
    asking = [{**PAY, "approval": "always"}, {**PAY_SLOWLY, "approval": "always"}]
    configuration = configure(tmp_path, [CALL, {"tool": "pay_slowly", "id": "call_slow"}], PAID, tools=asking)
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("goer", run_body("Pay", run_id="run-0"))
        answers = [
            {"interruptId": f"int-{call}", "status": "resolved", "payload": {"approved": True}}
            for call in ("call_pay", "call_slow")
        ]
        stream = await post_forever(gateway, "goer", run_body(messages=[], run_id="run-1", resume=answers))
        await stream.until("TOOL_CALL_RESULT")
        await until_outside(lambda: len(trace(tmp_path)) == 2)
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    async with gateway_process(configuration) as gateway:
        await gateway.client.until_status("run-1", "completed")
        found = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
    results = [message["content"] for message in found if message["role"] == "tool"]
    assert results[0] == "paid"
    assert "may have been carried out" in results[1]
    assert trace(tmp_path) == ["call_pay", "call_slow"]


async def test_a_call_of_the_clients_beside_a_tool_waits_for_the_client(tmp_path: Path) -> None:
    configuration = configure(
        tmp_path, [{"tool": "pick", "id": "call_pick"}, {"tool": "pay_slowly"}], tools=[PAY_SLOWLY]
    )
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "goer", run_body("Pay", run_id="run-1", tools=[PICK]))
        await until_outside(lambda: trace(tmp_path))
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    async with gateway_process(configuration) as gateway:
        await gateway.client.until_status("run-1", "completed")
        async with gateway.client.events("run-1") as replay:
            await replay.rest()
        events = [each.event for each in read_stream(bytes(replay.body))]
        assert events[-1]["outcome"]["pendingToolCallIds"] == ["call_pick"]


async def test_a_run_that_ends_its_processes_ends_itself_after_three(tmp_path: Path) -> None:
    configuration = configure(tmp_path, [WORDS, HANG])
    for times in range(4):
        async with gateway_process(configuration) as gateway:
            if times == 0:
                stream = await post_forever(gateway, "goer", run_body("Talk", run_id="run-1"))
            else:
                stream = await joined(gateway, "run-1")
            await stream.until("TEXT_MESSAGE_START", times + 1)
            await gateway.signal(signal.SIGKILL)
            await drained(stream)
    async with gateway_process(configuration) as gateway:
        run = await gateway.client.get("/runs/run-1")
        assert (run["status"], run["error"]["code"]) == ("failed", "server_restarted")
        found = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert [message["role"] for message in found] == ["user", "assistant"]


async def joined(gateway: GatewayProcess, run_id: str) -> OpenStream:
    """The events of a run from its first on, in a stream that its gateway takes down with it."""
    request = gateway.client.http.build_request("GET", f"/runs/{run_id}/events")
    return OpenStream(await gateway.client.http.send(request, stream=True))


@pytest.mark.parametrize(
    "version", [CLIENT_VERSIONS[0], *(pytest.param(each, marks=pytest.mark.thorough) for each in CLIENT_VERSIONS[1:])]
)
@pytest.mark.parametrize("ends_first", [False, True], ids=["in the middle", "after the end"])
async def test_a_stock_client_that_connects_again_gets_the_whole_answer(
    tmp_path: Path, version: ClientVersion, ends_first: bool
) -> None:
    configuration = configure(tmp_path, WHOLE[0], [WORDS, HANG], history="replace")
    with held_port() as port:
        async with agui_clients(version) as clients:
            client = await clients.create(f"http://127.0.0.1:{port}/agents/goer/run", thread_id="thread-1")
            await client.add_message({"id": "user-1", "role": "user", "content": "Pay"})
            async with gateway_process(configuration, "--port", str(port)) as gateway:
                broken = client.start_run(run_id="run-1")
                await client.wait_for("TEXT_MESSAGE_CONTENT", count=3)
                await gateway.signal(signal.SIGKILL)
                report = await broken
            assert report.rejection is not None
            configure(tmp_path, *WHOLE, history="replace")
            async with gateway_process(configuration, "--port", str(port)) as gateway:
                if ends_first:
                    await gateway.client.until_status("run-1", "completed")
                report = await client.run(run_id="run-1")
            assert report.rejection is None
            texts = [message["content"] for message in report.messages if message["role"] == "assistant"]
            assert texts == ["I pay.", "paid paid"]
            assert [message["role"] for message in report.messages].count("tool") == 1
    assert len(trace(tmp_path)) == 1
