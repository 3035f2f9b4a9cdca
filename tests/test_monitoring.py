"""The dashboard and the alert rules in `deploy/` ask for metrics and labels that a gateway really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.documentation import ROOT
from tests.reference.metrics_page import all_metrics, metrics_of
from tests.running_gateway import agent, local_gateway, run_body, scripted

DASHBOARD: Final = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text("utf-8"))
RULES: Final = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
OF_PROMETHEUS: Final = {"job", "instance", "le"}
"""Labels that Prometheus adds itself, or that every histogram has."""
TEXTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def expressions() -> list[str]:
    """The PromQL of the dashboard's panels and of the alert rules."""
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*panels, *(rule["expr"] for rule in RULES)]


def metric_names(expression: str) -> set[str]:
    names = re.findall(r"\b(?:agui_gateway|process|python)_\w+", TEXTS.sub('""', expression))
    return {re.sub(r"_bucket$", "", name) for name in names}


def labels(expression: str) -> set[str]:
    """The labels that an expression selects or groups by."""
    bare = TEXTS.sub('""', expression)
    selected = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"\"", bare)
    grouped = [name.strip() for names in re.findall(r"\bby\s*\(([^)]*)\)", bare) for name in names.split(",")]
    return {*selected, *grouped} - OF_PROMETHEUS


def shown_labels() -> Iterator[tuple[str, str, str]]:
    """(where, expression, label) of each label that a legend or an annotation shows."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                yield panel["title"], target["expr"], label
    for rule in RULES:
        for text in rule["annotations"].values():
            for label in re.findall(r"\$labels\.(\w+)", text):
                yield rule["alert"], rule["expr"], label


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_asks_for_labels_that_its_metrics_have(expression: str) -> None:
    metrics = all_metrics()
    for name in metric_names(expression):
        if name.startswith("agui_gateway_"):
            assert labels(expression) <= set(metrics[name].labels), name


def test_what_is_shown_of_a_result_is_among_its_labels() -> None:
    for where, expression, label in shown_labels():
        by_label = re.search(r"\bby\s*\(", expression)
        kept = labels(expression) if by_label else OF_PROMETHEUS
        assert label in kept, f"{where} shows {label!r}, which {expression} does not keep"


def test_a_variable_of_the_dashboard_takes_its_values_from_a_label_that_is_there() -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            assert label in {*all_metrics()[name].labels, *OF_PROMETHEUS}


async def test_a_gateway_has_the_metrics_with_these_labels(tmp_path: Path) -> None:
    """What a gateway has counted has the labels that the page of metrics says."""
    tool = {"type": "PythonTool", "name": "broken", "parameters": {"function": "gateway.sample_tools:refund"}}
    model = scripted([{"error": "throttled", "times": 1}, {"tool": "broken", "arguments": {}}], [{"text": "No"}])
    keys = [{"name": "staff", "key": "staff-0123456789"}]
    async with local_gateway(tmp_path, [agent("shop", model, tools=[tool])], server={"api_keys": keys}) as gateway:
        http = gateway.client.http
        assert (await http.get("/agents")).status_code == 401
        http.headers["authorization"] = "Bearer staff-0123456789"
        await gateway.client.run("shop", run_body("Refund", thread_id="t1", run_id="r1"))
        assert (await http.get("/runs/r1/events")).status_code == 200
        text = (await http.get("/metrics")).text
    found: dict[str, Any] = metrics_of(text)
    everything = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    counted = {name: metric.labels for name, metric in found.items() if metric.labels}

    assert counted.items() <= {name: metric.labels for name, metric in all_metrics().items()}.items()
    assert {"agui_gateway_runs_total", "agui_gateway_provider_retries_total", "agui_gateway_tool_errors_total"} <= set(
        counted
    )
    assert {"agui_gateway_refusals_total", "agui_gateway_resume_total"} <= set(counted)
    for expression in expressions():
        assert metric_names(expression) <= found.keys() | everything
