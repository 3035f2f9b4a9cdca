"""What is asked of a run at the moment at which it begins: before it nobody knows it, behind it everybody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from gateway.events import Cancelled, Event, RunFinished
from gateway.runs.viewer import Viewer
from tests.runner_scene import (
    DEADLINE_SECONDS,
    HANGS,
    OWNER,
    Scene,
    agent_of,
    end_of,
    question,
    read,
    runner_scene,
)

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def talking() -> AsyncGenerator[Scene]:
    async with runner_scene(agent_of("talker", HANGS)) as scene:
        yield scene


async def asked_before(scene: Scene, asking: Coroutine[Any, Any, ResultT]) -> tuple[Viewer, ResultT]:
    """What is asked looks for the run before it is there, and in the store when it is: the run's viewer, the answer."""
    asked = await asking_still(scene, asking)
    viewer = await scene.start("talker", question())
    scene.store.release("runs_known_as")
    async with asyncio.timeout(DEADLINE_SECONDS):
        return viewer, await asked


async def asked_too_early(scene: Scene, asking: Coroutine[Any, Any, ResultT]) -> tuple[Viewer, ResultT]:
    """As `asked_before`, but the store does not have the run yet either, when it is asked."""
    asked = await asking_still(scene, asking)
    scene.store.hold("begin_run")
    starting = asyncio.create_task(scene.start("talker", question()))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await scene.store.reached["begin_run"].wait()
        scene.store.release("runs_known_as")
        await scene.store.runs_known_as(OWNER, "r")  # when this is answered, that one is on its way, before the begin
        scene.store.release("begin_run")
        return await starting, await asked


async def asking_still(scene: Scene, asking: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
    """What is asked does not know the run and is about to ask the store, until `runs_known_as` is released."""
    scene.store.hold("runs_known_as")
    asked = asyncio.create_task(asking)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await scene.store.reached["runs_known_as"].wait()
    return asked


def check_cancelled(events: Sequence[Event]) -> None:
    end = end_of(events)
    assert isinstance(end, RunFinished)
    assert isinstance(end.outcome, Cancelled)


async def test_cancel_that_comes_while_the_run_begins_ends_it() -> None:
    async with talking() as scene:
        viewer, record = await asked_before(scene, scene.runner.cancel(OWNER, "r"))
        assert not record.status.ended
        check_cancelled(await read(viewer))
        await scene.until_idle()
        assert await scene.status("r") == "cancelled"


async def test_cancel_ends_a_run_that_came_while_the_store_did_not_know_it_yet() -> None:
    async with talking() as scene:
        viewer, record = await asked_too_early(scene, scene.runner.cancel(OWNER, "r"))
        assert not record.status.ended
        check_cancelled(await read(viewer))


async def test_who_attaches_while_the_run_begins_sees_it_to_its_end() -> None:
    async with talking() as scene:
        viewer, attached = await asked_before(scene, scene.runner.attach(OWNER, "r", after=0))
        await check_sees_all(scene, attached, viewer)


async def test_who_attaches_while_the_store_does_not_know_the_run_yet_sees_it_to_its_end() -> None:
    async with talking() as scene:
        viewer, attached = await asked_too_early(scene, scene.runner.attach(OWNER, "r", after=0))
        await check_sees_all(scene, attached, viewer)


async def check_sees_all(scene: Scene, attached: Viewer | None, viewer: Viewer) -> None:
    """Who attached waits for what the run says next, and is shown all that its first viewer is."""
    assert attached is not None
    scene.viewers.append(attached)
    reading = asyncio.create_task(read(attached))
    await scene.clock.until(lambda: reading.done() or 3600 in scene.clock.pending)
    assert not reading.done(), "what there was so far is taken for the whole run"
    await scene.runner.cancel(OWNER, "r")
    seen = await reading
    check_cancelled(seen)
    assert seen == await read(viewer)
