"""What tools let viewers see while they work: steps, activities, an application's own events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.events import ActivityChanged, ActivityReplaced, Custom, Event, StepEnded, StepStarted, ToolReturned
from gateway.messages import JsonObject
from gateway.tool import ToolContext
from tests.loop_runs import DEADLINE_SECONDS, FunctionTool, LoopRun

CALL: list[list[JsonObject]] = [[{"tool": "work", "arguments": {}}], [{"text": "done"}]]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


async def test_an_announcement_is_seen_while_the_tool_still_works() -> None:
    seen = asyncio.Event()

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.announce(StepStarted("reading"))
        await seen.wait()
        context.announce(StepEnded("reading"))
        return "read"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    running = run.start()
    await until(lambda: bool(run.all_of(StepStarted)))
    assert not run.results

    seen.set()
    await running
    kinds = [type(event) for event in run.so_far() if isinstance(event, StepStarted | StepEnded | ToolReturned)]
    assert kinds == [StepStarted, StepEnded, ToolReturned]


async def test_activities_and_custom_events_come_in_the_order_they_were_announced() -> None:
    announced: list[ActivityReplaced | ActivityChanged | Custom] = [
        ActivityReplaced("activity-1", "progress", {"percent": 0}),
        ActivityChanged("activity-1", "progress", ({"op": "replace", "path": "/percent", "value": 100},)),
        Custom("finished", {"pages": 3}),
    ]

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        for event in announced:
            context.announce(event)
        return "done"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    await run.events()
    shown: list[Event] = [e for e in run.so_far() if isinstance(e, ActivityReplaced | ActivityChanged | Custom)]
    assert shown == announced


async def test_a_tool_may_announce_from_a_thread_of_its_own() -> None:
    async def work(arguments: JsonObject, context: ToolContext) -> str:
        await asyncio.to_thread(context.announce, Custom("from a thread", None))
        return "done"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    await run.events()
    assert [event.name for event in run.all_of(Custom)] == ["from a thread"]


async def test_what_a_tool_announces_after_its_time_is_up_is_not_lost_before_the_end() -> None:
    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.announce(Custom("begun", 1))
        await asyncio.Event().wait()
        return "never"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    running = run.start()
    await run.clock.until_timer(run.context.agent.budgets.tool_timeout_seconds)
    await run.clock.advance(run.context.agent.budgets.tool_timeout_seconds)
    await running
    assert [event.name for event in run.all_of(Custom)] == ["begun"]
    assert run.results[0].is_error
