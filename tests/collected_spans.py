"""The spans of a gateway in this process, collected by OpenTelemetry's own in-memory exporter."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.telemetry.spans import OtelTracer
from tests.waiting import until


class CollectedSpans:
    """`tracer` for an application or a driver, and what it gave."""

    def __init__(self, *, shows_content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider, "0", shows_content=shows_content)

    @property
    def ended(self) -> list[ReadableSpan]:
        """All that have ended, the first to begin first."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of that name, or whose name begins with it."""
        return [span for span in self.ended if span.name == name or span.name.startswith(f"{name} ")]

    def one(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        found = self.named(name)
        assert len(found) == 1, [span.name for span in self.ended]
        return found[0]

    async def until(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait for that many of that name."""
        await until(lambda: len(self.named(name)) >= count)
        return self.named(name)


def told(span: ReadableSpan) -> dict[str, object]:
    """Its attributes."""
    return dict(span.attributes or {})


def trace_of(span: ReadableSpan) -> int:
    """Its trace's id."""
    assert span.context is not None
    return int(span.context.trace_id)


def span_id(span: ReadableSpan) -> int:
    """Its own id."""
    assert span.context is not None
    return int(span.context.span_id)


def is_below(span: ReadableSpan, other: ReadableSpan) -> bool:
    """Whether `other` is its parent."""
    return span.parent is not None and span.parent.span_id == span_id(other)


def traceparent_of(span: ReadableSpan) -> str:
    """What a request carries that is made below it. https://www.w3.org/TR/trace-context-2/#traceparent-header"""
    assert span.context is not None
    return f"00-{trace_of(span):032x}-{span_id(span):016x}-{span.context.trace_flags:02x}"
