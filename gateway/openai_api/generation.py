"""How the model is to answer, as requests of both protocols say it.

Below: fields. Above: the readers of both protocols' requests. Members that a protocol does not have mean the same in
it: clients mix them.
https://platform.openai.com/docs/api-reference/chat/create (November 2026),
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from gateway.openai_api.fields import OpenAIFields
from gateway.options.generation import (
    GenerationOptions,
    JsonFormat,
    ReasoningEffort,
    ReasoningSummary,
)

_EFFORTS: Final[Mapping[str, ReasoningEffort]] = {**{each: each for each in get_args(ReasoningEffort)}, "max": "xhigh"}
_SUMMARIES: Final[Mapping[str, ReasoningSummary]] = {each: each for each in get_args(ReasoningSummary)}
_FORMATS: Final[Mapping[str, str]] = {each: each for each in ("text", "json_object", "json_schema")}


def read_generation(body: OpenAIFields) -> GenerationOptions:
    """The samplers, limits and formats of a request's body. Problems are noted."""
    reasoning = body.inner("reasoning")
    of_output, of_completion = body.number("max_output_tokens", least=1), body.number("max_completion_tokens", least=1)
    most = body.number("max_tokens", least=1)
    return GenerationOptions(
        temperature=body.real("temperature", 0, 2),
        top_p=body.real("top_p", 0, 1),
        # OpenAI has none, but servers that speak its API do: there 0 and -1 stand for no limit
        top_k=max(body.number("top_k", least=-1) or 0, 0) or None,
        max_tokens=of_output or of_completion or most,
        stop=body.string_or_strings("stop"),
        seed=body.long("seed"),
        presence_penalty=body.real("presence_penalty", -2, 2),
        frequency_penalty=body.real("frequency_penalty", -2, 2),
        response_format=_format(body),
        parallel_calls=body.boolean("parallel_tool_calls"),
        reasoning_effort=_effort(body, reasoning),
        reasoning_summary=None if reasoning is None else _summary(reasoning),
    )


def _effort(body: OpenAIFields, reasoning: OpenAIFields | None) -> ReasoningEffort | None:
    said = body.word("reasoning_effort", _EFFORTS)
    return said if reasoning is None else reasoning.word("effort", _EFFORTS) or said


def _summary(reasoning: OpenAIFields) -> ReasoningSummary | None:
    return reasoning.word("summary", _SUMMARIES) or reasoning.word("generate_summary", _SUMMARIES)


def _format(body: OpenAIFields) -> JsonFormat | None:
    """`response_format` of Chat Completions, whose schema is in `json_schema`; `text.format` of Responses is flat."""
    form, text = body.inner("response_format"), body.inner("text")
    if form is None and text is not None:
        form = text.inner("format")
    if form is None:
        return None
    kind = form.word("type", _FORMATS)
    if form.value.get("type") is None:
        form.wrong("type", f"{form.called('type')} is missing; it must be one of {', '.join(_FORMATS)}")
    if kind == "json_object":
        return JsonFormat()
    if kind != "json_schema":
        return None
    inside = (form.inner("json_schema") if form.value.get("json_schema") is not None else None) or form
    schema = inside.object("schema")
    if inside.value.get("schema") is None:
        inside.wrong("schema", f"{inside.called('schema')} is missing; it must be a JSON Schema")
    return JsonFormat(
        schema,
        inside.text("name") or "answer",
        inside.text("description") or "",
        inside.boolean("strict"),
    )
