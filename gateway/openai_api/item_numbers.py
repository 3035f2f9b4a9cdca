"""The numbers that the items of a run have in its Response, for those who show the run in another form. Pure.

Below: questions, ids. Above: chat_renderer. A question has the same id over both protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.events import (
    Event,
    Interrupt,
    MediaGiven,
    ReasoningStarted,
    TextStarted,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.messages import ToolCall
from gateway.openai_api.ids import item_id
from gateway.openai_api.questions import Question
from gateway.protocol.earlier_calls import EarlierCall

_ITEMS: Final = frozenset({TextStarted, ReasoningStarted, MediaGiven, ToolCallStarted, ToolReturned})


class ItemNumbers:
    """Counts a run's items as its events come."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._count = 0
        self._calls: dict[str, int] = {}

    def follow(self, event: Event) -> None:
        if isinstance(event, TurnRetracted):
            self._count -= len(event.message_ids) + len(event.call_ids)
        if type(event) not in _ITEMS:
            return
        if isinstance(event, ToolCallStarted):
            self._calls[event.call_id] = self._count
        self._count += 1

    def questions(
        self, interrupts: Sequence[Interrupt], made: Mapping[str, ToolCall], earlier: Sequence[EarlierCall]
    ) -> list[Question]:
        """The run's questions, after its last event. `made` are its own calls, `earlier` those that waited before."""
        waiting = {call.call_id: call for call in earlier}
        return [self._question(each, made, waiting) for each in interrupts]

    def _question(
        self, interrupt: Interrupt, made: Mapping[str, ToolCall], waiting: Mapping[str, EarlierCall]
    ) -> Question:
        call_id = interrupt.call_id or ""
        if (number := self._calls.get(call_id)) is not None:
            call = made.get(call_id)
            name, arguments = ("", "") if call is None else (call.name, call.arguments)
            return Question(interrupt, item_id("mcpr", self._run_id, number), name, arguments)
        call_before = waiting.get(call_id)
        known = None if call_before is None else call_before.approval_request_id
        if known is None:
            known = item_id("mcpr", self._run_id, self._count)
            self._count += 1
        if call_before is None:
            return Question(interrupt, known)
        return Question(interrupt, known, call_before.name, call_before.arguments)
