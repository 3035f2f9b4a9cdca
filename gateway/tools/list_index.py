"""ListIndexTool: the indices there are, as a table. Parameters and result are those of ml-commons' tool.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/list-index-tool/ (3.x).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from gateway.agent import ToolSettings
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.search_engine import Asker, SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.parameters import Names, ToolParameters, given_names, read_parameters, tool_label
from gateway.tool_output import bounded, text_blocks

_DESCRIPTION = (
    "List the indices that can be searched, as CSV: for each its health, status, name (column 'index'), uuid, number "
    "of shards and replicas, number of documents and size. The argument 'indices' picks some by name; without it "
    "all are listed."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "indices": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'Names of indices, such as ["products"]; empty for all.',
        }
    },
    "additionalProperties": False,
}
_COLUMNS = {
    "health": "health",
    "status": "status",
    "index": "index",
    "uuid": "uuid",
    "pri": "pri(number of primary shards)",
    "rep": "rep(number of replica shards)",
    "docs.count": "docs.count(number of available documents)",
    "docs.deleted": "docs.deleted(number of deleted documents)",
    "store.size": "store.size(store size of primary and replica shards)",
    "pri.store.size": "pri.store.size(store size of primary shards)",
}


class ListIndexParameters(ToolParameters):
    """The `parameters` of a ListIndexTool, which tells the model which indices there are."""

    indices: Names = ()
    """The indices that are listed if the model names none."""
    local: bool = False
    """A parameter of ml-commons, without effect here."""
    include_unloaded_segments: bool = False
    """A parameter of ml-commons, without effect here."""
    page_size: int = Field(default=100, gt=0)
    """A parameter of ml-commons, without effect here."""


@dataclass(frozen=True, slots=True)
class ListIndexTool:
    """Tells the model which indices there are, as a table."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: ListIndexParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        names = given_names(arguments, "indices") or self.parameters.indices
        rows = await self.engine.list_indices(names, Asker(context.owner))
        if not rows:
            text = f"There were no results searching the indices parameter [{','.join(names)}]."
        else:
            text = _table(rows)
        return bounded(text_blocks(text), self.parameters.max_output_characters)


def _table(rows: Iterable[JsonObject]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["row", *_COLUMNS.values()])
    for number, row in enumerate(rows, 1):
        table.writerow([number, *(row.get(column, "") for column in _COLUMNS)])
    return out.getvalue()


def open_list_index(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the search engine of the configuration.

    Raises:
        ConfigurationError: there is no search engine, or the parameters do not fit.
    """
    parameters = read_parameters(settings, ListIndexParameters)
    engine = environment.search_engine(tool_label(settings))
    spec = ToolSpec(settings.name or "ListIndexTool", settings.description or _DESCRIPTION, _SCHEMA)
    return SingleTool(ListIndexTool(spec, engine, parameters))


TOOL_TYPE = ToolType("ListIndexTool", open_list_index, from_callers=True, parameters=ListIndexParameters)
