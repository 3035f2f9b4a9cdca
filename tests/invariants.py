"""The invariants that hold for every run whatever fails, as functions over a run's numbered events.

    check_log(log)                     I1 to I5: what the log alone says
    check_thread(log, messages)        I6, I8: the log and the thread it went into
    check_replay(live, replayed)       I7
    check_history(messages)            I9
    check_nothing_leaks(text, secrets) I10

Each raises AssertionError with the invariant's number. Nothing here uses the code under test but its vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gateway.events import (
    Cancelled,
    Event,
    Interrupted,
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
from gateway.messages import Message, ReasoningBlock, TextBlock, ToolCall
from gateway.store import NumberedEvent

Log = Sequence[NumberedEvent]
Terminal = RunFinished | RunFailed


def check_log(log: Log, *, backend_tools: Collection[str] | None = None) -> None:
    """I1 to I5 of a run that has ended. With the names of the backend tools, their calls are counted too."""
    one_start_first(log)
    one_terminal_last(log)
    everything_closed(log)
    at_most_one_result(log)
    if backend_tools is not None:
        backend_calls_answered(log, backend_tools)
    numbers_without_gaps(log)


def check_thread(log: Log, messages: Sequence[Message]) -> None:
    """I6 and I8: what the events said is what the thread has, under the same ids. `messages`: the thread's."""
    deltas_make_messages(log, messages)
    ids_agree(log, messages)


def one_start_first(log: Log) -> None:
    """I1: exactly one RunStarted, and it is first. A run that failed before it began has none."""
    events = _events(log)
    if len(events) == 1 and isinstance(events[0], RunFailed):
        return
    assert events, "I1: the log is empty"
    assert isinstance(events[0], RunStarted), f"I1: the log begins with {events[0]!r}"
    assert _count(events, RunStarted) == 1, "I1: the run starts twice"


def one_terminal_last(log: Log) -> None:
    """I2: exactly one terminal event, and nothing after it."""
    events = _events(log)
    assert events, "I2: the log is empty"
    assert isinstance(events[-1], RunFinished | RunFailed), f"I2: the log ends with {events[-1]!r}"
    assert _count(events, RunFinished) + _count(events, RunFailed) == 1, "I2: there is more than one terminal event"


def everything_closed(log: Log) -> None:
    """I3: every start has its end before the terminal event, and every delta lies between the two."""
    still_open: set[tuple[str, str]] = set()
    for event in _events(log):
        match event:
            case TextStarted() | ReasoningStarted() | ToolCallStarted() | StepStarted():
                entity = _entity(event)
                assert entity not in still_open, f"I3: started while open: {event!r}"
                still_open.add(entity)
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                assert _entity(event) in still_open, f"I3: a delta of nothing open: {event!r}"
            case TextEnded() | ReasoningEnded() | ToolCallEnded() | StepEnded():
                entity = _entity(event)
                assert entity in still_open, f"I3: the end of nothing open: {event!r}"
                still_open.discard(entity)
            case _:
                pass
    assert not still_open, f"I3: open at the end: {sorted(still_open)}"


def at_most_one_result(log: Log) -> None:
    """I4, first half: no call has two results."""
    call_ids = [event.call_id for event in _events(log) if isinstance(event, ToolReturned)]
    assert len(set(call_ids)) == len(call_ids), f"I4: a call has two results: {call_ids}"


def backend_calls_answered(log: Log, backend_tools: Collection[str]) -> None:
    """I4, second half: each call of a backend tool has a result, unless the run ended before it, asks about it, or took
    it back.
    """
    events = _events(log)
    terminal = events[-1]
    if not isinstance(terminal, RunFinished) or isinstance(terminal.outcome, Cancelled):
        return
    interrupts = terminal.outcome.interrupts if isinstance(terminal.outcome, Interrupted) else ()
    asked = {interrupt.call_id for interrupt in interrupts}
    answered = {event.call_id for event in events if isinstance(event, ToolReturned)}
    assert answered.isdisjoint(_retracted(events)), "I4: a call that was taken back has a result"
    answered |= _retracted(events)
    for event in events:
        if isinstance(event, ToolCallStarted) and event.name in backend_tools and event.call_id not in asked:
            assert event.call_id in answered, f"I4: a backend call has no result: {event!r}"


def numbers_without_gaps(log: Log, first: int = 1) -> None:
    """I5: the numbers go up by one from `first`."""
    numbers = [row.sequence for row in log]
    assert numbers == list(range(first, first + len(numbers))), f"I5: the numbers have a gap or repeat: {numbers}"


