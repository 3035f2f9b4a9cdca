"""Pages of what is large: they end early, and the cursor goes on."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest

from gateway.protocol.pages import PAGE_BYTES
from tests.asgi_server import RawClient
from tests.running_gateway import agent, local_gateway, run_body, scripted
from tests.waiting import until


async def test_a_page_of_large_messages_ends_early_and_the_next_one_goes_on(tmp_path: Path) -> None:
    text = "x" * (PAGE_BYTES * 3 // 5)
    asked = [{"id": f"u{number}", "role": "user", "content": text} for number in range(4)]
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        await gateway.client.run("a", run_body(messages=asked))
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await gateway.client.get(f"/threads/thread-1/messages?limit=500{cursor and f'&cursor={cursor}'}")
            pages.append([message["id"] for message in page["messages"]])
            cursor = page["nextCursor"]
    assert pages[0] == ["u0", "u1"]
    assert pages[1] == ["u2", "u3"]
    assert len(pages[2]) == 1


async def narrow_client(port: int) -> RawClient:
    """One whose socket holds little that is not read."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    return RawClient(*await asyncio.open_connection(sock=raw))


CONNECT: dict[str, object] = {"threadId": "thread-1", "runId": "r", "messages": [], "tools": [], "context": []}
POSTS: dict[str, tuple[str, dict[str, object]]] = {
    "a search of ml-commons": ("/_plugins/_ml/memory/thread-1/_search", {"query": {"exists": {"field": "memory_id"}}}),
    "a task over JSON-RPC": ("/a2a", {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "run-1"}}),
    "a connection to a thread": ("/agents/a/connect", CONNECT),
}
"""Requests with large answers: their paths and bodies."""


@pytest.mark.parametrize("name", POSTS)
async def test_who_reads_nothing_of_what_a_post_gives_gets_no_more_of_it(tmp_path: Path, name: str) -> None:
    asked = [{"id": "u1", "role": "user", "content": "x" * 6_000_000}]  # more than the system takes at once
    path, content = POSTS[name]
    body = json.dumps(content).encode()
    model = scripted([{"text": "hello"}])
    async with local_gateway(tmp_path, [agent("a", model)], server={"max_unread_bytes": 9_000_000}) as gateway:
        await gateway.client.run("a", run_body(messages=asked))
        clients: list[RawClient] = []
        head: dict[str, str] = {}
        while head.get("status") != "429" and len(clients) < 50:
            client = await narrow_client(urlsplit(gateway.client.base_url).port or 0)
            clients.append(client)
            client.send("POST", path, body, "Content-Type: application/json\r\n")
            head = await client.read_head()
            assert head["status"] in ("200", "429"), head
            cast(asyncio.Transport, client.writer.transport).pause_reading()
        assert (head["status"], head.get("retry-after")) == ("429", "5")
        for client in clients:
            client.writer.transport.abort()


async def test_who_reads_nothing_of_its_large_pages_gets_no_more_of_them(tmp_path: Path) -> None:
    text = "x" * (PAGE_BYTES - 10_000)  # two of them are a page
    asked = [{"id": f"u{number}", "role": "user", "content": text} for number in range(2)]
    model = scripted([{"text": "hello"}])
    bound = {"max_unread_bytes": PAGE_BYTES * 9 // 4}
    path = "/threads/thread-1/messages"
    async with local_gateway(tmp_path, [agent("a", model)], server=bound) as gateway:
        await gateway.client.run("a", run_body(messages=asked))
        clients: list[RawClient] = []
        head: dict[str, str] = {}
        while head.get("status") != "429" and len(clients) < 50:
            client = await narrow_client(urlsplit(gateway.client.base_url).port or 0)
            clients.append(client)
            client.send("GET", path)
            head = await client.read_head()
            cast(asyncio.Transport, client.writer.transport).pause_reading()
        assert (head["status"], head["retry-after"]) == ("429", "5")
        assert (await gateway.client.http.get("/threads")).status_code == 200, "what is small is given"
        for client in clients:
            client.writer.transport.abort()
        connections = gateway.server.server_state.connections
        await until(lambda: len(connections) <= 1)
        assert (await gateway.client.http.get(path)).status_code == 200
