"""A request's own tools, which its client runs, and which of them the model may or must call.

Below: fields. Above: the readers of both protocols' requests. Chat Completions writes a function inside of `function`,
Responses writes it flat; clients of either send both.
https://platform.openai.com/docs/api-reference/chat/create (November 2026),
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.endpoints.fields import shown_word
from gateway.endpoints.tool_fields import function_name, function_of, function_spec, is_function
from gateway.messages import ToolSpec
from gateway.openai_api.fields import OpenAIFields
from gateway.wishes.generation import OneTool, ToolChoice

_CHOICES: Final[Mapping[str, ToolChoice]] = {"auto": "auto", "none": "none", "required": "required"}
_MODES: Final[Mapping[str, ToolChoice]] = {"auto": "auto", "required": "required"}


def read_tools(body: OpenAIFields) -> tuple[ToolSpec, ...]:
    """The `tools` of a request; of two that have one name, the last. What is wrong is noted."""
    specs = (_spec(tool) for tool in body.objects("tools"))
    return tuple({spec.name: spec for spec in specs if spec is not None}.values())


def read_tool_choice(body: OpenAIFields, specs: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """The tools that the model may call, and what `tool_choice` says of them. What is wrong is noted.

    Whether a forced call can be made is known when the run begins.
    """
    choice = body.value.get("tool_choice")
    if not isinstance(choice, dict):
        return specs, body.word("tool_choice", _CHOICES) or "auto"
    fields = body.below("tool_choice", choice)
    kind = choice.get("type")
    if kind == "function":
        return specs, OneTool(function_name(function_of(fields)))
    if kind == "allowed_tools":
        return _allowed(fields, specs)
    fields.wrong("type", f"{fields.called('type')} is {shown_word(kind)}; it must be 'function' or 'allowed_tools'")
    return specs, "auto"


def _spec(tool: OpenAIFields) -> ToolSpec | None:
    if _names_own_tools(tool) or not is_function(tool):
        return None
    return function_spec(tool)


def _names_own_tools(tool: OpenAIFields) -> bool:
    """Whether it stands for tools that the agent has already: it names no server that is to be asked for them.

    openai-agents takes a question about a call of a backend tool only from an agent to which such a tool was given.
    """
    fields = tool.value
    reached = fields.get("server_url") or fields.get("connector_id")
    return fields.get("type") == "mcp" and isinstance(fields.get("server_label"), str) and not reached


def _allowed(fields: OpenAIFields, specs: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """Some of the tools. They stand in `allowed_tools` in Chat Completions."""
    fields = (fields.inner("allowed_tools") if fields.value.get("allowed_tools") is not None else None) or fields
    known, names = {spec.name for spec in specs}, set[str]()
    for tool in fields.objects("tools"):
        if is_function(tool) and (name := function_name(function_of(tool))):
            names.add(name)
            if name not in known:
                at = function_of(tool)
                at.wrong("name", f"{at.called('name')} is {name[:64]!r}, which is none of the tools")
    return tuple(spec for spec in specs if spec.name in names), fields.word("mode", _MODES) or "auto"
