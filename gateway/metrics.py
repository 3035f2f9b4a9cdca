"""The gateway's metrics, for Prometheus.

Below: prometheus_client. One object per application, no globals: two applications in one process do not share counts.
Labels are names from the configuration and fixed words, never ids of threads, runs or people. Counting costs about a
microsecond: count batches of events, not each event.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

_PREFIX = "agui_gateway"
_TOKEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RUN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

ResumeResult = Literal["attached", "replayed", "ended"]
DropReason = Literal["slow"]
HopOutcome = Literal["forwarded", "left", "broken", "unreachable", "refused", "again", "busy"]
"""What became of a request that met a thread of another gateway: its answer was passed on, its client left, the other
gateway broke off or gave no answer; it had come by a hop itself; it was done again here, or too often.
"""


class Metrics:
    """The registry and all metrics."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self.runs_active = self._gauge("runs_active", "Runs under way.")
        self.runs_waiting = self._gauge("runs_waiting", "Runs that wait for their thread.")
        self.viewers_active = self._gauge("viewers_active", "Open event streams.")
        self.events_total = self._counter("events_total", "Events of all runs that have ended.")
        # Metrics that every run counts: looking a metric up by its labels costs twice as much as counting.
        self._runs = cache(self._counter("runs_total", "Runs that have ended.", "agent", "outcome", "code").labels)
        self._run_seconds = cache(
            self._histogram("run_seconds", "From a run's start to its end.", _RUN_SECONDS, "agent").labels
        )
        self._first_token = cache(
            self._histogram(
                "first_token_seconds", "From a run's start to its first delta.", _TOKEN_SECONDS, "agent"
            ).labels
        )
        self._drops = self._counter("viewer_drops_total", "Streams that were closed before their run's end.", "reason")
        self._resumes = self._counter("resume_total", "Requests for the events of a run that had begun.", "result")
        self._retries = self._counter(
            "provider_retries_total", "Model calls that failed and were made again.", "provider", "code"
        )
        self._fallbacks = self._counter(
            "provider_fallbacks_total", "Failed model calls for which another model was asked.", "provider", "code"
        )
        self._open_circuits = self._gauge(
            "provider_circuits_open", "Models that are down and skipped if another can be asked.", "provider", "model"
        )
        self._reductions = self._counter(
            "context_reductions_total",
            "Conversations that were shortened because a model refused them as too long.",
            "provider",
        )
        self._tool_errors = self._counter("tool_errors_total", "Backend tool calls that failed.", "tool")
        self._tokens = self._counter("tokens_total", "Tokens as providers report them.", "provider", "model", "kind")
        self._refusals = self._counter(
            "refusals_total", "Requests refused by the access middleware or by a limit.", "code", "key"
        )
        self.gateways = self._gauge("gateways", "Gateways that use the store.")
        self._hops = self._counter("hops_total", "Requests that met a thread of another gateway.", "outcome")
        self._store_errors = self._counter("store_errors_total", "Ends of runs that were not stored at once.", "code")

    def run_ended(self, agent: str, outcome: str, code: str = "", seconds: float | None = None) -> None:
        """Count a run that is over. `outcome` is its status (`completed`, ...); `code` is its error's, if it failed."""
        self._runs(agent, outcome, code).inc()
        if seconds is not None:
            self._run_seconds(agent).observe(seconds)

    def first_token(self, agent: str, seconds: float) -> None:
        self._first_token(agent).observe(seconds)

    def viewer_dropped(self, reason: DropReason) -> None:
        self._drops.labels(reason).inc()

    def resumed(self, result: ResumeResult) -> None:
        self._resumes.labels(result).inc()

    def provider_retried(
        self, provider: str, code: str, following: Literal["again", "shortened", "elsewhere"] = "again"
    ) -> None:
        """Count a model call that failed with that code and was followed by another try: see model.NextTry."""
        match following:
            case "again":
                self._retries.labels(provider, code).inc()
            case "elsewhere":
                self._fallbacks.labels(provider, code).inc()
            case "shortened":
                self._reductions.labels(provider).inc()

    def circuit_turned(self, provider: str, model: str, is_open: bool) -> None:
        """Count a model that is down, or up again: see circuit.OnChange."""
        gauge = self._open_circuits.labels(provider, model)
        if is_open:
            gauge.inc()
        else:
            gauge.dec()

    def tool_failed(self, tool: str) -> None:
        """Count a failed call. `tool` is a backend tool's name: the configuration bounds these, while a model may
        invent any name.
        """
        self._tool_errors.labels(tool).inc()

    def tokens_used(self, provider: str, model: str, input_tokens: int | None, output_tokens: int | None) -> None:
        if input_tokens:
            self._tokens.labels(provider, model, "input").inc(input_tokens)
        if output_tokens:
            self._tokens.labels(provider, model, "output").inc(output_tokens)

    def refused(self, code: str, key: str) -> None:
        """Count a refused request by its problem's code. `key` is the configured key's name, empty for none."""
        self._refusals.labels(code, key).inc()

    def hopped(self, outcome: HopOutcome) -> None:
        self._hops.labels(outcome).inc()

    def store_failed(self, code: str) -> None:
        self._store_errors.labels(code).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics, and their Content-Type: OpenMetrics where `accept` asks for it, else Prometheus' text."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", meaning, labels, registry=self._registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", meaning, labels, registry=self._registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"{_PREFIX}_{name}", meaning, labels, buckets=buckets, registry=self._registry)
