"""What the gateway is measured against: bare ASGI applications in a uvicorn of the same settings.

    python -m tests.benchmarks.bare_server FRAMES_FILE UPSTREAM_URL

The file holds a JSON object of lists of frames. `/replay/NAME` sends one of them, a task switch and one send per event
(the least that a server can do that writes events as they come); `/relay/MODEL` passes on what the upstream answers,
chunk by chunk, through the gateway's own HTTP client; `/tick` sends an event a second. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send

from gateway.clock import SystemClock
from gateway.http_client.clients import HttpCall, HttpClients

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
_TICK = b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_7c4d36e65cfe4aed813e75b0add2d919","delta":"word "}\n\n'


class BareServer:
    """The three applications, by path."""

    def __init__(self, frames: dict[str, list[bytes]], upstream_url: str) -> None:
        self._frames = frames
        self._upstream_url = upstream_url
        self._clients = HttpClients(SystemClock())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body", False):
            pass
        _, kind, *name = scope["path"].split("/")
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if kind == "replay":
            for frame in self._frames[name[0]]:
                await asyncio.sleep(0)
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        else:
            async for chunk in self._relay(name[0]) if kind == "relay" else _ticks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _relay(self, model: str) -> AsyncIterator[bytes]:
        body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hello"}]})
        call = HttpCall(
            "POST",
            f"{self._upstream_url}/chat/completions",
            {"content-type": "application/json", "accept": "text/event-stream"},
            body.encode(),
        )
        async with self._clients.stream(call) as stream:
            async for chunk in stream.chunks():
                yield chunk


async def _ticks() -> AsyncIterator[bytes]:
    while True:
        await asyncio.sleep(1)
        yield _TICK


def main() -> None:
    """Serve until killed."""
    frames = {name: [f.encode() for f in each] for name, each in json.loads(Path(sys.argv[1]).read_text()).items()}
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        BareServer(frames, sys.argv[2]),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=0,  # its ticks go on when nobody hears them any more
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
