"""Runs under every kind of simultaneous requests: each is served, refused or attached, and none is ever left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from gateway.agent import InterruptAnswer, SentAnswer
from gateway.errors import ConflictError, FieldProblem, StoreError, StoreFullError
from gateway.events import (
    Cancelled,
    Completed,
    Custom,
    Events,
    Interrupt,
    Interrupted,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
)
from gateway.loop import LoopContext
from gateway.messages import JsonObject
from gateway.store import Approval, RunRecord, RunStatus
from gateway.tool import ToolContext
from tests.agent_inputs import changed
from tests.loop_runs import FunctionTool
from tests.runner_scene import (
    HANGS,
    OWNER,
    SAYS_HELLO,
    BrokenToolbox,
    Scene,
    agent_of,
    end_of,
    question,
    read,
    read_until,
    runner_scene,
)
from tests.waiting import until, until_answered

# --- one run id, several requests


async def test_two_simultaneous_requests_of_one_run_are_one_run() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        viewers = await asyncio.gather(*(scene.start("a", question()) for _ in range(5)))
        for events in await asyncio.gather(*(read(viewer) for viewer in viewers)):
            assert end_of(events) == RunFinished(Completed())


async def test_a_request_that_finds_its_run_failing_to_begin_tries_itself() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.hold("begin_run")
        first = asyncio.create_task(scene.start("a", question()))
        await until(scene.store.reached["begin_run"].is_set)
        second = asyncio.create_task(scene.start("a", question()))
        await scene.clock.settle()
        scene.store.refuse("begin_run", StoreFullError("no room"))
        scene.store.release("begin_run")
        with pytest.raises(StoreFullError):
            await first
        with pytest.raises(StoreFullError):
            await second


async def test_another_request_with_the_run_id_of_one_that_begins_is_refused() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        scene.store.hold("begin_run")
        first = asyncio.create_task(scene.start("a", question("one")))
        await until(scene.store.reached["begin_run"].is_set)
        second = asyncio.create_task(scene.start("a", question("two")))
        await scene.clock.settle()
        scene.store.release("begin_run")
        await first
        with pytest.raises(ConflictError):
            await second


async def test_a_repeated_request_while_the_run_ends_is_told_the_end() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.hold("end_run")
        first = await scene.start("a", question())
        await until(scene.store.reached["end_run"].is_set)
        repeated = asyncio.create_task(scene.start("a", question()))
        await scene.clock.settle()
        scene.store.release("end_run")
        end_of(await read(first))
        end_of(await read(await repeated))


async def test_a_repeated_request_of_a_run_whose_log_is_forgotten_is_told_how_it_ended() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO), agent_of("broken", [[{"crash": "boom"}]])) as scene:
        await read(await scene.start("a", question(run_id="good")))
        await read(await scene.start("broken", question(run_id="bad", thread_id="t2")))
        await scene.until_idle()
        assert await scene.store.remove_logs(finished_before=scene.clock.now() + 1) == 2
        events = await read(await scene.start("a", question(run_id="good")))
        assert events[0] == RunStarted("t", "good")
        assert end_of(events) == RunFinished(Completed())
        ended = end_of(await read(await scene.start("broken", question(run_id="bad", thread_id="t2"))))
        assert isinstance(ended, RunFailed)
        assert ended.code == "internal_error"
        viewer = await scene.runner.connect(OWNER, "broken", question(run_id="look", thread_id="t2"))
        assert isinstance(end_of(await read(viewer)), RunFailed)


# --- one thread, several runs


async def test_of_two_runs_that_come_for_an_abandoned_one_the_second_is_refused() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        left = await scene.start("a", question(run_id="left"))
        await read_until(left, TextDelta)
        left.close()
        outcomes = await asyncio.gather(
            scene.start("a", question(run_id="one")), scene.start("a", question(run_id="two")), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, ConflictError)]
        assert len(refused) == 1
        assert refused[0].code == "thread_busy"
        await until(lambda: len(scene.runner._runs) == 1)
        (live,) = scene.runner._runs.values()
        assert live.cancel_reason is None
        assert await scene.status("left") == "cancelled"


async def test_a_refused_run_leaves_nothing_behind_at_the_run_it_met() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        for number in range(3):
            with pytest.raises(ConflictError):
                await scene.start("a", question(run_id=f"r{number}"))
        (live,) = scene.runner._runs.values()
        assert not live.audience._gone_waiters


async def test_superseding_runs_one_after_the_other_all_end_but_the_last() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="cancel_previous")) as scene:
        viewers = await asyncio.gather(*(scene.start("a", question(run_id=f"r{number}")) for number in range(6)))
        for viewer in viewers[:-1]:
            assert end_of(await read(viewer)) == RunFinished(Cancelled("superseded"))
        assert await scene.status("r5") == "running"


async def test_an_enqueued_run_does_not_wait_for_one_that_everybody_left() -> None:
    async with runner_scene(agent_of("a", [*HANGS], on_concurrent_run="enqueue")) as scene:
        left = await scene.start("a", question(run_id="left"))
        await read_until(left, TextDelta)
        left.close()
        await read_until(await scene.start("a", question(run_id="next")), TextDelta)
        assert await scene.status("left") == "cancelled"


async def test_a_run_that_is_cancelled_while_it_is_queued_ends_and_frees_its_thread() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        scene.store.hold("queue_run")
        queued = asyncio.create_task(scene.start("a", question(run_id="queued")))
        await until(scene.store.reached["queue_run"].is_set)
        await scene.runner.cancel(OWNER, "queued")
        scene.store.release("queue_run")
        assert isinstance(end_of(await read(await queued)), RunFinished)
        await scene.runner.cancel(OWNER, "first")
        await scene.until_idle()
        assert await scene.status("queued") == "cancelled"
        assert end_of(await scene.kept_events("queued")) == RunFinished(Cancelled())


async def test_a_run_that_is_cancelled_while_it_is_queued_is_kept_as_cancelled_before_its_turn() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        queued = await scene.start("a", question(run_id="queued"))
        await scene.runner.cancel(OWNER, "queued")
        assert isinstance(end_of(await read(queued)), RunFinished)
        await until_kept(scene, "queued")
        assert [record.run_id for record in await scene.store.unfinished_runs()] == ["first"], "a restart leaves it"
        await scene.runner.cancel(OWNER, "first")
        await scene.until_idle()
        assert await scene.status("queued") == "cancelled"


async def until_kept(scene: Scene, run_id: str) -> None:
    """Until the store has a run as ended."""
    await until_answered(lambda: scene.store.load_run(OWNER, run_id), lambda record: record and record.status.ended)


async def test_a_run_that_leaves_the_queue_of_a_full_store_is_told_so_and_kept_when_there_is_room() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        queued = await scene.start("a", question(run_id="queued"))
        scene.store.refuse("queue_run", StoreFullError("no room"))
        await scene.runner.cancel(OWNER, "queued")
        assert isinstance(end_of(await read(queued)), RunFinished)
        await scene.runner.cancel(OWNER, "first")
        await scene.until_idle()
        record = await scene.store.load_run(OWNER, "queued")
        assert record is not None
        assert record.status is RunStatus.CANCELLED


async def test_a_queued_run_that_fails_unexpectedly_as_it_begins_ends_and_frees_its_thread() -> None:
    box = BrokenToolbox()
    async with runner_scene(agent_of("a", HANGS, box, on_concurrent_run="enqueue")) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        queued = await scene.start("a", question(run_id="queued"))
        box.broken = True
        await scene.runner.cancel(OWNER, "first")
        events = await read(queued)
        assert events[0] == RunStarted("t", "queued")
        ended = end_of(events)
        assert isinstance(ended, RunFailed)
        assert ended.code == "internal_error"
        assert "secret" not in ended.message
        await scene.until_idle()
        assert end_of(await scene.kept_events("queued")) == ended


async def test_a_queued_run_with_a_malformed_answer_ends_with_the_reason_behind_its_start() -> None:
    async with runner_scene(agent_of("a", [[{"tool": "refund"}], [{"text": "done"}]], (_refund(), "always"),
                                     on_concurrent_run="enqueue")) as scene:  # fmt: skip
        asked = end_of(await read(await scene.start("a", question(run_id="ask"))))
        assert isinstance(asked, RunFinished)
        assert isinstance(asked.outcome, Interrupted)
        interrupt = asked.outcome.interrupts[0].id
        scene.store.hold("begin_run")
        scene.store.reached["begin_run"].clear()
        blocking = asyncio.create_task(scene.start("a", question("x", run_id="blocking", history="append")))
        await until(scene.store.reached["begin_run"].is_set)
        answer = InterruptAnswer(
            interrupt, "resolved", sent=SentAnswer(problems=(FieldProblem("/approved", "expected a boolean"),))
        )
        queued = await scene.start("a", _resume("queued", answer))
        scene.store.release("begin_run")
        await blocking
        events = await read(queued)
        assert events[0] == RunStarted("t", "queued")
        ended = end_of(events)
        assert isinstance(ended, RunFailed)
        assert ended.code == "invalid_answer"
        await scene.until_idle()
        thread = await scene.store.load_thread(OWNER, "t")
        assert thread is not None
        assert [item.interrupt.id for item in thread.interrupts] == [interrupt]


def _refund(ran: list[str] | None = None) -> FunctionTool:
    async def refund(arguments: JsonObject, context: ToolContext) -> Any:
        if ran is not None:
            ran.append(context.call_id)
        return "refunded"

    return FunctionTool("refund", refund)


# --- approvals


async def _ask(scene: Scene) -> str:
    """Run until the question; the interrupt's id."""
    asked = end_of(await read(await scene.start("a", question(run_id="ask"))))
    assert isinstance(asked, RunFinished)
    assert isinstance(asked.outcome, Interrupted)
    return asked.outcome.interrupts[0].id


