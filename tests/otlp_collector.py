"""A collector of traces on loopback that speaks OTLP over HTTP: it keeps the spans that come, as the protobuf has them.

It runs in threads of its own, so that a gateway in another process, or in this event loop, can export to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

DEADLINE_SECONDS = 20


class OtlpCollector:
    """What came: `spans`, each with the name of the service it came from."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[tuple[str, Span]] = []
        self.paths: set[str] = set()
        self.came = threading.Condition()

    @property
    def environment(self) -> dict[str, str]:
        """What has a process export to it, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20"}

    def named(self, name: str) -> list[Span]:
        """Those whose name begins so."""
        return [span for _, span in list(self.spans) if span.name.startswith(name)]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for what comes. Raises TimeoutError."""
        if not await asyncio.to_thread(self._wait, condition):
            raise TimeoutError(f"all that came: {[span.name for _, span in self.spans]}")

    def _wait(self, condition: Callable[[], object]) -> bool:
        with self.came:
            return bool(self.came.wait_for(condition, DEADLINE_SECONDS))


@contextmanager
def otlp_collector() -> Generator[OtlpCollector]:
    """A collector, until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with collector.came:
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    attributes = resource.resource.attributes
                    names = [pair.value.string_value for pair in attributes if pair.key == "service.name"]
                    collector.spans += [(names[0], span) for scope in resource.scope_spans for span in scope.spans]
                collector.paths.add(self.path)
                collector.came.notify_all()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = OtlpCollector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, name="otlp collector")
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def attributes(span: Span) -> dict[str, object]:
    """What a span tells: texts, numbers and truths."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in span.attributes}
