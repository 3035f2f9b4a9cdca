"""What a request's answers decide: only open interrupts, only whole answers, each once."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from gateway.agent import Answer
from gateway.errors import ForbiddenError, InvalidRequestError
from gateway.events import Interrupt, OpenInterrupt
from gateway.loop import Decision
from gateway.messages import JsonObject, JsonValue, ToolCall
from gateway.runs.approvals import EXPIRED, Verdict, answers_any, decide

NOW = 1_000.0


def asked(name: str, expires_at: float | None = NOW + 1) -> OpenInterrupt:
    call = ToolCall(f"call-{name}", "refund", '{"amount":1}')
    return OpenInterrupt(Interrupt(name, "tool_call", "Refund?", call.call_id, expires_at=expires_at), call)


def says(name: str, payload: JsonValue) -> Answer:
    return Answer(name, "resolved", payload)


def check(name: str, arguments: JsonObject) -> str | None:
    assert name == "refund"
    return None if isinstance(arguments.get("amount"), int) else "'amount' is to be an integer"


def judge(*answers: Answer, interrupts: tuple[OpenInterrupt, ...] = (asked("i"),)) -> Verdict:
    return decide(interrupts, answers, now=NOW, check=check, approves=lambda name: True)


def test_an_approval_that_is_not_the_senders_is_refused_whatever_else_is_answered() -> None:
    interrupts = (asked("1"), asked("2"))
    answers = (Answer("1", "cancelled"), says("2", {"approved": True}))
    with pytest.raises(ForbiddenError) as caught:
        decide(interrupts, answers, now=NOW, check=check, approves=lambda name: False)
    assert caught.value.code == "approval_not_allowed"
    assert "'refund'" in caught.value.message


@pytest.mark.parametrize(
    "answer",
    [Answer("i", "cancelled"), says("i", {"approved": False, "reason": "no"}), says("gone", {"approved": True})],
)
def test_who_may_not_approve_may_still_deny(answer: Answer) -> None:
    verdict = decide((asked("i"),), (answer,), now=NOW, check=check, approves=lambda name: False)
    assert not any(decision.approved for decision in verdict.decisions)


def test_nobody_is_refused_for_what_has_expired() -> None:
    interrupts = (asked("i", expires_at=NOW),)
    verdict = decide(interrupts, (says("i", {"approved": True}),), now=NOW, check=check, approves=lambda name: False)
    assert verdict.decisions == (Decision(CALL, approved=False, reason=EXPIRED),)


def test_an_answer_by_an_approvals_id_is_to_that_approval_alone() -> None:
    here = replace(asked("i"), approval_id="a1")
    answers = [Answer("i", "resolved", {"approved": True}, approval_id) for approval_id in ("a1", "a2")]
    taken, other = (decide((here,), (each,), now=NOW, check=check, approves=lambda name: False) for each in answers)
    assert [decision.approved for decision in taken.decisions] == [True]
    assert other.still_open == (here,)
    assert [answers_any((here,), (each,)) for each in answers] == [True, False]


def problems(*answers: Answer) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        judge(*answers)
    assert (caught.value.status, caught.value.code) == (422, "invalid_answer")
    return [problem.pointer for problem in caught.value.problems]


CALL = asked("i").call


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (says("i", {"approved": True}), Decision(CALL, approved=True)),
        (says("i", {"approved": True, "editedArgs": None, "reason": None}), Decision(CALL, approved=True)),
        (
            says("i", {"approved": True, "editedArgs": {"amount": 2}, "reason": "less"}),
            Decision(CALL, approved=True, arguments={"amount": 2}, reason="less"),
        ),
        (says("i", {"approved": True, "editedArgs": {"amount": 1}}), Decision(CALL, approved=True)),  # changes nothing
        (says("i", {"approved": True, "ignored": 1}), Decision(CALL, approved=True)),
        (says("i", {"approved": False}), Decision(CALL, approved=False)),
        (says("i", {"approved": False, "reason": "no"}), Decision(CALL, approved=False, reason="no")),
        (says("i", {"approved": False, "editedArgs": {"amount": "?"}}), Decision(CALL, approved=False)),
        (Answer("i", "cancelled"), Decision(CALL, approved=False)),
        (Answer("i", "cancelled", {"approved": True}), Decision(CALL, approved=False)),
    ],
)
def test_an_answer_decides_its_interrupt(answer: Answer, decision: Decision) -> None:
    assert judge(answer) == Verdict((decision,), ())


def test_what_nobody_answered_stays_open() -> None:
    interrupts = (asked("1"), asked("2"), asked("3"))
    verdict = judge(says("2", {"approved": True}), interrupts=interrupts)
    assert verdict == Verdict((Decision(interrupts[1].call, approved=True),), (interrupts[0], interrupts[2]))


def test_decisions_come_in_the_order_of_the_interrupts() -> None:
    interrupts = (asked("1"), asked("2"))
    verdict = judge(says("2", {"approved": True}), says("1", {"approved": False}), interrupts=interrupts)
    assert [decision.call.call_id for decision in verdict.decisions] == ["call-1", "call-2"]


@pytest.mark.parametrize("expires_at", [NOW, NOW - 1, 0.0])
@pytest.mark.parametrize(
    "answers", [(), (says("i", {"approved": True}),), (Answer("i", "cancelled"),), (says("i", "malformed"),)]
)
def test_an_expired_interrupt_counts_as_denied_whatever_is_answered(
    expires_at: float, answers: tuple[Answer, ...]
) -> None:
    verdict = judge(*answers, interrupts=(asked("i", expires_at),))
    assert verdict == Verdict((Decision(CALL, approved=False, reason=EXPIRED),), ())


def test_an_interrupt_without_expiry_waits_for_ever() -> None:
    interrupt = asked("i", None)
    assert judge(interrupts=(interrupt,)) == Verdict((), (interrupt,))


@pytest.mark.parametrize("payload", [{"approved": True}, "malformed", None])
def test_an_answer_to_an_interrupt_that_is_not_open_decides_nothing(
    payload: JsonValue, caplog: pytest.LogCaptureFixture
) -> None:
    assert judge(says("unheard", payload)) == Verdict((), (asked("i"),))
    assert judge(says("unheard", payload), interrupts=()) == Verdict((), ())
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert caplog.records[0].__dict__["first"] == ["unheard"]


def test_of_two_answers_to_one_interrupt_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    verdict = judge(says("i", {"approved": False}), says("i", {"approved": True}))
    assert verdict == Verdict((Decision(CALL, approved=False),), ())
    assert caplog.records[0].__dict__["first"] == ["i"]


@pytest.mark.parametrize(
    ("payload", "pointers"),
    [
        (None, ["/resume/0/payload"]),
        ("yes", ["/resume/0/payload"]),
        (True, ["/resume/0/payload"]),
        ([], ["/resume/0/payload"]),
        ({}, ["/resume/0/payload/approved"]),
        ({"approved": None}, ["/resume/0/payload/approved"]),
        ({"approved": "true"}, ["/resume/0/payload/approved"]),
        ({"approved": 1}, ["/resume/0/payload/approved"]),
        ({"approved": True, "reason": 1}, ["/resume/0/payload/reason"]),
        ({"approved": False, "reason": []}, ["/resume/0/payload/reason"]),
        ({"approved": True, "editedArgs": "{}"}, ["/resume/0/payload/editedArgs"]),
        ({"approved": False, "editedArgs": []}, ["/resume/0/payload/editedArgs"]),
        ({"approved": True, "editedArgs": {"amount": "?"}}, ["/resume/0/payload/editedArgs"]),
        (
            {"approved": 0, "reason": 0, "editedArgs": 0},
            ["/resume/0/payload/approved", "/resume/0/payload/reason", "/resume/0/payload/editedArgs"],
        ),
    ],
)
def test_a_malformed_answer_is_refused_with_the_place_that_is_wrong(payload: JsonValue, pointers: list[str]) -> None:
    assert problems(says("i", payload)) == pointers


def test_one_malformed_answer_refuses_all() -> None:
    interrupts = (asked("1"), asked("2"))
    with pytest.raises(InvalidRequestError) as caught:
        judge(Answer("unheard", "cancelled"), says("2", {}), says("1", {"approved": True}), interrupts=interrupts)
    assert [problem.pointer for problem in caught.value.problems] == ["/resume/1/payload/approved"]


def test_edited_arguments_that_do_not_fit_are_told_why() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        judge(says("i", {"approved": True, "editedArgs": {}}))
    assert caught.value.problems[0].detail == "'amount' is to be an integer"


def test_a_request_without_answers_decides_nothing() -> None:
    assert judge() == Verdict((), (asked("i"),))
    assert judge(interrupts=()) == Verdict((), ())