_ASKS: list[list[dict[str, Any]]] = [[{"tool": "refund"}], [{"text": "done"}]]


@pytest.mark.parametrize("policy", ["reject", "enqueue", "cancel_previous"])
async def test_an_approved_call_runs_once_whoever_approves_at_the_same_moment(policy: Any) -> None:
    ran: list[str] = []
    async with runner_scene(agent_of("a", _ASKS, (_refund(ran), "always"), on_concurrent_run=policy)) as scene:
        answer = InterruptAnswer(await _ask(scene), "resolved", approved=True)
        given = [_resume(f"r{number}", answer) for number in range(8)]
        outcomes = await asyncio.gather(*(scene.start("a", each) for each in given), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, ConflictError)
            else:
                end_of(await read(outcome))
        await scene.until_idle()
        assert len(ran) <= 1
        if policy != "cancel_previous":
            assert len(ran) == 1


async def _answer(scene: Scene, approval: Approval) -> RunRecord:
    """Approve for the owner; the run that goes on with it."""
    done = await scene.runner.answer(approval.asked.approval_id, InterruptAnswer("", "resolved", approved=True))
    assert done.run is not None
    return done.run


def _resume(run_id: str, answer: InterruptAnswer) -> Any:
    return question(run_id=run_id, answers=(answer,), history="append")


