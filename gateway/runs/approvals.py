"""Matches a request's answers with a thread's open interrupts.

Below: events, store, loop (Decision). Above: intake. Pure. Only an interrupt that this server opened on the thread can
become a decision; an answer that does not fit is refused before anything runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.agent import InterruptAnswer
from gateway.errors import FieldProblem, ForbiddenError, InvalidRequestError
from gateway.events import OpenInterrupt
from gateway.frozen import quickly_made
from gateway.loop import Decision
from gateway.messages import JsonObject
from gateway.tool import Tool
from gateway.turns.tool_calls import are_same_arguments, argument_problem
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)

EXPIRED = "the question expired before anybody answered it"

ArgumentsCheck = Callable[[str, JsonObject], str | None]
"""(tool name, arguments) -> what is wrong with them, None if nothing is."""

Approves = Callable[[str], bool]
"""(tool name) -> whether the sender may approve its calls."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Verdict:
    """The decisions, in the order of the interrupts, and the interrupts without an answer."""

    decisions: tuple[Decision, ...]
    still_open: tuple[OpenInterrupt, ...]


_NOTHING_ASKED = Verdict((), ())


def arguments_check(tools: Mapping[str, Tool]) -> ArgumentsCheck:
    """A check of edited arguments against the tools; a tool that no longer exists fails when it is to run."""

    def check(name: str, arguments: JsonObject) -> str | None:
        tool = tools.get(name)
        return None if tool is None else argument_problem(tool.spec, arguments)

    return check


def answers_any(interrupts: Sequence[OpenInterrupt], answers: Sequence[InterruptAnswer]) -> bool:
    """Whether one of the answers is to one of the interrupts."""
    known = {item.interrupt.id: item for item in interrupts}
    return any(_is_to(known.get(answer.interrupt_id), answer) for answer in answers)


def _is_to(item: OpenInterrupt | None, answer: InterruptAnswer) -> bool:
    """An answer with an approval's id answers no other interrupt of the same id."""
    return item is not None and answer.approval_id in ("", item.approval_id)


def decide(
    interrupts: Sequence[OpenInterrupt],
    answers: Sequence[InterruptAnswer],
    *,
    now: float,
    check: ArgumentsCheck,
    approves: Approves,
) -> Verdict:
    """Match the answers with the open interrupts. Expired ones count as denied, answered or not.

    Raises:
        InvalidRequestError: an answer to an open interrupt is malformed, or its arguments do not fit the tool.
        ForbiddenError: the sender may not approve the call.
    """
    if not (interrupts or answers):
        return _NOTHING_ASKED
    given: dict[str, InterruptAnswer] = {}
    known = {item.interrupt.id: item for item in interrupts}
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
        expires_at = item.interrupt.expires_at
        if expires_at is not None and expires_at <= now:
            decisions.append(Decision(item.call, approved=False, reason=EXPIRED))
        elif item.interrupt.id not in given:
            still_open.append(item)
        else:
            answer = given[item.interrupt.id]
            decision = _decision(item, answer, problems, check)
            if decision.approved and not answer.approval_id and not approves(item.call.name):
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


def _not_allowed(name: str) -> ForbiddenError:
    return ForbiddenError(
        f"calls of {name!r} are approved by somebody with a key that may approve (POST /approvals/{{id}}); this request"
        " may only cancel one",
        code="approval_not_allowed",
    )