def deltas_make_messages(log: Log, messages: Iterable[Message]) -> None:
    """I6: the deltas of each text, reasoning and call, one after the other, are what the thread has of it."""
    said: dict[tuple[str, str], str] = {}
    for event in _events(log):
        match event:
            case TextStarted() | ReasoningStarted() | ToolCallStarted():
                said[_entity(event)] = ""
            case TextDelta(text=text) | ReasoningDelta(text=text) | ToolCallDelta(arguments=text):
                said[_entity(event)] += text
            case MessageRetracted(message_id=message_id, text=text):
                (entity,) = (kind for kind in (("text", message_id), ("reasoning", message_id)) if kind in said)
                assert said[entity] == "", f"I6: the log still has the words that were taken back of {entity}"
                said[entity] = text
            case TurnRetracted(message_ids=message_ids, call_ids=call_ids):
                for message_id in message_ids:
                    (entity,) = (kind for kind in (("text", message_id), ("reasoning", message_id)) if kind in said)
                    del said[entity]
                for call_id in call_ids:
                    del said["call", call_id]
            case _:
                pass
    kept = _kept(messages)
    for entity, text in said.items():
        assert entity in kept, f"I6: the thread lacks {entity}"
        assert kept[entity] == text, f"I6: the thread has {kept[entity]!r} of {entity}, the events say {text!r}"


def check_replay(live: Log, replayed: Log) -> None:
    """I7: what a viewer saw live is what the log gives from the same number on."""
    if live:
        start = live[0].sequence
        assert list(live) == [row for row in replayed if row.sequence >= start], (
            "I7: the replay differs from the stream"
        )


def ids_agree(log: Log, messages: Iterable[Message]) -> None:
    """I8: the message ids of the stream are the thread's, each once."""
    ids = [message.id for message in messages]
    assert len(set(ids)) == len(ids), f"I8: an id stands twice in the thread: {ids}"
    retracted = _retracted(_events(log))
    for event in _events(log):
        if isinstance(event, ToolCallStarted) and event.call_id in retracted:
            continue
        if isinstance(event, TextStarted | ReasoningStarted) and event.message_id in retracted:
            assert event.message_id not in ids, f"I8: the thread has {event.message_id!r}, which was taken back"
        elif isinstance(event, TextStarted | ReasoningStarted | ToolCallStarted | ToolReturned):
            assert event.message_id in ids, f"I8: the thread has no message {event.message_id!r}"


def check_history(messages: Sequence[Message]) -> None:
    """I9: every provider accepts this: after an answer with calls one tool message per call, in call order, at once."""
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            result = message.tool_result
            assert result is not None, f"I9: a tool message without a result: {message!r}"
            assert len(message.content) == 1, f"I9: a tool message with more than its result: {message!r}"
            assert waiting, f"I9: an orphan or late result: {message!r}"
            assert result.call_id == waiting.pop(0), f"I9: a result out of order: {message!r}"
            continue
        assert not waiting, f"I9: calls without results: {waiting}, then {message!r}"
        assert message.role != "reasoning", f"I9: reasoning stands alone: {message!r}"
        if message.role == "assistant":
            _check_answer(message)
            for call in message.tool_calls:
                assert call.call_id not in seen, f"I9: a call stands twice: {call!r}"
                seen.add(call.call_id)
                waiting.append(call.call_id)
    assert not waiting, f"I9: calls without results: {waiting}"


def check_nothing_leaks(output: str | bytes, secrets: Iterable[str] = ()) -> None:
    """I10: no secret, no traceback and no Python class name in what left the process."""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    for secret in secrets:
        assert secret not in text, "I10: a secret leaked"
    for sign in ("Traceback (most recent call last)", 'File "/', "site-packages", "object at 0x"):
        assert sign not in text, f"I10: {sign!r} leaked"


def _check_answer(message: Message) -> None:
    said = [block for block in message.content if not isinstance(block, ReasoningBlock)]
    assert said, f"I9: an answer without words or calls: {message!r}"
    for block in said:
        blank = isinstance(block, TextBlock) and not block.text.strip() and block.opaque is None
        assert not blank, f"I9: an answer with a blank text: {message!r}"
    places = [block.index for block in message.content if isinstance(block, TextBlock | ReasoningBlock | ToolCall)]
    if message.turn_id is not None and len(places) == len(message.content) and min(places) >= 0:
        assert places == sorted(places), f"I9: blocks are not in the order they were made: {places}"


def _events(log: Log) -> list[Event]:
    return [row.event for row in log]


def _retracted(events: Iterable[Event]) -> set[str]:
    """The ids of the messages and calls of the answers that the run took back."""
    turns = [event for event in events if isinstance(event, TurnRetracted)]
    return {each for turn in turns for each in (*turn.message_ids, *turn.call_ids)}


def _count(events: Iterable[Event], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


def _entity(event: Event) -> tuple[str, str]:
    match event:
        case TextStarted() | TextDelta() | TextEnded():
            return "text", event.message_id
        case ReasoningStarted() | ReasoningDelta() | ReasoningEnded():
            return "reasoning", event.message_id
        case ToolCallStarted() | ToolCallDelta() | ToolCallEnded():
            return "call", event.call_id
        case StepStarted() | StepEnded():
            return "step", event.name
        case _:
            raise TypeError(f"{event!r} is part of nothing")


def _kept(messages: Iterable[Message]) -> dict[tuple[str, str], str]:
    kept: dict[tuple[str, str], str] = {}
    for message in messages:
        for block in message.content:
            match block:
                case TextBlock(text=text):
                    kept["text", message.id] = text
                case ReasoningBlock(text=text):
                    kept["reasoning", message.id] = text
                case ToolCall(call_id=call_id, arguments=arguments):
                    kept["call", call_id] = arguments
                case _:
                    pass
    return kept
