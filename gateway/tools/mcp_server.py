"""McpServer: all tools of an MCP server, which is a program (stdio) or has a URL (streamable HTTP).

    tools:
      - type: McpServer
        name: files
        parameters: {command: npx, args: ["-y", "@modelcontextprotocol/server-filesystem", "/data"], prefix: "files_"}
      - type: McpServer
        name: weather
        parameters: {url: "https://weather.example/mcp", headers: {Authorization: "Bearer ${env:WEATHER_KEY}"}}

While a server is down, the agent works without its tools, and the server is tried again. A server's description of its
tools is trusted as little as possible: names are changed to names that model providers accept, and descriptions and
schemas are bounded and cleaned of invisible characters. A later change of a server's tools is logged; with `changes:
refuse` it has no effect.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, InstanceOf

from gateway.agent import Secret, ToolSettings
from gateway.errors import ConfigurationError, ToolError
from gateway.messages import AudioBlock, Base64Source, ContentBlock, ImageBlock, JsonObject, TextBlock, ToolSpec
from gateway.records import dump_json
from gateway.tool import Tool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.parameters import ToolParameters, parameter_error, read_parameters, tool_label
from gateway.tool_output import bounded, encodable, json_text, media_block
from gateway.turns.tool_calls import schema_problem
from gateway.wire.schema_cost import MAX_BYTES

# The `mcp` package takes half a second to import: import it only if a server is configured.
if TYPE_CHECKING:
    from mcp import types

    from gateway.mcp_client.connection import McpConnection
    from gateway.mcp_client.transports import HttpServer, StdioServer

logger = logging.getLogger(__name__)

_MAX_NAME_CHARACTERS = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
# Characters that a person who reads a description does not see, but a model does: controls, the reversal of direction,
# and the tag characters that spell hidden text.
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


class McpServerParameters(ToolParameters):
    """The `parameters` of an McpServer, whose tools become the agent's. It has either a `command` or a `url`."""

    command: str | None = None
    """A program; found by PATH, or relative to the configuration file. Never a line for a shell."""
    args: tuple[InstanceOf[str], ...] = ()
    """The program's arguments."""
    env: dict[str, InstanceOf[str]] = Field(default_factory=dict)
    """Environment variables of the program, besides those such as PATH and HOME. It gets no others of the gateway."""
    url: InstanceOf[str] | None = None
    """The address of a server that is reached by HTTP."""
    headers: dict[str, InstanceOf[str]] = Field(default_factory=dict)
    """Headers of every request to `url`, such as the server's key as '${env:NAME}'."""
    include: tuple[str, ...] = ("*",)
    """Which of the server's tools are used: names or patterns (`read_*`)."""
    exclude: tuple[str, ...] = ()
    """Which of these tools are left out nevertheless: names or patterns."""
    prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,40}$")
    """Put before every tool's name, so that two servers may have tools of one name."""
    changes: Literal["accept", "refuse"] = "accept"
    """`refuse`: tools that are new, or have changed since the server's first connection, are left out until a restart.
    """
    max_tools: int = Field(default=128, gt=0)
    """How many of the server's tools are read; further ones are left out."""
    max_description_characters: int = Field(default=4_000, gt=0)
    """The longest description of a tool; the rest is cut off."""
    connect_timeout_seconds: float = Field(default=30.0, gt=0)
    """How long one attempt to connect may take."""
    first_wait_seconds: float = Field(default=2.0, ge=0)
    """How long a run waits for a server's first connection; after that the run goes on without the server's tools."""
    check_seconds: float = Field(default=60.0, gt=0)
    """After so much silence the server is asked for its tools, to check that it still responds."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server. `remote_name` is its name at the server."""

    spec: ToolSpec
    remote_name: str
    connection: McpConnection
    max_output_characters: int

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        if context.trace is not None:  # the mcp package sends the current span's `traceparent` in `_meta` itself
            context.trace.add({"mcp.method.name": "tools/call"})
        result = await self.connection.call(self.remote_name, arguments)
        blocks = bounded(result_blocks(result), self.max_output_characters)
        if result.is_error:
            text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
            raise ToolError(text or "the tool failed without a reason")
        return blocks


