"""What the environment says of traces, and the exporter's patience."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gateway.telemetry.export import open_tracer
from gateway.telemetry.provider import QuietExporter

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "shop"},
        {"OTEL_TRACES_EXPORTER": "none", **ENDPOINT},
        {"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT},
    ],
)
def test_without_an_exporter_there_is_no_tracer_and_no_word(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert open_tracer(environ) is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", **ENDPOINT}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ],
)
def test_what_cannot_be_exported_to_is_named_and_the_gateway_starts_all_the_same(
    environ: dict[str, str], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert open_tracer(environ) is None
    [record] = caplog.records
    assert named in record.getMessage()
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("without", ["opentelemetry.sdk", "opentelemetry.exporter.otlp"])
def test_without_the_extra_it_is_said_what_to_install(
    without: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith((without, "gateway.telemetry.provider"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, without, None)
    assert open_tracer(ENDPOINT) is None
    [record] = caplog.records
    assert "pip install 'agui-gateway[otel]'" in record.getMessage()


@pytest.mark.parametrize("environ", [ENDPOINT, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}])
async def test_an_endpoint_is_enough(environ: dict[str, str]) -> None:
    tracer = open_tracer(environ)
    assert tracer is not None
    await tracer.close()


def test_who_exports_nothing_does_not_load_the_sdk() -> None:
    check = (
        "import sys, gateway.application, gateway.server.process\n"
        "from gateway.telemetry.export import open_tracer\n"
        "assert open_tracer({}) is None\n"
        "loaded = [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


class _Failing(SpanExporter):
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.error is not None:
            raise self.error
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("error", [None, ConnectionError("down")])
def test_a_collector_that_is_down_is_told_of_once_a_minute(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter((0.0, 5.0, 30.0, 61.0))
    exporter = QuietExporter(_Failing(error), lambda: next(times))
    for _ in range(4):
        assert exporter.export([ReadableSpan("a")]) is SpanExportResult.FAILURE
    assert [record.__dict__["spans"] for record in caplog.records] == [1, 3]
