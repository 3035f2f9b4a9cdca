"""The context that a run's loop works with.

Below: live_run, run_terms. Above: the run driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from gateway.agent import Absent, AgentInput, Approvers
from gateway.clock import Clock
from gateway.events import ToolExecutionStarted
from gateway.loop import Decision, LoopContext, ResumedRun
from gateway.metrics import Metrics
from gateway.runs.live_run import LiveRun
from gateway.runs.run_terms import with_choice
from gateway.tool import SharedState, Tool


def loop_context(
    live: LiveRun,
    given: AgentInput,
    tools: Mapping[str, Tool],
    approvals: Mapping[str, Approvers | None],
    clock: Clock,
    metrics: Metrics,
    until_sure: Callable[[], Awaitable[None]],
    *,
    decisions: Sequence[Decision] = (),
    resumed: ResumedRun | None = None,
) -> LoopContext:
    """The loop's context: the run's input and thread, and its agent's parts."""
    assert live.thread is not None, "a loop gets a run that has begun"
    conversation, messages, state = live.conversation, live.thread.messages, live.fold.state
    asked, agent_id = live.thread.interrupts, live.terms.definition.id
    own, elsewhere = (messages, ()) if conversation is None else conversation.split(messages)
    terms = live.terms
    given, tool_choice = with_choice(terms, given)
    return LoopContext(
        agent=terms.definition,
        input=given,
        owner=live.record.owner,
        model=terms.model,
        tools=tools,
        approvals=approvals,
        messages=own,
        elsewhere=elsewhere,
        state=SharedState({} if isinstance(state, Absent) else state),
        clock=clock,
        decisions=tuple(decisions),
        still_open=tuple(item for item in asked if item.is_asked_by(agent_id)),
        waiting=frozenset(item.call.call_id for item in asked if not item.is_asked_by(agent_id)),
        on_retry=metrics.provider_retried,
        fallback=terms.fallback,
        fits=terms.fits,
        conversation=conversation,
        resumed=resumed,
        is_left=lambda: live.left,
        before_call=partial(_before_call, live, until_sure),
        trace=live.trace,
        tool_choice=tool_choice,
        instructions=terms.instructions,
        selected_tools=terms.selected_tools,
    )


async def _before_call(live: LiveRun, until_sure: Callable[[], Awaitable[None]], call_id: str) -> None:
    """As LoopContext.before_call. Raises StoreError: the call's begin cannot be stored, so it must not be made."""
    if live.goes_on:
        live.accept([ToolExecutionStarted(call_id)])
        await live.wait_kept()
    await until_sure()
