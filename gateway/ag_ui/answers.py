"""A person's answer to an interrupt in AG-UI: its JSON Schema, and the payload that has it.

Below: the words. Above: input, events. Source: https://docs.ag-ui.com/spec/1.0/patterns/interrupt-resume. The answer to
an approval of a tool's call is `{approved: boolean, editedArgs?: object, reason?: string}`.
"""

from __future__ import annotations

from typing import Any

from gateway.agent import InterruptAnswer, SentAnswer
from gateway.errors import FieldProblem
from gateway.events import Interrupt
from gateway.messages import JsonObject

_MISFIT = "an answer in `resume` does not fit its interrupt"
_NAMES = {"arguments": "editedArgs"}  # fields with another name in AG-UI


def resolved_answer(interrupt_id: str, payload: Any, at: str) -> InterruptAnswer:
    """The answer in `payload`; `at` is the pointer to its entry in `resume`.

    Its errors are kept in the answer: they count only if its interrupt is open, which is known from the thread.
    """
    at += "/payload"
    if not isinstance(payload, dict):
        problem = FieldProblem(at, "expected {approved: boolean, editedArgs?: object, reason?: string}")
        return InterruptAnswer(interrupt_id, "resolved", sent=SentAnswer(payload, _MISFIT, problems=(problem,)))
    problems: list[FieldProblem] = []
    approved, reason, edited = (payload.get(name) for name in ("approved", "reason", "editedArgs"))
    if not isinstance(approved, bool):
        problems.append(FieldProblem(f"{at}/approved", "expected true or false"))
    if reason is not None and not isinstance(reason, str):
        problems.append(FieldProblem(f"{at}/reason", "expected a string"))
        reason = None
    if edited is not None and not isinstance(edited, dict):
        problems.append(FieldProblem(f"{at}/editedArgs", "expected an object with the tool's arguments"))
        approved, edited = False, None  # nobody approved the call with other arguments
    sent = SentAnswer(payload, _MISFIT, f"{at}/editedArgs", tuple(problems))
    return InterruptAnswer(interrupt_id, "resolved", approved is True, edited, reason, sent=sent)


def cancelled_answer(interrupt_id: str) -> InterruptAnswer:
    """The answer of a cancelled entry, whose payload is not read."""
    return InterruptAnswer(interrupt_id, "cancelled", sent=SentAnswer(None, _MISFIT))


def response_schema(interrupt: Interrupt) -> JsonObject | None:
    """The JSON Schema of the payload that answers the interrupt; None if it has none.

    Approvals that earlier versions stored have AG-UI's name for the arguments already.
    """
    schema = interrupt.response_schema
    if schema is None or interrupt.reason != "tool_call" or not isinstance(asked := schema.get("properties"), dict):
        return schema
    return {**schema, "properties": {_NAMES.get(name, name): each for name, each in asked.items()}}
