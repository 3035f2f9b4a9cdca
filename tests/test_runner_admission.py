"""Who may begin a run is asked once for each new run, and told when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.errors import ConflictError, StoreError, TooManyRequestsError
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, Scene, agent_of, question, read, runner_scene
from tests.waiting import until


class Porter:
    """Counts those who are in; lets in no more than `most`."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.came = 0
        self.inside = 0

    def admit(self) -> Callable[[object], None]:
        if self.inside >= self.most:
            raise TooManyRequestsError("full", code="limit_of_the_test")
        self.came += 1
        self.inside += 1
        return self.leave

    def leave(self, _: object) -> None:
        self.inside -= 1


async def begin(scene: Scene, porter: Porter, agent_id: str = "a", **given: str) -> None:
    viewer = await scene.runner.start(OWNER, agent_id, question(**given), porter.admit)
    scene.viewers.append(viewer)


async def test_a_run_is_counted_until_it_is_over_whoever_watches() -> None:
    porter = Porter()
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await begin(scene, porter)
        scene.viewers.pop().close()
        assert porter.inside == 1, "the run goes on, though nobody watches"
        await scene.runner.cancel(OWNER, "r")
        await until(lambda: porter.inside == 0)
        assert porter.came == 1


async def test_a_run_that_ends_by_itself_is_over_when_its_viewer_has_its_end() -> None:
    porter = Porter()
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await begin(scene, porter)
        await read(scene.viewers[0])
        await until(lambda: porter.inside == 0)


async def test_the_same_request_again_counts_once_while_it_runs_and_after() -> None:
    porter = Porter(most=1)
    async with runner_scene(agent_of("a", HANGS), agent_of("b", SAYS_HELLO)) as scene:
        await asyncio.gather(*[begin(scene, porter) for _ in range(5)])
        assert (porter.came, porter.inside) == (1, 1)
        await scene.runner.cancel(OWNER, "r")
        await until(lambda: porter.inside == 0)
        await begin(scene, porter)
        assert (porter.came, porter.inside) == (1, 0), "a replay is no run"


async def test_who_is_refused_leaves_nothing_behind() -> None:
    porter = Porter(most=1)
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await begin(scene, porter)
        with pytest.raises(TooManyRequestsError):
            await begin(scene, porter, thread_id="t2", run_id="r2")
        assert await scene.store.load_run(OWNER, "r2") is None
        assert len(scene.runner._runs) == 1


async def test_a_start_that_fails_is_over_at_once() -> None:
    porter = Porter()
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await begin(scene, porter)
        with pytest.raises(ConflictError):
            await begin(scene, porter, run_id="r2")
        scene.store.refuse("begin_run", StoreError("no"))
        with pytest.raises(StoreError):
            await begin(scene, porter, thread_id="t2", run_id="r3")
        scene.store.refuse("begin_run", None)
        await until(lambda: porter.inside == 1)


async def test_a_run_that_waits_for_its_thread_counts_already() -> None:
    porter = Porter()
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await begin(scene, porter)
        await begin(scene, porter, run_id="r2")
        assert porter.inside == 2
