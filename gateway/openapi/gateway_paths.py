"""The gateway's own paths in the API document: health, readiness, metrics, and the document itself.

Below: description, shapes. Above: the composition root, which serves them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, Operation, answer, described_json, operation
from gateway.openapi.shapes import object_of, text, words


def _operations() -> Sequence[Operation]:
    in_text = answer("All metrics, or OpenMetrics by Accept.", {"text/plain": {"schema": {"type": "string"}}})
    document = answer("An OpenAPI 3.1 document.", {"application/json": {"schema": {"type": "object"}}})
    metrics = operation("service", "getMetrics", "Metrics for Prometheus", {"200": in_text})
    metrics["security"] = [{"key": []}, {}]
    ready: JsonObject = {
        "200": described_json("Readiness", "Requests are served."),
        "503": described_json("Readiness", "Not now: shutting down, or the store cannot be written."),
    }
    return [
        (
            "/healthz",
            "get",
            operation(
                "service",
                "getHealth",
                "Whether the process is alive",
                {"200": described_json("Health", "It is.")},
                False,
            ),
        ),
        ("/readyz", "get", operation("service", "getReadiness", "Whether requests are served", ready, False)),
        ("/metrics", "get", metrics),
        (
            "/openapi.json",
            "get",
            operation(
                "service",
                "getOpenapi",
                "This document",
                {"200": document},
                False,
            ),
        ),
    ]


GATEWAY_API = ApiDescription(
    {"service": "For those who operate the gateway."},
    _operations(),
    {
        "Health": object_of(["status"], {"status": {"const": "ok"}}),
        "Readiness": object_of(
            ["status", "problems", "warnings"],
            {
                "status": words("ready", "unavailable"),
                "problems": {"type": "array", "items": text(), "description": "Why requests are not served."},
                "warnings": {"type": "array", "items": text(), "description": "What works less well, such as tools."},
            },
        ),
    },
)