@dataclass(slots=True)
class McpToolbox:
    """The tools that a server has now."""

    connection: McpConnection
    parameters: McpServerParameters
    label: str = ""
    """The server's name for clients; it reveals nothing that only the operator should know."""
    needs_approval: bool = False
    """A person approves each call: so its arguments have to be checked before."""
    _first: dict[str, types.Tool] | None = None  # as the server first listed them
    _listed: tuple[types.Tool, ...] = ()  # the list that `_tools` and `_left_out` were made from
    _tools: tuple[Tool, ...] = ()
    _left_out: list[str] = field(default_factory=list)

    async def tools(self) -> tuple[Tool, ...]:
        """The server's tools at present. Only the first attempt to connect is awaited, for at most
        `first_wait_seconds`.
        """
        self.connection.start()
        if not self.connection.tried:
            await self.connection.settled(self.parameters.first_wait_seconds)
        if self.connection.tools is not self._listed:
            self._take(self.connection.tools)
        return self._tools

    def problem(self) -> str | None:
        if self.connection.problem is not None:
            return self.connection.problem
        if self._left_out:
            return f"tools of an MCP server are left out: {'; '.join(self._left_out[:20])}"
        return None

    async def close(self) -> None:
        await self.connection.close()

    def _take(self, listed: tuple[types.Tool, ...]) -> None:
        self._listed = listed
        self._left_out = []
        if self._first is None and listed:
            self._first = {tool.name: tool for tool in listed}
        taken: dict[str, Tool] = {}
        for tool in listed:
            if not _is_chosen(tool.name, self.parameters):
                continue
            spec = _spec(tool, self.parameters, self.label)
            if (reason := self._refusal(tool, spec, taken)) is not None:
                self._left_out.append(f"{_visible(tool.name)[:_MAX_NAME_CHARACTERS]!r} {reason}")
            else:
                taken[spec.name] = McpTool(spec, tool.name, self.connection, self.parameters.max_output_characters)
        if self._left_out:
            logger.warning("tools of an MCP server are left out", extra={"tools": self._left_out[:20]})
        self._tools = tuple(taken.values())

    def _refusal(self, tool: types.Tool, spec: ToolSpec, taken: Mapping[str, Tool]) -> str | None:
        if spec.name in taken:
            return f"has the name of another one ({spec.name!r})"
        if self.parameters.changes == "refuse" and self._first is not None and self._first.get(tool.name) != tool:
            return "is not as it was when the server was first seen"
        if _is_too_large(spec.input_schema):
            return "has too large a schema"
        if self.needs_approval and (wrong := schema_problem(spec.input_schema)) is not None:
            return f"needs approval, and arguments cannot be checked against its schema: {wrong}"
        return None


def _is_too_large(schema: JsonObject) -> bool:
    try:
        return len(dump_json(schema)) > MAX_BYTES
    except ValueError:
        return True


def _is_chosen(name: str, parameters: McpServerParameters) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in parameters.exclude):
        return False
    return any(fnmatchcase(name, pattern) for pattern in parameters.include)


def _spec(tool: types.Tool, parameters: McpServerParameters, label: str) -> ToolSpec:
    name = (parameters.prefix + _NOT_IN_A_NAME.sub("_", tool.name))[:_MAX_NAME_CHARACTERS]
    description = _visible(tool.description or tool.title or "")
    if len(description) > parameters.max_description_characters:
        description = description[: parameters.max_description_characters] + " [truncated]"
    return ToolSpec(name or "_", description, tool.input_schema, server=label)


def _visible(text: str) -> str:
    return _INVISIBLE.sub("", encodable(text)).strip()


def result_blocks(result: types.CallToolResult) -> tuple[ContentBlock, ...]:
    """A result as content. Structured content is given as JSON, unless the server gave it as text, too."""
    blocks = [block for content in result.content for block in _blocks(content)]
    if result.structured_content is not None and not any(isinstance(block, TextBlock) for block in blocks):
        blocks.append(TextBlock(json_text(result.structured_content)))
    return tuple(blocks)


def _blocks(content: types.ContentBlock) -> Iterator[ContentBlock]:
    from mcp import types

    match content:
        case types.TextContent():
            if content.text:
                yield TextBlock(encodable(content.text))
        case types.ImageContent():
            yield _media(content, ImageBlock)
        case types.AudioContent():
            yield _media(content, AudioBlock)
        case types.ResourceLink():
            described = f" ({_visible(content.description)})" if content.description else ""
            yield TextBlock(encodable(f"[resource {content.name!r}: {content.uri}{described}]"))
        case types.EmbeddedResource():
            yield from _resource(content.resource)


