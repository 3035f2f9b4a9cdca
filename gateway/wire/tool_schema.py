"""Rewrites schemas so that providers accept them: a tool's as one plain object, an answer's without open objects. Pure.

Above: the writers of requests, their tables of options. Anthropic, OpenAI and Bedrock refuse a tool whose schema has
`oneOf`, `allOf` or `anyOf` at the top level
(https://platform.openai.com/docs/guides/structured-outputs#root-objects-must-not-be-anyof), and Gemini knows fewer
keywords still (`gemini/`). Arguments are checked against the tool's own schema, whatever is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar, cast
from urllib.parse import unquote

from gateway.wire.json_pointer import unescaped

JsonSchema: TypeAlias = Mapping[str, object]
_Value = TypeVar("_Value")

UNIONS = ("anyOf", "oneOf")
_COMBINED = frozenset({*UNIONS, "allOf", "not", "enum", "$ref"})

# The keywords of a schema that contain other schemas.
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions"})
_SCHEMAS = frozenset({"items", "prefixItems", "anyOf", "oneOf"})

# How many places of a schema are followed. Schemas that contain themselves, or repeat a part very often, have more.
_MOST_PLACES = 200


def object_schema(schema: dict[str, _Value]) -> dict[str, _Value]:
    """The schema without the keywords that are not allowed at its top level. Nearly all schemas stay as they are.

    The object gets the members of all combined schemas. Of several choices, it requires only what all of them require.
    """
    if _COMBINED.isdisjoint(schema):
        return schema
    return cast("dict[str, _Value]", _Flat(schema).of(schema, ()))


class _Flat:
    """`within` are the references that are being followed."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._places = 0

    def of(self, schema: JsonSchema, within: tuple[str, ...]) -> dict[str, object]:
        own = {name: value for name, value in schema.items() if name not in _COMBINED}
        self._places += 1
        if self._places > _MOST_PLACES:
            return own
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in within:
            within = (*within, reference)
            own = merged(own, self.of(target(self._root, reference), within))
        for part in as_list(schema.get("allOf")):
            own = merged(own, self.of(as_mapping(part), within))
        if branches := [self.of(branch, within) for branch in choices(schema)]:
            own = merged(own, members_of_any(branches))
        return own


def closed_schema(schema: JsonSchema) -> dict[str, object]:
    """The schema with objects that allow only the keys that they name: some providers require that for an answer.

    Every value that it allows, `schema` allows, too. An object stays as it is if it names no keys, has its own
    `additionalProperties`, or is a part of `allOf`.
    """
    closed = dict(schema)
    for name in _SCHEMAS_BY_NAME & closed.keys():
        closed[name] = {key: _closed(inner) for key, inner in as_mapping(closed[name]).items()}
    for name in _SCHEMAS & closed.keys():
        value = closed[name]
        closed[name] = [_closed(inner) for inner in value] if isinstance(value, list) else _closed(value)
    if closed.get("properties") and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


def _closed(schema: object) -> object:
    return closed_schema(schema) if isinstance(schema, Mapping) else schema


def members_of_any(branches: Sequence[JsonSchema]) -> dict[str, object]:
    """The members of all choices, and the names of those that every choice requires."""
    members: dict[str, object] = {}
    for branch in branches:
        for name, inner in as_mapping(branch.get("properties")).items():
            members[name] = {"anyOf": [members[name], inner]} if members.get(name, inner) != inner else inner
    required = [required_names(branch) for branch in branches]
    return {"properties": members, "required": [name for name in required[0] if all(name in each for each in required)]}


def merged(one: JsonSchema, other: JsonSchema) -> dict[str, object]:
    """A schema that joins the members of both. For all other keywords the first schema counts."""
    both = {**other, **one}
    if "properties" in one or "properties" in other:
        both["properties"] = {**as_mapping(other.get("properties")), **as_mapping(one.get("properties"))}
    if "required" in one or "required" in other:
        both["required"] = list(dict.fromkeys([*required_names(one), *required_names(other)]))
    return both


def required_names(schema: JsonSchema) -> list[str]:
    """The names of required members. Anything else is ignored, since schemas come from anywhere."""
    return [name for name in as_list(schema.get("required")) if isinstance(name, str)]


def target(root: JsonSchema, reference: str) -> JsonSchema:
    """The schema that a reference into the same document (RFC 6901) points to; empty where there is none."""
    found = pointed(root, reference)
    return as_mapping(found) if found is not root else {}


def pointed(root: JsonSchema, reference: str) -> object:
    """The value of any type that a reference into the same document points to; None if there is none."""
    found: object = root
    for token in reference.removeprefix("#").split("/")[1:]:
        name = unescaped(unquote(token))
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = as_mapping(found).get(name)
    return found


def choices(schema: JsonSchema) -> list[JsonSchema]:
    """The choices in `anyOf`, else in `oneOf`, without null."""
    listed = next((each for name in UNIONS if (each := as_list(schema.get(name)))), [])
    return [as_mapping(choice) for choice in listed if not is_null(choice)]


def is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
