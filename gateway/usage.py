"""Adds up the tokens of a run's model calls, per provider and model.

Below: events. Above: transcript, and through it the loop (budgets, the run's end) and live_run (runs that fail).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from gateway.events import Event, ModelCallEnded, ModelCallStarted, Usage, UsageReported


def total_usage(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """One Usage per provider and model, in the order of their first calls. Counts that no call reported stay None."""
    totals: dict[tuple[str, str], Usage] = {}
    for usage in usages:
        key = (usage.provider, usage.model)
        totals[key] = add_usage(totals[key], usage) if key in totals else usage
    return tuple(totals.values())


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum of both, with the first one's names. Counts that neither reported stay None."""
    return Usage(
        one.provider,
        one.model,
        _sum(one.input_tokens, other.input_tokens),
        _sum(one.output_tokens, other.output_tokens),
        _sum(one.reasoning_tokens, other.reasoning_tokens),
        _sum(one.cached_input_tokens, other.cached_input_tokens),
        _sum(one.cache_write_input_tokens, other.cache_write_input_tokens),
    )


# The others change nothing in a ledger.
OF_USAGE = frozenset({UsageReported, ModelCallStarted, ModelCallEnded})


class UsageLedger:
    """Adds up a run's usage while its events come. Of several reports of one model call the last counts."""

    def __init__(self) -> None:
        self._calls: list[Usage] = []
        self._open: Usage | None = None

    def follow(self, events: Iterable[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is UsageReported:
                self._open = cast(UsageReported, event).usage
            elif kind is ModelCallStarted or kind is ModelCallEnded:
                self._close_call()

    @property
    def total(self) -> tuple[Usage, ...]:
        """As `total_usage`, including the call that is under way."""
        return total_usage(self._calls if self._open is None else [*self._calls, self._open])

    @property
    def total_tokens(self) -> int:
        """Of all models together; counts that were not reported are 0."""
        return sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in self.total)

    def _close_call(self) -> None:
        if self._open is not None:
            self._calls.append(self._open)
            self._open = None


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other
