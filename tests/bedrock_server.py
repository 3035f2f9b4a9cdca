"""A local server that speaks ConverseStream's wire format, with its faults, over real sockets.

    async with bedrock_server() as server:
        server.will_stream(event("messageStart", role="assistant"), ..., then="reset")
        ...
        assert server.requests[0].signature_problem is None

It parses HTTP itself, because a framework would not let it break off in the middle; signatures are checked with
botocore against the bytes that came in. Above: the Bedrock tests.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.local_listener import listening, port_of

ACCESS_KEY = "AKIDEXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
REGION = "eu-test-1"
DEADLINE_SECONDS = 10.0

Then: TypeAlias = Literal["end", "reset", "close", "silence"]
"""How an answer goes on after its pieces: its proper end, a TCP reset, a FIN without the end, or nothing at all."""

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<headers>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


# --- frames ------------------------------------------------------------------------------------------------------


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One frame with text headers."""
    head = b"".join(
        bytes([len(name.encode())]) + name.encode() + b"\x07" + struct.pack("!H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    return framed(head, payload)


def framed(head: bytes, payload: bytes) -> bytes:
    """One frame around headers that are bytes already."""
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    prelude += struct.pack("!I", zlib.crc32(prelude))
    whole = prelude + head + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def event(kind: str, **body: Any) -> bytes:
    """An event frame, with the padding that the service adds."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps({**body, "p": "abcdefghijk"}).encode())


def text(words: str, index: int = 0) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta={"text": words})


def thought(index: int = 0, **delta: str) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta={"reasoningContent": delta})


def tool(index: int, call_id: str, name: str, *fragments: str, **start: str) -> bytes:
    """A whole call."""
    begin = {"toolUse": {"toolUseId": call_id, "name": name, **start}}
    pieces = [event("contentBlockStart", contentBlockIndex=index, start=begin)]
    for fragment in fragments:
        delta = {"toolUse": {"input": fragment}}
        pieces.append(event("contentBlockDelta", contentBlockIndex=index, delta=delta))
    return b"".join([*pieces, block_stop(index)])


def block_stop(index: int = 0) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def message_stop(reason: str = "end_turn", **fields: Any) -> bytes:
    return event("messageStop", stopReason=reason, **fields)


def metadata(usage: Mapping[str, Any] | None = None, **fields: Any) -> bytes:
    counted = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10} if usage is None else usage
    return event("metadata", usage=counted, metrics={"latencyMs": 5}, **fields)


def exception(kind: str, message: str = "", **fields: Any) -> bytes:
    """What the service sends when it fails in the middle of a stream, e.g. `throttlingException`."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message, **fields}).encode())


def error(code: str, message: str) -> bytes:
    """An unmodelled error: both in headers, no payload."""
    return frame({":message-type": "error", ":error-code": code, ":error-message": message}, b"")


def hello(words: str = "Hello there") -> bytes:
    """A whole answer."""
    start = event("messageStart", role="assistant")
    return start + text(words) + block_stop() + message_stop() + metadata()


# --- the server --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """`signature_problem` is None where botocore comes to the same signature for what arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    signature_problem: str | None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Reply:
    """`pieces` are written one by one, each flushed by itself; `headers_sent` False: not even the status comes."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/vnd.amazon.eventstream"})
    then: Then = "end"
    headers_sent: bool = True


class BedrockServer:
    """Answers each request with the next reply, and keeps what was asked."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self.client_left = asyncio.Event()
        self.url = ""
        self._replies: deque[Reply] = deque()
        self._writers: set[asyncio.StreamWriter] = set()

    def will_stream(self, *pieces: bytes, then: Then = "end") -> None:
        self._replies.append(Reply(pieces, then=then))

    def will_refuse(self, status: int, name: str = "", message: str = "", **headers: str) -> None:
        """A JSON error as the service writes it, its name in a header."""
        named = {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/"} if name else {}
        asked = {key.replace("_", "-"): value for key, value in headers.items()}
        body = json.dumps({"message": message}).encode()
        self._replies.append(Reply([body], status, {"content-type": "application/json", **named, **asked}))

    def will_reply(self, reply: Reply) -> None:
        self._replies.append(reply)

    async def until_client_left(self) -> None:
        """Raises TimeoutError where the client keeps the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.client_left.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.client_left.set()
        finally:
            self._writers.discard(writer)
            writer.close()

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.split("\r\n")
        method, target, _ = line.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in rest if item)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        problem = signature_problem(method, target, headers, body)
        self.requests.append(RecordedRequest(method, target, headers, body, problem))
        reply = self._replies.popleft()
        if reply.headers_sent:
            lines = [f"HTTP/1.1 {reply.status} X", *(f"{k}: {v}" for k, v in reply.headers.items())]
            writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        for piece in reply.pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        return await self._go_on(reply.then, reader, writer)

    async def _go_on(self, then: Then, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if then == "silence":
            if not await reader.read(1):
                self.client_left.set()
        elif then == "reset":
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False


@asynccontextmanager
async def bedrock_server() -> AsyncGenerator[BedrockServer]:
    """A server on a free port of the loopback; nothing of it is left afterwards."""
    server = BedrockServer()
    async with listening(server.serve) as listener:
        server.url = f"http://127.0.0.1:{port_of(listener)}"
        try:
            yield server
        finally:
            server.drop_connections()


def signature_problem(
    method: str, target: str, headers: Mapping[str, str], body: bytes, service: str = "bedrock"
) -> str | None:
    """What is wrong with the request's SigV4 signature: botocore signs anew what arrived and must come to the same."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if found is None:
        return "there is no signature"
    if (found["key"], found["region"], found["service"]) != (ACCESS_KEY, REGION, service):
        return f"the credential scope is {found.group()!r}"
    names = found["headers"].split(";")
    if not {"host", "x-amz-date"} <= set(names):
        return f"only {names} are signed"
    request = AWSRequest(method, f"http://{headers['host']}{target}", {n: headers[n] for n in names}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    token = headers.get("x-amz-security-token")
    auth = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY, token), service, REGION)
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    if auth.signature(to_sign, request) != found["signature"]:
        return "the signature is another one"
    return None
