"""Traces of a real process, configured by the standard variables alone, at a collector that speaks OTLP."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.otlp_collector import attributes, otlp_collector
from tests.running_gateway import agent, gateway_process, run_body, scripted, write_configuration

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, CALLER = PARENT.split("-")[1:3]
ANSWERS = scripted([{"error": "overloaded", "times": 1}, {"text": "Hello"}])


def configured(directory: Path) -> Path:
    return write_configuration(directory, [agent("a", ANSWERS)], server={"log_format": "json"})


def lines(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


async def test_a_process_exports_its_runs_and_its_log_names_them(tmp_path: Path) -> None:
    with otlp_collector() as collector:
        environment = {**collector.environment, "OTEL_SERVICE_NAME": "shop"}
        async with gateway_process(configured(tmp_path), env=environment) as gateway:
            await gateway.client.run("a", run_body("hi", run_id="r"), traceparent=PARENT)
            await collector.until(lambda: collector.named("invoke_agent") and collector.named("POST"))
            log = lines(gateway.log)
    assert {service for service, _ in collector.spans} == {"shop"}
    assert collector.paths == {"/v1/traces"}
    [request], [run] = collector.named("POST"), collector.named("invoke_agent")
    assert request.parent_span_id.hex() == CALLER
    assert run.parent_span_id == request.span_id
    assert {span.trace_id.hex() for _, span in collector.spans} == {TRACE}
    assert [attributes(span).get("error.type") for span in collector.named("chat")] == ["model_overloaded", None]
    retried = next(line for line in log if "tried again" in str(line["message"]))
    assert (retried["trace_id"], retried["span_id"]) == (TRACE, run.span_id.hex())
    asked = next(line for line in log if line["message"] == "request" and line["path"] == "/agents/a/run")
    assert (asked["trace_id"], asked["span_id"]) == (TRACE, request.span_id.hex())


async def test_what_has_ended_is_exported_when_the_process_stops(tmp_path: Path) -> None:
    with otlp_collector() as collector:
        environment = {**collector.environment, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        async with gateway_process(configured(tmp_path), env=environment) as gateway:
            await gateway.client.run("a", run_body("hi"))
            assert not collector.spans
            assert await gateway.signal(signal.SIGTERM) == 0
        assert collector.named("invoke_agent")
        assert {service for service, _ in collector.spans} == {"agui-gateway"}


async def test_a_collector_that_is_down_costs_a_line_of_the_log_and_no_run_and_no_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections and says nothing, for ever
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }
        async with gateway_process(configured(tmp_path), env=environment) as gateway:
            for number in range(3):
                frames = await gateway.client.run("a", run_body("hi", thread_id=f"t{number}", run_id=f"r{number}"))
                assert frames[-1].type == "RUN_FINISHED"
            assert await gateway.signal(signal.SIGTERM) == 0, "within the deadline, which is far below the timeout"
            assert not [line for line in lines(gateway.log) if line["level"] == "error"]


async def test_a_collector_that_refuses_is_told_of_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        endpoint = f"http://127.0.0.1:{gone.getsockname()[1]}"
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
    }
    async with gateway_process(configured(tmp_path), env=environment) as gateway:
        for number in range(3):
            await gateway.client.run("a", run_body("hi", thread_id=f"t{number}", run_id=f"r{number}"))
        assert await gateway.signal(signal.SIGTERM) == 0
        log = lines(gateway.log)
    warnings = [line for line in log if line["level"] == "warning" and "tried again" not in str(line["message"])]
    assert [line["message"] for line in warnings] == ["traces cannot be exported and are lost"]
    assert not [line for line in log if line["level"] == "error"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "ENDPOINT", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "ENDPOINT", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
async def test_nothing_is_traced_unless_the_environment_says_so(tmp_path: Path, environment: dict[str, str]) -> None:
    with otlp_collector() as collector:
        environment = {name: value.replace("ENDPOINT", collector.endpoint) for name, value in environment.items()}
        async with gateway_process(configured(tmp_path), env=environment) as gateway:
            await gateway.client.run("a", run_body("hi"), traceparent=PARENT)
            assert await gateway.signal(signal.SIGTERM) == 0
            assert not any("trace_id" in line for line in lines(gateway.log))
        assert not collector.spans
