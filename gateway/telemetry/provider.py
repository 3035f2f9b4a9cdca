"""OpenTelemetry's own machinery: the exporter, its thread, and the service's name.

Below: spans. Above: export. The packages read all other standard variables themselves: OTEL_SERVICE_NAME,
OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_EXPORTER_OTLP_*.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult

from gateway import __version__
from gateway.telemetry.spans import OtelTracer
from gateway.traces import Tracer

logger = logging.getLogger(__name__)

_SILENCE_SECONDS = 60.0  # between two log lines that say that nothing can be exported


def open_provider(exporter: str, *, shows_content: bool) -> Tracer:
    """A tracer that exports to a collector (`otlp`) or to standard output (`console`): from a bounded queue, in
    a thread of its own.

    Raises:
        ValueError: a variable of OpenTelemetry has an invalid value.
    """
    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "agui-gateway"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    chosen: SpanExporter
    if exporter == "console":
        chosen = ConsoleSpanExporter()
    else:
        chosen = QuietExporter(OTLPSpanExporter())
        # It logs for each batch what QuietExporter logs now and then.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    provider.add_span_processor(BatchSpanProcessor(chosen))
    return OtelTracer(provider, __version__, shows_content=shows_content)


class QuietExporter(SpanExporter):
    """An exporter that logs only now and then that its collector is down."""

    def __init__(self, exporter: SpanExporter, now: Callable[[], float] = time.monotonic) -> None:
        self._exporter = exporter
        self._now = now
        self._said_at: float | None = None
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception:  # whatever it is, only traces are lost
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self._lost += len(spans)
            self._tell()
        return result

    def _tell(self) -> None:
        now = self._now()
        if self._said_at is None or now - self._said_at >= _SILENCE_SECONDS:
            logger.warning("traces cannot be exported and are lost", extra={"spans": self._lost})
            self._said_at, self._lost = now, 0

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
