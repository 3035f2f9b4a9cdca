"""Events with each piece of a text, reasoning or call as an event of its own: so they are counted, whoever cut them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.events import Deltas, Event, MediaGiven, ToolCallDelta
from gateway.messages import NO_DATA
from gateway.store import NumberedEvent


def pieces(events: Iterable[Event]) -> list[Event]:
    """The events, a piece each."""
    cut: list[Event] = []
    for event in events:
        if isinstance(event, Deltas):
            cut += [event.changed(event.id, [text]) for text in event.texts]
        else:
            cut.append(event)
    return cut


def rows_of_pieces(rows: Iterable[NumberedEvent]) -> list[NumberedEvent]:
    """The numbered events, a piece each."""
    return [
        NumberedEvent(number, event, row.at)
        for row in rows
        for number, event in enumerate(pieces([row.event]), row.sequence)
    ]


def erased(events: Iterable[Event], message_ids: Iterable[str] | None = None) -> list[Event]:
    """The events as the log has them once these messages (None: all) were taken back: without words and media."""
    taken_back = None if message_ids is None else set(message_ids)
    return [_erased(event) if taken_back is None or _name(event) in taken_back else event for event in events]


def _name(event: Event) -> str:
    return event.id if isinstance(event, Deltas) else getattr(event, "message_id", "")


def _erased(event: Event) -> Event:
    if isinstance(event, Deltas) and not isinstance(event, ToolCallDelta):
        return event.changed(event.id, [""] * len(event.texts))
    return replace(event, block=type(event.block)(NO_DATA)) if isinstance(event, MediaGiven) else event
