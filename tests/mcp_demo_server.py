"""An MCP server for tests, made with the `mcp` package: `python mcp_demo_server.py stdio`, or `http PORT`.

Its tools do what well and badly behaved tools do. Over HTTP it keeps sessions, so a restart forgets them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Annotated, Any

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

server: MCPServer[Any] = MCPServer("demo", instructions="for tests")

ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@server.tool()
def add(a: Annotated[int, Field(description="the first")], b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise ValueError("the fuse is blown")


@server.tool(structured_output=False)
def many_blocks() -> list[types.ContentBlock]:
    """Give one block of each kind."""
    text = types.TextResourceContents(uri="file:///notes.txt", text="a note")
    blob = types.BlobResourceContents(uri="file:///a%20b.pdf", blob="AAEC", mime_type="application/pdf")
    return [
        types.TextContent(text="words"),
        types.ImageContent(data=ONE_PIXEL, mime_type="image/png"),
        types.AudioContent(data="AAEC", mime_type="audio/wav"),
        types.ImageContent(data="not base64!", mime_type="image/png"),
        types.EmbeddedResource(resource=text),
        types.EmbeddedResource(resource=blob),
        types.ResourceLink(name="manual", uri="https://example.com/manual"),
    ]


@server.tool(structured_output=False)
def much() -> str:
    """Give a lot."""
    return "x" * 1_000_000


@server.tool(structured_output=False)
def environment() -> str:
    """Tell the names of the environment's variables, and where the program runs."""
    return "\n".join([os.getcwd(), *sorted(os.environ)])


@server.tool(structured_output=False)
def die() -> str:
    """End the process as a crash would."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool(structured_output=False)
async def hang() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return "never"


@server.tool(structured_output=False)
def start_child() -> str:
    """Start a process that ignores the end of this one; give the two process ids."""
    code = "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Event().wait()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return f"{os.getpid()} {child.pid}"


@server.tool(structured_output=False)
async def grow(context: Context[Any]) -> str:
    """Get one more tool, and say so."""

    def grown() -> str:
        """A tool that was not there."""
        return "grown"

    server.add_tool(grown, name="grown")
    await context.notify_tools_changed()
    return "done"


def main() -> None:
    """Serve until the connection or the process ends."""
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
