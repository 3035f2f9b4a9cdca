"""Who may approve what: callers their own calls, visitors only where a tool says so, certain keys everybody's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.case_tools import executions, python_tool
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script, chat_server, chunk, completion, record
from tests.running_gateway import GatewayClient, LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until_answered
from tests.website import ALICE_KEY, Answer, Visitor, keys, visitor

Json = dict[str, Any]

BOSS_KEY = "boss-0123456789abcdef"
ARGUMENTS = {"order": "A1", "amount": 5}
ASKS_AND_SAYS: tuple[list[Json], list[Json]] = ([{"tool": "refund", "arguments": ARGUMENTS}], [{"text": "{{result}}"}])
OTHERS_APPROVE = {"agui_gateway": {"approvers": "keys"}}


def asking(agent_id: str, **more: Any) -> Json:
    return agent(agent_id, scripted(*ASKS_AND_SAYS), tools=[python_tool("refund", approval="always", **more)])


AGENTS = [asking("helper"), asking("trusting", approvers="callers"), asking("strict", approvers="keys")]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    executions.clear()


@contextlib.asynccontextmanager
async def shop(
    directory: Path,
    *,
    agents: list[Json] | None = None,
    boss: Mapping[str, Any] | None = None,
    boss_approves: bool = True,
    **more: Any,
) -> AsyncGenerator[LocalGateway]:
    """A shop whose visitors may use these agents; alice has a key of her own, the boss one that may approve."""
    section = keys()
    agents = agents or AGENTS
    section["publishable_keys"] = [{**section["publishable_keys"][0], "agents": [each["id"] for each in agents]}]
    section["api_keys"].append(
        {"name": "boss", "key": BOSS_KEY, "approvals": boss_approves, "limits": dict(boss or {})}
    )
    async with local_gateway(directory, agents, server=section, search=None, **more) as local:
        yield local


class KeyHolder(Visitor):
    """Somebody with a key of server.api_keys."""

    def __init__(self, gateway: GatewayClient, key: str) -> None:
        super().__init__(gateway, key)
        del self.headers["origin"]

    async def approvals(self) -> list[Json]:
        answer = await self.ask("GET", "/approvals")
        assert answer.status == 200, answer.response.text
        found: list[Json] = answer.json["approvals"]
        return found

    async def answer(self, approval: Mapping[str, Any] | str, **body: Any) -> Answer:
        approval_id = approval if isinstance(approval, str) else approval["id"]
        return await self.ask("POST", f"/approvals/{approval_id}", json=body)


def boss_of(gateway: LocalGateway) -> KeyHolder:
    return KeyHolder(gateway.client, BOSS_KEY)


def interrupt_in(answer: Answer) -> Json:
    (interrupt,) = answer.last["outcome"]["interrupts"]
    return dict(interrupt)


async def ask(who: Visitor, agent_id: str = "helper", *, thread_id: str = "t", run_id: str = "asked") -> Json:
    """Begin a thread whose run ends with a question; the interrupt."""
    return interrupt_in(await who.run(agent_id, text="refund A1", thread_id=thread_id, run_id=run_id))


async def resume(
    who: Visitor, interrupt: Mapping[str, Any], agent_id: str = "helper", *, run_id: str = "answered", **payload: Any
) -> Answer:
    """The next request of the thread, with an answer; without a payload the question is cancelled."""
    said: Json = {"interruptId": interrupt["id"], "status": "resolved" if payload else "cancelled"}
    resumed = [{**said, "payload": payload}] if payload else [said]
    return await who.run(agent_id, thread_id="t", run_id=run_id, messages=[], resume=resumed)


async def until_ended(who: Visitor, run_id: str) -> Json:
    answer = await until_answered(
        lambda: who.ask("GET", f"/runs/{run_id}"), lambda answer: answer.json["status"] not in ("queued", "running")
    )
    return dict(answer.json)


async def messages(who: Visitor, thread_id: str = "t") -> list[Json]:
    found: list[Json] = (await who.ask("GET", f"/threads/{thread_id}/messages")).json["messages"]
    return found


# --- by a request of one's own


async def test_a_visitor_cannot_approve_and_the_question_stays_open(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger = await visitor(gateway.client)
        interrupt = await ask(stranger)
        assert interrupt["metadata"] == OTHERS_APPROVE
        assert "your approval" not in interrupt["message"]

        payloads: list[Json] = [{"approved": True}, {"approved": True, "editedArgs": {"order": "Z9"}}]
        for number, payload in enumerate(payloads):
            refused = await resume(stranger, interrupt, run_id=f"r{number}", **payload)
            assert (refused.status, refused.code) == (403, "approval_not_allowed")
        page = (await stranger.ask("GET", "/threads/t/messages")).json

    assert page["interrupts"] == [interrupt]
    assert [message["role"] for message in page["messages"]] == ["user", "assistant"]
    assert not executions


@pytest.mark.parametrize("payload", [{}, {"approved": False}, {"approved": False, "reason": "too dear"}])
@pytest.mark.parametrize("agent_id", ["helper", "strict"])
async def test_a_visitor_may_cancel_what_others_are_asked(tmp_path: Path, agent_id: str, payload: Json) -> None:
    async with shop(tmp_path) as gateway:
        stranger = await visitor(gateway.client)
        interrupt = await ask(stranger, agent_id)
        answer = await resume(stranger, interrupt, agent_id, **payload)
        assert answer.last["outcome"] == {"type": "success"}
        said = (await messages(stranger))[-1]["content"]
        assert await boss_of(gateway).approvals() == []

    assert said.startswith("The user denied this call")
    assert not executions


async def test_a_caller_with_a_key_approves_its_own_calls_as_ever(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        alice = KeyHolder(gateway.client, ALICE_KEY)
        interrupt = await ask(alice)
        assert set(interrupt) == {"id", "reason", "message", "toolCallId", "responseSchema", "expiresAt"}
        assert interrupt["message"] == "The tool 'refund' needs your approval before it runs."
        answer = await resume(alice, interrupt, approved=True)

    assert answer.status == 200
    assert dict(executions) == {interrupt["toolCallId"]: 1}


async def test_visitors_approve_where_the_tool_lets_callers(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger = await visitor(gateway.client)
        interrupt = await ask(stranger, "trusting")
        assert "metadata" not in interrupt
        answer = await resume(stranger, interrupt, "trusting", approved=True)

    assert answer.status == 200
    assert dict(executions) == {interrupt["toolCallId"]: 1}


@pytest.mark.parametrize("key", [ALICE_KEY, BOSS_KEY])
async def test_what_keys_approve_no_request_on_the_thread_approves(tmp_path: Path, key: str) -> None:
    async with shop(tmp_path) as gateway:
        holder = KeyHolder(gateway.client, key)
        interrupt = await ask(holder, "strict")
        assert interrupt["metadata"] == OTHERS_APPROVE
        refused = await resume(holder, interrupt, "strict", approved=True)
        assert (refused.status, refused.code) == (403, "approval_not_allowed")
        boss = boss_of(gateway)
        (approval,) = await boss.approvals()
        started = await boss.answer(approval, approved=True)
        assert started.status == 202
        await until_ended(holder, started.json["runId"])

    assert dict(executions) == {interrupt["toolCallId"]: 1}


@pytest.mark.parametrize("approvals", [True, False])
async def test_the_log_says_at_start_where_nobody_may_approve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, approvals: bool
) -> None:
    async with shop(tmp_path, agents=[*AGENTS[:2]], boss_approves=approvals):
        pass
    warned = [record for record in caplog.records if "nobody may give" in record.getMessage()]
    assert [vars(record)["agent_id"] for record in warned] == ([] if approvals else ["helper"])


# --- by the route of those who approve


async def test_what_waits_is_listed_whoever_owns_it_page_by_page(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger, alice, boss = (
            await visitor(gateway.client), KeyHolder(gateway.client, ALICE_KEY), boss_of(gateway),
        )  # fmt: skip
        asked = [
            await ask(stranger),
            await ask(alice, "strict"),
            await ask(stranger, "strict", thread_id="t2", run_id="r2"),
        ]
        everything = await boss.approvals()
        pages, cursor = [], ""
        while True:
            page = (await boss.ask("GET", f"/approvals?limit=1{cursor}")).json
            pages += page["approvals"]
            if page["nextCursor"] is None:
                break
            cursor = f"&cursor={page['nextCursor']}"
        foreign = await boss.ask("GET", "/approvals?cursor=bTAwMDAwMDAw")
        endless = await boss.ask("GET", "/approvals?limit=0")

    assert pages == everything
    assert [item["interruptId"] for item in everything] == [interrupt["id"] for interrupt in asked]
    assert [(item["agentId"], item["threadId"]) for item in everything] == [
        ("helper", "t"), ("strict", "t"), ("strict", "t2"),
    ]  # fmt: skip
    assert everything[1]["owner"] == "alice"
    assert everything[0]["owner"] == everything[2]["owner"] != "alice"
    first = everything[0]
    assert (first["tool"], first["arguments"]) == ("refund", ARGUMENTS)
    assert (first["toolCallId"], first["expiresAt"]) == (asked[0]["toolCallId"], asked[0]["expiresAt"])
    assert first["createdAt"] < first["expiresAt"]
    assert len({item["id"] for item in everything}) == 3
    assert (foreign.status, endless.status) == (400, 400)


async def test_only_keys_that_may_approve_see_and_answer_what_waits(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger, alice = await visitor(gateway.client), KeyHolder(gateway.client, ALICE_KEY)
        interrupt = await ask(stranger)
        (approval,) = await boss_of(gateway).approvals()
        for who, status, code in ((stranger, 403, "not_for_visitors"), (alice, 403, "approvals_not_allowed")):
            listed = await who.ask("GET", "/approvals")
            answered = await who.ask("POST", f"/approvals/{approval['id']}", json={"approved": True})
            assert (listed.status, listed.code, answered.status, answered.code) == (status, code, status, code)
        assert (await gateway.client.http.get("/approvals")).status_code == 401
        assert (await stranger.ask("GET", "/threads/t/messages")).json["interrupts"] == [interrupt]
    assert not executions


async def test_without_keys_nobody_approves_for_others(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [asking("helper")], search=None) as gateway:
        refused = await gateway.client.http.get("/approvals")
    assert (refused.status_code, refused.json()["code"]) == (403, "approvals_not_allowed")


@pytest.mark.parametrize(
    ("body", "said", "ran"),
    [
        ({"approved": True}, "refunded A1 with 5", 1),
        ({"approved": True, "arguments": {"order": "A1", "amount": 3}}, "refunded A1 with 3", 1),
        ({"approved": False, "reason": "too much"}, "The user denied this call: too much. It was not run.", 0),
        ({"approved": False, "arguments": None}, "The user denied this call. It was not run.", 0),
    ],
)
async def test_an_answer_of_the_boss_goes_on_as_the_visitor_s_run(
    tmp_path: Path, body: Json, said: str, ran: int
) -> None:
    async with shop(tmp_path) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        await ask(stranger)
        (approval,) = await boss.approvals()
        started = await boss.answer(approval, **body)
        assert started.status == 202, started.response.text
        run_id = started.json["runId"]
        assert started.json == {"runId": run_id, "threadId": "t", "agentId": "helper"}
        run = await until_ended(stranger, run_id)
        looked = Answer(
            await gateway.client.http.post(
                "/agents/helper/connect", json=run_body(messages=[], thread_id="t"), headers=stranger.headers
            )
        )
        assert (await boss.ask("GET", f"/runs/{run_id}")).status == 404, "it is not the boss's run"
        assert await boss.approvals() == []

    assert run["status"] == "completed"
    assert (looked.types[0], looked.last["runId"], looked.last["type"]) == ("RUN_STARTED", run_id, "RUN_FINISHED")
    snapshot = next(frame.data for frame in looked.frames if frame.type == "MESSAGES_SNAPSHOT")
    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert said in snapshot["messages"][-1]["content"]
    assert sum(executions.values()) == ran


async def test_the_owner_watches_the_run_that_the_boss_began(tmp_path: Path) -> None:
    says_and_hangs: list[Json] = [{"text": "It is done "}, {"hang": True}]
    agents = [
        agent("slow", scripted(ASKS_AND_SAYS[0], says_and_hangs), tools=[python_tool("refund", approval="always")])
    ]
    async with shop(tmp_path, agents=agents) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        await ask(stranger, "slow")
        (approval,) = await boss.approvals()
        started = (await boss.answer(approval, approved=True)).json
        body = run_body(messages=[], thread_id="t", run_id="look")
        async with gateway.client.stream("slow", body, to="connect", **stranger.headers) as stream:
            frames = await stream.until("MESSAGES_SNAPSHOT")
            assert frames[0].data["runId"] == started["runId"]
            assert (await stranger.ask("POST", f"/runs/{started['runId']}/cancel")).status == 202
            frames = await stream.rest()
    assert frames[-1].data["outcome"] == {"type": "cancelled"}


async def test_a_run_counts_on_the_key_that_approved(tmp_path: Path) -> None:
    async with shop(tmp_path, boss={"runs_per_minute": 1}) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        for number in range(2):
            await ask(stranger, thread_id=f"t{number}", run_id=f"r{number}")
        first, second = await boss.approvals()
        assert (await boss.answer(first, approved=True)).status == 202
        refused = await boss.answer(second, approved=True)
        assert (refused.status, refused.code) == (429, "limit_runs_per_minute")
        assert [item["id"] for item in await boss.approvals()] == [second["id"]], "it is open for the next minute"
    assert sum(executions.values()) <= 1


async def test_what_was_answered_or_expired_or_never_asked_is_not_answered(tmp_path: Path) -> None:
    clock = MovableClock()
    async with shop(tmp_path, clock=clock) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        interrupt = await ask(stranger)
        (cancelled,) = await boss.approvals()
        await resume(stranger, interrupt)
        await ask(stranger, thread_id="gone", run_id="r2")
        (deleted,) = await boss.approvals()
        await stranger.ask("DELETE", "/threads/gone")
        await ask(stranger, thread_id="old", run_id="r3")
        (old,) = await boss.approvals()
        await clock.advance(901)
        assert await boss.approvals() == []
        outcomes = [await boss.answer(each, approved=True) for each in (cancelled, deleted, old, "nobody", interrupt)]

    assert [(outcome.status, outcome.code) for outcome in outcomes] == [
        (409, "approval_answered"),
        (404, "approval_not_found"),
        (409, "approval_expired"),
        (404, "approval_not_found"),
        (404, "approval_not_found"),
    ]
    assert not executions


async def test_of_many_answers_at_one_moment_one_counts(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        await ask(stranger)
        (approval,) = await boss.approvals()
        answers = await asyncio.gather(*(boss.answer(approval, approved=number % 2 == 0) for number in range(8)))
        statuses = sorted(answer.status for answer in answers)
        codes = {answer.code for answer in answers if answer.status == 409}
    assert statuses == [202, *[409] * 7]
    assert codes <= {"approval_answered", "thread_busy"}
    assert sum(executions.values()) <= 1


async def test_an_approval_is_there_after_a_restart(tmp_path: Path) -> None:
    async with shop(tmp_path) as gateway:
        stranger = await visitor(gateway.client)
        await ask(stranger)
        before = await boss_of(gateway).approvals()
    async with shop(tmp_path) as gateway:
        boss, again = boss_of(gateway), Visitor(gateway.client, stranger.token)
        assert await boss.approvals() == before
        started = await boss.answer(before[0], approved=True)
        assert (await until_ended(again, started.json["runId"]))["status"] == "completed"
    assert sum(executions.values()) == 1


MALFORMED: dict[str, tuple[Json, str]] = {
    "no decision": ({}, "/approved"),
    "words for a decision": ({"approved": "yes"}, "/approved"),
    "arguments that are no object": ({"approved": True, "arguments": [1]}, "/arguments"),
    "arguments against the schema": ({"approved": True, "arguments": {"order": 7}}, "/arguments"),
    "arguments for a no": ({"approved": False, "arguments": {"order": "A1"}}, "/arguments"),
    "a reason that is no text": ({"approved": False, "reason": 7}, "/reason"),
    "what is not known": ({"approved": True, "editedArgs": {}}, "/editedArgs"),
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_answer_names_the_field_and_changes_nothing(tmp_path: Path, what: str) -> None:
    body, pointer = MALFORMED[what]
    async with shop(tmp_path) as gateway:
        stranger, boss = await visitor(gateway.client), boss_of(gateway)
        await ask(stranger)
        (approval,) = await boss.approvals()
        refused = await boss.answer(approval, **body)
        assert await boss.approvals() == [approval]
    assert refused.status == 422
    assert [error["pointer"] for error in refused.json["errors"]] == [pointer]
    assert not executions


async def test_calls_of_one_id_on_many_threads_are_approvals_of_their_own(tmp_path: Path) -> None:
    """Some providers number calls anew in each conversation: the interrupts' ids are the same then."""
    async with chat_server() as upstream:
        script = [_calls_refund(), _calls_refund(), completion("Done."), completion("Done.")]
        upstream.answers(*script)
        model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": upstream.endpoint}
        agents = [agent("helper", model, tools=[python_tool("refund", approval="always")])]
        async with shop(tmp_path, agents=agents) as gateway:
            strangers, boss = [await visitor(gateway.client) for _ in range(2)], boss_of(gateway)
            for number, stranger in enumerate(strangers):
                await ask(stranger, thread_id=f"t{number}", run_id=f"r{number}")
            first, second = await boss.approvals()
            assert first["interruptId"] == second["interruptId"] == "int-call_1"
            started = await boss.answer(second, approved=True)
            assert started.json["threadId"] == "t1"
            await until_ended(strangers[1], started.json["runId"])
            assert await boss.approvals() == [first]
    assert dict(executions) == {"call_1": 1}


def _calls_refund() -> Script:
    refund = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "refund", "arguments": '{"order":"A1"}'},
    }
    return Script(pieces=[record(chunk({"tool_calls": [refund]})), record(chunk({}, "tool_calls"))])
