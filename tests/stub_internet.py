"""Names and addresses of the internet, as stubs that all lead to one local server: nothing leaves the machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.clock import Clock, SystemClock
from gateway.http_client.clients import HttpClients
from tests.openai_chat_server import ChatServer, Script, chat_server

PUBLIC = "93.184.215.14"
DEADLINE_SECONDS = 20


class Internet:
    """Names and addresses as a test wants them, all of them leading to one local server."""

    def __init__(self, server: ChatServer, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): addresses for name, addresses in names.items()}
        self.asked: list[str] = []
        self.reached: list[tuple[str, int]] = []
        self._server = server

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        return self.names[host]

    def route(self, address: str, port: int) -> tuple[str, int]:
        self.reached.append((address, port))
        return "127.0.0.1", self._server.port


@asynccontextmanager
async def internet(
    *scripts: Script, clock: Clock | None = None, tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None, **more: Any
) -> AsyncGenerator[tuple[HttpClients, ChatServer, Internet]]:
    async with asyncio.timeout(DEADLINE_SECONDS), chat_server(tls[0] if tls else None) as server:
        server.answers(*scripts)
        net = Internet(server, media_example=[PUBLIC], other_example=["1.1.1.1"], inner_example=["10.0.0.1"])
        clients = HttpClients(
            clock or SystemClock(), resolver=net.resolve, route=net.route, tls=tls[1] if tls else None, **more
        )
        try:
            yield clients, server, net
        finally:
            await clients.close()
