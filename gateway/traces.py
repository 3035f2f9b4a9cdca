"""The tracing contract for the rest of the gateway: spans that begin, get attributes and end.

Below: errors. Above: everything that is measured. `telemetry` makes the spans. Without tracing, a span is None.

A span travels in objects that are passed on anyway (LiveRun, LoopContext, ModelRequest, ToolContext). A task's current
span (`current`) is for log lines and for other packages' code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from gateway.clock import TIMED_OUT
from gateway.errors import GatewayError

Attributes: TypeAlias = Mapping[str, str | bool | int | float | Sequence[str]]
Kind: TypeAlias = Literal["internal", "server", "client"]

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_SPAN = nullcontext()


class Span(Protocol):
    """A piece of work with a begin and an end. No method raises or waits."""

    @property
    def shows_content(self) -> bool:
        """Whether it should get content: messages, arguments, results."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers for a request to another server, so that the server's spans belong to this one: `traceparent`,
        ...
        """

    def begin(self, name: str, attributes: Attributes, *, kind: Kind = "internal") -> Span:
        """A child span."""

    def add(self, attributes: Attributes) -> None:
        """Add attributes. Without effect once it has ended."""

    def rename(self, name: str) -> None:
        """Replace its name."""

    def end(self, error: str = "") -> None:
        """The work is over; `error` is a stable word for the kind of failure. Only the first end counts."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current span of the code in the block, and of tasks that are created there."""

    def note_watched(self) -> None:
        """Link the current span, of a request that shows this span's work to a viewer, to this span."""


class Tracer(Protocol):
    """Makes spans. One object per application."""

    def begin(
        self, name: str, attributes: Attributes, *, shared: Attributes, earlier: Mapping[str, str] = NO_HEADERS
    ) -> Span:
        """A span below the current one, or of a new trace. `shared` are attributes that all spans below it get, too.
        `earlier`: the `headers` of a span whose work it continues; it gets a link to that span.
        """

    def begin_request(self, name: str, attributes: Attributes, headers: Mapping[str, str]) -> Span:
        """The span of an incoming request, a child of the span in its headers (lower-case names)."""

    def line_fields(self) -> Mapping[str, str]:
        """The current span's fields for a log line: `trace_id`, `span_id`; empty without one."""

    async def close(self) -> None:
        """Export the ended spans. Those that are not exported within some seconds are lost."""


def current(span: Span | None) -> AbstractContextManager[None]:
    """`span.current()`, if there is a span."""
    return _NO_SPAN if span is None else span.current()


def part_of(parent: Span | None, name: str, attributes: Attributes) -> AbstractContextManager[Span | None]:
    """A child span of `parent` during the block; None if there is no parent."""
    return _NO_SPAN if parent is None else _part_of(parent, name, attributes)


@contextmanager
def _part_of(parent: Span, name: str, attributes: Attributes) -> Generator[Span]:
    span = parent.begin(name, attributes)
    try:
        yield span
    except BaseException as error:
        span.end(error_type(error))
        raise
    span.end()


def error_type(error: BaseException) -> str:
    """The stable word for a failure: the gateway's own code, or the exception's name."""
    if isinstance(error, GatewayError):
        return error.code
    if isinstance(error, TimeoutError) or (isinstance(error, asyncio.CancelledError) and error.args == (TIMED_OUT,)):
        return "timeout"
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else type(error).__qualname__
