"""AG-UI cases 37, 38 and 40 to 43: what goes wrong, what goes silent, what is stopped, and what reaches its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.agui_client import DEADLINE_SECONDS, NodeClients
from tests.case_tools import executions, python_tools
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.observed_runs import SECRET, check_run, observe, post, run_client, thread_messages
from tests.openai_chat_server import ChatServer, Script, chunk, completion, record
from tests.openai_chat_server import error as refusal
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]

ADD = {"tool": "add", "arguments": {"a": 2, "b": 3}}
ONE_TRY = {"parameters": {"model_attempts": 1}}
HANGING = scripted(
    [{"text": "So far"}, {"hang": True}],
    rules=[{"when": {"last_user_contains": "next"}, "response": [{"text": "Next."}]}],
)

AGENTS = [
    agent("greeter", scripted([{"text": "Hello there"}])),
    agent("fails_at_once", scripted([{"error": "overloaded", "message": "too busy"}]), **ONE_TRY),
    agent("fails_in_text", scripted([{"text": "So far"}, {"error": "network", "message": "cut"}]), **ONE_TRY),
    agent("crashes", scripted([{"text": "So far"}, {"crash": "secret of /etc/passwd"}]), **ONE_TRY),
    agent("hangs", HANGING, on_disconnect="cancel"),
    agent("hangs_in_tool", scripted([{"tool": "hang"}], [{"text": "Next."}]), tools=python_tools("hang")),
    agent("never_ends", scripted(*[[ADD]] * 9), tools=python_tools("add"), parameters={"max_iteration": 2}),
    agent(
        "sums_up",
        scripted([ADD], rules=[{"when": {"tool_choice": "none"}, "response": [{"text": "As far as I got: 5."}]}]),
        tools=python_tools("add"),
        parameters={"max_iteration": 1},
    ),
    agent("talks_on", scripted([{"text": "and so on"}, {"stop": "max_tokens"}])),
]
SERVER = {"disconnect_grace_seconds": 0}


# --- 37: the provider fails


@pytest.mark.parametrize(
    ("agent_id", "said", "code"),
    [
        ("fails_at_once", [], "model_overloaded"),
        ("fails_in_text", ["So far"], "model_network"),
        ("crashes", ["So far"], "internal_error"),
    ],
)
async def test_case_37_a_failing_provider_ends_the_run_with_one_error(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh, agent_id: str, said: list[str], code: str
) -> None:
    """What was open is closed, or left to the client to close: it is closed. runAgent resolves with the error."""
    agent = await clients.create(gateway.client.run_url(agent_id), thread_id=fresh("thread"))
    run_id = fresh("run")

    report = await run_client(gateway, agent, run_id, text="go")

    assert report.event_types[0] == "RUN_STARTED"
    assert report.event_types.count("TEXT_MESSAGE_START") == report.event_types.count("TEXT_MESSAGE_END") == len(said)
    assert report.event_types[-1] == "RUN_ERROR"
    assert "RUN_FINISHED" not in report.event_types
    assert report.run_error is not None
    assert report.run_error["code"] == code
    assert "passwd" not in str(report.run_error)
    assert [message["content"] for message in report.new_messages] == said
    run = await gateway.client.get(f"/runs/{run_id}")
    assert (run["status"], run["error"]["code"]) == ("failed", code)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refusal(500, "Traceback (most recent call last): /srv/app.py"), "model_server"),
        (refusal(401, f"bad key {SECRET}"), "model_authentication"),
        (refusal(429, "slow down", retry_after=1), "model_throttled"),
        (Script(pieces=[b"<html>login</html>"], content_type="text/html"), "model_protocol"),
        (Script(pieces=[record(chunk({"content": "So "}))], ending="reset"), "model_network"),
        (Script(pieces=[record(chunk({"content": "So "}))]), "model_truncated"),
    ],
    ids=["500", "401", "429", "HTML with 200", "reset", "no end"],
)
async def test_case_37_what_an_upstream_does_wrong_has_a_code_and_leaks_nothing(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, answer: Script, code: str
) -> None:
    upstream.answers(answer)
    run_id = fresh("run")

    seen = await observe(gateway, "openai", run_body("hi", thread_id=fresh("thread"), run_id=run_id))

    assert seen.last["type"] == "RUN_ERROR"
    assert seen.last["code"] == code
    check_nothing_leaks((await gateway.client.http.get(f"/runs/{run_id}")).text, [SECRET])


async def test_case_37_a_failure_inside_arguments_closes_the_call_and_runs_nothing(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    begun = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2,'}}
    upstream.answers(Script(pieces=[record(chunk({"tool_calls": [begun]}))], ending="reset"), completion("Again."))
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=fresh("thread"))

    report = await run_client(gateway, agent, fresh("run"), text="2+3?")

    assert report.event_types == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_ERROR"]
    assert not executions
    report = await run_client(gateway, agent, fresh("run"), text="try again")
    assert report.messages[-1]["content"] == "Again."
    sent = upstream.requests[1].json["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "user"], "the broken call has an error result"


# --- 38: failures before the run starts


async def test_case_38_failures_before_the_start_are_http_answers_that_the_client_can_read(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("nobody"), thread_id=fresh("thread"))

    report = await agent.run(run_id=fresh("run"))

    clients.console.clear()  # its own report of the failed run
    assert report.rejection is not None
    assert report.rejection.status == 404
    assert isinstance(report.rejection.payload, dict)
    assert report.rejection.payload["code"] == "agent_not_found"
    assert report.events == []


async def test_case_38_without_a_key_there_is_nothing(clients: NodeClients, fresh: Fresh, tmp_path: Path) -> None:
    keys = {"api_keys": [{"name": "ada", "key": "key-of-ada-0123456789"}]}
    async with local_gateway(tmp_path, [AGENTS[0]], server=keys) as gateway:
        url = gateway.client.run_url("greeter")
        outsider = await clients.create(url, thread_id=fresh("thread"), headers={"authorization": "Bearer wrong"})
        ada = await clients.create(
            url, thread_id=fresh("thread"), headers={"authorization": "Bearer key-of-ada-0123456789"}
        )

        refused = await outsider.run(run_id=fresh("run"))
        served = await ada.run(run_id=fresh("run"))

    clients.console.clear()
    assert refused.rejection is not None
    assert refused.rejection.status == 401
    assert isinstance(refused.rejection.payload, dict)
    assert refused.rejection.payload["code"] == "unauthenticated"
    assert served.rejection is None
    assert served.messages[-1]["content"] == "Hello there"


# --- 40: silence


async def test_case_40_a_silent_upstream_is_bridged_by_comments(fresh: Fresh, tmp_path: Path) -> None:
    clock = MovableClock()
    slow = agent("slow", scripted([{"delay_seconds": 60}, {"text": "At last."}]))
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
    async with (
        local_gateway(tmp_path, [slow], clock=clock) as gateway,
        gateway.client.stream("slow", body) as stream,
    ):
        await stream.until("RUN_STARTED")
        for silent in range(1, 4):
            await clock.until_timer(15)
            await clock.advance(15)
            async with asyncio.timeout(DEADLINE_SECONDS):
                while stream.body.count(b": keep-alive\n\n") < 1 + silent:
                    assert await stream.read()
        await clock.advance(15)
        frames = await stream.rest()

    assert [frame.type for frame in frames][-1] == "RUN_FINISHED"
    assert stream.response.headers["x-accel-buffering"] == "no"
    assert b"\r" not in stream.body


async def test_case_40_run_started_does_not_wait_for_the_provider(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    upstream.answers(Script(pieces=completion("ok").pieces, headers_after=hold))
    async with gateway.client.stream(
        "openai", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
    ) as stream:
        assert [frame.type for frame in await stream.until("RUN_STARTED")] == ["RUN_STARTED"]
        hold.set()
        await stream.until("RUN_FINISHED")


# --- 41: the client goes away


@pytest.mark.parametrize("agent_id", ["hangs", "hangs_in_tool"])
async def test_case_41_a_client_that_aborts_stops_the_run(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh, agent_id: str
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    agent = await clients.create(gateway.client.run_url(agent_id), thread_id=thread_id)
    await agent.add_message({"id": "u1", "role": "user", "content": "go"})
    running = agent.start_run(run_id=run_id)
    await agent.wait_for("TEXT_MESSAGE_CONTENT" if agent_id == "hangs" else "TOOL_CALL_END")

    await agent.abort()
    report = await running
    run = await gateway.client.until_status(run_id, "cancelled")

    clients.console.clear()  # some versions report the abort
    assert report.rejection is None
    assert run["error"] is None
    await check_run(gateway, run_id)
    thread = await gateway.application.store.load_thread("local", thread_id)
    assert thread is not None
    last = thread.messages[-1]
    assert last.role == "assistant"
    assert last.incomplete or last.tool_calls, "nothing passes for finished: words are cut off, calls have no result"


async def test_case_41_a_blocked_upstream_is_left_when_the_client_leaves(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(Script(pieces=[record(chunk({"content": "So "}))], ending="silence"))
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=fresh("thread"))
    await agent.add_message({"id": "u1", "role": "user", "content": "go"})
    running = agent.start_run(run_id=run_id)
    await agent.wait_for("TEXT_MESSAGE_CONTENT")

    await agent.abort()
    await running

    clients.console.clear()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await upstream.requests[0].disconnected.wait()
    assert (await gateway.client.until_status(run_id, "cancelled"))["status"] == "cancelled"


# --- 42: the server is told to stop it


async def test_case_42_a_run_that_is_stopped_ends_closed_and_not_as_a_success(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """1.0: RUN_FINISHED with the outcome `cancelled`. Clients before that refuse it, and a bare RUN_FINISHED would pass
    for success: they get RUN_ERROR with the code `cancelled`."""
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("hangs"), thread_id=fresh("thread"))
    await agent.add_message({"id": "u1", "role": "user", "content": "go"})
    running = agent.start_run(run_id=run_id)
    await agent.wait_for("TEXT_MESSAGE_CONTENT")

    answer = await gateway.client.http.post(f"/runs/{run_id}/cancel")
    report = await running

    assert answer.status_code == 202
    assert report.event_types[:4] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]
    if clients.version == "1.0.0":
        assert report.events[4]["outcome"] == {"type": "cancelled"}
    else:
        assert report.run_error is not None
        assert report.run_error["code"] == "cancelled"
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "cancelled"
    assert (await gateway.client.http.post(f"/runs/{run_id}/cancel")).status_code == 200
    await check_run(gateway, run_id)
    report = await run_client(gateway, agent, fresh("run"), text="next")
    assert report.messages[-1]["content"] == "Next."


async def test_case_42_a_shutdown_ends_runs_within_its_limit(
    clients: NodeClients, fresh: Fresh, tmp_path: Path
) -> None:
    """Cancelled or failed: RUN_ERROR `server_shutdown`, because nobody chose it, and the user may ask again."""
    run_id = fresh("run")
    async with local_gateway(tmp_path, [agent("hangs", HANGING)], server={"drain_seconds": 0}) as gateway:
        client = await clients.create(gateway.client.run_url("hangs"), thread_id=fresh("thread"))
        await client.add_message({"id": "u1", "role": "user", "content": "go"})
        running = client.start_run(run_id=run_id)
        await client.wait_for("TEXT_MESSAGE_CONTENT")

        async with asyncio.timeout(DEADLINE_SECONDS):
            await gateway.application.stop()
        report = await running

        assert report.run_error is not None
        assert report.run_error["code"] == "server_shutdown"
        assert report.event_types[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
        assert (await gateway.client.http.get("/readyz")).status_code == 503


# --- 43: limits


async def test_case_43_a_run_at_its_limit_answers_from_what_it_has(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """An error code or the outcome `cancelled`: neither where the model can still sum up, since an answer is worth more
    to the user; an error with the limit's name where it cannot."""
    agent = await clients.create(gateway.client.run_url("sums_up"), thread_id=fresh("thread"))

    report = await run_client(gateway, agent, fresh("run"), text="go")

    assert report.event_types[-1] == "RUN_FINISHED"
    assert report.messages[-1]["content"] == "As far as I got: 5."


