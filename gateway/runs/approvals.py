"""Matches a request's answers with a thread's open interrupts.

Below: events, store, loop (Decision). Above: intake. Pure. Only an interrupt that this server opened on the thread can
become a decision; an answer that does not fit is refused before anything runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.agent import Approvers, InterruptAnswer
from gateway.errors import ConflictError, FieldProblem, ForbiddenError, InvalidRequestError
from gateway.events import OpenInterrupt
from gateway.frozen import quickly_made
from gateway.loop import Decision
from gateway.messages import JsonObject
from gateway.owners import may_approve
from gateway.store import RunRecord
from gateway.tool import Tool
from gateway.turns.tool_calls import are_same_arguments, argument_problem
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)

EXPIRED = "the question expired before anybody answered it"

ArgumentsCheck = Callable[[str, JsonObject], str | None]
"""A function of a tool's name and arguments: it returns the problem with the arguments, None if they fit."""

Approves = Callable[[OpenInterrupt], bool]
"""Whether the sender may approve the call."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Verdict:
    """The decisions, in the order of the interrupts, and the interrupts without an answer."""

    decisions: tuple[Decision, ...]
    still_open: tuple[OpenInterrupt, ...]


@dataclass(frozen=True, slots=True)
class AnsweredApproval:
    """The run that continues after an approval was answered; None if its agent is gone: the call was denied."""

    thread_id: str
    agent_id: str
    run: RunRecord | None = None


_NOTHING_ASKED = Verdict((), ())


def arguments_check(tools: Mapping[str, Tool]) -> ArgumentsCheck:
    """A check of edited arguments against the tools. Arguments of a tool that no longer exists pass: the call fails
    when it is to run.
    """

    def check(name: str, arguments: JsonObject) -> str | None:
        tool = tools.get(name)
        return None if tool is None else argument_problem(tool.spec, arguments)

    return check


def approves_as(owner: str, approvals: Mapping[str, Approvers | None]) -> Approves:
    """Whether `owner` may approve an interrupt: both the rule stored with it and the agent's current rule must allow
    it.

    `approvals` as in LoopContext. An interrupt without a stored rule comes from an older gateway.
    """

    def approves(item: OpenInterrupt) -> bool:
        asked, name = item.interrupt.approvers or None, item.call.name
        current = approvals.get(name, asked)
        return may_approve(owner, asked or current) and may_approve(owner, current)

    return approves


def named_by(interrupts: Sequence[OpenInterrupt], answers: Sequence[InterruptAnswer]) -> list[OpenInterrupt]:
    """The interrupts that the answers name."""
    named = {(answer.interrupt_id, answer.approval_id) for answer in answers}
    return [
        item
        for item in interrupts
        if not named.isdisjoint(((item.interrupt.id, ""), (item.interrupt.id, item.approval_id)))
    ]


def answers_any(interrupts: Sequence[OpenInterrupt], answers: Sequence[InterruptAnswer]) -> bool:
    """Whether one of the answers names one of the interrupts."""
    return bool(named_by(interrupts, answers))


def _is_to(item: OpenInterrupt | None, answer: InterruptAnswer) -> bool:
    """Whether the answer is for this interrupt. One with an approval's id is for no other interrupt of the same id."""
    return item is not None and answer.approval_id in ("", item.approval_id)


def decide(
    interrupts: Sequence[OpenInterrupt],
    answers: Sequence[InterruptAnswer],
    *,
    now: float,
    check: ArgumentsCheck,
    approves: Approves,
    agent_id: str = "",
    gone: Collection[str] = (),
) -> Verdict:
    """Match the answers with the open interrupts. An expired interrupt counts as denied, answered or not.

    `agent_id` is the run's agent. Interrupts of other agents stay open; those of agents that are `gone` may be denied.

    Raises:
        InvalidRequestError: an answer to an open interrupt is malformed, or its arguments do not fit the tool.
        ForbiddenError: the sender may not approve the call.
        ConflictError: another agent opened the interrupt.
    """
    if not (interrupts or answers):
        return _NOTHING_ASKED
    given: dict[str, InterruptAnswer] = {}
    own_last = sorted(interrupts, key=lambda item: item.is_asked_by(agent_id))  # the agent's own one wins
    known = {item.interrupt.id: item for item in own_last}
    ignored: list[str] = []
    for answer in answers:
        if not _is_to(known.get(answer.interrupt_id), answer) or answer.interrupt_id in given:
            ignored.append(answer.interrupt_id)
        else:
            given[answer.interrupt_id] = answer
    if ignored:
        logger.warning("ignored answers to interrupts that are not open", extra=counted(ignored))
    problems: list[FieldProblem] = []
    decisions: list[Decision] = []
    still_open: list[OpenInterrupt] = []
    for item in interrupts:
        expires_at, is_own = item.interrupt.expires_at, item.is_asked_by(agent_id)
        if is_own and expires_at is not None and expires_at <= now:
            decisions.append(Decision(item.call, approved=False, reason=EXPIRED))
        elif item.interrupt.id not in given or known[item.interrupt.id] is not item:
            still_open.append(item)
        else:
            answer = given[item.interrupt.id]
            decision = _decision(item, answer, problems, check)
            if not is_own and (decision.approved or item.agent_id not in gone):
                raise approval_of_other_agent(item, is_gone=item.agent_id in gone)
            if decision.approved and not answer.approval_id and not approves(item):
                raise _not_allowed(item.call.name)
            decisions.append(decision)
    if problems:
        misfit = answers[0].sent.misfit  # all of them came by one protocol
        raise InvalidRequestError(misfit, code="invalid_answer", problems=problems)
    return Verdict(tuple(decisions), tuple(still_open))


def _decision(
    item: OpenInterrupt, answer: InterruptAnswer, problems: list[FieldProblem], check: ArgumentsCheck
) -> Decision:
    """The answer's decision; its problems are added to `problems`."""
    if answer.status == "cancelled":
        return Decision(item.call, approved=False)
    problems += answer.sent.problems
    if not answer.approved:
        return Decision(item.call, approved=False, reason=answer.reason)
    arguments = answer.arguments
    if arguments is not None and (wrong := check(item.call.name, arguments)) is not None:
        problems.append(FieldProblem(answer.sent.arguments_pointer, wrong))
    if arguments is not None and are_same_arguments(item.call.arguments, arguments):
        arguments = None  # a form sends the arguments back unchanged
    return Decision(item.call, approved=True, arguments=arguments, reason=answer.reason)


def approval_of_other_agent(item: OpenInterrupt, *, is_gone: bool) -> ConflictError:
    """The error for an answer to another agent's interrupt."""
    instead = "that one is gone: it can only be denied" if is_gone else "answer it with a run of that one"
    return ConflictError(
        f"{item.interrupt.id!r} was asked by the agent {item.agent_id!r}; {instead}", code="approval_of_other_agent"
    )


def _not_allowed(name: str) -> ForbiddenError:
    return ForbiddenError(
        f"calls of {name!r} are approved by somebody with a key that may approve (POST /approvals/{{id}}); this request"
        " may only cancel one",
        code="approval_not_allowed",
    )
