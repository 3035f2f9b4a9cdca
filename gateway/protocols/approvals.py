"""The calls of all conversations that wait for approval: list them, answer one.

Below: protocol. Only keys with `approvals: true` may use it: they see the calls of all owners. An answer begins a run
of the thread's owner, who sees it as any other run of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.ag_ui.answers import response_schema
from gateway.agent import InterruptAnswer, SentAnswer
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.openapi.data import api_data
from gateway.protocol import (
    ProtocolEnvironment,
    WireProtocol,
    caller_of,
    json_response,
    page_asked,
    path_id,
    read_json,
    time_text,
)
from gateway.store import Approval
from gateway.turns.tool_calls import parse_arguments

_EXPECTED = {"approved": bool, "arguments": dict, "reason": str}
_MISFIT = "the arguments do not fit the tool"
_NAMES: dict[type, str] = {bool: "true or false", dict: "an object with the tool's arguments", str: "a string"}


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def approvals(self, request: Request) -> Response:
        caller = caller_of(request)
        self._environment.check_approver(caller)  # before any other problem of the request is reported
        limit, cursor = page_asked(request)
        page = await self._environment.approvals(caller, limit=limit, cursor=cursor)
        shown: list[JsonValue] = [_approval_json(item) for item in page.items]
        return json_response({"approvals": shown, "nextCursor": page.next_cursor})

    async def answer(self, request: Request) -> Response:
        caller = caller_of(request)
        self._environment.check_approver(caller)
        answer = _answer(await read_json(request))
        done = await self._environment.answer(caller, path_id(request, "approval_id"), answer)
        run_id, status = (None, 200) if done.run is None else (done.run.client_id, 202)
        return json_response({"runId": run_id, "threadId": done.thread_id, "agentId": done.agent_id}, status)


def _approval_json(approval: Approval) -> JsonObject:
    asked = approval.asked
    interrupt = asked.interrupt
    return {
        "id": asked.approval_id,
        "owner": approval.owner,
        "threadId": approval.thread_id,
        "agentId": asked.agent_id,
        "interruptId": interrupt.id,
        "toolCallId": asked.call.call_id,
        "tool": asked.call.name,
        "arguments": parse_arguments(asked.call.arguments),
        "responseSchema": response_schema(interrupt),
        "createdAt": time_text(asked.opened_at),
        "expiresAt": time_text(interrupt.expires_at),
    }


def _answer(body: JsonValue) -> InterruptAnswer:
    """The answer in a request's body. Raises InvalidRequestError."""
    if not isinstance(body, dict):
        raise InvalidRequestError('the body is no JSON object; send {"approved": true}')
    problems = [FieldProblem(f"/{name}", "is not known here") for name in body if name not in _EXPECTED]
    for name, kind in _EXPECTED.items():
        value = body.get(name)
        if (value is None and name != "approved") or isinstance(value, kind):
            continue
        got = f", got {json_kind(value)}" if name in body else ""
        problems.append(FieldProblem(f"/{name}", f"expected {_NAMES[kind]}{got}"))
    if body.get("approved") is False and body.get("arguments") is not None:
        problems.append(FieldProblem("/arguments", "a call that is not approved runs with none"))
    if problems:
        raise InvalidRequestError("an approval cannot be answered like that", problems=problems)
    approved, arguments, reason = (body.get(name) for name in _EXPECTED)
    assert isinstance(arguments, dict | None)
    assert isinstance(reason, str | None)
    return InterruptAnswer("", "resolved", approved is True, arguments, reason, sent=SentAnswer(body, _MISFIT))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        Route("/approvals", on.approvals),
        Route("/approvals/{approval_id}", on.answer, methods=["POST"]),
    ]


PROTOCOL = WireProtocol("approvals", _routes, api=api_data("gateway.protocols", "approvals"))
