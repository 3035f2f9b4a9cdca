"""A client's connection: uvicorn's, with limits, and with correct answers to broken or unusual requests.

Above: process. Below: problems. It adds to uvicorn: heads and trailers have limits; requests that ask for another
protocol keep their bodies; HTTP/1.0 gets no chunks; an error about one request is never written into another's answer;
a client that closes its sending side still gets its answers; a client that does not read its answer is dropped; and
requests that are sent ahead of an answer wait unread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.access.limits import UNREAD
from gateway.problems import problem_details
from gateway.protocol.requests import END_WITH_INPUT

if TYPE_CHECKING:
    from collections import deque

    from uvicorn._types import ASGI3Application, ASGISendEvent

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 65_536
LARGEST_READ = 262_144  # the bytes that asyncio and uvloop read at once
_HEAD_END = b"\r\n\r\n"
_LEAST_OF_A_BODY = 512  # parsed at once: stopping at each blank line of a body cost 4 seconds for 9 MB of them
# Linux names a closed sending side by itself. Elsewhere a hang-up says so.
_HAS_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Connection(HttpToolsProtocol):
    """One client's connection. A response's head is sent together with what follows it.

    Half-closing: a client that sends its requests and then closes its sending side, as `nc -N` does, gets its whole
    answers. A client that leaves looks the same, and most leave in the middle of a stream. So while an answer is being
    sent, a closed sending side means that the client has left; before, it means so if the application wants that
    (protocol.requests.end_with_client).

    Pipelining: of the requests that are sent ahead of an answer, the next waits for its turn. Until then nothing is
    read, and the bytes after it in the last read stay unparsed: each parsed request takes some kilobytes.
    """

    # CPython shares attribute tables up to 30 attributes per class. uvicorn has 28: without slots a connection would
    # have a table of its own, 1.3 KB.
    __slots__ = (
        "_ends_with_input", "_final_bytes", "_head_bytes", "_head_timer", "_in_body", "_in_head", "_in_trailers",
        "_parsed", "_received", "_responding", "_stuck_timer", "_unread_timer", "_unwritten",
    )  # fmt: skip

    # The time limits for a head to arrive and for an answer to be read, and how often a connection that is not read is
    # looked at. uvicorn makes the connections, so tests use a subclass with other values.
    head_seconds: ClassVar[float] = 30
    stuck_seconds: ClassVar[float] = 30
    last_seconds: ClassVar[float] = 2  # for an answer that is not read when the server ends, which cancels it after 3
    unread_seconds: ClassVar[float] = 1

    _responding: RequestResponseCycle | None
    """The request whose answer is being written, or was written last."""

    _ends_with_input: bool
    """Whether a closed sending side means that the client of that request has left."""

    _final_bytes: bytes | None
    """The last bytes to write, after all answers and before the connection is closed. Once it is not None, nothing is
    read any more.
    """

    _head_timer: asyncio.TimerHandle | None

    _stuck_timer: asyncio.TimerHandle | None

    _unwritten: int | None
    """The unwritten bytes at the last check; None if some were written since."""

    _received: bytes
    """The received bytes that are not parsed to their end; empty if there are none."""

    _parsed: int
    """How many bytes of it are parsed."""

    _unread_timer: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._in_head, self._in_body, self._in_trailers, self._head_bytes = False, False, False, 0
        self._responding, self._final_bytes, self._head_timer = None, None, None
        self._stuck_timer, self._unwritten, self._ends_with_input = None, None, False
        self._received, self._parsed, self._unread_timer = b"", 0, None
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self.transport = _JoinedHeads(transport, self)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)
        # uvicorn tells only the last request that arrived; earlier ones may still be unanswered.
        if self._responding is not None and not self._responding.response_complete:
            self._responding.disconnected = True
            self._responding.message_event.set()
        for timer in (self._stuck_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self._stuck_timer = self._unread_timer = None
        self._received = b""
        self._forget()

    def _forget(self) -> None:
        """Drop the references to objects that refer to this connection: they would wait for the garbage collector,
        which rarely runs. An application may still use its request, its answer and the transport.
        """
        self.pipeline.clear()
        self._responding = None
        self.cycle = self.scope = None  # type: ignore[assignment]
        if isinstance(self.transport, _JoinedHeads):
            self.transport.forget_connection()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.last_seconds, self._give_up_unread)

    def _give_up_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._final_bytes is not None:
            return
        self._received = self._received[self._parsed :] + data if self._received else data
        self._parsed = 0
        self._parse()
        # Any bytes end uvicorn's own wait for the next request.
        if self._head_timer is None and (self._in_head or self._is_idle()):
            self._wait_for_head()

    def _parse(self) -> None:
        """Parse what was received, up to a request that has to wait for its turn.

        A head ends with a blank line, and the parser stops after it. Only requests that follow a body in the same few
        bytes come to wait together, some 30 at most.
        """
        while self._received and not self.pipeline and self._final_bytes is None:
            least = self._parsed + (_LEAST_OF_A_BODY if self._in_body else 0)
            end = self._received.find(_HEAD_END, least)
            piece = memoryview(self._received)[self._parsed : end + len(_HEAD_END) if end >= 0 else None]
            self._parsed += len(piece)
            if self._parsed == len(self._received):
                self._received, self._parsed = b"", 0
            self._parse_piece(piece)

    def _parse_piece(self, piece: memoryview) -> None:
        try:
            self._feed(piece)
        except httptools.HttpParserError:
            self._refuse(400, "this is not an HTTP request")
            return
        if self._in_head or self._in_trailers:  # heads are nearly always shorter
            self._head_bytes += len(piece)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"more than {MAX_HEAD_BYTES:,} bytes of headers")

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """True keeps the sending side open."""
        is_asked_for = (
            self._responding is not None
            and not self._responding.response_started
            and not self._in_body
            and not self._ends_with_input
        )
        if is_asked_for and self._final_bytes is None:
            self._head_is_there()
            self._end_with(b"")
        if not is_asked_for:  # the transport closes itself
            self.watch_writing()
        return is_asked_for or None

    def end_with_input(self) -> None:
        """See protocol.requests.end_with_client."""
        self._ends_with_input = True
        if self._final_bytes == b"" and not self.pipeline:  # it is closed already
            self.transport.close()

    def unread_of(self, owner: str) -> int:
        """See access.limits.UNREAD."""
        theirs = [each for each in self.connections if isinstance(each, Connection) and each.answers(owner)]
        return sum(each.transport.get_write_buffer_size() for each in theirs)

    def answers(self, owner: str) -> bool:
        """Whether the answer that is being written, or was written last, is this owner's."""
        return self._responding is not None and self._responding.scope["state"].get("owner") == owner

    def _feed(self, rest: memoryview) -> None:
        """Give the parser received bytes. A request to upgrade the protocol, which Java's client sends with every
        request, is answered as plain HTTP: the parser leaves the body of such a request to the new protocol, so it gets
        the head again without the upgrade headers.
        """
        while True:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as question:
                rest = rest[question.args[0] :]
            if self._asks_for_upgrade():
                version = self.parser.get_http_version().encode()
                fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
                line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
                # A parser for a connection that stays open: one that is to close takes no more input.
                self.parser = _open_parser(self)
                self.parser.feed_data(b"%b%b\r\n" % (line, b"".join(fields)))

    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    # called by the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        # When they follow another request's body in the same read, these bytes do not count as this head.
        self._head_bytes = 0 if self._is_idle() else -LARGEST_READ

    def on_headers_complete(self) -> None:
        if self._asks_for_upgrade():
            return
        self._head_is_there()
        self.scope["extensions"] = {END_WITH_INPUT: {"ask": self.end_with_input}, UNREAD: {"of": self.unread_of}}
        super().on_headers_complete()
        self._in_body = True
        if self.scope["http_version"] != "1.1":
            # HTTP/1.0 has no chunks, so the end of such a body is unknown.
            is_plain = all(name != b"transfer-encoding" for name, _ in self.headers)
            _respond_as_1_0(self.cycle, keep_alive=is_plain and self.parser.should_keep_alive())
        if self.pipeline and self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self.unread_seconds, self._look_at_client)

    def on_chunk_header(self) -> None:
        # The last chunk is empty: trailers follow it, which the parser keeps as it does headers.
        self._in_trailers, self._head_bytes = True, -LARGEST_READ

    def on_body(self, body: bytes) -> None:
        self._in_trailers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade():
            self._in_body = self._in_trailers = False
            super().on_message_complete()

    # answering

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._responding, self._ends_with_input = cycle, False
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._final_bytes is not None and self._is_idle():
            self._end()
            return
        self._parse()
        self.flow.resume_reading()

    def _look_at_client(self) -> None:
        """Find out whether the client of a stream has left while its next request waits. Nothing is read then, so the
        transport does not notice.
        """
        self._unread_timer = None
        if not self.pipeline or self.transport.is_closing():
            return
        cycle, poll = self._responding, select.poll()
        is_stream = cycle is not None and cycle.response_started and cycle.chunked_encoding
        poll.register(self.transport.get_extra_info("socket"), _HAS_LEFT)
        if (is_stream or self._ends_with_input) and poll.poll(0):
            self.transport.close()
            return
        self._unread_timer = self.loop.call_later(self.unread_seconds, self._look_at_client)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_writing()

    def watch_writing(self) -> None:
        """Start the time limit for unwritten bytes, if there are any."""
        if not self.transport.get_write_buffer_size():
            return
        self._unwritten = None
        if self._stuck_timer is None:
            self._stuck_timer = self.loop.call_later(self.stuck_seconds, self._look_at_writing)

    def _look_at_writing(self) -> None:
        self._stuck_timer = None
        if not self.flow.write_paused and not self.transport.is_closing():
            return
        unwritten = self.transport.get_write_buffer_size()
        if self._unwritten == unwritten:
            logger.warning("dropped a client that did not read its answer", extra={"unwritten_bytes": unwritten})
            self.transport.abort()
            return
        self._unwritten = unwritten
        self._stuck_timer = self.loop.call_later(self.stuck_seconds, self._look_at_writing)

    def breaks_off(self) -> bool:
        """Whether closing now would cut off an answer that the client has not read yet."""
        cycle = self._responding
        is_within = cycle is not None and cycle.response_started and not cycle.response_complete
        return is_within and self.flow.write_paused

    def _is_idle(self) -> bool:
        """Whether every request so far is answered."""
        return self._responding is None or self._responding.response_complete

    def _wait_for_head(self) -> None:
        if self._final_bytes is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if self.flow.read_paused:  # it may have arrived
            self._wait_for_head()
        elif self._in_head:
            self._refuse(408, f"the headers did not come within {self.head_seconds} seconds")
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Answer a bad request in its place: after the answers that are due before it."""
        request_id = os.urandom(16).hex()
        logger.info("refused a request", extra={"request_id": request_id, "status": status, "reason": detail})
        problem = _problem(status, detail, request_id)
        self._head_is_there()
        if not self._in_body:
            self._end_with(problem)
        elif self._is_idle():  # the request has been answered already
            self._end_with(b"")
        elif self.pipeline:  # it is not answered yet, and must not be answered half
            self.pipeline.popleft()
            self.cycle.response_complete = True
            self._end_with(problem)
        elif self.cycle.response_started:
            self._end_with(b"")
        else:
            self._final_bytes = problem
            self._end()

    def _end_with(self, final: bytes) -> None:
        """Close after all answers that are due."""
        self._final_bytes = final
        if self._is_idle():
            self._end()
        elif not final:
            self.cycle.keep_alive = False

    def _end(self) -> None:
        if self._final_bytes:
            self.transport.write(self._final_bytes)
        self.transport.close()


class _Flow(FlowControl):
    """Reads nothing while a request waits for its turn; uvicorn reads on when one is answered or asks for its body."""

    def __init__(self, transport: asyncio.Transport, pipeline: deque[tuple[RequestResponseCycle, ASGI3Application]]):
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


def _open_parser(connection: Connection) -> httptools.HttpRequestParser:
    """As uvicorn opens it; bytes after a request that is the last one are ignored."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _problem(status: int, detail: str, request_id: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = problem_details(status, phrase.lower().replace(" ", "_"), detail, [])
    fields = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "connection": "close",
        "x-request-id": request_id,
        "x-content-type-options": "nosniff",
    }
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _respond_as_1_0(cycle: RequestResponseCycle, *, keep_alive: bool) -> None:
    """Answer an HTTP/1.0 request as that version allows: no chunks, so an answer of unknown length ends with the
    connection; `Connection: keep-alive` if it stays open; and no `100 Continue`.
    """
    send, ends_with_connection = cycle.send, False
    cycle.keep_alive, cycle.waiting_for_100_continue = keep_alive, False

    async def send_as_1_0(message: ASGISendEvent) -> None:
        nonlocal ends_with_connection
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            has_no_body = cycle.scope["method"] == "HEAD" or message["status"] in (204, 304)
            if not has_no_body and b"content-length" not in names:
                cycle.chunked_encoding, cycle.keep_alive, ends_with_connection = False, False, True
                _reset_at_close(cycle.transport, True)
            if cycle.keep_alive and b"connection" not in names:
                message["headers"] = [*message["headers"], (b"connection", b"keep-alive")]
        elif message["type"] == "http.response.body" and ends_with_connection:
            cycle.expected_content_length = len(message["body"])
            if not message["more_body"]:
                _reset_at_close(cycle.transport, False)
        await send(message)

    cycle.send = send_as_1_0  # type: ignore[method-assign]


def _reset_at_close(transport: asyncio.Transport, does: bool) -> None:
    """Whether closing resets the connection. If the end of the connection is the end of the body, a reset is the only
    sign that the body was cut off.
    """
    if not transport.is_closing():
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", does, 0))


class _JoinedHeads(asyncio.Transport):
    """A transport that holds back a response's head until more is written, or until the end of the event loop's step.
    Closing it does not wait for a client that does not read.

    uvicorn writes a head by itself, and waking a sleeping client by a write is the largest cost of a short response.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        super().__init__()
        self._transport = transport
        self._connection: Connection | None = connection
        self._head = b""

    def forget_connection(self) -> None:
        """Note that the connection is lost: nothing is written any more."""
        self._connection = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._head:
            data, self._head = self._head + bytes(data), b""
        elif self._connection is not None and isinstance(data, bytes) and data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._connection.loop.call_soon(self._write_head)
            return
        self._transport.write(data)

    def _write_head(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        connection = self._connection
        if connection is not None and connection.breaks_off():
            self._transport.abort()
            return
        self._write_head()
        self._transport.close()
        if connection is not None:
            connection.watch_writing()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)
