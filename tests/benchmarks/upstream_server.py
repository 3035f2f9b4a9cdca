"""A model provider on loopback: chat completions of known deltas, at once or in their own time.

    python -m tests.benchmarks.upstream_server

The model's name says what it answers: `COUNT-GAP` is so many deltas, GAP milliseconds apart (`200-0`: all in one burst,
`200-1`: a millisecond apart, `60-1000`: one a second). Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _record(delta: dict[str, str], reason: str | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


_FIRST = _record({"role": "assistant", "content": "word "})
_DELTA = _record({"content": "word "})
_LAST = _record({}, "stop") + b"data: [DONE]\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _answer(model: str, writer: asyncio.StreamWriter) -> None:
    count, gap = (int(part) for part in model.split("-"))
    if gap == 0:
        writer.write(_HEAD + _chunk(_FIRST + _DELTA * (count - 1) + _LAST) + b"0\r\n\r\n")
        return
    writer.write(_HEAD + _chunk(_FIRST))
    for _ in range(count - 1):
        await asyncio.sleep(gap / 1000)
        writer.write(_chunk(_DELTA))
    await asyncio.sleep(gap / 1000)
    writer.write(_chunk(_LAST) + b"0\r\n\r\n")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await _answer(json.loads(await reader.readexactly(length))["model"], writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=2048, limit=2**22)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve until killed."""
    if sys.platform == "win32":
        asyncio.run(_main())
        return
    import uvloop

    uvloop.run(_main())


if __name__ == "__main__":
    main()
