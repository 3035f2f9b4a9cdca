"""`docs/reference/metrics.md`: every metric of the gateway, and the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Metrics
from tests.reference.markdown import code, prose, table

_INTRODUCTION = """# Metrics

Every metric of `GET /metrics`. [The HTTP interface](../http.md#metrics) says how to scrape them.
`deploy/grafana-dashboard.json` is a dashboard of them for Grafana, and `deploy/alerts.yaml` has alert rules for
Prometheus.

A metric with labels has values once it has counted something. Beside these metrics there are the usual ones of a Python
process, `process_...` and `python_...`, such as `process_resident_memory_bytes`.

## Metrics of the gateway
"""
_LABELS: Final[Mapping[str, str]] = {
    "agent": "The agent's id. `(stored)` stands for all agents that callers made.",
    "outcome": "How the run ended: `completed`, `interrupted` (a person is asked), `cancelled` or `failed`.",
    "code": "The [code of the error](errors.md). It is empty for a run that did not fail.",
    "reason": "`slow`: the viewer was more than `server.max_viewer_events` behind.",
    "result": "`attached`: the run was under way. `replayed`: the run had ended, and the client lacked events. "
    "`ended`: the run had ended, and the client had all events.",
    "provider": "The provider of the model, such as `openai/v1/chat/completions`.",
    "model": "The id of the model. In `agui_gateway_tokens_total`, `(stored)` stands for all models of agents that "
    "callers made.",
    "kind": "`input` or `output`.",
    "tool": "The tool's name in the configuration, or its type if it has no name there; `other` for any other tool.",
    "key": "The name of the request's key. It is empty if the request has no key, or an unknown one.",
}


class Metric(NamedTuple):
    """A metric: `kind` is Prometheus' word. `labels` are without `le`, which every histogram has."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def metrics_of(text: str) -> dict[str, Metric]:
    """The gateway's metrics in an answer of `/metrics`, by name. A metric that has counted nothing has no labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("agui_gateway_") and not name.endswith("_created"):
            labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
            found[name] = Metric(name, family.type, tuple(labels), family.documentation)
    return found


def all_metrics() -> dict[str, Metric]:
    """Every metric, with its labels."""
    metrics = Metrics()
    metrics.run_ended("a", "failed", "c", 1.0)
    metrics.first_token("a", 1.0)
    metrics.viewer_dropped("slow")
    metrics.resumed("ended")
    metrics.provider_retried("p", "c")
    metrics.provider_retried("p", "c", "elsewhere")
    metrics.provider_retried("p", "c", "shortened")
    metrics.circuit_turned("p", "m", is_open=True)
    metrics.tool_failed("t")
    metrics.tokens_used("p", "m", 1, 1)
    metrics.refused("c", "k")
    metrics.store_failed("c")
    return metrics_of(metrics.render()[0].decode())


def unexplained_labels() -> set[str]:
    """The labels that no metric has, or that have no explanation."""
    return {label for metric in all_metrics().values() for label in metric.labels} ^ _LABELS.keys()


def metrics_page() -> str:
    """The page's text."""
    metrics = [
        (code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), prose(metric.meaning))
        for metric in all_metrics().values()
    ]
    labels = [(code(name), meaning) for name, meaning in _LABELS.items()]
    parts = [
        _INTRODUCTION,
        table(("Metric", "Type", "Labels", "Meaning"), metrics),
        "## Labels\n",
        table(("Label", "Meaning"), labels),
    ]
    return "\n".join(parts)
