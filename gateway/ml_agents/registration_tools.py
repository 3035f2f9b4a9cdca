"""The `tools` of an agent's body: as in the configuration file, and as they are shown.

Below: fields, generation_options. Above: registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from gateway.agents.stored import PartsForCallers
from gateway.messages import JsonObject, JsonValue
from gateway.ml_agents.generation_options import parsed, texts_of
from gateway.protocol.fields import Fields

USUAL_TOOLS: Final[Sequence[JsonObject]] = (
    {"type": "ListIndexTool"},
    {"type": "SearchIndexTool"},
    {"type": "IndexMappingTool"},
)

MCP_SERVER: Final = "McpServer"
# The gateway's own type, ml-commons' name for such a tool, and its name for such a connector.
_MCP_TYPES: Final = frozenset({MCP_SERVER, "McpStreamableHttpTool", "mcp_streamable_http"})
_MCP_MEMBERS: Final = ("url", "headers")
# Tools whose arguments an agent may describe: the schema is a parameter of theirs.
_WITH_SCHEMA: Final = frozenset({"SearchIndexTool"})
_HIDDEN: Final = frozenset({"headers", "env", "args", "credential"})
_KNOWN: Final = frozenset(
    {"type", "name", "description", "parameters", "attributes", "config", "include_output_in_agent_response"}
)


@dataclass(frozen=True, slots=True)
class ToolBlocks:
    """`sections` are `tools` of the configuration, `shown` are the members of them that may be shown; both in the
    body's order.

    `unknown` are pointers to members that nobody knows. `places`: see ModelBlock.
    """

    sections: list[JsonValue] = field(default_factory=list)
    shown: list[JsonValue] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)


def names_mcp_server(body: JsonObject) -> bool:
    """Whether a body gives the agent an MCP server, as a tool or as a connector."""
    tools, parameters = body.get("tools"), body.get("parameters")
    kinds = [tool.get("type") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    if any(isinstance(kind, str) and kind in _MCP_TYPES for kind in kinds):
        return True
    return isinstance(parameters, dict) and parameters.get("mcp_connectors") is not None


def read_tools(fields: Fields, parts: PartsForCallers, duplicate: str) -> ToolBlocks:
    """The tools of a body; without any, the usual ones. Problems are noted. `duplicate` is the message for two of
    one name, with a place for it.
    """
    value = fields.value.get("tools")
    if value is None:
        given: list[JsonValue] = [*USUAL_TOOLS] if parts.searches else []
    elif isinstance(value, list):
        given = value
    else:
        fields.wrong("tools", 'tools must be an array of objects such as {"type": "ListIndexTool"}')
        given = []
    found = ToolBlocks()
    names: set[str] = set()
    for number, item in enumerate(given):
        at = f"tools/{number}"
        if not isinstance(item, dict):
            fields.wrong_at(at, 'a tool must be an object such as {"type": "ListIndexTool"}')
            continue
        tool = fields.below(at, item)
        name = _read(tool, found, f"/{at}")
        if name in names:
            fields.wrong_at(at, duplicate.format(name=name))
        names.add(name)
    return found


def _read(tool: Fields, found: ToolBlocks, at: str) -> str:
    """Read one tool; its name, or else its type."""
    kind, name, description = tool.text("type"), tool.text("name"), tool.text("description")
    if not kind:
        tool.wrong("type", "tool type is null")
        kind = ""
    is_mcp = kind in _MCP_TYPES
    known = _KNOWN | {*_MCP_MEMBERS} if is_mcp else _KNOWN
    found.unknown.extend(f"{at}/{each}" for each in sorted(tool.value.keys() - known))
    parameters: JsonObject = {**(tool.object("parameters") or {}), **(tool.object("config") or {})}
    found.places.update((f"{at}/parameters/{each}", f"{at}/config/{each}") for each in tool.object("config") or {})
    attributes = tool.object("attributes") or {}
    section: JsonObject = {"type": MCP_SERVER if is_mcp else kind}
    for member, text in (("name", name), ("description", description)):
        if text:
            section[member] = text
    if is_mcp:
        beside = {each: tool.value[each] for each in _MCP_MEMBERS if tool.value.get(each) is not None}
        found.places.update((f"{at}/parameters/{each}", f"{at}/{each}") for each in beside)
        # as they were shown, where they were texts
        parameters = {name: parsed(value) for name, value in parameters.items()} | beside
    schema = parsed(attributes.get("input_schema"))
    if schema and kind in _WITH_SCHEMA and parameters.get("query") is not None:
        parameters.setdefault("input_schema", schema)
    if parameters:
        section["parameters"] = parameters
    found.sections.append(section)
    found.shown.append(_shown(tool, kind, parameters, attributes))
    return name or kind


def _shown(tool: Fields, kind: str, parameters: JsonObject, attributes: JsonObject) -> JsonObject:
    shown: JsonObject = {"type": kind}
    for name in ("name", "description"):
        if tool.value.get(name):
            shown[name] = tool.value[name]
    if parameters:
        shown["parameters"] = texts_of(_without_secrets(parameters))
    if attributes:
        shown["attributes"] = texts_of(attributes)
    shown["include_output_in_agent_response"] = bool(tool.boolean("include_output_in_agent_response"))
    return shown


def _without_secrets(parameters: JsonObject) -> JsonObject:
    kept: JsonObject = {name: value for name, value in parameters.items() if name not in _HIDDEN}
    if isinstance(url := kept.get("url"), str):
        kept["url"] = _bare(url)
    return kept


def _bare(url: str) -> str:
    """A URL without its parts that may be secret: user, password, query."""
    try:
        parts: Any = urlsplit(url)
    except ValueError:
        return ""
    return str(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))
