"""What a model's answer comes to: the events of one response, folded for tests to look at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

from gateway.errors import ModelError
from gateway.events import (
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    ModelCallAccepted,
    ModelCallEnded,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from gateway.messages import JsonValue, MediaBlock, Opaque
from gateway.providers.answer_reader import AnswerReader
from gateway.turns.attempts import TriedStream


@dataclass(slots=True)
class Answer:
    """`blocks` are the ids in the order they opened; `calls` are (id, name, arguments); `kinds` are the events' but for
    the deltas, in their order. `refuses`: whether each text is a refusal. `retracted`: what stands in the place of
    which message. `failure`: the error behind it.
    """

    text: str = ""
    reasoning: str = ""
    blocks: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    opaques: list[Opaque] = field(default_factory=list)
    media: list[MediaBlock] = field(default_factory=list)
    refuses: list[bool] = field(default_factory=list)
    raws: list[JsonValue] = field(default_factory=list)
    retracted: dict[str, str] = field(default_factory=dict)
    usages: list[Usage] = field(default_factory=list)
    end: ModelCallEnded | None = None
    failure: ModelError | None = None
    kinds: list[str] = field(default_factory=list, compare=False)

    @property
    def usage(self) -> Usage | None:
        """The last."""
        return self.usages[-1] if self.usages else None

    @property
    def stop(self) -> StopReason | None:
        return None if self.end is None else self.end.reason

    @property
    def raw_stop(self) -> str | None:
        return None if self.end is None else self.end.raw_reason


def answer_of(events: Iterable[Event]) -> Answer:
    """The fold. Raises AssertionError where the events break the order of triplets, or go on after the end."""
    answer = Answer()
    open_blocks: set[str] = set()
    arguments: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for event in events:
        assert answer.end is None, f"{event} after the end"
        if not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            answer.kinds.append(type(event).__name__)
        match event:
            case TextStarted() | ReasoningStarted():
                open_blocks.add(event.message_id)
                answer.blocks.append(event.message_id)
                if isinstance(event, TextStarted):
                    answer.refuses.append(event.refusal)
            case ToolCallStarted(call_id, name):
                open_blocks.add(call_id)
                answer.blocks.append(call_id)
                names[call_id], arguments[call_id] = name, []
            case TextDelta(message_id, words):
                assert words
                assert message_id in open_blocks
                answer.text += words
            case ReasoningDelta(message_id, words):
                assert words
                assert message_id in open_blocks
                answer.reasoning += words
            case ToolCallDelta(call_id, fragment):
                assert fragment
                assert call_id in open_blocks
                arguments[call_id].append(fragment)
            case TextEnded(message_id, opaque) | ReasoningEnded(message_id, opaque):
                open_blocks.remove(message_id)
                answer.opaques += [opaque] if opaque else []
            case ToolCallEnded(call_id, opaque):
                open_blocks.remove(call_id)
                answer.opaques += [opaque] if opaque else []
                answer.calls.append((call_id, names[call_id], "".join(arguments[call_id])))
            case MediaGiven(message_id, block):
                answer.blocks.append(message_id)
                answer.media.append(block)
            case MessageRetracted(message_id, instead):
                assert message_id not in open_blocks
                answer.retracted[message_id] = instead
            case UsageReported(usage):
                answer.usages.append(usage)
            case ModelCallAccepted():
                assert not answer.blocks, "a response is accepted before it says anything"
            case Raw(value):
                answer.raws.append(value)
            case ModelCallEnded():
                assert not open_blocks
                answer.end = event
            case _:
                raise AssertionError(f"a model gave {event}")
    return answer


def read_to_end(reader: AnswerReader, pieces: Iterable[bytes]) -> tuple[Events, ModelError | None]:
    """All events of an answer that comes in these pieces, and its failure. What is over is not read on."""
    events: Events = []
    for piece in pieces:
        events += reader.feed(piece)
        if reader.done or reader.failure is not None:
            break
    else:
        events += reader.eof()
    assert reader.done == (reader.failure is None)
    return events, reader.failure


async def collect(stream: AsyncGenerator[Events] | TriedStream, into: Events | None = None) -> Events:
    """All events of a stream; `into` has what came even where the stream fails. No batch may be empty."""
    events: Events = [] if into is None else into
    async with aclosing(stream):
        async for batch in stream:
            assert batch
            events += batch
    return events
