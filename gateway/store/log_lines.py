"""What the lines of a run's log say, as every store reads them.

Below: runs, records. Above: the stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from gateway.events import Event, MediaGiven, ReasoningDelta, TextDelta, count_of, sliced
from gateway.messages import NO_DATA
from gateway.records import decode_events, encode_events
from gateway.store.runs import NumberedEvent


def numbered_events(first: int, lines: bytes, at: float | None, after: int) -> Iterator[NumberedEvent]:
    """The events of lines that were stored together (see EventRecords) and begin with number `first`; those up to
    number `after` are left out.
    """
    number = first
    for event in decode_events(lines):
        for unknown in sliced([event], after + 1 - number):
            yield NumberedEvent(max(number, after + 1), unknown, at)
        number += count_of((event,))


def without_words(lines: bytes, message_ids: Collection[str]) -> bytes:
    """The lines without the text of these messages' deltas, and without their media. The events keep their numbers."""
    events = list(decode_events(lines))
    erased = [_without_words(event, message_ids) for event in events]
    return lines if erased == events else encode_events(erased).lines


def _without_words(event: Event, message_ids: Collection[str]) -> Event:
    if isinstance(event, TextDelta | ReasoningDelta) and event.id in message_ids:
        return event.changed(event.id, [""] * len(event.texts))
    if isinstance(event, MediaGiven) and event.message_id in message_ids:
        return replace(event, block=type(event.block)(NO_DATA))
    return event
