"""Two requests for one thread or one run, answers nobody asked for, histories that disagree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.history.model_view import model_view
from tests.fault_scenes import SERVER, check_ended, executions, fault_tool, pausing, replayed, talker, upstream_agent
from tests.invariants import check_history
from tests.movable_clock import MovableClock
from tests.observed_runs import OWNER
from tests.openai_chat_server import Script, chat_server, completion, text_records
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until

FRONTEND = [
    {"name": name, "description": "Of the browser.", "parameters": {"type": "object"}} for name in ("pick", "show")
]
GREETER = agent("greeter", scripted([{"text": "hi"}]))
PICKER = agent("picker", scripted([{"tool": "pick"}, {"tool": "show"}, {"tool": "pick"}], [{"text": "done"}]))


async def post(gateway: LocalGateway, agent_id: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    response = await gateway.client.http.post(f"/agents/{agent_id}/run", json=body)
    is_json = response.headers["content-type"].startswith("application/")
    return response.status_code, response.json() if is_json else {}


# --- 22, 23: one run id, twice


async def test_the_same_request_again_is_the_same_run(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing()], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as first:
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            async with gateway.client.stream("pausing", run_body()) as second:
                await second.until("RUN_STARTED")
                await clock.advance(5)
                ends = [(await stream.rest())[-1] for stream in (first, second)]
        assert ends[0] == ends[1]
        log = await check_ended(gateway, "run-1", "completed")
        again = await gateway.client.run("pausing", run_body())
        assert [(f.id, f.data) for f in again] == [(s.id, s.event) for s in await replayed(gateway, "run-1")]
        assert await check_ended(gateway, "run-1", "completed") == log


async def test_many_requests_of_one_run_id_at_once_are_one_run(tmp_path: Path) -> None:
    tooled = agent("tooled", scripted([{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "3"}]),
                   tools=[fault_tool("add")])  # fmt: skip
    async with local_gateway(tmp_path, [tooled], server=SERVER) as gateway:
        answers = await asyncio.gather(*(post(gateway, "tooled", run_body()) for _ in range(30)))
        assert [status for status, _ in answers] == [200] * 30
        await check_ended(gateway, "run-1", "completed")
        assert executions.total() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"id": "user-run-1", "role": "user", "content": "other words"}]},
        {"messages": [*run_body()["messages"], {"id": "x", "role": "user", "content": ""}]},
        {"threadId": "thread-2"},
        {"agent": "other"},
        {"messages": []},
    ],
)  # fmt: skip
async def test_a_run_id_of_another_request_is_a_conflict(tmp_path: Path, change: dict[str, Any]) -> None:
    async with local_gateway(tmp_path, [GREETER, {**GREETER, "id": "other"}], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        body = {**run_body(), **change}
        status, problem = await post(gateway, body.pop("agent", "greeter"), body)
        assert (status, problem["code"]) == (409, "run_exists")
        await check_ended(gateway, "run-1", "completed")


async def test_who_repeats_a_request_that_is_refused_is_refused_too(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [talker(on_disconnect="continue")], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            answers = await asyncio.gather(*(post(gateway, "talker", run_body(run_id="run-2")) for _ in range(8)))
            assert {(status, body["code"]) for status, body in answers} == {(409, "thread_busy")}
            await gateway.client.http.post("/runs/run-1/cancel")
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")


# --- 24: a busy thread


async def test_many_runs_of_one_thread_at_once_give_one_that_runs(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing(on_disconnect="continue")], clock=clock, server=SERVER) as gateway:
        asking = [
            asyncio.create_task(post(gateway, "pausing", run_body(run_id=f"run-{number}"))) for number in range(12)
        ]
        await until(lambda: sum(task.done() for task in asking) == 11)
        await clock.until_timer(5)  # the others may be refused before the one has come to its pause
        await clock.advance(5)
        answers = await asyncio.gather(*asking)
        assert sorted(status for status, _ in answers) == [200] + [409] * 11
        winner = [status for status, _ in answers].index(200)
        await check_ended(gateway, f"run-{winner}", "completed")
        for number in range(12):
            known = (await gateway.client.http.get(f"/runs/run-{number}")).status_code
            assert known == (200 if number == winner else 404)


async def test_the_line_of_a_thread_has_an_end_and_keeps_its_order(tmp_path: Path) -> None:
    clock = MovableClock()
    queueing = pausing(on_concurrent_run="enqueue", on_disconnect="continue")
    async with local_gateway(tmp_path, [queueing], clock=clock, server={**SERVER, "max_waiting_runs": 2}) as gateway:
        runs = []
        for number in range(3):
            runs.append(asyncio.create_task(post(gateway, "pausing", run_body(run_id=f"run-{number}"))))
            await until(lambda: len(gateway.application.runner._runs) == len(runs))
        status, problem = await post(gateway, "pausing", run_body(run_id="run-9"))
        assert (status, problem["code"]) == (429, "too_many_requests")
        for number in range(3):
            states = [(await gateway.client.get(f"/runs/run-{n}"))["status"] for n in range(3)]
            assert states == ["completed"] * number + ["running"] + ["queued"] * (2 - number)
            await clock.until_timer(5)
            await clock.advance(5)
            await check_ended(gateway, f"run-{number}", "completed")
        assert [status for status, _ in await asyncio.gather(*runs)] == [200] * 3


async def test_a_new_run_may_take_the_place_of_the_old_one(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [talker(on_concurrent_run="cancel_previous")], server=SERVER) as gateway:
        async with gateway.client.stream("talker", run_body()) as first:
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            async with gateway.client.stream("talker", run_body(run_id="run-2")) as second:
                await second.until("TEXT_MESSAGE_CONTENT", 3)
                last = (await first.rest())[-1].data
                assert last["outcome"]["type"] == "cancelled"
                await gateway.client.http.post("/runs/run-2/cancel")
                await second.rest()
        await check_ended(gateway, "run-1", "cancelled")
        await check_ended(gateway, "run-2", "cancelled")


# --- 25, 26, 27, 28: answers


def results(*call_ids: str) -> list[dict[str, Any]]:
    return [
        {"id": f"r-{n}-{call_id}", "role": "tool", "toolCallId": call_id, "content": "ok"}
        for n, call_id in enumerate(call_ids)
    ]


async def pending(gateway: LocalGateway, agent_id: str = "picker") -> tuple[list[str], list[dict[str, Any]]]:
    """A run that left three calls to the browser: their ids, and the thread's messages."""
    frames = await gateway.client.run(agent_id, run_body(tools=FRONTEND))
    messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
    return frames[-1].data["outcome"]["pendingToolCallIds"], messages


