"""Messages for an MCP server that cannot be reached or refuses.

Above: connection. Below: transports, whose failures these are; tool_output.
"""

from __future__ import annotations

import anyio
import httpx2
from mcp import MCPError, types

from gateway.mcp_client.child_process import LineTooLongError
from gateway.mcp_client.transports import MAX_MESSAGE_BYTES, HttpServer, StdioServer
from gateway.tool_output import encodable

CLOSED = "the server closed the connection"
_MAX_CHARACTERS = 2_000


def failure_of(error: BaseException, server: StdioServer | HttpServer, status: int | None) -> str:
    """The reason why a server cannot be reached, for the operator."""
    if isinstance(error, BaseExceptionGroup):
        return failure_of(error.exceptions[0], server, status)
    if status is not None:
        return f"it answers with HTTP status {status}"
    command = server.command if isinstance(server, StdioServer) else ""
    match error:
        case FileNotFoundError():
            return f"the command {command!r} is not there, or its directory is not"
        case PermissionError():
            return f"the command {command!r} may not be run"
        case LineTooLongError():
            return f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
        case ConnectionError() | anyio.BrokenResourceError() | anyio.ClosedResourceError():
            return CLOSED
        case OSError():
            return f"the command {command!r} cannot be run"
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "no server can be reached at its URL"
        case httpx2.UnsupportedProtocol() if isinstance(server, HttpServer) and server.through is not None:
            return str(error)
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return "the HTTP connection to it failed"
        case MCPError():
            return CLOSED if error.code == types.CONNECTION_CLOSED else f"it answered: {cut(error.message)}"
        case _:
            return "its messages are not valid MCP"


def cut(text: str) -> str:
    """A server's own message, cut to a bounded length."""
    text = encodable(text).strip()
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + " [truncated]"