async def test_case_43_a_run_that_only_calls_on_ends_with_the_limits_name(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("never_ends"), thread_id=fresh("thread"))

    report = await run_client(gateway, agent, fresh("run"), text="go")

    assert report.run_error is not None
    assert report.run_error["code"] == "limit_max_iteration"
    assert report.event_types[-1] == "RUN_ERROR"


async def test_case_43_a_run_that_lasts_too_long_ends_with_the_limits_name(fresh: Fresh, tmp_path: Path) -> None:
    clock = MovableClock()
    slow = agent("slow", scripted([{"text": "So far"}, {"hang": True}]), parameters={"max_run_seconds": 120})
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
    async with (
        local_gateway(tmp_path, [slow], clock=clock) as gateway,
        gateway.client.stream("slow", body) as stream,
    ):
        await stream.until("TEXT_MESSAGE_CONTENT")
        await clock.advance(121)
        await stream.rest()

        events = [sent.event for sent in read_stream(bytes(stream.body))]
        verify_server(events, thread_id=body["threadId"], run_id=body["runId"])
        assert events[-1]["code"] == "limit_max_run_seconds"
        assert events[-2]["type"] == "TEXT_MESSAGE_END"


async def test_an_answer_that_was_cut_off_says_why(gateway: LocalGateway, clients: NodeClients, fresh: Fresh) -> None:
    agent = await clients.create(gateway.client.run_url("talks_on"), thread_id=fresh("thread"))
    run_id = fresh("run")

    report = await run_client(gateway, agent, run_id, text="go")

    assert report.result == {"stopReason": "max_tokens"}
    assert report.event_types[-1] == "RUN_FINISHED"
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "completed"


