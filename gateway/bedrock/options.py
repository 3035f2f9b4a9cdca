"""A run's options as fields of ConverseStream, and those that Claude's thinking excludes.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html. What differs between models is data in
`families`. Converse has no seed and no penalties, and cannot forbid parallel calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from gateway.bedrock.families import Family
from gateway.messages import JsonObject
from gateway.options.generation import GenerationOptions, JsonFormat, ReasoningEffort
from gateway.providers.option_table import OptionTable, WireMember, member
from gateway.wire import strict_json
from gateway.wire.tool_schema import closed_schema

_MORE = "additionalModelRequestFields"
_NESTED = ("inferenceConfig", "inference_config")
# Tokens for reasoning.
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 24_576}
_LEAST_BUDGET = 1_024
_LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max"}


def _inference(*spellings: str) -> tuple[str, ...]:
    """All names of a member of `inferenceConfig`; the last of `spellings` is its own."""
    return (*spellings, *(f"{nested}.{spellings[-1]}" for nested in _NESTED))


def _format(form: JsonFormat) -> JsonObject:
    # An object that names its keys has to say that there are no others.
    schema = strict_json.dump(closed_schema(form.schema or {})).decode()
    described: JsonObject = {"schema": schema, "name": form.name}
    if form.description:
        described["description"] = form.description
    return {"type": "json_schema", "structure": {"jsonSchema": described}}


def _budget(effort: ReasoningEffort) -> JsonObject:
    return {"type": "disabled"} if effort == "none" else {"type": "enabled", "budget_tokens": _BUDGETS[effort]}


def _adaptive(effort: ReasoningEffort) -> JsonObject:
    return {"type": "disabled" if effort == "none" else "adaptive"}


_THINKING = ("thinking", f"{_MORE}.thinking", "additional_model_request_fields.thinking")
_EFFORTS: Mapping[str, tuple[WireMember, ...]] = MappingProxyType(
    {
        "budget": member(*_THINKING, value=_budget),
        "level": (
            *member(*_THINKING, value=_adaptive),
            *member("outputConfig.effort", "output_config.effort", value=_LEVELS.get),
        ),
        "field": member("reasoning_effort", f"{_MORE}.reasoning_effort"),
    }
)
_TEMPERATURE = _inference("temperature")
_TOP_P = _inference("top_p", "topP")
_TOP_K = ("top_k", f"{_MORE}.top_k", "additional_model_request_fields.top_k")


@cache
def converse_options(family: Family) -> OptionTable:
    """The options that one family accepts."""
    members = {
        "max_tokens": member(*_inference("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens")),
        "stop": member(
            *_inference("stop", "stop_sequences", "stopSequences"),
            value=lambda texts: [text for text in texts if text.strip() or family.blank_stops] or None,
        ),
    }
    if family.samplers:
        # If the two exclude each other and a request has both, the temperature counts.
        one = family.one_sampler
        members["top_p"] = member(*_TOP_P, excludes=_TEMPERATURE if one else ())
        members["temperature"] = member(*_TEMPERATURE, excludes=_TOP_P if one else (), value=lambda t: min(t, 1.0))
        if family.top_k:
            members["top_k"] = member(*_TOP_K)
    if family.schema_formats:
        members["response_format"] = member("outputConfig.textFormat", "output_config.textFormat", value=_format)
    if family.effort:
        members["reasoning_effort"] = _EFFORTS[family.effort]
    return OptionTable(
        members,
        frozenset({"json_schema"} if family.schema_formats else ()),
        frozenset({"one", "any"} if family.forced_tool else ()),
        most_stops=2_500,
    )


def fit_beside_thinking(fields: dict[str, object], options: GenerationOptions) -> None:
    """Change what Claude would refuse: samplers of a request beside thinking, and thoughts that may take all tokens.

    `fields` are those of the request. The operator decides whether the model thinks; a request
    cannot know, and must not fail for it.
    """
    more, inference = _mapping(fields.get(_MORE)), _mapping(fields.get("inferenceConfig"))
    thinking = more.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") == "disabled":
        return
    for option, place, name in (
        ("temperature", inference, "temperature"),
        ("top_p", inference, "topP"),
        ("top_k", more, "top_k"),
    ):
        if getattr(options, option) is not None:
            place.pop(name, None)
    budget, most = thinking.get("budget_tokens"), inference.get("maxTokens")
    if isinstance(budget, int) and isinstance(most, int) and budget >= most:
        if most < 2 * _LEAST_BUDGET:
            del more["thinking"]
        else:
            more["thinking"] = {**thinking, "budget_tokens": most // 2}
    for name, changed in ((_MORE, more), ("inferenceConfig", inference)):
        fields.pop(name, None)
        if changed:
            fields[name] = changed


def _mapping(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}
