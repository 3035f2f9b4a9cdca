"""The grammar of a run's events as one table, and the sealer that makes every stream follow it.

Below: events. Above: the runner, which lets every batch pass through one `Sealer` per run.

The rules (what AG-UI's verifier asks, and a little more: nothing is reopened, nothing empty, one result per call):

    first                    RunStarted, once
    last                     RunFinished or RunFailed, once; before it everything open is closed
    TextDelta, TextEnded     the text is open
    ReasoningDelta, ...      the reasoning is open
    ToolCallDelta, ...       the call is open
    TextStarted, ...         the id is new in this run
    ToolReturned             the call has no result yet
    StepStarted/StepEnded    the name is not open / open

What breaks a rule never leaves: content without a start gets one, a reused id gets a fresh one, the rest is dropped
with a warning. A stream that follows the rules passes as the very list it came in.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TypeVar

from gateway.events import (
    Event,
    Events,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StepEnded,
    StepStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
)
from gateway.messages import new_id

logger = logging.getLogger(__name__)

NamedT = TypeVar("NamedT", TextStarted, TextDelta, TextEnded, ReasoningStarted, ReasoningDelta, ReasoningEnded)


class Sealer:
    """Follows one run from its first event to its terminal one."""

    def __init__(self) -> None:
        self._started = False
        self.sealed = False
        self._texts: dict[str, None] = {}
        self._reasoning: dict[str, None] = {}
        self._calls: dict[str, None] = {}
        self._steps: dict[str, None] = {}
        self._kinds: dict[str, str] = {}  # every id of this run: text, reasoning, parent (of calls), call, result
        self._answered: set[str] = set()
        self._renamed: dict[str, str] = {}

    def follow(self, events: Events) -> Events:
        """The events as they may leave: the same list where all are in order."""
        texts = self._texts
        for position, event in enumerate(events):
            kind = type(event)
            if kind is TextDelta and event.message_id in texts and event.text:  # type: ignore[union-attr]
                continue
            if kind is ToolCallDelta and event.call_id in self._calls and event.arguments:  # type: ignore[union-attr]
                continue
            if kind is ReasoningDelta and event.message_id in self._reasoning and event.text:  # type: ignore[union-attr]
                continue
            if (passed := self._follow_one(event)) != [event]:
                return self._rewrite(events, position, passed)
        return events

    def _rewrite(self, events: Events, position: int, passed: Events) -> Events:
        rewritten = [*events[:position], *passed]
        for event in events[position + 1 :]:
            rewritten += self._follow_one(event)
        return rewritten

    def _follow_one(self, event: Event) -> Events:
        if self.sealed:
            return self._drop(event, "it comes after the run's end")
        if not self._started:
            return self._follow_first(event)
        match event:
            case RunStarted():
                return self._drop(event, "the run has started")
            case TextStarted() | TextDelta() | TextEnded():
                return self._follow_text(event)
            case ReasoningStarted() | ReasoningDelta() | ReasoningEnded():
                return self._follow_reasoning(event)
            case ToolCallStarted() | ToolCallDelta() | ToolCallEnded():
                return self._follow_call(event)
            case ToolReturned():
                return self._follow_result(event)
            case StepStarted() | StepEnded():
                return self._follow_step(event)
            case RunFinished() | RunFailed():
                return self._seal(event)
            case _:
                return [event]

    def _follow_first(self, event: Event) -> Events:
        if isinstance(event, RunStarted):
            self._started = True
            return [event]
        if isinstance(event, RunFailed):  # a run may fail before it starts
            return self._seal(event)
        return self._drop(event, "the run has not started")

    def _follow_text(self, event: TextStarted | TextDelta | TextEnded) -> Events:
        name = self._renamed.get(event.message_id, event.message_id)
        match event:
            case TextStarted():
                if name in self._texts:
                    return self._drop(event, "the text is open")
                name = self._fresh(event.message_id, "text", "msg")
                self._texts[name] = None
                return [_named(event, name)]
            case TextDelta():
                if not event.text:
                    return self._drop(event, "it is empty")
                if name in self._texts:
                    return [_named(event, name)]
                name = self._fresh(event.message_id, "text", "msg")
                self._texts[name] = None
                return [TextStarted(name), TextDelta(name, event.text)]
            case TextEnded():
                if name not in self._texts:
                    return self._drop(event, "the text is not open")
                self._texts.pop(name, None)
                return [_named(event, name)]

    def _follow_reasoning(self, event: ReasoningStarted | ReasoningDelta | ReasoningEnded) -> Events:
        name = self._renamed.get(event.message_id, event.message_id)
        match event:
            case ReasoningStarted():
                if name in self._reasoning:
                    return self._drop(event, "the reasoning is open")
                name = self._fresh(event.message_id, "reasoning", "rsn")
                self._reasoning[name] = None
                return [_named(event, name)]
            case ReasoningDelta():
                if not event.text:
                    return self._drop(event, "it is empty")
                if name in self._reasoning:
                    return [_named(event, name)]
                name = self._fresh(event.message_id, "reasoning", "rsn")
                self._reasoning[name] = None
                return [ReasoningStarted(name), ReasoningDelta(name, event.text)]
            case ReasoningEnded():
                if name not in self._reasoning:
                    return self._drop(event, "the reasoning is not open")
                self._reasoning.pop(name, None)
                return [_named(event, name)]

    def _follow_call(self, event: ToolCallStarted | ToolCallDelta | ToolCallEnded) -> Events:
        match event:
            case ToolCallStarted():
                if event.call_id in self._kinds:
                    return self._drop(event, "the call was made")
                self._kinds[event.call_id] = "call"
                self._calls[event.call_id] = None
                name = self._parent(event.message_id)
                return [event if name == event.message_id else replace(event, message_id=name)]
            case ToolCallDelta():
                if event.call_id not in self._calls or not event.arguments:
                    return self._drop(event, "the call is not open, or it is empty")
                return [event]
            case ToolCallEnded():
                if event.call_id not in self._calls:
                    return self._drop(event, "the call is not open")
                self._calls.pop(event.call_id, None)
                return [event]

    def _follow_result(self, event: ToolReturned) -> Events:
        if event.call_id in self._answered:
            return self._drop(event, "the call has a result")
        self._answered.add(event.call_id)
        before: Events = []
        if event.call_id in self._calls:  # a result ends its call
            self._calls.pop(event.call_id, None)
            before.append(ToolCallEnded(event.call_id))
        name = self._fresh(event.message_id, "result", "msg")
        return [*before, event if name == event.message_id else replace(event, message_id=name)]

    def _follow_step(self, event: StepStarted | StepEnded) -> Events:
        is_open = event.name in self._steps
        if isinstance(event, StepStarted) == is_open:
            return self._drop(event, "the step is open" if is_open else "the step is not open")
        if is_open:
            del self._steps[event.name]
        else:
            self._steps[event.name] = None
        return [event]

    def _seal(self, terminal: Event) -> Events:
        self.sealed = True
        closing: list[Event] = [TextEnded(name) for name in self._texts]
        closing += [ReasoningEnded(name) for name in self._reasoning]
        closing += [ToolCallEnded(call_id) for call_id in self._calls]
        closing += [StepEnded(name) for name in reversed(self._steps)]
        return [*closing, terminal]

    def _fresh(self, wanted: str, kind: str, prefix: str) -> str:
        """`wanted` where no message of the run has that id, else a fresh id that stands for it from now on."""
        known = self._kinds.get(wanted)
        if known is None or (known == "parent" and kind == "text"):
            name = wanted
        else:
            name = self._renamed[wanted] = new_id(prefix)
        self._kinds[name] = kind
        return name

    def _parent(self, wanted: str) -> str:
        """The id of the assistant message that a call is part of."""
        name = self._renamed.get(wanted, wanted)
        known = self._kinds.get(name)
        if known is None:
            self._kinds[name] = "parent"
        elif known not in ("text", "parent"):
            name = self._renamed[wanted] = new_id("msg")
            self._kinds[name] = "parent"
        return name

    def _drop(self, event: Event, why: str) -> Events:
        logger.warning("dropped an event out of order", extra={"event": type(event).__name__, "why": why})
        return []


def _named(event: NamedT, name: str) -> NamedT:
    return event if event.message_id == name else replace(event, message_id=name)
