"""Gateways that are killed while their conversations live at the provider: real processes, a server that remembers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_faults_processes import PAY, PAY_SLOWLY, TOOLS, drained, post_forever, trace
from tests.responses_events import call_item, message_item
from tests.responses_server import ResponsesServer, responses_server
from tests.running_gateway import agent, gateway_process, run_body, write_configuration
from tests.stateful_scene import openai_model, said, sent_in
from tests.waiting import until_outside

DEADLINE_SECONDS = 60
HISTORY: dict[str, Any] = {"history": "append"}  # the gateway's own account of the thread is what counts here


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        yield running


def configure(directory: Path, server: ResponsesServer) -> Path:
    (directory / "kill_tools.py").write_text(TOOLS)
    agents = [agent("stateful", openai_model(server), tools=[PAY, PAY_SLOWLY], on_disconnect="continue", **HISTORY)]
    return write_configuration(directory, agents, search=None)


async def test_a_conversation_is_gone_on_with_after_kill_9(tmp_path: Path, server: ResponsesServer) -> None:
    configuration = configure(tmp_path, server)
    server.will_answer(call_item("pay", "{}", "call_0"))
    server.will_answer(message_item("Paid"))
    async with gateway_process(configuration) as gateway:
        frames = await gateway.client.run("stateful", run_body("Pay", run_id="run-1"))
        assert frames[-1].type == "RUN_FINISHED"
        await gateway.signal(signal.SIGKILL)
    server.will_answer(message_item("Gladly"))
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("stateful", run_body("Thanks", run_id="run-2"))
    assert sent_in(server.requests[-1]) == (server.asked[1].id, [("user", "Thanks")])
    assert [kind for kind, *_ in said(server.seen())] == ["user", "call", "output", "assistant", "user"]


@pytest.mark.parametrize("tool", ["pay", "pay_slowly"])
async def test_kill_9_in_mid_tool_loop_leaves_a_conversation_that_goes_on(
    tmp_path: Path, server: ResponsesServer, tool: str
) -> None:
    """Once the tool is at work, and once its result was sent and the answer to it is on its way."""
    configuration = configure(tmp_path, server)
    server.will_answer(message_item("Hello"))
    server.will_answer(call_item(tool, "{}", "call_0"))
    if tool == "pay":
        server.will_answer(message_item("Paid"), hold=asyncio.Event(), hold_before=5)
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("stateful", run_body("Hi", run_id="run-1"))
        stream = await post_forever(gateway, "stateful", run_body("Pay", run_id="run-2"))
        await stream.until("TOOL_CALL_END" if tool == "pay_slowly" else "TEXT_MESSAGE_CONTENT")
        await until_outside(lambda: trace(tmp_path))
        await gateway.signal(signal.SIGKILL)
        await drained(stream)
    server.will_answer(message_item("Let me see"))
    async with gateway_process(configuration) as gateway:
        run = await gateway.client.get("/runs/run-2")
        assert (run["status"], run["error"]["code"]) == ("failed", "server_restarted")
        frames = await gateway.client.run("stateful", run_body("And?", run_id="run-3"))
        assert frames[-1].type == "RUN_FINISHED"
    previous, new = sent_in(server.requests[-1])
    assert previous == server.asked[0].id, "what the killed run added is told from where it was kept last"
    kinds = (
        ["user", "call", "output", "user"] if tool == "pay_slowly" else ["user", "call", "output", "assistant", "user"]
    )
    assert [kind for kind, *_ in new] == kinds
    assert new[0] == ("user", "Pay")
    assert [kind for kind, *_ in said(server.seen())] == ["user", "assistant", *kinds], "each message once"
    assert len(trace(tmp_path)) == 1, "no tool ran twice"
