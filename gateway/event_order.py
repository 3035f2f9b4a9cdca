"""The grammar of a run's events as one table, and the sealer that makes every stream follow it.

Below: events. Above: live_run, which passes every batch through one `Sealer` per run.

The rules (those of AG-UI's verifier, and a little more: nothing is reopened, nothing empty, one result per call):

    first                    RunStarted, once
    last                     RunFinished or RunFailed, once; before it everything open is closed
    TextDelta, TextEnded     the text is open
    ReasoningDelta, ...      the reasoning is open
    ToolCallDelta, ...       the call is open
    TextStarted, ...         the message's id is new in this run; a text's may be the id of its calls' message
    ToolCallStarted          the call's id is new in this run; its message is an assistant's
    MediaGiven               the message's id is new in this run
    ToolReturned             the call has no result yet; it may have been made in an earlier run
    MessageRetracted         the text, reasoning or medium belongs to this run; if it is open, it ends first
    TurnRetracted            everything that is open ends first
    StepStarted/StepEnded    the name is not open / open

Events that break a rule are repaired or dropped: content without a start gets one, a reused id gets a fresh one, the
rest is dropped with a warning. A stream that follows the rules passes as the same list, uncopied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from enum import Enum
from typing import Any, Final, TypeVar, get_args

from gateway.events import (
    Deltas,
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
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
    TurnRetracted,
)
from gateway.frozen import replace
from gateway.messages import new_message_id

logger = logging.getLogger(__name__)

NamedT = TypeVar(
    "NamedT",
    TextStarted,
    TextEnded,
    ReasoningStarted,
    ReasoningEnded,
    ToolCallStarted,
    MediaGiven,
    ToolReturned,
    MessageRetracted,
)


_KINDS: Final = frozenset(get_args(Event))


class _Kind(Enum):
    """The kind of message that an id of the run belongs to."""

    ANSWER = "answer"  # a text of the assistant, of which calls may be part
    PARENT = "parent"  # so far only the message of calls: it may still get its text
    WORDS = "words"  # a text of another role
    REASONING = "reasoning"
    MEDIUM = "medium"
    RESULT = "result"


class Sealer:
    """Follows one run from its first event to its terminal event."""

    def __init__(self) -> None:
        self._started = False
        self.sealed = False
        # The open items, by their ids.
        self._texts: dict[str, None] = {}
        self._reasoning: dict[str, None] = {}
        self._calls: dict[str, None] = {}
        self._open: Final[Mapping[type[Event], Container[str]]] = {
            TextDelta: self._texts,
            ReasoningDelta: self._reasoning,
            ToolCallDelta: self._calls,
        }
        self._steps: dict[str, None] = {}
        # The ids of this run and of the thread's messages. A call and a message may share an id, two messages may not.
        self._messages: dict[str, _Kind] = {}
        self._taken: Container[str] = frozenset()
        self._made: set[str] = set()
        self._answered: set[str] = set()
        # Replacements of reused ids; by kind, because an id may stand for an open text and an open reasoning at once.
        self._answers: dict[str, str] = {}  # texts, and the messages that calls are part of
        self._thoughts: dict[str, str] = {}
        self._media: dict[str, str] = {}
        self._reported: frozenset[tuple[str, str]] = frozenset()  # kinds of dropped events that are in the log

    def reserve(self, message_ids: Container[str]) -> None:
        """Set the ids of the thread's messages: a model's new message with one of them gets another id."""
        self._taken = message_ids

    def follow(self, events: Events) -> Events:
        """The events in order: the same list if they already are."""
        for position, event in enumerate(events):
            if (
                isinstance(event, Deltas)
                and event.id in self._open.get(type(event), ())
                and event.texts
                and "" not in event.texts
            ):
                continue
            passed = self._follow_one(event)
            if len(passed) != 1 or passed[0] is not event:
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
        kind = type(event)
        if (rule := _RULES.get(kind)) is not None:
            return rule(self, event)
        if kind in _KINDS:
            return [event]
        raise TypeError(f"a loop yields lists of gateway.events, and not {event!r:.200}")  # it may be foreign code

    def _follow_first(self, event: Event) -> Events:
        if isinstance(event, RunStarted):
            self._started = True
            return [event]
        if isinstance(event, RunFailed):  # a run may fail before it starts
            return self._seal(event)
        return self._drop(event, "the run has not started")

    def _drop_start(self, event: RunStarted) -> Events:
        return self._drop(event, "the run has started")

    def _follow_deltas(self, event: TextDelta | ReasoningDelta | ToolCallDelta) -> Events:
        texts = [*filter(None, event.texts)]
        if not texts or len(texts) < len(event.texts):
            self._drop(event, "it is empty")
        if not texts:
            return []
        name = event.id
        started: TextStarted | ReasoningStarted | None = None
        match event:
            case TextDelta():
                name = self._answers.get(name, name)
                if name not in self._texts:
                    started = self._open_text(TextStarted(event.id), name)
            case ReasoningDelta():
                name = self._thoughts.get(name, name)
                if name not in self._reasoning:
                    started = self._open_reasoning(ReasoningStarted(event.id), name)
            case ToolCallDelta():
                if name not in self._calls:
                    return self._drop(event, "the call is not open")
        if started is not None:
            return [started, event.changed(started.message_id, texts)]
        return [event.changed(name, texts)]

    def _follow_text(self, event: TextStarted | TextEnded) -> Events:
        name = self._answers.get(event.message_id, event.message_id)
        match event:
            case TextStarted():
                if name in self._texts:
                    return self._drop(event, "the text is open")
                return [self._open_text(event, name)]
            case TextEnded():
                if name not in self._texts:
                    return self._drop(event, "the text is not open")
                del self._texts[name]
                return [_named(event, name)]

    def _open_text(self, event: TextStarted, name: str) -> TextStarted:
        if event.role in ("reasoning", "tool"):  # these come by their own events
            event = replace(event, role="assistant")
        kind = _Kind.ANSWER if event.role == "assistant" else _Kind.WORDS
        known = self._kind_of(name)
        if not (known is None or (known is _Kind.PARENT and kind is _Kind.ANSWER)):
            name = self._answers[event.message_id] = new_message_id()
        self._messages[name] = kind
        self._texts[name] = None
        return _named(event, name)

    def _follow_reasoning(self, event: ReasoningStarted | ReasoningEnded) -> Events:
        name = self._thoughts.get(event.message_id, event.message_id)
        match event:
            case ReasoningStarted():
                if name in self._reasoning:
                    return self._drop(event, "the reasoning is open")
                return [self._open_reasoning(event, name)]
            case ReasoningEnded():
                if name not in self._reasoning:
                    return self._drop(event, "the reasoning is not open")
                del self._reasoning[name]
                return [_named(event, name)]

    def _open_reasoning(self, event: ReasoningStarted, name: str) -> ReasoningStarted:
        if self._kind_of(name) is not None:
            name = self._thoughts[event.message_id] = new_message_id()
        self._messages[name] = _Kind.REASONING
        self._reasoning[name] = None
        return _named(event, name)

    def _follow_call(self, event: ToolCallStarted | ToolCallEnded) -> Events:
        match event:
            case ToolCallStarted():
                if event.call_id in self._made or event.call_id in self._answered:
                    return self._drop(event, "the call was made")
                self._made.add(event.call_id)
                self._calls[event.call_id] = None
                return [_named(event, self._parent(event.message_id))]
            case ToolCallEnded():
                if event.call_id not in self._calls:
                    return self._drop(event, "the call is not open")
                del self._calls[event.call_id]
                return [event]

    def _kind_of(self, name: str) -> _Kind | None:
        """The kind of the message; None for a new one."""
        known = self._messages.get(name)
        return _Kind.WORDS if known is None and name in self._taken else known

    def _parent(self, wanted: str) -> str:
        """The id of the assistant message that a call is part of."""
        name = self._answers.get(wanted, wanted)
        known = self._kind_of(name)
        if known is None:
            self._messages[name] = _Kind.PARENT
        elif known not in (_Kind.ANSWER, _Kind.PARENT):
            name = self._answers[wanted] = new_message_id()
            self._messages[name] = _Kind.PARENT
        return name

    def _follow_medium(self, event: MediaGiven) -> Events:
        name = event.message_id
        if self._kind_of(name) is not None:
            name = self._media[name] = new_message_id()
        self._messages[name] = _Kind.MEDIUM
        return [_named(event, name)]

    def _follow_result(self, event: ToolReturned) -> Events:
        if event.call_id in self._answered:
            return self._drop(event, "the call has a result")
        self._answered.add(event.call_id)
        before: Events = []
        if event.call_id in self._calls:  # a result ends its call
            del self._calls[event.call_id]
            before.append(ToolCallEnded(event.call_id))
        name = event.message_id
        # Some clients make a message of a call's own id: the result needs another.
        if self._kind_of(name) is not None or name == event.call_id or name in self._made:
            name = new_message_id()
        self._messages[name] = _Kind.RESULT
        return [*before, _named(event, name)]

    def _follow_retraction(self, event: MessageRetracted) -> Events:
        message_id = event.message_id
        renamed = (names.get(message_id) for names in (self._answers, self._thoughts, self._media))
        name = next(filter(None, renamed), message_id)
        if self._messages.get(name) not in (_Kind.ANSWER, _Kind.REASONING, _Kind.MEDIUM):
            return self._drop(event, "the message was not said in this run")
        before: Events = []
        if name in self._texts:
            del self._texts[name]
            before.append(TextEnded(name))
        if name in self._reasoning:
            del self._reasoning[name]
            before.append(ReasoningEnded(name))
        return [*before, _named(event, name)]

    def _follow_retracted_turn(self, event: TurnRetracted) -> Events:
        return [*self._close_items(), event]

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
        if not (self._texts or self._reasoning or self._calls or self._steps):
            return [terminal]
        closing = [*self._close_items(), *(StepEnded(name) for name in reversed(self._steps))]
        self._steps.clear()
        return [*closing, terminal]

    def _close_items(self) -> Events:
        """Close all texts, reasoning and calls; `follow` passes events of open ones."""
        closing: Events = [TextEnded(name) for name in self._texts]
        closing += [ReasoningEnded(name) for name in self._reasoning]
        closing += [ToolCallEnded(call_id) for call_id in self._calls]
        for still_open in (self._texts, self._reasoning, self._calls):
            still_open.clear()
        return closing

    def _drop(self, event: Event, why: str) -> Events:
        what = (type(event).__name__, why)
        if what not in self._reported:
            self._reported |= {what}
            logger.warning(
                "dropped an event out of order; more like it are dropped without a line",
                extra={"event": what[0], "why": why},
            )
        return []


# The rule for each kind of event that has one. A look-up: a `match` asks for one class after the other.
_RULES: Final[Mapping[type[Event], Callable[[Sealer, Any], Events]]] = {
    RunStarted: Sealer._drop_start,
    **dict.fromkeys((TextStarted, TextEnded), Sealer._follow_text),
    **dict.fromkeys((ReasoningStarted, ReasoningEnded), Sealer._follow_reasoning),
    **dict.fromkeys((ToolCallStarted, ToolCallEnded), Sealer._follow_call),
    **dict.fromkeys((TextDelta, ReasoningDelta, ToolCallDelta), Sealer._follow_deltas),
    MediaGiven: Sealer._follow_medium,
    ToolReturned: Sealer._follow_result,
    MessageRetracted: Sealer._follow_retraction,
    TurnRetracted: Sealer._follow_retracted_turn,
    **dict.fromkeys((StepStarted, StepEnded), Sealer._follow_step),
    **dict.fromkeys((RunFinished, RunFailed), Sealer._seal),
}


def _named(event: NamedT, name: str) -> NamedT:
    return event if event.message_id == name else replace(event, message_id=name)
