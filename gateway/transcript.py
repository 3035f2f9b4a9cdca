"""Folds a run's events into the messages they add, their usage, and the state they leave.

Below: events, messages, usage. Above: the loop, which continues from it; live_run, which shows it to viewers that join
late; endings, which ends a run from its log. Each has a fold of its own, because they see different events: the loop
sees the model's own; a live run the sealer's, which may have other ids; the log is read if neither is there. A
non-streaming answer uses this fold too, so the two always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from gateway.agent import ABSENT, Absent
from gateway.events import (
    Custom,
    Deltas,
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningEnded,
    ReasoningStarted,
    StateChanged,
    StateReplaced,
    StepEnded,
    StepStarted,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.messages import (
    ContentBlock,
    JsonValue,
    MediaBlock,
    Message,
    Opaque,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
)
from gateway.usage import OF_USAGE, UsageLedger

_OF_STATE = frozenset({StateReplaced, StateChanged})


class OpenText(NamedTuple):
    """An unfinished text, with all of it so far."""

    message_id: str
    role: Role
    text: str


class OpenReasoning(NamedTuple):
    """Unfinished reasoning, with all of it so far."""

    message_id: str
    text: str


class OpenCall(NamedTuple):
    """A call that is not in the closed messages, with its arguments so far.

    `ended`: only the text of its message is unfinished; the call's end was seen and will not come again.
    """

    call_id: str
    name: str
    message_id: str
    arguments: str
    ended: bool


class OpenItems(NamedTuple):
    """The unfinished items at one moment of a run, in the order in which they began."""

    steps: tuple[str, ...] = ()
    texts: tuple[OpenText, ...] = ()
    reasoning: tuple[OpenReasoning, ...] = ()
    calls: tuple[OpenCall, ...] = ()


@dataclass(slots=True)
class _Call:
    started: ToolCallStarted
    parts: list[str] = field(default_factory=list)
    ended: bool = False
    opaque: Opaque | None = None

    def build(self) -> ToolCall:
        start = self.started
        arguments = "".join(self.parts)
        return ToolCall(start.call_id, start.name, arguments, start.index, self.opaque, start.provider_call_id)


@dataclass(slots=True)
class _Entry:
    """A message as it grows. `parts` is None for an assistant message that has only calls so far."""

    id: str
    role: Role
    turn_id: str
    index: int = -1
    parts: list[str] | None = None
    ended: bool = True
    opaque: Opaque | None = None
    refusal: bool = False
    medium: MediaBlock | None = None
    calls: list[_Call] = field(default_factory=list)
    result: ToolResult | None = None

    def build(self, incomplete: bool, calls: Sequence[_Call]) -> Message:
        content: list[ContentBlock] = []
        if self.role == "reasoning":
            content.append(ReasoningBlock("".join(self.parts or ()), self.index, self.opaque))
        elif self.parts is not None:
            content.append(TextBlock("".join(self.parts), self.index, self.opaque, self.refusal))
        elif self.medium is not None:
            content.append(self.medium)
        if calls:
            content.extend([call.build() for call in calls])
        if self.result is not None:
            content.append(self.result)
        return Message(self.id, self.role, tuple(content), turn_id=self.turn_id, incomplete=incomplete)


class Transcript:
    """Follows the events of one run, which are in order (event_order), and builds the messages they add.

    `added_bytes`: how many bytes of text, reasoning and arguments the last `follow` brought.
    """

    def __init__(self, call_turns: Mapping[str, str] | None = None) -> None:
        """`call_turns`: the turns of earlier runs' calls, by call id, whose results may come in this run."""
        self._entries: dict[str, _Entry] = {}
        self._calls: dict[str, _Call] = {}
        self._call_turns: dict[str, str] = dict(call_turns or {})
        self._steps: dict[str, None] = {}
        self._open_turn: str | None = None
        self._unended_turns: set[str] = set()
        self._retracted: frozenset[str] = frozenset()
        self._gone: frozenset[str] = frozenset()  # messages of retracted turns
        self.added_bytes = 0

    def follow(self, events: Sequence[Event]) -> Sequence[Event]:
        """Follow the next events. Returns those that are not deltas, which callers may want to check."""
        rare: Events = []
        added = 0
        for event in events:
            if isinstance(event, Deltas):
                texts = event.texts
                parts = (self._calls[event.id] if type(event) is ToolCallDelta else self._entries[event.id]).parts
                assert parts is not None, "it has begun"
                parts += texts
                text = "".join(texts)
                added += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
            else:
                self._add(event)
                rare.append(event)
        self.added_bytes = added
        return rare

    @property
    def retracted(self) -> frozenset[str]:
        """The ids of retracted messages."""
        return self._retracted

    @property
    def made(self) -> frozenset[str]:
        """The ids of all messages of the run, also of those that went with their turn."""
        return self._gone.union(self._entries)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far, in order. Those of an unfinished answer are `incomplete`."""
        if not (entries := self._entries):
            return ()
        unended = self._unended_turns
        return tuple(
            [entry.build(entry.role != "tool" and entry.turn_id in unended, entry.calls) for entry in entries.values()]
        )

    def closed_messages(self) -> tuple[Message, ...]:
        """The messages that will not change any more; of an assistant message whose text is over, the ended calls."""
        closed: list[Message] = []
        for entry in self._entries.values():
            calls = [call for call in entry.calls if call.ended]
            if entry.ended and (entry.parts is not None or entry.medium or calls or entry.result is not None):
                closed.append(entry.build(False, calls))
        return tuple(closed)

    def open_items(self) -> OpenItems:
        """The items that `closed_messages` leaves out."""
        texts: list[OpenText] = []
        reasoning: list[OpenReasoning] = []
        calls: list[OpenCall] = []
        for entry in self._entries.values():
            if not entry.ended:
                text = "".join(entry.parts or ())
                if entry.role == "reasoning":
                    reasoning.append(OpenReasoning(entry.id, text))
                else:
                    texts.append(OpenText(entry.id, entry.role, text))
            for call in entry.calls:
                if not (call.ended and entry.ended):
                    start = call.started
                    calls.append(OpenCall(start.call_id, start.name, entry.id, "".join(call.parts), call.ended))
        return OpenItems(tuple(self._steps), tuple(texts), tuple(reasoning), tuple(calls))

    # --- the events that add to the messages, see _RULES

    def _add(self, event: Event) -> None:
        if (rule := _RULES.get(type(event))) is not None:
            rule(self, event)

    def _begin_turn(self, event: ModelCallStarted) -> None:
        self._open_turn = event.turn_id
        self._unended_turns.add(event.turn_id)

    def _end_turn(self, event: ModelCallEnded) -> None:
        self._unended_turns.discard(self._open_turn or "")
        self._open_turn = None

    def _begin_text(self, event: TextStarted) -> None:
        entry = self._entry(event.message_id, event.role)
        entry.parts, entry.ended, entry.index = [], False, event.index
        entry.refusal = event.refusal

    def _begin_reasoning(self, event: ReasoningStarted) -> None:
        entry = self._entry(event.message_id, "reasoning")
        entry.parts, entry.ended, entry.index = [], False, event.index

    def _end_words(self, event: TextEnded | ReasoningEnded) -> None:
        entry = self._entries[event.message_id]
        entry.ended, entry.opaque = True, event.opaque

    def _add_medium(self, event: MediaGiven) -> None:
        self._entry(event.message_id, "assistant").medium = event.block

    def _retract(self, event: MessageRetracted) -> None:
        entry = self._entries[event.message_id]
        entry.parts, entry.opaque, entry.medium = [event.text], None, None
        self._retracted |= {event.message_id}

    def _retract_turn(self, event: TurnRetracted) -> None:
        gone = {id for id, entry in self._entries.items() if entry.turn_id == event.turn_id}
        for message_id in gone:
            del self._entries[message_id]
        self._gone |= gone
        self._unended_turns.discard(event.turn_id)
        self._open_turn = None

    def _begin_call(self, event: ToolCallStarted) -> None:
        call = self._calls[event.call_id] = _Call(event)
        entry = self._entry(event.message_id, "assistant")
        entry.calls.append(call)
        self._call_turns[event.call_id] = entry.turn_id

    def _end_call(self, event: ToolCallEnded) -> None:
        call = self._calls[event.call_id]
        call.ended, call.opaque = True, event.opaque

    def _add_result(self, event: ToolReturned) -> None:
        # A result belongs to the answer that made the call, even if that was in an earlier run (an approval).
        turn_id = self._call_turns.get(event.call_id) or f"turn_{event.message_id}"
        result = ToolResult(event.call_id, event.content, event.is_error)
        self._entries[event.message_id] = _Entry(event.message_id, "tool", turn_id, result=result)

    def _begin_step(self, event: StepStarted) -> None:
        self._steps[event.name] = None

    def _end_step(self, event: StepEnded) -> None:
        self._steps.pop(event.name, None)

    def _entry(self, message_id: str, role: Role) -> _Entry:
        entry = self._entries.get(message_id)
        if entry is None:
            # A message outside of model calls is a turn of its own: without a turn it would pass for a client's.
            turn_id = self._open_turn or f"turn_{message_id}"
            entry = self._entries[message_id] = _Entry(message_id, role, turn_id)
        return entry


# The effect of each kind of event on a transcript. A look-up: a `match` asks for one class after the other.
_RULES: Final[Mapping[type[Event], Callable[[Transcript, Any], None]]] = {
    ModelCallStarted: Transcript._begin_turn,
    ModelCallEnded: Transcript._end_turn,
    TextStarted: Transcript._begin_text,
    TextEnded: Transcript._end_words,
    ReasoningStarted: Transcript._begin_reasoning,
    ReasoningEnded: Transcript._end_words,
    MediaGiven: Transcript._add_medium,
    MessageRetracted: Transcript._retract,
    TurnRetracted: Transcript._retract_turn,
    ToolCallStarted: Transcript._begin_call,
    ToolCallEnded: Transcript._end_call,
    ToolReturned: Transcript._add_result,
    StepStarted: Transcript._begin_step,
    StepEnded: Transcript._end_step,
}


class RunFold(Transcript):
    """Follows one run: its transcript, its usage, and its state, which is ABSENT until there is one. `has_custom`: the
    run has Custom events.
    """

    def __init__(self, call_turns: Mapping[str, str] | None = None, state: JsonValue | Absent = ABSENT) -> None:
        """`call_turns` as in Transcript; `state` is the state before the run."""
        super().__init__(call_turns)
        self.usage = UsageLedger()
        self.state = state
        self.has_custom = False

    def _add(self, event: Event) -> None:
        super()._add(event)
        kind = type(event)
        if kind in OF_USAGE:
            self.usage.follow((event,))
        elif kind in _OF_STATE:
            self.state = cast(StateReplaced, event).state
        elif kind is Custom:
            self.has_custom = True
