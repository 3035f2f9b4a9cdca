"""Spans as OpenTelemetry has them, behind the contracts of `traces`.

Below: traces. Above: export. Nothing here is global: the provider is the tracer's own. Only the current span is
OpenTelemetry's, so that a tool's own instrumentation and the mcp package find it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider

from gateway.traces import NO_HEADERS, Attributes, Kind, Span

_KINDS = {"internal": trace.SpanKind.INTERNAL, "server": trace.SpanKind.SERVER, "client": trace.SpanKind.CLIENT}
_CLOSE_SECONDS = 3.0


class OtelSpan:
    """A Span."""

    __slots__ = ("_shared", "_span", "_tracer", "shows_content")

    def __init__(self, span: trace.Span, tracer: trace.Tracer, shared: Attributes, shows_content: bool) -> None:
        """`shared` is set on all spans below it, too."""
        self._span = span
        self._tracer = tracer
        self._shared = shared
        self.shows_content = shows_content

    @property
    def headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        propagate.inject(headers, self._context())
        return headers

    def begin(self, name: str, attributes: Attributes, *, kind: Kind = "internal") -> Span:
        told = {**self._shared, **attributes}
        span = self._tracer.start_span(name, self._context(), _KINDS[kind], told)
        return OtelSpan(span, self._tracer, self._shared, self.shows_content)

    def add(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def end(self, error: str = "") -> None:
        if not self._span.is_recording():
            return
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()

    @contextmanager
    def current(self) -> Generator[None]:
        token = contexts.attach(trace.set_span_in_context(self._span))
        try:
            yield
        finally:
            contexts.detach(token)

    def note_watched(self) -> None:
        trace.get_current_span().add_link(self._span.get_span_context())

    def _context(self) -> contexts.Context:
        # With nothing else in it: what a caller sent as baggage is for the gateway, not for a model's provider.
        return trace.set_span_in_context(self._span, contexts.Context())


class OtelTracer:
    """A Tracer that gives its spans to a provider, which it closes in the end."""

    def __init__(self, provider: TracerProvider, version: str, *, shows_content: bool) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("agui-gateway", version)
        self._shows_content = shows_content

    def begin(
        self, name: str, attributes: Attributes, *, shared: Attributes, earlier: Mapping[str, str] = NO_HEADERS
    ) -> Span:
        before = trace.get_current_span(propagate.extract(earlier, contexts.Context())).get_span_context()
        links = [trace.Link(before)] if before.is_valid else []
        span = self._tracer.start_span(name, attributes={**shared, **attributes}, links=links)
        return OtelSpan(span, self._tracer, shared, self._shows_content)

    def begin_request(self, name: str, attributes: Attributes, headers: Mapping[str, str]) -> Span:
        parent = trace.get_current_span(propagate.extract(headers, contexts.Context()))
        above = trace.set_span_in_context(parent, contexts.Context())
        span = self._tracer.start_span(name, above, trace.SpanKind.SERVER, attributes)
        return OtelSpan(span, self._tracer, {}, self._shows_content)

    def line_fields(self) -> Mapping[str, str]:
        known = trace.get_current_span().get_span_context()
        if not known.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(known.trace_id), "span_id": trace.format_span_id(known.span_id)}

    async def close(self) -> None:
        # A thread that the process does not wait for: a collector that is down must not hold up its end.
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, name="last traces", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await done.wait()
