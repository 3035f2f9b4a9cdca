"""The MCP servers of an agent with their tools, as a session's first response lists them. Pure.

Below: messages. Above: start. The run's record keeps the list, so it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import orjson

from gateway.messages import JsonObject, ToolSpec

_MOST_BYTES: Final = 64 * 1024


def listed_servers(specs: Iterable[ToolSpec]) -> tuple[JsonObject, ...]:
    """The servers of these tools, each with its `server_label` and `tools`.

    Where that is too much, the schemas are left out, then the descriptions, then the last tools.
    """
    by_server: dict[str, list[ToolSpec]] = {}
    for spec in specs:
        if spec.server is not None:
            by_server.setdefault(spec.server, []).append(spec)
    for written in (_whole, _without_schema):
        servers = _servers(by_server.items(), written)
        if _size(servers) <= _MOST_BYTES:
            return servers
    return _cut(_servers(by_server.items(), _name))


def _servers(
    by_server: Iterable[tuple[str, Sequence[ToolSpec]]], written: Callable[[ToolSpec], JsonObject]
) -> tuple[JsonObject, ...]:
    return tuple({"server_label": label, "tools": [written(spec) for spec in specs]} for label, specs in by_server)


def _whole(spec: ToolSpec) -> JsonObject:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}


def _without_schema(spec: ToolSpec) -> JsonObject:
    return {"name": spec.name, "description": spec.description, "input_schema": {}}


def _name(spec: ToolSpec) -> JsonObject:
    return {"name": spec.name, "input_schema": {}}


def _cut(servers: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    room, kept = _MOST_BYTES, list[JsonObject]()
    for server in servers:
        tools = server["tools"]
        assert isinstance(tools, list), "it was made so"
        fitting = []
        for tool in tools:
            room -= _size(tool) + 1
            if room < 0:
                break
            fitting.append(tool)
        kept.append({**server, "tools": [*fitting]})
    return tuple(kept)


def _size(value: object) -> int:
    return len(orjson.dumps(value))
