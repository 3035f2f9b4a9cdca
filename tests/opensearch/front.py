"""A server in front of an OpenSearch node that passes requests on, and breaks what a test tells it to break.

    async with front_before(node.url) as front:
        front.rule = at(3, CUT_BEFORE)
        ... talk to front.url ...
        assert front.requests[2].method == "PUT"

A rule is asked for each request, and says what happens to it. Requests are counted from 1, since the front began or
since `forget`. A test that wants to break each step of something counts the steps first:

    await write(front.url)
    for number in range(1, len(front.requests) + 1):
        front.forget(at(number, CUT_AFTER))
        await write(front.url)
"""

from __future__ import annotations

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from gateway.messages import JsonObject, JsonValue
from tests.local_listener import listening, port_of
from tests.openai_chat_server import Received, _read_request

_DEADLINE_SECONDS = 10.0
_NOT_PASSED_ON = ("accept-encoding", "connection", "content-length", "host")
_ACTIONS = ("create", "delete", "index", "update")


@dataclass(frozen=True, slots=True)
class Pass:
    """It is passed on, and answered with what the node answers; `after_seconds`: it lies here so long first."""

    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends: `before` the request is passed on, or `after` the node has answered it."""

    when: Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Refuse:
    """It is not passed on, but answered with this error, as a node words it."""

    status: int
    type: str
    reason: str

    @property
    def error(self) -> JsonObject:
        return {"type": self.type, "reason": self.reason}

    @property
    def answer(self) -> JsonObject:
        return {"error": {"root_cause": [self.error], **self.error}, "status": self.status}


@dataclass(frozen=True, slots=True)
class RefuseItems:
    """These items of a `_bulk`, counted from 0, are answered with an error; the others are passed on."""

    items: Collection[int]
    refusal: Refuse


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing happens until it is released. Then it is passed on, also if nobody waits for the answer any more.
    `answered`: the node has answered it.
    """

    released: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


Fate: TypeAlias = Pass | Cut | Refuse | RefuseItems | Hold
Rule: TypeAlias = Callable[[int, Received], Fate]

PASS = Pass()
CUT_BEFORE = Cut("before")
CUT_AFTER = Cut("after")
TOO_MANY = Refuse(429, "rejected_execution_exception", "rejected execution of coordinating operation")
UNAVAILABLE = Refuse(503, "unavailable_shards_exception", "primary shard is not active")
FULL = Refuse(
    429,
    "cluster_block_exception",
    "index [all] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, "
    "index has read-only-allow-delete block];",
)


def always(fate: Fate) -> Rule:
    return lambda number, request: fate


def at(chosen: int, fate: Fate) -> Rule:
    """What happens to the request of that number; the others are passed on."""
    return lambda number, request: fate if number == chosen else PASS


class Front:
    """See the module. `requests` are those that came, whatever became of them."""

    def __init__(self, node_url: str) -> None:
        self.requests: list[Received] = []
        self.rule: Rule = always(PASS)
        self.url = ""
        self._node = urlsplit(node_url)
        self._arrived = asyncio.Condition()

    def forget(self, rule: Rule | None = None) -> None:
        """Count from 1 again, by this rule."""
        self.requests.clear()
        self.rule = rule or always(PASS)

    async def received(self, count: int) -> Received:
        """Wait until `count` requests have come in all; the last of them."""
        async with asyncio.timeout(_DEADLINE_SECONDS), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer a connection's requests, one after the other."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await _read_request(reader, 0)
                async with self._arrived:
                    self.requests.append(request)
                    fate = self.rule(len(self.requests), request)
                    self._arrived.notify_all()
                writer.write(await self._answer(request, fate))
                await writer.drain()
        writer.transport.abort()

    async def _answer(self, request: Received, fate: Fate) -> bytes:
        match fate:
            case Cut("before"):
                raise ConnectionResetError
            case Cut():
                await self._passed_on(request)
                raise ConnectionResetError
            case Refuse():
                return _written(fate.status, fate.answer)
            case RefuseItems():
                return await self._partly(request, fate)
            case Hold():
                await fate.released.wait()
                answer = await self._passed_on(request)
                fate.answered.set()
                return answer
            case Pass():
                await asyncio.sleep(fate.after_seconds)
        return await self._passed_on(request)

    async def _passed_on(self, request: Received) -> bytes:
        """The node's answer, which is as long as its connection: so an answer to HEAD needs no care."""
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_PASSED_ON}
        headers |= {"host": self._node.netloc, "connection": "close", "content-length": str(len(request.body))}
        first = f"{request.method} {request.target} HTTP/1.1"
        lines = [first, *(f"{name}: {value}" for name, value in headers.items()), "\r\n"]
        reader, writer = await asyncio.open_connection(self._node.hostname, self._node.port)
        try:
            writer.write("\r\n".join(lines).encode("latin-1") + request.body)
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
        if not answer:
            raise ConnectionResetError
        head, _, body = answer.partition(b"\r\n\r\n")
        kept = [line for line in head.split(b"\r\n") if line.lower() != b"connection: close"]
        return b"\r\n".join([*kept, b"", body])

    async def _partly(self, request: Received, fate: RefuseItems) -> bytes:
        """The answer to a bulk, of which the node has seen only what is not refused."""
        asked = list(_bulk_items(request.body))
        passed = b"".join(text for number, (_, _, text) in enumerate(asked) if number not in fate.items)
        answered: Iterator[JsonValue] = iter(())
        document: JsonObject = {"took": 0, "errors": True}
        if passed:
            unfiltered = Received(request.method, _unfiltered(request.target), request.headers, passed, 0)
            head, _, body = (await self._passed_on(unfiltered)).partition(b"\r\n\r\n")
            document |= json.loads(body)
            if not isinstance(items := document.get("items"), list):  # the node refused all of it
                return head + b"\r\n\r\n" + body
            answered = iter(items)
        document["items"] = [
            _refused(*item[:2], fate.refusal) if number in fate.items else next(answered)
            for number, item in enumerate(asked)
        ]
        return _written(200, {**document, "errors": True})


@asynccontextmanager
async def front_before(node_url: str) -> AsyncGenerator[Front]:
    """A front on a free port, gone with all of its connections afterwards."""
    front = Front(node_url)
    async with listening(front.serve) as listener:
        front.url = f"http://127.0.0.1:{port_of(listener)}"
        yield front


def _written(status: int, document: JsonObject) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _bulk_items(body: bytes) -> Iterator[tuple[str, JsonObject, bytes]]:
    """Each item's action, what it names, and its lines."""
    lines = iter(line for line in body.splitlines(keepends=True) if line.strip())
    for line in lines:
        ((action, named),) = json.loads(line).items()
        assert action in _ACTIONS, f"no bulk action: {action!r}"
        yield action, named, line if action == "delete" else line + next(lines)


def _refused(action: str, named: JsonObject, refusal: Refuse) -> JsonObject:
    """As the node words an item that failed."""
    places: JsonObject = {name: named[name] for name in ("_index", "_id") if name in named}
    return {action: {**places, "status": refusal.status, "error": refusal.error}}


def _unfiltered(target: str) -> str:
    """Without `filter_path`: items that are left out of an answer cannot be counted."""
    parts = urlsplit(target)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "filter_path"]
    return parts._replace(query=urlencode(query)).geturl()