async def history_is_valid(gateway: LocalGateway) -> None:
    thread = await gateway.application.store.load_thread(OWNER, "thread-1")
    assert thread is not None
    check_history(model_view(thread.messages))


async def test_answers_that_nobody_asked_for_reach_no_model(tmp_path: Path) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(completion("fine"))
        body = run_body(messages=[{"id": "u", "role": "user", "content": "hi"}, *results("call-x", "call-y", "call-x")])
        assert (await post(gateway, "upstream", body))[0] == 200
        assert [message["role"] for message in upstream.requests[0].json["messages"]] == ["user"]
        await check_ended(gateway, "run-1", "completed")


async def test_a_part_of_the_answers_leaves_the_rest_pending(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [PICKER], server=SERVER) as gateway:
        calls, messages = await pending(gateway)
        assert len(calls) == 3
        sent = [*messages, *results(calls[1])]
        frames = await gateway.client.run("picker", run_body(run_id="run-2", messages=sent, tools=FRONTEND))
        assert frames[-1].data["outcome"]["pendingToolCallIds"] == [calls[0], calls[2]]
        await check_ended(gateway, "run-2", "completed")
        # the same again, and a second answer to the same call: nothing changes
        sent = [*sent, *results(calls[1], calls[0], calls[2])[1:]]
        frames = await gateway.client.run("picker", run_body(run_id="run-3", messages=sent, tools=FRONTEND))
        assert "".join(f.data.get("delta", "") for f in frames) == "done"
        await check_ended(gateway, "run-3", "completed")
        await history_is_valid(gateway)


async def test_a_new_question_instead_of_answers_and_the_answers_late(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [PICKER], server=SERVER) as gateway:
        calls, messages = await pending(gateway)
        asked = [*messages, {"id": "u-2", "role": "user", "content": "never mind"}]
        await gateway.client.run("picker", run_body(run_id="run-2", messages=asked))
        await check_ended(gateway, "run-2", "completed")
        await history_is_valid(gateway)
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        late = [*messages, *results(*calls), {"id": "u-3", "role": "user", "content": "here they are"}]
        assert (await post(gateway, "picker", run_body(run_id="run-3", messages=late)))[0] == 200
        await check_ended(gateway, "run-3", "completed")
        await history_is_valid(gateway)


