"""SearchIndexTool: finds documents of an index by a query. Parameters and results are those of ml-commons' tool.

Source: https://docs.opensearch.org/latest/ml-commons-plugin/agents-tools/tools/search-index-tool/ (3.x). The model
writes index and query, unless the operator fixes them:

    - type: SearchIndexTool
      name: population
      parameters:
        index: test_population_data
        query: {query: {match: {population_description: "${parameters.question}"}}, size: 2}

Each `${parameters.x}` is then an argument of the tool. Values are put into the parsed query and never into its text, so
an argument cannot add anything to the query itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import WithJsonSchema, field_validator

from gateway.agent import ToolSettings
from gateway.errors import ToolError
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.query_dsl.search_size import MAX_SEARCH_BYTES
from gateway.search_engine import Asker, SearchEngine
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.hits import hit_lines
from gateway.tool_definitions.parameters import ToolParameters, parameter_error, read_parameters, tool_label
from gateway.tool_output import bounded, json_text, text_blocks
from gateway.turns.tool_calls import schema_problem

_DESCRIPTION = (
    "Search an index for documents. Two arguments are needed. 'index': the name of the index. 'query': a search body "
    'in OpenSearch query DSL, such as {"query": {"match": {"title": "words to look for"}}, "size": 5}. Gives one '
    "JSON object per line for each hit, the best first, with _index, _source, _id and _score. ListIndexTool tells "
    "which indices there are, IndexMappingTool which fields they have."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "index": {"type": "string", "description": "The name of the index to search."},
        "query": {
            "type": "object",
            "description": "The search body: an object with 'query' (OpenSearch query DSL), and optionally 'size', "
            "'from', '_source', 'sort' and 'aggs', whose results are the last line.",
        },
    },
    "required": ["index", "query"],
    "additionalProperties": False,
}
_PLACEHOLDER = re.compile(r"\$\{parameters\.([A-Za-z_][A-Za-z0-9_]*)\}")
# A search body without any of these is taken for the query in it, which is how models often write it.
_BODY_KEYS = frozenset(
    {"query", "size", "from", "_source", "sort", "aggs", "aggregations", "track_total_hits", "suggest", "post_filter"}
)


_OBJECT_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]})


class SearchIndexParameters(ToolParameters):
    """The `parameters` of a SearchIndexTool, which searches an index by a query of the model, or by one of the operator
    that the model fills in.
    """

    index: str | None = None
    """The index to search; if absent, the model names one."""
    query: Annotated[JsonObject | None, _OBJECT_OR_TEXT] = None
    """A fixed search body, as an object or its JSON text; if absent, the model writes one. Texts in it may contain
    placeholders `${parameters.name}`, which the model fills in."""
    input_schema: Annotated[JsonObject | None, _OBJECT_OR_TEXT] = None
    """The JSON Schema of the arguments of a fixed query; if absent, each placeholder is a required text."""
    input: str | None = None
    """ml-commons' template of index and query. Accepted beside both, without effect."""
    return_raw_response: bool = False
    """Give the model the search engine's whole response instead of one line for each hit."""

    @field_validator("query", "input_schema", mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            raise ValueError("neither an object nor the JSON text of one") from None


@dataclass(frozen=True, slots=True)
class SearchIndexTool:
    """A search that the model writes, or one that the operator wrote and the model fills in."""

    spec: ToolSpec
    engine: SearchEngine
    parameters: SearchIndexParameters

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        index, body = self._search(arguments)
        response = await self.engine.search(index, body, Asker(context.owner))
        text = json_text(response) if self.parameters.return_raw_response else "".join(_lines(response))
        return bounded(text_blocks(text), self.parameters.max_output_characters)

    def _search(self, arguments: JsonObject) -> tuple[str, JsonObject]:
        if self.parameters.query is not None:
            body = _filled(self.parameters.query, arguments)
            arguments = {"index": arguments.get("index"), "query": body}
        elif set(arguments) == {"input"}:
            arguments = _unpacked(arguments["input"])
        index = self.parameters.index or arguments.get("index")
        query = _parsed(arguments.get("query"))
        missing = [name for name, value in (("index", index), ("query", query)) if value in (None, "", {})]
        if missing or not isinstance(index, str) or not isinstance(query, dict):
            names = (
                " and ".join(repr(name) for name in missing)
                or "an 'index' that is text and a 'query' that is an object"
            )
            raise ToolError(
                "SearchIndexTool's two parameters: index and query are required and should be in valid format. "
                f"Missing: {names}"
            )
        return index, query if query.keys() & _BODY_KEYS or len(query) != 1 else {"query": query}


def _lines(response: JsonObject) -> Iterator[str]:
    yield from hit_lines(response)
    for name in ("aggregations", "suggest"):  # ml-commons' tool leaves these out, so the model asks for them in vain
        if name in response:
            yield json_text({name: response[name]}) + "\n"


def _parsed(query: JsonValue) -> JsonValue:
    """The query; a text is parsed as JSON."""
    if isinstance(query, str) and len(query) > MAX_SEARCH_BYTES:
        raise ToolError(f"the query has {len(query)} characters; at most {MAX_SEARCH_BYTES} are possible")
    if isinstance(query, str) and query.strip():
        try:
            parsed: JsonValue = orjson.loads(query)
        except orjson.JSONDecodeError as error:
            raise ToolError(
                f"the query is not valid JSON: {error}; give it as an object in OpenSearch query DSL"
            ) from None
        return parsed
    return query


def _unpacked(packed: JsonValue) -> JsonObject:
    """The arguments, taken out of ml-commons' `input`, which has them as JSON text."""
    try:
        unpacked = orjson.loads(packed) if isinstance(packed, str) else packed
    except orjson.JSONDecodeError as error:
        raise ToolError(
            "Invalid JSON format in input parameter. Expected valid JSON with 'index' and 'query' fields. "
            f"Error: {error}"
        ) from None
    return unpacked if isinstance(unpacked, dict) else {}


def _filled(template: JsonValue, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """The template with the arguments filled in. A text that is only a placeholder takes the argument's type."""
    if isinstance(template, dict):
        return {key: _filled(value, arguments) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(item, arguments) for item in template]
    if not isinstance(template, str):
        return template
    if (whole := _PLACEHOLDER.fullmatch(template)) is not None:
        return _argument(arguments, whole[1])
    return _PLACEHOLDER.sub(lambda match: _argument_text(arguments, match[1]), template)


def _argument(arguments: Mapping[str, JsonValue], name: str) -> JsonValue:
    if name not in arguments:
        raise ToolError(f"the argument {name!r} is missing")
    return arguments[name]


def _argument_text(arguments: Mapping[str, JsonValue], name: str) -> str:
    value = _argument(arguments, name)
    return value if isinstance(value, str) else json_text(value)


def _placeholders(template: JsonValue) -> Iterator[str]:
    if isinstance(template, str):
        yield from _PLACEHOLDER.findall(template)
    elif isinstance(template, dict):
        for value in template.values():
            yield from _placeholders(value)
    elif isinstance(template, list):
        for item in template:
            yield from _placeholders(item)


def _input_schema(parameters: SearchIndexParameters) -> JsonObject:
    if parameters.input_schema is not None:
        return parameters.input_schema
    properties: JsonObject = {}
    if parameters.query is not None:
        properties = {name: {"type": "string"} for name in dict.fromkeys(_placeholders(parameters.query))}
    known = _SCHEMA["properties"]
    assert isinstance(known, dict)
    if parameters.index is None:
        properties = {"index": known["index"], **properties}
    if parameters.query is None:
        properties["query"] = known["query"]
    return {**_SCHEMA, "properties": properties, "required": list(properties)}


def open_search_index(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool over the search engine of the configuration.

    Raises:
        ConfigurationError: there is no search engine, or the parameters do not fit.
    """
    parameters = read_parameters(settings, SearchIndexParameters)
    engine = environment.search_engine(tool_label(settings))
    if parameters.input is not None and (parameters.index is None or parameters.query is None):
        raise parameter_error(settings, "input", "needs index and query beside it")
    schema = _input_schema(parameters)
    if (wrong := schema_problem(schema)) is not None:
        raise parameter_error(settings, "input_schema", f"is no usable JSON Schema: {wrong}")
    spec = ToolSpec(settings.name or "SearchIndexTool", settings.description or _description(parameters), schema)
    return SingleTool(SearchIndexTool(spec, engine, parameters))


def _description(parameters: SearchIndexParameters) -> str:
    if parameters.query is None:
        return _DESCRIPTION
    place = f"the index {parameters.index!r}" if parameters.index else "an index"
    return f"Search {place}. Gives one JSON object per line for each document found, the best first."


TOOL_TYPE = ToolType("SearchIndexTool", open_search_index, from_callers=True, parameters=SearchIndexParameters)
