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
    return {"type": "array", "items": ref(item)}


def ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "") -> JsonObject:
    return {"type": "string", "description": description} if description else {"type": "string"}


def nullable(schema: str, description: str = "") -> JsonObject:
    return {"type": [schema, "null"], "description": description} if description else {"type": [schema, "null"]}


def words(*words: str) -> JsonObject:
    values: list[JsonValue] = [*words]
    return {"type": "string", "enum": values}


TIME: JsonObject = {"type": "string", "format": "date-time"}
MAYBE_TIME: JsonObject = {"type": ["string", "null"], "format": "date-time"}
MAYBE_COUNT: JsonObject = {"type": ["integer", "null"], "minimum": 0}
NEXT_PAGE = nullable("string", "Send it as `cursor` for the next page; null on the last one.")
