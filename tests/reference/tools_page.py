"""`docs/reference/tools.md`: every parameter of every type of tool."""

from __future__ import annotations

from typing import Any

from gateway.parts import collect
from gateway.settings import configuration_schema
from gateway.tool import ToolType
from gateway.tool_definitions.parameters import ToolParameters
from tests.reference.markdown import prose, table
from tests.reference.schema_tables import HEADINGS, rows

_INTRODUCTION = """# Parameters of tools

The `parameters` of each type of tool, which stand beside its `type` in
[`agents[].tools[]`](configuration.md#agentstools). [Tools](../tools.md) shows each type at work.
"""
_FROM_CALLERS = "Agents that [callers make](../agents.md) may have such tools, too."
_OF_OPERATORS = "Only agents of the configuration file may have such tools."


def tools_page() -> str:
    """The page's text."""
    schema: Any = configuration_schema()
    text = [_INTRODUCTION]
    for name, tool in sorted(collect("tools", ToolType).items()):
        assert tool.parameters is not None, name
        section = schema["$defs"][tool.parameters.__name__]
        who = _FROM_CALLERS if tool.from_callers else _OF_OPERATORS
        introduced = f"{prose(section['description'])} {who}"
        own = {key: field for key, field in section["properties"].items() if key not in ToolParameters.model_fields}
        section = {**section, "properties": {**own, **section["properties"]}}
        text.append(f"## {name}\n\n{introduced}\n\n{table(HEADINGS, rows(section, lambda name: name))}")
    return "\n".join(text)