async def test_an_answer_that_is_sent_twice_under_its_runs_id_finds_the_run_that_was_faster() -> None:
    ran: list[str] = []
    async with runner_scene(agent_of("a", _ASKS, (_refund(ran), "always"))) as scene:
        given = _resume("ask", InterruptAnswer(await _ask(scene), "resolved", approved=True))
        scene.store.hold("load_start")
        slower = asyncio.create_task(scene.start("a", given))
        await until(scene.store.reached["load_start"].is_set)
        waits = scene.store.open_for_others("load_start")
        events = await read(await scene.start("a", given))
        await scene.until_idle()
        waits.set()
        assert await read(await slower) == events
        assert len(ran) == 1


async def test_an_approval_whose_run_cannot_begin_is_still_open() -> None:
    ran: list[str] = []
    async with runner_scene(agent_of("a", _ASKS, (_refund(ran), "always"))) as scene:
        answer = InterruptAnswer(await _ask(scene), "resolved", approved=True)
        scene.store.refuse("begin_run", StoreFullError("no room"))
        with pytest.raises(StoreFullError):
            await scene.start("a", _resume("r", answer))
        assert not ran
        scene.store.refuse("begin_run", None)
        end_of(await read(await scene.start("a", _resume("r", answer))))
        assert len(ran) == 1


