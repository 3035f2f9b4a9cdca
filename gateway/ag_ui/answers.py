"""A person's answer to an interrupt in AG-UI's words: the schema that asks for it, and the payload that gives it.

Below: the words. Above: input, events. Source: https://docs.ag-ui.com/spec/1.0/patterns/interrupt-resume. The answer to
an approval of a tool's call is `{approved: boolean, editedArgs?: object, reason?: string}`.
"""

from __future__ import annotations

from typing import Any

from gateway.agent import Answer, SentAnswer
from gateway.errors import FieldProblem
from gateway.events import Interrupt
from gateway.messages import JsonObject

_MISFIT = "an answer in `resume` does not fit its interrupt"
_NAMES = {"arguments": "editedArgs"}  # what is called otherwise here


def resolved_answer(interrupt_id: str, payload: Any, at: str) -> Answer:
    """The answer that `payload` gives; `at` is the pointer to its entry in `resume`.

    What is wrong with it is kept in the answer: whether it counts depends on the interrupt, which the thread has.
    """
    at += "/payload"
    if not isinstance(payload, dict):
        problem = FieldProblem(at, "expected {approved: boolean, editedArgs?: object, reason?: string}")
        return Answer(interrupt_id, "resolved", sent=SentAnswer(payload, _MISFIT, problems=(problem,)))
    problems: list[FieldProblem] = []
    approved, reason, edited = (payload.get(name) for name in ("approved", "reason", "editedArgs"))
    if not isinstance(approved, bool):
        problems.append(FieldProblem(f"{at}/approved", "expected true or false"))
    if reason is not None and not isinstance(reason, str):
        problems.append(FieldProblem(f"{at}/reason", "expected a string"))
        reason = None
    if edited is not None and not isinstance(edited, dict):
        problems.append(FieldProblem(f"{at}/editedArgs", "expected an object with the tool's arguments"))
        approved, edited = False, None  # with other arguments nobody approved it
    sent = SentAnswer(payload, _MISFIT, f"{at}/editedArgs", tuple(problems))
    return Answer(interrupt_id, "resolved", approved is True, edited, reason, sent=sent)


def cancelled_answer(interrupt_id: str) -> Answer:
    """The answer of an entry that is cancelled: whatever payload it has is not read."""
    return Answer(interrupt_id, "cancelled", sent=SentAnswer(None, _MISFIT))


def response_schema(interrupt: Interrupt) -> JsonObject | None:
    """The JSON Schema of the payload that answers the interrupt; None where it asks for none.

    Stores of earlier versions have approvals with AG-UI's name for the arguments already.
    """
    schema = interrupt.response_schema
    if schema is None or interrupt.reason != "tool_call" or not isinstance(asked := schema.get("properties"), dict):
        return schema
    return {**schema, "properties": {_NAMES.get(name, name): each for name, each in asked.items()}}
