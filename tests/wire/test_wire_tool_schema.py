"""What providers are told of a tool whose schema is not one plain object."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire.tool_schema import closed_schema, object_schema

A = {"properties": {"kind": {"const": "a"}, "size": {"type": "integer"}}, "required": ["kind", "size"]}
B = {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}
KINDS = {"anyOf": [{"const": "a"}, {"const": "b"}]}


def test_a_plain_object_stays_as_it_is() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    assert object_schema(schema) is schema


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_the_members_of_all_choices_are_its_members(union: str) -> None:
    assert object_schema(
        {"type": "object", union: [A, {"$ref": "#/$defs/B"}, {"type": "null"}], "$defs": {"B": B}}
    ) == {
        "type": "object",
        "properties": {"kind": KINDS, "size": {"type": "integer"}},
        "required": ["kind"],
        "$defs": {"B": B},
    }


def test_all_that_is_required_together_is_required() -> None:
    schema: dict[str, Any] = {
        "allOf": [A, {"properties": {"b": {"type": "string"}}, "required": ["b"]}],
        "required": ["kind"],
    }
    flat: dict[str, Any] = object_schema(schema)
    assert sorted(flat["properties"]) == ["b", "kind", "size"]
    assert sorted(flat["required"]) == ["b", "kind", "size"]
    assert "allOf" not in flat


def test_conditions_on_its_own_members_are_left_out() -> None:
    own = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    flat = object_schema({**own, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}})
    assert flat == {**own, "required": []}


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    again = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in "abcdefgh"]}
    flat = object_schema({"$ref": "#/$defs/a", "$defs": dict.fromkeys("abcdefgh", again)})
    assert flat["properties"] == {}


def test_what_is_required_and_is_no_name_is_passed_over() -> None:
    """A page's tool may say anything; it ended the run as an internal error."""
    odd: dict[str, Any] = {"properties": {"a": {}}, "required": [["a"], {}, 5, None, "a"]}
    for combined in ({"allOf": [odd]}, {"anyOf": [odd, odd]}):
        flat: dict[str, Any] = object_schema(combined)
        assert flat["required"] == ["a"]


def test_an_answers_objects_have_no_keys_but_those_that_they_name() -> None:
    text = {"type": "string"}
    named = {"type": "object", "properties": {"properties": text}}
    closed = {**named, "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {
            "properties": named,
            "free": {"type": "object"},
            "open": {**named, "additionalProperties": True},
        },
        "$defs": {"a": named},
        "anyOf": [named, text],
        "items": named,
        "allOf": [named],
        "default": named,
        "enum": [named],
    }
    before = str(schema)
    assert closed_schema(schema) == {
        **schema,
        "properties": {
            "properties": closed,
            "free": {"type": "object"},
            "open": {**named, "additionalProperties": True},
        },
        "$defs": {"a": closed},
        "anyOf": [closed, text],
        "items": closed,
        "additionalProperties": False,
    }
    assert str(schema) == before
