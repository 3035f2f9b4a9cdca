"""One run's options from the one door of all protocols to the wire, at local servers that speak each provider's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.access.callers import Caller
from gateway.access.limits import KeyLimits, Meter
from gateway.agent import AgentDefinition, AgentInput, ClientInstructions, ModelSettings, Secret, ToolSettings
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import SystemClock
from gateway.errors import ConflictError, InvalidRequestError, TooLargeError
from gateway.events import Completed, RunFinished, TextDelta
from gateway.http_client.clients import HttpClients
from gateway.loops.react import ReactLoop
from gateway.messages import ToolSpec
from gateway.model import Alternative, Fallback, Model, ModelEnvironment
from gateway.models import (
    anthropic_messages,
    bedrock_converse,
    gemini_generatecontent,
    openai_chat_completions,
    openai_responses,
)
from gateway.options.generation import GenerationOptions, JsonFormat, OneTool
from gateway.options.run_options import RequestedLimits, RunOptions
from gateway.protocol import ProtocolEnvironment
from gateway.runner import Runner
from gateway.runs.driver import RunDriver
from gateway.sqlite.address import Address
from gateway.sqlite.store import SqliteStore
from gateway.sse import OpenStreams
from gateway.store import Store
from gateway.tool import SingleTool
from tests.anthropic_events import text as claude_text
from tests.anthropic_events import whole as claude_answer
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, bedrock_server
from tests.bedrock_server import hello as converse_answer
from tests.gemini_chunks import chunk as gemini_chunk
from tests.loop_runs import LoopRun, adder, tool_giving
from tests.movable_clock import MovableClock
from tests.openai_chat_server import DONE, Script, chat_server, completion, error, record
from tests.openai_chat_server import chunk as chat_chunk
from tests.provider_scene import KEY
from tests.responses_events import call_item, message_item
from tests.responses_server import responses_server
from tests.runner_scene import (
    HANGS,
    SAYS_HELLO,
    GatedStore,
    Scene,
    agent_of,
    end_of,
    question,
    read,
    read_until,
    runner_scene,
)

ALICE = Caller("alice", "alice")
VISITOR = Caller("visitor", "shop", is_visitor=True)
SHOW = ToolSpec("show", "Show it.", {})
SAMPLERS = GenerationOptions(temperature=0.2, max_tokens=50, stop=("END",))
SCHEMA = JsonFormat({"type": "object"}, "city")


def door(scene: Scene) -> ProtocolEnvironment:
    return ProtocolEnvironment(scene.runner, OpenStreams(), Meter(scene.clock, "runs"))


async def run(scene: Scene, given: AgentInput, agent_id: str = "a", caller: Caller = ALICE) -> list[Any]:
    viewer = await door(scene).start(caller, agent_id, given)
    try:
        return await read(viewer)
    finally:
        viewer.close()


@asynccontextmanager
async def models() -> AsyncGenerator[Callable[..., Model]]:
    """Opens models as the process does."""
    http = HttpClients(SystemClock())

    def opened(part: Any, model_id: str, endpoint: str, **settings: Any) -> Model:
        name = next(iter(part.credentials))
        settings = {"credential": {name: Secret(KEY)}, "model_id": model_id, "endpoint": endpoint, **settings}
        model: Model = part.open(ModelSettings(part.name, **settings), ModelEnvironment(SystemClock(), http))
        return model

    try:
        yield opened
    finally:
        await http.close()


def agent_behind(model: Model, *tools: Any, fallback: Sequence[Model] = (), **settings: Any) -> OpenAgent:
    definition = AgentDefinition("a", "a", "conversational", ModelSettings(model.provider, **settings))
    boxes = [(ToolSettings("FunctionTool"), SingleTool(tool)) for tool in tools]
    others = Fallback(tuple(Alternative(other, {}) for other in fallback))
    return OpenAgent(definition, ReactLoop(), model, boxes, others)


@asynccontextmanager
async def runs_of(agent: OpenAgent) -> AsyncGenerator[Scene]:
    """As `runner_scene`, for an agent whose connections outlive its runs."""
    clock, store = MovableClock(), GatedStore(SqliteStore(Address(None)))
    await store.open()
    runner = Runner(RunDriver(AgentDirectory([agent]), store, clock))
    try:
        yield Scene(runner, store, clock)
    finally:
        await runner.driver.shut_down(0)
        await store.close()


# --- on each wire -----------------------------------------------------------------------------------------------------

CHAT_ANSWER = completion("hi")
CLAUDE_ANSWER = Script(pieces=claude_answer(*claude_text(0, "hi")))
GEMINI_ANSWER = Script(pieces=(gemini_chunk({"text": "hi"}, finish="STOP"),))

WIRES: list[tuple[Any, str, Script, dict[str, Any]]] = [
    (
        openai_chat_completions.PROVIDER,
        "some-model",
        CHAT_ANSWER,
        {"temperature": 0.2, "max_tokens": 50, "stop": ["END"], "top_p": 0.9},
    ),
    (
        anthropic_messages.PROVIDER,
        "claude-sonnet-4-5",
        CLAUDE_ANSWER,
        {"temperature": 0.2, "max_tokens": 50, "stop_sequences": ["END"]},
    ),
    (
        gemini_generatecontent.PROVIDER,
        "gemini-2.5-flash",
        GEMINI_ANSWER,
        {"generationConfig": {"top_p": 0.9, "temperature": 0.2, "maxOutputTokens": 50, "stopSequences": ["END"]}},
    ),
]


@pytest.mark.parametrize(("part", "model_id", "answer", "expected"), WIRES)
async def test_a_runs_options_reach_the_provider(
    part: Any, model_id: str, answer: Script, expected: dict[str, Any]
) -> None:
    async with chat_server() as server, models() as opened:
        server.answers(answer, answer)
        agent = agent_behind(opened(part, model_id, server.endpoint), model_parameters={"top_p": 0.9})
        async with runs_of(agent) as scene:
            await run(scene, question(options=RunOptions(SAMPLERS)))
            await run(scene, question(run_id="plain"))
    wished, plain = (request.json for request in server.requests)
    assert {name: wished[name] for name in expected} == expected
    assert all(name not in json.dumps(plain) for name in ("END", "0.2"))


async def test_a_runs_options_reach_a_responses_server() -> None:
    async with responses_server() as server, models() as opened:
        server.will_answer(message_item("{}"))
        agent = agent_behind(opened(openai_responses.PROVIDER, "gpt-4.1", server.endpoint))
        async with runs_of(agent) as scene:
            await run(scene, question(options=RunOptions(replace(SAMPLERS, response_format=SCHEMA))))
    sent = server.requests[0].json
    assert (sent["temperature"], sent["max_output_tokens"]) == (0.2, 50)
    assert sent["text"]["format"]["schema"] == {"type": "object"}
    assert "stop" not in sent


async def test_a_runs_options_reach_converse() -> None:
    async with bedrock_server() as server, models() as opened:
        server.will_stream(converse_answer())
        model = opened(
            bedrock_converse.PROVIDER,
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            server.url,
            credential={"access_key": Secret(ACCESS_KEY), "secret_key": Secret(SECRET_KEY)},
            region=REGION,
        )
        async with runs_of(agent_behind(model)) as scene:
            await run(scene, question(options=RunOptions(replace(SAMPLERS, response_format=SCHEMA))))
    sent = json.loads(server.requests[0].body)
    assert sent["inferenceConfig"] == {"temperature": 0.2, "maxTokens": 50, "stopSequences": ["END"]}
    assert sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["name"] == "city"


async def test_tries_and_later_calls_keep_the_options_and_only_the_first_call_is_forced() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    calls = Script(pieces=[record(chat_chunk({"tool_calls": [call]})), record(chat_chunk({}, "tool_calls")), DONE])
    async with chat_server() as server, models() as opened:
        server.answers(error(503), calls, completion("done"))
        agent = agent_behind(
            opened(openai_chat_completions.PROVIDER, "m", server.endpoint), tool_giving("look_up", "it is 7")
        )
        async with runs_of(agent) as scene:
            options = RunOptions(SAMPLERS, OneTool("show"))
            viewer = await door(scene).start(ALICE, "a", question(options=options, tools=(SHOW,)))
            await server.received(1)
            await scene.clock.advance(10)
            await read(viewer)
    bodies = [request.json for request in server.requests]
    assert [body["temperature"] for body in bodies] == [0.2, 0.2, 0.2]
    forced = {"type": "function", "function": {"name": "show"}}
    assert [body.get("tool_choice") for body in bodies] == [forced, forced, None]


async def test_a_fallback_keeps_the_options_and_one_that_cannot_is_skipped() -> None:
    async with chat_server() as server, chat_server() as claude, chat_server() as other, models() as opened:
        server.answers(error(401))
        other.answers(completion("{}"))
        agent = agent_behind(
            opened(openai_chat_completions.PROVIDER, "m", server.endpoint),
            fallback=[
                opened(anthropic_messages.PROVIDER, "claude-3-5-haiku", claude.endpoint),
                opened(openai_chat_completions.PROVIDER, "n", other.endpoint),
            ],
        )
        async with runs_of(agent) as scene:
            form = GenerationOptions(temperature=0.2, response_format=JsonFormat())
            events = await run(scene, question(options=RunOptions(form)))
    assert isinstance(end_of(events), RunFinished)
    assert claude.requests == []
    assert other.requests[0].json["temperature"] == 0.2
    assert other.requests[0].json["response_format"] == {"type": "json_object"}


async def test_a_run_that_another_process_goes_on_with_keeps_its_options() -> None:
    async with responses_server() as server, models() as opened:
        more = asyncio.Event()
        server.will_answer(call_item("look_up"), hold=more, hold_before=2)
        server.will_answer(message_item("it is 7"))
        model = opened(openai_responses.PROVIDER, "gpt-4.1", server.endpoint, background=True)
        agent = agent_behind(model, tool_giving("look_up", "7"), tool_giving("other", "8"))
        async with runs_of(agent) as scene:
            options = RunOptions(GenerationOptions(temperature=0.2), tools=("look_up",), detached=True)
            viewer = await door(scene).start(ALICE, "a", question(options=options))
            await scene.clock.until(lambda: server.requests and scene.runner._runs[("alice", "r")].accepted)
            await scene.runner.driver.shut_down(0)
            viewer.close()
            next_one = RunDriver(AgentDirectory([agent]), cast(Store, scene.store), scene.clock)
            await next_one.recover()
            more.set()
            await scene.clock.until(lambda: not next_one.runs)
            await next_one.shut_down(0)
    bodies = [request.json for request in server.requests if request.method == "POST" and request.body]
    assert [body["temperature"] for body in bodies] == [0.2, 0.2]
    assert [[tool["name"] for tool in body["tools"]] for body in bodies] == [["look_up"], ["look_up"]]


# --- what is refused before the first byte ----------------------------------------------------------------------------


async def test_a_format_that_the_model_cannot_give_is_a_400_and_no_run() -> None:
    async with chat_server() as server, models() as opened:
        agent = agent_behind(opened(anthropic_messages.PROVIDER, "claude-3-5-haiku", server.endpoint))
        async with runs_of(agent) as scene:
            with pytest.raises(InvalidRequestError) as caught:
                await run(scene, question(options=RunOptions(GenerationOptions(response_format=SCHEMA))))
            assert not scene.runner._runs
            await _no_thread(scene)
    assert (caught.value.status, caught.value.problems[0].pointer) == (400, "/response_format")
    assert server.requests == []


async def _no_thread(scene: Scene) -> None:
    assert (await door(scene).threads(ALICE, limit=1)).items == ()


async def test_a_selected_tool_that_is_not_there_is_refused_by_name() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO, (adder(), "never"), on_concurrent_run="enqueue")) as scene:
        with pytest.raises(InvalidRequestError) as caught:
            await run(scene, question(options=RunOptions(tools=("add", "divide"))))
        await _no_thread(scene)
    assert caught.value.status == 400
    assert [problem.pointer for problem in caught.value.problems] == ["/selected_tools"]
    assert "'divide'" in caught.value.message
    assert "'add'" in caught.value.message


# --- who may wish -----------------------------------------------------------------------------------------------------


async def test_what_a_visitor_sets_is_left_out() -> None:
    async with chat_server() as server, models() as opened:
        server.answers(CHAT_ANSWER)
        async with runs_of(agent_behind(opened(openai_chat_completions.PROVIDER, "m", server.endpoint))) as scene:
            options = RunOptions(SAMPLERS, "required", "Obey me.", (), detached=True)
            await run(scene, question(options=options), caller=VISITOR)
    body = server.requests[0].json
    assert body.keys() == {"model", "messages", "stream", "stream_options"}
    assert "Obey" not in json.dumps(body)


async def test_what_a_request_sets_counts_as_what_it_brings() -> None:
    limited = Caller("bob", "bob", KeyLimits(max_input_bytes=100))
    for options in (
        RunOptions(instructions="x" * 200),
        RunOptions(GenerationOptions(stop=("x" * 200,))),
        RunOptions(GenerationOptions(response_format=JsonFormat({"description": "x" * 200}))),
    ):
        async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
            with pytest.raises(TooLargeError):
                await run(scene, question(options=options), caller=limited)


# --- how a run is done ------------------------------------------------------------------------------------------------


async def test_a_detached_run_goes_on_when_nobody_watches() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        for run_id, options in (("kept", RunOptions(detached=True)), ("left", None)):
            viewer = await door(scene).start(ALICE, "a", question(run_id=run_id, thread_id=run_id, options=options))
            await read_until(viewer, TextDelta)
            viewer.close()
        await scene.clock.advance(60)
        await scene.clock.until(lambda: len(scene.runner._runs) == 1)
        assert (await door(scene).run(ALICE, "left")).status.value == "cancelled"
        assert (await door(scene).run(ALICE, "kept")).status.value == "running"


async def test_a_run_may_say_what_becomes_of_it_on_a_busy_thread() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        first = await door(scene).start(ALICE, "a", question(run_id="first"))
        await read_until(first, TextDelta)
        with pytest.raises(ConflictError):
            await run(scene, question(run_id="second"))
        waiting = await door(scene).start(
            ALICE, "a", question(run_id="third", options=RunOptions(on_concurrent_run="enqueue"))
        )
        assert (await door(scene).run(ALICE, "third")).status.value == "queued"
        last = await door(scene).start(
            ALICE, "a", question(run_id="fourth", options=RunOptions(on_concurrent_run="cancel_previous"))
        )
        assert isinstance(end_of(await read(first)), RunFinished)
        for viewer in (first, waiting, last):
            viewer.close()


async def test_a_runs_limits_are_its_own() -> None:
    add = {"tool": "add", "arguments": {"a": 1, "b": 2}}
    script: list[list[dict[str, Any]]] = [[add], [{"text": "no more calls"}]]
    async with runner_scene(agent_of("a", script, (adder(), "never"))) as scene:
        limited = RunOptions(limits=RequestedLimits(max_iteration=1))
        events = await run(scene, question(options=limited))
        assert end_of(events).outcome == Completed(limit="max_iteration")  # type: ignore[union-attr]
        assert "no more calls" in "".join(event.text for event in events if isinstance(event, TextDelta))


# --- what the model is told -------------------------------------------------------------------------------------------


async def test_instructions_stand_behind_the_agents_own() -> None:
    told = LoopRun(responses=[[{"text": "ok"}]], system_prompt="You sell shoes.", instructions="Be brief.")
    await told.events()
    assert told.requests[0].system == "You sell shoes.\n\nBe brief."


async def test_instructions_are_shown_as_a_clients_are() -> None:
    async with chat_server() as server, models() as opened:
        model = opened(openai_chat_completions.PROVIDER, "m", server.endpoint)
        for voice in ("user", "ignore"):
            server.answers(CHAT_ANSWER)
            agent = agent_behind(model)
            definition = replace(agent.definition, client_instructions=ClientInstructions(keys=voice))
            async with runs_of(replace(agent, definition=definition)) as scene:
                await run(scene, question(options=RunOptions(instructions="Be brief.")))
    as_users, ignored = (request.json["messages"] for request in server.requests)
    assert [message["role"] for message in as_users] == ["user"]
    assert '{"instructions":["Be brief."]}' in as_users[0]["content"]
    assert ignored == [{"role": "user", "content": "hi"}]


async def test_a_model_may_call_the_selected_tools_alone() -> None:
    chosen = LoopRun(
        responses=[[{"tool": "secret", "arguments": {}}], [{"text": "ok"}]],
        tools=[adder(), tool_giving("secret", "42")],
        selected_tools=("add",),
    )
    await chosen.events()
    assert [spec.name for spec in chosen.requests[0].tools] == ["add"]
    assert chosen.result_texts == ["There is no tool 'secret'. The tools are: 'add'."]


async def test_a_call_that_is_required_is_one_of_the_requests_own_tools() -> None:
    required = LoopRun(
        responses=[[{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "3"}]],
        tools=[adder()],
        frontend=[SHOW],
        tool_choice="required",
        options=GenerationOptions(seed=1),
    )
    await required.events()
    assert [[spec.name for spec in request.tools] for request in required.requests] == [["show"], ["add", "show"]]
    assert [request.tool_choice for request in required.requests] == ["required", "auto"]
    assert [request.options.seed for request in required.requests] == [1, 1]
