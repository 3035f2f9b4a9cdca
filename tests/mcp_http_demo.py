"""The MCP server for tests as a process behind a URL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.held_ports import held_port
from tests.waiting import until_listening

DEMO = str(Path(__file__).with_name("mcp_demo_server.py"))


class HttpDemo:
    """The demo server over HTTP, on a port that stays the same when it is started again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(sys.executable, DEMO, "http", str(self.port))
        await until_listening(self.port, self.process)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await asyncio.wait_for(self.process.wait(), 10)


@asynccontextmanager
async def mcp_http_demo() -> AsyncGenerator[HttpDemo]:
    """One that is not started yet, and killed in the end."""
    with held_port() as port:
        server = HttpDemo(port)
        try:
            yield server
        finally:
            await server.kill()
