"""Runs whose provider works in the background survive their gateway: killed, asked to stop, started anew."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.faults.test_faults_processes import (
    PAY,
    PAY_SLOWLY,
    TOOLS,
    drained,
    post_forever,
    seen_numbers,
    trace,
)
from tests.responses_events import Item, call_item, message_item, reasoning_item, stream_events, web_search_item
from tests.responses_server import ResponsesServer, responses_server
from tests.running_gateway import GatewayClient, agent, gateway_process, run_body, write_configuration
from tests.stateful_scene import PICK, openai_model, said, sent_in
from tests.waiting import until_answered, until_outside

DEADLINE_SECONDS = 60
ANSWER: Sequence[Item] = (
    reasoning_item("Let me see"),
    web_search_item("prices"),
    message_item("Here wörks 👋 it"),
    call_item("pay", "{}", "call_0"),
    call_item("pay", "{}", "call_1"),
)


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        yield running


def configure(directory: Path, server: ResponsesServer, **model: Any) -> Path:
    (directory / "kill_tools.py").write_text(TOOLS)
    block = openai_model(server, background=True, **model)
    more: dict[str, Any] = {"tools": [PAY, PAY_SLOWLY], "on_disconnect": "continue", "history": "append"}
    return write_configuration(
        directory, [agent("background", block, **more)], search=None, server={"drain_seconds": 0}
    )


async def whole_run(client: GatewayClient, run_id: str, seen: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """A run's events to its end: in order, and what was seen before the restart among them under the same numbers."""
    async with client.events(run_id) as stream:
        await stream.rest()
    sent = read_stream(bytes(stream.body))
    verify_server([each.event for each in sent], thread_id="thread-1", run_id=run_id)
    kept = {each.id: each.event for each in sent if each.id is not None}
    assert {number: kept.get(number) for number in seen} == seen, "what a viewer saw is in the log, same id"
    return [each.event for each in sent]


def text(events: Sequence[dict[str, Any]], type: str = "TEXT_MESSAGE_CONTENT") -> str:
    return "".join(event["delta"] for event in events if event["type"] == type)


# Where the provider stops, and what a viewer has seen by then: how many events of which type.
_TYPES = [event["type"].removeprefix("response.") for event in stream_events(ANSWER, background=True)]
STOPS = {
    "in its thoughts": (_TYPES.index("reasoning_summary_text.delta") + 1, "REASONING_MESSAGE_CONTENT", 1),
    "in its words": (_TYPES.index("output_text.delta") + 1, "TEXT_MESSAGE_CONTENT", 1),
    "behind its words": (_TYPES.index("output_text.done") + 2, "TEXT_MESSAGE_CONTENT", 2),
    "in a call": (_TYPES.index("function_call_arguments.delta") + 1, "TOOL_CALL_ARGS", 1),
    "before its end": (len(_TYPES) - 1, "TOOL_CALL_END", 2),
}


SURVIVALS = [
    *((signal.SIGKILL, stop, True) for stop in STOPS),
    (signal.SIGKILL, "in a call", False),
    (signal.SIGTERM, "in its words", True),
]


