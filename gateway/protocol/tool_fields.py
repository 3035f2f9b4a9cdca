"""Reads functions that a body offers as a client's tools. They stand inside of `function`, or flat.

Below: fields. Above: the protocols' readers of tools.
"""

from __future__ import annotations

from typing import Final, TypeVar

from gateway.messages import JsonObject, ToolSpec
from gateway.protocol.fields import Fields, shown_word

FieldsT = TypeVar("FieldsT", bound=Fields)

_LONGEST_NAME: Final = 256


def is_function(tool: Fields, *, unsaid: bool = False) -> bool:
    """Whether a tool is a function; any other one is noted as wrong. `unsaid`: its type may be left out."""
    kind = tool.value.get("type")
    if kind == "function" or (unsaid and kind is None):
        return True
    right = "'function', or be left out" if unsaid else "'function'"
    tool.wrong(
        "type",
        f"{tool.called('type')} is {shown_word(kind)}; it must be {right}: other tools are the agent's own, which it "
        "has without being sent them",
    )
    return False


def function_spec(tool: Fields) -> ToolSpec:
    """The function as a tool. Problems are noted."""
    if (usual := _usual(tool.value)) is not None:
        return usual
    function = function_of(tool)
    name, schema = function_name(function), function.object("parameters")
    return ToolSpec(name, function.text("description") or "", schema or {})


def _usual(tool: JsonObject) -> ToolSpec | None:
    """The function, if it has no problem. Reading 10,000 functions this way takes a third of the time."""
    inside = tool.get("function")
    function = inside if type(inside) is dict else tool if inside is None else {}
    name, description, schema = function.get("name"), function.get("description"), function.get("parameters")
    if type(name) is not str or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        return None
    if not (description is None or type(description) is str) or not (schema is None or type(schema) is dict):
        return None
    return ToolSpec(name, description or "", schema or {})


def function_of(fields: FieldsT) -> FieldsT:
    """The members of the function."""
    return (fields.inner("function") if fields.value.get("function") is not None else None) or fields


def function_name(function: Fields) -> str:
    """The function's name; empty where it is wrong, which is noted."""
    name = function.text("name")
    if name is not None and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
        return name
    if name is not None or function.value.get("name") is None:
        called = function.called("name")
        function.wrong("name", f"{called} must be a name of 1 to {_LONGEST_NAME} printable characters")
    return ""
