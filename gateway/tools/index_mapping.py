"""IndexMappingTool: the fields and settings of indices, as text. Parameters and result are those of ml-commons' tool.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/index-mapping-tool/ (3.x).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.agent import ToolSettings
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.search_engine import Asker, SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.parameters import Names, ToolParameters, given_names, read_parameters, tool_label
from gateway.tool_output import bounded, text_blocks

_DESCRIPTION = (
    "Tell the mappings (which fields there are, and of which type) and the settings of indices. The argument 'index' "
    "is required: the names of the indices. Use it before writing a query for an index."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "index": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'Names of indices, such as ["products"].',
        }
    },
    "required": ["index"],
    "additionalProperties": False,
}


class IndexMappingParameters(ToolParameters):
    """The `parameters` of an IndexMappingTool, which tells the model the fields and settings of indices."""

    index: Names = ()
    """The indices that are described if the model names none."""
    local: bool = False
    """A parameter of ml-commons, without effect here."""


@dataclass(frozen=True, slots=True)
class IndexMappingTool:
    """Tells the model the fields and settings of indices."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: IndexMappingParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        names = given_names(arguments, "index") or self.parameters.index
        if not names:
            raise ToolError("the argument 'index' is missing: the names of the indices to describe")
        found = await self.engine.mapping(names, Asker(context.owner))
        if not found:
            text = f"There were no results searching the index parameter [{','.join(names)}]."
        else:
            text = "\n".join(_description(name, index) for name, index in found.items() if isinstance(index, dict))
        return bounded(text_blocks(text), self.parameters.max_output_characters)


def _description(name: str, index: JsonObject) -> str:
    mappings, settings = index.get("mappings"), index.get("settings")
    lines = [f"index: {name}", "", "mappings:"]
    if isinstance(mappings, dict):
        lines += [f"{key}={_braced(value)}" for key, value in mappings.items()]
    lines += ["", "", "settings:"]
    if isinstance(settings, dict):
        lines += [f"{key}={value}" for key, value in _flat(settings, "")]
    return "\n".join(lines) + "\n"


def _braced(value: JsonValue) -> str:
    """A mapping in ml-commons' notation, which is Java's for maps: `{title={type=text}}`."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key}={_braced(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_braced, value)) + "]"
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case _:
            return str(value)


def _flat(settings: JsonObject, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, _braced(value)


def open_index_mapping(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the search engine of the configuration.

    Raises:
        ConfigurationError: there is no search engine, or the parameters do not fit.
    """
    parameters = read_parameters(settings, IndexMappingParameters)
    engine = environment.search_engine(tool_label(settings))
    schema = {**_SCHEMA, "required": []} if parameters.index else _SCHEMA
    spec = ToolSpec(settings.name or "IndexMappingTool", settings.description or _DESCRIPTION, schema)
    return SingleTool(IndexMappingTool(spec, engine, parameters))


TOOL_TYPE = ToolType("IndexMappingTool", open_index_mapping, from_callers=True, parameters=IndexMappingParameters)
