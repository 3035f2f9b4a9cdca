"""What a trace is to the rest of the gateway: spans that begin, learn and end.

Below: errors, clock. Above: whatever takes time that somebody wants to see. `telemetry` makes the spans. Where no
traces are collected there is None in a span's place, and nothing else: who has none asks no more than that.

A span travels in what is handed on anyway (LiveRun, LoopContext, ModelRequest, ToolContext). The current span of a task
(`current`) is for log lines and for code that is not ours.
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


class Span(Protocol):
    """A piece of work with a begin and an end. No method raises, and none waits."""

    @property
    def shows_content(self) -> bool:
        """Whether it is to be told what was said: messages, arguments, results."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What a request to another server carries, so that its work is seen below this: `traceparent`, ..."""

    def begin(self, name: str, attributes: Attributes, *, kind: Kind = "internal") -> Span:
        """A span below this one."""

    def add(self, attributes: Attributes) -> None:
        """Tell more of it. Without effect once it has ended."""

    def rename(self, name: str) -> None:
        """Give it the name that is known by now."""

    def end(self, error: str = "") -> None:
        """The work is over; `error` is what kind of failure it was, a stable word. Only the first end counts."""

    def current(self) -> AbstractContextManager[None]:
        """Make it the current span of what is done, and of the tasks that are created, within the block."""

    def note_watched(self) -> None:
        """Link the current span, which shows this one's work to somebody, to this one."""


class Tracer(Protocol):
    """Where spans come from. One object per application."""

    def begin(
        self, name: str, attributes: Attributes, *, shared: Attributes, earlier: Mapping[str, str] = NO_HEADERS
    ) -> Span:
        """A span below the current one, or of a new trace. `shared` is told of all spans below it too. `earlier`: the
        `headers` of a span whose work it goes on with, to which it gets a link.
        """

    def begin_request(self, name: str, attributes: Attributes, headers: Mapping[str, str]) -> Span:
        """The span of a request from outside, below the one that its headers (lower-case names) tell of."""

    def line_fields(self) -> Mapping[str, str]:
        """What a log line that is written now says of the current span: `trace_id`, `span_id`; empty without one."""

    async def close(self) -> None:
        """Export what has ended, within some seconds: what takes longer is lost."""


def current(span: Span | None) -> AbstractContextManager[None]:
    """`span.current()`, where there is one."""
    return nullcontext() if span is None else span.current()


@contextmanager
def part_of(parent: Span | None, name: str, attributes: Attributes) -> Generator[Span | None]:
    """A span below `parent` for as long as the block takes; None where there is none."""
    if parent is None:
        yield None
        return
    span = parent.begin(name, attributes)
    try:
        yield span
    except BaseException as error:
        span.end(error_type(error))
        raise
    span.end()


def error_type(error: BaseException) -> str:
    """The stable word for a failure: our own code, or the exception's name."""
    if isinstance(error, GatewayError):
        return error.code
    if isinstance(error, TimeoutError) or (isinstance(error, asyncio.CancelledError) and error.args == (TIMED_OUT,)):
        return "timeout"
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else type(error).__qualname__
