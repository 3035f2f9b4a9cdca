"""What VectorDBTool and NeuralSparseSearchTool have in common: a search by meaning, which the cluster's plugin
neural-search does with a model of ml-commons.

Above: the two tools. Below: hits, parameters.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from gateway.agent import ToolSettings
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.search_engine import Asker, SearchEngine
from gateway.tool_definitions.hits import hit_lines
from gateway.tool_definitions.parameters import Names, ToolParameters
from gateway.tool_output import bounded, text_blocks

PLUGIN: Final = "neural-search"
_DESCRIPTION: Final = (
    "Find the documents of {place} whose meaning is nearest to a text. The argument 'input' is the text, such as a "
    "question. Gives one JSON object per line for each document found, the best first."
)
_NOTHING = "Can not get any match from search result."


class NeuralSearchParameters(ToolParameters):
    """The parameters that both tools have."""

    model_id: str = Field(min_length=1)
    """The id of the model in the cluster that makes the embeddings."""
    embedding_field: str = Field(min_length=1)
    """The field that has the documents' embeddings."""
    index: str | None = None
    """The index to search; if absent, the model names one."""
    source_field: Names = ()
    """The fields of the documents that the model is shown; if empty, all."""
    doc_size: int = Field(default=2, gt=0, le=1_000)
    """How many documents are found at most."""
    nested_path: str | None = None
    """The nested object that the embedding field is in, if it is in one."""


def neural_spec(settings: ToolSettings, parameters: NeuralSearchParameters) -> ToolSpec:
    """The tool as the model sees it."""
    description = settings.description or _description_of(parameters)
    return ToolSpec(settings.name or settings.type, description, _schema_of(parameters))


async def search_by_meaning(
    engine: SearchEngine,
    parameters: NeuralSearchParameters,
    arguments: JsonObject,
    owner: str,
    clause: str,
    options: JsonObject,
) -> tuple[ContentBlock, ...]:
    """The tool's result. `clause` is the query's name, `options` are its own beside those that both tools have.

    Raises:
        ToolError: an argument is missing, or the search failed.
    """
    text, index = _text_and_index(parameters, arguments)
    body = _search_body(parameters, clause, {"query_text": text, **options})
    response = await engine.search(index, body, Asker(owner))
    return bounded(text_blocks(_shown(response)), parameters.max_output_characters)


def _schema_of(parameters: NeuralSearchParameters) -> JsonObject:
    """The schema of the arguments: the text, and the index if none is given."""
    properties: JsonObject = {"input": {"type": "string", "description": "The text to search for."}}
    if parameters.index is None:
        properties["index"] = {"type": "string", "description": "The name of the index to search."}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _description_of(parameters: NeuralSearchParameters) -> str:
    """What the model is told of a tool without a description of its own."""
    return _DESCRIPTION.format(place="an index" if parameters.index is None else f"the index {parameters.index!r}")


def _text_and_index(parameters: NeuralSearchParameters, arguments: JsonObject) -> tuple[str, str]:
    """What to look for, and where. Raises ToolError: an argument is missing."""
    text, index = arguments.get("input"), parameters.index or arguments.get("index")
    if not isinstance(text, str) or not text.strip():
        raise ToolError("[input] is null or empty, can not process it.")
    if not isinstance(index, str) or not index:
        raise ToolError("the argument 'index' is missing: the name of the index to search")
    return text, index


def _search_body(parameters: NeuralSearchParameters, clause: str, options: JsonObject) -> JsonObject:
    """The body of a search by that clause."""
    query: JsonValue = {clause: {parameters.embedding_field: {**options, "model_id": parameters.model_id}}}
    if parameters.nested_path is not None:
        query = {"nested": {"path": parameters.nested_path, "score_mode": "max", "query": query}}
    body: JsonObject = {"query": query, "size": parameters.doc_size}
    return {**body, "_source": list(parameters.source_field)} if parameters.source_field else body


def _shown(response: JsonObject) -> str:
    """The hits, or ml-commons' sentence if there are none."""
    return "".join(hit_lines(response)) or _NOTHING
