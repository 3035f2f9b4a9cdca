"""Runs that are joined late, and runs that are stopped."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import StoreFullError, UnavailableError
from gateway.events import (
    Cancelled,
    RunFinished,
    TextDelta,
)
from gateway.store import RunStatus
from tests.runner_scene import (
    HANGS,
    OWNER,
    SAYS_HELLO,
    BrokenToolbox,
    agent_of,
    end_of,
    question,
    read,
    read_until,
    runner_scene,
)
from tests.waiting import until

# --- joining


async def test_who_connects_while_the_run_ends_gets_the_whole_thread_and_its_real_end() -> None:
    async with runner_scene(agent_of("a", [[{"text": "hello"}, {"stop": "max_tokens"}]])) as scene:
        scene.store.hold("end_run")
        await scene.start("a", question())
        await until(scene.store.reached["end_run"].is_set)
        connecting = asyncio.create_task(scene.runner.connect(OWNER, "a", question(run_id="look")))
        await scene.clock.settle()
        scene.store.release("end_run")
        viewer = await connecting
        assert viewer.prelude is not None
        assert [message.text for message in viewer.prelude.messages] == ["hi", "hello"]
        (ended,) = await read(viewer)
        (kept,) = [event for event in await scene.kept_events("r") if isinstance(event, RunFinished)]
        assert ended == kept


async def test_who_connects_while_a_run_begins_gets_that_run() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        scene.store.hold("begin_run")
        begins = asyncio.create_task(scene.start("a", question()))
        await until(scene.store.reached["begin_run"].is_set)
        connecting = asyncio.create_task(scene.runner.connect(OWNER, "a", question(run_id="look")))
        await scene.clock.settle()
        scene.store.release("begin_run")
        await begins
        viewer = await connecting
        scene.viewers.append(viewer)
        assert viewer.prelude is not None
        assert viewer.prelude.run_id == "r"
        await scene.runner.cancel(OWNER, "r")
        end_of(await read(viewer))


async def test_who_connects_while_a_run_that_was_stopped_in_the_queue_begins_is_told_its_end() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await read_until(await scene.start("a", question(run_id="first")), TextDelta)
        await scene.start("a", question(run_id="queued"))
        await scene.runner.cancel(OWNER, "queued")
        scene.store.reached["begin_run"].clear()
        scene.store.hold("begin_run")
        await scene.runner.cancel(OWNER, "first")
        await until(scene.store.reached["begin_run"].is_set)
        connecting = asyncio.create_task(scene.runner.connect(OWNER, "a", question(run_id="look")))
        asked_again = asyncio.create_task(scene.start("a", question(run_id="queued")))
        await scene.clock.settle()
        scene.store.release("begin_run")
        for viewer in (await connecting, await asked_again):
            assert end_of(await read(viewer)) == RunFinished(Cancelled())
            viewer.close()


# --- stopping


async def test_cancel_ends_a_run_that_waits_for_its_tools_at_once() -> None:
    box = BrokenToolbox()
    box.waits = asyncio.Event()
    async with runner_scene(agent_of("a", HANGS, box)) as scene:
        begins = asyncio.create_task(scene.start("a", question()))
        await until(box.asked.is_set)
        async with asyncio.timeout(10):
            await scene.runner.cancel(OWNER, "r")
            assert end_of(await read(await begins)) == RunFinished(Cancelled())
        assert await scene.status("r") == "cancelled"
        messages = (await scene.runner.messages(OWNER, "t", limit=9, cursor=None)).items
        assert [message.text for message in messages] == ["hi"]


async def test_a_request_that_was_looking_for_its_run_as_the_drain_began_is_refused() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        scene.store.hold("load_start")
        begins = asyncio.create_task(scene.start("a", question()))
        await until(scene.store.reached["load_start"].is_set)
        await scene.runner.driver.shut_down(0)
        scene.store.release("load_start")
        with pytest.raises(UnavailableError):
            await begins


async def test_the_second_shut_down_does_not_wait_again() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.store.refuse("end_run", StoreFullError("no room"))
        await read(await scene.start("a", question()))
        async with asyncio.timeout(10):
            await scene.runner.driver.shut_down(0)
            await scene.runner.driver.shut_down(60)
        assert not scene.runner._runs
        scene.store.refuse("end_run", None)
        await scene.runner.driver.recover()
        assert (await scene.runner.run(OWNER, "r")).status is RunStatus.FAILED
