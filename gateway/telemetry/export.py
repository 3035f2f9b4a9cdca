"""Decides from OpenTelemetry's standard environment variables whether traces are exported, and where.

Below: provider, if the packages of the extra `otel` are installed. Above: the server's process.
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.traces import Tracer

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SHOWS_CONTENT = ("true", "span_only", "span_and_event")


def open_tracer(environ: Mapping[str, str]) -> Tracer | None:
    """A tracer that exports as the environment says; None if it asks for no export, or for one that is not possible."""
    exporter = _exporter_name(environ)
    if exporter is None:
        return None
    if exporter not in ("otlp", "console"):
        logger.warning("traces are off: OTEL_TRACES_EXPORTER has to be otlp, console or none", extra={"is": exporter})
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if exporter == "otlp" and protocol != _PROTOCOL:
        logger.warning(f"traces are off: OTEL_EXPORTER_OTLP_PROTOCOL has to be {_PROTOCOL}", extra={"is": protocol})
        return None
    try:
        # here, because nobody who exports nothing needs OpenTelemetry
        from gateway.telemetry.provider import open_provider

        tracer = open_provider(exporter, shows_content=environ.get(_CONTENT, "").lower() in _SHOWS_CONTENT)
    except ImportError as error:
        logger.warning(
            "traces are off: they need pip install 'agui-gateway[otel]'", extra={"missing": error.name or str(error)}
        )
        return None
    except ValueError as error:
        logger.warning("traces are off: a variable of OpenTelemetry is wrong", extra={"reason": str(error)})
        return None
    logger.info("traces are exported", extra={"exporter": exporter})
    return tracer


def _exporter_name(environ: Mapping[str, str]) -> str | None:
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    name = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not name and any(environ.get(endpoint) for endpoint in _ENDPOINTS):
        name = "otlp"
    return None if name in ("", "none") else name
