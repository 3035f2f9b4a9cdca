"""The load: requests over raw asyncio streams, cheap enough to keep a server busy from one other core."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass

_END = b"0\r\n\r\n"
_DATA = b"data: "
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)(?=(?s:.)*?\r\n\r\n)", re.IGNORECASE)
_MESSAGE_ID = re.compile(rb'"messageId":"([^"]+)"')
_DELTA = re.compile(rb'"delta":"((?:[^"\\]|\\.)*)"')
_CONTENT = re.compile(rb'"content":"((?:[^"\\]|\\.)*)"')
_ITEM_ID = re.compile(rb'"item_id":"(msg_[^"]+)"')
_MESSAGE_OF_CHAT = re.compile(rb'{"id":"[^"]*",')
_TURNS = 25  # until a connection begins another thread


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go; `body` makes each one's, given a number that stands for its connection. `counts_as`: how many
    events an answer stands for that is no stream.
    """

    port: int
    path: str
    body: Callable[[int], bytes]
    counts_as: int = 0
    method: str = "POST"


class BrokenAnswerError(Exception):
    """A server did not answer 200, or not to the end."""


class Connection:
    """A connection that is used again and again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, target: Target, number: int) -> None:
        body = target.body(number)
        head = (
            f"{target.method} {target.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"accept: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def run(self, target: Target, number: int = 0) -> bytes:
        """One request; the whole answer, with its head and chunk sizes."""
        self.send(target, number)
        await self._writer.drain()
        answer = await (self._whole() if target.counts_as else self._chunked())
        if not answer.startswith(b"HTTP/1.1 200"):
            raise BrokenAnswerError(answer[:500].decode(errors="replace"))
        if isinstance(target.body, KnownThread):
            target.body.heard(number, answer)
        return answer

    async def _chunked(self) -> bytes:
        pieces = []
        tail = b""
        while not tail.endswith(_END):
            pieces.append(await self.receive())
            tail = (tail + pieces[-1])[-len(_END) :]
        return b"".join(pieces)

    async def _whole(self) -> bytes:
        """An answer that tells its length."""
        answer = await self.receive()
        while (length := _LENGTH.search(answer)) is None:
            answer += await self.receive()
        end = answer.index(b"\r\n\r\n") + 4 + int(length[1])
        while len(answer) < end:
            answer += await self.receive()
        return answer

    async def seconds_to(self, mark: bytes, target: Target) -> float:
        """Seconds from a request to the mark in its answer, which is then read to its end."""
        begun = time.perf_counter()
        self.send(target, 0)
        answer, seconds = b"", 0.0
        while not answer.endswith(_END):
            answer += await self.receive()
            if not seconds and mark in answer:
                seconds = time.perf_counter() - begun
        if not seconds:
            raise BrokenAnswerError(answer[:500].decode(errors="replace"))
        return seconds

    async def count_events(self) -> int:
        """The events in the next piece of the answer."""
        return (await self.receive()).count(_DATA)

    async def receive(self) -> bytes:
        """The next piece of the answer. Raises BrokenAnswerError where the connection was closed."""
        data = await self._reader.read(2**18)
        if not data:
            raise BrokenAnswerError("the connection was closed")
        return data

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def connections(port: int, count: int) -> AsyncGenerator[list[Connection]]:
    """So many open connections."""
    opened: list[Connection] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
            opened.append(Connection(reader, writer))
        yield opened
    finally:
        for connection in opened:
            connection.close()


async def run_all(opened: list[Connection], target: Target, runs: int) -> int:
    """Make so many requests, each connection one at a time; how many events came."""
    left = iter(range(runs))
    return sum(await asyncio.gather(*(_run_some(c, target, n, left) for n, c in enumerate(opened))))


async def _run_some(connection: Connection, target: Target, number: int, left: Iterator[int]) -> int:
    events = 0
    for _ in left:
        answer = await connection.run(target, number)
        events += target.counts_as or answer.count(_DATA)
    return events


def frames_of(answer: bytes) -> list[bytes]:
    """The server-sent frames of a chunked answer."""
    rest = answer.partition(b"\r\n\r\n")[2]
    content = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        content, rest = content + rest[:length], rest[length + 2 :]
    return [frame + b"\n\n" for frame in content.split(b"\n\n") if frame]


# --- requests


def new_thread(messages: int = 1) -> Callable[[int], bytes]:
    """Each request begins a thread of its own, with so many messages of 300 bytes."""
    history = _history(messages - 1)

    def body(number: int) -> bytes:
        return _run_input(f"thread-{uuid.uuid4().hex}", history, _question())

    return body


class KnownThread:
    """Each connection goes on with its own thread: it sends what it has of it, and a question. A thread begins with so
    many messages and is left after some turns, so that its length stays about the same.
    """

    def __init__(self, messages: int) -> None:
        self._history = _history(messages - 1)
        self._threads: dict[int, _Talk] = {}

    def __call__(self, number: int) -> bytes:
        if (talk := self._threads.get(number)) is None:
            talk = self._threads[number] = _Talk(f"thread-{uuid.uuid4().hex}", self._begun())
        talk.question = _question()
        return self._request(talk.thread_id, talk.rows, talk.question)

    def _begun(self) -> list[bytes]:
        return list(self._history)

    def _request(self, thread_id: str, rows: list[bytes], question: bytes) -> bytes:
        return _run_input(thread_id, rows, question)

    def heard(self, number: int, answer: bytes) -> None:
        """Take an answer in, as a client does."""
        talk = self._threads[number]
        talk.rows += [talk.question, self._answer(answer)]
        if len(talk.rows) > len(self._history) + 2 * _TURNS:
            del self._threads[number]

    def _answer(self, answer: bytes) -> bytes:
        message_id = _MESSAGE_ID.search(answer)
        if message_id is None:
            raise BrokenAnswerError("the answer has no text")
        text = "".join(json.loads(b'"%b"' % delta) for delta in _DELTA.findall(answer))
        return _json({"id": message_id[1].decode(), "role": "assistant", "content": text})


class KnownChat(KnownThread):
    """The same as a client of Chat Completions does it: its messages have no ids."""

    def __init__(self, messages: int, agent: str) -> None:
        super().__init__(messages)
        self._agent = agent

    def _request(self, thread_id: str, rows: list[bytes], question: bytes) -> bytes:
        named = {"model": self._agent, "stream": True, "metadata": {"thread_id": thread_id}}
        messages = b",".join(_MESSAGE_OF_CHAT.sub(b"{", row, count=1) for row in [*rows, question])
        return b'%b,"messages":[%b]}' % (json.dumps(named, separators=(",", ":")).encode()[:-1], messages)

    def _answer(self, answer: bytes) -> bytes:
        text = "".join(json.loads(b'"%b"' % delta) for delta in _CONTENT.findall(answer))
        if not text:
            raise BrokenAnswerError("the answer has no text")
        return _json({"id": "", "role": "assistant", "content": text})


class ReplayedResponses(KnownThread):
    """The same as a client of Responses does it that sends all items again: what the agent said has the ids of the
    gateway's items, and nothing names the thread.
    """

    def __init__(self, messages: int, agent: str) -> None:
        super().__init__(messages)
        self._agent = agent

    def _begun(self) -> list[bytes]:
        run_id = f"resp_{uuid.uuid4().hex}"
        said = [_said_item(f"msg_{run_id}_{place}", f"{place} " + "x" * 250) for place in range(len(self._history))]
        return [said[place] if place % 2 else row for place, row in enumerate(self._history)]

    def _request(self, thread_id: str, rows: list[bytes], question: bytes) -> bytes:
        items = b",".join(_MESSAGE_OF_CHAT.sub(b"{", row, count=1) for row in [*rows, question])
        return b'{"model":"%b","stream":true,"input":[%b]}' % (self._agent.encode(), items)

    def _answer(self, answer: bytes) -> bytes:
        if (found := _ITEM_ID.search(answer)) is None:
            raise BrokenAnswerError("the answer has no text")
        text = "".join(json.loads(b'"%b"' % delta) for delta in _DELTA.findall(answer))
        return _said_item(found[1].decode(), text)


def chat_question(agent: str, *, stream: bool) -> Callable[[int], bytes]:
    """Each request of Chat Completions begins a thread of its own."""
    body = {"model": agent, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
    return lambda _: json.dumps(body).encode()


def responses_question(agent: str, *, stream: bool) -> Callable[[int], bytes]:
    """Each request of Responses begins a thread of its own."""
    body = {"model": agent, "stream": stream, "input": "hello"}
    return lambda _: json.dumps(body).encode()


@dataclass(slots=True)
class _Talk:
    thread_id: str
    rows: list[bytes]
    question: bytes = b""


def _history(count: int) -> list[bytes]:
    rows = []
    for place in range(count):
        role = ("user", "assistant")[place % 2]
        rows.append(_json({"id": f"message-{place}", "role": role, "content": f"{place} " + "x" * 250}))
    return rows


def _said_item(item_id: str, text: str) -> bytes:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": item_id, "status": "completed", "role": "assistant", "content": [part]}
    return _json(item)


def _question() -> bytes:
    return _json({"id": f"question-{uuid.uuid4().hex}", "role": "user", "content": "hello"})


def _run_input(thread_id: str, history: list[bytes], question: bytes) -> bytes:
    messages = b",".join([*history, question])
    return (
        b'{"threadId":"%b","runId":"run-%b","protocolVersion":"1.0","state":{},"tools":[],"context":[],'
        b'"forwardedProps":{},"messages":[%b]}' % (thread_id.encode(), uuid.uuid4().hex.encode(), messages)
    )


def _json(message: Mapping[str, object]) -> bytes:
    """As JSON.stringify writes it."""
    return json.dumps(message, separators=(",", ":")).encode()
