"""A run's options in the words of the Responses API, which has no `stop`, no seed, no penalties and no top_k.

Source: https://platform.openai.com/docs/api-reference/responses/create (API version 1).
"""

from __future__ import annotations

from functools import cache

from gateway.messages import JsonObject
from gateway.openai.responses import Profile
from gateway.options.generation import JsonFormat
from gateway.providers.option_table import OptionTable, member


def _format(form: JsonFormat) -> JsonObject:
    if form.schema is None:
        return {"type": "json_object"}
    # Not strict unless somebody asks for it: the default is true, which most schemas do not fit.
    strict = bool(form.strict)
    described: JsonObject = {"type": "json_schema", "name": form.name, "schema": form.schema, "strict": strict}
    if form.description:
        described["description"] = form.description
    return described


_MEMBERS = {
    "max_tokens": member("max_output_tokens"),
    "response_format": member("text.format", value=_format),
    "parallel_calls": member("parallel_tool_calls"),
}
_SAMPLERS = {"temperature": member("temperature"), "top_p": member("top_p")}
_REASONING = {"reasoning_effort": member("reasoning.effort"), "reasoning_summary": member("reasoning.summary")}


@cache
def responses_options(profile: Profile) -> OptionTable:
    """The options that a server takes for one of its model families."""
    members = {**_MEMBERS, **(_SAMPLERS if profile.samplers else {}), **(_REASONING if profile.reasons else {})}
    return OptionTable(members, frozenset({"json_object", "json_schema"}), frozenset({"one", "any"}))
