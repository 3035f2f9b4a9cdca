"""What tools let viewers see while they work: steps, activities, an application's own events."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from gateway.errors import ToolError
from gateway.events import (
    ActivityChanged,
    ActivityReplaced,
    Completed,
    Custom,
    Event,
    RunFinished,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolReturned,
)
from gateway.messages import JsonObject, TextBlock
from gateway.tool import ToolContext
from gateway.tool_output import Announcement
from tests.loop_runs import FunctionTool, LoopRun
from tests.waiting import until

CALL: list[list[JsonObject]] = [[{"tool": "work", "arguments": {}}], [{"text": "done"}]]


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


async def test_what_is_announced_is_what_it_was_then_and_as_json_has_it() -> None:
    """As results and states are: a date in an application's own event ended the run, and the store was blamed."""
    content: dict[str, Any] = {"at": datetime.date(2026, 11, 20), "share": float("nan"), "half": "\ud83d"}

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        context.announce(Custom("progress", content))
        context.announce(ActivityReplaced("activity-1", "progress", content))
        context.announce(ActivityChanged("activity-1", "progress", ({"op": "add", "path": "/tags", "value": content},)))
        content["at"] = "changed later"
        return "done"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    await run.events()
    as_json: JsonObject = {"at": "2026-11-20", "share": None, "half": "\ufffd"}
    assert [event.value for event in run.all_of(Custom)] == [as_json]
    assert [event.content for event in run.all_of(ActivityReplaced)] == [as_json]
    assert [event.patch for event in run.all_of(ActivityChanged)] == [
        ({"op": "add", "path": "/tags", "value": as_json},)
    ]


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("progress", "a tool announces one of StepStarted, StepEnded, .*, not str"),
        (RunFinished(Completed()), "not RunFinished"),
        (TextDelta("message", "x"), "not TextDelta"),
        (Custom("progress", CYCLE), "no JSON form"),
        (ActivityReplaced("a", "progress", [1]), "the content of an activity is an object, not an array"),  # type: ignore[arg-type]
        (ActivityChanged("a", "progress", ({"op": "add", "path": "b", "value": 1},)), "a JSON Pointer .*, not 'b'"),
        (ActivityChanged("a", "progress", ({"op": "add", "path": "/~2", "value": 1},)), "a JSON Pointer"),
        (ActivityChanged("a", "progress", ({"op": "move", "path": "/b"},)), "'from' of a patch's operation"),
        (ActivityChanged("a", "progress", ({"op": "frob", "path": "/b"},)), "add, copy, move, remove, replace, test"),
        (ActivityChanged("a", "progress", ({"op": "add", "path": "/b"},)), "has a 'value'"),
        (ActivityChanged("a", "progress", ("/b",)), "has none"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_what_clients_would_refuse_is_told_to_the_tool_that_announces_it(event: Any, told: str) -> None:
    """And the run goes on: HttpAgent gives up a run for a pointer without its slash."""

    async def work(arguments: JsonObject, context: ToolContext) -> str:
        with pytest.raises(ToolError, match=told):
            context.announce(event)
        return "done"

    run = LoopRun(responses=CALL, tools=[FunctionTool("work", work)])
    await run.events()
    assert [event.content for event in run.all_of(ToolReturned)] == [(TextBlock("done"),)]
    assert not [event for event in run.so_far() if isinstance(event, Announcement)]


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
