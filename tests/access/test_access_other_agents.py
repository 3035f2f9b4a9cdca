"""What one agent asks is answered at that agent alone, by the stricter of the rule it was asked by and today's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.wire.stand_ins import WAITING
from tests.a2a_scene import A2AClient, of_agent, said
from tests.access.test_access_approvals import (
    KeyHolder,
    ask,
    asking,
    boss_of,
    messages,
    resume,
    shop,
    until_ended,
)
from tests.agent_api_scene import told
from tests.case_tools import executions, python_tool
from tests.movable_clock import MovableClock
from tests.openai_chat_server import chat_server, completion
from tests.running_gateway import LocalGateway, agent, run_body, scripted
from tests.website import ALICE_KEY, Answer

Json = dict[str, Any]

STRICT = asking("strict", approvers="keys")
WEAK = agent(
    "weak",
    scripted([{"text": "I see: {{result}}"}], [{"text": "I see: {{result}}"}]),
    tools=[python_tool("refund", approval="always", approvers="callers")],
)
SHOWS_ITEMS = {"protocols": {"responses": {"approvals": "mcp_approval_request"}}}


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    executions.clear()


def alice_of(gateway: LocalGateway) -> KeyHolder:
    return KeyHolder(gateway.client, ALICE_KEY)


async def waiting(who: KeyHolder) -> list[Json]:
    found: list[Json] = (await who.ask("GET", "/threads/t/messages")).json["interrupts"]
    return found


async def post(who: KeyHolder, path: str, body: Json) -> Answer:
    return await who.ask("POST", path, json=body)


# --- an answer at the other agent: (status, code) of what came back


async def over_ag_ui(who: KeyHolder, agent_id: str) -> tuple[int, str]:
    interrupt = await ask(who, "strict")
    refused = await resume(who, interrupt, agent_id, approved=True, editedArgs={"order": "Z9", "amount": 9000})
    return refused.status, refused.code


async def over_ml_commons(who: KeyHolder, agent_id: str) -> tuple[int, str]:
    interrupt = await ask(who, "strict")
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    body = run_body(messages=[], thread_id="t", run_id="r2", resume=[answer])
    refused = await post(who, f"/_plugins/_ml/agents/{agent_id}/_execute/stream", body)
    return refused.status, refused.response.text


async def over_agent_api(who: KeyHolder, agent_id: str) -> tuple[int, str]:
    interrupt = await ask(who, "strict")
    answer = told("mcp_approval_response", approval_request_id=interrupt["id"], approve=True)
    refused = await post(who, f"/agents/{agent_id}/process", {"input": [answer], "session_id": "t"})
    return refused.status, refused.code


async def over_responses(who: KeyHolder, agent_id: str) -> tuple[int, str]:
    asked = (await post(who, "/v1/responses", {"model": "strict", "input": "refund A1"})).json
    (question,) = [item["id"] for item in asked["output"] if item["type"] == "mcp_approval_request"]
    answer = {"type": "mcp_approval_response", "approval_request_id": question, "approve": True}
    body = {"model": agent_id, "input": [answer], "previous_response_id": asked["id"]}
    refused = await post(who, "/v1/responses", body)
    return refused.status, refused.json["error"]["code"]


WAYS: list[Callable[[KeyHolder, str], Awaitable[tuple[int, str]]]] = [
    over_ag_ui, over_ml_commons, over_agent_api, over_responses,
]  # fmt: skip


@pytest.mark.parametrize("over", WAYS)
async def test_an_approval_is_not_answered_at_another_agent(tmp_path: Path, over: Any) -> None:
    async with shop(tmp_path, agents=[STRICT, WEAK], sections=SHOWS_ITEMS) as gateway:
        alice, boss = alice_of(gateway), boss_of(gateway)
        status, code = await over(alice, "weak")
        assert (status, "approval_of_other_agent" in code) == (409, True), code
        (approval,) = await boss.approvals()
        assert approval["agentId"] == "strict"
        assert not executions
        started = await boss.answer(approval, approved=True)
        await until_ended(alice, started.json["runId"])
    assert sum(executions.values()) == 1


async def test_a_task_is_answered_at_the_agent_that_asks_wherever_its_message_is_sent(tmp_path: Path) -> None:
    async with shop(tmp_path, agents=[STRICT, WEAK]) as gateway:
        alice = alice_of(gateway)
        a2a = A2AClient(gateway.client, headers=alice.headers)
        task = (await a2a.call("SendMessage", said("refund A1", contextId="t"), to=of_agent("strict")))["task"]
        await a2a.error("SendMessage", said("approve", taskId=task["id"]), to=of_agent("weak"))
        other = (await a2a.call("SendMessage", said("approve", contextId="t"), to=of_agent("weak")))["task"]
        assert other["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await a2a.task(task["id"]))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert len(await boss_of(gateway).approvals()) == 1
        assert not executions
        await a2a.call("SendMessage", said("deny", taskId=task["id"]), to=of_agent("strict"))
        assert (await a2a.task(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_word_over_chat_completions_answers_no_other_agent(tmp_path: Path) -> None:
    async with shop(tmp_path, agents=[STRICT, WEAK]) as gateway:
        alice = alice_of(gateway)
        await ask(alice, "strict")
        alice.headers["x-thread-id"] = "t"
        for word in ("approve", "deny"):
            said_so = [{"role": "user", "content": word}]
            await post(alice, "/v1/chat/completions", {"model": "weak", "messages": said_so})
        assert len(await boss_of(gateway).approvals()) == 1
    assert not executions


# --- what another agent's run leaves as it is


@pytest.mark.parametrize("sent", ["what is new", "all", "all without the call", "another beginning"])
async def test_another_agents_run_leaves_the_question_open_and_its_model_sees_it_wait(
    tmp_path: Path, sent: str
) -> None:
    async with chat_server() as upstream:
        upstream.answers(completion("I see."))
        model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": upstream.endpoint}
        weak = {**WEAK, "model": model, "history": "append" if sent == "what is new" else "replace"}
        async with shop(tmp_path, agents=[STRICT, weak]) as gateway:
            alice, boss = alice_of(gateway), boss_of(gateway)
            interrupt = await ask(alice, "strict")
            before = await messages(alice)
            new: Json = {"id": "u2", "role": "user", "content": "and now?"}
            history = {
                "what is new": [new],
                "all": [*before, new],
                "all without the call": [before[0], new],
                "another beginning": [{**before[0], "content": "something else"}, new],
            }[sent]
            went = await alice.run("weak", thread_id="t", run_id="r2", messages=history)
            assert went.last["outcome"] == {"type": "success"}
            assert await waiting(alice) == [interrupt]
            (approval,) = await boss.approvals()
            started = await boss.answer(approval, approved=True)
            assert (await until_ended(alice, started.json["runId"]))["status"] == "completed"
            kept = await messages(alice)
    shown = upstream.requests[0].json["messages"]
    assert [each["content"] for each in shown if each["role"] == "tool"] == [WAITING]
    assert shown[-1] == {"role": "user", "content": "and now?"}
    assert dict(executions) == {interrupt["toolCallId"]: 1}
    assert [each["content"] for each in kept if each["role"] == "tool"] == ["refunded A1 with 5"]
    assert kept[-1]["content"] == "refunded A1 with 5"


async def test_another_agents_run_does_not_let_a_question_expire(tmp_path: Path) -> None:
    clock = MovableClock()
    async with shop(tmp_path, agents=[STRICT, WEAK], clock=clock) as gateway:
        alice = alice_of(gateway)
        await ask(alice, "strict")
        await clock.advance(24 * 3600)
        new = {"id": "u2", "role": "user", "content": "and now?"}
        await alice.run("weak", thread_id="t", run_id="r2", messages=[*await messages(alice), new])
        assert [each["role"] for each in await messages(alice)] == ["user", "assistant", "user", "assistant"]
        await alice.run("strict", thread_id="t", run_id="r3", messages=[])
        assert any("expired" in each["content"] for each in await messages(alice) if each["role"] == "tool")


async def test_two_agents_ask_on_one_thread_and_each_goes_on_with_its_own(tmp_path: Path) -> None:
    async with shop(tmp_path, agents=[STRICT, asking("helper")]) as gateway:
        alice, boss = alice_of(gateway), boss_of(gateway)
        first = await ask(alice, "strict")
        await alice.run("helper", text="refund A1", thread_id="t", run_id="r2")
        (second,) = [each for each in await waiting(alice) if each["id"] != first["id"]]
        refused = await resume(alice, first, "helper", run_id="r3", approved=True)
        assert (refused.status, refused.code) == (409, "approval_of_other_agent")
        done = await resume(alice, second, "helper", run_id="r4", approved=True)
        assert done.last["outcome"] == {"type": "success"}
        assert dict(executions) == {second["toolCallId"]: 1}
        assert await waiting(alice) == [first]
        assert len(await boss.approvals()) == 1


# --- the stricter rule


async def test_a_weaker_rule_does_not_hold_for_what_was_asked_before(tmp_path: Path) -> None:
    async with shop(tmp_path, agents=[asking("a", approvers="keys")]) as gateway:
        interrupt = await ask(alice_of(gateway), "a")
    async with shop(tmp_path, agents=[asking("a", approvers="callers")]) as gateway:
        refused = await resume(alice_of(gateway), interrupt, "a", approved=True)
        assert (refused.status, refused.code) == (403, "approval_not_allowed")
    assert not executions


async def test_a_stricter_rule_holds_for_what_was_asked_before_too(tmp_path: Path) -> None:
    async with shop(tmp_path, agents=[asking("a", approvers="callers")]) as gateway:
        interrupt = await ask(alice_of(gateway), "a")
    async with shop(tmp_path, agents=[asking("a", approvers="keys")]) as gateway:
        refused = await resume(alice_of(gateway), interrupt, "a", approved=True)
        assert (refused.status, refused.code) == (403, "approval_not_allowed")
    assert not executions


# --- an agent that is gone


@pytest.mark.parametrize("by", ["the conversation", "a key"])
async def test_what_an_agent_asked_that_is_gone_can_be_denied_and_not_approved(tmp_path: Path, by: str) -> None:
    async with shop(tmp_path, agents=[STRICT, WEAK]) as gateway:
        interrupt = await ask(alice_of(gateway), "strict")
    async with shop(tmp_path, agents=[WEAK]) as gateway:
        alice, boss = alice_of(gateway), boss_of(gateway)
        (approval,) = await boss.approvals()
        if by == "a key":
            refused = await boss.answer(approval, approved=True)
            assert (refused.status, refused.code) == (409, "approval_of_other_agent")
            denied = await boss.answer(approval, approved=False, reason="closed")
            assert (denied.status, denied.json) == (200, {"runId": None, "threadId": "t", "agentId": "strict"})
            again = await boss.answer(approval, approved=False)
            assert (again.status, again.code) == (409, "approval_answered")
        else:
            refused = await resume(alice, interrupt, "weak", approved=True)
            assert (refused.status, refused.code) == (409, "approval_of_other_agent")
            denied = await resume(alice, interrupt, "weak", run_id="r3", approved=False, reason="closed")
            assert denied.last["outcome"] == {"type": "success"}
        assert await boss.approvals() == []
        assert await waiting(alice) == []
        (result,) = [each for each in await messages(alice) if each["role"] == "tool"]
    assert result["content"] == "The user denied this call: closed. It was not run."
    assert not executions
