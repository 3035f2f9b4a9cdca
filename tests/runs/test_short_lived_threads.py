"""Threads for whoever asks for no memory: there for an hour behind their last run, then gone with all they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.agent import AgentInput, Budgets, InterruptAnswer
from gateway.errors import NotFoundError
from gateway.events import Interrupted, RunFinished, TextDelta
from gateway.messages import Message, TextBlock, ToolResult, ToolSpec
from gateway.owners import LOCAL_OWNER
from gateway.store import RunRecord, RunStatus, Thread, ThreadChange
from tests.agent_inputs import changed
from tests.loop_runs import adder
from tests.movable_clock import MovableClock
from tests.responses_events import message_item
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, Scene, agent_of, question, read, read_until, runner_scene
from tests.running_gateway import agent, local_gateway, run_body, scripted
from tests.stateful_scene import StatefulScene, stateful_scene
from tests.waiting import until_answered

HOUR = 3600.0
DAY = 24 * HOUR
ENDLESS = Budgets(max_run_seconds=None)
PATIENT = Budgets(approval_timeout_seconds=2 * DAY)


def without_memory(**more: Any) -> AgentInput:
    return question(short_lived=True, history="append", **more)


async def ask(scene: Scene, given: AgentInput) -> None:
    await read(await scene.start("a", given))


async def is_there(scene: Scene) -> bool:
    return await scene.store.load_thread(OWNER, "t") is not None


async def test_it_is_not_listed_and_is_found_for_an_hour_behind_its_run() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await ask(scene, without_memory())
        assert (await scene.runner.threads(OWNER, limit=5, cursor=None)).items == ()
        await scene.clock.advance(HOUR)
        assert await scene.runner.delete_expired() == 0
        await ask(scene, without_memory())  # the same request once more is shown its run
        assert (await scene.runner.attach(OWNER, "r", after=0)) is not None
        assert len((await scene.runner.messages(OWNER, "t", limit=9, cursor=None)).items) == 2
        await scene.clock.advance(1)
        assert await scene.runner.delete_expired() == 1
        assert not await is_there(scene)
        with pytest.raises(NotFoundError):
            await scene.runner.run(OWNER, "r")
        assert await scene.kept_events("r") == []


async def test_each_run_gives_it_another_hour_and_no_list() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await ask(scene, without_memory())
        await scene.clock.advance(HOUR - 1)
        await ask(scene, question(run_id="r2", history="append"))
        await scene.clock.advance(HOUR - 1)
        assert await scene.runner.delete_expired() == 0
        assert (await scene.runner.threads(OWNER, limit=5, cursor=None)).items == ()
        await scene.clock.advance(2)
        assert await scene.runner.delete_expired() == 1


async def test_the_hour_begins_when_the_run_ends() -> None:
    async with runner_scene(
        agent_of("a", [[{"text": "one"}, {"delay_seconds": 3 * HOUR}, {"text": "two"}]], budgets=ENDLESS)
    ) as scene:
        viewer = await scene.start("a", without_memory())
        await read_until(viewer, TextDelta)
        await scene.clock.until_timer(3 * HOUR)
        await scene.clock.advance(2 * HOUR)
        assert await scene.runner.delete_expired() == 0, "a run is at work on it"
        await scene.clock.advance(HOUR)
        await read(viewer)
        await scene.clock.advance(HOUR - 1)
        assert await scene.runner.delete_expired() == 0
        await scene.clock.advance(2)
        assert await scene.runner.delete_expired() == 1


async def test_a_run_that_a_killed_process_left_behind_gives_it_an_hour_from_its_end() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        now = scene.clock.now()
        left = RunRecord(OWNER, "r", "t", "a", RunStatus.RUNNING, now, now)
        thread = Thread(OWNER, "t", "a", now, now, last_run_id="r", listed=False, hidden=True, expires_at=now + HOUR)
        await scene.store.begin_run(left, thread, keep=0)
        await scene.clock.advance(5 * HOUR)
        await scene.runner.driver.recover()
        assert await scene.runner.delete_expired() == 0
        assert await scene.status("r") == "failed"
        await scene.clock.advance(HOUR + 1)
        assert await scene.runner.delete_expired() == 1


PICK = ToolSpec("pick", "Pick.", {"type": "object"})
PICKS: list[list[dict[str, Any]]] = [[{"tool": "pick", "id": "c1"}], [{"text": "Red it is."}]]
ADDS: list[list[dict[str, Any]]] = [[{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "3"}]]


async def lives(scene: Scene, seconds: float) -> None:
    """Move the clock; it is there for exactly so long."""
    await scene.until_idle()
    await scene.clock.advance(seconds)
    assert await scene.runner.delete_expired() == 0
    await scene.clock.advance(1)
    assert await scene.runner.delete_expired() == 1


async def test_one_that_waits_for_its_clients_tool_lives_a_day() -> None:
    async with runner_scene(agent_of("a", PICKS)) as scene:
        await ask(scene, without_memory(tools=(PICK,)))
        await lives(scene, DAY)


async def test_one_of_which_nothing_is_to_be_kept_lives_an_hour_though_it_waits() -> None:
    async with runner_scene(agent_of("a", PICKS), agent_of("b", ADDS, (adder(), "always"))) as scene:
        await ask(scene, without_memory(tools=(PICK,), forgets_pauses=True))
        await lives(scene, HOUR)
        await read(await scene.start("b", without_memory(run_id="r2", forgets_pauses=True)))
        await scene.until_idle()
        await scene.clock.advance(HOUR / 2)
        more = await read(await scene.start("b", without_memory(run_id="r3", forgets_pauses=True)))
        assert isinstance(more[-1], RunFinished)
        await lives(scene, HOUR)


async def test_once_the_clients_tool_has_answered_an_hour_counts_again() -> None:
    async with runner_scene(agent_of("a", PICKS)) as scene:
        await ask(scene, without_memory(tools=(PICK,)))
        await scene.clock.advance(2 * HOUR)
        result = Message("o", "tool", (ToolResult("c1", (TextBlock("red"),)),))
        await ask(scene, changed(without_memory(run_id="r2", tools=(PICK,)), messages=(result,)))
        await lives(scene, HOUR)


@pytest.mark.parametrize("is_answered", [False, True])
async def test_one_that_waits_for_a_person_lives_a_day_until_the_person_has_answered(is_answered: bool) -> None:
    async with runner_scene(agent_of("a", ADDS, (adder(), "always"), budgets=PATIENT)) as scene:
        events = await read(await scene.start("a", without_memory()))
        await scene.until_idle()
        await scene.clock.advance(2 * HOUR)
        if is_answered:
            outcome = events[-1].outcome if isinstance(events[-1], RunFinished) else None
            assert isinstance(outcome, Interrupted)
            answers = tuple(InterruptAnswer(each.id, "resolved", approved=True) for each in outcome.interrupts)
            await ask(scene, changed(without_memory(run_id="r2", answers=answers), messages=()))
            await lives(scene, HOUR)
        else:
            await lives(scene, DAY - 2 * HOUR)


async def test_one_whose_client_goes_on_without_answering_lives_an_hour() -> None:
    async with runner_scene(agent_of("a", PICKS), agent_of("b", SAYS_HELLO)) as scene:
        await ask(scene, without_memory(tools=(PICK,)))
        await read(await scene.start("b", without_memory(run_id="r2")))
        await lives(scene, HOUR)


async def test_a_question_that_a_killed_process_left_open_keeps_its_thread_for_the_day() -> None:
    async with runner_scene(agent_of("a", ADDS, (adder(), "always"), budgets=PATIENT)) as scene:
        await ask(scene, without_memory())
        await scene.until_idle()
        record = RunRecord(OWNER, "r2", "t", "a", RunStatus.RUNNING, scene.clock.now(), scene.clock.now())
        thread = await scene.store.load_thread(OWNER, "t")
        assert thread is not None
        await scene.store.begin_run(record, thread, keep=len(thread.messages))
        await scene.runner.driver.recover()
        await lives(scene, DAY)


async def test_a_thread_with_a_memory_keeps_it() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await ask(scene, question())
        await ask(scene, without_memory(run_id="r2"))
        await scene.clock.advance(1000 * HOUR)
        assert await scene.runner.delete_expired() == 0
        assert [each.thread_id for each in (await scene.runner.threads(OWNER, limit=5, cursor=None)).items] == ["t"]


async def test_one_that_its_owner_wants_to_keep_stays() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await ask(scene, without_memory())
        await scene.runner.writes.update(OWNER, "t", ThreadChange(expires_at=None, listed=True))
        await ask(scene, without_memory(run_id="r2"))
        await scene.clock.advance(1000 * HOUR)
        assert await scene.runner.delete_expired() == 0
        assert len((await scene.runner.threads(OWNER, limit=5, cursor=None)).items) == 1


async def test_busy_threads_keep_no_others() -> None:
    async with runner_scene(agent_of("a", HANGS, budgets=ENDLESS)) as scene:
        for number in range(3):
            await scene.start("a", without_memory(thread_id=f"busy{number}", run_id=f"r{number}"))
        now = scene.clock.now()
        for number in range(250):
            over = Thread(OWNER, f"over{number}", "a", now, now, expires_at=now + 2 * HOUR)
            await scene.store.create_thread(over, {})
        await scene.clock.advance(3 * HOUR)
        assert await scene.runner.delete_expired() == 250
        assert await scene.runner.delete_expired() == 0
        for number in range(3):
            assert await scene.status(f"r{number}") == "running"
            await scene.runner.cancel(OWNER, f"r{number}")


async def test_a_run_that_begins_at_that_moment_is_not_lost() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await ask(scene, without_memory())
        await scene.clock.advance(2 * HOUR)
        expired = scene.store.expired_threads
        asked: list[int] = []

        async def begun_meanwhile(**more: Any) -> Any:
            found = await expired(**more)
            asked.append(len(found))
            if len(asked) == 1:
                await ask(scene, without_memory(run_id="r2"))
            return found

        scene.store.expired_threads = begun_meanwhile  # type: ignore[attr-defined]
        assert await scene.runner.delete_expired() == 0
        assert asked == [1, 0]
        assert await scene.status("r2") == "completed"


async def test_what_its_provider_keeps_of_it_goes_too(tmp_path: Path) -> None:
    clock = MovableClock()
    async with stateful_scene(tmp_path, clock=clock) as scene:
        scene.server.will_answer(message_item("hello"))
        await scene.say("hi")
        await _expire(scene, clock)
        gone = [request for request in scene.server.requests if request.method == "DELETE"]
        assert len(gone) == 1


async def _expire(scene: StatefulScene, clock: MovableClock) -> None:
    store = scene.gateway.application.store
    (thread,) = (await store.list_threads(LOCAL_OWNER, limit=5, cursor=None)).items
    await store.update_thread(LOCAL_OWNER, thread.thread_id, ThreadChange(expires_at=clock.now() - 1))
    assert await scene.gateway.application.runner.delete_expired() == 1
    requests = scene.server.requests
    await clock.until(lambda: any(request.method == "DELETE" for request in requests))


async def test_a_gateway_looks_for_them_once_a_minute_and_when_it_starts(tmp_path: Path) -> None:
    clock = MovableClock()
    agents = [agent("a", scripted([{"text": "hi"}]))]

    async def one_more(gateway: Any, name: str) -> Any:
        application = gateway.application
        await gateway.client.run("a", run_body(thread_id="lasts", run_id=f"run-{name}"))
        await read(await application.runner.start(LOCAL_OWNER, "a", without_memory(thread_id=name, run_id=name)))
        return application.store

    async with local_gateway(tmp_path, agents, clock=clock) as gateway:
        store = await one_more(gateway, "first")
        await clock.advance(HOUR - 1)
        assert await store.load_thread(LOCAL_OWNER, "first") is not None
        while await store.load_thread(LOCAL_OWNER, "first") is not None:
            await clock.advance(60)  # a round that still writes sleeps from a later time on
        await one_more(gateway, "second")
    await clock.advance(2 * HOUR)
    async with local_gateway(tmp_path, agents, clock=clock) as gateway:
        await _until_gone(gateway.application.store, "second")
        assert await gateway.application.store.load_thread(LOCAL_OWNER, "lasts") is not None


async def _until_gone(store: Any, thread_id: str) -> None:
    await until_answered(lambda: store.load_thread(LOCAL_OWNER, thread_id), lambda found: found is None)
