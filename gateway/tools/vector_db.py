"""VectorDBTool: finds documents by the meaning of a text, by vectors. Parameters and results are ml-commons'.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/vector-db-tool/ (3.x).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from gateway.agent import ToolSettings
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.search_engine import SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.neural_search import PLUGIN, NeuralSearchParameters, neural_spec, search_by_meaning
from gateway.tool_definitions.parameters import read_parameters, tool_label


class VectorDBParameters(NeuralSearchParameters):
    """The `parameters` of a VectorDBTool, which finds documents by the meaning of a text. It needs a cluster with the
    plugin neural-search.
    """

    k: int = Field(default=10, gt=0, le=10_000)
    """How many nearest documents each shard looks for."""


@dataclass(frozen=True, slots=True)
class VectorDBTool:
    """Finds documents by the meaning of a text."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: VectorDBParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        options: JsonObject = {"k": self.parameters.k}
        return await search_by_meaning(self.engine, self.parameters, arguments, context.owner, "neural", options)


def open_vector_db(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the cluster of the configuration.

    Raises:
        ConfigurationError: there is no cluster, or the parameters do not fit.
    """
    parameters = read_parameters(settings, VectorDBParameters)
    engine = environment.search_engine(tool_label(settings), plugin=PLUGIN)
    return SingleTool(VectorDBTool(neural_spec(settings, parameters), engine, parameters))


TOOL_TYPE = ToolType("VectorDBTool", open_vector_db, from_callers=True, parameters=VectorDBParameters)
