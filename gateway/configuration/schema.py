"""The JSON Schema of the configuration file, by which editors complete and check it.

Below: sections. Above: settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from gateway.configuration.sections import ConfigurationSection, ToolSection
from gateway.messages import JsonObject

_REFERENCE: Final = {"type": "string", "pattern": r"\$\{(env|file):"}
_DEFINITIONS: Final = "#/$defs/"
_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def json_schema(section: type[ConfigurationSection], tools: Mapping[str, type[BaseModel] | None]) -> JsonObject:
    """The JSON Schema of a file with these sections. `tools`: the models of tools' `parameters` by the tools' types;
    None for a type whose parameters have no model.
    """
    kinds: list[type[BaseModel]] = [section, ToolSection, *filter(None, tools.values())]
    names, schema = models_json_schema(
        [(kind, "validation") for kind in kinds],
        schema_generator=_SchemaGenerator,
        ref_template=_DEFINITIONS + "{model}",
    )
    references: dict[object, str] = {kind: reference["$ref"] for (kind, _), reference in names.items()}
    definitions = schema["$defs"]
    root = definitions.pop(_name(references[section]))
    root["properties"]["$schema"] = {"type": "string"}
    _describe_tools(definitions[_name(references[ToolSection])], tools, references)
    _translate_bounds(definitions)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$defs": dict(sorted(definitions.items())),
        **root,
        "title": "agui-gateway configuration",
    }


def _name(reference: str) -> str:
    return reference.removeprefix(_DEFINITIONS)


def _describe_tools(
    section: JsonSchemaValue, tools: Mapping[str, type[BaseModel] | None], references: Mapping[object, str]
) -> None:
    """Say in the section of a tool which types there are, and which `parameters` each has."""
    names = {key: value for key, value in section["properties"]["type"].items() if key != "type"}
    section["properties"]["type"] = {**names, "anyOf": [{"enum": sorted(tools)}, _REFERENCE]}
    section["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": _with_parameters(kind, references[kind]),
        }
        for name, kind in sorted(tools.items())
        if kind is not None
    ]


def _with_parameters(kind: type[BaseModel], reference: str) -> JsonSchemaValue:
    if any(field.is_required() for field in kind.model_fields.values()):
        return {"properties": {"parameters": {"$ref": reference}}, "required": ["parameters"]}
    return {"properties": {"parameters": {"anyOf": [{"$ref": reference}, {"type": "null"}]}}}


class _SchemaGenerator(GenerateJsonSchema):
    """Lets a reference stand where a number or a boolean does, as the file may have it."""

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return _or_reference(super().int_schema(schema))

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return _or_reference(super().float_schema(schema))

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        return _or_reference(super().bool_schema(schema))


def _or_reference(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {"anyOf": [schema, _REFERENCE]}


def _translate_bounds(value: Any) -> None:
    """Write the bounds of numbers that may be null as JSON Schema does: pydantic leaves its own words there, which no
    editor knows.
    """
    if isinstance(value, list):
        for item in value:
            _translate_bounds(item)
    elif isinstance(value, dict):
        for item in value.values():
            _translate_bounds(item)
        if isinstance(choices := value.get("anyOf"), list):
            own = [word for word in _BOUNDS if isinstance(value.get(word), int | float)]
            choices[0] |= {_BOUNDS[word]: value.pop(word) for word in own}
