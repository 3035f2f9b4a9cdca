"""The MCP server for tests as a process behind a URL."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from tests.waiting import until_listening

DEMO = str(Path(__file__).with_name("mcp_demo_server.py"))


class HttpDemo:
    """The demo server over HTTP, on a port that stays the same when it is started again."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(sys.executable, DEMO, "http", str(self.port))
        await until_listening(self.port, self.process)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await asyncio.wait_for(self.process.wait(), 10)
