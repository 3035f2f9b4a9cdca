"""A run's options as fields of Anthropic's Messages API, and those that thinking excludes.

Source: https://docs.claude.com/en/api/messages (anthropic-version 2023-06-01),
https://docs.claude.com/en/docs/build-with-claude/extended-thinking, https://docs.claude.com/en/docs/build-with-claude/effort
and https://docs.claude.com/en/docs/build-with-claude/structured-outputs. What differs between models is data in
`messages_api`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

from gateway.anthropic.messages_api import Profile
from gateway.messages import JsonObject, JsonValue
from gateway.options.generation import GenerationOptions, JsonFormat, ReasoningEffort
from gateway.providers.option_table import OptionTable, WireMember, member
from gateway.wire.tool_schema import closed_schema

# Tokens for reasoning.
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 24_576}
_LEAST_BUDGET = 1_024
_LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max"}
_SAMPLERS = ("temperature", "top_p", "top_k")


def _at_most_one(temperature: float) -> float:
    return min(temperature, 1.0)


def _not_blank(texts: Sequence[str]) -> JsonValue:
    return [text for text in texts if text.strip()] or None  # a blank one is refused


def _format(form: JsonFormat) -> JsonObject:
    # An object that names its keys has to say that there are no others.
    return {"type": "json_schema", "schema": cast(JsonObject, closed_schema(form.schema or {}))}


def _budget(effort: ReasoningEffort) -> JsonObject:
    return {"type": "disabled"} if effort == "none" else {"type": "enabled", "budget_tokens": _BUDGETS[effort]}


def _adaptive(effort: ReasoningEffort) -> JsonObject:
    return {"type": "disabled" if effort == "none" else "adaptive"}


_BY_BUDGET = member("thinking", value=_budget)
_BY_LEVEL: tuple[WireMember, ...] = (
    *member("thinking", value=_adaptive),
    *member("output_config.effort", value=_LEVELS.get),
)


@cache
def anthropic_options(profile: Profile) -> OptionTable:
    """The options that one family of models accepts. None has a JSON format without a schema."""
    members = {
        "top_k": member("top_k"),
        # The newer models refuse both together; if a request has both, the temperature counts.
        "top_p": member("top_p", excludes=["temperature"]),
        "temperature": member("temperature", excludes=["top_p"], value=_at_most_one),
        "max_tokens": member("max_tokens", value=lambda tokens: min(tokens, profile.max_tokens)),
        "stop": member("stop_sequences", value=_not_blank),
        "response_format": member("output_config.format", "output_format", value=_format),
        "parallel_calls": member("tool_choice.disable_parallel_tool_use", value=lambda parallel: not parallel),
        "reasoning_effort": _BY_LEVEL if profile.effort == "level" else _BY_BUDGET,
    }
    has = {**dict.fromkeys(_SAMPLERS, profile.samplers), "reasoning_effort": bool(profile.effort)}
    has["response_format"] = profile.schema_formats
    return OptionTable(
        {name: places for name, places in members.items() if has.get(name, True)},
        frozenset({"json_schema"} if profile.schema_formats else ()),
        frozenset({"one", "any"}),
    )


def fit_beside_thinking(body: JsonObject, options: GenerationOptions) -> None:
    """Change what would be refused: samplers of a request beside thinking, and thoughts that may take all tokens.

    The operator decides whether the model thinks; a request cannot know, and must not fail for it.
    """
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") == "disabled":
        return
    for name in _SAMPLERS:
        if getattr(options, name) is not None:
            body.pop(name, None)
    budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
    if not isinstance(budget, int) or not isinstance(most, int) or budget < most:
        return
    if most < 2 * _LEAST_BUDGET:
        del body["thinking"]
    else:
        body["thinking"] = {**thinking, "budget_tokens": most // 2}
