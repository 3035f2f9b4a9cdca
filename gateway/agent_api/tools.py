"""A request's own tools, which its client runs. Pure.

Below: fields. Above: request.
"""

from __future__ import annotations

from gateway.agent_api.fields import AgentApiFields
from gateway.endpoints.fields import shown_word
from gateway.endpoints.tool_fields import function_of, function_spec, is_function
from gateway.messages import ToolSpec


def read_tools(body: AgentApiFields) -> tuple[ToolSpec, ...]:
    """The `tools` of a request, each an object with a `function`, or flat; of two that have one name, the last. What is
    wrong is noted.
    """
    specs = [_spec(tool) for tool in body.objects("tools") if is_function(tool, unsaid=True)]
    return tuple({spec.name: spec for spec in specs}.values())


def _spec(tool: AgentApiFields) -> ToolSpec:
    spec = function_spec(tool)
    if spec.input_schema and (parameters := function_of(tool).inner("parameters")) is not None:
        _check_parameters(parameters)
    return spec


def _check_parameters(parameters: AgentApiFields) -> None:
    """Note what no model can call: the arguments of a function are an object."""
    kind = parameters.value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is not None and "object" not in kinds:
        parameters.wrong("type", f"{parameters.called('type')} is {shown_word(kind)}; it must be 'object'")
    parameters.object("properties")
    parameters.strings("required")