async def test_a_run_that_is_stopped_as_it_begins_runs_nothing_that_was_approved() -> None:
    ran: list[str] = []
    async with runner_scene(agent_of("a", _ASKS, (_refund(ran), "always"))) as scene:
        answer = InterruptAnswer(await _ask(scene), "resolved", approved=True)
        scene.store.hold("begin_run")
        scene.store.reached["begin_run"].clear()
        begins = asyncio.create_task(scene.start("a", _resume("r", answer)))
        await until(scene.store.reached["begin_run"].is_set)
        await scene.runner.cancel(OWNER, "r")
        scene.store.release("begin_run")
        assert end_of(await read(await begins)) == RunFinished(Cancelled())
        assert not ran
        await scene.until_idle()
        end_of(await read(await scene.start("a", _resume("again", answer))))
        assert not ran


@pytest.mark.parametrize("policy", ["reject", "enqueue", "cancel_previous"])
async def test_an_approval_that_is_answered_for_its_owner_goes_on_though_nobody_watches(policy: Any) -> None:
    ran: list[str] = []
    asks_and_hangs = [_ASKS[0], HANGS[0]]
    opened = agent_of("a", asks_and_hangs, (_refund(ran), "always"), on_concurrent_run=policy)
    async with runner_scene(opened) as scene:
        await _ask(scene)
        (approval,) = (await scene.runner.approvals(limit=5, cursor=None)).items
        record = await _answer(scene, approval)
        assert record.origin == "approvals"
        (await scene.runner.connect(OWNER, "a", question(run_id="look"))).close()
        await scene.clock.advance(60)
        assert await scene.status(record.run_id) == "running"
        await scene.runner.cancel(OWNER, record.run_id)
        await scene.until_idle()
        assert await scene.status(record.run_id) == "cancelled"
        assert len(ran) == 1


async def test_an_approval_that_was_answered_while_its_run_waited_begins_nothing() -> None:
    ran: list[str] = []
    opened = agent_of("a", _ASKS, (_refund(ran), "always"), on_concurrent_run="enqueue")
    async with runner_scene(opened) as scene:
        answer = InterruptAnswer(await _ask(scene), "resolved", approved=True)
        (approval,) = (await scene.runner.approvals(limit=5, cursor=None)).items
        scene.store.hold("begin_run")
        scene.store.reached["begin_run"].clear()
        first = asyncio.create_task(scene.start("a", _resume("first", answer)))
        await until(scene.store.reached["begin_run"].is_set)
        second = await _answer(scene, approval)
        assert second.status == "queued"
        scene.store.release("begin_run")
        end_of(await read(await first))
        await scene.until_idle()
        ended = await scene.runner.run(OWNER, second.run_id)
        assert (ended.status, ended.error_code) == ("failed", "approval_answered")
        assert len(ran) == 1


# --- the store


async def test_a_thread_whose_end_cannot_be_kept_refuses_the_next_run_at_once() -> None:
    async with runner_scene(
        agent_of("a", SAYS_HELLO), agent_of("b", HANGS, on_concurrent_run="cancel_previous")
    ) as scene:
        scene.store.refuse("end_run", StoreFullError("no room"))
        viewer = await scene.start("a", question())
        ended = end_of(await read(viewer))
        assert isinstance(ended, RunFailed)
        assert ended.code == "store_full"
        viewer.close()
        for agent_id in ("a", "b"):
            with pytest.raises(StoreError) as refused:
                await scene.start(agent_id, question(run_id="next"))
            assert refused.value.code == "store_full"
        scene.store.refuse("end_run", None)
        await scene.clock.advance(2)
        await scene.until_idle()
        assert await scene.status("r") == "failed"
        await read(await scene.start("a", question(run_id="next")))


async def test_a_run_that_waits_for_one_whose_end_cannot_be_kept_is_refused() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="cancel_previous")) as scene:
        await read_until(await scene.start("a", question()), TextDelta)
        scene.store.refuse("end_run", StoreFullError("no room"))
        with pytest.raises(StoreError) as refused:
            await scene.start("a", question(run_id="next"))
        assert refused.value.code == "store_full"
        scene.store.refuse("end_run", None)
        await scene.clock.advance(2)
        await scene.until_idle()


async def test_who_joins_a_run_whose_end_cannot_be_kept_is_told_that_it_failed() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.refuse("end_run", StoreFullError("no room"))
        await read(await scene.start("a", question()))
        late = await scene.runner.attach(OWNER, "r", after=0)
        assert late is not None
        ended = end_of(await read(late))
        assert isinstance(ended, RunFailed)
        assert ended.code == "store_full"
        assert (await scene.runner.run(OWNER, "r")).finished_at is not None
        scene.store.refuse("end_run", None)
        await scene.clock.advance(2)
        await scene.until_idle()


