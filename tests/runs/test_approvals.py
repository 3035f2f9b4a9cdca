"""What a request's answers decide: only open interrupts, only whole answers, each once."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from gateway.agent import InterruptAnswer, SentAnswer
from gateway.errors import FieldProblem, ForbiddenError, InvalidRequestError
from gateway.events import Interrupt, OpenInterrupt
from gateway.loop import Decision
from gateway.messages import JsonObject, ToolCall
from gateway.runs.approvals import EXPIRED, Verdict, answers_any, decide

NOW = 1_000.0


def asked(name: str, expires_at: float | None = NOW + 1) -> OpenInterrupt:
    call = ToolCall(f"call-{name}", "refund", '{"amount":1}')
    return OpenInterrupt(Interrupt(name, "tool_call", "Refund?", call.call_id, expires_at=expires_at), call)


def says(
    name: str, approved: bool = True, arguments: JsonObject | None = None, reason: str | None = None, by: str = ""
) -> InterruptAnswer:
    return InterruptAnswer(name, "resolved", approved, arguments, reason, by)


def malformed(name: str, *pointers: str) -> InterruptAnswer:
    return InterruptAnswer(
        name, "resolved", sent=SentAnswer(problems=tuple(FieldProblem(each, "wrong") for each in pointers))
    )


def check(name: str, arguments: JsonObject) -> str | None:
    assert name == "refund"
    return None if isinstance(arguments.get("amount"), int) else "'amount' is to be an integer"


def judge(*answers: InterruptAnswer, interrupts: tuple[OpenInterrupt, ...] = (asked("i"),)) -> Verdict:
    return decide(interrupts, answers, now=NOW, check=check, approves=lambda name: True)


def test_an_approval_that_is_not_the_senders_is_refused_whatever_else_is_answered() -> None:
    interrupts = (asked("1"), asked("2"))
    answers = (InterruptAnswer("1", "cancelled"), says("2"))
    with pytest.raises(ForbiddenError) as caught:
        decide(interrupts, answers, now=NOW, check=check, approves=lambda name: False)
    assert caught.value.code == "approval_not_allowed"
    assert "'refund'" in caught.value.message


@pytest.mark.parametrize(
    "answer",
    [InterruptAnswer("i", "cancelled"), says("i", False, None, "no"), says("gone")],
)
def test_who_may_not_approve_may_still_deny(answer: InterruptAnswer) -> None:
    verdict = decide((asked("i"),), (answer,), now=NOW, check=check, approves=lambda name: False)
    assert not any(decision.approved for decision in verdict.decisions)


def test_nobody_is_refused_for_what_has_expired() -> None:
    interrupts = (asked("i", expires_at=NOW),)
    verdict = decide(interrupts, (says("i"),), now=NOW, check=check, approves=lambda name: False)
    assert verdict.decisions == (Decision(CALL, approved=False, reason=EXPIRED),)


def test_an_answer_by_an_approvals_id_is_to_that_approval_alone() -> None:
    here = replace(asked("i"), approval_id="a1")
    answers = [says("i", by=approval_id) for approval_id in ("a1", "a2")]
    taken, other = (decide((here,), (each,), now=NOW, check=check, approves=lambda name: False) for each in answers)
    assert [decision.approved for decision in taken.decisions] == [True]
    assert other.still_open == (here,)
    assert [answers_any((here,), (each,)) for each in answers] == [True, False]


def problems(*answers: InterruptAnswer) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        judge(*answers)
    assert (caught.value.status, caught.value.code) == (422, "invalid_answer")
    return [problem.pointer for problem in caught.value.problems]


CALL = asked("i").call


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (says("i"), Decision(CALL, approved=True)),
        (
            says("i", True, {"amount": 2}, "less"),
            Decision(CALL, approved=True, arguments={"amount": 2}, reason="less"),
        ),
        (says("i", True, {"amount": 1}), Decision(CALL, approved=True)),  # changes nothing
        (says("i", False), Decision(CALL, approved=False)),
        (says("i", False, None, "no"), Decision(CALL, approved=False, reason="no")),
        (says("i", False, {"amount": "?"}), Decision(CALL, approved=False)),
        (InterruptAnswer("i", "cancelled"), Decision(CALL, approved=False)),
        (InterruptAnswer("i", "cancelled", True, {"amount": 2}, "why"), Decision(CALL, approved=False)),
    ],
)
def test_an_answer_decides_its_interrupt(answer: InterruptAnswer, decision: Decision) -> None:
    assert judge(answer) == Verdict((decision,), ())


def test_what_nobody_answered_stays_open() -> None:
    interrupts = (asked("1"), asked("2"), asked("3"))
    verdict = judge(says("2"), interrupts=interrupts)
    assert verdict == Verdict((Decision(interrupts[1].call, approved=True),), (interrupts[0], interrupts[2]))


def test_decisions_come_in_the_order_of_the_interrupts() -> None:
    interrupts = (asked("1"), asked("2"))
    verdict = judge(says("2"), says("1", False), interrupts=interrupts)
    assert [decision.call.call_id for decision in verdict.decisions] == ["call-1", "call-2"]


@pytest.mark.parametrize("expires_at", [NOW, NOW - 1, 0.0])
@pytest.mark.parametrize("answers", [(), (says("i"),), (InterruptAnswer("i", "cancelled"),), (malformed("i", "/0"),)])
def test_an_expired_interrupt_counts_as_denied_whatever_is_answered(
    expires_at: float, answers: tuple[InterruptAnswer, ...]
) -> None:
    verdict = judge(*answers, interrupts=(asked("i", expires_at),))
    assert verdict == Verdict((Decision(CALL, approved=False, reason=EXPIRED),), ())


def test_an_interrupt_without_expiry_waits_for_ever() -> None:
    interrupt = asked("i", None)
    assert judge(interrupts=(interrupt,)) == Verdict((), (interrupt,))


@pytest.mark.parametrize(
    "answer", [says("unheard"), malformed("unheard", "/0"), InterruptAnswer("unheard", "cancelled")]
)
def test_an_answer_to_an_interrupt_that_is_not_open_decides_nothing(
    answer: InterruptAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    assert judge(answer) == Verdict((), (asked("i"),))
    assert judge(answer, interrupts=()) == Verdict((), ())
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert caplog.records[0].__dict__["first"] == ["unheard"]


def test_of_two_answers_to_one_interrupt_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    verdict = judge(says("i", False), says("i"))
    assert verdict == Verdict((Decision(CALL, approved=False),), ())
    assert caplog.records[0].__dict__["first"] == ["i"]


def test_a_malformed_answer_is_refused_with_the_places_that_are_wrong() -> None:
    assert problems(malformed("i", "/a", "/b")) == ["/a", "/b"]


def test_malformed_answers_and_arguments_are_told_together() -> None:
    interrupts = (asked("1"), asked("2"))
    sent = SentAnswer(misfit="no", arguments_pointer="/1/edited", problems=(FieldProblem("/1/reason", "a string"),))
    answers = (malformed("1", "/0"), InterruptAnswer("2", "resolved", True, {}, sent=sent))
    with pytest.raises(InvalidRequestError) as caught:
        judge(*answers, interrupts=interrupts)
    assert [problem.pointer for problem in caught.value.problems] == ["/0", "/1/reason", "/1/edited"]


def test_one_malformed_answer_refuses_all() -> None:
    interrupts = (asked("1"), asked("2"))
    with pytest.raises(InvalidRequestError) as caught:
        judge(InterruptAnswer("unheard", "cancelled"), malformed("2", "/1"), says("1"), interrupts=interrupts)
    assert [problem.pointer for problem in caught.value.problems] == ["/1"]


def test_arguments_that_do_not_fit_are_told_why() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        judge(says("i", arguments={}))
    assert caught.value.message == "an answer does not fit its interrupt"
    assert caught.value.problems == (FieldProblem("/arguments", "'amount' is to be an integer"),)


def test_a_misfit_is_told_in_the_words_of_its_protocol() -> None:
    sent = SentAnswer({}, "that does not fit", "/there")
    with pytest.raises(InvalidRequestError) as caught:
        judge(InterruptAnswer("i", "resolved", True, {}, sent=sent))
    assert caught.value.message == "that does not fit"
    assert [problem.pointer for problem in caught.value.problems] == ["/there"]


def test_a_request_without_answers_decides_nothing() -> None:
    assert judge() == Verdict((), (asked("i"),))
    assert judge(interrupts=()) == Verdict((), ())
