"""A local HTTP server that plays scripted answers: chat completions, and whatever else a foreign service may do wrong.

    async with chat_server() as server:
        server.answers(completion("Hel", "lo"), error(429, retry_after=2))
        ... talk to server.endpoint ...
        assert server.requests[0].json["stream"] is True

Each request takes the next script, in order of arrival; the last one is repeated where `server.repeat` is set, else a
request too many gets status 599. Real sockets, loopback only; nothing waits for the machine's time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.local_listener import listening, port_of


@dataclass
class Received:
    """A request as it came. `disconnected` is set once the client is seen to be gone while the answer was under way."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Script:
    """An answer. `pieces` are written one by one.

    `framing`: how the body's end is told; `declared`: a content-length that lies. `hold`: what is awaited before
    `pieces_after` and the ending. `ending`: `end` is a proper one, `reset` a RST, `close` a FIN in the middle,
    `silence` none until the client leaves. `headers_after`: awaited before anything is sent.
    """

    status: int = 200
    pieces: Sequence[bytes] = ()
    content_type: str | None = "text/event-stream"
    headers: Sequence[tuple[str, str]] = ()
    framing: Literal["chunked", "length", "close"] = "chunked"
    declared: int | None = None
    ending: Literal["end", "reset", "close", "silence"] = "end"
    hold: asyncio.Event | None = None
    pieces_after: Sequence[bytes] = ()
    headers_after: asyncio.Event | None = None
    raw: bytes | None = None  # instead of an HTTP answer
    endless: Callable[[int], bytes] | None = None  # the piece of that number, behind `pieces`, until the client leaves


class ChatServer:
    """See the module."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.repeat = False
        self.connections = 0
        self.server_names: list[str | None] = []
        self.port = 0
        self._scripts: list[Script] = []
        self._taken = 0
        self._arrived = asyncio.Condition()

    @property
    def endpoint(self) -> str:
        """The base URL, as an agent's `endpoint`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answers(self, *scripts: Script) -> None:
        """What the next requests get."""
        self._scripts += scripts

    def forget(self) -> None:
        """As new: nothing was received, and no script is left."""
        self.requests.clear()
        self._scripts.clear()
        self._taken = 0
        self.repeat = False

    async def received(self, count: int = 1) -> Received:
        """Wait until `count` requests have come in all; the last of them."""
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer, number):
                pass
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        request = await _read_request(reader, number)
        script = self._next_script()
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return await self._play(script, reader, writer, request)

    async def _play(
        self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Received
    ) -> bool:
        if script.headers_after is not None:
            await self._until(script.headers_after, reader, request)
        if script.raw is not None:
            writer.write(script.raw)
            await writer.drain()
            return False
        writer.write(_head(script))
        await _write(script, script.pieces, writer)
        if script.endless is not None:
            await self._write_on(script, script.endless, writer, request)
        if script.hold is not None:
            await self._until(script.hold, reader, request)
        await _write(script, script.pieces_after, writer)
        return await self._end(script, reader, writer, request)

    async def _write_on(
        self, script: Script, piece: Callable[[int], bytes], writer: asyncio.StreamWriter, request: Received
    ) -> None:
        try:
            for number in itertools.count():
                await _write(script, [piece(number)], writer)
        except ConnectionError:
            request.disconnected.set()
            raise

    async def _end(
        self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Received
    ) -> bool:
        match script.ending:
            case "reset":
                writer.transport.abort()
                return False
            case "close":
                return False
            case "silence":
                await self._until(asyncio.Event(), reader, request)
                return False
            case "end":
                if script.framing == "chunked":
                    writer.write(b"0\r\n\r\n")
                await writer.drain()
                return script.framing != "close"

    async def _until(self, event: asyncio.Event, reader: asyncio.StreamReader, request: Received) -> None:
        """Wait for the event, or for the client to leave, which ends the exchange."""
        gone = asyncio.ensure_future(reader.read(1))
        told = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({gone, told}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not told.done():
                request.disconnected.set()
                raise ConnectionResetError
        finally:
            for waiting in (gone, told):
                waiting.cancel()
            await asyncio.gather(gone, told, return_exceptions=True)

    def _next_script(self) -> Script:
        if self._taken < len(self._scripts):
            self._taken += 1
        elif not self.repeat:
            return Script(599, (b"no script is left",), "text/plain")
        return self._scripts[self._taken - 1]


async def _read_request(reader: asyncio.StreamReader, number: int) -> Received:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body, number)


async def _write(script: Script, pieces: Sequence[bytes], writer: asyncio.StreamWriter) -> None:
    for piece in pieces:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if script.framing == "chunked" else piece)
        await writer.drain()
        await asyncio.sleep(0)


def _head(script: Script) -> bytes:
    headers = list(script.headers)
    if script.content_type is not None:
        headers.append(("content-type", script.content_type))
    if script.framing == "chunked":
        headers.append(("transfer-encoding", "chunked"))
    elif script.framing == "length":
        declared = sum(map(len, script.pieces)) if script.declared is None else script.declared
        headers.append(("content-length", str(declared)))
    else:
        headers.append(("connection", "close"))
    lines = [f"HTTP/1.1 {script.status} Whatever", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@asynccontextmanager
async def chat_server(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ChatServer]:
    """A server on a free port, gone with all of its connections afterwards."""
    server = ChatServer()
    if tls is not None:
        tls.sni_callback = lambda _, name, __: server.server_names.append(name)
    async with listening(server.serve, tls) as listener:
        server.port = port_of(listener)
        yield server


# --- scripts -------------------------------------------------------------------------------------------------------


def record(chunk: object) -> bytes:
    """One record of the event stream."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def chunk(delta: object = None, finish_reason: str | None = None, **more: object) -> dict[str, object]:
    """A `chat.completion.chunk`."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def text_records(*texts: str, finish_reason: str | None = "stop") -> list[bytes]:
    """The records of an answer in words, up to and with its finish_reason and usage; without `[DONE]`."""
    usage = {"prompt_tokens": 3, "completion_tokens": len(texts), "total_tokens": 3 + len(texts)}
    records = [record(chunk({"role": "assistant", "content": ""}))]
    records += [record(chunk({"content": text})) for text in texts]
    if finish_reason is not None:
        records.append(record(chunk({}, finish_reason)))
        records.append(record({"choices": [], "usage": usage}))
    return records


def completion(*texts: str, split: int | None = None) -> Script:
    """A whole answer; `split`: cut into pieces of that many bytes, wherever that falls."""
    body = b"".join([*text_records(*texts), DONE])
    pieces = [body] if split is None else [body[i : i + split] for i in range(0, len(body), split)]
    return Script(pieces=pieces)


def error(status: int, message: str = "no", *, code: object = None, retry_after: object = None) -> Script:
    """An answer that says that the request failed."""
    body = json.dumps({"error": {"message": message, "type": None, "param": None, "code": code}}).encode()
    headers = [] if retry_after is None else [("retry-after", str(retry_after))]
    return Script(status, (body,), "application/json", headers, framing="length")