async def test_a_thread_whose_end_cannot_be_kept_can_be_deleted() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.refuse("end_run", StoreFullError("no room"))
        await read(await scene.start("a", question()))
        async with asyncio.timeout(5):
            await scene.runner.delete_thread(OWNER, "t")
        scene.store.refuse("end_run", None)
        await scene.clock.advance(2)
        await scene.until_idle()


@pytest.mark.parametrize("policy", ["reject", "enqueue", "cancel_previous"])
async def test_a_run_that_comes_while_its_thread_is_deleted_begins_the_thread_anew(policy: Any) -> None:
    """It read messages that were gone when it was kept behind them, and was refused as if the store had failed."""
    async with runner_scene(agent_of("a", SAYS_HELLO, on_concurrent_run=policy)) as scene:
        await read(await scene.start("a", question()))
        known = (await scene.runner.messages(OWNER, "t", limit=10, cursor=None)).items
        scene.store.hold("delete_thread")
        deletion = asyncio.create_task(scene.runner.delete_thread(OWNER, "t"))
        await until(scene.store.reached["delete_thread"].is_set)
        scene.store.reached["begin_run"].clear()
        given = question(run_id="r2")
        given = changed(given, messages=(*known, *given.sent.messages))
        again = asyncio.create_task(scene.start("a", given))
        await until(lambda: (OWNER, "r2") in scene.runner.driver.runs)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not scene.store.reached["begin_run"].is_set()
        scene.store.release("delete_thread")
        await deletion
        assert isinstance(end_of(await read(await again)), RunFinished)
        kept = (await scene.runner.messages(OWNER, "t", limit=10, cursor=None)).items
        assert [message.id for message in kept[:-1]] == [message.id for message in given.sent.messages]


async def test_a_run_whose_thread_is_gone_from_the_store_ends_all_the_same() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        viewer = await scene.start("a", question())
        await read_until(viewer, TextDelta)
        await scene.store.delete_thread(OWNER, "t")
        await scene.runner.cancel(OWNER, "r")
        end_of(await read(viewer))
        await scene.until_idle()


async def test_a_run_is_not_shown_as_ended_before_its_end_is_kept() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.hold("end_run")
        viewer = await scene.start("a", question())
        await until(scene.store.reached["end_run"].is_set)
        assert await scene.status("r") == "running"
        scene.store.release("end_run")
        end_of(await read(viewer))
        assert await scene.status("r") == "completed"


async def test_an_end_that_no_store_can_write_still_ends_the_run() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.refuse("end_run", ValueError("nested too deeply"))
        viewer = await scene.start("a", question())
        ended = end_of(await read(viewer))
        assert isinstance(ended, RunFailed)
        scene.store.refuse("end_run", None)
        await scene.clock.advance(2)
        await scene.until_idle()


class OddLoop:
    """A part from elsewhere whose event has no JSON form."""

    def __init__(self, *batches: Events) -> None:
        self._batches = batches

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        for batch in self._batches:
            yield batch


_NO_JSON: Any = object()


@pytest.mark.parametrize(
    "batches",
    [
        ([Custom("odd", _NO_JSON)], [RunFinished(Completed())]),
        ([RunFinished(Interrupted((Interrupt("i", "tool_call", "", "c", {"type": _NO_JSON}),)))],),
        ([RunFinished(Completed((_NO_JSON,)))],),
        ([Custom("no end", None)],),
        (),
    ],
)
async def test_what_one_run_cannot_write_is_no_other_runs_failure(batches: tuple[Events, ...]) -> None:
    odd = replace(agent_of("odd", []), loop=OddLoop(*batches))
    async with runner_scene(odd, agent_of("a", SAYS_HELLO)) as scene:
        viewers = [await scene.start(id, question(run_id=id, thread_id=id)) for id in ("a", "odd")]
        assert end_of(await read(viewers[0])) == RunFinished(Completed())
        events = await read(viewers[1])
        assert isinstance(end_of(events), RunFailed)
        assert "object" not in str(events[-1])
        await scene.until_idle()
        assert await scene.status("odd") == "failed"
