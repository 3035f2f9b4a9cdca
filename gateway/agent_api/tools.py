"""A request's own tools, which its client runs. Pure.

Below: fields. Above: request.
"""

from __future__ import annotations

from gateway.agent_api.fields import AgentApiFields
from gateway.endpoints.tool_fields import function_spec, is_function
from gateway.messages import ToolSpec


def read_tools(body: AgentApiFields) -> tuple[ToolSpec, ...]:
    """The `tools` of a request, each an object with a `function`, or flat; of two that have one name, the last. What is
    wrong is noted.
    """
    specs = [function_spec(tool) for tool in body.objects("tools") if is_function(tool, unsaid=True)]
    return tuple({spec.name: spec for spec in specs}.values())
