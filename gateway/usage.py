"""Adds up the tokens of a run's model calls, per provider and model.

Below: events. Above: transcript, and through it the loop (budgets, the run's end) and live_run (runs that fail).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from gateway.events import Event, ModelCallEnded, ModelCallStarted, Usage, UsageReported
from gateway.messages import JsonObject, JsonValue

USAGE_EVENT: Final = "token_usage"
"""The name of the Custom event whose value is `token_usage`, see agent.AgentDefinition."""


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


# The events that a ledger counts by.
OF_USAGE = frozenset({UsageReported, ModelCallStarted, ModelCallEnded})


class UsageLedger:
    """Adds up a run's usage while its events come. Of several reports of one model call the last counts."""

    def __init__(self) -> None:
        self._calls: list[Usage] = []
        self._turns: list[int] = []  # the number of each of these calls, from 1
        self._turn = 0
        self._open: Usage | None = None

    def follow(self, events: Iterable[Event]) -> None:
        for event in events:
            kind = type(event)
            if kind is UsageReported:
                self._open = cast(UsageReported, event).usage
            elif kind is ModelCallStarted:
                self._close_call()
                self._turn += 1
            elif kind is ModelCallEnded:
                self._close_call()

    @property
    def total(self) -> tuple[Usage, ...]:
        """As `total_usage`, including the call that is under way."""
        return total_usage(self._calls if self._open is None else [*self._calls, self._open])

    @property
    def by_turn(self) -> list[tuple[int, Usage]]:
        """The model calls that reported something, each with its number, from 1."""
        told = [*zip(self._turns, self._calls, strict=True)]
        return told if self._open is None else [*told, (self._turn, self._open)]

    @property
    def total_tokens(self) -> int:
        """The tokens of all models together; counts that were not reported are 0."""
        return sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in self.total)

    def _close_call(self) -> None:
        if self._open is not None:
            self._calls.append(self._open)
            self._turns.append(self._turn)
            self._open = None


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


def token_usage(by_turn: Sequence[tuple[int, Usage]]) -> JsonObject:
    """The tokens of a run by model, and by model call, in the form of ml-commons' event for them."""
    totals = total_usage(usage for _, usage in by_turn)
    per_model: list[JsonValue] = []
    for total in totals:
        calls = sum((usage.provider, usage.model) == (total.provider, total.model) for _, usage in by_turn)
        per_model.append({**_tokens(total), "call_count": calls})
    per_turn: list[JsonValue] = [{"turn": turn, **_tokens(usage)} for turn, usage in by_turn]
    return {"per_model_usage": per_model, "per_turn_usage": per_turn}


def _tokens(usage: Usage) -> JsonObject:
    counts: dict[str, int | None] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "cache_creation_input_tokens": usage.cache_write_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    said: JsonObject = {name: count for name, count in counts.items() if count is not None}
    return {"model_name": usage.model, "model_id": usage.model, "model_provider": usage.provider, **said}
