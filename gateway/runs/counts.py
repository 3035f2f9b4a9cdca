"""Counts a finished run in the metrics.

Below: metrics, live_run. Above: the run driver.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.agent import AgentDefinition
from gateway.messages import Message
from gateway.metrics import Metrics
from gateway.runs.live_run import LiveRun

# The label of agents that callers made, and of their models: callers choose these names, and there may be any number.
STORED = "(stored)"


def count_end(metrics: Metrics, live: LiveRun) -> None:
    """Count a run that was counted as active when it began."""
    record = live.record
    metrics.runs_active.dec()
    metrics.events_total.inc(live.sequence)
    for _ in live.audience.slow_viewers:
        metrics.viewer_dropped("slow")
    if record.started_at is None or record.finished_at is None:
        return
    agent_id = STORED if live.agent.is_stored else record.agent_id
    metrics.run_ended(agent_id, record.status.value, record.error_code or "", record.finished_at - record.started_at)
    if live.first_sign_at is not None:
        metrics.first_token(agent_id, live.first_sign_at - record.started_at)
    for usage in record.usage:
        model = STORED if live.agent.is_stored else usage.model
        metrics.tokens_used(usage.provider, model, usage.input_tokens, usage.output_tokens)


def count_failed_tools(metrics: Metrics, produced: Sequence[Message], agent: AgentDefinition) -> None:
    """Count the failed calls among a run's messages. Only known tool names become labels: a model may invent any."""
    failed = {r.call_id for message in produced if (r := message.tool_result) is not None and r.is_error}
    if not failed:
        return
    backend = {tool.name or tool.type for tool in agent.tools}
    for message in produced:
        for call in message.tool_calls:
            if call.call_id in failed:
                metrics.tool_failed(call.name if call.name in backend else "other")
