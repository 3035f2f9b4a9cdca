"""The agents of a process are replaced while runs go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.configuration.known_parts import known_parts
from gateway.errors import NotFoundError
from gateway.events import Cancelled, Events, RunFinished, TextDelta, TextStarted
from gateway.loop import LoopContext
from gateway.tool import Tool, ToolType
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, agent_of, end_of, question, read, read_until, runner_scene
from tests.running_gateway import agent, local_gateway, scripted
from tests.waiting import until

SAYS_BYE: list[list[dict[str, Any]]] = [[{"text": "bye"}]]


@dataclass
class Box:
    """A toolbox without tools that counts how often it is closed."""

    closed: int = 0

    async def tools(self) -> tuple[Tool, ...]:
        return ()

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        self.closed += 1


@dataclass
class SlowBox(Box):
    """One that gives its tools when `answers` says so, and counts how often it is asked."""

    asked: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def tools(self) -> tuple[Tool, ...]:
        self.asked += 1
        await self.answers.wait()
        assert not self.closed
        return ()


def boxed(id: str, responses: Sequence[Sequence[dict[str, Any]]], **more: Any) -> tuple[OpenAgent, Box]:
    box = Box()
    return agent_of(id, responses, box, **more), box


async def test_a_run_keeps_the_agent_that_it_began_with() -> None:
    old, old_box = boxed("shop", HANGS)
    new, new_box = boxed("shop", SAYS_BYE)
    async with runner_scene(old) as scene:
        viewer = await scene.start("shop", question(run_id="before"))
        await read_until(viewer, TextStarted)
        scene.runner.agents.replace([new])
        later = await read(await scene.start("shop", question(thread_id="other", run_id="after")))
        assert [event.text for event in later if isinstance(event, TextDelta)] == ["bye"]
        assert old_box.closed == 0, "its run is still under way"
        await scene.runner.cancel(OWNER, "before")
        end = end_of(await read(viewer))
        assert isinstance(end, RunFinished)
        assert isinstance(end.outcome, Cancelled)
        await until(lambda: old_box.closed)
    assert (old_box.closed, new_box.closed) == (1, 0)


async def test_an_agent_that_is_left_out_is_there_for_its_runs_alone() -> None:
    gone, box = boxed("gone", HANGS)
    stays, _ = boxed("stays", SAYS_HELLO)
    async with runner_scene(gone, stays) as scene:
        viewer = await scene.start("gone", question())
        await read_until(viewer, TextStarted)
        scene.runner.agents.replace([stays])
        with pytest.raises(NotFoundError, match="there is no agent 'gone'"):
            await scene.start("gone", question(thread_id="other", run_id="other"))
        assert list(scene.runner.agents) == ["stays"]
        viewer.close()  # on_disconnect: cancel is still known of it
        await scene.clock.advance(3600)
        await scene.until_idle()
        await until(lambda: box.closed)
        assert await scene.status("r") == "cancelled"
    assert box.closed == 1


async def test_a_run_that_waits_for_its_turn_keeps_its_agent() -> None:
    old, box = boxed("shop", HANGS, on_concurrent_run="enqueue")
    new, _ = boxed("shop", SAYS_BYE)
    async with runner_scene(old) as scene:
        first = await scene.start("shop", question(run_id="first"))
        await read_until(first, TextStarted)
        second = await scene.start("shop", question(run_id="second"))
        scene.runner.agents.replace([new])
        await scene.runner.cancel(OWNER, "first")
        await read(first)
        texts = [event for event in await read_until(second, TextDelta) if isinstance(event, TextDelta)]
        assert texts[0].texts[0] == "one ", "it is the agent that was asked"
        assert box.closed == 0
        await scene.runner.cancel(OWNER, "second")
        await read(second)
        await until(lambda: box.closed)
    assert box.closed == 1


async def test_a_request_that_is_looked_at_while_its_agent_is_replaced_gets_the_new_one() -> None:
    old, box = boxed("shop", SAYS_HELLO)
    new, _ = boxed("shop", SAYS_BYE)
    async with runner_scene(old) as scene:
        scene.store.hold("load_start")
        scene.store.hold("runs_known_as")
        asked = asyncio.create_task(scene.start("shop", question()))
        await until(lambda: scene.store.reached["load_start"].is_set() or scene.store.reached["runs_known_as"].is_set())
        scene.runner.agents.replace([new])
        await until(lambda: box.closed)
        scene.store.release("load_start")
        scene.store.release("runs_known_as")
        events = await read(await asked)
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["bye"]


async def test_an_agent_stays_open_while_the_work_of_its_run_does_not_stop() -> None:
    box = Box()
    directory = AgentDirectory([agent := agent_of("slow", SAYS_HELLO, box)])
    run, work = asyncio.get_running_loop().create_future(), asyncio.get_running_loop().create_future()
    directory.hold(agent, until=run)
    directory.hold(agent, until=work)
    directory.replace([])
    run.set_result(None)
    await asyncio.sleep(0)
    assert box.closed == 0
    work.set_result(None)
    await until(lambda: box.closed)
    await directory.close()
    assert box.closed == 1


class _DeafLoop:
    """A loop that hears of no cancellation until `stops` is set."""

    def __init__(self) -> None:
        self.stops = asyncio.Event()

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        yield [TextStarted("m")]
        while not self.stops.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.stops.wait()


async def test_a_run_that_was_ended_over_its_work_leaves_the_agent_open_for_it() -> None:
    (agent, box), loop = boxed("deaf", SAYS_HELLO), _DeafLoop()
    async with runner_scene(replace(agent, loop=loop)) as scene:
        viewer = await scene.start("deaf", question())
        await read_until(viewer, TextStarted)
        scene.runner.agents.replace([])
        await scene.runner.cancel(OWNER, "r")
        end = end_of(await read(viewer))
        assert isinstance(end, RunFinished)
        assert isinstance(end.outcome, Cancelled)
        await scene.until_idle()
        await asyncio.sleep(0)  # what is done because the run is over
        await asyncio.sleep(0)
        closed_early = box.closed
        loop.stops.set()  # before anything may fail: the scene waits for the loop
        await until(lambda: box.closed)
    assert (closed_early, box.closed) == (0, 1)


async def test_what_nothing_holds_is_closed_at_once_and_what_stays_is_not() -> None:
    (gone, gone_box), (stays, stays_box) = boxed("gone", SAYS_HELLO), boxed("stays", SAYS_HELLO)
    directory = AgentDirectory([gone, stays])
    directory.replace([stays])
    await until(lambda: gone_box.closed)
    assert stays_box.closed == 0
    await directory.close()
    assert (gone_box.closed, stays_box.closed) == (1, 1)


async def test_at_the_end_all_are_closed_once_also_those_that_are_held() -> None:
    (held, held_box), (other, other_box) = boxed("held", SAYS_HELLO), boxed("other", SAYS_HELLO)
    directory = AgentDirectory([held, other])
    run: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    directory.hold(held, until=run)
    directory.replace([other])
    await directory.close()
    run.set_result(None)
    await asyncio.sleep(0)
    await directory.close()
    assert (held_box.closed, other_box.closed) == (1, 1)


async def test_one_that_cannot_be_closed_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenBox(Box):
        async def close(self) -> None:
            raise OSError("the pipe is gone")

    good, box = boxed("good", SAYS_HELLO)
    directory = AgentDirectory([agent_of("broken", SAYS_HELLO, BrokenBox()), good])
    await directory.close()
    assert box.closed == 1
    [entry] = [record for record in caplog.records if record.name == "gateway.agents.directory"]
    assert (entry.message, entry.__dict__["agent_id"]) == ("an agent could not be closed", "broken")


async def test_an_agent_whose_capabilities_are_asked_is_not_closed_under_the_question(tmp_path: Path) -> None:
    box = SlowBox()
    parts = known_parts()
    parts = replace(parts, tools={**parts.tools, "SlowTools": ToolType("SlowTools", lambda settings, environment: box)})
    tools = [{"type": "SlowTools"}]
    async with local_gateway(
        tmp_path, [agent("slow", scripted([{"text": "hello"}]), tools=tools)], parts=parts
    ) as gateway:
        await until(lambda: box.asked)  # by the gateway itself, which holds the agent meanwhile
        box.answers.set()
        await gateway.client.get("/agents/slow/capabilities")
        box.answers.clear()
        asked = asyncio.create_task(gateway.client.get("/agents/slow/capabilities"))
        await until(lambda: box.asked == 3)
        gateway.application.take_over([])
        await asyncio.sleep(0)
        assert box.closed == 0
        box.answers.set()
        assert (await asked)["identity"]["name"] == "slow"
        await until(lambda: box.closed)
        assert (await gateway.client.http.get("/agents/slow/capabilities")).status_code == 404
