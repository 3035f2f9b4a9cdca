"""The process around the application: the socket, uvicorn, the signals.

Below: application, connection, reloading, vacuuming, pid_file. The gateway handles the signals itself: stock uvicorn
with sse-starlette cuts every stream at SIGTERM and then dies by the signal. Here SIGTERM and SIGINT let runs end
(server.drain_seconds, then they are cancelled), the streams end with their runs, and the exit code is 0. A second
signal ends the process at once. SIGHUP reads the configuration file again; if it comes because the terminal was closed,
it ends the process as SIGTERM does. SIGUSR1 rewrites the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

from gateway.application import Application
from gateway.configuration.known_parts import KnownParts
from gateway.logs import Redaction, add_to_lines
from gateway.server.connection import Connection
from gateway.server.pid_file import kept_pid
from gateway.server.reloading import Reloading
from gateway.server.vacuuming import Vacuuming
from gateway.settings import Flags, Settings, store_file
from gateway.telemetry.export import open_tracer

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_MOST_FILES = (65_536, 10_240)  # macOS allows a process only the second number
_LARGE_BLOCK = 1_048_576
_M_MMAP_THRESHOLD = -3  # mallopt(3)
# After the drain only idle connections are left, and those with a last small request.
_CLOSE_SECONDS = 3


def serve(
    settings: Settings,
    *,
    flags: Flags,
    parts: KnownParts,
    redaction: Redaction | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
) -> int:
    """Serve until a signal; the process's exit code. `on_listening` is called once, with the port.

    `flags` and `parts` are those that the settings were read with, `redaction` is the log's: for when the file is read
    again.

    Raises:
        GatewayError: the gateway could not start; a ConfigurationError where the operator can mend it.
    """
    server = settings.server
    tracer = open_tracer(os.environ)
    if tracer is not None:
        add_to_lines(tracer.line_fields)
    application = Application(settings, redaction=redaction, parts=parts, tracer=tracer)
    try:
        listener = _listen(server.host, server.port)
    except OSError as error:
        print(f"cannot listen on {server.host} port {server.port}: {_listen_problem(error)}", file=sys.stderr)
        return 1
    _allow_many_files()
    _return_large_blocks()
    with contextlib.closing(listener):
        port = listener.getsockname()[1]
        with asyncio.Runner(loop_factory=_loop_factory()) as loop_runner:
            loop_runner.run(_serve(application, flags, listener, lambda: on_listening(port)))
    return 0


async def _serve(
    application: Application, flags: Flags, listener: socket.socket, on_listening: Callable[[], None]
) -> None:
    trusted_proxies = application.settings.server.trusted_proxies
    config = uvicorn.Config(
        application.asgi,
        http=Connection,
        ws="none",
        lifespan="off",  # run around the server: a refusal to start is a message, not a traceback
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
    async with application.lifespan():
        store = store_file(application.settings, application.parts)
        reloading, vacuuming = Reloading(application, flags, store), Vacuuming(application, store)
        try:
            with _signals(application, server, reloading, vacuuming), kept_pid(store):
                server.on_listening = on_listening
                await server.serve([listener])
        finally:
            await reloading.close()
            await vacuuming.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and without those that sse-starlette adds."""

    on_listening: Callable[[], None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _spare_the_collector()
        self.on_listening()


def _spare_the_collector() -> None:
    """Run the garbage collector rarely, and exempt all objects that exist by now.

    These objects stay for good, and each collection over them stopped all streams for up to 60 ms. A run makes some
    hundred objects and no reference cycles: after 1,000 runs the collector finds nothing. With these thresholds its
    longest pause is 80 ms instead of 110, and all pauses together take three quarters of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 3, 50)


@contextlib.contextmanager
def _signals(
    application: Application, server: uvicorn.Server, reloading: Reloading, vacuuming: Vacuuming
) -> Iterator[None]:
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

    def on_hang_up() -> None:
        if has_terminal and not _has_terminal():
            on_signal("SIGHUP")
        elif not stopping:
            reloading.ask()

    def on_vacuum() -> None:
        if not stopping:
            vacuuming.ask()

    # A process that ignores the signal (nohup) is meant to outlive its terminal.
    has_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, on_signal, each.name)
    loop.add_signal_handler(signal.SIGHUP, on_hang_up)
    loop.add_signal_handler(signal.SIGUSR1, on_vacuum)
    try:
        yield
    finally:
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            loop.remove_signal_handler(each)


def _has_terminal() -> bool:
    """Whether the process has a terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP is named, because asyncio sets TCP_NODELAY only then: without it, small frames wait 40 ms for
    # acknowledgements.
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
    """Raise the limit of open files. A run may have two sockets, its viewer's and its provider's: the usual 1,024 are
    500 runs.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _MOST_FILES:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def _return_large_blocks() -> None:
    """Let the C library return each large block to the system once it is free. As it is, glibc keeps blocks up to the
    size of the largest one that was ever free: of 20 readers that stop reading a page of 9 MB, 100 MB stayed when they
    were cut off, and now 20. Other C libraries have no such setting.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # uvloop is not built for every platform
        return None
    return uvloop.new_event_loop
