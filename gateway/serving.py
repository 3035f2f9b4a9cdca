"""The process around the application: the socket, uvicorn, the signals.

Below: application. The gateway owns the signals: stock uvicorn with sse-starlette cuts every stream at SIGTERM and then
dies by the signal. Here SIGTERM and SIGINT let runs end (server.drain_seconds, then they are cancelled), the streams
end with their runs, and the exit code is 0. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.application import Application
from gateway.errors import GatewayError
from gateway.settings import Settings

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 65_536
HEAD_SECONDS = 30
LARGEST_READ = 262_144  # what asyncio and uvloop read at once
_BACKLOG = 2048
_MOST_FILES = (65_536, 10_240)  # the second is as many as macOS lets a process have
# After the drain nothing is left but connections that idle or answer a last small request.
_CLOSE_SECONDS = 3


def serve(settings: Settings, *, on_listening: Callable[[int], None] = lambda port: None) -> int:
    """Serve until a signal; the process's exit code. `on_listening` is called once, with the port."""
    server = settings.server
    try:
        application = Application(settings)
    except GatewayError as error:
        print(error.message, file=sys.stderr)
        return 1
    try:
        listener = _listen(server.host, server.port)
    except OSError as error:
        print(f"cannot listen on {server.host} port {server.port}: {_listen_problem(error)}", file=sys.stderr)
        return 1
    _allow_many_files()
    with contextlib.closing(listener):
        port = listener.getsockname()[1]
        with asyncio.Runner(loop_factory=_loop_factory()) as loop_runner:
            return loop_runner.run(_serve(application, listener, lambda: on_listening(port)))


async def _serve(application: Application, listener: socket.socket, on_listening: Callable[[], None]) -> int:
    trusted_proxies = application.settings.server.trusted_proxies
    config = uvicorn.Config(
        application.asgi,
        http=Connection,
        ws="none",
        lifespan="off",  # ours is around the server: a refusal to start is a message, not a traceback
        log_config=None,
        access_log=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        server_header=False,
        h11_max_incomplete_event_size=None,
    )
    server = _Server(config)
    try:
        async with application.starlette.router.lifespan_context(application.starlette):
            with _signals(application, server):
                server.on_listening = on_listening
                await server.serve([listener])
    except GatewayError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and without what sse-starlette adds to them."""

    on_listening: Callable[[], None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _spare_the_collector()
        self.on_listening()


class Connection(HttpToolsProtocol):
    """uvicorn's connection with another way out: a response's head leaves with what follows it. And with limits to
    requests' heads and trailers, which uvicorn would take in for as long as they go on; and with the bodies of requests
    that ask for another protocol.
    """

    # Up to 30 attributes objects of a class share a table of their names. uvicorn has 28: without slots a connection
    # would have a table of its own, 1.3 KB.
    __slots__ = ("_head_bytes", "_in_head", "_in_trailers", "_patience")

    _patience: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._in_head, self._in_trailers, self._head_bytes, self._patience = False, False, 0, None
        super().connection_made(transport)
        self.transport = _JoinedHeads(transport, self.loop)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            logger.info("what came is no HTTP request")
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._in_head or self._in_trailers:  # so long as nearly none is
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "Request Header Fields Too Large", f"more than {MAX_HEAD_BYTES:,} bytes of headers")
                return
        # Whatever comes ends uvicorn's own wait for the next request.
        if self._patience is None and (self._in_head or self._is_idle()):
            self._wait_for_head()

    def _feed(self, data: bytes) -> None:
        """Parse what came. Whoever asks to go on in another protocol, as Java's client does with every request, is
        answered in this one: the parser leaves the body of such a request to that protocol, so it gets the head again
        without the question.
        """
        rest = memoryview(data)
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
                self.parser.feed_data(b"%b%b\r\n" % (line, b"".join(fields)))

    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        # Behind another request's body, whose bytes are in the same read, they do not count as this one's.
        self._head_bytes = 0 if self._is_idle() else -LARGEST_READ

    def on_headers_complete(self) -> None:
        if not self._asks_for_upgrade():
            self._head_is_there()
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        # The last chunk is empty: what follows it are trailers, which the parser keeps as it does headers.
        self._in_trailers, self._head_bytes = True, -LARGEST_READ

    def on_body(self, body: bytes) -> None:
        self._in_trailers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade():
            self._in_trailers = False
            super().on_message_complete()

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _head_is_late(self) -> None:
        if self._in_head:
            self._refuse(408, "Request Timeout", f"the headers did not come within {HEAD_SECONDS} seconds")
        else:
            self.transport.close()

    def _is_idle(self) -> bool:
        """Whether every request so far is answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first one
        return cycle is None or cycle.response_complete

    def _is_answered_next(self) -> bool:
        """Whether what is coming in is what the next bytes that leave are the answer to."""
        if self._in_head:
            return self._is_idle()
        return not self.pipeline and not self.cycle.response_started

    def _refuse(self, status: int, title: str, detail: str) -> None:
        is_answered_next = self._is_answered_next()
        self._head_is_there()
        self._in_trailers = False
        if is_answered_next:
            problem = {
                "type": "about:blank",
                "title": title,
                "status": status,
                "detail": detail,
                "code": title.lower().replace(" ", "_"),
                "errors": [],
            }
            body = json.dumps(problem).encode()
            head = f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()


class _JoinedHeads(asyncio.Transport):
    """A transport that keeps a response's head back until more is written, or to the end of the loop's turn.

    uvicorn writes a head by itself, and a write that wakes a sleeping client is what costs most in a short response.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._head:
            data, self._head = self._head + bytes(data), b""
        elif isinstance(data, bytes) and data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._write_head)
            return
        self._transport.write(data)

    def _write_head(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self._write_head()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)


def _spare_the_collector() -> None:
    """What is there by now stays for good: looking through it again and again cost up to 60 ms each time, in which no
    stream moves. And a run makes some thousand objects that live as long as it does.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@contextlib.contextmanager
def _signals(application: Application, server: uvicorn.Server) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()

    async def stop() -> None:
        try:
            await application.stop()
        finally:
            server.should_exit = True

    def on_signal(name: str) -> None:
        if stopping:
            logger.warning("second signal: ending at once", extra={"signal": name})
            for task in stopping:
                task.cancel()
            server.should_exit = server.force_exit = True
            return
        logger.info("shutting down", extra={"signal": name})
        stopping.add(asyncio.create_task(stop()))

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, on_signal, each.name)
    try:
        yield
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, because asyncio sets TCP_NODELAY only where it is: without, small frames wait 40 ms for acknowledgements.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _listen_problem(error: OSError) -> str:
    said = error.strerror or str(error)
    match error.errno:
        case errno.EADDRINUSE:
            return f"{said}; stop the program that listens there, or choose another port with --port (0: a free one)"
        case errno.EACCES:
            return f"{said}; choose a port above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"{said}; choose an address of this machine with --host"
        case _:
            return said


def _allow_many_files() -> None:
    """A run may have two sockets, its viewer's and its provider's: the 1,024 files that are usual are 500 runs."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _MOST_FILES:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not built for every platform
        return None
    return uvloop.new_event_loop
