"""The Agent API protocol: its requests, and the frames of a response.

Shared by both directions:

ids.py       ids that lead back to their run
errors.py    errors before a response, and in one
settings.py  the operator's settings, for all callers or for a key
fields.py    the members of a body
routes.py    the errors of the routes*

Requests:

request.py         the body
input_messages.py  the messages of its input
content.py         their contents
tools.py           the client's tools
recognition.py     finds the messages of the input that the session has already
mcp_servers.py     the agent's MCP servers, which a session's first response lists
start.py           begins the run*
stored.py          responses that have begun: followed, looked at, stopped*
endpoints.py       the routes, and the protocol as a part*

A response, which the gateway and the builders of `agent_api_builder` write alike:

deltas.py     the value of a content, by its type, and how a delta continues it
grammar.py    the order of frames in a response, and the frames
media_out.py  media and tools' results as contents
items.py      the things that a run shows: each is one content of a message
usage.py      the tokens of a run
output.py     the parts of a response that do not come from its run's events, and the run's record of them
renderer.py   a run as the frames of a stream, or as one response

Files with a * are not pure: they ask the protocols' environment, keep something, or know the web framework. Below:
protocol, the words.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.agent_api.grammar import ProtocolStateError
    from gateway.agent_api_builder.builder import MessageBuilder, ResponseBuilder, StreamingResponseBuilder
    from gateway.agent_api_builder.content_builder import ContentBuilder
    from gateway.agent_api_builder.schemas import (
        AgentRequest,
        AgentResponse,
        AudioContent,
        BaseRequest,
        BaseResponse,
        Content,
        ContentType,
        DataContent,
        Error,
        Event,
        FileContent,
        FunctionCall,
        FunctionCallOutput,
        FunctionParameters,
        FunctionTool,
        ImageContent,
        McpApprovalRequest,
        McpApprovalResponse,
        McpCall,
        McpCallOutput,
        McpListTools,
        McpListToolsTool,
        Message,
        MessageType,
        RefusalContent,
        Role,
        RunStatus,
        TextContent,
        Tool,
        VideoContent,
    )

__all__ = [
    "AgentRequest",
    "AgentResponse",
    "AudioContent",
    "BaseRequest",
    "BaseResponse",
    "Content",
    "ContentBuilder",
    "ContentType",
    "DataContent",
    "Error",
    "Event",
    "FileContent",
    "FunctionCall",
    "FunctionCallOutput",
    "FunctionParameters",
    "FunctionTool",
    "ImageContent",
    "McpApprovalRequest",
    "McpApprovalResponse",
    "McpCall",
    "McpCallOutput",
    "McpListTools",
    "McpListToolsTool",
    "Message",
    "MessageBuilder",
    "MessageType",
    "ProtocolStateError",
    "RefusalContent",
    "ResponseBuilder",
    "Role",
    "RunStatus",
    "StreamingResponseBuilder",
    "TextContent",
    "Tool",
    "VideoContent",
]

_HOMES = {  # of all other names: schemas
    "ContentBuilder": "agent_api_builder.content_builder",
    "MessageBuilder": "agent_api_builder.builder",
    "ProtocolStateError": "agent_api.grammar",
    "ResponseBuilder": "agent_api_builder.builder",
    "StreamingResponseBuilder": "agent_api_builder.builder",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this package

    def __getattr__(name):
        """Import a name above when it is used: the gateway needs none of them, and making the models takes long."""
        if name in __all__:
            return getattr(import_module(f"gateway.{_HOMES.get(name, 'agent_api_builder.schemas')}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
