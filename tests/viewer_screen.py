"""What a viewer has on its screen after what it was told: the way AG-UI clients build it, over canonical events.

Two viewers that were told different things (all events; or a prelude and the rest) must have the same in the end. The
order of messages is not compared: a client adds what was open when it joined behind what was closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gateway.events import (
    Event,
    MediaGiven,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    StateChanged,
    StateReplaced,
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
from gateway.messages import ContentBlock, JsonValue, Message, ReasoningBlock
from gateway.transcript import OpenItems


@dataclass
class Screen:
    """`texts` by message id, `calls` as (message id, name, arguments) by call id, `results` by call id."""

    texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    results: dict[str, tuple[str, object]] = field(default_factory=dict)
    media: dict[str, ContentBlock] = field(default_factory=dict)
    open: set[tuple[str, str]] = field(default_factory=set)
    state: JsonValue = None

    def show(self, messages: Sequence[Message], open_items: OpenItems) -> None:
        """Take a prelude in: the closed messages, then what is open as its start and one delta."""
        for message in messages:
            if (result := message.tool_result) is not None:
                self.results[result.call_id] = (message.id, (result.content, result.is_error))
                continue
            reasoning = "".join(block.text for block in message.content if isinstance(block, ReasoningBlock))
            if message.is_medium:
                self.media[message.id] = message.content[0]
                continue
            self.texts[message.id] = (message.role, message.text + reasoning)
            for call in message.tool_calls:
                assert call.call_id not in self.calls, "the snapshot has a call twice"
                self.calls[call.call_id] = (message.id, call.name, call.arguments)
        self.follow(_opening_events(open_items))

    def follow(self, events: Iterable[Event]) -> None:
        """Take events in."""
        for event in events:
            self._follow_one(event)

    def _follow_one(self, event: Event) -> None:
        match event:
            case TextStarted():
                self._open("text", event.message_id)
                self.texts.setdefault(event.message_id, (event.role, ""))
            case ReasoningStarted():
                self._open("reasoning", event.message_id)
                self.texts.setdefault(event.message_id, ("reasoning", ""))
            case ToolCallStarted():
                self._open("call", event.call_id)
                assert event.call_id not in self.calls, "the viewer gets a call twice"
                self.texts.setdefault(event.message_id, ("assistant", ""))
                self.calls[event.call_id] = (event.message_id, event.name, "")
            case StepStarted():
                self._open("step", event.name)
            case TextDelta(message_id=message_id, text=text) | ReasoningDelta(message_id=message_id, text=text):
                kind = "text" if isinstance(event, TextDelta) else "reasoning"
                assert (kind, message_id) in self.open, f"content of nothing open: {event!r}"
                role, so_far = self.texts[message_id]
                self.texts[message_id] = (role, so_far + text)
            case ToolCallDelta():
                assert ("call", event.call_id) in self.open, f"content of nothing open: {event!r}"
                parent, name, so_far = self.calls[event.call_id]
                self.calls[event.call_id] = (parent, name, so_far + event.arguments)
            case TextEnded():
                self.open.remove(("text", event.message_id))
            case ReasoningEnded():
                self.open.remove(("reasoning", event.message_id))
            case ToolCallEnded():
                self.open.remove(("call", event.call_id))
            case StepEnded():
                self.open.remove(("step", event.name))
            case MediaGiven():
                assert event.message_id not in self.media, "the viewer gets a medium twice"
                self.media[event.message_id] = event.block
            case ToolReturned():
                assert event.call_id not in self.results, "the viewer gets a result twice"
                self.results[event.call_id] = (event.message_id, (event.content, event.is_error))
            case StateReplaced() | StateChanged():
                self.state = event.state
            case _:
                pass

    def _open(self, kind: str, name: str) -> None:
        assert (kind, name) not in self.open, f"the viewer gets the start of {kind} {name!r} twice"
        self.open.add((kind, name))


def _opening_events(items: OpenItems) -> list[Event]:
    events: list[Event] = [StepStarted(name) for name in items.steps]
    for reasoning in items.reasoning:
        events += [ReasoningStarted(reasoning.message_id), ReasoningDelta(reasoning.message_id, reasoning.text)]
    for text in items.texts:
        events += [TextStarted(text.message_id, text.role), TextDelta(text.message_id, text.text)]
    for call in items.calls:
        events += [
            ToolCallStarted(call.call_id, call.name, call.message_id),
            ToolCallDelta(call.call_id, call.arguments),
        ]
        if call.ended:
            events.append(ToolCallEnded(call.call_id))
    return events
