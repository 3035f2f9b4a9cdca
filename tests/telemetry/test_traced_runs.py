"""The spans of runs: which there are, below what, and what they tell. With a gateway in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from gateway.agent import ModelSettings
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject
from gateway.model import ModelEnvironment, ModelRequest
from gateway.models.scripted import PROVIDER
from gateway.options.generation import GenerationOptions
from gateway.telemetry.model_calls import traced_providers
from tests.collected_spans import CollectedSpans, is_below, span_id, told, trace_of, traceparent_of
from tests.fault_scenes import fault_tool, release
from tests.movable_clock import MovableClock
from tests.openai_chat_server import chat_server, completion, error
from tests.running_gateway import agent, local_gateway, run_body, scripted

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SAYS = scripted([{"text": "Hello there"}, {"usage": {"input_tokens": 12, "output_tokens": 4}}])
SECRET_WORDS = "the moon is made of cheese"


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "PythonTool", "name": name, "parameters": {"function": f"tests.case_tools:{name}"}, **more}


def no_errors(*spans: ReadableSpan) -> bool:
    return all(span.status.status_code is StatusCode.UNSET and "error.type" not in told(span) for span in spans)


async def test_a_run_is_one_trace_from_the_caller_s_request_to_the_model(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with local_gateway(tmp_path, [agent("a", SAYS, name="Helper")], tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body("hi", thread_id="t", run_id="r"), traceparent=PARENT)
        await spans.until("invoke_agent")
        await spans.until("POST")
    request, run, chat = spans.one("POST /agents/{agent_id}/run"), spans.one("invoke_agent"), spans.one("chat")
    assert {f"{trace_of(span):032x}" for span in spans.ended} == {PARENT.split("-")[1]}
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
    assert is_below(run, request)
    assert is_below(chat, run)
    assert [span.kind for span in (request, run, chat)] == [SpanKind.SERVER, SpanKind.INTERNAL, SpanKind.CLIENT]
    assert no_errors(*spans.ended)
    assert told(request)["http.response.status_code"] == 200
    assert told(request)["http.route"] == "/agents/{agent_id}/run"
    assert run.name == "invoke_agent Helper"
    wanted = {"gen_ai.agent.id": "a", "gen_ai.conversation.id": "t", "agui_gateway.run.status": "completed"}
    assert wanted.items() <= told(run).items()
    assert told(run)["gen_ai.provider.name"] == "scripted"
    wanted = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "scripted", "gen_ai.conversation.id": "t"}
    assert wanted.items() <= told(chat).items()
    assert {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 4}.items() <= told(chat).items()
    assert {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 4}.items() <= told(run).items()
    assert told(chat)["gen_ai.response.finish_reasons"] == ("end_turn",)
    commits = spans.named("commit")
    assert [span.name for span in commits] == ["commit begin_run", "commit end_run"]
    assert all(is_below(span, run) for span in commits)


async def test_a_tool_call_is_a_span_of_its_own_that_tells_no_content(tmp_path: Path) -> None:
    spans = CollectedSpans()
    model = scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": SECRET_WORDS}])
    agents = [agent("a", model, system_prompt=SECRET_WORDS, tools=[tool("add")])]
    async with local_gateway(tmp_path, agents, tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body(SECRET_WORDS))
        await spans.until("invoke_agent")
    called, run = spans.one("execute_tool add"), spans.one("invoke_agent")
    assert is_below(called, run)
    assert len(spans.named("chat")) == 2
    wanted = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.type": "function"}
    assert wanted.items() <= told(called).items()
    assert told(called)["gen_ai.tool.call.id"]
    assert no_errors(*spans.ended)
    assert not any("cheese" in str(value) for span in spans.ended for value in told(span).values())
    assert not any("messages" in key or "arguments" in key or "result" in key for s in spans.ended for key in told(s))


async def test_what_was_said_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    spans = CollectedSpans(shows_content=True)
    model = scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": "It is 5."}])
    agents = [agent("a", model, system_prompt="Add.", tools=[tool("add")])]
    async with local_gateway(tmp_path, agents, tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body("2 and 3?"))
        await spans.until("invoke_agent")
    first, last = (told(span) for span in spans.named("chat"))
    assert json.loads(str(first["gen_ai.system_instructions"])) == [{"type": "text", "content": "Add."}]
    assert json.loads(str(first["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "2 and 3?"}]}
    ]
    [asked] = json.loads(str(first["gen_ai.output.messages"]))
    assert asked["parts"][0]["name"] == "add"
    assert json.loads(asked["parts"][0]["arguments"]) == {"a": 2, "b": 3}
    assert [message["role"] for message in json.loads(str(last["gen_ai.input.messages"]))] == [
        "user",
        "assistant",
        "tool",
    ]
    [said] = json.loads(str(last["gen_ai.output.messages"]))
    assert said == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "It is 5."}],
        "finish_reason": "end_turn",
    }
    called = told(spans.one("execute_tool add"))
    assert json.loads(str(called["gen_ai.tool.call.arguments"])) == {"a": 2, "b": 3}
    assert "5" in str(called["gen_ai.tool.call.result"])


async def test_each_try_is_a_span_and_its_own_traceparent_goes_to_the_provider(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with chat_server() as server:
        server.answers(error(503), error(503), completion("Hello"))
        model = {
            "model_provider": "openai/v1/chat/completions",
            "model_id": "gpt",
            "endpoint": server.endpoint,
        }
        async with local_gateway(tmp_path, [agent("a", model)], tracer=spans.tracer) as gateway:
            await gateway.client.run("a", run_body("hi"), traceparent=PARENT)
            await spans.until("invoke_agent")
        tries = spans.named("chat gpt")
        asked = [request.headers["traceparent"] for request in server.requests]
    assert [told(span).get("error.type") for span in tries] == ["model_overloaded", "model_overloaded", None]
    assert [span.status.status_code for span in tries][:2] == [StatusCode.ERROR, StatusCode.ERROR]
    assert asked == [traceparent_of(span) for span in tries]
    assert told(tries[0])["gen_ai.provider.name"] == "openai"
    assert told(tries[0])["server.address"] == "127.0.0.1"
    assert no_errors(spans.one("invoke_agent"))


async def test_a_fallback_is_a_span_with_its_own_model(tmp_path: Path) -> None:
    spans = CollectedSpans()
    broken = {**scripted([{"error": "authentication"}]), "model_id": "broken"}
    whole = {**scripted([{"text": "Hello"}]), "model_id": "whole"}
    async with local_gateway(tmp_path, [agent("a", {**broken, "fallback": [whole]})], tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body("hi"))
        await spans.until("invoke_agent")
    first, second = spans.named("chat")
    assert (first.name, told(first)["error.type"]) == ("chat broken", "model_authentication")
    assert (second.name, told(second).get("error.type")) == ("chat whole", None)


async def test_a_failed_run_tells_its_code(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with local_gateway(
        tmp_path, [agent("a", scripted([{"error": "authentication", "message": SECRET_WORDS}]))], tracer=spans.tracer
    ) as gateway:
        frames = await gateway.client.run("a", run_body("hi"))
        await spans.until("invoke_agent")
    run = spans.one("invoke_agent")
    assert frames[-1].type == "RUN_ERROR"
    assert told(run)["error.type"] == frames[-1].data["code"] == "model_authentication"
    assert told(run)["agui_gateway.run.status"] == "failed"
    assert run.status.status_code is StatusCode.ERROR
    assert "cheese" not in str([(told(span), span.status.description, span.events) for span in spans.ended])


async def test_a_tool_that_fails_tells_so_and_the_run_goes_on(tmp_path: Path) -> None:
    spans = CollectedSpans()
    model = scripted([{"tool": "fail"}], [{"text": "It failed."}])
    async with local_gateway(tmp_path, [agent("a", model, tools=[tool("fail")])], tracer=spans.tracer) as gateway:
        await gateway.client.run("a", run_body("hi"))
        await spans.until("invoke_agent")
    assert told(spans.one("execute_tool fail"))["error.type"] == "tool_error"
    assert told(spans.one("invoke_agent"))["agui_gateway.run.status"] == "completed"


async def test_a_tool_and_a_model_whose_time_is_over_tell_that_and_not_that_they_were_cancelled(tmp_path: Path) -> None:
    spans, clock = CollectedSpans(), MovableClock()
    model = scripted([{"tool": "hang"}], [{"text": "one two"}, {"hang": True}])
    agents = [agent("a", model, tools=[tool("hang")], parameters={"tool_timeout_seconds": 7, "max_run_seconds": 60})]
    async with local_gateway(tmp_path, agents, tracer=spans.tracer, clock=clock) as gateway:
        async with gateway.client.stream("a", run_body("hi")) as stream:
            await stream.until("TOOL_CALL_END")
            await clock.until_timer(7)
            await clock.advance(7)
            await stream.until("TEXT_MESSAGE_CONTENT")
            await clock.advance(60)
            frames = await stream.rest()
        await spans.until("invoke_agent")
    assert frames[-1].data["code"] == "limit_max_run_seconds"
    assert told(spans.one("execute_tool hang"))["error.type"] == "timeout"
    assert [told(span).get("error.type") for span in spans.named("chat")] == [None, "timeout"]


async def test_a_cancelled_run_ends_its_span_and_that_of_its_model_call(tmp_path: Path) -> None:
    spans = CollectedSpans()
    model = scripted([{"text": "one two"}, {"hang": True}])
    async with local_gateway(tmp_path, [agent("a", model)], tracer=spans.tracer) as gateway:
        async with gateway.client.stream("a", run_body("hi", run_id="r")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            await gateway.client.http.post("/runs/r/cancel")
            await stream.rest()
        await spans.until("invoke_agent")
    run = spans.one("invoke_agent")
    assert told(run)["agui_gateway.run.status"] == "cancelled"
    assert no_errors(run), "somebody wanted it"
    assert told(spans.one("chat"))["error.type"] == "cancelled"


async def test_a_run_that_goes_on_without_its_viewer_ends_its_span_with_itself(tmp_path: Path) -> None:
    spans = CollectedSpans()
    model = scripted([{"text": "one two "}, {"tool": "blocked"}], [{"text": "three"}])
    waiting = fault_tool("blocked")
    agents = [agent("a", model, on_disconnect="continue", tools=[waiting])]
    release.clear()
    async with local_gateway(tmp_path, agents, tracer=spans.tracer) as gateway:
        async with gateway.client.stream("a", run_body("hi", run_id="r")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
        request = (await spans.until("POST /agents/{agent_id}/run"))[0]
        assert not spans.named("invoke_agent")
        async with gateway.client.events("r", after=0) as again:
            await again.until("TEXT_MESSAGE_CONTENT")
            async with gateway.client.stream("a", run_body(run_id="look"), to="connect") as joined:
                await joined.until("RUN_STARTED")
            release.set()
            await again.rest()
        attached = (await spans.until("GET /runs/{run_id}/events"))[0]
        await gateway.client.until_status("r", "completed")
        async with gateway.client.events("r", after=0) as replayed:
            await replayed.rest()
        await spans.until("GET /runs/{run_id}/events", 2)
    run = spans.one("invoke_agent")
    assert is_below(run, request)
    assert request.end_time is not None
    assert run.end_time is not None
    assert request.end_time < run.end_time
    assert [link.context.span_id for link in attached.links] == [span_id(run)], "an attach links to the run"
    assert [link.context.span_id for link in spans.one("POST /agents/{agent_id}/connect").links] == [span_id(run)]
    assert trace_of(attached) != trace_of(run), "and begins none"


async def test_a_run_that_asks_and_the_one_that_goes_on_are_two_of_one_conversation(tmp_path: Path) -> None:
    spans = CollectedSpans()
    model = scripted([{"tool": "refund", "arguments": {"order": "7"}}], [{"text": "Done."}])
    agents = [agent("a", model, tools=[tool("refund", approval="always")])]
    async with local_gateway(tmp_path, agents, tracer=spans.tracer) as gateway:
        frames = await gateway.client.run("a", run_body("hi", thread_id="t", run_id="r1"))
        asked = frames[-1].data["outcome"]["interrupts"][0]["id"]
        resume = [{"interruptId": asked, "status": "resolved", "payload": {"approved": True}}]
        await gateway.client.run("a", run_body(messages=[], thread_id="t", run_id="r2", resume=resume))
        first, second = await spans.until("invoke_agent", 2)
    assert [told(span)["agui_gateway.run.status"] for span in (first, second)] == ["interrupted", "completed"]
    assert {told(span)["gen_ai.conversation.id"] for span in (first, second)} == {"t"}
    assert no_errors(first, second)
    assert is_below(spans.one("execute_tool refund"), second)


async def test_a_run_that_is_refused_does_not_leave_its_span_open(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with local_gateway(tmp_path, [agent("a", scripted([{"hang": True}]))], tracer=spans.tracer) as gateway:
        async with gateway.client.stream("a", run_body("hi", thread_id="t", run_id="r1")) as stream:
            await stream.until("RUN_STARTED")
            refused = await gateway.client.http.post("/agents/a/run", json=run_body("no", thread_id="t", run_id="r2"))
            assert refused.status_code == 409
            await gateway.client.http.post("/runs/r1/cancel")
            await stream.rest()
        runs = await spans.until("invoke_agent", 2)
    by_id = {told(span)["agui_gateway.run.id"]: told(span)["agui_gateway.run.status"] for span in runs}
    assert by_id == {"r1": "cancelled", "r2": "refused"}


async def test_probes_have_no_spans(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with local_gateway(tmp_path, [agent("a", SAYS)], tracer=spans.tracer) as gateway:
        for path in ("/healthz", "/readyz", "/agents"):
            await gateway.client.http.get(path)
    assert [span.name for span in spans.ended] == ["GET /agents"]


async def test_a_model_call_tells_what_its_run_wished() -> None:
    spans, clock = CollectedSpans(), MovableClock()
    part = traced_providers({"scripted": PROVIDER})["scripted"]
    parameters: JsonObject = {"responses": [[{"text": "hi"}]], "delta_seconds": 0}
    model = part.open(
        ModelSettings("scripted", model_parameters=parameters), ModelEnvironment(clock, HttpClients(clock))
    )
    run = spans.tracer.begin("invoke_agent", {}, shared={})
    own: JsonObject = {"temperature": 1.0, "seed": 3}
    wished = GenerationOptions(temperature=0.5, max_tokens=9)
    async for _ in model.stream(ModelRequest("turn", (), parameters=own, options=wished, trace=run)):
        pass
    run.end()
    asked = {name: value for name, value in told(spans.one("chat")).items() if name.startswith("gen_ai.request.")}
    assert {"gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 9, "gen_ai.request.seed": 3}.items() <= (
        asked.items()
    )
