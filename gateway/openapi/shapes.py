"""Pieces of JSON Schemas (2020-12) that describe the bodies of requests and answers.

Below: messages (JSON's types). Above: document, and the protocols, which describe their own bodies.
"""

from __future__ import annotations

from gateway.messages import JsonObject, JsonValue


def object_of(required: list[str], properties: JsonObject, description: str = "") -> JsonObject:
    names: list[JsonValue] = [*required]
    schema: JsonObject = {"type": "object", "properties": properties}
    if names:
        schema["required"] = names
    return {"description": description, **schema} if description else schema


def list_of(item: str) -> JsonObject:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}}


def text(description: str = "") -> JsonObject:
    return {"type": "string", "description": description} if description else {"type": "string"}
