"""The span of a run: from its request until its end is stored, even without viewers.

Below: live_run, telemetry, traces. Above: the driver.
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-agent-spans.md
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.agent import AgentDefinition
from gateway.runs.live_run import LiveRun
from gateway.store import RunRecord, RunStatus
from gateway.telemetry.model_calls import vendor_of
from gateway.traces import NO_HEADERS, Attributes, Span, Tracer


def begin_trace(
    tracer: Tracer | None, record: RunRecord, agent: AgentDefinition, earlier: Mapping[str, str] = NO_HEADERS
) -> Span | None:
    """The run's span; None if no traces are collected. `earlier`: the headers of its span in another process."""
    if tracer is None:
        return None
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": agent.id,
        "gen_ai.agent.description": agent.description,
        "gen_ai.provider.name": vendor_of(agent.model.model_provider),
        "gen_ai.request.model": agent.model.model_id,
        "agui_gateway.run.id": record.client_id,
        "agui_gateway.run.taken_up": record.status is RunStatus.RUNNING,
    }
    shared = {"gen_ai.conversation.id": record.thread_id, "gen_ai.agent.name": agent.name}
    return tracer.begin(f"invoke_agent {agent.name}", attributes, shared=shared, earlier=earlier)


def end_trace(live: LiveRun) -> None:
    """End the run's span: the run is over, was left to another process, or never began."""
    span, record = live.trace, live.record
    if span is None:
        return
    usages = live.fold.usage.total
    span.add(
        {
            "agui_gateway.run.status": record.status.value if live.begun or record.finished_at else "refused",
            "gen_ai.usage.input_tokens": sum(usage.input_tokens or 0 for usage in usages),
            "gen_ai.usage.output_tokens": sum(usage.output_tokens or 0 for usage in usages),
        }
    )
    span.end(record.error_code or "failed" if record.status is RunStatus.FAILED else "")
