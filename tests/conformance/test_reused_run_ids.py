"""A client that answers a run's interrupts under that run's own id, as CopilotKit does (CopilotKit#6999).

On the wire everything has the one id; the gateway keeps a run for each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ag_ui_verifier import verify_server
from tests.agui_client import NodeAgent, NodeClients, RunReport
from tests.case_tools import executions, python_tool
from tests.conformance.test_ag_ui_cases_approvals import (
    ANSWER,
    REFUND,
    REFUND_TOO,
    approve,
    ask,
    cancel,
    deny,
    interrupts_of,
)
from tests.movable_clock import MovableClock
from tests.observed_runs import post, run_client, thread_messages
from tests.running_gateway import Frame, LocalGateway, agent, local_gateway, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

with_resume = pytest.mark.parametrize("clients", ["1.0.0", "0.0.59"], indirect=True)

ASKING = python_tool("refund", approval="always")
SAYS_AND_HANGS: list[Json] = [{"text": "It is done, I think ", "chunk_characters": 4}, {"hang": True}]
CASHIER = agent("cashier", scripted([REFUND], ANSWER), tools=[ASKING])
TWICE = agent("twice", scripted([REFUND], [REFUND_TOO], ANSWER), tools=[ASKING])
HANGING = agent("hanging", scripted([REFUND], SAYS_AND_HANGS), tools=[ASKING], on_disconnect="continue")

AGENTS = [
    CASHIER,
    TWICE,
    HANGING,
    agent("two_refunds", scripted([REFUND, REFUND_TOO], ANSWER), tools=[ASKING]),
    agent("waiting", scripted([REFUND], SAYS_AND_HANGS), tools=[ASKING], on_concurrent_run="enqueue"),
]


async def answered(
    gateway: LocalGateway, agent_id: str, thread_id: str, run_id: str, *answers: Json, **more: Any
) -> list[Frame]:
    """The stream of a request with answers, and the history that the server shows."""
    return await gateway.client.run(agent_id, await resume(gateway, thread_id, run_id, *answers, **more))


async def resume(gateway: LocalGateway, thread_id: str, run_id: str, *answers: Json, **more: Any) -> Json:
    messages = await thread_messages(gateway, thread_id)
    return run_body(messages=messages, thread_id=thread_id, run_id=run_id, resume=list(answers), **more)


async def replayed(gateway: LocalGateway, run_id: str, after: str | None = None, **headers: str) -> list[Frame]:
    async with gateway.client.events(run_id, after=after, **headers) as stream:
        assert stream.response.status_code == 200, await stream.response.aread()
        return await stream.rest()


def said(frames: list[Frame]) -> str:
    return "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


def interrupt_of(frames: list[Frame]) -> Json:
    (interrupt,) = interrupts_of([frames[-1].data])
    return interrupt


# --- the client's view


@with_resume
@pytest.mark.parametrize(
    ("answer", "ran", "told"),
    [
        (approve, 1, "Done: refunded A1 with 5"),
        (deny, 0, "Done: The user denied this call. It was not run."),
        (cancel, 0, "Done: The user denied this call. It was not run."),
    ],
)
async def test_every_answer_is_taken_under_the_interrupted_run_s_own_id(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh, answer: Callable[[Mapping[str, Any]], Json], ran: int,
    told: str,
) -> None:  # fmt: skip
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("cashier"), thread_id=fresh("thread"))
    report = await run_client(gateway, agent, run_id, text="refund A1")
    (interrupt,) = interrupts_of(report.events)

    report = await run_client(gateway, agent, run_id, resume=[answer(interrupt)])

    assert report.events[0]["runId"] == report.events[-1]["runId"] == run_id
    assert report.messages[-1]["content"] == told
    assert sum(executions.values()) == ran
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "completed"


@with_resume
async def test_edited_arguments_are_taken_under_the_interrupted_run_s_own_id(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("cashier"), thread_id=fresh("thread"))
    report = await run_client(gateway, agent, run_id, text="refund A1")
    (interrupt,) = interrupts_of(report.events)

    edited = {"order": "A1", "amount": 3}
    report = await run_client(gateway, agent, run_id, resume=[approve(interrupt, editedArgs=edited)])

    assert "refunded A1 with 3" in str(report.messages[-1]["content"])


@with_resume
async def test_a_chain_of_questions_under_one_id_is_answered_with_a_reload_and_a_restart_in_between(
    clients: NodeClients, fresh: Fresh, tmp_path: Path
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")

    async def begun(gateway: LocalGateway, known: list[Json]) -> NodeAgent:
        url = gateway.client.run_url("twice")
        return await clients.create(url, thread_id=thread_id, initial_messages=known)

    def asked(report: RunReport) -> Json:
        (interrupt,) = interrupts_of(report.events)
        return interrupt

    async with local_gateway(tmp_path, [TWICE]) as gateway:
        first = await run_client(gateway, await begun(gateway, []), run_id, text="refund A1 and B2")
        agent = await begun(gateway, [dict(message) for message in first.messages])
        second = await run_client(gateway, agent, run_id, resume=[approve(asked(first))])
    async with local_gateway(tmp_path, [TWICE]) as gateway:
        body = run_body(messages=[], thread_id=thread_id, run_id=fresh("look"))
        async with gateway.client.stream("twice", body, to="connect") as stream:
            shown = await stream.rest()
        assert {frame.data["runId"] for frame in (shown[0], shown[-1])} == {run_id}
        assert interrupts_of([shown[-1].data]) == [asked(second)]
        agent = await begun(gateway, [dict(message) for message in second.messages])
        report = await run_client(gateway, agent, run_id, resume=[approve(asked(second))])
        record = await gateway.client.get(f"/runs/{run_id}")

    assert report.messages[-1]["content"] == "Done: refunded B2 with 7"
    assert dict(executions) == {asked(first)["toolCallId"]: 1, asked(second)["toolCallId"]: 1}
    assert (record["runId"], record["threadId"], record["status"]) == (run_id, thread_id, "completed")


# --- what an id and a cursor mean


async def test_each_run_of_an_id_has_its_own_log_and_a_cursor_finds_it(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    first = await gateway.client.run("twice", run_body("go", thread_id=thread_id, run_id=run_id))
    second = await answered(gateway, "twice", thread_id, run_id, approve(interrupt_of(first)))
    third = await answered(gateway, "twice", thread_id, run_id, approve(interrupt_of(second)))

    assert {frame.log_id for frame in first} == {""}
    (second_log,), (third_log,) = ({frame.log_id for frame in frames} for frames in (second, third))
    assert len({second_log, third_log, run_id}) == 3
    for frames in (first, second, third):
        verify_server([frame.data for frame in frames], thread_id=thread_id, run_id=run_id)
        for frame in frames[:-1]:
            rest = [other for other in frames if (other.id or 0) > (frame.id or 0)]
            assert await replayed(gateway, run_id, frame.cursor) == rest
            assert await replayed(gateway, run_id, **{"last-event-id": frame.cursor}) == rest
        ended = await gateway.client.http.get(f"/runs/{run_id}/events", params={"after": frames[-1].cursor})
        assert ended.status_code == 204
    assert await replayed(gateway, run_id) == third


async def test_a_cursor_of_another_run_is_a_bad_request(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    first = await gateway.client.run("cashier", run_body("go", thread_id=thread_id, run_id=run_id))
    second = await answered(gateway, "cashier", thread_id, run_id, approve(interrupt_of(first)))
    log_id = second[0].log_id
    for cursor in ("nobody:1", f"{log_id}:999", ":1:x", f"{log_id}:", "-1"):
        refused = await gateway.client.http.get(f"/runs/{run_id}/events", params={"after": cursor})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_cursor"), cursor
    assert (await gateway.client.http.get(f"/runs/{log_id}")).status_code == 404, "clients know it by one id alone"


async def test_a_request_of_an_earlier_run_of_the_id_attaches_to_that_run(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    bodies = [run_body("go", thread_id=thread_id, run_id=run_id)]
    streams = [await gateway.client.run("twice", bodies[0])]
    for _ in range(2):
        bodies.append(await resume(gateway, thread_id, run_id, approve(interrupt_of(streams[-1]))))
        streams.append(await gateway.client.run("twice", bodies[-1]))

    for body, frames in zip(bodies, streams, strict=True):
        assert await gateway.client.run("twice", body) == frames
    assert len(executions) == sum(executions.values()) == 2


async def test_a_run_of_a_reused_id_is_watched_and_cancelled_by_that_id(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    first = await gateway.client.run("hanging", run_body("go", thread_id=thread_id, run_id=run_id))
    body = await resume(gateway, thread_id, run_id, approve(interrupt_of(first)))
    async with gateway.client.stream("hanging", body) as stream:
        seen = await stream.until("TEXT_MESSAGE_CONTENT", 3)
        assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "running"
        async with (
            gateway.client.events(run_id) as all_of_it,
            gateway.client.events(run_id, after=seen[-2].cursor) as tail,
            gateway.client.events(run_id, after=first[0].cursor) as of_the_first,
            gateway.client.stream("hanging", body) as again,
            gateway.client.stream("hanging", run_body(messages=[], thread_id=thread_id), to="connect") as joined,
        ):
            assert (await of_the_first.rest()) == first[1:]
            await joined.until("MESSAGES_SNAPSHOT")
            cancelled = await gateway.client.http.post(f"/runs/{run_id}/cancel")
            assert (cancelled.status_code, cancelled.json()["runId"]) == (202, run_id)
            frames = await stream.rest()
            assert await all_of_it.rest() == frames
            assert await tail.rest() == [frame for frame in frames if (frame.id or 0) > (seen[-2].id or 0)]
            for late in (await again.rest(), await joined.rest()):
                assert {late[0].data["runId"], late[-1].data["runId"]} == {run_id}
                assert late[-1] == frames[-1]
    assert frames[-1].data["outcome"] == {"type": "cancelled"}
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "cancelled"


# --- what is no reuse


async def test_an_id_is_reused_for_answers_to_what_its_run_left_open_alone(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id, other_id = fresh("thread"), fresh("run"), fresh("other")
    (interrupt,) = await ask(gateway, "cashier", thread_id, run_id)
    (foreign,) = await ask(gateway, "cashier", fresh("thread"), other_id)
    refused = {
        "nothing is answered": run_body("no, wait", thread_id=thread_id, run_id=run_id),
        "a question that there is not": await resume(gateway, thread_id, run_id, approve({"id": "int-x"})),
        "another thread's question": await resume(gateway, thread_id, run_id, approve(foreign)),
        "another run's id": await resume(gateway, thread_id, other_id, approve(interrupt)),
    }
    for why, body in refused.items():
        response = await post(gateway, "/agents/cashier/run", body)
        assert (response.status_code, response.json()["code"]) == (409, "run_exists"), why
    other_agent = await post(gateway, "/agents/twice/run", await resume(gateway, thread_id, run_id, approve(interrupt)))
    assert (other_agent.status_code, other_agent.json()["code"]) == (409, "run_exists")
    assert not executions

    await answered(gateway, "cashier", thread_id, run_id, approve(interrupt))
    too_late = await post(gateway, "/agents/cashier/run", await resume(gateway, thread_id, run_id, deny(interrupt)))
    assert (too_late.status_code, too_late.json()["code"]) == (409, "run_exists")
    assert sum(executions.values()) == 1


async def test_what_a_later_run_left_open_of_an_earlier_one_is_answered_under_either_id(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    for reused in (0, 1):
        thread_id, run_ids = fresh("thread"), [fresh("run"), fresh("run")]
        first, second = await ask(gateway, "two_refunds", thread_id, run_ids[0])
        await answered(gateway, "two_refunds", thread_id, run_ids[1], approve(first))
        frames = await answered(gateway, "two_refunds", thread_id, run_ids[reused], approve(second))
        assert said(frames).startswith("Done: ")
    assert len(executions) == sum(executions.values()) == 4


async def test_a_malformed_answer_under_a_reused_id_leaves_the_question_open(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    (interrupt,) = await ask(gateway, "cashier", thread_id, run_id)
    malformed = {**approve(interrupt), "payload": {"approved": "yes"}}
    response = await post(gateway, "/agents/cashier/run", await resume(gateway, thread_id, run_id, malformed))
    assert (response.status_code, response.json()["code"]) == (422, "invalid_answer")
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "interrupted"

    frames = await answered(gateway, "cashier", thread_id, run_id, approve(interrupt))
    assert said(frames) == "Done: refunded A1 with 5"


async def test_an_expired_question_can_be_cancelled_under_its_run_s_id(fresh: Fresh, tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [CASHIER], clock=clock) as gateway:
        thread_id, run_id = fresh("thread"), fresh("run")
        (interrupt,) = await ask(gateway, "cashier", thread_id, run_id)
        await clock.advance(901)
        frames = await answered(gateway, "cashier", thread_id, run_id, cancel(interrupt))
    assert "expired" in said(frames)
    assert not executions


# --- at one moment


@pytest.mark.parametrize("agent_id", ["cashier", "waiting"])
async def test_the_same_answer_that_is_sent_many_times_at_once_is_one_run(
    gateway: LocalGateway, fresh: Fresh, agent_id: str
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    (interrupt,) = await ask(gateway, agent_id, thread_id, run_id)
    body = await resume(gateway, thread_id, run_id, approve(interrupt))
    sent = [asyncio.create_task(post(gateway, f"/agents/{agent_id}/run", body)) for _ in range(8)]
    if agent_id == "waiting":
        await gateway.client.until_status(run_id, "running")
        async with gateway.client.events(run_id) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
        await gateway.client.http.post(f"/runs/{run_id}/cancel")
    answers = await asyncio.gather(*sent)

    assert {answer.status_code for answer in answers} == {200}
    assert dict(executions) == {interrupt["toolCallId"]: 1}
    assert len(await gateway.application.store.runs_known_as("local", run_id)) == 2


async def test_yes_and_no_at_one_moment_under_one_id_are_one_answer(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    (interrupt,) = await ask(gateway, "cashier", thread_id, run_id)
    bodies = [await resume(gateway, thread_id, run_id, answer(interrupt)) for answer in (approve, deny, cancel)]
    answers = await asyncio.gather(*(post(gateway, "/agents/cashier/run", body) for body in bodies))

    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    codes = {answer.json()["code"] for answer in answers if answer.status_code == 409}
    assert codes <= {"run_exists", "thread_busy", "approval_answered"}
    assert sum(executions.values()) <= 1
