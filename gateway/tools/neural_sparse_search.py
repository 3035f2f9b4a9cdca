"""NeuralSparseSearchTool: finds documents by the meaning of a text, by sparse vectors. Parameters and results are
ml-commons'.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/neural-sparse-tool/ (3.x).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.agent import ToolSettings
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.search_engine import SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.neural_search import PLUGIN, NeuralSearchParameters, neural_spec, search_by_meaning
from gateway.tool_definitions.parameters import read_parameters, tool_label


class NeuralSparseSearchParameters(NeuralSearchParameters):
    """The `parameters` of a NeuralSparseSearchTool, which finds documents by the meaning of a text. It needs a cluster
    with the plugin neural-search.
    """


@dataclass(frozen=True, slots=True)
class NeuralSparseSearchTool:
    """Finds documents by the meaning of a text."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: NeuralSparseSearchParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        options: JsonObject = {}
        return await search_by_meaning(self.engine, self.parameters, arguments, context.owner, "neural_sparse", options)


def open_neural_sparse_search(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the cluster of the configuration.

    Raises:
        ConfigurationError: there is no cluster, or the parameters do not fit.
    """
    parameters = read_parameters(settings, NeuralSparseSearchParameters)
    engine = environment.search_engine(tool_label(settings), plugin=PLUGIN)
    return SingleTool(NeuralSparseSearchTool(neural_spec(settings, parameters), engine, parameters))


TOOL_TYPE = ToolType(
    "NeuralSparseSearchTool", open_neural_sparse_search, from_callers=True, parameters=NeuralSparseSearchParameters
)
