"""What a schema costs is counted, and never less than following it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.messages import JsonObject, JsonValue
from gateway.wire.schema_cost import ENDLESS, MAX_BYTES, schema_cost

KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("not", "if", "then", "items", "additionalProperties", "unevaluatedProperties")
NAMES = ("a", "b", "c", "d")


def doubled(keyword: str, levels: int, **top: JsonValue) -> JsonObject:
    definitions: JsonObject = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {}}, **top}


def ring(length: int) -> JsonObject:
    return {
        "$ref": "#/$defs/d0",
        "$defs": {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{(n + 1) % length}"}}} for n in range(length)},
    }


def all_of_all(count: int) -> JsonObject:
    """Definitions that each refer to all others."""
    names = [f"d{n}" for n in range(count)]
    definitions: JsonObject = {
        name: {"allOf": [{"$ref": f"#/$defs/{other}"} for other in names if other != name]} for name in names
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def schemas(references: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.fixed_dictionaries({}, optional={"$ref": references, "type": st.just("object")})

    def grown(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        options: dict[str, st.SearchStrategy[Any]] = {
            **dict.fromkeys(KEYWORDS, st.lists(inner, min_size=1, max_size=3)),
            **dict.fromkeys(SINGLE, inner),
            **dict.fromkeys(("properties", "patternProperties"), st.dictionaries(st.sampled_from(NAMES), inner)),
            "$ref": references,
            "required": st.lists(st.sampled_from(NAMES), max_size=3),
        }
        return st.fixed_dictionaries({}, optional=options)

    return st.recursive(leaf, grown, max_leaves=5)


@st.composite
def documents(draw: st.DrawFn, *, circles: bool) -> JsonObject:
    count = draw(st.integers(1, 4))
    definitions: JsonObject = {}
    for n in range(count):
        known = range(count) if circles else range(n)
        references = [f"#/$defs/d{m}" for m in known]
        definitions[f"d{n}"] = draw(schemas(st.sampled_from(references) if references else st.just("#/$defs/d0/none")))
    if not circles:
        definitions = {name: _without_loose_ends(item) for name, item in definitions.items()}
    return {**draw(schemas(st.sampled_from([f"#/$defs/d{n}" for n in range(count)]))), "$defs": definitions}


def _without_loose_ends(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_loose_ends(item) for name, item in value.items() if item != "#/$defs/d0/none"}
    return [_without_loose_ends(item) for item in value] if isinstance(value, list) else value


def inner_schemas(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for keyword, value in schema.items():
        if keyword in SINGLE:
            yield keyword, value
        elif keyword in KEYWORDS:
            yield from ((keyword, item) for item in value)
        elif keyword in ("properties", "patternProperties"):
            yield from ((keyword, item) for item in value.values())


def expanded(root: JsonObject, schema: dict[str, Any], within: tuple[str, ...] = ()) -> int:
    """How many places there are when each reference is put in the place where it stands, but not within itself."""
    total = 1 + sum(expanded(root, inner, within) for _, inner in inner_schemas(schema))
    reference = schema.get("$ref")
    if reference is not None and reference not in within:
        definitions: Any = root["$defs"]
        total += expanded(root, definitions[reference.rpartition("/")[2]], (*within, reference))
    return total


def looks(root: JsonObject, schema: dict[str, Any], value: Any) -> int:
    """How often a validator looks at a value or at what is in it, when it leaves nothing out."""
    total = 1 + len(schema.get("required", ()))
    reference = schema.get("$ref")
    if reference is not None:
        definitions: Any = root["$defs"]
        total += looks(root, definitions[reference.rpartition("/")[2]], value)
    for keyword, inner in inner_schemas(schema):
        if keyword not in ("properties", "patternProperties"):
            inside: list[Any] = [value]
            if keyword in ("items", "prefixItems"):
                inside = value if isinstance(value, list) else []
            elif keyword in ("additionalProperties", "unevaluatedProperties"):
                inside = list(value.values()) if isinstance(value, dict) else []
            total += sum(looks(root, inner, item) for item in inside)
    if isinstance(value, dict):
        named, matching = schema.get("properties", {}), schema.get("patternProperties", {})
        total += sum(looks(root, named[name], item) for name, item in value.items() if name in named)
        total += sum(looks(root, inner, item) for inner in matching.values() for item in value.values())
    return total


def size(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, inside))


VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.thorough
@given(documents(circles=True))
@settings(max_examples=150, deadline=None)
def test_no_fewer_places_are_counted_than_there_are_once_references_are_followed(schema: JsonObject) -> None:
    assert schema_cost(schema).places >= min(ENDLESS, expanded(schema, schema))


@pytest.mark.thorough
@given(documents(circles=False), VALUES)
@settings(max_examples=150, deadline=None)
def test_no_value_is_looked_at_more_often_than_counted(schema: JsonObject, value: Any) -> None:
    cost = schema_cost(schema)
    assert not cost.is_recursive
    assert looks(schema, schema, value) <= cost.checks * size(value)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_references_that_double_are_counted_and_not_followed(keyword: str) -> None:
    assert schema_cost(doubled(keyword, 4)).places == 62
    assert schema_cost(doubled(keyword, 300)).places == ENDLESS


def test_what_is_unevaluated_is_followed_again() -> None:
    assert schema_cost(doubled("anyOf", 4, unevaluatedProperties=False)).places > 2 * 62


def test_circles_are_gone_through_once_and_for_descriptions_on_each_level() -> None:
    tree: JsonObject = {"properties": {"value": {"type": "string"}, "inner": {"items": {"$ref": "#"}}}}
    cost = schema_cost(tree)
    assert cost.is_recursive
    assert cost.places < 10
    assert schema_cost(tree, 5).checks > cost.checks
    both: JsonObject = {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}
    assert schema_cost(both, 30).checks == ENDLESS


def test_circles_of_circles_count_as_endless() -> None:
    assert schema_cost(all_of_all(12)).places == ENDLESS
    assert schema_cost(all_of_all(29)).places == ENDLESS
    assert schema_cost(ring(20)).places < 2_000
    assert schema_cost(ring(300)).places == ENDLESS


def test_properties_are_added_where_they_are_compiled_and_not_where_a_value_is_checked() -> None:
    cost = schema_cost({"properties": {f"p{n}": {"type": "string"} for n in range(500)}})
    assert cost.places > 500
    assert cost.checks < 5


def test_entries_and_patterns_count() -> None:
    assert schema_cost({"enum": [{"a": n} for n in range(500)]}).checks > 2_000
    assert schema_cost({"enum": [str(n) for n in range(500)]}).checks < 20
    assert schema_cost({"required": [str(n) for n in range(500)]}).checks > 500
    patterned = schema_cost({"patternProperties": {r"\pL{100}": True}})
    assert patterned.places > 10_000
    assert patterned.has_patterns


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "https://example.com/tree", "properties": {"a": {"$ref": "#"}}},
        {"$id": "https://example.com/tree", "properties": {"a": {"$ref": "https://example.com/tree#"}}},
        {"$anchor": "top", "properties": {"a": {"$ref": "#top"}}},
        {"$dynamicAnchor": "top", "properties": {"a": {"$dynamicRef": "#top"}}},
        {"properties": {"a": {"items": {"$ref": "#/properties/a"}}}},
        {"properties": {"a": {"$recursiveRef": "#"}}},
        {"allOf": [{"properties": {"a": {"$ref": "#/allOf/0"}}}]},
        {"properties": {"a/b": {"not": {"$ref": "#/properties/a~1b"}}}},
        {"properties": {"A<b>": {"not": {"$ref": "#/properties/A%3Cb%3E"}}}},
    ],
)
def test_references_of_all_kinds_are_found(schema: JsonObject) -> None:
    assert schema_cost(schema).is_recursive


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"description": "x" * MAX_BYTES}, "bytes"),
        ({"properties": {str(n): {} for n in range(2_000)}}, "objects"),
        ({"properties": {str(n): {"pattern": "(" * 1_000} for n in range(20)}}, "patterns"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "other.json"}, "leads nowhere"),
        ({"$id": "https://example.com/tree", "items": {"$ref": "tree"}}, "leads nowhere"),
        ({"$ref": 7}, "not text"),
        ({"$ref": "#/$defs/a%2Fb", "$defs": {"a/b": {}, "a": {"b": {}}}}, "in two ways"),
        ({"$ref": "#/$defs/a%7E1b", "$defs": {"a/b": {}, "a~1b": {}}}, "in two ways"),
        ({"$ref": "#/$defs/a%2541", "$defs": {"a%41": {}, "aA": {}}}, "in two ways"),
        ({"$id": "#/$defs", "$ref": "#/$defs#/a", "a": {}}, "in two ways"),
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}, "default": {"$anchor": "a"}}, "twice"),
        ({"items": {"$id": "https://example.com/item", "$ref": "#"}}, "of its own"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "item"}}, "of its own"),
        ({"default": float("nan"), "x": {1: 2}}, "no JSON"),
    ],
)
def test_what_cannot_be_counted_says_why(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        schema_cost(schema)


@pytest.mark.parametrize("levels", [120, 300, 5_000])
def test_what_is_too_deep_says_so(levels: int) -> None:
    deep: JsonObject = {}
    for _ in range(levels):
        deep = {"not": deep}
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        schema_cost(deep)


def test_data_that_looks_like_a_schema_is_none() -> None:
    data: JsonObject = {"$schema": "https://json-schema.org/draft/2020-12/schema", "default": {"id": "7"}, "enum": [{}]}
    assert schema_cost({**data, "properties": {"$ref": {"type": "string"}, "id": {"type": "string"}}}).places < 6


def test_true_and_false_are_no_places() -> None:
    assert schema_cost({"$ref": "#/$defs/any", "$defs": {"any": True}, "items": False, "anyOf": [True]}).places == 1
