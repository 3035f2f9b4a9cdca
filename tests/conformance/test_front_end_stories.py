"""What a front end goes through, with the real clients: the demonstration, and combinations that no single case has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.agui_client import NodeClients
from tests.case_tools import executions, python_tool, python_tools
from tests.observed_runs import check_run, observe, post, read_observed, run_client, said, thread_messages
from tests.openai_chat_server import DONE, ChatServer, Script, chunk, completion, record
from tests.running_gateway import LocalGateway, agent, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

with_resume = pytest.mark.parametrize("clients", ["1.0.0", "0.0.59"], indirect=True)

PICK: Json = {"name": "pick", "description": "Let the user pick.", "parameters": {"type": "object"}}
SET_BACKGROUND: Json = {
    "name": "set_background",
    "description": "Set the background color of the page.",
    "parameters": {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]},
}
REFUND = {"tool": "refund", "arguments": {"order": "A1", "amount": 5}}
ASKING = python_tool("refund", approval="always")
HANG_ON = {"when": {"last_user_contains": "hang"}, "response": [{"text": "So far"}, {"hang": True}]}

AGENTS = [
    agent(
        "demonstration",
        {"model_provider": "demo", "model_parameters": {"words_per_second": 0}},
        tools=[
            {"type": "ListIndexTool"},
            {"type": "SearchIndexTool"},
            {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add_to_list"}},
            {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:refund"}, "approval": "always"},
        ],
    ),
    agent("hybrid_cashier", scripted([{"tool": "pick"}, REFUND], [{"text": "Done: {{result}}"}]), tools=[ASKING]),
    agent(
        "hybrid_hang", scripted([{"tool": "pick"}, {"tool": "hang"}], [{"text": "Done."}]), tools=python_tools("hang")
    ),
    agent("enqueuing", scripted([{"text": "Hello there"}], rules=[HANG_ON]), on_concurrent_run="enqueue"),
    agent("hangs", scripted([{"text": "Hello there"}], rules=[HANG_ON])),
    agent("greeter", scripted([{"text": "Hello there"}])),
    agent(
        "guarded",
        scripted(
            [
                {"reasoning": "The code is swordfish."},
                {"text": "The code is swordfish, and", "chunk_characters": 5},
                {"retract": "I cannot tell you that."},
                {"stop": "content_filter"},
            ],
            rules=[{"when": {"last_user_contains": "repeat"}, "response": [{"text": "There is nothing to repeat."}]}],
        ),
    ),
    agent(
        "thinker",
        scripted(
            [{"reasoning": "Hm."}, {"text": "Let me see."}, {"tool": "add", "arguments": {"a": 1, "b": 1}}],
            [{"reasoning": "So."}, {"text": "It is 2."}],
        ),
        tools=python_tools("add"),
    ),
]


def calls_of(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    return [call for message in messages for call in message.get("toolCalls") or []]


def answer_to(call: Mapping[str, Any], content: str, id: str) -> Json:
    return {"id": id, "role": "tool", "toolCallId": call["id"], "content": content}


# --- the demonstration


async def test_the_demonstration_searches_and_answers(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("demonstration"), thread_id=fresh("thread"))

    report = await run_client(gateway, agent, fresh("run"), text="What is the population of Seattle?")

    assert "TOOL_CALL_RESULT" in report.event_types
    assert "Seattle" in str(report.messages[-1]["content"])
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, agent.thread_id)))


async def test_the_demonstration_calls_a_tool_in_the_browser_and_goes_on(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("demonstration"), thread_id=fresh("thread"))
    report = await run_client(
        gateway, agent, fresh("run"), text="Set the background to light blue", tools=[SET_BACKGROUND]
    )
    (call,) = calls_of(report.messages)
    assert call["function"]["name"] == "set_background"
    assert report.event_types[-1] == "RUN_FINISHED"
    await agent.add_message(answer_to(call, "done", fresh("result")))

    report = await run_client(gateway, agent, fresh("run"), tools=[SET_BACKGROUND])

    assert report.messages[-1]["role"] == "assistant"
    assert report.messages[-1]["content"]


@with_resume
async def test_the_demonstration_asks_before_it_refunds(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("demonstration"), thread_id=fresh("thread"))
    report = await run_client(gateway, agent, fresh("run"), text="Refund 20 for the order A17, please")
    assert report.pending_interrupts
    (interrupt,) = report.pending_interrupts

    answer: Json = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    report = await run_client(gateway, agent, fresh("run"), resume=[answer])

    (result,) = [message for message in report.messages if message["role"] == "tool"]
    assert "refunded" in str(result["content"])
    assert report.event_types[-1] == "RUN_FINISHED"


# --- approvals and frontend tools in one request


async def test_an_approval_and_a_browsers_answer_in_one_request_carry_the_turn_to_its_end(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    body = run_body("go", thread_id=thread_id, run_id=fresh("run"), tools=[PICK])
    seen = await observe(gateway, "hybrid_cashier", body)
    (interrupt,) = seen.last["outcome"]["interrupts"]
    history = await thread_messages(gateway, thread_id)
    picking = next(call for call in calls_of(history) if call["function"]["name"] == "pick")

    seen = await observe(
        gateway,
        "hybrid_cashier",
        run_body(
            messages=[*history, answer_to(picking, "blue", fresh("result"))],
            thread_id=thread_id,
            run_id=fresh("run"),
            tools=[PICK],
            resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}],
        ),
    )

    assert seen.types[:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]
    assert seen.text.startswith("Done: ")
    assert list(executions.values()) == [1]


async def test_a_stop_while_a_backend_tool_runs_leaves_the_browsers_call_answerable(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("hybrid_hang"), thread_id=fresh("thread"))
    await agent.add_message({"id": fresh("user"), "role": "user", "content": "go"})
    running = agent.start_run(run_id=run_id, tools=[PICK])
    await agent.wait_for("TOOL_CALL_END", count=2)
    await gateway.client.http.post(f"/runs/{run_id}/cancel")
    report = await running
    picking = next(call for call in calls_of(report.messages) if call["function"]["name"] == "pick")
    await agent.add_message(answer_to(picking, "blue", fresh("result")))

    report = await run_client(gateway, agent, fresh("run"), tools=[PICK])

    assert report.messages[-1]["content"] == "Done."


async def test_an_interrupted_run_that_is_asked_for_again_asks_again(gateway: LocalGateway, fresh: Fresh) -> None:
    body = run_body("go", thread_id=fresh("thread"), run_id=fresh("run"), tools=[PICK])
    first = await observe(gateway, "hybrid_cashier", body)

    assert (await observe(gateway, "hybrid_cashier", body)).sent == first.sent


# --- pages that come back


async def test_a_page_that_joins_while_the_model_thinks_sees_the_thought_once_and_whole(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    upstream.answers(
        Script(
            pieces=[record(chunk({"reasoning_content": "First this"}))],
            hold=hold,
            pieces_after=[
                record(chunk({"reasoning_content": ", then that."})),
                record(chunk({"content": "Done."})),
                record(chunk({}, "stop")),
                DONE,
            ],
        )
    )
    thread_id = fresh("thread")
    before = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    await before.add_message({"id": fresh("user"), "role": "user", "content": "go"})
    running = before.start_run(run_id=fresh("run"))
    await before.wait_for("REASONING_MESSAGE_CONTENT")
    page = await clients.create(f"{gateway.client.base_url}/agents/openai/connect", thread_id=thread_id)
    joined = page.start_run(run_id=fresh("connect"))
    await page.wait_for("REASONING_MESSAGE_CONTENT")
    hold.set()
    live, report = await running, await joined

    assert live.rejection is None
    assert report.rejection is None
    assert sorted(said(report.messages)) == sorted(said(live.messages))
    thoughts = [message["content"] for message in report.messages if message["role"] == "reasoning"]
    assert thoughts == ["First this, then that."]


async def test_a_page_may_come_back_again_and_again(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    rest = [record(chunk({"content": " and on."})), record(chunk({}, "stop")), DONE]
    upstream.answers(Script(pieces=[record(chunk({"content": "So on"}))], hold=hold, pieces_after=rest))
    thread_id, run_id = fresh("thread"), fresh("run")
    page = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    await page.add_message({"id": fresh("user"), "role": "user", "content": "go"})
    running = page.start_run(run_id=run_id)
    await page.wait_for("TEXT_MESSAGE_CONTENT")
    connect = f"{gateway.client.base_url}/agents/openai/connect"
    for _ in range(3):
        again = await clients.create(connect, thread_id=thread_id)
        joined = again.start_run(run_id=fresh("connect"))
        await again.wait_for("TEXT_MESSAGE_CONTENT")
        await page.abort()
        await running
        page, running = again, joined
    clients.console.clear()  # some versions report the aborts
    hold.set()
    report = await running

    assert report.messages[-1]["content"] == "So on and on."
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "completed"
    await check_run(gateway, run_id)


async def test_a_page_that_connects_while_its_run_waits_sees_what_is_there(gateway: LocalGateway, fresh: Fresh) -> None:
    """The run at work is what it joins, not the one behind it in the line."""
    thread_id, first, second = fresh("thread"), fresh("run"), fresh("run")
    client = gateway.client
    connect = run_body(messages=[], thread_id=thread_id, run_id=fresh("connect"))
    async with (
        client.stream("enqueuing", run_body("hang", thread_id=thread_id, run_id=first)) as one,
        client.stream("enqueuing", run_body("hi", thread_id=thread_id, run_id=second)) as other,
    ):
        await one.until("TEXT_MESSAGE_CONTENT")
        async with client.stream("enqueuing", connect, to="connect") as page:
            started, snapshot = await page.until("MESSAGES_SNAPSHOT")
        assert started.data["runId"] == first
        assert [message["content"] for message in snapshot.data["messages"]] == ["hang", "So far"]
        await client.http.post(f"/runs/{first}/cancel")
        assert (await other.rest())[-1].type == "RUN_FINISHED"


async def test_connecting_to_a_thread_whose_last_run_failed_shows_its_history_and_the_failure(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(Script(pieces=[record(chunk({"content": "So "}))], ending="reset"))
    thread_id, run_id = fresh("thread"), fresh("run")
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    failed = await run_client(gateway, agent, run_id, text="go")
    page = await clients.create(f"{gateway.client.base_url}/agents/openai/connect", thread_id=thread_id)

    report = await page.run(run_id=fresh("connect"))

    assert said(report.messages) == said(failed.messages)
    assert report.run_error is not None
    assert report.run_error["code"] == "model_network"


async def test_the_order_of_thoughts_words_and_calls_is_the_same_everywhere(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    agent = await clients.create(gateway.client.run_url("thinker"), thread_id=thread_id)
    report = await run_client(gateway, agent, fresh("run"), text="1+1?")
    page = await clients.create(f"{gateway.client.base_url}/agents/thinker/connect", thread_id=thread_id)

    reloaded = await page.run(run_id=fresh("connect"))

    shown = said(await thread_messages(gateway, thread_id))
    assert said(reloaded.messages) == shown
    assert sorted(said(report.messages)) == sorted(shown)
    again = await run_client(gateway, agent, fresh("run"), text="and 1+1?")
    assert again.messages[-1]["content"] == "It is 2."


# --- requests that come twice or at once


async def test_a_page_that_sends_its_request_twice_at_once_has_one_run(gateway: LocalGateway, fresh: Fresh) -> None:
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))

    answers = await asyncio.gather(*(post(gateway, "/agents/greeter/run", body) for _ in range(5)))

    assert {answer.status_code for answer in answers} == {200}
    for answer in answers:
        assert read_observed(answer, body["threadId"], body["runId"]).last["type"] == "RUN_FINISHED"
    assert len(await thread_messages(gateway, body["threadId"])) == 2


async def test_many_threads_at_once_do_not_mix(gateway: LocalGateway, fresh: Fresh) -> None:
    bodies = [run_body(f"hi {n}", thread_id=fresh("thread"), run_id=fresh("run")) for n in range(50)]

    streams = await asyncio.gather(*(observe(gateway, "greeter", body) for body in bodies))

    for body, seen in zip(bodies, streams, strict=True):
        assert seen.one("RUN_STARTED")["threadId"] == body["threadId"]
        assert seen.text == "Hello there"


async def test_a_run_id_on_another_thread_is_a_conflict_also_while_it_runs(gateway: LocalGateway, fresh: Fresh) -> None:
    run_id = fresh("run")
    async with gateway.client.stream("hangs", run_body("hang", thread_id=fresh("thread"), run_id=run_id)) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        refused = await post(gateway, "/agents/hangs/run", run_body("hang", thread_id=fresh("thread"), run_id=run_id))
        await gateway.client.http.post(f"/runs/{run_id}/cancel")
        await stream.rest()

    assert refused.status_code == 409
    assert refused.json()["code"] == "run_exists"


async def test_usage_and_times_are_there_after_a_conversation(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(completion("Hel", "lo"))
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=fresh("thread"))
    await run_client(gateway, agent, run_id, text="hi")

    run = await gateway.client.get(f"/runs/{run_id}")

    (usage,) = run["usage"]
    assert (usage["model"], usage["inputTokens"], usage["outputTokens"]) == ("m", 3, 2)
    assert run["status"] == "completed"


# --- an answer that is taken back


async def test_an_answer_that_is_taken_back_is_nowhere_any_more(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("guarded"), thread_id=fresh("thread"))
    run_id = fresh("run")

    report = await run_client(gateway, agent, run_id, text="What is the code?")

    assert "TEXT_MESSAGE_CONTENT" in report.event_types
    assert report.event_types[-2:] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert [message["content"] for message in report.messages if message["role"] in ("user", "assistant")] == [
        "What is the code?",
        "I cannot tell you that.",
    ]
    assert "swordfish" not in json.dumps(report.messages)
    for path in (f"/threads/{agent.thread_id}/messages", f"/runs/{run_id}/events"):
        shown = await gateway.client.http.get(path)
        assert shown.status_code == 200
        assert "swordfish" not in shown.text
        assert "I cannot tell you that." in shown.text
    connected = await post(
        gateway, "/agents/guarded/connect", run_body(messages=[], thread_id=agent.thread_id, run_id=fresh("run"))
    )
    assert "swordfish" not in connected.text
    assert "I cannot tell you that." in connected.text

    report = await run_client(gateway, agent, fresh("run"), text="Please repeat that")

    assert report.messages[-1]["content"] == "There is nothing to repeat."
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, agent.thread_id)))


async def test_a_client_before_1_0_is_told_what_stands_in_the_place_of_what_it_was_shown(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    body = run_body("What is the code?", thread_id=fresh("thread"), run_id=fresh("run"), version=None)

    response = await post(gateway, "/agents/guarded/run", body)

    seen = read_observed(response, body["threadId"], body["runId"], legacy=True)
    (told,) = (event["value"] for event in seen.of("CUSTOM") if event["value"]["content"])
    assert told["content"] == "I cannot tell you that."
    (snapshot,) = seen.of("MESSAGES_SNAPSHOT")
    assert {"id": told["messageId"], "role": "assistant", "content": told["content"]} in snapshot["messages"]
    assert seen.last["result"] == {"stopReason": "content_filter"}
    run = await gateway.client.get(f"/runs/{body['runId']}")
    assert run["status"] == "completed"
