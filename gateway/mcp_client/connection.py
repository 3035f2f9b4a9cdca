"""A lasting connection to an MCP server: opened at the first use, and reopened whenever it is lost.

Below: transports, failures, clock. Above: the MCP tool. The `mcp` package (2.x) speaks both generations of the
protocol. This module adds: one task that owns the connection (its cancel scopes must be entered and left in the same
task), time limits, and backoff.

Protocol: https://modelcontextprotocol.io/specification/2025-11-25
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import anyio
import httpx2
from mcp import ClientSession, MCPError, types
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from gateway import __version__
from gateway.clock import Clock, Timer
from gateway.errors import ToolError
from gateway.mcp_client.failures import CLOSED, cut, failure_of
from gateway.mcp_client.transports import HttpServer, Incoming, StdioServer, http_transport, stdio_transport
from gateway.messages import JsonObject

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream

logger = logging.getLogger(__name__)

MAX_PAGES = 100
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 60.0
_STEADY_SECONDS = 60.0
_CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds and counts. `connect`: until a server's tools are known, also after a reconnect; `check`: between two
    checks of a silent server.
    """

    connect_seconds: float = 30.0
    check_seconds: float = 60.0
    max_tools: int = 128


class McpConnection:
    """The connection to one server. Nothing happens before `start`. After that `tools` and `problem` have its state."""

    def __init__(
        self, name: str, server: StdioServer | HttpServer, clock: Clock, limits: ConnectionLimits = ConnectionLimits()
    ) -> None:
        self.tools: tuple[types.Tool, ...] = ()
        self.problem: str | None = None
        self.tried = False  # whether the first attempt to connect is over
        self._name = name
        self._server = server
        self._clock = clock
        self._limits = limits
        self._session: ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._attempt: anyio.CancelScope | None = None
        self._reason: str | None = None
        self._settled = asyncio.Event()  # set while no attempt to connect is under way
        self._look = asyncio.Event()  # set when the server's tools should be listed again
        self._closing = False
        self._at_once = False  # the next attempt follows without a delay
        self._calls = 0  # the number of calls under way
        self._down = "the connection is being made"
        self._ask_modern = True
        self._listed: dict[str, types.Tool] | None = None
        self._status: int | None = None  # the last HTTP status that was an error

    def start(self) -> None:
        """Begin to connect. Does nothing if it has begun."""
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._keep_up(), name=f"mcp {self._name}")

    async def settled(self, seconds: float) -> None:
        """Wait until the current attempt to connect is over, for at most `seconds`."""
        if self._settled.is_set() or seconds <= 0:
            return
        waiting = asyncio.ensure_future(self._settled.wait())
        timer = self._clock.call_later(seconds, lambda: _cancel(waiting))
        try:
            await asyncio.wait([waiting])
        finally:
            timer.cancel()
            waiting.cancel()

    async def call(self, tool: str, arguments: JsonObject) -> types.CallToolResult:
        """Call a tool. Waits for a connection that is being made.

        Raises:
            ToolError: the server cannot be reached, refused the call, or was lost while it ran.
        """
        self.start()
        await self.settled(self._limits.connect_seconds)
        try:
            return await self._call(tool, arguments)
        except _SessionEndedError:
            # the server no longer has the session, so it has not run the call: repeat it on a new one
            await self.settled(self._limits.connect_seconds)
            try:
                return await self._call(tool, arguments)
            except _SessionEndedError:
                raise ToolError(f"the tool server {self._name!r} keeps ending its sessions; try again later") from None

    async def _call(self, tool: str, arguments: JsonObject) -> types.CallToolResult:
        session = self._session
        if session is None:
            raise ToolError(f"the tool server {self._name!r} cannot be reached just now: {self._down}")
        self._calls += 1
        try:
            return await session.call_tool(tool, arguments)
        except MCPError as error:
            if error.code == types.INVALID_REQUEST and error.message == "Session terminated":
                self._end_session(session)
                raise _SessionEndedError from error
            if error.code == types.CONNECTION_CLOSED:
                raise ToolError(
                    f"the connection to the tool server {self._name!r} was lost; the call may or may not have been "
                    "carried out"
                ) from error
            raise ToolError(cut(error.message) or "the tool server refused the call without a reason") from error
        except (ValidationError, RuntimeError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise ToolError(f"the tool server {self._name!r} gave no usable answer") from error
        finally:
            self._calls -= 1
            if self._at_once and not self._calls:
                self._break("the server has ended the session")

    def _end_session(self, session: ClientSession) -> None:
        """Let no more calls begin on a session. A new connection is made when its running calls are over."""
        if self._session is session:
            self._session = None
            self._at_once = True
            self._settled.clear()

    async def close(self) -> None:
        """End the session and the program, and wait for both, a few seconds at most."""
        self._closing = True
        if self._task is None:
            self._settle()
            return
        self._look.set()
        try:
            await asyncio.wait([self._task], timeout=_CLOSE_SECONDS if self._session is not None else 0)
        finally:
            if self._scope is not None:
                self._scope.cancel()
        await asyncio.wait([self._task])
        self._settle()

    async def _keep_up(self) -> None:
        delay = _FIRST_DELAY_SECONDS
        with anyio.CancelScope() as self._scope:
            while not self._closing:
                began = self._clock.monotonic()
                reason = await self._connected_once()
                if self._over():
                    break
                if self._at_once:
                    self._at_once = False
                    continue
                self._settle()
                if self._clock.monotonic() - began > _STEADY_SECONDS:
                    delay = _FIRST_DELAY_SECONDS
                logger.warning(
                    "an MCP server is not connected",
                    extra={"server": self._name, "reason": reason, "next_attempt_seconds": delay},
                )
                await self._clock.sleep(delay * random.uniform(0.75, 1.25))
                delay = min(delay * 2, _LONGEST_DELAY_SECONDS)

    def _over(self) -> bool:
        return self._closing

    async def _connected_once(self) -> str:
        """Connect and stay connected. Returns the reason why the connection ended."""
        self._forget()
        failure = CLOSED
        with anyio.CancelScope() as self._attempt:
            timer = self._bound("it did not answer in time")
            try:
                async with self._transport() as (reading, writing), self._open_session(reading, writing) as session:
                    await self._negotiate(session)
                    await self._list(session)
                    timer.cancel()
                    self._went_up(session)
                    await self._serve(session)
            except Exception as error:  # any exception of the package or the system means that the server is down
                failure = failure_of(error, self._server, self._status)
            finally:
                timer.cancel()
                self._session = None
                self.tools = ()
        # this exception says more than the closed stream that it caused
        reason = self._reason if self._reason and failure == CLOSED else failure
        self._down = reason
        self.problem = f"the MCP server {self._name!r} is not connected: {reason}"
        return reason

    def _settle(self) -> None:
        self.tried = True
        self._settled.set()

    def _forget(self) -> None:
        self._reason = self._status = None
        self._settled.clear()

    def _went_up(self, session: ClientSession) -> None:
        self._session = session
        self._settle()
        logger.info(
            "an MCP server is connected",
            extra={"server": self._name, "tools": len(self.tools), "protocol": session.protocol_version},
        )

    def _bound(self, reason: str) -> Timer:
        return self._clock.call_later(self._limits.connect_seconds, lambda: self._break(reason))

    def _break(self, reason: str) -> None:
        """Drop the connection. The next attempt follows."""
        if self._attempt is not None and not self._attempt.cancel_called:
            self._reason = self._reason or reason
            self._session = None
            self._attempt.cancel()

    async def _negotiate(self, session: ClientSession) -> None:
        """Use the newer protocol if the server has it, else the older one's handshake."""
        if self._ask_modern:
            # Some programs of the older protocol exit when they get any request before the handshake.
            self._ask_modern = isinstance(self._server, HttpServer)
            try:
                await session.discover()
            except (ValidationError, RuntimeError):
                pass
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    raise
            else:
                self._ask_modern = True
                return
        await session.initialize()
        self._ask_modern = True

    async def _list(self, session: ClientSession) -> None:
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if not cursor or len(tools) > self._limits.max_tools:
                break
        self.problem = None
        if len(tools) > self._limits.max_tools or cursor:
            tools = tools[: self._limits.max_tools]
            self.problem = (
                f"the MCP server {self._name!r} has more than {self._limits.max_tools} tools: the rest is left out"
            )
        self._tell_changes(tools)
        self.tools = tuple(tools)

    def _tell_changes(self, tools: Sequence[types.Tool]) -> None:
        """Log that a server has changed its tools, which may be an attack."""
        before, after = self._listed, {tool.name: tool for tool in tools}
        self._listed = after
        if before is None:
            return
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if changed:
            logger.warning("an MCP server changed its tools", extra={"server": self._name, "tools": changed[:50]})

    async def _serve(self, session: ClientSession) -> None:
        """Stay connected. List the tools again when they change, and regularly to see whether the server is still
        there.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._subscribe, session)
            while not self._closing:
                timer = self._clock.call_later(self._limits.check_seconds, self._look.set)
                try:
                    await self._look.wait()
                finally:
                    timer.cancel()
                self._look.clear()
                if not self._closing:
                    timer = self._bound("it no longer answers")
                    try:
                        await self._list(session)
                    finally:
                        timer.cancel()
            tasks.cancel_scope.cancel()

    async def _subscribe(self, session: ClientSession) -> None:
        """Subscribe to changes of servers with the newer protocol. Older ones report changes unasked."""
        while True:
            try:
                async with listen(session, tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._look.set()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError):
                pass  # the server does not offer it, or is down: the next check finds out
            await self._clock.sleep(self._limits.check_seconds)
            self._look.set()

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._look.set()

    def _open_session(self, reading: ReadStream[Incoming], writing: WriteStream[SessionMessage]) -> ClientSession:
        info = types.Implementation(name="agui-gateway", version=__version__)
        return _Session(
            _Watched(reading, lambda: self._break(CLOSED)),
            writing,
            message_handler=self._heard,
            client_info=info,
        )

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        match self._server:
            case StdioServer():
                return stdio_transport(self._server, self._name)
            case HttpServer():
                return http_transport(self._server, self._note_status)

    async def _note_status(self, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            self._status = response.status_code


def _cancel(waiting: asyncio.Future[Literal[True]]) -> None:
    waiting.cancel()


class _SessionEndedError(Exception):
    """The server has dropped the call's session, so it has not run the call."""


class _Session(ClientSession):
    """A session that does not check results against the server's output schema.

    The check would run the server's regular expressions over the server's data, on the event loop and without a limit.
    """

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        return None


class _Watched:
    """A stream of messages that reports its end. The package reports it only to running calls."""

    def __init__(self, stream: ReadStream[Incoming], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Incoming:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)