async def test_a_thread_goes_on_after_a_failed_answer_which_stays_as_far_as_it_came(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(Script(pieces=[record(chunk({"content": "So "}))], ending="reset"), completion("Whole."))
    agent = await clients.create(gateway.client.run_url("openai"), thread_id=fresh("thread"))
    await run_client(gateway, agent, fresh("run"), text="one")

    report = await run_client(gateway, agent, fresh("run"), text="two")

    shown: list[Any] = [message["content"] for message in await thread_messages(gateway, agent.thread_id)]
    assert shown == [message["content"] for message in report.messages] == ["one", "So ", "two", "Whole."]


async def test_every_refusal_is_a_problem_with_a_request_id(gateway: LocalGateway, fresh: Fresh) -> None:
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
    http = gateway.client.http
    answers = [
        await post(gateway, "/agents/greeter/run", b"{", headers={"accept": "application/json"}),
        await post(gateway, "/agents/greeter/run", {**body, "threadId": 1}, headers={"accept": "*/*"}),
        await post(gateway, "/agents/nobody/run", body, headers={"accept": "*/*"}),
        await http.get("/nowhere"),
        await http.delete("/agents"),
        await http.get("/runs/nowhere"),
        await http.get("/threads/nowhere/messages"),
        await http.post("/agents/greeter/run", content=b"{}", headers={"content-type": "text/plain"}),
        await http.get("/healthz", headers={"x-request-id": "mine-7"}),
        await http.get("/agents", headers={"host": "evil.example"}),
    ]

    statuses = [answer.status_code for answer in answers]
    assert statuses == [400, 422, 404, 404, 405, 404, 404, 415, 200, 403]
    assert answers[8].headers["x-request-id"] == "mine-7"
    for answer in answers:
        assert answer.headers["x-request-id"]
        if answer.status_code != 200:
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert {"type", "title", "status", "detail", "code"} <= set(problem)
            assert problem["status"] == answer.status_code
