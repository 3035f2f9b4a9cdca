"""REST: reads a method's parameters from a path, a query and a body.

Below: errors. Above: methods. Pure. https://a2a-protocol.org/latest/specification/#11-httpjsonrest-protocol-binding
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.messages import JsonObject, JsonValue
from gateway.protocol.requests import whole_number

_NUMBERS: Final = frozenset({"historyLength", "pageSize"})
_FLAGS: Final = frozenset({"includeArtifacts"})
_MOST_DIGITS: Final = 10


def query_params(query: Mapping[str, str]) -> JsonObject:
    """A query's parameters as those of a method. A value that is no number or flag stays a text, and is refused
    as one.
    """
    return {name: _value(name, text) for name, text in query.items() if text}


def _value(name: str, text: str) -> JsonValue:
    camel = name.split("_")[0] + "".join(each.capitalize() for each in name.split("_")[1:])
    if camel in _NUMBERS and whole_number(text.removeprefix("-"), most_digits=_MOST_DIGITS) is not None:
        return int(text)
    if camel in _FLAGS and text in ("true", "false"):
        return text == "true"
    return text
