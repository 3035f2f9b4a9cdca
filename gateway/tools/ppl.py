"""PPLTool: reads an index by a query in PPL, which the calling model writes. Results are those of ml-commons' tool.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/ppl-tool/ (3.x). There another model
makes a query of a question; here the agent's own does, which sees the query's errors and can correct it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from gateway.agent import ToolSettings
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.search_engine import Asker, SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.parameters import ToolParameters, read_parameters, tool_label
from gateway.tool_output import bounded, json_text, text_blocks

_PLUGIN = "opensearch-sql"
_DESCRIPTION = (
    "Read an index by a query in PPL, OpenSearch's Piped Processing Language. The argument 'ppl' is the query. It "
    "begins with its source, and goes on with commands such as where, fields, stats, sort and head: source = {source} "
    "| where price > 5 | stats avg(price) by author | head 10. {more}"
)
_ANY_SOURCE = "ListIndexTool tells which indices there are, IndexMappingTool which fields they have."
_ONE_SOURCE = "There is no other source."
_WITHOUT_EFFECT = "A parameter of ml-commons, without effect here: the model that calls the tool writes the query."


class PplParameters(ToolParameters):
    """The `parameters` of a PPLTool, by which the model reads indices in PPL. It needs a cluster with the plugin
    opensearch-sql.
    """

    index: str | None = None
    """The only source that queries may have; if absent, any index that may be searched."""
    head: int = Field(default=-1, ge=-1)
    """The most rows of a result; -1: as many as the cluster gives."""
    execute: bool = True
    """Run the query. false: only give it back, as the tool's result."""
    model_id: str | None = Field(default=None, description=_WITHOUT_EFFECT)
    model_type: str | None = Field(default=None, description=_WITHOUT_EFFECT)
    prompt: str | None = Field(default=None, description=_WITHOUT_EFFECT)


@dataclass(frozen=True, slots=True)
class PplTool:
    """Reads an index by a query of the model."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: PplParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        parameters, query = self.parameters, arguments.get("ppl")
        if not isinstance(query, str) or not query.strip():
            raise ToolError("the argument 'ppl' is missing: a query such as 'source = books | head 10'")
        if parameters.head > 0:
            query = f"{query.rstrip().rstrip('|')} | head {parameters.head}"
        result: JsonObject = {"ppl": query}
        if parameters.execute:
            found = await self.engine.ppl(query, parameters.index, Asker(context.owner))
            result["executionResult"] = json_text(found)
        return bounded(text_blocks(json_text(result)), parameters.max_output_characters)


def open_ppl(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the cluster of the configuration.

    Raises:
        ConfigurationError: there is no cluster, or the parameters do not fit.
    """
    parameters = read_parameters(settings, PplParameters)
    engine = environment.search_engine(tool_label(settings), plugin=_PLUGIN)
    source = parameters.index or "books"
    usual = _DESCRIPTION.format(source=source, more=_ANY_SOURCE if parameters.index is None else _ONE_SOURCE)
    schema: JsonObject = {
        "type": "object",
        "properties": {"ppl": {"type": "string", "description": f"The query: source = {source} | ..."}},
        "required": ["ppl"],
        "additionalProperties": False,
    }
    return SingleTool(
        PplTool(ToolSpec(settings.name or "PPLTool", settings.description or usual, schema), engine, parameters)
    )


TOOL_TYPE = ToolType("PPLTool", open_ppl, from_callers=True, parameters=PplParameters)
