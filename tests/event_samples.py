"""Runs of any shape, for property tests: events in any order with few ids, and what the sealer makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gateway.event_order import Sealer
from gateway.events import (
    Cancelled,
    Completed,
    Custom,
    Event,
    Events,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StepEnded,
    StepStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.messages import Base64Source, ImageBlock, Opaque, Role, TextBlock, ToolCall

START = RunStarted("t", "r")
FAILED = RunFailed("code", "message")
OPAQUE = Opaque("provider", "model", "signature", "sig")

# Few ids for everything, so that they collide in every way there is.
ids = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", "yz"])
roles: st.SearchStrategy[Role] = st.sampled_from(["assistant", "assistant", "user", "system", "reasoning", "tool"])
openings = st.one_of(
    st.builds(TextStarted, ids, roles, st.integers(-1, 3), st.booleans()),
    st.builds(ReasoningStarted, ids),
    st.builds(ToolCallStarted, ids, st.just("tool"), ids),
    st.builds(StepStarted, ids),
    st.builds(ModelCallStarted, st.sampled_from(["turn 1", "turn 2"]), st.just("provider"), st.just("model")),
)
contents = st.one_of(
    st.builds(TextDelta, ids, texts),
    st.builds(ReasoningDelta, ids, texts),
    st.builds(ToolCallDelta, ids, texts),
    st.builds(ToolReturned, ids, ids, st.just((TextBlock("result"),))),
    st.builds(MediaGiven, ids, st.just(ImageBlock(Base64Source("aGk=", "image/png")))),
    st.builds(Custom, st.just("custom"), st.integers(0, 3)),
)
endings = st.one_of(
    st.builds(TextEnded, ids, st.sampled_from([None, OPAQUE])),
    st.builds(ReasoningEnded, ids),
    st.builds(ToolCallEnded, ids),
    st.builds(StepEnded, ids),
    st.just(ModelCallEnded(StopReason.END_TURN)),
)
terminals: st.SearchStrategy[Event] = st.sampled_from([FAILED, RunFinished(Completed()), RunFinished(Cancelled())])
middle: st.SearchStrategy[Event] = st.one_of(openings, contents, openings, contents, endings)
retractions = st.builds(MessageRetracted, ids, texts)
anything: st.SearchStrategy[Event] = st.one_of(middle, middle, middle, middle, st.just(START), retractions, terminals)
batches = st.lists(st.lists(anything, max_size=8), max_size=8)
batches_of_a_run = st.lists(st.lists(middle, max_size=12), max_size=6).map(lambda rest: [[START], *rest])

# Whose the calls of these ids are, and whether a person is asked about them.
whose = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.sampled_from([("backend", False), ("backend", True), ("client", False)])
)


def seal(*batches: Events) -> Events:
    """What leaves of a run with these batches, up to its end."""
    sealer = Sealer()
    out = [event for batch in batches for event in sealer.follow(list(batch))]
    if not sealer.sealed:
        out += sealer.follow([FAILED])
    assert sealer.sealed
    return out


def run(said: list[Events], owners: dict[str, Any], *, waits: bool = False) -> list[Event]:
    """What leaves of it, with calls of both sides; at the end those wait that have no result."""
    events: list[Event] = []
    for event in seal(*said):
        if isinstance(event, ToolCallStarted) and event.call_id in owners:
            executor, asks = owners[event.call_id]
            event = replace(event, executor=executor, asks=asks)
        events.append(event)
    if waits:
        events[-1] = waiting(events)
    return events


def waiting(events: list[Event]) -> RunFinished:
    calls = [event for event in events if isinstance(event, ToolCallStarted)]
    pending = [ToolCall(call.call_id, call.name, "{}") for call in calls if call.executor == "client"]
    asked = tuple(Interrupt(f"int-{call.call_id}", "tool_call", "?", call.call_id) for call in calls if call.asks)
    return RunFinished(Interrupted(asked, tuple(pending)) if asked else Completed(tuple(pending)))
