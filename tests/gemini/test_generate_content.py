"""Gemini's addresses and its subset of JSON Schema, held against the official SDK's types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types

from gateway.gemini.generate_content import modalities_of, schema_subset, stream_url


@pytest.mark.parametrize(
    ("schema", "subset"),
    [
        ({"type": "string", "format": "email"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"const": "x", "type": "string"}, {"type": "STRING", "enum": ["x"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "description": "One of: 1, 2."}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d"},
            {"description": "d", "type": "INTEGER", "nullable": True},
        ),
        (
            {"type": "string", "anyOf": [{"enum": ["a"]}, {"enum": ["b"]}, {"type": "null"}]},
            {
                "anyOf": [{"type": "STRING", "enum": ["a"]}, {"type": "STRING", "enum": ["b"]}],
                "nullable": True,
            },
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}}},
        ),
        (
            {
                "type": "object",
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "size": {"type": "integer"}}, "required": ["kind", "size"]},
                    {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                ],
            },
            {
                "type": "OBJECT",
                "properties": {
                    "kind": {"anyOf": [{"type": "STRING", "enum": ["a"]}, {"type": "STRING", "enum": ["b"]}]},
                    "size": {"type": "INTEGER"},
                },
                "required": ["kind"],
            },
        ),
        (
            {
                "allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
                "$defs": {
                    "A": {"properties": {"a": {"type": "string"}}},
                    "B": {"properties": {"b": {"type": "number"}}},
                },
            },
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "NUMBER"}}},
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a/b": {"type": "number"},
                    "same": {"$ref": "#/properties/a~1b"},
                    "none": {"$ref": "#/x"},
                },
            },
            {
                "type": "OBJECT",
                "properties": {"a/b": {"type": "NUMBER"}, "same": {"type": "NUMBER"}, "none": {"type": "STRING"}},
            },
        ),
        (
            {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"type": "number"}}},
            {"type": "OBJECT", "properties": {"p": {"type": "NUMBER"}}},
        ),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}], "required": ["gone"]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ),
        (
            {"properties": {"a": {"type": "string"}}, "required": [["a"], {}, None, "a"]},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {}, "additionalProperties": False, "$schema": "x"},
            {"type": "OBJECT", "properties": {}},
        ),
    ],
)
def test_a_schema_is_said_in_the_subset(schema: dict[str, Any], subset: dict[str, Any]) -> None:
    assert schema_subset(schema) == subset
    types.Schema.model_validate(subset)


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"left": {"$ref": "#/$defs/T"}}}}}
    types.Schema.model_validate(schema_subset(tree))


@pytest.mark.parametrize("holds_itself", [True, False])
def test_a_schema_that_says_the_same_in_very_many_places_is_cut(holds_itself: bool) -> None:
    def below(level: int) -> dict[str, Any]:
        inner = {"$ref": f"#/$defs/{0 if holds_itself else level + 1}"}
        return {"type": "object", "properties": dict.fromkeys("abcdefgh", inner)}

    definitions = {str(level): below(level) for level in range(10)}
    subset = schema_subset({"$ref": "#/$defs/0", "$defs": definitions})
    types.Schema.model_validate(subset)
    assert len(json.dumps(subset)) < 200_000


@pytest.mark.parametrize(
    ("endpoint", "model", "url"),
    [
        ("https://x.example/v1beta", "gemini-3-pro", "https://x.example/v1beta/models/gemini-3-pro"),
        ("https://x.example/v1beta/", "tunedModels/mine", "https://x.example/v1beta/tunedModels/mine"),
    ],
)
def test_the_address_is_below_the_endpoint(endpoint: str, model: str, url: str) -> None:
    assert stream_url(endpoint, model) == f"{url}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("model_id", "parameters", "modalities"),
    [
        ("gemini-2.5-flash", {}, {"TEXT"}),
        ("gemini-2.5-flash-image", {}, {"TEXT", "IMAGE"}),
        ("gemini-2.5-flash-preview-tts", {}, {"TEXT", "AUDIO"}),
        ("gemini-2.5-flash", {"responseModalities": ["text", "image"]}, {"TEXT", "IMAGE"}),
        ("gemini-2.5-flash-image", {"generationConfig": {"responseModalities": ["TEXT"]}}, {"TEXT"}),
    ],
)
def test_what_a_model_gives_is_what_it_is_told_else_what_its_name_says(
    model_id: str, parameters: dict[str, Any], modalities: set[str]
) -> None:
    assert set(modalities_of(model_id, parameters)) == modalities