def _media(content: types.ImageContent | types.AudioContent, kind: type[ImageBlock] | type[AudioBlock]) -> ContentBlock:
    if _decoded(content.data) is None:
        return TextBlock(f"[left out: {content.type} data that is not base64]")
    return kind(Base64Source(content.data, content.mime_type.lower()))


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> Iterator[ContentBlock]:
    from mcp import types

    if isinstance(resource, types.TextResourceContents):
        yield TextBlock(encodable(resource.text))
        return
    data = _decoded(resource.blob)
    if data is None:
        yield TextBlock("[left out: a resource whose data is not base64]")
    else:
        name = unquote(urlsplit(str(resource.uri)).path).rpartition("/")[2]
        yield media_block(data, (resource.mime_type or "application/octet-stream").lower(), encodable(name) or None)


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def open_mcp_server(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The toolbox of a server. Nothing is started before its tools are asked for.

    Raises:
        ConfigurationError: there is neither a command nor a URL, or both, or the URL cannot be used.
    """
    from gateway.mcp_client.connection import ConnectionLimits, McpConnection
    from gateway.mcp_client.transports import StdioServer

    parameters = read_parameters(settings, McpServerParameters)
    server = _server(settings, parameters, environment)
    limits = ConnectionLimits(parameters.connect_timeout_seconds, parameters.check_seconds, parameters.max_tools)
    name = settings.name or (server.command if isinstance(server, StdioServer) else urlsplit(server.url).netloc)
    connection = McpConnection(name, server, environment.clock, limits)
    return McpToolbox(connection, parameters, _label(settings, server), settings.approval == "always")


def _label(settings: ToolSettings, server: StdioServer | HttpServer) -> str:
    """The configured name, else the program's or the host's: without a program's folder or the rest of a URL."""
    from gateway.mcp_client.transports import StdioServer

    if settings.name:
        return settings.name
    return PurePath(server.command).name if isinstance(server, StdioServer) else urlsplit(server.url).hostname or "mcp"


def _server(
    settings: ToolSettings, parameters: McpServerParameters, environment: ToolEnvironment
) -> StdioServer | HttpServer:
    from gateway.mcp_client.transports import HttpServer, StdioServer

    label = tool_label(settings)
    if (parameters.command is None) == (parameters.url is None):
        raise ConfigurationError(f"the tool {label}: parameters need either 'command' or 'url'")
    if parameters.command is not None:
        if environment.http.endpoints is not None:
            raise parameter_error(settings, "command", "is for the operator; tools of callers have a 'url'")
        if parameters.headers:
            raise parameter_error(settings, "headers", "go with 'url', not with 'command'")
        variables = {name: _revealed(value) for name, value in parameters.env.items()}
        arguments = [_revealed(value) for value in parameters.args]
        for text in (parameters.command, *arguments, *variables, *variables.values()):
            if "\0" in text or encodable(text) != text:
                raise ConfigurationError(f"the tool {label}: 'command', 'args' or 'env' has a character that cannot be")
        return StdioServer(parameters.command, arguments, variables, environment.directory)
    if parameters.args or parameters.env:
        name = "args" if parameters.args else "env"
        raise parameter_error(settings, name, "goes with 'command', not with 'url'")
    url = _revealed(parameters.url or "")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise parameter_error(settings, "url", "is not an http or https URL")
    headers = {name: _revealed(value) for name, value in parameters.headers.items()}
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise parameter_error(settings, "headers", "has a name or value that HTTP does not take")
    endpoints = environment.http.endpoints
    if endpoints is not None and (refusal := endpoints.refusal(url)) is not None:
        raise parameter_error(settings, "url", f"may not be reached: {refusal}")
    return HttpServer(url, headers, None if endpoints is None else environment.http)


def _revealed(text: str) -> str:
    return text.reveal() if isinstance(text, Secret) else text


TOOL_TYPE = ToolType(
    "McpServer",
    open_mcp_server,
    from_callers=True,
    of_server="The tools of an MCP server: 'url' and 'headers' say how it is reached.",
    parameters=McpServerParameters,
)
