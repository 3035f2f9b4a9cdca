"""A run's options as members of Gemini's `generationConfig`.

Source: https://ai.google.dev/api/generate-content#generationconfig (v1beta),
https://ai.google.dev/gemini-api/docs/thinking. What differs between models is data in `generate_content`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from gateway.gemini.generate_content import Profile
from gateway.messages import JsonValue
from gateway.providers.option_table import OptionTable, WireMember, member

# As in Google's own OpenAI-compatible endpoint: https://ai.google.dev/gemini-api/docs/openai#thinking
_BUDGETS = {"minimal": 1_024, "low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 24_576}
_LEVELS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high"}

_MEMBERS: Mapping[str, tuple[WireMember, ...]] = MappingProxyType(
    {
        "temperature": member("temperature"),
        "top_p": member("topP", "top_p"),
        "top_k": member("topK", "top_k"),
        "max_tokens": member("maxOutputTokens", "max_output_tokens"),
        "stop": member("stopSequences", "stop_sequences"),
        "seed": member("seed"),
        "response_format": (
            *member(
                "responseMimeType",
                "response_mime_type",
                excludes=["responseSchema", "response_schema"],
                value=lambda form: "application/json",
            ),
            *member("responseJsonSchema", "response_json_schema", value=lambda form: form.schema),
        ),
    }
)
_PENALTIES = {
    "presence_penalty": member("presencePenalty", "presence_penalty"),
    "frequency_penalty": member("frequencyPenalty", "frequency_penalty"),
}
_BUDGET, _LEVEL = "thinkingConfig.thinkingBudget", "thinkingConfig.thinkingLevel"


@cache
def gemini_options(profile: Profile) -> OptionTable:
    """The options that one family of models accepts."""
    members = {**_MEMBERS, **(_PENALTIES if profile.penalties else {})}
    if profile.thinking:
        members["reasoning_effort"] = _effort(profile)
        members["reasoning_summary"] = member("thinkingConfig.includeThoughts", value=lambda summary: True)
    return OptionTable(
        members,
        frozenset({"json_object", "json_schema"}),
        frozenset({"one", "any"}),
        most_stops=5,
        formats_beside_tools=profile.formats_beside_tools,
    )


def _effort(profile: Profile) -> tuple[WireMember, ...]:
    """The two ways to limit reasoning exclude each other."""

    def value(effort: Any) -> JsonValue:
        known: Mapping[str, JsonValue] = _BUDGETS if profile.thinking == "budget" else _LEVELS
        return known.get(effort, profile.least_thinking)

    if profile.thinking == "budget":
        return member(_BUDGET, excludes=[_LEVEL], value=value)
    return member(_LEVEL, excludes=[_BUDGET], value=value)
