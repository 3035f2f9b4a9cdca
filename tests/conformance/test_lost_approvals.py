"""An approval whose call the client has lost; what a page of messages tells of open questions and cut-off answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agui_client import NodeClients
from tests.case_tools import executions, python_tool
from tests.conformance.test_ag_ui_cases_approvals import REFUND, REFUND_TOO, approve, ask, deny, interrupts_of
from tests.movable_clock import MovableClock
from tests.observed_runs import observe, post, run_client, said, thread_messages
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

ASKING = python_tool("refund", approval="always")
WORDS: Json = {"text": "One moment. "}
DONE = [{"text": "Done: {{result}}"}]
HANGS: list[Json] = [{"text": "one two ", "chunk_characters": 4}, {"hang": True}]

AGENTS = [
    agent("cashier", scripted([WORDS, REFUND], DONE), tools=[ASKING]),
    agent("two_refunds", scripted([REFUND, REFUND_TOO], DONE), tools=[ASKING]),
    agent("hanging", scripted(HANGS)),
]


def user(words: str, message_id: str) -> Json:
    return {"id": message_id, "role": "user", "content": words}


async def open_interrupts(gateway: LocalGateway, thread_id: str) -> list[Json]:
    found: list[Json] = (await gateway.client.get(f"/threads/{thread_id}/messages"))["interrupts"]
    return found


@pytest.mark.parametrize("answer", [approve, deny])
async def test_an_answer_whose_call_the_client_lost_counts_and_runs_the_call_once(
    gateway: LocalGateway, fresh: Fresh, answer: Callable[[Mapping[str, Any]], Json]
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    (interrupt,) = await ask(gateway, "cashier", thread_id, fresh("run"))
    asked = await thread_messages(gateway, thread_id)
    only_words = run_body(
        messages=[user("go", "again")], thread_id=thread_id, run_id=run_id, resume=[answer(interrupt)]
    )

    seen = await observe(gateway, "cashier", only_words)
    again = await post(gateway, "/agents/cashier/run", only_words)

    assert seen.types[:2] == ["RUN_STARTED", "TOOL_CALL_RESULT"]
    assert seen.text.startswith("Done: refunded A1" if answer is approve else "Done: The user denied this call")
    assert dict(executions) == ({interrupt["toolCallId"]: 1} if answer is approve else {})
    assert again.status_code == 200
    assert await open_interrupts(gateway, thread_id) == []
    kept = await thread_messages(gateway, thread_id)
    assert said(kept)[:2] == [("again", "user", ("go", [])), *said(asked)[1:]], "behind what was sent"
    assert [message["role"] for message in kept] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("clients", ["1.0.0", "0.0.59"], indirect=True)
async def test_a_client_that_was_loaded_anew_with_its_own_words_alone_can_still_approve(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    (interrupt,) = await ask(gateway, "cashier", thread_id, fresh("run"))
    agent = await clients.create(
        gateway.client.run_url("cashier"), thread_id=thread_id, initial_messages=[user("go", fresh("user"))]
    )

    report = await run_client(gateway, agent, fresh("run"), resume=[approve(interrupt)])

    assert report.messages[-1]["content"] == "Done: refunded A1 with 5"
    assert dict(executions) == {interrupt["toolCallId"]: 1}


async def test_of_a_lost_answer_with_two_calls_the_one_that_nobody_answered_is_asked_again(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    first, second = await ask(gateway, "two_refunds", thread_id, fresh("run"))
    body = run_body("go", thread_id=thread_id, run_id=fresh("run"), resume=[approve(second)])

    seen = await observe(gateway, "two_refunds", body)

    assert interrupts_of(seen.events) == [first]
    assert await open_interrupts(gateway, thread_id) == [first]
    assert dict(executions) == {second["toolCallId"]: 1}


async def test_an_answer_to_no_open_question_brings_nothing_back(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id = fresh("thread")
    await ask(gateway, "cashier", thread_id, fresh("run"))
    body = run_body("go", thread_id=thread_id, run_id=fresh("run"), resume=[approve({"id": "int-other"})])

    seen = await observe(gateway, "cashier", body)

    assert len(seen.of("TOOL_CALL_START")) == 1, "the model was asked anew"
    assert not executions


# --- what a page of messages tells


async def test_a_page_of_messages_names_the_questions_as_the_run_s_end_did(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id = fresh("thread")
    interrupts = await ask(gateway, "two_refunds", thread_id, fresh("run"))

    for limit in (1, 500):
        page = await gateway.client.get(f"/threads/{thread_id}/messages?limit={limit}")
        assert page["interrupts"] == interrupts
        assert page["incomplete"] == []

    await observe(gateway, "two_refunds", run_body("no, wait", thread_id=thread_id, run_id=fresh("run")))
    assert await open_interrupts(gateway, thread_id) != interrupts, "an edit withdrew them"


async def test_a_question_that_has_expired_is_not_named(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, AGENTS[:1], clock=clock) as gateway:
        assert await ask(gateway, "cashier", "t", "r")
        assert len(await open_interrupts(gateway, "t")) == 1
        await clock.advance(901)
        assert await open_interrupts(gateway, "t") == []


async def test_a_page_of_messages_names_the_answers_that_were_cut_off(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    async with gateway.client.stream("hanging", run_body("go", thread_id=thread_id, run_id=run_id)) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        assert (await gateway.client.http.post(f"/runs/{run_id}/cancel")).status_code == 202
        await stream.rest()

    page = await gateway.client.get(f"/threads/{thread_id}/messages")

    question, answer = page["messages"]
    assert (question["role"], answer["role"]) == ("user", "assistant")
    assert page["incomplete"] == [answer["id"]]
