"""A run's options in the words of chat completions.

Source: https://platform.openai.com/docs/api-reference/chat/create (API version 1). What differs between servers and
model families is data in `chat_completions`.
"""

from __future__ import annotations

from functools import cache

from gateway.messages import JsonObject
from gateway.openai.chat_completions import WITHOUT_REASONING, WITHOUT_SAMPLERS, Dialect
from gateway.options.generation import FormatKind, JsonFormat
from gateway.providers.option_table import OptionTable, member

_SAMPLERS = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty", "stop"})
_FORMATS: frozenset[FormatKind] = frozenset({"json_object", "json_schema"})


def _format(form: JsonFormat) -> JsonObject:
    if form.schema is None:
        return {"type": "json_object"}
    described: JsonObject = {"name": form.name, "schema": form.schema}
    if form.description:
        described["description"] = form.description
    if form.strict is not None:
        described["strict"] = form.strict
    return {"type": "json_schema", "json_schema": described}


_MEMBERS = {
    "temperature": member("temperature"),
    "top_p": member("top_p"),
    "top_k": member("top_k"),
    "stop": member("stop"),
    "presence_penalty": member("presence_penalty"),
    "frequency_penalty": member("frequency_penalty"),
    "response_format": member("response_format", value=_format),
    "parallel_calls": member("parallel_tool_calls"),
    "reasoning_effort": member("reasoning_effort", "reasoning.effort"),
}


def chat_options(dialect: Dialect, model_id: str) -> OptionTable:
    """The options that a server takes for one of its models."""
    bare = model_id.lower().rpartition("/")[2]
    return _table(dialect, bool(WITHOUT_SAMPLERS.match(bare)), bool(WITHOUT_REASONING.match(bare)))


@cache
def _table(dialect: Dialect, without_samplers: bool, without_reasoning: bool) -> OptionTable:
    lacks = dialect.lacks
    if without_samplers:
        lacks |= _SAMPLERS
    if without_reasoning:
        lacks |= {"reasoning_effort"}
    others = ("max_tokens", "max_completion_tokens")
    members = {
        **_MEMBERS,
        "seed": member(dialect.seed),
        "max_tokens": member(dialect.token_limit, *(name for name in others if name != dialect.token_limit)),
    }
    return OptionTable(
        {name: places for name, places in members.items() if name not in lacks},
        _FORMATS if dialect.schema_formats else frozenset({"json_object"}),
        frozenset({"one", "any"}),
        dialect.most_stops,
    )
