"""Where a trace goes on: to what tools ask, to what a tool's own code traces, and across the gateway's own restart."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.tool import ToolContext
from tests.collected_spans import CollectedSpans, is_below, span_id, told, trace_of, traceparent_of
from tests.openai_chat_server import Script, chat_server
from tests.responses_events import message_item
from tests.responses_server import responses_server
from tests.running_gateway import agent, local_gateway, run_body, scripted
from tests.stateful_scene import bedrock_model, openai_model

ROUGH = str(Path(__file__).parent.parent / "mcp_rough_server.py")
WORDS = 6  # the event behind the first words of an answer that is one message


async def test_an_http_tool_carries_the_traceparent_of_its_call(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with chat_server() as server:
        server.answers(Script(pieces=(b"{}",), content_type="application/json", framing="length"))
        tool = {"type": "HttpTool", "name": "look", "parameters": {"url": f"{server.endpoint}/look", "method": "GET"}}
        agents = [agent("a", scripted([{"tool": "look"}], [{"text": "Done."}]), tools=[tool])]
        configuration = {"allowed_private_hosts": ["127.0.0.1"]}
        async with local_gateway(tmp_path, agents, tracer=spans.tracer, server=configuration) as gateway:
            await gateway.client.run("a", run_body("hi"))
            await spans.until("invoke_agent")
        [asked] = server.requests
    called = spans.one("execute_tool look")
    assert asked.headers["traceparent"] == traceparent_of(called)


async def test_an_mcp_server_is_told_the_traceparent_of_the_call_and_nothing_without_traces(tmp_path: Path) -> None:
    spans = CollectedSpans()
    server = {"command": sys.executable, "args": [ROUGH, "meta"], "first_wait_seconds": 20}
    model = scripted([{"tool": "echo"}], [{"text": "{{result}}"}])
    agents = [agent("a", model, tools=[{"type": "McpServer", "name": "m", "parameters": server}])]
    said: list[Any] = []
    for tracer in (spans.tracer, None):
        (tmp_path / str(bool(tracer))).mkdir()
        async with local_gateway(tmp_path / str(bool(tracer)), agents, tracer=tracer) as gateway:
            frames = await gateway.client.run("a", run_body("hi"))
            text = "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")
            said.append(json.loads(text))
    called = spans.one("execute_tool echo")
    assert said[0]["traceparent"] == traceparent_of(called)
    assert told(called)["mcp.method.name"] == "tools/call"
    assert "traceparent" not in (said[1] or {})


async def traced(context: ToolContext) -> str:
    """Trace a step of its own, and log."""
    assert context.trace is not None
    context.trace.begin("my step", {}).end()
    logging.getLogger("my tool").warning("working")
    return "done"


async def test_a_python_tool_may_have_spans_of_its_own(tmp_path: Path) -> None:
    spans = CollectedSpans()
    tool = {"type": "PythonTool", "name": "traced", "parameters": {"function": f"{__name__}:traced"}}
    agents = [agent("a", scripted([{"tool": "traced"}], [{"text": "Done."}]), tools=[tool])]
    async with local_gateway(tmp_path, agents, tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body("hi"))
        await spans.until("invoke_agent")
    assert is_below(spans.one("my step"), spans.one("execute_tool traced"))


@pytest.mark.parametrize("open_model", [openai_model, bedrock_model])
async def test_a_background_answer_is_traced_on_by_the_process_that_takes_it_up(
    tmp_path: Path, open_model: Any
) -> None:
    before, after = CollectedSpans(), CollectedSpans()
    async with responses_server() as server:
        agents = [agent("a", open_model(server, background=True), on_disconnect="continue")]
        answer = server.will_answer(message_item("Here it is"), hold=asyncio.Event(), hold_before=WORDS)
        short = {"drain_seconds": 0}
        async with (
            local_gateway(tmp_path, agents, tracer=before.tracer, server=short) as gateway,
            gateway.client.stream("a", run_body("Hi", thread_id="t", run_id="r")) as stream,
        ):
            await stream.until("TEXT_MESSAGE_CONTENT")
        assert answer.hold is not None
        answer.hold.set()
        async with local_gateway(tmp_path, agents, tracer=after.tracer, server=short) as gateway:
            await gateway.client.until_status("r", "completed")
            await after.until("invoke_agent")
        sent = [request.headers.get("traceparent") for request in server.requests if request.method == "POST"]
    left, taken_up = before.one("invoke_agent"), after.one("invoke_agent")
    assert told(left)["agui_gateway.run.status"] == "running"
    assert told(taken_up)["agui_gateway.run.status"] == "completed"
    assert [told(span)["agui_gateway.run.taken_up"] for span in (left, taken_up)] == [False, True]
    assert {told(span)["agui_gateway.run.id"] for span in (left, taken_up)} == {"r"}
    assert [(link.context.trace_id, link.context.span_id) for link in taken_up.links] == [
        (trace_of(left), span_id(left))
    ]
    asked = before.one("chat")
    assert sent[0] == traceparent_of(asked)
    assert told(after.one("chat")).get("error.type") is None