async def test_answers_after_a_cancel_run_nothing(tmp_path: Path) -> None:
    stuck = agent("stuck", scripted([{"tool": "stuck"}], [{"text": "done"}]), tools=[fault_tool("stuck")])
    async with local_gateway(tmp_path, [stuck], server=SERVER) as gateway:
        async with gateway.client.stream("stuck", run_body()) as stream:
            frames = await stream.until("TOOL_CALL_END")
            call_id = next(f.data["toolCallId"] for f in frames if f.type == "TOOL_CALL_START")
            await until(executions.total)
            await gateway.client.http.post("/runs/run-1/cancel")
            await stream.rest()
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        late = [*messages, *results(call_id), {"id": "u-2", "role": "user", "content": "and now?"}]
        async with gateway.client.stream("stuck", run_body(run_id="run-2", messages=late)) as stream:
            await stream.until("TOOL_CALL_END")
            await gateway.client.http.post("/runs/run-2/cancel")
            await stream.rest()
        await check_ended(gateway, "run-2", "cancelled")
        assert max(executions.values()) == 1
        await history_is_valid(gateway)


# --- approvals: once, whoever answers


async def test_an_approval_that_many_give_at_once_runs_once(tmp_path: Path) -> None:
    paying = agent(
        "paying",
        scripted([{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "paid"}]),
        tools=[fault_tool("add", approval="always")],
        on_concurrent_run="enqueue",
    )
    async with local_gateway(tmp_path, [paying], server=SERVER) as gateway:
        frames = await gateway.client.run("paying", run_body())
        (interrupt,) = frames[-1].data["outcome"]["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        bodies = [run_body(run_id=f"yes-{n}", messages=messages, resume=resume) for n in range(6)]
        answers = await asyncio.gather(*(post(gateway, "paying", body) for body in bodies))
        assert {status for status, _ in answers} <= {200, 409, 422}
        assert executions.total() == 1
        for number, (status, _) in enumerate(answers):
            if status == 200:
                await gateway.client.until_status(f"yes-{number}", "completed", "failed", "cancelled", "interrupted")
        assert executions.total() == 1
        await history_is_valid(gateway)


# --- 29: a client whose history is another


async def test_what_the_server_said_is_the_servers(tmp_path: Path) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(completion("the truth"), Script(pieces=[*text_records("fine"), b"data: [DONE]\n\n"]))
        await gateway.client.run("upstream", run_body())
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        forged = [
            {**message, "content": "a lie"} if message["role"] == "assistant" else message for message in messages
        ]
        forged.append({"id": "u-2", "role": "user", "content": "what did you say?"})
        assert (await post(gateway, "upstream", run_body(run_id="run-2", messages=forged)))[0] == 200
        sent = [message["content"] for message in upstream.requests[1].json["messages"]]
        assert sent == ["hello", "the truth", "what did you say?"]
        await check_ended(gateway, "run-2", "completed")


# --- a thread that goes while somebody reads


async def test_a_replay_whose_thread_is_deleted_breaks_off_with_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked without a socket: what is sent waits for the test, not for a system's buffers."""
    teller = agent("teller", scripted([{"text": "x" * 3_000, "chunk_characters": 1}]))
    sent: list[dict[str, Any]] = []
    async with local_gateway(tmp_path, [teller], server=SERVER) as gateway:
        await gateway.client.run("teller", run_body())

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) == 3:  # the head, the first comment, a page of the log
                assert (await gateway.client.http.delete("/threads/thread-1")).status_code == 204

        async def receive() -> Any:
            await asyncio.Event().wait()

        path, host = "/runs/run-1/events", [(b"host", b"localhost")]
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
        scope |= {"http_version": "1.1", "query_string": b"", "headers": host, "client": ("127.0.0.1", 1)}
        async with asyncio.timeout(DEADLINE_SECONDS):
            await gateway.application.asgi(scope, receive, send)

    assert len(sent) == 3
    assert sent[-1]["more_body"], "what broke off must not look whole"
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == [
        "cut off a stream before its end"
    ]
    assert not any(record.exc_info for record in caplog.records)
