"""A request's own tools, which its client runs. Pure.

Below: fields. Above: request.
"""

from __future__ import annotations

from gateway.agent_api.fields import AgentApiFields
from gateway.messages import JsonObject, ToolSpec
from gateway.protocol.fields import shown_word
from gateway.protocol.tool_fields import function_of, function_spec, is_function


def read_tools(body: AgentApiFields) -> tuple[ToolSpec, ...]:
    """The `tools` of a request, each an object with a `function`, or flat; of two that have one name, the last.
    Problems are noted.
    """
    functions = (tool for tool in body.objects("tools") if is_function(tool, unsaid=True))
    return tuple({(spec := _spec(tool)).name: spec for tool in functions}.values())


def _spec(tool: AgentApiFields) -> ToolSpec:
    spec = function_spec(tool)
    if not _is_usual(spec.input_schema) and (parameters := function_of(tool).inner("parameters")) is not None:
        _check_parameters(parameters)
    return spec


def _is_usual(schema: JsonObject) -> bool:
    """Whether nothing is wrong with it, as with most."""
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("type") not in (None, "object") or not (properties is None or type(properties) is dict):
        return False
    return required is None or (type(required) is list and all(type(name) is str for name in required))


def _check_parameters(parameters: AgentApiFields) -> None:
    """Note parameters that no model can fill in: the arguments of a function are an object."""
    kind = parameters.value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is not None and "object" not in kinds:
        parameters.wrong("type", f"{parameters.called('type')} is {shown_word(kind)}; it must be 'object'")
    parameters.object("properties")
    parameters.strings("required")
