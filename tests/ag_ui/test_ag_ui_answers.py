"""A person's answer as AG-UI has it: its payload becomes a decision or problems, and the schema asks for just that."""

from __future__ import annotations

import pytest

from gateway.ag_ui.answers import cancelled_answer, resolved_answer, response_schema
from gateway.ag_ui.input import InputReader
from gateway.agent import InterruptAnswer
from gateway.errors import InvalidRequestError
from gateway.events import Interrupt, OpenInterrupt
from gateway.messages import JsonObject, JsonValue, ToolCall, ToolSpec
from gateway.runs.approvals import Verdict, decide
from gateway.turns.tool_calls import approval_schema

CALL = ToolCall("c", "refund", '{"amount":1}')
ASKED = OpenInterrupt(Interrupt("i", "tool_call", "Refund?", CALL.call_id), CALL)


def said(*resume: JsonObject) -> tuple[InterruptAnswer, ...]:
    data = {"threadId": "t", "runId": "r", "messages": [], "resume": [*resume]}
    return InputReader().read(data)[0].answers


def says(payload: JsonValue, name: str = "i") -> JsonObject:
    return {"interruptId": name, "status": "resolved", "payload": payload}


def check(name: str, arguments: JsonObject) -> str | None:
    return None if isinstance(arguments.get("amount"), int) else "'amount' is to be an integer"


def judge(*answers: InterruptAnswer) -> Verdict:
    return decide((ASKED,), answers, now=0, check=check, approves=lambda name: True)


def refusal(*answers: InterruptAnswer) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        judge(*answers)
    assert (caught.value.status, caught.value.code) == (422, "invalid_answer")
    assert caught.value.message == "an answer in `resume` does not fit its interrupt"
    return caught.value


@pytest.mark.parametrize(
    ("payload", "approved", "arguments", "reason"),
    [
        ({"approved": True}, True, None, None),
        ({"approved": True, "editedArgs": None, "reason": None}, True, None, None),
        ({"approved": True, "editedArgs": {"amount": 2}, "reason": "less"}, True, {"amount": 2}, "less"),
        ({"approved": True, "ignored": 1}, True, None, None),
        ({"approved": False}, False, None, None),
        ({"approved": False, "reason": "no"}, False, None, "no"),
        ({"approved": False, "editedArgs": {"amount": "?"}}, False, {"amount": "?"}, None),
    ],
)
def test_a_payload_decides(
    payload: JsonValue, approved: bool, arguments: JsonObject | None, reason: str | None
) -> None:
    (answer,) = said(says(payload))
    assert (answer.interrupt_id, answer.status) == ("i", "resolved")
    assert (answer.approved, answer.arguments, answer.reason) == (approved, arguments, reason)
    assert answer.payload == payload
    assert [decision.approved for decision in judge(answer).decisions] == [approved]


def test_a_cancelled_entry_is_an_answer_without_a_payload() -> None:
    (answer,) = said({"interruptId": "i", "status": "cancelled", "payload": {"approved": True}})
    assert answer == cancelled_answer("i")
    assert (answer.approved, answer.payload) == (False, None)


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
    assert [problem.pointer for problem in refusal(*said(says(payload))).problems] == pointers


def test_the_place_is_that_in_the_request() -> None:
    unheard: JsonObject = {"interruptId": "unheard", "status": "cancelled"}
    for before in ([unheard], [unheard, unheard]):
        error = refusal(*said(*before, says({})))
        assert [problem.pointer for problem in error.problems] == [f"/resume/{len(before)}/payload/approved"]


def test_a_malformed_answer_to_no_open_interrupt_decides_nothing() -> None:
    assert judge(*said(says("malformed", "unheard"))) == Verdict((), (ASKED,))


def test_edited_arguments_that_do_not_fit_are_told_why() -> None:
    error = refusal(*said(says({"approved": True, "editedArgs": {}})))
    assert error.problems[0].detail == "'amount' is to be an integer"


def test_answers_differ_in_what_was_sent_whatever_it_decides() -> None:
    plain, more = (
        resolved_answer("i", payload, "/resume/0") for payload in ({"approved": True}, {"approved": True, "x": 1})
    )
    assert plain != more
    assert plain == resolved_answer("i", {"approved": True}, "/resume/1")


SPEC = ToolSpec(
    "refund", "", {"type": "object", "properties": {"arguments": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}}
)


def test_the_schema_asks_for_the_payload() -> None:
    schema = response_schema(Interrupt("i", "tool_call", "?", response_schema=approval_schema(SPEC)))
    assert schema == {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", "properties": {"arguments": {"$ref": "#/$defs/a"}}},
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "$defs": {"a": {}},
    }
    assert list(schema["properties"]) == ["approved", "editedArgs", "reason"]  # type: ignore[arg-type]


def test_a_schema_of_an_earlier_version_asks_for_it_as_it_is() -> None:
    kept: JsonObject = {"type": "object", "properties": {"approved": {}, "editedArgs": {}}}
    assert response_schema(Interrupt("i", "tool_call", "?", response_schema=kept)) == kept


@pytest.mark.parametrize(
    "schema", [None, {}, {"properties": None}, {"type": "object", "properties": {"arguments": {}}}]
)
def test_a_schema_that_asks_for_something_else_stays_as_it_is(schema: JsonObject | None) -> None:
    assert response_schema(Interrupt("i", "a survey", "?", response_schema=schema)) == schema
