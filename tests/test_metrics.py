"""What the gateway counts."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    content, _ = metrics.render()
    return {
        (sample.name.removeprefix("agui_gateway_"), tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_a_run_is_counted_by_its_outcome() -> None:
    metrics = Metrics()
    metrics.runs_active.inc()
    metrics.run_ended("assistant", "completed", seconds=1.5)
    metrics.run_ended("assistant", "failed", "model_timeout")
    metrics.first_token("assistant", 0.2)
    found = samples(metrics)
    assert found["runs_active", ()] == 1
    assert found["runs_total", ("", "assistant", "completed")] == 1
    assert found["runs_total", ("assistant", "failed", "model_timeout")] == 1
    assert found["run_seconds_sum", ("assistant",)] == 1.5
    assert found["first_token_seconds_count", ("assistant",)] == 1


def test_everything_else_is_counted_too() -> None:
    metrics = Metrics()
    metrics.events_total.inc(250)
    metrics.viewers_active.inc()
    metrics.viewer_dropped("slow")
    metrics.resumed("attached")
    metrics.provider_retried("demo", "model_throttled")
    metrics.provider_retried("demo", "model_overloaded", "elsewhere")
    metrics.provider_retried("demo", "model_context_overflow", "shortened")
    metrics.tool_failed("refund")
    metrics.tokens_used("demo", "m", 10, None)
    metrics.tokens_used("demo", "m", 5, 7)
    metrics.store_failed("store_full")
    found = samples(metrics)
    assert found["events_total", ()] == 250
    assert found["viewer_drops_total", ("slow",)] == 1
    assert found["resume_total", ("attached",)] == 1
    assert found["provider_retries_total", ("demo", "model_throttled")] == 1
    assert found["provider_fallbacks_total", ("demo", "model_overloaded")] == 1
    assert found["context_reductions_total", ("demo",)] == 1
    assert found["tool_errors_total", ("refund",)] == 1
    assert found["tokens_total", ("demo", "input", "m")] == 15
    assert found["tokens_total", ("demo", "m", "output")] == 7
    assert found["store_errors_total", ("store_full",)] == 1


def test_two_gateways_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.events_total.inc()
    assert samples(one)["events_total", ()] == 1
    assert samples(other)["events_total", ()] == 0


def test_the_format_follows_the_question() -> None:
    metrics = Metrics()
    content, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    assert b"# TYPE agui_gateway_runs_total counter" in content
    content, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert content.endswith(b"# EOF\n")