@pytest.mark.parametrize(("how", "stop", "stateful"), SURVIVALS)
async def test_a_run_in_the_background_survives_its_gateway(
    tmp_path: Path, server: ResponsesServer, how: signal.Signals, stop: str, stateful: bool
) -> None:
    configuration = configure(tmp_path, server, stateful=stateful)
    hold = asyncio.Event()
    at, type, count = STOPS[stop]
    server.will_answer(*ANSWER, hold=hold, hold_before=at)
    server.will_answer(message_item("Paid twice"))
    async with gateway_process(configuration) as gateway:
        body = run_body("Pay", run_id="run-1", tools=[PICK], context=[{"description": "who", "value": "Ann"}])
        stream = await post_forever(gateway, "background", body)
        await stream.until(type, count)
        await gateway.signal(how)
        await drained(stream)
        seen = seen_numbers(stream)
        assert "RUN_ERROR" not in stream.types
    assert server.asked[0].status == "in_progress", "the provider is at work on it"
    hold.set()
    async with gateway_process(configuration) as gateway:
        events = await whole_run(gateway.client, "run-1", seen)
        run = await gateway.client.get("/runs/run-1")
        assert run["status"] == "completed", run
        assert text(events) == "Here wörks 👋 itPaid twice"
        assert text(events, "REASONING_MESSAGE_CONTENT") == "Let me see"
        results = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert results == ["paid", "paid"]
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert [message["role"] for message in messages].count("tool") == 2
        server.will_answer(message_item("Bye"))
        await gateway.client.run("background", run_body("Bye", run_id="run-2"))
    assert len(trace(tmp_path)) == 2, "each call once"
    posts = [request for request in server.requests if request.method == "POST"]
    assert len(posts) == 3, "no answer was asked for twice, none was cancelled"
    again = posts[1].json
    assert [tool["name"] for tool in again["tools"]] == ["pay", "pay_slowly", "pick"]
    assert "Ann" in again["instructions"]
    if stateful:
        outputs = [("output", "paid", "call_0"), ("output", "paid", "call_1")]
        assert sent_in(posts[1]) == (server.asked[0].id, outputs)
        assert sent_in(posts[2]) == (server.asked[1].id, [("user", "Bye")])
    kinds = [kind for kind, *_ in said(server.seen(-1))]
    assert [kinds.count(kind) for kind in ("call", "output", "user", "assistant")] == [2, 2, 2, 2]


async def test_a_tool_that_was_under_way_is_never_run_again(tmp_path: Path, server: ResponsesServer) -> None:
    configuration = configure(tmp_path, server, stateful=True)
    server.will_answer(call_item("pay_slowly", "{}", "call_0"))
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "background", run_body("Pay", run_id="run-1"))
        await stream.until("TOOL_CALL_END")
        await until_outside(lambda: trace(tmp_path))
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
        seen = seen_numbers(stream)
    server.will_answer(message_item("I do not know"))
    async with gateway_process(configuration) as gateway:
        events = await whole_run(gateway.client, "run-1", seen)
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "server_restarted")
        await gateway.client.run("background", run_body("And?", run_id="run-2"))
    assert len(trace(tmp_path)) == 1
    assert [kind for kind, *_ in said(server.seen())] == ["user", "call", "output", "user"]


async def test_a_run_that_waited_is_ended_and_the_one_before_it_goes_on(
    tmp_path: Path, server: ResponsesServer
) -> None:
    block = openai_model(server, background=True)
    more: dict[str, Any] = {"on_disconnect": "continue", "on_concurrent_run": "enqueue", "history": "append"}
    configuration = write_configuration(tmp_path, [agent("background", block, **more)], search=None)
    hold = asyncio.Event()
    server.will_answer(message_item("Here it is"), hold=hold, hold_before=6)
    async with gateway_process(configuration) as gateway:
        stream = await post_forever(gateway, "background", run_body("one", run_id="run-1"))
        await stream.until("TEXT_MESSAGE_CONTENT")
        waiting = await post_forever(gateway, "background", run_body("two", run_id="run-2"))
        await gateway.client.until_status("run-2", "queued")
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
        await drained(waiting)
        seen = seen_numbers(stream)
    async with gateway_process(configuration) as gateway:
        waited = await gateway.client.get("/runs/run-2")
        assert (waited["status"], waited["error"]["code"]) == ("failed", "server_restarted")
        hold.set()
        events = await whole_run(gateway.client, "run-1", seen)
        assert text(events) == "Here it is"
        assert (await gateway.client.get("/runs/run-1"))["status"] == "completed"
        found = await until_answered(
            lambda: gateway.client.get("/threads/thread-1/messages"), lambda found: len(found["messages"]) == 3
        )
        assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user"]
        assert found["messages"][-1]["content"] == "two", "behind what was under way"
