"""The tokens of a run, as ml-commons' answers tell them.

Below: events, usage. Above: execution, chunks. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.events import Event, ModelCallStarted, Usage, UsageReported
from gateway.messages import JsonObject, JsonValue
from gateway.usage import total_usage


@dataclass(slots=True)
class TurnUsage:
    """Collects the tokens of each model call of a run, in order. Of several reports of one call the last counts."""

    turns: list[Usage | None] = field(default_factory=list)

    def follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ModelCallStarted):
                self.turns.append(None)
            elif isinstance(event, UsageReported) and self.turns:
                self.turns[-1] = event.usage


def token_usage(turns: TurnUsage) -> JsonObject:
    """The `token_usage` of an answer: by model, and by model call."""
    reported = [(turn, usage) for turn, usage in enumerate(turns.turns, 1) if usage is not None]
    totals = total_usage(usage for _, usage in reported)
    per_model: list[JsonValue] = []
    for total in totals:
        calls = sum((usage.provider, usage.model) == (total.provider, total.model) for _, usage in reported)
        per_model.append({**_tokens(total), "call_count": calls})
    per_turn: list[JsonValue] = [{"turn": turn, **_tokens(usage)} for turn, usage in reported]
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


def total_metrics(usages: Sequence[Usage]) -> JsonObject:
    """The `total_usage` of an answer of `conversational_v2`."""
    sums = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    cached = written = 0
    for usage in usages:
        sums["inputTokens"] += usage.input_tokens or 0
        sums["outputTokens"] += usage.output_tokens or 0
        cached += usage.cached_input_tokens or 0
        written += usage.cache_write_input_tokens or 0
    sums["totalTokens"] = sums["inputTokens"] + sums["outputTokens"]
    more = {"cacheReadInputTokens": cached, "cacheCreationInputTokens": written}
    return {**sums, **{name: count for name, count in more.items() if count}}
