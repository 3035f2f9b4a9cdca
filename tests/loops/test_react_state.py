"""The shared state: what viewers are told when tools change it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import jsonpatch
import pytest

from gateway.events import StateChanged, StateReplaced, ToolReturned
from gateway.messages import JsonObject, JsonValue
from gateway.tool import ToolContext
from tests.loop_runs import FunctionTool, LoopRun


def setter(*states: Any) -> FunctionTool:
    """A tool that makes one state after the other the thread's, one per call; None leaves it alone."""
    pending = list(states)

    async def set_state(arguments: JsonObject, context: ToolContext) -> str:
        state = pending.pop(0)
        if state is not None:
            context.state.replace(state)
        return "ok"

    return FunctionTool("set", set_state)


async def played(states: Sequence[Any], before: JsonValue = None) -> LoopRun:
    responses: list[list[JsonObject]] = [[{"tool": "set", "arguments": {"n": n}}] for n in range(len(states))]
    run = LoopRun(responses=[*responses, [{"text": "done"}]], tools=[setter(*states)], state=before)
    await run.events()
    return run


def client_state(run: LoopRun, before: JsonValue) -> Any:
    """The state of a client that follows the events."""
    state: Any = before
    for event in run.so_far():
        if isinstance(event, StateReplaced):
            state = event.state
        elif isinstance(event, StateChanged):
            state = jsonpatch.apply_patch(state, list(event.patch))
            assert state == event.state
    return state


LONG: dict[str, Any] = {"name": "a long enough state to make a patch worth it " * 3}


async def test_the_first_change_is_whole_and_the_next_ones_are_patches() -> None:
    run = await played([{**LONG, "n": 1}, {**LONG, "n": 2}, {**LONG, "n": 2, "new": True}], LONG)
    kinds = [type(event) for event in run.so_far() if isinstance(event, StateReplaced | StateChanged)]
    assert kinds == [StateReplaced, StateChanged, StateChanged]
    assert client_state(run, None) == {**LONG, "n": 2, "new": True}


async def test_a_change_is_told_before_the_result_of_the_call_that_made_it() -> None:
    run = await played([{"n": 1}])
    kinds = [type(event) for event in run.so_far() if isinstance(event, StateReplaced | ToolReturned)]
    assert kinds == [StateReplaced, ToolReturned]


async def test_a_state_that_stays_the_same_is_not_told() -> None:
    run = await played([{"b": 1, "a": 2}], {"a": 2, "b": 1})
    assert client_state(run, "untouched") == "untouched"


async def test_several_changes_of_one_call_are_told_as_one() -> None:
    async def change(arguments: JsonObject, context: ToolContext) -> str:
        context.state.replace({"n": 1})
        context.state.replace({"n": 2})
        return "ok"

    run = LoopRun(responses=[[{"tool": "change"}], [{"text": "x"}]], tools=[FunctionTool("change", change)])
    await run.events()
    assert [event.state for event in run.all_of(StateReplaced)] == [{"n": 2}]


async def test_a_patch_larger_than_the_state_is_not_sent() -> None:
    run = await played([{"a": 1}, {"b": 2}])
    assert len(run.all_of(StateReplaced)) == 2
    assert run.all_of(StateChanged) == []


@pytest.mark.parametrize(
    "states",
    [
        [{**LONG, "a/b": {"~": 1}}, {**LONG, "a/b": {"~": 2, "~1/": 3}}],
        [{**LONG, "list": [1, 2, 3, 4]}, {**LONG, "list": [4, 3, 2, 1]}, {**LONG, "list": []}],
        [{**LONG, "flags": [1, 0]}, {**LONG, "flags": [True, False]}],
        [{**LONG, "x": None}, LONG],
        [[LONG, 1], [LONG, 2]],
        ["text", 17, None, {"": {"": 1}}],
        [{**LONG, "big": 2**70}, {**LONG, "big": 2**70 + 1}],
        [{**LONG, "deep": {"a": [{"b": [1, {"c": 2}]}]}}, {**LONG, "deep": {"a": [{"b": [{"c": 2}, 1]}]}}],
    ],
)
async def test_a_client_that_follows_the_events_has_the_servers_state(states: list[Any]) -> None:
    run = await played(states, {"start": 1})
    assert repr(client_state(run, {"start": 1})) == repr(run.state.value)


@pytest.mark.parametrize(
    "states",
    [
        [{**LONG, "n": 1}, {**LONG, "n": 1, "__proto__": {"a": 1}}],
        [{**LONG, "x": {"__proto__": {"a": 1}}}, {**LONG, "x": {"__proto__": {"a": 2}}}],
        [{**LONG, "constructor": {"prototype": {"a": 1}}}, {**LONG, "constructor": {"prototype": {"a": 2}}}],
        [{**LONG, "__proto__": [LONG]}, {**LONG, "moved": [LONG]}],
    ],
)
async def test_what_a_browsers_patches_may_not_touch_is_told_whole(states: list[Any]) -> None:
    """HttpAgent would warn, and have another state than the server from then on."""
    run = await played(states, {"start": 1})
    assert [event.state for event in run.all_of(StateReplaced)] == states
    assert run.all_of(StateChanged) == []


async def test_a_name_that_only_looks_like_a_prototype_is_patched() -> None:
    run = await played([{**LONG, "constructor": 1, "prototype": 1}, {**LONG, "constructor": 2, "prototype": 2}])
    assert len(run.all_of(StateChanged)) == 1


async def test_values_without_a_json_form_become_json() -> None:
    run = await played([{"when": datetime.date(2026, 11, 20), "nan": float("nan"), "half": "\ud83d", "set": {1}}])
    assert run.state.value == {"when": "2026-11-20", "nan": None, "half": "�", "set": [1]}
    assert client_state(run, None) == run.state.value


async def test_a_state_that_contains_itself_is_not_taken() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    run = await played([{"n": 1}, loop])
    assert run.state.value == {"n": 1}
    assert len(run.all_of(StateReplaced)) == 1


async def test_the_model_sees_the_state_as_it_is_now() -> None:
    run = await played([{"n": 1}], {"n": 0})
    assert '{"n":0}' in run.requests[0].system
    assert '{"n":1}' in run.requests[1].system


async def test_a_tool_that_fails_after_a_change_has_changed_the_state() -> None:
    async def change(arguments: JsonObject, context: ToolContext) -> str:
        context.state.replace({"n": 1})
        raise ValueError("broken")

    run = LoopRun(responses=[[{"tool": "change"}], [{"text": "x"}]], tools=[FunctionTool("change", change)])
    await run.events()
    assert [event.state for event in run.all_of(StateReplaced)] == [{"n": 1}]
